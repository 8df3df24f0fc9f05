"""The lake at one snapshot: schemas, tables, views and macros, each found by a query of its own and remembered."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ducklake_spark.catalog.store import Query, Row, Store
from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.errors import CatalogError, SnapshotNotFoundError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.objects import (
    MacroDef,
    MacroImpl,
    MacroParameter,
    SchemaDef,
    Snapshot,
    TableDef,
    ViewDef,
    parse_quoted_list,
)
from ducklake_spark.format.partitioning import Partitioning, PartitionKey
from ducklake_spark.format.sorting import Sorting, SortKey
from ducklake_spark.format.types import fold

_KEY = '"key"'  # a reserved word in MySQL

V = TypeVar("V")


class Cache:
    """What was found, by schema version: at one version the catalog never changes. The oldest entries make room."""

    def __init__(self, size: int = 20_000) -> None:
        self._entries: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()
        self._size = size
        self.newest: Snapshot | None = None
        """The newest snapshot that was seen."""

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._entries.clear()
            self.newest = None

    def knows(self, key: tuple[Any, ...]) -> bool:
        """Whether a value is remembered."""
        with self._lock:
            return key in self._entries

    def peek(self, key: tuple[Any, ...]) -> Any:
        """The remembered value, or None."""
        with self._lock:
            return self._entries.get(key)

    def get(self, key: tuple[Any, ...], load: Callable[[], V]) -> V:
        """The remembered value, or the loaded one."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                found: V = self._entries[key]
                return found
        value = load()
        with self._lock:
            self._entries[key] = value
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
        return value


def latest_query(store: Store) -> Query:
    """The newest snapshot."""
    if store.latest_sql is not None:
        return store.latest_sql, ()
    return f"{_snapshot_sql(store)} WHERE snapshot_id = (SELECT max(snapshot_id) FROM ducklake_snapshot)", ()


def from_query(store: Store, snapshot: Snapshot) -> Query:
    """A snapshot and all later ones in order."""
    return f"{_snapshot_sql(store)} WHERE snapshot_id >= ? ORDER BY snapshot_id", (snapshot.snapshot_id,)


def read_newest(store: Store, cache: Cache, *others: Query) -> tuple[Snapshot, list[list[Row]]]:
    """The newest snapshot, and the answers to other queries, in one round trip.

    A catalog that was restored from a backup counts its versions anew: what is remembered of one may be of another. So
    the newest snapshot that was seen must still be there as it was, or all is forgotten.
    """
    known = cache.newest
    query = latest_query(store) if known is None else from_query(store, known)
    rows, *answers = store.query_many([query, *others])
    if known is not None and (not rows or snapshot_of(rows) != known):
        cache.clear()
        return read_newest(store, cache, *others)
    newest = cache.newest = snapshot_of(rows[-1:])
    return newest, answers


def since_query(store: Store, snapshot_id: int) -> Query:
    """A snapshot and all later ones in order, each with its changes as the last value."""
    return (
        f"SELECT s.snapshot_id, {store.micros_sql('s.snapshot_time')}, s.schema_version, s.next_catalog_id, "
        "s.next_file_id, c.changes_made FROM ducklake_snapshot s JOIN ducklake_snapshot_changes c "
        "ON c.snapshot_id = s.snapshot_id WHERE s.snapshot_id >= ? ORDER BY s.snapshot_id",
        (snapshot_id,),
    )


def described_sql(store: Store) -> str:
    """A query for all snapshots with what they changed, the oldest first; times in microseconds since 1970."""
    return (
        f"SELECT s.snapshot_id, {store.micros_sql('s.snapshot_time')}, s.schema_version, c.changes_made, c.author, "
        "c.commit_message, c.commit_extra_info FROM ducklake_snapshot s LEFT JOIN ducklake_snapshot_changes c ON "
        "c.snapshot_id = s.snapshot_id ORDER BY s.snapshot_id"
    )


def _snapshot_sql(store: Store) -> str:
    return (
        f"SELECT snapshot_id, {store.micros_sql('snapshot_time')}, schema_version, next_catalog_id, next_file_id "
        "FROM ducklake_snapshot"
    )


def snapshot_of(rows: Sequence[Row]) -> Snapshot:
    """The snapshot in the rows of `latest_query`."""
    if not rows or rows[0][0] is None:
        raise CatalogError(
            "The lake has no snapshots: its catalog is damaged. Restore ducklake_snapshot from a backup."
        )
    return Snapshot(*(int(value) for value in rows[0]))


