"""A catalog in PostgreSQL, through psycopg 3.

A commit is two round trips: the lock of the lake with all that must be known behind it, then statements and COMMIT.
A statement that fails takes COMMIT with it.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..errors import CatalogConnectionError, InvalidInputError, MissingDriverError
from ..format.types import text_literal
from .location import Location
from .pool import PooledStore, WriteSession, numbered, quoted, values_sql
from .store import CommitOutcomeUnknown, Failure, Query, Row, Session
from .tables import insert_columns

try:
    import psycopg
    from psycopg.types.string import TextLoader
except ImportError as error:
    raise MissingDriverError(
        'A PostgreSQL catalog needs the driver psycopg: pip install "ducklake-spark[postgres]"'
    ) from error


class Connection(psycopg.Connection[Row]):
    """A connection that can be found again on the server by its application name."""

    name: str


_COPY_ROWS = 200
_PARAMETERS = 30_000  # the protocol's limit is 65,535
_COLLISION = {"23505", "42P07"}  # a key, or an inlined table of somebody who took the same ids
_TRANSIENT = {"40001", "40P01", "55P03"}
_LOST = {"57P01", "57P02", "57P03", "40003", "25P03"}
_SETTLING_SECONDS = 120
_IDLE_IN_TRANSACTION = "1min"  # a client that vanished without a word must not keep the lake locked
_PATIENCE_SECONDS = 1
_NAME_BYTES = 63  # the server cuts off what is longer
_SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_INLINED = {
    "boolean": "boolean",
    "int8": "smallint",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "uint8": "integer",
    "uint16": "integer",
    "uint32": "bigint",
    "float32": "real",
    "float64": "double precision",
    "time": "time",
    "timetz": "timetz",
    "interval": "interval",
    "varchar": "bytea",  # text cannot hold NUL bytes
    "json": "bytea",
    "blob": "bytea",
    "uuid": "uuid",
    "variant": None,
    "geometry": None,
    "time_ns": None,
}


def _check(table: str, rows: Sequence[Sequence[Any]]) -> None:
    for row in rows:
        for value in row:
            if type(value) is str and "\0" in value:
                raise InvalidInputError(
                    f"PostgreSQL cannot store text with a NUL character, as in {value[:40]!r} for {table}. Remove the "
                    "character, or keep the lake in a SQLite or DuckDB catalog."
                )


class PostgresSession(WriteSession[Connection]):
    """Statements wait in a pipeline until somebody wants to know how they went."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._enter()
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        self._transaction = connection.execute("SELECT txid_current(), pg_backend_pid()")

    def _enter(self) -> None:
        self._pipeline = self.connection.pipeline()
        self._bundle = self._pipeline.__enter__()

    def _leave(self) -> None:
        self._pipeline.__exit__(None, None, None)

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self.query_many([(sql, params)])[0]

    def query_many(self, queries: Sequence[Query]) -> list[list[Row]]:
        for _, params in queries:
            _check("a query", [params])
        cursors = [self.connection.execute(numbered(sql).encode(), params) for sql, params in queries]
        rows = [cursor.fetchall() for cursor in cursors]
        if self.token is None:
            self.token = self._transaction.fetchone()
        return rows

    def execute(self, sql: str, params: Sequence[Any] = ()) -> None:
        _check("a statement", [params])
        self.connection.execute(numbered(sql).encode(), params)

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        if not rows:
            return
        _check(table, rows)
        if len(rows) <= _COPY_ROWS and len(rows) * len(rows[0]) <= _PARAMETERS:
            self.connection.execute(
                numbered(values_sql(table, len(rows[0]), len(rows))).encode(),
                [value for row in rows for value in row],
            )
            return
        self._leave()  # COPY and pipelines exclude each other
        names = insert_columns(table, len(rows[0]))
        with self.connection.cursor().copy(f"COPY {quoted(table)}{names} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)
        self._enter()

    def create_table(self, sql: str) -> None:
        self.execute(sql)

    def flush(self) -> None:
        if (
            self.token is None
        ):  # else its outcome can be found out, and what is waiting goes along with COMMIT
            self._bundle.sync()
            self.token = self._transaction.fetchone()

    def commit(self) -> None:
        self.connection.execute("COMMIT")
        self._leave()  # sends it, and waits for the answer

    def rollback(self) -> None:
        with suppress(psycopg.Error):  # the failed statement reports once more; it is known already
            self._leave()
        if self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.connection.execute("ROLLBACK")


class PostgresStore(PooledStore[Connection]):
    kind = "postgres"
    serializes_writers = False  # the primary key of ducklake_snapshot does that at the first statement
    is_shared = True
    options_lock_sql = "LOCK TABLE ducklake_metadata IN SHARE ROW EXCLUSIVE MODE"
    now_sql = "now()"
    identifier_limit = 63
    column_limit = (
        400  # a row has to fit into a page of 8 KB, with 20 bytes for each value that is moved out of it
    )
    # A key of our own; the database it is taken in is the lake's
    creation_lock_sql = "SELECT pg_advisory_xact_lock(4921062512871)"
    types = {  # noqa: RUF012  # a constant
        "BIGINT": "bigint", "VARCHAR": "varchar", "BOOLEAN": "boolean", "UUID": "uuid",
        "TIMESTAMPTZ": "timestamp with time zone",
    }  # fmt: skip
    driver_errors = (psycopg.Error,)

    def __init__(
        self, location: Location, *, metadata_schema: str | None = None, read_only: bool = False
    ) -> None:
        super().__init__(location, metadata_schema=metadata_schema, read_only=read_only)
        self._schema = metadata_schema or "public"
        # A key for this lake; the server keeps such locks per database, and ends them with the transaction
        key = int.from_bytes(hashlib.sha256(f"ducklake:{self._schema}".encode()).digest()[:7], "big")
        self.commit_lock_sql = f"SELECT pg_advisory_xact_lock({key})"

    def _connect(self) -> Connection:
        connection = Connection.connect(
            self.location.conninfo,
            autocommit=True,
            prepare_threshold=None,  # poolers between us and the server do not know prepared statements
            cursor_factory=psycopg.RawCursor,
            client_encoding="UTF8",
            fallback_application_name="ducklake-spark",
        )
        connection.adapters.register_loader("uuid", TextLoader)
        connection.name = f"{connection.info.parameter_status('application_name')} {uuid.uuid4().hex[:12]}"
        connection.name = connection.name.encode()[-_NAME_BYTES:].decode(errors="replace")
        connection.execute(
            "SELECT set_config('search_path', $1, false), set_config('application_name', $2, false), "
            "set_config('idle_in_transaction_session_timeout', $3, false)",
            [quoted(self._schema), connection.name, _IDLE_IN_TRANSACTION],
        )
        return connection

    def _fetch(self, connection: Connection, queries: Sequence[Query]) -> list[list[Row]]:
        for _, params in queries:
            _check("a query", [params])
        if len(queries) == 1:
            sql, params = queries[0]
            return [connection.execute(numbered(sql).encode(), params).fetchall()]
        with connection.pipeline():
            cursors = [connection.execute(numbered(sql).encode(), params) for sql, params in queries]
        return [cursor.fetchall() for cursor in cursors]

    def _session(self, connection: Connection) -> PostgresSession:
        return PostgresSession(connection)

    def classify(self, error: BaseException) -> Failure:
        if not isinstance(error, psycopg.Error):
            return Failure.FATAL
        state = error.sqlstate
        if state is None:  # said by the client, not by the server
            lost = isinstance(error, psycopg.OperationalError) and not isinstance(
                error, psycopg.errors.PipelineAborted
            )
            return Failure.LOST if lost else Failure.FATAL
        if state in _COLLISION:
            return Failure.COLLISION
        if state in _TRANSIENT:
            return Failure.TRANSIENT
        return Failure.LOST if state in _LOST or state.startswith("08") else Failure.FATAL

    def _abandon(self, connection: Connection) -> None:
        self.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = ? AND usename = current_user",
            [connection.name],
        )

    def settled(self, error: CommitOutcomeUnknown) -> bool | None:
        if not isinstance(error.token, tuple):
            return None
        transaction, process = error.token
        self.forget_connections()
        start = time.monotonic()
        while time.monotonic() < start + _SETTLING_SECONDS:
            # after a failover to a server that lags behind, the transaction may be in the future: NULL
            [(status,)] = self.query(
                "SELECT CASE WHEN CAST(? AS bigint) <= txid_current() THEN txid_status(CAST(? AS bigint)) END",
                [transaction, transaction],
            )
            if status != "in progress":
                return {"committed": True, "aborted": False}.get(status)
            if time.monotonic() > start + _PATIENCE_SECONDS:
                # The server may not notice for hours that nobody is at the other end
                self.query(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid = ? AND CAST(backend_xid AS text) = ?",
                    [process, str(transaction % 2**32)],
                )
            time.sleep(0.05)
        raise CatalogConnectionError(
            f"The catalog {self.display} still runs transaction {transaction}, whose connection was lost."
        )

    def same_name_sql(self, column: str) -> str:
        # By the rules of the database's own language, i and I may be different letters, as in Turkish.
        return f'lower({column} COLLATE "C") = lower(CAST(? AS text) COLLATE "C")'

    def can_hold(self, columns: Sequence[str]) -> bool:
        return super().can_hold(columns) and _SYSTEM_COLUMNS.isdisjoint(columns)

    def micros_sql(self, expression: str) -> str:
        return f"CAST(EXTRACT(EPOCH FROM {expression}) * 1000000 AS bigint)"

    def inlined_type(self, column_type: str) -> str | None:
        column_type = column_type.lower()
        if column_type.startswith("decimal(") and column_type.endswith(")"):
            return "numeric" + column_type[len("decimal") :]
        # 64-bit unsigned and wider, dates and timestamps have a wider range than PostgreSQL's types: text
        return _INLINED.get(column_type, "varchar")

    def indexes_sql(self) -> str:
        return f"SELECT indexname::text FROM pg_indexes WHERE schemaname = {text_literal(self._schema)}"

    def tables_sql(self) -> str:
        return (
            "SELECT c.relname::text AS table_name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE n.nspname = {text_literal(self._schema)} AND c.relkind IN ('r', 'p')"
        )

    def create_schema(self, session: Session) -> None:
        if self.metadata_schema is not None:
            session.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(self.metadata_schema)}")
