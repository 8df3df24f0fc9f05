"""Predicates as conditions of the query that lists files, on the statistics that the catalog keeps for each file.

A condition names the files that surely have no matching row. Where a bound is missing or cannot be compared, SQL's NULL
keeps the file. What differs between databases is how a bound's text is compared by value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal as Number
from typing import Any

from ducklake_spark.format.bucket import bucket
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.types import Decimal, parse_type
from ducklake_spark.scan.planning.listing import Condition
from ducklake_spark.scan.planning.plan import FileGroup, ScanPlan
from ducklake_spark.scan.projection.column import History
from ducklake_spark.scan.pruning.bounds import Bounds, bounds_of
from ducklake_spark.scan.pruning.predicate import (
    And,
    Compare,
    IsNotNull,
    IsNull,
    OneOf,
    Or,
    Predicate,
    StartsWith,
    parse,
)

_MANY = 50
"""Longer IN lists are compared as so many ranges."""
_NO_STATISTICS = frozenset({"timetz", "interval", "variant", "geometry", "list", "map", "struct", "time_ns"})
"""Types whose rows of statistics are wrong or missing."""

Fragment = tuple[str, tuple[Any, ...]]


def condition(filters: Sequence[Any], plan: ScanPlan, group: FileGroup, kind: str) -> Condition | None:
    """A condition that every file with matching rows satisfies; None when the filters decide nothing."""
    columns: dict[str, ColumnDef] = {}
    exact: set[int] = set()
    for column, made in zip(plan.table.columns, group.projections, strict=True):
        if made.field is not None:
            columns[made.field.name] = column
            # Fields of structs in added files have the names of the files, not those of the table.
            if made.convert is None and (group.key.mapping_id is None or column.type != "struct"):
                exact.add(column.column_id)
    predicate = parse(filters, columns, frozenset(exact))
    return keep(predicate, plan, kind)


def keep(predicate: Predicate, plan: ScanPlan, kind: str) -> Condition | None:
    """The condition for a predicate."""
    dropped = _Pruner(plan, kind).drop(predicate)
    if dropped is None:
        return None
    sql, params = _over_files(dropped, plan.table.table_id)
    return Condition(f"({sql}) IS NOT TRUE", params)


@dataclass(frozen=True)
class _OnColumn:
    """True for rows `s` of a column's statistics whose file has no match."""

    column_id: int
    sql: str
    params: tuple[Any, ...]


@dataclass(frozen=True)
class _OnFile:
    """True for rows `f` of files that have no match."""

    sql: str
    params: tuple[Any, ...]


_Drop = _OnColumn | _OnFile | None


def _over_files(drop: _OnColumn | _OnFile, table_id: int) -> Fragment:
    if isinstance(drop, _OnFile):
        return drop.sql, drop.params
    # Not correlated: the statistics of the column are read once, whatever the number of files.
    return (
        "f.data_file_id IN (SELECT s.data_file_id FROM ducklake_file_column_stats s "
        f"WHERE s.table_id = ? AND s.column_id = ? AND ({drop.sql}))",
        (table_id, drop.column_id, *drop.params),
    )


