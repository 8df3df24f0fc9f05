"""What must be known of a table's rows before a constraint is put on them: whether there are any, and any NULL."""

from __future__ import annotations

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import TableDef, is_local

_WRONG_STATISTICS = ("timetz", "interval")
"""Types for which the extension writes that there are no NULLs although there are."""


def has_rows(tx: Transaction, table: TableDef) -> bool:
    """Whether the catalog counts rows; those of the running transaction are not among them."""
    if is_local(table.table_id):
        return False
    rows = tx.store.query(
        "SELECT record_count FROM ducklake_table_stats WHERE table_id = ?", (table.table_id,)
    )
    return any(count is None or int(count) > 0 for (count,) in rows)


def has_nulls(scope: Scope, tx: Transaction, table: TableDef, column: ColumnDef) -> bool:
    """Whether a column has a NULL: by the statistics where they can tell, else by the rows."""
    if not _may_have_nulls(tx, table, column):
        return False
    from pyspark.sql import functions as F

    from ducklake_spark.engine.reads import read

    frame = read(scope, tx, table)
    return bool(frame.where(F.col(ticked(column.name)).isNull()).limit(1).count())


def _may_have_nulls(tx: Transaction, table: TableDef, column: ColumnDef) -> bool:
    """Whether the statistics leave it open that a row is NULL; they are bounds, and say nothing of pending rows."""
    edit = tx.edits.tables.get(table.table_id)
    if edit is not None and edit.adds_rows:
        return True
    if not has_rows(tx, table):
        return False
    rows = tx.store.query(
        "SELECT contains_null FROM ducklake_table_column_stats WHERE table_id = ? AND column_id = ?",
        (table.table_id, column.column_id),
    )
    if column.type in _WRONG_STATISTICS or column.children or not rows:
        return True
    return any(value is None or bool(value) for (value,) in rows)
