"""`format("ducklake")` in batches: what Spark's readers and writers do with tables of a lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ducklake_spark
from ducklake_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotADuckLakeError,
    NotFoundError,
    SnapshotNotFoundError,
    TransactionError,
)
from tests.interop.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

    from ducklake_spark import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"ducklake:sqlite:{tmp_path}/lake.sqlite"


@pytest.fixture
def lake(spark: SparkSession, uri: str, tmp_path: Path) -> Iterator[Lake]:
    with ducklake_spark.attach(uri, spark=spark, data_path=tmp_path / "data", name="lake") as lake:
        lake.create_table("t", {"id": "bigint", "v": "varchar"})
        lake["t"].insert([(1, "a"), (2, "b")])  # snapshot 2
        lake["t"].insert(spark.range(10, 30).selectExpr("id", "'file' AS v"))  # snapshot 3
        yield lake


def read(lake: Lake, name: str = "lake.t", **options: Any) -> list[tuple[Any, ...]]:
    frame = lake.spark.read.format("ducklake").options(**options).load(name)
    return sorted(map(tuple, frame.collect()), key=repr)


def rows(lake: Lake, *values: tuple[int, str]) -> DataFrame:
    return lake.spark.createDataFrame(list(values), "id BIGINT, v STRING")


def writer(frame: DataFrame, mode: str, **options: Any) -> DataFrameWriter:
    return frame.write.format("ducklake").mode(mode).options(**options)


# Reads.


@pytest.mark.parametrize("named", ["by path", "by name", "by option"])
def test_table_is_read(lake: Lake, uri: str, named: str) -> None:
    reader = lake.spark.read.format("ducklake")
    if named == "by path":
        frame = reader.option("table", "main.t").load(uri)
    elif named == "by name":
        frame = reader.load("lake.main.t")
    else:
        frame = reader.option("table", "lake.t").load()
    assert frame.schema == lake.table("t").schema
    assert frame.count() == 22


def test_read_takes_the_plan_of_the_lake(lake: Lake) -> None:
    lake["t"].insert(lake.spark.range(100, 120).selectExpr("id", "'file' AS v"))
    frame = lake.spark.read.format("ducklake").load("lake.t").where("id >= 100").select("id")
    assert lake.explain(frame) == "lake.main.t at snapshot 4: 1 of 2 files"
    joined = frame.alias("a").join(frame.alias("b"), "id").where("a.id > 105")
    assert joined.count() == 14


def test_read_is_known_in_sql(lake: Lake) -> None:
    lake.spark.read.format("ducklake").load("lake.t").createOrReplaceTempView("of_lake")
    assert lake.spark.sql("SELECT max(id), count(*) FROM of_lake WHERE v = 'file'").collect() == [(29, 20)]


@pytest.mark.parametrize("other", ["newSession", "without the rule"])
def test_read_in_another_session(lake: Lake, other: str) -> None:
    frame = lake.spark.newSession().read.format("ducklake").load("lake.t")
    if other == "newSession":
        assert frame.where("id < 12").count() == 4
    else:
        frame.sparkSession.conf.set("spark.sql.optimizer.excludedRules", "ducklake.FormatRule")
        assert sorted(map(tuple, frame.where("id < 2").collect())) == [(1, "a")]


def test_versions_and_times(lake: Lake) -> None:
    assert read(lake, versionAsOf=2) == [(1, "a"), (2, "b")]
    times = [row["snapshot_time"] for row in lake.snapshots().collect()]
    assert read(lake, timestampAsOf=times[2].strftime("%Y-%m-%d %H:%M:%S.%f")) == [(1, "a"), (2, "b")]
    with pytest.raises(SnapshotNotFoundError, match="version 99"):
        read(lake, versionAsOf=99)


def test_change_feed_is_read(lake: Lake) -> None:
    lake["t"].delete("id = 1")
    assert read(lake, readChangeFeed="true", startingVersion=4) == [(4, 0, "delete", 1, "a")]
    feed = read(lake, readChangeFeed="true", startingVersion=0, endingVersion=2)
    assert [row[2:] for row in feed] == [("insert", 1, "a"), ("insert", 2, "b")]


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("lake.t", {"versionAsOf": "x"}, InvalidInputError, "whole number"),
        ("lake.t", {"versionAsOf": 1, "timestampAsOf": "2026-01-01"}, InvalidInputError, "not both"),
        ("lake.t", {"startingVersion": 1}, InvalidInputError, "readChangeFeed"),
        ("lake.t", {"readChangeFeed": "true"}, InvalidInputError, "needs startingVersion"),
        ("lake.t", {"readChangeFeed": "true", "versionAsOf": 1}, InvalidInputError, "does not go with"),
        ("lake.t", {"versionAs0f": 1}, InvalidInputError, 'Did you mean "versionAsOf"'),
        ("lake.t", {"data_path": "x"}, InvalidInputError, "attached already"),
        ("lake.u", {}, NotFoundError, '"u"'),
        ("nolake.t", {}, NotFoundError, "not a table of a lake that is attached"),
        ("ducklake:sqlite:/nowhere/x.sqlite", {}, InvalidInputError, 'needs option "table"'),
    ],
)
def test_mistakes_of_reads_are_named(
    lake: Lake, name: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read(lake, name, **options)


def test_reading_creates_no_lake(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NotADuckLakeError):
        read(lake, f"ducklake:sqlite:{tmp_path}/other.sqlite", table="t", data_path=f"{tmp_path}/other")


# Writes.


def test_append_and_overwrite(lake: Lake, oracle: Oracle, uri: str) -> None:
    writer(rows(lake, (3, "c")), "append").save("lake.t")
    assert len(read(lake)) == 23
    writer(rows(lake, (4, "d"), (5, "e")), "overwrite").save("lake.t")
    assert read(lake) == [(4, "d"), (5, "e")]
    oracle.attach(uri)
    assert oracle.execute("FROM t ORDER BY id") == [(4, "d"), (5, "e")]


@pytest.mark.parametrize("mode", ["append", "overwrite", "errorifexists", "ignore"])
def test_missing_table_is_created(lake: Lake, uri: str, mode: str) -> None:
    writer(rows(lake, (1, "a")), mode, table="main.new").partitionBy("v").save(uri)
    assert read(lake, "lake.new") == [(1, "a")]
    assert lake["new"].partitioned_by == ["v"]


def test_existing_table_is_an_error_or_ignored(lake: Lake) -> None:
    with pytest.raises(AlreadyExistsError, match="exists already"):
        writer(rows(lake, (9, "z")), "errorifexists").save("lake.t")
    writer(rows(lake, (9, "z")), "ignore").save("lake.t")
    assert lake.version == 3


def test_created_table_has_the_keys_that_were_given(lake: Lake) -> None:
    frame = lake.spark.createDataFrame([(1, "a")], "id INT, `odd name` STRING")
    writer(frame, "append").partitionBy("odd name").save("lake.apart")
    writer(frame, "append").clusterBy("id").save("lake.near")
    assert lake["apart"].partitioned_by == ['"odd name"']
    assert [key.split()[0] for key in lake["near"].sorted_by] == ["id"]


def test_overwrite_of_a_condition(lake: Lake) -> None:
    writer(rows(lake, (10, "new")), "overwrite", replaceWhere="id >= 10").save("lake.t")
    assert read(lake) == [(1, "a"), (10, "new"), (2, "b")]


def test_overwrite_of_partitions(lake: Lake) -> None:
    writer(rows(lake, (1, "a"), (2, "b")), "append").partitionBy("v").save("lake.p")
    writer(rows(lake, (3, "b")), "overwrite", partitionOverwriteMode="dynamic").save("lake.p")
    assert read(lake, "lake.p") == [(1, "a"), (3, "b")]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_merge_schema_adds_columns(lake: Lake, mode: str) -> None:
    more = rows(lake, (50, "m")).selectExpr("*", "7 AS w")
    with pytest.raises(InvalidInputError, match='"w"'):
        writer(more, mode).save("lake.t")
    writer(more, mode, mergeSchema="true").save("lake.t")
    assert lake["t"].columns == ["id", "v", "w"]
    assert (50, "m", 7) in read(lake)


def test_overwrite_schema_replaces_the_table(lake: Lake) -> None:
    writer(rows(lake, (1, "x")).selectExpr("v AS only"), "overwrite", overwriteSchema="true").save("lake.t")
    assert read(lake) == [("x",)]


def test_numbered_writes_are_made_once(lake: Lake) -> None:
    for _ in range(2):
        writer(rows(lake, (70, "n")), "append", txnAppId="job", txnVersion=4).save("lake.t")
    writer(rows(lake, (71, "n")), "append", txnAppId="job", txnVersion=3).save("lake.t")
    writer(rows(lake, (72, "n")), "append", txnAppId="job", txnVersion=5).save("lake.t")
    assert [row[0] for row in read(lake) if row[0] >= 70] == [70, 72]


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("append", {"replaceWhere": "id = 1"}, 'belongs to mode "overwrite"'),
        ("overwrite", {"replaceWhere": "id = 1", "partitionOverwriteMode": "dynamic"}, "not both"),
        ("overwrite", {"partitionOverwriteMode": "some"}, "static or dynamic"),
        ("append", {"overwriteSchema": "true"}, "overwriteSchema"),
        ("append", {"txnAppId": "x"}, "together"),
        ("append", {"mergeschem": "true"}, "Did you mean"),
    ],
)
def test_mistakes_of_writes_are_named(lake: Lake, mode: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        writer(rows(lake, (1, "a")), mode, **options).save("lake.t")
    assert lake.version == 3


def test_reads_and_writes_are_parts_of_the_transaction(lake: Lake, uri: str) -> None:
    before = lake.version
    with lake.transaction():
        writer(rows(lake, (3, "in")), "append").save("lake.t")
        lake.sql("DELETE FROM t WHERE id = 1")
        assert [row for row in read(lake) if row[0] < 10] == [(2, "b"), (3, "in")]
        assert lake.version == before
    assert lake.version == before + 1
    with pytest.raises(ZeroDivisionError), lake.transaction():
        writer(rows(lake, (4, "out")), "overwrite").save("lake.t")
        _ = 1 / 0
    assert lake.version == before + 1
    aside = ducklake_spark.attach(uri, spark=lake.spark, name="aside", catalog=False)
    with aside.transaction(), pytest.raises(TransactionError, match="cannot tell whose statements"):
        writer(rows(lake, (5, "out")), "append").save("aside.t")
    aside.close()


def test_write_can_create_a_lake(lake: Lake, tmp_path: Path) -> None:
    other = f"ducklake:sqlite:{tmp_path}/other.sqlite"
    writer(rows(lake, (1, "a")), "append", table="t", data_path=f"{tmp_path}/other").save(other)
    assert read(lake, other, table="t") == [(1, "a")]


def test_lake_named_by_its_path_takes_no_name(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    path = f"ducklake:sqlite:{tmp_path}/far/lake.sqlite"  # attach() would call it lake
    writer(rows(lake, (7, "g")), "append", table="unseen", data_path=f"{tmp_path}/far/files").save(path)
    assert read(lake, path, table="unseen") == [(7, "g")]
    assert ducklake_spark.lakes()["lake"] is lake
    shown = lake.sql("SHOW ALL TABLES", dialect="duckdb").collect()
    assert "unseen" not in {row["name"] for row in shown}
