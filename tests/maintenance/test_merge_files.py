"""`merge_adjacent_files`, once by the extension and once by us: results, catalog, rows and changes are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import DuckLakeError, InvalidInputError, Lake, TransactionError
from ducklake_spark.errors import FileError
from ducklake_spark.write.compaction import Compaction
from tests.interop.oracle import Oracle
from tests.maintenance.compaction_twins import (
    Twins,
    filled,
    live_files,
    numbers,
    own_lake,
    unknown_files,
)

pytestmark = pytest.mark.spark

HISTORY = (
    "CREATE TABLE t(i INT, s VARCHAR)",
    *(
        f"INSERT INTO t SELECT i, md5(i::VARCHAR) FROM range({n}) r(i)"
        for n in (300, 100, 100, 200, 500, 100, 50, 700)
    ),
    "CALL lake.set_option('target_file_size', '20KB', table_name => 't')",
    "CREATE TABLE moved(i INT, v INT)",
    *(f"INSERT INTO moved SELECT i + {n}, 0 FROM range(20) r(i)" for n in (0, 100, 200, 300)),
    "UPDATE moved SET v = 1 WHERE i IN (3, 5)",
    "UPDATE moved SET v = 2 WHERE i IN (203, 205)",
    "CREATE TABLE p(i INT, k VARCHAR)",
    "ALTER TABLE p SET PARTITIONED BY (k)",
    *(
        f"INSERT INTO p SELECT {n} + i, CASE WHEN i % 2 = 0 THEN 'a b' END FROM range(10) r(i)"
        for n in (0, 10, 20)
    ),
    "CREATE TABLE a(i INT, st STRUCT(x INT, y VARCHAR))",
    "INSERT INTO a VALUES (1, {'x': 1, 'y': 'a'})",
    "INSERT INTO a VALUES (2, {'x': 2, 'y': 'b'})",
    "ALTER TABLE a ADD COLUMN j INT DEFAULT 5",
    "INSERT INTO a VALUES (3, NULL, 6)",
    "INSERT INTO a VALUES (4, {'x': 3, 'y': NULL}, 7)",
    "ALTER TABLE a RENAME COLUMN j TO jj",
    "CREATE TABLE quiet(i INT)",
    "INSERT INTO quiet VALUES (1)",
    "INSERT INTO quiet VALUES (2)",
    "CALL lake.set_option('auto_compact', false, table_name => 'quiet')",
)
TABLES = ("t", "moved", "p", "a", "quiet")


@pytest.fixture
def twins(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> Twins:
    return Twins(oracle, spark, tmp_path, *HISTORY)


def test_both_merge_the_same_files_and_tell_the_same_story(twins: Twins) -> None:
    before = twins.story(1, *TABLES)
    theirs = []
    with twins.lake() as lake:
        ours = []
        for table in TABLES:
            ours += [tuple(row)[:4] for row in lake.merge_adjacent_files(table).collect()]
    for table in TABLES:
        theirs += twins.ask(f"CALL ducklake_merge_adjacent_files('lake', '{table}')", side=0)
    assert sorted(ours) == sorted(theirs)
    twins.check_catalogs()
    after = twins.story(1, *TABLES)
    assert [each for each in after if each[1] <= before[-1][1]] == before
    assert after == twins.story(0, *TABLES)
    versions = (14, 16, after[-1][1])
    assert twins.our_story("moved", *versions) == twins.plain_story("moved", *versions)


def test_bounds_choose_the_same_files(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    twins = Twins(oracle, spark, tmp_path, *HISTORY[:10])
    given = (
        "min_file_size => 2500",
        "max_file_size => 3000",
        "max_compacted_files => 1",
        "min_file_size => 1500, max_file_size => 9000, max_compacted_files => 2",
    )
    outputs = []
    for arguments in given:
        call = f"CALL ducklake_merge_adjacent_files('lake', 't', {arguments})"
        theirs = twins.ask(call, side=0)
        with twins.lake() as lake:
            planned = lake.sql(call[:-1] + ", dry_run => true)").collect()
            ours = lake.sql(call).collect()
        assert [tuple(row) for row in ours] == [tuple(row) for row in planned] == theirs, arguments
        twins.check_catalogs()
        outputs.append(len(theirs))
    assert max(outputs) > 1


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with own_lake(tmp_path, spark) as lake:
        yield lake


def test_reports_dry_runs_and_older_data_frames(lake: Lake) -> None:
    table = filled(lake)
    before = table.to_df()
    planned = table.merge_adjacent_files(dry_run=True).collect()
    assert [tuple(row)[:5] for row in planned] == [("main", "t", 4, 1, 80)] and live_files(lake, "t") == 4
    [row] = lake.merge_adjacent_files().collect()
    assert (row.files_processed, row.files_created, row.rows) == (4, 1, 80)
    assert row.bytes_before == planned[0].bytes_before > row.bytes_after > 0
    assert live_files(lake, "t") == 1
    assert sorted(each.n for each in before.collect()) == list(range(80))
    assert before.where("n = 33").count() == 1
    assert lake.merge_adjacent_files().collect() == []
    assert unknown_files(lake) == set()


def test_in_sql(lake: Lake) -> None:
    filled(lake)
    lake.sql("CREATE SCHEMA s")
    filled(lake, "s.t")
    for wrong in ("max_file_size => 0", "min_file_size => 5, max_file_size => 5", "max_compacted_files => NULL",
                  "max_compacted_files => -1", "min_file_size => 'x'", "table_name => 'nope'"):  # fmt: skip
        with pytest.raises(DuckLakeError):
            lake.sql(f"CALL ducklake_merge_adjacent_files('own', {wrong})")
    assert lake.sql("CALL own.merge_adjacent_files('T', schema => 'S')").collect() == [("s", "t", 4, 1)]
    plan = lake.sql("SELECT files_processed FROM ducklake_merge_adjacent_files('own', 't')")
    assert plan.collect() == [(4,)] and plan.collect() == [(4,)]
    assert lake.sql("CALL ducklake_rewrite_data_files('own')").collect() == []
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        lake.sql("CALL ducklake_rewrite_data_files('own', delete_threshold => 1.5)")


def test_partitions_are_chosen_by_a_condition(lake: Lake) -> None:
    table = filled(lake, partitioned_by=["k"], files=3)
    with pytest.raises(InvalidInputError, match='partitioned, "k"'):
        table.merge_adjacent_files(where="n > 3")
    assert [row.files_processed for row in table.merge_adjacent_files(where="k = 'a'").collect()] == [3]
    assert live_files(lake, "t") == 4
    assert numbers(table) == list(range(60))
    assert table.to_df().where("k = 'a'").count() == 30
    with pytest.raises(InvalidInputError, match="not partitioned"):
        filled(lake, "plain", files=2).merge_adjacent_files(where="k = 'a'")


@pytest.mark.parametrize("rows", [1, 15], ids=["inlined delete", "delete file"])
def test_a_delete_beside_a_merge_is_not_lost(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    table, run = filled(lake), Compaction.run
    with own_lake(tmp_path, lake.spark) as other:

        def beside(self: Compaction, *given: Any) -> Any:
            made = run(self, *given)
            monkeypatch.setattr(Compaction, "run", run)
            other["t"].delete(f"n < {rows}")
            other["t"].insert([{"n": 100, "k": "c"}])
            return made

        monkeypatch.setattr(Compaction, "run", beside)
        [row] = table.merge_adjacent_files().collect()
    assert row.files_processed == 3  # the file that lost rows is left alone by the second attempt
    assert numbers(table) == [*range(rows, 80), 100]
    assert unknown_files(lake) == set()


def test_in_transactions(lake: Lake) -> None:
    table = filled(lake)
    with pytest.raises(TransactionError, match="either make changes or compact"), lake.transaction():
        table.insert([{"n": 1, "k": "x"}])
        table.merge_adjacent_files()
    assert live_files(lake, "t") == 4 and unknown_files(lake) == set()
    with lake.transaction():
        table.merge_adjacent_files()
        assert numbers(table) == list(range(80))
    assert live_files(lake, "t") == 1
    assert numbers(table) == list(range(80))


def test_a_missing_file_is_named_and_nothing_changes(lake: Lake) -> None:
    table = filled(lake)
    path = lake.list_files("t").first()[0]
    Path(path).rename(path + ".away")
    with pytest.raises(FileError, match="is missing"):
        table.merge_adjacent_files()
    assert live_files(lake, "t") == 4
    Path(path + ".away").rename(path)
    table.merge_adjacent_files()
    assert numbers(table) == list(range(80))
