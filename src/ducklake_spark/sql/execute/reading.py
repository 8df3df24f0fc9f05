"""SQL that may only read, whatever its text says: for those who show a lake to people."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import TokenType

from ducklake_spark.errors import ReadOnlyError, add_statement
from ducklake_spark.format.types import fold
from ducklake_spark.sql.execute import functions
from ducklake_spark.sql.execute.run import run
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar import STATEMENT_DIALECTS, LakeStatement
from ducklake_spark.sql.parser.parse import Statement, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

_READS = (nodes.Show, nodes.Describe, nodes.Explain, nodes.Summarize, nodes.Use)
_METHODS_OF_JAVA = frozenset({"reflect", "java_method", "try_reflect"})
"""Functions of Spark that call any static method, and so may do anything."""
_WAY_OUT = "and only reading is allowed here"


def read(lake: Lake, text: str, dialect: str = "spark") -> DataFrame:
    """Runs SQL as `lake.sql()` does, and nothing that could change a lake, a session or a file.

    Args:
        lake: The lake, attached read-only or not.
        text: One statement, or several with `;` between them.
        dialect: "spark" or "duckdb".

    Raises:
        ReadOnlyError: A statement would change something; none was run.
    """
    for statement in parse(text, dialect):
        _require_reads(statement)
    with functions.only_asking("", f"{_WAY_OUT}."):
        return run(lake, text, dialect)


def _require_reads(statement: Statement) -> None:
    tree = statement.tree
    if isinstance(tree, LakeStatement) and not isinstance(tree.node, _READS):
        raise _refused(f"This statement changes something, {_WAY_OUT}.", statement)
    for name in _called(statement):
        if name in _METHODS_OF_JAVA:
            raise _refused(f"{name}() calls methods of Java, {_WAY_OUT}.", statement)


def _called(statement: Statement) -> Iterator[str]:
    """The names before a parenthesis, with quotes or without, at any depth."""
    tokens = sqlglot.tokenize(statement.text, read=STATEMENT_DIALECTS[statement.dialect])
    for token, following in pairwise(tokens):
        if following.token_type == TokenType.L_PAREN:
            yield fold(token.text)


def _refused(reason: str, statement: Statement) -> ReadOnlyError:
    error = ReadOnlyError(reason)
    add_statement(error, statement.text)
    return error
