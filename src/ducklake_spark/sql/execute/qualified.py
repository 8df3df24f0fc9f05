"""MERGE, UPDATE and DELETE of DuckDB's dialect whose columns are called `lake.table.column`: the same with aliases."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from ducklake_spark.format.types import fold
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_queries import QUERY_DIALECTS
from ducklake_spark.sql.parser.texts import Edit, splice

_OTHER = "ducklake_source"
"""What the other table is called when both have the same name."""


def with_aliases(context: Context, node: nodes.Node) -> str | None:
    """The text of the statement with an alias in place of each dotted name before a column; None if it has none."""
    if context.dialect != "duckdb" or not isinstance(node, (nodes.Merge, nodes.Update, nodes.Delete)):
        return None
    source = node.source
    if source is None:
        return None
    try:
        tokens = sqlglot.tokenize(context.text, read=QUERY_DIALECTS["duckdb"])
    except SqlglotError:
        return None
    target = tuple(map(fold, node.name))
    own = target if fold(node.alias) == target[-1] else ()
    other = _dotted([each for each in tokens if source.start <= each.start < source.stop])
    is_same = bool(own) and bool(other) and own[-1] == other[-1] and own != other
    if not is_same and not isinstance(node, nodes.Merge):
        return None
    alias = _OTHER if is_same else (other[-1] if other else "")
    edits = [Edit(source.stop, source.stop, f" AS {_OTHER}")] if is_same else []
    for names, called in ((own, node.alias), (other, alias)):
        if len(names) > 1:
            edits += [Edit(start, end, context.quoted(called)) for start, end in _prefixes(tokens, names)]
    if not edits:
        return None
    return splice(context.text, sorted(edits, key=lambda edit: edit.start)).text


def _dotted(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The parts of a name that stands alone."""
    names, dots = tokens[::2], tokens[1::2]
    is_name = len(names) == len(dots) + 1 and all(dot.token_type == TokenType.DOT for dot in dots)
    plain = all(
        name.token_type != TokenType.STRING and name.text[:1].isidentifier() for name in names if name.text
    )
    return tuple(fold(name.text) for name in names) if is_name and plain else ()


def _prefixes(tokens: Sequence[Token], names: Sequence[str]) -> list[tuple[int, int]]:
    """Where a dotted name stands before another dot."""
    length = 2 * len(names) - 1
    found = []
    for place in range(len(tokens) - length):
        window = tokens[place : place + length]
        if tokens[place + length].token_type != TokenType.DOT or _dotted(window) != tuple(names):
            continue
        if place == 0 or tokens[place - 1].token_type != TokenType.DOT:
            found.append((window[0].start, window[-1].end + 1))
    return found
