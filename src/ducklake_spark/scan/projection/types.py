"""Lake types and Spark types: what Spark reads from a file, what the user sees, and the expression between the two.

Knows Spark's public Python API only; nothing here needs a JVM or a running query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pyspark.sql.types as spark_types
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import DataType, Decimal, List, Map, Scalar, Struct, fold

Convert = Callable[[Column], Column]

TimestampNs = Literal["long", "micros"]

_DIRECT: dict[str, spark_types.DataType] = {
    "boolean": spark_types.BooleanType(),
    "int8": spark_types.ByteType(),
    "int16": spark_types.ShortType(),
    "int32": spark_types.IntegerType(),
    "int64": spark_types.LongType(),
    "uint8": spark_types.ShortType(),
    "uint16": spark_types.IntegerType(),
    "uint32": spark_types.LongType(),
    "uint64": spark_types.DecimalType(20, 0),
    "float32": spark_types.FloatType(),
    "float64": spark_types.DoubleType(),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampNTZType(),
    "timestamp_s": spark_types.TimestampNTZType(),
    "timestamp_ms": spark_types.TimestampNTZType(),
    "timestamptz": spark_types.TimestampType(),
    "varchar": spark_types.StringType(),
    "json": spark_types.StringType(),
    "blob": spark_types.BinaryType(),
    "variant": spark_types.VariantType(),
}
"""Types that Spark's Parquet reader gives as the user sees them."""

INTERVAL = spark_types.StructType(
    [
        spark_types.StructField("months", spark_types.IntegerType()),
        spark_types.StructField("days", spark_types.IntegerType()),
        spark_types.StructField("micros", spark_types.LongType()),
    ]
)
"""An interval: its three parts are independent of each other, and no Spark type that can be collected keeps all."""

_INFINITY = 2**63 - 1
HUGE = spark_types.DecimalType(38, 0)


@dataclass(frozen=True)
class TypeChoices:
    """How types without an exact Spark counterpart are shown, given what the session can do."""

    timestamp_ns: TimestampNs = "long"
    time: bool = False
    """Whether the session has Spark's TIME; without it a time is a string."""
    geometry: bool = False
    """Whether the session has Spark's GEOMETRY; without it a geometry is its WKB."""
    exact_integers: bool = False
    """Whether the files keep 128-bit integers as decimals, as ours do, and not as doubles."""
    infinite_millis: bool = False
    """Whether a `timestamp_ms` may be infinite: Spark's reader overflows where it makes microseconds of that."""

    def __post_init__(self) -> None:
        if self.timestamp_ns not in ("long", "micros"):
            raise InvalidInputError(
                f'timestamp_ns is "long" (nanoseconds since 1970) or "micros", not {self.timestamp_ns!r}.'
            )


def choices_of(spark: SparkSession, timestamp_ns: TimestampNs = "long") -> TypeChoices:
    """The choices for a session: TIME and GEOMETRY where it has them."""

    def enabled(key: str) -> bool:
        return str(spark.conf.get(key, "false")).lower() == "true"

    return TypeChoices(
        timestamp_ns=timestamp_ns,
        time=hasattr(spark_types, "TimeType") and enabled("spark.sql.timeType.enabled"),
        geometry=hasattr(spark_types, "GeometryType") and enabled("spark.sql.geospatial.enabled"),
    )


def user_type(data_type: DataType, choices: TypeChoices) -> spark_types.DataType:
    """The Spark type in which the user sees a column of this type."""
    match data_type:
        case Decimal(precision, scale):
            return spark_types.DecimalType(precision, scale)
        case List(element):
            return spark_types.ArrayType(user_type(element, choices), True)
        case Map(key, value):
            return spark_types.MapType(user_type(key, choices), user_type(value, choices), True)
        case Struct(fields):
            return spark_types.StructType(
                [spark_types.StructField(name, user_type(part, choices)) for name, part in fields]
            )
        case Scalar(name):
            return _scalar_user_type(name, choices)


def _scalar_user_type(name: str, choices: TypeChoices) -> spark_types.DataType:
    if name in _DIRECT:
        return _DIRECT[name]
    if name in ("int128", "uint128"):
        return HUGE
    if name == "uuid":
        return spark_types.StringType()
    if name in ("time", "timetz"):
        return _time_type() if choices.time else spark_types.StringType()
    if name == "time_ns":
        return spark_types.StringType()
    if name == "timestamp_ns":
        return spark_types.TimestampNTZType() if choices.timestamp_ns == "micros" else spark_types.LongType()
    if name == "interval":
        return INTERVAL
    if name == "geometry":
        return _geometry_type() if choices.geometry else spark_types.BinaryType()
    raise InvalidInputError(f'The type "{name}" cannot be read.')


