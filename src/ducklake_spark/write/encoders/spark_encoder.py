"""Spark's own Parquet writer as an encoder, for tables of types that it stores as the format wants them.

It is chosen when it does the same as the worker's encoder: no lists and maps, casts in which Spark and DuckDB agree,
defaults that are constants, sort keys that are columns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyspark.sql.types as spark_types
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ducklake_spark.format import duckdb_sql
from ducklake_spark.format.columns import ColumnDef, find
from ducklake_spark.format.duckdb_library import arrow_table
from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.options import DEFAULT_TARGET_FILE_SIZE
from ducklake_spark.format.statistics import ColumnStats
from ducklake_spark.format.types import Decimal, Struct, duckdb_name, quote, text_literal
from ducklake_spark.spark import writer as jvm
from ducklake_spark.spark.columns import Value, selected_with
from ducklake_spark.workers.buckets import register
from ducklake_spark.workers.duckdb_encoder import NULL_REASON, hive_folder
from ducklake_spark.workers.parquet_source import FAILURE_MARK
from ducklake_spark.write.encoders.footers import Footer, read_footers
from ducklake_spark.write.partitioning.keys import SHUFFLE_PARTITIONS, encoded_keys, key_column, table_keys

FIELD_ID = "parquet.field.id"
_TYPES: Mapping[str, spark_types.DataType] = {
    "boolean": spark_types.BooleanType(),
    "int8": spark_types.ByteType(),
    "int16": spark_types.ShortType(),
    "int32": spark_types.IntegerType(),
    "int64": spark_types.LongType(),
    "float32": spark_types.FloatType(),
    "float64": spark_types.DoubleType(),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampNTZType(),
    "timestamptz": spark_types.TimestampType(),
    "varchar": spark_types.StringType(),
    "blob": spark_types.BinaryType(),
}
_WHOLE = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
_CODECS = {
    "snappy": "snappy",
    "uncompressed": "uncompressed",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4_raw",  # as the extension takes it
    "lz4_raw": "lz4_raw",
}
_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}
_OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.column.statistics.enabled": "true",
    # Longer than the format's bounds, which are cut from them; without a limit Parquet drops long ones.
    "parquet.statistics.truncate.length": "1024",
}
_LARGEST_SHUFFLE = 256 * 1024 * 1024
_PIECES = 4
"""Into how many pieces a file of the target size is cut, as rows are not all as large as those before them."""
_PART = re.compile(r"part-(\d+)-.*?(?:\.c|-c)(\d+)")


def rebalancing(target_file_size: int) -> dict[str, str]:
    """Settings with which rows that are dealt by partition end in few tasks, but not in one that takes too long."""
    size = str(min(target_file_size, _LARGEST_SHUFFLE))
    # What brings the rows of a partition together splits what is skewed only in an adaptive plan.
    return {"spark.sql.adaptive.enabled": "true", "spark.sql.adaptive.advisoryPartitionSizeInBytes": size}


@dataclass(frozen=True)
class SparkWrite:
    """A write that Spark's writer can do."""

    table: TableDef
    frame: DataFrame
    columns: tuple[tuple[str, Value, int], ...]
    """Name, value and field id of each column of the file."""
    order: tuple[Column, ...]
    options: Mapping[str, str]
    target_file_size: int
    bytes_per_row: float


@dataclass(frozen=True)
class SparkFile:
    """A file that was written: where it is, where it belongs, and what it holds."""

    path: str
    folder: str
    rows: int
    size: int
    footer_size: int
    columns: tuple[ColumnStats, ...]
    partition_values: tuple[str | None, ...]


def spark_type(column: ColumnDef) -> spark_types.DataType | None:
    """The Spark type that stores a column, with field ids in its structs; None when Spark's writer has none."""
    data_type = column.data_type
    if isinstance(data_type, Decimal):
        return spark_types.DecimalType(data_type.precision, data_type.scale)
    if isinstance(data_type, Struct):
        fields = []
        for child in column.children:
            part = spark_type(child)
            if part is None:
                return None
            fields.append(spark_types.StructField(child.name, part, True, {FIELD_ID: child.column_id}))
        return spark_types.StructType(fields)
    return _TYPES.get(data_type.name)


def assigned(column: Column, source: spark_types.DataType, target: ColumnDef) -> Column | None:
    """The value to store, whatever `spark.sql.ansi.enabled` says: one that does not fit raises. None to decline."""
    stored = spark_type(target)
    if stored is None:
        return None
    if isinstance(source, spark_types.NullType):
        return F.lit(None).cast(stored)
    if isinstance(stored, spark_types.StructType):
        return column.cast(stored) if _same_shape(source, stored) else None
    if source == stored:
        return column
    if isinstance(source, _WHOLE) and isinstance(stored, (spark_types.FloatType, spark_types.DoubleType)):
        return column.cast(stored)
    if isinstance(source, spark_types.FloatType) and isinstance(stored, spark_types.DoubleType):
        return column.cast(stored)
    if isinstance(source, _WHOLE) and isinstance(stored, _WHOLE):
        widens = _WHOLE.index(type(source)) <= _WHOLE.index(type(stored))
        return column.cast(stored) if widens else _checked(column, stored, target)
    if isinstance(source, (*_WHOLE, spark_types.DecimalType)) and isinstance(stored, spark_types.DecimalType):
        return _checked(column, stored, target)
    return None


