"""How the rows of a table become files: columns, field ids, keys, order, and the options of Parquet."""

from __future__ import annotations

from dataclasses import replace

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.options import DEFAULT_TARGET_FILE_SIZE, HIGHEST_LEVEL
from ducklake_spark.format.types import text_literal
from ducklake_spark.scan.projection.column import ROW_ID_FIELD, ROW_ID_NAME
from ducklake_spark.workers.duckdb_encoder import EncodedColumn, Encoding
from ducklake_spark.write.partitioning.keys import encoded_keys
from ducklake_spark.write.target import Target
from ducklake_spark.write.values import Fields, column_positions, row_id_column, stored_values

COUNTED_APART = ("timetz", "interval", "variant")
"""Types whose NULLs DuckDB's statistics do not count."""


def rows_encoding(
    target: Target, fields: Fields, folder: str, limit: int, partial: frozenset[int] = frozenset()
) -> Encoding:
    """How rows that arrive with these fields become files in `folder`; up to `limit` of a task come back instead."""
    table = target.table
    require_writable_types(table)
    positions = column_positions(target, fields)
    columns = tuple(
        EncodedColumn(column.name, value, not column.nulls_allowed, _arriving(positions.get(column)))
        for column, value in zip(table.columns, stored_values(target, fields, partial), strict=True)
    )
    row_ids = row_id_column(target, fields)
    if row_ids is not None:
        columns += (EncodedColumn(ROW_ID_NAME, f"CAST({row_ids} AS BIGINT)"),)
    return replace(file_encoding(target, columns, folder), inline_limit=limit)


def file_encoding(target: Target, columns: tuple[EncodedColumn, ...], folder: str) -> Encoding:
    """How rows with these values of the table's columns become files."""
    table = target.table
    field_ids = [field_id(column) for column in table.columns]
    if target.has_row_ids:
        field_ids.append(f"'{ROW_ID_NAME}': {ROW_ID_FIELD}")
    order: tuple[str, ...] = ()
    if table.sorting is not None and target.option("sort_on_insert") != "false":
        order = tuple(key.text for key in table.sorting.keys if key.dialect == "duckdb")
    size = int(target.option("target_file_size") or DEFAULT_TARGET_FILE_SIZE)
    return Encoding(
        folder=folder,
        columns=columns,
        field_ids="{" + ", ".join(field_ids) + "}",
        order_by=order,
        keys=encoded_keys(table),
        hive_folders=target.has_hive_folders,
        copy_options=copy_options(target),
        target_file_size=size,
        counted=tuple(column.name for column in table.columns if column.type in COUNTED_APART),
        variants=tuple(column.name for column in table.columns if column.type == "variant"),
        encrypted=target.is_encrypted,
        access=target.access(),
    )


def _arriving(position: int | None) -> str | None:
    return None if position is None else f"c{position}"


def require_writable_types(table: TableDef) -> None:
    """Refuses types that no data file can hold.

    Raises:
        InvalidInputError: Names the column.
    """
    for column in table.columns:
        for node in column.walk():
            if node.type == "time_ns" or (node.type == "variant" and node is not column):
                what = "time_ns" if node.type == "time_ns" else "a variant inside another type"
                raise InvalidInputError(
                    f'Column "{column.name}" of table "{table.name}" holds {what}, which no data file can hold. '
                    "Nothing was written."
                )


def field_id(column: ColumnDef) -> str:
    name = text_literal(column.name)
    if not column.children:
        return f"{name}: {column.column_id}"
    inner = ", ".join(field_id(child) for child in column.children)
    return f"{name}: {{__duckdb_field_id: {column.column_id}, {inner}}}"


def require_level(target: Target) -> None:
    """Refuses a compression level that the table's codec does not take; the extension does so for each insert."""
    level, codec = (
        target.option("parquet_compression_level"),
        target.option("parquet_compression") or "snappy",
    )
    if level is not None and (codec != "zstd" or int(level) > HIGHEST_LEVEL):
        raise InvalidInputError(
            f'Cannot write to table "{target.table.name}": parquet_compression_level is {level}, and '
            f"parquet_compression is {codec}. Only zstd has levels, from 0 to {HIGHEST_LEVEL}: set "
            "parquet_compression to zstd."
        )


def copy_options(target: Target) -> tuple[str, ...]:
    """The options of Parquet, as DuckDB's COPY takes them."""
    options = [f"COMPRESSION {target.option('parquet_compression') or 'snappy'}"]
    level = target.option("parquet_compression_level")
    if level is not None:
        options.append(f"COMPRESSION_LEVEL {int(level)}")
    if target.option("parquet_version") is not None:
        options.append(f"PARQUET_VERSION {target.option('parquet_version')}")
    if target.option("parquet_row_group_size") is not None:
        options.append(f"ROW_GROUP_SIZE {int(target.option('parquet_row_group_size') or 0)}")
    if target.option("parquet_row_group_size_bytes") is not None:
        options.append(f"ROW_GROUP_SIZE_BYTES {int(target.option('parquet_row_group_size_bytes') or 0)}")
    return tuple(options)
