"""A table as the source of a stream, without Spark's engine around it: what belongs to which batch, whatever happens
to the table between and under the batches."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ducklake_spark
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.engine.streaming.source import StreamOptions, TableStream
from ducklake_spark.errors import (
    InvalidInputError,
    SchemaChangedError,
    SnapshotNotFoundError,
    StreamingError,
)
from ducklake_spark.format.streaming import Limits, Offset, Policy, Position
from tests.interop.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ducklake_spark import Lake

pytestmark = pytest.mark.spark
CHECK = "spark.sql.streaming.unsupportedOperationCheck"
ONE_FILE = Limits(files=1)
STEPS = 40 if os.environ.get("DUCKLAKE_SPARK_TEST_DEEP") else 14


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """A lake with an empty table `t`; batches of streams can be collected while it is open."""
    spark.conf.set(CHECK, "false")
    with ducklake_spark.attach(
        f"ducklake:sqlite:{tmp_path}/lake.sqlite", spark=spark, data_path=tmp_path / "data", name="lake"
    ) as lake:
        lake.create_table("t", {"id": "bigint", "v": "varchar"})
        yield lake
    spark.conf.unset(CHECK)


class Stream:
    """A reader that keeps its offset as Spark does: as text, from one source object to the next."""

    def __init__(self, lake: Lake, **options: Any) -> None:
        self.lake, self.options = lake, StreamOptions(**options)
        self.offset: str | None = None
        self.last: tuple[str | None, str] | None = None
        self.restart()

    def restart(self) -> None:
        self.source = TableStream(scope_of(self.lake), "t", self.options)

    def _read(self, text: str | None) -> Offset | None:
        return None if text is None else Offset.of_json(text)

    def next(self) -> list[tuple[Any, ...]] | None:
        """The rows of the next batch; None if there is none."""
        end = self.source.latest(self._read(self.offset))
        newest = self.source.newest()
        assert newest is not None and newest.position == Position(self.source.until or self.lake.version)
        if end is None or end == self._read(self.offset):
            return None
        self.last = (self.offset, end.to_json())
        self.offset = end.to_json()
        return self.again()

    def again(self) -> list[tuple[Any, ...]]:
        """The rows of the last batch, as after a crash."""
        assert self.last is not None
        start, end = self.last
        return sorted(
            tuple(row) for row in self.source.batch(self._read(start), Offset.of_json(end)).collect()
        )

    def all(self) -> list[list[tuple[Any, ...]]]:
        """The rows of each batch until there is no more."""
        found = []
        while (rows := self.next()) is not None:
            found.append(rows)
        return found

    def ids(self) -> list[list[int]]:
        return [[row[0] for row in rows] for rows in self.all()]


def files(lake: Lake, first: int, last: int) -> DataFrame:
    """Rows that become a file."""
    return lake.spark.range(first, last, numPartitions=1).selectExpr("id", "concat('v', id) AS v")


def test_stream_begins_with_all_rows_and_goes_on(lake: Lake) -> None:
    table = lake["t"]
    table.insert(files(lake, 0, 20))
    table.insert([(100, "inlined")])
    table.delete("id < 5")
    stream = Stream(lake)
    assert stream.ids() == [[*range(5, 20), 100]]
    assert stream.all() == []
    table.insert([(101, "inlined")])
    table.insert(files(lake, 30, 50))
    assert stream.ids() == [[*range(30, 50), 101]]


def test_stream_of_an_empty_table_waits(lake: Lake) -> None:
    stream = Stream(lake)
    assert stream.next() is None
    lake["t"].insert([(1, "a")])
    assert stream.ids() == [[1]]


def test_stream_from_a_version_has_no_earlier_rows(lake: Lake) -> None:
    for i in (1, 2, 3):
        lake["t"].insert([(i, "a")])  # snapshots 2, 3, 4
    assert Stream(lake, starting_version=3).ids() == [[2, 3]]
    assert Stream(lake, starting_version=0).ids() == [[1, 2, 3]]
    assert Stream(lake, starting_version=5).ids() == []
    with pytest.raises(SnapshotNotFoundError, match="version 6"):
        Stream(lake, starting_version=6).next()


def test_stream_from_a_time_begins_with_the_snapshot_after_it(lake: Lake) -> None:
    for i in (1, 2):
        lake["t"].insert([(i, "a")])
    times = [row["snapshot_time"] for row in lake.snapshots().collect()]
    text = times[3].strftime("%Y-%m-%d %H:%M:%S.%f")
    zone = lake.spark.conf.get("spark.sql.session.timeZone")
    assert zone == "UTC"
    assert Stream(lake, starting_timestamp=text).ids() == [[2]]
    with pytest.raises(SnapshotNotFoundError, match="the newest one is older"):
        Stream(lake, starting_timestamp="2999-01-01").next()


def test_stream_from_the_latest_has_new_rows_only(lake: Lake) -> None:
    lake["t"].insert([(1, "a")])
    stream = Stream(lake, starting_version="latest")
    assert stream.next() is None
    lake["t"].insert([(2, "a")])
    assert stream.ids() == [[2]]


def three_files(lake: Lake) -> None:
    """One snapshot with three files of twenty rows."""
    with lake.transaction():
        for first in (0, 20, 40):
            lake["t"].insert(files(lake, first, first + 20))


def test_limits_split_an_append_by_files(lake: Lake) -> None:
    stream = Stream(lake, limits=ONE_FILE)
    three_files(lake)
    assert stream.ids() == [list(range(first, first + 20)) for first in (0, 20, 40)]


@pytest.mark.parametrize("start", [None, 0], ids=["initial", "later"])
def test_limits_hold_over_a_merge_between_batches(lake: Lake, start: int | None) -> None:
    stream = Stream(lake, limits=ONE_FILE, starting_version=start)
    three_files(lake)
    lake["t"].insert(files(lake, 100, 120))
    first = stream.next()
    assert first is not None and [row[0] for row in first] == list(range(20))
    lake.merge_adjacent_files()
    assert len(lake.list_files("t").collect()) == 1
    stream.restart()
    assert stream.again() == first
    rest = [row for ids in stream.ids() for row in ids]
    assert sorted(rest) == [*range(20, 60), *range(100, 120)]


def test_limit_of_bytes_takes_at_least_one_file(lake: Lake) -> None:
    stream = Stream(lake, limits=Limits(size=1))
    lake["t"].insert(files(lake, 0, 20))
    lake["t"].insert([(50, "a")])
    assert stream.ids() == [list(range(20)), [50]]


def test_available_now_ends_where_it_began(lake: Lake) -> None:
    lake["t"].insert([(1, "a")])
    stream = Stream(lake, limits=ONE_FILE, starting_version=0)
    lake["t"].insert([(2, "a")])
    stream.source.stop_at_newest()
    lake["t"].insert([(3, "a")])
    assert stream.ids() == [[1], [2]]
    stream.restart()
    assert stream.ids() == [[3]]


def test_metrics_say_what_is_left(lake: Lake) -> None:
    stream = Stream(lake, limits=ONE_FILE, starting_version=0)
    for i in range(3):
        lake["t"].insert([(i, "a")])
    stream.next()
    assert stream.source.metrics() == {"numFilesOutstanding": "2", "numBytesOutstanding": "200"}
    stream.all()
    assert stream.source.metrics() == {"numFilesOutstanding": "0", "numBytesOutstanding": "0"}


# Changes, columns, lost snapshots.


def _delete(lake: Lake) -> None:
    lake["t"].delete("id = 1")


def _update(lake: Lake) -> None:
    lake["t"].update({"v": "'new'"}, "id = 1")


@pytest.mark.parametrize(
    ("policy", "change", "expected"),
    [
        (Policy(), _delete, "deletes rows"),
        (Policy(), _update, "updates or overwrites"),
        (Policy(ignore_deletes=True), _delete, [[3]]),
        (Policy(ignore_deletes=True), _update, "updates or overwrites"),
        (Policy(ignore_changes=True), _delete, [[3]]),
        (Policy(ignore_changes=True), _update, [[1, 3]]),
        (Policy(skip_changes=True), _update, [[3]]),
    ],
)
def test_changes_of_rows_stop_a_stream_unless_it_ignores_them(
    lake: Lake, policy: Policy, change: Callable[[Lake], None], expected: Any
) -> None:
    lake["t"].insert([(1, "a"), (2, "a")])
    stream = Stream(lake, policy=policy)
    assert stream.ids() == [[1, 2]]
    change(lake)
    lake["t"].insert([(3, "a")])
    if isinstance(expected, str):
        with pytest.raises(StreamingError, match=expected):
            stream.next()
    else:
        assert stream.ids() == expected


def test_rows_before_a_change_are_read_before_it_stops_the_stream(lake: Lake) -> None:
    stream = Stream(lake, starting_version=0)
    lake["t"].insert([(1, "a")])
    _delete(lake)
    assert stream.next() == [(1, "a")]
    with pytest.raises(StreamingError, match="Snapshot 3 deletes rows"):
        stream.next()


def test_feed_tells_of_every_change(lake: Lake) -> None:
    lake["t"].insert([(1, "a"), (2, "a")])
    stream = Stream(lake, policy=Policy(feed=True))
    assert stream.all() == [[(2, 0, "insert", 1, "a"), (2, 1, "insert", 2, "a")]]
    _update(lake)
    lake["t"].delete("id = 2")
    assert stream.all() == [
        [
            (3, 0, "update_postimage", 1, "new"),
            (3, 0, "update_preimage", 1, "a"),
            (4, 1, "delete", 2, "a"),
        ]
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda lake: lake["t"].add_column("w", "int"),
        lambda lake: lake["t"].rename_column("v", "w"),
        lambda lake: lake["t"].drop_column("v"),
    ],
    ids=["added", "renamed", "dropped"],
)
def test_changed_columns_stop_a_stream_until_it_is_started_again(
    lake: Lake, change: Callable[[Lake], None]
) -> None:
    stream = Stream(lake, starting_version=0)
    lake["t"].insert([(1, "a")])
    change(lake)
    lake["t"].insert([{"id": 2}])
    assert [row[0] for row in stream.next() or ()] == [1]
    for _ in range(2):
        with pytest.raises(SchemaChangedError, match="start the stream again"):
            stream.next()
    stream.restart()
    assert stream.ids() == [[2]]
    assert stream.source.schema.names == lake["t"].columns


def test_comment_and_rename_of_a_table_do_not_stop_its_stream(lake: Lake) -> None:
    stream = Stream(lake, starting_version=0)
    lake["t"].set_comment("of no matter to rows")
    lake["t"].insert([(1, "a")])
    lake["t"].rename("u")
    lake["u"].insert([(2, "a")])
    assert stream.ids() == [[1, 2]]


def test_another_table_of_the_name_is_not_read_on(lake: Lake) -> None:
    stream = Stream(lake, starting_version=0)
    lake["t"].insert([(1, "a")])
    stream.all()
    lake.drop_table("t")
    with pytest.raises(StreamingError, match="was dropped in snapshot 3"):
        stream.next()
    lake.create_table("t", {"id": "bigint", "v": "varchar"})
    stream.restart()
    with pytest.raises(StreamingError, match="another table"):
        stream.next()


def test_view_is_refused(lake: Lake) -> None:
    lake.create_view("w", "SELECT * FROM t")
    with pytest.raises(InvalidInputError, match="is a view"):
        TableStream(scope_of(lake), "w", StreamOptions())


def test_expired_snapshots_stop_a_stream_unless_it_may_lose_them(lake: Lake) -> None:
    strict, loose = (
        Stream(lake, starting_version=0),
        Stream(lake, starting_version=0, fail_on_data_loss=False),
    )
    lake["t"].insert([(1, "a")])
    assert strict.ids() == loose.ids() == [[1]]
    lake["t"].insert([(2, "a")])
    lake["t"].insert([(3, "a")])
    lake.expire_snapshots(versions=[3])
    with pytest.raises(StreamingError, match="Snapshots 3 to 3 were expired"):
        strict.next()
    assert [row[0] for row in strict.again()] == [1]
    assert loose.ids() == [[3]]


def test_snapshots_that_were_read_may_be_expired(lake: Lake) -> None:
    stream = Stream(lake, starting_version=0)
    lake["t"].insert([(1, "a")])
    stream.all()
    lake["t"].insert([(2, "a")])
    lake.expire_snapshots(versions=[0, 1, 2])
    stream.restart()
    assert stream.ids() == [[2]]


def test_snapshots_of_other_tables_are_passed_without_batches(lake: Lake) -> None:
    lake["t"].insert([(1, "a")])
    stream = Stream(lake)
    stream.all()
    other = lake.create_table("other", {"a": "int"})
    assert stream.next() is None
    for i in range(100):
        other.insert([(i,)])
    assert stream.next() == []  # writes down that they were looked at
    assert Offset.of_json(stream.offset or "").position == Position(lake.version)


def test_restored_catalog_is_told(lake: Lake) -> None:
    stream = Stream(lake)
    lake["t"].insert([(1, "a")])
    stream.all()
    offset = Offset.of_json(stream.offset or "")
    stream.offset = offset.at(Position(offset.position.snapshot + 5)).to_json()
    with pytest.raises(StreamingError, match="restored from a backup"):
        stream.next()


# All at once.


class Table:
    """A table that is changed at random, by us or by the extension, and which rows were appended to it."""

    def __init__(self, lake: Lake, chance: random.Random, run: Callable[[str], object]) -> None:
        self.lake, self.chance, self.run = lake, chance, run
        self.appended: list[int] = []

    def append(self, count: int) -> None:
        first = len(self.appended)
        self.run(f"INSERT INTO t SELECT range, 'v' || range FROM range({first}, {first + count})")
        self.appended += range(first, first + count)

    def step(self) -> None:
        few, many = self.chance.randint(1, 5), self.chance.randint(11, 40)
        actions: list[Callable[[], object]] = [
            lambda: self.append(few),
            lambda: self.append(many),
            lambda: self.append(many),
            lambda: self.run(f"DELETE FROM t WHERE id % 7 = {few}"),
            lambda: self.run(f"UPDATE t SET v = v || '+' WHERE id % 11 = {few}"),
            lambda: self.run("CALL ducklake_flush_inlined_data('lake')"),
            lambda: self.run("CALL ducklake_merge_adjacent_files('lake')"),
            lambda: self.run("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.1)"),
            lambda: self.lake.set_option("data_inlining_row_limit", self.chance.choice([0, 10])),
        ]
        self.chance.choice(actions)()


class Copy:
    """A table that is made of the changes of another one."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[Any, ...]] = {}

    def apply(self, changes: list[tuple[Any, ...]]) -> None:
        gone = ("delete", "update_preimage")
        for _, row_id, kind, *values in sorted(changes, key=lambda row: (row[0], row[2] not in gone)):
            if kind in gone:
                assert self.rows.pop(row_id) == tuple(values)
            else:
                assert row_id not in self.rows
                self.rows[row_id] = tuple(values)


