"""From what Spark hands over to what the format stores, as DuckDB SQL; and which assignments are allowed at all."""

from __future__ import annotations

import pyspark.sql.types as spark_types
from pyspark.sql import Column
from pyspark.sql import functions as F

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import (
    DataType,
    Decimal,
    List,
    Map,
    Scalar,
    Struct,
    duckdb_name,
    fold,
    quote,
    walk,
)
from ducklake_spark.scan.projection.types import TypeChoices, user_type

_INTEGERS = frozenset(
    "int8 int16 int32 int64 int128 uint8 uint16 uint32 uint64 uint128".split()  # noqa: SIM905 - easier to read
)
_NUMBERS = _INTEGERS | {"float32", "float64"}
_TIMESTAMPS = frozenset({"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"})
_SPECIAL = frozenset(
    {"timestamp_ns", "interval", "variant", "geometry", "json", "int128", "uint128", "uuid", "time", "timetz"}
) | (_INTEGERS - {"int128", "uint128"})
"""Types that a plain cast inside a nested type would not reach."""

_NUMERIC_SPARK = (
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.DecimalType,
)
_TIMESTAMP_SPARK = (spark_types.TimestampType, spark_types.TimestampNTZType)
VARIANT_PARTS = spark_types.StructType(
    [
        spark_types.StructField("metadata", spark_types.BinaryType()),
        spark_types.StructField("value", spark_types.BinaryType()),
    ]
)
"""A variant as its parts in Parquet: what workers hand over, since Arrow has no variants."""
_INTERVALS = (
    spark_types.DayTimeIntervalType,
    spark_types.YearMonthIntervalType,
    spark_types.CalendarIntervalType,
)


def check_assignable(source: spark_types.DataType, target: DataType, where: str) -> None:
    """Raises unless a Spark value of this type may be stored in a column of that type, as in ANSI SQL.

    Raises:
        InvalidInputError: Names the column and both types.
    """
    if isinstance(source, spark_types.NullType):
        return
    if isinstance(target, List) and isinstance(source, spark_types.ArrayType):
        return check_assignable(source.elementType, target.element, f"{where}.element")
    if isinstance(target, Map) and isinstance(source, spark_types.MapType):
        check_assignable(source.keyType, target.key, f"{where}.key")
        return check_assignable(source.valueType, target.value, f"{where}.value")
    if isinstance(target, Struct) and isinstance(source, spark_types.StructType):
        fields = {fold(name): part for name, part in target.fields}
        for part in source.fields:
            if fold(part.name) not in fields:
                raise InvalidInputError(
                    f'Cannot store a struct with the field "{part.name}" in column {where}, which is '
                    f"{duckdb_name(target)}. Drop the field, or add it to the column first."
                )
            check_assignable(part.dataType, fields[fold(part.name)], f"{where}.{part.name}")
        return None
    if not _scalar_assignable(source, target):
        raise InvalidInputError(
            f"Cannot store {source.simpleString()} in column {where}, which is {duckdb_name(target)}. Cast it first."
        )
    return None


def _scalar_assignable(source: spark_types.DataType, target: DataType) -> bool:
    name = target.name
    is_text = isinstance(source, (spark_types.StringType, spark_types.VarcharType, spark_types.CharType))
    if isinstance(target, Decimal) or name in _NUMBERS:
        return isinstance(source, _NUMERIC_SPARK)
    if name == "boolean":
        return isinstance(source, spark_types.BooleanType)
    if name == "varchar":
        atoms = (spark_types.BooleanType, spark_types.DateType, *_TIMESTAMP_SPARK, *_NUMERIC_SPARK)
        return is_text or isinstance(source, atoms)
    if name == "json":
        return is_text or isinstance(source, spark_types.VariantType)
    if name == "blob":
        return isinstance(source, spark_types.BinaryType)
    if name == "uuid":
        return is_text
    if name == "date":
        return isinstance(source, (spark_types.DateType, *_TIMESTAMP_SPARK))
    if name in _TIMESTAMPS:
        whole = (spark_types.LongType,) if name == "timestamp_ns" else ()
        return isinstance(source, (spark_types.DateType, *_TIMESTAMP_SPARK, *whole))
    if name in ("time", "timetz", "time_ns"):
        return is_text or type(source).__name__ == "TimeType"
    if name == "interval":
        return is_text or isinstance(source, _INTERVALS) or _is_interval_struct(source)
    if name == "variant":
        return isinstance(source, spark_types.VariantType) or source == VARIANT_PARTS
    if name == "geometry":
        return is_text or isinstance(source, spark_types.BinaryType) or _is_geometry(source)
    return False


