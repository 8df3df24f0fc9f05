"""A Parquet file that exists already becomes a file of a table: which column is which, and what its footer says. Pure.

Columns are matched by name without regard to case, also where a file has field ids. What differs from the extension is
where it would lose or falsify rows: a field of a struct never gets its value from a folder, bounds are told in the
column's own type, and NOT NULL holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format import hive, parquet_types
from ducklake_spark.format.column_mapping import ColumnMapping, MappedColumn
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.parquet_types import ParquetColumn, lake_type
from ducklake_spark.format.statistics import ColumnStats, geometry_stats, merge_files
from ducklake_spark.format.types import duckdb_name, fold, parse_type

Cast = Callable[[str, str, str], "str | None"]
"""A text that is a value of a type (in DuckDB's words), as the text of another type; None if it is no such value."""

_SIGNED = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "date", "time")
"""Types of which the deprecated bounds, which compare bytes with a sign, are right; times and decimals vary."""


@dataclass(frozen=True)
class AddOptions:
    """How strict a call is.

    Attributes:
        hive_partitioning: Whether folders have values; None as the extension decides, which looks at them.
    """

    allow_missing: bool = False
    ignore_extra_columns: bool = False
    hive_partitioning: bool | None = None


@dataclass(frozen=True)
class MappedFile:
    """Which columns of a table a file has.

    Attributes:
        mapping: The names.
        leaves: The columns that have values in the file, by their place in it.
        folders: The columns whose values stand in folders, with their texts; None for NULL.
        partition_values: The values of the table's partition keys, in order.
        missing: The columns that it does not have.
    """

    mapping: ColumnMapping
    leaves: Mapping[int, tuple[ColumnDef, ParquetColumn]]
    folders: tuple[tuple[ColumnDef, str | None], ...]
    partition_values: tuple[str | None, ...]
    missing: tuple[ColumnDef, ...]


def map_file(
    table: TableDef,
    path: str,
    columns: Sequence[ParquetColumn],
    keys: Sequence[tuple[int, str, bool]],
    options: AddOptions,
    cast: Cast,
) -> MappedFile:
    """Matches the columns of a file with those of a table.

    Args:
        table: The table.
        path: Where the file is.
        columns: The columns of the file.
        keys: The table's partition keys: the column's id, the name of the folder, and whether it is the column itself.
        options: What may be missing or left over.
        cast: Casts texts of folders.

    Raises:
        InvalidInputError: They do not match.
    """
    folders = hive.parse(path) if options.hive_partitioning is not False else {}
    mapper = _Mapper(table, path, folders, options, cast)
    mapped = mapper.columns(columns, table.columns, "")
    values = _partition_values(table, path, keys, mapper)
    return MappedFile(
        ColumnMapping(mapped), mapper.leaves, tuple(mapper.found), values, tuple(mapper.missing)
    )


@dataclass
class _Mapper:
    table: TableDef
    path: str
    folders: Mapping[str, str]
    options: AddOptions
    cast: Cast
    leaves: dict[int, tuple[ColumnDef, ParquetColumn]] = field(default_factory=dict)
    found: list[tuple[ColumnDef, str | None]] = field(default_factory=list)
    missing: list[ColumnDef] = field(default_factory=list)

    def columns(
        self, columns: Sequence[ParquetColumn], wanted: Sequence[ColumnDef], prefix: str
    ) -> tuple[MappedColumn, ...]:
        left = {fold(node.name): node for node in wanted}
        folders = {} if prefix else self.folders
        mapped = []
        for column in columns:
            node = left.pop(fold(column.name), None)
            if node is None:
                if not self.options.ignore_extra_columns:
                    raise InvalidInputError(
                        f'Column "{prefix}{column.name}" exists in file "{self.path}" but was not found in table '
                        f'"{self.table.name}". Set ignore_extra_columns=True (=> true in SQL) to add the file anyway.'
                    )
            elif column.name in folders:
                mapped.append(self.from_folder(node, folders[column.name]))
            else:
                mapped.append(self.column(column, node, prefix))
        for node in left.values():
            if node.name in folders:
                mapped.append(self.from_folder(node, folders[node.name]))
            elif self.options.allow_missing:
                self.missing.append(node)
            else:
                raise InvalidInputError(
                    f'Column "{prefix}{node.name}" exists in table "{self.table.name}" but was not found in file '
                    f'"{self.path}". Set allow_missing=True (=> true in SQL) to read it as its default.'
                )
        return tuple(mapped)

    def column(self, column: ParquetColumn, node: ColumnDef, prefix: str) -> MappedColumn:
        path = prefix + column.name
        where = f'from file "{self.path}" to the column in table "{self.table.name}"'
        parquet_types.check(column, node.type, path, where)
        children: tuple[MappedColumn, ...] = ()
        if node.type == "struct":
            children = self.columns(column.children, node.children, path + ".")
        elif node.type == "list":
            children = (self.element(column, node, path),)
        elif node.type == "map":
            children = self.columns(column.children[0].children, node.children, path + ".")
        elif column.leaf is not None:
            self.leaves[column.leaf] = (node, column)
        return MappedColumn(column.name, node.column_id, children=children)

    def element(self, column: ParquetColumn, node: ColumnDef, path: str) -> MappedColumn:
        """The element of a list, whatever its writer called it."""
        repeated = column.children[0]
        if repeated.name == "array" or not repeated.children:
            # Lists of two levels, as Avro and old Hive write them.
            name, element = "array", repeated
        else:
            name, element = "list", repeated.children[0]
        return self.column(replace(element, name=name), node.children[0], path + ".")

    def from_folder(self, node: ColumnDef, value: str) -> MappedColumn:
        is_text = node.type in ("varchar", "json")
        text = hive.text_of(value, is_text=is_text)
        target = duckdb_name(node.data_type)
        if text is not None and not is_text:
            made = None if node.children else self.cast(text, "VARCHAR", target)
            if made is None:
                raise InvalidInputError(
                    f'Column "{node.name}" of table "{self.table.name}" is {target}, and the folder '
                    f'"{node.name}={value}" of file "{self.path}" is no such value. '
                    "Set hive_partitioning=False to take columns from the file only."
                )
            text = made
        self.found.append((node, text))
        return MappedColumn(node.name, node.column_id, is_partition=True)


