"""Change feeds of lakes that the extension wrote: rows, row ids, snapshots and images as it returns them itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import InvalidInputError, NotFoundError, SnapshotNotFoundError
from tests.interop.oracle import Oracle, OracleError
from tests.scan.lakes import comparable, in_order
from tests.write.lakes import WrittenLake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

FEEDS = ("table_changes", "table_insertions", "table_deletions")


class FeedLake(WrittenLake):
    """A lake whose feeds are compared."""

    def theirs_of(self, feed: str, table: str, start: int, end: int) -> list[str] | None:
        """The extension's feed with row ids and snapshots; None if it has none."""
        source = f"ducklake_{feed}('lake', 'main', '{table}', {start}, {end})"
        lineage = "" if feed == "table_changes" else ", rowid, snapshot_id"
        try:
            described = self.ask(f"DESCRIBE SELECT * FROM {source}")
        except OracleError as error:
            if "does not exist" not in str(error):
                raise
            return None
        wanted = ", ".join(comparable(name, type_) for name, type_, *_ in described)
        return in_order(self.ask(f"SELECT {wanted}{lineage} FROM {source}"))

    def ours_of(self, feed: str, table: str, start: int, end: int) -> list[str]:
        """Our feed."""
        made = getattr(self.ours, feed)
        options = {} if feed == "table_changes" else {"virtual_columns": ("rowid", "snapshot_id")}
        return in_order(made(table, start, end, **options).collect())

    def compare(self, table: str, ranges: list[tuple[int, int]], feeds: tuple[str, ...] = FEEDS) -> int:
        """All feeds of all ranges. Returns how many rows were compared."""
        theirs = {(f, r): self.theirs_of(f, table, *r) for f in feeds for r in ranges}
        compared = 0
        for (feed, (start, end)), rows in theirs.items():
            if rows is None:
                with pytest.raises(NotFoundError):
                    getattr(self.ours, feed)(table, start, end)
                continue
            ours = self.ours_of(feed, table, start, end)
            assert ours == rows, f"{feed}({table}, {start}, {end}): {difference(ours, rows)}"
            compared += len(rows)
        return compared


def difference(ours: list[str], theirs: list[str]) -> str:
    more = [row for row in ours if row not in theirs]
    less = [row for row in theirs if row not in ours]
    return f"only ours {more[:5]}, only theirs {less[:5]}, {len(ours)} and {len(theirs)} rows"


@pytest.fixture(scope="module")
def make(
    _oracle_process: Oracle, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., FeedLake]]:
    made: list[FeedLake] = []

    def make(kind: str = "duckdb") -> FeedLake:
        folder: Path = tmp_path_factory.mktemp("feed")
        for before in made:
            before.close()
        lake = FeedLake(_oracle_process, spark, f"ducklake:{kind}:{folder / f'lake.{kind}'}", folder / "data")
        made.append(lake)
        return lake

    yield make
    for lake in made:
        lake.close()


