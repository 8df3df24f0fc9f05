"""Bloom filters of Parquet: Spark's settings ask for them, files keep them when they are joined, and scans use them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from pyspark.sql import DataFrame

from tests.spark.conftest import NativeLake

pytestmark = pytest.mark.spark

SETTING = "parquet.bloom.filter.enabled#key"


@pytest.fixture
def filtered(native: NativeLake) -> Iterator[None]:
    native.spark.conf.set(SETTING, "true")
    yield
    native.spark.conf.unset(SETTING)


def paths_of(native: NativeLake, table: str) -> list[str]:
    return [row.data_file for row in native.lake.list_files(table).collect()]


def filters(native: NativeLake, table: str) -> list[tuple[int, str]]:
    """Row groups and columns that have one."""
    paths = paths_of(native, table)
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT row_group_id, path_in_schema FROM parquet_metadata(?) WHERE bloom_filter_offset IS NOT NULL",
            [paths],
        ).fetchall()
    return sorted(rows)


def rows_read(frame: DataFrame) -> int:
    """How many rows its scans gave to the rest of the plan."""
    frame.collect()
    pending, count = [frame._jdf.queryExecution().executedPlan()], 0
    while pending:
        plan = pending.pop()
        if plan.nodeName().startswith("AdaptiveSparkPlan"):
            pending.append(plan.executedPlan())
            continue
        if plan.nodeName().startswith("Scan parquet"):
            count += plan.metrics().apply("numOutputRows").value()
        children = plan.children()
        pending += [children.apply(i) for i in range(children.size())]
    return int(count)


def test_files_have_filters_that_scans_and_changes_use(native: NativeLake, filtered: None) -> None:
    name = native.table("bloomed", "key BIGINT, v VARCHAR")
    # Odd keys over the whole range.
    native.lake["bloomed"].insert(
        native.spark.range(0, 40000, 1, 1).selectExpr(
            "(id * 7919) % 40000 * 2 + 1 AS key", "repeat('v', 9) AS v"
        )
    )
    assert len(paths_of(native, "bloomed")) == 1
    assert filters(native, "bloomed") == [(0, "key")]

    assert rows_read(native.sql(f"SELECT * FROM {name} WHERE key = 30000")) == 0
    assert native.rows(f"SELECT count(*) FROM {name} WHERE key = 30001") == [(1,)]
    assert native.lake["bloomed"].delete("key IN (30000, 30001)") == 1
    # Of a file with deleted rows, too.
    assert rows_read(native.sql(f"SELECT * FROM {name} WHERE key = 30000")) == 0
    assert native.lake["bloomed"].update({"v": "'new'"}, "key = 39999") == 1
    assert native.rows(f"SELECT v FROM {name} WHERE key = 39999") == [("new",)]


def test_without_the_setting_there_are_none(native: NativeLake) -> None:
    name = native.table("plain", "key BIGINT")
    native.lake["plain"].insert(native.spark.range(0, 40000, 1, 2).selectExpr("id * 2 + 1 AS key"))
    assert filters(native, "plain") == []
    assert rows_read(native.sql(f"SELECT * FROM {name} WHERE key = 30000")) > 0
