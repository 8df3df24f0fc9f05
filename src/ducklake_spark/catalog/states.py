"""What a commit must read of tables to which rows are added: their statistics, and where inlined rows go."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ducklake_spark.catalog.snapshot import Cache
from ducklake_spark.catalog.store import Query, Row
from ducklake_spark.format.column_mapping import known_shapes
from ducklake_spark.format.edits import Edits
from ducklake_spark.format.objects import is_local
from ducklake_spark.format.rows import TableState
from ducklake_spark.format.statistics import TableColumnStats, TableStats


def table_states(
    edits: Edits, run: Callable[[Sequence[Query]], list[list[Row]]], cache: Cache, schema_version: int
) -> dict[int, TableState]:
    """The states of the existing tables to which rows are added.

    Args:
        edits: The changes.
        run: Runs queries, in the transaction of the commit or before it.
        cache: What was found before.
        schema_version: That of the newest snapshot: the columns of a table and their past stay the same with it.
    """
    ids = [table_id for table_id, edit in edits.tables.items() if edit.adds_rows and not is_local(table_id)]
    if not ids:
        return {}
    scope = f"table_id IN ({', '.join('?' * len(ids))})"
    layouts: dict[int, _Layout | None] = {
        table_id: cache.peek(_layout_key(schema_version, table_id)) for table_id in ids
    }
    unknown = [table_id for table_id, known in layouts.items() if known is None]
    unknown_scope = f"table_id IN ({', '.join('?' * len(unknown))})"
    layout_queries: list[Query] = [
        (
            f"SELECT table_id, schema_version, begin_snapshot FROM ducklake_schema_versions WHERE {unknown_scope}",
            unknown,
        ),
        (
            "SELECT table_id, column_id, column_name, column_type, parent_column, begin_snapshot, end_snapshot "
            f"FROM ducklake_column WHERE {unknown_scope}",
            unknown,
        ),
    ]
    mapped = [table_id for table_id in ids if any(file.mapping for file in edits.tables[table_id].files)]
    mapping_queries: list[Query] = [
        (
            "SELECT m.table_id, n.mapping_id, n.column_id, n.source_name, n.target_field_id, n.parent_column, "
            "n.is_partition FROM ducklake_column_mapping m JOIN ducklake_name_mapping n ON n.mapping_id = "
            f"m.mapping_id WHERE m.table_id IN ({', '.join('?' * len(mapped))})",
            mapped,
        )
    ]
    tables, columns, inlined, *found = run(
        [
            (
                f"SELECT table_id, record_count, next_row_id, file_size_bytes FROM ducklake_table_stats WHERE {scope}",
                ids,
            ),
            (
                "SELECT table_id, column_id, contains_null, contains_nan, min_value, max_value, extra_stats "
                f"FROM ducklake_table_column_stats WHERE {scope}",
                ids,
            ),
            (
                f"SELECT table_id, table_name, schema_version FROM ducklake_inlined_data_tables WHERE {scope}",
                ids,
            ),
            *(layout_queries if unknown else []),
            *(mapping_queries if mapped else []),
        ]
    )
    names = found.pop() if mapped else []
    for table_id in unknown:
        layouts[table_id] = cache.get(
            _layout_key(schema_version, table_id), functools.partial(_layout, table_id, found)
        )
    column_rows: dict[int, dict[int, TableColumnStats]] = defaultdict(dict)
    for table_id, column_id, has_null, has_nan, low, high, extra in columns:
        column_rows[table_id][column_id] = TableColumnStats(
            column_id, _boolean(has_null), _boolean(has_nan), low, high, extra
        )
    stats = {
        table_id: TableStats(
            int(count or 0),
            int(next_row_id or 0),
            int(size or 0),
            column_rows[table_id],
            stored=True,
            retyped=_retyped(_present(layouts, table_id).history),
        )
        for table_id, count, next_row_id, size in tables
    }
    targets: dict[int, tuple[int, str]] = {}
    for table_id, name, version in inlined:
        targets[table_id] = max(targets.get(table_id, (-1, "")), (version, name))
    states = {}
    for table_id in ids:
        version, name = targets.get(table_id, (-1, ""))
        # One that was made late has a version of its own, but the layout of the version before.
        layout = _present(layouts, table_id)
        begin = max((row[2] for row in layout.versions if row[1] <= version), default=None)
        usable = bool(name) and (begin is None or _same_layout(layout.history, begin))
        states[table_id] = TableState(
            stats.get(table_id, TableStats()),
            name if usable else None,
            known_shapes(row[1:] for row in names if row[0] == table_id),
        )
    return states


@dataclass(frozen=True)
class _Layout:
    """A table's schema versions, and all that its columns ever were."""

    versions: tuple[Row, ...]
    history: tuple[Row, ...]


def _layout_key(schema_version: int, table_id: int) -> tuple[Any, ...]:
    return "layout", schema_version, table_id


def _layout(table_id: int, found: Sequence[Sequence[Row]]) -> _Layout:
    versions, history = (tuple(row for row in rows if row[0] == table_id) for rows in found)
    return _Layout(versions, history)


def _present(layouts: Mapping[int, _Layout | None], table_id: int) -> _Layout:
    found = layouts[table_id]
    assert found is not None
    return found


def _boolean(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _retyped(history: Sequence[Row]) -> frozenset[int]:
    types = defaultdict(set)
    for _, column_id, _, column_type, *_ in history:
        types[column_id].add(column_type)
    return frozenset(column_id for column_id, found in types.items() if len(found) > 1)


def _same_layout(history: Sequence[Row], begin: int) -> bool:
    """Whether the columns at a snapshot have the names and types of today; defaults and NOT NULL do not matter."""
    then = {row[1:5] for row in history if row[5] <= begin and (row[6] is None or row[6] > begin)}
    now = {row[1:5] for row in history if row[6] is None}
    return then == now
