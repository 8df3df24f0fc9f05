"""What the commands that need no Spark answer: a lake, its tables, a table's columns and files, as plain values."""

from __future__ import annotations

from typing import Any

from ducklake_spark.api.display import default_text, without_credentials
from ducklake_spark.api.lake import Lake
from ducklake_spark.catalog import ddl, inventory
from ducklake_spark.catalog.create import inspect
from ducklake_spark.cli.output import Bytes, Result
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.format.changes import changes_text
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.duckdb_sql import quote_if_needed
from ducklake_spark.format.objects import table_folder
from ducklake_spark.format.types import duckdb_name


def info(lake: Lake) -> dict[str, Any]:
    """The lake in one record."""
    scope = scope_of(lake)
    snapshot = scope.read_transaction().snapshot
    at = snapshot.snapshot_id
    options = inspect(scope.store).options
    found = inventory.contents(scope.store, at)
    total = sum(inventory.sizes(scope.store, at).values(), inventory.Size())
    return {
        "name": lake.name,
        "catalog": scope.store.display,
        "catalog_type": scope.store.kind,
        "data_path": without_credentials(lake.data_path),
        "format_version": options.get("version"),
        "created_by": options.get("created_by"),
        "encrypted": options.get("encrypted") == "true",
        "snapshot": at,
        "snapshot_time": snapshot.snapshot_time,
        "schemas": found.schemas,
        "tables": found.tables,
        "views": found.views,
        "files": total.files,
        "bytes": Bytes(total.file_bytes),
        "delete_files": total.delete_files,
        "delete_bytes": Bytes(total.delete_bytes),
        "rows": total.rows,
        "inlined_rows": total.inlined_rows,
    }


def tables(lake: Lake, schema: str | None = None) -> Result:
    """Tables and views, with their size."""
    tx = scope_of(lake).read_transaction()
    if schema is not None:
        ddl.get_schema(tx, schema)
    sizes = inventory.sizes(tx.store, tx.snapshot.snapshot_id)
    rows: list[tuple[Any, ...]] = []
    for each in tx.schemas():
        if schema is not None and each.name.lower() != schema.lower():
            continue
        ids = {entry.name: entry.object_id for entry in tx.reader.tables(each.schema_id)}
        for name in tx.table_names(each):
            size = sizes.get(ids.get(name, -1), inventory.Size())
            rows.append((each.name, name, "table", size.rows, size.files, Bytes(size.file_bytes)))
        rows += [(each.name, name, "view", None, None, None) for name in tx.view_names(each)]
    rows.sort(key=lambda row: (row[0].lower(), row[1].lower()))
    return Result(("schema", "name", "kind", "rows", "files", "bytes"), rows, frozenset({3, 4, 5}))


def snapshots(lake: Lake, newest: int | None = None, *, people: bool = False) -> Result:
    """Snapshots in order; all, or the newest ones. For people with changes in words, and times to the second."""
    scope = scope_of(lake)
    rows = scope.snapshot_values(newest)
    if not people:
        columns = ("snapshot_id", "snapshot_time", "schema_version", "changes", "author", "commit_message")
        return Result((*columns, "commit_extra_info"), rows, frozenset({0, 2}))
    names = inventory.names(scope.store)
    shown = []
    for snapshot_id, moment, _, changes, author, message, _ in rows:
        named = {key: [names.get(value, value) for value in values] for key, values in changes.items()}
        shown.append((snapshot_id, f"{moment:%Y-%m-%d %H:%M:%S%z}", changes_text(named), author, message))
    return Result(
        ("snapshot_id", "snapshot_time", "changes", "author", "commit_message"), shown, frozenset({0})
    )


def schema(lake: Lake, name: str) -> dict[str, Any]:
    """A table's columns and keys."""
    table = lake[name]
    definition = table.definition
    return {
        "table": f"{quote_if_needed(table.schema_name)}.{quote_if_needed(table.name)}",
        "comment": definition.comment,
        "columns": [_column(column) for column in definition.columns],
        "partitioned_by": table.partitioned_by,
        "sorted_by": table.sorted_by,
    }


def schema_rows(described: dict[str, Any]) -> Result:
    """The same as rows, a column each; keys are notes below them."""
    columns = described["columns"]
    notes = [
        f"{words}: {', '.join(described[key])}"
        for key, words in (("partitioned_by", "Partitioned by"), ("sorted_by", "Sorted by"))
        if described[key]
    ]
    if described["comment"]:
        notes.insert(0, f"Comment: {described['comment']}")
    names = ("name", "type", "nullable", "default", "comment")
    return Result(names, [tuple(column[name] for name in names) for column in columns], notes=notes)


def files(lake: Lake, name: str, *, people: bool = False) -> Result:
    """A table's data files. For people with paths inside the table's folder."""
    table = lake[name].definition
    scope = scope_of(lake)
    tx = scope.read_transaction()
    folder = table_folder(scope.config.data_path, tx.schema_of(table.schema_id), table)
    at, table_id = tx.snapshot.snapshot_id, table.table_id
    found = inventory.files(tx.store, table_id, folder, at)
    if not people:
        rows: list[tuple[Any, ...]] = [
            (
                each.path,
                each.rows,
                Bytes(each.file_bytes),
                each.deleted,
                each.delete_file,
                each.begin_snapshot,
            )
            for each in found
        ]
        columns = ("path", "rows", "bytes", "deleted", "delete_file", "begin_snapshot")
        return Result(columns, rows, frozenset({1, 2, 3, 5}))
    rows = [
        (each.path.removeprefix(folder), each.rows, Bytes(each.file_bytes), each.deleted, each.begin_snapshot)
        for each in found
    ]
    inlined = inventory.sizes(tx.store, at, table_id).get(table_id, inventory.Size()).inlined_rows
    notes = [f"{inlined} more {'row is' if inlined == 1 else 'rows are'} in the catalog"] if inlined else []
    shown = ("path", "rows", "bytes", "deleted", "begin_snapshot")
    return Result(shown, rows, frozenset({1, 2, 3, 4}), [*notes, f"Folder: {folder}"])


def _column(column: ColumnDef) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": duckdb_name(column.data_type),
        "nullable": column.nulls_allowed,
        "default": default_text(column),
        "comment": column.comment,
    }
