"""INSERT, UPDATE, DELETE and TRUNCATE -> calls of `Table`; each answers with the number of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ducklake_spark.engine import plain_changes
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError, InvalidInputError, NotFoundError, did_you_mean
from ducklake_spark.format.names import ticked
from ducklake_spark.format.types import NESTED, duckdb_name, fold, quote
from ducklake_spark.spark.errors import is_of_spark
from ducklake_spark.sql.duckdb import one_task
from ducklake_spark.sql.execute import duckdb_queries
from ducklake_spark.sql.execute.assign import Assigned, fitted, fitted_frame, nanoseconds, needs_cast
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.execute.plain_changes import plain_statement
from ducklake_spark.sql.execute.plain_values import plain_rows
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.nodes import Name, Piece
from ducklake_spark.write.rowlevel.assignments import mentioned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.table import Table

_LOCATOR = ("rowid", "filename", "file_row_number")
_INFINITY = re.compile(r"'-?infinity'", re.IGNORECASE)
_SAME_ROW = " AND ".join(f"target.{name} <=> source.__ducklake_{name}" for name in _LOCATOR)
"""When a row that a query found is a row of the table; row ids alone are not unique while a transaction runs."""


def insert(context: Context, node: nodes.Insert) -> int:
    """INSERT INTO and INSERT OVERWRITE."""
    table = target_of(context, node.name)
    names = _target_names(table, node)
    if node.query is None:
        with context.running():
            return table.insert([{}])
    plain = _plain_rows(context, node, table, names)
    if plain is not None:
        with context.running():
            return table.insert(plain)
    if node.values is not None and any(value is None for row in node.values for value in row):
        return _insert_with_defaults(context, node, table, names)
    with one_task.storing():
        frame = _frame_of_insert(context, node, table, names)
    return _store(context, node, table, frame)


def _plain_rows(
    context: Context, node: nodes.Insert, table: Table, names: list[str]
) -> list[dict[str, Any]] | None:
    if node.values is None or node.overwrite or node.partition or node.by_name:
        return None
    for row in node.values:
        _check_count(table, names, len(row))
    types = {column.name: column.data_type for column in table.definition.columns}
    return plain_rows(context, node.values, names, [types[name] for name in names])


def target_of(context: Context, name: Name) -> Table:
    """The table that is changed.

    Raises:
        InvalidInputError: It is a view.
        NotFoundError: There is no such table.
    """
    own = context.name(name)
    if own not in context.lake:
        scope = scope_of(context.lake)
        tx = scope.read_transaction()
        schema, view = scope.resolve(tx, own)
        if tx.view(schema, view) is not None:
            raise InvalidInputError(
                f'"{view}" is a view: its rows cannot be changed. Change the tables it reads.'
            )
    return context.lake[own]


def _target_names(table: Table, node: nodes.Insert) -> list[str]:
    """The columns that get values, in the order of the values."""
    columns = table.columns
    fixed = {fold(name) for name, _ in node.partition}
    if node.columns is None:
        return [name for name in columns if fold(name) not in fixed]
    known = {fold(name): name for name in columns}
    names: list[str] = []
    for name in node.columns:
        if fold(name) not in known:
            raise NotFoundError(f'Table "{table.name}" has no column "{name}".{did_you_mean(name, columns)}')
        if known[fold(name)] in names:
            raise InvalidInputError(f'INSERT names column "{name}" twice.')
        names.append(known[fold(name)])
    return names


def _check_count(table: Table, wanted: Sequence[str], given: int) -> None:
    if given != len(wanted):
        raise InvalidInputError(
            f'Table "{table.name}" takes {len(wanted)} values ({", ".join(wanted)}), and {given} were supplied. Name '
            "the columns, as in INSERT INTO t (a, b), or use BY NAME."
        )


def _frame_of_insert(context: Context, node: nodes.Insert, table: Table, names: list[str]) -> DataFrame:
    """The rows, under the names of the table's columns."""
    assert node.query is not None
    if node.values is not None:
        frame = _values_frame(context, node.values, table, names, node.ctes)
    else:
        frame = context.frame(node.query, node.ctes)
        if not node.by_name and len(frame.columns) == len(names):
            frame = _cast_by_duckdb(context, node, table, names, frame)
    if node.by_name:
        if node.columns is not None:
            frame = frame.select(*(frame[ticked(name)] for name in names))
    else:
        _check_count(table, names, len(frame.columns))
        frame = frame.toDF(*names)
    return frame


