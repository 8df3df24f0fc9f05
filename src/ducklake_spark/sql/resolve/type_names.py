"""Types of the lake in the words of each dialect, as people read them."""

from __future__ import annotations

from ducklake_spark.format.duckdb_sql import quote_if_needed
from ducklake_spark.format.names import ticked
from ducklake_spark.format.types import DataType, Decimal, List, Map, Scalar, Struct, duckdb_name

_SPARK_NAMES = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "varchar": "string",
    "blob": "binary",
}


def duckdb_type_text(data_type: DataType) -> str:
    """A type as DuckDB shows it: names in quotes only where they must be.

    >>> from ducklake_spark.format.types import parse_type
    >>> duckdb_type_text(parse_type("struct<a: int, `b c`: array<string>>"))
    'STRUCT(a INTEGER, "b c" VARCHAR[])'
    """
    match data_type:
        case List(element):
            return duckdb_type_text(element) + "[]"
        case Map(key, value):
            return f"MAP({duckdb_type_text(key)}, {duckdb_type_text(value)})"
        case Struct(fields):
            parts = (f"{quote_if_needed(name)} {duckdb_type_text(part)}" for name, part in fields)
            return f"STRUCT({', '.join(parts)})"
        case _:
            return duckdb_name(data_type)


def spark_type_text(data_type: DataType) -> str:
    """A type as `lake.sql()` reads it in Spark's dialect; the lake's own name where Spark has none.

    >>> from ducklake_spark.format.types import parse_type
    >>> spark_type_text(parse_type("STRUCT(a TIMESTAMP, b UUID[])"))
    'struct<a: timestamp_ntz, b: array<uuid>>'
    """
    match data_type:
        case List(element):
            return f"array<{spark_type_text(element)}>"
        case Map(key, value):
            return f"map<{spark_type_text(key)}, {spark_type_text(value)}>"
        case Struct(fields):
            return (
                f"struct<{', '.join(f'{_ticked(name)}: {spark_type_text(part)}' for name, part in fields)}>"
            )
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Scalar(name):
            return _SPARK_NAMES.get(name, name)


def _ticked(name: str) -> str:
    plain = name.isidentifier() and name.isascii()
    return name if plain else ticked(name)
