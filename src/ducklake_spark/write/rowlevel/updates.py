"""New versions of rows: evaluated once, added with the row ids that the old ones had; the old ones are deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.format.data import LOCAL_ROW_ID
from ducklake_spark.format.edits import DeleteRows
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import TableDef
from ducklake_spark.scan.projection.column import ROW_ID_NAME
from ducklake_spark.scan.read import hidden
from ducklake_spark.spark.columns import selected
from ducklake_spark.spark.writer import checkpointed, is_cheap, is_classic_frame
from ducklake_spark.write.files import row_size
from ducklake_spark.write.insert import arriving, rows_to_add
from ducklake_spark.write.local import LocalRows
from ducklake_spark.write.rowlevel.assignments import assigned_values
from ducklake_spark.write.rowlevel.deletes import LOCATOR, delete_here, delete_matching, few_of_task
from ducklake_spark.write.rowlevel.jobs import side_by_side
from ducklake_spark.write.target import Added, Target

HIDDEN = (*LOCATOR, hidden("rowid"))
"""What must be known of rows that are changed."""
MOST_ROWS = 122_880
"""More new versions than these, a row group, are written by Spark's tasks."""
_LEAST_ROW_BYTES = 64
_TEXT_BYTES = 6
"""So many bytes a row takes here for each byte that it takes in a file."""


def changed_rows(frame: DataFrame, assignments: Mapping[str, Any], table: TableDef) -> DataFrame:
    """The rows with new values, their row ids, and the columns of `HIDDEN`.

    Args:
        frame: The rows to change, with the virtual columns of `HIDDEN`.
        assignments: New values by column, or by the path of a field.
        table: The table.

    Raises:
        InvalidInputError: A column is assigned twice.
        NotFoundError: There is no such column.
    """
    values = assigned_values(assignments, table)
    return selected(
        frame,
        [
            *((column.name, values.get(column.name, ticked(column.name))) for column in table.columns),
            (ROW_ID_NAME, kept_row_id(*HIDDEN)),
            *((name, name) for name in HIDDEN),
        ],
    )


def evaluated(
    target: Target, changed: DataFrame, others: tuple[str, ...] = (), *, with_joins: bool = False
) -> LocalRows | DataFrame:
    """Rows that are evaluated once, so that what is deleted and what is added cannot differ.

    Few of them come to this process, by one job; many stay where they are.

    Args:
        target: The table.
        changed: New values with row ids, and the columns of `HIDDEN`.
        others: Columns behind those.
        with_joins: Whether joins that the rows come from are cheap enough to be done twice, if there are too many rows.
    """
    if not is_classic_frame(changed):
        return checkpointed(changed)
    rows = arriving(target, changed, (*HIDDEN, *others))
    width = max(_LEAST_ROW_BYTES, _TEXT_BYTES * (row_size(target) or 0))
    few = min(MOST_ROWS, few_of_task(target, changed, width))
    if is_cheap(changed, with_joins=with_joins):
        here = rows.here(few)
        return checkpointed(changed) if here is None else here
    kept = checkpointed(changed)
    here = arriving(target, kept, (*HIDDEN, *others)).here(few)
    return kept if here is None else here


def replaced_versions(
    target: Target, changed: LocalRows | DataFrame, spark: SparkSession
) -> tuple[list[Added], DeleteRows | None, int]:
    """The changes that add new versions of rows and delete the old ones, and how many rows that are.

    Args:
        target: The table.
        changed: What `evaluated` gave.
        spark: The session.
    """
    if isinstance(changed, LocalRows):
        change, count = delete_here(target, changed.table.select(LOCATOR), spark)
        return versions_here(target, changed), change, count
    rows = changed
    added, (change, count) = side_by_side(
        lambda: versions_to_add(target, rows), lambda: delete_matching(target, rows)
    )
    return added, change, count


def versions_here(target: Target, rows: LocalRows) -> list[Added]:
    """What `versions_to_add` says of rows that are here."""
    names = [f"c{i}" for i in range(len(rows.fields))]
    rows = LocalRows(rows.table.select(names), rows.fields)
    edit = target.tx.edits.tables.get(target.table.table_id)
    if edit is None or not (edit.files or edit.batches):
        return [rows_to_add(target, rows)]
    place = [name for name, _ in rows.fields].index(ROW_ID_NAME)
    is_new = pc.is_null(rows.table.column(f"c{place}"))
    fields = tuple((name, part) for i, (name, part) in enumerate(rows.fields) if i != place)
    new = rows.table.filter(is_new).drop_columns([f"c{place}"])
    new = new.rename_columns([f"c{i}" for i in range(len(fields))])
    kept = LocalRows(rows.table.filter(pc.invert(is_new)), rows.fields)
    return [
        rows_to_add(target, kept),
        rows_to_add(replace(target, has_row_ids=False), LocalRows(new, fields)),
    ]


def versions_to_add(target: Target, changed: DataFrame) -> list[Added]:
    """The changes that add new versions of rows.

    A row that this transaction inserted has no id yet, and so its new version is a new row as well: it goes into a
    file without ids of its own, which gets some with the commit. The extension writes numbers that are no ids.

    Args:
        target: The table.
        changed: What `evaluated` left where it was.
    """
    rows = changed.drop(*HIDDEN)
    edit = target.tx.edits.tables.get(target.table.table_id)
    if edit is None or not (edit.files or edit.batches):
        return [rows_to_add(target, rows)]
    kept = rows.where(F.col(ROW_ID_NAME).isNotNull())
    new = rows.where(F.col(ROW_ID_NAME).isNull()).drop(ROW_ID_NAME)
    return [rows_to_add(target, kept), rows_to_add(replace(target, has_row_ids=False), new)]


def kept_row_id(file_id: str, inlined_name: str, _position: str, row_id: str) -> str:
    """The id that a new version of a row keeps, in SQL over `HIDDEN`; none if this transaction inserted the row.

    Committed rows keep whatever they have: the extension leaves ids as high as those of uncommitted rows in files
    whose rows were updated in the transaction that inserted them.
    """
    is_kept = f"{file_id} >= 0 OR {inlined_name} IS NOT NULL OR {row_id} < {LOCAL_ROW_ID}L"
    return f"CASE WHEN {is_kept} THEN {row_id} END"
