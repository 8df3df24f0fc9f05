"""What a lake holds at a snapshot, in numbers: for people who look at it, without Spark.

Rows are exact, because the catalog counts what it keeps itself and what each file holds. The one exception are files
that hold rows or deletes of several snapshots: at an older one of these nobody can tell without opening them, and the
number is None.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ducklake_spark.catalog.store import Query, Row, Store
from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.format import paths
from ducklake_spark.format.duckdb_sql import quote_if_needed
from ducklake_spark.format.objects import EPOCH

_LIVE_DELETES = (
    "begin_snapshot <= ? AND file_id IN "
    f"(SELECT data_file_id FROM ducklake_data_file WHERE table_id = ? AND {LIVE})"
)
_INLINED_DELETES = "ducklake_inlined_delete_"
_LAST_FLUSH = (
    "SELECT max(snapshot_id) FROM ducklake_snapshot_changes "
    "WHERE changes_made LIKE '%inline_flush:%' OR changes_made LIKE '%flushed_inlined:%'"
)
"""A flush writes deletes of several snapshots into one file, and its row does not say so."""
_UNION = 100  # so many tables are counted in one statement


@dataclass(frozen=True)
class Size:
    """What one table has, or all of them together."""

    files: int = 0
    file_bytes: int = 0
    delete_files: int = 0
    delete_bytes: int = 0
    inlined_rows: int = 0
    rows: int | None = 0
    records: int = 0
    """Rows in data files, deleted ones too."""
    deleted: int = 0
    """Those of them that are deleted."""

    def __add__(self, other: Size) -> Size:
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return Size(
            self.files + other.files,
            self.file_bytes + other.file_bytes,
            self.delete_files + other.delete_files,
            self.delete_bytes + other.delete_bytes,
            self.inlined_rows + other.inlined_rows,
            rows,
            self.records + other.records,
            self.deleted + other.deleted,
        )


@dataclass(frozen=True)
class Contents:
    """How many objects a lake has, and its files."""

    schemas: int
    tables: int
    views: int
    files: int
    file_bytes: int


@dataclass(frozen=True)
class StoredFile:
    """A data file of a table; `deleted` are the rows of it that no longer count."""

    path: str
    rows: int
    file_bytes: int
    deleted: int | None
    delete_file: str | None
    begin_snapshot: int
    data_file_id: int


def oldest_snapshot(store: Store) -> int:
    """The first snapshot that was not expired."""
    return int(store.query("SELECT min(snapshot_id) FROM ducklake_snapshot")[0][0])


def snapshots(store: Store, count: int, before: int | None = None) -> list[Row]:
    """So many snapshots, the newest first, from all or from those before one; as `history` has them."""
    older, params = ("", ()) if before is None else ("WHERE s.snapshot_id < ? ", (before,))
    return store.query(
        f"{_snapshots_sql(store, 'LEFT')} {older}ORDER BY s.snapshot_id DESC LIMIT {count:d}", params
    )


def snapshot_count(store: Store) -> int:
    """How many snapshots there are."""
    return int(store.query("SELECT count(*) FROM ducklake_snapshot")[0][0])


def _snapshots_sql(store: Store, join: str) -> str:
    return (
        f"SELECT s.snapshot_id, {store.micros_sql('s.snapshot_time')}, s.schema_version, c.changes_made, "
        f"c.author, c.commit_message, c.commit_extra_info FROM ducklake_snapshot s {join} JOIN "
        "ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id"
    )


def history(store: Store, table_id: int, snapshot_id: int, newest: int) -> list[Row]:
    """The newest snapshots that did something to a table, as `snapshots()` has them, times in microseconds."""
    entry = f"%:{int(table_id)}"
    return store.query(
        f"{_snapshots_sql(store, 'INNER')} WHERE s.snapshot_id <= ? AND "
        "(c.changes_made LIKE ? OR c.changes_made LIKE ? OR s.snapshot_id IN "
        "(SELECT begin_snapshot FROM ducklake_table WHERE table_id = ?)) "
        f"ORDER BY s.snapshot_id DESC LIMIT {newest:d}",
        (snapshot_id, entry, f"{entry},%", table_id),
    )


def moment(micros: int) -> datetime:
    """A time that the catalog gave in microseconds."""
    return EPOCH + timedelta(microseconds=int(micros))


def names(store: Store, ids: Iterable[int] | None = None) -> dict[str, str]:
    """The last names of schemas, tables and views that the catalog knows, all or some, by the text of their ids."""
    some = None if ids is None else sorted({int(i) for i in ids})
    if some == []:
        return {}
    listed = "" if some is None else f" IN ({', '.join(map(str, some))})"
    tables, views = (f" WHERE {key}{listed}" if listed else "" for key in ("table_id", "view_id"))
    schemas, relations = store.query_many(
        [
            ("SELECT schema_id, schema_name FROM ducklake_schema ORDER BY begin_snapshot", ()),
            (
                f"SELECT table_id, schema_id, table_name, begin_snapshot FROM ducklake_table{tables} UNION ALL "
                f"SELECT view_id, schema_id, view_name, begin_snapshot FROM ducklake_view{views} ORDER BY 4",
                (),
            ),
        ]
    )
    by_id = {int(i): quote_if_needed(name) for i, name in schemas}
    found = {str(i): name for i, name in by_id.items()}
    found |= {
        str(i): f"{by_id[int(schema)]}.{quote_if_needed(name)}"
        for i, schema, name, _ in relations
        if int(schema) in by_id
    }
    return found


def contents(store: Store, snapshot_id: int) -> Contents:
    """The numbers that one round trip gives."""
    at = (snapshot_id, snapshot_id)
    schemas, tables, views, files = store.query_many(
        [
            (f"SELECT count(*) FROM ducklake_schema WHERE {LIVE}", at),
            (f"SELECT count(*) FROM ducklake_table WHERE {LIVE}", at),
            (f"SELECT count(*) FROM ducklake_view WHERE {LIVE}", at),
            (
                f"SELECT count(*), coalesce(sum(file_size_bytes), 0) FROM ducklake_data_file WHERE {LIVE}",
                at,
            ),
        ]
    )
    [(file_count, file_bytes)] = files
    return Contents(int(schemas[0][0]), int(tables[0][0]), int(views[0][0]), int(file_count), int(file_bytes))


def file_sizes(store: Store, snapshot_id: int) -> Mapping[int, tuple[int, int]]:
    """How many data files each table has, and their bytes: one query, however many tables there are."""
    rows = store.query(
        f"SELECT table_id, count(*), sum(file_size_bytes) FROM ducklake_data_file WHERE {LIVE} GROUP BY table_id",
        (snapshot_id, snapshot_id),
    )
    return {int(i): (int(count), int(size)) for i, count, size in rows}


def stored_bytes(store: Store, snapshot_id: int) -> Mapping[int, tuple[int, int, int]]:
    """The bytes of each table, dropped ones too: data files, delete files, and files that only other snapshots need."""
    sums = (
        f"SELECT table_id, sum(CASE WHEN {LIVE} THEN file_size_bytes ELSE 0 END), "
        "sum(file_size_bytes) FROM {0} GROUP BY table_id"
    )
    at = (snapshot_id, snapshot_id)
    data, deletes = store.query_many(
        [(sums.format(name), at) for name in ("ducklake_data_file", "ducklake_delete_file")]
    )
    of_data, of_deletes = (
        {int(i): (int(live), int(size)) for i, live, size in rows} for rows in (data, deletes)
    )
    found = {}
    for i in of_data.keys() | of_deletes.keys():
        (live, size), (live_deletes, delete_size) = of_data.get(i, (0, 0)), of_deletes.get(i, (0, 0))
        found[i] = (live, live_deletes, size - live + delete_size - live_deletes)
    return found


def sizes(
    store: Store, snapshot_id: int, table_id: int | None = None, *, among: Collection[int] | None = None
) -> Mapping[int, Size]:
    """The size of every table that has anything, by id; or of one table, or of some."""
    at = (snapshot_id, snapshot_id)
    some = None if among is None else frozenset(among)
    if table_id is not None:
        some = frozenset((table_id,))
    only = "" if some is None else f" AND table_id IN ({', '.join(map(str, sorted(some))) or 'NULL'})"
    named = "SELECT t.table_name FROM ({0}) AS t WHERE t.table_name LIKE ?"
    files, deletes, inlined, delete_tables, flushes = store.query_many(
        [
            (
                "SELECT table_id, count(*), sum(record_count), sum(file_size_bytes), max(partial_max) "
                f"FROM ducklake_data_file WHERE {LIVE}{only} GROUP BY table_id",
                at,
            ),
            (
                # A file that ended leaves its delete file as it is; no row of the table is deleted by it.
                "SELECT table_id, count(*), sum(CASE WHEN data_file_id IN (SELECT data_file_id FROM "
                f"ducklake_data_file WHERE {LIVE}) THEN delete_count ELSE 0 END), sum(file_size_bytes), "
                f"max(partial_max) FROM ducklake_delete_file WHERE {LIVE}{only} GROUP BY table_id",
                (*at, *at),
            ),
            # Every table may have such tables; whoever never got a row has nothing in them.
            (
                "SELECT table_id, table_name FROM ducklake_inlined_data_tables WHERE table_id IN "
                "(SELECT table_id FROM ducklake_table_stats WHERE next_row_id > 0)",
                (),
            ),
            (named.format(store.tables_sql()), (f"{_INLINED_DELETES}%",)),
            (_LAST_FLUSH, ()),
        ]
    )
    wanted = [(int(i), name) for i, name in inlined if some is None or int(i) in some]
    inlined_rows = _counts(
        store,
        [
            (i, f'SELECT count(*) FROM "{name}" WHERE {store.inlined_columns(name).live}', at)
            for i, name in wanted
        ],
    )
    inlined_deletes = _counts(
        store,
        [
            (i, f"SELECT count(*) FROM {_INLINED_DELETES}{i} WHERE {_LIVE_DELETES}", (snapshot_id, i, *at))
            for i in _table_ids(delete_tables)
            if some is None or i in some
        ],
    )
    by_files = {int(row[0]): row for row in files}
    by_deletes = {int(row[0]): row for row in deletes}
    found = {}
    for i in by_files.keys() | by_deletes.keys() | inlined_rows.keys():
        _, file_count, records, file_bytes, file_max = by_files.get(i, (i, 0, 0, 0, None))
        _, delete_count, deleted, delete_bytes, delete_max = by_deletes.get(i, (i, 0, 0, 0, None))
        rows = int(records) + inlined_rows.get(i, 0) - int(deleted) - inlined_deletes.get(i, 0)
        last = max(file_max or 0, delete_max or 0, (flushes[0][0] or 0) if delete_count else 0)
        found[i] = Size(
            int(file_count),
            int(file_bytes),
            int(delete_count),
            int(delete_bytes),
            inlined_rows.get(i, 0),
            rows if last <= snapshot_id else None,
            int(records),
            int(deleted) + inlined_deletes.get(i, 0),
        )
    return found


def deleted_rows(store: Store, snapshot_id: int) -> Mapping[int, list[tuple[int, int]]]:
    """How many rows of each file are deleted, and how many it has, by table; files without deletes are left out."""
    at = (snapshot_id, snapshot_id)
    named = f"SELECT t.table_name FROM ({store.tables_sql()}) AS t WHERE t.table_name LIKE ?"
    live = "FROM ducklake_data_file WHERE record_count > 0 AND begin_snapshot <= ? AND end_snapshot IS NULL"
    rows, delete_tables = store.query_many(
        [
            (
                "SELECT f.table_id, f.data_file_id, f.record_count, d.delete_count FROM ducklake_delete_file d JOIN "
                f"(SELECT table_id, data_file_id, record_count {live}) f ON f.data_file_id = d.data_file_id "
                "WHERE d.begin_snapshot <= ? AND (d.end_snapshot IS NULL OR d.end_snapshot > ?)",
                (snapshot_id, *at),
            ),
            (named, (f"{_INLINED_DELETES}%",)),
        ]
    )
    found: dict[tuple[int, int], tuple[int, int]] = {}
    ids = _table_ids(delete_tables)
    inlined = [
        (
            " UNION ALL ".join(
                f"SELECT f.table_id, f.data_file_id, f.record_count, count(*) FROM {_INLINED_DELETES}{i} d JOIN "
                f"ducklake_data_file f ON f.data_file_id = d.file_id WHERE f.record_count > 0 AND "
                "f.begin_snapshot <= ? AND f.end_snapshot IS NULL AND d.begin_snapshot <= ? "
                "GROUP BY f.table_id, f.data_file_id, f.record_count"
                for i in ids[start : start + _UNION]
            ),
            at * len(ids[start : start + _UNION]),
        )
        for start in range(0, len(ids), _UNION)
    ]
    for table_id, file_id, records, count in (
        *rows,
        *(row for part in (store.query_many(inlined) if inlined else []) for row in part),
    ):
        key = (int(table_id), int(file_id))
        found[key] = (found.get(key, (0, 0))[0] + int(count), int(records))
    by_table: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (table_id, _), counts in found.items():
        by_table[table_id].append(counts)
    return by_table


def _table_ids(names: Iterable[Row]) -> list[int]:
    """The ids at the end of the names; LIKE also finds tables of others, in which `_` is another character."""
    ends = (name[len(_INLINED_DELETES) :] for (name,) in names if name.startswith(_INLINED_DELETES))
    return [int(end) for end in ends if end.isdecimal()]


def _counts(store: Store, queries: Sequence[tuple[int, str, Sequence[int]]]) -> dict[int, int]:
    """The sum of what the queries count, by table."""
    found: dict[int, int] = defaultdict(int)
    bundles: list[Query] = []
    for start in range(0, len(queries), _UNION):
        part = queries[start : start + _UNION]
        parts = " UNION ALL ".join(
            f"SELECT {int(i)} AS table_id, ({sql}) AS counted_rows" for i, sql, _ in part
        )
        bundles.append((parts, [value for _, _, params in part for value in params]))
    for rows in store.query_many(bundles) if bundles else []:
        for i, count in rows:
            found[int(i)] += int(count)
    return found


def files(store: Store, table_id: int, folder: str, snapshot_id: int) -> list[StoredFile]:
    """The data files of a table, in the order in which they were written.

    Args:
        store: The catalog.
        table_id: The table.
        folder: Its folder, whole, to which the paths are relative.
        snapshot_id: When.
    """
    at = (snapshot_id, snapshot_id)
    deletes_table = f"{_INLINED_DELETES}{int(table_id)}"
    rows, delete_rows, has_inlined, flushes = store.query_many(
        [
            (
                "SELECT data_file_id, path, path_is_relative, record_count, file_size_bytes, begin_snapshot "
                f"FROM ducklake_data_file WHERE table_id = ? AND {LIVE} ORDER BY data_file_id",
                (table_id, *at),
            ),
            (
                "SELECT data_file_id, path, path_is_relative, delete_count, partial_max "
                f"FROM ducklake_delete_file WHERE table_id = ? AND {LIVE}",
                (table_id, *at),
            ),
            (f"SELECT 1 FROM ({store.tables_sql()}) AS t WHERE t.table_name = ?", (deletes_table,)),
            (_LAST_FLUSH, ()),
        ]
    )
    in_catalog: dict[int, int] = {}
    if has_inlined:
        sql = f"SELECT file_id, count(*) FROM {deletes_table} WHERE begin_snapshot <= ? GROUP BY file_id"
        in_catalog = {int(i): int(count) for i, count in store.query(sql, (snapshot_id,))}
    in_files: dict[int, tuple[str, int | None]] = {}
    for i, path, relative, count, newest in delete_rows:
        known = max(newest or 0, flushes[0][0] or 0) <= snapshot_id
        in_files[int(i)] = paths.join(folder, path, bool(relative)), int(count) if known else None
    found = []
    for i, path, relative, records, size, begin in rows:
        delete_path, deleted = in_files.get(int(i), (None, 0))
        total = None if deleted is None else deleted + in_catalog.get(int(i), 0)
        whole = paths.join(folder, path, bool(relative))
        found.append(StoredFile(whole, int(records), int(size), total, delete_path, int(begin), int(i)))
    return found
