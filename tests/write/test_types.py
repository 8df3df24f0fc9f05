"""Every type of the format, written by us in every way, read by the extension and by Spark as it was."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from tests.scan.lakes import plain
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark

D = decimal.Decimal
BERLIN = dt.timezone(dt.timedelta(hours=2))
NASTY = [
    "",
    "a, b",
    "it's",
    '"',
    "\\",
    "NULL",
    "null",
    "[x]",
    "{'k': 1}",
    "k=v",
    " pad ",
    "🦆é",
    "\n\t",
    "#",
    "=",
    ":",
]


@dataclass(frozen=True)
class Case:
    """A type, Python values for it, and how DuckDB prints them."""

    type: str
    values: list[Any]
    texts: list[Any]


def whole(type_: str, low: int, high: int) -> Case:
    return Case(type_, [low, high, 0 if low else 1], [str(low), str(high), "0" if low else "1"])


CASES = {
    "bo": Case("boolean", [True, False], ["true", "false"]),
    "i1": whole("int8", -(2**7), 2**7 - 1),
    "i2": whole("int16", -(2**15), 2**15 - 1),
    "i4": whole("int32", -(2**31), 2**31 - 1),
    "i8": whole("int64", -(2**63), 2**63 - 1),
    "i16": whole("int128", 1 - 10**38, 10**38 - 1),
    "u1": whole("uint8", 0, 2**8 - 1),
    "u2": whole("uint16", 0, 2**16 - 1),
    "u4": whole("uint32", 0, 2**32 - 1),
    "u8": whole("uint64", 0, 2**64 - 1),
    "u16": whole("uint128", 0, 10**38 - 1),
    "f4": Case(
        "float32",
        [1.5, math.inf, -math.inf, math.nan, -0.0, 3.4028234663852886e38, 1.401298464324817e-45],
        ["1.5", "inf", "-inf", "nan", "-0.0", "3.4028235e+38", "1e-45"],
    ),
    "f8": Case(
        "float64",
        [0.1, math.inf, -math.inf, math.nan, -0.0, 1.7976931348623157e308, 5e-324],
        ["0.1", "inf", "-inf", "nan", "-0.0", "1.7976931348623157e+308", "5e-324"],
    ),
    "d4": Case("decimal(4,1)", [D("-999.9"), D("999.9"), D("1")], ["-999.9", "999.9", "1.0"]),
    "d9": Case("decimal(9,2)", [D("-9999999.99"), D("9999999.99")], ["-9999999.99", "9999999.99"]),
    "d18": Case("decimal(18,18)", [D("-0." + "9" * 18), D("0." + "9" * 18)], ["-." + "9" * 18, "." + "9" * 18]),
    "d38": Case(
        "decimal(38,10)",
        [D("-" + "9" * 28 + "." + "9" * 10), D("9" * 28 + "." + "9" * 10), D("0.0000000001")],
        ["-" + "9" * 28 + "." + "9" * 10, "9" * 28 + "." + "9" * 10, "0.0000000001"],
    ),
    "da": Case(
        "date", [dt.date.min, dt.date.max, dt.date(1582, 10, 10)], ["0001-01-01", "9999-12-31", "1582-10-10"]
    ),
    "ti": Case(
        "time",
        [dt.time.min, dt.time.max, "12:34:56.789", dt.time(1, 2, 3)],
        ["00:00:00", "23:59:59.999999", "12:34:56.789", "01:02:03"],
    ),
    "tt": Case("timetz", ["12:00:00+00", "23:59:59.5+00"], ["12:00:00+00", "23:59:59.5+00"]),
    "ts": Case(
        "timestamp",
        [dt.datetime.min, dt.datetime.max, dt.datetime(2020, 2, 29, 12, 30, 0, 500000)],
        ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2020-02-29 12:30:00.5"],
    ),
    "tss": Case("timestamp_s", [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)], ["0001-01-01 00:00:00", "9999-12-31 23:59:59"]),
    "tsm": Case("timestamp_ms", [dt.datetime(1, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 1000)], ["0001-01-01 00:00:00", "2020-01-01 00:00:00.001"]),
    "tsn": Case("timestamp_ns", [-8520336000000000000, 1, 2**63 - 2], ["1700-01-01 00:00:00", "1970-01-01 00:00:00.000000001", "2262-04-11 23:47:16.854775806"]),
    "tz": Case(
        "timestamptz",
        [dt.datetime(2020, 6, 1, 12, 0, tzinfo=BERLIN), dt.datetime(1900, 1, 1, tzinfo=dt.timezone.utc), dt.datetime(2020, 6, 1, 12, 0, 0, 1, tzinfo=dt.timezone.utc)],
        ["2020-06-01 10:00:00+00", "1900-01-01 00:00:00+00", "2020-06-01 12:00:00.000001+00"],
    ),
    "iv": Case(
        "interval",
        [{"months": 14, "days": 3, "micros": 4_005_000}, {"months": 0, "days": 0, "micros": 0}],
        ["1 year 2 months 3 days 00:00:04.005", "00:00:00"],
    ),
    "vc": Case("varchar", [*NASTY, "x" * 300, "é" * 200, "a\0b"], [*NASTY, "x" * 300, "é" * 200, "a\0b"]),
    "js": Case("json", ['{"a": [1, null, "🦆"]}', "null", '"x"', "1.50", " [ ] "], ['{"a": [1, null, "🦆"]}', "null", '"x"', "1.50", " [ ] "]),
    "bl": Case("blob", [b"", b"\x00\xff", b"plain", b"\xc3\x28", bytes(300)], ["", "\\x00\\xFF", "plain", "\\xC3(", "\\x00" * 300]),
    "uu": Case(
        "uuid",
        [uuid.UUID(int=0), "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "550e8400-e29b-41d4-a716-446655440000"],
        ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "550e8400-e29b-41d4-a716-446655440000"],
    ),
    "li": Case("int32[]", [[], [None], [1, None, -(2**31)]], ["[]", "[NULL]", "[1, NULL, -2147483648]"]),
    "st": Case("struct(a int32, b varchar)", [{"a": None, "b": None}, {"a": 1, "b": "x"}, {"b": "only"}], ["{'a': NULL, 'b': NULL}", "{'a': 1, 'b': x}", "{'a': NULL, 'b': only}"]),
    "ma": Case("map(varchar, int128)", [{}, {"k": None}, {"a": 10**37, "b": -1}], ["{}", "{k=NULL}", "{a=10000000000000000000000000000000000000, b=-1}"]),
}  # fmt: skip
"""Values that Python has; each is padded with NULLs to the longest."""

NESTED = {
    "ls": ("varchar[]", [NASTY, [], None, ["a", None]]),
    "lb": ("blob[]", [[b"", b"\x00\xff'\\,"], [None]]),
    "lt": ("timestamptz[]", [[dt.datetime(2020, 6, 1, 12, tzinfo=BERLIN)]]),
    "lu": ("uuid[]", [[uuid.UUID(int=7)]]),
    "lh": ("uint128[]", [[10**38 - 1, 0]]),
    "lm": ("map(int32, struct(x double[], y json))[]", [[{1: {"x": [0.5, None], "y": '{"q": [1]}'}, 2: None}, {}, None], []]),
    "sn": ("struct(a struct(b struct(c int64[][])))", [{"a": {"b": {"c": [[1], [], None]}}}, {"a": None}, {"a": {"b": None}}, None]),
    "ms": ("map(varchar, varchar)", [{text: text for text in NASTY}]),
    "md": ("map(date, decimal(10,2))", [{dt.date(2020, 1, 1): D("1.50")}]),
    "si": ("struct(i interval, t time, n timestamp_ns, b boolean, \"we ird\" varchar)", [{"i": {"months": 1, "days": 2, "micros": 3000}, "t": dt.time(1, 2, 3, 4), "n": 5, "b": True, "we ird": "{'x"}]),
}  # fmt: skip

KINDS = ["duckdb", "sqlite", "postgres", "mysql"]
LIMITS = {"inlined": 1000, "files": 0}


def longest(values: list[list[Any]]) -> int:
    return max(map(len, values))


def padded(values: list[Any], size: int) -> list[Any]:
    return values + [None] * (size - len(values))


def typed_rows() -> list[dict[str, Any]]:
    size = longest([case.values for case in CASES.values()]) + 1
    columns = {name: padded(case.values, size) for name, case in CASES.items()}
    return [{"n": i, **{name: values[i] for name, values in columns.items()}} for i in range(size)]


def as_rows(rows: list[dict[str, Any]]) -> list[Any]:
    return [Row(**row) for row in rows]


def as_tuples(rows: list[dict[str, Any]]) -> list[Any]:
    return [tuple(row.values()) for row in rows]


def as_pandas(rows: list[dict[str, Any]]) -> Any:
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in rows[0]})


SCHEMA = {"n": "int32", **{name: case.type for name, case in CASES.items()}}


@pytest.mark.parametrize(
    ("kind", "limit", "given"),
    [
        ("duckdb", "inlined", list),
        ("sqlite", "inlined", as_rows),
        ("postgres", "inlined", as_tuples),
        ("mysql", "inlined", list),
        ("duckdb", "files", list),
        ("sqlite", "files", as_tuples),
        ("postgres", "files", as_rows),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_python_values_of_every_type(
    make_lake: Callable[..., WrittenLake], kind: str, limit: str, given: Callable[..., Any]
) -> None:
    lake = make_lake(kind, data_inlining_row_limit=LIMITS[limit])
    rows = typed_rows()
    assert lake.table("t", SCHEMA).insert(given(rows)) == len(rows)
    assert_typed(lake, "t", ours_only=kind == "mysql")


def assert_typed(
    lake: WrittenLake, table: str, *, ours_only: bool = False, skip: frozenset[str] = frozenset()
) -> None:
    """The extension prints every value as expected, and Spark reads what it reads."""
    if ours_only:
        assert_spark_typed(lake, table)
        return
    texts = lake.texts(table, "n")
    for name, case in CASES.items():
        if name not in skip:
            assert texts[name] == padded(case.texts, len(texts["n"])), f"{name} {case.type}"
    lake.check(table)


def assert_spark_typed(lake: WrittenLake, table: str) -> None:
    """What Spark reads is what was given, for the types whose Python values come back as they are."""
    rows = sorted(lake.ours.table(table).collect(), key=lambda row: row["n"])
    for name, case in CASES.items():
        if name in ("ti", "tsn", "tz", "iv", "uu", "st", "tt"):
            continue
        expected = [plain(value) for value in padded(case.values, len(rows))]
        assert repr([plain(row[name]) for row in rows]) == repr(expected), name


@pytest.mark.parametrize("limit", LIMITS)
def test_pandas_objects_of_every_type(make_lake: Callable[..., WrittenLake], limit: str) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=LIMITS[limit])
    # NaN means no value in pandas.
    rows = [
        {k: None if isinstance(v, float) and v != v else v for k, v in row.items()} for row in typed_rows()
    ]
    lake.table("t", SCHEMA).insert(as_pandas(rows))
    assert_typed(lake, "t", skip=frozenset({"f4", "f8"}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", LIMITS)
def test_nested_values(make_lake: Callable[..., WrittenLake], kind: str, limit: str) -> None:
    if kind != "duckdb" and limit == "files":
        pytest.skip("files do not depend on the catalog")
    lake = make_lake(kind, data_inlining_row_limit=LIMITS[limit])
    size = longest([values for _, values in NESTED.values()]) + 1
    columns = {name: padded(values, size) for name, (_, values) in NESTED.items()}
    rows = [{"n": i, **{name: values[i] for name, values in columns.items()}} for i in range(size)]
    lake.table("t", {"n": "int32", **{name: type_ for name, (type_, _) in NESTED.items()}}).insert(rows)
    if kind != "mysql":
        assert lake.check("t", without=["si", "lt", "ms"]) == size
        assert lake.ask("SELECT si::VARCHAR, lt::VARCHAR FROM t ORDER BY n LIMIT 1") == [
            (
                "{'i': '1 month 2 days 00:00:00.003', 't': '01:02:03.000004', 'n': '1970-01-01 00:00:00.000000005', "
                "'b': true, 'we ird': '{\\'x'}",
                "['2020-06-01 10:00:00+00']",
            )
        ]
        assert lake.ask("SELECT ls, lb, sn FROM t ORDER BY n LIMIT 1") == [
            (NASTY, [b"", b"\x00\xff'\\,"], {"a": {"b": {"c": [[1], [], None]}}})
        ]
    first = min(lake.ours.table("t").collect(), key=lambda row: row["n"]).asDict(recursive=True)
    assert first["ls"] == NASTY
    assert first["ms"] == {text: text for text in NASTY}
    assert [bytes(value) for value in first["lb"]] == [b"", b"\x00\xff'\\,"]
    assert first["lh"] == [10**38 - 1, 0]
    assert first["lm"] == [{1: {"x": [0.5, None], "y": '{"q": [1]}'}, 2: None}, {}, None]
    assert first["sn"] == {"a": {"b": {"c": [[1], [], None]}}}


FRAME_ORDER = ["bo", "i1", "i2", "i4", "i8", "i16", "u1", "u2", "u4", "u8", "u16", "f4", "f8", "d4", "d38", "da", "ts", "tz", "vc", "bl", "ti", "js", "uu",
               "li", "st", "ma", "iv"]  # fmt: skip
FRAME = """
SELECT * FROM VALUES
 (1, true, -128Y, -32768S, -2147483648, -9223372036854775808L, -99999999999999999999999999999999999999BD, 255S, 65535, 4294967295L,
  18446744073709551615BD, 99999999999999999999999999999999999999BD, float('-0.0'), double('NaN'), -999.9BD, -9999999999999999999999999999.9999999999BD,
  date'-0044-03-15', timestamp_ntz'-0044-03-15 12:00:00', timestamp'2020-06-01 12:00:00+02:00', 'a\\0b', X'C328', '12:34:56.7', '{"a": 1}',
  '550e8400-e29b-41d4-a716-446655440000', array(1, null), named_struct('B', 'x', 'a', 1), map('k', 5BD), interval '1' day, interval '14' month,
  timestamp_ntz'2020-01-01 00:00:00.123456'),
 (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
  null, null, null, null, null),
 (3, false, 127Y, 32767S, 2147483647, 9223372036854775807L, 1BD, 0S, 0, 0L, 0BD, 0BD, float('-inf'), double('inf'), 999.9BD, 1BD,
  date'+99999-12-31', timestamp_ntz'+99999-12-31 23:59:59.999999', timestamp'0001-01-01 00:00:00+00:00', repeat('🦆', 100), X'', '00:00:00', 'null',
  'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF', array(), named_struct('B', null, 'a', null), map(), interval '0' second, interval '0' month,
  timestamp_ntz'1700-01-01 00:00:00')
 AS t(n, bo, i1, i2, i4, i8, i16, u1, u2, u4, u8, u16, f4, f8, d4, d38, da, ts, tz, vc, bl, ti, js, uu, li, st, ma, iv, im, tsn)
