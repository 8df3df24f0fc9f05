"""A lake that is a catalog of the tests' session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ducklake_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class NativeLake:
    """A lake named `nat`, and its session."""

    lake: ducklake_spark.Lake
    spark: SparkSession
    uri: str

    def sql(self, text: str) -> DataFrame:
        return self.spark.sql(text)

    def rows(self, query: str | DataFrame) -> list[tuple[Any, ...]]:
        """The rows of a query in order."""
        frame = self.spark.sql(query) if isinstance(query, str) else query
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    def table(self, name: str, columns: str, *rows: tuple[Any, ...], **options: Any) -> str:
        """A new table with rows; its name for Spark."""
        table = self.lake.create_table(name, columns, or_replace=True, **options)
        if rows:
            table.insert(list(rows))
        return f"nat.main.{name}"


@pytest.fixture(scope="module")
def native(
    spark: SparkSession, interpreted: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NativeLake]:
    folder: Path = tmp_path_factory.mktemp("native")
    uri = f"ducklake:sqlite:{folder}/catalog.sqlite"
    with ducklake_spark.attach(uri, spark=spark, name="nat", data_path=folder / "files") as lake:
        yield NativeLake(lake, spark, uri)
    spark.sql("USE spark_catalog.default")
