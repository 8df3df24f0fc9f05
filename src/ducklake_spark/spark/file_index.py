"""A file list that we plan, as a relation that Spark scans: the only module that touches the JVM.

Spark's Parquet source asks a `FileIndex` which files to read and hands it the query's filters. The index here is a
Python object behind Py4J's callback server. The relation is made without listing and without touching storage.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from ducklake_spark.errors import NativeUnavailableError
from ducklake_spark.format.encryption import FileKey
from ducklake_spark.spark.errors import install, remember_files
from ducklake_spark.spark.file_checks import require_whole
from ducklake_spark.spark.native.callbacks import start_callbacks
from ducklake_spark.spark.native.compile import Unit, load

FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
READ_OPTIONS = {
    FIELD_IDS: "true",
    # Whatever the session says: a scan without them would be one with fewer rows.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # DuckDB's calendar is the proleptic Gregorian one: no day is to be moved.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_WIDTHS = {"byte": 1, "short": 2, "integer": 4, "long": 8}
_PACKAGE = "org.apache.spark.sql.catalyst.expressions."
PRUNED_RELATION = "ducklake.scan.PrunedRelation"
"""The class of relations that `pruned_scan` makes."""


@dataclass(frozen=True)
class IndexedFile:
    """A file as Spark must know it; `code` becomes its modification time in milliseconds."""

    path: str
    size: int
    code: int = 0
    key: FileKey | None = None
    begin_snapshot: int | None = None
    """None for a file that is not committed."""
    deleted: str | None = None
    """A name for the rows that are deleted in it, which stands for the same rows for ever."""


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


@runtime_checkable
class CountedSource(FileSource, Protocol):
    """Files of a table of which the catalog has statistics."""

    @property
    def names(self) -> tuple[str, str, str]:
        """The lake, the schema and the table."""

    @property
    def rows(self) -> int | None:
        """How many rows the files have, where that is known without a question to the catalog."""

    def statistics(self) -> tuple[int | None, Mapping[str, tuple[Any, Any, int]]]:
        """How many rows there are, and of columns the least and the greatest value and the number of NULLs."""

    def exact(self, names: frozenset[str]) -> tuple[int | None, Mapping[str, tuple[Any, Any, int]]]:
        """The same of these columns, as a scan would find it; values are None also where they are not known so well."""

    def first(self, rows: int) -> list[IndexedFile]:
        """Files that have so many rows, or all."""

    def bound(self, name: str, rows: int, ascending: bool) -> int | float | str | bool | None:
        """A value of a column up to which so many rows are for sure, or from which on; None if nobody knows one."""

    def counts(self, names: Sequence[str]) -> list[list[Any]] | None:
        """How many rows there are of each combination of values of these columns; None where a scan must count."""


@runtime_checkable
class DeletingSource(FileSource, Protocol):
    """Files that have deleted rows, which a scan leaves out."""

    @property
    def has_deletes(self) -> bool:
        """Whether any of them may have."""

    def deleted(self, names: Sequence[str]) -> bytes:
        """Which rows are deleted, for names that `files` gave.

        For each name the length of its bits in numbers of 64 bits, `-1 - length` where they are not to be
        remembered, and the numbers; big end first.
        """


class NumberSource(Protocol):
    """Where an array of 64-bit numbers comes from."""

    @property
    def title(self) -> str:
        """What `explain()` shows."""

    @property
    def token(self) -> str:
        """Two sources with the same token give the same numbers."""

    def numbers(self) -> bytes:
        """The numbers, big end first."""


def is_classic(spark: SparkSession) -> bool:
    """Whether the session has a JVM to reach; a Spark Connect session has none."""
    return hasattr(spark, "_jsparkSession")


def java_frame(frame: DataFrame) -> Any:
    """The JVM's side of a classic DataFrame."""
    return frame._jdf


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """A DataFrame without rows. One that is made of Python rows, even of none, runs Python workers."""
    if not is_classic(spark):
        return spark.createDataFrame([], schema)
    jvm: Any = spark.sparkContext._jvm
    session = spark._jsparkSession
    rows = session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(schema.json()))
    return DataFrame(rows, spark)


