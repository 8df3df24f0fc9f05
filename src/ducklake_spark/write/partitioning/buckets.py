"""The bucket of a value in DuckDB's SQL."""

from __future__ import annotations

from ducklake_spark.format.types import DataType, Decimal

_WHOLE_NUMBERS = frozenset({"boolean", "int8", "int16", "int32", "int64"})
_LONG_DECIMAL = 18
"""Decimals with more digits are hashed as text."""


def bucket_sql(expression: str, data_type: DataType, count: int) -> str:
    """DuckDB SQL for the bucket of a value; the connection needs `register`."""
    return f"({_hash_sql(expression, data_type)} & 2147483647) % {count}"


def _hash_sql(expression: str, data_type: DataType) -> str:
    name = data_type.name
    if isinstance(data_type, Decimal) and data_type.precision <= _LONG_DECIMAL:
        # The text without the point is the unscaled number, whatever the precision.
        return f"murmur3_of_long(CAST(replace(CAST({expression} AS VARCHAR), '.', '') AS BIGINT))"
    if name in _WHOLE_NUMBERS:
        return f"murmur3_of_long(CAST({expression} AS BIGINT))"
    if name in ("float32", "float64"):
        return f"murmur3_of_double(CAST({expression} AS DOUBLE))"
    if name == "date":
        return f"murmur3_of_long({expression} - DATE '1970-01-01')"
    if name == "timestamp_s":
        return f"murmur3_of_long(epoch_us({expression}) // 1000000)"
    if name == "timestamp_ms":
        return f"murmur3_of_long(epoch_ms({expression}))"
    if name == "timestamp_ns":
        return f"murmur3_of_long(epoch_ns({expression}))"
    if name in ("timestamp", "timestamptz", "time"):
        return f"murmur3_of_long(epoch_us({expression}))"
    if name == "timetz":
        return f"murmur3_of_timetz(CAST({expression} AS VARCHAR))"
    if name == "blob":
        return f"murmur3_of_bytes({expression})"
    return f"murmur3_of_bytes(encode(CAST({expression} AS VARCHAR)))"
