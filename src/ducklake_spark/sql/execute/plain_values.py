"""VALUES of numbers, texts, dates and NULL alone: they are rows already, and need no Spark job to become some."""

from __future__ import annotations

import decimal
import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from sqlglot import exp

from ducklake_spark.format.types import DataType, Decimal
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.parser.nodes import Piece

_MOST = 2000
"""More values than this are read faster by Spark."""
_INTEGERS = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
OTHER = object()
"""What a value is that only Spark can compute or cast."""


def plain_rows(
    context: Context,
    rows: Sequence[Sequence[Piece | None]],
    names: Sequence[str],
    types: Sequence[DataType],
) -> list[dict[str, Any]] | None:
    """The rows, without the columns for which DEFAULT stands; None when a value is not plain, or not of its type."""
    if len(rows) * len(names) > _MOST:
        return None
    found = []
    for row in rows:
        values = {}
        for name, data_type, piece in zip(names, types, row, strict=True):
            if piece is None:
                continue
            text = context.source(piece)
            value = plain_value(parse_query_text(text, context.dialect), data_type)
            if isinstance(value, str) and "\\" in text:
                return None  # Spark and sqlglot might differ about backslashes
            if value is OTHER:
                return None
            values[name] = value
        found.append(values)
    return found


def plain_value(tree: exp.Expr, data_type: DataType) -> Any:
    """The value of a literal for a column of this type; `OTHER` when it is none, or not of the type."""
    sign = 1
    if isinstance(tree, exp.Neg):
        sign, tree = -1, tree.this
    if isinstance(tree, exp.Null) and sign == 1:
        return None
    if isinstance(tree, exp.Boolean) and sign == 1:
        return bool(tree.this) if data_type.name == "boolean" else OTHER
    if isinstance(tree, exp.Cast) and sign == 1:
        return _date(tree) if data_type.name == "date" else OTHER
    if not isinstance(tree, exp.Literal):
        return OTHER
    text = str(tree.this)
    if tree.is_string:
        return text if sign == 1 and data_type.name == "varchar" else OTHER
    if text.isascii() and text.isdigit():
        number = sign * int(text)
        if data_type.name in _INTEGERS:
            return number
        return decimal.Decimal(number) if isinstance(data_type, Decimal) else OTHER
    whole, _, fraction = text.partition(".")
    digits = whole + fraction
    if isinstance(data_type, Decimal) and digits.isdigit() and len(fraction) <= data_type.scale:
        exact = decimal.Decimal(text)  # a product would be rounded to the digits of Python's context
        return exact if sign == 1 else exact.copy_negate()
    return OTHER


def _date(tree: exp.Cast) -> Any:
    """The value of `DATE '2026-01-31'`; whatever else is written only Spark reads."""
    text = str(tree.this.this) if isinstance(tree.this, exp.Literal) and tree.this.is_string else ""
    if not tree.to.is_type(exp.DataType.Type.DATE) or _DATE.fullmatch(text) is None:
        return OTHER
    try:
        return date.fromisoformat(text)
    except ValueError:
        return OTHER
