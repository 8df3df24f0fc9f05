"""SQL that is still being typed: whether it is a whole statement, and what may stand at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import Dialect, Token, TokenType
from sqlglot.errors import SqlglotError

_BEFORE_RELATIONS = frozenset({"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "DESC", "USING", "ON"})
"""Words behind which a table may stand."""
_NEVER_ALIASES = _BEFORE_RELATIONS | frozenset(
    {"WHERE", "GROUP", "ORDER", "SET", "VALUES", "LIMIT", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "SELECT"}
    | {"HAVING", "UNION", "WHEN", "AT", "VERSION", "TIMESTAMP", "ADD", "DROP", "ALTER", "RENAME", "NATURAL"}
    | {"QUALIFY", "WINDOW", "EXCEPT", "INTERSECT", "FOR", "LATERAL", "ANTI", "SEMI", "ASOF", "POSITIONAL"}
)


@dataclass(frozen=True)
class Place:
    """Where the cursor is: behind the start of a name, perhaps qualified, among the tables of a statement."""

    prefix: str
    qualifier: tuple[str, ...]
    wants_relation: bool
    relations: tuple[tuple[str, tuple[str, ...]], ...]
    """The tables that the statement names: alias, or the table's own name, and the parts of its name."""


def ends_statement(text: str, dialect: str) -> bool:
    """Whether the text ends with a semicolon that is not part of a string, a name or a comment.

    >>> ends_statement("SELECT 1;", "spark"), ends_statement("SELECT ';", "spark")
    (True, False)
    """
    tokens = _tokens(text, dialect) or []
    return bool(tokens) and tokens[-1].token_type == TokenType.SEMICOLON


def keywords(dialect: str) -> list[str]:
    """The words that the dialect knows, in order.

    >>> "SELECT" in keywords("spark"), "PIVOT" in keywords("duckdb")
    (True, True)
    """
    return sorted(word for word in Dialect.get_or_raise(dialect).tokenizer_class.KEYWORDS if word.isalpha())


def place(text: str, cursor: int, dialect: str) -> Place | None:
    """What is being typed at the cursor, or None where nothing can be suggested: in a string or a number.

    >>> found = place("SELECT o.cu FROM shop.orders o", 11, "spark")
    >>> found.prefix, found.qualifier, found.relations
    ('cu', ('o',), (('o', ('shop', 'orders')),))
    """
    before = _tokens(text[:cursor], dialect)
    if before is None:
        return None
    prefix = ""
    if before and before[-1].end == cursor - 1 and _is_word(before[-1]):
        prefix = before.pop().text
    elif before and before[-1].end == cursor - 1 and before[-1].token_type in _LITERALS:
        return None
    qualifier: list[str] = []
    while len(before) > 1 and before[-1].token_type == TokenType.DOT and _is_word(before[-2]):
        before.pop()
        qualifier.insert(0, before.pop().text)
    wants_relation = bool(before) and before[-1].text.upper() in _BEFORE_RELATIONS - {"ON"}
    whole = _tokens(text, dialect) or before
    return Place(prefix, tuple(qualifier), wants_relation, tuple(_relations(whole)))


_LITERALS = (TokenType.STRING, TokenType.NUMBER)


def _tokens(text: str, dialect: str) -> list[Token] | None:
    """The tokens, or None when a string, a name or a comment is still open."""
    try:
        return list(sqlglot.tokenize(text, read=dialect))
    except SqlglotError:
        return None


def _is_word(token: Token) -> bool:
    return token.token_type in (TokenType.IDENTIFIER, TokenType.VAR) or token.text.isidentifier()


def _relations(tokens: Sequence[Token]) -> list[tuple[str, tuple[str, ...]]]:
    found = []
    position = 0
    while position < len(tokens):
        word = tokens[position].text.upper()
        position += 1
        if word not in _BEFORE_RELATIONS or tokens[position - 1].token_type == TokenType.IDENTIFIER:
            continue
        parts, position = _name(tokens, position)
        if parts:
            alias, position = _alias(tokens, position)
            found.append((alias or parts[-1], parts))
    return found


def _name(tokens: Sequence[Token], position: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while position < len(tokens) and _is_word(tokens[position]):
        parts.append(tokens[position].text)
        position += 1
        if position >= len(tokens) or tokens[position].token_type != TokenType.DOT:
            break
        position += 1
    return tuple(parts), position


def _alias(tokens: Sequence[Token], position: int) -> tuple[str | None, int]:
    if position < len(tokens) and tokens[position].text.upper() == "AS":
        position += 1
    if position < len(tokens) and _is_word(tokens[position]):
        token = tokens[position]
        if token.token_type == TokenType.IDENTIFIER or token.text.upper() not in _NEVER_ALIASES:
            return token.text, position + 1
    return None, position
