"""Predicates as SQL for DuckDB, which reads files in the workers. What it cannot say exactly, it does not say."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.types import quote, text_literal
from ducklake_spark.scan.pruning.predicate import (
    And,
    Compare,
    IsNotNull,
    IsNull,
    OneOf,
    Or,
    Predicate,
    StartsWith,
)

_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def sql_of(predicate: Predicate, name_of: Callable[[ColumnDef], str | None]) -> str | None:
    """A condition that is true at least for the rows for which the predicate is; None where there is none.

    Args:
        predicate: What is known of a query's filters.
        name_of: The name of a column in the rows to which the condition is applied; None for one that is not there.
    """
    match predicate:
        case And(parts):
            said = [text for part in parts if (text := sql_of(part, name_of)) is not None]
            return " AND ".join(f"({text})" for text in said) if said else None
        case Or(parts):
            all_said = [sql_of(part, name_of) for part in parts]
            known = [text for text in all_said if text is not None]
            return " OR ".join(f"({text})" for text in known) if len(known) == len(all_said) else None
        case Compare(column, operator, value):
            return _on(column, name_of, lambda name: _compared(name, operator, _literal(column, value)))
        case OneOf(column, values):
            return _on(
                column, name_of, lambda name: _one_of(name, [_literal(column, each) for each in values])
            )
        case StartsWith(column, prefix) if column.type == "varchar":
            return _on(column, name_of, lambda name: f"starts_with({name}, {text_literal(prefix)})")
        case IsNull(column):
            return _on(column, name_of, lambda name: f"{name} IS NULL")
        case IsNotNull(column):
            return _on(column, name_of, lambda name: f"{name} IS NOT NULL")
        case _:
            return None


def _on(
    column: ColumnDef, name_of: Callable[[ColumnDef], str | None], made: Callable[[str], str | None]
) -> str | None:
    name = name_of(column)
    return None if name is None else made(quote(name))


def _compared(name: str, operator: str, literal: str | None) -> str | None:
    return None if literal is None else f"{name} {operator} {literal}"


def _one_of(name: str, literals: list[str | None]) -> str | None:
    known = [literal for literal in literals if literal is not None]
    return f"{name} IN ({', '.join(known)})" if known and len(known) == len(literals) else None


def _literal(column: ColumnDef, value: Any) -> str | None:
    """A value as DuckDB writes it; None for types whose values Spark and DuckDB may compare otherwise."""
    kind = column.type
    if kind in _WHOLE and isinstance(value, int):
        return str(value)
    if kind == "boolean" and isinstance(value, bool):
        return str(value).lower()
    if kind == "varchar" and isinstance(value, str) and "\0" not in value:
        return text_literal(value)
    if kind == "date" and isinstance(value, int):
        return f"(DATE '1970-01-01' + {value})"
    if kind == "timestamp" and isinstance(value, int):
        return f"make_timestamp({value})"
    if kind == "timestamptz" and isinstance(value, int):
        return f"make_timestamptz({value})"
    if kind.startswith("decimal") and isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}"
    return None
