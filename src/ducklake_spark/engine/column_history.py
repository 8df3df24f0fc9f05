"""What became of the columns of a table, snapshot by snapshot, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ducklake_spark.catalog.table_facts import ColumnComment, ColumnVersion, column_versions
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.objects import TableDef


@dataclass(frozen=True)
class ColumnEvent:
    """What one snapshot did to a column, or to a field in one."""

    snapshot_id: int
    column: str
    what: str
    """`added`, `dropped`, or what is different now."""


def column_history(scope: Scope, table: TableDef) -> list[ColumnEvent]:
    """The changes of a table's columns, the newest first; those that it was created with are not among them."""
    versions, comments = column_versions(scope.store, table.table_id)
    if not versions:
        return []
    created = min(each.begin_snapshot for each in versions)
    events = [event for event in _events(versions, comments) if event.snapshot_id > created]
    return sorted(events, key=lambda event: -event.snapshot_id)


def _events(versions: Sequence[ColumnVersion], comments: Sequence[ColumnComment]) -> Iterator[ColumnEvent]:
    by_column: dict[int, list[ColumnVersion]] = {}
    for version in versions:
        by_column.setdefault(version.column_id, []).append(version)
    for own in by_column.values():
        first, last = own[0], own[-1]
        if (
            first.parent_column is None
            or first.begin_snapshot > by_column[first.parent_column][0].begin_snapshot
        ):
            yield ColumnEvent(first.begin_snapshot, _path(first, by_column), f"added as {first.type}")
        for before, after in pairwise(own):
            for what in _differences(before, after):
                yield ColumnEvent(after.begin_snapshot, _path(after, by_column), what)
        if last.end_snapshot is not None:
            parent = by_column.get(last.parent_column or -1)
            if parent is None or parent[-1].end_snapshot != last.end_snapshot:
                yield ColumnEvent(last.end_snapshot, _path(last, by_column), "dropped")
    for comment in comments:
        if comment.column_id in by_column:
            said = f"comment “{comment.comment}”" if comment.comment else "comment removed"
            last = by_column[comment.column_id][-1]
            yield ColumnEvent(comment.begin_snapshot, _path(last, by_column), said)


def _path(version: ColumnVersion, by_column: dict[int, list[ColumnVersion]]) -> str:
    if version.parent_column is None or version.parent_column not in by_column:
        return version.name
    return f"{_path(by_column[version.parent_column][-1], by_column)}.{version.name}"


def _differences(before: ColumnVersion, after: ColumnVersion) -> Iterator[str]:
    if before.name != after.name:
        yield f"renamed from {before.name}"
    if before.type != after.type:
        yield f"type {before.type} → {after.type}"
    if before.nulls_allowed != after.nulls_allowed:
        yield "NOT NULL dropped" if after.nulls_allowed else "NOT NULL set"
    if before.default_value != after.default_value:
        yield "default removed" if after.default_value is None else f"default {after.default_value}"
