"""How one column is read from files of one kind: the field that Spark reads, and the expression that follows.

A file knows a column by its id (or by a name map), in the type that the column had when the file was written.
Everything here is a value or a Spark expression; nothing touches a file or the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyspark.sql.types as spark_types
from pyspark.sql import Column
from pyspark.sql import functions as F

from ducklake_spark.format.column_mapping import ColumnMapping
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.names import ticked
from ducklake_spark.format.types import DataType, Decimal, Scalar, parse_type
from ducklake_spark.scan.projection.footer import INT96
from ducklake_spark.scan.projection.literals import is_filled_by_reader, spark_literal
from ducklake_spark.scan.projection.promotion import is_read_directly, read_scalar
from ducklake_spark.scan.projection.types import Convert, TypeChoices, user_type

FIELD_ID = "parquet.field.id"
ROW_ID_FIELD = 2147483540
SNAPSHOT_ID_FIELD = 2147483539
ROW_ID_NAME = "_ducklake_internal_row_id"
SNAPSHOT_ID_NAME = "_ducklake_internal_snapshot_id"


@dataclass(frozen=True)
class Node:
    """One version of a column or field, as `ducklake_column` keeps it."""

    column_id: int
    begin_snapshot: int
    column_type: str
    parent_column: int | None
    column_name: str = ""


@dataclass(frozen=True)
class History:
    """All versions of a table's columns and fields that began at or before the snapshot that is read."""

    versions: Mapping[int, tuple[Node, ...]] = field(default_factory=dict)

    @staticmethod
    def of(nodes: Iterable[Node]) -> History:
        found: dict[int, list[Node]] = {}
        for node in sorted(nodes, key=lambda node: node.begin_snapshot):
            found.setdefault(node.column_id, []).append(node)
        return History({column_id: tuple(versions) for column_id, versions in found.items()})

    def type_at(self, column_id: int, snapshot_id: int) -> DataType | None:
        """The type that a node had in files of this snapshot; None if it did not exist. Nested types come bare."""
        known = [node for node in self.versions.get(column_id, ()) if node.begin_snapshot <= snapshot_id]
        return _bare_type(known[-1].column_type) if known else None

    def begin(self, column_id: int) -> int:
        """The snapshot in which the node first appeared."""
        versions = self.versions.get(column_id)
        return versions[0].begin_snapshot if versions else 0

    def children_at(self, parent: int, snapshot_id: int) -> list[Node]:
        """A version of each node below `parent` that existed at a snapshot, ended ones too."""
        found = []
        for versions in self.versions.values():
            known = [node for node in versions if node.begin_snapshot <= snapshot_id]
            if known and known[-1].parent_column == parent:
                found.append(known[-1])
        return found


def _bare_type(text: str) -> DataType:
    return Scalar(text) if text in ("list", "map", "struct") else parse_type(text)


@dataclass(frozen=True)
class NameMap:
    """How the columns of added files are called: by the id that each stands for."""

    sources: Mapping[int, str]
    partitions: Mapping[int, str]
    types: Mapping[int, str] = field(default_factory=dict)
    """Of columns that the files keep in another type than the table has."""

    @staticmethod
    def of(mapping: ColumnMapping) -> NameMap:
        """The names of files that a transaction added and did not commit yet."""
        found = list(mapping.walk())
        return NameMap(
            {each.target_field_id: each.source_name for each in found if not each.is_partition},
            {each.target_field_id: each.source_name for each in found if each.is_partition},
        )


@dataclass(frozen=True)
class ColumnProjection:
    """How one column of the table is read.

    `field` is what Spark reads; None when the files do not have the column. `convert` makes the user's column of it,
    None when it is the user's column already.
    """

    name: str
    type: spark_types.DataType
    field: spark_types.StructField | None
    convert: Convert | None

    def column(self) -> Column:
        """The user's column, over the relation that has `field`."""
        source = F.col(ticked(self.field.name)) if self.field is not None else F.lit(None)
        made = source if self.convert is None else self.convert(source)
        return made.cast(self.type).alias(self.name) if self.field is None else made.alias(self.name)

    @property
    def is_plain(self) -> bool:
        """Whether the relation's column is the user's column as it is."""
        return self.convert is None and self.field is not None and self.field.name == self.name


