"""What writing asks of the JVM where there is one: expressions that SQL lacks, and a session of its own for a write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

_MURMUR3 = "org.apache.commons.codec.digest.MurmurHash3"


def is_classic_frame(frame: Any) -> bool:
    """Whether the DataFrame lives in a JVM that can be reached; one of Spark Connect does not."""
    return isinstance(frame, DataFrame) and hasattr(frame, "_jdf")


def checkpointed(frame: Any) -> Any:
    """`frame.localCheckpoint()`, without Spark's warning about ids of columns, which would name ours."""
    if not hasattr(frame, "_jdf"):
        return frame.localCheckpoint()
    log4j = frame.sparkSession.sparkContext._jvm.org.apache.logging.log4j
    name = "org.apache.spark.sql.execution.LogicalRDD"
    before = log4j.LogManager.getLogger(name).getLevel()
    log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)
    try:
        return frame.localCheckpoint()
    finally:
        log4j.core.config.Configurator.setLevel(name, before)


def max_rows(frame: Any) -> int:
    """An upper bound of the rows that the plan itself knows, or -1."""
    if not hasattr(frame, "_jdf"):
        return -1
    known = frame._jdf.queryExecution().optimizedPlan().maxRows()
    return int(known.get()) if known.isDefined() else -1


def murmur3_of_long(frame: DataFrame, column: Column) -> Column:
    """The bucket hash of a 64-bit number, a double, a timestamp or a short decimal; 0 for NULL."""
    jvm = frame.sparkSession.sparkContext._jvm
    return _column(jvm, _expressions(jvm).Murmur3Hash(_seq(jvm, _expression(jvm, column)), 0))


def murmur3_of_bytes(frame: DataFrame, column: Column, length: Column, zero: Column) -> Column:
    """The bucket hash of bytes, by the library that comes with Spark: Spark's own treats the last bytes otherwise."""
    jvm: Any = frame.sparkSession.sparkContext._jvm
    integer = getattr(getattr(jvm.org.apache.spark.sql.types, "IntegerType$"), "MODULE$")
    arguments = _seq(jvm, *(_expression(jvm, part) for part in (column, zero, length, zero)))
    invoked = _expressions(jvm).objects.StaticInvoke(
        jvm.java.lang.Class.forName(_MURMUR3),
        integer,
        "hash32x86",
        arguments,
        _seq(jvm),
        True,
        True,
        True,
        jvm.scala.Option.empty(),
    )
    return _column(jvm, invoked)


def in_own_session(frame: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    """The same DataFrame in a copy of its session that has these settings; the user's session is left as it is."""
    spark = frame.sparkSession
    jvm: Any = spark.sparkContext._jvm
    session = spark._jsparkSession.cloneSession()
    for key, value in settings.items():
        session.conf().set(key, value)
    datasets = getattr(getattr(jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")
    copied = datasets.ofRows(session, frame._jdf.queryExecution().analyzed())
    return DataFrame(copied, SparkSession(spark.sparkContext, session))


def limits_row_groups(spark: SparkSession) -> bool:
    """Whether Spark's Parquet library can end a row group after a number of rows."""
    jvm: Any = spark.sparkContext._jvm
    fields = jvm.java.lang.Class.forName("org.apache.parquet.hadoop.ParquetOutputFormat").getFields()
    return any(field.getName() == "BLOCK_ROW_COUNT_LIMIT" for field in fields)


def _expressions(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.catalyst.expressions


def _expression(jvm: Any, column: Column) -> Any:
    return jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)


def _column(jvm: Any, expression: Any) -> Column:
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def _seq(jvm: Any, *items: Any) -> Any:
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()


def map_in_arrow_on(
    python: str, frame: DataFrame, function: Any, schema: Any, environment: Mapping[str, str]
) -> DataFrame:
    """`frame.mapInArrow`, with workers that run this Python with these environment variables.

    Spark notes the executable of the context in each function when it is handed over. It is changed in the function
    alone: to change the context, even for a moment, would change functions that other threads make.
    """
    made: Any = pandas_udf
    udf = made(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)._unwrapped
    context = frame.sparkSession.sparkContext
    if environment or context.pythonExec != python:
        variables = {**context.environment, **environment}
        function = _copied(udf._judf.func(), pythonExec=python, envVars=variables)
        udf._judf_placeholder = _copied(udf._judf, func=function)
    rows = udf(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(rows._jc, False, None), frame.sparkSession)


def _copied(product: Any, **changes: Any) -> Any:
    """A Scala case object with other values, whatever fields it has in this version of Spark."""
    fields = range(product.productArity())
    values = {product.productElementName(i): product.productElement(i) for i in fields}
    return product.copy(*(values | changes).values())
