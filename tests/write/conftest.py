"""Fixtures of tests that write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.interop.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.write.lakes import WrittenLake


@pytest.fixture
def make_lake(
    oracle: Oracle, spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[..., WrittenLake]]:
    """Makes a lake on a kind of catalog that we and the extension write in turns; ATTACH parameters may be given."""
    from tests.write.lakes import WrittenLake

    made: list[WrittenLake] = []

    def make(kind: str = "duckdb", **options: Any) -> WrittenLake:
        lake = WrittenLake(oracle, spark, make_location(kind), tmp_path / "data", options)
        made.append(lake)
        return lake

    yield make
    for lake in made:
        lake.close()
