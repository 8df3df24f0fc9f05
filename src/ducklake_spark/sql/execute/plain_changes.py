"""UPDATE and DELETE that compare columns with plain values and set plain values, in three-valued logic.

What this knows, it knows as both dialects do; everything else is for Spark to compute.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlglot import exp

from ducklake_spark.engine.plain_changes import COMPARED, PlainChange, Test
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.columns import ColumnDef, find
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.types import Decimal, fold
from ducklake_spark.sql.execute.plain_values import OTHER, plain_value
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.parser.nodes import Piece

_COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_INTEGER_LIMIT = 2**63
_EXACT_DIGITS = 18
"""Decimals of more digits Spark might round before it compares them."""
_FIRST_DAY = date(1970, 1, 1)


@dataclass(frozen=True)
class PlainStatement:
    """An UPDATE or DELETE that may be plain, as far as its text says.

    Attributes:
        alias: What the statement calls the table.
        condition: The tree behind WHERE.
        values: The trees of the new values, by column; None for DELETE.
    """

    alias: str
    condition: exp.Expr | None
    values: Mapping[str, exp.Expr] | None

    def of(self, table: TableDef) -> PlainChange | None:
        """The change of this table's rows; None when Spark has to compute it, or to say what is wrong with it."""
        try:
            test = None if self.condition is None else self._test(self.condition, table)
            values = None if self.values is None else self._values(self.values, table)
        except _NotPlainError:
            return None
        names = () if self.condition is None else self._names(self.condition, table)
        return PlainChange(names, test, values)

    def _names(self, tree: exp.Expr, table: TableDef) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._column(part, table).name for part in tree.find_all(exp.Column)))

    def _column(self, tree: exp.Expr, table: TableDef) -> ColumnDef:
        if isinstance(tree, exp.Column) and (not tree.table or fold(tree.table) == fold(self.alias)):
            found = find(table.columns, tree.name)
            if found is not None and not tree.args.get("db"):
                return found
        raise _NotPlainError

    def _compared(self, tree: exp.Expr, table: TableDef) -> ColumnDef:
        column = self._column(tree, table)
        kind = column.data_type
        if column.type in COMPARED or (isinstance(kind, Decimal) and kind.precision <= _EXACT_DIGITS):
            return column
        raise _NotPlainError

    def _test(self, tree: exp.Expr, table: TableDef) -> Test:
        match tree:
            case exp.Paren():
                return self._test(tree.this, table)
            case exp.And() | exp.Or():
                return _joined(
                    self._test(tree.left, table), self._test(tree.right, table), isinstance(tree, exp.Or)
                )
            case exp.Not():
                inner = self._test(tree.this, table)
                return lambda row: None if (found := inner(row)) is None else not found
            case exp.Is():
                return self._is_null(tree, table)
            case exp.In() if tree.expressions and not (
                tree.args.get("query") or tree.args.get("unnest") or tree.args.get("field")
            ):
                column = self._compared(tree.this, table)
                parts = [_compare(operator.eq, column, _value(item, column)) for item in tree.expressions]
                return _any(parts)
            case exp.Between() if not tree.args.get("symmetric"):
                column = self._compared(tree.this, table)
                low = _compare(operator.ge, column, _value(tree.args["low"], column))
                return _joined(
                    low, _compare(operator.le, column, _value(tree.args["high"], column)), is_or=False
                )
            case exp.Column():
                column = self._column(tree, table)
                if column.type == "boolean":
                    return lambda row: row[column.name]
        if type(tree) in _COMPARISONS:
            return self._comparison(tree, table)
        raise _NotPlainError

    def _comparison(self, tree: exp.Expr, table: TableDef) -> Test:
        compared, left, right = _COMPARISONS[type(tree)], tree.this, tree.expression
        if isinstance(left, exp.Column):
            column = self._compared(left, table)
            return _compare(compared, column, _value(right, column))
        column = self._compared(right, table)
        value = _value(left, column)
        return _compare(lambda own, given: compared(given, own), column, value)

    def _is_null(self, tree: exp.Is, table: TableDef) -> Test:
        if not isinstance(tree.expression, exp.Null):
            raise _NotPlainError
        name = self._compared(tree.this, table).name
        return lambda row: row[name] is None

    def _values(self, given: Mapping[str, exp.Expr], table: TableDef) -> dict[str, Any]:
        values = {}
        for name, tree in given.items():
            column = find(table.columns, name)
            if column is None:
                raise _NotPlainError
            values[column.name] = _value(tree, column)
        return values


