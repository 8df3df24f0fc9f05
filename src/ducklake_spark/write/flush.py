"""Inlined data of a table becomes files. It is in the catalog, so this process encodes it, without Spark.

Rows are fetched and written page by page: what is in memory at a time does not grow with the data.
"""

from __future__ import annotations

import json
import os
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa

from ducklake_spark.catalog.store import Row, Store
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.data import stored_type as text_type
from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.encryption import FileKey, key_of, new_key
from ducklake_spark.format.flush import FlushedFile, FlushInlinedData, HistoryDeletes
from ducklake_spark.format.objects import TableDef, uuid7
from ducklake_spark.format.types import quote, text_literal
from ducklake_spark.scan.inlined import text_of, text_sql
from ducklake_spark.scan.projection.column import (
    ROW_ID_FIELD,
    ROW_ID_NAME,
    SNAPSHOT_ID_FIELD,
    SNAPSHOT_ID_NAME,
)
from ducklake_spark.workers.deletes import FIELDS, copied, stamped_vector
from ducklake_spark.workers.duckdb_encoder import EncodedColumn, Encoding
from ducklake_spark.workers.parquet_source import parquet
from ducklake_spark.write.data_files import registered
from ducklake_spark.write.encoders.encoding import file_encoding, require_writable_types
from ducklake_spark.write.expressions import stored_type
from ducklake_spark.write.failures import explained
from ducklake_spark.write.files import job_folder
from ducklake_spark.write.sort_order import sort_keys, sort_macros
from ducklake_spark.write.target import Target, place_of

PAGE_ROWS = 20_000
"""How many rows are fetched at a time."""
_AT_ONCE = 500


@dataclass(frozen=True)
class InlinedVersion:
    """The inlined rows of one version of a table's schema.

    Attributes:
        name: The table in the catalog database.
        table: The lake's table as it was then, with its partition keys.
    """

    name: str
    table: TableDef


def flush_table(
    target: Target, versions: Sequence[InlinedVersion], *, has_deletes: bool
) -> FlushInlinedData | None:
    """The change that puts the inlined data of a table into files, which are written now; None if there is none.

    Args:
        target: The table as it is now.
        versions: Its inlined data tables that have rows.
        has_deletes: Whether it has a table of inlined deletes.
    """
    at = target.tx.snapshot.snapshot_id
    files = [file for version in versions for file in _flushed_files(target, version, at)]
    deletes = _moved_deletes(target, at) if has_deletes else []
    if not files and not deletes:
        return None
    names = tuple(version.name for version in versions)
    return FlushInlinedData(target.table, at, names, tuple(files), tuple(deletes))


@dataclass
class _Ended:
    """Versions of rows that ended: row id, begin and end."""

    row_ids: array[int] = field(default_factory=lambda: array("q"))
    begins: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))

    def add(self, row_id: int, begin: int, end: int) -> None:
        self.row_ids.append(row_id)
        self.begins.append(begin)
        self.ends.append(end)

    def table(self) -> pa.Table:
        return pa.table({"r": _int64(self.row_ids), "b": _int64(self.begins), "e": _int64(self.ends)})


