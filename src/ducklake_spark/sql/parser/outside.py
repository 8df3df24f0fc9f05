"""SQL that does more than read rows: functions that call methods of Java, and clauses that start programs.

Whoever types such a text may mean it. A text that somebody else wrote must not have it: a view or a macro of a lake
would act with the rights of everybody who reads it.
"""

from __future__ import annotations

from itertools import pairwise

import sqlglot
from sqlglot import TokenType
from sqlglot.errors import SqlglotError

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import fold
from ducklake_spark.sql.parser.grammar import STATEMENT_DIALECTS

_METHODS_OF_JAVA = frozenset({"reflect", "java_method", "try_reflect"})
"""Functions of Spark that call any static method, and so may do anything."""
_TEXTS = frozenset(
    {
        TokenType.STRING,
        TokenType.RAW_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.BYTE_STRING,
        TokenType.HEREDOC_STRING,
        TokenType.UNICODE_STRING,
        TokenType.COLON,
        TokenType.PARAMETER,
        TokenType.PLACEHOLDER,
    }
)
"""What names a program behind USING, as in `TRANSFORM ... USING 'cat'`; joins and samples have none there."""


def outside(text: str, dialect: str) -> str | None:
    """What a text does beside reading rows, as a sentence without its end; None if it does nothing.

    Names count with quotes or without, at any depth.

    >>> outside("SELECT `reflect`('java.lang.System', 'exit', 0)", "spark")
    'reflect() calls methods of Java'
    >>> outside("SELECT TRANSFORM (a) USING 'cat' FROM t", "spark")
    'USING starts a program'
    >>> outside("SELECT 'reflect(1)' FROM t JOIN u USING (reflect)", "spark")
    """
    try:
        tokens = sqlglot.tokenize(text, read=STATEMENT_DIALECTS[dialect])
    except SqlglotError:
        return "it cannot be read to its end"
    for token, following in pairwise(tokens):
        name = fold(token.text)
        if following.token_type == TokenType.L_PAREN and name in _METHODS_OF_JAVA:
            return f"{name}() calls methods of Java"
        if token.token_type == TokenType.USING and dialect == "spark" and following.token_type in _TEXTS:
            return "USING starts a program"
    return None


def require_rows_only(text: str, dialect: str) -> None:
    """Refuses a text of a lake that does more than read rows.

    Raises:
        InvalidInputError: It does; says what.
    """
    found = outside(text, dialect)
    if found is not None:
        raise InvalidInputError(f"{found}, which no text of a lake may do: whoever reads it would do it.")
