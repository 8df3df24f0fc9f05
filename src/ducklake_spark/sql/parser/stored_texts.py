"""The texts of views and macros as the catalog keeps them: in DuckDB's dialect, as DuckDB prints them."""

from __future__ import annotations

from collections.abc import Sequence

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format import duckdb_sql
from ducklake_spark.format.objects import MacroImpl

_SELECT = "SELECT "


def stored_query(sql: str, dialect: str, lake_name: str, what: str) -> str:
    """A query of a user for the catalog.

    Raises:
        InvalidInputError: It is not one query, or not of this dialect.
    """
    return duckdb_sql.canonical_query(_to_duckdb(sql, dialect), lake_name, what)


def stored_macro(
    sql: str, parameters: Sequence[str], dialect: str, lake_name: str, *, table: bool
) -> MacroImpl:
    """One implementation of a macro for the catalog: of an expression, or of a query with `table`."""
    if table:
        query = stored_query(sql, dialect, lake_name, "the macro")
        return duckdb_sql.macro_impl(query, parameters, table=True)
    duckdb_sql.require_sql(sql, "the macro")
    return duckdb_sql.macro_impl(duckdb_expression(sql, dialect), parameters, table=False)


def duckdb_expression(sql: str, dialect: str) -> str:
    """An expression in DuckDB's dialect."""
    return _to_duckdb(_SELECT + sql, dialect).removeprefix(_SELECT)


def _to_duckdb(sql: str, dialect: str) -> str:
    duckdb_sql.require_sql(sql, "the SQL text")
    if dialect not in ("spark", "duckdb"):
        raise InvalidInputError(f'The dialect is "spark" or "duckdb", not "{dialect}".')
    from ducklake_spark.sql.parser.outside import require_rows_only

    require_rows_only(sql, dialect)
    if dialect == "duckdb":
        return sql
    import sqlglot

    from ducklake_spark.sql.parser.grammar_queries import ODD_TREES, unreadable

    try:
        statements = sqlglot.transpile(sql, read="spark", write="duckdb")
    except ODD_TREES as error:
        raise unreadable(error, sql) from None
    if len(statements) != 1:
        raise InvalidInputError(f"Give one statement, not {len(statements)}: {sql}")
    return statements[0]
