"""Deletion vectors, which are written where the option says so: as the extension's, but that history stays whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.engine import reads as reading
from ducklake_spark.format.deletion_vector import vector_of, vector_positions
from tests.interop import catalogs
from tests.interop.oracle import Oracle
from tests.write.lakes import WrittenLake, files_below

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("limit", [0, 10])
def test_deletes_and_updates_go_on_where_a_vector_stopped(
    make_lake: Callable[..., WrittenLake], limit: int
) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=limit)
    lake.ask("CALL lake.set_option('write_deletion_vectors', true)")
    lake.ask("CREATE TABLE t(a INTEGER, b VARCHAR)")
    lake.ask("INSERT INTO t SELECT i, 'x' FROM range(1000) r(i)")
    lake.ask("INSERT INTO t SELECT i, 'x' FROM range(1000, 1100) r(i)")
    lake.ask("DELETE FROM t WHERE a % 3 = 0 AND a < 1000")
    assert lake.rows("ducklake_delete_file", "format") == [("puffin",)]
    before = lake.ours.version
    assert lake.ours["t"].delete("a % 5 = 0 AND a < 1000") == 133
    assert lake.check("t") == 633
    assert lake.ours["t"].update({"b": "'changed'"}, "a BETWEEN 500 AND 540") == 21
    assert lake.ours["t"].delete("a IN (1, 2, 1050)") == 3
    assert lake.check("t") == 630
    assert lake.ask("SELECT count(*) FROM t WHERE b = 'changed'") == [(21,)]
    # Earlier snapshots are as they were.
    for version in (before - 1, before, before + 1):
        (theirs,) = lake.ask(f"SELECT count(*), sum(a) FROM t AT (VERSION => {version})")
        ours = lake.ours.table("t", version=version).selectExpr("count(*)", "sum(a)").first()
        assert ours is not None and tuple(ours) == theirs
    # And the extension goes on as well.
    lake.ask("DELETE FROM t WHERE a > 1090")
    assert lake.check("t") == 621


@pytest.mark.parametrize("is_on", [True, False])
def test_a_frame_of_before_sees_the_deletes_of_before(
    make_lake: Callable[..., WrittenLake], is_on: bool
) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    lake.ask("CALL lake.set_option('write_deletion_vectors', true)")
    lake.ask("CREATE TABLE t AS SELECT i::INTEGER AS a FROM range(1000) r(i)")
    lake.ask("DELETE FROM t WHERE a % 3 = 0")
    lake.ours.set_option("write_deletion_vectors", is_on)
    frame = lake.ours.table("t")
    assert lake.ours["t"].delete("a % 5 = 0") == 133
    assert frame.count() == 666 and lake.ours.table("t").count() == 533
    now = lake.rows("ducklake_delete_file", "format", where=lambda row: row["end_snapshot"] is None)
    assert now == [("puffin" if is_on else "parquet",)]


def test_bytes_of_vectors_are_those_of_the_extension(make_lake: Callable[..., WrittenLake]) -> None:
    """Few and many positions, dense and sparse, in one and in several containers of the bitmap."""
    sets: list[list[int]] = [
        [0],
        list(range(4096)),
        list(range(4097)),
        list(range(1, 200_000, 3)),
        [5, 65_535, 65_536, 131_071, 199_999],
        sorted(random.Random(7).sample(range(200_000), 60_000)),
    ]
    lake = make_lake("sqlite", data_inlining_row_limit=0, write_deletion_vectors=True)
    for number, positions in enumerate(sets):
        name = f"t{number}"
        lake.ask(f"CREATE TABLE {name} AS SELECT i::INTEGER AS a FROM range(200000) r(i)")
        listed = ", ".join(map(str, positions))
        lake.ask(f"DELETE FROM {name} WHERE a IN (SELECT unnest([{listed}]))")
        [path] = lake.data_path.rglob(f"{name}/*.puffin")
        assert vector_of(positions) == path.read_bytes()
        assert vector_positions(path.read_bytes(), str(path)).tolist() == positions
    far = [1, 2**32 - 1, 2**32, 2**40 + 70_000]
    assert vector_positions(vector_of(far), "far").tolist() == far


Step = tuple[str, Callable[[Lake], Any]]
FIRST_DELETES: list[Step] = [
    ("DELETE FROM t WHERE a < 300 AND a % 3 = 0", lambda lake: lake["t"].delete("a < 300 AND a % 3 = 0")),
    (
        "UPDATE t SET b = 'u' WHERE a BETWEEN 1000 AND 1040",
        lambda lake: lake["t"].update({"b": "'u'"}, "a BETWEEN 1000 AND 1040"),
    ),
    ("DELETE FROM t WHERE a IN (3000, 3001)", lambda lake: lake["t"].delete("a IN (3000, 3001)")),
    ("DELETE FROM t WHERE a >= 3000", lambda lake: lake["t"].delete("a >= 3000")),
]


def insert(lake: Lake, start: int, stop: int) -> None:
    lake["t"].insert(lake.spark.range(start, stop, 1, 1).selectExpr("int(id) a", "'x' b"))


def in_one_transaction(lake: Lake) -> None:
    with lake.transaction():
        insert(lake, 5000, 5100)
        lake["t"].delete("a BETWEEN 5000 AND 5020")
        lake["t"].delete("a BETWEEN 5030 AND 5050 OR a BETWEEN 2100 AND 2120")
        lake["t"].delete("a BETWEEN 2130 AND 2150")
        assert lake.table("t").where("a BETWEEN 2100 AND 2150").count() == 9
        assert lake.table("t").where("a >= 5000").count() == 58


FIRST_DELETES.append(
    (
        "BEGIN; INSERT INTO t SELECT i::INTEGER, 'x' FROM range(5000, 5100) r(i); "
        "DELETE FROM t WHERE a BETWEEN 5000 AND 5020; "
        "DELETE FROM t WHERE a BETWEEN 5030 AND 5050 OR a BETWEEN 2100 AND 2120; "
        "DELETE FROM t WHERE a BETWEEN 2130 AND 2150; COMMIT",
        in_one_transaction,
    )
)


@pytest.mark.parametrize(("scope", "limit"), [("attach", 0), ("table", 10)])
def test_first_deletes_are_rows_and_files_of_the_extension(
    oracle: Oracle,
    spark: SparkSession,
    tmp_path: Path,
    limit: int,
    scope: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deletes, updates and a transaction that deletes from its own files, each from a file without a delete file."""
    monkeypatch.setattr(reading, "FEW_DELETES", 0)
    theirs, ours = (f"ducklake:sqlite:{tmp_path / side}.db" for side in ("theirs", "ours"))
    options = {"data_inlining_row_limit": limit}
    if scope == "attach":
        options |= {"write_deletion_vectors": True}
    oracle.attach(theirs, data_path=str(tmp_path / "theirs"), **options)
    oracle.execute("CREATE TABLE t(a INTEGER, b VARCHAR)")
    with ducklake_spark.attach(
        ours, name="lake", data_path=str(tmp_path / "ours"), spark=spark, **options
    ) as lake:
        lake.create_table("t", "a INT, b VARCHAR")
        if scope == "table":
            lake.set_option("write_deletion_vectors", True, table="t")
            oracle.execute("CALL lake.set_option('write_deletion_vectors', true, table_name => 't')")
        for start in (0, 1000, 2000, 3000):
            oracle.execute(f"INSERT INTO t SELECT i::INTEGER, 'x' FROM range({start}, {start + 500}) r(i)")
            insert(lake, start, start + 500)
        for sql, step in FIRST_DELETES:
            oracle.execute(sql)
            step(lake)
    oracle.detach()
    here, there = catalogs.dump(ours), catalogs.dump(theirs)
    for table in (
        "ducklake_delete_file",
        "ducklake_snapshot_changes",
        "ducklake_files_scheduled_for_deletion",
    ):
        left, right = ([_told(row) for row in _in_order(catalog[table])] for catalog in (here, there))
        assert left == right
    assert {row["format"] for row in here["ducklake_delete_file"]} == {"puffin"}
    sides = []
    for catalog, folder in ((here, "ours"), (there, "theirs")):
        rows = _in_order(catalog["ducklake_delete_file"])
        sides.append([(tmp_path / folder / "main/t" / row["path"]).read_bytes() for row in rows])
    assert sides[0] == sides[1] and len(sides[0]) == 5


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Delete files of one commit have ids in no certain order."""
    return sorted(rows, key=lambda row: (row.get("begin_snapshot", 0), row.get("data_file_id", 0)))


def _told(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if key not in ("schedule_start", "delete_file_id")}
    return kept | ({"path": row["path"][-7:]} if "path" in row else {})


class Vectors:
    """A lake with the option on, and what both users see of table `t` at each snapshot."""

    def __init__(self, lake: WrittenLake) -> None:
        self.lake = lake

    def seen(self) -> None:
        """Both see the same rows at every snapshot, and changes of each snapshot; ours also of all together."""
        ours = self.lake.ours
        last, first = ours.version, 2
        rows, feeds = {}, {}
        for version in range(first, last + 1):
            rows[version] = sorted(row[0] for row in ours.table("t", version=version).select("a").collect())
            frame = ours.table_changes("t", version, version).select("change_type", "a")
            feeds[version] = sorted(tuple(row) for row in frame.collect())
        whole = ours.table_changes("t", first, last).select("snapshot_id", "change_type", "a").collect()
        history = {row["snapshot_id"]: row["rows_deleted"] for row in ours["t"].history().collect()}
        for version in range(first, last + 1):
            at = f"t AT (VERSION => {version})"
            assert [row[0] for row in self.lake.ask(f"SELECT a FROM {at} ORDER BY a")] == rows[version]
            asked = f"SELECT change_type, a FROM lake.table_changes('t', {version}, {version}) ORDER BY ALL"
            assert self.lake.ask(asked) == feeds[version]
            assert history.get(version, 0) == sum(
                kind in ("delete", "update_preimage") for kind, _ in feeds[version]
            )
        expected = sorted((v, kind, a) for v, each in feeds.items() for kind, a in each)
        assert sorted(tuple(row) for row in whole) == expected


@pytest.fixture
def vectors(make_lake: Callable[..., WrittenLake]) -> Iterator[Vectors]:
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    lake.ours.set_option("write_deletion_vectors", True)
    lake.table("t", "a INT, b VARCHAR")
    insert(lake.ours, 0, 500)
    yield Vectors(lake)


def test_second_deletes_keep_every_snapshot(vectors: Vectors) -> None:
    """The extension's own second delete forgets when the rows of the first went; ours begins where the first ends."""
    lake = vectors.lake
    for condition in ("a < 50", "a BETWEEN 100 AND 130", "a BETWEEN 200 AND 220"):
        lake.ours["t"].delete(condition)
    with lake.ours.transaction():
        lake.ours["t"].delete("a BETWEEN 300 AND 310")
        lake.ours["t"].update({"b": "'new'"}, "a BETWEEN 320 AND 340")
        assert lake.ours.table("t").count() == 387
    vectors.seen()
    rows = lake.rows("ducklake_delete_file", "format", "begin_snapshot", "end_snapshot", "delete_count")
    assert rows == [
        ("puffin", 3, 4, 50),
        ("puffin", 4, 5, 81),
        ("puffin", 5, 6, 102),
        ("puffin", 6, None, 134),
    ]
    assert lake.rows("ducklake_files_scheduled_for_deletion") == []
    # The price: a feed of the extension over several deletes of a file tells of the earlier ones again.
    told = lake.ask("SELECT snapshot_id, count(*) FROM lake.table_changes('t', 3, 4) GROUP BY 1 ORDER BY 1")
    assert told == [(3, 50), (4, 81)]
    # What the transaction wrote in between is gone.
    assert sorted(lake.registered()) == files_below(lake.data_path)
    # The extension goes on, expires what ended, and rewrites.
    lake.ask("DELETE FROM t WHERE a BETWEEN 400 AND 410")
    assert lake.check("t") == 376
    lake.ask("CALL ducklake_expire_snapshots('lake', older_than => now() + INTERVAL 1 DAY)")
    lake.ask("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    lake.ask("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.0)")
    assert lake.check("t") == 376


