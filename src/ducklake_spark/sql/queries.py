"""A query over lake tables -> DataFrame: names are spliced into the user's own text, and Spark does the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.sql.parse import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.lake import Lake


def query(lake: Lake, statement: Statement, args: Mapping[str, Any] | Sequence[Any] | None) -> DataFrame:
    """The rows of a query (SELECT, VALUES, WITH, FROM, set operations)."""
    raise NotImplementedError


def spark_text(lake: Lake, statement: Statement) -> str:
    """An expression or condition of the user's (`statement.tree` is no query) in Spark's SQL, without lake tables."""
    raise NotImplementedError
