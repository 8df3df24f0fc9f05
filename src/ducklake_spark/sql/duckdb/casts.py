"""Casts as DuckDB does them: whole numbers are rounded, unsigned ones checked, and texts look as DuckDB prints them.

Where nobody can tell the type beforehand, Spark's `typeof()` chooses the cast; it is a constant once Spark has analysed
the query.
"""

from __future__ import annotations

import re

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.names import ticked
from ducklake_spark.sql.duckdb.functions import spark
from ducklake_spark.sql.duckdb.times import MICROS
from ducklake_spark.sql.duckdb.types import Types, is_float

_D = exp.DataType.Type
_WHOLE = (_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT, _D.INT128)
_TEXT = (_D.TEXT, _D.VARCHAR, _D.CHAR)
_UNSIGNED = {
    _D.UTINYINT: ("SMALLINT", 2**8 - 1),
    _D.USMALLINT: ("INT", 2**16 - 1),
    _D.UINT: ("BIGINT", 2**32 - 1),
    _D.UBIGINT: ("DECIMAL(20, 0)", 2**64 - 1),
}
_RENAMED = {
    _D.INT128: "DECIMAL(38, 0)",
    _D.UINT128: "DECIMAL(38, 0)",
    _D.TIME: "STRING",
    _D.UUID: "STRING",
    _D.JSON: "STRING",
    _D.TIMESTAMP_S: "TIMESTAMP_NTZ",
    _D.TIMESTAMP_MS: "TIMESTAMP_NTZ",
    **{kind: name for kind, (name, _) in _UNSIGNED.items()},
}
_NUMBER_TEXT = (
    "CASE WHEN isnan(_1) THEN 'nan' WHEN abs(_1) = double('Infinity') THEN if(_1 > 0, 'inf', '-inf') "
    "WHEN _1 = 0 OR (abs(_1) >= 0.001D AND abs(_1) < 10000000D) THEN CAST(_1 AS STRING) "
    "WHEN abs(_1) >= 0.0001D AND abs(_1) < 1E16D THEN regexp_replace(regexp_replace("
    "CAST(CAST(CAST(_1 AS STRING) AS DECIMAL(38, 21)) AS STRING), '0+$', ''), '[.]$', '.0') "
    "ELSE concat(regexp_replace(split_part(CAST(_1 AS STRING), 'E', 1), '[.]0$', ''), 'e', "
    "if(abs(_1) < 1, '-', '+'), lpad(regexp_replace(split_part(CAST(_1 AS STRING), 'E', 2), '-', ''), 2, '0')) END"
)
_ZONED_TEXT = (
    "concat(CAST(CAST(_1 AS TIMESTAMP_NTZ) AS STRING), regexp_replace(date_format(_1, 'xxx'), ':00$', ''))"
)
_TIME_TEXT = (
    "regexp_replace(regexp_replace(date_format(_1, 'HH:mm:ss.SSSSSS'), '([.][0-9]*?)0+$', '$1'), '[.]$', '')"
)


_ANY_WHOLE = (
    "CASE WHEN typeof(_1) IN ('double', 'float') THEN {cast}(rint({cast}(CAST(_1 AS STRING) AS DOUBLE)) AS {to}) "
    "WHEN typeof(_1) = 'string' OR typeof(_1) RLIKE '^decimal.*,[1-9]' "
    "THEN {cast}(round({cast}(CAST(_1 AS STRING) AS DECIMAL(38, 10))) AS {to}) ELSE {cast}(_1 AS {to}) END"
)
_ANY_TEXT = (
    "CASE WHEN typeof(_1) IN ('double', 'float') THEN {number} "
    "WHEN typeof(_1) RLIKE '^(array|map|struct|interval|binary|timestamp$)' THEN raise_error(concat("
    "'The type is not known in time to make a text of it: ', typeof(_1))) ELSE CAST(_1 AS STRING) END"
)
_BLOB_TEXT = (
    "array_join(transform(regexp_extract_all(hex({0}), '..', 0), {1} -> "
    "if({1} < '20' OR {1} > '7E' OR {1} IN ('5C', '27', '22'), concat('\\\\x', {1}), "
    "decode(unhex({1}), 'US-ASCII'))), '')"
)
_TO_BLOB = (
    "unhex(array_join(transform(regexp_extract_all(_1, '(?s)(?:[\\\\\\\\]x[0-9A-Fa-f]{2}|.)', 0), "
    "x -> if(length(x) = 4, substring(x, 3), hex(x))), ''))"
)
_QUOTED = (
    "CASE WHEN {0} RLIKE '^\\\\z|^\\\\s|\\\\s\\\\z|[\\'\"(),:=\\\\[\\\\]{{}}]|^(?i:null)\\\\z' "
    "THEN concat('\\'', replace(replace({0}, '\\\\', '\\\\\\\\'), '\\'', '\\\\\\''), '\\'') ELSE {0} END"
)


