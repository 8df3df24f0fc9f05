"""Rows of data files as DuckDB reads them in the workers: by field ids, or by the names that files have, less deletes.

Files are read one after the other as streams. What becomes of the rows is for others: compaction writes them to other
files, scans without a session hand them to Spark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa

from ducklake_spark.format.encryption import FileKey
from ducklake_spark.format.types import quote, text_literal
from ducklake_spark.workers.deletes import deleted_positions
from ducklake_spark.workers.file_columns import (
    FileNode,
    default_value,
    names_in,
    rebuilt,
    schema_entry,
    struct_fields,
)
from ducklake_spark.workers.object_store import Access, is_remote
from ducklake_spark.workers.parquet_source import MISSING, failure, parquet, unreadable

ROW_ID_NAME, ROW_ID_FIELD = "_ducklake_internal_row_id", 2147483540
SNAPSHOT_ID_NAME, SNAPSHOT_ID_FIELD = "_ducklake_internal_snapshot_id", 2147483539


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
class _Moved:
    """The type of a column in a file, and how the fields inside of it are called there, by id."""

    type: str
    names: Mapping[int, str]


@dataclass(frozen=True)
class Shape:
    """How a file is read: by field ids, or by the names that its columns have."""

    names: Mapping[int, str] | None = None
    signature: tuple[Any, ...] = ()
    constants: Mapping[int, str] = field(default_factory=dict)
    has_row_ids: bool = False
    moved: Mapping[int, _Moved] = field(default_factory=dict)
    """Columns inside which fields have other names, by id; of encrypted files only."""

    def reads_like(self, other: Shape) -> bool:
        """Whether one SELECT reads both."""
        own, others = (
            (shape.names, shape.signature, shape.constants) if shape.names is not None else None
            for shape in (self, other)
        )
        return own == others


@dataclass(frozen=True)
class FileRows:
    """Reads files with the same columns.

    Attributes:
        nodes: The columns.
    """

    nodes: tuple[FileNode, ...]

    def shapes(self, sources: Sequence[Source], *, asks_row_ids: bool = False) -> list[Shape]:
        """What must be known of each file. Footers are looked at only where something depends on them.

        Args:
            sources: The files, on this machine.
            asks_row_ids: Whether it is asked which files have row ids of their own.

        Raises:
            RuntimeError: A file is not there.
        """
        missing = [source.path for source in sources if not os.path.exists(source.path)]
        if missing:
            raise failure(MISSING, missing[0])
        nested = {child.column_id: child.name for node in self.nodes for child in struct_fields(node)}
        defaults = {node.column_id for node in self.nodes if node.default is not None}
        look = asks_row_ids or bool(nested) or bool(defaults)
        asked = [
            source.path for source in sources if source.key is None and (look or source.names is not None)
        ]
        footers = _footers(asked) if asked else {}
        shapes = []
        for source in sources:
            footer = footers.get(source.path)
            if source.key is not None:
                shapes.append(self._encrypted_shape(source) if look else Shape())
            elif source.names is not None:
                assert footer is not None
                shapes.append(Shape(dict(source.names), footer.signature, dict(source.constants)))
            elif footer is None:
                shapes.append(Shape())
            else:
                has_row_ids = ROW_ID_FIELD in footer.names
                moved = any(footer.names.get(i, name) != name for i, name in nested.items())
                if moved or defaults - footer.names.keys():
                    shapes.append(Shape(footer.names, footer.signature, {}, has_row_ids))
                else:
                    shapes.append(Shape(has_row_ids=has_row_ids))
        return shapes

    def _encrypted_shape(self, source: Source) -> Shape:
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
        return Shape(has_row_ids=ROW_ID_NAME in types, moved=moved)

    def relation(
        self,
        connection: duckdb.DuckDBPyConnection,
        sources: Sequence[Source],
        shapes: Sequence[Shape],
        prefix: str = "__deleted",
    ) -> str:
        """A query of the live rows: columns `__c0`, `__c1` ..., `__row`, `__at`, and where they are, `__src`, `__pos`.

        Args:
            connection: Where it will run; deleted positions are registered there.
            sources: The files, in the order of their rows.
            shapes: What `shapes` said of them.
            prefix: How the names of tables of deleted positions begin.
        """
        runs: list[tuple[Shape, list[Source]]] = []
        for source, shape in zip(sources, shapes, strict=True):
            if runs and source.key is None and runs[-1][0].reads_like(shape):
                runs[-1][1].append(source)
            else:
                runs.append((shape, [source]))
        parts, place = [], 0
        for number, (shape, files) in enumerate(runs):
            parts.append(self._run(connection, f"{prefix}{number}", place, shape, files))
            place += len(files)
        return " UNION ALL ".join(parts)

    def _run(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        place: int,
        shape: Shape,
        sources: Sequence[Source],
    ) -> str:
        """A SELECT of files that are read in one way, the first of them at this place among the sources."""
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
        where = f"{place} + CAST(file_index AS BIGINT) AS __src, CAST(file_row_number AS BIGINT) AS __pos"
        select = f"SELECT {', '.join([*values, row, at, where])} FROM {source}"
        deleted = _deleted(sources)
        if deleted is None:
            return select
        connection.register(table, deleted)
        return (
            f"{select} AS r WHERE NOT EXISTS (SELECT 1 FROM {table} AS d WHERE d.file = r.file_index "
            "AND d.pos = r.file_row_number)"
        )


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


def fetched(access: Access, sources: Sequence[Source], scratch: str) -> list[Source]:
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
