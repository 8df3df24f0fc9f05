"""Change feeds of our own lakes: what they read, and net changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.engine.feeds import feed_of
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.spark.file_index import explain

pytestmark = pytest.mark.spark


@pytest.fixture
def feed_lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with ducklake_spark.attach(
        f"ducklake:sqlite:{tmp_path}/m.sqlite", name="lake", data_path=str(tmp_path / "data"), spark=spark
    ) as lake:
        yield lake


def test_a_feed_reads_only_the_files_of_its_snapshots(feed_lake: Lake) -> None:
    table = feed_lake.create_table("t", {"a": "int"})
    table.set_option("data_inlining_row_limit", 0)
    for i in range(97):
        table.insert([{"a": 10 * i + j} for j in range(3)])
    assert table.delete("a = 1") == 1  # 99
    assert table.delete("a in (960, 961)") == 2  # 100
    table.insert([{"a": 2000}, {"a": 2001}])  # 101
    last = feed_lake.table_changes("t", 101, 101)
    assert explain(last) == "inserted in lake.main.t at snapshot 101 since 101: 1 of 1 files"
    assert len(last.inputFiles()) == 1
    assert sorted((row.change_type, row.a) for row in last.collect()) == [("insert", 2000), ("insert", 2001)]
    # One data file and one delete file, although an older delete file is there.
    deletes = feed_lake.table_changes("t", 100, 100)
    assert len(deletes.inputFiles()) == 2
    assert sorted((row.change_type, row.a) for row in deletes.collect()) == [("delete", 960), ("delete", 961)]
    feed = feed_of(scope_of(feed_lake), "t", 50, 99)
    assert (len(feed.inserted), len(feed.deleted), len(feed.positions.files)) == (49, 1, 1)
    net = feed_of(scope_of(feed_lake), "t", 2, 101, net=True)
    assert (len(net.inserted), len(net.deleted), len(net.later_positions.files)) == (98, 0, 2)


def shown(lake: Lake, start: int, end: int) -> list[tuple[Any, ...]]:
    rows = lake.table_changes("t", start, end, net=True).collect()
    return sorted((row.change_type, row.a, row.b, row.snapshot_id) for row in rows)


@pytest.mark.parametrize("limit", [0, 10])
def test_net_changes(feed_lake: Lake, limit: int) -> None:
    table = feed_lake.create_table("t", {"a": "int", "b": "varchar"})
    table.set_option("data_inlining_row_limit", limit)
    table.insert([(i, "old") for i in range(6)])  # 2
    table.insert([(i, "new") for i in range(10, 14)])  # 3
    table.update({"b": "'u1'"}, "a in (1, 2, 3, 11)")  # 4
    table.update({"b": "'u2'"}, "a in (2, 3)")  # 5
    table.delete("a in (3, 4, 12)")  # 6
    table.add_column("c", "int", default=1)  # 7
    table.update({"c": "2"}, "a = 13")  # 8
    table.delete("a = 11")  # 9
    assert shown(feed_lake, 3, 9) == [
        ("delete", 3, "old", 4),
        ("delete", 4, "old", 6),
        ("insert", 10, "new", 3),
        ("insert", 13, "new", 8),
        ("update_postimage", 1, "u1", 4),
        ("update_postimage", 2, "u2", 5),
        ("update_preimage", 1, "old", 4),
        ("update_preimage", 2, "old", 4),
    ]
    assert [row[:3] for row in shown(feed_lake, 4, 5)] == [
        ("update_postimage", 1, "u1"), ("update_postimage", 2, "u2"), ("update_postimage", 3, "u2"),
        ("update_postimage", 11, "u1"), ("update_preimage", 1, "old"), ("update_preimage", 2, "old"),
        ("update_preimage", 3, "old"), ("update_preimage", 11, "new"),
    ]  # fmt: skip
    assert [row[:2] for row in shown(feed_lake, 2, 9)] == [("insert", a) for a in (0, 1, 2, 5, 10, 13)]
    assert shown(feed_lake, 7, 7) == []
    # The net changes lead from the rows before to the rows after.
    rows = {row["rowid"]: row.b for row in feed_lake.table("t", 3, virtual_columns=["rowid"]).collect()}
    changes = feed_lake.table_changes("t", 4, 9, net=True).collect()
    for row in sorted(changes, key=lambda row: row.change_type in ("insert", "update_postimage")):
        if row.change_type in ("delete", "update_preimage"):
            assert rows.pop(row["rowid"]) == row.b
        else:
            assert row["rowid"] not in rows
            rows[row["rowid"]] = row.b
    assert rows == {row["rowid"]: row.b for row in feed_lake.table("t", virtual_columns=["rowid"]).collect()}