def prepare(spark: SparkSession) -> None:
    """Sets the one setting that a session must have.

    `spark.sql.parquet.fieldId.read.enabled` concerns only schemas whose fields carry ids. The relation's own options
    are enough for the vectorized reader; the row-based one, used when that is switched off, asks the session.
    """
    if str(spark.conf.get(FIELD_IDS, "false")).lower() != "true":
        spark.conf.set(FIELD_IDS, "true")


def relation(
    spark: SparkSession, source: FileSource, schema: StructType, *, is_streaming: bool = False
) -> DataFrame:
    """A DataFrame over the source's files, read with this schema; `is_streaming` marks it as a stream's batch."""
    prepare(spark)
    known = _known_relations(spark)
    if known is None:
        return _relation_of_proxy(spark, source, schema, is_streaming=is_streaming)
    counted = isinstance(source, CountedSource) and not is_streaming
    rows = source.rows if isinstance(source, CountedSource) else None
    made = known.frame(
        spark._jsparkSession,
        _Listing(source),
        source.title,
        source.token,
        source.total,
        source.size,
        -1 if rows is None else rows,
        schema.json(),
        json.dumps(READ_OPTIONS),
        json.dumps(source.names if isinstance(source, CountedSource) and counted else ()),
        is_streaming,
        isinstance(source, DeletingSource) and source.has_deletes,
    )
    return DataFrame(made, spark)


def _relation_of_proxy(
    spark: SparkSession, source: FileSource, schema: StructType, *, is_streaming: bool
) -> DataFrame:
    """The same where no classes can be loaded: Spark knows bytes only, and asks Python for everything."""
    java = _java(spark)
    session = spark._jsparkSession
    made = java.relation(
        _FileIndex(java, source),
        java.no_columns,
        java.schema(schema.json()),
        java.none,
        java.parquet_format(),
        java.options,
        session,
    )
    return DataFrame(java.dataset.ofRows(session, java.logical_relation.apply(made, is_streaming)), spark)


RELATIONS = Unit(
    "statistics",
    tuple(
        f"statistics/{name}.java"
        for name in (
            "KnownRelations",
            "LakeFiles",
            "LakeParquet",
            "DeletedRows",
            "Aggregates",
            "Groups",
            "Limits",
        )
    ),
)
_relations: dict[int, tuple[Any, Any | None, bool]] = {}
"""By gateway: the gateway itself, what makes relations, and whether tasks have its classes."""


def _known_relations(spark: SparkSession) -> Any | None:
    """What makes relations of files, once per JVM; None where no classes can be loaded."""
    return _known_and_sent(spark)[0]


def _known_and_sent(spark: SparkSession) -> tuple[Any | None, bool]:
    gateway: Any = spark.sparkContext._gateway
    with _known_lock:
        known = _relations.get(id(gateway))
        if known is None or known[0] is not gateway:
            start_callbacks(spark)
            try:
                classes = load(spark, RELATIONS)
                made, sent = classes.new("ducklake.statistics.KnownRelations"), classes.send(spark)
            except NativeUnavailableError:
                made, sent = None, False
            known = _relations[id(gateway)] = (gateway, made, sent)
        return known[1:]


def leaves_out_rows(spark: SparkSession) -> bool:
    """Whether relations leave out the deleted rows of a `DeletingSource`: where tasks have our classes."""
    return is_classic(spark) and _known_and_sent(spark)[1]


def numbers(spark: SparkSession, source: NumberSource) -> Column:
    """An array of numbers that is asked for when Spark optimizes a query with it, not before, and once.

    To Spark it is a call of a Java object without arguments, which its optimizer replaces by the call's result.
    """
    java = _java(spark)
    called = java.invoke(
        java.literal.fromObject(_Numbers(java, source)),
        "get",
        java.numbers,
        java.nothing,
        java.nothing,
        False,
        False,
        True,
    )
    return Column(java.column(called))


