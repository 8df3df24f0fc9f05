"""DataFrames as results. The only module of the command line that knows Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.cli.output import Format, Json, Pairs, Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def cancel_jobs() -> None:
    """Stops what Spark is doing for us."""
    from pyspark.sql import SparkSession

    from ducklake_spark.spark.file_index import is_classic

    session = SparkSession.getActiveSession()
    if session is None:
        return
    if is_classic(session):
        session.sparkContext.cancelAllJobs()
    else:
        session.interruptAll()


def result_of(frame: DataFrame, fmt: Format, limit: int) -> Result:
    """The rows of a DataFrame, one partition at a time; for a table, so many as it will show and one more."""
    from pyspark.sql import functions as F

    columns = frame.columns
    types = [field.dataType for field in frame.schema.fields]
    if not columns:
        return Result((), ())
    # Names may repeat; and times as text are those of the session's zone, of any year.
    plain = frame.toDF(*(f"c{index}" for index in range(len(columns))))
    texts = [
        F.col(name) if _as_text(kind) == kind else F.col(name).cast(_as_text(kind))
        for name, kind in zip(plain.columns, types, strict=True)
    ]
    plain = plain.select(*texts)
    rows = iter(plain.take(limit + 1)) if fmt is Format.table and limit else plain.toLocalIterator()
    return Result(columns, _plain_rows(rows, types), _numeric(types))


def _plain_rows(rows: Iterator[Any], types: Sequence[DataType]) -> Iterator[Sequence[Any]]:
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


def _numeric(types: Sequence[DataType]) -> frozenset[int]:
    from pyspark.sql import types as T

    return frozenset(index for index, kind in enumerate(types) if isinstance(kind, T.NumericType))
