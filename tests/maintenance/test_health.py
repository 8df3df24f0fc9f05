"""`health()`: what it advises is what the jobs would do, and it asks as much of a large lake as of a small one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.engine.maintenance.health import DELETED, all_advice
from ducklake_spark.engine.scope import scope_of
from tests.interop.oracle import Oracle

KINDS = ("duckdb", "sqlite", "postgres")


@pytest.fixture(params=KINDS)
def lake(
    request: pytest.FixtureRequest, oracle: Oracle, make_location: Callable[[str], str], tmp_path: object
) -> Iterator[Lake]:
    """A lake that DuckDB made: deletes in files, in the catalog and in both, many files, rows in the catalog."""
    location = make_location(request.param)
    oracle.attach(location, "lake", data_path=f"{tmp_path}/data/")
    for statement in (
        "CREATE TABLE in_files AS SELECT * FROM range(1000) t(a)",
        "DELETE FROM in_files WHERE a < 400",
        "CREATE TABLE in_catalog AS SELECT * FROM range(20) t(a)",
        "DELETE FROM in_catalog WHERE a < 8",
        "CREATE TABLE in_both AS SELECT * FROM range(100) t(a)",
        "DELETE FROM in_both WHERE a < 25",
        "DELETE FROM in_both WHERE a >= 94",
        "CREATE TABLE few AS SELECT * FROM range(1000) t(a)",
        "DELETE FROM few WHERE a < 50",
        "CREATE TABLE strict AS SELECT * FROM range(1000) t(a)",
        "DELETE FROM strict WHERE a < 400",
        "CALL lake.set_option('rewrite_delete_threshold', 0.9, table_name => 'strict')",
        "CREATE TABLE small(a BIGINT)",
        *("INSERT INTO small SELECT * FROM range(100)" for _ in range(10)),
        "CREATE TABLE two(a BIGINT)",
        *("INSERT INTO two SELECT * FROM range(100)" for _ in range(2)),
    ):
        oracle.execute(statement)
    oracle.detach()
    with ducklake_spark.attach(location, name="lake") as lake:
        yield lake


def test_advice_is_what_the_jobs_would_do(lake: Lake) -> None:
    advised = {(each.job, each.table.name) for each in all_advice(scope_of(lake)) if each.table is not None}
    expected = set()
    for name in ("in_files", "in_catalog", "in_both", "few", "strict", "small", "two"):
        threshold = None if name == "strict" else DELETED
        if lake.rewrite_data_files(name, delete_threshold=threshold, dry_run=True).collect():
            expected.add(("rewrite_data_files", name))
        merges = lake.merge_adjacent_files(name, dry_run=True).collect()
        if sum(row.files_processed - row.files_created for row in merges) >= 8:
            expected.add(("merge_adjacent_files", name))
    assert advised == expected
    assert {name for _, name in expected} == {"in_files", "in_catalog", "in_both", "small"}
    small = {row.table_name: row.small_files for row in lake.health().collect()}
    assert (small["small"], small["two"], small["few"]) == (10, 2, 0)


@pytest.mark.parametrize("lake", ["duckdb"], indirect=True)
def test_a_large_lake_is_asked_no_more_than_a_small_one(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    store = scope_of(lake).store
    asked: list[int] = []
    query_many = store.query_many
    monkeypatch.setattr(
        store, "query_many", lambda queries: asked.append(len(queries)) or query_many(queries)
    )

    def count() -> int:
        asked.clear()
        list(all_advice(scope_of(lake)))
        return sum(asked)

    count()  # what is remembered by schema version
    before = count()
    with lake.transaction():
        for number in range(12):
            lake.create_table(f"more_{number}", {"a": "int"}).insert([(row,) for row in range(20)])
    count()
    assert count() == before
