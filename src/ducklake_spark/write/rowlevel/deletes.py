"""Deletes of single rows: they are found by one Spark scan, and become delete files or deletes in the catalog.

Where they are few, their places come to the driver: one job, which neither shuffles nor starts Python workers. Of
many, a worker gets all deleted positions of one data file, and nothing but counts comes back. Either way
`DeleteEncoding` decides by the rules of the format what becomes of them.
"""

from __future__ import annotations

import functools
import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.catalog.store import Row
from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.errors import ConflictError
from ducklake_spark.format.data import LOCAL_ROW_ID, DeleteFile, FileDeletes
from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.edits import DeleteRows, TableEdit
from ducklake_spark.format.encryption import key_of
from ducklake_spark.format.objects import is_local
from ducklake_spark.scan.read import FILE_ID, INLINED_NAME, hidden
from ducklake_spark.spark.columns import selected
from ducklake_spark.spark.errors import task_failure
from ducklake_spark.spark.worker_functions import map_in_arrow, require_workers
from ducklake_spark.spark.writer import (
    checkpointed,
    default_parallelism,
    few_here,
    is_classic_frame,
)
from ducklake_spark.workers.deletes import (
    FIELDS,
    MOVED_MARK,
    VECTOR,
    DeleteEncoding,
    TableFile,
    copied,
    deleted_positions,
)
from ducklake_spark.workers.parquet_source import parquet
from ducklake_spark.write.failures import explained, refused, unreachable
from ducklake_spark.write.target import Target, place_of

if TYPE_CHECKING:
    from ducklake_spark.format.deletion_vector import Positions

_POSITION = hidden("file_row_number")
LOCATOR = (FILE_ID, INLINED_NAME, _POSITION)
"""What must be known of rows that are deleted."""

MANY_FILES = 1000
"""In tables with more, only the files that are touched are looked up."""
_AT_ONCE = 1000
_FILES_HERE = 32
"""Deletes from more files than these are written by the workers."""
_THREADS = 4
_MOST_BYTES = 128 << 20
"""Rows that come to this process take about so much at most: a task that finds more than its share of them stops."""
_FEW = 1000
_LOCATOR_BYTES = 24
_OPEN_BYTES, _SPLIT_BYTES = 4 << 20, 128 << 20


def restamp(target: Target, file: DeleteFile, snapshot_id: int) -> DeleteFile:
    """Writes a delete file again under its name, with another snapshot id for this transaction's deletes."""
    if not target.is_remote:
        scratch = file.whole_path + ".new"
        stamped = _restamped(file, file.whole_path, scratch, snapshot_id)
        os.replace(scratch, file.whole_path)
        return stamped

    def run() -> DeleteFile:
        access = target.access()
        with access.here(file.whole_path) as local:
            stamped = _restamped(file, local, local + ".new", snapshot_id)
            access.upload(local + ".new", file.whole_path)
        return stamped

    return explained(target, run)


def _restamped(file: DeleteFile, path: str, scratch: str, snapshot_id: int) -> DeleteFile:
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        column = "_ducklake_internal_snapshot_id"
        changed = f"CASE WHEN {column} = {file.stamp} THEN CAST({snapshot_id} AS BIGINT) ELSE {column} END"
        source = parquet(connection, path, file.key)
        select = f"SELECT file_path, pos, {changed} AS {column} FROM {source} ORDER BY pos"
        row = first_row(connection.execute(copied(connection, select, scratch, FIELDS, file.key)))
    assert row is not None
    return replace(file, stamp=snapshot_id, file_size_bytes=row[2], footer_size=row[3])


def delete_matching(target: Target, matching: DataFrame) -> tuple[DeleteRows | None, int]:
    """The change that deletes rows, and how many there are.

    Args:
        target: The table.
        matching: A DataFrame with the columns of `LOCATOR` of the rows to delete.
    """
    found = selected(matching, zip("fnp", LOCATOR, strict=True))
    if is_classic_frame(found):
        # One scan, without a shuffle and without Python workers.
        here = few_here(found, few_of_task(target, found, _LOCATOR_BYTES))
        if here is not None:
            return delete_here(target, here, matching.sparkSession)
    return _delete_in_workers(target, found)


