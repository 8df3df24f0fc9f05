"""What the catalog says, as DataFrames: snapshots, tables and their sizes, files, and its own tables as they are."""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.inventory import Size, sizes
from ducklake_spark.catalog.tables import LIVE, tables_of
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.answers import answer
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import NotFoundError, did_you_mean
from ducklake_spark.format import paths
from ducklake_spark.format.duckdb_sql import partition_texts
from ducklake_spark.format.names import Name, check_name
from ducklake_spark.format.objects import EPOCH, SchemaDef, TableDef, is_local, table_folder
from ducklake_spark.format.partitioning import PartitionKey
from ducklake_spark.format.sorting import sort_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def snapshots(scope: Scope) -> DataFrame:
    """All snapshots, and what they changed."""
    return answer(
        scope,
        scope.snapshot_values(),
        "snapshot_id bigint, snapshot_time timestamp, schema_version bigint, changes map<string, array<string>>, "
        "author string, commit_message string, commit_extra_info string",
    )


def table_info(scope: Scope) -> DataFrame:
    """One row for each table: its data files and delete files and their sizes. Inlined rows are no files."""
    tx = scope.read_transaction()
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

    return answer(
        scope,
        rows,
        "table_name string, schema_id bigint, table_id bigint, table_uuid string, file_count bigint, "
        "file_size_bytes bigint, delete_file_count bigint, delete_file_size_bytes bigint",
    )


_DETAIL = (
    "lake string, schema string, name string, table_id bigint, table_uuid string, comment string, location string, "
    "snapshot_id bigint, partitioned_by array<string>, sorted_by array<string>, files bigint, file_bytes bigint, "
    "delete_files bigint, delete_bytes bigint, inlined_rows bigint, rows bigint"
)


def detail(scope: Scope, tx: Transaction, table: TableDef) -> DataFrame:
    """One row about a table, as the catalog counts it; changes of the running transaction do not count."""
    schema = tx.schema_of(table.schema_id)
    size = Size()
    if not is_local(table.table_id):
        size = sizes(tx.store, tx.snapshot.snapshot_id, table.table_id).get(table.table_id, size)
    row = (
        scope.name,
        schema.name,
        table.name,
        table.table_id if not is_local(table.table_id) else None,
        table.table_uuid,
        table.comment,
        table_path(scope, schema, table),
        tx.snapshot.snapshot_id,
        partition_texts(table.partitioning, table.columns),
        sort_texts(table.sorting),
        size.files,
        size.file_bytes,
        size.delete_files,
        size.delete_bytes,
        size.inlined_rows,
        size.rows,
    )

    return answer(scope, [row], _DETAIL)


def list_files(scope: Scope, name: Name) -> DataFrame:
    """The data files of a table, each with its delete file, as the lake is now."""
    tx = scope.read_transaction()
    schema, own = scope.resolve(tx, name)
    table = ddl.get_table(tx, schema, own)
    rows = [_file(row, table_path(scope, schema, table)) for row in _file_rows(tx, table)]

    return answer(
        scope,
        rows,
        "data_file string, data_file_size_bytes bigint, data_file_footer_size bigint, "
        "data_file_encryption_key binary, delete_file string, delete_file_size_bytes bigint, "
        "delete_file_footer_size bigint, delete_file_encryption_key binary",
    )


def partitions(scope: Scope, name: Name) -> DataFrame:
    """One row for each partition of a table: its keys with their values, its files and what they hold.

    Files of an earlier partition specification, and those of none, have its number and its keys.
    """
    tx = scope.read_transaction()
    schema, own = scope.resolve(tx, name)
    table = ddl.get_table(tx, schema, own)
    at, table_id = tx.snapshot.snapshot_id, table.table_id
    columns = {column.column_id: column.name for column in table.columns}
    keys: dict[int, dict[int, str]] = {}
    for partition_id, place, column_id, transform in tx.store.query(
        "SELECT partition_id, partition_key_index, column_id, transform FROM ducklake_partition_column "
        "WHERE table_id = ?",
        (table_id,),
    ):
        key = PartitionKey(int(column_id), transform).text(columns.get(int(column_id), f"column {column_id}"))
        keys.setdefault(int(partition_id), {})[int(place)] = key
    places = range(max((place + 1 for each in keys.values() for place in each), default=0))
    values = "".join(f", v{i}.partition_value" for i in places)
    joins = "".join(
        f" LEFT JOIN ducklake_file_partition_value v{i} ON v{i}.data_file_id = f.data_file_id AND "
        f"v{i}.table_id = f.table_id AND v{i}.partition_key_index = {i}"
        for i in places
    )
    found = tx.store.query(
        f"SELECT f.partition_id, count(*), sum(f.record_count), sum(f.file_size_bytes){values} FROM (SELECT * FROM "
        f"ducklake_data_file WHERE table_id = ? AND {LIVE}) f{joins} GROUP BY f.partition_id{values}",
        (table_id, at, at),
    )
    rows = []
    for partition_id, files, records, size, *texts in found:
        named = {} if partition_id is None else keys.get(int(partition_id), {})
        shown = {named[i]: texts[i] for i in sorted(named)}
        number = None if partition_id is None else int(partition_id)
        rows.append((number, shown, int(files), int(records), int(size)))
    return answer(
        scope,
        rows,
        "partition_id bigint, partition map<string, string>, files bigint, rows bigint, file_bytes bigint",
    )


