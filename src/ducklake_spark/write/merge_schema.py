"""`insert(merge_schema=True)`: columns and fields that only the rows have are added to the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyspark.sql.types as spark_types
from pyspark.sql import DataFrame

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.columns import ColumnDef, find
from ducklake_spark.format.objects import TableDef
from ducklake_spark.write.local import LocalRows, local_rows
from ducklake_spark.write.schema import data_type_of

Addition = tuple[tuple[str, ...], spark_types.DataType]


def source_of(table: TableDef, rows: Any) -> DataFrame | LocalRows:
    """A DataFrame as it is, or local rows as columns with types."""
    return rows if hasattr(rows, "schema") and hasattr(rows.schema, "fields") else local_rows(table, rows)


def merged(
    tx: Transaction, table: TableDef, source: DataFrame | LocalRows | spark_types.StructType
) -> TableDef:
    """The table with what only the rows have, as the transaction sees it from now on.

    Args:
        tx: The transaction.
        table: The table.
        source: The rows, or just their schema.

    Raises:
        InvalidInputError: A new column has no type, because all its values are NULL, or one that the format lacks.
    """
    if isinstance(source, LocalRows):
        fields = list(source.fields)
    else:
        schema = source if isinstance(source, spark_types.StructType) else source.schema
        fields = [(part.name, part.dataType) for part in schema.fields]
    for path, part in list(_additions((), fields, table.columns)):
        if isinstance(part, spark_types.NullType):
            raise InvalidInputError(
                f'Cannot add column "{".".join(path)}" to table "{table.name}": all its values are NULL, so it has no '
                "type. Cast it, or leave it out."
            )
        ddl.add_column(tx, table, path, data_type_of(part), has_rows=lambda _: False)
        table = ddl.get_table(tx, tx.schema_of(table.schema_id), table.name)
    return table


def _additions(
    above: tuple[str, ...],
    fields: Sequence[tuple[str, spark_types.DataType]],
    known: Sequence[ColumnDef],
) -> Iterator[Addition]:
    seen: set[str] = set()
    for name, part in fields:
        column = find(known, name)
        if column is not None:
            yield from _below((*above, column.name), part, column)
        elif name not in seen:
            seen.add(name)
            yield (*above, name), part


def _below(path: tuple[str, ...], part: spark_types.DataType, column: ColumnDef) -> Iterator[Addition]:
    if isinstance(part, spark_types.StructType) and column.type == "struct":
        yield from _additions(path, [(each.name, each.dataType) for each in part.fields], column.children)
    elif isinstance(part, spark_types.ArrayType) and column.type == "list":
        yield from _below((*path, "element"), part.elementType, column.children[0])
    elif isinstance(part, spark_types.MapType) and column.type == "map":
        yield from _below((*path, "value"), part.valueType, column.children[1])
