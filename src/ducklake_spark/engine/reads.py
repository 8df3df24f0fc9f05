"""A table at the snapshot of a transaction as a DataFrame, with the transaction's own rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.columns import walk_all
from ducklake_spark.format.data import LOCAL_ROW_ID, DeleteFile
from ducklake_spark.format.edits import TableEdit
from ducklake_spark.format.objects import TableDef
from ducklake_spark.scan.inlined import InlinedTable, decode, frame_of
from ducklake_spark.scan.planning.listing import ScanFile
from ducklake_spark.scan.planning.plan import LakeInfo
from ducklake_spark.scan.projection.types import TimestampNs, choices_of
from ducklake_spark.scan.read import Pending, ReadOptions, read_table
from ducklake_spark.workers.deletes import deleted_positions
from ducklake_spark.workers.object_store import NOWHERE, is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW_DELETES = 1_000_000
"""So many rows that a transaction deleted are read here; more of them by Spark."""


def read(
    scope: Scope,
    tx: Transaction,
    table: TableDef,
    virtual_columns: Sequence[str] = (),
    timestamp_ns: TimestampNs = "long",
    without: frozenset[int] = frozenset(),
) -> DataFrame:
    """A table as a transaction sees it, its own rows and deletes included; `without` are data files to leave out."""
    schema = tx.schema_of(table.schema_id)
    options = ReadOptions(timestamp_ns=timestamp_ns, virtual_columns=tuple(virtual_columns))
    info = LakeInfo(scope.name, scope.config.data_path, scope.config.is_encrypted, scope.access)
    pending = _pending(scope, tx, table, timestamp_ns)
    if without:
        pending = pending or Pending()
        pending = replace(pending, dropped_files=pending.dropped_files | without)
    return read_table(scope.spark, tx.store, info, schema, table, tx.snapshot, options, pending)


def _pending(scope: Scope, tx: Transaction, table: TableDef, timestamp_ns: TimestampNs) -> Pending | None:
    edit = tx.edits.tables.get(table.table_id)
    if edit is None or not (edit.files or edit.batches or edit.emptied or edit.deletes or edit.ended_rows):
        return None
    files = tuple(
        ScanFile(-1 - i, file.whole_path, file.file_size_bytes, mapping=file.mapping, key=file.key)
        for i, file in enumerate(edit.files)
    )
    inlined = _inlined(scope, table, edit, timestamp_ns)
    own_files = _delete_files(edit)
    # Spark reads large delete files itself, but not deletion vectors, which are small for what they hold.
    many = {}
    if sum(file.delete_count for file in own_files.values()) > FEW_DELETES:
        many = {file_id: file for file_id, file in own_files.items() if file.format == "parquet"}
    return Pending(
        data_files=files,
        dropped_files=frozenset(file_id for file_id, each in edit.deletes.items() if each.ended),
        deleted=_deleted(scope, edit, {i: file for i, file in own_files.items() if i not in many}),
        delete_files=tuple(
            ScanFile(file_id, file.whole_path, file.file_size_bytes, key=file.key)
            for file_id, file in many.items()
        ),
        inlined=inlined,
        deleted_inlined={name: frozenset(row_ids) for name, row_ids in edit.ended_rows.items()},
        emptied=edit.emptied is not None,
    )


def _delete_files(edit: TableEdit) -> dict[int, DeleteFile]:
    """The transaction's delete files, by the file that they are of; they hold the older positions of it as well."""
    found = {file_id: each.file for file_id, each in edit.deletes.items() if each.file and not each.ended}
    return found | {-1 - place: file for place, file in edit.own_deletes.items()}


def _deleted(scope: Scope, edit: TableEdit, files: Mapping[int, DeleteFile]) -> dict[int, list[int]]:
    """Positions that the transaction deleted, by file: those for the catalog, and those in these delete files."""
    found = {
        file_id: list(each.inlined)
        for file_id, each in edit.deletes.items()
        if each.inlined and not each.ended
    }
    access = scope.access() if any(is_remote(file.whole_path) for file in files.values()) else NOWHERE
    for file_id, file in files.items():
        with access.here(file.whole_path) as local:
            found.setdefault(file_id, []).extend(deleted_positions(local, file.key).tolist())
    return found


def _inlined(scope: Scope, table: TableDef, edit: TableEdit, timestamp_ns: TimestampNs) -> DataFrame | None:
    choices = choices_of(scope.spark, timestamp_ns)
    result: DataFrame | None = None
    place = LOCAL_ROW_ID
    for batch in edit.batches:
        nodes = tuple(
            (node.column_id, node.name, node.type, parent) for node, parent in walk_all(batch.layout)
        )
        rows = []
        for kept, row in zip_longest(batch.row_ids, batch.rows):
            rows.append((place if kept is None else kept, place, *row))
            place += 1
        if not rows:
            continue
        arrow = decode(rows, InlinedTable("pending", 0, nodes), table.columns, choices)
        frame = frame_of(scope.spark, arrow, table.columns, choices)
        result = frame if result is None else result.unionByName(frame)
    return result
