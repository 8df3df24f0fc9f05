"""What must hold in every catalog, whoever wrote it and whatever happened meanwhile. Knows the rows, not our code."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator

from tests.interop.catalogs import COLUMNS_OF, Catalog, Row

INLINED = "ducklake_inlined_data_"
HISTORIES = {
    "ducklake_schema": ("schema_id",),
    "ducklake_table": ("table_id",),
    "ducklake_view": ("view_id",),
    "ducklake_macro": ("macro_id",),
    "ducklake_column": ("table_id", "column_id"),
    "ducklake_partition_info": ("table_id",),
    "ducklake_sort_info": ("table_id",),
    "ducklake_tag": ("object_id", "key"),
    "ducklake_column_tag": ("table_id", "column_id", "key"),
}
"""Tables whose rows begin and end, and what may have one row at a time."""


def assert_sound(catalog: Catalog, *, leftovers: bool = False) -> None:
    """Fails with every broken rule.

    Args:
        catalog: A dump, not normalized.
        leftovers: Whether inlined tables that nobody registered are allowed: MySQL cannot take back a CREATE TABLE.
    """
    broken = [*_snapshots(catalog), *_histories(catalog), *_tables(catalog), *_ids(catalog)]
    broken += _inlined(catalog, leftovers)
    assert not broken, f"{len(broken)} broken rules:\n" + "\n".join(broken[:20])


def _snapshots(catalog: Catalog) -> Iterator[str]:
    rows = sorted(catalog["ducklake_snapshot"], key=lambda row: row["snapshot_id"])
    ids = [row["snapshot_id"] for row in rows]
    if ids != list(range(len(ids))):
        yield f"snapshot ids have gaps or doubles: {ids}"
    changes = sorted(row["snapshot_id"] for row in catalog["ducklake_snapshot_changes"])
    if changes != ids:
        yield f"snapshots without one row of changes: {set(ids) ^ set(changes) or changes}"
    for counter in ("schema_version", "next_catalog_id", "next_file_id"):
        values = [row[counter] for row in rows]
        if values != sorted(values):
            yield f"{counter} goes backwards: {values}"
    made = {row["snapshot_id"]: row["changes_made"] or "" for row in catalog["ducklake_snapshot_changes"]}
    for before, row in itertools.pairwise(rows):
        structural = bool(re.search("(created|dropped|altered)_", made.get(row["snapshot_id"], "")))
        if row["schema_version"] - before["schema_version"] != structural:
            yield f"{made.get(row['snapshot_id'])} went from schema version {before['schema_version']} to {row}"


def _histories(catalog: Catalog) -> Iterator[str]:
    snapshots = {row["snapshot_id"] for row in catalog["ducklake_snapshot"]}
    for table, key in HISTORIES.items():
        lives: dict[tuple[object, ...], list[tuple[int, int | None]]] = {}
        for row in catalog[table]:
            life = (row["begin_snapshot"], row["end_snapshot"])
            lives.setdefault(tuple(row[name] for name in key), []).append(life)
            if not {each for each in life if each is not None} <= snapshots:
                yield f"{table}: a snapshot that does not exist: {row}"
        for of, spans in lives.items():
            spans.sort()
            for (begin, end), (next_begin, _) in itertools.pairwise(spans):
                if end is None or end > next_begin or begin == next_begin:
                    yield f"{table}: {key} {of} has two rows at once: {spans}"


def _tables(catalog: Catalog) -> Iterator[str]:
    live_schemas = {row["schema_id"] for row in _live(catalog, "ducklake_schema")}
    names: Counter[tuple[int, str]] = Counter()
    with_columns = {
        row["table_id"] for row in _live(catalog, "ducklake_column") if row["parent_column"] is None
    }
    versions = {row["table_id"] for row in catalog["ducklake_schema_versions"]}
    for row in _live(catalog, "ducklake_table"):
        names[row["schema_id"], row["table_name"].lower()] += 1
        if row["table_id"] not in with_columns:
            yield f"a table without columns: {row}"
        if row["table_id"] not in versions:
            yield f"a table without a schema version: {row}"
    for row in _live(catalog, "ducklake_view"):
        names[row["schema_id"], row["view_name"].lower()] += 1
    yield from (f"two tables or views with one name: {name}" for name, count in names.items() if count > 1)
    yield from (f"a table in a schema that is gone: {name}" for name in names if name[0] not in live_schemas)
    columns = Counter(
        (row["table_id"], row["parent_column"], row["column_name"].lower())
        for row in _live(catalog, "ducklake_column")
    )
    yield from (f"two columns with one name: {name}" for name, count in columns.items() if count > 1)
    tables = {row["table_id"] for row in _live(catalog, "ducklake_table")}
    for part in ("ducklake_column", "ducklake_partition_info", "ducklake_sort_info", "ducklake_column_tag"):
        orphans = {row["table_id"] for row in _live(catalog, part)} - tables
        if orphans:
            yield f"{part}: live rows of tables that are gone: {orphans}"


def _ids(catalog: Catalog) -> Iterator[str]:
    newest = max(catalog["ducklake_snapshot"], key=lambda row: row["snapshot_id"])
    owners: dict[int, set[str]] = {}
    for table, key in (
        ("ducklake_schema", "schema_id"),
        ("ducklake_table", "table_id"),
        ("ducklake_view", "view_id"),
        ("ducklake_macro", "macro_id"),
        ("ducklake_partition_info", "partition_id"),
        ("ducklake_sort_info", "sort_id"),
    ):
        for row in catalog[table]:
            owners.setdefault(row[key], set()).add(table)
            if row[key] >= newest["next_catalog_id"]:
                yield f"{table}: an id that is not yet given out: {row}"
    yield from (f"one id for two objects: {i} {found}" for i, found in owners.items() if len(found) > 1)


def _inlined(catalog: Catalog, leftovers: bool) -> Iterator[str]:
    registered = {row["table_name"]: row for row in catalog["ducklake_inlined_data_tables"]}
    if len(registered) != len(catalog["ducklake_inlined_data_tables"]):
        yield "an inlined table is registered twice"
    physical = {
        table for table in catalog if table.startswith(INLINED) and table != "ducklake_inlined_data_tables"
    }
    for name, row in registered.items():
        if name not in physical:
            yield f"{name} is registered and does not exist"
            continue
        [begin] = [
            version["begin_snapshot"]
            for version in catalog["ducklake_schema_versions"]
            if (version["table_id"], version["schema_version"]) == (row["table_id"], row["schema_version"])
        ]
        wanted = ["row_id", "begin_snapshot", "end_snapshot", *_columns_at(catalog, row["table_id"], begin)]
        found = [column["column_name"] for column in catalog[COLUMNS_OF + name]]
        if found != wanted:
            yield f"{name} has the columns {found}, not {wanted}"
    if not leftovers and physical - registered.keys():
        yield f"inlined tables that nobody registered: {physical - registered.keys()}"


def _columns_at(catalog: Catalog, table_id: int, snapshot: int) -> list[str]:
    rows = [
        row
        for row in catalog["ducklake_column"]
        if row["table_id"] == table_id
        and row["parent_column"] is None
        and row["begin_snapshot"] <= snapshot
        and (row["end_snapshot"] is None or row["end_snapshot"] > snapshot)
    ]
    return [row["column_name"] for row in sorted(rows, key=lambda row: row["column_order"])]


def _live(catalog: Catalog, table: str) -> list[Row]:
    return [row for row in catalog[table] if row["end_snapshot"] is None]
