"""`insert`: rows from a DataFrame, Arrow, pandas or Python become files or inlined rows of a transaction."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyspark.sql.types as spark_types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ducklake_spark import storage
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.errors import DuckLakeError, FileError, InvalidInputError, did_you_mean, shortened
from ducklake_spark.format import duckdb_sql, paths
from ducklake_spark.format.columns import ColumnDef, find
from ducklake_spark.format.data import DataFile, joined
from ducklake_spark.format.edits import InlineRows, InsertFiles
from ducklake_spark.format.objects import SchemaDef, TableDef, is_local, uuid7
from ducklake_spark.format.options import DEFAULT_TARGET_FILE_SIZE, HIGHEST_LEVEL
from ducklake_spark.format.statistics import WIDE_INTEGERS, ColumnStats, geometry_stats
from ducklake_spark.format.types import duckdb_name, quote, text_literal
from ducklake_spark.scan.projection.column import ROW_ID_FIELD, ROW_ID_NAME
from ducklake_spark.spark.worker_functions import map_in_arrow, require_workers
from ducklake_spark.spark.writer import in_own_session, is_classic_frame, max_rows
from ducklake_spark.workers import parquet_concat as concat
from ducklake_spark.workers.duckdb_encoder import FAILURE_MARK, NULL_REASON, EncodedColumn, Encoding
from ducklake_spark.workers.packing import Packing, WrittenFile
from ducklake_spark.write.encoders import spark_encoder
from ducklake_spark.write.encoders.packing import Packed, pack
from ducklake_spark.write.encoders.variants import variant_column_stats
from ducklake_spark.write.expressions import carried, check_assignable, nullable, stored_sql
from ducklake_spark.write.inline import inline_rows, misfit_error, not_null_error
from ducklake_spark.write.local import LocalRows, local_rows
from ducklake_spark.write.partitioning.keys import encoded_keys, together

_ONE_TASK = 10_000
"""Rows that are surely no more than these are written by one task: a file each of several would be too small."""
_RESULT = "path string, info string"
_COUNTED = ("timetz", "interval", "variant")
"""Types whose NULLs DuckDB's statistics do not count."""


@dataclass(frozen=True)
class Target:
    """Where rows go: the table as the transaction sees it, and the lake's data path."""

    tx: Transaction
    schema: SchemaDef
    table: TableDef
    data_path: str
    has_row_ids: bool = False
    """Whether the rows are new versions of old ones: they bring their row ids in the column `ROW_ID_NAME`."""
    always_files: bool = False
    """Whether even few rows become files, because their partition values must be known."""

    @property
    def folder(self) -> str:
        """The table's folder, whole."""
        parent = paths.join(self.data_path, self.schema.path, self.schema.path_is_relative)
        return paths.join(parent, self.table.path, self.table.path_is_relative)

    @property
    def inline_limit(self) -> int:
        """Up to how many rows go into the catalog."""
        table = self.table
        if self.always_files or not self.tx.can_inline(table):
            return 0
        return self.tx.options.inlining_limit(schema_id=table.schema_id, table_id=table.table_id)

    def option(self, key: str) -> str | None:
        """An option in force for the table."""
        return self.tx.options.get(key, schema_id=self.table.schema_id, table_id=self.table.table_id)


T = TypeVar("T")
Fields = Sequence[tuple[str, spark_types.DataType]]


Added = InsertFiles | InlineRows | None
"""What an insert changes; None when there are no rows."""


def row_count(added: Added) -> int:
    """How many rows a change adds."""
    match added:
        case InsertFiles(_, files):
            return sum(file.record_count for file in files)
        case InlineRows(_, batch):
            return batch.record_count
        case None:
            return 0


def rows_to_add(target: Target, source: Any) -> Added:
    """The change that adds rows. Files are written now, and removed with the transaction if it does not commit.

    Args:
        target: Where to.
        source: A DataFrame, an Arrow table, a pandas DataFrame, or rows as dicts, tuples or Rows.
    """
    if target.option("encrypted") == "true":
        raise DuckLakeError(
            f'Cannot write rows to table "{target.table.name}": its lake is encrypted, and writing to it needs a later '
            "version. Write with DuckDB."
        )
    _require_level(target)
    if isinstance(source, DataFrame) or type(source).__module__.startswith("pyspark.sql.connect"):
        return _insert_frame(target, source)
    if not isinstance(source, LocalRows):
        source = local_rows(target.table, source)
    return _insert_local(target, source)


