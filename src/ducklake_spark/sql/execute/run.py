"""`lake.sql()`: statements in order, each to the room that does it. No logic of the lake lives here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ducklake_spark.errors import DuckLakeError, InvalidInputError, add_statement
from ducklake_spark.spark.errors import quiet
from ducklake_spark.sql.execute import queries, statements
from ducklake_spark.sql.parser.parse import Args, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake


def run(lake: Lake, text: str, dialect: str = "spark", args: Args = None) -> DataFrame:
    """Runs every statement of the text; the result of the last one."""
    if args is not None and (isinstance(args, str) or not isinstance(args, (Mapping, Sequence))):
        raise InvalidInputError(f"args= takes a dict or a list of values, not {args!r}.")
    with quiet():
        return _run(lake, text, dialect, args)


def _run(lake: Lake, text: str, dialect: str, args: Args) -> DataFrame:
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
                add_statement(error, statement.text, f"Statement {place} of {len(found)} is:")
                raise
        else:
            result = statements.execute(lake, statement, statement.own_args(args))
    return result
