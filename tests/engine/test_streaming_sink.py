"""A table as the sink of a stream: a batch is committed once, by whatever process, on every kind of catalog."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ducklake_spark
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.engine.streaming.sink import SinkOptions, TableSink
from ducklake_spark.errors import InvalidInputError, ReadOnlyError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ducklake_spark import Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, location: str, tmp_path: Path) -> Iterator[Lake]:
    with ducklake_spark.attach(location, spark=spark, data_path=tmp_path / "data") as lake:
        lake.create_table("t", {"id": "bigint", "v": "varchar"})
        yield lake


def rows(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(i, "v") for i in ids], "id BIGINT, v STRING")


def ids(lake: Lake) -> list[int]:
    return sorted(row[0] for row in lake.table("t").collect())


def test_batch_that_comes_again_changes_nothing(lake: Lake) -> None:
    sink = TableSink(scope_of(lake), "t", SinkOptions())
    assert sink.add("q", 0, rows(lake.spark, 1))
    assert not sink.add("q", 0, rows(lake.spark, 1))
    assert sink.add("q", 1, rows(lake.spark, 2))
    assert not sink.add("q", 0, rows(lake.spark, 3))
    assert sink.add("another", 0, rows(lake.spark, 4))
    assert ids(lake) == [1, 2, 4]
    assert lake.version == 4


def test_batch_of_two_writers_is_committed_once(lake: Lake, location: str, tmp_path: Path) -> None:
    both = threading.Barrier(2)
    done: list[bool] = []
    written = TableSink._write

    class Slow(TableSink):
        """Writes when the other one has begun, so that both know the same snapshot."""

        def _write(self, *args: object) -> None:  # type: ignore[override]  # handed on
            both.wait(60)
            written(self, *args)  # type: ignore[arg-type]

    with ducklake_spark.attach(location, spark=lake.spark, data_path=tmp_path / "data") as other:
        sinks = [Slow(scope_of(each), "t", SinkOptions()) for each in (lake, other)]
        threads = [
            threading.Thread(target=lambda sink=sink: done.append(sink.add("q", 7, rows(lake.spark, 1))))
            for sink in sinks
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(done) == [False, True]
    assert ids(lake) == [1]


def test_table_that_requires_messages_takes_batches(lake: Lake) -> None:
    lake.set_option("require_commit_message", True)
    assert TableSink(scope_of(lake), "t", SinkOptions()).add("q", 0, rows(lake.spark, 1))


def test_empty_batch_makes_no_snapshot(lake: Lake) -> None:
    TableSink(scope_of(lake), "t", SinkOptions()).add("q", 0, rows(lake.spark).where("false"))
    assert lake.version == 1


@pytest.mark.parametrize("location", ["sqlite"], indirect=False)
def test_keys_must_be_columns(spark: SparkSession, tmp_path: Path, location: str) -> None:
    uri = f"ducklake:{location}:{tmp_path}/lake"
    with ducklake_spark.attach(uri, spark=spark, data_path=tmp_path / "data") as lake:
        lake.create_table("t", {"id": "bigint", "v": "varchar"})
        sink = TableSink(scope_of(lake), "t", SinkOptions("update", ("key",)))
        with pytest.raises(InvalidInputError, match='mergeKeys names "key", which the stream has not'):
            sink.add("q", 0, rows(spark, 1))


@pytest.mark.parametrize("location", ["sqlite"], indirect=False)
def test_lake_that_is_read_only_is_no_sink(spark: SparkSession, tmp_path: Path, location: str) -> None:
    uri = f"ducklake:{location}:{tmp_path}/lake"
    ducklake_spark.attach(uri, spark=spark, data_path=tmp_path / "data").close()
    with (
        ducklake_spark.attach(uri, spark=spark, read_only=True) as lake,
        pytest.raises(ReadOnlyError, match="read-only"),
    ):
        TableSink(scope_of(lake), "t", SinkOptions())
