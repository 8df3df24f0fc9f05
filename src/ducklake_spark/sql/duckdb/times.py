"""Times as DuckDB has them: units, parts, differences and formats. Nothing here depends on the session's time zone.

Spark computes with `TIMESTAMP` in the zone of the session, so that what has no zone is kept `TIMESTAMP_NTZ`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import text_literal
from ducklake_spark.sql.duckdb.functions import spark, wrapped
from ducklake_spark.sql.duckdb.types import Types

_NTZ = "CAST(_1 AS TIMESTAMP_NTZ)"
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
MICROS = (
    f"datediff(CAST(_1 AS DATE), DATE'1970-01-01') * 86400000000L + hour({_NTZ}) * 3600000000L "
    f"+ minute({_NTZ}) * 60000000L "
    f"+ CAST(extract(SECOND FROM {_NTZ}) * 1000000 AS BIGINT)"
)
"""Microseconds since 1970 of a date or a time without a zone."""
_UNITS = {
    **{name: name for name in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "QUARTER")},
    **{name: name for name in ("DECADE", "CENTURY", "MILLENNIUM", "ISOYEAR", "MILLISECOND", "MICROSECOND")},
    "YR": "YEAR", "Y": "YEAR", "MON": "MONTH", "D": "DAY", "DAYOFMONTH": "DAY", "H": "HOUR", "HR": "HOUR",
    "M": "MINUTE", "MIN": "MINUTE", "S": "SECOND", "SEC": "SECOND", "MS": "MILLISECOND", "MSEC": "MILLISECOND",
    "US": "MICROSECOND", "USEC": "MICROSECOND", "W": "WEEK", "WEEKOFYEAR": "WEEK", "DEC": "DECADE",
    "CENT": "CENTURY", "C": "CENTURY", "CENTURIE": "CENTURY", "MIL": "MILLENNIUM", "MILLENIUM": "MILLENNIUM",
    "MILLENNIA": "MILLENNIUM",
}  # fmt: skip
_YEARS = {"DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1000}
_INTERVALS = {
    "SECOND": "make_dt_interval(0, 0, 0, _1)",
    "MINUTE": "make_dt_interval(0, 0, _1)",
    "HOUR": "make_dt_interval(0, _1)",
    "DAY": "make_dt_interval(_1)",
    "WEEK": "make_dt_interval(_1 * 7)",
    "MONTH": "make_ym_interval(0, _1)",
    "QUARTER": "make_ym_interval(0, _1 * 3)",
    "YEAR": "make_ym_interval(_1)",
}
_WHOLE_SECOND = "extract(SECOND FROM _1)"
_PARTS: Mapping[str, str] = {
    "year": "year(_1)", "month": "month(_1)", "day": "day(_1)", "hour": "hour(_1)", "minute": "minute(_1)",
    "quarter": "quarter(_1)", "doy": "dayofyear(_1)", "dayofyear": "dayofyear(_1)", "week": "weekofyear(_1)",
    "weekofyear": "weekofyear(_1)", "second": f"CAST(floor({_WHOLE_SECOND}) AS BIGINT)", "dayofmonth": "day(_1)",
    "dow": "dayofweek(_1) - 1", "dayofweek": "dayofweek(_1) - 1", "weekday": "dayofweek(_1) - 1",
    "isodow": "weekday(_1) + 1", "isoyear": "extract(YEAROFWEEK FROM _1)",
    "millisecond": f"CAST(floor({_WHOLE_SECOND} * 1000) AS BIGINT)",
    "microsecond": f"CAST({_WHOLE_SECOND} * 1000000 AS BIGINT)",
    "nanosecond": f"CAST({_WHOLE_SECOND} * 1000000000 AS BIGINT)",
    "era": "CASE WHEN year(_1) > 0 THEN 1 WHEN year(_1) <= 0 THEN 0 END",
    "century": "CAST(ceil(year(_1) / 100) AS BIGINT)", "decade": "CAST(floor(year(_1) / 10) AS BIGINT)",
    "millennium": "CAST(ceil(year(_1) / 1000) AS BIGINT)",
    "yearweek": "extract(YEAROFWEEK FROM _1) * 100 + weekofyear(_1)",
}  # fmt: skip
"""Parts of times, as `extract`, `date_part` and functions of the same name give them."""
_EPOCHS = {
    "epoch": "_1 / 1000000D",
    "epoch_ms": "CAST(floor(_1 / 1000D) AS BIGINT)",
    "epoch_us": "_1",
    "epoch_ns": "_1 * 1000",
}
_MARKS = {
    "Y": "yyyy", "m": "MM", "d": "dd", "H": "HH", "M": "mm", "S": "ss", "y": "yy", "b": "MMM", "B": "MMMM", "a": "EEE",
    "A": "EEEE", "j": "DDD", "I": "hh", "p": "a", "f": "SSSSSS", "g": "SSS", "-d": "d", "-m": "M", "-H": "H", "-M": "m",
    "-S": "s", "-I": "h", "-j": "D", "n": "SSSSSSSSS", "%": "%",
}  # fmt: skip


_WHOLE_FORMATS = {"%c": "%Y-%m-%d %H:%M:%S", "%x": "%Y-%m-%d", "%X": "%H:%M:%S"}


def micros(value: exp.Expr, kind: T.DataType | None) -> exp.Expr:
    """Microseconds since 1970."""
    return spark("unix_micros(_1)" if isinstance(kind, T.TimestampType) else MICROS, value)


def _unit(node: exp.Expr) -> str:
    name = node.name.upper()
    found = _UNITS.get(name) or _UNITS.get(name.removesuffix("S"))
    if found is None:
        raise InvalidInputError(f"{node.name} is no unit of time.")
    return found


# Parts.


def part(name: str, value: exp.Expr, types: Types) -> exp.Expr | None:
    """A part of a time; None for one that is not known."""
    kind = types.of(value)
    key = name.lower()
    key = key if key in _PARTS or key in _EPOCHS else _UNITS.get(key.upper().removesuffix("S"), key).lower()
    if key in _EPOCHS:
        return wrapped(spark(_EPOCHS[key], micros(value, kind)))
    text = _PARTS.get(key)
    return None if text is None else wrapped(spark(text, value))


def extract(node: exp.Expr, types: Types) -> exp.Expr:
    """`extract(part FROM time)`."""
    return _required(node.this.name, node.expression, types)


def _required(name: str, value: exp.Expr, types: Types) -> exp.Expr:
    if isinstance(types.of(value), (T.DayTimeIntervalType, T.YearMonthIntervalType)):
        raise InvalidInputError(
            "Parts of intervals are not available: Spark's intervals keep less than DuckDB's."
        )
    found = part(name, value, types)
    if found is None:
        raise InvalidInputError(f"The part {name} of times is not available in Spark's SQL.")
    return found


def _date_part(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    if len(args) != 2:
        return None
    if not isinstance(args[0], exp.Literal):
        raise InvalidInputError("date_part() takes the name of a part that is written out.")
    return _required(args[0].name, args[1], types)


def epoch(node: exp.Expr, types: Types) -> exp.Expr:
    """`epoch(time)`."""
    return wrapped(spark(_EPOCHS["epoch"], micros(node.this, types.of(node.this))))


def _epoch_ms(args: list[exp.Expr], types: Types) -> exp.Expr:
    """Goes both ways."""
    kind = types.of(args[0])
    if isinstance(kind, T.IntegralType):
        return spark(f"{_EPOCH} + make_dt_interval(0, 0, 0, CAST(_1 / 1000BD AS DECIMAL(18, 6)))", args[0])
    return spark(_EPOCHS["epoch_ms"], micros(args[0], kind))


def _epoch_other(name: str) -> Callable[[list[exp.Expr], Types], exp.Expr]:
    return lambda args, types: wrapped(spark(_EPOCHS[name], micros(args[0], types.of(args[0]))))


def from_number(node: exp.Expr, types: Types) -> exp.Expr:
    """`epoch_ms`, which goes both ways, `make_timestamp` and `to_timestamp`, which give times for numbers."""
    scale = node.args.get("scale")
    name = scale.name if scale is not None else ""
    if name == "3":
        value = node.this.copy()
        types.put(value, types.of(node.this))
        return _epoch_ms([value], types)
    if name == "6":
        return spark(
            f"{_EPOCH} + make_dt_interval(0, 0, 0, CAST(_1 / 1000000BD AS DECIMAL(18, 6)))", node.this
        )
    return spark("timestamp_micros(CAST(_1 * 1000000 AS BIGINT))", node.this)


# Cutting and counting.


def trunc(node: exp.Expr, types: Types) -> exp.Expr:
    """`date_trunc`."""
    unit = node.args.get("unit")
    if unit is None:
        return node
    zoned = isinstance(types.of(node.this), T.TimestampType)
    return _cut(_unit(unit), node.this, "TIMESTAMP" if zoned else "TIMESTAMP_NTZ")


_SECONDS = "extract(SECOND FROM _1)"
_SHORT = {
    "HOUR": f"make_dt_interval(0, 0, minute(_1), {_SECONDS})",
    "MINUTE": f"make_dt_interval(0, 0, 0, {_SECONDS})",
    "SECOND": f"make_dt_interval(0, 0, 0, {_SECONDS} % 1)",
    "MILLISECOND": f"make_dt_interval(0, 0, 0, {_SECONDS} % 0.001BD)",
    "MICROSECOND": "make_dt_interval(0)",
}
"""What is left of a time behind the beginning of a unit."""
_LENGTHS = {
    "HOUR": 3600 * 10**6,
    "MINUTE": 60 * 10**6,
    "SECOND": 10**6,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}


def _cut(unit: str, value: exp.Expr, kind: str) -> exp.Expr:
    if unit in _YEARS:
        years = _YEARS[unit]
        return spark(f"CAST(make_date(year(_1) DIV {years} * {years}, 1, 1) AS {kind})", value)
    if unit == "ISOYEAR":
        return spark(f"CAST(trunc(make_date(extract(YEAROFWEEK FROM _1), 1, 4), 'WEEK') AS {kind})", value)
    if kind == "TIMESTAMP":
        return spark(f"date_trunc('{unit}', _1)", value)
    if unit in _SHORT:
        time = spark(_NTZ, value)
        return spark(f"_1 - {_SHORT[unit]}", time)
    text = "CAST(_1 AS DATE)" if unit == "DAY" else f"trunc(CAST(_1 AS DATE), '{unit}')"
    return spark(f"CAST({text} AS {kind})", value)


_COUNTED = {
    "YEAR": "year(_1)",
    "QUARTER": "(year(_1) * 4 + quarter(_1))",
    "MONTH": "(year(_1) * 12 + month(_1))",
    "ISOYEAR": "extract(YEAROFWEEK FROM _1)",
    **{name: f"(year(_1) DIV {years})" for name, years in _YEARS.items()},
}


def date_diff(node: exp.Expr, types: Types) -> exp.Expr:
    """How many limits between two units lie between two times."""
    unit = node.args.get("unit")
    name = _unit(unit) if unit is not None else "DAY"
    start, end = node.expression, node.this
    if name == "WEEK":
        return node
    if name == "DAY":
        return spark("CAST(datediff(CAST(_2 AS DATE), CAST(_1 AS DATE)) AS BIGINT)", start, end)
    if name in _COUNTED:
        return spark("CAST(_2 - _1 AS BIGINT)", *(spark(_COUNTED[name], each) for each in (start, end)))
    length = _LENGTHS[name]
    counts = [
        spark(f"(_1 - pmod(_1, {length}L)) DIV {length}L", micros(each, types.of(each)))
        for each in (start, end)
    ]
    return spark("_2 - _1", *counts)


_MONTHS = (
    "timestampdiff(MONTH, CAST({0} AS TIMESTAMP_NTZ) - make_dt_interval(if(day({1}) = day(last_day({1})) AND "
    "day({0}) > day({1}), day({0}) - day({1}), 0)), CAST({1} AS TIMESTAMP_NTZ))"
)


def _date_sub(args: list[exp.Expr], _types: Types) -> exp.Expr | None:
    """How many whole units lie between two times; a month is over on its last day."""
    if len(args) != 3 or not isinstance(args[0], exp.Literal):
        return None
    unit = _unit(args[0])
    if unit == "ISOYEAR":
        raise InvalidInputError("date_sub() of isoyears is not available.")
    months = {
        "MONTH": 1,
        "QUARTER": 3,
        "YEAR": 12,
        **{name: 12 * years for name, years in _YEARS.items()},
    }.get(unit)
    if months is None:
        return spark(f"timestampdiff({unit}, {_NTZ}, CAST(_2 AS TIMESTAMP_NTZ))", args[1], args[2])
    both = f"if(_1 <= _2, {_MONTHS.format('_1', '_2')}, -{_MONTHS.format('_2', '_1')})"
    return spark(f"{both} DIV {months}", args[1], args[2])


# Formats.


def time_text(node: exp.Expr, types: Types) -> exp.Expr:
    """`strftime`, in either order of its arguments, and `strptime`."""
    value, form = node.this, node.args.get("format")
    if isinstance(value, exp.Literal) and not isinstance(form, exp.Literal):
        value, form = form, value
    if not isinstance(form, exp.Literal) or value is None:
        raise InvalidInputError("strftime() and strptime() take a format that is written out.")
    if isinstance(node, exp.StrToTime):
        return _read("to_timestamp", value, form.name)
    pattern = exp.Literal.string(java_pattern(form.name))
    # sqlglot, which would turn the pattern into another, is told nothing of it.
    made = exp.Anonymous(this="date_format", expressions=[value.copy(), pattern])
    if not isinstance(types.of(value), T.TimestampNTZType) or isinstance(value, exp.Literal):
        return made
    # Spark prints in the session's zone: a time that its clocks skip would become another.
    skipped = "raise_error(concat('The clocks of the session skip the time ', CAST(_1 AS STRING)))"
    return spark(f"if(CAST(CAST(_1 AS TIMESTAMP) AS TIMESTAMP_NTZ) <> _1, {skipped}, _2)", value, made)


def _try_strptime(args: list[exp.Expr], _types: Types) -> exp.Expr | None:
    if len(args) != 2 or not isinstance(args[1], exp.Literal):
        return None
    return _read("try_to_timestamp", args[0], args[1].name)


def _read(function: str, value: exp.Expr, marks: str) -> exp.Expr:
    """A text as a time. A year that is not there is 1900; one of two digits lies between 1969 and 2068."""
    pattern = java_pattern(marks, to_read=True)
    with_year = re.search(r"%-?[Yy]", marks) is not None
    if not with_year:
        value, pattern = spark("concat('1900 ', _1)", value), f"yyyy {pattern}"
    if function == "to_timestamp" and "%z" not in marks:
        function = "to_timestamp_ntz"
    call = exp.Anonymous(this=function, expressions=[value.copy(), exp.Literal.string(pattern)])
    made: exp.Expr = call if "%z" in marks else spark(_NTZ, call)
    if "%y" in marks or "%-y" in marks:
        made = spark("if(year(_1) >= 2069, _1 - make_ym_interval(100), _1)", made)
    return made


def java_pattern(marks: str, *, to_read: bool = False) -> str:
    """A format of `strftime`, or `strptime` when it is to read, as one of Spark's own patterns.

    >>> java_pattern("%d.%m.%Y at %H")
    "dd.MM.yyyy 'at' HH"

    Raises:
        InvalidInputError: A mark that Spark has no pattern for.
    """
    if not marks:
        raise InvalidInputError("The format of a time is empty.")
    for whole, written in _WHOLE_FORMATS.items():
        marks = marks.replace(whole, written)
    parts: list[str] = []
    after_mark = False
    for found in re.finditer(r"%(-?.)|([^%]+)", marks, re.DOTALL):
        mark, other = found.groups()
        if mark:
            if mark == "z" and to_read:
                parts.append("[xxx][xx][x]")
                continue
            if mark not in _MARKS:
                raise InvalidInputError(f"The format %{mark} of times is not available in Spark's SQL.")
            # When a text is read, a number may have one digit, unless other numbers stand beside it.
            alone = to_read and not after_mark and marks[found.end() : found.end() + 1] != "%"
            parts.append(_MARKS[mark][0] if alone and mark in "mdHMSI" else _MARKS[mark])
        else:
            parts.append(re.sub(r"[A-Za-z'\[\]{}#]+", lambda text: text_literal(text[0]), other))
        after_mark = bool(mark)
    return "".join(parts)


# Zones.


def at_time_zone(node: exp.Expr, types: Types) -> exp.Expr:
    """`AT TIME ZONE`: what has a zone loses it, and the other way round."""
    zone = node.args["zone"]
    if isinstance(types.of(node.this), T.TimestampType):
        return spark(f"convert_timezone(current_timezone(), _2, {_NTZ})", node.this, zone)
    return spark(f"CAST(convert_timezone(_2, current_timezone(), {_NTZ}) AS TIMESTAMP)", node.this, zone)


def _timezone(args: list[exp.Expr], types: Types) -> exp.Expr | None:
    return at_time_zone(exp.AtTimeZone(this=args[1], zone=args[0]), types) if len(args) == 2 else None


# Intervals.


def interval(node: exp.Expr, _types: Types) -> exp.Expr:
    """`INTERVAL (x) DAY`."""
    unit, value = node.args.get("unit"), node.this
    if unit is None or isinstance(value, exp.Literal) or value is None:
        return node
    text = _INTERVALS.get(unit.name.upper().rstrip("S"))
    return node if text is None else spark(text, value)


def date_add(node: exp.Expr, _types: Types) -> exp.Expr:
    """`date_add(date, INTERVAL ...)`, which gives a time."""
    if isinstance(node.expression, exp.Interval):
        return spark("CAST(_1 AS TIMESTAMP_NTZ) + _2", node.this, node.expression)
    return node


def series(node: exp.Expr, types: Types) -> exp.Expr:
    """`range` over dates: sqlglot does the numbers."""
    start, end, step = (node.args.get(key) for key in ("start", "end", "step"))
    if not isinstance(types.of(step), T.DayTimeIntervalType) or isinstance(node.parent, exp.Table):
        return node
    assert start is not None and end is not None and step is not None
    whole = "sequence(CAST(_1 AS TIMESTAMP_NTZ), CAST(_2 AS TIMESTAMP_NTZ), _3)"
    if not node.args.get("is_end_exclusive"):
        return spark(whole, start, end, step)
    return spark(f"filter({whole}, x -> x < _2)", start, end, step)


def _named_part(name: str) -> Callable[[list[exp.Expr], Types], exp.Expr | None]:
    return lambda args, types: _required(name, args[0], types) if len(args) == 1 else None


CALLS: Mapping[str, Callable[[list[exp.Expr], Types], exp.Expr | None]] = {
    **{name: _named_part(name) for name in _PARTS},
    **{name: _epoch_other(name) for name in ("epoch", "epoch_us", "epoch_ns")},
    "epoch_ms": _epoch_ms,
    "date_part": _date_part,
    "datepart": _date_part,
    "date_sub": _date_sub,
    "datesub": _date_sub,
    "try_strptime": _try_strptime,
    "timezone": _timezone,
}
"""Functions that sqlglot does not know."""
