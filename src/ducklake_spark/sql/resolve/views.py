"""A view's text, which is DuckDB's, as a Spark query over DataFrames of the tables that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.duckdb_sql import CATALOG_TOKEN
from ducklake_spark.format.objects import ViewDef
from ducklake_spark.format.types import quote
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.resolve.names import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def view_frame(world: World, view: ViewDef) -> DataFrame:
    """The rows of a view.

    Args:
        world: What names in it mean: the lake at the snapshot at which the view is read, the view's schema first.
        view: The view.

    Raises:
        DuckLakeError: The text cannot be turned into Spark's SQL; names the view.
    """
    from ducklake_spark.sql.execute.queries import prepare, run_prepared

    dialect = "duckdb" if view.dialect == "duckdb" else "spark"
    try:
        text = view.sql.replace(CATALOG_TOKEN, quote(world.lake.name))
        prepared = prepare(world, parse_query_text(text, dialect), text, dialect, None)
        if prepared.unknown:
            name = ".".join(prepared.unknown[0])
            raise DuckLakeError(f'it reads a table "{name}" that the lake does not have at this snapshot')
        frame = run_prepared(world.lake.spark, prepared)
    except DuckLakeError as error:
        raise DuckLakeError(
            f'The view "{view.name}" cannot be read by Spark: {str(error).rstrip(".")}. Its text, in DuckDB\'s '
            f"dialect, is: {view.sql}"
        ) from None
    return frame.toDF(*view.column_aliases, *frame.columns[len(view.column_aliases) :])
