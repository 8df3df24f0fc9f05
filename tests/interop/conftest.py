"""Fixtures of tests that read what the extension wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.interop.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.scan.lakes import Lake


@pytest.fixture
def make_lake(
    oracle: Oracle, spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[..., Lake]]:
    """Makes a lake on a kind of catalog; ATTACH parameters may be given."""
    from tests.scan.lakes import Lake

    made: list[Lake] = []

    def make(kind: str = "duckdb", folder: str = "data", **options: Any) -> Lake:
        lake = Lake(oracle, spark, make_location(kind), tmp_path / folder)
        lake.options = options
        made.append(lake)
        return lake

    yield make
    for lake in made:
        lake.close()
