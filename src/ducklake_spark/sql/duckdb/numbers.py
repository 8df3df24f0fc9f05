"""Numbers as DuckDB computes them: division and rounding by IEEE's rules, and errors where there is no answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.sql.duckdb.functions import spark
from ducklake_spark.sql.duckdb.types import Types, is_float, is_integer

Rule = Callable[[exp.Expr, Types], exp.Expr]
_LARGE = "9E15D"
"""From here on every floating-point number is a whole one."""


def _is_nonzero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this or 0) != 0


def _is_fraction(*kinds: T.DataType | None) -> bool:
    return any(is_float(kind) or isinstance(kind, T.DecimalType) for kind in kinds)


def _div(node: exp.Expr, types: Types) -> exp.Expr:
    """Always a floating-point number; by zero gives infinity, as IEEE says."""
    left, right = node.this, node.expression
    if isinstance(types.of(left), T.DayTimeIntervalType):
        return node
    if _is_nonzero(right):
        return exp.Paren(this=spark("CAST(_1 AS DOUBLE) / _2", left, right))
    return spark(
        "coalesce(try_divide(CAST(_1 AS DOUBLE), CAST(_2 AS DOUBLE)), CAST(_1 AS DOUBLE) * power(_2, -1))",
        left,
        right,
    )


def _int_div(node: exp.Expr, types: Types) -> exp.Expr:
    left, right = node.this, node.expression
    if _is_fraction(types.of(left), types.of(right)):
        return _div(node, types)
    return exp.Paren(this=spark("_1 DIV nullif(_2, 0)", left, right))


def _mod(node: exp.Expr, types: Types) -> exp.Expr:
    left, right = node.this, node.expression
    if _is_nonzero(right):
        return node
    if is_float(types.of(left)) or is_float(types.of(right)):
        return spark("if(_2 = 0, if(_1 IS NULL, NULL, double('NaN')), _1 % nullif(_2, 0))", left, right)
    return exp.Paren(this=spark("_1 % nullif(_2, 0)", left, right))


def _log(node: exp.Expr, _types: Types) -> exp.Expr:
    """`log(x)` is the decimal one; with two arguments the first is the base."""
    value = node.this if node.args.get("expression") is None else node.expression
    if _is_nonzero(value):
        return spark("log10(_1)", value) if value is node.this else node
    made = "log10(_1)" if value is node.this else "log(_2, _1)"
    return _positive(made, value, node.this)


def _ln(node: exp.Expr, _types: Types) -> exp.Expr:
    return node if _is_nonzero(node.this) else _positive("ln(_1)", node.this)


def _positive(text: str, value: exp.Expr, *more: exp.Expr) -> exp.Expr:
    zero, less = (
        f"raise_error('Cannot take the logarithm of {what}.')" for what in ("zero", "a negative number")
    )
    return spark(f"CASE WHEN _1 = 0 THEN {zero} WHEN _1 < 0 THEN {less} ELSE {text} END", value, *more)


def _sqrt(node: exp.Expr, _types: Types) -> exp.Expr:
    if isinstance(node.this, exp.Literal):
        return node
    return spark(
        "if(_1 < 0, raise_error('Cannot take the square root of a negative number.'), sqrt(_1))", node.this
    )


def _round(node: exp.Expr, types: Types) -> exp.Expr:
    """DuckDB rounds the product with a power of ten; Spark the decimal text."""
    digits = node.args.get("decimals")
    kind = types.of(node.this)
    if digits is None or not is_float(kind):
        return node
    made = "FLOAT" if isinstance(kind, T.FloatType) else "DOUBLE"
    scale = "power(10D, _2)"
    body = f"if(_2 >= 0, round(CAST(_1 AS DOUBLE) * {scale}) / {scale}, round(_1 / power(10D, -_2)) * power(10D, -_2))"
    return spark(f"CAST(CASE WHEN abs(_1) < 1E300D THEN {body} ELSE _1 END AS {made})", node.this, digits)


def _whole(name: str) -> Rule:
    """`ceil` and `floor`: of a floating-point number they are one, however large."""

    def rule(node: exp.Expr, types: Types) -> exp.Expr:
        if not is_float(types.of(node.this)):
            return node
        return spark(f"if(abs(_1) < {_LARGE}, CAST({name}(_1) AS DOUBLE), _1)", node.this)

    return rule


def _trunc(node: exp.Expr, types: Types) -> exp.Expr:
    value, digits = node.this, node.args.get("decimals")
    kind = types.of(value)
    if digits is not None:
        if not isinstance(kind, T.DecimalType) or not isinstance(digits, exp.Literal):
            raise InvalidInputError(
                "trunc() to a number of digits takes a decimal and a number that is written out."
            )
        return spark("if(_1 >= 0, floor(_1, _2), ceil(_1, _2))", value, digits)
    if is_float(kind):
        cut = "CAST(if(_1 >= 0, floor(_1), ceil(_1)) AS DOUBLE)"
        return spark(f"if(abs(_1) < {_LARGE}, {cut}, _1)", value)
    return spark("if(_1 >= 0, floor(_1), ceil(_1))", value)


def _sign(node: exp.Expr, types: Types) -> exp.Expr:
    return spark("if(isnan(_1), 0, sign(_1))", node.this) if is_float(types.of(node.this)) else node


def _fmod(args: list[exp.Expr], _types: Types) -> exp.Expr | None:
    if len(args) != 2:
        return None
    return spark(
        "if(_2 = 0, if(_1 IS NULL, NULL, double('NaN')), "
        "CAST(_1 AS DOUBLE) - _2 * floor(CAST(_1 AS DOUBLE) / nullif(_2, 0)))",
        *args,
    )


def _bit_count(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    """Spark widens a number to 64 bits before it counts."""
    widths: dict[type, int] = {T.ByteType: 0xFF, T.ShortType: 0xFFFF, T.IntegerType: 0xFFFFFFFF}
    mask = widths.get(type(types.of(args[0]))) if len(args) == 1 else None
    return None if mask is None else spark(f"bit_count(CAST(_1 AS BIGINT) & {mask}L)", args[0])


def _isfinite(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    if isinstance(types.of(args[0]), (T.DateType, T.TimestampType, T.TimestampNTZType)):
        return spark("if(_1 IS NULL, NULL, true)", args[0])
    return None


def _to_binary(node: exp.Expr, types: Types) -> exp.Expr:
    if not is_integer(types.of(node.this)):
        raise InvalidInputError("to_binary() is available for whole numbers.")
    return spark("bin(_1)", node.this)


def _sum(node: exp.Expr, types: Types) -> exp.Expr:
    """Sums of BIGINT are HUGEINT: the sums of their upper and lower halves cannot overflow, and are quick."""
    kind = types.of(node.this)
    if isinstance(kind, T.BooleanType):
        node.set("this", spark("CAST(_1 AS BIGINT)", node.this))
    if not isinstance(kind, T.LongType) or isinstance(node.this, exp.Distinct):
        return node
    if isinstance(node.parent, (exp.Window, exp.Filter)) and node.arg_key == "this":
        node.set("this", spark("CAST(_1 AS DECIMAL(38, 0))", node.this))
        return node
    upper, lower = "CAST(sum(shiftright(_1, 32)) AS DECIMAL(28, 0))", "sum(_1 & 4294967295L)"
    return spark(f"CAST({upper} * 4294967296L + {lower} AS DECIMAL(38, 0))", node.this)


def compared_with_text(node: exp.Expr, types: Types) -> exp.Expr:
    """A text beside a whole number is cast as DuckDB casts: with rounding."""
    for text, number in (("this", "expression"), ("expression", "this")):
        value = node.args[text]
        if isinstance(types.of(value), T.StringType) and is_integer(types.of(node.args[number])):
            node.set(text, spark("CAST(round(CAST(_1 AS DECIMAL(38, 10))) AS DECIMAL(38, 0))", value))
    return node


CALLS: Mapping[str, Callable[[list[exp.Expr], Types], exp.Expr | None]] = {
    "fmod": _fmod,
    "bit_count": _bit_count,
    "isfinite": _isfinite,
}
RULES: Mapping[type, Rule] = {
    exp.Div: _div,
    exp.IntDiv: _int_div,
    exp.Mod: _mod,
    exp.Log: _log,
    exp.Ln: _ln,
    exp.Sqrt: _sqrt,
    exp.Round: _round,
    exp.Ceil: _whole("ceil"),
    exp.Floor: _whole("floor"),
    exp.Trunc: _trunc,
    exp.Sign: _sign,
    exp.Sum: _sum,
    exp.ToBinary: _to_binary,
}
