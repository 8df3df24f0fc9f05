"""What is different between a lake at two snapshots: objects, their definitions, and which tables have other rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ducklake_spark.catalog.snapshot import snapshot_at_version
from ducklake_spark.catalog.store import Store
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.changes import ChangeSet, parse_changes
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.duckdb_sql import partition_texts
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.partitioning import PartitionKey
from ducklake_spark.format.sorting import sort_texts
from ducklake_spark.format.types import duckdb_name

_MANY = 100
"""So many tables are asked for one by one."""
_Known = tuple[str, TableDef]
"""A table with the name of its schema."""
_IN_RANGE = "(begin_snapshot > ? AND begin_snapshot <= ?) OR (end_snapshot > ? AND end_snapshot <= ?)"


@dataclass(frozen=True)
class TableDifference:
    """A table that is not the same.

    Attributes:
        schema_name: Its schema, at the later snapshot if it is there.
        name: Its name, likewise.
        kind: `created`, `dropped`, `altered`, or `rows` when its definition is the same.
        changes: What is different in its definition, in words.
        has_new_rows: Whether rows were inserted, changed or deleted.
    """

    schema_name: str
    name: str
    kind: str
    changes: Sequence[str]
    has_new_rows: bool


@dataclass(frozen=True)
class LakeDifference:
    """What happened after one snapshot up to another."""

    first: int
    last: int
    schemas_created: Sequence[str]
    schemas_dropped: Sequence[str]
    views_created: Sequence[str]
    views_dropped: Sequence[str]
    tables: Sequence[TableDifference]
    feed_start: int
    """The first snapshot after `first`: where a change feed of the difference begins."""


def difference(scope: Scope, first: int, last: int) -> LakeDifference:
    """Compares the lake at two snapshots.

    Raises:
        SnapshotNotFoundError: There is no such snapshot.
        InvalidInputError: The first is not before the last.
    """
    if first >= last:
        raise InvalidInputError(f"Snapshot {first} is not before snapshot {last}: give the older one first.")
    old, new = (
        scope.at(snapshot_at_version(scope.store, version)).read_transaction() for version in (first, last)
    )
    rows = _changed_rows(scope.store, first, last)
    ids = _changed_definitions(scope.store, first, last) | rows
    before, after = _tables(old, ids), _tables(new, ids)
    found = [
        each
        for table_id in sorted(ids)
        if (each := _compare(before.get(table_id), after.get(table_id), has_new_rows=table_id in rows))
        is not None
    ]
    old_schemas, new_schemas = (
        {schema.schema_id: schema.name for schema in tx.schemas()} for tx in (old, new)
    )
    old_views, new_views = (_views(tx) for tx in (old, new))
    following = scope.store.query(
        "SELECT min(snapshot_id) FROM ducklake_snapshot WHERE snapshot_id > ?", (first,)
    )
    return LakeDifference(
        first,
        last,
        [name for i, name in new_schemas.items() if i not in old_schemas],
        [name for i, name in old_schemas.items() if i not in new_schemas],
        sorted(new_views - old_views),
        sorted(old_views - new_views),
        sorted(found, key=lambda each: (each.schema_name, each.name)),
        int(following[0][0]),
    )


def _views(tx: Transaction) -> set[str]:
    return {f"{schema.name}.{name}" for schema in tx.schemas() for name in tx.view_names(schema)}


def _changed_definitions(store: Store, first: int, last: int) -> set[int]:
    at = (first, last, first, last)
    names = ("table", "column", "column_tag", "partition_info", "sort_info")
    asked = [(f"SELECT DISTINCT table_id FROM ducklake_{name} WHERE {_IN_RANGE}", at) for name in names]
    tags = (f"SELECT DISTINCT object_id FROM ducklake_tag WHERE {_IN_RANGE}", at)
    return {int(row[0]) for rows in store.query_many([*asked, tags]) for row in rows}


def _changed_rows(store: Store, first: int, last: int) -> set[int]:
    changes = ChangeSet()
    for (text,) in store.query(
        "SELECT changes_made FROM ducklake_snapshot_changes WHERE snapshot_id > ? AND snapshot_id <= ?",
        (first, last),
    ):
        changes.merge(parse_changes(text))
    return (
        changes.inserted_into_tables
        | changes.deleted_from_tables
        | changes.inlined_inserts
        | changes.inlined_deletes
    )


def _tables(tx: Transaction, ids: Collection[int]) -> Mapping[int, _Known]:
    """These tables at a snapshot, with the names of their schemas; all at once where they are many."""
    found = (
        tx.all_tables()
        if len(ids) > _MANY
        else [table for table_id in ids if (table := tx.table_of(table_id)) is not None]
    )
    names = {schema.schema_id: schema.name for schema in tx.schemas()}
    return {table.table_id: (names[table.schema_id], table) for table in found}


def _compare(before: _Known | None, after: _Known | None, *, has_new_rows: bool) -> TableDifference | None:
    if after is None:
        if before is None:
            return None  # it came and went in between, or it is a view
        return TableDifference(before[0], before[1].name, "dropped", (), False)
    schema, table = after
    if before is None:
        columns = [f"{column.name} {duckdb_name(column.data_type)}" for column in table.columns]
        return TableDifference(schema, table.name, "created", columns, has_new_rows)
    changes = tuple(_altered(before[1], table))
    if before[0] != schema:
        changes = (f"moved from schema {before[0]}", *changes)
    if not changes and not has_new_rows:
        return None
    return TableDifference(schema, table.name, "altered" if changes else "rows", changes, has_new_rows)


def _altered(before: TableDef, after: TableDef) -> Iterator[str]:
    if before.name != after.name:
        yield f"renamed from {before.name}"
    if before.comment != after.comment:
        yield _said("comment", after.comment)
    yield from _columns(before.columns, after.columns)
    if _keys(before) != _keys(after):
        yield f"partitioned by {', '.join(partition_texts(after.partitioning, after.columns)) or 'nothing'}"
    if sort_texts(before.sorting) != sort_texts(after.sorting):
        yield f"sorted by {', '.join(sort_texts(after.sorting)) or 'nothing'}"


def _keys(table: TableDef) -> Sequence[PartitionKey]:
    return table.partitioning.keys if table.partitioning is not None else ()


def _columns(before: Sequence[ColumnDef], after: Sequence[ColumnDef]) -> Iterator[str]:
    old = {column.column_id: column for column in before}
    new = {column.column_id: column for column in after}
    for column_id, column in new.items():
        kind = duckdb_name(column.data_type)
        if column_id not in old:
            yield f"column {column.name} {kind} added"
            continue
        was = old[column_id]
        if was.name != column.name:
            yield f"column {was.name} renamed to {column.name}"
        if duckdb_name(was.data_type) != kind:
            yield f"column {column.name}: {duckdb_name(was.data_type)} → {kind}"
        if was.nulls_allowed != column.nulls_allowed:
            yield f"column {column.name}: NOT NULL {'dropped' if column.nulls_allowed else 'set'}"
        if was.default_value != column.default_value:
            yield f"column {column.name}: {_said('default', column.default_value)}"
        if was.comment != column.comment:
            yield f"column {column.name}: {_said('comment', column.comment)}"
    for column_id, column in old.items():
        if column_id not in new:
            yield f"column {column.name} dropped"


def _said(what: str, text: str | None) -> str:
    return f"{what} removed" if text is None else f"{what} “{text}”"
