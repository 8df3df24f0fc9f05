"""Values on their way into columns: which casts a dialect makes by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.columns import find, resolve
from ducklake_spark.format.duckdb_sql import cast_text
from ducklake_spark.format.types import DataType, Scalar
from ducklake_spark.scan.projection.types import choices_of, user_type
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.parser.nodes import Name
from ducklake_spark.write.expressions import VARIANT_PARTS, check_assignable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ducklake_spark.api.table import Table


@dataclass(frozen=True)
class Assigned:
    """A column or field that gets a value."""

    table: Table
    path: Name

    @property
    def data_type(self) -> DataType:
        """Its type."""
        definition = self.table.definition
        return resolve(definition.columns, self.path, definition.name).data_type


def fitted_frame(context: Context, frame: DataFrame, table: Table) -> DataFrame:
    """The rows, cast where the dialect casts by itself: DuckDB casts every value to its column's type."""
    from pyspark.sql import functions as F

    definition = table.definition
    plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    columns = []
    for i, field in enumerate(frame.schema.fields):
        column: Any = F.col(f"c{i}")
        target = find(definition.columns, field.name)
        if target is not None:
            column = _cast(context, column, field.dataType, target.data_type)
        columns.append(column.alias(field.name))
    return plain.select(*columns)


def fitted(context: Context, frame: DataFrame, text: str, assigned: Assigned) -> Column:
    """An expression over the frame as a value for a column."""
    from pyspark.sql import functions as F

    value = F.expr(text)
    found = frame.select(value.alias("v")).schema.fields[0].dataType
    cast: Column = _cast(context, value, found, assigned.data_type)
    return cast


def _cast(context: Context, value: Any, source: Any, target: DataType) -> Any:
    from pyspark.sql import functions as F

    if target.name == "variant" and source.typeName() in ("struct", "array", "map") and not _is_parts(source):
        return F.call_function("to_variant_object", value)
    if needs_cast(context, source, target):
        return value.cast(user_type(target, choices_of(context.lake.spark)))
    if context.dialect == "duckdb" and target.name in _INTEGERS:
        # Spark cuts fractions off; DuckDB rounds, decimals away from zero and floats to the even neighbour.
        if source.typeName() == "decimal" and source.scale > 0:
            return F.round(value, 0)
        if source.typeName() in ("float", "double"):
            return F.rint(value)
    return value


def _is_parts(source: Any) -> bool:
    return bool(source == VARIANT_PARTS)


_INTEGERS = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64, 128)})


def nanoseconds(text: str, column: str) -> int:
    """A `timestamp_ns` in the form in which Spark carries it: nanoseconds since 1970.

    >>> nanoseconds("1970-01-02 00:00:00.000000001", "c")
    86400000000001
    """
    whole = cast_text(text, Scalar("timestamp_ns"), column)
    moment, _, fraction = whole.partition(".")
    seconds = (datetime.fromisoformat(moment) - datetime(1970, 1, 1)) // timedelta(seconds=1)
    return seconds * 10**9 + int(fraction.ljust(9, "0") or 0)


def needs_cast(context: Context, source: Any, target: DataType) -> bool:
    """Whether the value cannot be stored as it is, and the dialect says that it is cast."""
    try:
        check_assignable(source, target, "")
    except InvalidInputError:
        return context.dialect == "duckdb" or _is_struct_by_place(source, target)
    return False


def _is_struct_by_place(source: Any, target: DataType) -> bool:
    """Spark takes the fields of a struct by their place, whatever their names are."""
    fields = getattr(source, "fields", None)
    wanted = getattr(target, "fields", None)
    return fields is not None and wanted is not None and len(fields) == len(wanted)
