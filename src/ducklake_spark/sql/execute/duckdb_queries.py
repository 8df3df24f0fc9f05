"""Queries in DuckDB's dialect: by Spark where its answers are DuckDB's, else by DuckDB, here or in one task."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import duckdb
from sqlglot import exp

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError, InvalidInputError
from ducklake_spark.format.duckdb_library import arrow_table
from ducklake_spark.format.types import fold
from ducklake_spark.scan.projection.types import TypeChoices, choices_of
from ducklake_spark.spark.worker_functions import has_scalars
from ducklake_spark.sql.duckdb import grouped, one_task, worker_expressions
from ducklake_spark.sql.duckdb.values import is_alike, shown
from ducklake_spark.sql.execute import local_duckdb, metadata
from ducklake_spark.sql.execute.session import Session, session_of
from ducklake_spark.sql.execute.settings import setting_of
from ducklake_spark.sql.parser.grammar_queries import ODD_TREES, parse_query_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ducklake_spark.api.lake import Lake

MOST_ROWS = 10_000
"""An answer without tables that has more rows than this is made by the workers."""


def settings_of(session: Session) -> tuple[str, ...]:
    """What a DuckDB elsewhere must be told to answer as the one of the session."""
    zone = session.zone
    spark = scope_of(session.home).session
    if spark is not None:
        zone = str(spark.conf.get("spark.sql.session.timeZone"))
    found = [f"SET TimeZone = '{zone}'"] if zone else []
    return (*found, *(f"SET {name} = {session.settings[name]}" for name in _KEPT if name in session.settings))


_KEPT = (
    "default_null_order",
    "default_order",
    "integer_division",
    "ieee_floating_point_ops",
    "old_implicit_casting",
)
"""Settings that change answers. Spark has none of them."""


def filled(lake: Lake, tree: exp.Expr) -> exp.Expr:
    """The tree with the values of variables, and with what functions say about the session."""
    session = session_of(lake)
    root = exp.Paren(this=tree)
    for node in list(root.find_all(exp.Func)):
        made = _said(session, lake, node)
        if made is None:
            continue
        target: exp.Expr = node
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
            made = exp.alias_(made, _plain_name(node), quoted=True)
        target.replace(made)
    found: exp.Expr = root.this
    return found


def _plain_name(node: exp.Expr) -> str:
    """The name that DuckDB gives to a column that is a call."""
    try:
        [(name, *_)] = duckdb_describe(f"SELECT {node.sql('duckdb')}")
    except (DuckLakeError, *ODD_TREES):
        return node.sql("duckdb").lower()
    return name


def duckdb_describe(sql: str) -> list[tuple[str, str]]:
    """Names and types of the columns of a query that names no table."""
    from ducklake_spark.format.duckdb_sql import answers

    return [(str(row[0]), str(row[1])) for row in answers(f"DESCRIBE {sql}")]


def _said(session: Session, lake: Lake, node: exp.Expr) -> exp.Expr | None:
    from ducklake_spark.sql.resolve.table_functions import call_parts, function_name

    name = function_name(node).lower() if not isinstance(node, exp.Anonymous) else node.name.lower()
    if isinstance(node, exp.CurrentSchema) or name == "current_schema":
        return exp.Literal.string(lake.default_schema)
    if name in ("current_database", "current_catalog") or type(node).__name__ in (
        "CurrentDatabase",
        "CurrentCatalog",
    ):
        return exp.Literal.string(lake.name)
    if name not in ("getvariable", "current_setting"):
        return None
    parts = call_parts(node)
    if len(parts) != 1 or not isinstance(parts[0], exp.Literal):
        return None
    if name == "getvariable":
        return parse_query_text(local_duckdb.variable_text(session, parts[0].name), "duckdb")
    return _setting(session, lake, parts[0].name)


def _setting(session: Session, lake: Lake, name: str) -> exp.Expr:
    own = setting_of(lake, name)
    value = own if own is not None else local_duckdb.rows(session, "SELECT current_setting(?)", [name])[0][0]
    if value is None:
        return exp.Null()
    return exp.Literal.string(value) if isinstance(value, str) else exp.convert(value)


def answered_here(lake: Lake, sql: str, tables: Mapping[str, Any]) -> DataFrame | None:
    """The answer to a query whose tables are all here; None when it is long, or DuckDB cannot bind it.

    Raises:
        InvalidInputError: DuckDB failed while it ran.
    """
    session = session_of(lake)
    connection = local_duckdb.connection(session)
    for name, table in tables.items():
        connection.register(name, table)
    try:
        return _answered_here(lake, connection, sql)
    finally:
        for name in tables:
            connection.unregister(name)


def _answered_here(lake: Lake, connection: duckdb.DuckDBPyConnection, sql: str) -> DataFrame | None:
    try:
        columns = [(str(row[0]), str(row[1])) for row in connection.execute(f"DESCRIBE {sql}").fetchall()]
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
        return None
    except duckdb.Error as error:
        raise InvalidInputError(str(error).split("\n\n")[0]) from None
    text, found = one_task.shown_sql(metadata.choices(lake), sql, columns, variants=True)
    try:
        table = arrow_table(connection, f"FROM ({text}) LIMIT {MOST_ROWS + 1}")
    except duckdb.Error as error:
        raise InvalidInputError(str(error).split("\n\n")[0]) from None
    if table.num_rows > MOST_ROWS:
        return None
    return remember(metadata.of_shown(lake, table, found, [name for name, _ in columns]), columns)


@dataclass(frozen=True)
class Asked:
    """A query whose tables are DataFrames.

    Args:
        tree: The query in DuckDB's dialect.
        sql: Its text for DuckDB.
        frames: Its tables by the names that they have there.
        types: DuckDB's types of their columns, where the lake says them.
    """

    tree: exp.Expr
    sql: str
    frames: Mapping[str, DataFrame]
    types: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Ways:
    """How a query can be answered.

    Args:
        by_spark: Lets Spark answer.
        in_parts: Lets Spark answer, and DuckDB in the workers what Spark cannot; with settings for DuckDB, and
            whether it gets every scalar function.
        again: Answers another query.
    """

    by_spark: Callable[[], DataFrame]
    in_parts: Callable[[Sequence[str], bool], DataFrame]
    again: Callable[[Asked], DataFrame]


def answered(lake: Lake, asked: Asked, ways: Ways, *, is_known: bool) -> DataFrame:
    """The rows of a query.

    Args:
        lake: The lake in use.
        asked: The query.
        ways: How it can be answered.
        is_known: Whether every table of the query is among its DataFrames.
    """
    if not is_known:
        return ways.by_spark()
    session = session_of(lake)
    tables = {name: metadata.table_of(frame) for name, frame in asked.frames.items()}
    if all(table is not None for table in tables.values()):
        found = answered_here(lake, asked.sql, tables)
        if found is not None:
            return found
    settings = settings_of(session)
    try:
        question = one_task.question_of(asked.tree, asked.sql, asked.frames, asked.types, settings)
        columns = one_task.described(question)
    except (InvalidInputError, *ODD_TREES):
        return (
            ways.by_spark()
        )  # with functions that only Spark has, or an error that names the user's own words
    can_part = has_scalars(lake.spark)
    is_for_spark = _is_for_spark(asked, can_part=can_part) and not _orders_nested(asked.tree, columns)
    if any(name in session.settings for name in _KEPT) or not is_for_spark:
        return remember(_by_duckdb(lake.spark, asked, question, columns, ways), columns)
    tried: list[Callable[[], DataFrame]] = [ways.by_spark]
    if can_part:
        tried = [partial(ways.in_parts, settings, False), partial(ways.in_parts, settings, True)]
    for way in tried:
        try:
            made = way()
        except (DuckLakeError, *ODD_TREES):
            continue
        if _is_as_described(made, columns, choices_of(lake.spark)):
            return remember(_named(made, columns), columns)
    return remember(_by_duckdb(lake.spark, asked, question, columns, ways), columns)


def _by_duckdb(
    spark: SparkSession,
    asked: Asked,
    question: one_task.Question,
    columns: Sequence[tuple[str, str]],
    ways: Ways,
) -> DataFrame:
    """The rows of a query as DuckDB computes them: groups in as many tasks as Spark has, anything else in one."""
    made = _by_groups(spark, asked, question, columns, ways)
    return made if made is not None else one_task.answered(spark, question)


def _by_groups(
    spark: SparkSession,
    asked: Asked,
    question: one_task.Question,
    columns: Sequence[tuple[str, str]],
    ways: Ways,
) -> DataFrame | None:
    schemas = {name: frame.schema for name, frame in asked.frames.items()}
    try:
        parts = grouped.split(asked.tree, schemas)
        if parts is None:
            return None
        rows = ways.again(Asked(parts.rows, parts.rows.sql("duckdb"), asked.frames, asked.types))
        types = dict(columns_of(rows) or ())
        keys = [rows.schema[key].dataType for key in parts.keys]
        if set(types) != set(rows.columns) or not grouped.are_keys(keys):
            return None
        if any(worker_expressions.has_forms(kind) for kind in types.values()):
            return None
        inner = one_task.Question(parts.sql, {grouped.ROWS: rows}, {grouped.ROWS: types}, question.settings)
        found = one_task.described(inner)
        if [kind for _, kind in found[: len(columns)]] != [kind for _, kind in columns]:
            return None
        made = one_task.answered(spark, inner, parts.keys)
        if parts.last is not None:
            last = Asked(
                parts.last, parts.last.sql("duckdb"), {grouped.GROUPS: made}, {grouped.GROUPS: dict(found)}
            )
            if any(worker_expressions.has_forms(kind) for _, kind in found):
                return None
            made = ways.again(last)
    except (DuckLakeError, *ODD_TREES):
        return None
    return made.toDF(*(name for name, _ in columns))


def _orders_nested(tree: exp.Expr, columns: Sequence[tuple[str, str]]) -> bool:
    """Whether ORDER BY ALL compares values in which a NULL has another place than Spark gives it."""
    return any(
        "(" in kind or kind.endswith("]") for _, kind in columns if not kind.startswith("DECIMAL(")
    ) and any(
        isinstance(each.this, exp.Var) and each.this.name.upper() == "ALL"
        for each in tree.find_all(exp.Ordered)
    )


def _named(made: DataFrame, columns: Sequence[tuple[str, str]]) -> DataFrame:
    """The rows with the names of columns as the tables have them, however the text writes them."""
    names = [
        theirs if fold(theirs) == fold(ours) else ours
        for ours, (theirs, _) in zip(made.columns, columns, strict=True)
    ]
    return made if names == made.columns else made.toDF(*names)


def _is_as_described(made: DataFrame, columns: Sequence[tuple[str, str]], choices: TypeChoices) -> bool:
    return len(columns) == len(made.columns) and all(
        is_alike(field.dataType, shown("c", kind, choices).type)
        for field, (_, kind) in zip(made.schema.fields, columns, strict=True)
    )


_DUCKDBS = frozenset({"histogram", "approx_quantile", "stats", "generate_subscripts"})
"""Aggregates that Spark answers, too, with other values, and functions that make rows."""
_ODD = re.compile(r"TIMESTAMP_NS|INTERVAL|GEOMETRY|VARIANT|TIME\b(?! ZONE)|TIMETZ|TIME_NS|TIME WITH|HUGEINT")
"""Types that Spark shows as others: only as they are can it have them in an answer."""


def _is_for_spark(asked: Asked, *, can_part: bool) -> bool:
    """Whether Spark may try; what it cannot do it says, and this is about what it would do otherwise.

    Where parts of a query can be DuckDB's, only what is no part of one is looked for.
    """
    tree = asked.tree
    if tree.find(exp.Summarize, exp.PositionalColumn, exp.ApproxDistinct, exp.Mode):
        return False
    odd = {fold(name) for types in asked.types.values() for name, kind in types.items() if _ODD.search(kind)}
    for node in tree.walk():
        if isinstance(node, exp.Column) and fold(node.name) in odd and not _is_plain(node):
            around = node.parent
            if not can_part or isinstance(
                around, (exp.AggFunc, exp.Ordered, exp.Group, exp.Window, exp.Distinct)
            ):
                return False
        if isinstance(node, exp.Anonymous) and node.name.lower() in _DUCKDBS:
            return False
        if not can_part and worker_expressions.is_other(node):
            return False
        if isinstance(node, exp.Columns) and (odd or node.find_ancestor(exp.Typeof)):
            return False
        if (
            isinstance(node, exp.Literal)
            and node.is_string
            and node.name.lower() in ("infinity", "-infinity")
        ):
            return False
        if (
            isinstance(node, (exp.GroupConcat, exp.ArrayAgg))
            and node.find(exp.Distinct)
            and node.find(exp.Order)
        ):
            return False
    return True


def _is_plain(column: exp.Expr) -> bool:
    """Whether a column stands in a SELECT as it is, or is only compared with NULL."""
    parent = column.parent
    if isinstance(parent, exp.Alias):
        parent = parent.parent
    if isinstance(parent, exp.Is):
        return True
    return isinstance(parent, exp.Select) and column.find_ancestor(exp.Order, exp.Group) is None


_types: WeakKeyDictionary[Any, list[tuple[str, str]]] = WeakKeyDictionary()


def remember(frame: DataFrame, columns: list[tuple[str, str]]) -> DataFrame:
    """Keeps what DuckDB calls the types of an answer's columns."""
    _types[frame] = columns
    return frame


def columns_of(frame: DataFrame) -> list[tuple[str, str]] | None:
    """The names and DuckDB's types of the columns of an answer, where they are known."""
    return _types.get(frame)
