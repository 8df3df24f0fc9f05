"""Every type of the format, alone and nested, from files and from inlined rows, as the extension reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import VariantVal

from tests.scan.lakes import Lake, in_order

pytestmark = pytest.mark.spark
MakeLake = Callable[..., Lake]
STORED = [
    pytest.param("duckdb", False, id="files"),  # which are the same whatever the catalog is
    *(pytest.param(kind, True, id=f"inlined-{kind}") for kind in ("duckdb", "sqlite", "postgres")),
]

VALUES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "127"],
    "SMALLINT": ["-32768", "32767"],
    "INTEGER": ["-2147483648", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "HUGEINT": ["-9007199254740992", "1180591620717411303424"],
    "UTINYINT": ["0", "255"],
    "USMALLINT": ["0", "65535"],
    "UINTEGER": ["0", "4294967295"],
    "UBIGINT": ["0", "18446744073709551615"],
    "UHUGEINT": ["0", "36893488147419103232"],
    "FLOAT": ["'inf'", "'-inf'", "'nan'", "3.4e38", "-0.0", "1.1"],
    "DOUBLE": ["'inf'", "'-inf'", "'nan'", "1e-300", "-0.0", "0.1"],
    "DECIMAL(4,1)": ["-999.9", "0.1"],
    "DECIMAL(9,2)": ["-1234567.89", "0"],
    "DECIMAL(18,3)": ["123456789012345.678"],
    "DECIMAL(38,10)": ["1234567890123456789012345678.0123456789"],
    "DATE": ["'1582-10-04'", "'0001-01-01'", "'9999-12-31'", "'1970-01-01'"],
    "TIME": ["'00:00:00'", "'23:59:59.999999'", "'12:34:56.5'"],
    "TIMETZ": ["'12:34:56.789+02'", "'00:00:00+00'"],
    "TIMESTAMP": ["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1500-06-01 01:02:03.5'"],
    "TIMESTAMP_S": ["'1900-01-01 00:00:01'", "'2262-01-01 00:00:00'"],
    "TIMESTAMP_MS": ["'1900-01-01 00:00:01.001'", "'2262-01-01 00:00:00.999'"],
    "TIMESTAMP_NS": ["'1900-01-01 00:00:00.123456789'", "'2024-01-01 00:00:00.000000001'"],
    "TIMESTAMPTZ": [
        "'0001-01-02 00:00:00+00'",
        "'9999-12-30 23:59:59.999999+00'",
        "'2020-06-01 12:00:00+07'",
    ],
    "INTERVAL": ["INTERVAL '1 year 2 months 3 days 4 hours 5.5 seconds'", "INTERVAL '0 days'"],
    "VARCHAR": ["''", "'é 😀 ''quoted'' \\ back'", "'NULL'", "' [a, b] {c: 1} '"],
    "JSON": ["'{\"a\": [1, null]}'", "'null'"],
    "BLOB": ["'\\x00\\xFF\\x80'", "''"],
    "UUID": ["'550e8400-e29b-41d4-a716-446655440000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
}
WITHOUT_MAP_KEY = {"FLOAT", "DOUBLE", "INTERVAL", "JSON", "BLOB", "TIMETZ", "TIMESTAMP_NS"}
NOT_COMPARED_NESTED = {"INTERVAL", "TIMETZ", "TIMESTAMP_NS"}
"""Inside of containers the extension's Python values lose digits or offsets."""

