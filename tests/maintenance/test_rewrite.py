"""`rewrite_data_files`, once by the extension and once by us, and where the extension cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import InvalidInputError
from tests.interop.oracle import Oracle
from tests.maintenance.compaction_twins import Twins, filled, live_files, numbers, own_lake, unknown_files

pytestmark = pytest.mark.spark

HISTORY = (
    "CREATE TABLE r(i INT, s VARCHAR, f FLOAT)",
    *(f"INSERT INTO r SELECT {n} * 1000 + i, md5(i::VARCHAR), i FROM range(200) r(i)" for n in range(3)),
    "DELETE FROM r WHERE i % 1000 < 100",
    "DELETE FROM r WHERE i BETWEEN 2000 AND 3000",
    "CREATE TABLE half(i INT, s VARCHAR)",
    *(f"INSERT INTO half SELECT {n} * 1000 + i, md5(i::VARCHAR) FROM range(200) r(i)" for n in range(2)),
    "DELETE FROM half WHERE i < 150",
    "DELETE FROM half WHERE i BETWEEN 1000 AND 1010",
    "CALL lake.set_option('data_inlining_row_limit', 20)",
    "CREATE TABLE gone(i INT)",
    "INSERT INTO gone SELECT i FROM range(30) r(i)",
    "INSERT INTO gone SELECT 100 + i FROM range(30) r(i)",
    "DELETE FROM gone WHERE i < 15",
    "DELETE FROM gone WHERE i < 30",
    "CREATE TABLE mixed(i INT)",
    "INSERT INTO mixed SELECT i FROM range(300) r(i)",
    "DELETE FROM mixed WHERE i BETWEEN 10 AND 200",
    "DELETE FROM mixed WHERE i < 5",
    "DELETE FROM mixed WHERE i > 270",
)
TABLES = ("r", "half", "gone", "mixed")


def test_both_rewrite_the_same_files_and_tell_the_same_story(
    oracle: Oracle, spark: SparkSession, tmp_path: Path
) -> None:
    twins = Twins(oracle, spark, tmp_path, *HISTORY)
    before = twins.story(1, *TABLES)
    with twins.lake() as lake:
        ours = [
            tuple(row)[:4]
            for table in TABLES
            for row in lake.rewrite_data_files(table, delete_threshold=0.5).collect()
        ]
    theirs = [
        row
        for table in TABLES
        for row in twins.ask(
            f"CALL ducklake_rewrite_data_files('lake', '{table}', delete_threshold => 0.5)", side=0
        )
    ]
    assert ours == theirs == [("main", table, 2 if table == "r" else 1, table != "gone") for table in TABLES]
    # Which of the delete files of one statement has which id is chance. Bounds of tables: see the next test.
    twins.check_catalogs(
        ducklake_delete_file=["delete_file_id", "end_snapshot"],
        ducklake_table_column_stats=["min_value", "max_value"],
    )
    after = twins.story(1, *TABLES)
    assert [each for each in after if each[1] <= before[-1][1]] == before
    assert after == twins.story(0, *TABLES)
    mixed = twins.plain_story("mixed", *[each[1] for each in after if each[0] == "mixed"][-2:])
    ours_told = twins.our_story("mixed", *(each[1] for each in mixed))
    # With a rewrite, the extension tells of rows again that inlined deletes removed before it.
    moved = [change for change in mixed[-1][3] if "'delete'" not in change]
    assert ours_told == [mixed[0], (*mixed[1][:3], moved)]
    assert len(moved) < len(mixed[-1][3])


def test_bounds_of_the_table_hold_for_older_snapshots(
    oracle: Oracle, spark: SparkSession, tmp_path: Path
) -> None:
    """DuckDB packs values by the table's bounds when it sorts: after a rewrite of the extension, 0 becomes 65536."""
    twins = Twins(
        oracle,
        spark,
        tmp_path,
        "CREATE TABLE t(k INT, n INT)",
        "INSERT INTO t SELECT i, 0 FROM range(12) r(i)",
        "INSERT INTO t SELECT i, 0 FROM range(300, 312) r(i)",
        "DELETE FROM t WHERE k < 6",
    )
    with twins.lake() as lake:
        lake.rewrite_data_files(delete_threshold=0.1)
    twins.ask("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.1)", side=0)
    before = [[(k,) for k in (*range(12), *range(300, 312))]] * 2
    told = [twins.ask("SELECT k FROM t AT (VERSION => 3) ORDER BY k", side=side) for side in (1, 0)]
    assert told[0] == before[0]
    assert told[1] != before[1], "the extension is mended: bounds may be narrowed as it does"
    with twins.lake() as lake:
        lake["t"].compact(order_by="n")
    assert twins.ask("SELECT k FROM t AT (VERSION => 3) ORDER BY k") == before[0]


def test_rows_in_the_catalog_that_are_older_than_a_column(spark: SparkSession, tmp_path: Path) -> None:
    with own_lake(tmp_path, spark) as lake:
        table = filled(lake, files=2)
        table.insert([{"n": 100, "k": "inlined"}])
        lake.sql("ALTER TABLE t ADD COLUMN more INT DEFAULT 7")
        table.delete("n < 12")
        assert lake.rewrite_data_files("t", dry_run=True).count() == 0
        for wrong in (1.1, -0.1, "x", True):
            with pytest.raises(InvalidInputError, match="between 0 and 1"):
                table.rewrite_data_files(delete_threshold=wrong)  # type: ignore[arg-type]
        lake.set_option("rewrite_delete_threshold", 0.6, table="t")
        [row] = lake.rewrite_data_files().collect()
        assert (row.files_processed, row.files_created, row.rows) == (1, 1, 8)
        assert numbers(table) == [*range(12, 40), 100]
        assert {row.more for row in table.to_df().collect()} == {7}
        assert sorted(row.n for row in table.to_df(version=3).collect()) == list(range(40))
        row_ids = lake.table("t", virtual_columns=["rowid"]).where("n < 40").collect()
        assert all(row.rowid == row.n for row in row_ids)
        assert live_files(lake, "t") == 2 and unknown_files(lake) == set()
        # Merged with the other file, they are of another version of the schema each: nothing to do.
        assert lake.merge_adjacent_files().count() == 0
