"""What a data file says of its own columns, for the few files of which the catalog cannot tell it."""

from __future__ import annotations

import functools
import itertools
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb

from ducklake_spark.errors import FileError
from ducklake_spark.format.duckdb_library import NO_THREADS
from ducklake_spark.spark.files import statuses
from ducklake_spark.spark.footer_copies import footer_copies
from ducklake_spark.storage import local_path


@dataclass(frozen=True)
class Part:
    """A column of a file, or a part of one."""

    name: str
    field_id: int | None = None
    type: str | None = None
    """As the lake calls it: numbers and times only."""
    parts: tuple[Part, ...] = ()

    def walk(self) -> Iterator[Part]:
        """This one and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


NOTHING = Part("")


def read(path: str) -> Part:
    """The columns of a file, as parts of one; none if it cannot be read at all."""
    local = local_path(path)
    if local is not None:
        return _read(local)
    if path not in _known:
        _read_stored([path])
    return _known.get(path, NOTHING)


_lock = threading.Lock()


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config=NO_THREADS)


_known: dict[str, Part] = {}
_MOST_KNOWN = 100_000
_AT_ONCE = 500


def read_all(paths: Sequence[str]) -> None:
    """Reads many files at once, which is quicker; `read` has them then."""
    unknown = [local for path in paths if (local := local_path(path)) is not None and local not in _known]
    _read_stored([path for path in paths if local_path(path) is None and path not in _known])
    for first in range(0, len(unknown), _AT_ONCE):
        some = unknown[first : first + _AT_ONCE]
        try:
            rows = _schema_rows(some)
        except duckdb.Error:
            continue  # each by itself, and the scan will say what is wrong with one
        for path, nodes in itertools.groupby(rows, key=lambda row: row[0]):
            _keep(path, _tree(iter([node[1:] for node in nodes])))


def _read(path: str) -> Part:
    found = _known.get(path)
    if found is None:
        try:
            found = _tree(iter([row[1:] for row in _schema_rows([path])]))
        except duckdb.Error:
            return NOTHING  # the scan will say what is wrong with it
        _keep(path, found)
    return found


def _read_stored(paths: Sequence[str]) -> None:
    """Files in object stores: what stands at their ends is fetched."""
    for first in range(0, len(paths), _AT_ONCE):
        with suppress(FileError, duckdb.Error), tempfile.TemporaryDirectory() as folder:
            found = list(statuses(None, paths[first : first + _AT_ONCE]).values())
            copies = footer_copies(None, found, folder)
            for file, copy in zip(found, copies, strict=True):
                _keep(file.path, _tree(iter([row[1:] for row in _schema_rows([copy])])))


def _keep(path: str, part: Part) -> None:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[path] = part


def _schema_rows(paths: Sequence[str]) -> list[tuple[Any, ...]]:
    with _lock:
        return (
            _connection()
            .execute(
                "SELECT file_name, name, num_children, field_id, type, converted_type, logical_type, precision, scale "
                "FROM parquet_schema(?)",
                [[_literal(path) for path in paths]],
            )
            .fetchall()
        )


def _tree(rows: Iterator[tuple[Any, ...]]) -> Part:
    """The next row and, since a parent stands before its children, all that is below it."""
    name, children, field_id, *described = next(rows)
    return Part(str(name), field_id, _type(*described), tuple(_tree(rows) for _ in range(children or 0)))


INT96 = "int96"
"""Timestamps as Spark and Hive wrote them once; no type of the lake."""
_PHYSICAL = {
    "BOOLEAN": "boolean",
    "INT32": "int32",
    "INT64": "int64",
    "INT96": INT96,
    "FLOAT": "float32",
    "DOUBLE": "float64",
}
_CONVERTED = {
    **{f"{sign}INT_{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "DATE": "date",
    "TIMESTAMP_MILLIS": "timestamp_ms",
    "TIMESTAMP_MICROS": "timestamp",
}
_UNITS = {"MILLIS": "timestamp_ms", "MICROS": "timestamp", "NANOS": "timestamp_ns"}


def _type(
    physical: str | None, converted: str | None, logical: str | None, precision: int | None, scale: int | None
) -> str | None:
    if (logical or "").startswith("TimestampType"):
        unit = re.search(r"(MILLIS|MICROS|NANOS)=(?!<null>)", logical or "")
        zoned = "isAdjustedToUTC=1" in (logical or "")
        if unit is None:
            return "timestamptz" if zoned else None
        return "timestamptz" if zoned and unit.group(1) != "NANOS" else _UNITS[unit.group(1)]
    if converted == "DECIMAL":
        return f"decimal({precision},{scale})"
    return _CONVERTED.get(converted or "") if converted else _PHYSICAL.get(physical or "")


def _literal(path: str) -> str:
    """A path in which nothing is a pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)