"""
FRAME_TYPES = {name: CASES[name].type for name in FRAME_ORDER} | {"im": "interval", "tsn": "timestamp_ns"}
FRAME_TEXTS = [
    ("true", "-128", "-32768", "-2147483648", "-9223372036854775808", "-" + "9" * 38, "255", "65535", "4294967295", "18446744073709551615", "9" * 38,
     "-0.0", "nan", "-999.9", "-9999999999999999999999999999.9999999999", "0045-03-15 (BC)", "0045-03-15 (BC) 12:00:00", "2020-06-01 10:00:00+00", "a\0b",
     "\\xC3(", "12:34:56.7", '{"a": 1}', "550e8400-e29b-41d4-a716-446655440000", "[1, NULL]", "{'a': 1, 'b': x}", "{k=5}", "24:00:00", "1 year 2 months",
     "2020-01-01 00:00:00.123456"),
    (None,) * 29,
    ("false", "127", "32767", "2147483647", "9223372036854775807", "1", "0", "0", "0", "0", "0", "-inf", "inf", "999.9", "1.0000000000", "99999-12-31",
     "99999-12-31 23:59:59.999999", "0001-01-01 00:00:00+00", "🦆" * 100, "", "00:00:00", "null", "ffffffff-ffff-ffff-ffff-ffffffffffff", "[]",
     "{'a': NULL, 'b': NULL}", "{}", "00:00:00", "00:00:00", "1700-01-01 00:00:00"),
]  # fmt: skip


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_dataframes_of_every_type(
    make_lake: Callable[..., WrittenLake], spark: SparkSession, kind: str, limit: str
) -> None:
    lake = make_lake(kind, data_inlining_row_limit=LIMITS[limit])
    table = lake.table("t", {"n": "int32", **FRAME_TYPES})
    assert table.insert(spark.sql(FRAME).repartition(3)) == 3
    texts = lake.texts("t", "n")
    for name, *expected in zip(FRAME_TYPES, *FRAME_TEXTS, strict=True):
        if name == "iv" and limit == "files" and not duckdb.__version__.startswith("1."):
            expected[0] = "1 day"  # DuckDB 2 writes whole days of hours as days
        assert texts[name] == expected, name
    wanted = ", ".join(f"CAST({name} AS VARCHAR)" for name in FRAME_TYPES if name not in ("da", "ts"))
    assert len(lake.ask(f"SELECT {wanted} FROM t")) == 3
    ours = (
        lake.ours.table("t")
        .selectExpr("n", "string(da)", "string(ts)", "i16", "u16", "tsn")
        .orderBy("n")
        .collect()
    )
    assert ours == [
        (1, "-0044-03-15", "-0044-03-15 12:00:00", 1 - 10**38, 10**38 - 1, 1577836800123456000),
        (2, None, None, None, None, None),
        (3, "+99999-12-31", "+99999-12-31 23:59:59.999999", 1, 0, -8520336000000000000),
    ]


def test_times_follow_the_zone_of_the_session(
    make_lake: Callable[..., WrittenLake], spark: SparkSession
) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    table = lake.table(
        "t",
        "a timestamp, b timestamptz, c date, d timestamp[], e struct(x timestamptz), f varchar, g map(int, date)",
    )
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        table.insert(
            spark.sql(
                "SELECT timestamp'2020-01-01 05:00:00+09:00' a, timestamp_ntz'2020-01-01 05:00:00' b, timestamp'2020-01-01 05:00:00+09:00' c, "
                "array(timestamp'2020-01-01 05:00:00+09:00') d, named_struct('x', date'2020-01-01') e, timestamp'2020-01-01 05:00:00+09:00' f, "
                "map(1, timestamp'2020-01-01 05:00:00+09:00') g"
            )
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert lake.texts("t") == {
        "a": ["2020-01-01 05:00:00"],
        "b": ["2019-12-31 20:00:00+00"],
        "c": ["2020-01-01"],
        "d": ["['2020-01-01 05:00:00']"],
        "e": ["{'x': '2019-12-31 15:00:00+00'}"],
        "f": ["2020-01-01 05:00:00"],
        "g": ["{1=2020-01-01}"],
    }


ARROW = {
    "date": (pa.array([2147483647, -2147483647, None, -719468, 3000000], pa.int32()).cast(pa.date32()), ["infinity", "-infinity", None, "0001-03-01 (BC)", "10183-09-21"]),
    "timestamp": (
        pa.array([2**63 - 1, 1 - 2**63, None, -(2**62), 2**62], pa.int64()).cast(pa.timestamp("us")),
        ["infinity", "-infinity", None, "144170-06-28 (BC) 09:59:32.612096", "148108-07-06 14:00:27.387904"],
    ),
    "uint64": (pa.array([2**64 - 1, 0, None, 1, 2], pa.uint64()), ["18446744073709551615", "0", None, "1", "2"]),
    "float32": (pa.array([1.5, math.nan, None, -0.0, 2], pa.float16()), ["1.5", "nan", None, "-0.0", "2.0"]),
    "varchar": (pa.array(["a", "", None, "a", "b"]).dictionary_encode(), ["a", "", None, "a", "b"]),
    "blob": (pa.array([b"ab", b"cd", None, b"\0\xff", b"  "], pa.binary(2)), ["ab", "cd", None, "\\x00\\xFF", "  "]),
    "timestamp_ns": (pa.array([1, -1, None, 0, 10**18], pa.timestamp("ns")), ["1970-01-01 00:00:00.000000001", "1969-12-31 23:59:59.999999999", None, "1970-01-01 00:00:00", "2001-09-09 01:46:40"]),
    "time": (pa.array([0, 1, None, 86399999999, 10**6], pa.time64("us")), ["00:00:00", "00:00:00.000001", None, "23:59:59.999999", "00:00:01"]),
    "interval": (pa.array([(1, 2, 3_000_000), (0, 0, 0), None, (12, 0, 0), (0, 1, 0)], pa.month_day_nano_interval()), ["1 month 2 days 00:00:00.003", "00:00:00", None, "1 year", "1 day"]),
    "decimal(38,2)": (pa.array([D("1.50"), D("-" + "9" * 36 + ".99"), None, D(0), D(1)], pa.decimal128(38, 2)), ["1.50", "-" + "9" * 36 + ".99", None, "0.00", "1.00"]),
    "int32[]": (pa.array([[1], [], None, [None], [2, 3]], pa.large_list(pa.int32())), ["[1]", "[]", None, "[NULL]", "[2, 3]"]),
}  # fmt: skip


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_arrow_values(make_lake: Callable[..., WrittenLake], kind: str, limit: str) -> None:
    lake = make_lake(kind, data_inlining_row_limit=LIMITS[limit])
    schema = {f"c{i}": type_ for i, type_ in enumerate(ARROW)}
    arrow = pa.table([pa.array(range(5)), *(array for array, _ in ARROW.values())], names=["n", *schema])
    assert lake.table("t", {"n": "int32", **schema}).insert(arrow) == 5
    texts = lake.texts("t", "n")
    for name, (type_, (_, expected)) in zip(schema, ARROW.items(), strict=True):
        assert texts[name] == expected, type_
    lake.ours.table("t").drop("c0", "c1").collect()


def test_pandas_columns(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake()
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None], dtype="Int32"),
            "f": [1.5, math.nan],
            "t": pd.to_datetime(["2020-01-01 00:00:00.123456789", None]),
            "z": pd.to_datetime(["2020-01-01", None]).tz_localize("Europe/Berlin"),
            "s": pd.array(["x", None], dtype="string"),
            "c": pd.Categorical(["a", None]),
            "b": [True, False],
        },
        index=[7, 8],
    )
    table = lake.table("t", "i int, f double, t timestamp, z timestamptz, s varchar, c varchar, b boolean")
    assert table.insert(frame) == 2
    micros = "123456" if duckdb.__version__.startswith("1.") else "123457"  # DuckDB 2 rounds nanoseconds
    assert lake.texts("t", "i NULLS LAST") == {
        "i": ["1", None],
        "f": ["1.5", None],
        "t": [f"2020-01-01 00:00:00.{micros}", None],
        "z": ["2019-12-31 23:00:00+00", None],
        "s": ["x", None],
        "c": ["a", None],
        "b": ["true", "false"],
    }
