"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

from tests.interop.oracle import Oracle

hypothesis.settings.register_profile("quick", deadline=None)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=5000)
hypothesis.settings.load_profile("deep" if os.environ.get("DUCKLAKE_SPARK_TEST_DEEP") else "quick")


@pytest.fixture(scope="session")
def _oracle_process() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


@pytest.fixture
def oracle(_oracle_process: Oracle) -> Iterator[Oracle]:
    """DuckDB's own extension with nothing attached; one process serves the whole run."""
    yield _oracle_process
    _oracle_process.reset()
