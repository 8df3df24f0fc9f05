"""Rows become Parquet files in the Python workers: DuckDB writes them as the reference does, and says what it wrote.

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote as url_quote

import duckdb
import pyarrow as pa

FAILURE_MARK = "ducklake-spark failure: "
"""Stands before a JSON text in the exceptions of workers, so that the driver can say what went wrong."""

RESULT = pa.schema([("path", pa.string()), ("info", pa.string())])
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class EncodedColumn:
    """One column of the file: the SQL of its value over the arriving columns `c0`, `c1` ..."""

    name: str
    sql: str
    not_null: bool = False


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
    inline_limit: int = 0
    """A task with no more rows than this sends them back instead of writing a file: they may fit in the catalog."""

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
            connection = duckdb.connect(
                ":memory:", config={"threads": 1, "temp_directory": scratch, "preserve_insertion_order": True}
            )
            connection.execute("SET TimeZone = 'UTC'")
            staging = os.path.join(self.folder, f"task-{uuid.uuid4()}")
            os.makedirs(staging, exist_ok=True)
            try:
                for path, info in self._write(connection, source, staging):
                    yield pa.record_batch([pa.array([path]), pa.array([json.dumps(info)])], schema=RESULT)
            except duckdb.Error as error:
                shutil.rmtree(staging, ignore_errors=True)
                raise RuntimeError(
                    FAILURE_MARK + json.dumps(self._explain(connection, source, error))
                ) from error
            except BaseException:
                shutil.rmtree(staging, ignore_errors=True)
                raise
            finally:
                connection.close()

    def _select(self, *, keys: bool = True) -> str:
        parts = [f"{_guarded(column)} AS {_quote(column.name)}" for column in self.columns]
        inner = f"SELECT {', '.join(parts)} FROM arriving"
        helpers = [f"{key.sql} AS __key{i}" for i, key in enumerate(self.keys)] if keys else []
        order = [f"__key{i}" for i in range(len(helpers))] + list(self.order_by)
        text = f"SELECT {', '.join(['*', *helpers])} FROM ({inner})"
        return text + (f" ORDER BY {', '.join(order)}" if order else "")

    def _write(
        self, connection: duckdb.DuckDBPyConnection, source: _Source, staging: str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        connection.register("arriving", source.reader())
        options = ["FORMAT parquet", "RETURN_STATS", "APPEND", "FILENAME_PATTERN 'ducklake-{uuidv7}'"]
        options += [f"FIELD_IDS {self.field_ids}", *self.copy_options]
        if self.keys:
            options.append(f"PARTITION_BY ({', '.join(f'__key{i}' for i in range(len(self.keys)))})")
        else:
            options.append(f"FILE_SIZE_BYTES {self.target_file_size}")
        target = staging.replace("'", "''")
        rows = connection.execute(f"COPY ({self._select()}) TO '{target}' ({', '.join(options)})").fetchall()
        for path, count, size, footer, statistics, partition in rows:
            if count == 0:
                os.remove(path)
                continue
            info: dict[str, Any] = {"rows": count, "size": size, "footer": footer, "statistics": statistics}
            info["nulls"] = self._nulls(connection, path)
            info["values"] = [partition[f"__key{i}"] for i in range(len(self.keys))] if self.keys else []
            info["folder"] = self._hive_folder(info["values"])
            yield path, info

    def _nulls(self, connection: duckdb.DuckDBPyConnection, path: str) -> dict[str, int]:
        if not self.counted:
            return {}
        counts = ", ".join(f"count(*) - count({_quote(name)})" for name in self.counted)
        row = connection.execute(f"SELECT {counts} FROM read_parquet(?)", [path]).fetchone()
        assert row is not None
        return dict(zip(self.counted, row, strict=True))

    def _hive_folder(self, values: Sequence[str | None]) -> str:
        if not self.hive_folders:
            return ""
        return "".join(
            f"{key.folder}={NULL_FOLDER if value is None else url_quote(value, safe='-_.~')}/"
            for key, value in zip(self.keys, values, strict=True)
        )

    def _explain(
        self, connection: duckdb.DuckDBPyConnection, source: _Source, error: duckdb.Error
    ) -> dict[str, str | None]:
        """Which column and value it was, found by trying the last batches column by column."""
        reason = str(error).split("\n", 1)[0]
        for batch in reversed(source.recent):
            connection.register("arriving", batch)
            for position, column in enumerate(self.columns):
                try:
                    connection.execute(f"SELECT count({_guarded(column)}) FROM arriving").fetchall()
                except duckdb.Error as failure:
                    value = _first_bad(connection, column, f"c{position}", batch)
                    return {"column": column.name, "value": value, "reason": str(failure).split("\n", 1)[0]}
        return {"column": None, "value": None, "reason": reason}


class _Source:
    """The arriving batches, the last few of which are remembered for the sake of a good error."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches: Iterator[pa.RecordBatch] = (batch for batch in batches if batch.num_rows)
        self._first = next(self._batches, None)
        self.recent: list[pa.RecordBatch] = []

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
            batch = next(self._batches, None)


def _first_bad(
    connection: duckdb.DuckDBPyConnection, column: EncodedColumn, arriving: str, batch: pa.RecordBatch
) -> str | None:
    """The first value that fails alone. A batch is small, so trying one by one is cheap enough for an error."""
    if arriving not in batch.schema.names:
        return None
    for row in range(batch.num_rows):
        connection.register("arriving", batch.slice(row, 1))
        try:
            connection.execute(f"SELECT count({_guarded(column)}) FROM arriving").fetchall()
        except duckdb.Error:
            return str(batch.column(arriving)[row].as_py())
    return None


def _guarded(column: EncodedColumn) -> str:
    if not column.not_null:
        return column.sql
    return f"CASE WHEN ({column.sql}) IS NULL THEN error('NULL in a NOT NULL column') ELSE {column.sql} END"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
