"""Rows that a transaction adds: files that were written, and rows that will live in the catalog. Pure values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ducklake_spark.format.column_mapping import ColumnMapping
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.encryption import FileKey
from ducklake_spark.format.statistics import UNBOUNDED, ColumnStats, merge_files
from ducklake_spark.format.types import NESTED, DataType, List, Map, Scalar, Struct, duckdb_name

LOCAL_ROW_ID = 10**18
"""Row ids from here on are of rows that a transaction inserted and did not commit yet, as in the extension."""


@dataclass(frozen=True)
class DataFile:
    """A data file that was written; `path` as it is stored."""

    path: str
    path_is_relative: bool
    record_count: int
    file_size_bytes: int
    footer_size: int | None
    columns: tuple[ColumnStats, ...] = ()
    partition_id: int | None = None
    """The specification under which it was written; may be local."""
    partition_values: tuple[str | None, ...] = ()
    whole_path: str = ""
    """Where it is, for reads before the commit and for removal when there is none."""
    has_row_ids: bool = False
    """Whether its rows were in the table before and keep their ids, which begin at `row_id_start`."""
    row_id_start: int | None = None
    mapping: ColumnMapping | None = None
    """How it calls the columns, if it was there before and was added; then it stays when there is no commit."""
    key: FileKey | None = None
    """With which it is encrypted."""


def joined(files: Sequence[DataFile], columns: Sequence[ColumnDef]) -> DataFile:
    """One file that has the rows of several of one partition; its sizes are not known yet."""
    types = {node.column_id: node.type for column in columns for node in column.walk()}
    found: dict[int, list[ColumnStats]] = {}
    for stats in (each for file in files for each in file.columns):
        found.setdefault(stats.column_id, []).append(stats)
    return replace(
        files[0],
        record_count=sum(file.record_count for file in files),
        columns=tuple(
            merge_files(parts, types[column_id])
            for column_id, parts in found.items()
            if len(parts) == len(files)
        ),
    )


@dataclass(frozen=True)
class InlineBatch:
    """Rows for the catalog: one text or plain value per column, in the encoding of the catalog database."""

    rows: Sequence[tuple[Any, ...]]
    columns: tuple[ColumnStats, ...]
    casts: Sequence[str] = field(default_factory=tuple)
    """For each column the SQL that turns the parameter into the physical type, with `?` in it."""
    layout: tuple[ColumnDef, ...] = ()
    """The table's columns when the rows were made."""
    kind: str = "duckdb"
    """The kind of the catalog database."""
    row_ids: tuple[int | None, ...] = ()
    """For new versions of rows, the ids that they keep; None for a row that gets a new one."""

    @property
    def record_count(self) -> int:
        """How many rows."""
        return len(self.rows)


PLAIN = frozenset({"boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})
"""Types that every catalog database keeps as they are; others are kept as text, but for bytes and PostgreSQL's."""


def stored_type(node: ColumnDef, variant: str = "varchar") -> str:
    """The type whose text is stored: JSON inside of containers is plain text, where a cast would parse the whole."""

    def stored(data_type: DataType) -> DataType:
        match data_type:
            case List(element):
                return List(stored(element))
            case Map(key, value):
                return Map(stored(key), stored(value))
            case Struct(fields):
                return Struct(tuple((name, stored(part)) for name, part in fields))
            case Scalar("json"):
                return Scalar("varchar")
            case Scalar("variant"):
                return Scalar(variant)
            case _:
                return data_type

    return duckdb_name(stored(node.data_type))


def variant_json(sql: str) -> str:
    """A variant as JSON. Its NULL is NULL: DuckDB 1.5 makes the text null of it, DuckDB 2 does not."""
    return f"CASE WHEN {sql} IS NOT NULL THEN CAST({sql} AS JSON) END"


def inline_casts(columns: Sequence[ColumnDef], kind: str) -> tuple[str, ...]:
    """How a DuckDB catalog takes the values; the others take them as they are."""
    if kind != "duckdb":
        return ()
    casts = []
    for column in columns:
        if column.type in PLAIN or column.type in ("varchar", "blob"):
            casts.append("?")
        elif column.type == "variant":
            casts.append("variant_bytes_to_variant(?)")
        else:
            text = f"CAST(? AS {stored_type(column, 'variant')})" if column.type in NESTED else "?"
            casts.append(f"CAST({text} AS {duckdb_name(column.data_type)})")
    return tuple(casts)


@dataclass(frozen=True)
class DeleteFile:
    """A delete file that was written for a data file.

    Attributes:
        begin_snapshot: Of the oldest delete in it; None when all are of this transaction.
        stamp: The snapshot id that stands in it for the deletes of this transaction; None for a plain file.
        replaces: Id, path and relativity of the committed delete file whose place it takes. One that has a stamp holds
            the snapshots of all its deletes, and the old file goes; any other begins where the old one ends.
        format: `parquet`, or `puffin` for a deletion vector.
        key: With which it is encrypted.
    """

    path: str
    whole_path: str
    delete_count: int
    file_size_bytes: int
    footer_size: int
    begin_snapshot: int | None = None
    stamp: int | None = None
    replaces: tuple[int, str, bool] | None = None
    format: str = "parquet"
    key: FileKey | None = None


@dataclass(frozen=True)
class FileDeletes:
    """What one transaction deletes from one data file: positions in the catalog, a delete file, or the whole file."""

    data_file_id: int
    inlined: tuple[int, ...] = ()
    file: DeleteFile | None = None
    ended: bool = False


def added_statistics(
    files: Sequence[DataFile], batches: Sequence[InlineBatch], types: Mapping[int, str]
) -> dict[int, ColumnStats]:
    """What all added rows together say of each column; nothing of a column that some of them are silent on.

    Rows that were inlined and deleted again by one transaction count, as in the extension. Rows that come back do
    not: the table's statistics, which never shrink, have them already.
    """
    parts: dict[int, list[ColumnStats]] = {}
    new: list[DataFile | InlineBatch] = [*(file for file in files if not file.has_row_ids), *batches]
    sources = [
        _told(source, types)
        if isinstance(source, DataFile) and source.mapping is not None
        else source.columns
        for source in new
        if source.record_count or source.columns
    ]
    for columns in sources:
        for stats in columns:
            parts.setdefault(stats.column_id, []).append(stats)
    return {
        column_id: merge_files(found, types[column_id])
        for column_id, found in parts.items()
        if column_id in types and types[column_id] not in NESTED and len(found) == len(sources)
    }


def _told(file: DataFile, types: Mapping[int, str]) -> tuple[ColumnStats, ...]:
    """What an added file really tells: whoever wrote it may have counted nothing, or have left out bounds."""
    return tuple(
        each
        for each in file.columns
        if each.null_count is not None
        and (each.all_null or each.min_value is not None or types.get(each.column_id) in UNBOUNDED)
    )
