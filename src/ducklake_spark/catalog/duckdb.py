"""A catalog in a DuckDB file. Such a file can be open in one process only."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import duckdb

from ..errors import CatalogConnectionError, NotADuckLakeError
from ..format.duckdb_sql import literal
from ..format.types import DUCKDB_NAMES, text_literal
from .location import Location
from .pool import PooledStore, WriteSession, formatted, quoted, values_sql
from .store import Failure, Query, Row, Session

_ARROW_ROWS = 50
_writers: dict[str, threading.Lock] = {}
_writers_guard = threading.Lock()
_INLINED = {**DUCKDB_NAMES, "timestamp_us": "TIMESTAMP"}


def _identity(path: str) -> tuple[int, int] | None:
    """What stays the same while a file is the same."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None


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
    "threads": 1,
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
            self.connection.execute(f"INSERT INTO {quoted(table)} VALUES {values}")
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
            self.connection.execute(f"INSERT INTO {quoted(table)} FROM ducklake_spark_rows")
        finally:
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


class DuckDBStore(PooledStore["duckdb.DuckDBPyConnection"]):
    kind = "duckdb"
    now_sql = "now()"
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
        self._memory = location.path == ":memory:"
        self._path = location.path if self._memory else os.path.abspath(location.path)
        self._create = create and not read_only
        self._database: duckdb.DuckDBPyConnection | None = None
        self._identity: tuple[int, int] | None = None
        self._opening = threading.Lock()
        with _writers_guard:
            key = f"{id(self)}" if self._memory else os.path.realpath(self._path)
            self._lock = _writers.setdefault(key, threading.Lock())

    def _connect(self) -> duckdb.DuckDBPyConnection:
        with self._opening:
            if self._database is None:
                self._database = self._open()
            cursor = self._database.cursor()
        if (
            self.metadata_schema
            and cursor.execute(
                "SELECT 1 FROM duckdb_schemas() WHERE database_name = current_database() AND schema_name = ?",
                [self.metadata_schema],
            ).fetchall()
        ):
            cursor.execute(f"USE {quoted(self.metadata_schema)}")
        return cursor

    def _open(self) -> duckdb.DuckDBPyConnection:
        if not self._memory:
            self._check_file()
        try:
            database = duckdb.connect(self._path, read_only=self.read_only, config=_CONFIG)
            self._identity = _identity(self._path)
            return database
        except (duckdb.IOException, duckdb.BinderException) as error:
            raise CatalogConnectionError(
                f"The catalog {self.display} is in use: a DuckDB file can be open in one process only. Close it "
                "there, or keep the lake in a SQLite or PostgreSQL catalog, which many processes can share. "
                f"({error})"
            ) from error
        except duckdb.ConnectionException as error:
            raise CatalogConnectionError(
                f"The catalog {self.display} is open in this process already, with other settings: a DuckDB file "
                f"cannot be open both read-only and for writing. Close the other one first. ({error})"
            ) from error

    def _require_same_file(self) -> None:
        """DuckDB would go on writing into a file that has no name any more."""
        if not self._memory and self._identity != _identity(self._path):
            raise CatalogConnectionError(
                f"The file of the catalog {self.display} was moved, deleted or replaced while it was open. Put it "
                "back, or close the lake and attach it again."
            )

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
        with open(self._path, "rb") as file:
            if file.read(12)[8:] != b"DUCK":
                raise CatalogConnectionError(
                    f"The file of the catalog {self.display} is not a DuckDB database. Is it a SQLite file? Then write "
                    f"`ducklake:sqlite:{self.location.path}`."
                )

    def _advice(self, error: BaseException) -> str:  # noqa: ARG002 - other databases need it
        return " Check the file and its permissions."

    def close(self) -> None:
        super().close()
        with self._opening:
            if self._database is not None:
                self._database.close()  # the last one: DuckDB writes its log into the file and unlocks it
                self._database = None

    def _fetch(self, connection: duckdb.DuckDBPyConnection, queries: Sequence[Query]) -> list[list[Row]]:
        return [_rows(_run(connection, sql, params)) for sql, params in queries]

    @contextmanager
    def _writer(self) -> Iterator[None]:
        with self._lock:
            yield

    def _session(self, connection: duckdb.DuckDBPyConnection) -> DuckDBSession:
        self._require_same_file()
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

    def create_schema(self, session: Session) -> None:
        if self.metadata_schema is not None:
            session.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(self.metadata_schema)}")
            session.execute(f"USE {quoted(self.metadata_schema)}")
