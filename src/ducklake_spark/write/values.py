"""The values of a table's columns out of rows that arrive: by name, checked, cast, and with defaults."""

from __future__ import annotations

from collections.abc import Sequence

import pyspark.sql.types as spark_types

from ducklake_spark.errors import InvalidInputError, did_you_mean
from ducklake_spark.format import duckdb_sql
from ducklake_spark.format.columns import ColumnDef, find
from ducklake_spark.format.types import duckdb_name, text_literal
from ducklake_spark.scan.projection.column import ROW_ID_NAME
from ducklake_spark.write.expressions import check_assignable, stored_sql
from ducklake_spark.write.target import Target

Fields = Sequence[tuple[str, spark_types.DataType]]
"""The names and types of rows that arrive; their values travel as `c0`, `c1` ..."""


def column_positions(target: Target, fields: Fields) -> dict[ColumnDef, int]:
    """By column of the table, the position of its values in the rows.

    Raises:
        InvalidInputError: A column is unknown, or there twice.
    """
    table = target.table
    positions: dict[ColumnDef, int] = {}
    for position, (name, _) in enumerate(fields):
        if target.has_row_ids and name == ROW_ID_NAME:
            continue
        column = find(table.columns, name)
        if column is None:
            near = did_you_mean(name, [column.name for column in table.columns])
            raise InvalidInputError(
                f'Table "{table.name}" has no column "{name}".{near} Drop it, or insert with '
                "merge_schema=True to add it."
            )
        if column in positions:
            raise InvalidInputError(f'The rows for table "{table.name}" have two columns named "{name}".')
        positions[column] = position
    return positions


def stored_values(target: Target, fields: Fields, partial: frozenset[int] = frozenset()) -> list[str]:
    """For each column of the table, the SQL of the value to store over `c0`, `c1` ..."""
    table, positions = target.table, column_positions(target, fields)
    values = []
    for column in table.columns:
        position = positions.get(column)
        if position is None:
            values.append(_default_value(column))
            continue
        source = fields[position][1]
        check_assignable(source, column.data_type, f'"{table.name}.{column.name}"')
        value = stored_sql(f"c{position}", source, column.data_type)
        if position in partial:
            value = f"CASE WHEN m{position} THEN {value} ELSE {_default_value(column)} END"
        values.append(value)
    return values


def _default_value(column: ColumnDef) -> str:
    name = duckdb_name(column.data_type)
    if column.default_value is None:
        return f"CAST(NULL AS {name})"
    if column.default_value_type != "expression":
        return f"CAST({text_literal(column.default_value)} AS {name})"
    return f"CAST({duckdb_sql.once_or_per_row(column.default_value)} AS {name})"


def row_id_column(target: Target, fields: Fields) -> str | None:
    """The column of the rows, one of `c0`, `c1` ..., with the row ids that they keep."""
    if not target.has_row_ids:
        return None
    return f"c{[name for name, _ in fields].index(ROW_ID_NAME)}"
