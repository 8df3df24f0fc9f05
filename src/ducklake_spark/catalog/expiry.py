"""Expiry: snapshots are forgotten, and with them all rows of the catalog that no other snapshot sees.

One transaction of the database, and no new snapshot. What another writer commits meanwhile sees the newest snapshot,
which always stays: a row that is unreachable here stays so. Files are scheduled for deletion, not deleted. A file that
another row names as well (one that was added twice) is scheduled when the last such row goes; the extension schedules
it with the first, and its cleanup then takes the file from the other table.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TypeVar

from ducklake_spark.catalog.lake_files import Folders, still_named, table_folders, whole_paths
from ducklake_spark.catalog.pool import quoted
from ducklake_spark.catalog.snapshot import described_sql
from ducklake_spark.catalog.store import CommitOutcomeUnknown, Failure, Row, Session, Store
from ducklake_spark.catalog.tables import ALL_TABLES
from ducklake_spark.catalog.transaction import RetryPolicy
from ducklake_spark.errors import CatalogConnectionError, RetryLimitError
from ducklake_spark.format import paths
from ducklake_spark.format.objects import EPOCH

T = TypeVar("T")
Chosen = Callable[[int, int], bool]
"""Whether a snapshot is to be expired, by its id and its time in microseconds since 1970."""

_CHUNK = 20_000
"""How many ids stand in one statement: each looks at the whole table, as few have an index for it."""
_UNREACHABLE = (
    "(end_snapshot IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ducklake_snapshot WHERE snapshot_id >= begin_snapshot "
    "AND snapshot_id < end_snapshot))"
)
_OF_FILES = ("ducklake_file_column_stats", "ducklake_file_variant_stats", "ducklake_file_partition_value")
_OF_TABLES = (
    "ducklake_table",
    "ducklake_table_stats",
    "ducklake_table_column_stats",
    "ducklake_partition_info",
    "ducklake_partition_column",
    "ducklake_column",
    "ducklake_column_tag",
    "ducklake_sort_info",
    "ducklake_sort_expression",
    "ducklake_schema_versions",
    "ducklake_inlined_data_tables",
    "ducklake_column_mapping",
)
_OF_SNAPSHOTS = ("ducklake_schema", "ducklake_view", "ducklake_tag", "ducklake_macro")
_PARTS = (
    ("ducklake_name_mapping", "ducklake_column_mapping", "mapping_id"),
    ("ducklake_macro_impl", "ducklake_macro", "macro_id"),
    ("ducklake_macro_parameters", "ducklake_macro", "macro_id"),
)
_INLINED = "ducklake_inlined_data_"


def expirable(rows: Sequence[Row], chosen: Chosen) -> list[Row]:
    """Those of a lake's snapshots, as `described_sql` gives them, that are chosen; never the newest."""
    newest = max((int(row[0]) for row in rows), default=0)
    return [row for row in rows if int(row[0]) != newest and chosen(int(row[0]), int(row[1]))]


def expire(store: Store, data_path: str, chosen: Chosen, policy: RetryPolicy) -> list[Row]:
    """Forgets the chosen snapshots, and schedules files for deletion that no other one needs.

    Returns:
        What was expired, with the columns of `described_sql`.
    """
    dropped: list[str] = []

    def work(session: Session) -> list[Row]:
        expired = expirable(session.query(described_sql(store)), chosen)
        dropped.clear()
        if expired:
            dropped.extend(_Expiry(store, session, data_path).run([int(row[0]) for row in expired]))
        return expired

    def done(expired: list[Row]) -> bool:
        remaining = {int(row[0]) for row in store.query("SELECT snapshot_id FROM ducklake_snapshot")}
        return remaining.isdisjoint(int(row[0]) for row in expired)

    expired = in_transaction(store, policy, work, done)
    if dropped and not store.transactional_ddl:
        # Nobody knows these tables any more; one that is left over after a crash only takes space
        in_transaction(store, policy, lambda session: _drop(session.create_table, dropped), lambda _: True)
    return expired


def in_transaction(
    store: Store, policy: RetryPolicy, work: Callable[[Session], T], done: Callable[[T], bool]
) -> T:
    """Runs a change of the catalog that makes no snapshot, in turn with the commits of this package.

    Args:
        store: The database.
        policy: How often it is tried.
        work: The change. It may be run several times.
        done: Whether its result is in the catalog, asked when the connection was lost during COMMIT.
    """
    last: BaseException | None = None
    for attempt in range(max(1, policy.max_retry_count)):
        if attempt:
            policy.wait(attempt - 1, Failure.TRANSIENT)
        result: list[T] = []
        try:
            with store.begin() as session:
                if store.commit_lock_sql is not None:
                    session.execute(store.commit_lock_sql)
                result.append(work(session))
            return result[0]
        except CommitOutcomeUnknown as unknown:
            settled = store.settled(unknown)
            if settled or (settled is None and done(result[0])):
                return result[0]
            last = unknown
        except store.driver_errors as error:
            if store.classify(error) is Failure.FATAL:
                raise store.translated(error) from error
            last = error
    assert last is not None
    if isinstance(last, store.driver_errors) and store.classify(last) is Failure.LOST:
        raise CatalogConnectionError(str(store.translated(last))) from last
    raise RetryLimitError(
        f"The catalog {store.display} was not changed: {policy.max_retry_count} attempts lost against other "
        f"transactions (max_retry_count). Try again. The last one ended with: {str(last).strip()}"
    ) from last


