"""Rows that a new table is made for: which columns and types it gets, in DuckDB's words.

Arrow's types become those that DuckDB gives them. Whole numbers of Python are BIGINT, or HUGEINT where they must be.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_spark.errors import InvalidInputError, shortened
from ducklake_spark.format.types import DataType, fold, parse_type

_GIVE = "Give the table a schema, such as {'a': 'int'}"


@dataclass(frozen=True)
class GivenRows:
    """Rows that stand where a schema can stand."""

    rows: Any
    """What `insert` takes."""
    table: pa.Table | None = None
    dicts: tuple[Mapping[str, Any], ...] = ()

    def columns(self, name: str) -> list[tuple[str, DataType]]:
        """Names and types for a table of this name.

        Raises:
            InvalidInputError: A column has no type, or values of several.
        """
        if self.table is not None:
            return [(part.name, _of_arrow(self.table, i, name)) for i, part in enumerate(self.table.schema)]
        names: dict[str, str] = {}
        for row in self.dicts:
            for key in row:
                if not isinstance(key, str):
                    raise InvalidInputError(
                        f'A row for table "{name}" has {key!r} for a column name: it must be a text.'
                    )
                names.setdefault(fold(key), key)
        folded = [{fold(key): value for key, value in row.items()} for row in self.dicts]
        return [(own, _of_values([row.get(key) for row in folded], own, name)) for key, own in names.items()]


def given_rows(given: Any, name: str) -> GivenRows | None:
    """What was given for a schema, if it is rows that are here already; None if it is something else.

    Raises:
        InvalidInputError: It is an empty list, which says nothing of columns.
    """
    kind = type(given).__module__.partition(".")[0]
    if kind == "pyspark" or isinstance(given, (str, Mapping)) or given is None:
        return None
    if isinstance(given, Iterator) and not isinstance(given, pa.RecordBatchReader):
        given = list(given)
    if kind == "pandas" and hasattr(given, "columns"):
        return GivenRows(given, _of_pandas(given, name))
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    elif isinstance(given, pa.RecordBatchReader):
        given = given.read_all()
    elif hasattr(given, "__arrow_c_stream__") and not isinstance(given, pa.Table):
        given = pa.table(given)
    if isinstance(given, pa.Table):
        return GivenRows(given, given)
    if not isinstance(given, (list, tuple)):
        return None
    if not given:
        raise InvalidInputError(
            f'An empty list does not say what columns table "{name}" has: give rows, or a schema with at least one '
            "column."
        )
    dicts = [
        row.asDict() if hasattr(row, "asDict") and getattr(row, "__fields__", None) else row for row in given
    ]
    if not isinstance(dicts[0], Mapping):
        return None  # perhaps pairs of names and types
    for row in dicts:
        if not isinstance(row, Mapping):
            raise InvalidInputError(
                f'{shortened(repr(row), 60)} is not a row for table "{name}" like the first, which is a dict.'
            )
    return GivenRows(list(given), dicts=tuple(dicts))


def _of_pandas(given: Any, name: str) -> pa.Table:
    arrays, names = [], []
    for place, column in enumerate(given.columns):
        series = given.iloc[:, place]
        try:
            array = pa.Array.from_pandas(series)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            array = None
        if array is None:
            values = [None if isinstance(value, float) and value != value else value for value in series]
            _of_values(values, str(column), name)
            array = pa.array([str(value) for value in values]) if _are_uuids(values) else pa.array(values)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
            # pandas' own resolution, which says nothing of what the values need.
            micros = pc.cast(array, pa.timestamp("us", array.type.tz), safe=False)
            array = micros if pc.cast(micros, array.type).equals(array) else array
        arrays.append(array)
        names.append(str(column))
    return pa.Table.from_arrays(arrays, names=names)


def _of_values(values: list[Any], column: str, name: str) -> DataType:
    present = [value for value in values if value is not None]
    if _are_uuids(present):
        return parse_type("uuid")
    try:
        array = pa.array(present)
    except OverflowError:
        if all(isinstance(value, int) for value in present):
            return parse_type("hugeint")
        raise _mixed(column, name) from None
    except (pa.ArrowException, TypeError, ValueError):
        raise _mixed(column, name) from None
    return _of_arrow(pa.table({column: array}), 0, name)


def _are_uuids(values: Iterable[Any]) -> bool:
    found = [isinstance(value, uuid.UUID) for value in values]
    return bool(found) and all(found)


def _mixed(column: str, name: str) -> InvalidInputError:
    return InvalidInputError(
        f'The values of column "{column}" for table "{name}" are not of one type that the lake knows. {_GIVE}, first.'
    )


def _of_arrow(table: pa.Table, place: int, name: str) -> DataType:
    part = table.schema.field(place)
    if pa.types.is_null(part.type):
        raise InvalidInputError(
            f'All values of column "{part.name}" for table "{name}" are NULL, so it has no type. {_GIVE}.'
        )
    empty = pa.table({"c": pa.chunked_array([], part.type)})
    try:
        with duckdb.connect(":memory:") as connection:
            [kind] = connection.from_arrow(empty).types
        return parse_type(str(kind))
    except (duckdb.Error, InvalidInputError, pa.ArrowException):
        raise InvalidInputError(
            f'Column "{part.name}" for table "{name}" has the Arrow type {part.type}, which the lake has no type for. '
            "Cast it first."
        ) from None
