"""Rows move from data files to another one, in the Python workers: DuckDB reads and writes, and no row passes the JVM.

A task gets the files of one group. They are read one after the other as streams, by field ids or, where files were
added with names of their own, by those; deleted rows stay behind. Rows keep their ids and the snapshots that added
them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa

from ducklake_spark.format.encryption import FileKey
from ducklake_spark.format.types import quote, text_literal
from ducklake_spark.workers.deletes import deleted_positions
from ducklake_spark.workers.duckdb_encoder import EncodedColumn, Encoding
from ducklake_spark.workers.file_columns import (
    FileNode,
    default_value,
    names_in,
    rebuilt,
    schema_entry,
    struct_fields,
)
from ducklake_spark.workers.object_store import NOWHERE, Access, beside, is_remote
from ducklake_spark.workers.parquet_concat import UnlikeFilesError, concat
from ducklake_spark.workers.parquet_source import MISSING, failure, parquet, unreadable

ROW_ID_NAME, ROW_ID_FIELD = "_ducklake_internal_row_id", 2147483540
SNAPSHOT_ID_NAME, SNAPSHOT_ID_FIELD = "_ducklake_internal_snapshot_id", 2147483539
RESULT = pa.schema([("number", pa.int64()), ("result", pa.string())])
_SMALLEST_MEMORY = 512 << 20
_LARGEST_MEMORY = 4 << 30


@dataclass(frozen=True)
class Source:
    """A data file to be read.

    Attributes:
        names: How its columns are called, by id, where they have no field ids.
        constants: SQL of the values of columns that are in its path only, by id.
        delete_file: A delete file.
        deleted: Positions that the catalog says are deleted.
        key: The key of an encrypted file.
        delete_key: That of its delete file.
    """

    path: str
    begin_snapshot: int
    row_id_start: int | None
    names: Mapping[int, str] | None = None
    constants: Mapping[int, str] = field(default_factory=dict)
    delete_file: str | None = None
    deleted: tuple[int, ...] = ()
    key: FileKey | None = None
    delete_key: FileKey | None = None


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
            local = _fetched(self.encoding.access, sources, scratch)
            return self._result(local, may_omit_row_ids, inner)

    def _result(self, sources: Sequence[Source], may_omit_row_ids: bool, inner: str) -> dict[str, Any]:
        missing = [source.path for source in sources if not os.path.exists(source.path)]
        if missing:
            raise failure(MISSING, missing[0])
        shapes = self._shapes(sources, may_omit_row_ids)
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
            return self._relation(connection, sources, shapes)

        made = encoding.rows_of(relation, inner)
        if not made:
            return {"path": None, "row_ids": with_row_ids}
        [(path, info)] = made
        return {"path": path, "info": info, "row_ids": with_row_ids}

    # How each file is read

    def _shapes(self, sources: Sequence[Source], may_omit_row_ids: bool) -> list[_Shape]:
        """What must be known of each file. Footers are looked at only where something depends on them."""
        nested = {child.column_id: child.name for node in self.nodes for child in struct_fields(node)}
        defaults = {node.column_id for node in self.nodes if node.default is not None}
        look = may_omit_row_ids or bool(nested) or bool(defaults)
        asked = [
            source.path for source in sources if source.key is None and (look or source.names is not None)
        ]
        footers = _footers(asked) if asked else {}
        shapes = []
        for source in sources:
            footer = footers.get(source.path)
            if source.key is not None:
                shapes.append(self._encrypted_shape(source) if look else _Shape())
            elif source.names is not None:
                assert footer is not None
                shapes.append(_Shape(dict(source.names), footer.signature, dict(source.constants)))
            elif footer is None:
                shapes.append(_Shape())
            else:
                has_row_ids = ROW_ID_FIELD in footer.names
                moved = any(footer.names.get(i, name) != name for i, name in nested.items())
                if moved or defaults - footer.names.keys():
                    shapes.append(_Shape(footer.names, footer.signature, {}, has_row_ids))
                else:
                    shapes.append(_Shape(has_row_ids=has_row_ids))
        return shapes

    def _encrypted_shape(self, source: Source) -> _Shape:
        """DuckDB shows the footers of encrypted files to nobody, but the columns."""
        with duckdb.connect(":memory:", config={"threads": 1}) as connection:
            try:
                found = connection.sql(
                    f"SELECT * FROM {parquet(connection, source.path, source.key)} LIMIT 0"
                )
                types = dict(zip(found.columns, found.types, strict=True))
            except duckdb.Error as error:
                raise unreadable(error, source.path) or error from None
        moved: dict[int, _Moved] = {}
        for node in self.nodes:
            if node.children and node.name in types:
                names = names_in(node, types[node.name])
                if any(names.get(child.column_id) != child.name for child in struct_fields(node)):
                    moved[node.column_id] = _Moved(str(types[node.name]), names)
        return _Shape(has_row_ids=ROW_ID_NAME in types, moved=moved)

    def _relation(
        self, connection: duckdb.DuckDBPyConnection, sources: Sequence[Source], shapes: Sequence[_Shape]
    ) -> str:
        runs: list[tuple[_Shape, list[Source]]] = []
        for source, shape in zip(sources, shapes, strict=True):
            if runs and source.key is None and runs[-1][0].reads_like(shape):
                runs[-1][1].append(source)
            else:
                runs.append((shape, [source]))
        parts = [self._run(connection, number, shape, files) for number, (shape, files) in enumerate(runs)]
        rows = " UNION ALL ".join(parts)
        if self.order is None:
            return f"({rows})"
        for macro in self.order.macros:
            connection.execute(macro)
        named = "".join(f", {sql} AS {quote(name)}" for name, sql in self.order.columns)
        keys = "".join(f", {sql} AS __k{i}" for i, (sql, _) in enumerate(self.order.keys))
        order = ", ".join(f"__k{i} {how}" for i, (_, how) in enumerate(self.order.keys))
        kept = ", ".join([*(f"__c{i}" for i in range(len(self.nodes))), "__row", "__at"])
        return f"(SELECT {kept} FROM (SELECT {kept}{keys} FROM (SELECT {kept}{named} FROM ({rows}))) ORDER BY {order})"

    def _run(
        self,
        connection: duckdb.DuckDBPyConnection,
        number: int,
        shape: _Shape,
        sources: Sequence[Source],
    ) -> str:
        """A SELECT of files that are read in one way."""
        listed = [source.path for source in sources]
        key = sources[0].key
        begins = f"[{', '.join(str(source.begin_snapshot) for source in sources)}]"
        starts = f"[{', '.join('NULL' if s.row_id_start is None else str(s.row_id_start) for s in sources)}]"
        if shape.names is None:
            schema = ", ".join(
                [
                    *(
                        schema_entry(
                            node.column_id,
                            f"__c{i}",
                            shape.moved[node.column_id].type if node.column_id in shape.moved else node.type,
                            node.default_text,
                        )
                        for i, node in enumerate(self.nodes)
                    ),
                    schema_entry(ROW_ID_FIELD, "__own_row", "BIGINT"),
                    schema_entry(SNAPSHOT_ID_FIELD, "__own_at", "BIGINT"),
                ]
            )
            source = parquet(connection, listed, key, f"schema = MAP {{{schema}}}")
            values = [
                f"{rebuilt(node, f'__c{i}', shape.moved[node.column_id].names)} AS __c{i}"
                if node.column_id in shape.moved
                else f"__c{i}"
                for i, node in enumerate(self.nodes)
            ]
            own_row, own_at = "__own_row", "__own_at"
        else:
            source = parquet(connection, listed, key)
            values = [
                f"{shape.constants[node.column_id]} AS __c{i}"
                if node.column_id in shape.constants
                else f"{rebuilt(node, quote(shape.names[node.column_id]), shape.names)} AS __c{i}"
                if node.column_id in shape.names
                else f"{default_value(node)} AS __c{i}"
                for i, node in enumerate(self.nodes)
            ]
            own_row, own_at = (
                quote(shape.names[known]) if known in shape.names else "CAST(NULL AS BIGINT)"
                for known in (ROW_ID_FIELD, SNAPSHOT_ID_FIELD)
            )
        start, begin = (
            f"CAST({each}[CAST(file_index AS BIGINT) + 1] AS BIGINT)" for each in (starts, begins)
        )
        row = f"coalesce({own_row}, {start} + file_row_number) AS __row"
        at = f"coalesce({own_at}, {begin}) AS __at"
        select = f"SELECT {', '.join([*values, row, at])} FROM {source}"
        deleted = _deleted(sources)
        if deleted is None:
            return select
        connection.register(f"__deleted{number}", deleted)
        return (
            f"{select} AS r WHERE NOT EXISTS (SELECT 1 FROM __deleted{number} AS d WHERE d.file = r.file_index "
            "AND d.pos = r.file_row_number)"
        )


@dataclass(frozen=True)
class _Moved:
    """The type of a column in a file, and how the fields inside of it are called there, by id."""

    type: str
    names: Mapping[int, str]


@dataclass(frozen=True)
class _Shape:
    """How a file is read: by field ids, or by the names that its columns have."""

    names: Mapping[int, str] | None = None
    signature: tuple[Any, ...] = ()
    constants: Mapping[int, str] = field(default_factory=dict)
    has_row_ids: bool = False
    moved: Mapping[int, _Moved] = field(default_factory=dict)
    """Columns inside which fields have other names, by id; of encrypted files only."""

    def reads_like(self, other: _Shape) -> bool:
        """Whether one SELECT reads both."""
        own, others = (
            (shape.names, shape.signature, shape.constants) if shape.names is not None else None
            for shape in (self, other)
        )
        return own == others


@dataclass(frozen=True)
class _Footer:
    names: Mapping[int, str]
    signature: tuple[Any, ...]


def _footers(paths: Sequence[str]) -> dict[str, _Footer]:
    """The columns of files: their names by field id, and all that a reader must know of them."""
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        rows = connection.execute(
            "SELECT file_name, name, field_id, type, num_children, converted_type, logical_type "
            f"FROM parquet_schema([{', '.join(map(text_literal, paths))}])"
        ).fetchall()
    found: dict[str, list[tuple[Any, ...]]] = {}
    for path, *row in rows:
        found.setdefault(path, []).append(tuple(row))
    return {
        path: _Footer({row[1]: row[0] for row in columns if row[1] is not None}, tuple(columns))
        for path, columns in found.items()
    }


def _deleted(sources: Sequence[Source]) -> pa.Table | None:
    """The deleted positions of files, by their place among the sources."""
    files: list[pa.Array] = []
    positions: list[pa.Array] = []
    for place, source in enumerate(sources):
        known = source.delete_file
        parts = [] if known is None else [deleted_positions(known, source.delete_key)]
        for part in (*parts, source.deleted):
            found = pa.array(part, pa.int64())
            positions.append(found)
            files.append(pa.repeat(pa.scalar(place, pa.int64()), len(found)))
    if not any(len(each) for each in positions):
        return None
    return pa.table({"file": pa.concat_arrays(files), "pos": pa.concat_arrays(positions)})


def _fetched(access: Access, sources: Sequence[Source], scratch: str) -> list[Source]:
    """The sources with their files on this machine."""
    named = [path for source in sources for path in (source.path, source.delete_file) if path is not None]
    if not any(map(is_remote, named)):
        return list(sources)
    try:
        places = dict(zip(named, access.fetch_all(named, scratch), strict=True))
    except FileNotFoundError as error:
        raise failure(MISSING, _missing(named, str(error))) from None
    return [
        replace(
            source,
            path=places[source.path],
            delete_file=None if source.delete_file is None else places[source.delete_file],
        )
        for source in sources
    ]


def _missing(paths: Sequence[str], said: str) -> str:
    """Which file it was, as far as the store's words tell."""
    return next((path for path in paths if path.rpartition("/")[2] in said), paths[0])


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
