"""`format("ducklake")` as a Python data source: what Spark Connect has of it, and any session that was told nothing.

Spark runs it in processes of the server, which have no session: the lake is attached there, by its path, for each step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from ducklake_spark.api.attach import attach
from ducklake_spark.engine import feeds, format_options, lakes, tasks
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, SchemaChangedError
from ducklake_spark.format.names import split_name
from ducklake_spark.format.objects import EPOCH
from ducklake_spark.scan.worker_tasks import CHOICES, feed_schema, feed_task
from ducklake_spark.spark.errors import task_failure
from ducklake_spark.workers.table_scan import FeedScan, FeedTask, ScanTask, TableScan
from ducklake_spark.write.failures import said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ducklake_spark.api.lake import Lake
    from ducklake_spark.engine.format_options import GivenOptions

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_COMPARISONS = (
    "EqualTo",
    "GreaterThan",
    "GreaterThanOrEqual",
    "LessThan",
    "LessThanOrEqual",
    "In",
    "StringStartsWith",
)
_PUSHER = "data_source_pushdown_filters"
"""The module that runs in a process of Spark's which asks for filters; it refuses readers that take them elsewhere."""


def register_source(spark: SparkSession) -> None:
    """Lets a session know the data source, and lets Spark hand over filters, where it can."""
    spark.dataSource.register(DuckLakeSource)
    if hasattr(DataSourceReader, "pushFilters"):
        spark.conf.set(_PUSHDOWN, "true")