_COARSE = {_D.TIMESTAMP_S: 0, _D.TIMESTAMP_MS: 3}
_ROUNDED_TIME = (
    "TIMESTAMP_NTZ'1970-01-01 00:00:00' + "
    f"make_dt_interval(0, 0, 0, CAST(round(({MICROS}) / 1000000BD, {{}}) AS DECIMAL(18, 6)))"
)


def cast(node: exp.Expr, types: Types) -> exp.Expr:
    """`CAST`, `TRY_CAST` and `::`."""
    assert isinstance(node, exp.Cast)
    kind, source = node.to.this, types.of(node.this)
    tries = isinstance(node, exp.TryCast)
    if isinstance(node.this, exp.Null):
        source = T.NullType()
    if kind in _UNSIGNED:
        return _unsigned(_rounded(node.this, source, tries), kind, tries)
    if kind in _TEXT:
        return text_of(node.this, source) or node
    if kind == _D.TIME and isinstance(source, (T.TimestampType, T.TimestampNTZType)):
        return spark(_TIME_TEXT, node.this)
    if kind in (_D.VARBINARY, _D.BINARY, _D.BLOB) and isinstance(source, T.StringType):
        return _blob(node.this)
    if kind in _COARSE and isinstance(source, (T.DateType, T.TimestampNTZType)):
        return spark(_ROUNDED_TIME.format(_COARSE[kind]), node.this)
    if kind in _WHOLE:
        if source is None:
            return _whole(node.this, _RENAMED.get(kind, kind.value), tries)
        node.set("this", _rounded(node.this, source, tries))
    for each in list(node.to.find_all(exp.DataType)):
        if each.this in _RENAMED:
            fresh = exp.DataType.build(_RENAMED[each.this], dialect="spark")
            if each is node.to:
                node.set("to", fresh)
            else:
                each.replace(fresh)
    return node


def _blob(value: exp.Expr) -> exp.Expr:
    """A text as bytes, in which `\\xAA` stands for one."""
    if not isinstance(value, exp.Literal):
        return spark(_TO_BLOB, value)
    parts = re.split(r"\\x([0-9A-Fa-f]{2})", value.name)
    digits = (part if place % 2 else part.encode().hex() for place, part in enumerate(parts))
    return spark("unhex(_1)", exp.Literal.string("".join(digits)))


def _unsigned(value: exp.Expr, kind: exp.DType, tries: bool) -> exp.Expr:
    name, most = _UNSIGNED[kind]
    outside = "NULL" if tries else f"raise_error(concat('Value out of range for {kind.value}: ', _1))"
    how = "TRY_CAST" if tries else "CAST"
    return spark(f"{how}(if(_1 < 0 OR _1 > {most}, {outside}, _1) AS {name})", value)


def _whole(value: exp.Expr, to: str, tries: bool) -> exp.Expr:
    """A cast to a whole number of whatever Spark finds."""
    return spark(_ANY_WHOLE.format(cast="TRY_CAST" if tries else "CAST", to=to), value)


def _rounded(value: exp.Expr, source: T.DataType | None, tries: bool) -> exp.Expr:
    """DuckDB rounds to whole numbers, where Spark cuts off, and takes texts of any number."""
    if is_float(source):
        return spark("rint(_1)", value)
    if isinstance(source, T.DecimalType):
        return spark("round(_1)", value)
    if isinstance(source, T.StringType):
        return spark(f"round({'TRY_CAST' if tries else 'CAST'}(_1 AS DECIMAL(38, 10)))", value)
    return _whole(value, "DECIMAL(38, 0)", tries) if source is None else value


