"""A transaction: a start snapshot, pending changes that its own reads see, and a commit that loses nothing."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from ducklake_spark.catalog.snapshot import SnapshotReader, from_query, since_query, snapshot_of
from ducklake_spark.catalog.states import table_states
from ducklake_spark.catalog.store import CommitOutcomeUnknown, Failure, Query, Row, Session, Store
from ducklake_spark.catalog.tables import insert_columns
from ducklake_spark.errors import (
    CatalogConnectionError,
    CommitUnknownError,
    ConflictError,
    DuckLakeError,
    FileError,
    RetryLimitError,
    TransactionError,
)
from ducklake_spark.format.changes import ChangeSet, parse_changes
from ducklake_spark.format.conflicts import ConcurrentChanges, check
from ducklake_spark.format.data import DeleteFile
from ducklake_spark.format.edits import Change, DeleteRows, Edit, Edits, TruncateTable
from ducklake_spark.format.objects import MacroDef, SchemaDef, Snapshot, TableDef, ViewDef, is_local
from ducklake_spark.format.options import Options
from ducklake_spark.format.rows import NOW, Batch, CommitInfo, Insert, InsertInlined, TableState, build
from ducklake_spark.format.types import duckdb_name, fold, walk
from ducklake_spark.storage import local_path, whole_path

T = TypeVar("T", TableDef, ViewDef)

_SNAPSHOT_COLUMNS = insert_columns("ducklake_snapshot", 5)
_INLINED_ROWS = 200
"""How many inlined rows go into one statement of a DuckDB catalog."""
UNKNOWN_SECONDS = 30.0
"""How long a server may stay away before the outcome of a lost COMMIT counts as unknown: long enough to restart."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often a commit is tried, and how long it waits between tries."""

    max_retry_count: int = 10
    retry_wait_ms: float = 100
    retry_backoff: float = 1.5

    def wait(self, attempt: int, failure: Failure) -> None:
        """Sleeps before the next attempt, for a time that differs between rivals.

        The first collision is not waited for: it was reported when the winner had committed, and the next attempt
        looks at what it did, in its turn among the writers of this package.
        """
        if attempt == 0 and failure is Failure.COLLISION:
            return
        factor = random.uniform(0.5, 1.0) * self.retry_backoff**attempt
        time.sleep(self.retry_wait_ms / 1000 * factor)


