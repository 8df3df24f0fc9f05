"""Rows that a table cannot take: the error names what is wrong, and nothing is left of them."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ducklake_spark import ConstraintError, InvalidInputError
from ducklake_spark.format.duckdb_sql import Expression
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark

LIMITS = {"inlined": 1000, "files": 0}

BAD = {
    "int8": (200, "200"),
    "int16": (-(2**15) - 1, "-32769"),
    "int32": (2**31, "2147483648"),
    "int64": (2**63, "9223372036854775808"),
    "uint8": (-1, "-1"),
    "uint16": (2**16, "65536"),
    "uint32": (-5, "-5"),
    "uint64": (2**64, "18446744073709551616"),
    "int128": (10**38, "100000000000000000000000000000000000000"),
    "uint128": (-1, "-1"),
    "float32": (1e300, "1e+300"),
    "decimal(4,1)": (decimal.Decimal("1000"), "1000"),
    "decimal(38,0)": (10**38, "100000000000000000000000000000000000000"),
    "uuid": ("550e8400-zzzz", "550e8400-zzzz"),
    "json": ("{not json", "{not json"),
    "time": ("25:00:00", "25:00:00"),
    "timetz": ("noon", "noon"),
    "interval": ("3 parsecs", "3 parsecs"),
    "geometry": ("POINT(1", "POINT(1"),
    "int8[]": ([1, 200], "200"),
    "struct(a int8)": ({"a": 200}, "200"),
    "map(varchar, uuid)": ({"k": "no uuid"}, "no uuid"),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_bad_values_are_named(make_lake: Callable[..., WrittenLake], limit: str) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=LIMITS[limit])
    for place, (type_, (value, shown)) in enumerate(BAD.items()):
        table = lake.table(f"t{place}", {"n": "int32", "Bad": type_})
        version = lake.ours.version
        rows = [{"n": 1, "Bad": None}, {"n": 2, "Bad": value}]
        with pytest.raises(InvalidInputError, match=f'(?s)column "Bad" of table "t{place}"') as found:
            table.insert(rows)
        assert shown in str(found.value), type_
        assert "Nothing was written" in str(found.value)
        assert lake.ours.version == version, type_
    assert lake.files() == []


@pytest.mark.parametrize("limit", LIMITS)
def test_bad_values_of_dataframes_are_named(
    make_lake: Callable[..., WrittenLake], spark: SparkSession, limit: str
) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=LIMITS[limit])
    cases = {
        "int8": ("IF(id = 70, 200L, id)", "200"),
        "uuid": ("IF(id = 70, 'no uuid', uuid())", "no uuid"),
        "decimal(4,1)": ("IF(id = 70, 1000BD, 1BD)", "1000"),
        "int32[]": ("array(IF(id = 70, 3000000000L, id))", "3000000000"),
    }
    for place, (type_, (sql, shown)) in enumerate(cases.items()):
        table = lake.table(f"t{place}", {"x": type_, "y": "int64"})
        version = lake.ours.version
        with pytest.raises(InvalidInputError, match=f"t{place}") as found:
            table.insert(spark.range(100).selectExpr("id AS y", f"{sql} AS x"))
        assert '"x"' in str(found.value) or "x" in str(found.value)
        assert shown in str(found.value), type_
        assert lake.ours.version == version
    assert lake.files() == []


@pytest.mark.parametrize("limit", LIMITS)
def test_null_in_a_not_null_column(
    make_lake: Callable[..., WrittenLake], spark: SparkSession, limit: str
) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=LIMITS[limit])
    columns = {"a": "int", "l": "int[]", "s": "struct(x int)", "m": "map(int, int)"}
    good = {"a": 1, "l": [None], "s": {"x": None}, "m": {}}
    for name in columns:
        table = lake.table(f"t_{name}", columns, not_null=[name])
        table.insert([good])
        version = lake.ours.version
        left_out = {key: value for key, value in good.items() if key != name}
        for bad in ([good, good | {name: None}], [left_out], pa.Table.from_pylist([{"m": None}])):
            with pytest.raises(ConstraintError, match=f'column "{name}" of table "t_{name}"'):
                table.insert(bad)
        frame = spark.range(50).selectExpr("IF(id = 7, null, 1) a", "IF(id = 7, null, array(1)) l",
            "IF(id = 7, null, named_struct('x', 1)) s", "IF(id = 7, null, map(1, 1)) m")  # fmt: skip
        with pytest.raises(ConstraintError, match=f'column "{name}" of table "t_{name}"'):
            table.insert(frame)
        with pytest.raises(ConstraintError), lake.ours.transaction():
            table.insert([good])
            table.insert([good | {name: None}])
        assert lake.ours.version == version
    assert len(lake.files()) == (0 if limit == "inlined" else len(columns))
    assert lake.registered() == lake.files()


def test_a_failed_insert_in_a_transaction_leaves_the_others(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    table = lake.table("t", {"a": "int"}, not_null=["a"])
    with lake.ours.transaction():
        table.insert([{"a": 1}])
        with pytest.raises(ConstraintError):
            table.insert([{"a": None}])
        with pytest.raises(InvalidInputError):
            table.insert([{"a": 2**40, "new": 1}], merge_schema=True)
        table.insert([{"a": 2}])
    assert lake.ours.version == 2
    assert table.columns == ["a"]
    assert lake.ask("SELECT a FROM t ORDER BY a") == [(1,), (2,)]
    assert lake.files() == lake.registered()


WRONG = [
    ("int32", "'1'", "string"),
    ("boolean", "1", "int"),
    ("date", "'2020-01-01'", "string"),
    ("timestamp", "1L", "bigint"),
    ("blob", "'x'", "string"),
    ("int32[]", "1", "int"),
    ("struct(a int)", "named_struct('b', 1)", '"b"'),
    ("map(int, int)", "array(1)", "array<int>"),
    ("varchar", "array(1)", "array<int>"),
    ("variant", "1", "int"),
    ("uuid", "X'00'", "binary"),
    ("interval", "1", "int"),
    ("int32[]", "array('x')", "string"),
    ("struct(a struct(b date))", "named_struct('a', named_struct('b', 1))", "int"),
]


def test_wrong_types_are_refused(make_lake: Callable[..., WrittenLake], spark: SparkSession) -> None:
    lake = make_lake()
    for place, (type_, sql, named) in enumerate(WRONG):
        table = lake.table(f"t{place}", {"x": type_})
        version = lake.ours.version
        with pytest.raises(InvalidInputError, match=rf't{place}\.x"') as found:
            table.insert(spark.sql(f"SELECT {sql} x"))
        assert named in str(found.value)
        assert lake.ours.version == version


@pytest.mark.parametrize("limit", LIMITS)
def test_allowed_assignments(make_lake: Callable[..., WrittenLake], spark: SparkSession, limit: str) -> None:
    """As in an ANSI store assignment: numbers among each other, times among each other, anything plain to text."""
    lake = make_lake(data_inlining_row_limit=LIMITS[limit])
    cases = [
        ("int32", "1.9D", "1"),
        ("int32", "-1.9D", "-1"),
        ("int64", "12.99BD", "12"),
        ("decimal(5,1)", "1.25BD", "1.3"),
        ("decimal(5,1)", "2.5D", "2.5"),
        ("float64", "1", "1.0"),
        ("float32", "1BD", "1.0"),
        ("varchar", "1.50BD", "1.50"),
        ("varchar", "true", "true"),
        ("varchar", "date'2020-01-01'", "2020-01-01"),
        ("varchar", "1e10D", "1.0E10"),
        ("timestamp", "date'2020-01-01'", "2020-01-01 00:00:00"),
        ("date", "timestamp_ntz'2020-01-01 23:00:00'", "2020-01-01"),
        ("timestamptz", "timestamp_ntz'2020-01-01 23:00:00'", "2020-01-01 23:00:00+00"),
        ("json", "parse_json('{\"a\": 1}')", '{"a":1}'),
        ("varchar[]", "array(1, null)", "[1, NULL]"),
        ("int32", "null", None),
        ("struct(a int, b varchar)", "named_struct('B', 1)", "{'a': NULL, 'b': 1}"),
    ]
    table = lake.table("t", {f"c{i}": type_ for i, (type_, _, _) in enumerate(cases)})
    selected = ", ".join(f"{sql} c{i}" for i, (_, sql, _) in enumerate(cases))
    table.insert(spark.sql(f"SELECT {selected} FROM range(1)"))
    texts = lake.texts("t")
    for i, (type_, sql, expected) in enumerate(cases):
        assert texts[f"c{i}"] == [expected], f"{sql} as {type_}"


def test_columns_are_matched_by_name(make_lake: Callable[..., WrittenLake], spark: SparkSession) -> None:
    lake = make_lake()
    table = lake.table("t", {"a b": "int", "c.d": "int", "Name": "varchar"})
    frame = spark.sql("SELECT 'x' NAME, 2 `C.D`, 1 `a b`")
    assert table.insert(frame) == 1
    table.insert([{"NAME": "y", "a B": 3}, {"name": "z", "c.d": 4}])
    table.insert(pd.DataFrame({"nAME": ["p"], "c.d": [5]}))
    table.insert(frame.limit(0))
    assert lake.ask("SELECT * FROM t ORDER BY Name") == [
        (None, 5, "p"), (1, 2, "x"), (3, None, "y"), (None, 4, "z"),
    ]  # fmt: skip


def test_unknown_and_double_columns(make_lake: Callable[..., WrittenLake], spark: SparkSession) -> None:
    lake = make_lake()
    table = lake.table("t", {"customer": "int", "b": "int"})
    version = lake.ours.version
    unknown: list[Any] = [
        spark.sql("SELECT 1 custmer"), [{"custmer": 1}], pd.DataFrame({"custmer": [1]}), pa.table({"custmer": [1]}),
        spark.sql("SELECT 1 custmer").limit(0), pa.table({"custmer": pa.array([], pa.int32())}),
    ]  # fmt: skip
    for rows in unknown:
        with pytest.raises(InvalidInputError, match=r'no column "custmer"\. Did you mean "customer"'):
            table.insert(rows)
    double: list[Any] = [
        spark.sql("SELECT 1 b, 2 b"), spark.sql("SELECT 1 b, 2 B"), [{"b": 1, "B": 2}], pa.table([[1], [2]], names=["b", "B"]),
        pd.DataFrame([[1, 2]], columns=["b", "b"]),
    ]  # fmt: skip
    for rows in double:
        with pytest.raises(InvalidInputError, match="two columns named"):
            table.insert(rows)
    for rows, message in [
        (spark.range(1).drop("id"), "no columns"),
        ([(1,)], "A row has 1 values"),
        ([1], "not a row"),
        ("text", "Cannot insert str"),
        ({"b": 1}, "Cannot insert dict"),
        ([{"b": 1}, {"b": "x"}], "not of one type"),
        ([{1: 2}], "must be a text"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            table.insert(rows)
    assert lake.ours.version == version


@pytest.mark.parametrize("limit", LIMITS)
def test_no_rows_make_no_snapshot(
    make_lake: Callable[..., WrittenLake], spark: SparkSession, limit: str
) -> None:
    lake = make_lake(data_inlining_row_limit=LIMITS[limit])
    table = lake.table("t", {"a": "bigint", "l": "int[]"})
    version = lake.ours.version
    empty: list[Any] = [
        [], spark.range(0).toDF("a"), spark.range(100).where("id < 0").toDF("a"), pd.DataFrame({"a": []}, dtype="int64"),
        pa.table({"a": pa.array([], pa.int64())}),
    ]  # fmt: skip
    for rows in empty:
        assert table.insert(rows) == 0
    assert lake.ours.version == version
    assert lake.files() == []


@pytest.mark.parametrize("limit", LIMITS)
def test_defaults(make_lake: Callable[..., WrittenLake], spark: SparkSession, limit: str) -> None:
    lake = make_lake(data_inlining_row_limit=LIMITS[limit])
    defaults = {"lit": "it's", "num": 1.5, "day": dt.date(2020, 1, 1), "once": Expression("now()"), "each": Expression("uuid()"), "calc": Expression("1 + 2")}  # fmt: skip
    schema = {"n": "int", "lit": "varchar", "num": "decimal(5,2)", "day": "date", "once": "timestamptz", "each": "uuid", "calc": "int8", "no": "int"}  # fmt: skip
    table = lake.table("t", schema, defaults=defaults)
    table.insert(spark.range(20).selectExpr("int(id) n"))
    table.insert([{"n": 20}, {"n": 21, "lit": "own", "num": None}, {"n": 22, "no": 7}])
    row = lake.ask(
        "SELECT count(*), count(DISTINCT each), count(DISTINCT once), count(lit), count(num), min(day)::VARCHAR, sum(calc), sum(no), "
        "count(*) FILTER (lit = 'it''s') FROM t"
    )
    assert row == [(23, 23, 2, 23, 22, "2020-01-01", 69, 7, 22)]
    lake.check("t")


def test_rows_without_values_take_all_defaults(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake()
    table = lake.table("t", {"a": "int", "b": "varchar"}, defaults={"a": 5})
    assert table.insert([{}, {}]) == 2
    assert lake.ask("SELECT * FROM t") == [(5, None)] * 2


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("given", ["frame", "dicts", "arrow", "pandas"])
def test_merge_schema(
    make_lake: Callable[..., WrittenLake], spark: SparkSession, given: str, limit: str
) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=LIMITS[limit])
    table = lake.table(
        "t", {"a": "int", "s": "struct(x int)", "l": "struct(y int)[]", "m": "map(int, struct(z int))"}
    )
    table.insert([(1, {"x": 1}, [{"y": 1}], {1: {"z": 1}})])
    version = lake.ours.version
    row = {
        "a": 2,
        "s": {"x": 2, "x2": "new"},
        "l": [{"y": 2, "y2": 2.5}],
        "m": [(1, {"z": 2, "z2": True})],
        "b": dt.date(2020, 1, 1),
    }
    type_ = pa.schema(
        {
            "a": pa.int32(),
            "s": pa.struct({"x": pa.int32(), "x2": pa.string()}),
            "l": pa.list_(pa.struct({"y": pa.int32(), "y2": pa.float64()})),
            "m": pa.map_(pa.int32(), pa.struct({"z": pa.int32(), "z2": pa.bool_()})),
            "b": pa.date32(),
        }
    )
    arrow = pa.Table.from_pylist([row], type_)
    rows: Any = {
        "frame": lambda: spark.createDataFrame(arrow),
        "arrow": lambda: arrow,
        "dicts": lambda: [row],
        "pandas": lambda: pd.DataFrame(
            {name: pd.Series([value], dtype=object) for name, value in row.items()}
        ),
    }[given]()
    assert table.insert(rows, merge_schema=True) == 1
    assert lake.ours.version == version + 1
    assert table.types == {
        "a": "INTEGER",
        "s": 'STRUCT("x" INTEGER, "x2" VARCHAR)',
        "l": 'STRUCT("y" INTEGER, "y2" DOUBLE)[]',
        "m": 'MAP(INTEGER, STRUCT("z" INTEGER, "z2" BOOLEAN))',
        "b": "DATE",
    }
    assert lake.ask("SELECT * FROM t ORDER BY a") == [
        (1, {"x": 1, "x2": None}, [{"y": 1, "y2": None}], {1: {"z": 1, "z2": None}}, None),
        (2, {"x": 2, "x2": "new"}, [{"y": 2, "y2": 2.5}], {1: {"z": 2, "z2": True}}, dt.date(2020, 1, 1)),
    ]
    lake.check("t")
    with pytest.raises(InvalidInputError, match="all its values are NULL"):
        lake.ours["t"].insert([{"a": 1, "void": None}], merge_schema=True)


def test_strange_strings(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("postgres")
    table = lake.table("t", {"a": "varchar"})
    version = lake.ours.version
    with pytest.raises(InvalidInputError, match='column "a" of table "t"'):
        table.insert([{"a": "\ud800"}])
    assert lake.ours.version == version
