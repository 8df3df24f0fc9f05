"""Small inserts as rows of the catalog: values in the encoding of its database, and their statistics."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from functools import cache

import duckdb
import pyarrow as pa

from ducklake_spark.errors import ConstraintError, InvalidInputError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.data import PLAIN, InlineBatch, inline_casts
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.statistics import ColumnStats
from ducklake_spark.format.types import NESTED, DataType, List, Map, Struct, duckdb_name, quote

_lock = threading.Lock()
_SHOWN = 200
"""So many characters of a value stand in an error."""


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def inline_rows(table: TableDef, arriving: pa.Table, values: Sequence[str], kind: str) -> InlineBatch:
    """The rows of `arriving` for the catalog.

    Args:
        table: The table.
        arriving: Columns `c0`, `c1` ... as Spark or the user gave them.
        values: For each column of the table the SQL of its value over `arriving`.
        kind: The kind of the catalog database.

    Raises:
        InvalidInputError: A value does not fit its column.
        ConstraintError: NULL in a NOT NULL column.
    """
    with _lock:
        connection = _connection()
        connection.register("arriving", arriving)
        try:
            _materialize(connection, table, arriving, values)
            encoded = ", ".join(_encoded(quote(column.name), column, kind) for column in table.columns)
            rows = connection.execute(f"SELECT {encoded} FROM inlined").fetchall()
            statistics = tuple(
                stats for column in table.columns for stats in _leaf_statistics(connection, column, len(rows))
            )
        finally:
            connection.execute("DROP TABLE IF EXISTS inlined")
            connection.unregister("arriving")
    return InlineBatch(rows, statistics, inline_casts(table.columns, kind), table.columns, kind)


def _materialize(
    connection: duckdb.DuckDBPyConnection, table: TableDef, arriving: pa.Table, values: Sequence[str]
) -> None:
    """The values in the table's own types, so that the texts and statistics are DuckDB's."""
    selected = [
        f"CAST({value} AS {duckdb_name(column.data_type)}) AS {quote(column.name)}"
        for column, value in zip(table.columns, values, strict=True)
    ]
    try:
        connection.execute(f"CREATE TEMP TABLE inlined AS SELECT {', '.join(selected)} FROM arriving")
    except duckdb.Error as error:
        raise _named(connection, table, arriving, selected, error) from error
    for column in table.columns:
        if not column.nulls_allowed:
            row = connection.execute(
                f"SELECT 1 FROM inlined WHERE {quote(column.name)} IS NULL LIMIT 1"
            ).fetchone()
            if row is not None:
                raise not_null_error(table, column.name)


def not_null_error(table: TableDef, column: str) -> ConstraintError:
    """The error for a NULL in a NOT NULL column."""
    return ConstraintError(
        f'NOT NULL constraint failed: column "{column}" of table "{table.name}" got a NULL. Nothing was written.'
    )


def misfit_error(table: TableDef, column: str | None, value: str | None, reason: str) -> InvalidInputError:
    """The error for a value that a column cannot hold."""
    found = next((each for each in table.columns if each.name == column), None)
    where = f'column "{column}" of table "{table.name}"' if column is not None else f'table "{table.name}"'
    which = f", which is {duckdb_name(found.data_type)}" if found is not None else ""
    shown = "" if value is None else f" {value[:_SHOWN]!r}"
    return InvalidInputError(f"A value{shown} does not fit {where}{which}: {reason}. Nothing was written.")


def _named(
    connection: duckdb.DuckDBPyConnection,
    table: TableDef,
    arriving: pa.Table,
    selected: Sequence[str],
    error: duckdb.Error,
) -> InvalidInputError:
    for column, sql in zip(table.columns, selected, strict=True):
        try:
            connection.execute(f"SELECT {sql} FROM arriving").fetchall()
        except duckdb.Error as failure:
            found = _SOURCE.search(sql)
            value = None
            if found is not None and found[0] in arriving.column_names:
                value = _first_bad(connection, sql, arriving, found[0])
                connection.register("arriving", arriving)
            return misfit_error(table, column.name, value, str(failure).split("\n", 1)[0])
    return misfit_error(table, None, None, str(error).split("\n", 1)[0])


_SOURCE = re.compile(r"\bc\d+\b")


def _first_bad(
    connection: duckdb.DuckDBPyConnection, sql: str, arriving: pa.Table, source: str
) -> str | None:
    for row in range(arriving.num_rows):
        connection.register("arriving", arriving.slice(row, 1))
        try:
            connection.execute(f"SELECT {sql} FROM arriving").fetchall()
        except duckdb.Error:
            return str(arriving.column(source)[row].as_py())
    return None


def _encoded(name: str, column: ColumnDef, kind: str) -> str:
    """The value as the database's driver takes it."""
    if column.type in PLAIN:
        return (
            f"CAST({name} AS TINYINT)" if column.type == "boolean" and kind in ("sqlite", "mysql") else name
        )
    if column.type == "blob":
        return name
    if kind == "postgres":
        if column.type in ("varchar", "json"):
            return f"encode(CAST({name} AS VARCHAR))"
        if column.type in ("float32", "float64"):
            return name
    if column.type == "variant":
        return f"CAST(CAST({name} AS JSON) AS VARCHAR)"
    return f"CAST({name} AS VARCHAR)"


def _leaf_statistics(
    connection: duckdb.DuckDBPyConnection, column: ColumnDef, count: int
) -> Iterator[ColumnStats]:
    source = f"SELECT {quote(column.name)} AS v FROM inlined"
    for leaf, sql in _leaves(column, column.data_type, source):
        bounded = leaf.type not in ("variant", "geometry")
        bounds = "min(v)::VARCHAR, max(v)::VARCHAR" if bounded else "NULL, NULL"
        row = connection.execute(f"SELECT count(*), count(v), {bounds} FROM ({sql})").fetchone()
        assert row is not None
        slots, present, low, high = row
        yield ColumnStats(leaf.column_id, None, present, slots - present, _text(low), _text(high))


def _text(bound: str | None) -> str | None:
    return None if bound is None or "\0" in bound else bound


def _leaves(column: ColumnDef, data_type: DataType, source: str) -> Iterator[tuple[ColumnDef, str]]:
    """Each leaf with the query of its values. A NULL list has no elements; the fields of a NULL struct are NULL."""
    if column.type not in NESTED:
        yield column, source
        return
    parts: list[str]
    match data_type:
        case List():
            parts = [f"SELECT unnest(v) AS v FROM ({source})"]
        case Map():
            parts = [
                f"SELECT unnest(map_keys(v)) AS v FROM ({source})",
                f"SELECT unnest(map_values(v)) AS v FROM ({source})",
            ]
        case Struct(fields):
            parts = [f"SELECT v.{quote(name)} AS v FROM ({source})" for name, _ in fields]
        case _:
            parts = []
    for child, part in zip(column.children, parts, strict=True):
        yield from _leaves(child, child.data_type, part)
