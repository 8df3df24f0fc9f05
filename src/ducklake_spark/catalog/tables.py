"""The 28 tables of a DuckLake 1.0 catalog, once: names, columns in physical order, keys; and what 1.1 adds.

The order of columns is part of the format: the extension inserts by position. The order of tables is the order in
which the extension creates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from ..format.types import quote
from ..format.versions import NEWEST, LakeFormat

LOGICAL_TYPES = ("BIGINT", "VARCHAR", "BOOLEAN", "UUID", "TIMESTAMPTZ")
LIVE = "begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?)"
"""A condition for rows that count at a snapshot, which is given twice."""


@dataclass(frozen=True)
class Column:
    """A column; `type` is one of `LOGICAL_TYPES`, which every database maps to a type of its own."""

    name: str
    type: str
    not_null: bool = False


@dataclass(frozen=True)
class Table:
    """A table; `primary_key` is the one key column of the few tables that have a key."""

    name: str
    columns: tuple[Column, ...]
    primary_key: str | None = None

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _table(name: str, columns: str) -> Table:
    parsed, key = [], None
    for text in columns.split(","):
        column, logical_type, *constraint = text.split()
        assert logical_type in LOGICAL_TYPES
        if constraint == ["PK"]:
            key = column
        parsed.append(Column(column, logical_type, not_null=constraint == ["NOT_NULL"]))
    return Table(name, tuple(parsed), key)


TABLES: Mapping[str, Table] = MappingProxyType(
    {
        name: _table(name, columns)
        for name, columns in {
            "ducklake_metadata": "key VARCHAR NOT_NULL, value VARCHAR NOT_NULL, scope VARCHAR, scope_id BIGINT",
            "ducklake_snapshot": """
                snapshot_id BIGINT PK, snapshot_time TIMESTAMPTZ, schema_version BIGINT, next_catalog_id BIGINT,
                next_file_id BIGINT""",
            "ducklake_snapshot_changes": """
                snapshot_id BIGINT PK, changes_made VARCHAR, author VARCHAR, commit_message VARCHAR,
                commit_extra_info VARCHAR""",
            "ducklake_schema": """
                schema_id BIGINT PK, schema_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT,
                schema_name VARCHAR, path VARCHAR, path_is_relative BOOLEAN""",
            "ducklake_table": """
                table_id BIGINT, table_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT, schema_id BIGINT,
                table_name VARCHAR, path VARCHAR, path_is_relative BOOLEAN""",
            "ducklake_view": """
                view_id BIGINT, view_uuid UUID, begin_snapshot BIGINT, end_snapshot BIGINT, schema_id BIGINT,
                view_name VARCHAR, dialect VARCHAR, sql VARCHAR, column_aliases VARCHAR""",
            "ducklake_tag": """
                object_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, key VARCHAR, value VARCHAR""",
            "ducklake_column_tag": """
                table_id BIGINT, column_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, key VARCHAR,
                value VARCHAR""",
            "ducklake_data_file": """
                data_file_id BIGINT PK, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT,
                file_order BIGINT, path VARCHAR, path_is_relative BOOLEAN, file_format VARCHAR, record_count BIGINT,
                file_size_bytes BIGINT, footer_size BIGINT, row_id_start BIGINT, partition_id BIGINT,
                encryption_key VARCHAR, mapping_id BIGINT, partial_max BIGINT""",
            "ducklake_file_column_stats": """
                data_file_id BIGINT, table_id BIGINT, column_id BIGINT, column_size_bytes BIGINT, value_count BIGINT,
                null_count BIGINT, min_value VARCHAR, max_value VARCHAR, contains_nan BOOLEAN, extra_stats VARCHAR""",
            "ducklake_file_variant_stats": """
                data_file_id BIGINT, table_id BIGINT, column_id BIGINT, variant_path VARCHAR, shredded_type VARCHAR,
                column_size_bytes BIGINT, value_count BIGINT, null_count BIGINT, min_value VARCHAR,
                max_value VARCHAR, contains_nan BOOLEAN, extra_stats VARCHAR""",
            "ducklake_delete_file": """
                delete_file_id BIGINT PK, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT,
                data_file_id BIGINT, path VARCHAR, path_is_relative BOOLEAN, format VARCHAR, delete_count BIGINT,
                file_size_bytes BIGINT, footer_size BIGINT, encryption_key VARCHAR, partial_max BIGINT""",
            "ducklake_column": """
                column_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, table_id BIGINT, column_order BIGINT,
                column_name VARCHAR, column_type VARCHAR, initial_default VARCHAR, default_value VARCHAR,
                nulls_allowed BOOLEAN, parent_column BIGINT, default_value_type VARCHAR,
                default_value_dialect VARCHAR""",
            "ducklake_table_stats": """
                table_id BIGINT, record_count BIGINT, next_row_id BIGINT, file_size_bytes BIGINT""",
            "ducklake_table_column_stats": """
                table_id BIGINT, column_id BIGINT, contains_null BOOLEAN, contains_nan BOOLEAN, min_value VARCHAR,
                max_value VARCHAR, extra_stats VARCHAR""",
            "ducklake_partition_info": """
                partition_id BIGINT, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT""",
            "ducklake_partition_column": """
                partition_id BIGINT, table_id BIGINT, partition_key_index BIGINT, column_id BIGINT,
                transform VARCHAR""",
            "ducklake_file_partition_value": """
                data_file_id BIGINT, table_id BIGINT, partition_key_index BIGINT, partition_value VARCHAR""",
            "ducklake_files_scheduled_for_deletion": """
                data_file_id BIGINT, path VARCHAR, path_is_relative BOOLEAN, schedule_start TIMESTAMPTZ""",
            "ducklake_inlined_data_tables": "table_id BIGINT, table_name VARCHAR, schema_version BIGINT",
            "ducklake_column_mapping": "mapping_id BIGINT, table_id BIGINT, type VARCHAR",
            "ducklake_name_mapping": """
                mapping_id BIGINT, column_id BIGINT, source_name VARCHAR, target_field_id BIGINT,
                parent_column BIGINT, is_partition BOOLEAN""",
            "ducklake_schema_versions": "begin_snapshot BIGINT, schema_version BIGINT, table_id BIGINT",
            "ducklake_macro": """
                schema_id BIGINT, macro_id BIGINT, macro_name VARCHAR, begin_snapshot BIGINT, end_snapshot BIGINT""",
            "ducklake_macro_impl": """
                macro_id BIGINT, impl_id BIGINT, dialect VARCHAR, sql VARCHAR, type VARCHAR""",
            "ducklake_macro_parameters": """
                macro_id BIGINT, impl_id BIGINT, column_id BIGINT, parameter_name VARCHAR, parameter_type VARCHAR,
                default_value VARCHAR, default_value_type VARCHAR""",
            "ducklake_sort_info": "sort_id BIGINT, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT",
            "ducklake_sort_expression": """
                sort_id BIGINT, table_id BIGINT, sort_key_index BIGINT, expression VARCHAR, dialect VARCHAR,
                sort_direction VARCHAR, null_order VARCHAR""",
        }.items()
    }
)
"""The tables of format 1.0, which all later ones have."""

_ROW_GROUPS = Column("row_group_count", "BIGINT")
_VIEW_COLUMN_TAG = _table(
    "ducklake_view_column_tag",
    "view_id BIGINT, column_name VARCHAR, begin_snapshot BIGINT, end_snapshot BIGINT, key VARCHAR, value VARCHAR",
)


@lru_cache
def tables_of(lake_format: LakeFormat) -> Mapping[str, Table]:
    """The tables of a format."""
    found = dict(TABLES)
    if lake_format.has_row_group_counts:
        for name in ("ducklake_data_file", "ducklake_delete_file"):
            found[name] = replace(found[name], columns=(*found[name].columns, _ROW_GROUPS))
    if lake_format.has_view_column_tags:
        found[_VIEW_COLUMN_TAG.name] = _VIEW_COLUMN_TAG
    return MappingProxyType(found)


ALL_TABLES = tables_of(NEWEST)


@lru_cache
def insert_columns(table: str, width: int) -> str:
    """The names of the columns that an INSERT fills, in brackets: a later format may have more of them behind.

    Empty for tables of inlined data, whose columns are those of a table of the lake, in its order.
    """
    definition = ALL_TABLES.get(table)
    return "" if definition is None else f" ({', '.join(map(quote, definition.column_names[:width]))})"