def is_direct(data_type: DataType) -> bool:
    """Whether a value is shown as the lake means it, so that statistics and filters speak of the same."""
    return isinstance(data_type, Decimal) or (isinstance(data_type, Scalar) and data_type.name in _DIRECT)


def physical_type(data_type: DataType, choices: TypeChoices) -> spark_types.DataType:
    """The Spark type in which Spark's Parquet reader reads a scalar column of a file."""
    match data_type:
        case Scalar("int128" | "uint128"):
            return HUGE if choices.exact_integers else spark_types.DoubleType()
        case Scalar("uuid" | "interval"):
            return spark_types.BinaryType()
        case Scalar("time" | "timetz") if not choices.time:
            return spark_types.LongType()
        case Scalar("timestamp_ns" | "time_ns"):
            return spark_types.LongType()
        case Scalar("timestamp_ms") if choices.infinite_millis:
            return spark_types.LongType()
        case _:
            return user_type(data_type, choices)


def to_user(data_type: DataType, choices: TypeChoices) -> Convert | None:
    """What turns a scalar read as `physical_type` into `user_type`; None where they are the same."""
    match data_type:
        case Scalar("int128" | "uint128"):
            return None if choices.exact_integers else _double_to_decimal
        case Scalar("uuid"):
            return _uuid_text
        case Scalar("interval"):
            return _interval_parts
        case Scalar("time" | "timetz") if not choices.time:
            return _time_text
        case Scalar("time_ns"):
            return lambda column: _time_text(_floor_div(column, 1000))
        case Scalar("timestamp_ns") if choices.timestamp_ns == "micros":
            return lambda column: micros_to_ntz(_floor_div(column, 1000))
        case Scalar("timestamp_ms") if choices.infinite_millis:
            return lambda column: micros_to_ntz(times(column, 1000))
        case _:
            return None


def from_spark(data_type: spark_types.DataType) -> DataType:
    """The lake's type for a Spark type, as `create_table` and `insert` use it.

    >>> from_spark(spark_types.ArrayType(spark_types.TimestampType()))
    List(element=Scalar(name='timestamptz'))

    Raises:
        InvalidInputError: The format has no such type.
    """
    if isinstance(data_type, spark_types.DecimalType):
        return Decimal(data_type.precision, data_type.scale)
    if isinstance(data_type, spark_types.ArrayType):
        return List(from_spark(data_type.elementType))
    if isinstance(data_type, spark_types.MapType):
        return Map(from_spark(data_type.keyType), from_spark(data_type.valueType))
    if isinstance(data_type, spark_types.StructType):
        return _from_struct(data_type)
    name = _FROM_SPARK.get(type(data_type).__name__)
    if name is None:
        raise InvalidInputError(
            f"The format has no type for Spark's {data_type.simpleString()}. Cast the column first, for instance to "
            "string."
        )
    return Scalar(name)


def require_no_collation(data_type: spark_types.DataType, column: str) -> None:
    """Raises InvalidInputError for a column that Spark would compare by other rules than a lake can keep."""
    if isinstance(data_type, spark_types.StringType) and data_type.collation != "UTF8_BINARY":
        raise InvalidInputError(
            f'The format has no collations: leave COLLATE {data_type.collation} out of column "{column}", and collate '
            "in queries."
        )
    parts: list[spark_types.DataType] = []
    if isinstance(data_type, spark_types.ArrayType):
        parts = [data_type.elementType]
    elif isinstance(data_type, spark_types.MapType):
        parts = [data_type.keyType, data_type.valueType]
    elif isinstance(data_type, spark_types.StructType):
        parts = [part.dataType for part in data_type]
    for part in parts:
        require_no_collation(part, column)


_FROM_SPARK = {
    "BooleanType": "boolean",
    "ByteType": "int8",
    "ShortType": "int16",
    "IntegerType": "int32",
    "LongType": "int64",
    "FloatType": "float32",
    "DoubleType": "float64",
    "DateType": "date",
    "TimeType": "time",
    "TimestampType": "timestamptz",
    "TimestampNTZType": "timestamp",
    "StringType": "varchar",
    "CharType": "varchar",
    "VarcharType": "varchar",
    "BinaryType": "blob",
    "VariantType": "variant",
    "GeometryType": "geometry",
    "CalendarIntervalType": "interval",
    "YearMonthIntervalType": "interval",
    "DayTimeIntervalType": "interval",
}


