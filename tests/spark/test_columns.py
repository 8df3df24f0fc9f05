"""Selections by text and by column: whatever the names say, and with metadata."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ducklake_spark.spark.columns import renamed, selected, selected_with

pytestmark = pytest.mark.spark

ODD = ["a", "b c", "d`e", "f.g", "ä€😀", "x\ny", "", "u\x1fv"]


def test_names_stay_as_they_are(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr(*(f"id + {i} AS c{i}" for i in range(len(ODD))))

    named = renamed(frame, ODD)

    assert named.columns == ODD
    assert tuple(named.collect()[0]) == tuple(range(len(ODD)))
    again = selected(named, [("one", "a + 1"), ("b c", F.col("a"))])
    assert again.columns == ["one", "b c"]
    assert tuple(again.collect()[0]) == (1, 0)


def test_texts_and_columns_keep_their_order(spark: SparkSession) -> None:
    rows = selected(
        spark.range(3), [("x", F.lit("\x1f")), ("id", "id * 2"), ("y", F.col("id")), ("z", "'\x1f'")]
    )

    assert [tuple(row) for row in rows.collect()] == [("\x1f", 2 * i, i, "\x1f") for i in range(3)]


def test_metadata_comes_along(spark: SparkSession) -> None:
    rows = selected_with(spark.range(1), [("a b", "id + 1", {"k": 1}), ("c", F.lit(5), {})])

    assert [(field.name, field.metadata) for field in rows.schema.fields] == [("a b", {"k": 1}), ("c", {})]
    assert tuple(rows.collect()[0]) == (1, 5)