def _int64(values: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def _flushed_files(now: Target, version: InlinedVersion, at: int) -> list[FlushedFile]:
    """Writes the rows of one version of the schema, with its columns and in its partitions."""
    target = replace(now, table=version.table)
    ended = _Ended()
    with job_folder(target) as job:
        encoding = _encoding(now, target, job)
        pages = _pages(now.tx.store, version, at, ended)
        written = explained(target, lambda: [row for each in encoding(pages) for row in each.to_pylist()])
        return [_flushed_file(target, row["path"], json.loads(row["info"]), ended) for row in written]


def _encoding(now: Target, target: Target, folder: str) -> Encoding:
    table = target.table
    require_writable_types(table)
    columns = tuple(
        EncodedColumn(column.name, _value(f"c{place}", column), arriving=f"c{place}")
        for place, column in enumerate(table.columns)
    )
    columns += (EncodedColumn(ROW_ID_NAME, "r"), EncodedColumn(SNAPSHOT_ID_NAME, "b"))
    made = file_encoding(target, columns, folder)
    ids = f"'{ROW_ID_NAME}': {ROW_ID_FIELD}, '{SNAPSHOT_ID_NAME}': {SNAPSHOT_ID_FIELD}"
    return replace(
        made,
        field_ids=f"{made.field_ids.removesuffix('}')}, {ids}}}",
        order_by=(*sort_keys(now.table, table.columns), ROW_ID_NAME, SNAPSHOT_ID_NAME),
        macros=sort_macros(now.tx, now.table),
    )


def _value(source: str, column: ColumnDef) -> str:
    """SQL for the value to store of the text or bytes that the catalog gave."""
    if column.type == "blob":
        return source
    if column.type == "variant":
        return f"variant_bytes_to_variant({source})"
    return f"CAST(CAST({source} AS {text_type(column)}) AS {stored_type(column.data_type)})"


def _pages(store: Store, version: InlinedVersion, at: int, ended: _Ended) -> Iterator[pa.RecordBatch]:
    """The rows that a snapshot knows, in the order of their ids; those that ended are noted."""
    columns, name = version.table.columns, quote(version.name)
    wanted = ", ".join(_wanted(column, store.kind) for column in columns)
    own = store.inlined_columns(version.name)
    last: int | None = None
    while True:
        after, params = ("", (at,)) if last is None else (f" AND {own.row_id} > ?", (at, last))
        known = f"FROM {name} WHERE {own.begin} <= ?{after}"
        ordered = f"ORDER BY {own.row_id} LIMIT 1 OFFSET {PAGE_ROWS - 1}"
        edge = store.query(f"SELECT {own.row_id} {known} {ordered}", params)
        upto, most = (f" AND {own.row_id} <= ?", (int(edge[0][0]),)) if edge else ("", ())
        rows = store.query(f"SELECT {', '.join(own.all)}, {wanted} {known}{upto}", (*params, *most))
        for row_id, begin, end, *_ in rows:
            # One that ended later is a conflict, which the commit finds.
            if end is not None and int(end) <= at:
                ended.add(int(row_id), int(begin), int(end))
        if rows:
            yield _batch(rows, columns)
        if not edge:
            return
        last = int(edge[0][0])


def _wanted(column: ColumnDef, kind: str) -> str:
    if column.type == "variant":
        # Not as JSON, which has fewer types.
        name = quote(column.name)
        return f"CASE WHEN {name} IS NOT NULL THEN variant_to_parquet_variant({name}) END"
    return text_sql(column, kind)


def _batch(rows: Sequence[Row], columns: Sequence[ColumnDef]) -> pa.RecordBatch:
    arrays = [pa.array([int(row[place]) for row in rows], pa.int64()) for place in (0, 1)]
    for place, column in enumerate(columns, 3):
        values: list[Any] = [row[place] for row in rows]
        if column.type == "variant":
            joined = [None if value is None else value["metadata"] + value["value"] for value in values]
            arrays.append(pa.array(joined, pa.binary()))
        elif column.type == "blob":
            arrays.append(
                pa.array([None if value is None else bytes(value) for value in values], pa.binary())
            )
        else:
            arrays.append(pa.array([text_of(value) for value in values], pa.string()))
    return pa.RecordBatch.from_arrays(arrays, names=["r", "b", *(f"c{i}" for i in range(len(columns)))])


def _flushed_file(target: Target, path: str, info: Mapping[str, Any], ended: _Ended) -> FlushedFile:
    file = registered(target, path, info)
    with (
        target.access().here(file.whole_path) as local,
        duckdb.connect(":memory:", config={"threads": 1}) as connection,
    ):
        source = parquet(connection, local, file.key, "file_row_number = true")
        found = first_row(
            connection.execute(
                f"SELECT min({SNAPSHOT_ID_NAME}), max({SNAPSHOT_ID_NAME}), min({ROW_ID_NAME}) FROM {source}"
            )
        )
        assert found is not None
        first, last, row_id_start = found
        deletes = None
        if ended.ends:
            connection.register("ended", ended.table())
            positions = (
                f"SELECT f.file_row_number AS pos, ended.e AS s FROM {source} f JOIN ended "
                f"ON ended.r = f.{ROW_ID_NAME} AND ended.b = f.{SNAPSHOT_ID_NAME}"
            )
            deletes = _write_deletes(target, connection, file.whole_path, positions)
    return FlushedFile(replace(file, row_id_start=int(row_id_start)), int(first), int(last), deletes)


def _write_deletes(
    target: Target, connection: duckdb.DuckDBPyConnection, data_file: str, positions: str
) -> HistoryDeletes | None:
    """A delete file of the positions `pos` that went at snapshot `s`; one that is there twice went at the first."""
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE deleted AS SELECT pos, min(s) AS s FROM ({positions}) GROUP BY pos"
    )
    row = first_row(connection.execute("SELECT min(s), max(s) FROM deleted"))
    assert row is not None
    if row[0] is None:
        return None
    first, last = map(int, row)
    folder = place_of(target.folder)
    path = os.path.join(folder, f"ducklake-{uuid7()}-delete.parquet")
    target.tx.written.append(path)

    key = new_key() if target.is_encrypted else None

    def written_to(place: str) -> Any:
        values = f"{text_literal(data_file)} AS file_path, pos, s AS {SNAPSHOT_ID_NAME}"
        select = f"SELECT {values} FROM deleted ORDER BY pos"
        return first_row(connection.execute(copied(connection, select, place, FIELDS, key)))

    def write() -> Any:
        if not target.is_remote:
            os.makedirs(folder, exist_ok=True)
            return written_to(path)
        with tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch:
            local = os.path.join(scratch, os.path.basename(path))
            row = written_to(local)
            target.access().upload(local, path)
        return row

    written = explained(target, write)
    return HistoryDeletes(
        path=os.path.basename(path),
        whole_path=path,
        delete_count=int(written[1]),
        file_size_bytes=int(written[2]),
        footer_size=int(written[3]),
        begin_snapshot=first,
        last_snapshot=last,
        key=key,
    )


