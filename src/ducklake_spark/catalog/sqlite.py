"""A catalog in a SQLite file, through Python's own `sqlite3`. Never open the same file through DuckDB as well."""

from __future__ import annotations

import datetime
import os
import re
import sqlite3
import threading
import weakref
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ..errors import CatalogConnectionError, CatalogError, InvalidInputError, NotADuckLakeError
from .file_lock import FileHold, hold, identity
from .location import SQLITE_HEADER, Location
from .pool import PooledStore, WriteSession, values_sql
from .store import Failure, Query, Row

_BUSY, _LOCKED, _NOTADB, _CONSTRAINT_PRIMARYKEY, _CONSTRAINT_UNIQUE = 5, 6, 26, 1555, 2067
_READONLY_DBMOVED = 1032
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6})\d*)?\s*(?:Z|([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?)?"
)


def micros(text: str | None) -> int | None:
    """Microseconds since 1970 of a time as DuckDB writes it, in whatever zone its session had.

    >>> micros("1970-01-01 01:00:00.5+01")
    500000
    """
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time")
    *parts, fraction, sign, hours, minutes, seconds = match.groups()
    offset = datetime.timedelta(hours=int(hours or 0), minutes=int(minutes or 0), seconds=int(seconds or 0))
    moment = datetime.datetime(*map(int, parts), tzinfo=datetime.timezone.utc)  # type: ignore[misc, arg-type]  # six ints
    moment += -offset if sign == "+" else offset
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1) + int((fraction or "").ljust(6, "0"))


def time_text(moment: datetime.datetime) -> str:
    """A time in UTC as DuckDB writes it.

    >>> time_text(datetime.datetime(2026, 11, 15, 6, 34, 42, 355330, datetime.timezone.utc))
    '2026-11-15 06:34:42.35533+00'
    """
    moment = moment.astimezone(datetime.timezone.utc)
    fraction = f".{moment.microsecond:06}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction}+00"


def _value(value: Any) -> Any:
    if isinstance(value, (int, str, float, bytes, type(None))):
        return value
    return time_text(value) if isinstance(value, datetime.datetime) else str(value)


class SQLiteSession(WriteSession[sqlite3.Connection]):
    def query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self.connection.execute(sql, [_value(value) for value in params]).fetchall()

    def execute(self, sql: str, params: Sequence[Any] = ()) -> None:
        self.connection.execute(sql, [_value(value) for value in params])

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        if rows:
            sql = values_sql(table, len(rows[0]), 1)
            self.connection.executemany(sql, (tuple(map(_value, row)) for row in rows))

    def create_table(self, sql: str) -> None:
        self.connection.execute(sql)

    def commit(self) -> None:
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        if self.connection.in_transaction:  # SQLite itself rolls back after some errors
            self.connection.execute("ROLLBACK")


