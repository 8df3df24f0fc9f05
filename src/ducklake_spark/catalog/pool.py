"""What the four stores share: connections that are opened when needed and kept, and how driver errors reach users."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ..errors import CatalogConnectionError, CatalogError, ClosedError, InvalidInputError, ReadOnlyError
from ..format.types import quote
from ..format.versions import PLAIN, PREFIXED, InlinedColumns
from .location import Location
from .store import CommitOutcomeUnknown, Failure, Query, Row, Session, Store
from .tables import ALL_TABLES, insert_columns


class Closable(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closable)
_IDLE_CONNECTIONS = 4
_stores: weakref.WeakSet[PooledStore[Any]] = weakref.WeakSet()
_TOKENS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\?|%""")


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    if "\0" in name or not name:
        raise InvalidInputError(f"{name!r} cannot be the name of something in a database.")
    return quote(name)


@lru_cache(maxsize=1024)
def numbered(sql: str) -> str:
    """`?` placeholders as `$1`, `$2` ..."""
    numbers = iter(range(1, sql.count("?") + 1))
    return _TOKENS.sub(lambda token: f"${next(numbers)}" if token[0] == "?" else token[0], sql)


@lru_cache(maxsize=1024)
def formatted(sql: str) -> str:
    """`?` placeholders as `%s`, and every other percent sign doubled."""
    return _TOKENS.sub(lambda token: "%s" if token[0] == "?" else token[0].replace("%", "%%"), sql)


def values_sql(table: str, columns: int, rows: int) -> str:
    """INSERT of several rows."""
    row = f"({', '.join('?' * columns)})"
    return f"INSERT INTO {quoted(table)}{insert_columns(table, columns)} VALUES {', '.join([row] * rows)}"


class WriteSession(Session, Generic[C]):
    """A session on one connection whose COMMIT the store sends. `token` tells a lost transaction from others."""

    token: object = None

    def __init__(self, connection: C) -> None:
        self.connection = connection

    def flush(self) -> None:
        pass

    @abstractmethod
    def commit(self) -> None:
        """COMMIT; everything before it was flushed."""

    @abstractmethod
    def rollback(self) -> None:
        """ROLLBACK, after which the connection can be used again."""

    def finish(self) -> None:
        """What is to be done after COMMIT or ROLLBACK, before the connection goes back."""


