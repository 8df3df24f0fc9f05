"""Casts as DuckDB does them: whole numbers are rounded, unsigned ones checked, and texts look as DuckDB prints them."""

from __future__ import annotations

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.sql.duckdb_functions import spark
from ducklake_spark.sql.duckdb_types import Types, is_float

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


def cast(node: exp.Expr, types: Types) -> exp.Expr:
    """`CAST`, `TRY_CAST` and `::`."""
    assert isinstance(node, exp.Cast)
    kind, source = node.to.this, types.of(node.this)
    tries = isinstance(node, exp.TryCast)
    if kind in _UNSIGNED and not tries:
        return _unsigned(_rounded(node.this, source, tries), kind)
    if kind in _TEXT:
        return text_of(node.this, source) or node
    if kind == _D.TIME and isinstance(source, (T.TimestampType, T.TimestampNTZType)):
        return spark(_TIME_TEXT, node.this)
    if kind in _WHOLE:
        node.set("this", _rounded(node.this, source, tries))
    for each in list(node.to.find_all(exp.DataType)):
        if each.this in _RENAMED:
            fresh = exp.DataType.build(_RENAMED[each.this], dialect="spark")
            if each is node.to:
                node.set("to", fresh)
            else:
                each.replace(fresh)
    return node


def _unsigned(value: exp.Expr, kind: exp.DType) -> exp.Expr:
    name, most = _UNSIGNED[kind]
    return spark(
        f"CAST(if(_1 < 0 OR _1 > {most}, raise_error(concat('Value out of range for {kind.value}: ', _1)), _1) "
        f"AS {name})",
        value,
    )


def _rounded(value: exp.Expr, source: T.DataType | None, tries: bool) -> exp.Expr:
    """DuckDB rounds to whole numbers, where Spark cuts off, and takes texts of any number."""
    if is_float(source):
        return spark("rint(_1)", value)
    if isinstance(source, T.DecimalType):
        return spark("round(_1)", value)
    if isinstance(source, T.StringType):
        return spark(f"round({'TRY_CAST' if tries else 'CAST'}(_1 AS DECIMAL(38, 10)))", value)
    return value


def text_of(value: exp.Expr, source: T.DataType | None) -> exp.Expr | None:
    """A value as DuckDB prints it; None where Spark prints it alike.

    Raises:
        InvalidInputError: A struct or a map.
    """
    if is_float(source):
        return spark(_NUMBER_TEXT, value)
    if isinstance(source, T.TimestampType):
        return spark(_ZONED_TEXT, value)
    if isinstance(source, (T.StructType, T.MapType)):
        what = "struct" if isinstance(source, T.StructType) else "map"
        raise InvalidInputError(f"The text of a {what} is not available: make a text of its parts.")
    if isinstance(source, T.ArrayType) and not isinstance(source.elementType, T.NullType):
        inner = text_of(exp.to_identifier("x"), source.elementType)
        body = "CAST(x AS STRING)" if inner is None else inner.sql(dialect="spark")
        return spark(f"concat('[', array_join(transform(_1, x -> {body}), ', ', 'NULL'), ']')", value)
    return None
