"""Few rows that change or come: how many Spark jobs that takes, and what happens where there are too many for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ducklake_spark
from ducklake_spark import AmbiguousMergeError, Lake, Table
from ducklake_spark.engine import merge
from ducklake_spark.write.rowlevel import deletes, updates

pytestmark = pytest.mark.spark

ROWS = 20_000


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("few")
    with ducklake_spark.attach(
        f"ducklake:{folder / 'm.ducklake'}", name="few", data_path=str(folder / "data"), spark=spark
    ) as found:
        yield found


@pytest.fixture
def table(lake: Lake, spark: SparkSession) -> Table:
    """Two files, of rows with ids from 0 on; three more rows are in the catalog."""
    made = lake.create_table(f"t{uuid.uuid4().hex}", "id BIGINT, v VARCHAR, l BIGINT[]")
    for part in range(2):
        rows = spark.range(part * ROWS // 2, (part + 1) * ROWS // 2, 1, 2)
        made.insert(rows.selectExpr("id", "'old' AS v", "array(id) AS l").repartition(2))
    made.insert([(ROWS + i, "old", [i]) for i in range(3)])
    assert lake.list_files(made.name).count() == 2
    return made


def jobs(spark: SparkSession, run: Callable[[], Any]) -> int:
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, "")
    try:
        run()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def with_ids(table: Table) -> DataFrame:
    return table.lake.table(table.name, virtual_columns=["rowid"])


def state(table: Table) -> tuple[Any, ...]:
    """How many rows there are of each kind, and sums by which any other row would show."""
    rows = table.to_df().groupBy("v").agg(F.count("*"), F.sum("id"), F.sum(F.col("l")[0])).orderBy("v")
    return tuple(tuple(row) for row in rows.collect())


def test_a_statement_is_one_job(table: Table, spark: SparkSession) -> None:
    ids = {row[0]: row[1] for row in with_ids(table).select("id", "rowid").collect()}
    rows = spark.range(ROWS + 3, ROWS + 503, 1, 1).selectExpr("id", "'new' AS v", "array(id) AS l")
    assert jobs(spark, lambda: table.insert(rows)) == 1
    assert jobs(spark, lambda: table.delete("id % 100 = 7")) == 1
    assert jobs(spark, lambda: table.update({"v": "'updated'", "id": "id + 0"}, "id % 100 = 8")) == 1
    source = spark.range(9, ROWS + 1000, 100).selectExpr("id", "'merged' AS v", "array(id) AS l")
    on = "target.id = source.id"
    run = table.merge(source, on).when_matched().update_all().when_not_matched().insert_all
    # The source; that once more, sent to all tasks; the scan; rows of the source that are new.
    assert jobs(spark, lambda: run().execute()) <= 4
    found = {row[0]: (row[1], row[2]) for row in with_ids(table).select("id", "rowid", "v").collect()}
    gone = {i for i in range(ROWS + 503) if i % 100 == 7}
    merged = set(range(9, ROWS + 1000, 100))
    assert found.keys() == (set(range(ROWS + 503)) - gone) | merged
    for i, (row_id, kind) in found.items():
        assert row_id == ids.get(i, row_id)
        wanted = "updated" if i % 100 == 8 else "new" if i >= ROWS + 3 else "old"
        assert kind == ("merged" if i in merged else wanted), i


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("in_transaction", [True, False])
def test_many_rows_change_as_few_do(
    table: Table,
    lake: Lake,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    few: bool,
    in_transaction: bool,
) -> None:
    """Where a task finds more than its share, the statement goes on with Spark's tasks; the rows are the same."""
    if not few:
        monkeypatch.setattr(deletes, "_FEW", 10)
        monkeypatch.setattr(deletes, "_MOST_BYTES", 1)
        monkeypatch.setattr(updates, "MOST_ROWS", 10)
        monkeypatch.setattr(merge, "MOST_ROWS", 10)

    def changed() -> None:
        if in_transaction:  # rows that the transaction inserted itself, in a file and in the catalog
            table.insert(spark.range(100_000, 100_100).selectExpr("id", "'old' AS v", "array(id) AS l"))
            table.insert([(200_000 + i, "old", None) for i in range(5)])
        assert table.delete("id % 10 = 1") >= ROWS / 10
        assert table.update({"v": "concat(v, '2')", "l": "array(-id)"}, "id % 10 = 2") >= ROWS / 10
        source = (
            spark.range(3, ROWS, 10)
            .selectExpr("id", "'m' AS v", "array(1L) AS l")
            .union(spark.range(300_000, 300_500).selectExpr("id", "'m' AS v", "array(2L) AS l"))
        )
        builder = table.merge(source, "target.id = source.id").when_matched("source.id % 20 = 3").delete()
        builder = builder.when_matched().update_all().when_not_matched("source.id % 2 = 0").insert_all()
        builder.when_not_matched_by_source("target.id % 10 = 4").update({"v": "'lone'"}).execute()

    if in_transaction:
        with lake.transaction():
            changed()
            inside = state(table)
        assert state(table) == inside
    else:
        changed()
    own = 100 if in_transaction else 0
    kinds = {row[0]: row[1] for row in state(table)}
    more = 1 if in_transaction else 0  # the rows of the catalog: one of five for each digit up to 4
    assert kinds == {
        "old2": ROWS // 10 + 1 + own // 10 + more,
        "m": ROWS // 20 + 250,
        "lone": ROWS // 10 + own // 10 + more,
        "old": ROWS // 2 + ROWS // 10 + 1 + own // 10 * 7 + 2 * more,
    }
    ids = [row[0] for row in with_ids(table).select("rowid").collect()]
    assert len(ids) == len(set(ids)) == sum(kinds.values())


def test_rows_that_match_twice_are_refused(table: Table, spark: SparkSession) -> None:
    source = spark.range(5).union(spark.range(4, 6)).selectExpr("id", "'m' AS v", "array(id) AS l")
    before = state(table)
    with pytest.raises(
        AmbiguousMergeError, match=r"2 rows of the source match one row of the target \(id = 4\)"
    ):
        table.merge(source, "target.id = source.id").when_matched().update_all().execute()
    assert state(table) == before


def test_deletes_from_many_files_go_to_the_workers(
    table: Table, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setattr(deletes, "_FILES_HERE", 1)
    assert jobs(spark, lambda: table.delete("id % 1000 < 20")) > 1
    assert sum(row[1] for row in state(table)) == ROWS + 3 - ROWS * 20 // 1000 - 3


def test_rows_too_large_for_the_driver_are_written_by_tasks(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows can be large ones: Spark refuses to hand over more bytes than its setting allows."""
    made = lake.create_table("large", "id BIGINT, v VARCHAR")

    def refused(*_: Any) -> None:
        raise RuntimeError(
            "Total size of serialized results of 2 tasks is bigger than spark.driver.maxResultSize"
        )

    monkeypatch.setattr("pyspark.sql.classic.dataframe.DataFrame.toArrow", refused)
    made.insert(spark.range(100).selectExpr("id", "repeat('x', 1000) AS v"))
    monkeypatch.undo()
    assert made.to_df().selectExpr("count(*)", "sum(length(v))").first() == (100, 100_000)
