"""CHECKPOINT beside the extension's, and what `health()` sees and `maintain()` does about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import InvalidInputError, Lake, NotFoundError, ReadOnlyError
from tests.interop.oracle import Oracle
from tests.maintenance.twins import Twins
from tests.write.lakes import files_below

pytestmark = pytest.mark.spark
OLD = 1_600_000_000
"""A time in 2020."""


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Any:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as made:
        yield made


def test_the_same_jobs_as_the_extension(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    twins = Twins(oracle, tmp_path)
    twins.run(
        "CALL lake.set_option('expire_older_than', '0 seconds')",
        "CALL lake.set_option('delete_older_than', '0 seconds')",
        "CREATE TABLE t(a INT)",
        *(f"INSERT INTO t SELECT range FROM range({start}, {start + 20})" for start in (0, 20, 40)),
        "INSERT INTO t VALUES (1000)",
        "DELETE FROM t WHERE a < 20",
        "CREATE TABLE kept(a INT)",
        "CALL lake.set_option('auto_compact', false, table_name => 'kept')",
        *("INSERT INTO kept SELECT range FROM range(20)" for _ in range(2)),
    )
    twins.on(twins.theirs, "CHECKPOINT lake")
    with twins.lake(spark=spark) as lake:
        lake.sql("CHECKPOINT lake")
        assert lake.table("t").count() == 41
    twins.assert_same(
        {
            "ducklake_files_scheduled_for_deletion": ["data_file_id", "path", "schedule_start"],
            # Flushed rows have their ids with them, and we keep them so when files are merged.
            "ducklake_data_file": ["file_size_bytes", "footer_size", "row_id_start"],
        }
    )
    ours, theirs = (files_below(Path(f"{tmp_path}/{name}.ducklake.files")) for name in ("ours", "them"))
    assert len(ours) == len(theirs)


def test_a_transaction_goes_on_beside_it(lake: Lake) -> None:
    table = lake.create_table("t", {"a": "int"})
    table.insert([(1,)])
    with lake.transaction():
        table.insert([(2,)])
        done = {row.job: row.results for row in lake.checkpoint().collect()}
        assert done["flush_inlined_data"] == 1
    assert sorted(row.a for row in lake.table("t").collect()) == [1, 2]
    assert [tuple(row.changes) for row in lake.snapshots().collect()][-2:] == [
        ("flushed_inlined",),
        ("inlined_insert",),
    ]


def test_a_lake_that_needs_something_of_everything(lake: Lake, tmp_path: Path) -> None:
    lake.set_option("delete_older_than", "1 hour")
    small = lake.create_table('odd"name', {"a": "int"})
    for start in range(0, 200, 20):
        small.insert([(number,) for number in range(start, start + 20)])
    inlined = lake.create_table("inlined", {"a": "int"})
    inlined.set_option("data_inlining_row_limit", 2000)
    inlined.insert([(number,) for number in range(1500)])
    deleted = lake.create_table("deleted", {"a": "int"})
    deleted.insert([(number,) for number in range(100)])
    deleted.delete("a < 60")
    orphan = tmp_path / "m.ducklake.files" / "main" / "deleted" / "left.parquet"
    orphan.write_bytes(b"PAR1")
    os.utime(orphan, (OLD, OLD))

    before = lake.version
    found = {row.table_name: row for row in lake.health().collect()}
    assert lake.version == before
    assert found['odd"name'].small_files == 10
    assert found["inlined"].inlined_rows == 1500
    assert (found["deleted"].deleted_rows, found["deleted"].delete_ratio, found["deleted"].orphans) == (
        60,
        0.6,
        1,
    )
    assert (found[None].files, found[None].orphans) == (11, 1)
    planned = [(row.table_name, row.job, row.results) for row in lake.maintain(dry_run=True).collect()]
    assert planned == [
        ("inlined", "flush_inlined_data", None),
        ("deleted", "rewrite_data_files", None),
        ('odd"name', "merge_adjacent_files", None),
        (None, "delete_orphaned_files", None),
    ]
    calls = [call for row in lake.health().collect() if row.advice for call in row.advice.split("; ")]
    assert sorted(calls) == sorted(row.call for row in lake.maintain(dry_run=True).collect())
    assert lake.version == before
    for call in calls:
        eval(call, {"lake": lake})  # a reader copies them
    assert lake.maintain().collect() == []
    assert not orphan.exists()
    assert [lake.table(f'"{name}"').count() for name in ('odd""name', "inlined", "deleted")] == [
        200,
        1500,
        40,
    ]
    lake.set_option("expire_older_than", "0 seconds")
    [row] = lake.maintain().collect()
    assert (row.job, lake.snapshots().count()) == ("expire_snapshots", 1)
    assert {row.table_name: row.old_files for row in lake.health().collect()}["deleted"] == 0


def test_tables_that_are_left_alone_need_nothing(lake: Lake) -> None:
    table = lake.create_table("t", {"a": "int"})
    table.set_option("auto_compact", False)
    for start in range(0, 200, 20):
        table.insert([(number,) for number in range(start, start + 20)])
    assert [row.advice for row in lake.health().collect()] == [None, None]
    assert lake.maintain().collect() == []


def test_mistakes(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("t", {"a": "int"}).insert([(1,)])
    version = lake.version
    with pytest.raises(NotFoundError, match='no attached lake "nope"'):
        lake.sql("CHECKPOINT nope")
    with pytest.raises(InvalidInputError, match="EXPLAIN"):
        lake.sql("EXPLAIN SELECT * FROM ducklake_flush_inlined_data('lake')", "duckdb")
    pinned = lake.at(version=version)
    for job in (pinned.checkpoint, pinned.maintain):
        with pytest.raises(ReadOnlyError):
            job()
    assert pinned.health().count() == 2
    assert lake.version == version