def delete_here(target: Target, rows: pa.Table, spark: SparkSession) -> tuple[DeleteRows | None, int]:
    """The same of rows whose locators are here already.

    Args:
        target: The table.
        rows: The columns of `LOCATOR`, in this order; rows may be there more than once.
        spark: A session for many files.
    """
    rows = rows.rename_columns(["f", "n", "p"])
    edit = target.tx.edits.tables.get(target.table.table_id)
    in_files, inlined = positions_by_file(rows)
    if len(in_files) > _FILES_HERE:
        return _delete_in_workers(target, spark.createDataFrame(rows))
    files = (
        table_files(target, edit, sorted(file_id for file_id in in_files if file_id >= 0)) if in_files else {}
    )
    encoding = _encoding(target, files)

    def answer(each: tuple[int, Positions]) -> dict[str, Any]:
        found = encoding.answer(each[0], None, each[1])
        if "written" in found:
            target.tx.written.append(found["written"]["path"])  # now: the next one may fail
        return found

    def answers() -> list[dict[str, Any]]:
        with ThreadPoolExecutor(_THREADS) as pool:
            found = list(pool.map(answer, in_files.items()))
        return found + [encoding.answer(None, name, positions) for name, positions in inlined.items()]

    made = _of_encoder(target, answers)
    return _answered(target, edit, files, made), sum(answer["count"] for answer in made)


def positions_by_file(rows: pa.Table) -> tuple[dict[int, Positions], dict[str | None, Positions]]:
    """The positions by data file, and by inlined table the ids of its rows; None is the transaction's own."""
    import numpy as np

    in_files = pc.is_valid(rows.column("f"))
    some = rows.filter(in_files)
    ids, positions = some.column("f").to_numpy(), some.column("p").to_numpy()
    order = np.argsort(ids, kind="stable")
    found, starts = np.unique(ids[order], return_index=True)
    parts = np.split(positions[order], starts[1:]) if len(found) else []
    by_file = {int(file_id): part for file_id, part in zip(found, parts, strict=True)}
    inlined: dict[str | None, Positions] = {}
    if some.num_rows < rows.num_rows:
        rest = rows.filter(pc.invert(in_files))
        for name in pc.unique(rest.column("n")).to_pylist():
            column = rest.column("n")
            mine = pc.is_null(column) if name is None else pc.equal(column, name)
            inlined[name] = rest.filter(mine).column("p").to_numpy()
    return by_file, inlined


