"""A few threads of mixed statements for a moment; `benchmarks/native_stress.py` does it with many and for long."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from benchmarks.native_stress import Mix

pytestmark = pytest.mark.spark


def test_mixed_statements_of_eight_threads(spark: SparkSession, interpreted: None, tmp_path: Path) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/catalog.sqlite"
    with ducklake_spark.attach(uri, spark=spark, name="mixed", data_path=tmp_path / "files") as lake:
        mix = Mix(lake, spark)
        mix.run(threads=8, seconds=6)
    assert not mix.wrong, mix.wrong[0]
    assert mix.done["the end"] == 1 and sum(mix.done.values()) > 8
