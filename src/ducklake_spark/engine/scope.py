"""The scope of statements on one lake: its connection, transactions, name resolution and settings.

`Lake` and `Table` hold one; what they do receives it. A name is resolved, a statement run and a commit made here and
nowhere else.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.indexes import ensure_indexes
from ducklake_spark.catalog.inlined_tables import drop_superseded
from ducklake_spark.catalog.snapshot import (
    Cache,
    SnapshotReader,
    described_sql,
    read_newest,
    snapshot_at_version,
)
from ducklake_spark.catalog.store import Store
from ducklake_spark.catalog.transaction import RetryPolicy, Transaction
from ducklake_spark.engine.retry import CommitConflict, until_committed
from ducklake_spark.errors import (
    ClosedError,
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    ReadOnlyError,
    SparkUnavailableError,
    TransactionError,
)
from ducklake_spark.format.changes import changes_map, parse_changes
from ducklake_spark.format.names import Name, split_name
from ducklake_spark.format.objects import EPOCH, SchemaDef, Snapshot
from ducklake_spark.format.options import Options
from ducklake_spark.format.rows import CommitInfo
from ducklake_spark.format.types import fold
from ducklake_spark.spark import interrupts, object_stores
from ducklake_spark.spark.session import expected, is_stopped, session_or_local
from ducklake_spark.workers.object_store import Access, is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
DEFAULT_SCHEMA = "main"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LakeConfig:
    """What `attach()` found out and was told."""

    name: str
    data_path: str
    read_only: bool = False
    metadata_catalog: str | None = None
    attached_options: Mapping[str, str] = field(default_factory=dict)
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    statement_retries: int = 10
    is_encrypted: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings for the store of the data path; secrets among them."""


@dataclass(eq=False)
class _ThreadState:
    """What belongs to one thread: its transaction, and what goes back with it. It ends with the thread."""

    transaction: Transaction | None = None
    undo: list[Callable[[], object]] = field(default_factory=list)
    aborted: bool = False
    in_block: bool = False
    only_reads: bool = False
    token: str = ""
    """By which Spark's threads know the transaction, if they do."""


