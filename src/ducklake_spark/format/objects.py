"""What a lake holds at a snapshot: schemas, tables, views and macros as immutable values.

Objects that a transaction has made and not yet committed carry negative ids; `is_local` tells them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from ducklake_spark.format import paths
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.partitioning import Partitioning
from ducklake_spark.format.sorting import Sorting
from ducklake_spark.format.types import quote

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def is_local(object_id: int) -> bool:
    """Whether the object exists only in a transaction that has not committed."""
    return object_id < 0


@dataclass(frozen=True)
class Snapshot:
    """One row of `ducklake_snapshot`; the time in microseconds since 1970."""

    snapshot_id: int
    snapshot_micros: int
    schema_version: int
    next_catalog_id: int
    next_file_id: int

    @property
    def snapshot_time(self) -> datetime:
        """When it was committed, in UTC."""
        return EPOCH + timedelta(microseconds=self.snapshot_micros)


@dataclass(frozen=True)
class SchemaDef:
    """A schema; `path` as it is stored."""

    schema_id: int
    schema_uuid: str
    name: str
    path: str | None
    path_is_relative: bool


@dataclass(frozen=True)
class TableDef:
    """A table with its columns, specifications and comments."""

    table_id: int
    table_uuid: str
    schema_id: int
    name: str
    path: str | None
    path_is_relative: bool
    columns: tuple[ColumnDef, ...]
    next_column_id: int
    partitioning: Partitioning | None = None
    sorting: Sorting | None = None
    comment: str | None = None


@dataclass(frozen=True)
class ViewDef:
    """A view; `sql` in the dialect that it is stored in."""

    view_id: int
    view_uuid: str
    schema_id: int
    name: str
    dialect: str
    sql: str
    column_aliases: tuple[str, ...] = ()
    comment: str | None = None


@dataclass(frozen=True)
class MacroParameter:
    """A parameter of a macro; without a default, `default_value` is None."""

    name: str
    type: str = "unknown"
    default_value: str | None = None
    default_value_type: str = "unknown"


@dataclass(frozen=True)
class MacroImpl:
    """One overload of a macro."""

    sql: str
    type: str
    parameters: tuple[MacroParameter, ...] = ()
    dialect: str = "duckdb"


@dataclass(frozen=True)
class MacroDef:
    """A scalar or table macro with its overloads."""

    macro_id: int
    schema_id: int
    name: str
    impls: tuple[MacroImpl, ...]

    @property
    def is_table(self) -> bool:
        """Whether it returns a table."""
        return self.impls[0].type == "table"


def uuid7() -> str:
    """A time-ordered uuid, as the extension gives to schemas, tables and files."""
    micros = (datetime.now(timezone.utc) - EPOCH) // timedelta(microseconds=1)
    random_bits = uuid.uuid4().int
    millis, sub_millis = divmod(micros, 1000)
    value = (
        millis << 80
        | 0x7 << 76
        | (sub_millis * 4096 // 1000) << 64
        | 0b10 << 62
        | random_bits & ((1 << 62) - 1)
    )
    return str(uuid.UUID(int=value))


def table_folder(data_path: str, schema: SchemaDef, table: TableDef) -> str:
    """The folder of a table, whole."""
    parent = paths.join(data_path, schema.path, schema.path_is_relative)
    return paths.join(parent, table.path, table.path_is_relative)


def quoted_list(names: Sequence[str]) -> str:
    """Names as `"a","b c"`; the empty text for none, which is what the format wants."""
    return ",".join(quote(name) for name in names)


def parse_quoted_list(text: str | None) -> tuple[str, ...]:
    """The reverse of `quoted_list`.

    >>> parse_quoted_list('"a","b ""c"')
    ('a', 'b "c')
    """
    names: list[str] = []
    position = 0
    text = text or ""
    while position < len(text):
        end = position + 1
        while end < len(text) and (text[end] != '"' or text[end : end + 2] == '""'):
            end += 2 if text[end] == '"' else 1
        names.append(text[position + 1 : end].replace('""', '"'))
        position = end + 2
    return tuple(names)
