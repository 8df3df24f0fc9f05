"""New lakes: equal to the extension's, made once by whoever comes first, and never over something half made."""

from __future__ import annotations

import re
import sqlite3
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ducklake_spark.catalog.create import CatalogState, initialize, inspect
from ducklake_spark.catalog.location import parse_location
from ducklake_spark.catalog.open import open_store
from ducklake_spark.catalog.store import Store
from ducklake_spark.catalog.tables import TABLES
from ducklake_spark.errors import CatalogVersionError, NotADuckLakeError
from tests.interop.oracle import Oracle

COLUMNS = {
    "duckdb": "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
    "WHERE schema_name = 'main' AND NOT internal ORDER BY table_name, column_index",
    "postgres": "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
    "WHERE table_schema = 'public' ORDER BY table_name, ordinal_position",
    "mysql": "SELECT table_name, column_name, column_type, is_nullable FROM information_schema.columns "
    "WHERE table_schema = database() ORDER BY table_name, ordinal_position",
    "sqlite": 'SELECT m.name, c.name, c.type, c."notnull", c.pk FROM sqlite_master m, pragma_table_info(m.name) c '
    "WHERE m.type = 'table' ORDER BY m.name, c.cid",
}
KEYS = {
    "duckdb": "SELECT table_name, constraint_type, constraint_column_names FROM duckdb_constraints() ORDER BY ALL",
    "postgres": "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE connamespace = 'public'::regnamespace ORDER BY 1",
    "sqlite": "SELECT m.name, i.origin FROM sqlite_master m, pragma_index_list(m.name) i "
    "WHERE m.type = 'table' ORDER BY 1",
    "mysql": "SELECT table_name, index_name, column_name FROM information_schema.statistics "
    "WHERE table_schema = database() ORDER BY 1",
}


def create(store: Store, data_path: str = "data/") -> bool:
    return initialize(store, data_path=data_path, encrypted=False, created_by="ducklake-spark test")


def described(store: Store) -> dict[str, Any]:
    """Everything about a fresh lake that does not differ from one to the next."""
    rows = {
        table: sorted(
            (
                tuple(
                    "aside" if name in ("snapshot_time", "schema_uuid") else value
                    for name, value in zip(definition.column_names, row, strict=True)
                )
                for row in store.query(_select(store, table))
            ),
            key=repr,
        )
        for table, definition in TABLES.items()
    }
    rows["ducklake_metadata"] = [row for row in rows["ducklake_metadata"] if row[0] != "created_by"]
    return {"columns": store.query(COLUMNS[store.kind]), "keys": store.query(KEYS[store.kind]), "rows": rows}


def _select(store: Store, table: str) -> str:
    columns = (
        store.micros_sql(column.name) if column.type == "TIMESTAMPTZ" else f'"{column.name}"'
        for column in TABLES[table].columns
    )
    return f"SELECT {', '.join(columns)} FROM {table}"


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_a_new_lake_equals_the_reference(
    kind: str, make_location: Callable[[str], str], oracle: Oracle, tmp_path: Any
) -> None:
    theirs_at = make_location(kind)
    oracle.attach(theirs_at, data_path="data/")
    oracle.execute("FROM lake.snapshots()")
    oracle.detach()
    theirs = open_store(parse_location(theirs_at))
    expected = described(theirs)
    expected_order = [name for (name,) in theirs.query(theirs.tables_sql()) if name in TABLES]
    theirs.close()
    if kind != "postgres":
        (tmp_path / f"lake.{kind}").unlink()

    ours = open_store(parse_location(make_location(kind)))
    assert create(ours)

    assert described(ours) == expected
    if kind == "sqlite":  # sqlite_master keeps the order of creation
        assert [name for (name,) in ours.query(ours.tables_sql())] == expected_order
    ours.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres", "mysql"])
@pytest.mark.parametrize("metadata_schema", [None, 'my "schema'])
def test_the_reference_reads_and_writes_our_lake(
    kind: str, metadata_schema: str | None, make_location: Callable[[str], str], oracle: Oracle, tmp_path: Any
) -> None:
    if kind == "sqlite":
        metadata_schema = None  # SQLite has no schemas
    if kind == "mysql" and metadata_schema is not None:
        metadata_schema = f"{metadata_schema} {uuid.uuid4().hex[:8]}"  # databases outlive the test
    text = make_location(kind)
    store = open_store(parse_location(text), metadata_schema=metadata_schema)
    assert create(store, f"{tmp_path}/data/")
    store.close()

    oracle.attach(text, metadata_schema=metadata_schema)
    [(snapshot, _, version, changes, *_)] = oracle.execute("FROM lake.snapshots()")
    assert (snapshot, version, changes) == (0, 0, {"schemas_created": ["main"]})
    oracle.execute("CREATE TABLE t (i INTEGER)")
    oracle.execute("INSERT INTO t VALUES (42)")
    assert oracle.execute("FROM t") == [(42,)]
    oracle.detach()

    store = open_store(parse_location(text), metadata_schema=metadata_schema)
    assert inspect(store).exists
    assert store.query("SELECT table_name FROM ducklake_table") == [("t",)]
    store.close()


