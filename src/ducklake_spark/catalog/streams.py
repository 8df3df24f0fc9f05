"""What the catalog says to streams: what snapshots did to a table, what is left to read, which batches it took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ducklake_spark.catalog.snapshot import since_query, snapshot_of
from ducklake_spark.errors import ConflictError
from ducklake_spark.format.changes import parse_changes
from ducklake_spark.format.edits import SetOption
from ducklake_spark.format.objects import Snapshot
from ducklake_spark.format.streaming import StreamFile, TableChange, change_of
from ducklake_spark.format.types import quote

if TYPE_CHECKING:
    from ducklake_spark.catalog.store import Session, Store
    from ducklake_spark.catalog.transaction import Transaction

_ROW_SIZE = 100
"""About how many bytes a row in the catalog takes."""


@dataclass(frozen=True)
class Step:
    """A snapshot, and what it did to a table."""

    snapshot: Snapshot
    change: TableChange


def steps(store: Store, table_id: int, first: int) -> list[Step]:
    """The snapshots from one on that are still there, in order."""
    rows = store.query(*since_query(store, first))
    return [
        Step(snapshot_of([row[:-1]]), change_of(table_id, int(row[0]), parse_changes(row[-1])))
        for row in rows
    ]


def appends_among(store: Store, table_id: int, snapshots: Sequence[int]) -> frozenset[int]:
    """Those snapshots that are known to have only appended rows to a table; of expired ones nothing is known."""
    if not snapshots:
        return frozenset()
    rows = store.query(
        "SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes WHERE snapshot_id >= ? AND snapshot_id <= ?",
        (min(snapshots), max(snapshots)),
    )
    asked = frozenset(snapshots)
    changes = (change_of(table_id, int(at), parse_changes(text)) for at, text in rows if int(at) in asked)
    return known_appends(changes)


def stream_files(
    store: Store, table_id: int, first: int, last: int, alive_at: int | None = None
) -> list[StreamFile]:
    """Data files that began in a range of snapshots; with `alive_at`, those that the table still had then."""
    sql = (
        "SELECT begin_snapshot, row_id_start, record_count, file_size_bytes, partial_max FROM ducklake_data_file "
        "WHERE table_id = ? AND begin_snapshot >= ? AND begin_snapshot <= ?"
    )
    params: tuple[int, ...] = (table_id, first, last)
    if alive_at is not None:
        sql, params = f"{sql} AND (end_snapshot IS NULL OR end_snapshot > ?)", (*params, alive_at)
    return [
        StreamFile(int(begin), None if start is None else int(start), int(count), int(size), part is not None)
        for begin, start, count, size, part in store.query(sql, params)
    ]


def inlined_sizes(
    store: Store, table_id: int, first: int, last: int, alive_at: int | None = None
) -> dict[int, int]:
    """About how many bytes of rows the catalog has of each snapshot of a range."""
    found: dict[int, int] = {}
    names = store.query("SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", (table_id,))
    params = (first, last) if alive_at is None else (first, last, alive_at)
    for (name,) in names:
        if not store.has_table(str(name)):
            continue  # a flush dropped it meanwhile: its rows are in a file now
        own = store.inlined_columns(str(name))
        alive = "" if alive_at is None else f" AND ({own.end} IS NULL OR {own.end} > ?)"
        rows = store.query(
            f"SELECT {own.begin}, count(*) FROM {quote(str(name))} WHERE {own.begin} >= ? AND "
            f"{own.begin} <= ?{alive} GROUP BY {own.begin}",
            params,
        )
        for snapshot, count in rows:
            found[int(snapshot)] = found.get(int(snapshot), 0) + _ROW_SIZE * int(count)
    return found


def known_appends(changes: Iterable[TableChange]) -> frozenset[int]:
    """The snapshots that only appended."""
    return frozenset(change.snapshot_id for change in changes if change.is_append)


# --- Batches that a table took. ---------------------------------------------------------------------------------------

_KEY = "ducklake_spark.stream."
"""An option of the table for each query that writes to it: the newest batch that it took. Unlike what a snapshot says
of itself it is still there when snapshots are expired, and the extension leaves options that it does not know alone."""


def last_batch(tx: Transaction, table_id: int, query: str) -> int:
    """The newest batch of a query that a table took; -1 if there was none."""
    return int(tx.options.stored.get((_KEY + query, "table", table_id), "-1"))


def mark_batch(tx: Transaction, table_id: int, query: str, batch: int) -> None:
    """Writes down, in the commit of the transaction, that the table took a batch.

    Another process that runs the same query may commit the same batch first: then the commit is a conflict.
    """
    tx.apply(SetOption(_KEY + query, str(batch), "table", table_id))

    def check(session: Session) -> None:
        rows = session.query(
            'SELECT value FROM ducklake_metadata WHERE "key" = ? AND scope = ? AND scope_id = ?',
            (_KEY + query, "table", table_id),
        )
        if rows and int(rows[0][0]) >= batch:
            raise ConflictError(
                f"Transaction conflict: batch {batch} of the streaming query {query} was committed by another process. "
                "Nothing was written."
            )

    tx.checks.append(check)