def calls_are_folded(spark: SparkSession) -> bool:
    """Whether the optimizer replaces calls by their results, as `numbers` needs: a session may have switched it off."""
    return "ConstantFolding" not in str(spark.conf.get("spark.sql.optimizer.excludedRules", ""))


def read_bytes(spark: SparkSession, path: str) -> bytes:
    """A small file, whole, from wherever Hadoop can read.

    Raises:
        OSError: It cannot be read.
    """
    from py4j.protocol import Py4JJavaError

    java = _java(spark)
    try:
        place = java.path(path)
        stream = place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).open(place)
        try:
            return bytes(java.read(stream))
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise OSError(str(error.java_exception.toString())) from error


class _Java:
    """Classes and objects of the JVM, looked up once: each dot of a name costs a round trip through Py4J."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        gateway: Any = spark.sparkContext._gateway
        jvm: Any = spark.sparkContext._jvm
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # PySpark has no types here
        install()
        sources = jvm.org.apache.spark.sql.execution.datasources
        self.gateway = gateway
        self.relation = sources.HadoopFsRelation
        self.parquet_format = sources.parquet.ParquetFileFormat
        self.logical_relation = _module(sources, "LogicalRelation")
        self.dataset = _module(jvm.org.apache.spark.sql.classic, "Dataset")
        self.schema = jvm.org.apache.spark.sql.types.DataType.fromJson
        self.path = jvm.org.apache.hadoop.fs.Path
        self.list = jvm.java.util.Collections.singletonList
        self.read = jvm.org.apache.commons.io.IOUtils.toByteArray
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self.literal = _module(expressions, "Literal")
        self.invoke = expressions.objects.Invoke
        self.column = _module(jvm.org.apache.spark.sql.classic, "ExpressionUtils").column
        self.wrap = jvm.java.nio.ByteBuffer.wrap
        self.long = jvm.long
        self.array_data = expressions.UnsafeArrayData.fromPrimitiveArray
        self.to_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
        self.none = jvm.scala.Option.empty()
        self.no_columns = self.schema(StructType([]).json())
        self.options = _module(jvm.scala.collection.immutable, "Map").empty()
        for key, value in READ_OPTIONS.items():
            self.options = self.options.updated(key, value)
        no_values = gateway.new_array(jvm.java.lang.Object, 0)
        self.no_row = expressions.GenericInternalRow(no_values)
        self.numbers = self.schema('{"type": "array", "elementType": "long", "containsNull": false}')
        self.nothing = self.to_scala(jvm.java.util.Collections.emptyList()).toList()
        self.directory = sources.PartitionDirectory.apply
        class_of = jvm.java.lang.Class.forName
        self.statuses = class_of("[Lorg.apache.hadoop.fs.FileStatus;")
        self.texts = class_of("[Ljava.lang.String;")
        access = jvm.com.fasterxml.jackson.annotation.PropertyAccessor
        visibility = getattr(jvm.com.fasterxml.jackson.annotation, "JsonAutoDetect$Visibility")
        self.mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self.mapper.setVisibility(access.ALL, visibility.NONE)
        self.mapper.setVisibility(access.FIELD, visibility.ANY)
        self.mapper.setVisibility(access.CREATOR, visibility.ANY)

    def one(self, item: Any) -> Any:
        """A Scala Seq of one item."""
        return self.to_scala(self.list(item)).toList()


_known: dict[int, _Java] = {}
_known_lock = threading.Lock()


def _java(spark: SparkSession) -> _Java:
    gateway: Any = spark.sparkContext._gateway
    with _known_lock:
        found = _known.get(id(gateway))
        if found is None or found.gateway is not gateway:
            found = _known[id(gateway)] = _Java(spark)
        return found


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
        if name == "FileSourceScanExec" and _is_ours(plan.relation().location().getClass().getName()):
            location = plan.relation().location()
            location.listFiles(plan.partitionFilters(), plan.dataFilters())
            lines.append(str(location.toString()))
        elif name == "RowDataSourceScanExec" and plan.relation().getClass().getName() == PRUNED_RELATION:
            lines.append(str(plan.relation().toString()))
        children = plan.children()
        pending[:0] = [children.apply(i) for i in range(children.size())]
        subqueries = plan.subqueries()
        pending += [subqueries.apply(i) for i in range(subqueries.size())]
    return "\n".join(lines)


def _is_ours(index: str) -> bool:
    return index == "ducklake.statistics.LakeFiles" or "$Proxy" in index


def plan_text(frame: DataFrame) -> str:
    """Spark's plan of a query, with the details of each step below it."""
    shown: Any = frame
    if is_classic(frame.sparkSession):
        jvm: Any = frame.sparkSession.sparkContext._jvm
        return str(jvm.PythonSQLUtils.explainString(shown._jdf.queryExecution(), "formatted")).strip()
    return str(shown._explain_string(mode="formatted")).strip()


