"""A table at a snapshot, or its changes, as tasks for workers, planned where there is no Spark session to ask.

Python data sources are planned in a process of Spark's that has none. Files are listed, DuckDB reads them in the
workers (`workers/table_scan.py`), and rows arrive in the types that `lake.table()` shows without a session's settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow
import pyspark.sql.types as spark_types

from ducklake_spark.catalog.store import Row, Store
from ducklake_spark.errors import DuckLakeError, InvalidInputError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.objects import SchemaDef, Snapshot, TableDef
from ducklake_spark.format.types import duckdb_name, text_literal
from ducklake_spark.scan.change_feed.plan import Feed, FeedFile
from ducklake_spark.scan.inlined import InlinedTable, decode, default_sql, fetch_rows, value_sql
from ducklake_spark.scan.planning.listing import data_files, delete_files, inlined_deletes
from ducklake_spark.scan.planning.plan import LakeInfo, ScanPlan, make_plan, name_maps
from ducklake_spark.scan.planning.staleness import has_moved
from ducklake_spark.scan.projection.column import NameMap
from ducklake_spark.scan.projection.types import TypeChoices, is_direct, user_type
from ducklake_spark.scan.pruning.file_pruning import condition
from ducklake_spark.scan.pruning.predicate import parse
from ducklake_spark.scan.pruning.worker_filter import sql_of
from ducklake_spark.scan.worker_scan import carried_value, dealt, file_node
from ducklake_spark.spark.worker_functions import arrow_schema
from ducklake_spark.storage import local_path
from ducklake_spark.workers.duckdb_encoder import NULL_FOLDER
from ducklake_spark.workers.file_columns import FileNode
from ducklake_spark.workers.file_rows import Source
from ducklake_spark.workers.object_store import is_remote
from ducklake_spark.workers.table_scan import (
    Deletes,
    FeedScan,
    FeedTask,
    Layout,
    ReadFile,
    ScanTask,
    TableScan,
)

CHOICES = TypeChoices()
"""How types are shown: as in a session that was told nothing."""
FEED_FIELDS = (
    spark_types.StructField("snapshot_id", spark_types.LongType()),
    spark_types.StructField("rowid", spark_types.LongType()),
    spark_types.StructField("change_type", spark_types.StringType()),
)
_ATTEMPTS = 10


@dataclass(frozen=True)
class TableTasks:
    """A scan, and what each of its tasks reads."""

    scan: TableScan
    tasks: tuple[ScanTask, ...]


def shown_schema(columns: Sequence[ColumnDef]) -> spark_types.StructType:
    """The columns of a table as they are shown."""
    return spark_types.StructType(
        [spark_types.StructField(column.name, user_type(column.data_type, CHOICES)) for column in columns]
    )


def feed_schema(columns: Sequence[ColumnDef]) -> spark_types.StructType:
    """The columns of a change feed."""
    return spark_types.StructType([*FEED_FIELDS, *shown_schema(columns).fields])


def table_tasks(
    store: Store,
    lake: LakeInfo,
    schema: SchemaDef,
    table: TableDef,
    snapshot: Snapshot,
    filters: Sequence[Any],
    tasks: int,
) -> TableTasks:
    """What tasks read of a table.

    Args:
        store: The catalog.
        lake: The lake's name and data path.
        schema: The table's schema.
        table: The table as it is at the snapshot.
        snapshot: The snapshot to read.
        filters: Trees of filters, as Catalyst's: rows that none of them keeps need not be read.
        tasks: How many tasks there should be, if there is enough to read.

    Raises:
        DuckLakeError: The lake changes too quickly to be planned, or the table has what such tasks cannot read.
    """
    _require_readable(lake, table)
    for _ in range(_ATTEMPTS):
        plan = make_plan(store, lake, schema, table, snapshot, CHOICES)
        made = _Planner(store, plan).table(filters, tasks)
        if not has_moved(store, table.table_id, plan.newest_snapshot, by_deletes=True):
            return made
    raise DuckLakeError(
        f"The lake {lake.name} was changed {_ATTEMPTS} times while {plan.title} was planned. Try again."
    )


def feed_task(store: Store, feed: Feed) -> tuple[FeedScan, FeedTask]:
    """What the one task of a change feed reads."""
    _require_readable(feed.plan.lake, feed.plan.table)
    return _Planner(store, feed.plan).feed(feed)


def _require_readable(lake: LakeInfo, table: TableDef) -> None:
    if is_remote(lake.data_path):
        raise InvalidInputError(
            f'The data of the lake "{lake.name}" is in an object store, {lake.data_path}, which a Python data source '
            "has no settings to reach. Attach the lake in the client and use lake.table() and the methods of tables."
        )
    for column in table.columns:
        if any(node.type == "variant" for node in column.walk() if node is not column):
            raise InvalidInputError(
                f'Column "{column.name}" of table "{table.name}" has a variant inside another type, which a Python '
                "data source cannot hand over. Attach the lake in the client and use lake.table()."
            )


@dataclass(frozen=True)
class _Planner:
    store: Store
    plan: ScanPlan

    def table(self, filters: Sequence[Any], tasks: int) -> TableTasks:
        plan, columns = self.plan, self.plan.table.columns
        at = plan.snapshot.snapshot_id
        layouts = _Layouts(plan)
        names = name_maps(
            self.store, {group.key.mapping_id for group in plan.groups if group.key.mapping_id is not None}
        )
        deleted: dict[int, list[int]] = {}
        for file_id, position in inlined_deletes(self.store, plan):
            deleted.setdefault(file_id, []).append(position)
        deletes: dict[int, list[Deletes]] = {}
        for kind in ("parquet", "puffin"):
            for gone in delete_files(self.store, plan, kind):
                deletes.setdefault(gone.data_file_id, []).append(Deletes(_place(gone.path), gone.key, 0))
        files: list[tuple[ReadFile, int]] = []
        for group in plan.groups:
            keep = condition(filters, plan, group, self.store.kind)
            known = names.get(group.key.mapping_id) if group.key.mapping_id is not None else None
            for file in data_files(self.store, plan, group.key, keep):
                source = Source(
                    _place(file.path),
                    file.begin_snapshot,
                    file.row_id_start,
                    deleted=tuple(deleted.get(file.data_file_id, ())),
                    key=file.key,
                )
                source = _with_names(source, known, layouts.columns(file.begin_snapshot))
                read = ReadFile(
                    source,
                    layouts.number(file.begin_snapshot),
                    tuple(deletes.get(file.data_file_id, ())),
                    group.key.is_filtered,
                )
                files.append((read, file.size))
        kept = [
            ScanTask(rows=stream)
            for inlined in plan.inlined
            if (stream := self._stream(fetch_rows(self.store, inlined, at), inlined)) is not None
        ]
        shown = shown_schema(columns)
        outer = [f"o{i}" for i in range(len(columns))]
        by_name = {column.name: column for column in columns}
        exact = frozenset(column.column_id for column in columns if is_direct(column.data_type))
        called = {column.column_id: name for column, name in zip(columns, outer, strict=True)}
        scan = TableScan(
            layouts.made(),
            tuple(_given(column, i) for i, column in enumerate(columns)),
            tuple(outer),
            arrow_schema(shown).serialize().to_pybytes(),
            at,
            sql_of(parse(filters, by_name, exact), lambda column: called.get(column.column_id)),
        )
        return TableTasks(scan, (*map(ScanTask, dealt(files, tasks)), *kept))

    def feed(self, feed: Feed) -> tuple[FeedScan, FeedTask]:
        layouts = _Layouts(self.plan)
        both = feed.inserted + feed.deleted
        names = name_maps(self.store, {file.mapping_id for file in both if file.mapping_id is not None})
        pairs: dict[int, list[tuple[int, int]]] = {}
        for file_id, position, at in feed.positions.inlined:
            pairs.setdefault(file_id, []).append((position, at))
        deletes: dict[int, list[Deletes]] = {}
        for each in feed.positions.files:
            deletes.setdefault(each.data_file_id, []).append(
                Deletes(_place(each.path), each.key, each.begin_snapshot)
            )

        def read(file: FeedFile) -> ReadFile:
            source = Source(_place(file.path), file.begin_snapshot, file.row_id_start, key=file.key)
            known = None if file.mapping_id is None else names[file.mapping_id]
            return ReadFile(
                _with_names(source, known, layouts.columns(file.begin_snapshot)),
                layouts.number(file.begin_snapshot),
                tuple(deletes.get(file.data_file_id, ())),
                end_snapshot=file.end_snapshot,
            )

        tables = {table.table_name: table for table in self.plan.inlined}
        new = [self._stream(rows.inserted, tables[name]) for name, rows in feed.inlined.items()]
        old = [self._stream(rows.deleted, tables[name]) for name, rows in feed.inlined.items()]
        task = FeedTask(
            tuple(map(read, feed.inserted)),
            tuple(map(read, feed.deleted)),
            tuple(tuple(pairs.get(file.data_file_id, ())) for file in feed.deleted),
            tuple(stream for stream in new if stream is not None),
            tuple(stream for stream in old if stream is not None),
        )
        columns = self.plan.table.columns
        scan = FeedScan(
            layouts.made(),
            tuple(_given(column, i) for i, column in enumerate(columns)),
            arrow_schema(feed_schema(columns)).serialize().to_pybytes(),
            feed.range.first,
            feed.range.last,
        )
        return scan, task

    def _stream(self, rows: Sequence[Row], table: InlinedTable) -> bytes | None:
        """Rows that the catalog keeps as an Arrow stream; None if there are none."""
        if not rows:
            return None
        found = decode(rows, table, self.plan.table.columns, CHOICES)
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, found.schema) as writer:
            writer.write_table(found)
        data: bytes = sink.getvalue().to_pybytes()
        return data


class _Layouts:
    """The ways in which files are read, by the snapshot at which they began; most snapshots changed no column."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan
        self._columns: dict[int, Mapping[int, ColumnDef]] = {}
        self._numbers: dict[Layout, int] = {}

    def columns(self, begin: int) -> Mapping[int, ColumnDef]:
        if begin not in self._columns:
            self._columns[begin] = {column.column_id: column for column in self._plan.columns_at(begin)}
        return self._columns[begin]

    def number(self, begin: int) -> int:
        return self._numbers.setdefault(self._layout(begin), len(self._numbers))

    def made(self) -> tuple[Layout, ...]:
        return tuple(self._numbers)

    def _layout(self, begin: int) -> Layout:
        then = self.columns(begin)
        nodes: list[FileNode] = []
        values: list[str] = []
        for column in self._plan.table.columns:
            old = then.get(column.column_id)
            if old is None:
                values.append(carried_value(default_sql(column, CHOICES), column, CHOICES))
                continue
            value = f"__c{len(nodes)}"
            defaults = {node.column_id: node.initial_default for node in column.walk()}
            nodes.append(file_node(old, defaults))
            if column.type == "variant":
                values.append(_variant(f"CAST({value} AS VARIANT)", value))
            elif column.type == "geometry":
                values.append(f"ST_AsWKB({value})")
            else:
                values.append(carried_value(value_sql(value, old, column, CHOICES), column, CHOICES))
        return Layout(tuple(nodes), tuple(values))


