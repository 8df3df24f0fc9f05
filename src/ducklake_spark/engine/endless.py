"""Rows with times that Python has not, such as `infinity`: collected as the first or last moment that Python has.

So are maps, whose entries Spark's own way of collecting brings into another order.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import DataFrame, Row
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from ducklake_spark.format.duckdb_library import NO_THREADS
from ducklake_spark.spark.file_index import java_frame

_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_ODD = tuple(
    getattr(T, name)
    for name in (
        "VariantType",
        "CalendarIntervalType",
        "DayTimeIntervalType",
        "YearMonthIntervalType",
        "TimeType",
        "GeometryType",
        "GeographyType",
        "NullType",
        "UserDefinedType",
    )
    if hasattr(T, name)
)


def clamped(frame: DataFrame) -> DataFrame:
    """The DataFrame, whose rows can be collected whatever times are in them.

    As with DuckDB's own client, `infinity` is `date.max` or `datetime.max` then. What is computed with the DataFrame or
    written from it has the values as they are. Entries of maps come in the order that they have.
    """
    if type(frame) is not ClassicDataFrame:
        return frame
    kinds = [field.dataType for field in frame.schema.fields]
    if not any(_holds(kind, (*_TIMES, T.MapType)) for kind in kinds):
        return frame
    return _Clamped(java_frame(frame), frame.sparkSession)


def _holds(kind: T.DataType, wanted: tuple[type[T.DataType], ...]) -> bool:
    if isinstance(kind, wanted):
        return True
    if isinstance(kind, T.ArrayType):
        return _holds(kind.elementType, wanted)
    if isinstance(kind, T.MapType):
        return _holds(kind.keyType, wanted) or _holds(kind.valueType, wanted)
    if isinstance(kind, T.StructType):
        return any(_holds(field.dataType, wanted) for field in kind.fields)
    return False


def _has_ordered_maps(frame: DataFrame) -> bool:
    """Whether there are maps, and nothing beside them that only Spark's own way can collect."""
    kind = frame.schema
    if not _holds(kind, (T.MapType,)) or _holds(kind, _ODD) or _has_nested_keys(kind):
        return False
    inner = (field.dataType for field in kind.fields if not isinstance(field.dataType, T.TimestampType))
    return not any(_holds(each, (T.TimestampType,)) for each in inner)


def _has_nested_keys(kind: T.DataType) -> bool:
    if isinstance(kind, T.MapType):
        nested = (T.MapType, T.ArrayType, T.StructType)
        return isinstance(kind.keyType, nested) or _has_nested_keys(kind.valueType)
    if isinstance(kind, T.ArrayType):
        return _has_nested_keys(kind.elementType)
    return isinstance(kind, T.StructType) and any(_has_nested_keys(field.dataType) for field in kind.fields)


class _Clamped(ClassicDataFrame):
    """A DataFrame that has another way to collect rows, for those that Spark's own fails at."""

    def collect(self) -> list[Row]:
        if _has_ordered_maps(self):
            return _rows(self)
        try:
            return super().collect()
        except (OverflowError, ValueError):
            return _rows(self)

    def take(self, num: int) -> list[Row]:
        return clamped(self.limit(num)).collect()

    def first(self) -> Row | None:
        return next(iter(self.take(1)), None)

    def head(self, n: int | None = None) -> Any:
        return self.first() if n is None else self.take(n)


def _rows(frame: DataFrame) -> list[Row]:
    """The rows by way of Arrow and DuckDB, whose client knows what to do with such times."""
    import duckdb
    import pyarrow as pa

    table = frame.toArrow()
    for place, field in enumerate(frame.schema.fields):
        if isinstance(field.dataType, T.TimestampType):
            plain = table.column(place).cast(pa.int64()).cast(pa.timestamp("us"))
            table = table.set_column(place, table.field(place).name, plain)
    table = table.rename_columns([f"c{place}" for place in range(table.num_columns)])
    with duckdb.connect(":memory:", config=NO_THREADS) as connection:
        connection.register("ducklake_rows", table)
        found = connection.execute("FROM ducklake_rows").fetchall()
    kinds = [field.dataType for field in frame.schema.fields]
    make = Row(*frame.columns)
    return [make(*map(_value, row, kinds)) for row in found]


def _value(value: Any, kind: T.DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return Row(*kind.names)(*map(_value, value.values(), (field.dataType for field in kind.fields)))
    if isinstance(kind, T.ArrayType):
        return [_value(each, kind.elementType) for each in value]
    if isinstance(kind, T.MapType):
        return {_value(key, kind.keyType): _value(each, kind.valueType) for key, each in value.items()}
    if isinstance(kind, T.BinaryType):
        return bytearray(value)
    if isinstance(kind, T.TimestampType) and datetime.min < value < datetime.max:
        try:
            return value.replace(tzinfo=timezone.utc).astimezone().replace(tzinfo=None)
        except (OverflowError, ValueError):
            return value
    return value