def epochs(columns: Sequence[ColumnDef], history: History, choices: TypeChoices) -> tuple[int, ...]:
    """The snapshots at which the way of reading changes: files begun before one are read in another way than after.

    Most changes need none: renamed and dropped columns are found by id, added ones get their default from the reader,
    and many promotions are made by the reader. Left are promotions that it cannot make, and fields of structs.
    """
    found: set[int] = set()
    for column in columns:
        if column.initial_default is not None and not is_filled_by_reader(column.data_type):
            found.add(history.begin(column.column_id))
        for node in column.walk():
            now = _bare_type(node.type)
            for version in history.versions.get(node.column_id, ()):
                then = _bare_type(version.column_type)
                if not is_read_directly(then, now, choices):
                    found.update(v.begin_snapshot for v in history.versions[node.column_id])
            if node.type != "struct":
                continue
            # A field with a default, or a struct of which old files have only fields that were dropped since.
            begins = {child.column_id: history.begin(child.column_id) for child in node.children}
            found.update(
                begins[child.column_id] for child in node.children if child.initial_default is not None
            )
            if min(begins.values()) > history.begin(node.column_id):
                found.add(min(begins.values()))
    start = min((history.begin(column.column_id) for column in columns), default=0)
    return tuple(sorted(snapshot for snapshot in found if snapshot > start))


def column_projection(
    column: ColumnDef,
    choices: TypeChoices,
    *,
    history: History,
    snapshot_id: int | None = None,
    names: NameMap | None = None,
) -> ColumnProjection:
    """How a column is read.

    Args:
        column: The column as it is at the snapshot that is read.
        choices: How types without a counterpart are shown.
        history: All versions of the table's columns.
        snapshot_id: A snapshot of the epoch in which the files were written; None if that does not matter.
        names: The name map of files that were added to the lake, which have no ids.
    """
    user = user_type(column.data_type, choices)
    if names is not None and column.column_id in names.partitions:
        return ColumnProjection(column.name, user, None, _partition_value(column, names, choices))
    existed = snapshot_id is None or history.type_at(column.column_id, snapshot_id) is not None
    unfilled = not existed and not is_filled_by_reader(column.data_type)
    if unfilled or (names is not None and column.column_id not in names.sources):
        return ColumnProjection(column.name, user, None, _constant(column, choices))
    reader = _Reader(choices, history, snapshot_id, names)
    physical, convert = reader.read(column)
    metadata: dict[str, Any] = {} if names is not None else {FIELD_ID: column.column_id}
    if names is None and column.initial_default is not None and is_filled_by_reader(column.data_type):
        then = history.type_at(column.column_id, snapshot_id) if snapshot_id is not None else None
        default = spark_literal(column.initial_default, column.data_type, choices)
        if then is None or then == column.data_type:
            # Both keys, because Spark looks for the second when it meets the first.
            metadata |= {"EXISTS_DEFAULT": default, "CURRENT_DEFAULT": default}
    name = names.sources[column.column_id] if names is not None else column.name
    return ColumnProjection(
        column.name, user, spark_types.StructField(name, physical, True, metadata), convert
    )


@dataclass(frozen=True)
class _Reader:
    choices: TypeChoices
    history: History
    snapshot_id: int | None
    names: NameMap | None

    def read(self, node: ColumnDef) -> tuple[spark_types.DataType, Convert | None]:
        """The physical type of a node and what makes the user's value of it."""
        match node.type:
            case "list":
                return self._list(node)
            case "map":
                return self._map(node)
            case "struct":
                return self._struct(node)
            case _:
                now = parse_type(node.type)
                then = self._then(node.column_id) or now
                return read_scalar(then, now, self.choices)

    def _then(self, column_id: int) -> DataType | None:
        if self.names is not None:
            known = self.names.types.get(column_id)
            if known == INT96:
                return Scalar(INT96)
            return None if known is None else parse_type(known)
        return None if self.snapshot_id is None else self.history.type_at(column_id, self.snapshot_id)

    def _has(self, column_id: int) -> bool:
        if self.names is not None:
            return column_id in self.names.sources
        return self.snapshot_id is None or self._then(column_id) is not None

    def _list(self, node: ColumnDef) -> tuple[spark_types.DataType, Convert | None]:
        physical, convert = self.read(node.children[0])
        if convert is None:
            return spark_types.ArrayType(physical, True), None
        return spark_types.ArrayType(physical, True), lambda column: F.transform(column, convert)

    def _map(self, node: ColumnDef) -> tuple[spark_types.DataType, Convert | None]:
        (key_type, key), (value_type, value) = self.read(node.children[0]), self.read(node.children[1])
        physical = spark_types.MapType(key_type, value_type, True)
        if key is None and value is None:
            return physical, None
        if key is None:
            assert value is not None
            only_value: Convert = value
            return physical, lambda column: F.transform_values(column, lambda _, item: only_value(item))

        def entry(item: Column) -> Column:
            made_key = key(item["key"])
            made_value = item["value"] if value is None else value(item["value"])
            return F.struct(made_key.alias("key"), made_value.alias("value"))

        return physical, lambda column: F.map_from_entries(F.transform(F.map_entries(column), entry))

    def _struct(self, node: ColumnDef) -> tuple[spark_types.DataType, Convert | None]:
        fields: list[spark_types.StructField] = []
        parts: list[tuple[ColumnDef, str | None, Convert | None]] = []
        changed = False
        for child in node.children:
            missing = not self._has(child.column_id)
            if missing and (child.initial_default is not None or self.names is not None):
                parts.append((child, None, _constant(child, self.choices)))
                changed = True
                continue
            physical, convert = self.read(child)
            name = self.names.sources[child.column_id] if self.names is not None else child.name
            metadata = {} if self.names is not None else {FIELD_ID: child.column_id}
            fields.append(spark_types.StructField(name, physical, True, metadata))
            parts.append((child, name, convert))
            changed = changed or convert is not None or name != child.name
        witness = None
        if not any(self._has(child.column_id) for child in node.children):
            witness = self._witness(node)
            if witness is not None:
                fields.append(witness)
                changed = True
        seen = None if witness is None else witness.name
        if not changed:
            return spark_types.StructType(fields), None
        types = {child.column_id: user_type(child.data_type, self.choices) for child in node.children}

        def rebuilt(column: Column) -> Column:
            made = []
            for child, name, convert in parts:
                value = F.lit(None) if name is None else column.getField(name)
                value = value if convert is None else convert(value)
                value = value.cast(types[child.column_id]) if name is None else value
                made.append(value.alias(child.name))
            exists = column.isNotNull()
            # Named once more, or Spark would not read the field that tells.
            return F.when(
                exists if seen is None else exists | column.getField(seen).isNotNull(), F.struct(*made)
            )

        return spark_types.StructType(fields), rebuilt

    def _witness(self, node: ColumnDef) -> spark_types.StructField | None:
        """A dropped field that the files do have: without any, Spark cannot tell a struct of NULLs from NULL."""
        if self.snapshot_id is None or self.names is not None:
            return None
        for old in self.history.children_at(node.column_id, self.snapshot_id):
            if old.column_type not in ("list", "map", "struct"):
                physical, _ = read_scalar(
                    parse_type(old.column_type), parse_type(old.column_type), self.choices
                )
                name = f"{old.column_name} (dropped {old.column_id})"
                return spark_types.StructField(name, physical, True, {FIELD_ID: old.column_id})
        return None