def _cast_by_duckdb(
    context: Context, node: nodes.Insert, table: Table, names: list[str], frame: DataFrame
) -> DataFrame:
    """The rows of a query in DuckDB's dialect, cast to the types of their columns where Spark would not do it alike."""
    said = duckdb_queries.columns_of(frame) if context.dialect == "duckdb" else None
    if said is None or len(said) != len(names):
        return frame
    types = {column.name: column.data_type for column in table.definition.columns}
    texts, changed = [], False
    for place, (name, (_, kind), field) in enumerate(zip(names, said, frame.schema.fields, strict=True)):
        wanted = duckdb_name(types[name])
        is_odd = kind != wanted and (
            types[name].name in NESTED or needs_cast(context, field.dataType, types[name])
        )
        changed = changed or is_odd
        texts.append(f"CAST(c{place} AS {wanted}) AS c{place}" if is_odd else f"c{place}")
    if not changed:
        return frame
    assert node.query is not None
    inner = context.source(node.query)
    if node.ctes is not None:
        inner = f"{context.source(node.ctes)} {inner}"
    columns = ", ".join(f"c{place}" for place in range(len(names)))
    text = f"SELECT {', '.join(texts)} FROM ({inner}) AS ducklake_rows({columns})"
    return context.frame_of(text, node.ctes, node.query)


def _values_frame(
    context: Context,
    rows: Sequence[Sequence[Piece | None]],
    table: Table,
    names: list[str],
    ctes: Piece | None,
) -> DataFrame:
    """The rows of VALUES. In DuckDB each value becomes one of its column's type, whatever the other rows have."""
    for row in rows:
        _check_count(table, names, len(row))
    types = {column.name: column.data_type for column in table.definition.columns}
    pieces = [piece for row in rows for piece in row if piece is not None]
    texts = []
    for row in rows:
        values = []
        for name, piece in zip(names, row, strict=True):
            assert piece is not None
            text = context.source(piece)
            if context.dialect == "duckdb":
                text = f"CAST({text} AS {duckdb_name(types[name])})"
            elif types[name].name == "timestamp_ns" and context.is_string(piece):
                text = str(nanoseconds(context.value(piece), name))
            values.append(text)
        texts.append(", ".join(values))
    rows_text = f"VALUES {', '.join(f'({text})' for text in texts)}"
    one_struct = len(names) == 1 and types[names[0]].name == "struct"
    if one_struct or any("select" in text.lower() for text in texts):
        # Spark takes VALUES of one struct for a row of its fields, and allows no subqueries there.
        rows_text = " UNION ALL ".join(f"SELECT {text}" for text in texts)
    if ctes is not None:
        rows_text = f"{context.source(ctes)} SELECT * FROM ({rows_text})"
    return context.frame_of(rows_text, ctes, *pieces)


def _store(context: Context, node: nodes.Insert, table: Table, frame: DataFrame) -> int:
    with ExitStack() as stack:
        condition = None
        for name, value in node.partition:
            text = stack.enter_context(context.expression(value))
            frame = frame.selectExpr("*", f"{text} AS {ticked(_column_name(table, name))}")
            same = f"{ticked(name)} <=> ({text})"
            condition = same if condition is None else f"{condition} AND {same}"
        if node.where is not None:
            condition = stack.enter_context(context.expression(node.where))
        frame = fitted_frame(context, frame, table)
        with context.running():
            if node.overwrite:
                return table.overwrite(frame, condition)
            return table.insert(frame)


def _column_name(table: Table, name: str) -> str:
    found = next((column for column in table.columns if fold(column) == fold(name)), None)
    if found is None:
        raise NotFoundError(
            f'Table "{table.name}" has no column "{name}".{did_you_mean(name, table.columns)}'
        )
    return found


def _insert_with_defaults(context: Context, node: nodes.Insert, table: Table, names: list[str]) -> int:
    """Rows in which DEFAULT stands for some values: neighbours that lack the same ones are inserted together."""
    assert node.values is not None
    if node.overwrite or node.partition:
        raise InvalidInputError("DEFAULT as a value works in INSERT INTO only; leave the column out instead.")
    for row in node.values:
        _check_count(table, names, len(row))
    count = 0
    for missing, rows in groupby(node.values, key=lambda row: tuple(value is None for value in row)):
        chosen = [name for name, is_missing in zip(names, missing, strict=True) if not is_missing]
        given = [[value for value in row if value is not None] for row in rows]
        if not chosen:
            with context.running():
                count += table.insert([{} for _ in given])
            continue
        frame = _values_frame(context, given, table, chosen, node.ctes).toDF(*chosen)
        with context.running():
            count += table.insert(fitted_frame(context, frame, table))
    return count


# Update and delete.


def update(context: Context, node: nodes.Update) -> int:
    """UPDATE; with FROM, each row takes its values from the one row that matches it."""
    table = target_of(context, node.name)
    assigned = _assigned(table, node.assignments, node.alias)
    plain = _changed_plainly(context, node, table)
    if plain is not None:
        return plain
    if node.source is not None or node.ctes is not None:
        return _update_from(context, node, table, assigned)
    with ExitStack() as stack:
        try:
            condition = _condition(context, stack, node.where)
            texts = [stack.enter_context(context.expression(piece)) for piece in assigned.values()]
            frame = _checked(context, table, node.alias, condition, *texts)
            values = {
                _key(path): fitted(context, frame, text, Assigned(table, path))
                for path, text in zip(assigned, texts, strict=True)
            }
        except Exception as error:
            return _or_raise(context, error, lambda: _update_from(context, node, table, assigned))
        with context.running():
            return table.update(values, condition, alias=node.alias)