def _is_geometry(source: spark_types.DataType) -> bool:
    return type(source).__name__ == "GeometryType"


def _is_interval_struct(source: spark_types.DataType) -> bool:
    return isinstance(source, spark_types.StructType) and source.names == ["months", "days", "micros"]


def nullable(source: spark_types.DataType) -> spark_types.DataType:
    """The type with all parts allowed to be NULL."""
    if isinstance(source, spark_types.ArrayType):
        return spark_types.ArrayType(nullable(source.elementType), True)
    if isinstance(source, spark_types.MapType):
        return spark_types.MapType(nullable(source.keyType), nullable(source.valueType), True)
    if isinstance(source, spark_types.StructType):
        return spark_types.StructType(
            [spark_types.StructField(part.name, nullable(part.dataType), True) for part in source.fields]
        )
    return source


_INTERVAL = spark_types.StructType(
    [
        spark_types.StructField("months", spark_types.IntegerType()),
        spark_types.StructField("days", spark_types.IntegerType()),
        spark_types.StructField("micros", spark_types.LongType()),
    ]
)


NESTED = (
    spark_types.ArrayType,
    spark_types.MapType,
    spark_types.StructType,
    spark_types.UserDefinedType,
    spark_types.VariantType,
)
"""Types of Spark whose values have parts."""
_PLAIN = (
    spark_types.NumericType,
    spark_types.BooleanType,
    spark_types.DateType,
    spark_types.TimestampType,
    spark_types.TimestampNTZType,
    spark_types.BinaryType,
)


def is_carried_as_is(source: spark_types.DataType, target: DataType) -> bool:
    """Whether a column surely travels as it is: each function of Spark that is asked for costs calls to the JVM."""
    if isinstance(target, (List, Map, Struct)):
        return False
    return isinstance(source, spark_types.StringType) or (
        isinstance(source, _PLAIN) and _travels_as(source, target.name) is None
    )


def carried(
    column: Column, source: spark_types.DataType, target: DataType
) -> tuple[Column, spark_types.DataType]:
    """The column as it travels to a worker, and its type: what depends on the session is done by Spark.

    These are conversions between times with and without a zone, and to text.
    """
    if isinstance(target, List) and isinstance(source, spark_types.ArrayType):
        _, inner = carried(F.lit(None), source.elementType, target.element)
        if inner == source.elementType:
            return column, source
        element = target.element
        part = source.elementType
        return F.transform(column, lambda x: carried(x, part, element)[0]), spark_types.ArrayType(inner)
    if isinstance(target, Map) and isinstance(source, spark_types.MapType):
        return _carried_map(column, source, target)
    if isinstance(target, Struct) and isinstance(source, spark_types.StructType):
        return _carried_struct(column, source, target)
    return _carried_scalar(column, source, target.name)


def _carried_map(
    column: Column, source: spark_types.MapType, target: Map
) -> tuple[Column, spark_types.DataType]:
    if isinstance(source.keyType, spark_types.NullType):
        # Only empty maps have such keys, and Arrow has no type for them.
        source = spark_types.MapType(user_type(target.key, TypeChoices()), source.valueType)
        return _carried_map(column.cast(source), source, target)
    _, key = carried(F.lit(None), source.keyType, target.key)
    _, value = carried(F.lit(None), source.valueType, target.value)
    if (key, value) == (source.keyType, source.valueType):
        return column, source
    if key != source.keyType:
        column = F.transform_keys(column, lambda k, _: carried(k, source.keyType, target.key)[0])
    if value != source.valueType:
        column = F.transform_values(column, lambda _, v: carried(v, source.valueType, target.value)[0])
    return column, spark_types.MapType(key, value)


