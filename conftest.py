"""Fixtures of tests and of the examples in docstrings, which pytest runs with `--doctest-modules` (`make docs`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ducklake_spark import Lake


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small session for the whole run: starting one takes seconds."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A new lake in a DuckDB file."""
    import ducklake_spark

    with ducklake_spark.attach(f"ducklake:{tmp_path / 'metadata.ducklake'}", name="lake") as lake:
        yield lake


@pytest.fixture(scope="session", autouse=True)
def _no_session_left() -> Iterator[None]:
    """Ends the Spark session that a lake without one made for itself."""
    yield
    if "pyspark.sql" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
