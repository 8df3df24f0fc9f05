"""The statistics of every type, beside those that the extension writes for the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal

import ducklake_spark
from tests.interop import catalogs
from tests.interop.oracle import Oracle
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark

# By type: DuckDB's literals for two inserts, each to its own file.
TYPES = {
    "BOOLEAN": (["true", "NULL", "false"], ["true"]),
    "TINYINT": (["-128", "NULL"], ["127"]),
    "SMALLINT": (["-32768"], ["32767", "NULL"]),
    "INTEGER": (["9", "10", "NULL"], ["-5"]),
    "BIGINT": (["NULL", "NULL"], ["-9223372036854775808", "9223372036854775807"]),
    "UTINYINT": (["255"], ["0"]),
    "USMALLINT": (["65535"], ["0"]),
    "UINTEGER": (["4294967295"], ["0"]),
    "UBIGINT": (["18446744073709551615"], ["9"]),
    "FLOAT": (["1.5", "'nan'", "'inf'", "-0.0"], ["'-inf'", "1e20", "NULL"]),
    "DOUBLE": (["'nan'", "'nan'"], ["-1e-7", "123456789.0"]),
    "DECIMAL(4,1)": (["-999.9"], ["999.9", "NULL"]),
    "DECIMAL(18,3)": (["9.5", "10.25"], ["NULL"]),
    "DECIMAL(38,10)": (["-9999999999999999999999999999.9999999999"], ["1"]),
    "DATE": (["'0044-03-15 (BC)'", "'infinity'"], ["'2024-02-29'", "'99999-12-31'"]),
    "TIME": (["'12:34:56.789'"], ["'00:00:00'", "'23:59:59.999999'", "NULL"]),
    "TIMESTAMP": (["'2024-01-15 12:30:00.123456'", "'0044-03-15 (BC) 00:00:00'"], ["'infinity'", "'2024-01-15 12:30:00.5'"]),
    "TIMESTAMP_S": (["'2024-01-15 12:30:00'"], ["'1900-01-01'", "NULL"]),
    "TIMESTAMP_MS": (["'2024-01-15 12:30:00.123'"], ["'1900-01-01'"]),
    "TIMESTAMP_NS": (["'2024-01-15 12:30:00.123456789'"], ["'1900-01-01'"]),
    "TIMESTAMPTZ": (["'2020-06-01 12:00:00-04'"], ["'2024-01-15 10:30:00.5+00'", "NULL"]),
    "VARCHAR": (["''", "repeat('z', 300)", "'🦆'"], ["'it''s'", "NULL"]),
    "BLOB": (["'\\x00\\xFFab'", "repeat('z', 300)::BLOB"], ["''", "NULL"]),
    "UUID": (["'550e8400-e29b-41d4-a716-446655440000'"], ["'00000000-0000-0000-0000-000000000000'", "NULL"]),
    "JSON": (["'{\"a\": 1}'"], ["'[1]'", "NULL"]),
    "INTEGER[]": (["[1, NULL, 3]", "NULL", "[]"], ["[-7]"]),
    "STRUCT(a INTEGER, b STRUCT(c VARCHAR[]))": (["{'a': 1, 'b': {'c': ['x', NULL]}}", "NULL"], ["{'a': NULL, 'b': NULL}"]),
    "MAP(VARCHAR, DOUBLE)": (["MAP {'k': 1.5, 'z': NULL}", "NULL"], ["MAP {'a': 'nan'::DOUBLE}", "MAP {}"]),
}  # fmt: skip
FILE_STATS = (
    "table_id",
    "column_id",
    "value_count",
    "null_count",
    "min_value",
    "max_value",
    "contains_nan",
    "extra_stats",
)
TABLE_STATS = (
    "table_id",
    "column_id",
    "contains_null",
    "contains_nan",
    "min_value",
    "max_value",
    "extra_stats",
)


def select(type_: str, values: list[str]) -> str:
    return (
        "SELECT * FROM ("
        + " UNION ALL ".join(f"SELECT CAST({value} AS {type_}) AS v" for value in values)
        + ")"
    )


def arrow(sql: str) -> Any:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(sql).to_arrow_table()


def rows(catalog: catalogs.Catalog, table: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    def plain(name: str, value: Any) -> Any:
        return None if value is None else bool(value) if name in catalogs.BOOLEANS else value

    return sorted((tuple(plain(name, row[name]) for name in columns) for row in catalog[table]), key=repr)


@pytest.mark.parametrize("limit", [0, 10], ids=["files", "inlined"])
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_statistics_equal_the_extensions(
    oracle: Oracle, spark: SparkSession, tmp_path: Path, kind: str, limit: int
) -> None:
    theirs, ours = (f"ducklake:{kind}:{tmp_path / name}" for name in ("theirs", "ours"))
    data = str(tmp_path / "data")
    oracle.attach(theirs, data_path=data, data_inlining_row_limit=limit)
    for place, (type_, inserts) in enumerate(TYPES.items()):
        oracle.execute(f"CREATE TABLE t{place}(v {type_})")
        for values in inserts:
            oracle.execute(f"INSERT INTO t{place} {select(type_, values)}")
    oracle.detach()
    with ducklake_spark.attach(
        ours, name="lake", data_path=data, spark=spark, data_inlining_row_limit=limit
    ) as lake:
        for place, (type_, inserts) in enumerate(TYPES.items()):
            table = lake.create_table(f"t{place}", {"v": type_})
            for values in inserts:
                # JSON travels as text.
                table.insert(arrow(select(type_.replace("JSON", "VARCHAR"), values)))
    left, right = catalogs.dump(theirs), catalogs.dump(ours)
    for name, columns in (
        ("ducklake_file_column_stats", FILE_STATS),
        ("ducklake_table_column_stats", TABLE_STATS),
        ("ducklake_table_stats", ("table_id", "record_count", "next_row_id")),
    ):
        expected = rows(left, name, columns)
        if name == "ducklake_table_column_stats" and not limit:
            # A number, then NaN: its next insert would take that for no values at all. We have no such row.
            expected = [row for row in expected if row[1:] != (3, True, True, None, None, None)]
        assert rows(right, name, columns) == expected, name


def test_statistics_that_are_better_than_the_extensions(make_lake: Callable[..., WrittenLake]) -> None:
    """The extension says that these columns hold no values and no NULLs, or gives up digits and bounds."""
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    table = lake.table("t", "a interval, b timetz, c int128, d uint128, e int128[], f varchar")
    table.insert(
        [
            (None, "12:00:00+02", 10**37, 1, [7], "x\0y"),
            ("1 day", None, -5, None, None, "a"),
            (None, None, 3, 2, [], "b"),
        ]
    )
    stats = {
        row[0]: row[1:]
        for row in lake.rows(
            "ducklake_file_column_stats", "column_id", "value_count", "null_count", "min_value", "max_value"
        )
    }
    assert stats == {
        1: (1, 2, None, None),
        2: (1, 2, None, None),
        3: (3, 0, "-5", str(10**37)),
        4: (2, 1, "1", "2"),
        6: (1, 2, "7", "7"),
        7: (3, 0, "a", None),  # a text with a NUL byte cannot be kept by every database
    }
    nulls = dict(lake.rows("ducklake_table_column_stats", "column_id", "contains_null"))
    assert nulls == {1: 1, 2: 1, 3: 0, 4: 1, 6: 1, 7: 0}
    # And the extension finds every row with them.
    for condition, count in [
        ("a IS NULL", 2), ("a = INTERVAL 1 DAY", 1), ("b IS NULL", 2), ("c > 10::HUGEINT ** 36", 1), ("c < 0", 1), ("c = 3", 1), ("d = 2", 1),
        ("d IS NULL", 1), ("f > 'w'", 1), ("c = 10000000000000000000000000000000000000", 1),
    ]:  # fmt: skip
        assert lake.ask(f"SELECT count(*) FROM t WHERE {condition}") == [(count,)], condition
    for condition, count in [
        ("c < 0", 1),
        ("c = 3", 1),
        ("c > 4", 1),
        ("d = 2", 1),
        ("d IS NULL", 1),
        ("a IS NULL", 2),
        ("f > 'w'", 1),
    ]:
        assert lake.ours.table("t").where(condition).count() == count, condition


# JSON texts: what Spark and DuckDB both make of them is the same variant.
VARIANTS: list[list[list[str | None]]] = [
    [["42", "99", None], ["7"]],
    [['{"a": 1, "b": [1, 2], "d.e\\"f": "x"}'], ['{"a": 5}']],
    [['{"a": 1}', '"x"'], ["1"]],
    [['{"a": null}', '{"a": 1.5, "c": true}'], ['{"a": 2.5}']],
    [['"a"', json.dumps("z" * 300)], ['"b"']],
    [["[]", "[1]"], ["[2, 3]"]],
    [['[{"a": 1}, {"a": 2, "b": "x"}]'], ['{"z": {"y": 2, "x": [3]}}']],
    [["null", None], ["true"]],
]


def variant(text: str | None) -> VariantVal | None:
    return None if text is None else VariantVal.parseJson(text)


def as_theirs(text: str | None) -> str:
    """The value as Spark makes it: whole numbers as small as can be, others as decimals."""
    return "NULL" if text is None else "variant_bytes_to_variant('{}'::BLOB)".format(
        "".join(f"\\x{byte:02X}" for byte in (lambda v: v.metadata + v.value)(VariantVal.parseJson(text)))
    )  # fmt: skip


def normal(extra: str | None) -> Any:
    """Extra statistics of a variant without the order of the fields, which is a hash table's in the extension."""
    return None if extra is None else sorted(json.loads(extra), key=lambda part: part["field_name"])


