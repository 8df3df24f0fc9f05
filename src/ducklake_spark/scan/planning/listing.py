"""The files of a group, asked from the catalog with the query's filters inside the SQL."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from ducklake_spark.catalog.store import Query, Row, Store
from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.errors import DuckLakeError, SnapshotNotFoundError
from ducklake_spark.format import paths
from ducklake_spark.format.column_mapping import ColumnMapping
from ducklake_spark.format.encryption import FileKey, key_of
from ducklake_spark.scan.planning.plan import GroupKey, ScanPlan, group_condition, summary
from ducklake_spark.storage import whole_path


@dataclass(frozen=True)
class ScanFile:
    """A data file, or a delete file under the id of its data file."""

    data_file_id: int
    path: str
    size: int
    row_id_start: int | None = None
    begin_snapshot: int = 0
    mapping: ColumnMapping | None = None
    """How a file that a transaction added, and did not commit yet, calls the columns."""
    key: FileKey | None = None


@dataclass(frozen=True)
class DeletesOfFile:
    """The deleted rows of a data file: delete files as (file, format, the newest of its snapshots), and positions.

    Only where rows of a delete file say of which snapshot they are, it has a newest one.
    """

    files: tuple[tuple[ScanFile, str, int | None], ...] = ()
    positions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Condition:
    """A condition on `f`, a row of `ducklake_data_file`; a file for which it is false has no matching row."""

    sql: str
    params: tuple[Any, ...] = ()


def data_files(store: Store, plan: ScanPlan, key: GroupKey, keep: Condition | None = None) -> list[ScanFile]:
    """The data files of a group that may have matching rows."""
    return files_and_deletes(store, plan, key, keep, deletes=False)[0]


def files_and_deletes(
    store: Store, plan: ScanPlan, key: GroupKey, keep: Condition | None = None, *, deletes: bool = True
) -> tuple[list[ScanFile], dict[int, DeletesOfFile]]:
    """The same, and what is deleted in files of the table, by the ids of the data files."""
    rows, newest, deleted = _listed(store, plan, key, keep, deletes=deletes)
    if newest != plan.newest_snapshot and not _is_unmoved(store, plan):
        rows, deleted = _merged(store, plan, key, keep, deletes=deletes)
    folder = plan.table_path
    files = [
        ScanFile(
            file_id,
            whole_path(paths.join(folder, path, bool(relative))),
            size,
            start,
            begin,
            key=key_of(key),
        )
        for file_id, path, relative, size, start, begin, key in rows
    ]
    return files, deleted


def _deletes_queries(plan: ScanPlan) -> list[Query]:
    """Positions in the catalog come first: when a flush makes files of them meanwhile, they are listed twice."""
    at = plan.snapshot.snapshot_id
    files: Query = (
        "SELECT data_file_id, path, path_is_relative, file_size_bytes, encryption_key, format, partial_max FROM "
        f"ducklake_delete_file WHERE table_id = ? AND {LIVE} ORDER BY delete_file_id",
        (plan.table.table_id, at, at),
    )
    if plan.deletes.inlined_table is None:
        return [files]
    pairs = f"SELECT file_id, row_id FROM {plan.deletes.inlined_table} WHERE begin_snapshot <= ?"
    return [(pairs, (at,)), files]


def _deletes_of_files(plan: ScanPlan, answers: list[list[Row]]) -> dict[int, DeletesOfFile]:
    *pairs, files = answers
    found: dict[int, DeletesOfFile] = {}
    positions: dict[int, list[int]] = {}
    for file_id, position in pairs[0] if pairs else ():
        positions.setdefault(int(file_id), []).append(int(position))
    for file_id, places in positions.items():
        found[file_id] = DeletesOfFile((), tuple(sorted(places)))
    folder = plan.table_path
    for file_id, path, relative, size, key, kind, newest in files:
        whole = whole_path(paths.join(folder, path, bool(relative)))
        file = ScanFile(int(file_id), whole, size, key=key_of(key))
        known = found.get(file.data_file_id, DeletesOfFile())
        made = (file, str(kind), None if newest is None else int(newest))
        found[file.data_file_id] = DeletesOfFile((*known.files, made), known.positions)
    return found


def _listed(
    store: Store,
    plan: ScanPlan,
    key: GroupKey,
    keep: Condition | None,
    next_file_id: int | None = None,
    *,
    deletes: bool,
) -> tuple[list[Row], int, dict[int, DeletesOfFile]]:
    """The files of a group, the newest snapshot, and what is deleted in files."""
    where, params = group_condition(plan, key, next_file_id)
    if keep is not None:
        where, params = f"{where} AND ({keep.sql})", (*params, *keep.params)
    rows, *deleted, newest = store.query_many(
        [
            (
                "SELECT f.data_file_id, f.path, f.path_is_relative, f.file_size_bytes, f.row_id_start, "
                f"f.begin_snapshot, f.encryption_key FROM ducklake_data_file f WHERE {where} ORDER BY f.data_file_id",
                params,
            ),
            *(_deletes_queries(plan) if deletes else ()),
            # Last: if the snapshot is there now, it was there when the files were listed
            (
                "SELECT (SELECT max(snapshot_id) FROM ducklake_snapshot), (SELECT count(*) FROM ducklake_snapshot "
                "WHERE snapshot_id = ?)",
                (plan.snapshot.snapshot_id,),
            ),
        ]
    )
    if not newest[0][1]:
        raise _expired(plan)
    return rows, int(newest[0][0]), _deletes_of_files(plan, deleted) if deletes else {}


def require_snapshot(store: Store, plan: ScanPlan) -> None:
    """Raises if the plan's snapshot was expired, for who answers without listing its files.

    Raises:
        SnapshotNotFoundError: It was.
    """
    if not store.query("SELECT 1 FROM ducklake_snapshot WHERE snapshot_id = ?", (plan.snapshot.snapshot_id,)):
        raise _expired(plan)


def _expired(plan: ScanPlan) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"The snapshot of {plan.title} was expired after this DataFrame was made. Make the DataFrame again from a "
        "snapshot that is still there."
    )


def _merged(
    store: Store, plan: ScanPlan, key: GroupKey, keep: Condition | None, *, deletes: bool
) -> tuple[list[Row], dict[int, DeletesOfFile]]:
    """The files of a group after some of them were merged: the same rows, in newer files that are read in one way.

    Raises:
        DuckLakeError: They are not the same rows, or not to be read in this way.
    """
    [(next_file_id,)] = store.query("SELECT max(next_file_id) FROM ducklake_snapshot")
    where, params = group_condition(plan, key, int(next_file_id))
    [(records,)] = store.query(f"SELECT sum(f.record_count) FROM ducklake_data_file f WHERE {where}", params)
    if key.file_ids is None and int(records or 0) == sum(g.records for g in plan.groups if key.has(g.key)):
        rows, _, deleted = _listed(store, plan, key, keep, int(next_file_id), deletes=deletes)
        return rows, deleted
    raise DuckLakeError(
        f"The files of {plan.title} were compacted after this DataFrame was made. Make the DataFrame "
        "again: it will have the same rows."
    )


def delete_files(store: Store, plan: ScanPlan, file_format: str) -> list[ScanFile]:
    """The delete files of the table in a format."""
    at = plan.snapshot.snapshot_id
    rows = store.query(
        "SELECT data_file_id, path, path_is_relative, file_size_bytes, encryption_key FROM ducklake_delete_file "
        f"WHERE table_id = ? AND format = ? AND {LIVE} ORDER BY data_file_id",
        (plan.table.table_id, file_format, at, at),
    )
    folder = plan.table_path
    return [
        ScanFile(file_id, whole_path(paths.join(folder, path, bool(relative))), size, key=key_of(key))
        for file_id, path, relative, size, key in rows
    ]


def inlined_deletes(store: Store, plan: ScanPlan) -> list[tuple[int, int]]:
    """Deleted positions that the catalog keeps, with the id of their data file."""
    if plan.deletes.inlined_table is None:
        return []
    rows = store.query(
        f"SELECT file_id, row_id FROM {plan.deletes.inlined_table} WHERE begin_snapshot <= ?",
        (plan.snapshot.snapshot_id,),
    )
    return [(int(file_id), int(position)) for file_id, position in rows]


def _is_unmoved(store: Store, plan: ScanPlan) -> bool:
    """Whether all files are there: a merge removes files of older snapshots, as their rows are in another one."""
    rows, _ = summary(store, plan)
    now = {
        (None if row[0] is None else int(row[0]), bool(row[1]), bool(row[2]), int(row[3]), bool(row[4])): (
            int(row[5]),
            int(row[7]),
        )
        for row in rows
    }
    then: dict[tuple[Any, ...], tuple[int, int]] = {}
    for group in plan.groups:
        files, records = then.get(key := astuple(group.key)[:5], (0, 0))
        then[key] = (files + group.files, records + group.records)
    return now == then