class PooledStore(Store, Generic[C]):
    """A store whose connections are kept between uses.

    There is no upper bound and nobody waits for a connection: a thread of the JVM may need one while the thread that
    waits for it holds another.
    """

    types: ClassVar[dict[str, str]]
    """The database's types for the logical types of `tables.py`."""

    def __init__(
        self, location: Location, *, metadata_schema: str | None = None, read_only: bool = False
    ) -> None:
        self.location = location
        self.display = location.display
        self.metadata_schema = metadata_schema
        self.read_only = read_only
        self._idle: list[C] = []
        self._guard = threading.Lock()
        self._closed = False
        self._opened_in = os.getpid()
        self._inlined: dict[str, InlinedColumns] = {}
        self._connections: dict[int, C] = {}
        """All that are open, in use or not: a forked child must not destroy them."""
        _stores.add(self)

    # What a database has to say for itself

    @abstractmethod
    def _connect(self) -> C:
        """A new connection. Raises a driver's exception or a CatalogConnectionError that knows better."""

    @abstractmethod
    def _fetch(self, connection: C, queries: Sequence[Query]) -> list[list[Row]]:
        """Rows of the queries."""

    @abstractmethod
    def _session(self, connection: C) -> WriteSession[C]:
        """Begins a write transaction."""

    # Queries

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self.query_many([(sql, params)])[0]

    def query_many(self, queries: Sequence[Query]) -> list[list[Row]]:
        while True:
            connection, reused = self._take()
            try:
                rows = self._fetch(connection, queries)
            except self.driver_errors as error:
                self._discard(connection)
                if reused and self.classify(error) is Failure.LOST:
                    self.forget_connections()  # the others died with it; reads can be repeated
                    continue
                raise self.translated(error) from error
            except BaseException:
                self._discard(connection)
                raise
            self._give(connection)
            return rows

    def table_names(self) -> set[str]:
        return {name for (name,) in self.query(self.tables_sql())}

    def has_table(self, table: str) -> bool:
        return bool(self.query(f"SELECT 1 FROM ({self.tables_sql()}) AS t WHERE t.table_name = ?", [table]))

    def inlined_columns(self, table: str) -> InlinedColumns:
        if not self.format.inlined_names_vary:
            return self.format.inlined
        if table not in self._inlined:
            found = {str(name) for (name,) in self.query(self.columns_sql, (table,))}
            if not found:
                return self.format.inlined  # it is not there yet
            self._inlined[table] = next(
                (each for each in (PREFIXED, PLAIN) if found >= {*each.all}), PREFIXED
            )
        return self._inlined[table]

    # Transactions

    @contextmanager
    def begin(self) -> Iterator[Session]:
        if self.read_only:
            raise ReadOnlyError(f"The lake {self.display} was attached read-only.")
        self._require_usable()
        with self._writer():
            session = self._begun()
            healthy = False
            try:
                try:
                    yield session
                    session.flush()
                except BaseException as error:
                    if isinstance(error, self.driver_errors) and self.classify(error) is Failure.LOST:
                        self._lost(session.connection)
                    else:
                        healthy = self._rolled_back(session)
                    raise
                self._commit(session)
                healthy = True
            finally:
                (self._give if healthy else self._discard)(session.connection)

    def _begun(self) -> WriteSession[C]:
        while True:
            connection, reused = self._take()
            try:
                return self._session(connection)
            except BaseException as error:
                self._discard(connection)
                if reused and isinstance(error, self.driver_errors) and self.classify(error) is Failure.LOST:
                    self._lost(connection)
                    continue
                raise

    def _lost(self, connection: C) -> None:
        """The others died with it. The server may keep its transaction, and the locks of it, for hours."""
        self.forget_connections()
        with suppress(CatalogError):  # nobody is there: the next attempt will say so
            self._abandon(connection)

    def _abandon(self, connection: C) -> None:
        """Ends what a lost connection may have left on the server."""

    def _rolled_back(self, session: WriteSession[C]) -> bool:
        try:
            session.rollback()
            session.finish()
        except self.driver_errors:  # the error that made us roll back says more than this one
            return False
        return True

    def _commit(self, session: WriteSession[C]) -> None:
        try:
            session.commit()
        except self.driver_errors as error:
            if self.classify(error) is Failure.LOST:
                self.forget_connections()
                raise CommitOutcomeUnknown(session.token) from error
            self._rolled_back(session)
            raise
        with suppress(*self.driver_errors):  # the transaction is committed: nothing may say otherwise
            session.finish()

    @contextmanager
    def _writer(self) -> Iterator[None]:
        """Serializes writers where that takes no connection."""
        yield

    def settled(self, error: CommitOutcomeUnknown) -> bool | None:  # noqa: ARG002 - other databases need it
        return None

    # Tables

    def type_name(self, logical: str) -> str:
        return self.types.get(logical, logical)

    def create_table_sql(
        self, table: str, columns: Sequence[tuple[str, str]], *, constraints: bool = True
    ) -> str:
        definition = ALL_TABLES.get(table) if constraints else None
        not_null = {column.name for column in definition.columns if column.not_null} if definition else set()
        key = definition.primary_key if definition else None
        parts = (
            f"{quoted(name)} {self.types.get(kind, kind)}"
            + (" PRIMARY KEY" if name == key else " NOT NULL" if name in not_null else "")
            for name, kind in columns
        )
        return f"CREATE TABLE {quoted(table)}({', '.join(parts)})"

    # Connections

    def translated(self, error: BaseException) -> CatalogError:
        """A driver's exception as an error for users."""
        if self.classify(error) is Failure.LOST:
            return CatalogConnectionError(
                f"The catalog {self.display} cannot be reached: {_text(error)} Check that the database is running and "
                "that host, port, user and password are right."
            )
        return CatalogError(f"The catalog {self.display} refused a statement: {_text(error)}")

    def close(self) -> None:
        self._closed = True
        if self._opened_in == os.getpid():
            self.forget_connections()

    def forget_connections(self) -> None:
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            self._discard(connection)

    def _require_usable(self) -> None:
        if self._closed:
            raise ClosedError(f"The lake {self.display} was closed. Attach it again to use it.")
        if self._opened_in != os.getpid():
            raise ClosedError(
                f"The lake {self.display} was attached in process {self._opened_in}, from which this one was forked: "
                "two processes cannot share a connection. Attach it again here."
            )

    def _take(self) -> tuple[C, bool]:
        self._require_usable()  # before the lock, which a thread of the parent may have held while it forked
        with self._guard:
            if self._idle:
                return self._idle.pop(), True
        return self._opened(), False

    def _opened(self) -> C:
        try:
            connection = self._connect()
            self._connections[id(connection)] = connection
            return connection
        except self.driver_errors as error:
            # A driver may quote the connection string; its own exception is shown only when it does not.
            text = self.location.without_secrets(_text(error))
            raise CatalogConnectionError(
                f"The catalog {self.display} cannot be opened: {text}{self._advice(error)}"
            ) from None

    def _advice(self, error: BaseException) -> str:  # noqa: ARG002 - other databases need it
        """A sentence that says what to do when a connection could not be opened."""
        return " Check that the database is running and that host, port, user and password are right."

    def _give(self, connection: C) -> None:
        with self._guard:
            if not self._closed and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        self._discard(connection)

    def _discard(self, connection: C) -> None:
        self._connections.pop(id(connection), None)
        # Closing a broken connection may fail in any way, and nobody needs it any more
        with suppress(Exception):
            self._close_connection(connection)

    def _close_connection(self, connection: C) -> None:
        connection.close()

    def leave_to_parent(self) -> None:
        """In a forked child: nothing of it is closed here, not even when the child ends.

        A destructor would say goodbye to a server in the parent's name, or write a log into the parent's file.
        """
        for connection in self._connections.values():
            never_destroy(connection)


def never_destroy(value: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def _forked() -> None:
    for store in list(_stores):
        store.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _text(error: BaseException) -> str:
    arguments = error.args[1:] if len(error.args) > 1 and isinstance(error.args[0], int) else (error,)
    text = " ".join(" ".join(str(part) for part in arguments).split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
