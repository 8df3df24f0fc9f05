"""A table's counts after a rewrite that left no deleted rows: they are exact again.

Bounds of columns stay as they are. The extension narrows them to the rows that are left, although older snapshots still
show the others: DuckDB then answers queries of these snapshots with other values than there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.maintenance.candidates import candidates
from ducklake_spark.format.compaction import CompactedGroup
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.statistics import TableStats


def exact_counts(tx: Transaction, table: TableDef, made: Sequence[CompactedGroup]) -> TableStats | None:
    """How many rows and bytes the table has after a rewrite; None while rows of other files are deleted."""
    taken = {source.data_file_id for group in made for source in group.sources}
    kept = [file for file in candidates(tx, table) if file.data_file_id not in taken]
    if any(file.deleted_rows for file in kept):
        return None
    new = [each.file for group in made for each in group.files]
    return TableStats(
        sum(file.record_count for file in kept)
        + sum(file.record_count for file in new)
        + _inlined_rows(tx, table),
        0,
        sum(file.file_size_bytes for file in kept) + sum(file.file_size_bytes for file in new),
    )


def _inlined_rows(tx: Transaction, table: TableDef) -> int:
    """How many rows are in the catalog."""
    names = tx.store.query(
        "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", (table.table_id,)
    )
    counted = tx.store.query_many(
        [
            (f'SELECT count(*) FROM "{name}" WHERE {tx.store.inlined_columns(str(name)).end} IS NULL', ())
            for (name,) in names
        ]
    )
    return sum(int(rows[0][0]) for rows in counted)