def _insert_local(target: Target, local: LocalRows) -> Added:
    """Rows that are here already need no Spark job: this process writes them."""
    _values(target, local.fields, local.partial)
    if local.table.num_rows == 0:
        return None
    if local.table.num_rows <= target.inline_limit:
        return _inline(target, local.table, local.fields, local.partial)
    with _job(target) as job:
        encoding = _encoding(target, local.fields, job, 0, local.partial)
        return _added_files(target, _explained(target, lambda: list(_results(encoding(local.batches())))))


def _insert_frame(target: Target, frame: Any) -> Added:
    fields = [(part.name, part.dataType) for part in frame.schema.fields]
    if not fields:
        raise InvalidInputError(f'The DataFrame for table "{target.table.name}" has no columns.')
    places = _places(target, fields)
    # By place: names may have dots in them, or differ by case only.
    renamed = frame.toDF(*[f"c{i}" for i in range(len(fields))])
    targets = {place: column for column, place in places.items()}
    columns = []
    for i, (name, part) in enumerate(fields):
        column, travels = F.col(f"c{i}"), part
        if i in targets:
            wanted = targets[i].data_type
            check_assignable(part, wanted, f'"{target.table.name}.{targets[i].name}"')
            column, travels = carried(column, part, wanted)
        columns.append(column.alias(f"c{i}"))
        fields[i] = (name, travels)
    prepared = renamed.select(*columns)
    limit, known = target.inline_limit, max_rows(frame)
    if limit and 0 <= known <= limit:
        # As if every part could be NULL: parts of a NULL struct are, whatever its type says, and Arrow refuses that.
        loose = [F.col(f"c{i}").cast(nullable(part)).alias(f"c{i}") for i, (_, part) in enumerate(fields)]
        local = prepared.select(*loose).toArrow()
        return _inline(target, local, fields) if local.num_rows else None
    if 0 <= known <= _ONE_TASK:
        prepared = prepared.coalesce(1)
    return _write_files(target, prepared, fields, limit)


def _places(target: Target, fields: Fields) -> dict[ColumnDef, int]:
    """By column of the table, the place of its values in the rows.

    Raises:
        InvalidInputError: A column is unknown, or there twice.
    """
    table = target.table
    places: dict[ColumnDef, int] = {}
    for position, (name, _) in enumerate(fields):
        if target.has_row_ids and name == ROW_ID_NAME:
            continue
        column = find(table.columns, name)
        if column is None:
            near = did_you_mean(name, [column.name for column in table.columns])
            raise InvalidInputError(
                f'Table "{table.name}" has no column "{name}".{near} Drop it, or insert with '
                "merge_schema=True to add it."
            )
        if column in places:
            raise InvalidInputError(f'The rows for table "{table.name}" have two columns named "{name}".')
        places[column] = position
    return places


def _values(target: Target, fields: Fields, partial: frozenset[int] = frozenset()) -> list[str]:
    """For each column of the table, the SQL of the value to store over `c0`, `c1` ..."""
    table, places = target.table, _places(target, fields)
    values = []
    for column in table.columns:
        place = places.get(column)
        if place is None:
            values.append(_default_value(column))
            continue
        source = fields[place][1]
        check_assignable(source, column.data_type, f'"{table.name}.{column.name}"')
        value = stored_sql(f"c{place}", source, column.data_type)
        if place in partial:
            value = f"CASE WHEN m{place} THEN {value} ELSE {_default_value(column)} END"
        values.append(value)
    return values


def _default_value(column: ColumnDef) -> str:
    name = duckdb_name(column.data_type)
    if column.default_value is None:
        return f"CAST(NULL AS {name})"
    if column.default_value_type != "expression":
        return f"CAST({text_literal(column.default_value)} AS {name})"
    return f"CAST({duckdb_sql.once_or_per_row(column.default_value)} AS {name})"


def _inline(target: Target, local: pa.Table, fields: Fields, partial: frozenset[int] = frozenset()) -> Added:
    batch = inline_rows(target.table, local, _values(target, fields, partial), target.tx.store.kind)
    if target.has_row_ids:
        batch = replace(batch, row_ids=tuple(local.column(_row_id_column(fields)).to_pylist()))
    return InlineRows(target.table, batch)


