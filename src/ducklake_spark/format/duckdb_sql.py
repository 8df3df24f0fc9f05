"""DuckDB's own spelling of SQL texts. The catalog keeps defaults, views, macros and sort keys as DuckDB prints them.

The texts are parsed and printed by an in-memory DuckDB that holds nothing: the results depend on the text alone.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.duckdb_library import NO_THREADS
from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.names import check_text
from ducklake_spark.format.objects import MacroImpl, MacroParameter
from ducklake_spark.format.partitioning import Partitioning
from ducklake_spark.format.sorting import SortKey
from ducklake_spark.format.types import NESTED, DataType, duckdb_name, fold, parse_type, quote, text_literal

CATALOG_TOKEN = "{DUCKLAKE_CATALOG}"
"""Stands in a view's text where the lake's own name was."""
_TOKEN_NAME = "ducklake_catalog_c6a1d0"
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_lock = threading.Lock()


@dataclass(frozen=True)
class Expression:
    """A default that is computed by SQL, in contrast to a plain value: `Expression("now()")`."""

    sql: str


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=NO_THREADS)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _run(sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    texts = [literal(value) for value in params]
    if params and None not in texts:
        before, *after = sql.split("?")
        sql, params = before + "".join(f"{text}{rest}" for text, rest in zip(texts, after, strict=True)), ()
    with _lock:
        rows: list[tuple[Any, ...]] = _connection().execute(sql, list(params)).fetchall()
        return rows


@functools.cache
def _closed_connection() -> duckdb.DuckDBPyConnection:
    """A DuckDB that reaches no file and no network, as texts of users are bound in it."""
    config: dict[str, Any] = {**NO_THREADS, "enable_external_access": "false"}
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def answers(sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query that names no table of anybody.

    Raises:
        InvalidInputError: What DuckDB says against it.
    """
    try:
        with _lock:
            rows: list[tuple[Any, ...]] = _closed_connection().execute(sql).fetchall()
            return rows
    except duckdb.Error as error:
        raise InvalidInputError(_reason(error)) from None


def literal(value: Any) -> str | None:
    """A plain value as SQL text that means exactly it, or None when it must be a parameter.

    The first parameter of a process makes DuckDB's Python client import pandas, which takes half a second, and each
    one takes longer than the text.

    >>> literal("it's"), literal(7), literal(True), literal(None), literal(b"x")
    ("'it''s'", '7', 'true', 'NULL', None)
    """
    if value is None:
        return "NULL"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    return text_literal(value) if type(value) is str and "\0" not in value else None


def _reason(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".") + "."


def require_sql(sql: Any, what: str) -> str:
    """The text, if it is one.

    Raises:
        InvalidInputError: It is something else, or has characters that no database stores.
    """
    if not isinstance(sql, str):
        raise InvalidInputError(f"Cannot read {what}: it must be a text in SQL, not {sql!r}.")
    check_text(what, sql)
    return sql


def _parse(sql: str, what: str) -> Any:
    try:
        tree = json.loads(_run("SELECT json_serialize_sql(?::VARCHAR)", [sql])[0][0])
    except duckdb.Error as error:
        raise InvalidInputError(f"Cannot read {what}: {_reason(error)} It says: {sql}") from None
    if tree["error"]:
        raise InvalidInputError(f"Cannot read {what}: {tree['error_message']} in: {sql}")
    if len(tree["statements"]) != 1:
        raise InvalidInputError(f"Cannot read {what}: it must be one statement: {sql}")
    return tree


def _is_null(constant: Any) -> bool:
    """Whether a constant is NULL, in the words of DuckDB 1 or 2."""
    if "literal" in constant:
        return bool(constant["literal"]["kind"] == "NULL_LITERAL")
    return bool(constant["value"]["is_null"])