READABLE_NESTED = {"BOOLEAN", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(9,2)", "VARCHAR"}


def literal(type_: str, value: str) -> str:
    return f"CAST({value} AS {type_})"


@pytest.mark.parametrize(("kind", "inlined"), STORED)
def test_scalars(make_lake: MakeLake, kind: str, inlined: bool) -> None:
    lake = make_lake(kind, data_inlining_row_limit=100 if inlined else 0)
    columns = [f"c{i} {type_}" for i, type_ in enumerate(VALUES)]
    rows = max(len(values) for values in VALUES.values())
    inserted = [
        ", ".join(literal(type_, values[n % len(values)]) for type_, values in VALUES.items())
        for n in range(rows)
    ]
    lake.write(
        f"CREATE TABLE t({', '.join(columns)})",
        *(f"INSERT INTO t VALUES ({row})" for row in inserted),
        f"INSERT INTO t VALUES ({', '.join(['NULL'] * len(VALUES))})",
    )
    assert lake.check("t") > 0


@pytest.mark.parametrize(("kind", "inlined"), STORED)
def test_nested(make_lake: MakeLake, kind: str, inlined: bool) -> None:
    lake = make_lake(kind, data_inlining_row_limit=100 if inlined else 0)
    columns: list[str] = []
    values: list[str] = []
    for i, (type_, texts) in enumerate(VALUES.items()):
        if type_ in NOT_COMPARED_NESTED:
            continue
        if inlined and kind != "duckdb" and type_ not in READABLE_NESTED:
            # The extension inlines other types inside of containers as a text that it cannot read itself.
            continue
        first, last = literal(type_, texts[0]), literal(type_, texts[-1])
        columns += [f"l{i} {type_}[]", f"s{i} STRUCT(a {type_}, b {type_}[])"]
        values += [f"[{first}, NULL, {last}]", f"{{'a': {first}, 'b': [{last}, NULL]}}"]
        if type_ not in WITHOUT_MAP_KEY:
            columns.append(f"m{i} MAP({type_}, STRUCT(x {type_}))")
            values.append(f"MAP {{{first}: {{'x': {last}}}}}")
    empty = [
        "[]" if c.endswith("[]") else "MAP {}" if " MAP(" in c else "{'a': NULL, 'b': []}" for c in columns
    ]
    lake.write(
        f"CREATE TABLE t({', '.join(columns)})",
        f"INSERT INTO t VALUES ({', '.join(values)})",
        f"INSERT INTO t VALUES ({', '.join(empty)})",
        f"INSERT INTO t VALUES ({', '.join(['NULL'] * len(columns))})",
    )
    assert lake.check("t") > 0


def test_variants_inside_of_other_types(make_lake: MakeLake) -> None:
    """No data file can hold them, and no other database than DuckDB: so they are in its catalogs only."""
    lake = make_lake()
    lake.write(
        'CREATE TABLE t(k INTEGER, l VARIANT[], s STRUCT(a VARIANT, "b.c" INTEGER), m MAP(VARCHAR, VARIANT[]))',
        "INSERT INTO t VALUES (1, [1::VARIANT, 2::VARIANT], {'a': 1.5::VARIANT, 'b.c': 2}, MAP {'k': [8::VARIANT]})",
        "INSERT INTO t VALUES (2, ['x y'::VARIANT, 'it''s, [so]'::VARIANT], {'a': 'z'::VARIANT, 'b.c': NULL}, MAP {})",
        "INSERT INTO t VALUES (3, NULL, NULL, NULL), (4, [NULL], {'a': NULL, 'b.c': 1}, MAP {'k': NULL})",
    )

    def plain(value: Any) -> Any:
        if isinstance(value, VariantVal):
            return value.toPython()
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, Row):
            return plain(value.asDict())
        return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value

    theirs = lake.ask("SELECT * FROM t ORDER BY k")
    ours = [tuple(map(plain, row)) for row in lake.read("t").orderBy("k").collect()]
    assert ours == theirs
    assert ours[0][1] == [1, 2] and ours[1][1] == ["x y", "it's, [so]"]


def test_variant_and_geometry(make_lake: MakeLake) -> None:
    lake = make_lake()
    if lake.spark.version.startswith("4.0."):
        lake.write("CREATE TABLE t(v VARIANT)", "INSERT INTO t SELECT i::VARIANT FROM range(100) r(i)")
        with pytest.raises(Exception, match='column "v" of type variant'):
            lake.read("t")
        return
    lake.write(
        "CREATE TABLE t(v VARIANT)",
        "INSERT INTO t VALUES (42::VARIANT), ({'a': 1, 'b': 'x'}::VARIANT), (NULL)",
        "INSERT INTO t SELECT i::VARIANT FROM range(100) r(i)",
        "CREATE TABLE g(g GEOMETRY)",
        "INSERT INTO g VALUES ('POINT(1 2)'::GEOMETRY), (NULL)",
    )
    assert lake.check("t") > 100
    assert [
        tuple(row) for row in lake.read("t", 2).selectExpr("count(v)", "count_if(v IS NULL)").collect()
    ] == [(2, 1)]
    frame = lake.read("g")
    made = frame.selectExpr("hex(st_asbinary(g)) AS g") if "geometry" in frame.schema.simpleString() else None
    made = made if made is not None else frame.selectExpr("hex(g) AS g")
    assert {row.g for row in made.collect()} == {"0101000000000000000000F03F0000000000000040", None}


