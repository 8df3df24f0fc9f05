"""Functions in FROM: which of them are the lake's, and where a call stands in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from ducklake_spark.errors import InvalidInputError, NotFoundError
from ducklake_spark.format.types import fold
from ducklake_spark.sql.execute import functions
from ducklake_spark.sql.execute.constants import Constants
from ducklake_spark.sql.parser.grammar_queries import QUERY_DIALECTS
from ducklake_spark.sql.resolve.names import NameResolver, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

Span = tuple[int, int]


class Spans:
    """Where names and calls begin and end in a text.

    Args:
        text: The text; None when there is none, and nothing has a place.
        dialect: Its dialect.
    """

    def __init__(self, text: str | None, dialect: str) -> None:
        self._text, self._dialect = text, dialect
        self._ends: dict[int, int] | None = None

    def of_names(self, identifiers: Sequence[exp.Expr]) -> Span | None:
        """The place of a dotted name."""
        if self._text is None or not all("start" in each.meta for each in identifiers):
            return None
        return identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1

    def of_call(self, node: exp.Expr, qualifiers: Sequence[exp.Expr] = ()) -> Span | None:
        """The place of a call, from the first part of its name to its closing parenthesis."""
        if isinstance(node, exp.Table):
            qualifiers = [part for key in ("catalog", "db") if (part := node.args.get(key)) is not None]
            node = node.this
        if self._text is None or "start" not in node.meta:
            return None
        end = self._closing(node.meta["start"])
        first = qualifiers[0].meta.get("start") if qualifiers else node.meta["start"]
        return None if end is None or first is None else (first, end + 1)

    def _closing(self, start: int) -> int | None:
        if self._ends is None:
            self._ends = _closings(self._text or "", self._dialect)
        return self._ends.get(start)


def _closings(text: str, dialect: str) -> dict[int, int]:
    """From the first character of each name before a parenthesis to that parenthesis' end."""
    try:
        tokens = sqlglot.tokenize(text, read=QUERY_DIALECTS[dialect])
    except SqlglotError:
        return {}
    ends: dict[int, int] = {}
    open_at: list[int] = []
    for place, token in enumerate(tokens):
        if token.token_type == TokenType.L_PAREN:
            open_at.append(tokens[place - 1].start if place else -1)
        elif token.token_type == TokenType.R_PAREN and open_at:
            ends[open_at.pop()] = token.end
    return ends


def function_name(node: exp.Expr) -> str:
    """The name of a function as it was called."""
    if isinstance(node, exp.Anonymous):
        return str(node.name)
    return str(node.meta.get("name") or node.sql_name()) if isinstance(node, exp.Func) else ""


def call_parts(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a call in order."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    parts: list[exp.Expr] = []
    for value in node.args.values():
        parts += [
            each for each in (value if isinstance(value, list) else [value]) if isinstance(each, exp.Expr)
        ]
    return parts


def relation(resolver: NameResolver, table: exp.Table, constants: Constants) -> Relation | None:
    """What a function of a lake in FROM gives; None for functions of Spark.

    Raises:
        DuckLakeError: The function cannot be used in FROM, or its arguments do not fit.
    """
    node = table.this
    if not isinstance(node, exp.Func):
        return None
    name = function_name(node)
    found = functions.find(name)
    qualifiers = [part.name for key in ("catalog", "db") if (part := table.args.get(key)) is not None]
    if found is None:
        if qualifiers and resolver.lake_named(qualifiers[0]) is not None:
            raise NotFoundError(f'The lake "{qualifiers[0]}" has no function or table macro "{name}".')
        return None
    lake = _lake(resolver, qualifiers)
    if lake is None:
        return None
    if found.state == "call only":
        raise InvalidInputError(f"{name}() changes the lake: write CALL {name}(...), not FROM.")
    positional, named = arguments(node, constants, name)
    schema = (
        qualifiers[-1] if resolver.tx(lake).schema(qualifiers[-1] if qualifiers else "") is not None else None
    )

    def frame(virtual: Sequence[str]) -> DataFrame:
        return functions.call(lake, name, positional, named, virtual=virtual, schema=schema)

    return Relation((fold(name),), found.virtual, frame)


def arguments(node: exp.Expr, constants: Constants, name: str) -> tuple[list[object], dict[str, object]]:
    """The values of a call's arguments: those by place, and those by name."""
    positional: list[object] = []
    named: dict[str, object] = {}
    for part in call_parts(node):
        if isinstance(part, (exp.Kwarg, exp.PropertyEQ, exp.EQ)) and part.this.name:
            named[part.this.name] = constants.value(part.expression, f'"{part.this.name}" of {name}()')
        elif named:
            raise InvalidInputError(f"{name}() has an argument without a name behind one with a name.")
        else:
            positional.append(constants.value(part, f"an argument of {name}()"))
    return positional, named


def _lake(resolver: NameResolver, qualifiers: Sequence[str]) -> Lake | None:
    """The lake of `lake.f()`, `schema.f()`, `lake.schema.f()` or `f()`."""
    if not qualifiers:
        return resolver.lake
    other = resolver.lake_named(qualifiers[0])
    if other is not None:
        return other
    return resolver.lake if resolver.tx(resolver.lake).schema(qualifiers[0]) is not None else None
