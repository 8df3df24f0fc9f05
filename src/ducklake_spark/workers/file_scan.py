"""Rows of data files that Spark's own reader cannot open, read by DuckDB in the Python workers: encrypted ones.

`FileScan` travels to the workers. A task reads its files one after the other, as a stream: only the columns that the
query needs, only the rows that its filters may keep, and nothing on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from ducklake_spark.format.duckdb_library import arrow_reader
from ducklake_spark.format.encryption import FileKey
from ducklake_spark.format.types import quote, text_literal
from ducklake_spark.workers.file_columns import FileNode, names_in, rebuilt, schema_entry, struct_fields
from ducklake_spark.workers.object_store import NOWHERE, Access, is_remote
from ducklake_spark.workers.parquet_source import MISSING, failure, parquet, unreadable

_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class ScannedFile:
    """A file to read.

    Attributes:
        code: A number that its rows carry.
        layout: Which of the layouts it has.
    """

    path: str
    code: int
    layout: int
    key: FileKey | None


@dataclass(frozen=True)
class ScannedColumn:
    """A column of the result.

    Attributes:
        name: Its name.
        sql: Its value, over `__c` and the column's place.
        node: The column of the files that the value is made of; none for a constant.
        by_name: Whether files have it under its name; it is NULL in those that do not.
    """

    name: str
    sql: str
    node: FileNode | None = None
    by_name: bool = False


@dataclass(frozen=True)
class SourceColumns:
    """The names of columns that say where a row comes from: the file's path, the position in it, the file's code."""

    path: str
    position: str
    code: str


@dataclass(frozen=True)
class FileScan:
    """Reads the files of a task, of which it gets the number.

    Attributes:
        tasks: The files, task by task.
        layouts: For each age of files, how the columns of the result are made.
        columns: The names of the columns that are wanted, those of `source` among them.
        source: What says where a row comes from.
        schema: What Arrow calls the result, serialized.
        condition: SQL over the columns of the result; rows for which it is not true are not wanted.
        access: How files in object stores are reached; they are fetched as they are.
    """

    tasks: tuple[tuple[ScannedFile, ...], ...]
    layouts: tuple[tuple[ScannedColumn, ...], ...]
    columns: tuple[str, ...]
    source: SourceColumns
    schema: bytes
    condition: str | None = None
    access: Access = NOWHERE

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each task, with its number; the rows of its files."""
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file in self.tasks[number]:
                    yield from self._rows(file, schema)

    def _rows(self, file: ScannedFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if is_remote(file.path):
            try:
                with self.access.here(file.path) as local:
                    yield from self._local_rows(file, local, schema)
            except FileNotFoundError:
                raise failure(MISSING, file.path) from None
        else:
            yield from self._local_rows(file, file.path, schema)

    def _local_rows(self, file: ScannedFile, local: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        # Without a folder for it, nothing that was decrypted is spilled.
        with duckdb.connect(":memory:", config={"threads": 1, "temp_directory": ""}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            try:
                found = arrow_reader(connection, self._query(connection, file, local), _BATCH_ROWS)
                for batch in found:
                    yield in_schema(batch, schema)
            except duckdb.IOException as error:
                if "No files found" in str(error) or "No such file" in str(error):
                    raise failure(MISSING, file.path) from None
                raise
            except duckdb.Error as error:
                raise unreadable(error, file.path) or error from None

    def _query(self, connection: duckdb.DuckDBPyConnection, file: ScannedFile, local: str) -> str:
        wanted = [column for column in self.layouts[file.layout] if column.name in self.columns]
        types = self._types(connection, local, file.key, wanted)
        entries, values = [], []
        for place, column in enumerate(wanted):
            node, raw = column.node, f"__c{place}"
            value = column.sql.replace("__c", raw) if node is not None else column.sql
            if column.by_name:
                value = quote(column.name) if column.name in types else column.sql
            elif node is not None:
                moved = _moved(node, types)
                if moved is None:
                    entries.append(schema_entry(node.column_id, raw, node.type, node.default_text))
                else:
                    entries.append(schema_entry(node.column_id, raw, str(types[node.name])))
                    value = column.sql.replace("__c", f"({rebuilt(node, raw, moved)})")
            values.append(f"{value} AS {quote(column.name)}")
        for name, value in (
            (self.source.path, text_literal(file.path.replace("%", "%25"))),
            (self.source.position, "file_row_number"),
            (self.source.code, f"CAST({file.code} AS BIGINT)"),
        ):
            if name in self.columns:
                values.append(f"{value} AS {quote(name)}")
        options = ["file_row_number = true"]
        if entries:
            # A field that no file has takes the place of one: DuckDB wants to know at least one column.
            options = [f"schema = MAP {{{', '.join(entries)}}}"]
        source = parquet(connection, local, file.key, *options)
        order = ", ".join(map(quote, self.columns))
        rows = f"SELECT {', '.join(values)} FROM {source}"
        return f"SELECT {order} FROM ({rows})" + (
            "" if self.condition is None else f" WHERE {self.condition}"
        )

    def _types(
        self,
        connection: duckdb.DuckDBPyConnection,
        local: str,
        key: FileKey | None,
        wanted: Iterable[ScannedColumn],
    ) -> Mapping[str, Any]:
        """The types of the file's columns by name; none where no wanted column depends on them."""
        if not any(column.by_name or (column.node is not None and column.node.children) for column in wanted):
            return {}
        found = connection.sql(f"SELECT * FROM {parquet(connection, local, key)} LIMIT 0")
        return dict(zip(found.columns, found.types, strict=True))


def _moved(node: FileNode, types: Mapping[str, Any]) -> dict[int, str] | None:
    """The names of fields inside a column of the file, where they are not those that it should have."""
    if not node.children or node.name not in types:
        return None
    names = names_in(node, types[node.name])
    is_moved = any(names.get(child.column_id) != child.name for child in struct_fields(node))
    return names if is_moved else None


def in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the types that Spark was promised, names of inner fields and zones included."""
    arrays = [
        array if array.type == field.type else _as(array, field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_struct(wanted):
        parts = [
            _as(array.field(wanted.field(i).name), wanted.field(i).type) for i in range(wanted.num_fields)
        ]
        # `field` does not apply the offset and validity of the struct itself, so that these are given again.
        fields = [wanted.field(i) for i in range(wanted.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    if pa.types.is_list(wanted):
        values = _as(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=wanted, mask=array.is_null())
    if pa.types.is_map(wanted):
        keys, items = _as(array.keys, wanted.key_type), _as(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted, mask=array.is_null())
    return array if array.type == wanted else array.cast(wanted)