@pytest.mark.parametrize("inlined", [False, True], ids=["files", "inlined"])
def test_values_beyond_python(make_lake: MakeLake, inlined: bool) -> None:
    lake = make_lake(data_inlining_row_limit=100 if inlined else 0)
    lake.write(
        "CREATE TABLE t(i INTEGER, d DATE, t TIMESTAMP, z TIMESTAMPTZ)",
        """INSERT INTO t VALUES
            (1, '0044-03-15 (BC)', '0044-03-15 (BC) 01:02:03', '0044-03-15 (BC) 01:02:03+00'),
            (2, '290000-01-01', '290000-01-01 00:00:00.123456', '290000-01-01 00:00:00.123456+00'),
            (3, 'infinity', 'infinity', 'infinity'), (4, '-infinity', '-infinity', '-infinity')""",
    )
    frame = lake.read("t").selectExpr("i", "unix_date(d)", "cast(t as string)", "unix_micros(z)").orderBy("i")
    top = 2**63 - 1
    assert [tuple(row) for row in frame.collect()] == [
        (1, -735160, "-0043-03-15 01:02:03", -63517820277000000),
        (2, 105200797, "+290000-01-01 00:00:00.123456", 9089348860800123456),
        (3, 2147483647, "+294247-01-10 04:00:54.775807", top),
        (4, -2147483647, "-290308-12-21 19:59:05.224193", -top),
    ]


@pytest.mark.parametrize("inlined", [False, True], ids=["files", "inlined"])
def test_milliseconds_without_end(make_lake: MakeLake, inlined: bool) -> None:
    """Spark's own reader overflows on them; also after the columns became finer, and where only lists have them."""
    lake = make_lake(data_inlining_row_limit=100 if inlined else 0)
    values = "(1, '2020-01-01 00:00:00.5', {v}, {v}, [{v}, NULL])"
    lake.write(
        "CREATE TABLE t(i INTEGER, f TIMESTAMP_MS, m TIMESTAMP_MS, n TIMESTAMP_MS, l TIMESTAMP_MS[])",
        "INSERT INTO t VALUES " + values.format(v="'infinity'"),
        "INSERT INTO t VALUES " + values.format(v="'-infinity'"),
        "INSERT INTO t VALUES " + values.format(v="'1960-01-01 00:00:00.123'"),
        "ALTER TABLE t ALTER m TYPE TIMESTAMP",
        "ALTER TABLE t ALTER n TYPE TIMESTAMP_NS",
        "INSERT INTO t VALUES " + values.format(v="'infinity'"),
        "INSERT INTO t VALUES " + values.format(v="'1961-01-01 00:00:00.123'"),
    )
    frame = lake.read("t").selectExpr("cast(m AS string)", "n", "cast(l[0] AS string)", "cast(f AS string)")
    first, last = "-290308-12-21 19:59:05.224193", "+294247-01-10 04:00:54.775807"
    assert sorted(map(tuple, frame.collect()), key=lambda row: row[1]) == [
        (first, -(2**63) + 1, first, "2020-01-01 00:00:00.5"),
        *(
            (f"196{i}-01-01 00:00:00.123", n, f"196{i}-01-01 00:00:00.123", "2020-01-01 00:00:00.5")
            for i, n in ((0, -315619199877000000), (1, -283996799877000000))
        ),
        *[(last, 2**63 - 1, last, "2020-01-01 00:00:00.5")] * 2,
    ]


def test_timestamp_ns_as_micros(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=1)
    lake.write(
        "CREATE TABLE t(a TIMESTAMP_NS)",
        "INSERT INTO t VALUES ('1960-01-01 00:00:00.123456789'), ('2024-01-01 00:00:00.123456789')",
        "INSERT INTO t VALUES ('2024-01-02 00:00:00.000001999')",
    )
    rows = lake.read("t", timestamp_ns="micros").selectExpr("cast(a as string)").collect()
    assert sorted(row[0] for row in rows) == [
        "1960-01-01 00:00:00.123456",
        "2024-01-01 00:00:00.123456",
        "2024-01-02 00:00:00.000001",
    ]


def test_times_as_time(make_lake: MakeLake) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    if not hasattr(types, "TimeType"):
        pytest.skip("this Spark has no TIME")
    lake = make_lake(data_inlining_row_limit=1)
    lake.write(
        "CREATE TABLE t(a TIME, l TIMETZ[])",
        "INSERT INTO t VALUES ('12:34:56.5', ['01:00:00+02', NULL]), (NULL, NULL)",
        "INSERT INTO t VALUES ('12:34:57', ['01:00:00+02', NULL])",
    )
    lake.spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        frame = lake.read("t")
        assert frame.schema.simpleString() == "struct<a:time(6),l:array<time(6)>>"
        found = in_order(frame.collect())
    finally:
        lake.spark.conf.unset("spark.sql.timeType.enabled")
    assert found == in_order(
        [("12:34:56.5", ["23:00:00", None]), ("12:34:57", ["23:00:00", None]), (None, None)]
    )


def test_the_row_based_reader_gives_the_same(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(a INTEGER, u UUID, s STRUCT(x HUGEINT), d DATE)",
        "INSERT INTO t VALUES (1, '550e8400-e29b-41d4-a716-446655440000', {'x': 5}, '0001-01-01')",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE t ALTER b SET TYPE BIGINT",
    )
    lake.spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        lake.check("t")
    finally:
        lake.spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
