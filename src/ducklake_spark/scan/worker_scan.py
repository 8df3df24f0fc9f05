"""Files that DuckDB must read in the workers, as a relation: what `spark/file_index.py` is for all other files.

Such are encrypted files. Their columns arrive in the types of the table as it is now, whatever the age of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyspark.sql.types as spark_types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from ducklake_spark.errors import FileError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.names import ticked
from ducklake_spark.format.types import duckdb_name, text_literal
from ducklake_spark.scan.inlined import carried_sql, default_sql, value_sql
from ducklake_spark.scan.planning.plan import ScanPlan
from ducklake_spark.scan.planning.sources import RowSource
from ducklake_spark.scan.projection.column import FIELD_ID, ROW_ID_FIELD, SNAPSHOT_ID_FIELD
from ducklake_spark.scan.projection.types import TypeChoices, is_direct
from ducklake_spark.scan.pruning.predicate import parse
from ducklake_spark.scan.pruning.worker_filter import sql_of
from ducklake_spark.spark.errors import remember_files
from ducklake_spark.spark.file_checks import require_whole
from ducklake_spark.spark.file_index import FileSource, IndexedFile, empty_frame
from ducklake_spark.spark.pruned_scan import pruned
from ducklake_spark.spark.worker_functions import map_in_arrow, require_workers
from ducklake_spark.storage import local_path
from ducklake_spark.workers.file_columns import FileNode
from ducklake_spark.workers.file_scan import FileScan, ScannedColumn, ScannedFile, SourceColumns
from ducklake_spark.workers.object_store import NOWHERE, is_remote

_SOURCE = SourceColumns("__ducklake_own_path", "__ducklake_own_position", "__ducklake_own_code")
_LONG = spark_types.LongType()
_File = TypeVar("_File")
_TASK_BYTES, _FILE_BYTES = 128 << 20, 4 << 20
"""What a task reads about, and what it costs to open one more file: as Spark reckons with its own scans."""


@dataclass(frozen=True)
class WorkerRelation:
    """Files of a table for a scan in the workers.

    Args:
        plan: The table at its snapshot.
        source: Its files, with their keys.
        schema: The columns to read: those of the table, and others by field id, or by name if they have none.
    """

    plan: ScanPlan
    source: FileSource
    schema: spark_types.StructType

    @property
    def title(self) -> str:
        return self.source.title

    @property
    def token(self) -> str:
        return f"{self.source.token} {self.schema.json()}"

    @property
    def size(self) -> int:
        return self.source.size

    def frame(self, spark: SparkSession) -> tuple[DataFrame, RowSource]:
        """A DataFrame over the files, and where its rows come from."""
        require_workers(spark)
        made = pruned(spark, self, self._whole_schema())
        return made, RowSource(_SOURCE.path, _SOURCE.position, _SOURCE.code, is_added=True)

    def _whole_schema(self) -> spark_types.StructType:
        source = [
            spark_types.StructField(_SOURCE.path, spark_types.StringType()),
            spark_types.StructField(_SOURCE.position, _LONG),
            spark_types.StructField(_SOURCE.code, _LONG),
        ]
        plain = [spark_types.StructField(part.name, part.dataType) for part in self.schema.fields]
        return spark_types.StructType(plain + source)

    def scan(self, spark: SparkSession, columns: Sequence[str], filters: Sequence[Any]) -> DataFrame:
        """The rows that filters may keep, with these columns only. Lists the files."""
        files = self.source.files(filters)
        require_whole(files, self.title)
        remember_files((file.path for file in files), self.title)
        whole = {part.name: part for part in self._whole_schema().fields}
        read = spark_types.StructType([whole[name] for name in (columns or [_SOURCE.position])])
        if not files:
            return empty_frame(spark, read).select(*map(ticked, columns))
        by_begin: dict[int | None, int] = {}
        for file in files:
            by_begin.setdefault(file.begin_snapshot, len(by_begin))
        layouts = [self._layout(begin) for begin in by_begin]
        # Most snapshots changed nothing about columns.
        distinct = list(dict.fromkeys(layouts))
        places = {begin: distinct.index(layouts[i]) for begin, i in by_begin.items()}
        tasks = _tasks(spark, [(self._file(file, places), file.size) for file in files])
        work = FileScan(
            tasks,
            tuple(distinct),
            tuple(read.names),
            _SOURCE,
            to_arrow_schema(read, timezone="UTC", prefers_large_types=False).serialize().to_pybytes(),
            self._condition(filters, read.names),
            self.plan.lake.reach() if any(is_remote(file.path) for file in files) else NOWHERE,
        )
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        return map_in_arrow(numbers, work, read).select(*map(ticked, columns))

    def _file(self, file: IndexedFile, places: Mapping[int | None, int]) -> ScannedFile:
        if file.key is None:
            raise FileError(
                f"{self.title} has a file without a key: {file.path}. The lake is encrypted, so that every file of "
                "it must have one in the catalog."
            )
        return ScannedFile(
            local_path(file.path) or file.path, file.code, places[file.begin_snapshot], file.key
        )

    def _layout(self, begin: int | None) -> tuple[ScannedColumn, ...]:
        """How the columns are made of files that began at a snapshot; None for files that are not committed."""
        now = {column.column_id: column for column in self.plan.table.columns}
        then = now if begin is None else {c.column_id: c for c in self.plan.columns_at(begin)}
        return tuple(self._column(part, now, then) for part in self.schema.fields)

    def _column(
        self,
        part: spark_types.StructField,
        now: Mapping[int, ColumnDef],
        then: Mapping[int, ColumnDef],
    ) -> ScannedColumn:
        field_id = part.metadata.get(FIELD_ID)
        if field_id is None:
            return ScannedColumn(part.name, "CAST(NULL AS BIGINT)", by_name=True)
        if field_id in (ROW_ID_FIELD, SNAPSHOT_ID_FIELD):
            return ScannedColumn(part.name, "__c", FileNode(field_id, part.name, "", "BIGINT"))
        choices, column = self.plan.choices, now[field_id]
        old = then.get(field_id)
        if old is None:
            return ScannedColumn(part.name, carried_value(default_sql(column, choices), column, choices))
        if column.type == "variant":
            made = "CASE WHEN __c IS NOT NULL THEN variant_to_parquet_variant(CAST(__c AS VARIANT)) END"
        elif column.type == "geometry":
            made = "ST_AsWKB(__c)"
        else:
            made = carried_value(value_sql("__c", old, column, choices), column, choices)
        defaults = {node.column_id: node.initial_default for node in column.walk()}
        return ScannedColumn(part.name, made, file_node(old, defaults))

    def _condition(self, filters: Sequence[Any], read: Sequence[str]) -> str | None:
        """What of the filters DuckDB can evaluate on the columns that it gives."""
        columns = {
            part.name: column
            for part in self.schema.fields
            for column in self.plan.table.columns
            if part.metadata.get(FIELD_ID) == column.column_id
        }
        exact = frozenset(c.column_id for c in columns.values() if is_direct(c.data_type))
        names = {column.column_id: name for name, column in columns.items() if name in read}
        predicate = parse(filters, columns, exact)
        return sql_of(predicate, lambda column: names.get(column.column_id))


def carried_value(sql: str, column: ColumnDef, choices: TypeChoices) -> str:
    """A value in the type in which it leaves DuckDB."""
    # DuckDB has no types for NULLs that it computes before it runs: list_transform(NULL, ...) is an integer.
    return f"CAST({sql} AS {carried_sql(column, choices)})"


def file_node(column: ColumnDef, defaults: Mapping[int, str | None]) -> FileNode:
    """A column as a file of its age has it; `defaults` are the texts of initial defaults by column id."""
    kind = column.type if column.children else ""
    default, type_ = defaults.get(column.column_id), duckdb_name(column.data_type)
    return FileNode(
        column.column_id,
        column.name,
        kind,
        type_,
        None if default is None else f"CAST({text_literal(default)} AS {type_})",
        default,
        tuple(file_node(child, defaults) for child in column.children),
    )


def _tasks(
    spark: SparkSession, files: Iterable[tuple[ScannedFile, int]]
) -> tuple[tuple[ScannedFile, ...], ...]:
    context = getattr(spark, "_sc", None)
    return dealt(files, int(context.defaultParallelism) if context is not None else 1)


def dealt(files: Iterable[tuple[_File, int]], wanted: int) -> tuple[tuple[_File, ...], ...]:
    """The files dealt to tasks: the largest first, each to the task that has least to do."""
    ordered = sorted(files, key=lambda pair: -pair[1])
    total = sum(size + _FILE_BYTES for _, size in ordered)
    count = min(len(ordered), max(wanted, -(-total // _TASK_BYTES)))
    tasks: list[list[_File]] = [[] for _ in range(count)]
    loads = [0] * count
    for file, size in ordered:
        least = loads.index(min(loads))
        tasks[least].append(file)
        loads[least] += size + _FILE_BYTES
    return tuple(map(tuple, tasks))
