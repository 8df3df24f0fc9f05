"""After a transaction, every file below the data path is one that the catalog knows, and every one that it knows is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import ConflictError, DuckLakeError
from tests.interop.oracle import Oracle
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark

ROWS = "SELECT CAST(id AS INT) AS a, CAST(id % 3 AS INT) AS b FROM range(12)"
NEW = f"CREATE TABLE n AS {ROWS}"
MORE = f"INSERT INTO t {ROWS}"
TRANSACTIONS = {
    "created, changed and dropped": [
        NEW, f"INSERT INTO n {ROWS}", "DELETE FROM n WHERE a = 1", "UPDATE n SET b = 9", "DROP TABLE n",
    ],
    "dropped with its schema": ["CREATE SCHEMA s", f"CREATE TABLE s.n AS {ROWS}", "DROP SCHEMA s CASCADE"],
    "dropped beside other rows": [NEW, "DROP TABLE n", MORE],
    "partitioned and nested": [
        "CREATE TABLE n(a INT, l ARRAY<INT>) PARTITIONED BY (a)", f"INSERT INTO n SELECT b, array(a) FROM ({ROWS})",
        "DELETE FROM n WHERE a = 1", "DROP TABLE n",
    ],
    "replaced": [f"CREATE OR REPLACE TABLE t AS {ROWS}", NEW, f"CREATE OR REPLACE TABLE n AS {ROWS}", "DROP TABLE n"],
    "inserted and deleted": [MORE, "DELETE FROM t WHERE a >= 0"],
    "inserted and truncated": [MORE, MORE, "TRUNCATE TABLE t"],
    "truncated and inserted": ["TRUNCATE TABLE t", MORE, "TRUNCATE TABLE t", MORE],
    "deleted twice from own files": [MORE, "DELETE FROM t WHERE a = 1", "DELETE FROM t WHERE a = 2"],
    "deleted twice from old files": ["DELETE FROM t WHERE a = 3", "DELETE FROM t WHERE a = 4"],
    "deleted, then all": ["DELETE FROM t WHERE a = 5", "DELETE FROM t WHERE a < 100", MORE],
    "updated twice": ["UPDATE t SET b = 7 WHERE a < 6", "UPDATE t SET b = 8 WHERE a < 3"],
    "updated and dropped": ["UPDATE t SET b = 7 WHERE a < 6", "DROP TABLE t", f"CREATE TABLE t AS {ROWS}"],
    "overwritten": [f"INSERT OVERWRITE t {ROWS}", f"INSERT OVERWRITE t {ROWS}"],
}  # fmt: skip
"""In order, in one lake."""


def known(lake: WrittenLake) -> list[str]:
    """The files that rows of the catalog name: live ones, those of older snapshots, and those to be removed later."""
    later = [row["path"] for row in lake.catalog()["ducklake_files_scheduled_for_deletion"]]
    return sorted([*lake.registered(), *later])


@pytest.fixture(scope="module")
def lake(
    _oracle_process: Oracle, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WrittenLake]:
    folder: Path = tmp_path_factory.mktemp("disk")
    made = WrittenLake(
        _oracle_process,
        spark,
        f"ducklake:sqlite:{folder / 'lake.sqlite'}",
        folder / "data",
        {"data_inlining_row_limit": 0},
    )
    made.ours.sql(f"CREATE TABLE t AS {ROWS}")
    yield made
    made.close()


def run(lake: WrittenLake, statements: list[str]) -> None:
    for statement in statements:
        lake.ours.sql(statement)


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_committed(lake: WrittenLake, name: str) -> None:
    with lake.ours.transaction():
        run(lake, TRANSACTIONS[name])
    assert lake.files() == known(lake)


def test_rolled_back(lake: WrittenLake) -> None:
    before = lake.files()
    lake.ours.begin()
    run(lake, [NEW, MORE, "DELETE FROM t WHERE a = 1", "UPDATE t SET b = 1 WHERE a = 2"])
    assert len(lake.files()) > len(before)
    lake.ours.rollback()
    assert lake.files() == before == known(lake)


def test_statements_that_fail(lake: WrittenLake, spark: SparkSession) -> None:
    bad = spark.range(12).selectExpr("IF(id = 11, NULL, CAST(id AS INT)) AS a")
    with lake.ours.transaction():
        lake.ours.sql("CREATE TABLE n(a INT NOT NULL)")
        with pytest.raises(DuckLakeError):
            lake.ours["n"].insert(bad.repartition(3))
        lake.ours["n"].insert([(1,)])
        with pytest.raises(DuckLakeError):
            lake.ours.sql("UPDATE n SET a = NULL")
        lake.ours.sql("DELETE FROM n WHERE a = 1")
    assert lake.files() == known(lake)
    lake.ours.sql("DROP TABLE n")


def test_conflicts(lake: WrittenLake) -> None:
    with lake.attach() as other, pytest.raises(ConflictError), lake.ours.transaction():
        run(lake, [NEW, MORE, "DELETE FROM t WHERE a = 7"])
        other.sql("ALTER TABLE t ADD COLUMN c INT")
    assert lake.files() == known(lake)
