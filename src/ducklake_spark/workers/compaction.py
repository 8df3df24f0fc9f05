"""Rows move from data files to another one, in the Python workers: DuckDB reads and writes, and no row passes the JVM.

A task gets the files of one group. They are read one after the other as streams, by field ids or, where files were
added with names of their own, by those; deleted rows stay behind. Rows keep their ids and the snapshots that added
them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa

from ducklake_spark.format.types import quote
from ducklake_spark.workers.duckdb_encoder import EncodedColumn, Encoding
from ducklake_spark.workers.file_columns import FileNode
from ducklake_spark.workers.file_rows import (
    ROW_ID_FIELD,
    ROW_ID_NAME,
    SNAPSHOT_ID_FIELD,
    SNAPSHOT_ID_NAME,
    FileRows,
    Source,
    fetched,
)
from ducklake_spark.workers.object_store import NOWHERE, Access, beside, is_remote
from ducklake_spark.workers.parquet_concat import UnlikeFilesError, concat

RESULT = pa.schema([("number", pa.int64()), ("result", pa.string())])
_SMALLEST_MEMORY = 512 << 20
_LARGEST_MEMORY = 4 << 30


@dataclass(frozen=True)
class Order:
    """How rows are sorted.

    Attributes:
        columns: Names and SQL of what the keys speak of: the table's present columns, over `__c0`, `__c1` ...
        keys: The keys, each with its direction and place for NULLs.
        macros: Statements that make the lake's own functions.
    """

    columns: tuple[tuple[str, str], ...]
    keys: tuple[tuple[str, str], ...]
    macros: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rewriting:
    """How the rows of files with the same columns become a file.

    Attributes:
        encoding: Writes them; its columns and field ids are set here.
        nodes: The columns.
        field_ids: The field ids of the columns, each as COPY takes it.
        with_snapshots: Whether the file tells the snapshot of each row.
        order: How rows are sorted, if at all.
    """

    encoding: Encoding
    nodes: tuple[FileNode, ...]
    field_ids: tuple[str, ...]
    with_snapshots: bool
    order: Order | None = None

    def result(self, sources: Sequence[Source], *, may_omit_row_ids: bool, inner: str = "") -> dict[str, Any]:
        """Writes the live rows of the sources. The result has no path when there are none.

        Args:
            sources: The files, in the order of their rows.
            may_omit_row_ids: Whether row ids follow each other, so that they need not be written.
            inner: The folders of their partition.
        """
        with tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch:
            local = fetched(self.encoding.access, sources, scratch)
            return self._result(local, may_omit_row_ids, inner)

    def _result(self, sources: Sequence[Source], may_omit_row_ids: bool, inner: str) -> dict[str, Any]:
        files = FileRows(self.nodes)
        shapes = files.shapes(sources, asks_row_ids=may_omit_row_ids)
        with_row_ids = not may_omit_row_ids or any(shape.has_row_ids for shape in shapes)
        columns = [EncodedColumn(node.name, f"__c{i}") for i, node in enumerate(self.nodes)]
        field_ids = list(self.field_ids)
        if with_row_ids:
            columns.append(EncodedColumn(ROW_ID_NAME, "__row"))
            field_ids.append(f"'{ROW_ID_NAME}': {ROW_ID_FIELD}")
        if self.with_snapshots:
            columns.append(EncodedColumn(SNAPSHOT_ID_NAME, "__at"))
            field_ids.append(f"'{SNAPSHOT_ID_NAME}': {SNAPSHOT_ID_FIELD}")
        encoding = replace(self.encoding, columns=tuple(columns), field_ids="{" + ", ".join(field_ids) + "}")

        def relation(connection: duckdb.DuckDBPyConnection) -> str:
            connection.execute(f"SET memory_limit = '{_memory_limit()}B'")
            # The rows are probed with the deletes, never the other way round: their order stays.
            connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
            return self._ordered(connection, files.relation(connection, sources, shapes))

        made = encoding.rows_of(relation, inner)
        if not made:
            return {"path": None, "row_ids": with_row_ids}
        [(path, info)] = made
        return {"path": path, "info": info, "row_ids": with_row_ids}

    def _ordered(self, connection: duckdb.DuckDBPyConnection, rows: str) -> str:
        if self.order is None:
            return f"({rows})"
        for macro in self.order.macros:
            connection.execute(macro)
        named = "".join(f", {sql} AS {quote(name)}" for name, sql in self.order.columns)
        keys = "".join(f", {sql} AS __k{i}" for i, (sql, _) in enumerate(self.order.keys))
        order = ", ".join(f"__k{i} {how}" for i, (_, how) in enumerate(self.order.keys))
        kept = ", ".join([*(f"__c{i}" for i in range(len(self.nodes))), "__row", "__at"])
        return f"(SELECT {kept} FROM (SELECT {kept}{keys} FROM (SELECT {kept}{named} FROM ({rows}))) ORDER BY {order})"


def _memory_limit() -> int:
    """What one of the machine's tasks may use; more goes to its scratch folder."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = int(total * 0.6 / (os.cpu_count() or 1))
    return max(_SMALLEST_MEMORY, min(_LARGEST_MEMORY, share))


@dataclass(frozen=True)
class Work:
    """One file to write: the number of its rewriting, its sources, and whether it can do without row ids."""

    rewriting: int
    sources: tuple[Source, ...]
    may_omit_row_ids: bool = False
    inner: str = ""
    """The folders of its partition."""


@dataclass(frozen=True)
class CompactionTasks:
    """Does the work of these numbers, in the workers."""

    rewritings: tuple[Rewriting, ...]
    work: tuple[Work, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                work = self.work[number]
                rewriting = self.rewritings[work.rewriting]
                result = rewriting.result(
                    work.sources, may_omit_row_ids=work.may_omit_row_ids, inner=work.inner
                )
                yield pa.record_batch([pa.array([number]), pa.array([json.dumps(result)])], schema=RESULT)


@dataclass(frozen=True)
class JoinTasks:
    """Puts files behind each other, in the workers: the result has the sizes of the first one and of its footer."""

    work: tuple[tuple[str, ...], ...]
    access: Access = NOWHERE

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                sizes = json.dumps(self.joined(number))
                yield pa.record_batch([pa.array([number]), pa.array([sizes])], schema=RESULT)

    def joined(self, number: int) -> tuple[int, int, str] | None:
        """The sizes, and where the file is; None when the files are not alike, and stay as they are."""
        paths = self.work[number]
        try:
            if not is_remote(paths[0]):
                return *concat(paths), paths[0]
            with tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch:
                fetched = self.access.fetch_all(paths, scratch)
                sizes, place = concat(fetched), beside(paths[0])
                self.access.upload(fetched[0], place)
        except UnlikeFilesError:
            return None
        return *sizes, place
