"""`lake.sql()`: statements in order, each to the room that does it. No logic of the lake lives here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import DuckLakeError, InvalidInputError
from ducklake_spark.sql import queries, statements
from ducklake_spark.sql.parse import parse, shortened

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
    for place, statement in enumerate(found, start=1):
        if statement.is_query:
            try:
                result = queries.query(lake, statement, statement.own_args(args))
            except DuckLakeError as error:
                if len(found) == 1:
                    raise
                where = f"Statement {place} of {len(found)} is: {shortened(statement.text)}"
                raise type(error)(f"{error} {where}") from error
        else:
            result = statements.execute(lake, statement, statement.own_args(args))
    return result
