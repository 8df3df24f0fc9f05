"""A view's text, which is DuckDB's, as a Spark query over DataFrames of the tables that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.duckdb_sql import CATALOG_TOKEN
from ducklake_spark.format.objects import ViewDef
from ducklake_spark.format.types import quote
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.parser.outside import require_rows_only
from ducklake_spark.sql.resolve.names import NameResolver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake
    from ducklake_spark.catalog.transaction import Transaction
    from ducklake_spark.scan.projection.types import TimestampNs


def read_view(
    lake: Lake,
    tx: Transaction,
    schema_name: str,
    view: ViewDef,
    timestamp_ns: TimestampNs = "long",
    depth: int = 1,
) -> DataFrame:
    """The rows of a view.

    Args:
        lake: The lake whose names need no lake in front.
        tx: The lake at the snapshot at which the view is read.
        schema_name: The view's schema, in which names are looked for first.
        view: The view.
        timestamp_ns: How nanosecond timestamps are shown.
        depth: How many views deep this is.

    Raises:
        DuckLakeError: The text cannot be turned into Spark's SQL; names the view.
    """
    from ducklake_spark.sql.execute.queries import run_known

    resolver = NameResolver(lake, tx, (schema_name, lake.default_schema), depth, timestamp_ns)
    dialect = "duckdb" if view.dialect == "duckdb" else "spark"
    try:
        require_rows_only(view.sql, dialect)
        text = view.sql.replace(CATALOG_TOKEN, quote(resolver.lake.name))
        frame = run_known(resolver, parse_query_text(text, dialect), text, dialect)
    except DuckLakeError as error:
        raise DuckLakeError(
            f'The view "{view.name}" cannot be read by Spark: {str(error).rstrip(".")}. Its text, in DuckDB\'s '
            f"dialect, is: {view.sql}"
        ) from None
    return frame.toDF(*view.column_aliases, *frame.columns[len(view.column_aliases) :])
