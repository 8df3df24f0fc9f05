"""How columns of files that DuckDB reads in the workers arrive: in the types of the table as it is now."""

from __future__ import annotations

import pyspark.sql.types as spark_types

from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.scan.inlined import carried_type, to_user
from ducklake_spark.scan.projection.column import FIELD_ID, ColumnProjection
from ducklake_spark.scan.projection.types import TypeChoices, is_direct, user_type


def projection(column: ColumnDef, choices: TypeChoices) -> ColumnProjection:
    """How a column is read from files of any age, in which it is found by its id."""
    user, carried = user_type(column.data_type, choices), _carried(column, choices)
    convert = None
    if carried != user:
        convert = lambda found: to_user(found, column, choices)  # noqa: E731 - as other projections have it
    elif not is_direct(column.data_type):
        # Spark sees something else than what the file's statistics tell of.
        convert = lambda found: found  # noqa: E731
    field = spark_types.StructField(column.name, carried, True, {FIELD_ID: column.column_id})
    return ColumnProjection(column.name, user, field, convert)


def _carried(column: ColumnDef, choices: TypeChoices) -> spark_types.DataType:
    if column.type == "variant":
        return spark_types.VariantType()
    return spark_types.BinaryType() if column.type == "geometry" else carried_type(column, choices)
