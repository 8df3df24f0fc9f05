"""One lake for all query tests, on SQLite, so that the extension and we can have it open at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import ducklake_spark
from tests.interop.oracle import Oracle

SETUP = (
    "CREATE TABLE t(i INT, s VARCHAR, d DOUBLE, dt DATE, ts TIMESTAMP, l INT[], st STRUCT(x INT, y VARCHAR), m MAP(VARCHAR, INT))",
    "INSERT INTO t VALUES (1, 'a', 1.5, DATE '2024-01-31', TIMESTAMP '2024-01-31 10:11:12.5', [1, 2, 3], {'x': 1, 'y': 'p'}, MAP {'k': 1})",
    "INSERT INTO t VALUES (2, 'b', -2.5, DATE '2024-02-29', TIMESTAMP '2024-02-29 23:59:59', [4, NULL], {'x': 2, 'y': NULL}, MAP {'k': 2, 'j': 3}), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE SCHEMA s1",
    "CREATE TABLE s1.t(i INT, name VARCHAR)",
    "INSERT INTO s1.t VALUES (1, 'one'), (2, 'two'), (4, 'four')",
    "CREATE TABLE n(a INT, b BIGINT, g VARCHAR)",
    "CALL lake.set_option('data_inlining_row_limit', 30, table_name => 'n')",  # Spark is quicker without files
    "INSERT INTO n SELECT i, i * 10, 'g' || (i % 3) FROM range(20) r(i)",
    'CREATE TABLE "odd name"("a b" INT, "rowid" INT, "{x}" INT)',
    'INSERT INTO "odd name" VALUES (1, 77, 5)',
    "CREATE VIEW v AS SELECT i, s || '!' AS s FROM t WHERE i < 3",
    "CREATE MACRO add(a, b := 10) AS a + b",
    "CREATE MACRO half(x) AS x / 2",
    "CREATE MACRO biggest() AS (SELECT max(a) FROM n)",
    "CREATE MACRO first_rows(k, least := 0) AS TABLE SELECT a, b FROM n WHERE a < k AND a >= least",
    "CREATE VIEW with_macro AS SELECT add(a) AS x FROM lake.main.n WHERE a < 3",
    "CREATE TABLE f AS FROM n",
)


@dataclass
class Both:
    """The same lake, in the extension and in ours."""

    oracle: Oracle
    lake: ducklake_spark.Lake


LIGHT = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings with which Spark plans small queries in half the time."""


@contextmanager
def both(spark: SparkSession, oracle: Oracle, folder: Path) -> Iterator[Both]:
    """Makes the lake with the extension, and opens it."""
    uri, data = f"ducklake:sqlite:{folder}/m.sqlite", str(folder / "data")
    oracle.attach(uri, data_path=data)
    for statement in SETUP:
        oracle.execute(statement)
    for key, value in LIGHT.items():
        spark.conf.set(key, value)
    with ducklake_spark.attach(uri, name="lake", spark=spark) as lake:
        yield Both(oracle, lake)
    for key in LIGHT:
        spark.conf.unset(key)
    oracle.reset()