def _moved_deletes(target: Target, at: int) -> list[tuple[int, HistoryDeletes]]:
    """The inlined deletes of data files, each file's together with all that its delete files ever had."""
    store, table_id = target.tx.store, target.table.table_id
    name = quote(f"ducklake_inlined_delete_{table_id}")
    ids = [
        int(row[0])
        for row in store.query(
            f"SELECT DISTINCT file_id FROM {name} WHERE begin_snapshot <= ? ORDER BY file_id", (at,)
        )
    ]
    rewritten = []
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        data, deletes, inlined = store.query_many(
            [
                (
                    "SELECT data_file_id, path, path_is_relative FROM ducklake_data_file "
                    f"WHERE table_id = ? AND data_file_id IN ({marks}) ORDER BY data_file_id",
                    (table_id, *some),
                ),
                (
                    "SELECT data_file_id, delete_file_id, path, path_is_relative, begin_snapshot, encryption_key, "
                    "end_snapshot "
                    f"FROM ducklake_delete_file WHERE table_id = ? AND data_file_id IN ({marks})",
                    (table_id, *some),
                ),
                (
                    f"SELECT file_id, row_id, begin_snapshot FROM {name} WHERE begin_snapshot <= ? "
                    f"AND file_id IN ({marks})",
                    (at, *some),
                ),
            ]
        )
        with duckdb.connect(":memory:", config={"threads": 1}) as connection:
            for file_id, path, relative in data:
                whole = place_of(target.folder + path if relative else path)
                old = [row[1:] for row in deletes if row[0] == file_id]
                deleted = [row[1:] for row in inlined if row[0] == file_id]
                rewritten.append((int(file_id), _merged(target, connection, whole, old, deleted)))
    return rewritten


def _merged(
    target: Target,
    connection: duckdb.DuckDBPyConnection,
    data_file: str,
    old: Sequence[Row],
    deleted: Sequence[Row],
) -> HistoryDeletes:
    """One delete file in place of the inlined deletes of a data file and of its delete files, ended ones too."""
    inlined = pa.table(
        {
            "pos": pa.array([int(position) for position, _ in deleted], pa.int64()),
            "s": pa.array([int(begin) for _, begin in deleted], pa.int64()),
        }
    )
    connection.register("inlined", inlined)
    parts, replaces = ["SELECT pos, s FROM inlined"], []
    wholes = [target.folder + path if relative else path for _, path, relative, *_ in old]
    access = target.access(wholes)
    with tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch:
        local = access.fetch_all([place_of(whole) for whole in wholes], scratch)
        for number, (delete_id, _, _, begin, key, _) in enumerate(old):
            whole = wholes[number]
            inside = whole.startswith(target.data_path)
            replaces.append((int(delete_id), whole[len(target.data_path) :] if inside else whole, inside))
            source = (local[number], key_of(key))
            parts.append(_old_positions(connection, source, int(begin), f"old{number}"))
        made = _write_deletes(target, connection, data_file, " UNION ALL ".join(parts))
    assert made is not None
    ends = [end for *_, end in old]
    end = None if not ends or None in ends else max(map(int, ends))
    return replace(made, replaces=tuple(replaces), end_snapshot=end)


def _old_positions(
    connection: duckdb.DuckDBPyConnection, file: tuple[str, FileKey | None], begin: int, name: str
) -> str:
    """SQL for the positions of a delete file with the snapshots of their deletes, as far as it tells them."""
    path, key = file
    stamp = f"CAST({begin} AS BIGINT)"
    if not path.endswith(".parquet"):
        connection.register(name, stamped_vector(path, begin))
        return f"SELECT pos, s FROM {name}"
    source = parquet(connection, path, key)
    if SNAPSHOT_ID_NAME in connection.sql(f"SELECT * FROM {source} LIMIT 0").columns:
        stamp = SNAPSHOT_ID_NAME
    return f"SELECT pos, {stamp} AS s FROM {source}"
