"""Columns whose type was widened after a file was written: what Spark's Parquet reader widens, and the rest."""

from __future__ import annotations

import pyspark.sql.types as spark_types
from pyspark.sql import Column
from pyspark.sql import functions as F

from ducklake_spark.format.types import DataType, Decimal, Scalar
from ducklake_spark.scan.projection.footer import INT96
from ducklake_spark.scan.projection.types import (
    Convert,
    TypeChoices,
    _double_to_decimal,
    is_infinite,
    micros_to_ntz,
    physical_type,
    times,
    to_user,
    user_type,
)

_INT32 = ("int8", "int16", "int32", "uint8", "uint16")
"""Types that a file keeps in 32 signed bits."""
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_WITHOUT_ZONE = ("timestamp", "timestamp_s", "timestamp_ms")
_MICROS = {"timestamp_s": 1_000_000, "timestamp_ms": 1000, "timestamp": 1}
"""Microseconds of a unit."""
_NANOS_PER_DAY = 86_400_000_000_000


def is_read_directly(then: DataType, now: DataType, choices: TypeChoices) -> bool:
    """Whether Spark's reader gives the type of now from a file written in the type of then."""
    if then == now:
        return True
    if isinstance(then, Decimal):
        return isinstance(now, Decimal)
    if isinstance(now, Decimal):
        return then.name in ("int8", "int16", "int32") and now.precision - now.scale >= 10
    if then.name in _INTEGERS and now.name in _INTEGERS:
        return True
    if then.name in _INT32:
        return now.name == "float64"
    if then.name == "float32":
        return now.name == "float64"
    if then.name == "date" or then.name in _WITHOUT_ZONE:
        return now.name in _WITHOUT_ZONE and not (then.name == "timestamp_ms" and choices.infinite_millis)
    return False


def read_scalar(
    then: DataType, now: DataType, choices: TypeChoices
) -> tuple[spark_types.DataType, Convert | None]:
    """The type in which Spark reads a column, and what makes the user's value of it."""
    if then == now:
        return physical_type(now, choices), to_user(now, choices)
    if then.name == INT96:
        return _from_int96(now, choices)
    if then.name == "timestamp_ns" and now.name == "timestamptz":
        return spark_types.LongType(), lambda column: F.timestamp_micros(_divided(column, 1000))
    if isinstance(then, Decimal) and isinstance(now, Decimal) and _loses_digits(then, now):
        target = user_type(now, choices)
        return physical_type(then, choices), lambda column: column.cast(target)
    if now.name in _WITHOUT_ZONE and _is_finer(then, now):
        return _rounded(then, now)
    if is_read_directly(then, now, choices):
        return user_type(now, choices), None
    if now.name == "timestamp_ns":
        return _nanos(then, choices)
    if then.name in ("int128", "uint128") and not choices.exact_integers:
        if now.name in ("json", "variant"):
            return physical_type(then, choices), _to_text(then, now, _double_to_decimal)
        target = user_type(now, choices)
        if isinstance(now, Decimal):
            return physical_type(then, choices), lambda column: _double_to_decimal(column).cast(target)
        return physical_type(then, choices), lambda column: column.cast(target)
    if now.name == "timestamptz":
        if then.name == "date":
            return spark_types.DateType(), lambda c: F.timestamp_micros(
                F.unix_date(c).cast("long") * 86_400_000_000
            )
        # The file's time without a zone is taken as UTC, as the extension takes it in that zone.
        factor = 1000 if then.name == "timestamp_ms" else 1
        return spark_types.LongType(), lambda column: F.timestamp_micros(times(column, factor))
    if now.name in ("json", "variant"):
        return physical_type(then, choices), _to_text(then, now, to_user(then, choices))
    physical, made, target = physical_type(then, choices), to_user(then, choices), user_type(now, choices)
    return physical, lambda column: (column if made is None else made(column)).cast(target)


def _is_finer(then: DataType, now: DataType) -> bool:
    """Whether a file that was added has times that the column must round. No column ever became coarser."""
    return then.name == "timestamp_ns" or _MICROS.get(then.name, _MICROS[now.name]) < _MICROS[now.name]


def _loses_digits(then: Decimal, now: Decimal) -> bool:
    """Whether there is less room before the point: Spark's reader refuses it, although the numbers may fit."""
    return then.precision - then.scale > now.precision - now.scale


def _divided(column: Column, divisor: int) -> Column:
    return F.call_function("div", column, F.lit(divisor).cast("long"))


def _in_unit(micros: Column, unit: int) -> Column:
    if unit == 1:
        return micros
    half = F.when(micros < 0, F.lit(-unit // 2)).otherwise(F.lit(unit // 2))
    return _divided(micros + half, unit) * F.lit(unit)


def _rounded(then: DataType, now: DataType) -> tuple[spark_types.DataType, Convert]:
    """As DuckDB casts: nanoseconds are cut off, everything else is rounded, halves away from 1970."""
    unit = _MICROS[now.name]

    def converted(column: Column) -> Column:
        micros = _divided(column, 1000) if then.name == "timestamp_ns" else column * F.lit(_MICROS[then.name])
        return micros_to_ntz(F.when(is_infinite(column), column).otherwise(_in_unit(micros, unit)))

    return spark_types.LongType(), converted


def _from_int96(now: DataType, choices: TypeChoices) -> tuple[spark_types.DataType, Convert | None]:
    """Spark reads it as an instant, whose microseconds are those of the time without a zone that was written."""
    if now.name == "timestamptz":
        return spark_types.TimestampType(), None
    if now.name == "timestamp_ns" and choices.timestamp_ns == "long":
        return spark_types.TimestampType(), lambda column: times(F.unix_micros(column), 1000)
    unit = _MICROS.get(now.name, 1)
    return spark_types.TimestampType(), lambda column: micros_to_ntz(_in_unit(F.unix_micros(column), unit))


def _nanos(then: DataType, choices: TypeChoices) -> tuple[spark_types.DataType, Convert | None]:
    if choices.timestamp_ns == "micros":
        if then.name == "timestamp_ms":
            return physical_type(then, choices), to_user(then, choices)
        return spark_types.TimestampNTZType(), None
    if then.name == "date":
        return spark_types.DateType(), lambda column: F.unix_date(column).cast("long") * F.lit(_NANOS_PER_DAY)
    factor = 1_000_000 if then.name == "timestamp_ms" else 1000
    return spark_types.LongType(), lambda column: times(column, factor)


def _to_text(then: DataType, now: DataType, made: Convert | None) -> Convert:
    """JSON text, or a variant, of a value."""

    def converted(column: Column) -> Column:
        value = column if made is None else made(column)
        if now.name == "variant":
            return value.cast("variant")
        if then.name in ("varchar", "json"):
            return value
        if then.name == "variant":
            return F.to_json(value)
        if isinstance(then, Decimal) or then.name in ("boolean", *_INTEGERS, "uint64", "int128", "uint128"):
            return value.cast("string")
        if isinstance(then, Scalar) and then.name in ("float32", "float64"):
            return value.cast("string")
        return F.concat(F.lit('"'), value.cast("string"), F.lit('"'))

    return converted
