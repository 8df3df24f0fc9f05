"""Statements that define things: in DuckDB's dialect they leave the catalog that the extension leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from tests.interop import catalogs
from tests.interop.oracle import Oracle
from tests.interop.test_ddl_twins import SCRIPTS

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_extensions_statements_leave_the_extensions_catalog(
    oracle: Oracle, spark: SparkSession, tmp_path: Path, script: str
) -> None:
    theirs, ours = (f"ducklake:{tmp_path / side}.duckdb" for side in ("theirs", "ours"))
    data_path = str(tmp_path / "data")
    statements = [sql for sql, _ in SCRIPTS[script]]
    oracle.attach(theirs, data_path=data_path)
    for statement in statements:
        oracle.execute(statement)
    oracle.detach()
    with ducklake_spark.attach(ours, spark=spark, name="lake", data_path=data_path) as lake:
        for statement in statements:
            lake.sql(statement, dialect="duckdb")
    catalogs.assert_same(theirs, ours)