@pytest.mark.parametrize(("writer", "seed"), [("ours", 1), ("extension", 2)])
def test_random_changes_and_maintenance_lose_and_repeat_no_row(
    lake: Lake, oracle: Oracle, tmp_path: Path, writer: str, seed: int
) -> None:
    chance = random.Random(seed)
    oracle.attach(f"ducklake:sqlite:{tmp_path}/lake.sqlite")
    run = oracle.execute if writer == "extension" else lambda text: lake.sql(text, dialect="duckdb")
    table, copy = Table(lake, chance, run), Copy()
    table.append(30)
    run("DELETE FROM t WHERE id < 3")
    rows = Stream(lake, policy=Policy(skip_changes=True), limits=ONE_FILE)
    feed = Stream(lake, policy=Policy(feed=True), limits=Limits(files=2))
    seen: list[int] = []

    def read(stream: Stream) -> list[tuple[Any, ...]]:
        if chance.random() < 0.4:
            stream.restart()
        found = stream.next()
        if found is not None and chance.random() < 0.3:
            stream.restart()
            assert stream.again() == found
        return found or []

    seen += [row[0] for row in read(rows)]
    for _ in range(STEPS):
        table.step()
        if chance.random() < 0.6:
            seen += [row[0] for row in read(rows)]
        if chance.random() < 0.5:
            copy.apply(read(feed))
    seen += [row[0] for found in rows.all() for row in found]
    for found in feed.all():
        copy.apply(found)
    assert sorted(seen) == table.appended[3:]
    assert sorted(copy.rows.values()) == sorted(oracle.execute("FROM t"))
