"""Tables and change feeds read by DuckDB in tasks of Spark that have no session: those of a Python data source.

`TableScan` and `FeedScan` travel to the workers. What they read is on this machine; the rows leave as Arrow batches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from ducklake_spark.format.deletion_vector import vector_positions
from ducklake_spark.format.duckdb_library import arrow_reader
from ducklake_spark.format.encryption import FileKey
from ducklake_spark.workers.deletes import VECTOR, stamped_vector
from ducklake_spark.workers.file_columns import FileNode
from ducklake_spark.workers.file_rows import SNAPSHOT_ID_NAME, FileRows, Source
from ducklake_spark.workers.file_scan import in_schema
from ducklake_spark.workers.parquet_source import parquet, unreadable

_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class Layout:
    """How files of one age are read.

    Attributes:
        nodes: The columns in the files.
        values: SQL of the columns of the result, over `__c0`, `__c1` ...
    """

    nodes: tuple[FileNode, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class Deletes:
    """A delete file of a data file; its positions were deleted at this snapshot, if it does not say when each was."""

    path: str
    key: FileKey | None
    begin_snapshot: int

    def stamped(self) -> pa.Table:
        """Positions, and the snapshots of their deletes."""
        if self.path.endswith(VECTOR):
            return stamped_vector(self.path, self.begin_snapshot)
        with duckdb.connect(":memory:", config={"threads": 1}) as connection:
            try:
                source = parquet(connection, self.path, self.key)
                names = connection.sql(f"SELECT * FROM {source} LIMIT 0").columns
                stamp = f"coalesce({SNAPSHOT_ID_NAME}, {self.begin_snapshot})"
                stamp = stamp if SNAPSHOT_ID_NAME in names else str(self.begin_snapshot)
                sql = f"SELECT CAST(pos AS BIGINT) AS pos, CAST({stamp} AS BIGINT) AS s FROM {source}"
                return arrow_reader(connection, sql, _BATCH_ROWS).read_all()
            except duckdb.Error as error:
                raise unreadable(error, self.path) or error from None

    def at(self, snapshot_id: int) -> tuple[int, ...]:
        """The positions that were deleted at a snapshot."""
        if self.path.endswith(VECTOR):
            with open(self.path, "rb") as vector:
                return tuple(vector_positions(vector.read(), self.path, snapshot_id).tolist())
        found = self.stamped()
        pairs = zip(found["pos"].to_pylist(), found["s"].to_pylist(), strict=True)
        return tuple(pos for pos, stamp in pairs if stamp <= snapshot_id)


@dataclass(frozen=True)
class ReadFile:
    """A data file to read.

    Attributes:
        source: Where it is, with the deletes that the catalog keeps.
        layout: Which of the layouts it has.
        deletes: Its delete files: one at a snapshot, for a feed maybe several.
        is_partial: Whether it holds rows of snapshots that do not count.
        end_snapshot: For a feed, the snapshot in which the file ended.
    """

    source: Source
    layout: int
    deletes: tuple[Deletes, ...] = ()
    is_partial: bool = False
    end_snapshot: int | None = None


@dataclass(frozen=True)
class ScanTask:
    """What one task reads: files, or rows that the catalog kept, which are here as an Arrow stream."""

    files: tuple[ReadFile, ...] = ()
    rows: bytes | None = None


@dataclass(frozen=True)
class TableScan:
    """Reads a table at a snapshot.

    Attributes:
        layouts: How files of each age are read.
        given: SQL of the columns of the result, over the columns `u0`, `u1` ... of rows that the catalog kept.
        schema: What Arrow calls the result, serialized.
        snapshot_id: The snapshot.
        condition: SQL over the columns of the result; rows for which it is not true are not wanted.
    """

    layouts: tuple[Layout, ...]
    given: tuple[str, ...]
    names: tuple[str, ...]
    schema: bytes
    snapshot_id: int
    condition: str | None = None

    def rows(self, task: ScanTask) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        with _connected() as connection:
            if task.rows is not None:
                connection.register("__given", pa.ipc.open_stream(task.rows).read_all())
                rows = [f"SELECT {_named(self.given, self.names)} FROM __given"]
            else:
                rows = [
                    self._of_layout(connection, number, [f for f in task.files if f.layout == number])
                    for number in sorted({file.layout for file in task.files})
                ]
            for select in rows:
                where = "" if self.condition is None else f" WHERE {self.condition}"
                yield from _batches(connection, f"SELECT * FROM ({select}){where}", self.schema)

    def _of_layout(
        self, connection: duckdb.DuckDBPyConnection, number: int, files: Sequence[ReadFile]
    ) -> str:
        layout, reader = self.layouts[number], FileRows(self.layouts[number].nodes)
        parts = []
        for is_partial in (False, True):
            sources = [self._without_deleted(file) for file in files if file.is_partial == is_partial]
            if sources:
                found = reader.relation(
                    connection, sources, reader.shapes(sources), f"__deleted{number}_{int(is_partial)}_"
                )
                where = f" WHERE __at <= {self.snapshot_id}" if is_partial else ""
                parts.append(f"SELECT {_named(layout.values, self.names)} FROM ({found}){where}")
        return " UNION ALL ".join(parts)

    def _without_deleted(self, file: ReadFile) -> Source:
        found = [position for each in file.deletes for position in each.at(self.snapshot_id)]
        return replace(file.source, deleted=(*file.source.deleted, *found))


@dataclass(frozen=True)
class FeedTask:
    """All that a change feed reads. Its new and old versions of rows must meet, so that one task has them all.

    Attributes:
        inserted: Files with rows that began in the range.
        deleted: Files with rows that ended in it.
        positions: For each of these, deleted positions with their snapshots, which the catalog keeps.
        new: Rows that the catalog kept and that began in the range, as Arrow streams.
        old: Such that ended in it.
    """

    inserted: tuple[ReadFile, ...]
    deleted: tuple[ReadFile, ...]
    positions: tuple[tuple[tuple[int, int], ...], ...]
    new: tuple[bytes, ...] = ()
    old: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class FeedScan:
    """Reads the changes of a table from the first to the last snapshot: snapshot, row id, kind, the table's columns."""

    layouts: tuple[Layout, ...]
    given: tuple[str, ...]
    schema: bytes
    first: int
    last: int

    def rows(self, task: FeedTask) -> Iterator[pa.RecordBatch]:
        """The changes."""
        with (
            tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch,
            _connected(scratch) as connection,
        ):
            new = self._kept(connection, "new", task.new) + self._inserted(connection, task.inserted)
            old = self._kept(connection, "old", task.old) + self._deleted(connection, task)
            if not new and not old:
                return
            own = [f"u{i}" for i in range(len(self.given))]
            if not new or not old:
                kind, rows = ("insert", new) if new else ("delete", old)
                select = f"SELECT s, r, '{kind}' AS k, {', '.join(own)} FROM ({' UNION ALL '.join(rows)})"
                yield from _batches(connection, select, self.schema)
                return
            # What is known of the other side are the ids of its rows: their values are read once.
            for rows, others, single, pair in (
                (old, new, "delete", "update_preimage"),
                (new, old, "insert", "update_postimage"),
            ):
                ids = f"SELECT DISTINCT r, s FROM ({' UNION ALL '.join(others)})"
                values = ", ".join(f"a.{name}" for name in own)
                select = (
                    f"SELECT a.s, a.r, CASE WHEN b.s IS NULL THEN '{single}' ELSE '{pair}' END AS k, {values} "
                    f"FROM ({' UNION ALL '.join(rows)}) AS a LEFT JOIN ({ids}) AS b ON a.r = b.r AND a.s = b.s"
                )
                yield from _batches(connection, select, self.schema)

    def _kept(self, connection: duckdb.DuckDBPyConnection, name: str, streams: Sequence[bytes]) -> list[str]:
        """Rows that the catalog kept."""
        parts = []
        for number, stream in enumerate(streams):
            table = f"__{name}{number}"
            connection.register(table, pa.ipc.open_stream(stream).read_all())
            parts.append(f"SELECT {_numbered(self.given)}, r, s FROM {table}")
        return parts

    def _read(
        self, connection: duckdb.DuckDBPyConnection, files: Sequence[ReadFile], prefix: str
    ) -> Iterator[tuple[list[int], str]]:
        """The rows of files of each age: their places among the files, and a query that knows where each row is."""
        for number in sorted({file.layout for file in files}):
            places = [place for place, file in enumerate(files) if file.layout == number]
            sources = [files[place].source for place in places]
            reader = FileRows(self.layouts[number].nodes)
            rows = reader.relation(connection, sources, reader.shapes(sources), f"{prefix}{number}_")
            values = _numbered(self.layouts[number].values)
            yield places, f"SELECT {values}, __row AS r, __at, __src, __pos FROM ({rows})"

    def _inserted(self, connection: duckdb.DuckDBPyConnection, files: Sequence[ReadFile]) -> list[str]:
        own = _names(self.given)
        return [
            f"SELECT {own}, r, __at AS s FROM ({rows}) WHERE __at BETWEEN {self.first} AND {self.last}"
            for _, rows in self._read(connection, files, "__in")
        ]

    def _deleted(self, connection: duckdb.DuckDBPyConnection, task: FeedTask) -> list[str]:
        own = _names(self.given)
        parts = []
        for number, (places, rows) in enumerate(self._read(connection, task.deleted, "__out")):
            table = f"__gone{number}"
            connection.register(table, _gone(task, places))
            ends = [task.deleted[place].end_snapshot for place in places]
            end = f"CAST([{', '.join('NULL' if e is None else str(e) for e in ends)}][__src + 1] AS BIGINT)"
            # Of a file that ended, the rows that were there until then; of one that did not, what was deleted from it.
            parts.append(
                f"SELECT {own}, r, least(d.s, e) AS s FROM (SELECT *, {end} AS e FROM ({rows})) AS f LEFT JOIN {table} "
                f"AS d ON d.file = f.__src AND d.pos = f.__pos WHERE least(d.s, e) BETWEEN {self.first} AND {self.last}"
            )
        return parts


