"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer

from tests.interop.oracle import Oracle
from tests.schedule import FixedScheduling
from tests.servers import MySQLServer, PostgresServer, running, start_mysql, start_postgres

# The same examples each time, so that a change is judged by what it changed; `make test-deep` looks for new ones.
hypothesis.settings.register_profile("quick", deadline=None, derandomize=True)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=5000)
hypothesis.settings.load_profile("deep" if os.environ.get("DUCKLAKE_SPARK_TEST_DEEP") else "quick")


def pytest_configure(config: pytest.Config) -> None:
    # PySpark 4.0 leaves the sockets of collect() to the garbage collector.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FixedScheduling | None:
    return FixedScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def _oracle_process() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


@pytest.fixture
def oracle(_oracle_process: Oracle) -> Iterator[Oracle]:
    """DuckDB's own extension with nothing attached; one process serves the whole run."""
    yield _oracle_process
    _oracle_process.reset()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with running(start_postgres) as server:
        yield server


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[MySQLServer]:
    with running(start_mysql) as server:
        yield server


@pytest.fixture
def make_location(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """The attach string of a new, empty catalog database of a kind; servers start when they are first asked for."""

    def make(kind: str) -> str:
        if kind in ("postgres", "mysql"):
            return f"ducklake:{kind}:{request.getfixturevalue(f'{kind}_server').fresh_database()}"
        return f"ducklake:{kind}:{tmp_path / f'lake.{kind}'}"

    return make


@pytest.fixture(params=["duckdb", "sqlite", "postgres", "mysql"])
def location(request: pytest.FixtureRequest, make_location: Callable[[str], str]) -> str:
    """The attach string of a new, empty catalog database, once for each kind."""
    return make_location(request.param)
