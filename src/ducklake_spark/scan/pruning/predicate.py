"""Catalyst filters as predicates on columns: what is understood of a filter, and nothing of the rest. Pure.

A filter comes as the tree of `relation.tree_of`. Anything that is not understood becomes `Unknown`, which may be true
for every row; so a predicate is true at least wherever its filter is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal as Number
from typing import Any, Literal, Union

from ducklake_spark.format.columns import ColumnDef

Operator = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Unknown:
    """Nothing is known: every row may match."""


@dataclass(frozen=True)
class Compare:
    """A column compared with a value that is not NULL."""

    column: ColumnDef
    operator: Operator
    value: Any


@dataclass(frozen=True)
class OneOf:
    """A column equals one of these values."""

    column: ColumnDef
    values: tuple[Any, ...]


@dataclass(frozen=True)
class StartsWith:
    """A text begins like this."""

    column: ColumnDef
    prefix: str


@dataclass(frozen=True)
class IsNull:
    """A column is NULL."""

    column: ColumnDef


@dataclass(frozen=True)
class IsNotNull:
    """A column is not NULL."""

    column: ColumnDef


@dataclass(frozen=True)
class And:
    """All of these."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    """At least one of these."""

    parts: tuple[Predicate, ...]


Predicate = Union[Unknown, Compare, OneOf, StartsWith, IsNull, IsNotNull, And, Or]  # noqa: UP007 - it is recursive

UNKNOWN = Unknown()

_COMPARISONS: Mapping[str, Operator] = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_MIRRORED: Mapping[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED: Mapping[Operator, Operator] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class _Reference:
    column: ColumnDef
    is_exact: bool
    """Whether the tree names the column itself: its values can be compared with literals."""


def parse(filters: Sequence[Any], columns: Mapping[str, ColumnDef], exact: frozenset[int]) -> Predicate:
    """The conjunction of all filters.

    Args:
        filters: Trees of Catalyst expressions; None for one that could not be printed.
        columns: The relation's columns by the names that Spark knows.
        exact: Ids of columns whose values Spark sees as the lake means them. Of others only NULL is known.
    """
    return all_of([_parse(tree, columns, exact) for tree in filters])


def all_of(parts: Sequence[Predicate]) -> Predicate:
    """A conjunction without parts that say nothing."""
    known = tuple(part for part in parts if part != UNKNOWN)
    return UNKNOWN if not known else known[0] if len(known) == 1 else And(known)


def any_of(parts: Sequence[Predicate]) -> Predicate:
    """A disjunction: it says nothing if one of its parts says nothing."""
    if not parts or UNKNOWN in parts:
        return UNKNOWN
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def negated(predicate: Predicate) -> Predicate:
    """What holds where a predicate is false. Only for predicates that say exactly what their filter says."""
    match predicate:
        case Compare(column, operator, value):
            return Compare(column, _NEGATED[operator], value)
        case OneOf(column, values):
            return all_of([Compare(column, "<>", value) for value in values])
        case IsNull(column):
            return IsNotNull(column)
        case IsNotNull(column):
            return IsNull(column)
        case _:
            return UNKNOWN


def _parse(tree: Any, columns: Mapping[str, ColumnDef], exact: frozenset[int]) -> Predicate:
    if tree is None:
        return UNKNOWN
    kind, children = tree["class"], tree["children"]
    if kind in ("And", "Or"):
        parts = [_parse(child, columns, exact) for child in children]
        return all_of(parts) if kind == "And" else any_of(parts)
    if kind == "Not":
        return _parse_not(children[0], columns, exact)
    if kind in ("IsNull", "IsNotNull"):
        found = _reference(children[0], columns, exact)
        if found is None:
            return UNKNOWN
        return IsNull(found.column) if kind == "IsNull" else IsNotNull(found.column)
    if kind in _COMPARISONS:
        return _parse_comparison(kind, children, columns, exact)
    if kind in ("In", "InSet"):
        return _parse_in(tree, columns, exact)
    if kind == "StartsWith":
        found, value = _reference(children[0], columns, exact), _literal(children[1])
        if found is None or not found.is_exact or not isinstance(value, str):
            return UNKNOWN
        return StartsWith(found.column, value)
    found = _reference(tree, columns, exact)
    if found is not None and found.is_exact and found.column.type == "boolean":
        return Compare(found.column, "=", True)
    return UNKNOWN


def _parse_not(tree: Any, columns: Mapping[str, ColumnDef], exact: frozenset[int]) -> Predicate:
    # De Morgan, so that a part which is not understood loosens the whole instead of tightening it.
    kind, children = tree["class"], tree["children"]
    if kind in ("And", "Or"):
        parts = [_parse_not(child, columns, exact) for child in children]
        return any_of(parts) if kind == "And" else all_of(parts)
    if kind == "Not":
        return _parse(children[0], columns, exact)
    if kind in ("EqualNullSafe", "StartsWith"):
        return UNKNOWN
    return negated(_parse(tree, columns, exact))


def _parse_comparison(
    kind: str, children: Sequence[Any], columns: Mapping[str, ColumnDef], exact: frozenset[int]
) -> Predicate:
    operator = _COMPARISONS[kind]
    found, value = _reference(children[0], columns, exact), _literal(children[1])
    if found is None:
        found, value = _reference(children[1], columns, exact), _literal(children[0])
        operator = _MIRRORED[operator]
    if found is None or not found.is_exact or value is None:
        return UNKNOWN
    return Compare(found.column, operator, value)


def _parse_in(tree: Any, columns: Mapping[str, ColumnDef], exact: frozenset[int]) -> Predicate:
    found = _reference(tree["children"][0], columns, exact)
    if found is None or not found.is_exact:
        return UNKNOWN
    if tree["class"] == "In":
        values = [_literal(child) for child in tree["children"][1:]]
    else:
        kind = _data_type(tree["children"][0])
        values = [_typed(text, kind) for text in tree["values"]]
    # A NULL among the values matches nothing by itself, but whatever is not a literal may match anything.
    if not values or any(value is None for value in values):
        return UNKNOWN
    return OneOf(found.column, tuple(values))


def _reference(tree: Any, columns: Mapping[str, ColumnDef], exact: frozenset[int]) -> _Reference | None:
    if tree["class"] == "AttributeReference":
        column = columns.get(tree["name"])
        return None if column is None else _Reference(column, column.column_id in exact)
    if tree["class"] == "GetStructField":
        parent = _reference(tree["children"][0], columns, exact)
        if parent is None or parent.column.type != "struct" or not parent.is_exact:
            return None
        kind = _data_type(tree["children"][0])
        if not isinstance(kind, dict):
            return None
        name = kind["fields"][tree["ordinal"]]["name"]
        child = next((part for part in parent.column.children if part.name == name), None)
        return None if child is None else _Reference(child, True)
    return None


def _data_type(tree: Any) -> Any:
    """The Catalyst type of a reference, as its JSON has it."""
    if tree["class"] == "AttributeReference":
        return tree["dataType"]
    if tree["class"] == "GetStructField":
        kind = _data_type(tree["children"][0])
        return kind["fields"][tree["ordinal"]]["type"] if isinstance(kind, dict) else None
    return None


def _literal(tree: Any) -> Any:
    if tree["class"] != "Literal" or tree.get("value") is None:
        return None
    return _typed(tree["value"], tree["dataType"])


_INTEGERS = frozenset({"byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz"})


def _typed(text: Any, kind: Any) -> Any:
    """Catalyst's text of an internal value as a Python value; None if it is not of a type that is compared here."""
    try:
        return _converted(text, kind) if isinstance(kind, str) else None
    except (ValueError, ArithmeticError):
        return None


def _converted(text: Any, kind: str) -> Any:
    if kind in _INTEGERS:
        return int(text)
    if kind in ("float", "double"):
        return float(text)
    if kind.startswith("decimal"):
        return Number(text)
    if kind == "boolean":
        return str(text).lower() == "true"
    if kind == "string":
        return str(text)
    if kind.startswith("time("):
        return int(text) // 1000
    return None
