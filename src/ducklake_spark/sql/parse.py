"""Text -> statements: sqlglot's Spark and DuckDB dialects, with the grammar that they lack."""

from __future__ import annotations

from dataclasses import dataclass

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.sql.grammar_queries import QUERY_DIALECTS

DIALECTS = ("spark", "duckdb")


@dataclass(frozen=True)
class Statement:
    """One statement: its own text as the user wrote it, and the tree whose identifiers know their place in it."""

    text: str
    tree: exp.Expr
    dialect: str

    @property
    def is_query(self) -> bool:
        """Whether it only reads."""
        return isinstance(self.tree, exp.Query)


def parse(text: str, dialect: str) -> list[Statement]:
    """The statements of a text, in order.

    Raises:
        InvalidInputError: The text is not SQL of this dialect; says where.
    """
    if dialect not in DIALECTS:
        raise InvalidInputError(f'The dialect is "spark" or "duckdb", not "{dialect}".')
    found = []
    for part in _split(text, dialect):
        try:
            tree = sqlglot.parse_one(part, read=QUERY_DIALECTS[dialect])
        except SqlglotError as error:
            raise InvalidInputError(f"Cannot read as SQL: {error}") from error
        found.append(Statement(part, tree, dialect))
    return found


def _split(text: str, dialect: str) -> list[str]:
    """The texts between semicolons; those in strings and comments do not count."""
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
    except SqlglotError as error:
        raise InvalidInputError(f"Cannot read as SQL: {error}") from error
    parts, start, seen = [], 0, False
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            if seen:
                parts.append(text[start : token.start].strip())
            start, seen = token.end + 1, False
        else:
            seen = True
    if seen:
        parts.append(text[start:].strip())
    return parts
