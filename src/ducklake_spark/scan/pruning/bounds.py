"""A bound of the statistics compared with a value, in the SQL of one database. Bounds are texts; values are compared.

Each comparison is a condition that is true only if it surely holds. A bound that is NULL or does not look like a value
of the type makes it NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal as Number
from typing import Any, Protocol

from ducklake_spark.format.types import DataType, Decimal

Fragment = tuple[str, tuple[Any, ...]]

_SMALL = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})
"""Integers of 64 signed bits at most."""
_INTEGERS = _SMALL | {"int128", "uint64", "uint128"}
_PLAIN_NUMBER = "'^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$'"


class Bounds(Protocol):
    """Comparisons of a bound with a value; None where the value cannot be compared."""

    def below(self, bound: str, value: Any) -> Fragment | None:
        """bound < value"""

    def at_most(self, bound: str, value: Any) -> Fragment | None:
        """bound <= value"""

    def above(self, bound: str, value: Any) -> Fragment | None:
        """bound > value"""

    def at_least(self, bound: str, value: Any) -> Fragment | None:
        """bound >= value"""

    def only(self, low: str, high: str, value: Any) -> Fragment | None:
        """low = value = high"""


def bounds_of(kind: str, data_type: DataType, is_promoted: bool) -> Bounds | None:
    """How bounds of a type are compared in a kind of database; None if they cannot be.

    Args:
        kind: `Store.kind`.
        data_type: The column's present type.
        is_promoted: Whether some statistics were written in an older type of the column. Integers and decimals mean the
            same in both; the text of others does not.
    """
    name = data_type.name
    if isinstance(data_type, Decimal) or name in _INTEGERS:
        return _Numbers(kind, _exactness(kind, data_type), getattr(data_type, "scale", 0))
    if is_promoted:
        return None
    if name in ("float32", "float64"):
        # Of a float too the text is the shortest that means it, on both sides: texts as doubles keep the order.
        return _Numbers(kind, "float")
    if name == "boolean":
        return _Booleans()
    if name in ("varchar", "json", "uuid"):
        return _Texts(kind)
    if name in _FORMS:
        return _Times(kind, name)
    return None


def _exactness(kind: str, data_type: DataType) -> str:
    if kind != "sqlite":
        return "exact"
    if isinstance(data_type, Decimal):
        return "double" if data_type.precision <= 15 else "near"
    if data_type.name in _SMALL:
        return "integer"
    return "near" if data_type.name == "int128" else "digits"


class _Ordered:
    """Values that the database compares: all comparisons are of one form."""

    def sql_of(self, bound: str, operator: str, value: Any) -> Fragment | None:
        raise NotImplementedError

    def below(self, bound: str, value: Any) -> Fragment | None:
        return self.sql_of(bound, "<", value)

    def at_most(self, bound: str, value: Any) -> Fragment | None:
        return self.sql_of(bound, "<=", value)

    def above(self, bound: str, value: Any) -> Fragment | None:
        return self.sql_of(bound, ">", value)

    def at_least(self, bound: str, value: Any) -> Fragment | None:
        return self.sql_of(bound, ">=", value)

    def only(self, low: str, high: str, value: Any) -> Fragment | None:
        return _both(self.sql_of(low, "=", value), self.sql_of(high, "=", value))


@dataclass(frozen=True)
class _Numbers(_Ordered):
    """Numbers.

    SQLite has neither decimals nor integers beyond 64 bits: there `near` compares doubles with a margin, and `digits`
    compares unsigned integers by their digits.
    """

    kind: str
    exactness: str
    scale: int = 0

    def _bound(self, bound: str) -> str:
        if self.kind == "duckdb":
            return f"TRY_CAST({bound} AS DOUBLE)"
        if self.kind == "sqlite":
            target = "INTEGER" if self.exactness == "integer" else "REAL"
            return f"CASE WHEN {bound} GLOB '*[0-9]*' THEN CAST({bound} AS {target}) END"
        if self.kind == "postgres":
            # The short pattern takes half the time.
            pattern = "'^-?[0-9]+$'" if self.exactness == "exact" and not self.scale else _PLAIN_NUMBER
            return f"CASE WHEN {bound} ~ {pattern} THEN CAST({bound} AS numeric) END"
        target = "DOUBLE" if self.exactness == "float" else "DECIMAL(65,30)"
        return f"CASE WHEN {bound} REGEXP {_PLAIN_NUMBER} THEN CAST({bound} AS {target}) END"

    def sql_of(self, bound: str, operator: str, value: Any) -> Fragment | None:
        number = _number(value)
        if number is None or not number.is_finite():
            return None
        if self.kind == "duckdb" and self.exactness != "float":
            return self._duckdb(bound, operator, number)
        if self.kind == "mysql" and max(self.scale, _scale(number)) > 30:
            return None
        if self.exactness == "integer" and (number != number.to_integral_value() or abs(number) >= 2**63):
            return None
        if self.exactness == "digits":
            if number != number.to_integral_value() or number < 0:
                return None
            return f"(length({bound}), {bound}) {operator} ({len(str(int(number)))}, '{int(number)}')", ()
        if self.exactness == "near":
            margin = abs(number) * Number("1e-14")
            number += -margin if operator in ("<", "<=") else margin
            operator = operator[0]
        shown = _shown(number, as_double=self.kind in ("duckdb", "sqlite") and self.exactness != "integer")
        return f"{self._bound(bound)} {operator} {shown}", ()

    def _duckdb(self, bound: str, operator: str, number: Number) -> Fragment | None:
        scale = max(self.scale, _scale(number))
        if scale == 0:
            return (
                (f"TRY_CAST({bound} AS HUGEINT) {operator} {int(number)}", ())
                if abs(number) < 2**127
                else None
            )
        # A bound that does not fit such a decimal becomes NULL.
        if number.adjusted() + 1 + scale > 38:
            return None
        return f"TRY_CAST({bound} AS DECIMAL(38,{scale})) {operator} {number:f}", ()

    def only(self, low: str, high: str, value: Any) -> Fragment | None:
        return None if self.exactness == "near" else super().only(low, high, value)


def _number(value: Any) -> Number | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return Number(repr(value))
    return Number(value) if isinstance(value, (int, Number)) else None


def _scale(number: Number) -> int:
    exponent = number.normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def _shown(number: Number, *, as_double: bool) -> str:
    if as_double:
        return repr(float(number)) if "e" in repr(float(number)) else repr(float(number)) + "e0"
    return f"{number:f}" if abs(number.adjusted()) < 300 else f"{number:E}"


def _both(low: Fragment | None, high: Fragment | None) -> Fragment | None:
    if low is None or high is None:
        return None
    return f"({low[0]}) AND ({high[0]})", (*low[1], *high[1])


class _Booleans:
    """Truth values, which the catalog spells in two ways."""

    def _is(self, bound: str, value: bool) -> str:
        return f"{bound} IN ('1', 'true')" if value else f"{bound} IN ('0', 'false')"

    def below(self, bound: str, value: Any) -> Fragment | None:
        return (self._is(bound, False), ()) if value is True else None

    def at_most(self, bound: str, value: Any) -> Fragment | None:
        return (self._is(bound, False), ()) if value is False else None

    def above(self, bound: str, value: Any) -> Fragment | None:
        return (self._is(bound, True), ()) if value is False else None

    def at_least(self, bound: str, value: Any) -> Fragment | None:
        return (self._is(bound, True), ()) if value is True else None

    def only(self, low: str, high: str, value: Any) -> Fragment | None:
        return f"{self._is(low, value)} AND {self._is(high, value)}", ()


@dataclass(frozen=True)
class _Texts(_Ordered):
    """Texts, byte by byte whatever the database's own order is."""

    kind: str

    def _bound(self, bound: str) -> str:
        if self.kind == "postgres":
            return f'{bound} COLLATE "C"'
        return f"CAST({bound} AS BINARY)" if self.kind == "mysql" else bound

    def sql_of(self, bound: str, operator: str, value: Any) -> Fragment | None:
        if not isinstance(value, str) or "\0" in value:
            return None
        place = "CAST(? AS BINARY)" if self.kind == "mysql" else "?"
        return f"{self._bound(bound)} {operator} {place}", (value,)


