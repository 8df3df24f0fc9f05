"""A view's text, which is DuckDB's, as a Spark query over DataFrames of the tables that it names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.duckdb_sql import CATALOG_TOKEN
from ducklake_spark.format.objects import ViewDef
from ducklake_spark.format.types import fold, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Resolve = Callable[[str | None, str], Any]
"""From the schema, if one is named, and the name of a table or view to its DataFrame; None if there is none."""


def view_frame(spark: SparkSession, view: ViewDef, lake_name: str, resolve: Resolve) -> DataFrame:
    """The rows of a view.

    Args:
        spark: The session.
        view: The view.
        lake_name: The lake's name, for tables that are named with it.
        resolve: Finds what the view's text names, at the snapshot at which the view is read.

    Raises:
        DuckLakeError: The text cannot be turned into Spark's SQL; names the view.
    """
    try:
        text, frames = _translated(view, lake_name, resolve)
        frame = spark.sql(text, **frames)
    except DuckLakeError:
        raise
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise DuckLakeError(
            f'The view "{view.name}" cannot be read by Spark: {reason}. Its text, in DuckDB\'s dialect, is: {view.sql}'
        ) from error
    return frame.toDF(*view.column_aliases, *frame.columns[len(view.column_aliases) :])


def _translated(view: ViewDef, lake_name: str, resolve: Resolve) -> tuple[str, dict[str, Any]]:
    dialect = "duckdb" if view.dialect == "duckdb" else "spark"
    tree = sqlglot.parse_one(view.sql.replace(CATALOG_TOKEN, quote(lake_name)), read=dialect)
    tree = tree.transform(_plain_function)
    frames: dict[str, Any] = {}
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier) or _is_cte(table):
            continue
        if table.catalog and fold(table.catalog) != fold(lake_name):
            raise DuckLakeError(
                f'The view "{view.name}" reads "{table.catalog}.{table.db}.{table.name}", which is not in the lake.'
            )
        found = resolve(table.db or None, table.name)
        if found is None:
            raise DuckLakeError(
                f'The view "{view.name}" reads a table "{table.name}" that the lake does not have at this snapshot.'
            )
        place = f"ducklake_view_{len(frames)}"
        frames[place] = found
        alias = table.alias or table.name
        # Columns may be qualified by schema and table; only the table's name is left of that.
        replacement = exp.alias_(exp.to_table(place), alias, table=True, quoted=True)
        for key in ("joins", "laterals", "pivots", "sample"):
            if table.args.get(key):
                replacement.set(key, table.args[key])
        table.replace(replacement)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)
    text = tree.sql(dialect="spark").replace("{", "{{").replace("}", "}}")
    return re.sub(r"\b(ducklake_view_\d+)\b", r"{\1}", text), frames


def _plain_function(node: exp.Expression) -> exp.Expression:
    """Functions as people write them: DuckDB prints some with their schema, and `count(*)` as `count_star()`."""
    if isinstance(node, exp.Dot) and node.this.name in ("main", "pg_catalog"):
        called = node.expression
        if isinstance(called, exp.Func) and isinstance(called, exp.Expression):
            return _plain_function(called)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        query = node.expression.this
        if isinstance(query, exp.Query):
            return exp.In(
                this=node.this, query=query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
            )
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name == "count_star":
            return exp.Count(this=exp.Star())
        if name == "list_value":
            return exp.Array(expressions=node.expressions)
    return node


def _is_cte(table: exp.Table) -> bool:
    if table.db:
        return False
    scope = table.parent
    while scope is not None:
        clause = scope.args.get("with") or scope.args.get("with_")
        if clause is not None and any(fold(cte.alias) == fold(table.name) for cte in clause.expressions):
            return True
        scope = scope.parent
    return False