def equal_columns(joined: DataFrame) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Pairs of (alias, column) that a join's condition says are equal, whole numbers of any width."""
    plan = joined._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "Join" or plan.condition().isEmpty():
        return []
    found, pending = [], [tree_of(plan.condition().get())]
    while pending:
        tree = pending.pop()
        if tree is not None and tree["class"] == "And":
            pending += tree["children"]
        elif tree is not None and tree["class"] == "EqualTo":
            one, other = map(_column_of, tree["children"])
            if one is not None and other is not None:
                found.append((one, other))
    return found


def _column_of(tree: Any) -> tuple[str, str] | None:
    while tree["class"] == "Cast":
        [inner] = tree["children"]
        if not _WIDTHS.get(str(inner.get("dataType")), 9) <= _WIDTHS.get(str(tree["dataType"]), 0):
            return None
        tree = inner
    if tree["class"] != "AttributeReference":
        return None
    return tree["qualifier"].removeprefix("[").removesuffix("]"), tree["name"]


class _Answer:
    """An object for the JVM that equals another of its kind if both have the same source."""

    _source: FileSource | NumberSource

    def hashCode(self) -> int:
        return hash(self._source.token) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        return type(other) is type(self) and other._source.token == self._source.token


class _Listing:
    """What `LakeFiles` and the statistics of its relation ask, on threads of the callback server."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def apply(self, question: str, argument: str) -> str | bytes:
        if question == "files":
            filters = [
                None if given is None else _tree(json.loads(given[0]), given[1])
                for given in json.loads(argument)
            ]
            return _files_text(_listed(self._source, self._source.files(filters)))
        if question == "deleted":
            assert isinstance(self._source, DeletingSource)
            return self._source.deleted(json.loads(argument))
        if question == "paths":
            return json.dumps([file.path for file in self._source.files([])])
        assert isinstance(self._source, CountedSource)
        if question == "first":
            return _files_text(_listed(self._source, self._source.first(json.loads(argument))))
        if question == "counts":
            return json.dumps(self._source.counts(json.loads(argument)))
        if question == "bound":
            return json.dumps(self._source.bound(*json.loads(argument)))
        if question == "exact":
            rows, columns = self._source.exact(frozenset(json.loads(argument)))
        else:
            rows, columns = self._source.statistics()
        return json.dumps({"rows": rows, "columns": columns})


def _files_text(files: Iterable[IndexedFile]) -> str:
    return json.dumps(
        [
            (file.path, file.size, file.code, *(() if file.deleted is None else (file.deleted,)))
            for file in files
        ]
    )


def _listed(source: FileSource, files: list[IndexedFile]) -> list[IndexedFile]:
    """The files that a scan is about to read."""
    require_whole(files, source.title)
    remember_files((file.path for file in files), source.title)
    return files


class _FileIndex(_Answer):
    """What the JVM calls, on threads of the callback server. Names are those of the Java interface."""

    class Java:
        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)

    _source: FileSource

    def __init__(self, java: _Java, source: FileSource) -> None:
        self._java, self._source = java, source
        self._lock = threading.Lock()
        self._shown = f"{source.title}: {source.total} files"

    def listFiles(self, _partition_filters: Any, data_filters: Any) -> Any:
        filters = [tree_of(data_filters.apply(i)) for i in range(data_filters.size())]
        files = _listed(self._source, self._source.files(filters))
        with self._lock:
            self._shown = f"{self._source.title}: {len(files)} of {self._source.total} files"
        return self._java.one(self._java.directory(self._java.no_row, self._statuses(files)))

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
        return self._java.mapper.readValue(json.dumps(described), self._java.statuses)

    def rootPaths(self) -> Any:
        # Nothing is ever read from here; it is the one text of the index that explain() prints.
        with self._lock:
            shown = self._shown
        return self._java.one(self._java.path(_path_text(shown)))

    def partitionSchema(self) -> Any:
        return self._java.no_columns

    def sizeInBytes(self) -> int:
        return self._source.size

    def inputFiles(self) -> Any:
        paths = [file.path for file in self._source.files([])]
        return self._java.mapper.readValue(json.dumps(paths), self._java.texts)

    def refresh(self) -> None:
        pass

    def isTimeTravel(self) -> bool:
        return False

    def metadataOpsTimeNs(self) -> Any:
        return self._java.none

    def toString(self) -> str:
        with self._lock:
            return self._shown


class _Numbers(_Answer):
    """An array for the JVM, which asks on a thread of the callback server."""

    class Java:
        implements = ("java.util.function.Supplier",)

    _source: NumberSource

    def __init__(self, java: _Java, source: NumberSource) -> None:
        self._java, self._source = java, source
        self._lock = threading.Lock()
        self._made: Any = None

    def get(self) -> Any:
        with self._lock:
            if self._made is None:
                buffer = self._java.wrap(self._source.numbers()).asLongBuffer()
                array = self._java.gateway.new_array(self._java.long, buffer.remaining())
                buffer.get(array)
                self._made = self._java.array_data(array)
            return self._made

    def toString(self) -> str:
        return self._source.title


def tree_of(expression: Any) -> Any:
    """A Catalyst expression as nested dicts with `class`, its own properties and `children`.

    Literals keep Catalyst's internal values as text; the JSON has sets not at all, and days and instants only as they
    are shown in some zone. None if the expression cannot be printed: it decides nothing.
    """
    try:
        nodes = json.loads(expression.toJSON())
    except (
        Exception
    ):  # whatever Jackson cannot print; such a filter prunes nothing, and Spark evaluates it anyway
        return None
    return _tree(nodes, [_value(expression, node, path) for node, path in _places(nodes)])


def _tree(nodes: Sequence[dict[str, Any]], values: Sequence[Any]) -> Any:
    """Nodes in the order of their JSON as a tree; for each the value that the JSON does not say, or None."""
    left = iter(zip(nodes, values, strict=True))

    def build() -> Any:
        node, value = next(left)
        node["class"] = node["class"].removeprefix(_PACKAGE)
        node["children"] = [build() for _ in range(node["num-children"])]
        if value is not None:
            node["values" if node["class"] == "InSet" else "value"] = value
        return node

    return build()


def _places(nodes: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], tuple[int, ...]]]:
    """Each node of a tree's JSON, and which child of which child of the root it is."""
    left = iter(nodes)

    def walk(path: tuple[int, ...]) -> Iterator[tuple[dict[str, Any], tuple[int, ...]]]:
        node = next(left)
        yield node, path
        for i in range(node["num-children"]):
            yield from walk((*path, i))

    yield from walk(())


def _value(expression: Any, node: dict[str, Any], path: tuple[int, ...]) -> Any:
    kind = node["class"].removeprefix(_PACKAGE)
    if kind == "InSet":
        separator = uuid.uuid4().hex
        return _at(expression, path).hset().mkString(separator).split(separator)
    if kind == "Literal" and node.get("dataType") in ("date", "timestamp") and node.get("value"):
        return str(_at(expression, path).value())
    return None


def _at(expression: Any, path: tuple[int, ...]) -> Any:
    for index in path:
        expression = expression.children().apply(index)
    return expression


def _path_text(title: str) -> str:
    return title.replace(":", " ").replace("/", " ").strip() or "lake"


def _module(package: Any, name: str) -> Any:
    return getattr(getattr(package, name + "$"), "MODULE$")
