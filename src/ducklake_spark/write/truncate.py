"""All rows of a table, as a transaction sees it: what ends them, and how many they are."""

from __future__ import annotations

from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.format.edits import EmptyTable
from ducklake_spark.format.objects import is_local
from ducklake_spark.write.insert import Target
from ducklake_spark.write.rowlevel import table_files


def all_rows(target: Target) -> tuple[EmptyTable | None, int]:
    """The change that ends all rows, None if there are none; and how many rows the transaction still saw."""
    tx, table = target.tx, target.table
    edit = tx.edits.tables.get(table.table_id)
    files = table_files(target, edit)
    deletes = edit.deletes if edit is not None else {}
    count = sum(
        file.rows_left
        for file_id, file in files.items()
        if not (file_id in deletes and deletes[file_id].ended)
    )
    own = sum(batch.record_count for batch in edit.batches) if edit is not None else 0
    count += own
    if is_local(table.table_id):
        return EmptyTable(table, False, ()), count
    if edit is not None and edit.emptied is not None:
        return edit.emptied, count
    names = []
    at = (tx.snapshot.snapshot_id,) * 2
    for (name,) in tx.store.query(
        "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", (table.table_id,)
    ):
        rows = int(tx.store.query(f'SELECT count(*) FROM "{name}" WHERE {LIVE}', at)[0][0])
        if rows:
            names.append(name)
            count += rows - len(edit.ended_rows.get(name, ()) if edit is not None else ())
    if not (files or names or own):
        return None, 0
    committed = frozenset(file_id for file_id in files if file_id >= 0)
    return EmptyTable(table, bool(committed), tuple(names), committed), count
