"""Rows become Parquet files in the Python workers: DuckDB writes them as the extension does, and says what it wrote.

`Encoding` is all that a worker needs. It is made on the driver, travels with the task, and knows neither the catalog
nor Spark.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote as url_quote

import duckdb
import pyarrow as pa

from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.encryption import FileKey, new_key
from ducklake_spark.format.types import quote, text_literal
from ducklake_spark.workers.buckets import register
from ducklake_spark.workers.object_store import NOWHERE, Access, is_remote
from ducklake_spark.workers.parquet_source import FAILURE_MARK, encryption_options, load_crypto, parquet

NULL_REASON = "NULL in a NOT NULL column"

FILE = "__ducklake_file"
"""What sort keys may call the rows with the columns of the file."""

RESULT = pa.schema([("path", pa.string()), ("info", pa.string())])
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class EncodedColumn:
    """One column of the file: the SQL of its value over the arriving columns `c0`, `c1` ..."""

    name: str
    sql: str
    not_null: bool = False
    arriving: str | None = None
    """The arriving column that it is made of; None for a default."""


@dataclass(frozen=True)
class EncodedKey:
    """One partition key: the SQL of its value over the file's columns, and the name of its folder."""

    sql: str
    folder: str


@dataclass(frozen=True)
class Encoding:
    """How the rows of one task become files below `folder`."""

    folder: str
    columns: tuple[EncodedColumn, ...]
    field_ids: str
    order_by: tuple[str, ...] = ()
    keys: tuple[EncodedKey, ...] = ()
    hive_folders: bool = True
    copy_options: tuple[str, ...] = ()
    target_file_size: int = 536870912
    counted: tuple[str, ...] = ()
    """Columns whose NULLs DuckDB's statistics do not count."""
    variants: tuple[str, ...] = ()
    macros: tuple[str, ...] = ()
    """Statements that make the macros of the sort keys."""
    inline_limit: int = 0
    """A task with no more rows than this sends them back instead of writing a file: they may fit in the catalog."""
    encrypted: bool = False
    """Whether each file has a key of its own, which goes back with what is said of the file."""
    access: Access = NOWHERE
    """How the store is reached, if `folder` is a job of one."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the rows of one task; yields one row per file."""
        source = _Source(batches)
        if not source.has_rows:
            return
        few = source.few(self.inline_limit)
        if few is not None:
            yield pa.record_batch([pa.array([""]), pa.array([few])], schema=RESULT)
            return
        with tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch:
            connection = self._connect(scratch)
            staging = self._staging(scratch)
            placed: list[str] = []
            try:
                connection.register("arriving", source.reader())
                for path, info in self._write(connection, "arriving", staging):
                    placed.append(self._placed(path, info["folder"]))
                    found = [pa.array([placed[-1]]), pa.array([json.dumps(info)])]
                    yield pa.record_batch(found, schema=RESULT)
            except duckdb.Error as error:
                self._forget(staging, placed)
                failure = source.failure
                if failure is not None:
                    # The rows themselves could not be had: Spark's error, not DuckDB's.
                    raise failure from error
                raise RuntimeError(
                    FAILURE_MARK + json.dumps(self._explain(connection, source, error))
                ) from error
            except BaseException:
                self._forget(staging, placed)
                raise
            finally:
                connection.close()

    def again(self, files: Sequence[tuple[str, FileKey | None]]) -> list[tuple[str, dict[str, Any]]]:
        """Writes the rows of files once more, together; the columns are those of the files."""

        def rows(connection: duckdb.DuckDBPyConnection) -> str:
            # One after the other, in this order.
            if not self.encrypted:
                return parquet(connection, [path for path, _ in files])
            parts = [f"SELECT * FROM {parquet(connection, path, key)}" for path, key in files]
            return f"({' UNION ALL '.join(parts)})"

        return self.rows_of(rows)

    def rows_of(
        self, relation: Callable[[duckdb.DuckDBPyConnection], str], inner: str = ""
    ) -> list[tuple[str, dict[str, Any]]]:
        """Writes the rows of a relation that is made on the connection, given as what stands behind FROM.

        Args:
            relation: Makes the relation.
            inner: In a store, the folders of the partition that the rows are of.
        """
        with tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch:
            connection = self._connect(scratch)
            try:
                written = self._write(connection, relation(connection), self._staging(scratch))
                return [(self._placed(path, inner), info) for path, info in written]
            finally:
                connection.close()

    def _forget(self, staging: str, placed: Sequence[str]) -> None:
        """Removes what an attempt wrote: the next one writes it again, under other names."""
        shutil.rmtree(staging, ignore_errors=True)
        self.access.remove(path for path in placed if is_remote(path))

    def _placed(self, path: str, inner: str) -> str:
        """Where a file is found by others: in a store it is put in its place, else it stays for the driver to move."""
        return self.access.upload_new(path, self.folder, inner) if is_remote(self.folder) else path

    def _connect(self, scratch: str) -> duckdb.DuckDBPyConnection:
        # DuckDB counts the bytes of a row group only where it need not keep the order; one thread keeps it anyway.
        is_ordered = not any(option.startswith("ROW_GROUP_SIZE_BYTES") for option in self.copy_options)
        connection = duckdb.connect(
            ":memory:",
            config={"threads": 1, "temp_directory": scratch, "preserve_insertion_order": is_ordered},
        )
        connection.execute("SET TimeZone = 'UTC'")
        if self.encrypted:
            load_crypto(connection)
        if self.keys:
            register(connection)
        for statement in self.macros:
            connection.execute(statement)
        return connection

    def _staging(self, scratch: str) -> str:
        if is_remote(self.folder):
            staging = os.path.join(scratch, "files")
            os.mkdir(staging)
            return staging
        # Each attempt of a task has a folder of its own, so that one which is repeated leaves nothing behind.
        # Not `makedirs`: the folder of the job is gone when the driver has given up.
        staging = os.path.join(self.folder, f"task-{uuid.uuid4()}")
        os.mkdir(staging)
        return staging

    def _select(self, source: str) -> str:
        parts = [f"{_guarded(column)} AS {quote(column.name)}" for column in self.columns]
        inner = f"SELECT {', '.join(parts)} FROM {source}"
        helpers = [f"{key.sql} AS __key{i}" for i, key in enumerate(self.keys)]
        order = [f"__key{i}" for i in range(len(helpers))] + list(self.order_by)
        text = f"SELECT {', '.join(['*', *helpers])} FROM ({inner}) AS {FILE}"
        return text + (f" ORDER BY {', '.join(order)}" if order else "")

    def _write(
        self, connection: duckdb.DuckDBPyConnection, source: str, staging: str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Writes what a relation holds; says of each file where it is and what it has."""
        options = ["FORMAT parquet", "RETURN_STATS", "APPEND", "FILENAME_PATTERN 'ducklake-{uuidv7}'"]
        options.append("GEOPARQUET_VERSION 'NONE'")  # Parquet's own geometry, as in the extension's files
        options += [f"FIELD_IDS {self.field_ids}", *self.copy_options]
        if self.keys:
            options.append(f"PARTITION_BY ({', '.join(f'__key{i}' for i in range(len(self.keys)))})")
        else:
            options.append(f"FILE_SIZE_BYTES {self.target_file_size}")
        target = text_literal(staging)
        select = self._select(source)
        if self.variants:
            connection.execute(f"CREATE TEMP TABLE held AS {select}")
            select = "SELECT * FROM held"
            unshredded = self._unshredded(connection)
            if unshredded:
                options.append(f"SHREDDING {{{', '.join(unshredded)}}}")
        key = new_key() if self.encrypted else None
        options += encryption_options(connection, key)
        rows = connection.execute(f"COPY ({select}) TO {target} ({', '.join(options)})").fetchall()
        is_shared = self.encrypted and sum(row[1] > 0 for row in rows) > 1
        # DuckDB 2 says more of a file, and of columns that have parts.
        for path, count, size, footer, statistics, partition, *_ in rows:
            if count == 0:
                os.remove(path)
                continue
            own = key
            if is_shared:
                own, size, footer = self._with_own_key(connection, path, key)
            leaves = {name: found for name, found in statistics.items() if "column_size_bytes" in found}
            info: dict[str, Any] = {"rows": count, "size": size, "footer": footer, "statistics": leaves}
            info["key"] = None if own is None else own.text
            info["nulls"] = self._nulls(connection, path, own)
            info["values"] = [partition[f"__key{i}"] for i in range(len(self.keys))] if self.keys else []
            info["folder"] = hive_folder(self.keys, info["values"]) if self.hive_folders else ""
            yield path, info

    def _unshredded(self, connection: duckdb.DuckDBPyConnection) -> list[str]:
        """Variants with keys that differ by case only: of two such fields DuckDB's writer would lose one."""
        found = []
        for name in self.variants:
            asked = (
                f"SELECT 1 FROM (SELECT DISTINCT t.key FROM held, json_tree(CAST({quote(name)} AS JSON)) t "
                "WHERE t.key IS NOT NULL) GROUP BY lower(key) HAVING count(*) > 1 LIMIT 1"
            )
            if first_row(connection.execute(asked)) is not None:
                found.append(f"{quote(name)}: 'VARCHAR'")
        return found

    def _with_own_key(
        self, connection: duckdb.DuckDBPyConnection, path: str, shared: FileKey | None
    ) -> tuple[FileKey, int, int]:
        """Writes a file again under a key of its own: those of one COPY have one key. Also its size and footer's."""
        own, scratch = new_key(), f"{path}.new"
        options = ["FORMAT parquet", "RETURN_STATS", "GEOPARQUET_VERSION 'NONE'"]
        options += [f"FIELD_IDS {self.field_ids}", *self.copy_options, *encryption_options(connection, own)]
        row = first_row(
            connection.execute(
                f"COPY (SELECT * FROM {parquet(connection, path, shared)}) TO {text_literal(scratch)} "
                f"({', '.join(options)})"
            )
        )
        assert row is not None
        os.replace(scratch, path)
        return own, row[2], row[3]

    def _nulls(self, connection: duckdb.DuckDBPyConnection, path: str, key: FileKey | None) -> dict[str, int]:
        if not self.counted:
            return {}
        counts = ", ".join(f"count(*) - count({quote(name)})" for name in self.counted)
        row = first_row(connection.execute(f"SELECT {counts} FROM {parquet(connection, path, key)}"))
        assert row is not None
        return dict(zip(self.counted, row, strict=True))

    def _explain(
        self, connection: duckdb.DuckDBPyConnection, source: _Source, error: duckdb.Error
    ) -> dict[str, str | None]:
        """Which column and value it was, found by trying the last batches column by column."""
        reason = _first_line(error)
        for batch in reversed(source.recent):
            connection.register("arriving", batch)
            for column in self.columns:
                try:
                    connection.execute(f"SELECT count({_guarded(column)}) FROM arriving").fetchall()
                except duckdb.Error as failure:
                    value = _first_bad(connection, column, batch)
                    return {"column": column.name, "value": value, "reason": _first_line(failure)}
        return {"column": None, "value": None, "reason": reason}


def hive_folder(keys: Sequence[EncodedKey], values: Sequence[str | None]) -> str:
    """The folders of a file, `a=1/b=x/`, as the extension writes them."""
    return "".join(
        f"{_escaped(key.folder)}={NULL_FOLDER if value is None else _escaped(value)}/"
        for key, value in zip(keys, values, strict=True)
    )


def _escaped(text: str) -> str:
    return url_quote(text, safe="-_.~")


class _Source:
    """The arriving batches, the last few of which are remembered for the sake of a good error."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches: Iterator[pa.RecordBatch] = (batch for batch in batches if batch.num_rows)
        self._first = next(self._batches, None)
        self.recent: list[pa.RecordBatch] = []
        self.failure: BaseException | None = None

    @property
    def has_rows(self) -> bool:
        return self._first is not None

    def few(self, limit: int) -> str | None:
        """All rows as text, when there are no more than `limit`; else None, and the stream is as before."""
        assert self._first is not None
        if self._first.num_rows > limit:
            return None
        taken, rows = [self._first], self._first.num_rows
        for batch in self._batches:
            taken.append(batch)
            rows += batch.num_rows
            if rows > limit:
                self._batches = itertools.chain(taken[1:], self._batches)
                return None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._first.schema) as writer:
            for batch in taken:
                writer.write_batch(batch)
        return base64.b64encode(sink.getvalue().to_pybytes()).decode()

    def reader(self) -> pa.RecordBatchReader:
        assert self._first is not None
        return pa.RecordBatchReader.from_batches(self._first.schema, self._stream())

    def _stream(self) -> Iterator[pa.RecordBatch]:
        assert self._first is not None
        batch: pa.RecordBatch | None = self._first
        while batch is not None:
            self.recent = [*self.recent[-1:], batch]
            yield batch
            try:
                batch = next(self._batches, None)
            except BaseException as error:
                self.failure = error
                raise


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]


def _first_bad(
    connection: duckdb.DuckDBPyConnection, column: EncodedColumn, batch: pa.RecordBatch
) -> str | None:
    """The first value that fails alone. A batch is small, so trying one by one is cheap enough for an error."""
    if column.arriving is None:
        return None
    for row in range(batch.num_rows):
        connection.register("arriving", batch.slice(row, 1))
        try:
            connection.execute(f"SELECT count({_guarded(column)}) FROM arriving").fetchall()
        except duckdb.Error:
            return str(batch.column(column.arriving)[row].as_py())
    return None


def _guarded(column: EncodedColumn) -> str:
    if not column.not_null:
        return column.sql
    return f"CASE WHEN ({column.sql}) IS NULL THEN error('{NULL_REASON}') ELSE {column.sql} END"
