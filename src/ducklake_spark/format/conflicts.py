"""Which changes cannot be combined: my transaction against all that others committed since it began. Pure.

The matrix is the reference's, plus the checks that it lacks: a rename counts by id, a NOT NULL is void when rows came
in, an altered view may be gone, a schema is not empty when a macro was put in it, and a delete on a file that was
compacted, ended or deleted from is a conflict in both directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ducklake_spark.errors import ConflictError
from ducklake_spark.format.changes import ChangeSet, ObjectName
from ducklake_spark.format.types import fold


@dataclass
class OwnChanges:
    """What my transaction does, with what is needed to compare it."""

    changes: ChangeSet
    schema_ids: Mapping[str, int] = field(default_factory=dict)
    """Ids of the existing schemas in which I create something, by folded name."""
    schema_names: Mapping[int, str] = field(default_factory=dict)
    """Names of the schemas that I drop."""
    table_names: Mapping[int, str] = field(default_factory=dict)
    """Names of tables, views and macros by id, for the messages."""
    renamed_tables: set[int] = field(default_factory=set)
    renamed_views: set[int] = field(default_factory=set)
    not_null_tables: set[int] = field(default_factory=set)
    """Tables on whose rows I checked a new NOT NULL."""
    deleted_files: Mapping[int, int] = field(default_factory=dict)
    """Data files from which I delete, or which I end, each with its table."""
    ended_rows: Mapping[int, Mapping[str, set[int]]] = field(default_factory=dict)
    """By table whose deletes are known row by row: the inlined rows that I delete, by the name of their inlined table.

    Of other tables I take all rows."""


@dataclass
class ConcurrentChanges:
    """What others committed after my start snapshot."""

    changes: ChangeSet
    renamed_tables: set[int] = field(default_factory=set)
    renamed_views: set[int] = field(default_factory=set)
    deleted_files: Mapping[int, int | None] = field(default_factory=dict)
    """Data files that were ended, removed, or got deletes since, with the snapshot that did it, if that is known."""
    ended_rows: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Inlined rows, by inlined table and row id, that were deleted since, with the snapshot that did it."""


def check(mine: OwnChanges, theirs: ConcurrentChanges) -> None:
    """Raises when the two cannot be combined.

    Raises:
        ConflictError: Says which object, what I wanted and what they did.
    """
    _check_schemas(mine, theirs)
    _check_created(mine, theirs)
    _check_dropped(mine, theirs)
    _check_altered(mine, theirs)
    _check_rows(mine, theirs)


def _conflict(mine: OwnChanges, kind: str, object_id: int, wanted: str, did: str) -> ConflictError:
    name = mine.table_names.get(object_id)
    what = f'{kind} "{name}" (id {object_id})' if name else f"{kind} with id {object_id}"
    return ConflictError(
        f"Transaction conflict: cannot {wanted} {what}, because another transaction {did} after this one began. "
        "Nothing was written; run it again on the new snapshot."
    )


def _same_rows(mine: OwnChanges, table_id: int, what: str, snapshot_id: int | None) -> ConflictError:
    name = mine.table_names.get(table_id)
    table = f'table "{name}"' if name else f"the table with id {table_id}"
    when = f"snapshot {snapshot_id}" if snapshot_id is not None else "another transaction"
    return ConflictError(
        f"Transaction conflict: cannot delete from {what} of {table}, because {when} deleted from it or replaced it "
        "after this transaction began. Nothing was written; run it again on the new snapshot."
    )


def _none_of(
    mine: OwnChanges, kind: str, wanted: str, ids: Iterable[int], rules: Mapping[str, set[int]]
) -> None:
    for object_id in sorted(ids):
        for did, theirs in rules.items():
            if object_id in theirs:
                raise _conflict(mine, kind, object_id, wanted, did)


def _check_schemas(mine: OwnChanges, theirs: ConcurrentChanges) -> None:
    changes, other = mine.changes, theirs.changes
    created = {fold(name) for name in other.created_schemas}
    for name in changes.created_schemas:
        if fold(name) in created:
            raise ConflictError(
                f'Transaction conflict: cannot create schema "{name}", because another transaction created a schema '
                "with this name. Nothing was written."
            )
    _none_of(mine, "schema", "drop", changes.dropped_schemas, {"dropped it": other.dropped_schemas})
    entries: list[ObjectName] = [
        *other.created_tables,
        *other.created_views,
        *other.created_scalar_macros,
        *other.created_table_macros,
    ]
    filled = {fold(schema): name for schema, name in entries}
    for schema_id in sorted(changes.dropped_schemas):
        schema = mine.schema_names.get(schema_id, "")
        if fold(schema) in filled:
            raise ConflictError(
                f'Transaction conflict: cannot drop schema "{schema}", because another transaction created '
                f'"{filled[fold(schema)]}" in it. Nothing was written; look into the schema and try again.'
            )