class Scope:
    """All that a statement on a lake needs to know. Threads share it, and each has a transaction of its own."""

    def __init__(
        self,
        store: Store,
        config: LakeConfig,
        cache: Cache,
        *,
        session: SparkSession | None = None,
        pinned: Snapshot | None = None,
        parent: Scope | None = None,
    ) -> None:
        self.store, self.config, self.cache, self.session = store, config, cache, session
        self.pinned = pinned
        self.default_schema: str = DEFAULT_SCHEMA if parent is None else parent.default_schema
        self.committed: list[int] = [] if parent is None else parent.committed
        """The last snapshot that was committed: all connections to an attached lake know it, as in DuckDB."""
        self.on_close: list[Callable[[], None]] = []
        self.on_session: list[Callable[[SparkSession], None]] = []
        """What is done once, when the lake has a session."""
        self.on_mark: Callable[[str], None] | None = None
        """Tells Spark of the transaction that this thread has begun, or with an empty text that it has none."""
        self.on_commit: Callable[[Transaction], None] | None = None
        """What is told of each transaction that was committed."""
        self.sql_session: Any = None
        """What statements of SQL on this handle share; made by the first that needs it."""
        self._parent = parent
        self._closed = False
        self._local = threading.local()
        self._marked: WeakValueDictionary[str, _ThreadState] = WeakValueDictionary()
        self._begun: WeakSet[_ThreadState] = WeakSet()
        self._prepared: SparkSession | None = None
        """The session that can reach the store of the data path."""

    @property
    def name(self) -> str:
        """The lake's name in SQL."""
        return self.config.name

    @property
    def spark(self) -> SparkSession:
        """The session in which data is read and written; made when it is first needed."""
        if self._parent is not None:
            return self._parent.spark
        if self.session is not None and is_stopped(self.session):
            raise SparkUnavailableError(
                f'The Spark session of the lake "{self.name}" was stopped. Close the lake, and attach it again with a '
                "session that runs."
            )
        self.session = session_or_local(self.session)
        if is_remote(self.config.data_path) and self._prepared is not self.session:
            self._prepared = self.session
            object_stores.prepare(self.session, self.config.data_path, self.config.storage_options)
        while self.on_session:
            self.on_session.pop()(self.session)
        return self.session

    @property
    def files_session(self) -> SparkSession | None:
        """The session that lists and deletes files of the data path; on this machine none is needed."""
        return self.spark if is_remote(self.config.data_path) else self.session

    def access(self) -> Access:
        """How workers reach object stores: by the session's settings, and those that were given."""
        return object_stores.access(self.spark, self.config.data_path, self.config.storage_options)

    def expecting_spark(self) -> AbstractContextManager[None]:
        """Lets Spark start beside what a block does before it needs it."""
        return expected() if self.session is None else nullcontext()

    def at(self, pinned: Snapshot) -> Scope:
        """The scope of the same lake at a snapshot, read-only."""
        config = replace(self.config, read_only=True)
        return Scope(self.store, config, self.cache, session=self.session, pinned=pinned, parent=self)

    def apart(self) -> Scope:
        """The scope of the same lake with transactions of its own, beside one that may be running here."""
        return Scope(
            self.store, self.config, self.cache, session=self.session, pinned=self.pinned, parent=self
        )

    def apart_read_only(self) -> Scope:
        """The same, in which nothing can be changed."""
        config = replace(self.config, read_only=True)
        return Scope(self.store, config, self.cache, session=self.session, pinned=self.pinned, parent=self)

    @property
    def last_committed(self) -> int | None:
        """The last snapshot that this attached lake committed; None before its first."""
        return self.committed[0] if self.committed else None

    def close(self) -> None:
        """Closes the connections; a scope at a snapshot leaves them to the one that it was made from."""
        self._closed = True
        while self.on_close:
            self.on_close.pop()()
        if self._parent is None:
            self.store.close()

    @property
    def is_closed(self) -> bool:
        """Whether the lake was closed."""
        return self._closed or (self._parent is not None and self._parent.is_closed)

    def require_open(self) -> None:
        """Raises ClosedError for a lake that was closed."""
        if self.is_closed:
            raise ClosedError(f'The lake "{self.name}" was closed. Attach it again.')

    def require_writable(self) -> None:
        """Raises ReadOnlyError for a lake in which nothing can be changed."""
        if self.config.read_only:
            at = f" at version {self.pinned.snapshot_id}" if self.pinned else ""
            raise ReadOnlyError(
                f'The lake "{self.name}" is attached read-only{at}: nothing in it can be changed. Attach it without '
                "read_only, snapshot_version and snapshot_time to change it."
            )
        if self._state.only_reads:
            self.abort()
            raise ReadOnlyError(
                f'The transaction is READ ONLY: nothing in the lake "{self.name}" can be changed in it. End it with '
                "ROLLBACK, and begin one without READ ONLY."
            )

    # Names.

    def parts(self, name: Name, what: str) -> tuple[str, str]:
        """The schema and the own name that a name says."""
        parts = split_name(name, what)
        if len(parts) == 3 and fold(parts[0]) == fold(self.name):
            parts = parts[1:]
        if len(parts) > 2:
            raise InvalidInputError(
                f'{name!r} has too many parts for a {what} of the lake "{self.name}": write schema.{what}, with '
                "double quotes around a name that has dots."
            )
        return (self.default_schema, parts[0]) if len(parts) == 1 else (parts[0], parts[1])

    def resolve(
        self, tx: Transaction, name: Name, what: str = "table", *, new: bool = False
    ) -> tuple[SchemaDef, str]:
        """The schema and the own name. What is not `new` is also found in `main` when its name has no schema."""
        schema, own = self.parts(name, what)
        is_bare = len(split_name(name, what)) == 1
        if not is_bare and fold(schema) == fold(self.name) and tx.schema(schema) is None:
            # `lake.table`; a schema that is called as the lake comes first, as in DuckDB.
            schema, is_bare = self.default_schema, True
        found = ddl.get_schema(tx, schema)
        if not new and self.default_schema != DEFAULT_SCHEMA and is_bare:
            main = tx.schema(DEFAULT_SCHEMA)
            if main is not None and not _holds(tx, found, own) and _holds(tx, main, own):
                return main, own
        return found, own

    # Statements.

    @property
    def _state(self) -> _ThreadState:
        found: _ThreadState | None = getattr(self._local, "state", None)
        if found is None:
            found = self._local.state = _ThreadState()
        return found

    @property
    def transaction(self) -> Transaction | None:
        """The transaction that is running in this thread."""
        return self._state.transaction

    @contextmanager
    def in_place_of(self, token: str) -> Iterator[None]:
        """Runs a block in the place of the thread that has the transaction of this token, or of one that has none.

        Spark asks for tables, and hands rows over, on other threads than those of users.
        """
        own = self._state
        self._local.state = self._marked.get(token) or _ThreadState()
        try:
            yield
        finally:
            self._local.state = own

    def require_none_begun(self, why: str) -> None:
        """Raises TransactionError while a thread has begun a transaction, for those who cannot tell threads apart."""
        if self._begun:
            raise TransactionError(
                f'A transaction of the lake "{self.name}" is open, and {why}. End it first, or use lake.sql().'
            )

    def mark(self) -> None:
        """Tells Spark of this thread's transaction; so does its beginning, if the lake had a session then."""
        state = self._state
        if self.on_mark is not None and state.transaction is not None and not state.token:
            state.token = uuid.uuid4().hex
            self._marked[state.token] = state
            self.on_mark(state.token)

    def _ended(self) -> None:
        """The transaction of this thread is over."""
        state = self._state
        state.transaction, state.only_reads = None, False
        self._begun.discard(state)
        if state.token:
            self._marked.pop(state.token, None)
            state.token = ""
            if self.on_mark is not None and not self.is_closed:
                with _said_only("Spark does not know that a transaction is over"):
                    self.on_mark("")

    def new_transaction(self) -> Transaction:
        """A new transaction at the newest snapshot; one round trip."""
        self.require_open()
        newest, [metadata] = read_newest(
            self.store, self.cache, ('SELECT "key", value, scope, scope_id FROM ducklake_metadata', ())
        )
        if self.pinned is not None and self.pinned != newest:
            snapshot_at_version(self.store, self.pinned.snapshot_id)  # it may have been expired since
        options = Options.of_rows(
            [(key, value, scope, scope_id) for key, value, scope, scope_id in metadata],
            self.config.attached_options,
        )
        reader = SnapshotReader(self.store, self.pinned or newest, self.cache)
        transaction = Transaction(reader, options, self.config.policy)
        if is_remote(self.config.data_path):
            transaction.remove = self._remove
        return transaction

    def _remove(self, paths: Iterable[str]) -> None:
        self.access().remove(list(paths))

    def read_transaction(self) -> Transaction:
        """What a read looks at: the running transaction, or a new one at the newest snapshot."""
        self.require_open()
        self._require_not_aborted()
        return self.transaction or self.new_transaction()

    def statement(self, run: Callable[[Transaction], T], *, most_retries: int | None = None) -> T:
        """Makes a change, all of it or nothing, as a part of the running transaction or as a snapshot of its own.

        Its own commit may meet a conflict with another writer: then it is run again on the newest snapshot. What `run`
        calls may be statements too; they are parts of this one.

        Args:
            run: Makes the change.
            most_retries: How often a long statement is run again at most, whatever the lake allows.
        """
        self.require_open()
        self.require_writable()
        self._require_not_aborted()
        running = self.transaction
        if running is not None:
            with running.savepoint(), self._undoing():
                return run(running)
        retries = self.config.statement_retries
        return until_committed(
            lambda: self._attempt(run),
            self.store.display,
            retries if most_retries is None else min(retries, most_retries),
            self.config.policy,
        )

    def _attempt(self, run: Callable[[Transaction], T]) -> T:
        """Begins, runs and commits a statement once."""
        transaction = self.new_transaction()
        self._run_in(transaction, in_block=True)
        try:
            with _discarding(transaction), self._undoing():
                try:
                    result = run(transaction)
                    self._commit(transaction)
                except ConflictError as conflict:
                    raise CommitConflict(conflict) from conflict
                return result
        finally:
            self._ended()

    def _run_in(self, transaction: Transaction, *, in_block: bool) -> None:
        state = self._state
        state.transaction, state.undo, state.aborted, state.in_block = transaction, [], False, in_block
        state.only_reads = False

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        """Handles that followed a change go back when it fails."""
        undo = self._state.undo
        done = len(undo)
        try:
            yield
        except BaseException:
            while len(undo) > done:
                undo.pop()()
            raise

    def _commit(self, transaction: Transaction) -> None:
        if any(edit.batches and edit.layout for edit in transaction.edits.tables.values()):
            from ducklake_spark.write.inline import settle

            settle(transaction)
        if transaction.written:
            transaction.require_files()
        with interrupts.held():
            committed = transaction.commit()
            wrote = bool(transaction.written)
            if wrote:
                with _said_only("files that were not needed are left"):
                    transaction.tidy()  # now the files belong to the lake, whatever ends this statement
        if committed is not None:
            self.committed[:] = [committed]
        if wrote:
            with _said_only("the catalog gets no indexes"):
                ensure_indexes(self.store)
        flushed = [i for i, edit in transaction.edits.tables.items() if edit.flushed and edit.now]
        if flushed:
            with _said_only("empty tables of inlined rows are left"):
                drop_superseded(self.store, flushed)
        if committed is not None and self.on_commit is not None:
            with _said_only("tables that Spark has cached may be of an older snapshot"):
                self.on_commit(transaction)

    # Transactions of several statements.

    def begin(self, info: CommitInfo) -> None:
        """BEGIN in this thread."""
        self.require_open()
        if self.transaction is not None:
            raise TransactionError(
                f'A transaction of the lake "{self.name}" is running in this thread already, and they cannot be '
                "nested. Make the changes in the running one, or end it first."
            )
        self.require_writable()
        transaction = self.new_transaction()
        transaction.info = info
        self._run_in(transaction, in_block=False)
        self._begun.add(self._state)
        try:
            self.mark()
        except BaseException:  # what comes next would join a transaction that nobody ends
            self._ended()
            raise

    def begin_read_only(self) -> None:
        """BEGIN READ ONLY: one snapshot is read until the end, and nothing can be changed."""
        self.begin(CommitInfo())
        self._state.only_reads = True

    @contextmanager
    def block(self, info: CommitInfo) -> Iterator[None]:
        """A transaction that the end of the block commits, and an exception rolls back."""
        self.begin(info)
        self._state.in_block = True
        try:
            yield
        except BaseException:
            self._state.in_block = False
            self.rollback()
            raise
        self._state.in_block = False
        self.commit()

    def commit(self) -> None:
        """COMMIT of what was begun in this thread."""
        transaction = self._own_transaction("COMMIT")
        aborted = self._state.aborted
        try:
            with _discarding(transaction):
                if aborted:
                    raise TransactionError(
                        "A statement of this transaction failed while it ran: it was rolled back, and nothing was "
                        "written. Begin again."
                    )
                self._commit(transaction)
        except BaseException:
            self._undo()
            raise
        finally:
            self._ended()

    def rollback(self) -> None:
        """ROLLBACK of what was begun in this thread."""
        transaction = self._own_transaction("ROLLBACK")
        self._ended()
        transaction.discard()
        self._undo()

    def require_ended(self) -> None:
        """Rolls back a transaction that was begun in this thread and never committed, and says so.

        Raises:
            TransactionError: There was one.
        """
        if self.transaction is not None:
            self.rollback()
            raise TransactionError(
                "A transaction was left open: it was rolled back. End it with COMMIT to keep it."
            )

    def _own_transaction(self, statement: str) -> Transaction:
        """The transaction that `begin()` began."""
        self.require_open()
        if self.transaction is None:
            raise TransactionError(
                f"There is no transaction in this thread for {statement}. Begin one first."
            )
        if self._state.in_block:
            raise TransactionError(
                f"{statement} cannot stand inside of `with lake.transaction():`: the end of the block commits, an "
                "exception that leaves it rolls back."
            )
        return self.transaction

    def _undo(self) -> None:
        for undo in reversed(self._state.undo):
            undo()

    def abort(self) -> None:
        """A statement failed while it ran: nothing but the end of its transaction is left."""
        if self.transaction is not None and not self._state.in_block:
            self._state.aborted = True

    def _require_not_aborted(self) -> None:
        if self.transaction is not None and self._state.aborted:
            raise TransactionError(
                "The transaction is aborted, because a statement of it failed while it ran. Use ROLLBACK."
            )

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Handles that follow a change go back when its transaction does."""
        if self.transaction is not None:
            self._state.undo.append(undo)

    # What the catalog says of snapshots.

    def snapshot_rows(self, newest: int | None = None) -> list[tuple[Any, ...]]:
        """The snapshots with what they changed, in order: all, or so many of the newest."""
        self.require_open()
        sql = described_sql(self.store)
        if newest is None:
            return self.store.query(sql)
        return self.store.query(f"{sql} DESC LIMIT {newest:d}")[::-1]

    def snapshot_values(self, newest: int | None = None) -> list[tuple[Any, ...]]:
        """The rows of `snapshots()`, for those who have no Spark; all, or so many of the newest."""
        return described(self.snapshot_rows(newest))


def described(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of `described_sql` as `snapshots()` shows them."""
    return [
        (
            snapshot_id,
            EPOCH + timedelta(microseconds=int(micros)),
            schema_version,
            changes_map(parse_changes(changes)),
            *words,
        )
        for snapshot_id, micros, schema_version, changes, *words in rows
    ]


class HasScope(Protocol):
    """A handle: a `Lake` or a `Table`."""

    _scope: Scope


def scope_of(handle: HasScope) -> Scope:
    """The scope of a handle, for modules of this package."""
    return handle._scope  # noqa: SLF001  # the one door


@contextmanager
def _said_only(what: str) -> Iterator[None]:
    """For what comes after a commit: an error there would be taken for one of the commit, and all be done again."""
    try:
        yield
    except Exception as error:
        _log.warning("The commit is done, but %s: %s", what, error)


@contextmanager
def _discarding(transaction: Transaction) -> Iterator[None]:
    """Removes the files of a transaction that did not commit; not when that is unknown."""
    try:
        yield
    except CommitUnknownError:
        raise
    except BaseException:
        transaction.discard()
        raise


def _holds(tx: Transaction, schema: SchemaDef, name: str) -> bool:
    if tx.table(schema, name) is not None or tx.view(schema, name) is not None:
        return True
    return any(fold(macro.name) == fold(name) for macro in tx.macros(schema))
