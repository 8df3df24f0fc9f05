"""`insert`: rows from a DataFrame, Arrow, pandas or Python become files or inlined rows of a transaction."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.spark.writer import arrow_here, max_rows, to_arrow
from ducklake_spark.write.encoders.encoding import require_level
from ducklake_spark.write.expressions import NESTED, carried, check_assignable, is_carried_as_is, nullable
from ducklake_spark.write.files import write_frame, write_local
from ducklake_spark.write.inline import rows_inlined
from ducklake_spark.write.local import LocalRows, local_rows
from ducklake_spark.write.target import Added, Target
from ducklake_spark.write.values import Fields, column_positions, row_id_column, stored_values

_ONE_TASK = 10_000
"""Rows that are surely no more than these are written by one task: a file each of several would be too small."""


def rows_to_add(target: Target, source: Any) -> Added:
    """The change that adds rows. Files are written now, and removed with the transaction if it does not commit.

    Args:
        target: Where to.
        source: A DataFrame, an Arrow table, a pandas DataFrame, or rows as dicts, tuples or Rows.
    """
    require_level(target)
    if isinstance(source, DataFrame):
        return _insert_frame(target, source)
    if not isinstance(source, LocalRows):
        source = local_rows(target.table, source)
    return _insert_local(target, source)


def _insert_local(target: Target, local: LocalRows) -> Added:
    """Rows that are here already need no Spark job: this process writes them."""
    values = stored_values(target, local.fields, local.partial)
    if local.table.num_rows == 0:
        return None
    if local.table.num_rows <= target.inline_limit:
        return rows_inlined(target, local.table, values, row_id_column(target, local.fields))
    return write_local(target, local)


def _insert_frame(target: Target, frame: DataFrame) -> Added:
    fields = [(part.name, part.dataType) for part in frame.schema.fields]
    if not fields:
        raise InvalidInputError(f'The DataFrame for table "{target.table.name}" has no columns.')
    positions = column_positions(target, fields)
    # By position: names may have dots in them, or differ by case only.
    prepared = frame.toDF(*[f"c{i}" for i in range(len(fields))])
    targets = {position: column for column, position in positions.items()}
    columns: list[Column | str] = []
    for i, (name, part) in enumerate(fields):
        if i in targets:
            check_assignable(part, targets[i].data_type, f'"{target.table.name}.{targets[i].name}"')
        if i not in targets or is_carried_as_is(part, targets[i].data_type):
            columns.append(f"c{i}")
            continue
        column, travels = carried(F.col(f"c{i}"), part, targets[i].data_type)
        columns.append(column.alias(f"c{i}"))
        fields[i] = (name, travels)
    if any(not isinstance(column, str) for column in columns):
        prepared = prepared.select(*columns)
    limit, known = target.inline_limit, max_rows(frame)
    if limit and 0 <= known <= limit:
        local = to_arrow(_loose(prepared, fields))
        if not local.num_rows:
            return None
        return rows_inlined(target, local, stored_values(target, fields), row_id_column(target, fields))
    if 0 <= known <= _ONE_TASK:
        here = arrow_here(_loose(prepared, fields))
        if here is not None:
            return write_local(target, LocalRows(here, tuple(fields))) if here.num_rows else None
        prepared = prepared.coalesce(1)
    return write_frame(target, prepared, fields, limit)


def _loose(prepared: DataFrame, fields: Fields) -> DataFrame:
    """As if every part could be NULL: parts of a NULL struct are, whatever its type says, and Arrow refuses that."""
    if not any(isinstance(part, NESTED) for _, part in fields):
        return prepared
    return prepared.select(
        *(F.col(f"c{i}").cast(nullable(part)).alias(f"c{i}") for i, (_, part) in enumerate(fields))
    )