def test_variants_and_their_statistics(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    theirs, ours = (f"ducklake:sqlite:{tmp_path / name}" for name in ("theirs", "ours"))
    data = str(tmp_path / "data")
    oracle.attach(theirs, data_path=data)
    for place, inserts in enumerate(VARIANTS):
        oracle.execute(f"CREATE TABLE t{place}(n INTEGER, v VARIANT)")
        for texts in inserts:
            values = " UNION ALL ".join(f"SELECT {i}, {as_theirs(text)}" for i, text in enumerate(texts))
            oracle.execute(f"INSERT INTO t{place} {values}")
    expected = [
        oracle.execute(f"SELECT n, v::JSON, v IS NULL FROM t{place} ORDER BY ALL")
        for place in range(len(VARIANTS))
    ]
    oracle.detach()
    with ducklake_spark.attach(ours, name="lake", data_path=data, spark=spark) as lake:
        for place, inserts in enumerate(VARIANTS):
            table = lake.create_table(f"t{place}", {"n": "int", "v": "variant"})
            for texts in inserts:
                if place % 2:
                    table.insert([(i, variant(text)) for i, text in enumerate(texts)])
                else:
                    frame = spark.createDataFrame(
                        [(i, text) for i, text in enumerate(texts)], "n int, t string"
                    )
                    table.insert(frame.selectExpr("n", "parse_json(t) v").coalesce(1))
            read = (
                lake.table(f"t{place}")
                .selectExpr("n", "to_json(v)", "v IS NULL OR is_variant_null(v)")
                .collect()
            )
            wanted = [
                (i, text is None or text == "null") for texts in inserts for i, text in enumerate(texts)
            ]
            assert sorted((row[0], row[2]) for row in read) == sorted(wanted)
    oracle.attach(ours, data_path=data)
    assert [
        oracle.execute(f"SELECT n, v::JSON, v IS NULL FROM t{place} ORDER BY ALL")
        for place in range(len(VARIANTS))
    ] == expected
    oracle.detach()
    left, right = catalogs.dump(theirs), catalogs.dump(ours)
    names = (
        "table_id",
        "variant_path",
        "shredded_type",
        "value_count",
        "null_count",
        "min_value",
        "max_value",
        "contains_nan",
    )
    assert rows(right, "ducklake_file_variant_stats", names) == rows(
        left, "ducklake_file_variant_stats", names
    )
    for table in ("ducklake_file_column_stats", "ducklake_table_column_stats"):
        first, second = (
            [(row["table_id"], normal(row["extra_stats"])) for row in catalog[table] if row["column_id"] == 2]
            for catalog in (left, right)
        )
        assert sorted(second, key=repr) == sorted(first, key=repr), table
    # Better: the extension counts no NULL in a variant.
    nulls = {
        row["table_id"]: bool(row["contains_null"])
        for row in right["ducklake_table_column_stats"]
        if row["column_id"] == 2
    }
    assert nulls == {
        place + 1: any(text in (None, "null") for texts in inserts for text in texts)
        for place, inserts in enumerate(VARIANTS)
    }


def test_kinds_of_values_in_variants(make_lake: Callable[..., WrittenLake], spark: SparkSession) -> None:
    """Dates, times, decimals and bytes are not texts in a variant."""
    for kind in ("duckdb", "sqlite"):
        lake = make_lake(kind)
        table = lake.table("t", {"n": "int", "v": "variant"})
        frame = spark.sql(
            "SELECT 1 n, date'2020-01-01'::variant v UNION ALL SELECT 2, timestamp'2020-01-01 00:00:00+00:00'::variant UNION ALL "
            "SELECT 3, 1.50BD::variant UNION ALL SELECT 4, X'00FF'::variant UNION ALL SELECT 5, 1Y::variant UNION ALL "
            "SELECT 6, timestamp_ntz'2020-01-01 00:00:00'::variant UNION ALL SELECT 7, float(1.5)::variant"
        )
        table.insert(frame)
        assert [row[0].split("(")[0] for row in lake.ask("SELECT variant_typeof(v) FROM t ORDER BY n")] == [
            "DATE", "TIMESTAMP_MICROS_TZ", "DECIMAL", "BLOB", "INT8", "TIMESTAMP_MICROS", "FLOAT",
        ]  # fmt: skip
        if kind == "sqlite":
            types = lake.ours.table("t").selectExpr("n", "schema_of_variant(v) s").orderBy("n").collect()
            assert [row["s"] for row in types] == [
                "DATE",
                "TIMESTAMP",
                "DECIMAL(2,1)",
                "BINARY",
                "BIGINT",
                "TIMESTAMP_NTZ",
                "FLOAT",
            ]
        lake.close()


def test_keys_of_variants_that_differ_by_case_only(make_lake: Callable[..., WrittenLake]) -> None:
    """DuckDB's Parquet writer loses one of them when it shreds."""
    lake = make_lake("sqlite")
    lake.table("t", {"n": "int", "v": "variant"}).insert(
        [(1, {"A": 1}), (2, {"a": 2}), (3, {"x": {"Key": 1, "key": 2}}), (4, "text")]
    )
    assert lake.ask("SELECT v::JSON FROM t ORDER BY n") == [
        ('{"A":1}',),
        ('{"a":2}',),
        ('{"x":{"Key":1,"key":2}}',),
        ('"text"',),
    ]
    ours = lake.ours.table("t").selectExpr("n", "to_json(v)").orderBy("n").collect()
    assert [row[1] for row in ours] == ['{"A":1}', '{"a":2}', '{"x":{"Key":1,"key":2}}', '"text"']


def test_geometries_and_their_statistics(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    inserts = [
        ["NULL"],
        ["POINT (1 2)", "NULL"],
        ["POINT EMPTY"],
        ["LINESTRING Z (1 2 3, 4 5 6)", "POLYGON ((0 0, 0 -4.25, 1 1, 0 0))"],
        ["POINT ZM (1 2 3 4)", "MULTIPOINT (0.1 0.2, 1e10 1)"],
    ]
    theirs, ours = (f"ducklake:sqlite:{tmp_path / name}" for name in ("theirs", "ours"))
    data = str(tmp_path / "data")
    oracle.attach(theirs, data_path=data)
    oracle.execute("CREATE TABLE t(g GEOMETRY, s STRUCT(g GEOMETRY, n INTEGER), l GEOMETRY[])")
    for texts in inserts:
        values = ["NULL::GEOMETRY" if text == "NULL" else f"'{text}'::GEOMETRY" for text in texts]
        oracle.execute(
            "INSERT INTO t " + " UNION ALL ".join(f"SELECT {v}, {{'g': {v}, 'n': 1}}, [{v}]" for v in values)
        )
    wanted = "SELECT ST_AsText(g), ST_AsText(s.g), ST_AsText(l[1]) FROM t ORDER BY ALL"
    expected = oracle.execute(wanted)
    oracle.detach()
    with duckdb.connect() as connection:
        wkb = {
            text: connection.execute("SELECT ST_AsWKB(CAST(? AS GEOMETRY))", [text]).fetchall()[0][0]
            for texts in inserts
            for text in texts
            if text != "NULL"
        }
    with ducklake_spark.attach(ours, name="lake", data_path=data, spark=spark) as lake:
        table = lake.create_table("t", "g geometry, s struct(g geometry, n int), l geometry[]")
        for place, texts in enumerate(inserts):
            values = [None if text == "NULL" else text if place % 2 else wkb[text] for text in texts]
            given = [{"g": value, "s": {"g": value, "n": 1}, "l": [value]} for value in values]
            if place == 3:
                kind = "string" if place % 2 else "binary"
                table.insert(
                    spark.createDataFrame(
                        given, f"g {kind}, s struct<g: {kind}, n: int>, l array<{kind}>"
                    ).coalesce(1)
                )
            else:
                table.insert(given)
        assert lake.table("t").where("g IS NOT NULL").count() == 6
    oracle.attach(ours, data_path=data)
    assert oracle.execute(wanted) == expected
    oracle.detach()
    left, right = catalogs.dump(theirs), catalogs.dump(ours)
    for name, columns in (
        ("ducklake_file_column_stats", FILE_STATS),
        ("ducklake_table_column_stats", TABLE_STATS),
    ):
        assert rows(right, name, columns) == rows(left, name, columns), name


def test_bounds_hold_for_all_rows_that_ever_were(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    """DuckDB computes with a table's bounds: where they do not hold, it returns other values than are stored."""
    uri, data = f"ducklake:{tmp_path}/m.ducklake", str(tmp_path / "data")
    with ducklake_spark.attach(uri, name="lake", data_path=data, spark=spark) as lake:
        gone = lake.create_table("gone", {"a": "int"})
        gone.insert([{"a": a} for a in range(20)])
        with lake.transaction():  # rows that never were
            gone.insert([{"a": 700}])
            gone.delete("a >= 0")
        gone.insert([{"a": 300}])
        added = lake.create_table("added", {"a": "int"})
        added.insert([{"a": 1}])
        added.add_column("b", "int")
        added.insert([{"a": 2, "b": 2}])
        added.insert([{"a": 3, "b": 500}])
        back = lake.create_table("back", {"a": "int"})
        back.insert([{"a": a} for a in range(20)])
        back.add_column("b", "int", default=7)
        back.insert([{"a": 99, "b": 300}])
        version = lake.version
        back.delete()
        back.restore(version=version)
        back.insert([{"a": 100, "b": 600}])
    oracle.attach(uri, data_path=data)
    assert oracle.execute("FROM gone AT (VERSION => 2) ORDER BY ALL") == [(a,) for a in range(20)]
    assert oracle.execute("FROM gone ORDER BY ALL") == [(300,)]
    assert oracle.execute("SELECT b, a FROM added ORDER BY ALL") == [(2, 2), (500, 3), (None, 1)]
    assert oracle.execute("SELECT b, count(*) FROM back GROUP BY ALL ORDER BY ALL") == [
        (7, 20),
        (300, 1),
        (600, 1),
    ]


def test_bounds_that_were_lost_do_not_come_back_too_narrow(
    oracle: Oracle, spark: SparkSession, tmp_path: Path
) -> None:
    """A row of statistics without bounds may mean that there are no values, or that nothing is known."""
    uri, data = f"ducklake:{tmp_path}/m.ducklake", str(tmp_path / "data")
    with ducklake_spark.attach(
        uri, name="lake", data_path=data, spark=spark, data_inlining_row_limit=0
    ) as lake:
        table = lake.create_table("t", {"d": "double", "s": "varchar", "l": "int[]"})
        for row in [
            (1.0, "x\0y", None),
            (float("nan"), None, [1, None]),
            (None, "b", []),
            (100.0, "c", [50, 60]),
            (200.0, "d", [70]),
        ]:
            table.insert([row])
    oracle.attach(uri, data_path=data)
    for condition, count in [("d < 50", 1), ("d <= 100", 2), ("s > 'w'", 1), ("s < 'c'", 1), ("l[1] = 1", 1)]:
        assert oracle.execute(f"SELECT count(*) FROM t WHERE {condition}") == [(count,)], condition
    assert oracle.execute("SELECT min(d), max(l[1]), min(l[1]) FROM t WHERE d < 1000") == [(1.0, 70, 50)]
    assert oracle.execute("SELECT sum(u) FROM (SELECT unnest(l) AS u FROM t)") == [(181,)]
