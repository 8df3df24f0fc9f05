"""Statistics of variants: DuckDB says of each file how it shredded them, and the format keeps what is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ducklake_spark.format.statistics import ColumnStats, VariantStats, variant_stats
from ducklake_spark.format.types import DataType, List, Struct, parse_type, quote

Statistics = Mapping[str, Mapping[str, str]]

_NULL = "00"
"""A variant's own NULL, as the statistics of `value` show it."""


def variant_column_stats(
    column_id: int, path: str, statistics: Statistics, rows: int, nulls: int
) -> ColumnStats:
    """The row of a variant column in a file; DuckDB does not count its NULLs, so they are given.

    Args:
        column_id: The column.
        path: Its name as the statistics write it.
        statistics: What `RETURN_STATS` said of the file.
        rows: How many rows the file has.
        nulls: How many of them are NULL.
    """
    parts = {key: part for key, part in statistics.items() if key.startswith(path + ".")}
    size = sum(int(part["column_size_bytes"]) for part in parts.values())
    shape = parts.get(f'{path}."metadata"', {}).get("variant_type")
    leaves = tuple(_leaves(path, parse_type(_plain(shape)), parts, ())) if shape else ()
    return ColumnStats(column_id, size, rows - nulls, nulls, None, None, None, variant_stats(leaves), leaves)


def _plain(shape: str) -> str:
    """The type without what the format has no word for, none of which is ever shredded."""
    return re.sub(r"\bTIMESTAMP WITH TIME ZONE\b", "TIMESTAMPTZ", shape)


def _leaves(path: str, shape: DataType, parts: Statistics, names: tuple[str, ...]) -> Iterator[VariantStats]:
    """The leaves below a group of `value` and `typed_value`, in the order of the file's schema."""
    assert isinstance(shape, Struct)
    typed = dict(shape.fields).get("typed_value")
    inner = f'{path}."typed_value"'
    match typed:
        case None:
            return
        case Struct(fields):
            for name, part in fields:
                yield from _leaves(f"{inner}.{quote(name)}", part, parts, (*names, quote(name)))
        case List(element):
            yield from _leaves(f'{inner}."element"', element, parts, (*names, "element"))
        case _:
            found, rest = parts.get(inner), parts.get(f'{path}."value"')
            if found is not None and (rest is None or _is_whole(rest)):
                yield _leaf(".".join(names) or "root", typed.name, found)


def _is_whole(rest: Mapping[str, str]) -> bool:
    """Whether nothing is left outside of the typed column but NULLs."""
    return rest["null_count"] == rest["num_values"] or rest.get("min") == rest.get("max") == _NULL


def _leaf(name: str, shredded_type: str, found: Mapping[str, str]) -> VariantStats:
    nulls = int(found["null_count"])
    nan = found.get("has_nan")
    low, high = found.get("min"), found.get("max")
    return VariantStats(
        name,
        shredded_type,
        int(found["column_size_bytes"]),
        int(found["num_values"]) - nulls,
        nulls,
        None if low is None or "\0" in low else low,
        None if high is None or "\0" in high else high,
        None if nan is None else nan == "true",
    )
