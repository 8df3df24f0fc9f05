"""Partition keys in a write: their values in DuckDB's words, their folders, and how rows of one value come together."""

from __future__ import annotations

from collections.abc import Mapping

import pyspark.sql.types as spark_types
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.partitioning import PartitionKey
from ducklake_spark.format.types import Decimal, Map, quote, walk
from ducklake_spark.scan.projection.types import micros_to_ntz
from ducklake_spark.spark import writer as jvm
from ducklake_spark.spark.worker_functions import map_in_arrow
from ducklake_spark.workers.duckdb_encoder import EncodedKey
from ducklake_spark.workers.keys import AddBuckets
from ducklake_spark.write.partitioning import buckets

_PARTS = {"year": F.year, "month": F.month, "day": F.dayofmonth, "hour": F.hour}
_LONGS = frozenset({"boolean", "int8", "int16", "int32", "int64"})
SHUFFLE_PARTITIONS = 500
"""Into how many parts rows are dealt by their keys. Small parts are joined again; but a value that shares its part with
a skewed one is split with it, so there should be more parts than that happens to be likely."""
_SHORT_TEXT = 60
"""Bytes of a text that name a folder of its own while it is written; longer ones are known by a digest."""


def table_keys(table: TableDef) -> list[tuple[PartitionKey, ColumnDef]]:
    """The keys of a table, each with its column."""
    columns = {column.column_id: column for column in table.columns}
    keys = table.partitioning.keys if table.partitioning is not None else ()
    return [(key, columns[key.column_id]) for key in keys]


def encoded_keys(table: TableDef) -> tuple[EncodedKey, ...]:
    """How DuckDB computes each key, and how the format names its folder."""
    keys: list[EncodedKey] = []
    used: set[str] = set()
    for key, column in table_keys(table):
        name = quote(column.name)
        if key.buckets is not None:
            sql, folder = buckets.bucket_sql(name, column.data_type, key.buckets), "bucket"
        elif key.transform == "identity":
            sql, folder = name, column.name
        elif key.epoch_unit is not None:
            sql, folder = _epoch_sql(name, column, key.epoch_unit), key.transform
        else:
            sql, folder = f"{key.transform}({name})", key.transform
        if folder in used:
            folder = f"{folder}_{column.name}"
        used.add(folder)
        keys.append(EncodedKey(f"CAST({sql} AS VARCHAR)", folder))
    return tuple(keys)


def _epoch_sql(name: str, column: ColumnDef, unit: str) -> str:
    if column.type == "date":
        return f"date_diff('{unit}', DATE '1970-01-01', {name})"
    value = f"CAST({name} AS TIMESTAMP)"  # of a zoned one in UTC, the zone of all who compute keys
    if column.type == "timestamp_ns":
        # A cast would round times before 1970 up.
        floor = f"(epoch_ns({name}) - (epoch_ns({name}) % 1000 + 1000) % 1000) // 1000"
        value = f"CASE WHEN isfinite({name}) THEN make_timestamp({floor}) END"
    return f"date_diff('{unit}', TIMESTAMP '1970-01-01', {value})"


def key_column(frame: DataFrame, column: Column, key: PartitionKey, definition: ColumnDef) -> Column | None:
    """A Spark column that differs where the key differs, and nowhere else; None where Spark cannot say.

    Args:
        frame: The DataFrame that the column is of.
        column: The value, in the Spark type that stores the column.
        key: The partition key.
        definition: The column of the table.
    """
    name = definition.type
    if key.buckets is not None:
        hashed = _hashed(frame, column, definition)
        if hashed is None:
            return None
        return F.when(column.isNotNull(), hashed.bitwiseAND(F.lit(0x7FFFFFFF)) % F.lit(key.buckets))
    if key.transform != "identity":
        if name == "timestamptz":
            # The worker and the format's texts are in UTC, whatever the session's zone.
            column = micros_to_ntz(F.unix_micros(column))
        elif name not in ("date", "timestamp", "timestamp_s", "timestamp_ms"):
            return None
        elif name == "date" and key.transform == "hour":
            return F.when(column.isNotNull(), F.lit(0))
        return _since_1970(column, key.epoch_unit) if key.epoch_unit else _PARTS[key.transform](column)
    if name == "timestamptz":
        return F.unix_micros(column)
    if name == "varchar":
        return _short(F.encode(column, "utf-8"))
    if name == "blob":
        return _short(column)
    # As text, in which zero and minus zero differ, so that they are sorted apart.
    return column.cast("string") if name in ("float32", "float64") else column


