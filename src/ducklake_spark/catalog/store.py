"""The protocol of a catalog database: query, write in one transaction, and say what an error means.

SQL that is handed to a store uses `?` for parameters and plain table names: the store's connections already look at
the lake's metadata schema. The columns "key" and "sql" must be quoted, because MySQL reserves these words. What
differs between databases is behind these few members, in one file each.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ..errors import CatalogError
from ..format.versions import FORMAT_1_0, InlinedColumns, LakeFormat

Row = tuple[Any, ...]
Query = tuple[str, Sequence[Any]]


class Failure(enum.Enum):
    """What an exception of the driver means for a commit."""

    COLLISION = "another transaction wrote the same key first"
    TRANSIENT = "a lock, a deadlock or a serialization failure: the same work may succeed later"
    LOST = "the connection was lost"
    FATAL = "anything else"


class CommitOutcomeUnknown(Exception):
    """COMMIT was sent, and no answer came. `token` tells `Store.settled()` which transaction it was."""

    def __init__(self, token: object = None) -> None:
        super().__init__("the connection was lost during COMMIT")
        self.token = token


class Session(ABC):
    """One write transaction. Statements may be sent in bundles; an error then shows at `flush()` or at the end."""

    @abstractmethod
    def query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Sends what is waiting, then the query, and returns its rows."""

    def query_many(self, queries: Sequence[Query]) -> list[list[Row]]:
        """The rows of several queries, in one round trip where the database can do that."""
        return [self.query(*each) for each in queries]

    @abstractmethod
    def execute(self, sql: str, params: Sequence[Any] = ()) -> None:
        """A statement whose rows nobody wants."""

    @abstractmethod
    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Inserts rows by position, by the driver's fast way when there are many."""

    @abstractmethod
    def create_table(self, sql: str) -> None:
        """CREATE TABLE as part of this transaction: if it rolls back, the table is gone or harmless.

        Without `transactional_ddl`, call it before any other statement of the transaction: on MySQL, DDL ends the
        running one, so the tables are made first (an unregistered leftover of the same name is dropped), and the
        transaction begins after them.
        """

    @abstractmethod
    def flush(self) -> None:
        """Sends what is waiting and raises the first error of it, unless both can as well be done with COMMIT."""


