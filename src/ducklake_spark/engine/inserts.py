"""Rows on their way into a table of a transaction."""

from __future__ import annotations

from typing import Any

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.objects import TableDef
from ducklake_spark.write.insert import rows_to_add
from ducklake_spark.write.target import Added, Target, row_count


def target_of(scope: Scope, tx: Transaction, table: TableDef, *, has_row_ids: bool = False) -> Target:
    """A table as the target of a write."""
    schema = tx.schema_of(table.schema_id)
    return Target(tx, schema, table, scope.config.data_path, scope.access, has_row_ids)


def staged(scope: Scope, tx: Transaction, table: TableDef, rows: Any) -> Added:
    """The files or inlined rows that rows become; the transaction does not have them yet."""
    return rows_to_add(target_of(scope, tx, table), rows)


def add(tx: Transaction, added: Added) -> int:
    """Adds what was staged to its transaction, and says how many rows that are."""
    if added is not None:
        tx.apply(added)
    return row_count(added)


def add_rows(scope: Scope, tx: Transaction, table: TableDef, rows: Any) -> int:
    """Inserts rows, and says how many."""
    return add(tx, staged(scope, tx, table, rows))
