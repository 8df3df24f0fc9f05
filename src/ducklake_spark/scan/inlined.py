"""Rows that live in the catalog: fetched as text, decoded by DuckDB's own casts, handed to Spark as Arrow.

The catalog keeps a table of such rows for each version of the schema; columns are found by id, as in files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyspark.sql.types as spark_types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.catalog.store import Row, Store
from ducklake_spark.errors import CatalogError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.data import stored_type
from ducklake_spark.format.duckdb_library import arrow_table
from ducklake_spark.format.types import NESTED, duckdb_name, quote, text_literal
from ducklake_spark.scan.projection.types import TypeChoices, user_type

if TYPE_CHECKING:
    import pyarrow

INLINED_ROW_ID = "__ducklake_row_id"
INLINED_SNAPSHOT_ID = "__ducklake_snapshot_id"
_PARTS = 'STRUCT(metadata BLOB, "value" BLOB)'


@dataclass(frozen=True)
class InlinedTable:
    """One table of inlined rows: its name, and the nodes of its schema as (id, name, type, parent id)."""

    table_name: str
    schema_version: int
    nodes: tuple[tuple[int, str, str, int | None], ...]

    def columns(self) -> tuple[ColumnDef, ...]:
        """The schema as a tree."""

        def build(parent: int | None) -> tuple[ColumnDef, ...]:
            return tuple(
                ColumnDef(column_id, name, type_, children=build(column_id))
                for column_id, name, type_, above in self.nodes
                if above == parent
            )

        return build(None)


def inlined_frame(
    spark: SparkSession,
    store: Store,
    table: InlinedTable,
    columns: Sequence[ColumnDef],
    at: int,
    choices: TypeChoices,
) -> DataFrame | None:
    """The live rows at a snapshot, with `INLINED_ROW_ID` and `INLINED_SNAPSHOT_ID` last; None if there are none."""
    rows = fetch_rows(store, table, at)
    return None if not rows else frame_of(spark, decode(rows, table, columns, choices), columns, choices)


def fetch_rows(store: Store, table: InlinedTable, at: int) -> list[Row]:
    """The live rows: row id, begin snapshot, and the table's columns as text or bytes."""
    own = store.inlined_columns(table.table_name)
    return fetch_versions(store, table, own.begin, own.live, (at, at))


def fetch_versions(
    store: Store, table: InlinedTable, stamp: str, condition: str, params: Sequence[Any]
) -> list[Row]:
    """Versions of rows that meet a condition: row id, one of their two snapshots, and the table's columns."""
    wanted = ", ".join(text_sql(column, store.kind) for column in table.columns())
    row_id = store.inlined_columns(table.table_name).row_id
    return store.query(
        f"SELECT {row_id}, {stamp}, {wanted} FROM {quote(table.table_name)} WHERE {condition}", params
    )


def _is_bytes(column: ColumnDef, kind: str) -> bool:
    return column.type == "blob" or (kind == "postgres" and column.type in ("varchar", "json"))


def text_sql(column: ColumnDef, kind: str) -> str:
    """SQL of a catalog database for the values of a column as text, or as bytes."""
    name = quote(column.name)
    if _is_bytes(column, kind):
        return name
    if kind == "duckdb" and column.type == "variant":
        # Each of its values keeps its type, which JSON would not tell.
        parts = f"CAST(variant_to_parquet_variant({name}) AS {_PARTS})"
        return f"CASE WHEN {name} IS NOT NULL THEN ({parts}).metadata || ({parts}).value END"
    if kind == "duckdb" and column.type == "timestamptz":
        # With a zone DuckDB prints through ICU, which counts in doubles and rounds far years.
        exact = f"CAST(make_timestamp(epoch_us({name})) AS VARCHAR) || '+00'"
        return f"CASE WHEN isinf({name}) THEN CAST({name} AS VARCHAR) ELSE {exact} END"
    if kind == "duckdb" and column.type in NESTED:
        return f"CAST({_without_variants(name, column)} AS VARCHAR)"
    return f"CAST({name} AS {'CHAR' if kind == 'mysql' else 'TEXT'})"


