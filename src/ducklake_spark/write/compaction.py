"""Files become other files: groups of them are given to Spark's tasks, and what these wrote is described.

The rows pass no JVM and do not come to the driver: a task reads and writes with DuckDB.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from ducklake_spark.errors import FileError
from ducklake_spark.format import paths
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.compaction import (
    Candidate,
    CompactedFile,
    CompactedGroup,
    CompactionKind,
    Group,
    SourceFile,
    are_adjacent,
)
from ducklake_spark.format.data import DataFile, joined
from ducklake_spark.format.encryption import FileKey
from ducklake_spark.format.objects import MacroDef, MacroParameter, TableDef
from ducklake_spark.format.statistics import WIDE_INTEGERS
from ducklake_spark.format.types import (
    DataType,
    List,
    Map,
    Scalar,
    Struct,
    duckdb_name,
    parse_type,
    quote,
    text_literal,
)
from ducklake_spark.scan.projection.column import NameMap
from ducklake_spark.scan.worker_tasks import path_value
from ducklake_spark.spark.errors import task_failure
from ducklake_spark.spark.worker_functions import map_in_arrow, require_workers
from ducklake_spark.workers.compaction import (
    CompactionTasks,
    JoinTasks,
    Order,
    Rewriting,
    Work,
)
from ducklake_spark.workers.duckdb_encoder import hive_folder
from ducklake_spark.workers.file_columns import FileNode
from ducklake_spark.workers.file_rows import Source
from ducklake_spark.workers.object_store import Access, is_remote
from ducklake_spark.workers.parquet_source import MISSING
from ducklake_spark.write import data_files
from ducklake_spark.write.encoders.encoding import (
    field_id,
    file_encoding,
    require_level,
    require_writable_types,
)
from ducklake_spark.write.expressions import stored_type
from ducklake_spark.write.failures import explained
from ducklake_spark.write.files import job_folder
from ducklake_spark.write.partitioning.keys import encoded_keys
from ducklake_spark.write.target import Target, place_of

_ONE_FILE = 1 << 60
"""A size that no file reaches."""
_MOST_TASKS = 2_000
_SMALLEST_PART = 16 << 20
"""Bytes that a task should have to do; more tasks than that would cost more than they save."""
_HERE = 256 << 20
"""Bytes that this process puts together by itself."""
_NUMBER = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Deletes:
    """What is deleted from a file: a delete file, whole path, and positions that the catalog keeps; the file's key."""

    delete_file: str | None = None
    positions: tuple[int, ...] = ()
    key: FileKey | None = None