def text_of(value: exp.Expr, source: T.DataType | None) -> exp.Expr | None:
    """A value as DuckDB prints it; None where Spark prints it alike.

    Raises:
        InvalidInputError: An interval.
    """
    if source is None:
        number = _NUMBER_TEXT.replace("_1", "CAST(CAST(_1 AS STRING) AS DOUBLE)")
        return spark(_ANY_TEXT.format(number=number), value)
    text = _text("_1", source, 0)
    return None if text == _PLAIN.format("_1") else spark(text, value)


_PLAIN = "CAST({} AS STRING)"
_ENDLESS = (
    "CASE WHEN year({0}) BETWEEN 1 AND 9999 THEN {1} WHEN {2} THEN 'infinity' WHEN {3} THEN '-infinity' "
    "WHEN year({0}) > 0 THEN substring({1}, 2) "
    "ELSE concat(lpad(1 - year({0}), greatest(4, length(1 - year({0}))), '0'), "
    "regexp_replace({1}, '^-[0-9]+(-[0-9]+-[0-9]+)', '$1 (BC)')) END"
)
"""Times without an end, which Spark has as its last and first ones, and years that it prints otherwise."""
_ENDLESS_DATE = ("{0} > DATE'+5881580-07-10'", "{0} < DATE'-5877641-06-25'")
_ENDLESS_TIME = (
    "{0} > TIMESTAMP_NTZ'+294247-01-10 04:00:54.775806'",
    "{0} < TIMESTAMP_NTZ'-290308-12-22 00:00:00'",
)
_ENDLESS_ZONED = (
    "{0} > TIMESTAMP'+294247-01-10 04:00:54.775806Z'",
    "{0} < TIMESTAMP'-290308-12-22 00:00:00Z'",
)


def _endless(value: str, text: str, ends: tuple[str, str]) -> str:
    return _ENDLESS.format(value, text, *(end.format(value) for end in ends))


def _text(value: str, kind: T.DataType, depth: int) -> str:
    """Spark's SQL for the text of a value that is itself given as SQL."""
    if is_float(kind):
        return _NUMBER_TEXT.replace("_1", value)
    if isinstance(kind, T.TimestampType):
        return _endless(value, _ZONED_TEXT.replace("_1", value), _ENDLESS_ZONED)
    if isinstance(kind, (T.DateType, T.TimestampNTZType)):
        ends = _ENDLESS_DATE if isinstance(kind, T.DateType) else _ENDLESS_TIME
        return _endless(value, _PLAIN.format(value), ends)
    if isinstance(kind, T.BinaryType):
        return _BLOB_TEXT.format(value, f"b{depth}")
    if isinstance(kind, (T.DayTimeIntervalType, T.YearMonthIntervalType)):
        raise InvalidInputError(
            "The text of an interval is not available: Spark's intervals keep less than DuckDB's."
        )
    if isinstance(kind, T.ArrayType):
        item = f"x{depth}"
        inner = _element_text(item, kind.elementType, depth + 1)
        return f"concat('[', array_join(transform({value}, {item} -> {inner}), ', ', 'NULL'), ']')"
    if isinstance(kind, T.MapType):
        item = f"x{depth}"
        key = _element_text(f"{item}.key", kind.keyType, depth + 1)
        inner = _element_text(f"{item}.value", kind.valueType, depth + 1)
        pairs = f"transform(map_entries({value}), {item} -> concat({key}, '=', coalesce({inner}, 'NULL')))"
        return f"concat('{{', array_join({pairs}, ', '), '}}')"
    if isinstance(kind, T.StructType):
        parts = []
        for field in kind.fields:
            inner = _element_text(f"({value}).{ticked(field.name)}", field.dataType, depth + 1)
            shown = field.name.replace("\\", "\\\\").replace("'", "\\'")
            name = exp.Literal.string(f"'{shown}': ").sql("spark")
            parts.append(f"{name}, coalesce({inner}, 'NULL')")
        listed = ", ', ', ".join(parts)
        return f"if({value} IS NULL, NULL, concat('{{', {listed}, '}}'))"
    return _PLAIN.format(value)


def _element_text(value: str, kind: T.DataType, depth: int) -> str:
    """The text of a value inside of another: in quotes, where it could be misread."""
    text = _text(value, kind, depth)
    quotes = isinstance(kind, (T.StringType, T.TimestampType, T.TimestampNTZType, T.BinaryType, T.NullType))
    return _QUOTED.format(text) if quotes else text