def _check_created(mine: OwnChanges, theirs: ConcurrentChanges) -> None:
    changes, other = mine.changes, theirs.changes
    relations = {(fold(schema), fold(name)) for schema, name in [*other.created_tables, *other.created_views]}
    for kind, names, taken in (
        ("table", changes.created_tables, relations),
        ("view", changes.created_views, relations),
        ("macro", changes.created_scalar_macros, _folded(other.created_scalar_macros)),
        ("table macro", changes.created_table_macros, _folded(other.created_table_macros)),
    ):
        for schema, name in names:
            if mine.schema_ids.get(fold(schema)) in other.dropped_schemas:
                raise ConflictError(
                    f'Transaction conflict: cannot create {kind} "{schema}"."{name}", because another transaction '
                    f'dropped schema "{schema}". Nothing was written.'
                )
            if (fold(schema), fold(name)) in taken:
                raise ConflictError(
                    f'Transaction conflict: cannot create {kind} "{schema}"."{name}", because another transaction '
                    "created a table, view or macro with this name. Nothing was written."
                )


def _folded(names: Iterable[ObjectName]) -> set[tuple[str, str]]:
    return {(fold(schema), fold(name)) for schema, name in names}


def _check_dropped(mine: OwnChanges, theirs: ConcurrentChanges) -> None:
    changes, other = mine.changes, theirs.changes
    gone, renamed = {"dropped it": other.dropped_tables}, {"renamed it": theirs.renamed_tables}
    _none_of(mine, "table", "drop", changes.dropped_tables, gone | renamed)
    gone, renamed = {"dropped it": other.dropped_views}, {"renamed it": theirs.renamed_views}
    _none_of(mine, "view", "drop", changes.dropped_views, gone | renamed)
    _none_of(
        mine, "macro", "drop", changes.dropped_scalar_macros, {"dropped it": other.dropped_scalar_macros}
    )
    _none_of(
        mine, "table macro", "drop", changes.dropped_table_macros, {"dropped it": other.dropped_table_macros}
    )


def _check_altered(mine: OwnChanges, theirs: ConcurrentChanges) -> None:
    changes, other = mine.changes, theirs.changes
    rules = {
        "dropped it": other.dropped_tables,
        "altered it": other.altered_tables,
        "renamed it": theirs.renamed_tables,
    }
    _none_of(mine, "table", "alter", changes.altered_tables, rules)
    _none_of(mine, "table", "rename", mine.renamed_tables, rules)
    _none_of(
        mine,
        "table",
        "set NOT NULL on",
        mine.not_null_tables,
        {
            "inserted into it": other.inserted_into_tables | other.inlined_inserts,
        },
    )
    rules = {
        "dropped it": other.dropped_views,
        "altered it": other.altered_views,
        "renamed it": theirs.renamed_views,
    }
    _none_of(mine, "view", "alter", changes.altered_views, rules)
    _none_of(mine, "view", "rename", mine.renamed_views, rules)


def _check_rows(mine: OwnChanges, theirs: ConcurrentChanges) -> None:
    changes, other = mine.changes, theirs.changes
    structure = {"dropped it": other.dropped_tables, "altered it": other.altered_tables}
    inserted = {"inserted into it": other.inserted_into_tables | other.inlined_inserts}
    deleted = {"deleted from it": other.deleted_from_tables | other.inlined_deletes}
    compacted = {"compacted it": other.merge_adjacents | other.rewrite_deletes | other.compacted_tables}
    flushed = {"flushed its inlined data": other.inline_flushes}

    inserts = changes.inserted_into_tables | changes.inlined_inserts
    _none_of(mine, "table", "insert into", inserts, structure | deleted)
    deletes = changes.deleted_from_tables | changes.inlined_deletes
    _none_of(mine, "table", "delete from", deletes, structure | compacted | inserted)
    _none_of(mine, "table", "delete from", changes.inlined_deletes, flushed)
    # The reference has no two of these at once. Where the rows are known, only the same ones are a conflict.
    whole = changes.inlined_deletes - mine.ended_rows.keys()
    _none_of(mine, "table", "delete from", whole, {"deleted inlined rows of it": other.inlined_deletes})
    for table_id, tables in mine.ended_rows.items():
        for name, row_ids in tables.items():
            for row_id in sorted(row_ids):
                if (name, row_id) in theirs.ended_rows:
                    raise _same_rows(mine, table_id, f"row {row_id}", theirs.ended_rows[name, row_id])
    for file_id, table_id in sorted(mine.deleted_files.items()):
        if file_id in theirs.deleted_files:
            raise _same_rows(mine, table_id, f"data file {file_id}", theirs.deleted_files[file_id])
    _none_of(
        mine,
        "table",
        "flush",
        changes.inline_flushes,
        {"dropped it": other.dropped_tables}
        | {"deleted inlined rows of it": other.inlined_deletes}
        | flushed,
    )
    compactions = changes.merge_adjacents | changes.rewrite_deletes
    _none_of(
        mine, "table", "compact", compactions, {"dropped it": other.dropped_tables} | deleted | compacted
    )
