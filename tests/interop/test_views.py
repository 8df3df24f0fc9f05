"""Views that DuckDB or we made, read by Spark as the extension reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import DuckLakeError
from tests.interop.oracle import Oracle

pytestmark = pytest.mark.spark

VIEWS = {
    "plain": "SELECT i, s FROM t WHERE i > 2",
    "qualified": "SELECT t.i, lake.main.t.s FROM lake.main.t WHERE main.t.i % 2 = 0",
    "joined": "SELECT a.i, b.s AS other FROM t AS a JOIN s1.u b ON a.i = b.i",
    "grouped": "SELECT s, count(*) AS n, max(i) FROM t GROUP BY s HAVING count(*) >= 1",
    "with_cte": "WITH t2 AS (SELECT i + 1 AS j FROM t) SELECT j FROM t2 WHERE j IN (SELECT i FROM t)",
    "of_view": "SELECT * FROM plain",
    "duckdb_words": "SELECT i::VARCHAR AS x, [i, i + 1] AS l, CASE WHEN i = 1 THEN 'one' END AS w FROM t",
}


def test_views_read_as_the_extension_reads_them(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    uri = f"ducklake:{tmp_path}/m.ducklake"
    oracle.attach(uri)
    oracle.execute(
        "CREATE TABLE t(i INT, s VARCHAR); INSERT INTO t SELECT i, 's' || (i % 3) FROM range(6) r(i)"
    )
    oracle.execute(
        "CREATE SCHEMA s1; CREATE TABLE s1.u(i INT, s VARCHAR); INSERT INTO s1.u VALUES (1, 'a'), (3, 'b')"
    )
    for name, sql in VIEWS.items():
        oracle.execute(f"CREATE VIEW {name} AS {sql}")
    oracle.execute('CREATE VIEW aliased(a, "b c") AS SELECT i, s FROM t')
    names = [*VIEWS, "aliased"]
    expected = {name: sorted(map(repr, oracle.execute(f"FROM {name}"))) for name in names}
    oracle.detach()
    with ducklake_spark.attach(uri, name="lake", spark=spark) as lake:
        for name in names:
            assert sorted(repr(tuple(row)) for row in lake.table(name).collect()) == expected[name], name
        assert lake.table("aliased").columns == ["a", "b c"]


def test_a_view_at_an_older_snapshot_reads_its_tables_there(spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as lake:
        lake.create_table("t", {"i": "int"}).insert([(1,)])
        lake.create_view("v", "SELECT count(*) AS n FROM t")
        before = lake.version
        lake["t"].insert([(2,)])
        assert lake.table("v").first()[0] == 2
        assert lake.table("v", version=before).first()[0] == 1


def test_a_view_that_spark_cannot_read_is_read_by_duckdb(
    oracle: Oracle, spark: SparkSession, tmp_path: Path
) -> None:
    uri = f"ducklake:{tmp_path}/m.ducklake"
    oracle.attach(uri)
    oracle.execute("CREATE TABLE t(i INT); INSERT INTO t VALUES (3), (NULL)")
    oracle.execute(
        "CREATE VIEW odd AS SELECT bit_count(i) AS n FROM t WHERE i IS DISTINCT FROM getvariable('x')"
    )
    theirs = oracle.execute("FROM odd")
    oracle.detach()
    with ducklake_spark.attach(uri, name="lake", spark=spark) as lake:
        assert [tuple(row) for row in lake.table("odd").collect()] == [tuple(row) for row in theirs] == [(2,)]


def test_a_view_that_nobody_can_read_says_so(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    uri = f"ducklake:{tmp_path}/m.ducklake"
    oracle.attach(uri)
    oracle.execute("CREATE TABLE t(i INT); CREATE VIEW odd AS SELECT i FROM t; DROP TABLE t")
    oracle.detach()
    with (
        ducklake_spark.attach(uri, name="lake", spark=spark) as lake,
        pytest.raises(DuckLakeError, match='view "odd"'),
    ):
        lake.table("odd")