CHANGES = [
    "CREATE TABLE t(a INT, b VARCHAR, st STRUCT(x INT, y VARCHAR))",  # 1
    "INSERT INTO t SELECT i, 'v' || i, {'x': i, 'y': 'y'} FROM range(0, 60) r(i)",  # 2
    "INSERT INTO t SELECT i, 'v' || i, {'x': i, 'y': 'y'} FROM range(100, 104) r(i)",  # 3: inlined
    "DELETE FROM t WHERE a IN (1, 2)",  # 4: inlined deletes
    "DELETE FROM t WHERE a BETWEEN 10 AND 25",  # 5: a delete file
    "DELETE FROM t WHERE a BETWEEN 30 AND 41",  # 6: a history file
    "UPDATE t SET b = 'few' WHERE a IN (5, 101)",  # 7: inlined versions
    "UPDATE t SET b = 'many' WHERE a BETWEEN 42 AND 55",  # 8: a file with row ids
    "DELETE FROM t WHERE a = 103",  # 9: an inlined row
    "ALTER TABLE t ADD COLUMN c INT DEFAULT 7",  # 10
    "INSERT INTO t SELECT i, 'w' || i, NULL, i FROM range(200, 220) r(i)",  # 11
    "ALTER TABLE t RENAME COLUMN b TO bb",  # 12
    "ALTER TABLE t ALTER a SET TYPE BIGINT",  # 13
    "BEGIN; INSERT INTO t SELECT i, 'own', NULL, i FROM range(300, 320) r(i); "
    "DELETE FROM t WHERE a BETWEEN 300 AND 315; UPDATE t SET bb = 'x' WHERE a = 5; "
    "UPDATE t SET bb = 'y' WHERE a = 5; DELETE FROM t WHERE a = 56; COMMIT",  # 14
    "ALTER TABLE t DROP COLUMN c",  # 15
    "DELETE FROM t WHERE a >= 200 AND a < 220",  # 16: a file ends
    "MERGE INTO t USING (SELECT i AS a, 'm' || i AS bb FROM range(57, 63) r(i)) s ON t.a = s.a "
    "WHEN MATCHED THEN UPDATE SET bb = s.bb WHEN NOT MATCHED THEN INSERT (a, bb) VALUES (s.a, s.bb)",  # 17
    "DELETE FROM t WHERE a = 7",  # 18
    "CALL ducklake_flush_inlined_data('lake')",  # 19
    "INSERT INTO t SELECT i, 'z', NULL FROM range(400, 412) r(i)",  # 20
    "INSERT INTO t SELECT i, 'z', NULL FROM range(420, 432) r(i)",  # 21
    "CALL ducklake_merge_adjacent_files('lake')",  # 22: partial files
]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_feeds_are_those_of_the_extension(make: Callable[..., FeedLake], kind: str) -> None:
    lake = make(kind)
    for place, statement in enumerate(CHANGES, 1):
        lake.ask(statement)
        assert lake.ask("SELECT max(snapshot_id) FROM lake.snapshots()") == [(place,)], statement
        if place == 18:
            # Before a flush and a compaction, which leave other files behind for the same feed.
            assert lake.compare("t", [(0, 18)], ("table_changes",)) > 200
    if kind == "sqlite":
        assert lake.compare("t", [(0, 22)]) > 200
        return
    singles = [(version, version) for version in (1, 3, 5, 6, 8, 14, 16, 19, 22)]
    assert lake.compare("t", [*singles, (5, 6), (9, 5)], ("table_changes",)) > 100
    assert lake.compare("t", [(7, 14)]) > 100


def test_deletes_from_compacted_files_belong_to_their_own_snapshot(make: Callable[..., FeedLake]) -> None:
    """The extension gives such rows the snapshot that inserted them, and so takes updates apart."""
    lake = make()
    lake.ask("CREATE TABLE t(a INT); INSERT INTO t SELECT i FROM range(0, 20) r(i)")
    lake.ask(
        "INSERT INTO t SELECT i FROM range(20, 40) r(i); CALL ducklake_merge_adjacent_files('lake')"
    )  # 4
    lake.ask("DELETE FROM t WHERE a < 12; UPDATE t SET a = -a WHERE a >= 25; TRUNCATE t")  # 5, 6, 7
    rows = lake.ours.table_changes("t", 5, 7).collect()
    assert lake.ask("SELECT count(*) FROM lake.table_changes('t', 5, 7)") == [(len(rows),)]
    counts: dict[tuple[int, str], int] = {}
    for row in rows:
        counts[row.snapshot_id, row.change_type] = counts.get((row.snapshot_id, row.change_type), 0) + 1
    assert counts == {
        (5, "delete"): 12, (6, "update_preimage"): 15, (6, "update_postimage"): 15, (7, "delete"): 28
    }  # fmt: skip


def test_rows_deleted_before_a_rewrite_do_not_go_twice(make: Callable[..., FeedLake]) -> None:
    """The extension forgets inlined deletes from before the range when their file ends in it."""
    lake = make()
    lake.ask("CREATE TABLE t(a INT); INSERT INTO t SELECT i FROM range(0, 20) r(i)")
    lake.ask("DELETE FROM t WHERE a = 1; DELETE FROM t WHERE a BETWEEN 2 AND 15")  # 3, 4
    lake.ask("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")  # 5
    moved = lake.ours.table_changes("t", 5, 5).collect()
    assert sorted((row.change_type, row.a) for row in moved) == sorted(
        (kind, a) for kind in ("update_preimage", "update_postimage") for a in (0, 16, 17, 18, 19)
    )
    theirs = lake.theirs_of("table_changes", "t", 5, 5)
    assert theirs is not None and len(theirs) == 11
    whole = in_order(lake.ours.table_changes("t", 2, 5).collect())
    parts = [lake.ours.table_changes("t", version, version).collect() for version in range(2, 6)]
    assert whole == in_order([row for part in parts for row in part])
    assert lake.ours.table_changes("t", 5, 5, net=True).collect() == []
    assert sorted(row.a for row in lake.ours.table_changes("t", 4, 5, net=True).collect()) == list(
        range(2, 16)
    )