def _gone(task: FeedTask, places: Sequence[int]) -> pa.Table:
    """Deleted positions of the files at these places, each with the snapshot of its first delete."""
    first: dict[tuple[int, int], int] = {}
    for number, place in enumerate(places):
        pairs = list(task.positions[place])
        for deletes in task.deleted[place].deletes:
            found = deletes.stamped()
            pairs += zip(found["pos"].to_pylist(), found["s"].to_pylist(), strict=True)
        for position, stamp in pairs:
            first[number, position] = min(stamp, first.get((number, position), stamp))
    return pa.table(
        {
            "file": pa.array([file for file, _ in first], pa.int64()),
            "pos": pa.array([position for _, position in first], pa.int64()),
            "s": pa.array(list(first.values()), pa.int64()),
        }
    )


def _connected(scratch: str = "") -> duckdb.DuckDBPyConnection:
    # Without a folder for it, nothing that was decrypted is spilled.
    connection = duckdb.connect(":memory:", config={"threads": 1, "temp_directory": scratch})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _named(values: Sequence[str], names: Sequence[str]) -> str:
    return ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))


def _numbered(values: Sequence[str]) -> str:
    return ", ".join(f"{value} AS u{i}" for i, value in enumerate(values))


def _names(values: Sequence[str]) -> str:
    return ", ".join(f"u{i}" for i in range(len(values)))


def _batches(connection: duckdb.DuckDBPyConnection, sql: str, schema: bytes) -> Iterator[pa.RecordBatch]:
    wanted = pa.ipc.read_schema(pa.py_buffer(schema))
    for batch in arrow_reader(connection, sql, _BATCH_ROWS):
        if batch.num_rows:
            yield in_schema(batch, wanted)