class Transaction:
    """Changes on top of one snapshot. Reads see the snapshot with the changes; nobody else sees them before commit."""

    def __init__(
        self, reader: SnapshotReader, options: Options, policy: RetryPolicy, info: CommitInfo | None = None
    ) -> None:
        self.reader, self._options, self._policy = reader, options, policy
        self.info = info or CommitInfo()
        self.edits = Edits()
        self.restamp: Callable[[DeleteFile, int], DeleteFile] | None = None
        """Writes a delete file again with another snapshot id; set by whoever writes such files."""
        self.checks: list[Callable[[Session], None]] = []
        """What is looked at inside the commit when others committed since the start; raises ConflictError."""
        self.written: list[str] = []
        """Files that were written for it; they are removed unless it commits."""
        self.remove: Callable[[Iterable[str]], None] = _remove
        """Removes such files, as far as that works; set by whoever knows how to reach object stores."""

    def without_edits(self) -> Transaction:
        """Another one at the same snapshot, for reads that are not to see what this one changes later."""
        return Transaction(self.reader, self._options, self._policy)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """All that is changed inside, or nothing: when it fails, the transaction is as it was, and so are its files."""
        edits, info, written = self.edits.copy(), self.info, list(self.written)
        checks = list(self.checks)
        try:
            yield
        except BaseException:
            self.edits, self.info, self.checks = edits, info, checks
            self.remove(set(self.written).difference(written))
            self.written = written
            raise

    def discard(self) -> None:
        """Removes the files that were written; nothing refers to them."""
        if self.written:
            self.remove(self.written)
        self.written = []

    def require_files(self) -> None:
        """Raises FileError for files that were written for it, on this machine, and are gone before its commit."""
        wanted = self._named().intersection(self.written)
        gone = [
            path
            for path in sorted(wanted)
            if (local := local_path(whole_path(path))) and not os.path.exists(local)
        ]
        if gone:
            others = f" and {len(gone) - 1} others" if len(gone) > 1 else ""
            raise FileError(
                f"{gone[0]}{others}, written for this transaction, {'are' if others else 'is'} gone: something removes "
                "files that no snapshot names yet, such as delete_orphaned_files(cleanup_all=True). Nothing was "
                "committed; run it again."
            )

    def tidy(self) -> None:
        """Removes the files that were written and that the commit did not name: of tables dropped, files replaced."""
        named = self._named()
        self.written = [path for path in self.written if path not in named]
        self.discard()

    def _named(self) -> set[str]:
        """The files that its snapshot names, among older ones."""
        named: set[str] = set()
        for edit in self.edits.tables.values():
            if edit.now is not None:
                named.update(file.whole_path for file in edit.files)
                named.update(file.whole_path for file in edit.own_deletes.values())
                named.update(each.file.whole_path for each in edit.deletes.values() if each.file is not None)
                named.update(edit.flushed.whole_paths if edit.flushed is not None else ())
                for compaction in edit.compactions:
                    named.update(each.file.whole_path for each in compaction.written)
        return named

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that it began with."""
        return self.reader.snapshot

    @property
    def store(self) -> Store:
        """The catalog database."""
        return self.reader.store

    @property
    def is_encrypted(self) -> bool:
        """Whether the files of the lake are encrypted."""
        return self._options.get("encrypted") == "true"

    @property
    def options(self) -> Options:
        """The options in force, own changes included."""
        return self._options.overlaid(self.edits.options)

    def apply(self, change: Change) -> None:
        """Adds a change that was checked against what this transaction sees.

        Raises:
            TransactionError: Rows would be deleted that a flush of this transaction put into files.
        """
        if isinstance(change, (DeleteRows, TruncateTable)):
            self._require_not_flushed(change)
        self.edits.apply(change)

    def _require_not_flushed(self, change: DeleteRows | TruncateTable) -> None:
        edit = self.edits.tables.get(change.table.table_id)
        own_only = isinstance(change, DeleteRows) and not change.files and not change.inlined
        if edit is not None and edit.flushed is not None and not own_only:
            raise TransactionError(
                f'Rows of table "{change.table.name}" cannot be deleted or updated in the transaction that flushed its '
                "inlined data: the files have no place for it. Commit the flush first."
            )

    # What the transaction sees.

    def schemas(self) -> list[SchemaDef]:
        """All schemas."""
        pending = self.edits.schemas
        seen = [schema for schema in self.reader.schemas() if schema.schema_id not in pending]
        return seen + [edit.now for edit in pending.values() if edit.now is not None]

    def schema(self, name: str) -> SchemaDef | None:
        """The schema with this name."""
        return next((schema for schema in self.schemas() if fold(schema.name) == fold(name)), None)

    def schema_of(self, schema_id: int) -> SchemaDef:
        """The schema with this id."""
        return next(schema for schema in self.schemas() if schema.schema_id == schema_id)

    def look_up(self, schema: SchemaDef, name: str) -> None:
        """Asks for the table and the view of a name at once, when both will be wanted."""
        if not is_local(schema.schema_id):
            self.reader.look_up(schema.schema_id, name)

    def table(self, schema: SchemaDef, name: str) -> TableDef | None:
        """The table with this name."""
        found = _pending(self.edits.tables, schema, name)
        if found is None and not is_local(schema.schema_id):
            found = self.reader.table(schema.schema_id, name)
            if found is not None and found.table_id in self.edits.tables:
                return None
        return found

    def table_of(self, table_id: int) -> TableDef | None:
        """The table with this id."""
        if table_id in self.edits.tables:
            return self.edits.tables[table_id].now
        return None if is_local(table_id) else self.reader.table_of(table_id)

    def all_tables(self) -> list[TableDef]:
        """Every table with its columns."""
        pending = self.edits.tables
        seen = [table for table in self.reader.all_tables() if table.table_id not in pending]
        return seen + [edit.now for edit in pending.values() if edit.now is not None]

    def view(self, schema: SchemaDef, name: str) -> ViewDef | None:
        """The view with this name."""
        found = _pending(self.edits.views, schema, name)
        if found is None and not is_local(schema.schema_id):
            found = self.reader.view(schema.schema_id, name)
            if found is not None and found.view_id in self.edits.views:
                return None
        return found

    def macros(self, schema: SchemaDef) -> list[MacroDef]:
        """All macros of a schema."""
        pending = self.edits.macros
        seen = [] if is_local(schema.schema_id) else self.reader.macros(schema.schema_id)
        return [macro for macro in seen if macro.macro_id not in pending] + [
            edit.now for edit in pending.values() if edit.now and edit.now.schema_id == schema.schema_id
        ]

    def macro(self, schema: SchemaDef, name: str, *, table: bool) -> MacroDef | None:
        """The scalar or table macro with this name."""
        wanted = (macro for macro in self.macros(schema) if macro.is_table == table)
        return next((macro for macro in wanted if fold(macro.name) == fold(name)), None)

    def table_names(self, schema: SchemaDef) -> list[str]:
        """The names of the tables of a schema."""
        seen = [] if is_local(schema.schema_id) else self.reader.tables(schema.schema_id)
        return _names([(e.object_id, e.name) for e in seen], self.edits.tables, schema)

    def view_names(self, schema: SchemaDef) -> list[str]:
        """The names of the views of a schema."""
        seen = [] if is_local(schema.schema_id) else self.reader.views(schema.schema_id)
        return _names([(e.object_id, e.name) for e in seen], self.edits.views, schema)

    def can_inline(self, table: TableDef) -> bool:
        """Whether small inserts into this table may live in the catalog."""
        if self.options.inlining_limit(schema_id=table.schema_id, table_id=table.table_id) == 0:
            return False
        if not self.store.can_hold([column.name for column in table.columns]):
            return False
        for column in table.columns:
            kinds = {part.name for part in walk(column.data_type)}
            if "geometry" in kinds or ("variant" in kinds and self.store.kind != "duckdb"):
                return False
            if fold(column.name) in self.store.format.reserved_names:
                return False
            if self.store.inlined_type(_inlined_type_text(table, column.column_id)) is None:
                return False
        return True

    # Commit.

    def commit(self) -> int | None:
        """Writes all changes as one snapshot.

        Returns:
            The id of the new snapshot, or None when nothing changed.

        Raises:
            ConflictError: Others committed something that cannot be combined with this.
            RetryLimitError: It lost against others as often as it was allowed to try.
            CommitUnknownError: The connection was lost and the outcome could not be found out.
        """
        if not self.edits:
            return None
        self._require_message()
        if self.edits.mixes_compaction:
            raise TransactionError(
                "A transaction can either make changes or compact files, not both: compaction is alone in its "
                "snapshot. Nothing was written; compact before or after it."
            )
        store = self.store
        failure = Failure.COLLISION
        for attempt in range(max(1, self._policy.max_retry_count)):
            if attempt:
                self._policy.wait(attempt - 1, failure)
            batch: Batch | None = None
            marker: int | None = None
            try:
                # Where the first attempt cannot look first, what was there at the start is what will be there.
                is_locked = store.commit_lock_sql is not None
                looks = bool(attempt) or store.serializes_writers or is_locked
                at_start = None if looks else self._states_at_start()
                looks, states = looks or at_start is None, at_start or {}
                with store.begin() as session:
                    if store.commit_lock_sql is not None:
                        session.execute(store.commit_lock_sql)
                    latest = self.snapshot
                    if looks:
                        latest, states = (self._looked if is_locked else self._looked_apart)(session)
                    self._restamp(latest.snapshot_id + 1)
                    batch = build(
                        self.edits,
                        latest,
                        self.can_inline,
                        self.info,
                        states,
                        store.format,
                        store.inlined_columns,
                    )
                    self._write(session, batch)
                    marker = self._marker(session, batch)
            except CommitOutcomeUnknown as unknown:
                assert batch is not None
                if not self._was_committed(unknown, batch, marker):
                    last: BaseException = unknown
                    failure = Failure.LOST
                    continue
            except store.driver_errors as error:
                failure = store.classify(error)
                if failure is Failure.FATAL:
                    raise store.translated(error) from error
                last = error
                continue
            if (
                batch.makes_snapshot
                and batch.snapshot_id == self.snapshot.snapshot_id + 1
                and not self.edits.schemas
            ):
                self.reader.keep_schemas(batch.schema_version)
            return batch.snapshot_id if batch.makes_snapshot else None
        raise RetryLimitError(
            f"Could not commit to {store.display}: {self._policy.max_retry_count} attempts lost against other "
            "transactions (max_retry_count). Nothing was written; try again, or attach with a higher "
            f"max_retry_count or retry_wait_ms. The last one ended with: {str(last).strip()}"
        ) from last

    def _looked(self, session: Session) -> tuple[Snapshot, dict[int, TableState]]:
        """The newest snapshot, found to be compatible, and what tables have in it: one round trip if nothing is odd."""
        asked_since = since_query(self.store, self.snapshot.snapshot_id)
        since: list[Row] = []

        def run(asked: Sequence[Query]) -> list[list[Row]]:
            rows, *found = session.query_many([asked_since, *asked])
            since.extend(rows)
            return found

        states = self._states(run, self.snapshot)
        since = since or session.query(*asked_since)
        # A snapshot that nothing describes is none of these, but may be the newest.
        latest = self._checked(session, since) if since else self._checked_latest(session)
        for look in self.checks:
            look(session)
        if latest.schema_version != self.snapshot.schema_version:
            states = self._states(session.query_many, latest)
        return latest, states

    def _looked_apart(self, session: Session) -> tuple[Snapshot, dict[int, TableState]]:
        """The same, by small queries: of a database that is near, or has kept others out."""
        latest = self._checked_latest(session)
        for look in self.checks:
            look(session)
        return latest, self._states(session.query_many, latest)

    def _states_at_start(self) -> dict[int, TableState] | None:
        """What tables have, and in the same round trip whether the snapshot with which this began is still there.

        None when it is no longer the newest: the next one may be expired already, and its key could be taken again.
        """
        later: list[Row] = []

        def run(asked: Sequence[Query]) -> list[list[Row]]:
            *rows, start = self.store.query_many([*asked, from_query(self.store, self.snapshot)])
            self._require_start(start)
            later.extend(start[1:])
            return rows

        states = self._states(run, self.snapshot)
        return None if later else states

    def _require_start(self, rows: Sequence[Row]) -> None:
        """Refuses to build on a snapshot that is gone, or that is another one than it was."""
        if not rows or snapshot_of(rows) != self.snapshot:
            raise ConflictError(
                f"Transaction conflict: snapshot {self.snapshot.snapshot_id}, with which this transaction began, is no "
                "longer in the catalog as it was (expired, or the catalog was restored from a backup). Nothing was "
                "written; run it again on the new snapshot."
            )

    def _states(
        self, run: Callable[[Sequence[Query]], list[list[Row]]], latest: Snapshot
    ) -> dict[int, TableState]:
        return table_states(self.edits, run, self.reader.cache, latest.schema_version)

    def _restamp(self, snapshot_id: int) -> None:
        """Delete files with history name the snapshot of each delete: after a lost race that is another one."""
        for edit in self.edits.tables.values():
            for file_id, deletes in edit.deletes.items():
                file = deletes.file
                if file is not None and file.stamp is not None and file.stamp != snapshot_id:
                    assert self.restamp is not None
                    edit.deletes[file_id] = replace(deletes, file=self.restamp(file, snapshot_id))

    def _require_message(self) -> None:
        required = self.options.get("require_commit_message") == "true"
        if required and self.edits.makes_snapshot and not self.info.given:
            raise TransactionError(
                "The lake requires a commit message (option require_commit_message). Use "
                "lake.transaction(author=..., message=...) or lake.set_commit_message(...)."
            )

    def _checked_latest(self, session: Session) -> Snapshot:
        """The newest snapshot, after what others committed since the start was found to be compatible."""
        start = self.snapshot.snapshot_id
        rows = session.query(*from_query(self.store, self.snapshot))
        if rows and rows[0][0] == start:
            self._require_start(rows)
            if len(rows) == 1:
                return self.snapshot
        return self._checked(session, session.query(*since_query(self.store, start)))

    def _checked(self, session: Session, rows: Sequence[Row]) -> Snapshot:
        """The last of these snapshots, from the one at the start on, if all are there and can be combined with this."""
        start = self.snapshot.snapshot_id
        if rows and rows[0][0] == start:
            self._require_start([rows[0][:-1]])
        *between, latest = rows or [(-1,)]
        later = [row for row in (*between, latest) if row[0] > start]
        if latest[0] < start or len(later) != latest[0] - start:
            raise ConflictError(
                f"Transaction conflict: the snapshots after {start}, with which this transaction began, are no longer "
                "all in the catalog (expired, or restored from a backup), so it cannot be compared with them. Nothing "
                "was written; run it again on the new snapshot."
            )
        if later:
            self._check_conflicts(session, later)
        return snapshot_of([latest[:-1]])

    def _check_conflicts(self, session: Session, later: list[Row]) -> None:
        start = self.snapshot
        concurrent = ConcurrentChanges(ChangeSet())
        for row in later:
            concurrent.changes.merge(parse_changes(row[-1]))
        # A rename is logged as a creation; only the ids of the new rows tell which object it was.
        if concurrent.changes.created_tables:
            concurrent.renamed_tables = _ids(session, "ducklake_table", "table_id", start)
        if concurrent.changes.created_views:
            concurrent.renamed_views = _ids(session, "ducklake_view", "view_id", start)
        names = {schema.schema_id: schema.name for schema in self.reader.schemas()}
        own = self.edits.own_changes(names)
        concurrent.deleted_files = _touched_files(
            session,
            self.store,
            sorted({*own.deleted_files, *own.compacted_files}),
            self.edits,
            start,
        )
        concurrent.ended_rows = _ended_rows(session, self.store, own.ended_rows, start)
        check(own, concurrent)

    def _write(self, session: Session, batch: Batch) -> None:
        store = self.store
        if not store.transactional_ddl:  # there, CREATE TABLE would end the transaction
            self._create_inlined_tables(session, batch)
        if batch.makes_snapshot:
            session.execute(
                f"INSERT INTO ducklake_snapshot{_SNAPSHOT_COLUMNS} VALUES (?, {store.now_sql}, ?, ?, ?)",
                (batch.snapshot_id, batch.schema_version, batch.next_catalog_id, batch.next_file_id),
            )
        if store.transactional_ddl:  # as the extension does: another order could deadlock with it
            self._create_inlined_tables(session, batch)
        if self.edits.options and store.options_lock_sql:
            session.execute(store.options_lock_sql)
        for statement in batch.statements:
            if isinstance(statement, Insert):
                session.insert(statement.table, statement.rows)
            elif isinstance(statement, InsertInlined):
                _insert_inlined(session, statement)
            else:
                session.execute(statement.sql.replace(NOW, store.now_sql), statement.params)

    def _create_inlined_tables(self, session: Session, batch: Batch) -> None:
        store = self.store
        for name, table in batch.inlined_tables:
            columns = [(each, "BIGINT") for each in store.format.inlined.all]
            for column in table.columns:
                physical = store.inlined_type(_inlined_type_text(table, column.column_id))
                assert physical is not None
                columns.append((column.name, physical))
            session.create_table(store.create_table_sql(name, columns, constraints=False))
        for name in batch.delete_tables:
            if not store.has_table(name):
                deleted = [("file_id", "BIGINT"), ("row_id", "BIGINT"), ("begin_snapshot", "BIGINT")]
                session.create_table(store.create_table_sql(name, deleted, constraints=False))

    def _marker(self, session: Session, batch: Batch) -> int | None:
        """The time of the new snapshot, by which it is known again where the database cannot name transactions."""
        if not self.store.needs_marker or not batch.makes_snapshot:
            return None
        rows = session.query(
            f"SELECT {self.store.micros_sql('snapshot_time')} FROM ducklake_snapshot WHERE snapshot_id = ?",
            (batch.snapshot_id,),
        )
        return int(rows[0][0])

    def _was_committed(self, unknown: CommitOutcomeUnknown, batch: Batch, marker: int | None) -> bool:
        end = time.monotonic() + UNKNOWN_SECONDS
        while True:
            try:
                return self._is_in_catalog(unknown, batch, marker)
            except DuckLakeError as error:
                if isinstance(error, CatalogConnectionError) and time.monotonic() < end:
                    time.sleep(0.1)
                    continue
                raise CommitUnknownError(
                    f"The connection to {self.store.display} was lost during COMMIT of snapshot {batch.snapshot_id}, "
                    "and it could not be found out whether it exists. Look at lake.snapshots() when the database is "
                    f'back; if the snapshot is there with the changes "{batch.changes_made}", it was committed.'
                ) from error

    def _is_in_catalog(self, unknown: CommitOutcomeUnknown, batch: Batch, marker: int | None) -> bool:
        store = self.store
        settled = store.settled(unknown)
        if settled is not None:
            return settled
        rows = store.query(
            f"SELECT {store.micros_sql('s.snapshot_time')}, c.changes_made FROM ducklake_snapshot s JOIN "
            "ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id WHERE s.snapshot_id = ?",
            (batch.snapshot_id,),
        )
        return bool(rows) and int(rows[0][0]) == marker and rows[0][1] == batch.changes_made


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(OSError):
            os.remove(path)


def _insert_inlined(session: Session, statement: InsertInlined) -> None:
    """Rows of an inlined data table; in a DuckDB catalog each value is cast from its text."""
    if not statement.casts:
        session.insert(statement.table, statement.rows)
        return
    row = f"(?, ?, ?, {', '.join(statement.casts)})"
    for start in range(0, len(statement.rows), _INLINED_ROWS):
        rows = statement.rows[start : start + _INLINED_ROWS]
        session.execute(
            # By position: its columns are those of the table, in the same order in every format.
            f'INSERT INTO "{statement.table}" VALUES {", ".join([row] * len(rows))}',
            [value for values in rows for value in values],
        )


def _touched_files(
    session: Session, store: Store, file_ids: list[int], edits: Edits, start: Snapshot
) -> dict[int, int | None]:
    """Which of my files others ended, removed or deleted from since, and in which snapshot as far as that is known."""
    touched: dict[int, int | None] = {}
    at = start.snapshot_id
    for first in range(0, len(file_ids), 500):
        ids = file_ids[first : first + 500]
        marks = ", ".join("?" * len(ids))
        known = {
            int(file_id): None if end is None else int(end)
            for file_id, end in session.query(
                f"SELECT data_file_id, end_snapshot FROM ducklake_data_file WHERE data_file_id IN ({marks})",
                ids,
            )
        }
        # Deletes of files that ended before are moved too.
        touched |= {file_id: known.get(file_id) for file_id in ids if (known.get(file_id, at + 1) or 0) > at}
        for file_id, begin, last in session.query(
            # New ids as well: after a lost race the extension leaves numbers of older snapshots in its delete files.
            "SELECT data_file_id, begin_snapshot, partial_max FROM ducklake_delete_file WHERE (begin_snapshot > ? OR "
            f"partial_max > ? OR delete_file_id >= ?) AND data_file_id IN ({marks})",
            (at, at, start.next_file_id, *ids),
        ):
            # One that a flush made has old deletes only.
            touched[int(file_id)] = int(last or begin) if int(last or begin) > at else None
        for table_id, edit in edits.tables.items():
            name = f"ducklake_inlined_delete_{table_id}"
            if (edit.deletes or edit.emptied or edit.flushed or edit.compactions) and store.has_table(name):
                for file_id, begin in session.query(
                    f'SELECT file_id, begin_snapshot FROM "{name}" WHERE begin_snapshot > ? AND file_id IN ({marks})',
                    (at, *ids),
                ):
                    touched[int(file_id)] = int(begin)
    return touched


def _ended_rows(
    session: Session, store: Store, tables: Mapping[int, Mapping[str, set[int]]], start: Snapshot
) -> dict[tuple[str, int], int]:
    """Which of the inlined rows that I delete others deleted since, and in which snapshot."""
    found: dict[tuple[str, int], int] = {}
    for names in tables.values():
        for name, row_ids in names.items():
            if not row_ids or not store.has_table(name):
                continue
            wanted, own = sorted(row_ids), store.inlined_columns(name)
            for first in range(0, len(wanted), 500):
                ids = wanted[first : first + 500]
                rows = session.query(
                    f'SELECT {own.row_id}, {own.end} FROM "{name}" WHERE {own.end} > ? AND {own.row_id} IN '
                    f"({', '.join('?' * len(ids))})",
                    (start.snapshot_id, *ids),
                )
                found |= {(name, int(row_id)): int(end) for row_id, end in rows}
    return found


def _ids(session: Session, table: str, key: str, start: Snapshot) -> set[int]:
    rows = session.query(
        f"SELECT {key} FROM {table} WHERE begin_snapshot > ? AND {key} < ?",
        (start.snapshot_id, start.next_catalog_id),
    )
    return {int(row[0]) for row in rows}


def _pending(edits: Mapping[int, Edit[T]], schema: SchemaDef, name: str) -> T | None:
    wanted = fold(name)
    for edit in edits.values():
        now = edit.now
        if now is not None and now.schema_id == schema.schema_id and fold(now.name) == wanted:
            return now
    return None


def _names(seen: list[tuple[int, str]], edits: Mapping[int, Edit[T]], schema: SchemaDef) -> list[str]:
    return [name for object_id, name in seen if object_id not in edits] + [
        edit.now.name for edit in edits.values() if edit.now and edit.now.schema_id == schema.schema_id
    ]


def _inlined_type_text(table: TableDef, column_id: int) -> str:
    column = next(column for column in table.columns if column.column_id == column_id)
    return duckdb_name(column.data_type) if column.children else column.type
