"""The rows of DataFrames as plain Python values, which everything that shows rows can print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.api.values import Json, Pairs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def readable(frame: DataFrame) -> DataFrame:
    """The frame with columns `c0`, `c1` ... that Python can hold: names may repeat, and times of any year are texts."""
    from pyspark.sql import functions as F

    types = [field.dataType for field in frame.schema.fields]
    plain = frame.toDF(*(f"c{index}" for index in range(len(types))))
    return plain.select(
        *(
            F.col(name) if _as_text(kind) == kind else F.col(name).cast(_as_text(kind))
            for name, kind in zip(plain.columns, types, strict=True)
        )
    )


def plain_rows(rows: Iterable[Any], types: Sequence[DataType]) -> Iterator[list[Any]]:
    """Rows of `readable()` as plain values; the types are those of the frame itself."""
    for row in rows:
        yield [_plain(value, kind) for value, kind in zip(row, types, strict=True)]


def _as_text(kind: DataType) -> DataType:
    """The type with times, dates and intervals as texts: Python has fewer of them than Spark."""
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _as_text(f.dataType), f.nullable) for f in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_as_text(kind.elementType), kind.containsNull)
    if isinstance(kind, T.MapType):
        return T.MapType(_as_text(kind.keyType), _as_text(kind.valueType), kind.valueContainsNull)
    known = (T.NumericType, T.StringType, T.BinaryType, T.BooleanType, T.NullType)
    own = getattr(T, "VariantType", T.NullType)
    return kind if isinstance(kind, (*known, own)) else T.StringType()


def _plain(value: Any, kind: DataType) -> Any:
    from pyspark.sql import types as T

    if value is None:
        return None
    if isinstance(kind, T.StructType):
        fields = zip(kind.fields, value, strict=True)
        return {field.name: _plain(item, field.dataType) for field, item in fields}
    if isinstance(kind, T.ArrayType):
        return [_plain(item, kind.elementType) for item in value]
    if isinstance(kind, T.MapType):
        return Pairs((_plain(key, kind.keyType), _plain(item, kind.valueType)) for key, item in value.items())
    if hasattr(value, "toJson"):  # a variant
        return Json(value.toJson())
    return value


def numeric(types: Sequence[DataType]) -> frozenset[int]:
    """The places of columns of numbers."""
    from pyspark.sql import types as T

    return frozenset(index for index, kind in enumerate(types) if isinstance(kind, T.NumericType))