def snapshot_at_version(store: Store, version: int) -> Snapshot:
    """The snapshot with this id.

    Raises:
        SnapshotNotFoundError: There is none, or it was expired.
    """
    fits = -(2**63) <= version < 2**63
    rows = store.query(f"{_snapshot_sql(store)} WHERE snapshot_id = ?", (version,)) if fits else []
    if not rows:
        first, last = store.query("SELECT min(snapshot_id), max(snapshot_id) FROM ducklake_snapshot")[0]
        raise SnapshotNotFoundError(
            f"No snapshot found at version {version}: the lake has versions {first} to {last}, less those that were "
            "expired."
        )
    return snapshot_of(rows)


def snapshot_at_time(store: Store, micros: int, text: str) -> Snapshot:
    """The newest snapshot that is not younger than a time.

    Raises:
        SnapshotNotFoundError: All are younger.
    """
    time = store.micros_sql("snapshot_time")
    rows = store.query(
        f"{_snapshot_sql(store)} WHERE {time} <= ? ORDER BY {time} DESC, snapshot_id DESC LIMIT 1", (micros,)
    )
    if not rows:
        raise SnapshotNotFoundError(f"No snapshot found at timestamp {text}: the oldest one is younger.")
    return snapshot_of(rows)


def snapshot_from_time(store: Store, micros: int, text: str) -> Snapshot:
    """The oldest snapshot that is not older than a time.

    Raises:
        SnapshotNotFoundError: All are older.
    """
    time = store.micros_sql("snapshot_time")
    rows = store.query(
        f"{_snapshot_sql(store)} WHERE {time} >= ? ORDER BY {time}, snapshot_id LIMIT 1", (micros,)
    )
    if not rows:
        raise SnapshotNotFoundError(f"No snapshot found from timestamp {text} on: the newest one is older.")
    return snapshot_of(rows)


@dataclass(frozen=True)
class Entry:
    """A table or view in a listing, without its columns."""

    object_id: int
    schema_id: int
    name: str


