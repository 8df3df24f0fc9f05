"""`printf` and `format`: their formats taken apart, each mark as Spark's SQL with the digits that C prints.

Java rounds the decimal text of a number, C the number itself: 2.675 is 2.67 in C, as the number is a little less.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.sql.duckdb.casts import text_of
from ducklake_spark.sql.duckdb.functions import TEXTS, spark
from ducklake_spark.sql.duckdb.types import Types, is_float, is_integer

_PRINTF = re.compile(
    r"%(?P<flags>[-+ 0#,']*)(?P<width>\d*)(?:\.(?P<digits>\d+))?[hlLqjzt]*(?P<kind>[a-zA-Z%])"
)
_FORMAT = re.compile(
    r"\{\{|\}\}|\{(?P<place>\d*)(?::(?:(?P<fill>.)?(?P<align>[<>^=]))?(?P<flags>[-+ #0]*)(?P<width>\d*)"
    r"(?P<thousands>[,_']?)(?:\.(?P<digits>\d+))?(?P<kind>[a-zA-Z]?))?\}"
)
_C = {"i": "d", "u": "d", "x": "unsigned x", "X": "unsigned X", "o": "unsigned o"}
"""Where C's marks mean something else than those in braces: the bits of a negative number."""
_EXACT = 15
"""So many digits of a number are the same in its decimal text and in itself."""
_HALVES = "0.00000011920928955078125BD"  # 2 ** -23
_FIXED = (
    "CASE WHEN isnan(_1) THEN 'nan' WHEN abs(_1) = double('Infinity') THEN if(_1 > 0, 'inf', '-inf') "
    "WHEN abs(_1) < {limit}D THEN replace(format_number(_1, {digits}), ',', '') {large} "
    "ELSE raise_error('Spark cannot print so many digits of a number.') END"
)
_LARGE = (
    "WHEN abs(_1) < 9.2E18D THEN concat(if(_1 < 0, '-', ''), CAST(CAST(bround(CAST(CAST(abs(_1) AS BIGINT) AS "
    f"DECIMAL(19, 0)) + CAST((abs(_1) % 1) * 8388608D AS DECIMAL(8, 0)) * {_HALVES}, {{digits}}) "
    "AS DECIMAL(38, {digits})) AS STRING))"
)
_EXPONENT = (
    "if(format_string('%.16e', _1) RLIKE '^-?[0-9][.][0-9]{{{digits}}}50*e', raise_error("
    "'Spark cannot round this number as printf does.'), format_string('%.{digits}{kind}', _1))"
)


@dataclass(frozen=True)
class _Mark:
    """What stands for one value in a format."""

    kind: str
    width: int
    digits: int | None
    fill: str
    align: str
    sign: str
    thousands: str


def printf(args: list[exp.Expr], types: Types) -> exp.Expr:
    """`printf`, with C's marks."""
    text = _written(args, "printf")
    parts: list[exp.Expr] = []
    values = iter(args[1:])
    end = 0
    for found in _PRINTF.finditer(text):
        parts.append(exp.Literal.string(text[end : found.start()].replace("%%", "%")))
        end = found.end()
        if found["kind"] == "%":
            parts.append(exp.Literal.string("%"))
            continue
        flags = found["flags"]
        align = "<" if "-" in flags else "=" if "0" in flags else ">"
        mark = _Mark(
            _C.get(found["kind"], found["kind"]),
            int(found["width"] or 0),
            None if found["digits"] is None else int(found["digits"]),
            "0" if align == "=" else " ",
            align,
            "+" if "+" in flags else " " if " " in flags else "",
            next((flag for flag in flags if flag in ",'"), ""),
        )
        _no_alternative(flags)
        value = next(values, None)
        if value is None:
            raise InvalidInputError("printf() has fewer values than marks.")
        parts.append(_shown(mark, value, types))
    return _joined([*parts, exp.Literal.string(text[end:])], args[1:])


def format_(args: list[exp.Expr], types: Types) -> exp.Expr:
    """`format`, with marks in braces."""
    text = _written(args, "format")
    parts: list[exp.Expr] = []
    end = taken = 0
    for found in _FORMAT.finditer(text):
        parts.append(exp.Literal.string(text[end : found.start()]))
        end = found.end()
        if found[0] in ("{{", "}}"):
            parts.append(exp.Literal.string(found[0][0]))
            continue
        place = int(found["place"]) if found["place"] else taken
        taken += 1
        if place + 1 >= len(args):
            raise InvalidInputError("format() has fewer values than marks.")
        value, flags = args[place + 1], found["flags"] or ""
        kind = types.of(value)
        number = kind is not None and not isinstance(kind, (T.StringType, T.BooleanType, T.DateType))
        zero = "0" in flags and not found["align"]
        _no_alternative(flags)
        mark = _Mark(
            found["kind"] or "",
            int(found["width"] or 0),
            None if found["digits"] is None else int(found["digits"]),
            "0" if zero else found["fill"] or " ",
            "=" if zero else found["align"] or (">" if number else "<"),
            "+" if "+" in flags else " " if " " in flags else "",
            found["thousands"] or "",
        )
        parts.append(_shown(mark, value, types))
    if re.search(r"[{}]", _FORMAT.sub("", text)):
        raise InvalidInputError(f"format() cannot read {text!r}.")
    return _joined([*parts, exp.Literal.string(text[end:])], args[1:])


