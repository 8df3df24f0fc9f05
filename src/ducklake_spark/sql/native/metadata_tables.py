"""`lake.schema.table.files` and the like: what the catalog knows of one table, as tables of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ducklake_spark.catalog.inventory import oldest_snapshot
from ducklake_spark.engine import info
from ducklake_spark.engine.scope import scope_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

Name = tuple[str, str]


def _snapshots(lake: Lake, name: Name) -> DataFrame:
    """The snapshots that touched the table."""
    touched = lake[name].history().select("snapshot_id")
    return info.snapshots(scope_of(lake)).join(touched, "snapshot_id", "left_semi").orderBy("snapshot_id")


def _changes(lake: Lake, name: Name) -> DataFrame:
    """The whole change data feed: from the first snapshot that is left to the one that is read."""
    return lake.table_changes(name, oldest_snapshot(scope_of(lake).store), lake.version)


METADATA_TABLES: Mapping[str, Callable[[Lake, Name], DataFrame]] = {
    "changes": _changes,
    "files": lambda lake, name: lake.list_files(name),
    "history": lambda lake, name: lake[name].history(),
    "partitions": lambda lake, name: info.partitions(scope_of(lake), name),
    "snapshots": _snapshots,
}
"""By their names, which stand behind the table's."""
