"""The order of structs and lists: a NULL inside is the greatest value in DuckDB, and the least in Spark."""

from __future__ import annotations

import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.format.names import ticked
from ducklake_spark.sql.duckdb.functions import spark


def key(value: exp.Expr, kind: T.DataType | None) -> exp.Expr | None:
    """What Spark can compare in place of the value; None if that is the value itself."""
    text = _key("_1", kind, 0)
    return None if text == "_1" else spark(text, value)


def _key(value: str, kind: T.DataType | None, depth: int) -> str:
    if isinstance(kind, T.ArrayType):
        item = f"x{depth}"
        inner = _key(item, kind.elementType, depth + 1)
        return f"transform({value}, {item} -> named_struct('n', {item} IS NULL, 'v', {inner}))"
    if isinstance(kind, T.StructType) and kind.fields:
        parts = []
        for place, field in enumerate(kind.fields):
            name = f"({value}).{ticked(field.name)}"
            parts.append(f"'n{place}', {name} IS NULL, 'v{place}', {_key(name, field.dataType, depth)}")
        return f"if({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
    return value


def compared(node: exp.Expr, left: T.DataType | None, right: T.DataType | None) -> exp.Expr:
    """`<` and its like."""
    for name, kind in (("this", left), ("expression", right)):
        made = key(node.args[name], kind)
        if made is not None:
            node.set(name, made)
    return node