_DATE = "____-__-__"
_FORMS = {
    "date": _DATE,
    "time": "__:__:__%",
    "timestamp": f"{_DATE} __:__:__%",
    "timestamp_s": f"{_DATE} __:__:__%",
    "timestamp_ms": f"{_DATE} __:__:__%",
    "timestamp_ns": f"{_DATE} __:__:__%",
    "timestamptz": f"{_DATE} __:__:__%+00",
}
"""How a bound of the years 1 to 9999 looks. Their texts have the order of their values."""


@dataclass(frozen=True)
class _Times(_Ordered):
    """Dates and times, by their texts where those have the order of their values."""

    kind: str
    name: str

    def sql_of(self, bound: str, operator: str, value: Any) -> Fragment | None:
        text = time_text(self.name, value)
        if text is None:
            return None
        compared = _Texts(self.kind).sql_of(bound, operator, text)
        if compared is None:
            return None
        sql, params = compared
        form = f"{bound} LIKE '{_FORMS[self.name]}' AND {bound} NOT LIKE '%BC%'"
        # In every database a time before Christ or beyond the year 9999 is left to Spark.
        return f"CASE WHEN {form} THEN {sql} END", params


def time_text(name: str, value: Any) -> str | None:
    """The text of the statistics for a value as Spark keeps it; None outside of the years 1 to 9999.

    >>> time_text("timestamp", 1_500_000), time_text("date", 0), time_text("timestamp_ns", 1)
    ('1970-01-01 00:00:01.5', '1970-01-01', '1970-01-01 00:00:00.000000001')
    """
    if not isinstance(value, int):
        return None
    try:
        if name == "date":
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        nanos = value if name == "timestamp_ns" else value * 1000
        seconds, rest = divmod(nanos, 1_000_000_000)
        moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    except OverflowError:
        return None
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    if name == "time":
        return f"{moment:%H:%M:%S}{fraction}"
    zone = "+00" if name == "timestamptz" else ""
    return f"{moment.isoformat(sep=' ')}{fraction}{zone}"
