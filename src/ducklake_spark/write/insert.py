"""`insert`: rows from a DataFrame, Arrow, pandas or Python become files or inlined rows of a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyspark.sql.types as spark_types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.names import ticked
from ducklake_spark.spark.columns import Value, renamed, selected
from ducklake_spark.spark.writer import few_here, max_rows
from ducklake_spark.write.encoders.encoding import require_level
from ducklake_spark.write.expressions import NESTED, carried, check_assignable, is_carried_as_is, nullable
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
    rows = arriving(target, frame)
    known = max_rows(frame)
    if 0 <= known <= _ONE_TASK:
        here = rows.here(known)
        if here is not None:
            return _insert_local(target, here)
        return write_frame(target, rows.frame.coalesce(1), rows.fields, target.inline_limit)
    return write_frame(target, rows.frame, rows.fields, target.inline_limit)


@dataclass(frozen=True)
class Arriving:
    """Rows on their way into a table.

    Attributes:
        frame: Columns `c0`, `c1` ... as encoders take them, and others under their own names.
        fields: The names and types of `c0`, `c1` ...
    """

    frame: DataFrame
    fields: tuple[tuple[str, spark_types.DataType], ...]
    others: tuple[str, ...] = ()

    def here(self, most: int) -> LocalRows | None:
        """The rows, by one Spark job at most; None where they are too many for it."""
        frame = self.frame
        if any(isinstance(part, NESTED) for _, part in self.fields):
            # As if every part could be NULL: parts of a NULL struct are, whatever its type says. Arrow refuses that.
            loose = [
                F.col(f"c{i}").cast(nullable(part)).alias(f"c{i}") for i, (_, part) in enumerate(self.fields)
            ]
            frame = frame.select(*loose, *self.others)
        found = few_here(frame, most)
        return None if found is None else LocalRows(found, self.fields)


def arriving(target: Target, frame: DataFrame, others: tuple[str, ...] = ()) -> Arriving:
    """The rows of a DataFrame as encoders take them.

    Args:
        target: Where they go.
        frame: The rows.
        others: The last columns of the DataFrame, which are not for the table.
    """
    schema = frame.schema.fields
    fields = [(part.name, part.dataType) for part in schema[: len(schema) - len(others)]]
    if not fields:
        raise InvalidInputError(f'The DataFrame for table "{target.table.name}" has no columns.')
    positions = column_positions(target, fields)
    # By position: names may have dots in them, or differ by case only.
    prepared = renamed(frame, [*(f"c{i}" for i in range(len(fields))), *others])
    targets = {position: column for column, position in positions.items()}
    columns: list[Value] = []
    for i, (name, part) in enumerate(fields):
        if i in targets:
            check_assignable(part, targets[i].data_type, f'"{target.table.name}.{targets[i].name}"')
        if i not in targets or is_carried_as_is(part, targets[i].data_type):
            columns.append(f"c{i}")
            continue
        given = F.col(f"c{i}")
        column, travels = carried(given, part, targets[i].data_type)
        columns.append(f"c{i}" if column is given else column)
        fields[i] = (name, travels)
    if any(not isinstance(column, str) for column in columns):
        moved = [(f"c{i}", column) for i, column in enumerate(columns)]
        prepared = selected(prepared, [*moved, *((other, ticked(other)) for other in others)])
    return Arriving(prepared, tuple(fields), others)