def few_of_task(target: Target, frame: DataFrame, row_bytes: float) -> int:
    """How many rows of that size each task may hand to this process, so that all together are not too many for it."""
    files, size = committed_size(target)
    # As Spark deals files to tasks, unless somebody changed its settings.
    size += files * _OPEN_BYTES
    split = min(_SPLIT_BYTES, max(_OPEN_BYTES, size / max(1, default_parallelism(frame))))
    return max(_FEW, int(_MOST_BYTES / row_bytes / (1 + size // split)))


def _of_encoder(target: Target, run: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What an encoder of deletes answers; what it finds wrong becomes an error that says so."""
    try:
        return run()
    except Exception as error:
        if MOVED_MARK in str(error):
            raise ConflictError(
                f'Transaction conflict: files of table "{target.table.name}" were merged after this transaction '
                "began. Nothing was written; run it again on the new snapshot."
            ) from None
        failure = task_failure(str(error))
        if failure is not None and "store" in failure:
            raise unreachable(target, failure) from None
        raise refused(target, error) or error from None


def _delete_in_workers(target: Target, found: DataFrame) -> tuple[DeleteRows | None, int]:
    """The same by workers, each of which gets all positions of a file: only counts come back."""
    edit = target.tx.edits.tables.get(target.table.table_id)
    grouped: Any = None
    touched: list[int] | None = None
    if not is_local(target.table.table_id) and committed_size(target)[0] > MANY_FILES:
        # A job that finds the few that matter costs less than to send all of them to the workers.
        grouped = checkpointed(_by_file(found))
        touched = [row[0] for row in grouped.where("f >= 0").select("f").collect()]
    files = table_files(target, edit, touched)
    if files:
        require_workers(found.sparkSession)
    encoding = _encoding(target, files)

    def answers() -> list[dict[str, Any]]:
        if files:
            rows = _by_file(found) if grouped is None else grouped
            return [json.loads(row[0]) for row in map_in_arrow(rows, encoding, "info string").collect()]
        # All rows are in the catalog, which keeps their deletes as well: a worker has nothing to write.
        by_table: defaultdict[str | None, list[int]] = defaultdict(list)
        for _, name, position in found.collect():
            by_table[name].append(position)
        return [encoding.answer(None, name, positions) for name, positions in by_table.items()]

    made = _of_encoder(target, answers)
    return _answered(target, edit, files, made), sum(answer["count"] for answer in made)


def delete_left(target: Target, file_ids: Collection[int]) -> DeleteRows | None:
    """The change that deletes all rows that committed files still have, without a look at them.

    Args:
        target: The table, of which the transaction changed nothing.
        file_ids: The files.
    """
    tx = target.tx
    files = table_files(target, None, sorted(file_ids))
    gone: defaultdict[int, set[int]] = defaultdict(set)
    if any(file.inlined_deletes for file in files.values()):
        rows = tx.store.query(
            f"SELECT file_id, row_id FROM ducklake_inlined_delete_{target.table.table_id} WHERE begin_snapshot <= ?",
            (tx.snapshot.snapshot_id,),
        )
        for file_id, position in rows:
            gone[int(file_id)].add(int(position))
    encoding = _encoding(target, files)
    answers = []
    for file_id, file in files.items():
        if file.delete_file is not None:
            gone[file_id].update(deleted_positions(file.delete_file, file.delete_key).tolist())
        left = set(range(file.record_count)) - gone[file_id]
        if left:
            answers.append(encoding.answer(file_id, None, sorted(left)))
    return _answered(target, None, files, answers)


def _encoding(target: Target, files: Mapping[int, TableFile]) -> DeleteEncoding:
    return DeleteEncoding(
        place_of(target.folder),
        target.inline_limit,
        target.tx.snapshot.snapshot_id + 1,
        files,
        vectors=target.option("write_deletion_vectors") == "true",
        encrypted=target.is_encrypted,
        access=target.access(),
    )


def _answered(
    target: Target,
    edit: TableEdit | None,
    files: Mapping[int, TableFile],
    answers: Sequence[Mapping[str, Any]],
) -> DeleteRows | None:
    if not answers:
        return None
    target.tx.restamp = functools.partial(restamp, target)
    paths = {answer["written"]["path"] for answer in answers if "written" in answer}
    target.tx.written += sorted(paths.difference(target.tx.written))
    return _change(target, edit, files, answers)


def _by_file(found: Any) -> Any:
    return found.groupBy("f", "n").agg(F.collect_list("p").alias("p"))


def _change(
    target: Target,
    edit: TableEdit | None,
    files: Mapping[int, TableFile],
    answers: Sequence[Mapping[str, Any]],
) -> DeleteRows:
    deletes: list[FileDeletes] = []
    own_files: list[tuple[int, DeleteFile | None]] = []
    inlined: list[tuple[str, tuple[int, ...]]] = []
    own_rows: frozenset[int] = frozenset()
    for answer in answers:
        file_id = answer["file"]
        if file_id is None:
            if answer["name"] is None:
                own_rows = frozenset(position - LOCAL_ROW_ID for position in answer["positions"])
            else:
                inlined.append((answer["name"], tuple(answer["positions"])))
            continue
        written = _delete_file(target, files[file_id], answer.get("written"))
        if file_id < 0:
            own_files.append((-1 - file_id, written))
            continue
        if answer.get("ended"):
            # With the file end the deletes that this transaction made from it before.
            deletes.append(FileDeletes(file_id, ended=True))
            continue
        before = edit.deletes.get(file_id) if edit is not None else None
        positions = (before.inlined if before else ()) + tuple(answer.get("positions", ()))
        file = written or (before.file if before else None)
        deletes.append(FileDeletes(file_id, positions, file))
    return DeleteRows(target.table, tuple(deletes), tuple(inlined), tuple(own_files), own_rows)


def _delete_file(target: Target, file: TableFile, written: Mapping[str, Any] | None) -> DeleteFile | None:
    if written is None:
        return None
    replaces = None
    if file.delete_id is not None and file.delete_path is not None:
        replaces = (file.delete_id, *file.delete_path)
    return DeleteFile(
        path=os.path.basename(written["path"]),
        whole_path=written["path"],
        delete_count=written["count"],
        file_size_bytes=written["size"],
        footer_size=written["footer"],
        begin_snapshot=file.delete_begin if written["history"] else None,
        stamp=target.tx.snapshot.snapshot_id + 1 if written["history"] else None,
        replaces=replaces,
        format="puffin" if written["path"].endswith(VECTOR) else "parquet",
        key=key_of(written["key"]),
    )


def committed_size(target: Target) -> tuple[int, int]:
    """How many data files the table has, and how many bytes they are; without those of the transaction."""
    if is_local(target.table.table_id):
        return 0, 0
    at = target.tx.snapshot.snapshot_id
    [(files, size)] = target.tx.store.query(
        f"SELECT count(*), sum(file_size_bytes) FROM ducklake_data_file WHERE table_id = ? AND {LIVE}",
        (target.table.table_id, at, at),
    )
    return int(files), int(size or 0)


def table_files(
    target: Target, edit: TableEdit | None, touched: Sequence[int] | None = None
) -> dict[int, TableFile]:
    """The table's files with the deletes that the transaction sees.

    Args:
        target: The table.
        edit: What the transaction changed in it; its own files have negative ids.
        touched: Of the committed files only these.
    """
    table = target.table
    found: dict[int, TableFile] = {}
    if edit is not None:
        for place, data in enumerate(edit.files):
            own = edit.own_deletes.get(place)
            found[-1 - place] = TableFile(
                data.whole_path,
                data.record_count,
                delete_file=own.whole_path if own else None,
                delete_key=own.key if own else None,
                delete_count=own.delete_count if own else 0,
                is_vector=own is not None and own.format == "puffin",
                pending=own is not None,
            )
    if is_local(table.table_id) or (edit is not None and edit.emptied is not None):
        return found
    inlined_counts = inlined_delete_counts(target)
    folder = target.folder
    for (
        file_id,
        path,
        relative,
        count,
        delete_id,
        delete_path,
        delete_relative,
        deleted,
        begin,
        kind,
        key,
    ) in (row for some in _in_parts(touched) for row in _committed(target, some)):
        file = TableFile(
            place_of(folder + path if relative else path), int(count), inlined_counts.get(file_id, 0)
        )
        if delete_id is not None:
            whole = folder + delete_path if delete_relative else delete_path
            inside = whole.startswith(target.data_path)
            scheduled = (whole[len(target.data_path) :] if inside else whole, inside)
            file = replace(
                file,
                delete_file=place_of(whole),
                delete_key=key_of(key),
                delete_count=int(deleted),
                delete_begin=int(begin),
                delete_id=int(delete_id),
                delete_path=scheduled,
                is_vector=kind == "puffin",
            )
        found[int(file_id)] = _with_pending(file, edit.deletes.get(file_id) if edit else None)
    return found


def _in_parts(numbers: Sequence[int] | None) -> Iterator[Sequence[int] | None]:
    """As many at a time as any database takes in one query; None stays what it is."""
    if numbers is None:
        yield None
        return
    for start in range(0, len(numbers), _AT_ONCE):
        yield numbers[start : start + _AT_ONCE]


def _committed(target: Target, some: Sequence[int] | None) -> list[Row]:
    """All data files, or those of these ids, each with its delete file if it has one."""
    at, table_id = target.tx.snapshot.snapshot_id, target.table.table_id
    these = "" if some is None else f" AND data_file_id IN ({', '.join(map(str, some))})"
    return target.tx.store.query(
        "SELECT d.data_file_id, d.path, d.path_is_relative, d.record_count, x.delete_file_id, x.path, "
        "x.path_is_relative, x.delete_count, x.begin_snapshot, x.format, x.encryption_key FROM "
        f"(SELECT * FROM ducklake_data_file WHERE table_id = ? AND {LIVE}{these}) d LEFT JOIN "
        f"(SELECT * FROM ducklake_delete_file WHERE table_id = ? AND {LIVE}{these}) x "
        "ON x.data_file_id = d.data_file_id",
        (table_id, at, at, table_id, at, at),
    )


def _with_pending(file: TableFile, deletes: FileDeletes | None) -> TableFile:
    if deletes is None:
        return file
    file = replace(file, new_inlined_deletes=len(deletes.inlined))
    if deletes.file is None:
        return file
    return replace(
        file,
        delete_file=deletes.file.whole_path,
        delete_key=deletes.file.key,
        delete_count=deletes.file.delete_count,
        delete_begin=file.delete_begin if deletes.file.begin_snapshot is not None else 0,
        is_vector=deletes.file.format == "puffin",
        pending=True,
    )


def inlined_delete_counts(target: Target) -> dict[int, int]:
    """How many deletes the catalog keeps, by file."""
    name = f"ducklake_inlined_delete_{target.table.table_id}"
    if not target.tx.store.has_table(name):
        return {}
    rows = target.tx.store.query(
        f'SELECT file_id, count(*) FROM "{name}" WHERE begin_snapshot <= ? GROUP BY file_id',
        (target.tx.snapshot.snapshot_id,),
    )
    return {int(file_id): int(count) for file_id, count in rows}