@dataclass(frozen=True)
class Compaction:
    """Moves rows of a table to other files.

    Attributes:
        target: The table as it is now, whose options count.
        kind: Whether files are merged or rewritten.
        tables: The table as it was, by schema version.
        names: The name maps of files, by id.
        deletes: What is deleted from files, by id.
        macros: The lake's functions, which sort keys may call.
    """

    target: Target
    kind: CompactionKind
    tables: Mapping[int, TableDef]
    names: Mapping[int, NameMap] = field(default_factory=dict)
    deletes: Mapping[int, Deletes] = field(default_factory=dict)
    macros: Sequence[MacroDef] = ()

    def run(self, groups: Sequence[Group], spark: SparkSession) -> tuple[CompactedGroup, ...]:
        """Writes the files of all groups. They go with the transaction if that does not commit."""
        require_level(self.target)
        for table in self.tables.values():
            require_writable_types(table)
        require_workers(spark)
        with job_folder(self.target) as job:
            layouts = sorted({(group[0].schema_version, group[0].is_exact) for group in groups})
            access = self.target.access(self._stored(groups))
            rewritings = tuple(self._rewriting(version, exact, job, access) for version, exact in layouts)
            parts = [self._parts(group, _parallelism(spark) // len(groups)) for group in groups]
            results = self._results(parts, layouts, rewritings, spark)
            return tuple(
                self._compacted(group, result) for group, result in zip(groups, results, strict=True)
            )

    def _parts(self, group: Group, wanted: int) -> list[Group]:
        """A large group in parts that several tasks write, in the order of its rows; one where rows are sorted."""
        columns = self.tables[group[0].schema_version].columns
        size = sum(file.live_bytes for file in group)
        # Variants are shredded otherwise in each part, so that parts cannot be put together again.
        # Nor can those of encrypted files, which have keys of their own.
        is_whole = self.target.table.sorting is not None or self.target.is_encrypted
        if is_whole or any(column.type == "variant" for column in columns):
            return [group]
        wanted = min(wanted, size // _SMALLEST_PART, len(group))
        if wanted <= 1:
            return [group]
        parts: list[list[Candidate]] = [[]]
        done = 0
        for file in group:
            if parts[-1] and done >= len(parts) * size / wanted:
                parts.append([])
            parts[-1].append(file)
            done += file.live_bytes
        return [tuple(part) for part in parts]

    def _results(
        self,
        parts: Sequence[Sequence[Group]],
        layouts: Sequence[tuple[int, bool]],
        rewritings: tuple[Rewriting, ...],
        spark: SparkSession,
    ) -> list[_Result]:
        """Writes the parts of each group, and puts them together."""
        work = {
            (number, place): Work(
                layouts.index((part[0].schema_version, part[0].is_exact)),
                tuple(self._source(file) for file in part),
                may_omit_row_ids=self._may_omit_row_ids([file for each in group for file in each]),
                inner=partition_folder(self.target, part),
            )
            for number, group in enumerate(parts)
            for place, part in enumerate(group)
        }
        done: dict[tuple[int, int], dict[str, Any]] = {}
        while len(done) < len(work):
            left = [key for key in work if key not in done]
            tasks = CompactionTasks(rewritings, tuple(work[key] for key in left))
            found = explained(self.target, functools.partial(_run, tasks, spark))
            done |= {key: found[i] for i, key in enumerate(left)}
            for number, group in enumerate(parts):
                own = [(number, place) for place in range(len(group))]
                if any(done[key]["row_ids"] for key in own) and not all(done[key]["row_ids"] for key in own):
                    # Some files had row ids of their own: then all rows must have them.
                    for key in [key for key in own if not done[key]["row_ids"]]:
                        work[key] = replace(work[key], may_omit_row_ids=False)
                        del done[key]
        results = [
            _Result(
                done[number, 0]["row_ids"],
                [part for place in range(len(group)) if (part := done[number, place])["path"] is not None],
            )
            for number, group in enumerate(parts)
        ]
        explained(self.target, lambda: _join(results, spark, self.target.access()))
        return results

    def _may_omit_row_ids(self, group: Sequence[Candidate]) -> bool:
        # The extension omits them from sorted files too, and so gives rows the ids of others.
        return self.kind is CompactionKind.MERGE and self.target.table.sorting is None and are_adjacent(group)

    def _stored(self, groups: Sequence[Group]) -> Iterator[str]:
        """Where the files are that are read."""
        for file in (file for group in groups for file in group):
            yield paths.join(self.target.folder, file.path, file.path_is_relative)
            deletes = self.deletes.get(file.data_file_id)
            if deletes is not None and deletes.delete_file is not None:
                yield deletes.delete_file

    def _rewriting(self, version: int, is_exact: bool, job: str, access: Access) -> Rewriting:
        table = replace(self.tables[version], partitioning=None, sorting=None)
        encoding = file_encoding(replace(self.target, table=table, has_row_ids=False), (), job)
        return Rewriting(
            replace(
                encoding,
                copy_options=file_encoding(self.target, (), job).copy_options,
                target_file_size=_ONE_FILE,
                access=access,
            ),
            tuple(_node(column, is_exact, self.target.is_encrypted) for column in table.columns),
            tuple(field_id(column) for column in table.columns),
            with_snapshots=self.kind is CompactionKind.MERGE,
            order=_order(self.target.table, table, self.macros),
        )

    def _source(self, file: Candidate) -> Source:
        deletes = self.deletes.get(file.data_file_id, Deletes())
        whole = paths.join(self.target.folder, file.path, file.path_is_relative)
        source = Source(
            place_of(whole),
            file.begin_snapshot,
            file.row_id_start,
            delete_file=None if deletes.delete_file is None else place_of(deletes.delete_file),
            deleted=deletes.positions,
            key=file.key,
            delete_key=deletes.key,
        )
        if file.mapping_id is None:
            return source
        names = self.names[file.mapping_id]
        columns = {column.column_id: column for column in self.tables[file.schema_version].columns}
        constants = {
            column_id: path_value(whole, key, _file_type(columns[column_id].data_type, file.is_exact))
            for column_id, key in names.partitions.items()
            if column_id in columns
        }
        return replace(source, names=names.sources, constants=constants)

    def _compacted(self, group: Group, result: _Result) -> CompactedGroup:
        sources = tuple(scheduled(self.target, file) for file in group)
        if not result.parts:
            return CompactedGroup(sources, ())
        table = self.tables[group[0].schema_version]
        described = [self._described(group, part) for part in result.parts]
        if result.sizes is not None:
            size, footer = result.sizes
            whole = joined(described, table.columns)
            described = [replace(whole, file_size_bytes=size, footer_size=footer)]
        is_merge = self.kind is CompactionKind.MERGE
        begin = min(each.begin_snapshot for each in group) if is_merge else None
        last = max(each.last_snapshot for each in group) if is_merge else None
        start = None if result.has_row_ids else group[0].row_id_start
        files = []
        for part, file in zip(result.parts, described, strict=False):
            moved = replace(
                data_files.moved_in(self.target, part["path"], file),
                partition_id=group[0].partition_id,
                has_row_ids=result.has_row_ids,
                row_id_start=start,
            )
            files.append(CompactedFile(moved, begin, last))
            start = None if start is None else start + file.record_count
        return CompactedGroup(sources, tuple(files))

    def _described(self, group: Group, part: Mapping[str, Any]) -> DataFile:
        first = group[0]
        info = {
            **part["info"],
            "values": list(first.partition_values),
            "folder": partition_folder(self.target, group),
        }
        table = self.tables[first.schema_version]
        described = data_files.described(replace(self.target, table=table), part["path"], info)
        if first.is_exact:
            return described
        wide = {node.column_id for c in table.columns for node in c.walk() if node.type in WIDE_INTEGERS}
        return replace(
            described,
            columns=tuple(
                replace(stats, contains_nan=None, min_value=None, max_value=None)
                if stats.column_id in wide
                else stats
                for stats in described.columns
            ),
        )


def scheduled(target: Target, file: Candidate) -> SourceFile:
    """A file as `files_scheduled_for_deletion` names it."""
    whole = paths.join(target.folder, file.path, file.path_is_relative)
    return SourceFile(file.data_file_id, *paths.relative_to(target.data_path, whole))


def partition_folder(target: Target, group: Group) -> str:
    """The folder of a partition, as the extension names it; for one of older keys, that of its files."""
    first, table = group[0], target.table
    if first.partition_id is None or not target.has_hive_folders:
        return ""
    if table.partitioning is not None and table.partitioning.partition_id == first.partition_id:
        return hive_folder(encoded_keys(table), first.partition_values)
    inside = next((os.path.dirname(file.path) for file in group if file.path_is_relative), "")
    return f"{inside}/" if inside else ""


def in_partition(target: Target, file: DataFile, group: Group) -> DataFile:
    """A new file of the table moved to the partition of older ones."""
    folder = partition_folder(target, group)
    moved = replace(file, partition_id=group[0].partition_id, partition_values=group[0].partition_values)
    if not folder:
        return moved
    path = folder + os.path.basename(file.path)
    whole = os.path.join(place_of(target.folder), path)
    target.tx.written.append(whole)
    if target.is_remote:
        explained(target, lambda: target.access().move(file.whole_path, whole))
    else:
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        os.replace(file.whole_path, whole)
    return replace(moved, path=path, whole_path=whole)


@dataclass
class _Result:
    """What became of a group: the parts that were written, and the sizes of the first one if it now has all rows."""

    has_row_ids: bool
    parts: list[dict[str, Any]]
    sizes: tuple[int, int] | None = None


def _join(results: Sequence[_Result], spark: SparkSession, access: Access) -> None:
    """Puts the parts of groups together; here, or in Spark's tasks where there is much to copy."""
    several = [result for result in results if len(result.parts) > 1]
    tasks = JoinTasks(tuple(tuple(part["path"] for part in result.parts) for result in several), access)
    if sum(part["info"]["size"] for result in several for part in result.parts) <= _HERE:
        sizes = {number: tasks.joined(number) for number in range(len(several))}
    else:
        numbers = spark.range(0, len(several), 1, len(several))
        rows = map_in_arrow(numbers, tasks, "number bigint, result string").collect()
        sizes = {number: json.loads(result) for number, result in rows}
    for number, result in enumerate(several):
        found = sizes[number]
        if found is None:
            continue
        result.sizes = (found[0], found[1])
        access.remove(part["path"] for part in result.parts if is_remote(part["path"]))
        result.parts[0]["path"] = found[2]


def _parallelism(spark: SparkSession) -> int:
    """How many tasks run at once; Connect does not say."""
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else 1


def _run(tasks: CompactionTasks, spark: SparkSession) -> dict[int, dict[str, Any]]:
    """The results by the number of the work; the largest first, so that no task is the last one for long."""
    order = sorted(range(len(tasks.work)), key=lambda i: -len(tasks.work[i].sources))
    tasks = replace(tasks, work=tuple(tasks.work[i] for i in order))
    numbers = spark.range(0, len(order), 1, min(len(order), _MOST_TASKS))
    try:
        rows = map_in_arrow(numbers, tasks, "number bigint, result string").collect()
    except Exception as error:
        failure = task_failure(str(error))
        if failure is not None and failure.get("reason") == MISSING:
            raise FileError(
                f"The data file {failure.get('value')} is missing, so its rows cannot be compacted. Nothing was "
                "written: restore the file from a backup, or delete its rows."
            ) from None
        raise
    return {order[number]: json.loads(result) for number, result in rows}


def _node(column: ColumnDef, is_exact: bool, is_encrypted: bool) -> FileNode:
    kind = column.type if column.children else ""
    type_ = _file_type(column.data_type, is_exact)
    default = column.initial_default
    return FileNode(
        column.column_id,
        column.name,
        kind,
        type_,
        None if default is None else f"CAST({text_literal(default)} AS {type_})",
        children=tuple(_node(child, is_exact, is_encrypted) for child in column.children),
        default_text=default if is_encrypted else None,
    )


def _file_type(data_type: DataType, is_exact: bool) -> str:
    """The type of a column in the file. The extension keeps 128-bit integers as doubles, we as decimals."""
    if is_exact:
        return stored_type(data_type)
    match data_type:
        case Scalar("int128" | "uint128"):
            return "DOUBLE"
        case List(element):
            return _file_type(element, is_exact) + "[]"
        case Map(key, value):
            return f"MAP({_file_type(key, is_exact)}, {_file_type(value, is_exact)})"
        case Struct(fields):
            parts = (f"{quote(name)} {_file_type(part, is_exact)}" for name, part in fields)
            return f"STRUCT({', '.join(parts)})"
        case _:
            return duckdb_name(data_type)


def _order(table: TableDef, then: TableDef, macros: Sequence[MacroDef]) -> Order | None:
    """The table's present order, for rows with the columns that it had then."""
    keys = [key for key in table.sorting.keys if key.dialect == "duckdb"] if table.sorting else []
    if not keys:
        return None
    places = {column.column_id: i for i, column in enumerate(then.columns)}
    columns = []
    for column in table.columns:
        type_ = duckdb_name(column.data_type)
        if column.column_id in places:
            columns.append((column.name, f"CAST(__c{places[column.column_id]} AS {type_})"))
        else:
            default = column.initial_default
            value = "NULL" if default is None else text_literal(default)
            columns.append((column.name, f"CAST({value} AS {type_})"))
    return Order(
        tuple(columns),
        tuple((key.expression, f"{key.direction} {key.null_order.replace('_', ' ')}") for key in keys),
        tuple(_macro_statements(macros)),
    )


def _macro_statements(macros: Iterable[MacroDef]) -> Iterable[str]:
    """The lake's own functions. One may call another: DuckDB looks at that only when it is called."""
    for macro in macros:
        if macro.is_table:
            continue
        overloads = []
        for impl in macro.impls:
            parameters = ", ".join(map(_parameter, impl.parameters))
            overloads.append(f"({parameters}) AS {impl.sql}")
        yield f"CREATE OR REPLACE TEMP MACRO {quote(macro.name)} {', '.join(overloads)}"


def _parameter(parameter: MacroParameter) -> str:
    text = quote(parameter.name)
    if parameter.type not in ("", "unknown"):
        text += f" {duckdb_name(parse_type(parameter.type))}"
    if parameter.default_value is None:
        return text
    is_number = parameter.default_value_type != "varchar" and _NUMBER.fullmatch(parameter.default_value)
    return f"{text} := {parameter.default_value if is_number else text_literal(parameter.default_value)}"
