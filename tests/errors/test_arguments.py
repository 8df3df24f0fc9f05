"""What `create_table` and `merge` take for rows, and what a merge that was never run says."""

from __future__ import annotations

import datetime
import decimal
import gc
import uuid
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

import ducklake_spark
from ducklake_spark import InvalidInputError, Lake
from tests.interop.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUES: dict[str, Any] = {
    "i": 1,
    "f": 1.5,
    "s": "x",
    "b": True,
    "d": datetime.date(2024, 1, 2),
    "t": datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
    "z": datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.timezone.utc),
    "c": datetime.time(1, 2, 3),
    "n": decimal.Decimal("1.25"),
    "y": b"ab",
    "u": uuid.UUID(int=5),
    "h": 2**70,
    "l": [1, 2],
    "o": {"x": 1, "y": "z"},
}
TYPES = {
    "i": "BIGINT",
    "f": "DOUBLE",
    "s": "VARCHAR",
    "b": "BOOLEAN",
    "d": "DATE",
    "t": "TIMESTAMP",
    "z": "TIMESTAMP WITH TIME ZONE",
    "c": "TIME",
    "n": "DECIMAL(3,2)",
    "y": "BLOB",
    "u": "UUID",
    "h": "HUGEINT",
    "l": "BIGINT[]",
    "o": 'STRUCT("x" BIGINT, "y" VARCHAR)',
}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Any) -> Iterator[Lake]:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/lake.ducklake", name="lake", spark=spark) as lake:
        yield lake


def test_a_table_for_dicts_has_the_types_of_its_values(lake: Lake, oracle: Oracle, tmp_path: Any) -> None:
    lake.set_option("data_inlining_row_limit", 0)
    table = lake.create_table("t", [{**VALUES}, {"i": None, "extra": "only here"}])
    assert table.types == {**TYPES, "extra": "VARCHAR"}
    assert lake.version == 1
    lake.close()
    oracle.attach(f"ducklake:{tmp_path}/lake.ducklake", "lake")
    assert oracle.execute(
        "SELECT count(*), count(i), sum(h), max(u::VARCHAR), max(extra), max(o.y), max(t)::VARCHAR FROM t"
    ) == [(2, 1, 2**70, str(uuid.UUID(int=5)), "only here", "z", "2024-01-02 03:04:05.000006")]


def test_a_table_for_pandas_arrow_readers_and_generators(lake: Lake) -> None:
    moment = pd.Timestamp("2024-01-02 03:04:05.000006")
    frame = pd.DataFrame(
        {"a": [1, 2], "s": ["x", None], "t": [moment, moment], "n": [moment + pd.Timedelta(1, "ns")] * 2}
    )
    assert lake.create_table("pandas", frame).types == {
        "a": "BIGINT",
        "s": "VARCHAR",
        "t": "TIMESTAMP",
        "n": "TIMESTAMP_NS",
    }
    arrow = pa.table(
        {
            "a": pa.array([1, 2], pa.uint16()),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
        }
    )
    kinds = {"a": "USMALLINT", "m": "MAP(VARCHAR, TINYINT)"}
    assert lake.create_table("arrow", arrow).types == kinds
    assert lake.create_table("reader", arrow.to_reader()).types == kinds
    assert lake.create_table("batch", arrow.to_batches()[0]).types == kinds
    lake.create_table("generator", ({"a": i} for i in range(3)))
    counts = {name: lake.table(name).count() for name in ("pandas", "arrow", "reader", "batch", "generator")}
    assert counts == {"pandas": 2, "arrow": 2, "reader": 2, "batch": 2, "generator": 3}
    assert lake["arrow"].insert(arrow.to_reader()) == 2


def test_a_schema_is_still_a_schema(lake: Lake) -> None:
    assert lake.create_table("a", [("a", "int"), ("b", "varchar")]).columns == ["a", "b"]
    assert lake.create_table("b", (("a", "int"),)).columns == ["a"]
    assert lake.create_table("b", [{"c": 1}], if_not_exists=True).columns == ["a"]
    assert lake.table("b").count() == 0


def test_a_source_of_a_merge_is_whatever_insert_takes(lake: Lake, spark: SparkSession) -> None:
    when = datetime.datetime(2024, 1, 2, 3, 4, 5)
    table = lake.create_table("t", {"a": "int", "b": "varchar", "at": "timestamptz"})
    lake.create_table("other", {"a": "int", "b": "varchar", "at": "timestamptz"}).insert([(5, "table", when)])
    table.insert([(1, "old", when)])
    sources: list[Any] = [
        [{"a": 1, "b": "dicts", "at": when}],
        pd.DataFrame({"a": [2], "b": ["pandas"], "at": [when]}),
        pa.table({"a": [3], "b": ["arrow"], "at": [when]}),
        [(4, "tuples", when)],
        "other",
        lake["other"],
        spark.createDataFrame([(6, "frame")], "a int, b string"),
    ]
    done = [
        table.merge(source, "source.a = target.a")
        .when_matched()
        .update_all()
        .when_not_matched()
        .insert_all()
        .execute()
        for source in sources
    ]
    assert [(each.inserted, each.updated) for each in done] == [
        (0, 1),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (0, 1),
        (1, 0),
    ]
    rows = sorted(map(tuple, lake.table("t").select("a", "b").collect()))
    assert rows == [(1, "dicts"), (2, "pandas"), (3, "arrow"), (4, "tuples"), (5, "table"), (6, "frame")]
    assert lake.table("t").where("at = timestamp'2024-01-02 03:04:05+00:00'").count() == 5


def test_a_merge_that_is_never_run_says_so(lake: Lake) -> None:
    table = lake.create_table("t", {"a": "int"})
    merge: Any = table.merge([{"a": 1}], "source.a = target.a").when_not_matched().insert_all()
    assert repr(merge) == "MergeBuilder(into main.t: when not matched insert; not run yet: call execute())"
    with pytest.warns(
        UserWarning, match=r'The merge into table "t" was described, but never run: .*\.execute\(\)'
    ):
        del merge
        gc.collect()
    merge = table.merge([{"a": 1}], "source.a = target.a").when_not_matched().insert_all()
    assert merge.execute().inserted == 1 and repr(merge).endswith("was run)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del merge
        gc.collect()
        with pytest.raises(InvalidInputError, match="The condition of a clause"):
            table.merge([{"a": 1}], "source.a = target.a").when_matched(5)  # type: ignore[arg-type]
        lake.sql("MERGE INTO t USING t AS s ON s.a = t.a WHEN MATCHED THEN DO NOTHING", "duckdb")
        gc.collect()


def test_an_ambiguous_merge_shows_the_row_that_is_there(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", [{"k": 7, "v": "there"}])
    source = spark.createDataFrame([(7, "one"), (7, "two")], "k long, v string")
    with pytest.raises(ducklake_spark.AmbiguousMergeError, match=r"one row of the target \(k = 7\)"):
        table.merge(source, "source.k = target.k").when_matched().update(
            {"k": "99", "v": "source.v"}
        ).execute()
    with pytest.raises(
        ducklake_spark.AmbiguousMergeError, match=r"one row of the target \(k = 7, v = 'there'\)"
    ):
        table.merge(source, "source.k >= target.k").when_matched().update(
            {"k": "99", "v": "source.v"}
        ).execute()
