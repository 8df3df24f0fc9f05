"""Indexes for catalogs with many files. They are ours: the extension makes none, and does not mind them.

Made once, behind the first commit of this package that adds data files, and never by reading. A DuckDB catalog gets
none: it scans columns, and its indexes would only slow commits down.
"""

from __future__ import annotations

import logging

from ..errors import CatalogError
from .store import Store

_log = logging.getLogger(__name__)

_BY_TABLE = {
    "ducklake_spark_data_file": "ducklake_data_file (table_id)",
    "ducklake_spark_delete_file": "ducklake_delete_file (table_id)",
    "ducklake_spark_column": "ducklake_column (table_id)",
    "ducklake_spark_partition_value": "ducklake_file_partition_value (table_id, data_file_id)",
}
INDEXES: dict[str, dict[str, str]] = {
    "duckdb": {},
    "sqlite": {
        **_BY_TABLE,
        # With all that pruning asks for, so that the table's rows need not be looked up one by one.
        "ducklake_spark_statistics": "ducklake_file_column_stats "
        "(table_id, column_id, data_file_id, value_count, null_count, min_value, max_value, contains_nan)",
    },
    "postgres": {
        **_BY_TABLE,
        "ducklake_spark_statistics": "ducklake_file_column_stats (table_id, column_id)",
    },
    "mysql": {
        **_BY_TABLE,
        "ducklake_spark_statistics": "ducklake_file_column_stats (table_id, column_id)",
    },
}
"""By kind of database and name: what is indexed."""


def ensure_indexes(store: Store) -> None:
    """Makes the indexes that are missing. They only save time: where they cannot be made, nothing else changes."""
    wanted = INDEXES[store.kind]
    if not wanted or store.has_indexes:
        return
    store.has_indexes = True
    try:
        present = {str(name) for (name,) in store.query(store.indexes_sql())}
        missing = [name for name in wanted if name not in present]
        if missing:
            with store.begin() as session:
                for name in missing:
                    session.create_table(f"CREATE INDEX {name} ON {wanted[name]}")
    except (CatalogError, *store.driver_errors) as error:  # type: ignore[misc]  # mypy knows no such tuple
        _log.info("The catalog %s gets no indexes: %s", store.display, error)