def _carried_struct(
    column: Column, source: spark_types.StructType, target: Struct
) -> tuple[Column, spark_types.DataType]:
    wanted = {fold(name): part for name, part in target.fields}
    made, fields = [], []
    for field in source.fields:
        part, inner = carried(column.getField(field.name), field.dataType, wanted[fold(field.name)])
        made.append(part.alias(field.name))
        fields.append(spark_types.StructField(field.name, inner))
    if [field.dataType for field in fields] == [field.dataType for field in source.fields]:
        return column, source
    return F.when(column.isNotNull(), F.struct(*made)), spark_types.StructType(fields)


def needs_session(source: spark_types.DataType, target: DataType) -> bool:
    """Whether a value travels in another form than it has, which only Spark can make: see `carried`."""
    if isinstance(target, List) and isinstance(source, spark_types.ArrayType):
        return needs_session(source.elementType, target.element)
    if isinstance(target, Map) and isinstance(source, spark_types.MapType):
        return needs_session(source.keyType, target.key) or needs_session(source.valueType, target.value)
    if isinstance(target, Struct) and isinstance(source, spark_types.StructType):
        wanted = {fold(name): part for name, part in target.fields}
        return any(needs_session(field.dataType, wanted[fold(field.name)]) for field in source.fields)
    return (
        _travels_as(source, target.name) is not None
        or (isinstance(source, spark_types.VariantType) and target.name == "json")
        or isinstance(source, spark_types.YearMonthIntervalType)
        or _is_geometry(source)
    )


def _travels_as(source: spark_types.DataType, name: str) -> spark_types.DataType | None:
    """The type to which Spark casts a value for a column of a type of this name; None if it does not."""
    if isinstance(source, spark_types.NullType):
        return None
    if name == "varchar" and not isinstance(source, spark_types.StringType):
        return spark_types.StringType()
    if isinstance(source, spark_types.TimestampType) and name in _TIMESTAMPS - {"timestamptz"}:
        return spark_types.TimestampNTZType()
    if isinstance(source, _TIMESTAMP_SPARK) and name == "date":
        return spark_types.DateType()
    if isinstance(source, (spark_types.TimestampNTZType, spark_types.DateType)) and name == "timestamptz":
        return spark_types.TimestampType()
    return None


def _carried_scalar(
    column: Column, source: spark_types.DataType, name: str
) -> tuple[Column, spark_types.DataType]:
    wanted = _travels_as(source, name)
    if wanted is not None:
        return column.cast(wanted), wanted
    if isinstance(source, spark_types.VariantType) and name == "json":
        return F.to_json(column), spark_types.StringType()
    if isinstance(source, spark_types.YearMonthIntervalType):
        whole = column.cast(spark_types.YearMonthIntervalType())
        months = F.extract(F.lit("YEAR"), whole) * 12 + F.extract(F.lit("MONTH"), whole)
        # Made of the months, so that nothing in it looks as if it could not be NULL: Arrow takes that at its word.
        nothing = months - months
        parts = [months.cast("int"), nothing.cast("int"), nothing.cast("long")]
        named = [part.alias(name) for part, name in zip(parts, _INTERVAL.names, strict=True)]
        return F.when(column.isNotNull(), F.struct(*named)), _INTERVAL
    if _is_geometry(source):
        return F.call_function("st_asbinary", column), spark_types.BinaryType()
    return column, source


