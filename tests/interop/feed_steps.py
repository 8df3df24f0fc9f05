"""Changes of rows of every kind, by us: for places where the extension cannot be the one who makes them."""

from __future__ import annotations

from typing import Any

from ducklake_spark import Lake


def change_rows(lake: Lake) -> None:
    """Inserts, updates, deletes and merges, in files and in the catalog, with a column that comes and a restore."""
    spark = lake.spark
    table = lake.create_table("t", {"id": "int", "v": "varchar"})
    table.insert(spark.range(100).selectExpr("CAST(id AS INT) AS id", "concat('v', id) AS v"))
    table.insert([(1000, "inlined"), (1001, "inlined")])
    table.update({"v": "'few'"}, "id IN (3, 1000)")
    table.update({"v": "concat(v, '!')"}, "id BETWEEN 20 AND 60")
    table.add_column("c", "int")
    table.delete("id % 10 = 0")
    source = spark.range(90, 110).selectExpr("CAST(id AS INT) AS id", "'merged' AS v", "7 AS c")
    merge = table.merge(source, "target.id = source.id").when_matched("source.id % 2 = 0").delete()
    merge.when_matched().update_all().when_not_matched().insert_all().execute()
    with lake.transaction():
        table.insert([(2000, "new", 1)])
        table.update({"v": "'newer'"}, "id = 2000")
        table.delete("id = 1001")


def feed_of(lake: Lake, *, net: bool = False) -> list[tuple[Any, ...]]:
    """The feed of all versions, in order."""
    names = ["snapshot_id", "rowid", "change_type", "id", "v", "c"]
    rows = lake.table_changes("t", 0, lake.version, net=net).select(*(names[1:] if net else names)).collect()
    return sorted(map(tuple, rows), key=repr)
