"""What writing asks of the JVM where there is one: expressions that SQL lacks, and a session of its own for a write."""

from __future__ import annotations

import inspect
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

_BATCH_BYTES = 64 << 20
_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)
"""PySpark 4.0 has no such parameter, and gives timestamps the zone UTC by itself."""
_TASK = "__ducklake_task"
_COSTLY = ("JOIN", "AGGREGATE", "PLAN_EXPRESSION", "PYTHON_UDF", "SCALA_UDF", "GENERATE", "WINDOW")
"""Kinds of nodes whose results should not be computed twice."""
_MURMUR3 = "org.apache.commons.codec.digest.MurmurHash3"


def is_classic_frame(frame: DataFrame) -> bool:
    """Whether the DataFrame lives in a JVM that can be reached; one of Spark Connect does not."""
    return isinstance(frame, DataFrame) and hasattr(frame, "_jdf")


def checkpointed(frame: DataFrame) -> DataFrame:
    """`frame.localCheckpoint()`, without Spark's warning about ids of columns, which would name ours.

    Rows of one list on the driver, as inlined rows are, need no job: Catalyst computed what was asked of them.
    """
    if not hasattr(frame, "_jdf"):
        return frame.localCheckpoint()
    computed = _computed(frame)
    if computed is not None:
        return _of_plan(frame.sparkSession, frame._jdf.sparkSession(), computed)
    jvm: Any = frame.sparkSession.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    name = "org.apache.spark.sql.execution.LogicalRDD"
    before = log4j.LogManager.getLogger(name).getLevel()
    log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)
    try:
        return frame.localCheckpoint()
    finally:
        log4j.core.config.Configurator.setLevel(name, before)


def checkpointed_with(frame: DataFrame, facts: Sequence[str]) -> tuple[DataFrame, list[Any]]:
    """`checkpointed`, and what aggregates in SQL say of the rows: numbers and texts, found on the way of a job."""
    if hasattr(frame, "_jdf") and _computed(frame) is None:
        name = f"facts-{uuid.uuid4()}"
        observed = frame.observe(name, *(F.expr(f"{fact} AS f{i}") for i, fact in enumerate(facts)))
        kept = checkpointed(observed)
        known = observed._jdf.queryExecution().observedMetrics().get(name)
        if known.isDefined():
            found = json.loads(known.get().json())
            return kept, [found.get(f"f{i}") for i in range(len(facts))]
    else:
        kept = checkpointed(frame)
    [row] = kept.selectExpr(*facts).collect()
    return kept, list(row)


def few_here(frame: DataFrame, most: int) -> pa.Table | None:
    """The rows, by one job, where no task has more of them than `most`; None where one has, or there is no JVM.

    Rows of one list on the driver, as inlined rows are, need no job: Catalyst computed what was asked of them. A task
    ends as soon as it has found too many: then next to nothing was done in vain.
    """
    if not hasattr(frame, "_jdf"):
        return None
    computed = _computed(frame)
    if computed is not None:
        return _arrow_of(frame, computed)
    jvm: Any = frame.sparkSession.sparkContext._jvm
    plan = frame.selectExpr("*", f"spark_partition_id() AS {_TASK}")._jdf.queryExecution().analyzed()
    literal = getattr(getattr(_expressions(jvm), "Literal$"), "MODULE$").apply(most + 1)
    limited = jvm.org.apache.spark.sql.catalyst.plans.logical.LocalLimit(literal, plan)
    try:
        rows = _of_plan(frame.sparkSession, frame._jdf.sparkSession(), limited).toArrow()
    except Exception as error:
        if "spark.driver.maxResultSize" in str(error):
            return None  # few rows, but large ones
        raise
    if rows.num_rows > most:
        by_task = rows.group_by(_TASK).aggregate([([], "count_all")])
        if max(by_task.column("count_all").to_pylist()) > most:
            return None
    return rows.drop_columns([_TASK])


def is_cheap(frame: DataFrame, *, with_joins: bool = False) -> bool:
    """Whether to compute rows twice costs no more than scans: nothing is grouped, asked of functions, or joined."""
    jvm: Any = frame.sparkSession.sparkContext._jvm
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    plan = frame._jdf.queryExecution().analyzed()
    return not any(plan.containsPattern(getattr(patterns, name)()) for name in _COSTLY[with_joins:])


