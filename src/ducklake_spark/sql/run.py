"""`lake.sql()`: statements in order, each to the room that does it. No logic of the lake lives here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.sql import queries, statements
from ducklake_spark.sql.parse import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.lake import Lake

Args = Mapping[str, Any] | Sequence[Any] | None


def run(lake: Lake, text: str, dialect: str = "spark", args: Args = None) -> DataFrame:
    """Runs every statement of the text; the result of the last one."""
    found = parse(text, dialect)
    if not found:
        raise InvalidInputError("The SQL text holds no statement.")
    result: DataFrame
    for statement in found:
        if statement.is_query:
            result = queries.query(lake, statement, statement.own_args(args))
        else:
            result = statements.execute(lake, statement, statement.own_args(args))
    return result
