"""Tables and files as the catalog counts them: `table_info()` and `list_files()` of the extension, `Table.detail()`."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.inventory import Size, sizes
from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.format import paths
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import SchemaDef, TableDef, is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake
    from ducklake_spark.api.table import Table


def table_info(lake: Lake) -> DataFrame:
    """One row for each table: its data files and delete files and their sizes. Inlined rows are no files."""
    tx = scope_of(lake).read_transaction()
    at = tx.snapshot.snapshot_id
    counted = [
        f"SELECT table_id, count(*), sum(file_size_bytes) FROM {name} WHERE {LIVE} GROUP BY table_id"
        for name in ("ducklake_data_file", "ducklake_delete_file")
    ]
    data, deletes = (
        {int(table_id): (int(count), int(size or 0)) for table_id, count, size in rows}
        for rows in tx.store.query_many([(sql, (at, at)) for sql in counted])
    )
    rows = [
        (
            table.name,
            table.schema_id,
            table.table_id,
            table.table_uuid,
            *data.get(table.table_id, (0, 0)),
            *deletes.get(table.table_id, (0, 0)),
        )
        for table in sorted(tx.all_tables(), key=lambda table: table.table_id)
    ]

    from ducklake_spark.engine.answers import answer

    return answer(
        lake,
        rows,
        "table_name string, schema_id bigint, table_id bigint, table_uuid string, file_count bigint, "
        "file_size_bytes bigint, delete_file_count bigint, delete_file_size_bytes bigint",
    )


_DETAIL = (
    "lake string, schema string, name string, table_id bigint, table_uuid string, comment string, location string, "
    "snapshot_id bigint, partitioned_by array<string>, sorted_by array<string>, files bigint, file_bytes bigint, "
    "delete_files bigint, delete_bytes bigint, inlined_rows bigint, rows bigint"
)


def detail(table: Table) -> DataFrame:
    """One row about a table, as the catalog counts it; changes of the running transaction do not count."""
    lake = table.lake
    tx = scope_of(lake).read_transaction()
    schema, own = scope_of(lake).resolve(tx, (table.schema_name, table.name))
    found = ddl.get_table(tx, schema, own)
    size = Size()
    if not is_local(found.table_id):
        size = sizes(tx.store, tx.snapshot.snapshot_id, found.table_id).get(found.table_id, size)
    row = (
        lake.name,
        schema.name,
        found.name,
        found.table_id if not is_local(found.table_id) else None,
        found.table_uuid,
        found.comment,
        table_path(lake, schema, found),
        tx.snapshot.snapshot_id,
        table.partitioned_by,
        table.sorted_by,
        size.files,
        size.file_bytes,
        size.delete_files,
        size.delete_bytes,
        size.inlined_rows,
        size.rows,
    )

    from ducklake_spark.engine.answers import answer

    return answer(lake, [row], _DETAIL)


def list_files(lake: Lake, name: Name) -> DataFrame:
    """The data files of a table, each with its delete file, as the lake is now."""
    tx = scope_of(lake).read_transaction()
    schema, own = scope_of(lake).resolve(tx, name)
    table = ddl.get_table(tx, schema, own)
    rows = [_file(row, table_path(lake, schema, table)) for row in _file_rows(tx, table)]

    from ducklake_spark.engine.answers import answer

    return answer(
        lake,
        rows,
        "data_file string, data_file_size_bytes bigint, data_file_footer_size bigint, "
        "data_file_encryption_key binary, delete_file string, delete_file_size_bytes bigint, "
        "delete_file_footer_size bigint, delete_file_encryption_key binary",
    )


def table_path(lake: Lake, schema: SchemaDef, table: TableDef) -> str:
    """The folder of a table, whole."""
    schema_path = paths.join(lake.data_path, schema.path, schema.path_is_relative)
    return paths.join(schema_path, table.path, table.path_is_relative)


def _file_rows(tx: Transaction, table: TableDef) -> list[tuple[Any, ...]]:
    at = tx.snapshot.snapshot_id
    return tx.store.query(
        "SELECT f.path, f.path_is_relative, f.file_size_bytes, f.footer_size, f.encryption_key, "
        "d.path, d.path_is_relative, d.file_size_bytes, d.footer_size, d.encryption_key "
        "FROM (SELECT * FROM ducklake_data_file WHERE table_id = ? AND "
        f"{LIVE}) f LEFT JOIN (SELECT * FROM ducklake_delete_file WHERE table_id = ? AND {LIVE}) d "
        "ON d.data_file_id = f.data_file_id ORDER BY f.data_file_id",
        (table.table_id, at, at, table.table_id, at, at),
    )


def _file(row: tuple[Any, ...], folder: str) -> tuple[Any, ...]:
    return (*_part(row[:5], folder), *_part(row[5:], folder))


def _part(row: tuple[Any, ...], folder: str) -> tuple[Any, ...]:
    path, relative, size, footer, key = row
    if path is None:
        return (None, None, None, None)
    whole = paths.join(folder, path, bool(relative))
    return whole, size, footer, None if key is None else bytearray(base64.b64decode(key))
