"""What a change feed reads, as a value: asked from the catalog, with the range of snapshots inside the SQL.

A version of a row begins in one snapshot and ends in another, or not at all. What began in the range was inserted,
what ended in it was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ducklake_spark.catalog.store import Query, Row, Store
from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format import paths
from ducklake_spark.format.changes import parse_changes
from ducklake_spark.format.encryption import FileKey, key_of
from ducklake_spark.format.objects import SchemaDef, Snapshot, TableDef
from ducklake_spark.scan.inlined import InlinedTable, fetch_versions
from ducklake_spark.scan.planning.plan import LakeInfo, ScanPlan, is_exact, make_plan
from ducklake_spark.scan.planning.staleness import has_moved
from ducklake_spark.scan.projection.types import TypeChoices
from ducklake_spark.storage import whole_path

_ATTEMPTS = 10
Where = tuple[str, tuple[Any, ...]]
"""A condition on `f`, a row of `ducklake_data_file`, and its parameters."""


@dataclass(frozen=True)
class Range:
    """Snapshots from the first to the last, both included; none if the first is the later one."""

    first: int
    last: int


@dataclass(frozen=True)
class FeedFile:
    """A data file with rows that came or went in the range."""

    data_file_id: int
    path: str
    size: int
    row_id_start: int | None
    begin_snapshot: int
    end_snapshot: int | None
    mapping_id: int | None
    is_partial: bool
    """Whether it holds rows of several snapshots, and says of each row which."""
    is_exact: bool
    """Whether it keeps 128-bit integers as decimals."""
    record_count: int
    key: FileKey | None = None


@dataclass(frozen=True)
class DeletedIn:
    """A delete file of the catalog."""

    data_file_id: int
    path: str
    size: int
    begin_snapshot: int
    format: str
    delete_count: int
    key: FileKey | None = None


@dataclass(frozen=True)
class Positions:
    """Deleted positions of data files: delete files, and (file id, position, snapshot) from the catalog."""

    files: tuple[DeletedIn, ...] = ()
    inlined: tuple[tuple[int, int, int], ...] = ()

    @property
    def count(self) -> int:
        """How many, at most."""
        return len(self.inlined) + sum(file.delete_count for file in self.files)

    @property
    def is_unique(self) -> bool:
        """Whether no position can be there twice, because each data file has one source."""
        of_files = [file.data_file_id for file in self.files]
        return len(set(of_files)) == len(of_files) and not {f for f, _, _ in self.inlined} & set(of_files)


@dataclass(frozen=True)
class Versions:
    """Versions of inlined rows: those that began, and those that ended."""

    inserted: Sequence[Row]
    deleted: Sequence[Row]


@dataclass(frozen=True)
class Feed:
    """Files, deleted positions and inlined rows of a range."""

    plan: ScanPlan
    range: Range
    is_net: bool
    inserted: tuple[FeedFile, ...] = ()
    deleted: tuple[FeedFile, ...] = ()
    positions: Positions = Positions()
    """What was deleted from the second list of files."""
    later_positions: Positions = Positions()
    """What was deleted from the first, for net changes only."""
    inlined: Mapping[str, Versions] = field(default_factory=dict)
    """By the name of the inlined table."""
    rewrites: tuple[int, ...] = ()
    """Snapshots of the range that moved rows to other files, and did nothing else."""
    whole: Feed | None = None
    """Of net changes over such snapshots: all changes, which tell moved rows from changed ones."""


def make_feed(
    store: Store,
    lake: LakeInfo,
    schema: SchemaDef,
    table: TableDef,
    start: Snapshot,
    end: Snapshot,
    choices: TypeChoices,
    *,
    is_net: bool = False,
    columns_at: Snapshot | None = None,
) -> Feed:
    """Asks the catalog what a feed reads. Repeats itself if a commit came between its queries.

    Args:
        store: The catalog.
        lake: The lake's name and data path.
        schema: The table's schema.
        table: The table as it is at the end of the range, which gives the columns.
        start: The first snapshot.
        end: The last snapshot.
        choices: How types are shown.
        is_net: Whether only the sum of the changes is asked for: versions that began before the range and ended in it,
            and those that began in it and did not end.
        columns_at: A later snapshot than the last one that gives the columns instead.
    """
    for _ in range(_ATTEMPTS):
        plan = make_plan(store, lake, schema, table, columns_at or end, choices)
        asked = Range(start.snapshot_id, end.snapshot_id)
        feed = _Listing(store, plan, asked, is_net).feed()
        if is_net and feed.rewrites:
            feed = replace(feed, whole=_Listing(store, plan, asked, is_net=False).feed())
        if not has_moved(store, table.table_id, plan.newest_snapshot, by_deletes=True):
            return feed
    raise DuckLakeError(
        f"The lake {lake.name} was changed {_ATTEMPTS} times while a change feed of {plan.title} was planned. "
        "Try again."
    )


@dataclass(frozen=True)
class _Listing:
    store: Store
    plan: ScanPlan
    range: Range
    is_net: bool

    def feed(self) -> Feed:
        first, last = self.range.first, self.range.last
        if first > last:
            return Feed(self.plan, self.range, self.is_net)
        queries = [
            self._data_files(self._inserted()),
            self._data_files(self._deleted()),
            # Files that are still there lost rows in the range by delete files that were made since its start.
            self._delete_files(self._deleted(), "(f.end_snapshot <= ? OR x.end_snapshot IS NOT NULL OR "
                "x.delete_file_id >= (SELECT coalesce(max(next_file_id), 0) FROM ducklake_snapshot WHERE "
                "snapshot_id < ?))", last, first),
            (
                "SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes WHERE snapshot_id >= ? AND "
                "snapshot_id <= ? AND changes_made LIKE ?",
                (first, last, "%rewrite_delete:%"),
            ),
        ]  # fmt: skip
        if self.is_net:
            queries.append(self._delete_files(self._inserted(), "1 = 1"))
        inserted, deleted, files, moved, *later = self.store.query_many(queries)
        ended = {row[0] for row in deleted if row[6] is not None and row[6] <= last}
        inlined_deletes = [
            row for row in self._inlined_deletes(self._deleted()) if row[2] >= first or row[0] in ended
        ]
        later_positions = Positions()
        if self.is_net:
            later_positions = Positions(
                self._deletes_of(later[0]), tuple(self._inlined_deletes(self._inserted()))
            )
        return Feed(
            self.plan,
            self.range,
            self.is_net,
            self._files_of(inserted),
            self._files_of(deleted),
            Positions(self._deletes_of(files), tuple(inlined_deletes)),
            later_positions,
            {table.table_name: self._versions(table) for table in self.plan.inlined},
            tuple(
                int(snapshot_id)
                for snapshot_id, changes in moved
                if self.plan.table.table_id in parse_changes(changes).rewrite_deletes
            ),
        )

    # Conditions on data files

    def _inserted(self) -> Where:
        """Files with rows that began in the range; for net changes less those that ended in it."""
        first, last = self.range.first, self.range.last
        sql = "f.begin_snapshot <= ? AND (f.begin_snapshot >= ? OR f.partial_max >= ?)"
        if not self.is_net:
            return sql, (last, first, first)
        return f"{sql} AND (f.end_snapshot IS NULL OR f.end_snapshot > ?)", (last, first, first, last)

    def _deleted(self) -> Where:
        """Files that ended in the range, or lost rows in it; for net changes only those from before it."""
        first, last, table_id = self.range.first, self.range.last, self.plan.table.table_id
        touched = (
            "f.data_file_id IN (SELECT data_file_id FROM ducklake_delete_file WHERE table_id = ? AND "
            "begin_snapshot <= ? AND delete_file_id >= (SELECT coalesce(max(next_file_id), 0) FROM "
            "ducklake_snapshot WHERE snapshot_id < ?))"
        )
        params: tuple[Any, ...] = (table_id, last, first)
        if self.plan.deletes.inlined_table is not None:
            touched += (
                f" OR f.data_file_id IN (SELECT file_id FROM {self.plan.deletes.inlined_table} "
                "WHERE begin_snapshot >= ? AND begin_snapshot <= ?)"
            )
            params += (first, last)
        sql = (
            "f.begin_snapshot <= ? AND ((f.end_snapshot >= ? AND f.end_snapshot <= ?) OR "
            f"((f.end_snapshot IS NULL OR f.end_snapshot > ?) AND ({touched})))"
        )
        params = (last, first, last, last, *params)
        return (f"{sql} AND f.begin_snapshot < ?", (*params, first)) if self.is_net else (sql, params)

    # Queries

    def _data_files(self, where: Where) -> Query:
        condition, params = where
        return (
            "SELECT f.data_file_id, f.path, f.path_is_relative, f.file_size_bytes, f.row_id_start, f.begin_snapshot, "
            f"f.end_snapshot, f.mapping_id, f.partial_max, CASE WHEN {is_exact(self.plan)} THEN 1 ELSE 0 END, "
            "f.record_count, f.encryption_key FROM ducklake_data_file f "
            f"WHERE f.table_id = ? AND {condition} ORDER BY f.data_file_id",
            (self.plan.table.table_id, *params),
        )

    def _delete_files(self, where: Where, also: str, *values: int) -> Query:
        condition, params = where
        table_id = self.plan.table.table_id
        return (
            "SELECT x.data_file_id, x.path, x.path_is_relative, x.file_size_bytes, x.begin_snapshot, x.format, "
            "x.delete_count, x.encryption_key FROM ducklake_delete_file x JOIN ducklake_data_file f "
            "ON f.data_file_id = x.data_file_id "
            f"WHERE x.table_id = ? AND x.begin_snapshot <= ? AND f.table_id = ? AND {condition} AND {also} "
            "ORDER BY x.delete_file_id",
            (table_id, self.range.last, table_id, *params, *values),
        )

    def _inlined_deletes(self, where: Where) -> list[tuple[int, int, int]]:
        name = self.plan.deletes.inlined_table
        if name is None:
            return []
        condition, params = where
        rows = self.store.query(
            f"SELECT i.file_id, i.row_id, i.begin_snapshot FROM {name} i JOIN ducklake_data_file f "
            f"ON f.data_file_id = i.file_id WHERE i.begin_snapshot <= ? AND f.table_id = ? AND {condition}",
            (self.range.last, self.plan.table.table_id, *params),
        )
        return [(int(file_id), int(position), int(at)) for file_id, position, at in rows]

    def _versions(self, table: InlinedTable) -> Versions:
        first, last = self.range.first, self.range.last
        own = self.store.inlined_columns(table.table_name)
        began, ended = (f"{each} >= ? AND {each} <= ?" for each in (own.begin, own.end))
        of_began: tuple[int, ...] = (first, last)
        of_ended: tuple[int, ...] = (first, last)
        if self.is_net:
            began, of_began = f"{began} AND ({own.end} IS NULL OR {own.end} > ?)", (first, last, last)
            ended, of_ended = f"{ended} AND {own.begin} < ?", (first, last, first)
        return Versions(
            fetch_versions(self.store, table, own.begin, began, of_began),
            fetch_versions(self.store, table, own.end, ended, of_ended),
        )

    # Rows as values

    def _path(self, path: str, relative: Any) -> str:
        return whole_path(paths.join(self.plan.table_path, path, bool(relative)))

    def _files_of(self, rows: Iterable[Row]) -> tuple[FeedFile, ...]:
        return tuple(
            FeedFile(
                file_id,
                self._path(path, relative),
                size,
                start,
                begin,
                end,
                mapping,
                partial is not None,
                bool(exact),
                int(records),
                key_of(key),
            )
            for file_id, path, relative, size, start, begin, end, mapping, partial, exact, records, key in rows
        )

    def _deletes_of(self, rows: Iterable[Row]) -> tuple[DeletedIn, ...]:
        return tuple(
            DeletedIn(file_id, self._path(path, relative), size, begin, str(kind), int(count), key_of(key))
            for file_id, path, relative, size, begin, kind, count, key in rows
        )
