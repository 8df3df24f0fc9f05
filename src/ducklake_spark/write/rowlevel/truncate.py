"""All rows of a table, as a transaction sees it: what ends them, and how many they are."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ducklake_spark.format.edits import DeleteRows, TruncateTable
from ducklake_spark.format.objects import is_local
from ducklake_spark.scan.read import FILE_ID
from ducklake_spark.write.rowlevel.deletes import delete_left, delete_matching, table_files
from ducklake_spark.write.target import Target


def all_rows(
    target: Target, read: Callable[[frozenset[int]], DataFrame] | None
) -> tuple[list[TruncateTable | DeleteRows], int]:
    """The changes that end all rows, and how many rows the transaction still saw.

    Args:
        target: The table.
        read: Reads the table without some data files, with the columns of `LOCATOR`; None where no session can.
    """
    tx, table = target.tx, target.table
    edit = tx.edits.tables.get(table.table_id)
    files = table_files(target, edit)
    ended = {file_id for file_id, each in edit.deletes.items() if each.ended} if edit is not None else set()
    count = sum(file.rows_left for file_id, file in files.items() if file_id not in ended)
    own = sum(batch.record_count for batch in edit.batches) if edit is not None else 0
    count += own
    if is_local(table.table_id):
        return [TruncateTable(table)], count
    if edit is not None and edit.emptied is not None:
        return [edit.emptied], count
    names = []
    at = (tx.snapshot.snapshot_id,) * 2
    for (name,) in tx.store.query(
        "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", (table.table_id,)
    ):
        live = tx.store.inlined_columns(str(name)).live
        rows = int(tx.store.query(f'SELECT count(*) FROM "{name}" WHERE {live}', at)[0][0])
        if rows:
            names.append(name)
            count += rows - len(edit.ended_rows.get(name, ()) if edit is not None else ())
    if not (files or names or own):
        return [], 0
    committed = frozenset(file_id for file_id in files if file_id >= 0)
    kept = frozenset(file_id for file_id, file in files.items() if file.inlined_deletes)
    changes: list[TruncateTable | DeleteRows] = [TruncateTable(table, tuple(names), committed, kept)]
    if any(files[file_id].rows_left for file_id in kept):
        change = (
            delete_left(target, kept)
            if read is None
            else delete_matching(target, read(committed - kept).where(F.col(FILE_ID) >= 0))[0]
        )
        changes += [change] if change is not None else []
    return changes, count
