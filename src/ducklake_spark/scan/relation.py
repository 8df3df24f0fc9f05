"""A file list that we plan, as a relation that Spark scans: the only module that touches the JVM.

Spark's Parquet source asks a `FileIndex` which files to read and hands it the query's filters. The index here is a
Python object behind Py4J's callback server. The relation is made without listing and without touching storage.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
_OPTIONS = {
    FIELD_IDS: "true",
    # DuckDB's calendar is the proleptic Gregorian one: no day is to be moved.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_PACKAGE = "org.apache.spark.sql.catalyst.expressions."


@dataclass(frozen=True)
class IndexedFile:
    """A file as Spark must know it; `code` becomes its modification time in milliseconds."""

    path: str
    size: int
    code: int = 0


class FileSource(Protocol):
    """Where a relation's files come from."""

    @property
    def title(self) -> str:
        """What `explain()` shows: lake, table and snapshot."""

    @property
    def total(self) -> int:
        """How many files there are without any filter."""

    @property
    def token(self) -> str:
        """Two sources with the same token list the same files."""

    @property
    def size(self) -> int:
        """All bytes, for the optimizer."""

    def files(self, filters: Sequence[Any]) -> list[IndexedFile]:
        """The files that may have rows for which all filters are true; each filter a tree as `tree_of` makes it."""


def is_classic(spark: SparkSession) -> bool:
    """Whether the session has a JVM to reach; a Spark Connect session has none."""
    return hasattr(spark, "_jsparkSession")


def prepare(spark: SparkSession) -> None:
    """Sets the one setting that a session must have.

    `spark.sql.parquet.fieldId.read.enabled` concerns only schemas whose fields carry ids. The relation's own options
    are enough for the vectorized reader; the row-based one, used when that is switched off, asks the session.
    """
    if str(spark.conf.get(FIELD_IDS, "false")).lower() != "true":
        spark.conf.set(FIELD_IDS, "true")


def relation(spark: SparkSession, source: FileSource, schema: StructType) -> DataFrame:
    """A DataFrame over the source's files, read with this schema."""
    from pyspark.java_gateway import ensure_callback_server_started

    prepare(spark)
    gateway = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # PySpark has no types here
    jvm = _jvm(spark)
    sources = jvm.org.apache.spark.sql.execution.datasources
    index = _FileIndex(spark, source)
    session = spark._jsparkSession
    options = _module(jvm.scala.collection.immutable, "Map").empty()
    for key, value in _OPTIONS.items():
        options = options.updated(key, value)
    made = sources.HadoopFsRelation(
        index,
        index.partitionSchema(),
        _to_jvm(jvm, schema),
        jvm.scala.Option.empty(),
        sources.parquet.ParquetFileFormat(),
        options,
        session,
    )
    plan = _module(sources, "LogicalRelation").apply(made, False)
    return DataFrame(_module(jvm.org.apache.spark.sql.classic, "Dataset").ofRows(session, plan), spark)


def explain(frame: DataFrame) -> str:
    """One line for each scan of a lake in the query: table, snapshot, and how many files are kept of how many."""
    lines = []
    pending = [frame._jdf.queryExecution().executedPlan()]
    while pending:
        plan = pending.pop(0)
        name = plan.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            pending.insert(0, plan.initialPlan())
            continue
        if name == "FileSourceScanExec" and "$Proxy" in plan.relation().location().getClass().getName():
            location = plan.relation().location()
            location.listFiles(plan.partitionFilters(), plan.dataFilters())
            lines.append(str(location.toString()))
        children = plan.children()
        pending[:0] = [children.apply(i) for i in range(children.size())]
        subqueries = plan.subqueries()
        pending += [subqueries.apply(i) for i in range(subqueries.size())]
    return "\n".join(lines)


