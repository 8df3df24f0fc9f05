"""`Table.history()`: what the catalog knows of the snapshots that touched a table. No file is read."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog.store import Query, Store
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.changes import WORDS, parse_changes
from ducklake_spark.format.objects import EPOCH, TableDef
from ducklake_spark.format.versions import InlinedColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Counts = dict[int, "int | None"]
"""Rows by snapshot; None where the catalog does not know."""

_SCHEMA = (
    "snapshot_id bigint, snapshot_time timestamp, changes array<string>, rows_inserted bigint, rows_deleted bigint, "
    "author string, commit_message string, commit_extra_info string"
)
_INSERTS, _DELETES = ("inserted_into_table", "inlined_insert"), ("deleted_from_table", "inlined_delete")
_MOVES = ("inline_flush", "merge_adjacent", "rewrite_delete", "compacted_table")
"""Changes that move rows and leave the table as it is."""
_MADE_LATER = (
    "EXISTS (SELECT 1 FROM ducklake_snapshot s WHERE s.snapshot_id = x.begin_snapshot AND s.next_file_id <= "
    "x.delete_file_id)"
)
"""Whether a delete file came after the snapshot with which it begins: a flush made it, of deletes in the catalog."""


def history(scope: Scope, table: TableDef) -> DataFrame:
    """One row for each snapshot, the newest first."""
    from ducklake_spark.engine.answers import answer  # it needs PySpark, which takes a second to import

    return answer(scope, history_rows(scope, table), _SCHEMA)


def history_rows(scope: Scope, table: TableDef) -> list[tuple[Any, ...]]:
    """The rows of `history()`, for those who have no Spark."""
    store, table_id = scope.store, table.table_id
    named = {
        int(begin)
        for (begin,) in store.query(
            "SELECT begin_snapshot FROM ducklake_table WHERE table_id = ?", (table_id,)
        )
    }
    inserted, deleted = _inserted(store, table_id), _deleted(store, table_id)
    rows = []
    for snapshot_id, micros, _, changes_made, author, message, extra in reversed(scope.snapshot_rows()):
        changes = parse_changes(changes_made)
        words = [
            word
            for word, field, _ in WORDS
            if (word == "created_table" and snapshot_id in named) or table_id in getattr(changes, field)
        ]
        if not words:
            continue
        came, went = (
            _count(inserted, snapshot_id, words, _INSERTS),
            _count(deleted, snapshot_id, words, _DELETES),
        )
        time = EPOCH + timedelta(microseconds=int(micros))
        rows.append((snapshot_id, time, words, came, went, author, message, extra))
    return rows


def _count(counts: Counts, snapshot_id: int, words: list[str], kinds: tuple[str, ...]) -> int | None:
    if any(word in _MOVES for word in words):
        return 0
    found = counts.get(snapshot_id, 0)
    return found if found is not None or any(word in kinds for word in words) else 0


def _inlined_tables(store: Store, table_id: int) -> list[tuple[str, InlinedColumns]]:
    rows = store.query("SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", (table_id,))
    return [(str(name), store.inlined_columns(str(name))) for (name,) in rows]


def _summed(store: Store, queries: list[Query]) -> Counts:
    counts: dict[int, int] = defaultdict(int)
    for rows in store.query_many(queries):
        for snapshot_id, count in rows:
            counts[int(snapshot_id)] += int(count or 0)
    return dict(counts)


def _unknown(counts: Counts, store: Store, ranges: Query) -> Counts:
    """Marks the snapshots of files that hold rows of several: only the file itself knows how many of each."""
    for first, last in store.query(*ranges):
        for snapshot_id in range(int(first), int(last) + 1):
            counts[snapshot_id] = None
    return counts


def _inserted(store: Store, table_id: int) -> Counts:
    queries: list[Query] = [
        (
            "SELECT begin_snapshot, sum(record_count) FROM ducklake_data_file WHERE table_id = ? AND "
            "(partial_max IS NULL OR partial_max = begin_snapshot) GROUP BY begin_snapshot",
            (table_id,),
        ),
        *(
            (f'SELECT {own.begin}, count(*) FROM "{name}" GROUP BY {own.begin}', ())
            for name, own in _inlined_tables(store, table_id)
        ),
    ]
    partial = (
        "SELECT begin_snapshot, partial_max FROM ducklake_data_file WHERE table_id = ? AND "
        "partial_max > begin_snapshot"
    )
    return _unknown(_summed(store, queries), store, (partial, (table_id,)))


def _deleted(store: Store, table_id: int) -> Counts:
    """Positions in the catalog and in delete files of one snapshot, and what was left of files that ended."""
    queries: list[Query] = [
        (
            # A deletion vector holds the deletes of the delete file that ended where it begins.
            "SELECT x.begin_snapshot, sum(x.delete_count - coalesce((SELECT max(old.delete_count) FROM "
            "ducklake_delete_file old WHERE old.data_file_id = x.data_file_id AND old.end_snapshot = "
            "x.begin_snapshot), 0)) FROM ducklake_delete_file x JOIN ducklake_data_file f "
            "ON f.data_file_id = x.data_file_id WHERE x.table_id = ? AND (x.partial_max = x.begin_snapshot OR "
            f"(x.partial_max IS NULL AND (f.partial_max IS NULL OR NOT {_MADE_LATER}))) GROUP BY x.begin_snapshot",
            (table_id,),
        ),
        (
            "SELECT f.end_snapshot, sum(f.record_count - coalesce((SELECT max(x.delete_count) FROM "
            "ducklake_delete_file x WHERE x.data_file_id = f.data_file_id AND x.begin_snapshot < f.end_snapshot), 0)) "
            "FROM ducklake_data_file f WHERE f.table_id = ? AND f.end_snapshot IS NOT NULL GROUP BY f.end_snapshot",
            (table_id,),
        ),
        *(
            (
                f'SELECT {own.end}, count(*) FROM "{name}" WHERE {own.end} IS NOT NULL GROUP BY {own.end}',
                (),
            )
            for name, own in _inlined_tables(store, table_id)
        ),
    ]
    inlined = f"ducklake_inlined_delete_{table_id}"
    if store.has_table(inlined):
        queries.append((f'SELECT begin_snapshot, count(*) FROM "{inlined}" GROUP BY begin_snapshot', ()))
        queries.append(
            (
                f'SELECT f.end_snapshot, -count(*) FROM "{inlined}" i JOIN ducklake_data_file f '
                "ON f.data_file_id = i.file_id WHERE f.table_id = ? AND f.end_snapshot IS NOT NULL AND "
                "i.begin_snapshot < f.end_snapshot GROUP BY f.end_snapshot",
                (table_id,),
            )
        )
    # A delete file that a flush made holds several snapshots, and does not say which is the last.
    several = (
        "SELECT x.begin_snapshot, coalesce(x.partial_max, (SELECT max(snapshot_id) FROM ducklake_snapshot WHERE "
        "next_file_id <= x.delete_file_id)) FROM ducklake_delete_file x JOIN ducklake_data_file f ON "
        "f.data_file_id = x.data_file_id WHERE x.table_id = ? AND (x.partial_max > x.begin_snapshot OR "
        "(x.partial_max IS NULL AND f.partial_max IS NOT NULL))"
    )
    return _unknown(_summed(store, queries), store, (several, (table_id,)))
