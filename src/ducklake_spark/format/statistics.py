"""Statistics of files and tables: their texts, how they compare, and how a table's move when rows are added. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from ducklake_spark.format.columns import ColumnDef, walk_all
from ducklake_spark.format.types import NESTED

_FLOATS = ("float32", "float64")
WIDE_INTEGERS = ("int128", "uint128")
UNBOUNDED = ("variant", "geometry", "timetz", "interval", *WIDE_INTEGERS)
"""Types of which not every file has bounds."""
_BOOLEANS = {"0": False, "1": True, "false": False, "true": True}
_DATE = re.compile(r"(\d+)-(\d\d)-(\d\d)( \(BC\))?(?: (\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?(?:\+00)?\Z")
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?\Z")


@dataclass(frozen=True)
class VariantStats:
    """One shredded leaf of a variant column in a file."""

    variant_path: str
    shredded_type: str
    column_size_bytes: int
    value_count: int
    null_count: int
    min_value: str | None
    max_value: str | None
    contains_nan: bool | None = None
    extra_stats: str | None = None


@dataclass(frozen=True)
class ColumnStats:
    """One leaf column in a file, or in the rows of one inlined insert."""

    column_id: int
    column_size_bytes: int | None
    value_count: int | None
    null_count: int | None
    min_value: str | None
    max_value: str | None
    contains_nan: bool | None = None
    extra_stats: str | None = None
    variants: tuple[VariantStats, ...] = ()

    @property
    def all_null(self) -> bool:
        """Whether no row has a value."""
        return self.value_count == 0

    @property
    def contains_null(self) -> bool:
        """Whether a row may be NULL."""
        return self.null_count is None or self.null_count > 0


@dataclass(frozen=True)
class TableColumnStats:
    """One row of `ducklake_table_column_stats`."""

    column_id: int
    contains_null: bool | None
    contains_nan: bool | None
    min_value: str | None
    max_value: str | None
    extra_stats: str | None = None
    stored: bool = True
    """Whether the catalog has the row already."""


@dataclass(frozen=True)
class TableStats:
    """One row of `ducklake_table_stats` with the columns' rows; `stored` as above."""

    record_count: int = 0
    next_row_id: int = 0
    file_size_bytes: int = 0
    columns: Mapping[int, TableColumnStats] = field(default_factory=dict)
    stored: bool = False
    retyped: frozenset[int] = frozenset()
    """Columns that had another type before: their missing bounds say nothing."""


def comparable(text: str, column_type: str) -> Any | None:
    """A statistics text as something that compares by value; None when it cannot be read.

    >>> comparable("-5", "int32") < comparable("12", "int32")
    True
    >>> comparable("0044-03-15 (BC)", "date") < comparable("2020-01-01", "date")
    True
    """
    try:
        if column_type == "boolean":
            return _BOOLEANS.get(text)
        if column_type.startswith(("int", "uint")) and column_type != "interval":
            return int(text)
        if column_type in _FLOATS:
            number = float(text)
            return (1, 0.0) if math.isnan(number) else (0, number)  # NaN is the greatest, as in DuckDB
        if column_type.startswith("decimal"):
            return Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    if column_type == "date" or column_type.startswith("timestamp"):
        return _temporal(text)
    if column_type == "time":
        match = _CLOCK.match(text)
        return None if match is None else (*map(int, match.groups()[:3]), int(f"{match[4] or '':0<9}"))
    return text.encode()


def _temporal(text: str) -> tuple[int, ...] | None:
    if text in ("infinity", "-infinity"):
        return (10**9 if text == "infinity" else -(10**9),)
    match = _DATE.match(text)
    if match is None:
        return None
    year, month, day, before, hour, minute, second, fraction = match.groups()
    years = 1 - int(year) if before else int(year)
    return (
        years,
        int(month),
        int(day),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int(f"{fraction or '':0<9}"),
    )


