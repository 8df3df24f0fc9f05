"""The order of rows in a file: the sort keys of a table, for files of any age, with the macros that they call."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.duckdb_sql import CATALOG_TOKEN
from ducklake_spark.format.objects import MacroDef, MacroParameter, TableDef
from ducklake_spark.format.types import Scalar, duckdb_name, fold, quote, text_literal
from ducklake_spark.workers.duckdb_encoder import FILE

_NAME = re.compile(r"\w+")
_DATABASE = "memory"
"""What a DuckDB without a file calls itself."""


def sort_keys(table: TableDef, columns: tuple[ColumnDef, ...]) -> tuple[str, ...]:
    """The sort keys of a table over rows that have the columns of another time.

    Args:
        table: The table as it is now.
        columns: The columns of the rows; one that they lack has its initial default.
    """
    keys = () if table.sorting is None else table.sorting.keys
    return tuple(
        f"{_over(key.expression, table, columns)} {key.direction} {key.null_order.replace('_', ' ')}"
        for key in keys
        if key.dialect == "duckdb"
    )


def _over(expression: str, table: TableDef, columns: tuple[ColumnDef, ...]) -> str:
    expression = expression.replace(CATALOG_TOKEN, _DATABASE)
    then = {column.column_id: column for column in columns}
    if all(_is_same(then.get(column.column_id), column) for column in table.columns):
        return expression
    parts = []
    for column in table.columns:
        old = then.get(column.column_id)
        name = duckdb_name(column.data_type)
        if old is None:
            value = "NULL" if column.initial_default is None else text_literal(column.initial_default)
        else:
            value = f"{FILE}.{quote(old.name)}"
        if old is None or (old.type != column.type and not column.children):
            value = f"CAST({value} AS {name})"
        parts.append(f"{value} AS {quote(column.name)}")
    return f"(SELECT {expression} FROM (SELECT {', '.join(parts)}) AS __ducklake_now)"


def _is_same(old: ColumnDef | None, now: ColumnDef) -> bool:
    return old is not None and (old.name, old.type) == (now.name, now.type)


def sort_macros(tx: Transaction, table: TableDef) -> tuple[str, ...]:
    """Statements that make the macros which the sort keys of a table call, each after those that it calls itself."""
    keys = () if table.sorting is None else table.sorting.keys
    texts = [key.expression for key in keys if key.dialect == "duckdb" and "(" in key.expression]
    if not texts:
        return ()
    own = tx.schema_of(table.schema_id)
    known = {
        (schema.name, macro.name): macro
        for schema in sorted(tx.schemas(), key=lambda schema: schema.schema_id != own.schema_id)
        for macro in tx.macros(schema)
        if not macro.is_table
    }
    made: dict[tuple[str, str], str] = {}
    for text in texts:
        for name in _called(text, known, frozenset()):
            made.setdefault(name, _create(name, known[name]))
    if not made:
        return ()
    schemas = sorted({schema for schema, _ in made} | {own.name})
    path = ",".join(quote(name) for name in dict.fromkeys((own.name, "main")))
    return (
        *(f"CREATE SCHEMA IF NOT EXISTS {quote(name)}" for name in schemas),
        f"SET search_path = {text_literal(path)}",
        *made.values(),
    )


def _called(
    text: str, known: dict[tuple[str, str], MacroDef], seen: frozenset[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """The macros that a text may call, the innermost first."""
    words = {fold(word) for word in _NAME.findall(text)}
    for name, macro in known.items():
        if fold(name[1]) in words and name not in seen:
            for impl in macro.impls:
                yield from _called(impl.sql, known, seen | {name})
            yield name


def _create(name: tuple[str, str], macro: MacroDef) -> str:
    overloads = ", ".join(
        f"({', '.join(map(_parameter, impl.parameters))}) AS ({impl.sql.replace(CATALOG_TOKEN, _DATABASE)})"
        for impl in macro.impls
    )
    return f"CREATE OR REPLACE MACRO {quote(name[0])}.{quote(name[1])}{overloads}"


def _parameter(parameter: MacroParameter) -> str:
    if parameter.default_value is None:
        return quote(parameter.name)
    value = text_literal(parameter.default_value)
    if parameter.default_value_type not in ("varchar", "unknown"):
        value = f"CAST({value} AS {duckdb_name(Scalar(parameter.default_value_type))})"
    return f"{quote(parameter.name)} := {value}"