def _same_shape(source: spark_types.DataType, stored: spark_types.DataType) -> bool:
    """Whether two types differ in metadata only."""
    if isinstance(source, spark_types.StructType) and isinstance(stored, spark_types.StructType):
        return len(source.fields) == len(stored.fields) and all(
            left.name == right.name and _same_shape(left.dataType, right.dataType)
            for left, right in zip(source.fields, stored.fields, strict=True)
        )
    return source == stored


def _checked(column: Column, stored: spark_types.DataType, target: ColumnDef) -> Column:
    value = column.try_cast(stored)
    reason = f"it is out of range for {duckdb_name(target.data_type)}"
    return F.when(column.isNotNull() & value.isNull(), _failure(target, column, reason)).otherwise(value)


def _failure(target: ColumnDef, value: Column, reason: str) -> Column:
    told = F.struct(
        F.lit(target.name).alias("column"), value.cast("string").alias("value"), F.lit(reason).alias("reason")
    )
    return F.raise_error(F.concat(F.lit(FAILURE_MARK), F.to_json(told)))


def _default(column: ColumnDef) -> Column | None:
    """The default of a column that the rows lack, when it is one value for all of them; None to decline."""
    stored = spark_type(column)
    if stored is None or column.children:
        return None
    text = column.default_value
    if text is None:
        return F.lit(None).cast(stored)
    name = duckdb_name(column.data_type)
    if column.default_value_type == "expression":
        once = duckdb_sql.once_or_per_row(text)
        if once == text:
            return None
    else:
        once = text_literal(text)
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        row = first_row(connection.execute(f"SELECT CAST(CAST({once} AS {name}) AS VARCHAR)"))
    shown = row[0] if row is not None else None
    if shown is None:
        return F.lit(None).cast(stored)
    if column.type == "blob" or "infinity" in shown or shown.endswith("(BC)"):
        return None
    return F.lit(shown + ":00" if column.type == "timestamptz" else shown).cast(stored)


def plan(
    table: TableDef,
    frame: DataFrame,
    fields: Sequence[tuple[str, spark_types.DataType]],
    positions: Mapping[int, int],
    option: Callable[[str], str | None],
    row_size: Callable[[], float | None],
    row_id: tuple[str, int] | None = None,
) -> SparkWrite | None:
    """How Spark's writer would store the rows, or None when the workers must.

    Args:
        table: The table.
        frame: Columns `c0`, `c1` ...
        fields: Their names and types.
        positions: By column id, the position of its values.
        option: A function that gives an option in force for the table.
        row_size: A function that says what a row takes in the table's files so far, if there are some.
        row_id: Name and field id of a column of row ids among the fields.
    """
    if not jvm.is_classic_frame(frame):
        return None
    options = _write_options(frame, option)
    order = _order(table, option)
    if options is None or order is None:
        return None
    columns: list[tuple[str, Value, int]] = []
    for column in table.columns:
        position = positions.get(column.column_id)
        value: Value | None = (
            _default(column)
            if position is None
            else f"c{position}"
            if column.nulls_allowed and fields[position][1] == spark_type(column) and not column.children
            else assigned(F.col(f"c{position}"), fields[position][1], column)
        )
        if value is None:
            return None
        if not column.nulls_allowed:
            nothing = F.lit(None).cast("string")
            assert isinstance(value, Column)
            value = F.coalesce(value, _failure(column, nothing, NULL_REASON))
        columns.append((column.name, value, column.column_id))
    if row_id is not None:
        position = [name for name, _ in fields].index(row_id[0])
        columns.append((row_id[0], f"CAST(c{position} AS BIGINT)", row_id[1]))
    for key, column in table_keys(table):
        stored = spark_type(column)
        assert stored is not None
        if column.children or key_column(frame, F.lit(None).cast(stored), key, column) is None:
            return None
    size = int(option("target_file_size") or DEFAULT_TARGET_FILE_SIZE)
    known = row_size()
    # Rather too many files than too large ones: what is small is joined afterwards.
    per_row = _row_bytes(table) if known is None else _PIECES * known
    return SparkWrite(table, frame, tuple(columns), order, options, size, per_row)


def _row_bytes(table: TableDef) -> float:
    """A guess, rather too high, of what a row takes in a file, before there are files to learn from."""
    widths = {
        "varchar": 120,
        "blob": 240,
        "boolean": 1,
        "int8": 1,
        "int16": 2,
        "int32": 3,
        "float32": 4,
        "date": 2,
    }
    return sum(
        widths.get(node.type, 6) for column in table.columns for node in column.walk() if not node.children
    )