def default_parallelism(frame: DataFrame) -> int:
    """How many tasks Spark runs at once, as far as it knows."""
    return int(frame.sparkSession.sparkContext.defaultParallelism)


def _computed(frame: DataFrame) -> Any | None:
    """The plan of rows that Catalyst has computed on the driver; None where a job must do it.

    Its optimizer evaluates filters and projections of a list of rows, each once, with its own interpreter, and puts the
    results into the plan.
    """
    execution = frame._jdf.queryExecution()
    leaves = execution.analyzed().collectLeaves()
    if leaves.size() != 1 or not _is_list(leaves.head()):
        return None  # to optimize such a plan here would list its files twice
    plan = execution.optimizedPlan()
    return plan if _is_list(plan) else None


def _is_list(plan: Any) -> bool:
    return bool(plan.nodeName() == "LocalRelation")


def _arrow_of(frame: DataFrame, computed: Any) -> pa.Table:
    """Rows of a plan as Spark Connect's server sends them, as one stream for each batch."""
    jvm: Any = frame.sparkSession.sparkContext._jvm
    converters = getattr(getattr(jvm.org.apache.spark.sql.execution.arrow, "ArrowConverters$"), "MODULE$")
    streams = converters.toBatchWithSchemaIterator(
        computed.data().iterator(), computed.schema(), 0, _BATCH_BYTES, "UTC", True, False
    )
    batches = []
    while streams.hasNext():
        batches += pa.ipc.open_stream(streams.next()).read_all().to_batches()
    schema = arrow_schema(frame.schema)
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema).cast(schema)


def max_rows(frame: DataFrame) -> int:
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
    session = spark._jsparkSession.cloneSession()
    for key, value in settings.items():
        session.conf().set(key, value)
    return _of_plan(
        SparkSession(spark.sparkContext, session), session, frame._jdf.queryExecution().analyzed()
    )


def _of_plan(spark: SparkSession, session: Any, plan: Any) -> DataFrame:
    jvm: Any = spark.sparkContext._jvm
    datasets = getattr(getattr(jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")
    return DataFrame(datasets.ofRows(session, plan), spark)


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


HAS_SCALARS = hasattr(PythonEvalType, "SQL_SCALAR_ARROW_UDF")
"""Whether this PySpark has scalar functions over Arrow's arrays: 4.1 is the first."""


def register_scalar(
    spark: SparkSession,
    name: str,
    function: Any,
    said: str,
    type_: Any,
    on: tuple[str, Mapping[str, str]] | None,
) -> None:
    """Makes a function over arrays known to Spark's SQL.

    Args:
        spark: The session.
        name: Its name in SQL.
        function: What workers run.
        said: The name that plans show.
        type_: Spark's type of its answers.
        on: The Python that runs it and its environment variables; None leaves that to Spark.
    """
    made = UserDefinedFunction(function, type_, evalType=PythonEvalType.SQL_SCALAR_ARROW_UDF, name=said)
    java = made._judf
    context = spark.sparkContext
    if on is not None and (on[1] or context.pythonExec != on[0]):
        variables = {**context.environment, **on[1]}
        java = _copied(java, func=_copied(java.func(), pythonExec=on[0], envVars=variables))
    session: Any = spark
    session._jsparkSession.udf().registerPython(name, java)


def drop_function(spark: SparkSession, name: str) -> None:
    """Forgets such a function. Plans that call it go on doing so."""
    session: Any = spark
    session._jsparkSession.sessionState().catalog().dropTempFunction(name, True)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow types in which Spark exchanges rows of these types with Python; times in UTC."""
    return to_arrow_schema(schema, **_UTC)


def _copied(product: Any, **changes: Any) -> Any:
    """A Scala case object with other values, whatever fields it has in this version of Spark."""
    fields = range(product.productArity())
    values = {product.productElementName(i): product.productElement(i) for i in fields}
    return product.copy(*(values | changes).values())
