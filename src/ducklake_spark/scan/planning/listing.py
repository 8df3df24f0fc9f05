"""The files of a group, asked from the catalog with the query's filters inside the SQL."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from ducklake_spark.catalog.store import Store
from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format import paths
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


@dataclass(frozen=True)
class Condition:
    """A condition on `f`, a row of `ducklake_data_file`; a file for which it is false has no matching row."""

    sql: str
    params: tuple[Any, ...] = ()


def data_files(store: Store, plan: ScanPlan, key: GroupKey, keep: Condition | None = None) -> list[ScanFile]:
    """The data files of a group that may have matching rows."""
    where, params = group_condition(plan, key)
    if keep is not None:
        where, params = f"{where} AND ({keep.sql})", (*params, *keep.params)
    rows, newest = store.query_many(
        [
            (
                "SELECT f.data_file_id, f.path, f.path_is_relative, f.file_size_bytes, f.row_id_start, "
                f"f.begin_snapshot FROM ducklake_data_file f WHERE {where} ORDER BY f.data_file_id",
                params,
            ),
            ("SELECT max(snapshot_id) FROM ducklake_snapshot", ()),
        ]
    )
    if newest[0][0] != plan.newest_snapshot:
        _require_unmoved(store, plan)
    folder = plan.table_path
    return [
        ScanFile(file_id, whole_path(paths.join(folder, path, bool(relative))), size, start, begin)
        for file_id, path, relative, size, start, begin in rows
    ]


def delete_files(store: Store, plan: ScanPlan, file_format: str) -> list[ScanFile]:
    """The delete files of the table in a format."""
    at = plan.snapshot.snapshot_id
    rows = store.query(
        "SELECT data_file_id, path, path_is_relative, file_size_bytes FROM ducklake_delete_file "
        f"WHERE table_id = ? AND format = ? AND {LIVE} ORDER BY data_file_id",
        (plan.table.table_id, file_format, at, at),
    )
    folder = plan.table_path
    return [
        ScanFile(file_id, whole_path(paths.join(folder, path, bool(relative))), size)
        for file_id, path, relative, size in rows
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


def _require_unmoved(store: Store, plan: ScanPlan) -> None:
    """A compaction removes the files of older snapshots from the catalog: their rows are then in another file."""
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
    if now != then:
        raise DuckLakeError(
            f"The files of {plan.title} were compacted or expired after this DataFrame was made. Make the DataFrame "
            "again: it will have the same rows."
        )