def _write_options(frame: DataFrame, option: Callable[[str], str | None]) -> dict[str, str] | None:
    codec = _CODECS.get(option("parquet_compression") or "snappy")
    if codec is None:
        return None
    options = {**_OPTIONS, "compression": codec}
    level = option("parquet_compression_level")
    if level is not None:
        options["parquet.compression.codec.zstd.level"] = level
    if option("parquet_version") == "V2":
        options["parquet.writer.version"] = "v2"
    if option("parquet_row_group_size") is not None:
        if not jvm.limits_row_groups(frame.sparkSession):
            return None
        options["parquet.block.row.count.limit"] = str(option("parquet_row_group_size"))
    if option("parquet_row_group_size_bytes") is not None:
        options["parquet.block.size"] = str(option("parquet_row_group_size_bytes"))
    return options


def _order(table: TableDef, option: Callable[[str], str | None]) -> tuple[Column, ...] | None:
    """The sort keys, when all of them are columns; None to decline."""
    if table.sorting is None or option("sort_on_insert") == "false":
        return ()
    order = []
    for key in table.sorting.keys:
        if key.dialect != "duckdb":
            continue
        name = key.expression
        if len(name) > 1 and name[0] == name[-1] == '"':
            name = name[1:-1].replace('""', '"')
        column = find(table.columns, name)
        if column is None or column.children or spark_type(column) is None:
            return None
        place = F.col(ticked(column.name))
        direction = f"{key.direction.lower()}_{key.null_order.lower()}"
        order.append(getattr(place, direction)())
    return tuple(order)


def write(planned: SparkWrite, job: str) -> list[str]:
    """Writes the rows below the folder of a job. The paths of the files are in the order of the rows."""
    table, frame = planned.table, planned.frame
    # What the optimizer finds to be never NULL becomes a required column of the file; the format has optional ones.
    # This always holds, and the optimizer cannot know it.
    always = "spark_partition_id() >= 0"
    values = selected_with(
        frame,
        [
            (
                name,
                f"CASE WHEN {always} THEN {value} END"
                if isinstance(value, str)
                else F.when(F.expr(always), value),
                {FIELD_ID: field_id},
            )
            for name, value, field_id in planned.columns
        ],
    )
    helpers = {}
    for i, (key, column) in enumerate(table_keys(table)):
        stored = F.col(ticked(column.name))
        found = key_column(values, stored, key, column)
        assert found is not None
        helpers[f"__ducklake_key_{i}"] = found
    names = list(helpers)
    if names:
        values = values.withColumns(helpers).hint("rebalance", SHUFFLE_PARTITIONS, *names)
    if planned.order:
        values = values.sortWithinPartitions(*names, *planned.order)
    target = planned.target_file_size
    settings = {**_SETTINGS, **rebalancing(target)}
    writer = jvm.in_own_session(values, settings).write.mode("append").options(**planned.options)
    writer = writer.option("maxRecordsPerFile", max(1, int(target / planned.bytes_per_row)))
    (writer.partitionBy(*names) if names else writer).parquet(job)
    return sorted(
        (
            os.path.join(folder, name)
            for folder, _, names in os.walk(job)
            for name in names
            if name.endswith(".parquet")
        ),
        key=_place,
    )


def described(table: TableDef, paths: Sequence[str]) -> dict[str, SparkFile]:
    """What files hold, by their path."""
    if not paths:
        return {}
    keys = encoded_keys(table)
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        footers = read_footers(connection, paths, table.columns)
        values = _partition_values(connection, table, paths)
    files = {}
    for path in paths:
        footer: Footer = footers[path]
        found = values.get(path, ())
        folder = hive_folder(keys, found)
        files[path] = SparkFile(
            path, folder, footer.rows, footer.size, footer.footer_size, footer.columns, found
        )
    return files


def _place(path: str) -> tuple[int, str, int]:
    """Files in the order of the rows: by task, then by partition, then by their number."""
    match = _PART.search(os.path.basename(path))
    assert match is not None, path
    return int(match[1]), os.path.dirname(path), int(match[2])


def _partition_values(
    connection: duckdb.DuckDBPyConnection, table: TableDef, paths: Sequence[str]
) -> dict[str, tuple[str | None, ...]]:
    """By path, the values of the partition keys, which its first row has like all others."""
    keys = encoded_keys(table)
    if not keys:
        return {}
    register(connection)
    asked = ", ".join(key.sql for key in keys)
    rows = connection.execute(
        f"SELECT filename, {asked} FROM read_parquet(?, filename = true, file_row_number = true, "
        "hive_partitioning = false) WHERE file_row_number = 0",
        [list(paths)],
    ).fetchall()
    return {row[0]: tuple(row[1:]) for row in rows}


def rows_of(paths: Sequence[str], table: TableDef) -> pa.Table:
    """The rows of files that turned out to be few, as columns `c0`, `c1` ..., and the rest by name."""
    names = [f"{quote(column.name)} AS c{i}" for i, column in enumerate(table.columns)]
    others = f", * EXCLUDE ({', '.join(quote(column.name) for column in table.columns)})"
    asked = ", ".join(names)
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        source = "read_parquet(?, hive_partitioning = false)"
        known = connection.execute(f"DESCRIBE SELECT * FROM {source}", [list(paths)]).fetchall()
        extra = others if len(known) > len(names) else ""
        return arrow_table(connection, f"SELECT {asked}{extra} FROM {source}", [list(paths)])