def _row_id_column(fields: Fields) -> str:
    return f"c{[name for name, _ in fields].index(ROW_ID_NAME)}"


def local_path(path: str) -> str:
    """A path of this machine.

    Raises:
        DuckLakeError: It is in an object store, to which workers cannot write.
    """
    path = storage.local_path(path) or path
    if "://" in path:
        raise DuckLakeError(
            f"Cannot write to {path}: data files are written to folders that all workers see; object stores are not "
            "among them in this version."
        )
    return os.path.abspath(path)


def _encoding(
    target: Target, fields: Fields, folder: str, limit: int, partial: frozenset[int] = frozenset()
) -> Encoding:
    table = target.table
    _require_writable_types(table)
    places = {column.column_id: place for column, place in _places(target, fields).items()}
    columns = tuple(
        EncodedColumn(column.name, value, not column.nulls_allowed, _arriving(places.get(column.column_id)))
        for column, value in zip(table.columns, _values(target, fields, partial), strict=True)
    )
    if target.has_row_ids:
        columns += (EncodedColumn(ROW_ID_NAME, f"CAST({_row_id_column(fields)} AS BIGINT)"),)
    return replace(_file_encoding(target, columns, folder), inline_limit=limit)


def _file_encoding(target: Target, columns: tuple[EncodedColumn, ...], folder: str) -> Encoding:
    """How rows with these values of the table's columns become files."""
    table = target.table
    field_ids = [_field_id(column) for column in table.columns]
    if target.has_row_ids:
        field_ids.append(f"'{ROW_ID_NAME}': {ROW_ID_FIELD}")
    order: tuple[str, ...] = ()
    if table.sorting is not None and target.option("sort_on_insert") != "false":
        order = tuple(
            f"{key.expression} {key.direction} {key.null_order.replace('_', ' ')}"
            for key in table.sorting.keys
            if key.dialect == "duckdb"
        )
    size = int(target.option("target_file_size") or DEFAULT_TARGET_FILE_SIZE)
    return Encoding(
        folder=folder,
        columns=columns,
        field_ids="{" + ", ".join(field_ids) + "}",
        order_by=order,
        keys=encoded_keys(table),
        hive_folders=target.option("hive_file_pattern") != "false",
        copy_options=_copy_options(target),
        target_file_size=size,
        counted=tuple(column.name for column in table.columns if column.type in _COUNTED),
        variants=tuple(column.name for column in table.columns if column.type == "variant"),
    )


def _arriving(place: int | None) -> str | None:
    return None if place is None else f"c{place}"


def _require_writable_types(table: TableDef) -> None:
    for column in table.columns:
        for node in column.walk():
            if node.type == "time_ns" or (node.type == "variant" and node is not column):
                what = "time_ns" if node.type == "time_ns" else "a variant inside another type"
                raise InvalidInputError(
                    f'Column "{column.name}" of table "{table.name}" holds {what}, which no data file can hold. '
                    "Nothing was written."
                )


def _field_id(column: ColumnDef) -> str:
    name = text_literal(column.name)
    if not column.children:
        return f"{name}: {column.column_id}"
    inner = ", ".join(_field_id(child) for child in column.children)
    return f"{name}: {{__duckdb_field_id: {column.column_id}, {inner}}}"


def _require_level(target: Target) -> None:
    """Refuses a compression level that the table's codec does not take; the extension does so for each insert."""
    level, codec = (
        target.option("parquet_compression_level"),
        target.option("parquet_compression") or "snappy",
    )
    if level is not None and (codec != "zstd" or int(level) > HIGHEST_LEVEL):
        raise InvalidInputError(
            f'Cannot write to table "{target.table.name}": parquet_compression_level is {level}, and '
            f"parquet_compression is {codec}. Only zstd has levels, from 0 to {HIGHEST_LEVEL}: set "
            "parquet_compression to zstd."
        )