def test_tables_have_the_columns_that_the_reference_makes(oracle: Oracle, tmp_path: Any) -> None:
    oracle.attach(f"ducklake:{tmp_path}/x.ducklake", metadata_catalog="meta")
    rows = oracle.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = 'meta' AND NOT internal ORDER BY table_oid, column_index"
    )
    logical = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}
    theirs = [(table, column, logical.get(kind, kind)) for table, column, kind in rows]
    assert theirs == [
        (table.name, column.name, column.type) for table in TABLES.values() for column in table.columns
    ]


def test_a_fresh_lake(location: str) -> None:
    store = open_store(parse_location(location))
    assert inspect(store) == CatalogState(exists=False)
    assert create(store)
    state = inspect(store)
    assert (state.exists, state.version) == (True, "1.0")
    assert dict(state.options) == {
        "version": "1.0", "created_by": "ducklake-spark test", "data_path": "data/", "encrypted": "false",
    }  # fmt: skip
    [(text,)] = store.query("SELECT schema_uuid FROM ducklake_schema")
    assert uuid.UUID(text).version == 4
    assert create(store) is False
    store.close()


def test_other_tables_in_the_database_are_left_alone(location: str) -> None:
    store = open_store(parse_location(location))
    with store.begin() as session:
        session.create_table("CREATE TABLE mine (i INTEGER)")
        session.insert("mine", [(7,)])
    assert not inspect(store).exists
    assert create(store)
    assert store.query("SELECT i FROM mine") == [(7,)]
    store.close()


def test_many_creators_make_one_lake(location: str) -> None:
    stores = [open_store(parse_location(location)) for _ in range(4)]
    made: list[bool] = []
    barrier = threading.Barrier(len(stores))

    def run(store: Store) -> None:
        barrier.wait()
        made.append(create(store))

    threads = [threading.Thread(target=run, args=[store]) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False, False, False, True]
    assert stores[0].query("SELECT count(*) FROM ducklake_metadata") == [(4,)]
    for store in stores:
        store.close()


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3", "0.4", "1.2", "2.0-dev1"])
def test_other_versions_are_named(version: str, make_location: Callable[[str], str]) -> None:
    store = open_store(parse_location(make_location("sqlite")))
    create(store)
    with store.begin() as session:
        session.execute("UPDATE ducklake_metadata SET value = ? WHERE \"key\" = 'version'", [version])
    with pytest.raises(CatalogVersionError, match=f"{re.escape(version)}.*1\\.0"):
        inspect(store)
    assert inspect(store, versions=[version]).version == version
    store.close()


def test_missing_tables_are_named(location: str) -> None:
    store = open_store(parse_location(location))
    create(store)
    with store.begin() as session:
        session.execute("DROP TABLE ducklake_macro")
        session.execute("DROP TABLE ducklake_tag")
    with pytest.raises(NotADuckLakeError, match="ducklake_tag, ducklake_macro missing"):
        inspect(store)
    with pytest.raises(NotADuckLakeError):
        create(store)
    store.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_part_of_a_lake_is_refused_where_a_crash_cannot_leave_it(
    kind: str, make_location: Callable[[str], str]
) -> None:
    store = open_store(parse_location(make_location(kind)))
    with store.begin() as session:
        session.create_table("CREATE TABLE ducklake_snapshot (a INTEGER)")
    with pytest.raises(NotADuckLakeError, match="only part of a lake"):
        create(store)
    store.close()


def test_a_crash_while_creating_on_mysql_is_finished(make_location: Callable[[str], str]) -> None:
    text = make_location("mysql")
    store = open_store(parse_location(text))
    with store.begin() as session:
        for table in list(TABLES.values())[:5]:
            session.create_table(
                store.create_table_sql(table.name, [(column.name, column.type) for column in table.columns])
            )
    assert not inspect(store).exists
    assert create(store)
    assert inspect(store).exists
    store.close()


def test_creating_is_all_or_nothing(make_location: Callable[[str], str], tmp_path: Any) -> None:
    text = make_location("sqlite")
    store = open_store(parse_location(text))
    with pytest.raises(NotADuckLakeError), store.begin() as session:
        session.create_table(store.create_table_sql("ducklake_metadata", [("key", "VARCHAR")]))
        raise NotADuckLakeError("a crash")
    assert sqlite3.connect(tmp_path / "lake.sqlite").execute(
        "SELECT count(*) FROM sqlite_master"
    ).fetchone() == (0,)
    assert not inspect(store).exists
    store.close()