class _NotPlainError(Exception):
    """Something that only Spark can compute."""


def plain_statement(text: str, dialect: str, node: nodes.Node) -> PlainStatement | None:
    """The statement, if by its text alone it may be plain."""
    if not isinstance(node, (nodes.Update, nodes.Delete)) or node.source is not None or node.ctes is not None:
        return None

    def source(piece: Piece) -> str:
        return text[piece.start : piece.stop]

    where = None if node.where is None else source(node.where)
    if isinstance(node, nodes.Delete):
        return None if where is None else plain_change(where, None, node.alias, dialect)
    values: dict[str, Any] = {}
    for assignment in node.assignments:
        if len(assignment.path) != 1 or assignment.value is None or assignment.path[0] in values:
            return None
        values[assignment.path[0]] = source(assignment.value)
    return plain_change(where, values, node.alias, dialect)


def plain_change(
    condition: Any, values: Mapping[str, Any] | None, alias: str | None, dialect: str = "spark"
) -> PlainStatement | None:
    """A delete, or with values an update, if by its texts alone it may be plain."""
    given = {} if values is None else values
    texts = [*given, *given.values(), *([] if condition is None else [condition])]
    if not all(isinstance(text, str) and _is_the_same_everywhere(text, dialect) for text in texts):
        return None
    if values is not None and len(set(map(fold, values))) < len(values):
        return None
    try:
        test = None if condition is None else parse_query_text(condition, dialect)
        made = (
            None
            if values is None
            else {name: parse_query_text(text, dialect) for name, text in values.items()}
        )
    except InvalidInputError:
        return None
    if test is not None and not all(type(part) in _IN_CONDITIONS for part in test.walk()):
        return None
    if not all(type(part) in _IN_VALUES for tree in (made or {}).values() for part in tree.walk()):
        return None
    return PlainStatement(alias or "", test, made)


def _is_the_same_everywhere(text: str, dialect: str) -> bool:
    """Spark and sqlglot might differ about backslashes, double quotes and variables."""
    return not ("\\" in text or "${" in text or (dialect == "spark" and '"' in text))


_IN_VALUES = (exp.Null, exp.Boolean, exp.Literal, exp.Neg, exp.Cast, exp.DataType)
_IN_CONDITIONS = (
    *(*_COMPARISONS, *_IN_VALUES),
    *(exp.And, exp.Or, exp.Not, exp.Paren, exp.Is, exp.In, exp.Between, exp.Column, exp.Identifier),
)


def _value(tree: exp.Expr, column: ColumnDef) -> Any:
    value = plain_value(tree, column.data_type)
    is_large = isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT
    if value is OTHER or is_large:
        raise _NotPlainError
    return value


def _compare(compared: Callable[[Any, Any], Any], column: ColumnDef, value: Any) -> Test:
    name = column.name
    if value is None:
        return lambda _: None
    if isinstance(value, date):
        value = (value - _FIRST_DAY).days
    elif isinstance(column.data_type, Decimal) and abs(value) >= 10**_EXACT_DIGITS:
        raise _NotPlainError
    return lambda row: None if (own := row[name]) is None else bool(compared(own, value))


def _joined(left: Test, right: Test, is_or: bool) -> Test:
    def test(row: Mapping[str, Any]) -> bool | None:
        one, other = left(row), right(row)
        if one is is_or or other is is_or:
            return is_or
        return None if one is None or other is None else not is_or

    return test


def _any(parts: Sequence[Test]) -> Test:
    def test(row: Mapping[str, Any]) -> bool | None:
        found = [part(row) for part in parts]
        return True if True in found else None if None in found else False

    return test
