"""Fixtures of tests and of the examples in docstrings, which pytest runs with `--doctest-modules`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ducklake_spark import Lake


# Every JVM of a test lives for minutes at most: compiling its methods well costs more than the compiled methods save.
# Other than JAVA_TOOL_OPTIONS, this one is not announced on stderr, where some tests want nothing.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def _use_memory() -> None:
    """Puts files of tests into memory where that is plenty: a commit waits for the disk for longer than it computes.

    No test cuts the power.
    """
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        return
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    if min([*available, shutil.disk_usage(memory).free]) < 10 * 2**30:
        return
    folder = memory / f"ducklake-spark-tests-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o1777)
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    tempfile.tempdir = None


if "PYTEST_DEBUG_TEMPROOT" not in os.environ and "TMPDIR" not in os.environ:
    _use_memory()

# Pictures are drawn without a display.
os.environ["MPLBACKEND"] = "agg"


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


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Queries are not compiled, which takes longer than to run them on a few rows.

    For modules that compare many versions of a table: what they look for is in plans and catalogs. With this, Spark
    also hands out rows of Parquet files one by one. Tests of scans, of encoders and of SQL leave it out.
    """
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key in settings:
        spark.conf.unset(key)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A new lake in a DuckDB file."""
    import ducklake_spark

    with ducklake_spark.attach(f"ducklake:{tmp_path / 'metadata.ducklake'}", name="lake") as lake:
        yield lake


@pytest.fixture(scope="module", autouse=True)
def _no_lake_left() -> Iterator[None]:
    """Closes the lakes that a file left open: statements that list databases would show them to the next file."""
    yield
    if "ducklake_spark" in sys.modules:
        import ducklake_spark

        for lake in ducklake_spark.lakes().values():
            lake.close()


@pytest.fixture(scope="session", autouse=True)
def _no_session_left() -> Iterator[None]:
    """Ends the Spark session that a lake without one made for itself."""
    yield
    if "pyspark.sql" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