class SnapshotReader:
    """Looks up objects as of one snapshot."""

    def __init__(self, store: Store, snapshot: Snapshot, cache: Cache) -> None:
        self.store, self.snapshot, self.cache = store, snapshot, cache

    def _cached(self, load: Callable[[], V], *key: Any) -> V:
        return self.cache.get((self.snapshot.schema_version, *key), load)

    def keep_schemas(self, schema_version: int) -> None:
        """Remembers the schemas for the next version too, because what was committed left them as they were."""
        if self.cache.knows((self.snapshot.schema_version, "schemas")):
            self.cache.get((schema_version, "schemas"), self.schemas)

    @property
    def _at(self) -> tuple[int, int]:
        return (self.snapshot.snapshot_id, self.snapshot.snapshot_id)

    def schemas(self) -> tuple[SchemaDef, ...]:
        """All schemas."""

        def load() -> tuple[SchemaDef, ...]:
            rows = self.store.query(
                "SELECT schema_id, schema_uuid, schema_name, path, path_is_relative FROM ducklake_schema "
                f"WHERE {LIVE} ORDER BY schema_id",
                self._at,
            )
            return tuple(
                SchemaDef(i, str(u), name, path, bool(relative)) for i, u, name, path, relative in rows
            )

        return self._cached(load, "schemas")

    def schema_of(self, object_id: int) -> SchemaDef:
        """The schema with this id."""
        return next(schema for schema in self.schemas() if schema.schema_id == object_id)

    def table(self, schema_id: int, name: str) -> TableDef | None:
        """The table with this name, without regard to case."""
        return self._cached(
            lambda: _of_name(_assemble(*self.store.query_many(self._named(schema_id, name))), name),
            "table",
            schema_id,
            fold(name),
        )

    def _named(self, schema_id: int, name: str) -> list[Query]:
        same = self.store.same_name_sql("table_name")
        return self._table_queries(f"schema_id = ? AND {same}", (schema_id, name))

    def table_of(self, table_id: int) -> TableDef | None:
        """The table with this id."""
        return self._cached(
            lambda: next(iter(self._load_tables("table_id = ?", (table_id,))), None), "table id", table_id
        )

    def all_tables(self) -> tuple[TableDef, ...]:
        """Every table with its columns: for statements that look at all of them."""
        return self._cached(lambda: tuple(self._load_tables("1 = 1", ())), "all tables")

    def tables(self, schema_id: int) -> tuple[Entry, ...]:
        """The tables of a schema, without their columns."""
        return self._entries("ducklake_table", "table", schema_id)

    def views(self, schema_id: int) -> tuple[Entry, ...]:
        """The views of a schema."""
        return self._entries("ducklake_view", "view", schema_id)

    def _entries(self, table: str, kind: str, schema_id: int) -> tuple[Entry, ...]:
        def load() -> tuple[Entry, ...]:
            rows = self.store.query(
                f"SELECT {kind}_id, {kind}_name FROM {table} WHERE schema_id = ? AND {LIVE} ORDER BY {kind}_id",
                (schema_id, *self._at),
            )
            return tuple(Entry(i, schema_id, name) for i, name in rows)

        return self._cached(load, table, schema_id)

    def _load_tables(self, where: str, params: Sequence[Any]) -> list[TableDef]:
        """Tables with all their parts, in one round trip."""
        return _assemble(*self.store.query_many(self._table_queries(where, params)))

    def _table_queries(self, where: str, params: Sequence[Any]) -> list[Query]:
        """What `_assemble` takes."""
        scope = f"table_id IN (SELECT table_id FROM ducklake_table WHERE {where} AND {LIVE})"
        inner = (*params, *self._at)
        return [
            (
                "SELECT table_id, table_uuid, schema_id, table_name, path, path_is_relative FROM ducklake_table "
                f"WHERE {where} AND {LIVE} ORDER BY table_id",
                inner,
            ),
            (
                "SELECT table_id, column_id, column_name, column_type, nulls_allowed, initial_default, "
                "default_value, default_value_type, parent_column, column_order, highest FROM (SELECT c.*, "
                f"max(column_id) OVER (PARTITION BY table_id) AS highest FROM ducklake_column c WHERE {scope}) h "
                f"WHERE {LIVE}",
                (*inner, *self._at),
            ),
            (
                f"SELECT object_id, value FROM ducklake_tag WHERE {_KEY} = 'comment' AND value IS NOT NULL AND "
                f"object_id IN (SELECT table_id FROM ducklake_table WHERE {where} AND {LIVE}) AND {LIVE}",
                (*inner, *self._at),
            ),
            (
                "SELECT table_id, column_id, value FROM ducklake_column_tag "
                f"WHERE {_KEY} = 'comment' AND value IS NOT NULL AND {scope} AND {LIVE}",
                (*inner, *self._at),
            ),
            (
                "SELECT i.table_id, i.partition_id, c.column_id, c.transform FROM (SELECT partition_id, table_id "
                f"FROM ducklake_partition_info WHERE {scope} AND {LIVE}) i LEFT JOIN ducklake_partition_column c "
                "ON c.partition_id = i.partition_id ORDER BY i.partition_id, c.partition_key_index",
                (*inner, *self._at),
            ),
            (
                "SELECT i.table_id, i.sort_id, e.expression, e.sort_direction, e.null_order, e.dialect FROM "
                f"(SELECT sort_id, table_id FROM ducklake_sort_info WHERE {scope} AND {LIVE}) i JOIN "
                "ducklake_sort_expression e ON e.sort_id = i.sort_id ORDER BY i.sort_id, e.sort_key_index",
                (*inner, *self._at),
            ),
        ]

    def view(self, schema_id: int, name: str) -> ViewDef | None:
        """The view with this name, without regard to case."""
        return self._cached(
            lambda: _view(self.store.query_many(self._view_queries(schema_id, name)), name),
            "view",
            schema_id,
            fold(name),
        )

    def _view_queries(self, schema_id: int, name: str) -> list[Query]:
        """What `_view` takes."""
        same, inner = self.store.same_name_sql("view_name"), (schema_id, name, *self._at)
        return [
            (
                'SELECT view_id, view_uuid, schema_id, view_name, dialect, "sql", column_aliases '
                f"FROM ducklake_view WHERE schema_id = ? AND {same} AND {LIVE}",
                inner,
            ),
            (
                f"SELECT object_id, value FROM ducklake_tag WHERE {_KEY} = 'comment' AND value IS NOT NULL AND "
                f"object_id IN (SELECT view_id FROM ducklake_view WHERE schema_id = ? AND {same}) AND {LIVE}",
                inner,
            ),
        ]

    def look_up(self, schema_id: int, name: str) -> None:
        """Finds the table and the view of a name in one round trip, for those who will ask for both."""
        keys = ("table", schema_id, fold(name)), ("view", schema_id, fold(name))
        if any(self.cache.knows((self.snapshot.schema_version, *key)) for key in keys):
            return
        of_table, of_view = self._named(schema_id, name), self._view_queries(schema_id, name)
        answers = self.store.query_many([*of_table, *of_view])
        table = _of_name(_assemble(*answers[: len(of_table)]), name)
        view = _view(answers[len(of_table) :], name)
        self._cached(lambda: table, *keys[0])
        self._cached(lambda: view, *keys[1])

    def macros(self, schema_id: int) -> tuple[MacroDef, ...]:
        """All macros of a schema."""

        def load() -> tuple[MacroDef, ...]:
            scope = f"macro_id IN (SELECT macro_id FROM ducklake_macro WHERE schema_id = ? AND {LIVE})"
            inner = (schema_id, *self._at)
            macros, impls, parameters = self.store.query_many(
                [
                    (
                        f"SELECT macro_id, macro_name FROM ducklake_macro WHERE schema_id = ? AND {LIVE} "
                        "ORDER BY macro_id",
                        inner,
                    ),
                    (
                        'SELECT macro_id, impl_id, dialect, "sql", type FROM ducklake_macro_impl '
                        f"WHERE {scope} ORDER BY macro_id, impl_id",
                        inner,
                    ),
                    (
                        "SELECT macro_id, impl_id, parameter_name, parameter_type, default_value, default_value_type "
                        f"FROM ducklake_macro_parameters WHERE {scope} ORDER BY macro_id, impl_id, column_id",
                        inner,
                    ),
                ]
            )
            by_impl = defaultdict(list)
            for macro_id, impl_id, name, type_, value, value_type in parameters:
                has_default = value is not None and not (value == "NULL" and value_type == "unknown")
                by_impl[macro_id, impl_id].append(
                    MacroParameter(name, type_, value if has_default else None, value_type)
                )
            by_macro = defaultdict(list)
            for macro_id, impl_id, dialect, sql, type_ in impls:
                by_macro[macro_id].append(MacroImpl(sql, type_, tuple(by_impl[macro_id, impl_id]), dialect))
            return tuple(MacroDef(i, schema_id, name, tuple(by_macro[i])) for i, name in macros)

        return self._cached(load, "macros", schema_id)