def decode(
    rows: Sequence[Row], table: InlinedTable, columns: Sequence[ColumnDef], choices: TypeChoices
) -> pyarrow.Table:
    """The rows in the table's present columns, in types that Spark takes from Arrow."""
    import pyarrow

    stored = table.columns()
    arrays = [
        pyarrow.array([row[0] for row in rows], pyarrow.int64()),
        pyarrow.array([row[1] for row in rows], pyarrow.int64()),
    ]
    for index, column in enumerate(stored, 2):
        values = [row[index] for row in rows]
        if column.type in ("blob", "variant"):
            arrays.append(pyarrow.array([None if v is None else bytes(v) for v in values], pyarrow.binary()))
        else:
            arrays.append(pyarrow.array([text_of(value) for value in values], pyarrow.string()))
    batch = pyarrow.table(arrays, names=["r", "s", *(f"c{i}" for i in range(len(stored)))])
    by_id: Mapping[int, tuple[int, ColumnDef]] = {c.column_id: (i, c) for i, c in enumerate(stored)}
    made = []
    for number, column in enumerate(columns):
        index, then = by_id.get(column.column_id, (-1, None))
        source = f"c{index}"
        if column.type == "variant":
            made.append(f"{_variant_parts(None if index < 0 else source)} AS u{number}")
            continue
        sql = (
            default_sql(column, choices)
            if then is None
            else value_sql(f"CAST({source} AS {stored_type(then)})", then, column, choices)
        )
        # DuckDB has no types for NULLs that it computes before it runs: list_transform(NULL, ...) is an integer.
        made.append(f"CAST({sql} AS {carried_sql(column, choices)}) AS u{number}")
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("batch", batch)
        try:
            return arrow_table(connection, f"SELECT {', '.join([*made, 'r', 's'])} FROM batch")
        except duckdb.Error as error:
            raise CatalogError(
                f'The inlined rows in "{table.table_name}" cannot be read: {str(error).splitlines()[0]}'
            ) from error


def _variant_parts(source: str | None) -> str:
    """SQL for the two parts of a variant, which is given by both as one."""
    if source is None:
        return f"CAST(NULL AS {_PARTS})"
    made = f"variant_to_parquet_variant(variant_bytes_to_variant({source}))"
    return f"CASE WHEN {source} IS NOT NULL THEN CAST({made} AS {_PARTS}) END"


def _has_variants(node: ColumnDef) -> bool:
    """Whether there are variants inside of it. No data file can hold such a column, only DuckDB as catalog."""
    return any(part.type == "variant" for child in node.children for part in child.walk())


def _without_variants(sql: str, node: ColumnDef) -> str:
    """A nested value with JSON texts in place of variants."""
    if _has_variants(node):
        sql = f"CAST({sql} AS {stored_type(node, 'json')})"
    return f"CAST({sql} AS {stored_type(node)})"


def text_of(value: Any) -> str | None:
    """What `text_sql` gave, as the text that DuckDB casts."""
    if value is None or isinstance(value, str):
        return value
    return bytes(value).decode() if isinstance(value, (bytes, bytearray, memoryview)) else str(value)


def default_sql(node: ColumnDef, choices: TypeChoices) -> str:
    """SQL for the initial default of a column."""
    if node.initial_default is None:
        return f"CAST(NULL AS {carried_sql(node, choices)})"
    value = f"CAST({text_literal(node.initial_default)} AS {duckdb_name(node.data_type)})"
    return value_sql(value, node, node, choices)