def table_path(scope: Scope, schema: SchemaDef, table: TableDef) -> str:
    """The folder of a table, whole."""
    return table_folder(scope.config.data_path, schema, table)


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


def metadata(scope: Scope, table: str) -> DataFrame:
    """A metadata table, as it is.

    Raises:
        NotFoundError: The catalog has no such table.
    """
    scope.require_open()
    check_name("table", table)
    name = table.lower() if table.lower().startswith("ducklake_") else f"ducklake_{table.lower()}"
    known = tables_of(scope.store.format)
    definition = known.get(name)
    if definition is None:
        raise NotFoundError(f'The catalog has no table "{table}".{did_you_mean(name, known)}')
    selected = ", ".join(
        scope.store.micros_sql(column.name) if column.type == "TIMESTAMPTZ" else f'"{column.name}"'
        for column in definition.columns
    )
    kinds = {"BIGINT": "bigint", "BOOLEAN": "boolean", "TIMESTAMPTZ": "timestamp"}
    types = [kinds.get(column.type, "string") for column in definition.columns]
    rows = [
        tuple(_spark_value(value, kind) for value, kind in zip(row, types, strict=True))
        for row in scope.store.query(f"SELECT {selected} FROM {name}")
    ]
    columns = (f"{column.name} {kind}" for column, kind in zip(definition.columns, types, strict=True))
    return answer(scope, rows, ", ".join(columns))


def inlined_table(scope: Scope, table: str) -> DataFrame:
    """A table of inlined rows or deletes, with texts for values that are no numbers.

    Raises:
        NotFoundError: The catalog has no such table.
    """
    scope.require_open()
    check_name("table", table)
    found = re.fullmatch(r"ducklake_inlined_(data|delete)_(\d+)(?:_(\d+))?", table.lower())
    if found is None or not scope.store.has_table(table.lower()):
        raise NotFoundError(f'The catalog has no table "{table}".')
    rows = scope.store.query(f'SELECT * FROM "{table.lower()}"')
    names = ["file_id", "row_id", "begin_snapshot"]
    if found[1] == "data":
        names = [
            *scope.store.inlined_columns(table.lower()).all,
            *_columns_at(scope, int(found[2]), int(found[3])),
        ]
    kinds = [_kind([row[place] for row in rows]) for place in range(len(names))]
    values = [
        tuple(_spark_value(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in rows
    ]
    return answer(
        scope, values, ", ".join(f"`{name}` {kind}" for name, kind in zip(names, kinds, strict=True))
    )


def _columns_at(scope: Scope, table_id: int, schema_version: int) -> list[str]:
    """The names of a table's columns when the lake had a schema version."""
    rows = scope.store.query(
        "SELECT column_name FROM ducklake_column WHERE table_id = ? AND parent_column IS NULL AND begin_snapshot <= "
        "(SELECT min(snapshot_id) FROM ducklake_snapshot WHERE schema_version = ?) AND (end_snapshot IS NULL OR "
        "end_snapshot > (SELECT min(snapshot_id) FROM ducklake_snapshot WHERE schema_version = ?)) "
        "ORDER BY column_order",
        (table_id, schema_version, schema_version),
    )
    return [str(name) for (name,) in rows]


def _kind(values: list[Any]) -> str:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return "boolean"
    return "bigint" if known and all(isinstance(value, int) for value in known) else "string"


def _spark_value(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "timestamp":
        return EPOCH + timedelta(microseconds=int(value))
    if kind == "boolean":
        return bool(value)
    return int(value) if kind == "bigint" else str(value)
