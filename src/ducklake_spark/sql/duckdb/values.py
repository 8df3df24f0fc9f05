"""Values on their way between DuckDB and Spark: for each type of DuckDB, the type of Spark that shows it, and the
expressions of DuckDB's that make one of the other."""

from __future__ import annotations

from dataclasses import dataclass

import pyspark.sql.types as T

from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.types import (
    DataType,
    Decimal,
    List,
    Map,
    Scalar,
    Struct,
    duckdb_name,
    parse_type,
    quote,
)
from ducklake_spark.scan.projection.types import TypeChoices, user_type

_SPECIAL = frozenset({"timestamp_ns", "interval", "geometry", "variant"})
"""Types whose form in Spark no plain cast of DuckDB makes."""
_SHOWN = {
    "uint8": "SMALLINT", "uint16": "INTEGER", "uint32": "BIGINT", "uint64": "DECIMAL(20,0)", "int128": "DECIMAL(38,0)",
    "uint128": "DECIMAL(38,0)", "timestamp_s": "TIMESTAMP", "timestamp_ms": "TIMESTAMP", "json": "VARCHAR",
    "uuid": "VARCHAR", "time": "VARCHAR", "timetz": "VARCHAR", "time_ns": "VARCHAR",
}  # fmt: skip
"""Types that DuckDB casts to those in which Spark shows them."""


@dataclass(frozen=True)
class Shown:
    """A column of DuckDB as Spark shows it: the expression that makes it, and Spark's type."""

    expression: str
    type: T.DataType


def shown(expression: str, type_text: str, choices: TypeChoices, *, variants: bool = False) -> Shown:
    """A value of DuckDB in the form in which Spark shows it; what Spark has no type for is its text.

    Args:
        expression: The value.
        type_text: Its type, as DuckDB writes it.
        choices: How the session shows types.
        variants: Whether a variant is wanted as its two binary parts: not everybody can take it as such.
    """
    if type_text == "VARIANT" and variants:
        parts = f"CASE WHEN {expression} IS NOT NULL THEN variant_to_parquet_variant({expression}) END"
        return Shown(parts, T.VariantType())
    try:
        named = named_fields(type_text)
        if named != type_text:
            expression = f"CAST({expression} AS {named})"
        kind = parse_type(named)
        spark = user_type(kind, choices)
    except DuckLakeError:
        return Shown(f"CAST({expression} AS VARCHAR)", T.StringType())
    if _holds(kind, ("variant",)) or (choices.time and _holds(kind, ("time", "timetz"))):
        # Arrow has no variants, and DuckDB's times become Spark's by another way.
        return Shown(f"CAST({expression} AS VARCHAR)", T.StringType())
    return Shown(_shown(expression, kind), spark)


def _shown(value: str, kind: DataType) -> str:
    match kind:
        case Scalar("timestamp_ns"):
            return f"epoch_ns({value})"
        case Scalar("interval"):
            return (
                f"CASE WHEN {value} IS NULL THEN NULL ELSE {{'months': CAST(datepart('year', {value}) * 12 + "
                f"datepart('month', {value}) AS INTEGER), 'days': CAST(datepart('day', {value}) AS INTEGER), "
                f"'micros': CAST(datepart('hour', {value}) * 3600000000 + datepart('minute', {value}) * 60000000 + "
                f"datepart('microsecond', {value}) AS BIGINT)}} END"
            )
        case Scalar("geometry"):
            return f"ST_AsWKB({value})"
    if not _holds(kind, _SPECIAL):
        text = _shown_type(kind)
        return value if text == duckdb_name(kind) else f"CAST({value} AS {text})"
    return _inside(value, kind, _shown)


def _shown_type(kind: DataType) -> str:
    match kind:
        case List(element):
            return f"{_shown_type(element)}[]"
        case Map(key, item):
            return f"MAP({_shown_type(key)}, {_shown_type(item)})"
        case Struct(fields):
            return f"STRUCT({', '.join(f'{quote(name)} {_shown_type(part)}' for name, part in fields)})"
        case Scalar(name):
            return _SHOWN.get(name, duckdb_name(kind))
    return duckdb_name(kind)


def restored(value: str, type_text: str) -> str:
    """A value of DuckDB's type out of its form in Spark."""
    try:
        return _restored(value, parse_type(type_text))
    except DuckLakeError:
        return value


