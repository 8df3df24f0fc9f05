"""`Table.compact`: rows with near values come into the same files, and nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_spark import InvalidInputError, Lake, NotFoundError
from ducklake_spark.spark.file_index import explain
from tests.maintenance.compaction_twins import filled, live_files, own_lake, unknown_files

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with own_lake(tmp_path, spark) as lake:
        yield lake


def files_read(frame: DataFrame) -> int:
    found = re.search(r": (\d+) of (\d+) files$", explain(frame), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_pruning_works_on_each_column_of_a_z_order(lake: Lake) -> None:
    lake.sql("CREATE TABLE p (x INT, y STRING, d DATE)")
    lake.set_option("target_file_size", "20KB", table="p")
    table = lake["p"]
    rows = lake.spark.range(20_000).selectExpr(
        "cast(hash(id) % 1000 as int) x",
        "case when id % 50 > 0 then md5(cast(hash(id, 1) % 1000 as string)) end y",
        "date_add(date'2020-01-01', cast(id % 365 as int)) d",
    )
    table.insert(rows.repartition(4))
    table.delete("x = 0")
    before = lake.table("p", virtual_columns=["rowid"])
    told = sorted(map(str, before.collect()))
    version = lake.current_snapshot().first()[0]
    [row] = table.compact(zorder_by=["x", "y"]).collect()
    assert row.files_created == live_files(lake, "p") > 8 and row.rows == len(told)
    after = lake.table("p", virtual_columns=["rowid"])
    assert sorted(map(str, after.collect())) == told
    assert sorted(map(str, lake.table("p", version=version, virtual_columns=["rowid"]).collect())) == told
    y = after.where("y is not null").first().y
    for condition in ("x = 500", f"y = '{y}'"):
        assert files_read(table.to_df().where(condition)) <= row.files_created / 2, condition
    [again] = table.compact(order_by="d").collect()
    assert files_read(table.to_df().where("d = date'2020-06-01'")) <= 2
    assert again.rows == len(told) and unknown_files(lake) == set()
    changes = lake.table_changes("p", version + 1, lake.current_snapshot().first()[0])
    assert {each.change_type for each in changes.collect()} == {"update_preimage", "update_postimage"}


def test_partitions_stay(lake: Lake) -> None:
    table = filled(lake, partitioned_by=["k"], files=3)
    table.insert([{"n": 900, "k": "a"}])  # in the catalog, where it stays
    assert [
        tuple(row)[2:5] for row in table.compact(order_by=["n"], where="k = 'a'", dry_run=True).collect()
    ] == [(3, 1, 30)]
    assert [tuple(row)[2:5] for row in table.compact(order_by=["n"], where="k = 'a'").collect()] == [
        (3, 1, 30)
    ]
    assert live_files(lake, "t") == 4
    assert files_read(table.to_df().where("k = 'a'")) == 1
    assert table.to_df().where("k = 'a'").count() == 31
    assert table.to_df().where("k = 'b'").count() == 30
    assert any(path.parent.name == "k=a" for path in Path(lake.data_path).rglob("*.parquet"))


def test_mistakes(lake: Lake) -> None:
    table = filled(lake, files=2)
    for wrong, kind, words in (
        ({}, InvalidInputError, "either order_by or zorder_by"),
        ({"order_by": "n", "zorder_by": "k"}, InvalidInputError, "either"),
        ({"order_by": []}, InvalidInputError, "list of names"),
        ({"zorder_by": [1]}, InvalidInputError, "list of names"),
        ({"zorder_by": ["n"] * 9}, InvalidInputError, "at most 8"),
        ({"order_by": "nn"}, NotFoundError, "nn"),
        ({"order_by": "n", "where": "n > 1"}, InvalidInputError, "not partitioned"),
    ):
        with pytest.raises(kind, match=words):
            table.compact(**wrong)  # type: ignore[arg-type]
    assert live_files(lake, "t") == 2