def _changed_plainly(context: Context, node: nodes.Update | nodes.Delete, table: Table) -> int | None:
    """Changes rows of the catalog without Spark; None where that cannot be, with nothing done."""
    statement = plain_statement(context.text, context.dialect, node)
    if statement is None:
        return None
    wanted = statement.of(table.definition)
    if wanted is None:
        return None
    scope, found = scope_of(context.lake), table.definition
    with context.running():
        return scope.statement(lambda tx: plain_changes.change(scope, tx, found, wanted))


def _checked(context: Context, table: Table, alias: str, condition: str | None, *texts: str) -> DataFrame:
    """The table as condition and values see it; a column that it does not have is found out here."""
    virtual = [name for name in mentioned(condition, *texts) if fold(name) not in map(fold, table.columns)]
    frame = context.lake.table((table.schema_name, table.name), virtual_columns=virtual).alias(alias)
    return frame if condition is None else frame.where(condition)


def _condition(context: Context, stack: ExitStack, where: Piece | None) -> str | None:
    if where is None:
        return None
    if context.dialect == "duckdb" and _INFINITY.search(context.source(where)):
        raise InvalidInputError("Spark has no infinite times.")
    return stack.enter_context(context.expression(where))


def _assigned(table: Table, assignments: Sequence[nodes.Assignment], alias: str) -> dict[Name, Piece]:
    """The values by column or field; the left side may name the table, too."""
    values: dict[Name, Piece] = {}
    known = {fold(column) for column in table.columns}
    for assignment in assignments:
        path = assignment.path
        if len(path) > 1 and fold(path[0]) not in known and fold(path[0]) == fold(alias):
            path = path[1:]
        if assignment.value is None:
            raise InvalidInputError(
                f'"{".".join(path)}" cannot be set to DEFAULT by an UPDATE, as in the extension. Give the value.'
            )
        if tuple(map(fold, path)) in {tuple(map(fold, other)) for other in values}:
            raise InvalidInputError(f'UPDATE assigns "{".".join(path)}" twice.')
        values[path] = assignment.value
    return values


def _key(path: Name) -> str:
    return ".".join(map(quote, path))


def _update_from(context: Context, node: nodes.Update, table: Table, assigned: dict[Name, Piece]) -> int:
    values = [
        f"({context.source(piece)}) AS {context.quoted(f'v{i}')}" for i, piece in enumerate(assigned.values())
    ]
    found = _matches(context, node, table, values, assigned.values())
    names = [f"v{i}" for i in range(len(assigned))]
    frame = found.alias("source")
    new = {
        _key(path): fitted(context, frame, f"source.{name}", Assigned(table, path))
        for path, name in zip(assigned, names, strict=True)
    }
    with context.running():
        merge = table.merge(found, _SAME_ROW).when_matched().update(new)
        return merge.execute().updated


def _matches(
    context: Context,
    node: nodes.Update | nodes.Delete,
    table: Table,
    values: Sequence[str],
    pieces: Iterable[Piece] = (),
) -> DataFrame:
    """The row ids of the rows that match, with values, as a query that the user could have written."""
    alias = context.quoted(node.alias)
    name = ".".join(map(context.quoted, (context.lake.name, table.schema_name, table.name)))
    text = "" if node.ctes is None else context.source(node.ctes)
    columns = ", ".join([*(f"{alias}.{name} AS __ducklake_{name}" for name in _LOCATOR), *values])
    distinct = "" if values else "DISTINCT "
    text += f" SELECT {distinct}{columns} FROM {name} AS {alias}"
    if node.source is not None:
        text += f", {context.source(node.source)}"
    if node.where is not None:
        text += f" WHERE {context.source(node.where)}"
    return context.frame_of(text, node.ctes, *pieces, node.source, node.where)


def delete(context: Context, node: nodes.Delete) -> int:
    """DELETE; with USING, the rows that match a row of another table."""
    table = target_of(context, node.name)
    plain = _changed_plainly(context, node, table)
    if plain is not None:
        return plain
    if node.source is not None or node.ctes is not None:
        return _delete_found(context, node, table)
    with ExitStack() as stack:
        try:
            condition = _condition(context, stack, node.where)
            _checked(context, table, node.alias, condition)
        except Exception as error:
            return _or_raise(context, error, lambda: _delete_found(context, node, table))
        with context.running():
            return table.delete(condition, alias=node.alias)


def _delete_found(context: Context, node: nodes.Delete, table: Table) -> int:
    found = _matches(context, node, table, ())
    with context.running():
        return table.merge(found, _SAME_ROW).when_matched().delete().execute().deleted


def _or_raise(context: Context, error: Exception, otherwise: Callable[[], int]) -> int:
    """What Spark cannot compute DuckDB may: then the rows are found by a query, and changed by their place."""
    if context.dialect != "duckdb" or not (isinstance(error, DuckLakeError) or is_of_spark(error)):
        raise error
    try:
        return otherwise()
    except (InvalidInputError, NotFoundError):
        raise error from None


def truncate(context: Context, node: nodes.Truncate) -> int:
    """TRUNCATE."""
    table = target_of(context, node.name)
    with context.running():
        return table.truncate()