@dataclass(frozen=True)
class _Pruner:
    plan: ScanPlan
    kind: str

    def drop(self, predicate: Predicate) -> _Drop:
        """Which files surely have no row for which the predicate is true; None if that is never sure."""
        match predicate:
            case And(parts):
                return self._joined([self.drop(part) for part in parts], "OR")
            case Or(parts):
                dropped = [self.drop(part) for part in parts]
                return None if None in dropped else self._joined(dropped, "AND")
            case IsNull(column):
                return self._on(column, "s.null_count = 0")
            case IsNotNull(column):
                return self._on(column, "s.value_count = 0")
            case StartsWith(column, prefix):
                return self._prefix(column, prefix)
            case Compare(column, "=", value):
                return self._joined([self._one_of(column, (value,)), self._bucket(column, (value,))], "OR")
            case OneOf(column, values):
                return self._joined([self._one_of(column, values), self._bucket(column, values)], "OR")
            case Compare():
                return self._compare(predicate)
            case _:
                return None

    def _joined(self, parts: Sequence[_Drop], word: str) -> _Drop:
        known = [part for part in parts if part is not None]
        if not known:
            return None
        merged: list[_OnColumn | _OnFile] = []
        for part in known:
            for index, other in enumerate(merged):
                if (
                    isinstance(part, _OnColumn)
                    and isinstance(other, _OnColumn)
                    and part.column_id == other.column_id
                ):
                    merged[index] = _OnColumn(
                        part.column_id, f"({other.sql}) {word} ({part.sql})", (*other.params, *part.params)
                    )
                    break
            else:
                merged.append(part)
        if len(merged) == 1:
            return merged[0]
        fragments = [_over_files(part, self.plan.table.table_id) for part in merged]
        sql = f" {word} ".join(f"({text})" for text, _ in fragments)
        return _OnFile(sql, tuple(value for _, params in fragments for value in params))

    def _on(self, column: ColumnDef, sql: str, params: tuple[Any, ...] = ()) -> _Drop:
        if column.type in _NO_STATISTICS:
            return None
        return _OnColumn(column.column_id, sql, params)

    def _bounds(self, column: ColumnDef) -> Bounds | None:
        if column.type in _NO_STATISTICS:
            return None
        return bounds_of(self.kind, parse_type(column.type), is_promoted(column, self.plan.history))

    def _compare(self, predicate: Compare) -> _Drop:
        column, operator, value = predicate.column, predicate.operator, predicate.value
        bounds = self._bounds(column)
        if bounds is None or _is_nan(value):
            return self._on(column, "s.value_count = 0")
        fragment = {
            "<": lambda: bounds.at_least("s.min_value", value),
            "<=": lambda: bounds.above("s.min_value", value),
            ">": lambda: bounds.at_most("s.max_value", value),
            ">=": lambda: bounds.below("s.max_value", value),
            "<>": lambda: bounds.only("s.min_value", "s.max_value", value),
        }[operator]()
        if fragment is None:
            return self._on(column, "s.value_count = 0")
        sql, params = fragment
        if column.type in ("float32", "float64") and operator in (">", ">=", "<>"):
            # NaN is greater than everything, and not among the bounds.
            sql = f"({sql}) AND NOT s.contains_nan"
        return self._on(column, f"({sql}) OR s.value_count = 0", params)

    def _one_of(self, column: ColumnDef, values: tuple[Any, ...]) -> _Drop:
        nothing = self._on(column, "s.value_count = 0")
        bounds = self._bounds(column)
        if bounds is None:
            return nothing
        plain = [value for value in values if not _is_nan(value)]
        parts: list[Fragment] = [("NOT s.contains_nan", ())] if len(plain) < len(values) else []
        for low, high in _ranges(plain):
            sides = (bounds.below("s.max_value", low), bounds.above("s.min_value", high))
            outside = _any([side for side in sides if side is not None])
            if outside is None:
                return nothing
            parts.append(outside)
        sql = " AND ".join(f"({text})" for text, _ in parts)
        return self._on(
            column, f"({sql}) OR s.value_count = 0", tuple(p for _, params in parts for p in params)
        )

    def _prefix(self, column: ColumnDef, prefix: str) -> _Drop:
        parts: list[Fragment | None] = [("s.value_count = 0", ())]
        bounds = self._bounds(column)
        if bounds is not None and prefix and column.type in ("varchar", "json"):
            parts.append(bounds.below("s.max_value", prefix))
            if ord(prefix[-1]) < 0xD7FF:  # the next character must be one that a text can hold
                parts.append(bounds.at_least("s.min_value", prefix[:-1] + chr(ord(prefix[-1]) + 1)))
        found = _any([part for part in parts if part is not None])
        assert found is not None
        return self._on(column, *found)

    def _bucket(self, column: ColumnDef, values: tuple[Any, ...]) -> _Drop:
        """Files in other buckets, each by the specification under which it was written."""
        if is_promoted(column, self.plan.history) or column.type in _NO_STATISTICS:
            return None
        fragments: list[Fragment] = []
        for partition_id, key_index, column_id, buckets in self.plan.bucket_keys:
            if column_id != column.column_id:
                continue
            found = {_bucket_of(value, column, buckets) for value in values}
            if None in found or len(found) > _MANY:
                continue
            wanted = ", ".join(f"'{number}'" for number in sorted(n for n in found if n is not None))
            fragments.append(
                (
                    "f.partition_id = ? AND f.data_file_id IN (SELECT p.data_file_id FROM "
                    "ducklake_file_partition_value p WHERE p.table_id = ? AND p.partition_key_index = ? AND "
                    f"(p.partition_value IS NULL OR p.partition_value NOT IN ({wanted})))",
                    (partition_id, self.plan.table.table_id, key_index),
                )
            )
        found_any = _any(fragments)
        return None if found_any is None else _OnFile(*found_any)


def _ranges(values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Each value, or where these are many, ranges that hold all of them."""
    values = sorted(set(values))
    size = -(-len(values) // _MANY)
    return [(values[i], values[i : i + size][-1]) for i in range(0, len(values), size)] if values else []


def _any(parts: Sequence[Fragment]) -> Fragment | None:
    if not parts:
        return None
    return " OR ".join(f"({text})" for text, _ in parts), tuple(p for _, params in parts for p in params)


def _bucket_of(value: Any, column: ColumnDef, buckets: int) -> int | None:
    if _is_nan(value) or (isinstance(value, float) and math.isinf(value)):
        return None
    data_type = parse_type(column.type)
    if isinstance(value, Number) and not isinstance(data_type, Decimal):
        value = int(value)  # Spark shows wide integers as decimals
    return bucket(value, data_type, buckets)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def is_promoted(column: ColumnDef, history: History) -> bool:
    """Whether some files may have statistics of the column in another type."""
    return len({node.column_type for node in history.versions.get(column.column_id, ())}) > 1
