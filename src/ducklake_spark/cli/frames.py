"""DataFrames as results. The only module of the command line that knows Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ducklake_spark.api.frame_values import numeric, plain_rows, readable
from ducklake_spark.cli.output import Format, Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def cancel_jobs() -> None:
    """Stops what Spark is doing for us."""
    from pyspark.sql import SparkSession

    from ducklake_spark.spark.file_index import is_classic

    session = SparkSession.getActiveSession()
    if session is None:
        return
    if is_classic(session):
        session.sparkContext.cancelAllJobs()
    else:
        session.interruptAll()


def result_of(frame: DataFrame, fmt: Format, limit: int) -> Result:
    """The rows of a DataFrame, one partition at a time; for a table, so many as it will show and one more."""
    columns = frame.columns
    types = [field.dataType for field in frame.schema.fields]
    if not columns:
        return Result((), ())
    plain = readable(frame)
    rows = iter(plain.take(limit + 1)) if fmt is Format.table and limit else plain.toLocalIterator()
    return Result(columns, plain_rows(rows, types), numeric(types))
