"""Answers that are known here already, as DataFrames whose rows are part of the plan: to collect them takes no job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ducklake_spark.scan.relation import is_classic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "array<string>": pa.list_(pa.string()),
}


def answer(spark: SparkSession, rows: Iterable[Sequence[Any]], columns: str) -> DataFrame:
    """A DataFrame of a few rows.

    Args:
        spark: The session.
        rows: The rows.
        columns: Names and types, such as `name string, temporary boolean`.
    """
    fields = [part.rsplit(" ", 1) for part in columns.split(", ")]
    schema = pa.schema([(name.strip("`"), _TYPES[kind]) for name, kind in fields])
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
    if table.num_rows == 0 and not is_classic(spark):
        return spark.createDataFrame([], columns)  # Connect wants Spark's own schema where there is no row
    return spark.createDataFrame(table)
