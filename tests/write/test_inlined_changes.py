"""Updates and deletes of rows that the catalog holds: Spark computes them on the driver, without a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import ducklake_spark
from ducklake_spark.spark import writer

pytestmark = pytest.mark.spark


def jobs_of(spark: SparkSession, group: str) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def test_no_job_runs_for_inlined_rows(spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", spark=spark) as lake:
        lake.sql("CREATE TABLE t (id BIGINT, name STRING, at TIMESTAMP, tags ARRAY<STRING>)")
        lake.sql("INSERT INTO t SELECT id, concat('n', id), NULL, array('x') FROM range(5)")
        spark.sparkContext.setJobGroup("inlined", "")
        try:
            changed = lake.sql(
                "UPDATE t SET name = upper(name), at = TIMESTAMP'2026-03-29 02:30:00' WHERE id > 2"
            )
            none = lake.sql("UPDATE t SET id = id + 1 WHERE id > 100")
            deleted = lake.sql("DELETE FROM t WHERE name = 'N4' OR id = 0")
            assert [frame.first()[0] for frame in (changed, none, deleted)] == [2, 0, 2]
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        assert jobs_of(spark, "inlined") == 0
        rows = lake.sql("SELECT rowid, id, name, at IS NULL, tags FROM t ORDER BY id").collect()
        assert [tuple(row) for row in rows] == [
            (1, 1, "n1", True, ["x"]),
            (2, 2, "n2", True, ["x"]),
            (3, 3, "N3", False, ["x"]),
        ]


def test_no_job_runs_for_rows_that_are_on_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", spark=spark) as lake:
        lake.sql("CREATE TABLE t (id BIGINT, name STRING, at DATE, part STRUCT<a INT, b STRING>)")
        values = ", ".join(f"({i}, 'n{i}', named_struct('a', {i}, 'b', NULL))" for i in range(500))
        frame = spark.sql(
            f"SELECT col1 AS id, col2 AS name, DATE'2026-01-01' AS at, col3 AS part FROM VALUES {values}"
        )
        spark.sparkContext.setJobGroup("here", "")
        try:
            lake["t"].insert(frame)
            lake["t"].insert(frame.where("id < 0"))
            lake.set_option("data_inlining_row_limit", 0)
            lake["t"].insert(frame.where("id < 0"))
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        assert jobs_of(spark, "here") == 0
        assert len(list(tmp_path.rglob("*.parquet"))) == 1
        rows = lake.table("t").orderBy("id").collect()
        assert [tuple(row) for row in rows] == [tuple(row) for row in frame.collect()]


def test_a_random_value_is_drawn_once(spark: SparkSession, tmp_path: Path) -> None:
    """What is deleted and what is added must be of the same draw."""
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", spark=spark) as lake:
        table = lake.create_table("t", "id BIGINT, x DOUBLE")
        table.insert([(i, None) for i in range(10)])
        count = table.update({"x": "rand()"}, "rand() < 0.5")
        assert lake.table("t").where("x IS NOT NULL").count() == count
        assert sorted(row.id for row in lake.table("t").collect()) == list(range(10))


def test_rows_on_the_driver_become_the_same_arrow(spark: SparkSession) -> None:
    values = """(1, 'a', X'00FF', DATE'0001-01-01', TIMESTAMP'1900-01-01 00:00:00.123456', TIMESTAMP_NTZ'2026-03-29 02:30:00',
        CAST(1.5 AS FLOAT), DOUBLE('NaN'), 123.45BD, true, array(1, NULL), map('k', struct(1 AS a, 'é' AS b)),
        INTERVAL '1 02:03:04.5' DAY TO SECOND),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""
    frame = spark.sql(f"SELECT * FROM VALUES {values}").select("*", F.col("col1").alias("again"))
    for each in (frame, frame.where("col1 = 7"), spark.range(3).toDF("n")):
        ours, theirs = writer.few_here(each, 10), each.toArrow()
        assert ours is not None
        # As texts: NaN is not equal to itself.
        assert (ours.schema, str(ours.to_pylist())) == (theirs.schema, str(theirs.to_pylist()))