def _of_name(tables: Iterable[TableDef], name: str) -> TableDef | None:
    return next((table for table in tables if fold(table.name) == fold(name)), None)


def _view(answers: Sequence[Sequence[Row]], name: str) -> ViewDef | None:
    rows, tags = answers
    comments = {int(object_id): str(value) for object_id, value in tags}
    for i, u, schema, view_name, dialect, sql, aliases in rows:
        if fold(view_name) == fold(name):
            names = parse_quoted_list(aliases)
            return ViewDef(i, str(u), schema, view_name, dialect, sql, names, comments.get(i))
    return None


def _assemble(
    tables: Iterable[Row],
    columns: Iterable[Row],
    tags: Iterable[Row],
    column_tags: Iterable[Row],
    partitions: Iterable[Row],
    sorts: Iterable[Row],
) -> list[TableDef]:
    children: dict[tuple[int, int | None], list[Row]] = defaultdict(list)
    next_ids: dict[int, int] = {}
    for row in sorted(
        columns, key=lambda row: (row[0], row[9], row[1])
    ):  # by order; MySQL sorts long texts slowly
        children[row[0], row[8]].append(row)
        next_ids[row[0]] = int(row[10]) + 1
    comments = {int(object_id): str(value) for object_id, value in tags}
    column_comments = {(table_id, column_id): value for table_id, column_id, value in column_tags}
    partition_of: dict[int, Partitioning] = {}
    for table_id, partition_id, column_id, transform in partitions:
        known = partition_of.get(table_id)
        keys = known.keys if known is not None and known.partition_id == partition_id else ()
        key = () if column_id is None else (PartitionKey(column_id, transform),)
        partition_of[table_id] = Partitioning(partition_id, keys + key)
    sort_of: dict[int, Sorting] = {}
    for table_id, sort_id, expression, direction, null_order, dialect in sorts:
        keys_before = sort_of[table_id].keys if table_id in sort_of else ()
        sort_of[table_id] = Sorting(
            sort_id, (*keys_before, SortKey(expression, direction, null_order, dialect))
        )

    def build(row: Row) -> ColumnDef:
        table_id, column_id, name, type_, nulls_allowed, initial, default, default_type, *_ = row
        return ColumnDef(
            column_id,
            name,
            type_.lower(),
            bool(nulls_allowed),
            initial,
            None if default == "NULL" else default,
            default_type or "",
            tuple(build(child) for child in children.get((table_id, column_id), ())),
            column_comments.get((table_id, column_id)),
        )

    return [
        TableDef(
            table_id,
            str(table_uuid),
            schema_id,
            name,
            path,
            bool(relative),
            tuple(build(row) for row in children.get((table_id, None), ())),
            next_ids.get(table_id, 1),
            partition_of.get(table_id),
            sort_of.get(table_id),
            comments.get(table_id),
        )
        for table_id, table_uuid, schema_id, name, path, relative in tables
    ]
