"""What the catalog keeps of one table: statistics and versions of its columns, and the partitions of its files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ducklake_spark.catalog.store import Store
from ducklake_spark.catalog.tables import LIVE


@dataclass(frozen=True)
class ColumnFacts:
    """Statistics of a column. Bounds are those of the table: they may be wider than its rows are now.

    Attributes:
        column_bytes: Its part of the files of a snapshot; None if none of them says so.
        nulls: The rows in these files without a value, deleted ones too.
    """

    min_value: str | None = None
    max_value: str | None = None
    contains_null: bool | None = None
    column_bytes: int | None = None
    nulls: int | None = None


@dataclass(frozen=True)
class ColumnVersion:
    """A column, or a field in one, as it was from one snapshot until another; None means until today."""

    column_id: int
    parent_column: int | None
    begin_snapshot: int
    end_snapshot: int | None
    name: str
    type: str
    nulls_allowed: bool
    default_value: str | None


@dataclass(frozen=True)
class ColumnComment:
    """A comment on a column, from one snapshot until another."""

    column_id: int
    begin_snapshot: int
    comment: str | None


def column_facts(store: Store, table_id: int, snapshot_id: int) -> Mapping[int, ColumnFacts]:
    """The statistics of the columns of a table, by id."""
    bounds, sizes = store.query_many(
        [
            (
                "SELECT column_id, min_value, max_value, contains_null FROM ducklake_table_column_stats "
                "WHERE table_id = ?",
                (table_id,),
            ),
            (
                "SELECT column_id, sum(column_size_bytes), sum(null_count) FROM ducklake_file_column_stats "
                "WHERE table_id = ? AND data_file_id IN (SELECT data_file_id FROM ducklake_data_file WHERE "
                f"table_id = ? AND {LIVE}) GROUP BY column_id",
                (table_id, table_id, snapshot_id, snapshot_id),
            ),
        ]
    )
    by_size = {int(i): (size, nulls) for i, size, nulls in sizes}
    found = {}
    for i, low, high, has_null in bounds:
        size, nulls = by_size.get(int(i), (None, None))
        found[int(i)] = ColumnFacts(
            low,
            high,
            None if has_null is None else bool(has_null),
            None if size is None else int(size),
            None if nulls is None else int(nulls),
        )
    return found


def column_versions(store: Store, table_id: int) -> tuple[list[ColumnVersion], list[ColumnComment]]:
    """All that the columns of a table ever were, and the comments on them, the oldest first."""
    rows, tags = store.query_many(
        [
            (
                "SELECT column_id, parent_column, begin_snapshot, end_snapshot, column_name, column_type, "
                "nulls_allowed, default_value FROM ducklake_column WHERE table_id = ? "
                "ORDER BY begin_snapshot, column_id",
                (table_id,),
            ),
            (
                "SELECT column_id, begin_snapshot, value FROM ducklake_column_tag WHERE table_id = ? AND "
                "\"key\" = 'comment' ORDER BY begin_snapshot, column_id",
                (table_id,),
            ),
        ]
    )
    versions = [
        ColumnVersion(
            int(i),
            None if parent is None else int(parent),
            int(begin),
            None if end is None else int(end),
            name,
            kind,
            bool(nullable),
            default,
        )
        for i, parent, begin, end, name, kind, nullable, default in rows
    ]
    return versions, [ColumnComment(int(i), int(begin), value) for i, begin, value in tags]


def partition_values(store: Store, table_id: int, snapshot_id: int) -> Mapping[int, tuple[str | None, ...]]:
    """The partition of each data file of a snapshot that has one, as the catalog writes its values, by file."""
    rows = store.query(
        "SELECT data_file_id, partition_value FROM ducklake_file_partition_value WHERE table_id = ? AND "
        f"data_file_id IN (SELECT data_file_id FROM ducklake_data_file WHERE table_id = ? AND {LIVE}) "
        "ORDER BY data_file_id, partition_key_index",
        (table_id, table_id, snapshot_id, snapshot_id),
    )
    found: dict[int, list[str | None]] = defaultdict(list)
    for i, value in rows:
        found[int(i)].append(value)
    return {i: tuple(values) for i, values in found.items()}