def stored_sql(expression: str, source: spark_types.DataType, target: DataType) -> str:
    """DuckDB SQL for the value to store. Every cast is strict: what does not fit raises."""
    if isinstance(source, spark_types.NullType):
        return f"CAST(NULL AS {stored_type(target)})"
    if isinstance(target, (List, Map, Struct)):
        if not any(part.name in _SPECIAL for part in walk(target)):
            return f"CAST({expression} AS {duckdb_name(target)})"
        return _nested_sql(expression, source, target)
    if isinstance(source, spark_types.VariantType) or (target.name == "variant" and source == VARIANT_PARTS):
        # As Spark keeps it in Parquet: every kind of value stays what it is.
        value = f"variant_bytes_to_variant(({expression}).metadata || ({expression}).value)"
        if target.name == "variant":
            return value
        # DuckDB 2 makes NULL of a variant that is null, Spark and DuckDB 1.5 its text.
        text = f"CAST(coalesce(CAST({value} AS JSON), 'null') AS {stored_type(target)})"
        return f"CASE WHEN {expression} IS NOT NULL THEN {text} END"
    return _scalar_sql(expression, source, target)


def stored_type(target: DataType) -> str:
    """The DuckDB type of a column inside the file, which for 128-bit integers is one that keeps their digits."""
    match target:
        case Scalar("int128" | "uint128"):
            return "DECIMAL(38,0)"
        case List(element):
            return stored_type(element) + "[]"
        case Map(key, value):
            return f"MAP({stored_type(key)}, {stored_type(value)})"
        case Struct(fields):
            return "STRUCT(" + ", ".join(f"{quote(name)} {stored_type(part)}" for name, part in fields) + ")"
        case _:
            return duckdb_name(target)


def _nested_sql(expression: str, source: spark_types.DataType, target: DataType) -> str:
    depth = expression.count("lambda")
    item = f"x{depth}"
    if isinstance(target, List) and isinstance(source, spark_types.ArrayType):
        inner = stored_sql(item, source.elementType, target.element)
        return f"list_transform({expression}, lambda {item}: {inner})"
    if isinstance(target, Map) and isinstance(source, spark_types.MapType):
        key = stored_sql(f"{item}.key", source.keyType, target.key)
        value = stored_sql(f"{item}.value", source.valueType, target.value)
        entry = f"struct_pack(key := {key}, value := {value})"
        made = f"map_from_entries(list_transform(map_entries({expression}), lambda {item}: {entry}))"
        return f"CASE WHEN {expression} IS NULL THEN NULL ELSE {made} END"
    assert isinstance(target, Struct) and isinstance(source, spark_types.StructType)
    given = {fold(part.name): part for part in source.fields}
    parts = []
    for name, part in target.fields:
        found = given.get(fold(name))
        inner = f"CAST(NULL AS {stored_type(part)})"
        if found is not None:
            inner = stored_sql(f"({expression}).{quote(found.name)}", found.dataType, part)
        parts.append(f"{quote(name)} := {inner}")
    return f"CASE WHEN {expression} IS NULL THEN NULL ELSE struct_pack({', '.join(parts)}) END"


def _may_have_fractions(source: spark_types.DataType) -> bool:
    if isinstance(source, spark_types.DecimalType):
        return source.scale > 0
    return isinstance(source, (spark_types.FloatType, spark_types.DoubleType))


def _scalar_sql(expression: str, source: spark_types.DataType, target: DataType) -> str:
    name = target.name
    if name == "timestamp_ns" and isinstance(source, spark_types.LongType):
        return f"make_timestamp_ns({expression})"
    if name == "interval" and isinstance(source, spark_types.StructType):
        parts = f"({expression})"
        return f"to_months({parts}.months) + to_days({parts}.days) + to_microseconds({parts}.micros)"
    if name == "geometry" and isinstance(source, spark_types.BinaryType):
        return f"ST_GeomFromWKB({expression})"
    if name in _INTEGERS and _may_have_fractions(source):
        # As Spark does; DuckDB would round.
        expression = f"trunc({expression})"
    if name == "uint128":
        return (
            f"CASE WHEN {expression} < 0 THEN error('a negative number is not a UHUGEINT') "
            f"ELSE CAST({expression} AS DECIMAL(38,0)) END"
        )
    return f"CAST({expression} AS {stored_type(target)})"
