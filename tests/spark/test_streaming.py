"""Streams that read lakes and write lakes, as users start them: exactly once, whatever fails in between."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ducklake_spark
from ducklake_spark.engine.streaming.sink import TableSink
from ducklake_spark.engine.streaming.source import TableStream
from ducklake_spark.errors import InvalidInputError, SchemaChangedError, StreamingError, unwrap
from tests.interop.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from ducklake_spark import Lake

pytestmark = pytest.mark.spark


class Streams:
    """A lake with a table `src` that a stream copies to `dst`, with one checkpoint."""

    def __init__(self, lake: Lake, checkpoint: Path) -> None:
        self.lake, self.spark, self.checkpoint = lake, lake.spark, checkpoint
        self.next_id = 0

    def append(self, count: int) -> None:
        first, self.next_id = self.next_id, self.next_id + count
        rows = self.spark.range(first, self.next_id, numPartitions=1)
        self.lake["src"].insert(rows.selectExpr("id", "concat('v', id) AS v"))

    def source(self, **options: Any) -> DataFrame:
        return self.spark.readStream.format("ducklake").options(**options).load("lake.src")

    def start(self, frame: DataFrame | None = None, mode: str = "append", **options: Any) -> StreamingQuery:
        frame = self.source(maxFilesPerTrigger=1) if frame is None else frame
        writer = frame.writeStream.format("ducklake").outputMode(mode).options(**options)
        return (
            writer.option("table", "lake.dst")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )

    def run(self, *args: Any, **options: Any) -> list[int]:
        """Copies what there is, and says how many rows each batch read."""
        query = self.start(*args, **options)
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress]

    def copied(self) -> list[int]:
        return sorted(row[0] for row in self.lake.table("dst").collect())


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Iterator[Streams]:
    with ducklake_spark.attach(
        f"ducklake:sqlite:{tmp_path}/lake.sqlite", spark=spark, data_path=tmp_path / "data", name="lake"
    ) as lake:
        lake.create_table("src", {"id": "bigint", "v": "varchar"})
        lake.create_table("dst", {"id": "bigint", "v": "varchar"})
        yield Streams(lake, tmp_path / "checkpoint")
        for query in spark.streams.active:
            query.stop()


def test_stream_copies_each_row_once(streams: Streams, oracle: Oracle, tmp_path: Path) -> None:
    streams.append(30)
    streams.append(3)
    assert streams.run() == [30, 3]
    streams.append(20)
    assert streams.run() == [20]
    assert sum(streams.run()) == 0
    assert streams.copied() == list(range(53))
    oracle.attach(f"ducklake:sqlite:{tmp_path}/lake.sqlite")
    assert oracle.execute("SELECT count(*), count(DISTINCT id), sum(id) FROM dst") == [
        (53, 53, sum(range(53)))
    ]
    [(told,)] = oracle.execute(
        "SELECT commit_extra_info FROM ducklake_snapshots('lake') WHERE commit_extra_info IS NOT NULL "
        "ORDER BY snapshot_id LIMIT 1"
    )
    assert '"batch": 0' in told


def test_stream_pushes_filters_and_columns_into_its_scans(streams: Streams) -> None:
    streams.append(30)
    query = streams.start(streams.source().where("id >= 20").select("id"))
    query.awaitTermination()
    plan = query._jsq.explainInternal(False)  # type: ignore[attr-defined]
    assert "GreaterThanOrEqual(id,20)" in plan and "ReadSchema: struct<id:bigint>" in plan
    assert streams.copied() == list(range(20, 30))


def test_input_rows_are_counted_in_merged_files_too(streams: Streams) -> None:
    for count in (20, 5, 20, 20):
        streams.append(count)
    streams.lake.flush_inlined_data()
    streams.lake.merge_adjacent_files()
    streams.lake["dst"].insert([(-1, None)])
    frame = streams.source(startingVersion=4, maxFilesPerTrigger=1)
    assert streams.run(frame) == [5, 20, 20]
    assert streams.copied() == [-1, *range(20, 65)]


def test_backlog_is_in_the_progress(streams: Streams) -> None:
    for _ in range(3):
        streams.append(1)
    query = streams.start()
    query.awaitTermination()
    told = [progress["sources"][0]["metrics"]["numFilesOutstanding"] for progress in query.recentProgress]
    assert told == ["2", "1", "0"]
    assert query.recentProgress[0]["sources"][0]["description"] == "ducklake lake.src"


def test_many_small_batches_are_inlined_or_one_file_each(streams: Streams) -> None:
    query = (
        streams.source()
        .writeStream.format("ducklake")
        .options(table="lake.dst", checkpointLocation=str(streams.checkpoint))
        .start()
    )
    for count in (1, 2, 15, 1, 15):
        streams.append(count)
        query.processAllAvailable()
    query.stop()
    assert streams.copied() == list(range(34))
    assert len(streams.lake.list_files("dst").collect()) <= 2


# Failures.


class Failure(Exception):
    """What a test lets go wrong."""


def _failing(kind: type, method: str, on: int, *, after: bool) -> Callable[..., Any]:
    """The method of a class, which fails at some call, before or after it did its work."""
    plain, calls = getattr(kind, method), iter(range(100))

    def run(*args: Any, **kwargs: Any) -> Any:
        fails = next(calls) == on
        if fails and not after:
            raise Failure("before")
        result = plain(*args, **kwargs)
        if fails:
            raise Failure("after")
        return result

    return run


def test_random_failures_and_maintenance_lose_and_repeat_no_row(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    lake = streams.lake
    places = [(TableSink, "add"), (TableStream, "batch"), (TableStream, "latest")]
    for _ in range(6):
        for _ in range(chance.randint(1, 3)):
            streams.append(chance.choice([2, 15]))
        chance.choice(
            [
                lambda: None,
                lambda: lake.merge_adjacent_files(),
                lambda: lake.flush_inlined_data(),
                lambda: lake["dst"].compact(order_by="id"),
            ]
        )()
        with monkeypatch.context() as patch:
            kind, method = chance.choice(places)
            patch.setattr(
                kind, method, _failing(kind, method, chance.randrange(3), after=chance.random() < 0.6)
            )
            try:
                streams.run()
            except Exception as error:  # whatever Spark makes of it
                assert "Failure" in str(error)
    streams.run()
    assert streams.copied() == list(range(streams.next_id))


def test_batch_that_was_committed_stays_known_when_its_snapshot_is_expired(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.append(20)
    with monkeypatch.context() as patch:
        patch.setattr(TableSink, "add", _failing(TableSink, "add", 0, after=True))
        with pytest.raises(Exception, match="Failure"):
            streams.run()
    streams.lake.create_table("other", {"a": "int"})
    streams.lake.expire_snapshots(versions=[0, 1, 2, 4])  # the stream began at 3, and reads it again
    streams.run(streams.source(failOnDataLoss="false"))
    assert streams.copied() == list(range(20))


def test_killed_process_loses_and_repeats_no_row(streams: Streams, tmp_path: Path) -> None:
    for _ in range(3):
        streams.append(15)
    victim = Path(__file__).with_name("stream_victim.py")
    done = subprocess.run(
        [sys.executable, str(victim), f"ducklake:sqlite:{tmp_path}/lake.sqlite", str(streams.checkpoint)],
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert streams.copied() == list(range(30))  # two batches, the second one without its checkpoint
    frame = (
        streams.spark.readStream.format("ducklake")
        .option("table", "src")
        .option("maxFilesPerTrigger", 1)
        .load(f"ducklake:sqlite:{tmp_path}/lake.sqlite")
    )
    streams.run(frame)
    assert streams.copied() == list(range(45))


def test_errors_of_streams_are_ours(streams: Streams) -> None:
    streams.append(2)
    streams.run()
    streams.lake["src"].delete("id = 0")
    query = streams.start()
    with pytest.raises(StreamingError, match="Snapshot 5 deletes rows"):
        query.awaitTermination()
    assert isinstance(unwrap(RuntimeError(str(query.exception()))), StreamingError)
    query = streams.start(streams.source(ignoreDeletes="true"))
    query.awaitTermination()


def test_changed_columns_stop_a_running_stream_and_a_restart_goes_on(streams: Streams) -> None:
    streams.append(2)
    query = (
        streams.source()
        .writeStream.format("ducklake")
        .options(table="lake.dst", checkpointLocation=str(streams.checkpoint), mergeSchema="true")
        .start()
    )
    query.processAllAvailable()
    streams.lake["src"].add_column("w", "int")
    streams.lake["src"].insert([(2, "v2", 7)])
    with pytest.raises(SchemaChangedError, match="start the stream again"):
        query.awaitTermination()
    streams.run(mergeSchema="true")
    assert sorted(map(tuple, streams.lake.table("dst").collect())) == [
        (0, "v0", None),
        (1, "v1", None),
        (2, "v2", 7),
    ]


def test_columns_that_changed_since_load_are_told(streams: Streams) -> None:
    frame = streams.source()
    streams.lake["src"].drop_column("v")
    streams.lake["src"].add_column("v", "int")
    with pytest.raises(SchemaChangedError, match="load\\(\\) again"):
        streams.run(frame)


# Sinks.


def test_complete_mode_replaces_all_rows(streams: Streams) -> None:
    streams.lake.drop_table("dst")
    frame = lambda: streams.source().groupBy("v").count()  # noqa: E731 - each run reads anew
    streams.append(3)
    streams.run(frame(), mode="complete")
    streams.append(2)
    streams.run(frame(), mode="complete")
    assert sorted(map(tuple, streams.lake.table("dst").collect())) == [(f"v{i}", 1) for i in range(5)]


def test_update_mode_merges_by_keys(streams: Streams) -> None:
    streams.lake.drop_table("dst")
    frame = lambda: streams.source().selectExpr("id % 3 AS k").groupBy("k").count()  # noqa: E731 - as above
    streams.append(3)
    streams.run(frame(), mode="update", mergeKeys="k")
    streams.append(2)
    streams.run(frame(), mode="update", mergeKeys="k")
    assert sorted(map(tuple, streams.lake.table("dst").collect())) == [(0, 2), (1, 2), (2, 1)]


def test_foreach_batch_can_merge(streams: Streams) -> None:
    def upsert(rows: DataFrame, _: int) -> None:
        merge = streams.lake["dst"].merge(rows, "target.id = source.id")
        merge.when_matched().update_all().when_not_matched().insert_all().execute()

    streams.append(12)
    streams.lake["dst"].insert([(0, "old")])
    query = (
        streams.source()
        .writeStream.foreachBatch(upsert)
        .option("checkpointLocation", str(streams.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(map(tuple, streams.lake.table("dst").collect()))[0] == (0, "v0")
    assert streams.copied() == list(range(12))


def test_change_feed_is_streamed(streams: Streams) -> None:
    streams.lake.drop_table("dst")
    streams.append(2)
    streams.run(streams.source(readChangeFeed="true"))
    streams.lake["src"].update({"v": "'new'"}, "id = 1")
    assert streams.run(streams.source(readChangeFeed="true")) == [2]
    rows = streams.lake.table("dst").select("snapshot_id", "change_type", "id", "v").collect()
    assert sorted(map(tuple, rows)) == [
        (4, "insert", 0, "v0"),
        (4, "insert", 1, "v1"),
        (6, "update_postimage", 1, "new"),
        (6, "update_preimage", 1, "v1"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "update"}, "mergeKeys"),
        ({"mergeKeys": "id"}, 'belongs to output mode "update"'),
        ({"mergeschema": "maybe"}, "takes true or false"),
        ({"mergKeys": "id"}, 'no option "mergkeys".*Did you mean "mergeKeys"'),
    ],
)
def test_sink_options_are_checked(streams: Streams, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        streams.start(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxFilesPerTrigger": "0"}, "whole number from 1"),
        ({"maxBytesPerTrigger": "much"}, "number of bytes"),
        ({"startingVersion": "x"}, "whole number"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "not both"),
        ({"readChangeFeed": "true", "ignoreDeletes": "true"}, "does not go with readChangeFeed"),
        ({"versionAsOf": "1"}, 'no option "versionasof"'),
    ],
)
def test_source_options_are_checked(streams: Streams, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        streams.source(**options)


def test_schema_cannot_be_given(streams: Streams) -> None:
    with pytest.raises(InvalidInputError, match="leave schema"):
        streams.spark.readStream.format("ducklake").schema("id BIGINT").load("lake.src")


# Tables of the catalog.


def test_tables_of_the_catalog_are_sources_and_sinks(streams: Streams) -> None:
    streams.lake.create_schema("odd one")
    for i in range(2):
        streams.append(3)
        frame = streams.spark.readStream.option("maxFilesPerTrigger", 1).table("lake.main.src")
        writer = frame.writeStream.format("ducklake").option("checkpointLocation", str(streams.checkpoint))
        query = writer.trigger(availableNow=True).toTable("lake.`odd one`.`new table`")
        query.awaitTermination()
        assert streams.spark.table("lake.`odd one`.`new table`").count() == 3 * (i + 1)


@pytest.mark.parametrize("table", ["lake.main.dst", "lake.main.never"])
def test_stream_into_a_table_names_its_format(streams: Streams, table: str) -> None:
    before = streams.lake.version
    writer = streams.source().writeStream.option("checkpointLocation", str(streams.checkpoint))
    with pytest.raises(
        InvalidInputError, match=r'names its format: writeStream.format\("ducklake"\)'
    ) as said:
        writer.trigger(availableNow=True).toTable(table)
    assert table in str(said.value)
    assert streams.lake.version == before


def test_format_is_known_to_a_session_with_a_lake(streams: Streams) -> None:
    assert streams.spark.read.format("ducklake").load("lake.src").count() == 0


def test_stream_that_is_stopped_goes_on_later(streams: Streams) -> None:
    streams.append(20)
    query = (
        streams.source()
        .writeStream.format("ducklake")
        .options(table="lake.dst", checkpointLocation=str(streams.checkpoint))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    assert query.exception() is None
    streams.append(20)
    streams.run()
    assert streams.copied() == list(range(40))