def _variant(sql: str, source: str) -> str:
    return f"CASE WHEN {source} IS NOT NULL THEN variant_to_parquet_variant({sql}) END"


def _given(column: ColumnDef, place: int) -> str:
    """A column of decoded rows, as it is handed over."""
    name = f"u{place}"
    return _variant(f"CAST(CAST({name} AS JSON) AS VARIANT)", name) if column.type == "variant" else name


def _with_names(source: Source, names: NameMap | None, columns: Mapping[int, ColumnDef]) -> Source:
    if names is None:
        return source
    constants = {
        column_id: path_value(source.path, key, duckdb_name(columns[column_id].data_type))
        for column_id, key in names.partitions.items()
        if column_id in columns
    }
    return Source(
        source.path,
        source.begin_snapshot,
        source.row_id_start,
        names.sources,
        constants,
        deleted=source.deleted,
        key=source.key,
    )


def path_value(path: str, key: str, type_: str) -> str:
    """SQL for a value that stands in the folders of a file, `key=value`, in a type of DuckDB's."""
    for folder in path.split("/")[:-1]:
        name, is_pair, value = folder.partition("=")
        if is_pair and unquote(name).lower() == key.lower():
            text = unquote(value)
            return f"CAST({'NULL' if text == NULL_FOLDER else text_literal(text)} AS {type_})"
    return f"CAST(NULL AS {type_})"


def _place(path: str) -> str:
    return local_path(path) or path