def test_vectors_and_parquet_take_turns(vectors: Vectors) -> None:
    lake = vectors.lake
    for is_on, condition in (
        (False, "a < 50"),
        (False, "a BETWEEN 60 AND 70"),
        (True, "a BETWEEN 100 AND 130"),
        (False, "a BETWEEN 200 AND 220"),
    ):
        lake.ours.set_option("write_deletion_vectors", is_on)
        lake.ours["t"].delete(condition)
    ours = lake.ours
    with ours.transaction():
        ours.set_option("write_deletion_vectors", True)
        ours["t"].delete("a BETWEEN 230 AND 240")
        ours.set_option("write_deletion_vectors", False)
        ours["t"].delete("a BETWEEN 250 AND 260")
    ours.set_option("write_deletion_vectors", True)
    ours["t"].delete("a BETWEEN 300 AND 310")
    last = ours.version
    told = [ours.table("t", version=version).count() for version in range(2, last + 1)]
    assert told == [500, 450, 439, 408, 387, 365, 354]
    assert [
        lake.ask(f"SELECT count(*) FROM t AT (VERSION => {version})")[0][0] for version in range(2, last + 1)
    ] == told
    frame = lake.ours.table_changes("t", 3, last).groupBy("snapshot_id").count().orderBy("snapshot_id")
    assert [row["count"] for row in frame.collect()] == [50, 11, 31, 21, 22, 11]


