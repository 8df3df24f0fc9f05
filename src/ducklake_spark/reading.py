"""From a name to a DataFrame: a table at the snapshot that the lake looks at, with a transaction's own rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.format.columns import walk_all
from ducklake_spark.format.data import LOCAL_ROW_ID, DeleteFile
from ducklake_spark.format.edits import TableEdit
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import TableDef
from ducklake_spark.scan.inlined import InlinedTable, decode, frame_of
from ducklake_spark.scan.listing import ScanFile
from ducklake_spark.scan.plan import LakeInfo
from ducklake_spark.scan.read import Pending, ReadOptions, read_table
from ducklake_spark.scan.types import TimestampNs, choices_of
from ducklake_spark.sql.names import World
from ducklake_spark.sql.views import view_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.lake import Lake

FEW_DELETES = 1_000_000
"""So many rows that a transaction deleted are read here; more of them by Spark."""


def read(
    lake: Lake,
    name: Name,
    virtual_columns: Sequence[str],
    timestamp_ns: TimestampNs,
    tx: Transaction | None = None,
    depth: int = 0,
    without: frozenset[int] = frozenset(),
) -> DataFrame:
    """The table as the lake's transaction or newest snapshot has it.

    `depth` counts views in views; `without` are ids of data files to leave out.
    """
    tx = tx or lake._view()
    schema, own = lake._resolve(tx, name)
    view = tx.view(schema, own) if tx.table(schema, own) is None else None
    if view is not None:
        return view_frame(World(lake, tx, (schema.name, lake.default_schema), depth + 1, timestamp_ns), view)
    table = ddl.get_table(tx, schema, own)
    options = ReadOptions(timestamp_ns=timestamp_ns, virtual_columns=tuple(virtual_columns))
    info = LakeInfo(lake.name, lake.data_path)
    pending = _pending(lake, tx, table, timestamp_ns)
    if without:
        pending = pending or Pending()
        pending = replace(pending, dropped_files=pending.dropped_files | without)
    return read_table(lake.spark, tx.store, info, schema, table, tx.snapshot, options, pending)


def _pending(lake: Lake, tx: Transaction, table: TableDef, timestamp_ns: TimestampNs) -> Pending | None:
    edit = tx.edits.tables.get(table.table_id)
    if edit is None or not (edit.files or edit.batches or edit.emptied or edit.deletes or edit.ended_rows):
        return None
    files = tuple(
        ScanFile(-1 - i, file.whole_path, file.file_size_bytes) for i, file in enumerate(edit.files)
    )
    inlined = _inlined(lake, table, edit, timestamp_ns)
    own_files = _delete_files(edit)
    are_few = sum(file.delete_count for file in own_files.values()) <= FEW_DELETES
    return Pending(
        data_files=files,
        dropped_files=frozenset(file_id for file_id, each in edit.deletes.items() if each.ended),
        deleted=_deleted(edit, own_files if are_few else {}),
        delete_files=tuple(
            ScanFile(file_id, file.whole_path, file.file_size_bytes)
            for file_id, file in own_files.items()
            if not are_few
        ),
        inlined=inlined,
        deleted_inlined={name: frozenset(row_ids) for name, row_ids in edit.ended_rows.items()},
        emptied=edit.emptied is not None,
    )


def _delete_files(edit: TableEdit) -> dict[int, DeleteFile]:
    """The transaction's delete files, by the file that they are of; they hold the older positions of it as well."""
    found = {file_id: each.file for file_id, each in edit.deletes.items() if each.file and not each.ended}
    return found | {-1 - place: file for place, file in edit.own_deletes.items()}


def _deleted(edit: TableEdit, files: Mapping[int, DeleteFile]) -> dict[int, list[int]]:
    """Positions that the transaction deleted, by file: those for the catalog, and those in these delete files."""
    found = {
        file_id: list(each.inlined)
        for file_id, each in edit.deletes.items()
        if each.inlined and not each.ended
    }
    for file_id, file in files.items():
        found.setdefault(file_id, []).extend(_positions(file))
    return found


def _positions(file: DeleteFile) -> list[int]:
    positions: list[int] = pq.read_table(file.whole_path, columns=["pos"]).column("pos").to_pylist()
    return positions


def _inlined(lake: Lake, table: TableDef, edit: TableEdit, timestamp_ns: TimestampNs) -> DataFrame | None:
    choices = choices_of(lake.spark, timestamp_ns)
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
        frame = frame_of(lake.spark, arrow, table.columns, choices)
        result = frame if result is None else result.unionByName(frame)
    return result
