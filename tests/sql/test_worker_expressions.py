"""Expressions that Spark lacks are DuckDB's in the workers; everything around them stays Spark's."""

from __future__ import annotations

from collections.abc import Iterator

import pyspark.sql.types as T
import pytest
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import ducklake_spark
from ducklake_spark.spark.worker_functions import has_scalars
from ducklake_spark.sql.duckdb import grouped
from tests.interop.oracle import Oracle
from tests.sql.function_sweep import Sweep, lakes
from tests.sql.values import plain

pytestmark = pytest.mark.spark

IN_PARTS = (
    "SELECT id, list_zip(l, k)::VARCHAR, julian(dt) + 1, jaccard(w || 'q', 'abx') FROM calls WHERE levenshtein(s, 'abd') < 9 ORDER BY id",
    "SELECT gcd(i, 2) AS n, count(*), sum(length(format_bytes(b))) FROM calls GROUP BY ALL ORDER BY n",
    "SELECT format_bytes(b) AS x, max(i) FROM calls GROUP BY format_bytes(b) HAVING bit_count(max(i)) >= 0 ORDER BY x NULLS FIRST",
    "SELECT id, hash(i) AS h, to_json(st), tm + INTERVAL 1 HOUR AS later FROM calls WHERE tm >= TIME '10:00' ORDER BY id",
    "SELECT a.id, list_grade_up(a.l) FROM calls a JOIN calls b ON a.id = b.id AND damerau_levenshtein(a.s, b.s) = 0 ORDER BY a.id",
    "SELECT id, CASE WHEN s <> '' THEN format_bytes(length(s) // (length(s) - 0)) END FROM calls ORDER BY id",
    "SELECT id, list_transform(l, lambda x: format_bytes(x * 1000)) FROM calls ORDER BY id",
    "SELECT id, sum(gcd(i, j)) OVER (ORDER BY id), coalesce(parse_filename(s), 'none') FROM calls ORDER BY id",
    "SELECT mean(b), mean(f) + 1, format_bytes(sum(i)::BIGINT) FROM calls",
    "SELECT jaro_winkler_similarity(s, w, 0.7), decode(bl, 'replace') FROM calls ORDER BY id",
    "SELECT DISTINCT format_bytes(c) AS x FROM calls ORDER BY x NULLS LAST",
    "SELECT id, strftime(tz, '%H %Z'), timezone_hour(tz) FROM calls ORDER BY id",
    "WITH q AS (SELECT id, lcm(i, j) AS x FROM calls) SELECT id, x + 1, gcd(x, 4) FROM q WHERE x > 0 ORDER BY id",
)
WHOLE = (
    "SELECT a.id, b.id FROM calls a LEFT JOIN calls b ON gcd(a.id, b.id) = 2 ORDER BY ALL",
    "SELECT id FROM calls a WHERE EXISTS (SELECT 1 FROM calls b WHERE gcd(a.id, b.id) = 2) ORDER BY id",
    "SELECT iv * 2 AS x FROM calls ORDER BY x",
    "SELECT arg_max_nulls_last(i, b), mad(f), gcd(max(i), 2) FROM calls",
    "SELECT mode(s), histogram(i), json_group_array(i) FROM calls WHERE id > 9",  # one row, though no row is read
    "SELECT i, mode(s) FROM calls GROUP BY ROLLUP (i) ORDER BY ALL",
)
GROUPED = (
    "SELECT o, kahan_sum(f), format_bytes(count(*)) FROM calls GROUP BY o ORDER BY o",
    "SELECT i % 2 AS odd, mode(s) AS n, mad(f) FROM calls WHERE id < 9 GROUP BY odd HAVING count(*) > 0 ORDER BY n DESC, odd LIMIT 3",
    "SELECT a.o, b.dt, list(a.s ORDER BY a.id)::VARCHAR, wavg(a.f, b.f) FROM calls a JOIN calls b USING (id) GROUP BY ALL ORDER BY ALL",
    "SELECT length(s) AS n, entropy(w) FILTER (id < 4) AS e FROM calls GROUP BY 1 ORDER BY sum(id), e",
)


@pytest.fixture(scope="module")
def sweep(
    spark: SparkSession, _oracle_process: Oracle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sweep]:
    with lakes(spark, _oracle_process, tmp_path_factory.mktemp("parts")) as made:
        yield made
    _oracle_process.reset()


def road(frame: DataFrame) -> str:
    text = frame._jdf.queryExecution().analyzed().toString()
    return "whole" if "MapInArrow" in text else "parts" if "duckdb: " in text else "spark"