def merge_files(parts: Sequence[ColumnStats], column_type: str) -> ColumnStats:
    """The statistics of several files taken together, for one column."""
    first = parts[0]
    if len(parts) == 1:
        return first
    valid = [part for part in parts if not part.all_null] or [first]
    extra = first.extra_stats
    for part in parts[1:]:
        if extra is None:
            break
        extra = merge_extra(extra, part.extra_stats, column_type)
    return replace(
        first,
        column_size_bytes=_sum(part.column_size_bytes for part in parts),
        value_count=_sum(part.value_count for part in parts),
        null_count=_sum(part.null_count for part in parts),
        min_value=_most([part.min_value for part in valid], column_type, min),
        max_value=_most([part.max_value for part in valid], column_type, max),
        contains_nan=_any(part.contains_nan for part in parts),
        extra_stats=extra,
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    return None if None in found else sum(count for count in found if count is not None)


def _any(flags: Iterable[bool | None]) -> bool | None:
    found = set(flags)
    return None if None in found else True in found


def _most(texts: Sequence[str | None], column_type: str, choose: Callable[..., str]) -> str | None:
    """The least or greatest of some bounds, by value; None when one of them is not known."""
    values: dict[str, Any] = {}
    for text in texts:
        if text is None:
            return None
        if text not in values:
            values[text] = comparable(text, column_type)
            if values[text] is None:
                return None
    return choose(values, key=values.__getitem__)


def _either(left: bool | None, right: bool | None) -> bool | None:
    return None if left is None or right is None else left or right


def _bounds(old: ColumnStats, new: ColumnStats, column_type: str) -> tuple[str | None, str | None]:
    if new.all_null:
        return old.min_value, old.max_value
    if old.all_null:
        return new.min_value, new.max_value
    return (
        _extreme(old.min_value, new.min_value, column_type, least=True),
        _extreme(old.max_value, new.max_value, column_type, least=False),
    )


def _extreme(old: str | None, new: str | None, column_type: str, *, least: bool) -> str | None:
    if old is None or new is None:
        return None
    left, right = comparable(old, column_type), comparable(new, column_type)
    if left is None or right is None:
        return None
    if left == right:
        return old
    return old if (left < right) == least else new


def merge_table(
    stats: TableStats, added: Mapping[int, ColumnStats], columns: Iterable[ColumnDef]
) -> dict[int, TableColumnStats]:
    """The column rows of a table after rows with these statistics were added.

    A row without bounds says that there are no values. Where there are, and it could be mistaken for that, the row is
    left out: readers then know nothing, and bounds that do not hold are worse, for DuckDB computes with them.
    """
    result = dict(stats.columns)
    columns = list(columns)
    repeated = _repeated(columns)
    for node, _ in walk_all(columns):
        if node.type in NESTED:
            continue
        new = added.get(node.column_id)
        if new is not None and node.type in WIDE_INTEGERS:
            new = replace(new, contains_nan=None)  # a mark of files only
        old = stats.columns.get(node.column_id)
        if new is None:
            if old is not None and stats.stored:
                # Rows without any word on this column: nothing is known of them.
                # They may be NULL, and a row without bounds would say that all are.
                result[node.column_id] = replace(
                    old,
                    contains_null=True,
                    contains_nan=None,
                    min_value=None,
                    max_value=None,
                    extra_stats=None,
                )
                if _is_bounded(node, stats):
                    del result[node.column_id]
            continue
        if old is None:
            # Nothing is known of rows that were there before, and a row without bounds would say that all are NULL.
            if not stats.stored or stats.record_count == 0:
                result[node.column_id] = TableColumnStats(
                    node.column_id,
                    new.contains_null,
                    new.contains_nan,
                    new.min_value,
                    new.max_value,
                    new.extra_stats,
                    stored=False,
                )
            continue
        merged = _merge_column(old, new, node, stats, node.column_id in repeated)
        if merged is not None:
            result[node.column_id] = merged
        else:
            del result[node.column_id]
    return result


def _repeated(columns: Iterable[ColumnDef], *, inside: bool = False) -> set[int]:
    """The nodes in lists and maps, of which rows may have no values at all, not even NULL."""
    found: set[int] = set()
    for column in columns:
        if inside:
            found.add(column.column_id)
        found |= _repeated(column.children, inside=inside or column.type in ("list", "map"))
    return found


def _is_bounded(node: ColumnDef, stats: TableStats) -> bool:
    """Whether values of the node have bounds, and their texts mean today what they meant when they were written."""
    return node.type not in UNBOUNDED and node.column_id not in stats.retyped


def _merge_column(
    old: TableColumnStats, new: ColumnStats, node: ColumnDef, stats: TableStats, repeated: bool
) -> TableColumnStats | None:
    """The row after the merge; None if it would have no bounds although there are values, and not tell."""
    bounded = _is_bounded(node, stats)
    # Without bounds, the old rows are all NULL or NaN, or have no elements.
    silent = old.min_value is None and old.max_value is None
    empty = silent and bounded and bool(repeated or old.contains_null or old.contains_nan)
    before = ColumnStats(node.column_id, None, 0 if empty else None, None, old.min_value, old.max_value)
    low, high = _bounds(before, new, node.type)
    merged = replace(
        old,
        contains_null=None if old.contains_null is None else old.contains_null or new.contains_null,
        contains_nan=_either(old.contains_nan, new.contains_nan),
        min_value=low,
        max_value=high,
        extra_stats=merge_extra(old.extra_stats, new.extra_stats, node.type),
    )
    # NaN is not among the values that a file's bounds are of: a file with NaN and without bounds has nothing else.
    only_nan = new.contains_nan and new.min_value is None and new.max_value is None
    has_values = not (before.all_null and (new.all_null or only_nan))
    if bounded and has_values and low is None and high is None:
        return None if repeated or merged.contains_null or merged.contains_nan else merged
    return merged


def merge_extra(old: str | None, new: str | None, column_type: str) -> str | None:
    """Extra statistics of a geometry are united; those of a variant are kept where both sides say the same."""
    if old is None or new is None:
        return None
    if column_type == "geometry":
        return geometry_stats(_geometry_union(json.loads(old), json.loads(new)))
    return _merge_variants(json.loads(old), json.loads(new))


def _merge_variants(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> str | None:
    """Paths that are there with the same type on both sides."""
    others = {part["field_name"]: part for part in new}
    leaves = []
    for part in old:
        other = others.get(part["field_name"])
        if other is None or other["shredded_type"] != part["shredded_type"]:
            continue
        leaves.append(_merge_leaves(_leaf(part), _leaf(other)))
    return variant_stats(leaves)


def _leaf(part: Mapping[str, Any]) -> VariantStats:
    nulls = int(part.get("null_count", 0))
    return VariantStats(
        part["field_name"],
        part["shredded_type"],
        int(part.get("column_size_bytes", 0)),
        int(part.get("num_values", nulls)) - nulls,
        nulls,
        part.get("min"),
        part.get("max"),
        part.get("contains_nan"),
    )


def _merge_leaves(old: VariantStats, new: VariantStats) -> VariantStats:
    first, second = (
        ColumnStats(0, None, leaf.value_count, leaf.null_count, leaf.min_value, leaf.max_value)
        for leaf in (old, new)
    )
    low, high = _bounds(first, second, old.shredded_type)
    return replace(
        old,
        column_size_bytes=old.column_size_bytes + new.column_size_bytes,
        value_count=old.value_count + new.value_count,
        null_count=old.null_count + new.null_count,
        min_value=low,
        max_value=high,
        contains_nan=_either(old.contains_nan, new.contains_nan),
    )


def variant_stats(leaves: Sequence[VariantStats]) -> str | None:
    """The text of a variant's extra statistics, as the extension writes it; None when nothing is shredded.

    >>> variant_stats([VariantStats("root", "int32", 39, 2, 1, "42", "99")])[:72]
    '[{"field_name":"root","shredded_type":"int32","null_count":1,"min":"42",'
    """
    parts = []
    for leaf in leaves:
        part: dict[str, Any] = {
            "field_name": leaf.variant_path,
            "shredded_type": leaf.shredded_type,
            "null_count": leaf.null_count,
            "min": leaf.min_value,
            "max": leaf.max_value,
            "num_values": leaf.value_count + leaf.null_count,
            "contains_nan": leaf.contains_nan,
            "column_size_bytes": leaf.column_size_bytes,
            "any_valid": True,
        }
        parts.append({key: value for key, value in part.items() if value is not None})
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":")) if parts else None


def _geometry_union(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    box = {}
    for key, left in old["bbox"].items():
        right = new["bbox"].get(key)
        values = [value for value in (left, right) if value is not None]
        box[key] = None if not values else min(values) if key.endswith("min") else max(values)
    return {"bbox": box, "types": sorted({*old["types"], *new["types"]})}


def geometry_stats(value: Mapping[str, Any]) -> str:
    """The text of a geometry's extra statistics, character for character as the extension writes it.

    >>> geometry_stats({"bbox": {"xmin": 1, "xmax": 3}, "types": ["point"]})[:44]
    '{"bbox": {"xmin": 1.000000, "xmax": 3.000000'
    """
    keys = [axis + side for axis in "xyzm" for side in ("min", "max")]
    shown = (
        f'"{key}": ' + ("null" if value["bbox"].get(key) is None else f"{float(value['bbox'][key]):f}")
        for key in keys
    )
    types = ", ".join(f'"{name}"' for name in sorted(value["types"]))
    return f'{{"bbox": {{{", ".join(shown)}}}, "types": [{types}]}}'