def _copy_options(target: Target) -> tuple[str, ...]:
    options = [f"COMPRESSION {target.option('parquet_compression') or 'snappy'}"]
    level = target.option("parquet_compression_level")
    if level is not None:
        options.append(f"COMPRESSION_LEVEL {int(level)}")
    if target.option("parquet_version") is not None:
        options.append(f"PARQUET_VERSION {target.option('parquet_version')}")
    if target.option("parquet_row_group_size") is not None:
        options.append(f"ROW_GROUP_SIZE {int(target.option('parquet_row_group_size') or 0)}")
    if target.option("parquet_row_group_size_bytes") is not None:
        options.append(f"ROW_GROUP_SIZE_BYTES {int(target.option('parquet_row_group_size_bytes') or 0)}")
    return tuple(options)


@contextmanager
def _job(target: Target) -> Iterator[str]:
    """A folder for the files of one write, inside the table's; gone at the end. A worker that is late finds none."""
    job = os.path.join(local_path(target.folder), f"job-{uuid.uuid4()}")
    try:
        os.makedirs(job)
    except OSError as error:
        raise refused(target, error) or error from None
    try:
        yield job
    finally:
        shutil.rmtree(job, ignore_errors=True)


def _write_files(target: Target, prepared: Any, fields: Fields, limit: int) -> Added:
    table = target.table
    places = {column.column_id: place for column, place in _places(target, fields).items()}
    row_id = (ROW_ID_NAME, ROW_ID_FIELD) if target.has_row_ids else None
    planned = spark_encoder.plan(
        table, prepared, fields, places, target.option, lambda: _row_size(target), row_id
    )
    if planned is None:
        require_workers(prepared.sparkSession)
    with _job(target) as job:
        if planned is not None:
            return _write_by_spark(target, planned, job, limit)
        encoding = _encoding(target, fields, job, limit)
        values = dict(
            zip((column.column_id for column in table.columns), _values(target, fields), strict=True)
        )
        dealt = together(table, prepared, places, values)
        if encoding.keys and is_classic_frame(prepared):
            dealt = in_own_session(dealt, spark_encoder.rebalancing(encoding.target_file_size))
        rows, few = _split(_run(target, dealt, encoding))
        if few is not None and not rows and few.num_rows <= limit:
            return _inline(target, few, fields)
        if few is not None:
            whole = replace(encoding, inline_limit=0)
            rows += _explained(target, lambda: list(_results(whole(few.to_batches()))))
        return _packed_files(target, rows, job, prepared)


def _packed_files(target: Target, rows: Iterable[tuple[str, str]], job: str, frame: Any) -> Added:
    """The files of workers, packed and described."""
    infos = {path: json.loads(info) for path, info in rows}
    written = [
        WrittenFile(path, info["rows"], info["size"], tuple(info["values"])) for path, info in infos.items()
    ]
    files = []
    for packed in _packed(target, written, job, frame):
        first = infos[packed.files[0].path]
        if packed.info is not None:
            placed = {"values": first["values"], "folder": first["folder"]}
            files.append(_registered(target, packed.path, json.loads(packed.info) | placed))
        elif packed.footer_size is None:
            files.append(_registered(target, packed.path, first))
        else:
            parts = [_described(target, file.path, infos[file.path]) for file in packed.files]
            whole = replace(
                joined(parts, target.table.columns),
                file_size_bytes=packed.size,
                footer_size=packed.footer_size,
            )
            files.append(_moved(target, packed.path, whole))
    return InsertFiles(target.table, tuple(files)) if files else None


def _packed(target: Target, files: Sequence[WrittenFile], job: str, frame: Any) -> list[Packed]:
    is_partitioned = any(file.partition for file in files)
    if target.option("per_thread_output") == "true" and not is_partitioned:
        return [Packed((file,), file.path) for file in files]
    columns = tuple(EncodedColumn(column.name, quote(column.name)) for column in target.table.columns)
    if target.has_row_ids:
        columns += (EncodedColumn(ROW_ID_NAME, ROW_ID_NAME),)
    encoding = replace(_file_encoding(target, columns, job), keys=())
    return pack(Packing(encoding, encoding.target_file_size, bool(encoding.order_by)), files, frame)


