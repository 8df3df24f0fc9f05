"""DataFrames of streams: what a source hands to Spark as a batch, and what Spark hands to a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def as_stream(frame: DataFrame) -> DataFrame:
    """The rows of a DataFrame as one leaf that is marked as a stream's, with any plan behind it.

    Spark counts the rows of a batch at its leaves, and plans joins and aggregations of streams in their own way. So
    what is more than a scan is planned here, and Spark sees its rows only.
    """
    return _over_rows(frame, frame.sparkSession, is_streaming=True)


def empty_stream(spark: SparkSession, schema: StructType) -> DataFrame:
    """A batch without rows."""
    from ducklake_spark.spark.file_index import empty_frame

    return as_stream(empty_frame(spark, schema))


def from_sink(java_frame: Any) -> DataFrame:
    """What Spark hands to a sink as a plain DataFrame, of the stream's own session, which can be joined and written."""
    spark = session_of(java_frame)
    return _over_rows(DataFrame(java_frame, spark), spark, is_streaming=False)


def session_of(java_frame: Any) -> SparkSession:
    """The session of a DataFrame of the JVM, which may be one that Spark made for a stream."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    return SparkSession(context, java_frame.sparkSession())


def _over_rows(frame: DataFrame, spark: SparkSession, *, is_streaming: bool) -> DataFrame:
    java: Any = frame._jdf
    rows = java.queryExecution().toRdd()
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rows, java.schema(), is_streaming), spark)