def value_sql(sql: str, then: ColumnDef, now: ColumnDef, choices: TypeChoices, depth: int = 0) -> str:
    """SQL that makes a value of a stored one: fields by id, scalars promoted, types that Spark lacks replaced."""
    item = f"x{depth}"
    match now.type:
        case "list":
            inner = value_sql(item, then.children[0], now.children[0], choices, depth + 1)
            return f"list_transform({sql}, lambda {item}: {inner})"
        case "map":
            key = value_sql(f"{item}.key", then.children[0], now.children[0], choices, depth + 1)
            value = value_sql(f"{item}.value", then.children[1], now.children[1], choices, depth + 1)
            entry = f"struct_pack(k := {key}, v := {value})"
            return (
                f"CASE WHEN {sql} IS NULL THEN NULL ELSE "
                f"map_from_entries(list_transform(map_entries({sql}), lambda {item}: {entry})) END"
            )
        case "struct":
            stored = {child.column_id: child for child in then.children}
            parts = []
            for child in now.children:
                old = stored.get(child.column_id)
                made = (
                    default_sql(child, choices)
                    if old is None
                    else value_sql(
                        f"struct_extract({sql}, {text_literal(old.name)})", old, child, choices, depth
                    )
                )
                parts.append(f"{quote(child.name)} := {made}")
            return f"CASE WHEN {sql} IS NULL THEN NULL ELSE struct_pack({', '.join(parts)}) END"
        case _:
            promoted = sql if then.type == now.type else f"CAST({sql} AS {duckdb_name(now.data_type)})"
            return _scalar(promoted, now, choices)


_CASTS = {
    "uint8": "SMALLINT",
    "uint16": "INTEGER",
    "uint32": "BIGINT",
    "uint64": "DECIMAL(20,0)",
    "int128": "DECIMAL(38,0)",
    "uint128": "DECIMAL(38,0)",
    "timestamp_s": "TIMESTAMP",
    "timestamp_ms": "TIMESTAMP",
    "json": "VARCHAR",
    "variant": "VARCHAR",
    "uuid": "VARCHAR",
    "time": "VARCHAR",
    "time_ns": "VARCHAR",
}


_CARRIED = _CASTS | {
    "timetz": "VARCHAR",
    "interval": "STRUCT(months INTEGER, days INTEGER, micros BIGINT)",
    "geometry": "BLOB",
}


def carried_sql(node: ColumnDef, choices: TypeChoices) -> str:
    """The DuckDB type of a decoded value."""
    parts = [carried_sql(child, choices) for child in node.children]
    match node.type:
        case "list":
            return f"{parts[0]}[]"
        case "map":
            return f"MAP({parts[0]}, {parts[1]})"
        case "struct":
            named = (f"{quote(child.name)} {part}" for child, part in zip(node.children, parts, strict=True))
            return f"STRUCT({', '.join(named)})"
        case "timestamp_ns":
            return "BIGINT" if choices.timestamp_ns == "long" else "TIMESTAMP"
        case _:
            return _CARRIED.get(node.type) or duckdb_name(node.data_type)


def _scalar(sql: str, node: ColumnDef, choices: TypeChoices) -> str:
    if node.type in _CASTS:
        return f"CAST({sql} AS {_CASTS[node.type]})"
    if node.type == "timetz":
        # Files keep the time in UTC; so that one column has one meaning, these rows are shown in UTC too.
        return f"CAST(CAST(timezone('UTC', {sql}) AS TIME) AS VARCHAR)"
    if node.type == "timestamp_ns":
        if choices.timestamp_ns == "micros":
            # Without the last three digits, not rounded: as in files.
            nanos = f"epoch_ns({sql})"
            micros = f"({nanos} - (({nanos} % 1000) + 1000) % 1000) // 1000"
            return f"CASE WHEN isinf({sql}) THEN CAST({sql} AS TIMESTAMP) ELSE make_timestamp({micros}) END"
        late = f"{sql} > TIMESTAMP_NS '2000-01-01'"
        infinite = f"CASE WHEN {late} THEN {2**63 - 1} ELSE {1 - 2**63} END"
        return f"CASE WHEN isinf({sql}) THEN {infinite} ELSE epoch_ns({sql}) END"
    if node.type == "interval":
        months = f"datepart('year', {sql}) * 12 + datepart('month', {sql})"
        clock = f"datepart('hour', {sql}) * 3600000000 + datepart('minute', {sql}) * 60000000"
        micros = f"{clock} + datepart('microsecond', {sql})"
        return (
            f"CASE WHEN {sql} IS NULL THEN NULL ELSE struct_pack(months := CAST({months} AS INTEGER), "
            f"days := CAST(datepart('day', {sql}) AS INTEGER), micros := CAST({micros} AS BIGINT)) END"
        )
    return sql