def test_truncate_overwrite_and_restore_with_vectors(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("sqlite")
    lake.ours.set_option("write_deletion_vectors", True)
    lake.table("t", "a INT, b VARCHAR")
    insert(lake.ours, 0, 500)
    lake.ours["t"].delete("a IN (1, 2, 3)")  # inlined: the file must not end
    lake.ours["t"].delete("a BETWEEN 10 AND 39")
    version = lake.ours.version
    assert lake.ours["t"].truncate() == 467
    assert lake.check("t") == 0
    lake.ours["t"].restore(version)
    assert lake.check("t") == 467
    lake.ours["t"].overwrite(
        lake.ours.spark.range(100, 150, 1, 1).selectExpr("int(id) a", "'new' b"), "a >= 100"
    )
    assert lake.check("t") == 117
    formats = {row[0] for row in lake.rows("ducklake_delete_file", "format")}
    assert formats == {"puffin"}
    Vectors(lake).seen()


def test_merge_writes_vectors(vectors: Vectors) -> None:
    lake = vectors.lake
    source = lake.ours.spark.range(480, 520).selectExpr("int(id) a", "'m' b")
    lake.ours["t"].merge(source, "target.a = source.a").when_matched().delete().when_not_matched().insert(
        {"a": "source.a", "b": "source.b"}
    ).execute()
    vectors.seen()
    assert lake.rows("ducklake_delete_file", "format", "delete_count") == [("puffin", 20)]


def test_a_lost_race_leaves_vectors_right(vectors: Vectors) -> None:
    """Another commit comes first: the vector begins, and the one before it ends, with the snapshot that it got."""
    lake = vectors.lake
    lake.ours["t"].delete("a < 50")
    other = lake.attach()
    with lake.ours.transaction():
        lake.ours["t"].delete("a BETWEEN 100 AND 130")
        other.create_table("u", "a INT")
    other.close()
    assert lake.ours.version == 5
    rows = lake.rows("ducklake_delete_file", "begin_snapshot", "end_snapshot", "delete_count")
    assert rows == [(3, 5, 50), (5, None, 81)]
    vectors.seen()
