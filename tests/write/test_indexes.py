"""Indexes of the catalog: made by our first files, never by reading, and of no concern to the extension."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ducklake_spark.catalog.indexes import INDEXES
from ducklake_spark.catalog.location import parse_location
from ducklake_spark.catalog.open import open_store
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark
ROWS = [(i, f"name {i}") for i in range(40)]


def indexes(lake: WrittenLake) -> set[str]:
    lake.close()
    store = open_store(parse_location(lake.uri))
    try:
        return {str(name) for (name,) in store.query(store.indexes_sql())} & set(INDEXES[store.kind])
    finally:
        store.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_extension_does_not_mind_them(make_lake: Callable[..., WrittenLake], kind: str) -> None:
    lake = make_lake(kind, data_inlining_row_limit=10)
    lake.ask("CREATE TABLE t(a INTEGER, b VARCHAR); INSERT INTO t SELECT i, 'x' FROM range(20) r(i)")
    assert lake.ours.table("t").count() == 20
    lake.ours["t"].insert([(1, "inlined")])
    assert indexes(lake) == set()
    lake.ours["t"].insert(ROWS)
    assert indexes(lake) == set(INDEXES[kind])

    lake.ask("INSERT INTO t SELECT i, 'more' FROM range(100, 150) r(i)")
    lake.ask("UPDATE t SET b = 'changed' WHERE a = 3")
    lake.ask("DELETE FROM t WHERE a BETWEEN 100 AND 120")
    lake.ask("ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 7")
    lake.ask("ALTER TABLE t SET PARTITIONED BY (bucket(4, a))")
    lake.ask("INSERT INTO t SELECT i, 'parts', i FROM range(200, 240) r(i)")
    assert lake.check("t") == 20 + 1 + 40 + 29 + 40
    for upkeep in (
        "ducklake_flush_inlined_data",
        "ducklake_merge_adjacent_files",
        "ducklake_rewrite_data_files",
    ):
        lake.ask(f"CALL {upkeep}('lake')")
    lake.ask("CALL ducklake_expire_snapshots('lake', older_than => now())")
    lake.ask("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    assert lake.check("t") == 130
    assert indexes(lake) == set(INDEXES[kind])


def test_mysql_gets_them(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("mysql", data_inlining_row_limit=0)
    lake.table("t", {"a": "int", "b": "varchar"}).insert(ROWS)
    assert indexes(lake) == set(INDEXES["mysql"])
    assert lake.ours.table("t").where("a > 30").count() == 9


def test_a_catalog_that_allows_none_is_written_to_all_the_same(
    make_lake: Callable[..., WrittenLake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(INDEXES, "sqlite", {"nothing": "no_such_table (a)"})
    lake = make_lake("sqlite")
    lake.table("t", {"a": "int", "b": "varchar"}).insert(ROWS)
    assert lake.ours.table("t").count() == 40