class _Expiry:
    """The rows that go with snapshots, inside of one transaction."""

    def __init__(self, store: Store, session: Session, data_path: str) -> None:
        self.store, self.session, self.data_path = store, session, data_path
        self._kept: list[int] = []

    def run(self, snapshot_ids: Sequence[int]) -> list[str]:
        """Returns the tables of inlined rows that are to be dropped after COMMIT, where it cannot be done before."""
        session = self.session
        for table in ("ducklake_snapshot", "ducklake_snapshot_changes"):
            _delete_in(session, table, "snapshot_id", snapshot_ids)
        self._kept = sorted(int(row[0]) for row in session.query("SELECT snapshot_id FROM ducklake_snapshot"))
        folders = table_folders(session.query, self.data_path)
        dead = self._dead_tables()
        self._remove_files(folders, dead)
        dropped = self._inlined_tables(dead)
        for table in _OF_TABLES:
            _delete_in(session, table, "table_id", dead)
        tags = ("ducklake_view_column_tag",) if self.store.format.has_view_column_tags else ()
        for table in (*_OF_SNAPSHOTS, *tags):
            session.execute(f"DELETE FROM {table} WHERE {_UNREACHABLE}")
        for table, whole, key in _PARTS:
            session.execute(
                f"DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM {whole} w WHERE w.{key} = {table}.{key})"
            )
        if self.store.transactional_ddl:
            _drop(session.execute, dropped)
        return dropped

    def _is_seen(self, begin: int, end: int | None) -> bool:
        """Whether a snapshot that is kept sees a row."""
        place = bisect_left(self._kept, int(begin))
        return end is None or (place < len(self._kept) and self._kept[place] < int(end))

    def _dead_tables(self) -> list[int]:
        """Tables that no snapshot sees under any of their names."""
        seen: dict[int, bool] = defaultdict(bool)
        for table_id, begin, end in self.session.query(
            "SELECT table_id, begin_snapshot, end_snapshot FROM ducklake_table"
        ):
            seen[int(table_id)] |= self._is_seen(begin, end)
        return [table_id for table_id, is_seen in seen.items() if not is_seen]

    def _remove_files(self, folders: Folders, dead: Sequence[int]) -> None:
        session = self.session
        files = self._unreachable_files("ducklake_data_file", "data_file_id", _in("table_id", dead))
        of_files = [*_in("table_id", dead), *_in("data_file_id", list(files))]
        deletes = self._unreachable_files("ducklake_delete_file", "delete_file_id", of_files)
        for table in (*_OF_FILES, "ducklake_data_file"):
            _delete_in(session, table, "data_file_id", list(files))
        _delete_in(session, "ducklake_delete_file", "delete_file_id", list(deletes))
        self._schedule(folders, [*files.values(), *deletes.values()])

    def _unreachable_files(self, table: str, key: str, conditions: Iterable[str]) -> dict[int, Row]:
        """Files that no snapshot sees, and those for which a condition holds: by id, with table and path.

        Sorted out here, because MariaDB would look at every snapshot for each file.
        """
        columns = f"SELECT {key}, table_id, path, path_is_relative, begin_snapshot, end_snapshot FROM {table}"
        ended = self.session.query(f"{columns} WHERE end_snapshot IS NOT NULL")
        found = {int(row[0]): row[:4] for row in ended if not self._is_seen(row[4], row[5])}
        for condition in conditions:
            found |= {int(row[0]): row[:4] for row in self.session.query(f"{columns} WHERE {condition}")}
        return found

    def _schedule(self, folders: Folders, rows: Sequence[Row]) -> None:
        if not rows:
            return
        found = [
            (int(file_id), whole)
            for file_id, table_id, path, relative in rows
            for whole in whole_paths(folders, int(table_id), str(path), relative=bool(relative))
        ]
        needed = still_named(self.session.query, folders, (whole for _, whole in found))
        [(now,)] = self.session.query(f"SELECT {self.store.micros_sql(self.store.now_sql)}")
        time = EPOCH + timedelta(microseconds=int(now))
        self.session.insert(
            "ducklake_files_scheduled_for_deletion",
            [
                (file_id, *paths.relative_to(self.data_path, whole), time)
                for file_id, whole in found
                if whole not in needed
            ],
        )

    def _inlined_tables(self, dead: Sequence[int]) -> list[str]:
        """The tables that hold inlined rows and deletes of dead tables. A catalog may name any other table here."""
        names = [f"ducklake_inlined_delete_{table_id}" for table_id in dead]
        for condition in _in("table_id", dead):
            rows = self.session.query(
                f"SELECT table_name FROM ducklake_inlined_data_tables WHERE {condition}"
            )
            names += [str(name) for (name,) in rows if str(name).startswith(_INLINED)]
        return [name for name in names if name not in ALL_TABLES]


def _drop(run: Callable[[str], None], names: Iterable[str]) -> None:
    for name in names:
        run(f"DROP TABLE IF EXISTS {quoted(name)}")


def _delete_in(session: Session, table: str, column: str, ids: Sequence[int]) -> None:
    for condition in _in(column, ids):
        session.execute(f"DELETE FROM {table} WHERE {condition}")


def _in(column: str, ids: Sequence[int]) -> Iterator[str]:
    """Conditions that hold for a number of ids each, which are numbers and can stand in the text."""
    for start in range(0, len(ids), _CHUNK):
        yield f"{column} IN ({', '.join(f'{each:d}' for each in ids[start : start + _CHUNK])})"