def _restored(value: str, kind: DataType) -> str:
    match kind:
        case Scalar("timestamp_ns"):
            return f"make_timestamp_ns({value})"
        case Scalar("interval"):
            return f"(to_months({value}.months) + to_days({value}.days) + to_microseconds({value}.micros))"
        case Scalar("geometry"):
            return f"ST_GeomFromWKB({value})"
        case Scalar("variant"):
            return f"variant_bytes_to_variant(({value}).metadata || ({value}).value)"
    if not _holds(kind, _SPECIAL):
        return f"CAST({value} AS {duckdb_name(kind)})"
    return _inside(value, kind, _restored)


def _inside(value: str, kind: DataType, change: object) -> str:
    """A nested value whose parts are changed one by one."""
    assert callable(change)
    match kind:
        case List(element):
            return f"list_transform({value}, lambda e: {change('e', element)})"
        case Map(key, item):
            pair = f"{{'k': {change('e.key', key)}, 'v': {change('e.value', item)}}}"
            return f"map_from_entries(list_transform(map_entries({value}), lambda e: {pair}))"
        case Struct(fields):
            parts = ", ".join(
                f"{quote(name)} := {change(f'({value}).{quote(name)}', part)}" for name, part in fields
            )
            return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({parts}) END"
    return str(change(value, kind))


def _holds(kind: DataType, names: object) -> bool:
    match kind:
        case List(element):
            return _holds(element, names)
        case Map(key, item):
            return _holds(key, names) or _holds(item, names)
        case Struct(fields):
            return any(_holds(part, names) for _, part in fields)
        case Scalar(name):
            return name in names  # type: ignore[operator]
        case Decimal():
            return False


def named_fields(text: str) -> str:
    """A type whose structs have names for all fields: DuckDB has structs without, which count from 1.

    >>> named_fields("STRUCT(BIGINT, VARCHAR)[]"), named_fields("STRUCT(a BIGINT)")
    ('STRUCT("1" BIGINT, "2" VARCHAR)[]', 'STRUCT(a BIGINT)')
    """
    start = text.find("STRUCT(")
    if start < 0:
        return text
    inner, end = _split_fields(text, start + len("STRUCT("))
    fields = []
    for place, field in enumerate(inner, start=1):
        try:
            parse_type(named_fields(field))
            fields.append(f'"{place}" {named_fields(field)}')
        except DuckLakeError:
            fields.append(named_fields(field))
    return f"{text[:start]}STRUCT({', '.join(fields)}){named_fields(text[end:])}"


def _split_fields(text: str, start: int) -> tuple[list[str], int]:
    """The parts between commas from a place on, and the place behind the closing parenthesis."""
    depth, last, parts, quoted = 0, start, [], False
    for place in range(start, len(text)):
        char = text[place]
        if char in "\"'":
            quoted = not quoted
        elif quoted:
            continue
        elif char == "(":
            depth += 1
        elif char == ")" and depth == 0:
            parts.append(text[last:place].strip())
            return parts, place + 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[last:place].strip())
            last = place + 1
    return [text[last:].strip()], len(text)


def is_alike(ours: T.DataType, theirs: T.DataType) -> bool:
    """Whether a column of Spark's answer can be what DuckDB answers: numbers may have another width."""
    if isinstance(theirs, T.ArrayType):
        return isinstance(ours, T.ArrayType) and is_alike(ours.elementType, theirs.elementType)
    if isinstance(theirs, T.MapType):
        return (
            isinstance(ours, T.MapType)
            and is_alike(ours.keyType, theirs.keyType)
            and is_alike(ours.valueType, theirs.valueType)
        )
    if isinstance(theirs, T.StructType):
        return (
            isinstance(ours, T.StructType)
            and len(ours.fields) == len(theirs.fields)
            and all(
                mine.name.lower() == other.name.lower() and is_alike(mine.dataType, other.dataType)
                for mine, other in zip(ours.fields, theirs.fields, strict=True)
            )
        )
    if isinstance(ours, T.NullType):
        return True
    if isinstance(ours, T.NumericType) and isinstance(theirs, T.NumericType):
        return _scale(ours) == _scale(theirs)
    return isinstance(ours, type(theirs))


def _scale(kind: T.DataType) -> int:
    """How many digits follow the point; -1 for floating ones."""
    if isinstance(kind, T.DecimalType):
        return kind.scale
    return -1 if isinstance(kind, T.FractionalType) else 0