def _write_by_spark(target: Target, planned: spark_encoder.SparkWrite, job: str, limit: int) -> Added:
    paths = _explained(target, lambda: spark_encoder.write(planned, job))
    counted = {path: concat.row_count(path) for path in paths}
    paths = [path for path in paths if counted[path]]
    if limit and paths and sum(counted.values()) <= limit:
        few = spark_encoder.rows_of(paths, target.table)
        row_ids = tuple(few.column(few.num_columns - 1).to_pylist()) if target.has_row_ids else ()
        batch = inline_rows(
            target.table, few, [f"c{i}" for i in range(len(target.table.columns))], target.tx.store.kind
        )
        return InlineRows(target.table, replace(batch, row_ids=row_ids) if row_ids else batch)
    written = [
        WrittenFile(path, counted[path], os.path.getsize(path), _task_partition(path, job)) for path in paths
    ]
    packed = _packed(target, written, job, planned.frame)
    hive = target.option("hive_file_pattern") != "false"
    # Of one that was written again, the encoder knows all but the partition.
    known = spark_encoder.described(target.table, [each.path for each in packed])
    files = []
    for each in packed:
        file = known[each.path]
        folder = file.folder if hive else ""
        if each.info is not None:
            info = json.loads(each.info) | {"values": list(file.partition_values), "folder": folder}
            files.append(_registered(target, each.path, info))
            continue
        described = DataFile(
            path=f"{folder}ducklake-{uuid7()}.parquet",
            path_is_relative=True,
            record_count=file.rows,
            file_size_bytes=file.size,
            footer_size=file.footer_size,
            columns=file.columns,
            partition_values=file.partition_values,
        )
        files.append(_moved(target, file.path, described))
    return InsertFiles(target.table, tuple(files)) if files else None


def _task_partition(path: str, job: str) -> tuple[str, ...]:
    """Which partition a file of Spark is of, by the folder that Spark made for it."""
    folder = os.path.relpath(os.path.dirname(path), job)
    return () if folder == "." else (folder,)


def _row_size(target: Target) -> float | None:
    """What a row takes in the table's files so far."""
    if is_local(target.table.table_id):
        return None
    asked = "SELECT file_size_bytes, record_count FROM ducklake_table_stats WHERE table_id = ?"
    rows = target.tx.store.query(asked, (target.table.table_id,))
    return rows[0][0] / rows[0][1] if rows and rows[0][0] and rows[0][1] else None


def _added_files(target: Target, rows: Iterable[tuple[str, str]]) -> Added:
    files = []
    for path, info in rows:
        files.append(_registered(target, path, json.loads(info)))
    return InsertFiles(target.table, tuple(files)) if files else None


def _split(results: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], pa.Table | None]:
    """The files that were written, and the rows of tasks that had too few for a file of their own."""
    files = [(path, info) for path, info in results if path]
    tables = [pa.ipc.open_stream(base64.b64decode(info)).read_all() for path, info in results if not path]
    return files, pa.concat_tables(tables) if tables else None


def _results(batches: Iterable[pa.RecordBatch]) -> Iterable[tuple[str, str]]:
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _run(target: Target, frame: Any, encoding: Encoding) -> list[tuple[str, str]]:
    def run() -> list[tuple[str, str]]:
        return [tuple(row) for row in map_in_arrow(frame, encoding, _RESULT).collect()]

    return _explained(target, run)


def _explained(target: Target, run: Callable[[], T]) -> T:
    """Runs the encoder; what a worker found wrong with a value becomes an error that names it."""
    try:
        return run()
    except Exception as error:
        refusal = refused(target, error)
        if refusal is not None:
            raise refusal from None
        failure = _failure(error)
        if failure is None:
            raise
        column, value, reason = failure.get("column"), failure.get("value"), failure.get("reason")
        if column is not None and NULL_REASON in str(reason):
            raise not_null_error(target.table, column) from None
        raise misfit_error(target.table, column, value, str(reason)) from None


_REFUSALS = re.compile(
    r"\[Errno \d+\] (?P<os>[^:\n]+)|IO Error: (?P<duckdb>[^\n\"]*?(?:\"[^\"]*\")?[^\n\"]*)"
    r"|(?P<java>Permission denied|No space left on device|Mkdirs failed[^\n(]*|Read-only file system)"
)
"""What the operating system says, as Python, DuckDB and Java pass it on."""


