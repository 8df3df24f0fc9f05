"""Files that were added to the lake and know its columns by name only: the types that they really have.

DuckDB's reader casts whatever a file has. Spark's must be told, and the catalog does not say: where a file may hold
another unit of time or a narrower number than the column, the file itself is asked, once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.scan.recipe import NameMap
from ducklake_spark.scan.storage import local_path

Types = tuple[tuple[int, str], ...]
"""Columns and fields, by id, that a file keeps in another type than the table has."""

_ASKED = ("uint64", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
"""Types of columns for which Spark must know exactly what it reads; others it widens by itself."""
_UNITS = {"MILLIS": "timestamp_ms", "MICROS": "timestamp", "NANOS": "timestamp_ns"}
_CONVERTED = {
    "UINT_8": "uint8",
    "UINT_16": "uint16",
    "UINT_32": "uint32",
    "UINT_64": "uint64",
    "TIMESTAMP_MILLIS": "timestamp_ms",
    "TIMESTAMP_MICROS": "timestamp",
}


def must_be_asked(columns: Iterable[ColumnDef]) -> bool:
    """Whether a table has columns of which a file must tell the type."""
    return any(node.type in _ASKED for column in columns for node in column.walk())


def types_of(path: str, names: NameMap, columns: Iterable[ColumnDef]) -> Types:
    """What a file keeps otherwise than the table; nothing if it is in an object store, or cannot be read at all.

    Args:
        path: The whole path of the file.
        names: How the file calls the columns.
        columns: The table's columns.
    """
    local = local_path(path)
    found = _NOTHING if local is None else _read(local)
    return tuple(sorted(_differing(columns, found, names)))


@dataclass(frozen=True)
class _Part:
    """A column of a file, or a part of one."""

    name: str
    type: str | None
    parts: tuple[_Part, ...] = ()

    def named(self, name: str | None) -> _Part | None:
        return next((part for part in self.parts if part.name == name), None)


@functools.lru_cache(maxsize=100_000)
def _read(path: str) -> _Part:
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        try:
            rows = connection.execute(
                "SELECT name, num_children, converted_type, logical_type FROM parquet_schema(?)",
                [_literal(path)],
            ).fetchall()
        except duckdb.Error:
            return _NOTHING  # the scan will say what is wrong with it
    return _tree(iter(rows))


def _tree(rows: Iterator[tuple[Any, ...]]) -> _Part:
    """The next row and, since a parent stands before its children, all that is below it."""
    name, children, converted, logical = next(rows)
    return _Part(str(name), _type(converted, logical), tuple(_tree(rows) for _ in range(children or 0)))


def _type(converted: str | None, logical: str | None) -> str | None:
    """A type as the lake calls it, if it is one that matters here."""
    if (logical or "").startswith("TimestampType"):
        unit = re.search(r"(MILLIS|MICROS|NANOS)=(?!<null>)", logical or "")
        return _UNITS.get(unit.group(1)) if unit else None
    return _CONVERTED.get(converted or "")


def _literal(path: str) -> str:
    """A path in which nothing is a pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


def _differing(columns: Iterable[ColumnDef], found: _Part, names: NameMap) -> Iterator[tuple[int, str]]:
    for column in columns:
        part = found.named(names.sources.get(column.column_id))
        if part is not None:
            yield from _in(column, part, names)


def _in(node: ColumnDef, found: _Part, names: NameMap) -> Iterator[tuple[int, str]]:
    if node.type == "struct":
        yield from _differing(node.children, found, names)
    elif node.type in ("list", "map"):
        # The repeated group that the format wants, with the element, or the key and the value, inside.
        inner = found.parts[0] if found.parts else _NOTHING
        parts = inner.parts if len(inner.parts) == len(node.children) else found.parts
        for child, part in zip(node.children, parts, strict=False):
            yield from _in(child, part, names)
    elif node.type in _ASKED and found.type is not None and found.type != node.type:
        yield node.column_id, found.type


_NOTHING = _Part("", None)
