"""Which changes cannot be combined: my transaction against all that others committed since it began. Pure.

The matrix is the extension's, plus the checks that it lacks: a rename counts by id, a NOT NULL is void when rows came
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
    compacted_files: Mapping[int, int] = field(default_factory=dict)
    """Data files whose rows I moved to other files, each with its table."""
    ended_rows: Mapping[int, Mapping[str, set[int]]] = field(default_factory=dict)
    """By table whose deletes are known row by row: the inlined rows that I delete, by the name of their inlined table.

    Of other tables I take all rows."""
    flushed_tables: set[int] = field(default_factory=set)
    """Tables whose inlined data I put into files. Of their rows I delete none."""


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


def check(own: OwnChanges, concurrent: ConcurrentChanges) -> None:
    """Raises when the two cannot be combined.

    Raises:
        ConflictError: Says which object, what I wanted and what they did.
    """
    _check_schemas(own, concurrent)
    _check_created(own, concurrent)
    _check_dropped(own, concurrent)
    _check_altered(own, concurrent)
    _check_rows(own, concurrent)


def _conflict(own: OwnChanges, kind: str, object_id: int, wanted: str, did: str) -> ConflictError:
    name = own.table_names.get(object_id)
    what = f'{kind} "{name}" (id {object_id})' if name else f"{kind} with id {object_id}"
    return ConflictError(
        f"Transaction conflict: cannot {wanted} {what}, because another transaction {did} after this one began. "
        "Nothing was written; run it again on the new snapshot."
    )


def _same_rows(
    own: OwnChanges, table_id: int, what: str, snapshot_id: int | None, wanted: str = "delete from"
) -> ConflictError:
    name = own.table_names.get(table_id)
    table = f'table "{name}"' if name else f"the table with id {table_id}"
    when = f"snapshot {snapshot_id}" if snapshot_id is not None else "another transaction"
    return ConflictError(
        f"Transaction conflict: cannot {wanted} {what} of {table}, because {when} deleted from it or replaced it "
        "after this transaction began. Nothing was written; run it again on the new snapshot."
    )


def _none_of(
    own: OwnChanges, kind: str, wanted: str, ids: Iterable[int], rules: Mapping[str, set[int]]
) -> None:
    for object_id in sorted(ids):
        for did, concurrent in rules.items():
            if object_id in concurrent:
                raise _conflict(own, kind, object_id, wanted, did)


def _check_schemas(own: OwnChanges, concurrent: ConcurrentChanges) -> None:
    changes, other = own.changes, concurrent.changes
    created = {fold(name) for name in other.created_schemas}
    for name in changes.created_schemas:
        if fold(name) in created:
            raise ConflictError(
                f'Transaction conflict: cannot create schema "{name}", because another transaction created a schema '
                "with this name. Nothing was written."
            )
    _none_of(own, "schema", "drop", changes.dropped_schemas, {"dropped it": other.dropped_schemas})
    entries: list[ObjectName] = [
        *other.created_tables,
        *other.created_views,
        *other.created_scalar_macros,
        *other.created_table_macros,
    ]
    filled = {fold(schema): name for schema, name in entries}
    for schema_id in sorted(changes.dropped_schemas):
        schema = own.schema_names.get(schema_id, "")
        if fold(schema) in filled:
            raise ConflictError(
                f'Transaction conflict: cannot drop schema "{schema}", because another transaction created '
                f'"{filled[fold(schema)]}" in it. Nothing was written; look into the schema and try again.'
            )


def _check_created(own: OwnChanges, concurrent: ConcurrentChanges) -> None:
    changes, other = own.changes, concurrent.changes
    relations = {(fold(schema), fold(name)) for schema, name in [*other.created_tables, *other.created_views]}
    for kind, names, taken in (
        ("table", changes.created_tables, relations),
        ("view", changes.created_views, relations),
        ("macro", changes.created_scalar_macros, _folded(other.created_scalar_macros)),
        ("table macro", changes.created_table_macros, _folded(other.created_table_macros)),
    ):
        for schema, name in names:
            if own.schema_ids.get(fold(schema)) in other.dropped_schemas:
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


def _check_dropped(own: OwnChanges, concurrent: ConcurrentChanges) -> None:
    changes, other = own.changes, concurrent.changes
    dropped, renamed = {"dropped it": other.dropped_tables}, {"renamed it": concurrent.renamed_tables}
    _none_of(own, "table", "drop", changes.dropped_tables, dropped | renamed)
    dropped, renamed = {"dropped it": other.dropped_views}, {"renamed it": concurrent.renamed_views}
    _none_of(own, "view", "drop", changes.dropped_views, dropped | renamed)
    _none_of(own, "macro", "drop", changes.dropped_scalar_macros, {"dropped it": other.dropped_scalar_macros})
    _none_of(
        own, "table macro", "drop", changes.dropped_table_macros, {"dropped it": other.dropped_table_macros}
    )


def _check_altered(own: OwnChanges, concurrent: ConcurrentChanges) -> None:
    changes, other = own.changes, concurrent.changes
    rules = {
        "dropped it": other.dropped_tables,
        "altered it": other.altered_tables,
        "renamed it": concurrent.renamed_tables,
    }
    _none_of(own, "table", "alter", changes.altered_tables, rules)
    _none_of(own, "table", "rename", own.renamed_tables, rules)
    _none_of(
        own,
        "table",
        "set NOT NULL on",
        own.not_null_tables,
        {
            "inserted into it": other.inserted_into_tables | other.inlined_inserts,
        },
    )
    rules = {
        "dropped it": other.dropped_views,
        "altered it": other.altered_views,
        "renamed it": concurrent.renamed_views,
    }
    _none_of(own, "view", "alter", changes.altered_views, rules)
    _none_of(own, "view", "rename", own.renamed_views, rules)


def _check_rows(own: OwnChanges, concurrent: ConcurrentChanges) -> None:
    changes, other = own.changes, concurrent.changes
    structure = {"dropped it": other.dropped_tables, "altered it": other.altered_tables}
    inserted = {"inserted into it": other.inserted_into_tables | other.inlined_inserts}
    deleted = {"deleted from it": other.deleted_from_tables | other.inlined_deletes}
    compacted = {"compacted it": other.merge_adjacents | other.rewrite_deletes | other.compacted_tables}
    flushed = {"flushed its inlined data": other.inline_flushes}

    inserts = changes.inserted_into_tables | changes.inlined_inserts
    _none_of(own, "table", "insert into", inserts, structure | deleted)
    deletes = (changes.deleted_from_tables - own.flushed_tables) | changes.inlined_deletes
    _none_of(own, "table", "delete from", deletes, structure | compacted | inserted)
    _none_of(own, "table", "delete from", changes.inlined_deletes, flushed)
    # The extension has no two of these at once. Where the rows are known, only the same ones are a conflict.
    whole = changes.inlined_deletes - own.ended_rows.keys()
    _none_of(own, "table", "delete from", whole, {"deleted inlined rows of it": other.inlined_deletes})
    for table_id, tables in own.ended_rows.items():
        for name, row_ids in tables.items():
            for row_id in sorted(row_ids):
                if (name, row_id) in concurrent.ended_rows:
                    raise _same_rows(own, table_id, f"row {row_id}", concurrent.ended_rows[name, row_id])
    for file_id, table_id in sorted(own.deleted_files.items()):
        if file_id in concurrent.deleted_files:
            raise _same_rows(own, table_id, f"data file {file_id}", concurrent.deleted_files[file_id])
    _none_of(
        own,
        "table",
        "flush",
        own.flushed_tables | changes.inline_flushes,
        {"dropped it": other.dropped_tables}
        | {"deleted inlined rows of it": other.inlined_deletes}
        | flushed,
    )
    _none_of(own, "table", "flush", own.flushed_tables & changes.deleted_from_tables, compacted)
    # The extension compares tables here, and misses inlined deletes. What matters is whether a file that I took was
    # touched: deletes from other files, and compactions of them, can go on beside a long compaction.
    compactions = changes.merge_adjacents | changes.rewrite_deletes
    _none_of(own, "table", "compact", compactions, structure)
    for file_id, table_id in sorted(own.compacted_files.items()):
        if file_id in concurrent.deleted_files:
            raise _same_rows(
                own, table_id, f"data file {file_id}", concurrent.deleted_files[file_id], "compact"
            )