def _from_struct(data_type: spark_types.StructType) -> DataType:
    if not data_type.fields:
        raise InvalidInputError("A struct needs at least one field.")
    names = [fold(field.name) for field in data_type.fields]
    for field, name in zip(data_type.fields, names, strict=True):
        if names.count(name) > 1:
            raise InvalidInputError(f'The struct has two fields named "{field.name}".')
    return Struct(tuple((field.name, from_spark(field.dataType)) for field in data_type.fields))


def _time_type() -> spark_types.DataType:
    return spark_types.TimeType(6)


def _geometry_type() -> spark_types.DataType:
    # Files of the format name no reference system, which is what SRID 0 means.
    return spark_types.GeometryType(0)


def _double_to_decimal(column: Column) -> Column:
    # A cast to decimal would round to 17 digits; a double is a sum of powers of two, and DuckDB shows all digits.
    limit = F.lit(2.0**63)
    high = (column / F.lit(2.0**64)).cast("long")
    rest = column - high * F.lit(2.0**64)
    middle = (rest / F.lit(2.0**32)).cast("long")
    low = (rest - middle * F.lit(2.0**32)).cast("long")
    exact = (
        high.cast("decimal(19,0)") * F.lit(str(2**64)).cast("decimal(20,0)")
        + middle.cast("decimal(19,0)") * F.lit(str(2**32)).cast("decimal(10,0)")
        + low.cast("decimal(19,0)")
    )
    small = (column > -limit) & (column < limit)
    return F.when(small, F.round(column).cast("long").cast(HUGE)).otherwise(exact.cast(HUGE))


def _uuid_text(column: Column) -> Column:
    text = F.lower(F.hex(column))
    parts = [
        F.substring(text, start, length) for start, length in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    ]
    return F.when(column.isNotNull(), F.concat_ws("-", *parts))


def _little_endian(column: Column, start: int) -> Column:
    digits = F.hex(column)
    turned = F.concat(*(F.substring(digits, 2 * (start + byte) - 1, 2) for byte in (3, 2, 1, 0)))
    return F.conv(turned, 16, 10).cast("long")


def _interval_parts(column: Column) -> Column:
    # The file's interval: three unsigned 32-bit numbers. DuckDB refuses to write negative ones.
    return F.when(
        column.isNotNull(),
        F.struct(
            _little_endian(column, 1).cast("int").alias("months"),
            _little_endian(column, 5).cast("int").alias("days"),
            (_little_endian(column, 9) * F.lit(1000)).alias("micros"),
        ),
    )


def _time_text(column: Column) -> Column:
    """Microseconds of a day as DuckDB prints a time: `12:34:56.789`."""

    def part(divisor: int, modulus: int) -> Column:
        return F.lpad((_floor_div(column, divisor) % F.lit(modulus)).cast("string"), 2, "0")

    clock = F.concat(
        part(3_600_000_000, 100), F.lit(":"), part(60_000_000, 60), F.lit(":"), part(1_000_000, 60)
    )
    micros = column % F.lit(1_000_000)
    fraction = F.regexp_replace(F.lpad(micros.cast("string"), 6, "0"), "0+$", "")
    return F.when(micros == 0, clock).otherwise(F.concat(clock, F.lit("."), fraction))


def _floor_div(column: Column, divisor: int) -> Column:
    remainder = F.pmod(column, F.lit(divisor).cast("long"))
    return F.call_function("div", column - remainder, F.lit(divisor).cast("long"))


def times(column: Column, factor: int) -> Column:
    """A count of some unit of time in a finer unit; the numbers that stand for infinity stay as they are."""
    return F.when(is_infinite(column), column).otherwise(column * F.lit(factor))


def is_infinite(column: Column) -> Column:
    """Whether a count of some unit of time stands for infinity."""
    return (column == F.lit(_INFINITY)) | (column == F.lit(-_INFINITY))


def micros_to_ntz(column: Column) -> Column:
    """Microseconds since 1970 as a timestamp without time zone, whatever the session's zone is."""
    step = F.expr("INTERVAL '0.000001' SECOND")
    return F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'") + step * column
