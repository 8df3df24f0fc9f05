"""Rows become data files: by Spark's own writer where that gives the same files, else by DuckDB in the workers."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.data import DataFile, joined
from ducklake_spark.format.edits import InsertFiles
from ducklake_spark.format.encryption import key_of
from ducklake_spark.format.objects import is_local, uuid7
from ducklake_spark.format.types import quote
from ducklake_spark.scan.projection.column import ROW_ID_FIELD, ROW_ID_NAME
from ducklake_spark.spark import interrupts
from ducklake_spark.spark.files import list_files
from ducklake_spark.spark.worker_functions import map_in_arrow, require_workers
from ducklake_spark.spark.writer import in_own_session, is_classic_frame
from ducklake_spark.workers import parquet_concat as concat
from ducklake_spark.workers.duckdb_encoder import EncodedColumn, Encoding
from ducklake_spark.workers.object_store import job_place, job_suffix
from ducklake_spark.workers.packing import Packing, WrittenFile
from ducklake_spark.write.data_files import described, moved_in, registered
from ducklake_spark.write.encoders import spark_encoder
from ducklake_spark.write.encoders.encoding import file_encoding, rows_encoding
from ducklake_spark.write.encoders.packing import Packed, pack
from ducklake_spark.write.failures import explained, refused
from ducklake_spark.write.inline import rows_inlined
from ducklake_spark.write.local import LocalRows
from ducklake_spark.write.partitioning.keys import together
from ducklake_spark.write.target import Added, Target, place_of
from ducklake_spark.write.values import Fields, column_positions, row_id_column, stored_values

_RESULT = "path string, info string"


def write_local(target: Target, local: LocalRows) -> Added:
    """Rows that are here already: this process writes them."""
    with job_folder(target) as job:
        encoding = rows_encoding(target, local.fields, job, 0, local.partial)
        results = explained(target, lambda: list(_results(encoding(local.batches()))))
        files = [registered(target, path, json.loads(info)) for path, info in results]
    return InsertFiles(target.table, tuple(files)) if files else None


def write_frame(target: Target, prepared: DataFrame, fields: Fields, limit: int) -> Added:
    """The rows of a DataFrame whose columns are `c0`, `c1` ...; up to `limit` rows in all are inlined instead."""
    interrupts.install()  # the session is the DataFrame's: nobody asked the lake for one
    table = target.table
    positions = {column.column_id: position for column, position in column_positions(target, fields).items()}
    row_id = (ROW_ID_NAME, ROW_ID_FIELD) if target.has_row_ids else None
    planned = None
    # Spark cannot write encrypted files. In object stores it writes files under names that do not stay, and to rename
    # one is to copy it.
    if not target.is_encrypted and not target.is_remote:
        planned = spark_encoder.plan(
            table, prepared, fields, positions, target.option, lambda: row_size(target), row_id
        )
    if planned is None:
        require_workers(prepared.sparkSession)
    with job_folder(target) as job:
        if planned is not None:
            return _write_by_spark(target, planned, job, limit)
        encoding = rows_encoding(target, fields, job, limit)
        values = stored_values(target, fields)
        by_id = dict(zip((column.column_id for column in table.columns), values, strict=True))
        dealt = together(table, prepared, positions, by_id)
        if encoding.keys and is_classic_frame(prepared):
            dealt = in_own_session(dealt, spark_encoder.rebalancing(encoding.target_file_size))
        return _added(target, fields, encoding, _run(target, dealt, encoding), prepared)


def added_by_tasks(
    target: Target, fields: Fields, encoding: Encoding, results: Sequence[tuple[str, str]]
) -> Added:
    """What the encoder wrote in tasks that others ran, in the folder of the encoding."""
    return _added(target, fields, encoding, results, None)


def _added(
    target: Target,
    fields: Fields,
    encoding: Encoding,
    results: Sequence[tuple[str, str]],
    frame: DataFrame | None,
) -> Added:
    rows, few = _split(results)
    if few is not None and not rows and few.num_rows <= encoding.inline_limit:
        return rows_inlined(target, few, stored_values(target, fields), row_id_column(target, fields))
    if few is not None:
        whole = replace(encoding, inline_limit=0)
        rows += explained(target, lambda: list(_results(whole(few.to_batches()))))
    return _packed_files(target, rows, encoding.folder, frame)


@contextmanager
def job_folder(target: Target) -> Iterator[str]:
    """A folder for the files of one write, inside the table's; gone at the end. A worker that is late finds none.

    In an object store there is no such folder: files go to their places, and are removed from there if the job fails.
    """
    if target.is_remote:
        with _stored_job(target) as job:
            yield job
        return
    job = os.path.join(place_of(target.folder), f"job-{uuid.uuid4()}")
    try:
        os.makedirs(job)
    except OSError as error:
        raise refused(target, error) or error from None
    try:
        yield job
    finally:
        shutil.rmtree(job, ignore_errors=True)


@contextmanager
def _stored_job(target: Target) -> Iterator[str]:
    job = job_place(target.folder)
    try:
        yield job
    except BaseException:
        # Only those that the driver knows of are in the transaction: tasks that ended well before another failed
        # told nobody what they wrote.
        with suppress(DuckLakeError):
            _remove_stored(target, job_suffix(job))
        raise


def _remove_stored(target: Target, suffix: str) -> None:
    access = target.access()
    if not access.answers(target.folder):
        return  # Spark would ask for minutes; what was written is nobody's
    names = re.compile(rf"ducklake-[0-9a-f-]+{suffix}\.\w+")
    found = (file.path for file in list_files(None, target.folder))
    access.remove([path for path in found if names.match(os.path.basename(path))])


def _packed_files(
    target: Target, rows: Iterable[tuple[str, str]], job: str, frame: DataFrame | None
) -> Added:
    """The files of workers, packed and described."""
    infos = {path: json.loads(info) for path, info in rows}
    written = [
        WrittenFile(path, info["rows"], info["size"], tuple(info["values"]), key_of(info["key"]))
        for path, info in infos.items()
    ]
    files = []
    for packed in _packed(target, written, job, frame):
        first = infos[packed.files[0].path]
        if packed.info is not None:
            placed = {"values": first["values"], "folder": first["folder"]}
            files.append(registered(target, packed.path, json.loads(packed.info) | placed))
        elif packed.footer_size is None:
            files.append(registered(target, packed.path, first))
        else:
            parts = [described(target, file.path, infos[file.path]) for file in packed.files]
            whole = replace(
                joined(parts, target.table.columns),
                path=first["folder"] + os.path.basename(packed.path),
                file_size_bytes=packed.size,
                footer_size=packed.footer_size,
            )
            files.append(moved_in(target, packed.path, whole))
    return InsertFiles(target.table, tuple(files)) if files else None


def _packed(target: Target, files: Sequence[WrittenFile], job: str, frame: DataFrame | None) -> list[Packed]:
    is_partitioned = any(file.partition for file in files)
    if target.option("per_thread_output") == "true" and not is_partitioned:
        return [Packed((file,), file.path) for file in files]
    columns = tuple(EncodedColumn(column.name, quote(column.name)) for column in target.table.columns)
    if target.has_row_ids:
        columns += (EncodedColumn(ROW_ID_NAME, ROW_ID_NAME),)
    encoding = replace(file_encoding(target, columns, job), keys=())
    return pack(Packing(encoding, encoding.target_file_size, bool(encoding.order_by)), files, frame)


def _write_by_spark(target: Target, planned: spark_encoder.SparkWrite, job: str, limit: int) -> Added:
    paths = explained(target, lambda: spark_encoder.write(planned, job))
    counted = {path: concat.row_count(path) for path in paths}
    paths = [path for path in paths if counted[path]]
    if limit and paths and sum(counted.values()) <= limit:
        few = spark_encoder.rows_of(paths, target.table)
        values = [f"c{i}" for i in range(len(target.table.columns))]
        return rows_inlined(target, few, values, few.column_names[-1] if target.has_row_ids else None)
    written = [
        WrittenFile(path, counted[path], os.path.getsize(path), _task_partition(path, job)) for path in paths
    ]
    packed = _packed(target, written, job, planned.frame)
    hive = target.has_hive_folders
    # Of one that was written again, the encoder knows all but the partition.
    known = spark_encoder.described(target.table, [each.path for each in packed])
    files = []
    for each in packed:
        file = known[each.path]
        folder = file.folder if hive else ""
        if each.info is not None:
            info = json.loads(each.info) | {"values": list(file.partition_values), "folder": folder}
            files.append(registered(target, each.path, info))
            continue
        whole = DataFile(
            path=f"{folder}ducklake-{uuid7()}.parquet",
            path_is_relative=True,
            record_count=file.rows,
            file_size_bytes=file.size,
            footer_size=file.footer_size,
            columns=file.columns,
            partition_values=file.partition_values,
        )
        files.append(moved_in(target, file.path, whole))
    return InsertFiles(target.table, tuple(files)) if files else None


def _task_partition(path: str, job: str) -> tuple[str, ...]:
    """Which partition a file of Spark is of, by the folder that Spark made for it."""
    folder = os.path.relpath(os.path.dirname(path), job)
    return () if folder == "." else (folder,)


def row_size(target: Target) -> float | None:
    """What a row takes in the table's files so far."""
    if is_local(target.table.table_id):
        return None
    asked = "SELECT file_size_bytes, record_count FROM ducklake_table_stats WHERE table_id = ?"
    rows = target.tx.store.query(asked, (target.table.table_id,))
    return rows[0][0] / rows[0][1] if rows and rows[0][0] and rows[0][1] else None


def _split(results: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], pa.Table | None]:
    """The files that were written, and the rows of tasks that had too few for a file of their own."""
    files = [(path, info) for path, info in results if path]
    tables = [pa.ipc.open_stream(base64.b64decode(info)).read_all() for path, info in results if not path]
    return files, pa.concat_tables(tables) if tables else None


def _results(batches: Iterable[pa.RecordBatch]) -> Iterable[tuple[str, str]]:
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _run(target: Target, frame: DataFrame, encoding: Encoding) -> list[tuple[str, str]]:
    def run() -> list[tuple[str, str]]:
        return [tuple(row) for row in map_in_arrow(frame, encoding, _RESULT).collect()]

    return explained(target, run)
