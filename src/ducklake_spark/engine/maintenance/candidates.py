"""What the catalog says of the files of a table that may be compacted."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ducklake_spark.catalog.snapshot import Cache, SnapshotReader
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.errors import CatalogError
from ducklake_spark.format import paths
from ducklake_spark.format.compaction import Candidate, Group
from ducklake_spark.format.encryption import FileKey, key_of
from ducklake_spark.format.objects import TableDef
from ducklake_spark.write.compaction import Deletes
from ducklake_spark.write.target import Target


@dataclass(frozen=True)
class _Inside:
    """Numbers in parts that any database takes."""

    ids: list[int]

    def parts(self) -> Iterable[str]:
        for first in range(0, len(self.ids), 1000):
            yield ", ".join(map(str, self.ids[first : first + 1000]))


def candidates(tx: Transaction, table: TableDef) -> list[Candidate]:
    """The live data files of a table, with the number of rows that are deleted from each."""
    table_id, at = table.table_id, tx.snapshot.snapshot_id
    files, deleted, values, versions, wide = tx.store.query_many(
        [
            (
                "SELECT data_file_id, path, path_is_relative, record_count, file_size_bytes, begin_snapshot, "
                "row_id_start, partial_max, partition_id, mapping_id, encryption_key FROM ducklake_data_file "
                "WHERE table_id = ? AND begin_snapshot <= ? AND end_snapshot IS NULL",
                (table_id, at),
            ),
            (
                "SELECT data_file_id, sum(CASE WHEN end_snapshot IS NULL THEN delete_count ELSE 0 END) "
                "FROM ducklake_delete_file WHERE table_id = ? GROUP BY data_file_id",
                (table_id,),
            ),
            (
                "SELECT data_file_id, partition_key_index, partition_value FROM ducklake_file_partition_value "
                "WHERE table_id = ?",
                (table_id,),
            ),
            (
                "SELECT begin_snapshot, schema_version FROM ducklake_schema_versions WHERE table_id = ? "
                "ORDER BY begin_snapshot",
                (table_id,),
            ),
            (
                "SELECT DISTINCT column_id FROM ducklake_column WHERE table_id = ? AND "
                "column_type IN ('int128', 'uint128')",
                (table_id,),
            ),
        ]
    )
    in_files = {int(file_id): int(count or 0) for file_id, count in deleted}
    inlined = _inlined_counts(tx, table)
    keys: dict[int, dict[int, str | None]] = {}
    for file_id, index, value in values:
        keys.setdefault(int(file_id), {})[int(index)] = value
    exact = _exact_files(tx, table, [int(row[0]) for row in wide])
    found = []
    for file_id, path, relative, count, size, begin, start, partial, partition, mapping, key in files:
        own = keys.get(int(file_id), {})
        found.append(
            Candidate(
                int(file_id),
                path,
                bool(relative),
                int(count),
                int(size),
                int(begin),
                None if start is None else int(start),
                None if partial is None else int(partial),
                max((int(version) for since, version in versions if since <= begin), default=0),
                None if partition is None else int(partition),
                tuple(own[i] for i in sorted(own)),
                None if mapping is None else int(mapping),
                in_files.get(int(file_id), 0) + inlined.get(int(file_id), 0),
                int(file_id) in in_files or int(file_id) in inlined,
                int(file_id) in exact,
                key_of(key),
            )
        )
    return found


def _inlined_counts(tx: Transaction, table: TableDef) -> dict[int, int]:
    name = f"ducklake_inlined_delete_{table.table_id}"
    if not tx.store.has_table(name):
        return {}
    rows = tx.store.query(f'SELECT file_id, count(*) FROM "{name}" GROUP BY file_id')
    return {int(file_id): int(count) for file_id, count in rows}


def _exact_files(tx: Transaction, table: TableDef, wide: Collection[int]) -> set[int]:
    """Files that keep 128-bit integers as decimals, which they say by having no NaN among them."""
    if not wide:
        return set()
    rows = tx.store.query(
        "SELECT DISTINCT data_file_id FROM ducklake_file_column_stats WHERE table_id = ? AND NOT contains_nan AND "
        f"column_id IN ({', '.join(map(str, wide))})",
        (table.table_id,),
    )
    return {int(row[0]) for row in rows}


def tables_then(tx: Transaction, table: TableDef, groups: Iterable[Group]) -> dict[int, TableDef]:
    """The table as it was when the files of groups were written, by schema version."""
    found: dict[int, TableDef] = {}
    for group in groups:
        first = group[0]
        if first.schema_version in found:
            continue
        # Not remembered: what is known by schema version is known as of that version's own snapshot.
        then = replace(tx.snapshot, snapshot_id=first.begin_snapshot, schema_version=first.schema_version)
        was = SnapshotReader(tx.store, then, Cache()).table_of(table.table_id)
        if was is None:
            raise CatalogError(
                f'The catalog does not know the columns that table "{table.name}" had at snapshot '
                f"{first.begin_snapshot}, when data file {first.data_file_id} began. Nothing was written."
            )
        found[first.schema_version] = was
    return found


def deletes_of(target: Target, groups: Iterable[Group]) -> dict[int, Deletes]:
    """What is deleted from the files of groups, by id."""
    tx, table = target.tx, target.table
    inside = _Inside([file.data_file_id for group in groups for file in group if file.deleted_rows])
    files: dict[int, tuple[str, FileKey | None]] = {}
    positions: dict[int, list[int]] = {}
    name = f"ducklake_inlined_delete_{table.table_id}"
    has_inlined = tx.store.has_table(name)
    for some in inside.parts():
        rows: list[tuple[Any, ...]] = tx.store.query(
            "SELECT data_file_id, path, path_is_relative, encryption_key FROM ducklake_delete_file "
            f"WHERE table_id = ? AND end_snapshot IS NULL AND data_file_id IN ({some})",
            (table.table_id,),
        )
        for file_id, path, relative, key in rows:
            files[int(file_id)] = (paths.join(target.folder, path, bool(relative)), key_of(key))
        if has_inlined:
            rows = tx.store.query(f'SELECT file_id, row_id FROM "{name}" WHERE file_id IN ({some})')
            for file_id, position in rows:
                positions.setdefault(int(file_id), []).append(int(position))
    found = {}
    for file_id in files.keys() | positions.keys():
        path, key = files.get(file_id, (None, None))
        found[file_id] = Deletes(path, tuple(sorted(positions.get(file_id, ()))), key)
    return found