def _since_1970(column: Column, unit: str) -> Column:
    if unit == "year":
        return F.year(column)
    if unit == "month":
        return F.year(column) * 12 + F.month(column)
    days = F.unix_date(F.to_date(column))
    return days if unit == "day" else days.cast("long") * 24 + F.hour(column.cast("timestamp_ntz"))


def _short(data: Column) -> Column:
    # As digits: Spark takes an empty text for NULL, and folders may ignore case.
    return F.when(F.octet_length(data) <= _SHORT_TEXT, F.concat(F.lit("x"), F.hex(data))).otherwise(
        F.sha2(data, 256)
    )


def _hashed(frame: DataFrame, column: Column, definition: ColumnDef) -> Column | None:
    if not jvm.is_classic_frame(frame):
        return None
    data_type = definition.data_type
    name = data_type.name
    if name in _LONGS:
        return jvm.murmur3_of_long(frame, column.cast("long"))
    if name in ("float32", "float64"):
        return jvm.murmur3_of_long(frame, column.cast("double"))
    if name == "date":
        return jvm.murmur3_of_long(frame, F.unix_date(column).cast("long"))
    if name in ("timestamp", "timestamptz") or (isinstance(data_type, Decimal) and data_type.precision <= 18):
        return jvm.murmur3_of_long(frame, column)
    if name in ("varchar", "json", "blob"):
        data = column if name == "blob" else F.encode(column, "utf-8")
        return jvm.murmur3_of_bytes(frame, data, F.octet_length(data), F.lit(0))
    return None


def together(
    table: TableDef, prepared: DataFrame, positions: Mapping[int, int], values: Mapping[int, str]
) -> DataFrame:
    """The rows, those of one partition value near each other, so that few files are made; Spark splits what is skewed.

    Args:
        table: The table.
        prepared: Columns `c0`, `c1` ... on their way to the workers.
        positions: By column id, the position of its values.
        values: By column id, the DuckDB SQL of the value to store.
    """
    helpers: dict[str, Column] = {}
    staged: dict[str, str] = {}
    for i, (key, column) in enumerate(table_keys(table)):
        position = positions.get(column.column_id)
        if position is None:
            continue
        arriving = F.col(f"c{position}")
        found = key_column(prepared, _stored(arriving, column), key, column)
        if found is None and key.buckets is not None:
            value = f"TRY({values[column.column_id]})"
            staged[f"k{i}"] = buckets.bucket_sql(value, column.data_type, key.buckets)
        elif found is None:
            found = arriving
        if found is not None and not any(isinstance(part, Map) for part in walk(column.data_type)):
            helpers[f"k{i}"] = found
    if staged:
        added = [spark_types.StructField(name, spark_types.IntegerType()) for name in staged]
        schema = spark_types.StructType([*prepared.schema.fields, *added])
        prepared = map_in_arrow(prepared, AddBuckets(tuple(staged.items())), schema)
    names = [*helpers, *staged]
    if not names:
        return prepared
    return prepared.withColumns(helpers).hint("rebalance", SHUFFLE_PARTITIONS, *names).drop(*names)


def _stored(arriving: Column, column: ColumnDef) -> Column:
    """The value in its column's type where the bucket depends on it."""
    data_type = column.data_type
    if isinstance(data_type, Decimal):
        return arriving.try_cast(f"decimal({data_type.precision},{data_type.scale})")
    return arriving