class SQLiteStore(PooledStore[sqlite3.Connection]):
    kind = "sqlite"
    is_shared = True
    now_sql = "ducklake_now()"
    columns_sql = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
    column_limit = 1997  # three more are ours
    types = {  # noqa: RUF012  # a constant
        "BIGINT": "BIGINT", "VARCHAR": "VARCHAR", "BOOLEAN": "BIGINT", "UUID": "VARCHAR", "TIMESTAMPTZ": "VARCHAR",
    }  # fmt: skip
    driver_errors = (sqlite3.Error,)

    def __init__(
        self,
        location: Location,
        *,
        metadata_schema: str | None = None,
        read_only: bool = False,
        busy_timeout: int = 5000,
        create: bool = True,
    ) -> None:
        if metadata_schema not in (None, "main"):
            raise InvalidInputError(
                f'SQLite has no schemas, so METADATA_SCHEMA "{metadata_schema}" is not possible: use another file.'
            )
        super().__init__(location, metadata_schema=None, read_only=read_only)
        self._path = os.path.abspath(location.path)  # connections may be opened after a change of folder
        self._busy_timeout = busy_timeout / 1000
        self._mode = "ro" if read_only else "rwc" if create else "rw"
        self._hold: FileHold | None = None
        self._release: weakref.finalize[[], SQLiteStore] | None = None
        self._looking = threading.Lock()

    def _connect(self) -> sqlite3.Connection:
        self._require_file()
        connection = sqlite3.connect(
            f"file:{quote(self._path)}?mode={self._mode}",
            uri=True,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        # A transaction that outgrows the cache would lock readers out before its COMMIT, our own ones too
        connection.execute("PRAGMA cache_spill = OFF")
        connection.create_function("ducklake_micros", 1, micros, deterministic=True)
        connection.create_function("ducklake_now", 0, _now)
        return connection

    def _require_file(self) -> None:
        """Makes sure that the file is the one that was opened: SQLite itself looks only when it writes."""
        with self._looking:
            if self._hold is None:
                self._check_file()
            elif self._hold.identity != identity(self._path):
                raise self._moved()

    def _moved(self) -> CatalogConnectionError:
        return CatalogConnectionError(
            f"The file of the catalog {self.display} was moved, deleted or replaced while it was open. Put it back, "
            "or close the lake and attach it again."
        )

    def _check_file(self) -> None:
        folder = os.path.dirname(self._path)
        if not os.path.isdir(folder):
            raise CatalogConnectionError(
                f'The folder "{folder}" of the catalog {self.display} does not exist: make it.'
            )
        if os.path.isdir(self._path):
            raise CatalogConnectionError(f"The catalog {self.display} is a folder, not a SQLite file.")
        if not os.path.exists(self._path):
            if self._mode != "rwc":
                raise NotADuckLakeError(f"There is no lake at {self.display}: the file does not exist.")
        elif not os.access(self._path, os.R_OK if self.read_only else os.R_OK | os.W_OK):
            raise CatalogConnectionError(
                f"This process may not {'read' if self.read_only else 'write'} the file of the catalog {self.display}."
                + ("" if self.read_only else " Attach it read-only, or change the file's permissions.")
            )
        else:
            self._require_sqlite()

    def _require_sqlite(self) -> None:
        """Looks before SQLite does: DuckDB may have the file open, and would lose its lock when SQLite closes it."""
        found = hold(self._path)
        if found.first_bytes(len(SQLITE_HEADER)) not in (SQLITE_HEADER, b""):
            found.release()
            raise CatalogConnectionError(f"The file of the catalog {self.display} is not a SQLite database.")
        self._hold = found
        self._release = weakref.finalize(self, found.release)

    def close(self) -> None:
        super().close()
        if self._release is not None:
            self._release()

    def _advice(self, error: BaseException) -> str:  # noqa: ARG002 - other databases need it
        return " Check the file and its permissions."

    def translated(self, error: BaseException) -> CatalogError:
        if getattr(error, "sqlite_errorcode", None) == _NOTADB:
            return CatalogConnectionError(f"The file of the catalog {self.display} is not a SQLite database.")
        if getattr(error, "sqlite_errorcode", None) == _READONLY_DBMOVED:
            return self._moved()
        return super().translated(error)

    def _fetch(self, connection: sqlite3.Connection, queries: Sequence[Query]) -> list[list[Row]]:
        self._require_file()
        return [
            connection.execute(sql, [_value(value) for value in params]).fetchall() for sql, params in queries
        ]

    def _session(self, connection: sqlite3.Connection) -> SQLiteSession:
        self._require_file()
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not hasattr(
                error, "sqlite_errorcode"
            ):  # Python 3.10, where waiting for the lock is all that can fail
                setattr(error, "sqlite_errorcode", _BUSY)  # noqa: B010  # unknown to the types of Python 3.10
            raise
        return SQLiteSession(connection)

    def classify(self, error: BaseException) -> Failure:
        code = getattr(error, "sqlite_errorcode", None)
        if isinstance(error, sqlite3.IntegrityError):
            keys = (None, _CONSTRAINT_PRIMARYKEY, _CONSTRAINT_UNIQUE)
            return Failure.COLLISION if code in keys else Failure.FATAL
        if isinstance(error, sqlite3.Error) and code is not None and code & 0xFF in (_BUSY, _LOCKED):
            return Failure.TRANSIENT
        return Failure.FATAL

    def micros_sql(self, expression: str) -> str:
        return f"ducklake_micros({expression})"

    def inlined_type(self, column_type: str) -> str | None:
        column_type = column_type.lower()
        if column_type in ("variant", "geometry"):
            return None
        if column_type in ("boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
            return "BIGINT"
        return "BLOB" if column_type == "blob" else "VARCHAR"

    def indexes_sql(self) -> str:
        return "SELECT name FROM sqlite_master WHERE type = 'index'"

    def foreign_tables(self) -> list[str]:
        rows = self.query(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        return [name for (name,) in rows]

    def tables_sql(self) -> str:
        return "SELECT name AS table_name FROM sqlite_master WHERE type = 'table'"


def _now() -> str:
    return time_text(datetime.datetime.now(datetime.timezone.utc))
