"""What the catalog counts by itself: files, rows, deletes and inlined rows, on every database."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark.catalog import inventory


@pytest.mark.spark
def test_rows_are_those_of_a_scan_on_every_database(
    spark: SparkSession, location: str, tmp_path: Path
) -> None:
    with ducklake_spark.attach(location, data_path=tmp_path / "data", spark=spark) as lake:
        table = lake.create_table("t", {"a": "int"})
        other = lake.create_table("other", {"a": "int"})
        table.insert([{"a": number} for number in range(50)])
        table.insert([{"a": 100}, {"a": 101}])
        table.delete("a IN (1, 2, 100)")
        other.insert([{"a": 1}])
        counts = [lake.table("t", version=version).count() for version in range(3, lake.version + 1)]
        table_id, newest = table.definition.table_id, lake.version

        found = [inventory.sizes(lake._scope.store, at, table_id)[table_id] for at in range(3, newest + 1)]
        assert [size.rows for size in found] == counts == [50, 52, 49, 49]
        assert [size.inlined_rows for size in found] == [0, 2, 1, 1]
        everything = inventory.sizes(lake._scope.store, newest)
        assert everything[table_id] == found[-1]
        assert everything[other.definition.table_id].rows == 1
        [file] = inventory.files(lake._scope.store, table_id, "folder/", newest)
        assert (file.rows, file.deleted, file.begin_snapshot) == (50, 2, 3)
        assert file.path.startswith("folder/")
        contents = inventory.contents(lake._scope.store, newest)
        assert (contents.schemas, contents.tables, contents.files) == (1, 2, 1)
        assert contents.file_bytes == file.file_bytes == everything[table_id].file_bytes
        history = inventory.history(lake._scope.store, table_id, newest, 10)
        assert [row[0] for row in history] == [5, 4, 3, 1]
        assert inventory.names(lake._scope.store)[str(table_id)] == "main.t"
        assert inventory.names(lake._scope.store, [table_id]).keys() >= {str(table_id)}
        assert inventory.oldest_snapshot(lake._scope.store) == 0