def _partition_values(
    table: TableDef, path: str, keys: Sequence[tuple[int, str, bool]], mapper: _Mapper
) -> tuple[str | None, ...]:
    """The values of the partition keys. Folders must have all of them, and no other column of the table."""
    if not keys:
        return ()
    known = {node.column_id: text for node, text in mapper.found}
    values: list[str | None] = []
    for column_id, folder, is_column in keys:
        if is_column:
            if column_id not in known:
                raise _not_partitioned(table, path, folder)
            values.append(known.pop(column_id))
            continue
        if folder not in mapper.folders:
            raise _not_partitioned(table, path, folder)
        text = hive.text_of(mapper.folders[folder], is_text=False)
        made = None if text is None else mapper.cast(text, "VARCHAR", "BIGINT")
        if text is not None and made is None:
            raise _not_partitioned(table, path, folder)
        values.append(made)
    if known:
        names = ", ".join(f'"{node.name}"' for node, _ in mapper.found if node.column_id in known)
        raise InvalidInputError(
            f'File "{path}" contains an invalid partition value for table "{table.name}": its folders have {names}, '
            "which is no partition key."
        )
    return tuple(values)


def _not_partitioned(table: TableDef, path: str, folder: str) -> InvalidInputError:
    return InvalidInputError(
        f'File "{path}" contains an invalid partition value for table "{table.name}": the table is partitioned, and a '
        f'file of it needs a folder "{folder}=..." with a value of that key.'
    )


def statistics(
    mapped: MappedFile, rows: int, chunks: Sequence[Sequence[Any]], cast: Cast
) -> tuple[ColumnStats, ...]:
    """What a footer says of the columns, and what the folders say.

    Args:
        mapped: Which column is which.
        rows: How many rows the file has.
        chunks: For each column of each row group: its place, the numbers of values, NULLs and bytes, bounds, deprecated
            bounds, and the box and kinds of geometries as JSON.
        cast: Casts bounds to the column's type.
    """
    parts: dict[int, list[ColumnStats]] = {}
    for chunk in chunks:
        leaf = int(chunk[0])
        if leaf in mapped.leaves:
            parts.setdefault(leaf, []).append(_chunk_stats(*mapped.leaves[leaf], chunk, cast))
    found = [merge_files(parts[leaf], mapped.leaves[leaf][0].type) for leaf in sorted(parts)]
    for node, text in mapped.folders:
        values, nulls = (0, rows) if text is None else (rows, 0)
        bound = None if text is None or "\0" in text else text
        found.append(ColumnStats(node.column_id, 0, values, nulls, bound, bound))
    return tuple(found)


def _chunk_stats(node: ColumnDef, column: ParquetColumn, chunk: Sequence[Any], cast: Cast) -> ColumnStats:
    _, count, null_count, size, low, high, old_low, old_high, box, kinds = chunk
    stored = lake_type(column)
    if column.type == "INT96":
        low = high = None  # no order is defined for it
    elif stored in _SIGNED:
        low, high = low if low is not None else old_low, high if high is not None else old_high
    if stored != node.type and (stored.startswith("timestamp") or stored == "float32"):
        # Rows are rounded or widened when they are read, and their bounds with them.
        then, now = duckdb_name(parse_type(stored)), duckdb_name(node.data_type)
        low = None if low is None else cast(low, then, now)
        high = None if high is None else cast(high, then, now)
    nulls = None if null_count is None or int(null_count) < 0 else int(null_count)
    values = None if nulls is None or count is None else int(count) - nulls
    return ColumnStats(
        node.column_id,
        None if size is None else int(size),
        values,
        nulls,
        None if low is None or "\0" in low else low,
        None if high is None or "\0" in high else high,
        extra_stats=_geometry(box, kinds) if node.type == "geometry" else None,
    )


def _geometry(box: str | None, kinds: str | None) -> str | None:
    if box is None and kinds is None:
        return None
    known = {key: value for key, value in json.loads(box or "{}").items() if value is not None}
    return geometry_stats({"bbox": known, "types": json.loads(kinds or "[]")})