@pytest.mark.parametrize("sql", IN_PARTS)
def test_smallest_expressions_are_evaluated_in_the_workers(
    sweep: Sweep, spark: SparkSession, sql: str
) -> None:
    frame = sweep.lake.sql(sql, "duckdb")
    assert [plain(tuple(row)) for row in frame.collect()] == sweep.theirs(sql)
    assert road(frame) == ("parts" if has_scalars(spark) else "whole")


@pytest.mark.parametrize("sql", WHOLE)
def test_what_cannot_be_cut_out_is_one_task(sweep: Sweep, sql: str) -> None:
    frame = sweep.lake.sql(sql, "duckdb")
    assert [plain(tuple(row)) for row in frame.collect()] == sweep.theirs(sql)
    assert road(frame) == "whole"


@pytest.mark.parametrize("sql", GROUPED)
def test_groups_are_aggregated_in_all_tasks(sweep: Sweep, sql: str) -> None:
    frame = sweep.lake.sql(sql, "duckdb")
    assert [plain(tuple(row)) for row in frame.collect()] == sweep.theirs(sql)
    plan = frame._jdf.queryExecution().analyzed().toString()
    assert "RepartitionByExpression" in plan and "MapInArrow" in plan
    assert frame.columns == [row[0] for row in sweep.oracle.execute(f"DESCRIBE {sql}")]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT mode(a) FROM t",
        "SELECT g, mode(a) FROM t GROUP BY CUBE (g)",
        "SELECT g, mode(a), row_number() OVER () FROM t GROUP BY g",
        "SELECT g, mode(a) FROM t GROUP BY g HAVING mode(a) > (SELECT 1)",
        "SELECT DISTINCT g, mode(a) FROM t GROUP BY g",
        "SELECT mode(a) FROM t GROUP BY 1 + 1",
        "SELECT g + 1 AS a, mode(a) FROM (SELECT 1 AS a, 2 AS g) GROUP BY ALL",  # which a is meant?
        "SELECT 1 UNION SELECT mode(a) FROM t GROUP BY g",
    ],
)
def test_what_is_more_than_rows_and_groups_stays_whole(sql: str) -> None:
    columns = T.StructType([T.StructField("a", T.LongType()), T.StructField("g", T.LongType())])
    assert grouped.split(sqlglot.parse_one(sql, read="duckdb"), {"t": columns}) is None


def test_files_are_still_pruned_and_explain_names_the_expression(sweep: Sweep, spark: SparkSession) -> None:
    if not has_scalars(spark):
        pytest.skip("needs PySpark 4.1")
    lake = sweep.lake
    lake.sql("CREATE TABLE parts (a INT, b VARCHAR)", "duckdb")
    lake.sql("CALL set_option('data_inlining_row_limit', 0, table_name => 'parts')", "duckdb")
    for start in (0, 100):
        lake.sql(f"INSERT INTO parts SELECT i, 'x' || i FROM range({start}, {start + 3}) r(i)", "duckdb")
    sql = "SELECT format_bytes(a) AS b FROM parts WHERE a > 50 AND jaccard(b, 'x1') >= 0"
    assert lake.sql(sql, "duckdb").count() == 3
    [(_, plan)] = lake.sql(f"EXPLAIN {sql}", "duckdb").collect()
    assert "duckdb: " in plan and "jaccard" in plan.lower()
    assert "1 of 2 files" in lake.explain(lake.sql(sql, "duckdb"))


def test_settings_and_macros_reach_the_workers(sweep: Sweep, spark: SparkSession) -> None:
    sweep.lake.sql("CREATE MACRO lake.twice(x) AS format_bytes(x * 2)", "duckdb")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    sweep.oracle.execute("SET TimeZone = 'Asia/Tokyo'")
    try:
        sql = "SELECT timezone_hour(tz), format('{}', tz::VARCHAR), twice(c) FROM calls ORDER BY id"
        assert [plain(tuple(row)) for row in sweep.lake.sql(sql, "duckdb").collect()] == sweep.theirs(sql)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        sweep.oracle.execute("SET TimeZone = 'UTC'")


def test_errors_of_the_workers_say_what_duckdb_says(sweep: Sweep) -> None:
    with pytest.raises((ducklake_spark.DuckLakeError, PySparkException), match="Memory must have a number"):
        sweep.lake.sql("SELECT parse_formatted_bytes(s) FROM calls", "duckdb").collect()