def _print(tree: Any) -> str:
    text: str = _run("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)])[0][0]
    return text


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for part in tree.values():
            yield from _nodes(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _parse_expression(sql: str, what: str) -> tuple[Any, dict[str, Any]]:
    """The tree of `SELECT expression` and the expression in it."""
    require_sql(sql, what)
    if not sql.strip():
        raise InvalidInputError(f"Cannot read {what}: it is empty.")
    tree = _parse(f"SELECT {sql}", what)
    select = tree["statements"][0]["node"]
    expressions = select.get("select_list", [])
    if (
        len(expressions) != 1
        or select.get("from_table", {}).get("type") != "EMPTY"
        or expressions[0].get("alias")
    ):
        raise InvalidInputError(f"Cannot read {what}: it must be one expression: {sql}")
    return tree, expressions[0]


def canonical_expression(sql: str, what: str = "the expression") -> str:
    """The expression as DuckDB prints it.

    >>> canonical_expression("a+b")
    '(a + b)'
    """
    tree, _ = _parse_expression(sql, what)
    return _print(tree).removeprefix("SELECT ")


def canonical_query(sql: str, lake_name: str | None = None, what: str = "the query") -> str:
    """The query as DuckDB prints it, the lake's own name replaced by `CATALOG_TOKEN`.

    >>> canonical_query("select i from lake.main.t where s='x'", "lake")
    "SELECT i FROM {DUCKLAKE_CATALOG}.main.t WHERE (s = 'x')"
    """
    tree = _parse(require_sql(sql, what), what)
    if lake_name is not None:
        own = fold(lake_name)
        for node in _nodes(tree):
            if node.get("type") == "BASE_TABLE" and fold(node.get("catalog_name") or "") == own:
                node["catalog_name"] = _TOKEN_NAME
            names = node.get("column_names")
            if node.get("class") == "COLUMN_REF" and names and len(names) > 3 and fold(names[0]) == own:
                names[0] = _TOKEN_NAME
    return _print(tree).replace(_TOKEN_NAME, CATALOG_TOKEN)


def referenced_columns(expression: str) -> tuple[str, ...]:
    """The names of the columns that an expression uses."""
    tree, _ = _parse_expression(expression, "the expression")
    return tuple(node["column_names"][-1] for node in _nodes(tree) if node.get("class") == "COLUMN_REF")


def rename_column(expression: str, old: str, new: str) -> str:
    """The expression with a column's name replaced."""
    tree, _ = _parse_expression(expression, "the sort key")
    found = False
    for node in _nodes(tree):
        if node.get("class") == "COLUMN_REF" and fold(node["column_names"][-1]) == fold(old):
            node["column_names"][-1] = new
            found = True
    return _print(tree).removeprefix("SELECT ") if found else expression


_NOT_IN_SORT_KEYS = {
    "SUBQUERY": "a sort key cannot hold a query",
    "WINDOW": "a sort key cannot hold a window function",
    "STAR": "name the columns",
    "DEFAULT": "it is not an expression",
    "PARAMETER": "it has a parameter without a value",
}


def sort_key(text: str) -> SortKey:
    """A sort key from a text like `ts DESC NULLS FIRST`; NULLs come last unless it says otherwise.

    >>> sort_key("lower(name) desc")
    SortKey(expression='lower("name")', direction='DESC', null_order='NULLS_LAST', dialect='duckdb')
    """
    what = "the sort key"
    require_sql(text, what)
    tree = _parse(f"SELECT 1 ORDER BY {text}", what)
    select = tree["statements"][0]["node"]
    modifiers = select.get("modifiers") or []
    orders = modifiers[0].get("orders") if len(modifiers) == 1 else None
    if not orders or len(orders) != 1:
        raise InvalidInputError(f"Cannot read {what}: it must be one expression: {text}")
    order = orders[0]
    for node in _nodes(order["expression"]):
        if node.get("class") == "COLUMN_REF" and len(node["column_names"]) > 1:
            raise InvalidInputError(
                f"Cannot sort by {text}: a sort key uses plain column names, not qualified ones or fields of structs."
            )
        if node.get("class") in _NOT_IN_SORT_KEYS:
            raise InvalidInputError(f"Cannot sort by {text}: {_NOT_IN_SORT_KEYS[node['class']]}.")
    select["modifiers"] = []
    select["select_list"] = [order["expression"]]
    return SortKey(
        expression=_print(tree).removeprefix("SELECT "),
        direction="DESC" if order["type"].startswith("DESC") else "ASC",
        null_order="NULLS_FIRST" if "FIRST" in order["null_order"] else "NULLS_LAST",
    )


def check_sort_key(
    expression: str, columns: Sequence[tuple[str, DataType]], table: str, macros: Collection[str] = ()
) -> None:
    """Raises for a key that DuckDB accepts and on which every later insert would fail.

    Args:
        expression: As `sort_key()` gives it.
        columns: The table's columns.
        table: Its name, for messages.
        macros: Names of the lake's own functions, which are not looked into.

    Raises:
        InvalidInputError: An aggregate, an unknown function, or types that do not fit.
    """
    tree, _ = _parse_expression(expression, "the sort key")
    known = {fold(name) for name in macros}
    if any(fold(str(node.get("function_name", ""))) in known for node in _nodes(tree)):
        return
    row = ", ".join(f"CAST(NULL AS {duckdb_name(part)}) AS {quote(name)}" for name, part in columns)
    try:
        # Where a condition stands, neither aggregates nor UNNEST are allowed, as in a sort of rows to be inserted.
        _run(f"EXPLAIN SELECT 1 FROM (SELECT {row}) AS t WHERE ({expression}) IS NULL")
    except duckdb.Error as error:
        if isinstance(error, duckdb.CatalogException) and "exists in the" in str(error):
            return  # a function of an extension that is not loaded here
        raise InvalidInputError(f'Cannot sort table "{table}" by {expression}: {_reason(error)}') from None


def text_of(value: Any) -> str:
    """A Python value as DuckDB prints it.

    >>> text_of(1000.0), text_of(True), text_of(b"\\xaa")
    ('1000.0', 'true', '\\\\xAA')
    """
    if isinstance(value, str):
        check_text("a value", value)
        return value
    if type(value) in (bool, int):
        return str(value).lower()
    try:
        text: str = _run("SELECT CAST(? AS VARCHAR)", [value])[0][0]
    except (duckdb.Error, TypeError) as error:
        raise InvalidInputError(
            f"Cannot use {value!r} as a default value: {_reason(error)} Use a plain value or an Expression."
        ) from None
    return text


def cast_text(text: str, data_type: DataType, column: str) -> str:
    """The text of a value after a cast to the column's type.

    >>> from ducklake_spark.format.types import Decimal
    >>> cast_text("1.5", Decimal(10, 2), "price")
    '1.50'
    """
    if data_type.name in ("varchar", "blob"):
        return text
    try:
        result: str = _run(f"SELECT CAST(CAST(?::VARCHAR AS {duckdb_name(data_type)}) AS VARCHAR)", [text])[
            0
        ][0]
    except duckdb.Error as error:
        raise InvalidInputError(
            f'The default {text!r} of column "{column}" is not a {duckdb_name(data_type)}: {_reason(error)} Give a '
            "value that the column can hold."
        ) from None
    return result


def before(micros: int, interval: str) -> int:
    """The time that is an interval before another, both in microseconds since 1970.

    >>> before(86_400_000_000, "1 month 1 hour")
    -2595600000000

    Raises:
        InvalidInputError: Not an interval, or one that leads out of all times.
    """
    try:
        return int(_run("SELECT epoch_us(make_timestamp(?) - CAST(? AS INTERVAL))", [micros, interval])[0][0])
    except duckdb.Error as error:
        raise InvalidInputError(f"{interval!r} is no interval: {_reason(error)}") from None


@dataclass(frozen=True)
class Default:
    """A column's default as the catalog keeps it."""

    value: str | None
    type: str
    initial: str | None


def default_of(value: Any, data_type: DataType, column: str) -> Default:
    """What a default given by the user becomes: a literal is cast once, an expression is kept as text.

    >>> from ducklake_spark.format.types import Scalar
    >>> default_of(Expression("1+2"), Scalar("int32"), "c")
    Default(value='(1 + 2)', type='expression', initial=None)
    """
    if value is None:
        return Default(None, "literal", None)
    if data_type.name in NESTED:
        raise InvalidInputError(
            f'Column "{column}" cannot have a default: the format has none for {data_type.name} columns. '
            "Give the values when inserting."
        )
    if not isinstance(value, Expression):
        text = text_of(value)
        initial = cast_text(text, data_type, column)
        if text == "NULL":
            # As a literal this text would read back as "no default".
            return Default("'NULL'", "expression", initial)
        return Default(text, "literal", initial)
    _, parsed = _parse_expression(value.sql, f'the default of column "{column}"')
    if parsed.get("class") == "CONSTANT":
        if _is_null(parsed):
            return Default(None, "literal", None)
        text = _run(f"SELECT CAST(({value.sql}) AS VARCHAR)")[0][0]
        initial = cast_text(text, data_type, column)
        return (
            Default(text, "literal", initial) if text != "NULL" else Default("'NULL'", "expression", initial)
        )
    return Default(_default_text(value.sql, data_type, column), "expression", None)


def _default_text(sql: str, data_type: DataType, column: str) -> str:
    """Lets DuckDB bind the expression as a default, and reads its text from DuckDB's own catalog."""
    with _lock:
        connection = _connection()
        try:
            connection.execute(f"CREATE OR REPLACE TEMP TABLE d (c {duckdb_name(data_type)} DEFAULT ({sql}))")
            row = first_row(
                connection.execute(
                    "SELECT column_default FROM duckdb_columns() WHERE table_name = 'd' AND column_name = 'c'"
                )
            )
        except duckdb.Error as error:
            raise InvalidInputError(
                f'Cannot use {sql} as the default of column "{column}": {_reason(error)}'
            ) from None
        finally:
            connection.execute("DROP TABLE IF EXISTS d")
    assert row is not None
    text: str = row[0]
    return text


@functools.cache
def _volatile_functions() -> frozenset[str]:
    rows = _run("SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'")
    return frozenset(row[0] for row in rows)


def once_or_per_row(expression: str) -> str:
    """The SQL of a default for the rows of one statement: computed now, unless each row must have its own value.

    >>> once_or_per_row("1 + 2"), once_or_per_row("random()")
    ("CAST('3' AS INTEGER)", 'random()')
    """
    tree, _ = _parse_expression(expression, "the default")
    names = {str(node.get("function_name", "")).lower() for node in _nodes(tree)}
    if names & _volatile_functions():
        return expression
    value, type_name = _run(f"SELECT CAST(({expression}) AS VARCHAR), typeof({expression})")[0]
    if value is None:
        return "NULL"
    return f"CAST({text_literal(value)} AS {type_name})"


def macro_impl(
    sql: str, parameters: Sequence[str], *, table: bool, canonical: Callable[[str], str] | None = None
) -> MacroImpl:
    """One overload of a macro; parameters are texts like `a`, `a INTEGER` or `b := 10`."""
    parsed = tuple(_macro_parameter(text) for text in parameters)
    names = [fold(parameter.name) for parameter in parsed]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(f'The macro has two parameters named "{name}".')
    if table:
        return MacroImpl((canonical or canonical_query)(sql), "table", parsed)
    return MacroImpl((canonical or canonical_expression)(sql), "scalar", parsed)


def _macro_parameter(text: str) -> MacroParameter:
    declaration, _, default = require_sql(text, "the macro parameter").partition(":=")
    head = declaration.strip()
    if head.startswith('"'):
        end = head.replace('""', "  ").find('"', 1)
        name, type_text = head[1:end].replace('""', '"'), head[end + 1 :].strip()
    else:
        name, _, type_text = head.partition(" ")
    if not name:
        raise InvalidInputError(
            f"Cannot read the macro parameter {text!r}: write `name`, `name TYPE` or `name := value`."
        )
    parameter_type = parse_type(type_text).name if type_text.strip() else "unknown"
    if not default.strip():
        return MacroParameter(name, parameter_type)
    _, parsed = _parse_expression(default.strip(), f'the default of macro parameter "{name}"')
    if parsed.get("class") != "CONSTANT" or _is_null(parsed):
        raise InvalidInputError(
            f'The default of macro parameter "{name}" must be a number or a string, not {default.strip()}.'
        )
    value, type_name = _run(f"SELECT CAST({default} AS VARCHAR), typeof({default})")[0]
    return MacroParameter(name, parameter_type, value, parse_type(type_name).name)


def quote_if_needed(name: str) -> str:
    """A name as DuckDB prints it: in quotes only when it must be.

    >>> quote_if_needed("t"), quote_if_needed("a b"), quote_if_needed("T")
    ('t', '"a b"', 'T')
    """
    return name if _PLAIN_NAME.fullmatch(name) and name.lower() not in _keywords() else quote(name)


@functools.cache
def _keywords() -> frozenset[str]:
    return frozenset(row[0] for row in _run("SELECT keyword_name FROM duckdb_keywords()"))


def partition_texts(partitioning: Partitioning | None, columns: Sequence[ColumnDef]) -> list[str]:
    """Partition keys as users write them."""
    names = {column.column_id: quote_if_needed(column.name) for column in columns}
    return [key.text(names[key.column_id]) for key in (partitioning.keys if partitioning is not None else ())]