def _constant(node: ColumnDef, choices: TypeChoices) -> Convert:
    """The initial default of a column that the files do not have."""
    if node.initial_default is None or node.type in ("list", "map", "struct"):
        return lambda _column: F.lit(None)
    literal = spark_literal(node.initial_default, node.data_type, choices)
    _, convert = read_scalar(node.data_type, node.data_type, choices)
    return lambda _column: F.expr(literal) if convert is None else convert(F.expr(literal))


def _partition_value(node: ColumnDef, names: NameMap, choices: TypeChoices) -> Convert:
    """The value that stands in a folder's name: `.../part=7/file.parquet`."""
    key = names.partitions[node.column_id]
    pattern = "/" + _regex_quoted(key) + "=([^/=]*)/"
    is_text = node.type in ("varchar", "json")

    def value(_: Column) -> Column:
        # Spark's path is a URI: it has escaped the name once more than the folder itself does.
        path = _url_decoded(F.col("_metadata.file_path"))
        raw = F.regexp_extract(path, pattern, 1)
        is_null = F.lower(raw).isin("__hive_default_partition__", "null")
        is_null = is_null if is_text else is_null | (raw == "")
        text = F.when(~is_null, _url_decoded(raw))
        return _text_to(text, node.data_type, choices)

    return value


def _url_decoded(column: Column) -> Column:
    return F.url_decode(F.replace(column, F.lit("+"), F.lit("%2B")))


def _text_to(text: Column, data_type: DataType, choices: TypeChoices) -> Column:
    match data_type:
        case Scalar("varchar" | "json"):
            return text
        case Scalar("uuid"):
            digits = F.lower(F.regexp_replace(text, "[-{}]", ""))
            return F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
        case Scalar("int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32"):
            # As DuckDB reads a text: halves are rounded away from zero.
            return F.round(text.cast("decimal(38,10)")).cast(user_type(data_type, choices))
        case Scalar("timestamp_ns") if choices.timestamp_ns == "long":
            micros = F.unix_micros(F.concat(text, F.lit("Z")).cast("timestamp"))
            nanos = F.rpad(F.regexp_extract(text, r"\.\d{6}(\d{1,3})", 1), 3, "0").cast("long")
            return micros * F.lit(1000) + nanos
        case Scalar("blob"):
            return text.cast("binary")
        case Scalar("int128" | "uint128") | Decimal():
            return text.cast(user_type(data_type, choices))
        case Scalar("timestamptz"):
            return F.to_timestamp(F.regexp_replace(text, "([+-]\\d\\d)$", "$1:00"))
        case _:
            return text.cast(user_type(data_type, choices))


def _regex_quoted(text: str) -> str:
    return "\\Q" + text.replace("\\E", "\\E\\\\E\\Q") + "\\E"
