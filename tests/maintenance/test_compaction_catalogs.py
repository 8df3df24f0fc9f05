"""Merging, rewriting and clustering on every kind of catalog database."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from tests.maintenance.compaction_twins import filled, live_files, numbers, unknown_files

pytestmark = pytest.mark.spark


def test_rows_and_files_of_each_step(location: str, spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(location, name="own", data_path=str(tmp_path / "data"), spark=spark) as lake:
        table = filled(lake, files=3)
        before = lake.version
        assert lake.merge_adjacent_files().first().files_processed == 3
        table.delete("n < 15")
        table.delete("n = 20")
        assert table.rewrite_data_files(delete_threshold=0.2).first().rows == 44
        assert numbers(table) == [15, 16, 17, 18, 19, *range(21, 60)]
        filled(lake, "other", files=2)
        assert lake["other"].compact(order_by="n").first().files_processed == 2
        assert live_files(lake, "t") == live_files(lake, "other") == 1
        assert sorted(row.n for row in table.to_df(version=before).collect()) == list(range(60))
        assert unknown_files(lake) == set()
