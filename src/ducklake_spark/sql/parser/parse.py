"""Text -> statements: sqlglot's Spark and DuckDB dialects, with the grammar that they lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from ducklake_spark.errors import InvalidInputError, add_statement
from ducklake_spark.sql.parser.grammar import STATEMENT_DIALECTS, LakeStatement
from ducklake_spark.sql.parser.grammar_queries import ODD_TREES, respelled, unreadable

DIALECTS = ("spark", "duckdb")
Args = Mapping[str, Any] | Sequence[Any] | None


@dataclass(frozen=True)
class Statement:
    """One statement: its own text as the user wrote it, and the tree whose identifiers know their place in it."""

    text: str
    tree: exp.Expr
    dialect: str
    markers: tuple[int, int] = (0, 0)
    """Which of the `?` of the whole text are its own: from, and up to but not including."""

    def own_args(self, args: Args) -> Args:
        """The values of its own parameters: `?` count through the whole text."""
        if args is None or isinstance(args, Mapping) or self.markers[0] == 0:
            return args
        return list(args)[slice(*self.markers)]

    @property
    def is_query(self) -> bool:
        """Whether it only reads."""
        return not isinstance(self.tree, LakeStatement)


def parse(text: str, dialect: str) -> list[Statement]:
    """The statements of a text, in order.

    Raises:
        InvalidInputError: The text is not SQL of this dialect; says where.
    """
    if dialect not in DIALECTS:
        raise InvalidInputError(f'The dialect is "spark" or "duckdb", not "{dialect}".')
    if not isinstance(text, str):
        raise InvalidInputError(f"SQL is a text, not {text!r}.")
    return [_statement(part, dialect, markers) for part, markers in _split(text, dialect)]


def _statement(part: str, dialect: str, markers: tuple[int, int]) -> Statement:
    try:
        return Statement(part, _tree(part, dialect), dialect, markers)
    except InvalidInputError:
        other = respelled(part) if dialect == "duckdb" else None
        if other is None:
            raise
        with suppress(InvalidInputError):
            return Statement(other, _tree(other, dialect), dialect, markers)
        raise


def _tree(part: str, dialect: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(part, read=STATEMENT_DIALECTS[dialect])
    except InvalidInputError as error:
        add_statement(error, part)
        raise
    except ODD_TREES as error:
        raise unreadable(error, part) from None


def _split(text: str, dialect: str) -> list[tuple[str, tuple[int, int]]]:
    """The texts between semicolons, those in strings and comments do not count, and the places of their `?`."""
    try:
        tokens = sqlglot.tokenize(text, read=STATEMENT_DIALECTS[dialect])
    except SqlglotError as error:
        raise unreadable(error, text) from None
    parts, start, seen, before, count = [], 0, False, 0, 0
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            if seen:
                parts.append((text[start : token.start].strip(), (before, count)))
            start, seen, before = token.end + 1, False, count
        else:
            seen = True
            count += token.token_type == TokenType.PLACEHOLDER
    if seen:
        parts.append((text[start:].strip(), (before, count)))
    return parts