class _FileIndex:
    """What the JVM calls, on threads of the callback server. Names are those of the Java interface."""

    class Java:
        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)

    def __init__(self, spark: SparkSession, source: FileSource) -> None:
        self._source = source
        self._gateway: Any = spark.sparkContext._gateway
        self._jvm = _jvm(spark)
        self._partition_schema = _to_jvm(self._jvm, StructType([]))
        self._lock = threading.Lock()
        self._shown = f"{source.title}: {source.total} files"

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:
        filters = [tree_of(data_filters.apply(i)) for i in range(data_filters.size())]
        files = self._source.files(filters)
        with self._lock:
            self._shown = f"{self._source.title}: {len(files)} of {self._source.total} files"
        no_values = self._gateway.new_array(self._jvm.java.lang.Object, 0)
        row = self._jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(no_values)
        directory = self._jvm.org.apache.spark.sql.execution.datasources.PartitionDirectory.apply(
            row, self._statuses(files)
        )
        return _seq(self._jvm, [directory])

    def _statuses(self, files: Iterable[IndexedFile]) -> Any:
        """FileStatus[] in one Py4J call, through Jackson: a call out of a callback costs about a millisecond."""
        described = [
            {
                "path": file.path,
                "length": file.size,
                "isdir": False,
                "block_replication": 1,
                "blocksize": 128 << 20,
                "modification_time": file.code,
            }
            for file in files
        ]
        return self._from_json(described, "[Lorg.apache.hadoop.fs.FileStatus;")

    def _from_json(self, value: Any, java_class: str) -> Any:
        mapper = self._jvm.com.fasterxml.jackson.databind.ObjectMapper()
        access = self._jvm.com.fasterxml.jackson.annotation.PropertyAccessor
        visibility = getattr(self._jvm.com.fasterxml.jackson.annotation, "JsonAutoDetect$Visibility")
        mapper.setVisibility(access.ALL, visibility.NONE)
        mapper.setVisibility(access.FIELD, visibility.ANY)
        mapper.setVisibility(access.CREATOR, visibility.ANY)
        return mapper.readValue(json.dumps(value), self._jvm.java.lang.Class.forName(java_class))

    def rootPaths(self) -> Any:
        # Nothing is ever read from here; it is the one text of the index that explain() prints.
        with self._lock:
            shown = self._shown
        return _seq(self._jvm, [self._jvm.org.apache.hadoop.fs.Path(_path_text(shown))])

    def partitionSchema(self) -> Any:
        return self._partition_schema

    def sizeInBytes(self) -> int:
        return self._source.size

    def inputFiles(self) -> Any:
        paths = [file.path for file in self._source.files([])]
        return self._from_json(paths, "[Ljava.lang.String;")

    def refresh(self) -> None:
        pass

    def isTimeTravel(self) -> bool:
        return False

    def metadataOpsTimeNs(self) -> Any:
        return self._jvm.scala.Option.empty()

    def toString(self) -> str:
        with self._lock:
            return self._shown

    def hashCode(self) -> int:
        return hash(self._source.token) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        return isinstance(other, _FileIndex) and other._source.token == self._source.token


def tree_of(expression: Any) -> Any:
    """A Catalyst expression as nested dicts with `class`, its own properties and `children`.

    Literals keep Catalyst's internal values as text; the JSON has sets not at all, and days and instants only as they
    are shown in some zone. None if the expression cannot be printed: it decides nothing.
    """
    try:
        nodes = iter(json.loads(expression.toJSON()))
    except (
        Exception
    ):  # whatever Jackson cannot print; such a filter prunes nothing, and Spark evaluates it anyway
        return None

    def build(path: tuple[int, ...]) -> Any:
        node = next(nodes)
        node["class"] = node["class"].removeprefix(_PACKAGE)
        node["children"] = [build((*path, i)) for i in range(node["num-children"])]
        if node["class"] == "InSet":
            separator = uuid.uuid4().hex
            node["values"] = _at(expression, path).hset().mkString(separator).split(separator)
        elif (
            node["class"] == "Literal" and node.get("dataType") in ("date", "timestamp") and node.get("value")
        ):
            node["value"] = str(_at(expression, path).value())
        return node

    return build(())


def _at(expression: Any, path: tuple[int, ...]) -> Any:
    for index in path:
        expression = expression.children().apply(index)
    return expression


def _path_text(title: str) -> str:
    return title.replace(":", " ").replace("/", " ").strip() or "lake"


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def _seq(jvm: Any, items: Iterable[Any]) -> Any:
    values = jvm.java.util.ArrayList()
    for item in items:
        values.add(item)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(values).toList()


def _to_jvm(jvm: Any, schema: StructType) -> Any:
    return jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())


def _module(package: Any, name: str) -> Any:
    return getattr(getattr(package, name + "$"), "MODULE$")