def test_columns_that_change_in_the_transaction_of_their_rows(
    make: Callable[..., FeedLake], tmp_path: Path
) -> None:
    """Files from before the change, and files that were added with other types, are cast as the extension casts."""
    lake = make()
    uuid = "550e8400-e29b-41d4-a716-446655440000"
    lake.ask("CALL lake.set_option('data_inlining_row_limit', 0)")
    lake.ask(
        "CREATE TABLE t(a DECIMAL(5,2), d DATE, s STRUCT(x INT)); "
        "BEGIN; INSERT INTO t VALUES (123.45, '2020-01-01', {'x': 1}); ALTER TABLE t ALTER a TYPE DOUBLE; "
        "ALTER TABLE t ALTER d TYPE TIMESTAMP; ALTER TABLE t ADD COLUMN s.y INT DEFAULT 5; "
        f"ALTER TABLE t ADD COLUMN u UUID DEFAULT '{uuid}'; COMMIT"
    )
    lake.ask(f"COPY (SELECT TIMESTAMP_NS '2020-01-01 00:00:00.5' AS d) TO '{tmp_path}/x.parquet'")
    lake.ask(f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/x.parquet', allow_missing => true)")
    ours = lake.ours.table_changes("t", 0).selectExpr("a", "cast(d AS string)", "s.y", "u").collect()
    theirs = lake.ask(
        "SELECT a, d::VARCHAR, s.y, u::VARCHAR FROM "
        f"ducklake_table_changes('lake', 'main', 't', 0, {lake.ours.version})"
    )
    assert in_order(map(tuple, ours)) == in_order(theirs)
    assert (123.45, "2020-01-01 00:00:00", 5, uuid) in theirs


def test_bounds_are_versions_or_times(make: Callable[..., FeedLake]) -> None:
    lake = make("sqlite")
    lake.ask(
        "CREATE TABLE t(a INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); CREATE VIEW v AS FROM t"
    )
    lake.ask("CREATE TABLE gone(a INT); DROP TABLE gone; INSERT INTO t VALUES (3)")
    times: dict[int, datetime] = dict(lake.ask("SELECT snapshot_id, snapshot_time FROM lake.snapshots()"))
    ours, tick = lake.ours, timedelta(microseconds=1)

    def seen(start: Any, end: Any) -> list[int]:
        return sorted(row.a for row in ours.table_insertions("t", start, end).collect())

    assert seen(2, 3) == [1, 2]
    assert seen(times[2], times[3]) == [1, 2]
    assert seen(str(times[2] + tick), times[3] + tick) == [2]
    assert seen(3, None) == seen(times[3], times[7] + tick) == [2, 3]
    assert seen(3, 2) == seen(times[2] + tick, times[3] - tick) == []
    for start, end in ((-1, 3), (0, 99), (99, 3), (times[7] + tick, 7), (0, times[0] - tick)):
        with pytest.raises(SnapshotNotFoundError):
            ours.table_changes("t", start, end)
    with pytest.raises(NotFoundError, match='no table "gone"'):
        ours.table_changes("gone", 0, 7)
    with pytest.raises(NotFoundError, match='no table "t"'):
        ours.table_changes("t", 0, 0)
    with pytest.raises(InvalidInputError, match="is a view"):
        ours.table_changes("v", 0, 7)
    with pytest.raises(InvalidInputError, match="rowid and snapshot_id"):
        ours.table_insertions("t", 0, 7, virtual_columns=["row_id"])
    with pytest.raises(InvalidInputError, match="a version or a time"):
        ours.table_changes("t", 1.5, 7)  # type: ignore[arg-type]
    assert ours.table_changes("gone", 0, 5).columns == ["snapshot_id", "rowid", "change_type", "a"]
    assert ours.table_insertions("t", 0, 7).columns == ["a"]
