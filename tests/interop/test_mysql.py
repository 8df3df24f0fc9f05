"""MySQL catalogs: the extension cannot write them, so SQLite is the twin, and the extension only reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.format.names import split_name
from tests.interop import catalogs
from tests.interop.feed_steps import change_rows, feed_of
from tests.interop.oracle import Oracle
from tests.interop.test_ddl_twins import SCRIPTS

scripts = pytest.mark.parametrize("script", SCRIPTS)


def run(uri: str, script: str, data_path: Path) -> None:
    with ducklake_spark.attach(uri, name="lake", data_path=data_path) as lake:
        for _, step in SCRIPTS[script]:
            step(lake)


def rows_of(uri: str) -> catalogs.Catalog:
    """The 28 tables; rows of inlined tables would be there too, but DDL makes none, and their columns differ."""
    dumped = catalogs.rows_only(catalogs.dump(uri))
    return {table: rows for table, rows in dumped.items() if table in catalogs.TABLES}


@scripts
def test_mysql_holds_what_sqlite_holds_and_all_read_it(
    script: str, make_location: Callable[[str], str], oracle: Oracle, tmp_path: Path
) -> None:
    mysql, sqlite = make_location("mysql"), make_location("sqlite")
    found = []
    for uri in (mysql, sqlite):
        run(uri, script, tmp_path / "data")
        with ducklake_spark.attach(uri, name="lake") as lake:
            found.append([everything(lake.at(version=version)) for version in range(lake.version + 1)])
    catalogs.assert_same(rows_of(mysql), rows_of(sqlite))
    assert found[0] == found[1]
    assert any(found[0][-1]), "the last snapshot holds something"
    assert_read_by(oracle, mysql)


def everything(lake: Lake) -> list[object]:
    tables = [
        (name, columns_of(lake, name), lake[name].partitioned_by, lake[name].sorted_by)
        for name in lake.tables()
    ]
    comments = [
        (lake[name].comment, [c.comment for c in lake[name].definition.columns]) for name in lake.tables()
    ]
    views = [(name, lake.view(name).sql, lake.view(name).comment) for name in lake.views()]
    return [lake.schemas(), tables, comments, views, lake.macros()]


def columns_of(lake: Lake, name: str) -> list[tuple[str, str, bool]]:
    table = lake[name]
    return [
        (column.name, table.types[column.name], column.nulls_allowed) for column in table.definition.columns
    ]


def assert_read_by(oracle: Oracle, uri: str) -> None:
    """The extension finds the tables, columns and views of a lake that we wrote."""
    with ducklake_spark.attach(uri, name="lake") as lake:
        ours = {split_name(name): columns_of(lake, name) for name in lake.tables()}
        views = {split_name(name) for name in lake.views()}
        partitioned = {split_name(name): lake[name].partitioned_by for name in lake.tables()}
    oracle.attach(uri)
    theirs: dict[tuple[str, ...], list[tuple[str, str, bool]]] = {}
    for schema, table, column, data_type, nullable in oracle.execute(
        "SELECT c.schema_name, c.table_name, c.column_name, c.data_type, c.is_nullable FROM duckdb_columns() c "
        "JOIN duckdb_tables() t USING (database_name, schema_name, table_name) WHERE database_name = 'lake' "
        "ORDER BY c.schema_name, c.table_name, c.column_index"
    ):
        theirs.setdefault((schema, table), []).append((column, _plain(data_type), nullable))
    plain = {
        name: [(column, _plain(kind), null) for column, kind, null in rows] for name, rows in ours.items()
    }
    assert theirs == plain
    assert views == set(
        oracle.execute(
            "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'lake' AND NOT internal"
        )
    )
    for (schema, table), keys in partitioned.items():
        assert oracle.execute(f"SELECT count(*) FROM {_quoted(schema)}.{_quoted(table)}") == [(0,)], keys


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(data_type: str) -> str:
    """DuckDB quotes a field's name only where it must."""
    return data_type.replace('"', "")


@pytest.mark.spark
@pytest.mark.usefixtures("interpreted")
def test_changes_of_rows_and_their_feeds(
    make_location: Callable[[str], str], tmp_path: Path, spark: SparkSession
) -> None:
    found = []
    for kind in ("mysql", "sqlite"):
        uri, data = make_location(kind), tmp_path / kind
        with ducklake_spark.attach(uri, name="lake", data_path=data, spark=spark) as lake:
            change_rows(lake)
            rows = sorted(map(tuple, lake.table("t").collect()))
            history = (
                lake["t"]
                .history()
                .select("snapshot_id", "changes", "rows_inserted", "rows_deleted")
                .collect()
            )
            found.append((rows, feed_of(lake), feed_of(lake, net=True), history))
    assert found[0] == found[1]
    assert len(found[0][0]) == 98 and len(found[0][1]) == 226
