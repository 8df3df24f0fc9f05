"""Small inserts as rows of the catalog: values in the encoding of its database, and their statistics."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from ducklake_spark.errors import ConstraintError, InvalidInputError
from ducklake_spark.format.columns import ColumnDef, walk_all
from ducklake_spark.format.data import PLAIN, InlineBatch, inline_casts, stored_type, variant_json
from ducklake_spark.format.duckdb_library import NO_THREADS
from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.edits import InlineRows
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.statistics import ColumnStats
from ducklake_spark.format.types import NESTED, DataType, List, Map, Struct, duckdb_name, quote, text_literal

if TYPE_CHECKING:
    from ducklake_spark.catalog.transaction import Transaction
    from ducklake_spark.write.target import Target

_lock = threading.Lock()
_PARAMETERS = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.null(): "INTEGER",
}
"""Arrow types whose values DuckDB takes as parameters without a loss."""
_NO_TEXT = NESTED | {"variant", "geometry"}
"""Types whose bounds are not the text of a value."""
_SHOWN = 200
"""So many characters of a value stand in an error."""


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=NO_THREADS)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def rows_inlined(
    target: Target, arriving: pa.Table, values: Sequence[str], row_ids: str | None = None
) -> InlineRows:
    """The change that adds the rows of `arriving`; `row_ids` is its column with the row ids that they keep."""
    batch = inline_rows(target.table, arriving, values, target.tx.store.kind)
    if row_ids is not None:
        batch = replace(batch, row_ids=tuple(arriving.column(row_ids).to_pylist()))
    return InlineRows(target.table, batch)


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
        single = _single_row(connection, table, arriving, values, kind)
        if single is not None:
            return single
        connection.register("arriving", arriving)
        try:
            _materialize(connection, table, arriving, values)
            encoded = ", ".join(_encoded(quote(column.name), column, kind) for column in table.columns)
            rows = _joined(connection.execute(f"SELECT {encoded} FROM inlined").fetchall(), table.columns)
            statistics = tuple(_statistics(connection, table))
        finally:
            connection.execute("DROP TABLE IF EXISTS inlined")
            connection.unregister("arriving")
    return InlineBatch(rows, statistics, inline_casts(table.columns, kind), table.columns, kind)


def _single_row(
    connection: duckdb.DuckDBPyConnection,
    table: TableDef,
    arriving: pa.Table,
    values: Sequence[str],
    kind: str,
) -> InlineBatch | None:
    """One row of plain values, by one statement with parameters: most inserts of few rows are of one.

    None when there is more to it, or something is wrong with a value: the way of all rows then says what.
    """
    types = [_PARAMETERS.get(part.type) for part in arriving.schema]
    if arriving.num_rows != 1 or None in types or any(column.type in _NO_TEXT for column in table.columns):
        return None
    places = [f"CAST(? AS {name}) AS {part.name}" for name, part in zip(types, arriving.schema, strict=True)]
    names = [quote(column.name) for column in table.columns]
    selected = ", ".join(_selected(table, values))
    shown = [_encoded(name, column, kind) for name, column in zip(names, table.columns, strict=True)]
    shown += [f"CAST({name} AS VARCHAR)" for name in names]
    try:
        given = [column[0].as_py() for column in arriving.columns]
        row = first_row(
            connection.execute(
                f"SELECT {', '.join(shown)} FROM (SELECT {selected} FROM (SELECT {', '.join(places)}))", given
            )
        )
    except (duckdb.Error, ValueError, OverflowError):
        return None
    assert row is not None
    texts = row[len(names) :]
    if any(
        text is None and not column.nulls_allowed for text, column in zip(texts, table.columns, strict=True)
    ):
        return None
    statistics = tuple(
        ColumnStats(
            column.column_id, None, int(text is not None), int(text is None), _text(text), _text(text)
        )
        for text, column in zip(texts, table.columns, strict=True)
    )
    return InlineBatch(
        [row[: len(names)]], statistics, inline_casts(table.columns, kind), table.columns, kind
    )


def _selected(table: TableDef, values: Sequence[str]) -> list[str]:
    return [
        f"CAST({value} AS {duckdb_name(column.data_type)}) AS {quote(column.name)}"
        for column, value in zip(table.columns, values, strict=True)
    ]


def _materialize(
    connection: duckdb.DuckDBPyConnection, table: TableDef, arriving: pa.Table, values: Sequence[str]
) -> None:
    """The values in the table's own types, so that the texts and statistics are DuckDB's."""
    selected = _selected(table, values)
    try:
        connection.execute(f"CREATE TEMP TABLE inlined AS SELECT {', '.join(selected)} FROM arriving")
    except duckdb.Error as error:
        raise _named(connection, table, arriving, selected, error) from None
    required = [column for column in table.columns if not column.nulls_allowed]
    if required:
        nulls = ", ".join(f"bool_or({quote(column.name)} IS NULL)" for column in required)
        found = first_row(connection.execute(f"SELECT {nulls} FROM inlined"))
        for column, missing in zip(required, found or (), strict=True):
            if missing:
                raise not_null_error(table, column.name)


def settle(tx: Transaction) -> None:
    """Lays out the inlined rows of a transaction for the columns that their tables have at its end."""
    for edit in tx.edits.tables.values():
        table = edit.now
        if table is not None:
            edit.batches = [
                batch if batch.layout == table.columns else _relaid(batch, table) for batch in edit.batches
            ]


def _relaid(batch: InlineBatch, table: TableDef) -> InlineBatch:
    """The rows for a table whose columns changed after they were made: nodes are found by id, values promoted."""
    kind = batch.kind
    arrays = []
    for place, column in enumerate(batch.layout):
        values = [row[place] for row in batch.rows]
        if column.type in ("blob", "variant"):
            arrays.append(pa.array(values, pa.binary()))
        else:
            arrays.append(pa.array([_shown(value) for value in values], pa.string()))
    arriving = pa.Table.from_arrays(
        [pa.nulls(len(batch.rows)), *arrays], names=["nothing", *(f"c{i}" for i in range(len(arrays)))]
    )
    then = {column.column_id: (place, column) for place, column in enumerate(batch.layout)}
    made = []
    for column in table.columns:
        place, old = then.get(column.column_id, (0, None))
        if old is None:
            made.append(_initial(column))
        elif old.type == "variant":
            whole = f"variant_bytes_to_variant(c{place})"
            made.append(whole if column.type == "variant" else f"CAST({variant_json(whole)} AS VARCHAR)")
        else:
            made.append(_promoted(f"CAST(c{place} AS {stored_type(old, 'variant')})", old, column))
    encoded = ", ".join(_encoded(quote(column.name), column, kind) for column in table.columns)
    with _lock:
        connection = _connection()
        connection.register("arriving", arriving)
        try:
            selected = ", ".join(_selected(table, made))
            connection.execute(f"CREATE TEMP TABLE inlined AS SELECT {selected} FROM arriving")
            rows = _joined(connection.execute(f"SELECT {encoded} FROM inlined").fetchall(), table.columns)
            statistics = tuple(_relaid_statistics(connection, batch, table))
        finally:
            connection.execute("DROP TABLE IF EXISTS inlined")
            connection.unregister("arriving")
    casts = inline_casts(table.columns, kind)
    return replace(batch, rows=rows, columns=statistics, casts=casts, layout=table.columns)


def _relaid_statistics(
    connection: duckdb.DuckDBPyConnection, batch: InlineBatch, table: TableDef
) -> Iterator[ColumnStats]:
    """What the rows say of columns that came or changed after them; of others, what they said when they were made."""
    before = {node.column_id: node.type for node, _ in walk_all(batch.layout)}
    now = {node.column_id: node.type for node, _ in walk_all(table.columns)}
    known = {stats.column_id: stats for stats in batch.columns}
    for found in _statistics(connection, table):
        column_id = found.column_id
        kept = known.get(column_id) if before.get(column_id) == now[column_id] else None
        yield kept or found


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.decode() if isinstance(value, bytes) else str(value)


def _initial(column: ColumnDef) -> str:
    name = duckdb_name(column.data_type)
    if column.initial_default is None:
        return f"CAST(NULL AS {name})"
    return f"CAST({text_literal(column.initial_default)} AS {name})"


def _promoted(value: str, old: ColumnDef, new: ColumnDef) -> str:
    """SQL of a value in the new type, whose fields are found by their ids."""
    item = f"x{value.count('lambda')}"
    match new.type:
        case "list":
            inner = _promoted(item, old.children[0], new.children[0])
            return f"list_transform({value}, lambda {item}: {inner})"
        case "map":
            key = _promoted(f"{item}.key", old.children[0], new.children[0])
            part = _promoted(f"{item}.value", old.children[1], new.children[1])
            entry = f"struct_pack(key := {key}, value := {part})"
            made = f"map_from_entries(list_transform(map_entries({value}), lambda {item}: {entry}))"
            return f"CASE WHEN {value} IS NULL THEN NULL ELSE {made} END"
        case "struct":
            known = {child.column_id: child for child in old.children}
            parts = []
            for child in new.children:
                before = known.get(child.column_id)
                if before is None:
                    parts.append(f"{quote(child.name)} := {_initial(child)}")
                    continue
                inner = _promoted(f"struct_extract({value}, {text_literal(before.name)})", before, child)
                parts.append(f"{quote(child.name)} := {inner}")
            return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(parts)}) END"
        case _:
            return value if old.type == new.type else f"CAST({value} AS {duckdb_name(new.data_type)})"


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
        return f"CASE WHEN {name} IS NOT NULL THEN variant_to_parquet_variant({name}) END"
    if column.type in NESTED:
        name = f"CAST({name} AS {stored_type(column, 'variant')})"
    return f"CAST({name} AS VARCHAR)"


def _joined(rows: list[tuple[Any, ...]], columns: Sequence[ColumnDef]) -> list[tuple[Any, ...]]:
    """Variants in the one text of bytes that `variant_bytes_to_variant` takes."""
    places = {place for place, column in enumerate(columns) if column.type == "variant"}
    if not places:
        return rows
    return [
        tuple(
            value["metadata"] + value["value"] if place in places and value is not None else value
            for place, value in enumerate(row)
        )
        for row in rows
    ]


def _statistics(connection: duckdb.DuckDBPyConnection, table: TableDef) -> Iterator[ColumnStats]:
    """What the rows say of each leaf: one statement for all plain columns, one for the leaves of the others."""
    plain = [column for column in table.columns if column.type not in NESTED]
    found: dict[int, tuple[int, int, str | None, str | None]] = {}
    if plain:
        asked = ", ".join(_asked(column, quote(column.name)) for column in plain)
        row = first_row(connection.execute(f"SELECT {asked} FROM inlined")) or ()
        found = {column.column_id: row[4 * i : 4 * i + 4] for i, column in enumerate(plain)}
    inner = [
        (leaf.column_id, f"SELECT {leaf.column_id}, {_asked(leaf, 'v')} FROM ({sql})")
        for column in table.columns
        if column.type in NESTED
        for leaf, sql in _leaves(column, column.data_type, f"SELECT {quote(column.name)} AS v FROM inlined")
    ]
    if inner:
        rows = connection.execute(" UNION ALL ".join(sql for _, sql in inner)).fetchall()
        found |= {row[0]: row[1:] for row in rows}
    for column in table.columns:
        for leaf in column.walk():
            if leaf.column_id in found:
                slots, present, low, high = found[leaf.column_id]
                yield ColumnStats(leaf.column_id, None, present, slots - present, _text(low), _text(high))


def _asked(leaf: ColumnDef, value: str) -> str:
    bounded = leaf.type not in ("variant", "geometry")
    bounds = f"min({value})::VARCHAR, max({value})::VARCHAR" if bounded else "NULL::VARCHAR, NULL::VARCHAR"
    return f"count(*), count({value}), {bounds}"


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