class DuckLakeSource(DataSource):
    """Tables of a lake for `spark.read` and `df.write`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._version: int | None = None
        """The snapshot whose columns Spark was told, of which the rows are read."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "ducklake"

    def schema(self) -> StructType:
        """The columns of the table, or of its changes."""
        options = format_options.reading(self.options)
        with _attached(options) as (lake, table):
            if options.flag("readChangeFeed"):
                feed = _feed(lake, table, options)
                self._version = feed.range.last
                return feed_schema(feed.plan.table.columns)
            found = _at(lake, options, None)
            self._version = found.version
            return tasks.table_schema(scope_of(found), table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads what `schema` told of."""
        made = _PushingReader if _is_asked_for_filters() else _Reader
        return made(dict(self.options), schema, self._version)

    def writer(self, schema: StructType, overwrite: bool) -> _Writer:
        """Writes rows with these columns."""
        options = format_options.writing(self.options)
        how = format_options.write_options(options, "overwrite" if overwrite else "append")
        with _attached(options, creates=True) as (lake, table):
            return _Writer(dict(self.options), tasks.plan_write(scope_of(lake), table, schema, how))

    def streamReader(self, schema: StructType) -> Any:  # noqa: ARG002 - Spark's name
        """Refuses."""
        raise _no_streams()

    def simpleStreamReader(self, schema: StructType) -> Any:  # noqa: ARG002 - Spark's name
        """Refuses."""
        raise _no_streams()

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002 - Spark's name
        """Refuses."""
        raise _no_streams()


def _no_streams() -> InvalidInputError:
    return InvalidInputError(
        'Streams of format("ducklake") need a classic session in which ducklake_spark.register(spark) or attach() ran. '
        "Through Spark Connect, read what changed since a version: option readChangeFeed, or lake.table_changes()."
    )


# --- Lakes. -----------------------------------------------------------------------------------------------------------


@contextmanager
def _attached(options: GivenOptions, *, creates: bool = False) -> Iterator[tuple[Lake, tuple[str, ...]]]:
    """The lake that options name, for one step: other processes may want its file as well."""
    path, table = options.text("path"), options.text("table")
    if path is None or table is None:
        raise InvalidInputError(
            'format("ducklake") needs the lake and the table here: load("ducklake:...") or save("ducklake:...") with '
            'option "table". Names of lakes that the client attached are not known to the server.'
        )
    given = options.attach
    if not creates:
        given.setdefault("create_if_not_exists", False)
    with lakes.unlisted(), attach(path, catalog=False, **given) as lake:
        yield lake, split_name(table)


def _at(lake: Lake, options: GivenOptions, version: int | None) -> Lake:
    """The lake at the snapshot to be read."""
    asked, time = options.number("versionAsOf"), options.text("timestampAsOf")
    if version is not None:
        return lake.at(version=version)
    if asked is None and time is None:
        return lake.at(version=lake.version)
    return lake.at(version=asked, timestamp=time)


def _feed(lake: Lake, table: tuple[str, ...], options: GivenOptions, last: int | None = None) -> Any:
    start: Any = options.number("startingVersion")
    end: Any = options.number("endingVersion")
    return feeds.feed_of(
        scope_of(lake),
        table,
        options.text("startingTimestamp") or "" if start is None else start,
        last if last is not None else options.text("endingTimestamp") if end is None else end,
        CHOICES,
    )


# --- Reads. -----------------------------------------------------------------------------------------------------------


@dataclass
class _Partition(InputPartition):
    """What one task reads."""

    task: ScanTask | FeedTask


class _Reader(DataSourceReader):
    """Reads a table, or its changes, in tasks."""

    def __init__(self, options: Mapping[str, str], schema: StructType, version: int | None) -> None:
        self._options, self._schema, self._version = options, schema, version
        self._filters: list[Any] = []
        self._scan: TableScan | FeedScan | None = None
        # Spark hands the reader to its tasks before it asks for the partitions: the plan must be made now.
        self._partitions: list[InputPartition] | None = None
        if type(self) is _Reader:
            self._plan()

    def _plan(self) -> None:
        options = format_options.reading(self._options)
        with _attached(options) as (lake, table):
            if options.flag("readChangeFeed"):
                feed = _feed(lake, table, options, self._version)
                self._require_same(feed_schema(feed.plan.table.columns))
                self._scan, task = feed_task(scope_of(lake).store, feed)
                self._partitions = [_Partition(task)]
                return
            scope = scope_of(_at(lake, options, self._version))
            self._require_same(tasks.table_schema(scope, table))
            found = tasks.read(scope, table, self._filters, os.cpu_count() or 1)
            self._scan = found.scan
            self._partitions = [_Partition(task) for task in found.tasks]

    def _require_same(self, schema: StructType) -> None:
        wanted, found = ([(f.name, f.dataType) for f in each.fields] for each in (self._schema, schema))
        if wanted != found:
            raise SchemaChangedError(
                'format("ducklake") knows the columns of its tables: leave schema(...) out, and call load() again if '
                "the table was altered."
            )

    def partitions(self) -> Sequence[InputPartition]:
        """What the tasks read."""
        assert self._partitions is not None
        return self._partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task; runs in a worker."""
        # Of an empty table Spark asks all the same, for nothing.
        if isinstance(partition, _Partition):
            assert self._scan is not None
            task: Any = partition.task
            yield from self._named(self._scan.rows(task))

    def _named(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def __getstate__(self) -> dict[str, Any]:
        # Partitions travel by themselves, each to its task.
        return self.__dict__ | {"_partitions": None, "_filters": []}


class _PushingReader(_Reader):
    """The same, with filters that the catalog and the workers apply; Spark applies all of them once more."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Takes filters, plans, and leaves all filters to Spark as well."""
        kinds = {field.name: field.dataType for field in self._schema.fields}
        self._filters = [tree_of(each, kinds) for each in filters]
        self._plan()
        return filters


def _is_asked_for_filters() -> bool:
    """Whether this process hands filters over. In others Spark refuses a reader that would take some."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    names = [*sys.modules, "" if main is None else main.name]
    return any(name.rpartition(".")[2] == _PUSHER for name in names)


def tree_of(given: Any, kinds: Mapping[str, Any]) -> Any:
    """A filter of a data source as the tree that `scan/pruning` reads; None for one that it does not know."""
    name = type(given).__name__
    if isinstance(given, datasource.Not):
        inner = tree_of(given.child, kinds)
        return None if inner is None else {"class": "Not", "children": [inner]}
    attribute: tuple[str, ...] = getattr(given, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in kinds:
        return None
    kind = kinds[attribute[0]].simpleString()
    reference = {"class": "AttributeReference", "name": attribute[0], "dataType": kind, "children": []}
    if name in ("IsNull", "IsNotNull"):
        return {"class": name, "children": [reference]}
    if name not in _COMPARISONS:
        return None
    values = given.value if name == "In" else [given.value]
    literals = [_literal(value) for value in values]
    if None in literals:
        return None
    return {"class": "StartsWith" if name == "StringStartsWith" else name, "children": [reference, *literals]}


def _literal(value: Any) -> Any:
    """A literal as Catalyst shows it; None for a value of which it is not known how Spark compares it."""
    kind: str
    if isinstance(value, bool):
        kind, text = "boolean", str(value).lower()
    elif isinstance(value, int):
        kind, text = "long", str(value)
    elif isinstance(value, float):
        kind, text = "double", repr(value)
    elif isinstance(value, Decimal):
        kind, text = "decimal", str(value)
    elif isinstance(value, str):
        kind, text = "string", value
    elif isinstance(value, datetime):
        is_zoned = value.tzinfo is not None
        zoned = value if is_zoned else value.replace(tzinfo=timezone.utc)
        since = zoned - EPOCH
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        kind, text = "timestamp" if is_zoned else "timestamp_ntz", str(micros)
    elif isinstance(value, date):
        kind, text = "date", str((value - EPOCH.date()).days)
    else:
        return None
    return {"class": "Literal", "dataType": kind, "value": text, "children": []}


# --- Writes. ----------------------------------------------------------------------------------------------------------


@dataclass
class _Written(WriterCommitMessage):
    """What one task wrote: files and what is in them, or few rows as a text."""

    results: tuple[tuple[str, str], ...]


class _Writer(DataSourceArrowWriter):
    """Writes files in tasks, and commits them once."""

    def __init__(self, options: Mapping[str, str], write: tasks.TaskWrite) -> None:
        super().__init__()
        self._given, self._write = options, write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Written:
        """Writes the rows of one task; runs in a worker."""
        names = [f"c{i}" for i in range(len(self._write.schema.fields))]
        batches = (batch.rename_columns(names) for batch in iterator)
        try:
            found = [
                pair
                for made in self._write.encoding(batches)
                for pair in zip(made.column(0).to_pylist(), made.column(1).to_pylist(), strict=True)
            ]
        except RuntimeError as error:
            failure = task_failure(str(error))
            if failure is None:
                raise
            raise said(self._write.table, failure) from None
        return _Written(tuple(found))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits what all tasks wrote."""
        results = [pair for each in messages if isinstance(each, _Written) for pair in each.results]
        options = format_options.writing(self._given)
        with _attached(options, creates=True) as (lake, _):
            tasks.commit_write(scope_of(lake), self._write, results)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - all of it goes
        """Removes what tasks wrote."""
        self._write.forget()
