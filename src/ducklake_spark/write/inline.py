"""Small inserts as rows of the catalog: values in the encoding of its database, and their statistics."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cache

import duckdb
import pyarrow as pa
import pyspark.sql.types as spark_types

from ducklake_spark.errors import ConstraintError, InvalidInputError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.data import PLAIN, InlineBatch, inline_casts
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.statistics import ColumnStats
from ducklake_spark.format.types import NESTED, DataType, List, Map, Struct, duckdb_name, quote

_lock = threading.Lock()


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
            _materialize(connection, table, values)
            encoded = ", ".join(_encoded(quote(column.name), column, kind) for column in table.columns)
            rows = connection.execute(f"SELECT {encoded} FROM inlined").fetchall()
            statistics = tuple(
                stats for column in table.columns for stats in _leaf_statistics(connection, column, len(rows))
            )
        finally:
            connection.execute("DROP TABLE IF EXISTS inlined")
            connection.unregister("arriving")
    return InlineBatch(rows, statistics, inline_casts(table.columns, kind), table.columns, kind)


def _materialize(connection: duckdb.DuckDBPyConnection, table: TableDef, values: Sequence[str]) -> None:
    """The values in the table's own types, so that the texts and statistics are DuckDB's."""
    selected = [
        f"CAST({value} AS {duckdb_name(column.data_type)}) AS {quote(column.name)}"
        for column, value in zip(table.columns, values, strict=True)
    ]
    try:
        connection.execute(f"CREATE TEMP TABLE inlined AS SELECT {', '.join(selected)} FROM arriving")
    except duckdb.Error as error:
        raise _named(connection, table, selected, error) from error
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


def _named(
    connection: duckdb.DuckDBPyConnection, table: TableDef, selected: Sequence[str], error: duckdb.Error
) -> InvalidInputError:
    for column, sql in zip(table.columns, selected, strict=True):
        try:
            connection.execute(f"SELECT {sql} FROM arriving").fetchall()
        except duckdb.Error as failure:
            reason = str(failure).split("\n", 1)[0]
            return InvalidInputError(
                f'A value does not fit column "{column.name}" of table "{table.name}", which is '
                f"{duckdb_name(column.data_type)}: {reason}. Nothing was written."
            )
    return InvalidInputError(f'Rows do not fit table "{table.name}": {error}')


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


def spark_type_of(arrow: pa.DataType) -> spark_types.DataType:
    """The Spark type of an Arrow type, for rows that never see Spark."""
    from pyspark.sql.pandas.types import from_arrow_type

    if pa.types.is_null(arrow):
        return spark_types.NullType()
    if pa.types.is_uint64(arrow):
        return spark_types.DecimalType(20, 0)
    if pa.types.is_unsigned_integer(arrow):
        return spark_types.LongType()
    if pa.types.is_timestamp(arrow) and arrow.tz is None:
        return spark_types.TimestampNTZType()
    try:
        return from_arrow_type(arrow, prefer_timestamp_ntz=True)
    except Exception as error:
        raise InvalidInputError(f"Cannot store values of the Arrow type {arrow}: {error}") from error