class Store(ABC):
    """A catalog database. Safe to use from several threads; connections are opened when needed."""

    kind: ClassVar[str]
    """`duckdb`, `sqlite`, `postgres` or `mysql`, as `lake.settings()` says it."""
    now_sql: ClassVar[str]
    """An expression for the present time, in the type of `snapshot_time`."""
    identifier_limit: ClassVar[int | None] = None
    """The longest column name in bytes, where the database has such a limit."""
    column_limit: ClassVar[int | None] = None
    """How many columns of any type a table can have so that every row fits, where the database has such a limit."""
    serializes_writers: ClassVar[bool] = True
    """Whether `begin()` keeps every other writer out, so that the newest snapshot can be read inside."""
    needs_marker: ClassVar[bool] = False
    """Whether a lost COMMIT can only be told by the time of its snapshot, because `settled()` cannot."""
    commit_lock_sql: str | None = None
    """A statement that makes committers of this package wait for each other, where `begin()` does not do that. It keeps
    nobody else out: others are noticed by the key of their snapshot."""
    options_lock_sql: ClassVar[str | None] = None
    """A statement that keeps others from changing options, where `begin()` does not do that already."""
    is_shared: ClassVar[bool] = False
    """Whether the extension may have the catalog open in another process."""
    creation_lock_sql: ClassVar[str | None] = None
    """A query that makes creators of a lake wait for each other, where `begin()` does not do that already."""
    transactional_ddl: ClassVar[bool] = True
    """Whether CREATE TABLE is undone by a rollback."""
    display: str
    """The attach string without secrets, for messages."""
    metadata_schema: str | None
    """The schema (MySQL: database) of the catalog's tables, or None for the database's default."""
    read_only: bool
    format: LakeFormat = FORMAT_1_0
    """What the lake has; `create.inspect()` finds out."""
    columns_sql: ClassVar[str] = (
        "SELECT column_name FROM information_schema.columns WHERE table_name = ? AND table_schema = current_schema() "
        "ORDER BY ordinal_position"
    )
    """A query for the names of a table's columns, in order."""
    latest_sql: ClassVar[str | None] = None
    """A quicker query for the newest snapshot, where the database has one."""
    has_indexes: bool = False
    """Whether `ensure_indexes()` looked after this database already."""

    def indexes_sql(self) -> str:
        """A query for the names of all indexes in the metadata schema."""
        raise NotImplementedError

    @abstractmethod
    def query(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Rows of one query, outside of any transaction.

        UUIDs come as text. Booleans come as 0 and 1 where the database has no such type. Ask for times by
        `micros_sql()`. Sums may be Decimal.

        Raises:
            CatalogConnectionError: The database cannot be reached.
            CatalogError: The database refused the query.
        """

    def query_many(self, queries: Sequence[Query]) -> list[list[Row]]:
        """Rows of several queries, in one round trip where the driver can."""
        return [self.query(sql, params) for sql, params in queries]

    @abstractmethod
    @contextmanager
    def begin(self) -> Iterator[Session]:
        """A write transaction that commits at the end of the block and rolls back on an exception.

        Writers of this package are serialized here where the database can do that without harm to others (SQLite:
        BEGIN IMMEDIATE; MySQL: a named lock; DuckDB: a lock in this process).

        Raises:
            CommitOutcomeUnknown: The connection was lost while COMMIT was under way.
        """

    @abstractmethod
    def classify(self, error: BaseException) -> Failure:
        """What an exception raised by this store's driver means."""

    @abstractmethod
    def settled(self, error: CommitOutcomeUnknown) -> bool | None:
        """After a lost COMMIT: waits until the old transaction is over.

        Returns:
            True (committed) or False (rolled back) where the database can tell, None where the caller must look for
            its snapshot.
        """

    @abstractmethod
    def micros_sql(self, expression: str) -> str:
        """SQL for a stored time as microseconds since 1970 in UTC, a BIGINT."""

    def same_name_sql(self, column: str) -> str:
        """SQL for a column of names that equals a parameter without regard to the case of ASCII letters.

        It may find names that differ in the case of others, which the caller sorts out.
        """
        return f"lower({column}) = lower(?)"

    @abstractmethod
    def create_table_sql(
        self, table: str, columns: Sequence[tuple[str, str]], *, constraints: bool = True
    ) -> str:
        """CREATE TABLE for columns of (name, type): a logical type of `tables.py`, or one that `inlined_type` gave."""

    @abstractmethod
    def type_name(self, logical: str) -> str:
        """The type of this database for a logical type of `tables.py`."""

    @abstractmethod
    def inlined_type(self, column_type: str) -> str | None:
        """The physical type in which a column of this DuckLake type is inlined, or None when it cannot be.

        For a nested column give DuckDB's own type text (`STRUCT(a INTEGER)[]`): a DuckDB catalog stores it as it is,
        others store text, for which the bare `list`, `struct` or `map` is enough. Whether a geometry or variant is
        hidden inside is for the caller to see.
        """

    def can_hold(self, columns: Sequence[str]) -> bool:
        """Whether a table of this database can have these columns; else rows are not inlined."""
        if self.column_limit is not None and len(columns) > self.column_limit:
            return False
        limit = self.identifier_limit
        return limit is None or all(len(name.encode()) <= limit for name in columns)

    @property
    @abstractmethod
    def driver_errors(self) -> tuple[type[BaseException], ...]:
        """The exceptions that this store's driver raises, which pass out of `begin()` as they are."""

    @abstractmethod
    def translated(self, error: BaseException) -> CatalogError:
        """A driver's exception as an error for users, to be raised from it."""

    @abstractmethod
    def tables_sql(self) -> str:
        """A query for the names of all tables in the metadata schema, as `table_name`."""

    @abstractmethod
    def table_names(self) -> set[str]:
        """The names of all tables in the metadata schema."""

    def foreign_tables(self) -> list[str]:
        """Tables and views of a file that belongs to something else; on a server, sharing a database is ordinary."""
        return []

    def create_schema(self, session: Session) -> None:  # noqa: ARG002 - other databases need it
        """Makes the metadata schema if it is missing, and lets the session look at it."""
        return  # a database without schemas has nothing to do

    @abstractmethod
    def forget_connections(self) -> None:
        """Closes idle connections; new ones are opened when needed."""

    @abstractmethod
    def has_table(self, table: str) -> bool:
        """Whether the metadata schema has a table of this name."""

    @abstractmethod
    def inlined_columns(self, table: str) -> InlinedColumns:
        """The names that the first columns of a table of inlined rows have; those of a new one if it does not exist."""

    @abstractmethod
    def close(self) -> None:
        """Closes all connections; the store cannot be used afterwards."""
