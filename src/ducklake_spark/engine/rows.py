"""Changes of a table's rows in a transaction: insert, delete, update, overwrite, truncate. Merges: `merge.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine import inserts
from ducklake_spark.engine.reads import read
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.edits import InsertFiles
from ducklake_spark.format.objects import TableDef
from ducklake_spark.write.insert import rows_to_add
from ducklake_spark.write.merge_schema import merged, source_of
from ducklake_spark.write.partitioning.overwrite import replaced, require_keys
from ducklake_spark.write.rowlevel.assignments import mentioned
from ducklake_spark.write.rowlevel.deletes import LOCATOR, delete_matching
from ducklake_spark.write.rowlevel.truncate import all_rows
from ducklake_spark.write.rowlevel.updates import HIDDEN, changed_rows, evaluated, replaced_versions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Naming = Callable[["DataFrame"], "DataFrame"]
"""Gives the table's DataFrame the names, or the ids, by which conditions and values know its columns."""


def as_it_is(frame: DataFrame) -> DataFrame:
    """Columns are known by their names."""
    return frame


def insert(scope: Scope, tx: Transaction, table: TableDef, rows: Any, *, merge_schema: bool = False) -> int:
    """Adds rows, with `merge_schema` also columns and fields that the table does not have; says how many rows."""
    if not merge_schema:
        return inserts.add_rows(scope, tx, table, rows)
    source = source_of(table, rows)
    return inserts.add_rows(scope, tx, merged(tx, table, source), source)


def widened(tx: Transaction, table: TableDef, rows: Any) -> TableDef:
    """The table with the columns and fields that only the rows have."""
    return merged(tx, table, source_of(table, rows))


def truncate(scope: Scope, tx: Transaction, table: TableDef) -> int:
    """Removes all rows, and says how many."""
    target = inserts.target_of(scope, tx, table)
    changes, count = all_rows(target, lambda without: _located(scope, tx, table, without))
    for change in changes:
        tx.apply(change)
    return count


def delete(
    scope: Scope, tx: Transaction, table: TableDef, condition: str | Column, named: Naming = as_it_is
) -> int:
    """Deletes the rows for which the condition holds, and says how many."""
    frame = named(read(scope, tx, table, (*LOCATOR, *mentioned(condition))))
    change, count = delete_matching(inserts.target_of(scope, tx, table), frame.where(condition))
    if change is not None:
        tx.apply(change)
    return count


def update(
    scope: Scope,
    tx: Transaction,
    table: TableDef,
    assignments: Mapping[str, Any],
    condition: str | Column | None = None,
    named: Naming = as_it_is,
) -> int:
    """Deletes the rows for which the condition holds, adds their new versions, and says how many."""
    virtual = (*HIDDEN, *mentioned(condition, *assignments.values()))
    frame = named(read(scope, tx, table, virtual))
    matching = frame if condition is None else frame.where(condition)
    target = inserts.target_of(scope, tx, table, has_row_ids=True)
    changed = evaluated(target, changed_rows(matching, assignments, table))
    added, change, count = replaced_versions(target, changed, scope.spark)
    if change is not None:
        tx.apply(change)
    for each in added:
        inserts.add(tx, each)
    return count


def overwrite(
    scope: Scope,
    tx: Transaction,
    table: TableDef,
    rows: Any,
    where: str | Column | None = None,
    named: Naming = as_it_is,
) -> int:
    """Replaces all rows, or those for which `where` holds, and says how many were added."""
    added = inserts.staged(scope, tx, table, rows)
    if where is None:
        truncate(scope, tx, table)
    else:
        delete(scope, tx, table, where, named)
    return inserts.add(tx, added)


def overwrite_partitions(scope: Scope, tx: Transaction, table: TableDef, rows: Any) -> int:
    """Replaces the partitions for which there are rows, and says how many rows were added."""
    target = inserts.target_of(scope, tx, table)
    require_keys(target)
    added = rows_to_add(replace(target, always_files=True), rows)
    if not isinstance(added, InsertFiles):
        return 0
    for change in replaced(target, added, lambda without: _located(scope, tx, table, without)):
        tx.apply(change)
    return inserts.add(tx, added)


def overwrite_frame(
    scope: Scope,
    tx: Transaction,
    table: TableDef,
    rows: DataFrame,
    where: str | None,
    *,
    by_partition: bool,
    merge_schema: bool,
) -> int:
    """`overwrite` or `overwrite_partitions`, with `merge_schema` also of columns that the table does not have."""
    source: Any = rows
    if merge_schema:
        source = source_of(table, rows)
        table = merged(tx, table, source)
    if by_partition and table.partitioning is not None and table.partitioning.keys:
        return overwrite_partitions(scope, tx, table, source)
    return overwrite(scope, tx, table, source, where)


def _located(scope: Scope, tx: Transaction, table: TableDef, without: frozenset[int]) -> DataFrame:
    """The rows with their row locators, without those of some data files."""
    return read(scope, tx, table, LOCATOR, without=without)