def frame_of(
    spark: SparkSession, table: pyarrow.Table, columns: Sequence[ColumnDef], choices: TypeChoices
) -> DataFrame:
    """The decoded rows as a DataFrame in the user's types."""
    variants = [i for i, column in enumerate(columns) if column.type == "variant"]
    carried = [
        spark_types.StructField(
            f"u{i}", spark_types.VariantType() if i in variants else carried_type(column, choices)
        )
        for i, column in enumerate(columns)
    ]
    schema = spark_types.StructType(
        [
            *carried,
            spark_types.StructField("r", spark_types.LongType()),
            spark_types.StructField("s", spark_types.LongType()),
        ]
    )
    for place in variants:
        table = table.set_column(place, f"u{place}", _as_variants(table.column(place)))
    frame = spark.createDataFrame(table, schema=schema)
    made = [
        (F.col(f"u{i}") if i in variants else to_user(F.col(f"u{i}"), column, choices)).alias(column.name)
        for i, column in enumerate(columns)
    ]
    return frame.select(*made, F.col("r").alias(INLINED_ROW_ID), F.col("s").alias(INLINED_SNAPSHOT_ID))


def _as_variants(parts: pyarrow.ChunkedArray) -> pyarrow.Array:
    """Variants as Spark has them in Arrow, of their two parts."""
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_type

    whole = pyarrow.concat_arrays(parts.chunks) if parts.num_chunks else pyarrow.array([], parts.type)
    kind = to_arrow_type(spark_types.VariantType())
    given = [whole.field(field.name).cast(field.type).fill_null(b"") for field in kind]
    return pyarrow.StructArray.from_arrays(given, fields=list(kind), mask=whole.is_null())


def carried_type(node: ColumnDef, choices: TypeChoices) -> spark_types.DataType:
    """The Spark type of a decoded value: the user's, but text where Arrow has nothing for it."""
    match node.type:
        case "list":
            return spark_types.ArrayType(carried_type(node.children[0], choices))
        case "map":
            key, value = (carried_type(child, choices) for child in node.children)
            return spark_types.MapType(key, value)
        case "struct":
            return spark_types.StructType(
                [spark_types.StructField(child.name, carried_type(child, choices)) for child in node.children]
            )
        case "time" | "timetz" | "variant":
            return spark_types.StringType()
        case _:
            return user_type(node.data_type, choices)


def to_user(column: Column, node: ColumnDef, choices: TypeChoices) -> Column:
    """A decoded value as the user's."""
    target = user_type(node.data_type, choices)
    if node.type == "variant":
        return F.parse_json(column)
    if _has_variants(node):
        return _with_variants(column, node, choices)
    return column if target == carried_type(node, choices) else column.cast(target)


def _with_variants(column: Column, node: ColumnDef, choices: TypeChoices) -> Column:
    def part(value: Column, child: ColumnDef) -> Column:
        # A variant that is NULL is the text null in JSON.
        return to_user(F.nullif(value, F.lit("null")) if child.type == "variant" else value, child, choices)

    if node.type == "list":
        return F.transform(column, lambda item: part(item, node.children[0]))
    if node.type == "map":
        keys = F.transform(F.map_keys(column), lambda item: part(item, node.children[0]))
        return F.map_from_arrays(
            keys, F.transform(F.map_values(column), lambda item: part(item, node.children[1]))
        )
    fields = [part(column.getField(child.name), child).alias(child.name) for child in node.children]
    return F.when(column.isNotNull(), F.struct(*fields))
