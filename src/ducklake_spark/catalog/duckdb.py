"""A catalog in a DuckDB file. Such a file can be open in one process only."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import duckdb

from ..errors import CatalogConnectionError, NotADuckLakeError
from ..format.duckdb_library import NO_THREADS
from ..format.duckdb_sql import literal
from ..format.types import DUCKDB_NAMES, text_literal
from .duckdb_file import DatabaseFile, LockLostError, acquire
from .file_lock import held, identity
from .location import Location
from .pool import PooledStore, WriteSession, formatted, never_destroy, quoted, values_sql
from .store import Failure, Query, Row, Session
from .tables import insert_columns

_ARROW_ROWS = 50
_INLINED = {**DUCKDB_NAMES, "timestamp_us": "TIMESTAMP"}


def _rows(cursor: duckdb.DuckDBPyConnection) -> list[Row]:
    rows: list[Row] = cursor.fetchall()
    uuids = [index for index, column in enumerate(cursor.description or ()) if str(column[1]) == "UUID"]
    if not uuids:
        return rows
    lists = [list(row) for row in rows]
    for row in lists:
        for index in uuids:
            row[index] = None if row[index] is None else str(row[index])
    return [tuple(row) for row in lists]


def _literals(rows: Sequence[Row]) -> str | None:
    """A few rows as SQL text, or None when a value has no literal that means exactly it."""
    lines = []
    for row in rows:
        values = [literal(value) for value in row]
        if None in values:
            return None
        lines.append(f"({', '.join(map(str, values))})")
    return ", ".join(lines)


def _run(connection: duckdb.DuckDBPyConnection, sql: str, params: Sequence[Any]) -> duckdb.DuckDBPyConnection:
    """Executes a statement, with its parameters as text where that is possible."""
    texts = [literal(value) for value in params]
    if None in texts:
        return connection.execute(sql, list(params))
    return connection.execute(formatted(sql) % tuple(texts))


_CONFIG: dict[str, Any] = {
    # The extension makes its files so; inlined VARIANT columns need it.
    "storage_compatibility_version": "v1.5.0",
    # Handing a query of half a millisecond from thread to thread costs a quarter of it.
    **NO_THREADS,
}


class DuckDBSession(WriteSession["duckdb.DuckDBPyConnection"]):
    def query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return _rows(_run(self.connection, sql, params))

    def execute(self, sql: str, params: Sequence[Any] = ()) -> None:
        _run(self.connection, sql, params)

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        if not rows:
            return
        if len(rows) <= _ARROW_ROWS and (values := _literals(rows)):
            self.connection.execute(
                f"INSERT INTO {quoted(table)}{insert_columns(table, len(rows[0]))} VALUES {values}"
            )
            return
        if self._insert_arrow(table, rows):
            return
        for start in range(0, len(rows), _ARROW_ROWS):
            chunk = rows[start : start + _ARROW_ROWS]
            sql = values_sql(table, len(chunk[0]), len(chunk))
            self.connection.execute(sql, [value for row in chunk for value in row])

    def _insert_arrow(self, table: str, rows: Sequence[Row]) -> bool:
        import pyarrow

        try:
            columns = [pyarrow.array(values) for values in zip(*rows, strict=True)]
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
            return False  # values of mixed types, or wider than Arrow's integers
        batch = pyarrow.table(columns, names=[f"c{number}" for number in range(len(columns))])
        self.connection.register("ducklake_spark_rows", batch)
        try:
            names = insert_columns(table, len(columns))
            self.connection.execute(f"INSERT INTO {quoted(table)}{names} FROM ducklake_spark_rows")
        finally:
            with suppress(duckdb.TransactionException):  # the rows were refused: that is what is to be told
                self.connection.unregister("ducklake_spark_rows")
        return True

    def create_table(self, sql: str) -> None:
        self.connection.execute(sql)

    def commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except duckdb.TransactionException as error:
            # It is said of a lost race and of a full disk alike. Writers take turns, in the one process that has the
            # file open: there was no race.
            raise duckdb.IOException(str(error)) from error

    def rollback(self) -> None:
        self.connection.execute("ROLLBACK")


class _Memory:
    """A database without a file."""

    def __init__(self) -> None:
        self.writer = threading.RLock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def cursor(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = duckdb.connect(":memory:", config=_CONFIG)
        return self._connection.cursor()

    def wrote(self) -> None:
        """There is nothing that another process could have changed."""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class DuckDBStore(PooledStore["duckdb.DuckDBPyConnection"]):
    kind = "duckdb"
    now_sql = "now()"
    columns_sql = (
        "SELECT column_name FROM information_schema.columns WHERE table_name = ? AND table_schema = current_schema() "
        "AND table_catalog = current_database() ORDER BY ordinal_position"
    )
    latest_sql = (
        "SELECT max(snapshot_id), epoch_us(arg_max(snapshot_time, snapshot_id)), arg_max(schema_version, snapshot_id), "
        "arg_max(next_catalog_id, snapshot_id), arg_max(next_file_id, snapshot_id) FROM ducklake_snapshot"
    )
    types = {  # noqa: RUF012  # a constant
        "BIGINT": "BIGINT", "VARCHAR": "VARCHAR", "BOOLEAN": "BOOLEAN", "UUID": "UUID",
        "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    }  # fmt: skip
    driver_errors = (duckdb.Error,)

    def __init__(
        self,
        location: Location,
        *,
        metadata_schema: str | None = None,
        read_only: bool = False,
        create: bool = True,
    ) -> None:
        super().__init__(location, metadata_schema=metadata_schema, read_only=read_only)
        self._memory: _Memory | None = _Memory() if location.path == ":memory:" else None
        # DuckDB keeps its log beside the path that it is given: another name of the file would hide it from others.
        self._path = location.path if self._memory else os.path.realpath(location.path)
        self._create = create and not read_only
        self._file: DatabaseFile | None = None
        self._collected: weakref.finalize[[int], DuckDBStore] | None = None
        self._opening = threading.Lock()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        with self._opening:
            if self._memory is not None:
                cursor = self._memory.cursor()
            else:
                self._require_file()
                cursor = self._database_file().cursor(id(self))
        if (
            self.metadata_schema
            and cursor.execute(
                "SELECT 1 FROM duckdb_schemas() WHERE database_name = current_database() AND schema_name = ?",
                [self.metadata_schema],
            ).fetchall()
        ):
            cursor.execute(f"USE {quoted(self.metadata_schema)}")
        return cursor

    def _database_file(self) -> DatabaseFile:
        if self._file is None:
            self._file = self._open()
            self._file.on_lost[id(self)] = weakref.WeakMethod(self.forget_connections)
            self._collected = weakref.finalize(self, self._file.forget, id(self))
        return self._file

    def _open(self) -> DatabaseFile:
        self._check_file()
        try:
            return acquire(self._path, id(self), read_only=self.read_only, config=_CONFIG)
        except duckdb.IOException as error:
            if "lock" not in str(error):
                raise
            raise CatalogConnectionError(
                f"The catalog {self.display} is in use: a DuckDB file can be open in one process only. Close it "
                "there, or keep the lake in a SQLite or PostgreSQL catalog, which many processes can share. "
                f"({error})"
            ) from error
        except duckdb.BinderException as error:
            raise CatalogConnectionError(
                f"The catalog {self.display} is attached in this process already, by another DuckDB connection, which "
                f"keeps it to itself. Detach it there first. ({error})"
            ) from error
        except duckdb.ConnectionException as error:
            raise CatalogConnectionError(
                f"The catalog {self.display} is open in this process already, with other settings: a DuckDB file "
                f"that is open read-only cannot be opened for writing. Close the other one first. ({error})"
            ) from error

    def _require_file(self) -> None:
        """Makes sure that the file is the one that was opened, and nobody else's meanwhile."""
        if self._file is None:
            return
        if self._file.key != identity(self._path):
            # DuckDB would go on writing into a file that has no name any more
            raise CatalogConnectionError(
                f"The file of the catalog {self.display} was moved, deleted or replaced while it was open. Put it "
                "back, or close the lake and attach it again."
            )
        try:
            self._file.require_lock()
        except LockLostError as error:
            raise CatalogConnectionError(
                f"The catalog {self.display} is no longer this process's alone: {error}. Something in this process "
                "opened and closed the file (a copy, a backup), which drops its lock. Nothing was written; close the "
                "lake and attach it again."
            ) from None

    def _check_file(self) -> None:
        folder = os.path.dirname(self._path)
        if not os.path.isdir(folder):
            raise CatalogConnectionError(
                f'The folder "{folder}" of the catalog {self.display} does not exist: make it.'
            )
        if os.path.isdir(self._path):
            raise CatalogConnectionError(f"The catalog {self.display} is a folder, not a DuckDB file.")
        if not os.path.exists(self._path):
            if not self._create:
                raise NotADuckLakeError(f"There is no lake at {self.display}: the file does not exist.")
            if not os.access(folder, os.W_OK):
                raise CatalogConnectionError(f'This process may not write in the folder "{folder}".')
            return
        if not os.access(self._path, os.R_OK if self.read_only else os.R_OK | os.W_OK):
            raise CatalogConnectionError(
                f"This process may not {'read' if self.read_only else 'write'} the file of the catalog {self.display}."
                + ("" if self.read_only else " Attach it read-only, or change the file's permissions.")
            )

        with held(self._path) as file:
            if file.first_bytes(12)[8:] != b"DUCK":
                raise CatalogConnectionError(
                    f"The file of the catalog {self.display} is not a DuckDB database. Is it a SQLite file? Then write "
                    f"`ducklake:sqlite:{self.location.path}`."
                )

    def _advice(self, error: BaseException) -> str:  # noqa: ARG002 - other databases need it
        return " Check the file and its permissions."

    def close(self) -> None:
        super().close()
        with self._opening:
            if self._file is not None and self._collected is not None and self._collected.detach():
                self._file.release(id(self))
            if self._memory is not None:
                self._memory.close()

    def _close_connection(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self._file is not None:
            self._file.close_cursor(id(self), connection)
        else:
            connection.close()

    def leave_to_parent(self) -> None:
        super().leave_to_parent()
        if self._file is not None:
            for each in self._file.leave_to_parent():
                never_destroy(each)
        elif self._memory is not None:
            never_destroy(self._memory)

    def _fetch(self, connection: duckdb.DuckDBPyConnection, queries: Sequence[Query]) -> list[list[Row]]:
        self._require_file()
        return [_rows(_run(connection, sql, params)) for sql, params in queries]

    @contextmanager
    def _writer(self) -> Iterator[None]:
        with self._opening:
            holder = self._memory or self._database_file()
        with holder.writer:
            try:
                yield
            finally:
                holder.wrote()

    def _session(self, connection: duckdb.DuckDBPyConnection) -> DuckDBSession:
        self._require_file()
        connection.execute("BEGIN")
        return DuckDBSession(connection)

    def classify(self, error: BaseException) -> Failure:
        if isinstance(error, duckdb.ConstraintException):
            return Failure.COLLISION
        if isinstance(error, duckdb.TransactionException):
            return Failure.TRANSIENT
        return Failure.FATAL

    def micros_sql(self, expression: str) -> str:
        return f"epoch_us({expression})"

    def inlined_type(self, column_type: str) -> str | None:
        if column_type.lower() == "geometry":
            return None
        return _INLINED.get(column_type.lower(), column_type)

    def tables_sql(self) -> str:
        schema = text_literal("main" if self.metadata_schema is None else self.metadata_schema)
        return (
            "SELECT table_name FROM duckdb_tables() "
            f"WHERE database_name = current_database() AND schema_name = {schema} AND NOT temporary"
        )

    def foreign_tables(self) -> list[str]:
        rows = self.query(
            "SELECT table_name FROM information_schema.tables WHERE table_catalog = current_database() "
            "AND table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY table_name"
        )
        return [name for (name,) in rows]

    def create_schema(self, session: Session) -> None:
        if self.metadata_schema is not None:
            session.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(self.metadata_schema)}")
            session.execute(f"USE {quoted(self.metadata_schema)}")