def _written(args: list[exp.Expr], name: str) -> str:
    if not args or not (isinstance(args[0], exp.Literal) and args[0].is_string):
        raise InvalidInputError(f"{name}() takes a format that is written out.")
    return str(args[0].name)


def _no_alternative(flags: str) -> None:
    if "#" in flags:
        raise InvalidInputError("The flag # of printf() and format() is not available.")


def _joined(parts: list[exp.Expr], values: list[exp.Expr]) -> exp.Expr:
    kept = [part for part in parts if not (isinstance(part, exp.Literal) and not part.name)]
    made = exp.Anonymous(this="concat", expressions=kept or [exp.Literal.string("")])
    nulls = [value for value in values if isinstance(value, exp.Null)]
    return spark("CAST(NULL AS STRING)") if nulls else made


def _shown(mark: _Mark, value: exp.Expr, types: Types) -> exp.Expr:
    body = _body(mark, value, types.of(value))
    if mark.thousands:
        body = spark(
            "regexp_replace(_1, '(?<=^[+-]?[0-9]{1,40})(?=([0-9]{3})+(?![0-9]))', _2)",
            body,
            exp.Literal.string(mark.thousands),
        )
    if mark.sign:
        body = spark("concat(if(_1 LIKE '-%', '', _2), _1)", body, exp.Literal.string(mark.sign))
    if not mark.width:
        return body
    missing = f"greatest({mark.width} - length(_1), 0)"
    padded = {
        "<": f"concat(_1, repeat(_2, {missing}))",
        ">": f"concat(repeat(_2, {missing}), _1)",
        "^": f"concat(repeat(_2, {missing} DIV 2), _1, repeat(_2, {missing} - {missing} DIV 2))",
        "=": f"concat(regexp_extract(_1, '^[+ -]?', 0), repeat(_2, {missing}), regexp_replace(_1, '^[+ -]', ''))",
    }
    return spark(padded[mark.align], body, exp.Literal.string(mark.fill))


def _body(mark: _Mark, value: exp.Expr, kind: T.DataType | None) -> exp.Expr:
    number = spark("CAST(_1 AS DOUBLE)", value)
    if mark.kind in ("f", "F"):
        return _fixed(number, 6 if mark.digits is None else mark.digits)
    if mark.kind in ("e", "E"):
        digits = 6 if mark.digits is None else mark.digits
        if digits >= _EXACT:
            raise InvalidInputError("Spark cannot print so many digits of a number.")
        return spark(_EXPONENT.format(digits=digits, kind=mark.kind), number)
    whole = {
        "x": "concat(if(_1 < 0, '-', ''), lower(hex(abs(_1))))",
        "X": "concat(if(_1 < 0, '-', ''), hex(abs(_1)))",
        "o": "concat(if(_1 < 0, '-', ''), conv(abs(_1), 10, 8))",
        "b": "concat(if(_1 < 0, '-', ''), bin(abs(_1)))",
        "unsigned x": "lower(hex(_1))",
        "unsigned X": "hex(_1)",
        "unsigned o": "conv(_1, 10, 8)",
        "c": TEXTS["chr"],
        "d": "CAST(_1 AS STRING)",
    }
    if mark.kind in whole:
        if kind is not None and not is_integer(kind) and not isinstance(kind, (T.BooleanType, T.NullType)):
            raise InvalidInputError(f"The mark {mark.kind} of printf() and format() is for whole numbers.")
        return spark(whole[mark.kind], value)
    if mark.kind not in ("", "s"):
        raise InvalidInputError(f"The mark {mark.kind} of printf() and format() is not available.")
    if is_float(kind) or isinstance(kind, T.DecimalType):
        if mark.digits is not None:
            raise InvalidInputError("Give printf() and format() the mark f with a number of digits.")
        text: exp.Expr | None = text_of(number, T.DoubleType())
    else:
        text = text_of(value, kind)
    text = spark("CAST(_1 AS STRING)", value) if text is None else text
    return text if mark.digits is None else spark(f"left(_1, {mark.digits})", text)


def _fixed(number: exp.Expr, digits: int) -> exp.Expr:
    """So many digits after the point, of the number itself; halves go to the even digit."""
    large = _LARGE.format(digits=digits) if digits <= 6 else ""
    return spark(_FIXED.format(limit=f"1E{_EXACT - digits}", digits=digits, large=large), number)
