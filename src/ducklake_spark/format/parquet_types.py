"""Columns of Parquet files as the lake's types, and which of them a table's column takes. Pure.

The rules are those of the extension, found by adding files of every type to columns of every type. They are narrower
than what readers can cast: a file that is added keeps its rows as they are for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import NESTED, Decimal, duckdb_name, parse_type

ACCEPTED: Mapping[str, tuple[str, ...]] = {
    "int8": ("int8",),
    "int16": ("int16", "uint8", "int8"),
    "int32": ("int32", "uint16", "int16", "uint8", "int8"),
    "int64": ("int64", "uint32", "int32", "uint16", "int16", "uint8", "int8"),
    "uint8": ("uint8",),
    "uint16": ("uint16", "uint8"),
    "uint32": ("uint32", "uint16", "uint8"),
    "uint64": ("uint64", "uint32", "uint16", "uint8"),
    "float32": ("float32",),
    "float64": ("float64", "float32"),
    "timestamp": ("timestamp_ns", "timestamp", "timestamp_ms", "timestamp_s"),
    "timestamp_s": ("timestamp", "timestamp_ms", "timestamp_s"),
    "timestamp_ms": ("timestamp", "timestamp_ms", "timestamp_s"),
    "timestamp_ns": ("timestamp_ns", "timestamp", "timestamp_ms", "timestamp_s"),
}
"""The types of files that a column takes; other columns take their own type, and decimals those that fit in them."""

_PHYSICAL = {
    "BOOLEAN": "boolean",
    "INT32": "int32",
    "INT64": "int64",
    "INT96": "timestamp",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BYTE_ARRAY": "blob",
    "FIXED_LEN_BYTE_ARRAY": "blob",
}
_CONVERTED = {
    **{f"{sign}INT_{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "DATE": "date",
    "TIMESTAMP_MICROS": "timestamp",
    "TIMESTAMP_MILLIS": "timestamp",
    "UTF8": "varchar",
    "ENUM": "varchar",
    "TIME_MILLIS": "time",
    "TIME_MICROS": "time",
    "INTERVAL": "interval",
    "JSON": "json",
}
_TIMES = {"MILLIS": "timestamp_ms", "MICROS": "timestamp", "NANOS": "timestamp_ns"}
_UNIT = re.compile(r"(MILLIS|MICROS|NANOS)=(?!<null>)")
_LARGEST_PRECISION = 38
_BARE = ("int32", "int64", "blob")
_UNLIKE = ("TIME", "FLOAT", "GEOMETRY")
"""What DuckDB knows some bare numbers and bytes to be, by marks that came later than these rules."""


@dataclass(frozen=True)
class ParquetColumn:
    """A node of a file's schema, in the words of DuckDB's `parquet_schema()`.

    Attributes:
        leaf: Its place among the columns that have values; None for a group.
        reads_as: What DuckDB's reader makes of a leaf.
    """

    name: str
    type: str | None = None
    converted_type: str | None = None
    logical_type: str | None = None
    precision: int | None = None
    scale: int | None = None
    repetition: str | None = None
    reads_as: str | None = None
    leaf: int | None = None
    children: tuple[ParquetColumn, ...] = ()


def columns_of(rows: Sequence[Sequence[Any]]) -> tuple[ParquetColumn, ...]:
    """The columns of a file, from the rows of its schema: name, number of children, and the rest as above."""
    leaves = iter(range(len(rows)))

    def node(left: Iterator[Sequence[Any]]) -> ParquetColumn:
        name, children, *described = next(left)
        count = int(children or 0)
        leaf = None if count else next(leaves)
        physical, converted, logical, precision, scale, repetition, reads_as = described
        return ParquetColumn(
            name,
            physical,
            converted,
            logical,
            None if precision is None else int(precision),
            None if scale is None else int(scale),
            repetition,
            reads_as,
            leaf,
            tuple(node(left) for _ in range(count)),
        )

    left = iter(rows)
    root = next(left)
    return tuple(node(left) for _ in range(int(root[1] or 0)))


def lake_type(column: ParquetColumn) -> str:
    """The type of a file's column, as the lake would call it.

    >>> lake_type(ParquetColumn("a", "INT32", "UINT_8")), lake_type(ParquetColumn("b", "INT96"))
    ('uint8', 'timestamp')
    """
    if column.children:
        return {"LIST": "list", "MAP": "map"}.get(column.converted_type or "", "struct")
    logical, converted = column.logical_type or "", column.converted_type
    unit = _UNIT.search(logical)
    if logical.startswith("TimestampType") and unit is not None:
        return "timestamptz" if "isAdjustedToUTC=1" in logical else _TIMES[unit[1]]
    if logical.startswith("TimeType(isAdjustedToUTC=0") and unit is not None and unit[1] == "MICROS":
        return "time"
    if logical.startswith("UUIDType"):
        return "uuid"
    if logical.startswith("Geometry"):
        return "geometry"
    if converted == "DECIMAL":
        return f"decimal({column.precision},{column.scale})"
    return _CONVERTED.get(converted or "") or _PHYSICAL.get(column.type or "", "blob")


def check(column: ParquetColumn, wanted: str, path: str, where: str) -> None:
    """Refuses a file's column that the table's column cannot take.

    Args:
        column: The file's column.
        wanted: The type of the table's column.
        path: The column as messages call it, with the names of its parents.
        where: Words that name the file and the table.

    Raises:
        InvalidInputError: It cannot.
    """
    reason = _mismatch(column, lake_type(column), wanted)
    if reason is not None:
        raise InvalidInputError(f'Failed to map column "{path}" {where}: {reason}')


def _mismatch(column: ParquetColumn, found: str, wanted: str) -> str | None:
    """Why a column does not fit; None if it does."""
    if found.startswith("decimal(") and (column.precision or 0) > _LARGEST_PRECISION:
        return f"a lake has decimals of at most {_LARGEST_PRECISION} digits, and it has {column.precision}."
    if wanted.startswith("decimal("):
        if not found.startswith("decimal("):
            return f"expected DECIMAL, found {_shown(found)}."
        target = parse_type(wanted)
        assert isinstance(target, Decimal)
        if (column.scale or 0) > target.scale or (column.precision or 0) > target.precision:
            return f"{_shown(found)} does not fit into {_shown(wanted)}."
        return None
    accepted = ACCEPTED.get(wanted, (wanted,))
    if found not in accepted:
        expected = "one of " * (len(accepted) > 1) + ", ".join(map(_shown, accepted))
        hint = " Only geometries of Parquet's own type can be added." if wanted == "geometry" else ""
        return f"expected {expected}, found {_shown(found)}.{hint}"
    if found in _BARE and (column.reads_as or "").startswith(_UNLIKE):
        # The extension takes some of these, and can never read them again.
        return f"DuckDB reads it as {column.reads_as}, which is no {_shown(wanted)}."
    return None


def _shown(lake_type: str) -> str:
    return lake_type.upper() if lake_type in NESTED else duckdb_name(parse_type(lake_type))
