"""`Table.restore` and `Table.history`: rows, row ids and schema of an old snapshot, as the extension reads them after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import NotFoundError, SnapshotNotFoundError, TransactionError, TypeChangeError
from tests.interop.oracle import Oracle
from tests.scan.lakes import in_order
from tests.write.lakes import WrittenLake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

Make = Callable[..., WrittenLake]


@pytest.fixture
def lake(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> Iterator[WrittenLake]:
    made = WrittenLake(oracle, spark, f"ducklake:duckdb:{tmp_path}/lake.duckdb", tmp_path / "data")
    yield made
    made.close()


def rows(lake: WrittenLake, version: int | None = None) -> list[str]:
    """Rows with their ids, as the extension reads them."""
    at = "" if version is None else f" AT (VERSION => {version})"
    return in_order(lake.ask(f"SELECT rowid, * FROM t{at}"))


CHANGES = [
    "CREATE TABLE t(a INT, b VARCHAR, st STRUCT(x INT, y VARCHAR))",  # 1
    "INSERT INTO t SELECT i, 'v' || i, {'x': i, 'y': 'y'} FROM range(0, 60) r(i)",  # 2
    "INSERT INTO t SELECT i, 'in', NULL FROM range(100, 104) r(i)",  # 3: inlined
    "DELETE FROM t WHERE a IN (1, 2)",  # 4
    "DELETE FROM t WHERE a BETWEEN 10 AND 25",  # 5
    "DELETE FROM t WHERE a BETWEEN 30 AND 41",  # 6
    "UPDATE t SET b = 'few' WHERE a IN (5, 101)",  # 7
    "UPDATE t SET b = 'many' WHERE a BETWEEN 42 AND 55",  # 8
    "ALTER TABLE t RENAME COLUMN b TO bb",  # 9
    "ALTER TABLE t ADD COLUMN c INT DEFAULT 7",  # 10
    "INSERT INTO t SELECT i, 'w' || i, NULL, i FROM range(200, 220) r(i)",  # 11
    "ALTER TABLE t DROP COLUMN bb",  # 12
    "INSERT INTO t VALUES (300, NULL, 1), (301, NULL, 2)",  # 13
    "CALL ducklake_flush_inlined_data('lake')",  # 14
    "DELETE FROM t WHERE a >= 200 AND a < 220",  # 15: a file ends
    "INSERT INTO t SELECT i, NULL, i FROM range(400, 420) r(i)",  # 16
    "INSERT INTO t SELECT i, NULL, i FROM range(420, 440) r(i)",  # 17
    "CALL ducklake_merge_adjacent_files('lake')",  # 18
    "TRUNCATE t",  # 19
]


def test_restored_rows_and_columns_are_those_of_the_old_snapshot(lake: WrittenLake) -> None:
    for statement in CHANGES:
        lake.ask(statement)
    wanted = {version: rows(lake, version) for version in (4, 8, 11, 13, 18)}
    files = len(lake.files())
    for version in (18, 4, 13, 8, 11):
        before = lake.ours.version
        types = lake.ours.at(version=version)["t"].types
        assert lake.ours["t"].restore(version=version) == before + 1
        assert lake.ours["t"].types == types
        assert rows(lake) == wanted[version], f"restored to {version}"
        assert (
            in_order(lake.ours.table("t", virtual_columns=["rowid"]).select("rowid", *types).collect())
            == (wanted[version])
        )
    # Nothing of the past has changed, and the extension goes on with the lake.
    assert {version: rows(lake, version) for version in wanted} == wanted
    assert len(lake.files()) > files
    lake.ask(
        "INSERT INTO t SELECT i, 'more', NULL, 1 FROM range(500, 530) r(i); UPDATE t SET c = c + 1 WHERE a < 60"
    )
    lake.ask("ALTER TABLE t ADD COLUMN d INT; CALL ducklake_merge_adjacent_files('lake')")
    lake.ask(
        "CALL ducklake_flush_inlined_data('lake'); CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)"
    )
    assert lake.check("t") > 60


def test_used_files_survive_the_expiry_of_their_first_snapshots(lake: WrittenLake) -> None:
    lake.ask("CREATE TABLE t(a INT, p INT); ALTER TABLE t SET PARTITIONED BY (p)")
    lake.ask("INSERT INTO t SELECT i, i % 2 FROM range(0, 50) r(i)")  # 3
    lake.ask("DELETE FROM t WHERE a BETWEEN 20 AND 45")  # 4
    lake.ask("INSERT INTO t SELECT i, 5 FROM range(100, 130) r(i); TRUNCATE t")  # 5, 6
    before = lake.ask("SELECT rowid, a FROM t AT (VERSION => 4) ORDER BY ALL")
    inodes = {path.stat().st_ino for path in lake.data_path.rglob("*.parquet")}
    assert lake.ours["t"].restore(version=4) == 7
    added = [path for path in lake.data_path.rglob("*.parquet") if path.stat().st_nlink > 1]
    assert added and {path.stat().st_ino for path in added} < inodes  # no row was written again
    assert lake.ours["t"].restore(version=7) == 7, "nothing differs"
    lake.ask("CALL ducklake_expire_snapshots('lake', versions => [1, 2, 3, 4, 5, 6])")
    lake.ask("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    lake.ask("CALL ducklake_delete_orphaned_files('lake', cleanup_all => true)")
    assert lake.ask("SELECT rowid, a FROM t ORDER BY ALL") == before
    assert lake.ask("SELECT count(*) FROM t WHERE p = 1") == [(12,)]
    assert (
        sorted((r["rowid"], r.a) for r in lake.ours.table("t", virtual_columns=["rowid"]).collect()) == before
    )


def test_restore_by_time_in_a_transaction_and_what_it_refuses(lake: WrittenLake) -> None:
    lake.ask("CREATE TABLE t(a INT NOT NULL, b INT); INSERT INTO t VALUES (1, 1), (2, 2)")
    lake.ask(
        "COMMENT ON COLUMN t.b IS 'old'; ALTER TABLE t SET SORTED BY (b DESC); INSERT INTO t VALUES (3, 3)"
    )  # 5
    [(time,)] = lake.ask("SELECT snapshot_time FROM lake.snapshots() WHERE snapshot_id = 4")
    lake.ask(
        "COMMENT ON COLUMN t.b IS 'new'; ALTER TABLE t RESET SORTED BY; ALTER TABLE t ALTER a DROP NOT NULL"
    )
    lake.ask("INSERT INTO t VALUES (NULL, 4); CREATE TABLE u(a INT); ALTER TABLE t RENAME TO tt")
    ours = lake.ours
    table = ours["tt"]
    with ours.transaction(author="me", message="back"):
        assert table.restore(timestamp=time) is None
        table.insert([{"a": 9}])
    assert sorted((row.a, row.b) for row in table.to_df().collect()) == [(1, 1), (2, 2), (9, None)]
    definition = table.definition
    assert [(c.nulls_allowed, c.comment) for c in definition.columns] == [(False, None), (True, "old")]
    assert table.sorted_by == ["b DESC NULLS LAST"]
    version = ours.version
    with pytest.raises(NotFoundError, match="was not there at version 2"):
        ours["u"].restore(version=2)
    with pytest.raises(SnapshotNotFoundError):
        table.restore(version=99)
    table.set_type("b", "bigint")
    with pytest.raises(TypeChangeError, match='"b" was int32 then and became int64'):
        table.restore(version=version)
    with pytest.raises(TransactionError, match="has changed it"), ours.transaction():
        table.insert([{"a": 1}])
        table.restore(version=version)
    assert ours.version == version + 1


def test_history_says_what_each_snapshot_did(lake: WrittenLake) -> None:
    for statement in CHANGES:
        lake.ask(statement)
    lake.ask(
        "BEGIN; CALL lake.set_commit_message('Ada', 'why', extra_info => 'more'); INSERT INTO t VALUES (1, NULL, 2); COMMIT"
    )
    lake.ask("CREATE TABLE u(a INT); ALTER TABLE t RENAME TO t2; INSERT INTO u VALUES (1)")
    history = lake.ours["t2"].history().collect()
    found: dict[int, Any] = {row.snapshot_id: row for row in history}
    assert [row.snapshot_id for row in history] == [22, *range(20, 0, -1)]
    assert (found[20].author, found[20].commit_message, found[20].commit_extra_info) == ("Ada", "why", "more")
    assert [list(found[i].changes) for i in (1, 2, 3, 5, 7, 8, 9, 14, 18, 22)] == [
        ["created_table"], ["inserted_into_table"], ["inlined_insert"], ["deleted_from_table"],
        ["inlined_insert", "inlined_delete"], ["inserted_into_table", "deleted_from_table"], ["altered_table"],
        ["deleted_from_table", "inline_flush"], ["merge_adjacent"], ["created_table"],
    ]  # fmt: skip
    counts = {i: (row.rows_inserted, row.rows_deleted) for i, row in found.items()}
    truth = {
        version: tuple(
            lake.ask(
                f"SELECT count(*) FROM ducklake_table_{kind}('lake', 'main', 't', {version}, {version})"
            )[0][0]
            for kind in ("insertions", "deletions")
        )
        for version in range(1, 21)
    }
    for version in range(1, 21):
        for known, true in zip(counts[version], truth[version], strict=True):
            assert known is None or known == true, f"{version}: {counts[version]} but {truth[version]}"
    assert counts[2] == (60, 0) and counts[11] == (20, 0) and counts[15] == (0, 20) and counts[20] == (1, 0)
