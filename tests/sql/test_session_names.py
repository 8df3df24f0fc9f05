"""`attach(..., spark_sql=True)`: the session's own SQL knows the lake, until it is closed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import ducklake_spark

pytestmark = pytest.mark.spark


def test_the_session_knows_the_lake_until_it_is_closed(spark: SparkSession, tmp_path: Path) -> None:
    kind = type(spark)
    lake = ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lk", spark=spark, spark_sql=True)
    try:
        lake.create_table("known", {"i": "int"}).insert([(1,)])
        lake.create_schema("s")
        lake.create_table("s.other", {"i": "int"}).insert([(1,), (2,)])
        assert spark.sql("SELECT i FROM known").collect() == [(1,)]
        assert spark.table("lk.s.other").count() == 2
        assert spark.read.table("s.other").count() == 2
        lake["known"].insert([(2,)])
        assert spark.sql("SELECT count(*) FROM known k JOIN lk.main.known USING (i)").first()[0] == 2
        assert spark.sql("SELECT count(*) FROM known VERSION AS OF 2").first()[0] == 1
        assert spark.sql("SELECT i FROM known WHERE i = :x", args={"x": 2}).first()[0] == 2
        assert spark.sql("SELECT {v} AS v", v=3).first()[0] == 3
        assert spark.sql("SELECT 1; ".strip("; ")).first()[0] == 1
        spark.range(7).createOrReplaceTempView("known")  # the session's own name wins
        assert spark.sql("SELECT count(*) FROM known").first()[0] == 7
        assert spark.table("known").count() == 7
        spark.catalog.dropTempView("known")
        assert isinstance(spark, SparkSession)
        second = ducklake_spark.attach(
            f"ducklake:{tmp_path}/n.ducklake", name="ln", spark=spark, spark_sql=True
        )
        second.create_table("more", {"i": "int"}).insert([(1,)])
        assert spark.sql("SELECT k.i FROM known k JOIN ln.main.more m ON m.i = k.i").count() == 1
        second.close()
        with pytest.raises(AnalysisException):
            spark.table("more")
    finally:
        lake.close()
    assert type(spark) is kind
    for use in (lambda: spark.sql("SELECT * FROM known"), lambda: spark.table("s.other")):
        with pytest.raises(AnalysisException):
            use()
