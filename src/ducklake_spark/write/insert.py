"""`insert`: rows from a DataFrame, Arrow, pandas or Python become files or inlined rows of a transaction."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.spark.writer import max_rows, to_arrow
from ducklake_spark.write.encoders.encoding import require_level
from ducklake_spark.write.expressions import carried, check_assignable, nullable
from ducklake_spark.write.files import write_frame, write_local
from ducklake_spark.write.inline import rows_inlined
from ducklake_spark.write.local import LocalRows, local_rows
from ducklake_spark.write.target import Added, Target
from ducklake_spark.write.values import column_positions, row_id_column, stored_values

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
    renamed = frame.toDF(*[f"c{i}" for i in range(len(fields))])
    targets = {position: column for column, position in positions.items()}
    columns = []
    for i, (name, part) in enumerate(fields):
        column, travels = F.col(f"c{i}"), part
        if i in targets:
            wanted = targets[i].data_type
            check_assignable(part, wanted, f'"{target.table.name}.{targets[i].name}"')
            column, travels = carried(column, part, wanted)
        columns.append(column.alias(f"c{i}"))
        fields[i] = (name, travels)
    prepared = renamed.select(*columns)
    limit, known = target.inline_limit, max_rows(frame)
    if limit and 0 <= known <= limit:
        # As if every part could be NULL: parts of a NULL struct are, whatever its type says, and Arrow refuses that.
        loose = [F.col(f"c{i}").cast(nullable(part)).alias(f"c{i}") for i, (_, part) in enumerate(fields)]
        local = to_arrow(prepared.select(*loose))
        if not local.num_rows:
            return None
        return rows_inlined(target, local, stored_values(target, fields), row_id_column(target, fields))
    if 0 <= known <= _ONE_TASK:
        prepared = prepared.coalesce(1)
    return write_frame(target, prepared, fields, limit)
