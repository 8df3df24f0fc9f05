"""VALUES of numbers, texts, dates and NULL alone: they are rows already, and need no Spark job to become some."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from sqlglot import exp

from ducklake_spark.format.types import DataType
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.parser.nodes import Piece

_MOST = 2000
"""More values than this are read faster by Spark."""
_INTEGERS = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OTHER = object()
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
            value = _value(context, piece, data_type)
            if value is _OTHER:
                return None
            values[name] = value
        found.append(values)
    return found


def _value(context: Context, piece: Piece, data_type: DataType) -> Any:
    tree = parse_query_text(context.source(piece), context.dialect)
    sign = 1
    if isinstance(tree, exp.Neg):
        sign, tree = -1, tree.this
    if isinstance(tree, exp.Null) and sign == 1:
        return None
    if isinstance(tree, exp.Boolean) and sign == 1:
        return bool(tree.this) if data_type.name == "boolean" else _OTHER
    if isinstance(tree, exp.Cast) and sign == 1:
        return _date(tree) if data_type.name == "date" else _OTHER
    if not isinstance(tree, exp.Literal):
        return _OTHER
    text = str(tree.this)
    if tree.is_string:
        # Spark and sqlglot might differ about backslashes.
        plain = sign == 1 and data_type.name == "varchar" and "\\" not in context.source(piece)
        return text if plain else _OTHER
    if text.isascii() and text.isdigit():
        number = sign * int(text)
        if data_type.name in _INTEGERS:
            return number
        return Decimal(number) if data_type.name == "decimal" else _OTHER
    whole, _, fraction = text.partition(".")
    if data_type.name == "decimal" and (whole + fraction).isdigit() and len(fraction) <= _scale(data_type):
        return sign * Decimal(text)
    return _OTHER


def _date(tree: exp.Cast) -> Any:
    """The value of `DATE '2026-01-31'`; whatever else is written only Spark reads."""
    text = str(tree.this.this) if isinstance(tree.this, exp.Literal) and tree.this.is_string else ""
    if not tree.to.is_type(exp.DataType.Type.DATE) or _DATE.fullmatch(text) is None:
        return _OTHER
    try:
        return date.fromisoformat(text)
    except ValueError:
        return _OTHER


def _scale(data_type: DataType) -> int:
    return int(getattr(data_type, "scale", 0))
