"""INSERT, UPDATE and DELETE on the tables of a lake's catalog, which DuckDB's dialect knows by a name of their own."""

from __future__ import annotations

from itertools import pairwise

import duckdb
import sqlglot
from sqlglot import TokenType

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, ReadOnlyError
from ducklake_spark.format.types import fold
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_queries import QUERY_DIALECTS
from ducklake_spark.sql.parser.texts import Edit, splice
from ducklake_spark.sql.resolve.names import NameResolver


def changed(context: Context, node: nodes.Node) -> int | None:
    """Runs a statement that changes a catalog in its database, by itself; None for all other statements.

    Raises:
        InvalidInputError: The catalog is not in a DuckDB file.
        ReadOnlyError: The lake is attached read-only.
    """
    if context.dialect != "duckdb" or not isinstance(node, (nodes.Insert, nodes.Update, nodes.Delete)):
        return None
    found = NameResolver(context.lake).lakes_with_metadata(node.name[0]) if len(node.name) > 1 else []
    if not found:
        return None
    lake, scope = found[0], scope_of(found[0])
    if scope.store.kind != "duckdb":
        raise InvalidInputError(
            f'The catalog of lake "{lake.name}" is not in a DuckDB file, so that SQL of DuckDB cannot change its '
            f"tables. Use a client of {scope.store.kind}."
        )
    if scope.config.read_only:
        raise ReadOnlyError(f'The lake "{lake.name}" is attached read-only: nothing in it can be changed.')
    try:
        with scope.store.begin() as session:
            rows = session.query(_without(context.text, node.name[0]))
    except duckdb.Error as error:
        raise InvalidInputError(str(error).split("\n\n")[0]) from None
    return int(rows[0][0])


def _without(text: str, catalog: str) -> str:
    """The text in which names do not begin with the catalog's name: its own database has not got that name."""
    tokens = sqlglot.tokenize(text, read=QUERY_DIALECTS["duckdb"])
    edits = [
        Edit(token.start, following.end + 1, "")
        for token, following in pairwise(tokens)
        if fold(token.text) == fold(catalog) and following.token_type == TokenType.DOT
    ]
    return splice(text, edits).text