def refused(target: Target, error: BaseException) -> FileError | None:
    """A folder that cannot be written to, here or where a worker runs; None for any other error."""
    if isinstance(error, DuckLakeError):
        return None
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
    else:
        text = str(error)
        known = (
            "Error: [Errno ",
            "IO Error: ",
            "IOException",
            "FileSystemException",
            "AccessDeniedException",
        )
        found = _REFUSALS.search(text) if any(mark in text for mark in known) else None
        if found is None:
            return None
        reason = next(part for part in found.groups() if part)
    return FileError(
        f'Cannot write data files of table "{target.table.name}" to {local_path(target.folder)}: '
        f"{shortened(reason, 120).rstrip('.')}. Nothing was written: make the folder writable for Spark and try again."
    )


def _failure(error: BaseException) -> dict[str, Any] | None:
    text = str(error)
    at = text.find(FAILURE_MARK)
    if at < 0:
        return None
    decoder = json.JSONDecoder()
    try:
        found, _ = decoder.raw_decode(text[at + len(FAILURE_MARK) :])
    except ValueError:
        return None
    return dict(found)


def _registered(target: Target, path: str, info: Mapping[str, Any]) -> DataFile:
    """Moves a file that a worker wrote to its place and describes it."""
    return _moved(target, path, _described(target, path, info))


def _described(target: Target, path: str, info: Mapping[str, Any]) -> DataFile:
    return DataFile(
        path=info["folder"] + os.path.basename(path),
        path_is_relative=True,
        record_count=info["rows"],
        file_size_bytes=info["size"],
        footer_size=info["footer"],
        columns=tuple(_column_stats(target.table, info)),
        partition_values=tuple(info["values"]),
    )


def _moved(target: Target, path: str, file: DataFile) -> DataFile:
    """The file in its place in the table's folder; it goes with the transaction if that does not commit."""
    whole = os.path.join(local_path(target.folder), file.path)
    try:
        try:
            os.replace(path, whole)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            os.replace(path, whole)
    except OSError as error:
        raise refused(target, error) or error from None
    target.tx.written.append(whole)
    partitioning = target.table.partitioning
    keyed = partitioning is not None and bool(partitioning.keys)
    partition_id = partitioning.partition_id if keyed and partitioning is not None else None
    return replace(file, partition_id=partition_id, whole_path=whole)


def _column_stats(table: TableDef, info: Mapping[str, Any]) -> Iterable[ColumnStats]:
    statistics: Mapping[str, Mapping[str, str]] = info["statistics"]
    for column in table.columns:
        yield from _node_stats(column, quote(column.name), statistics, info)


def _node_stats(
    column: ColumnDef, path: str, statistics: Mapping[str, Mapping[str, str]], info: Mapping[str, Any]
) -> Iterable[ColumnStats]:
    if column.children:
        for child in column.children:
            yield from _node_stats(child, f"{path}.{quote(child.name)}", statistics, info)
        return
    if column.type == "variant":
        nulls = info["nulls"].get(column.name, 0)
        yield variant_column_stats(column.column_id, path, statistics, info["rows"], nulls)
        return
    found = statistics.get(path)
    if found is None:
        return
    if column.type in _COUNTED:
        nulls = info["nulls"].get(column.name)
        if nulls is not None:
            # DuckDB counts nothing for these; a count of zero would make readers skip the file.
            yield ColumnStats(column.column_id, 0, info["rows"] - nulls, nulls, None, None)
        return
    null_count = int(found["null_count"])
    # No NaN in a 128-bit integer: that tells a file which keeps its digits from the reference's, which has doubles.
    nan = "false" if column.type in WIDE_INTEGERS else found.get("has_nan")
    yield ColumnStats(
        column.column_id,
        int(found["column_size_bytes"]),
        int(found["num_values"]) - null_count,
        null_count,
        _bound(found.get("min")),
        _bound(found.get("max")),
        None if nan is None else nan == "true",
        _geometry(found) if column.type == "geometry" else None,
    )


def _bound(text: str | None) -> str | None:
    return None if text is None or "\0" in text else text


def _geometry(found: Mapping[str, str]) -> str:
    box = {key.removeprefix("bbox_"): float(value) for key, value in found.items() if key.startswith("bbox_")}
    types = [name.strip() for name in found.get("geo_types", "[]").strip("[]").split(",") if name.strip()]
    return geometry_stats({"bbox": box, "types": types})
