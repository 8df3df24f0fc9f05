"""Through Spark Connect, in a process of its own: a process has classic sessions or remote ones."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("grpc", "pandas")),
        reason="needs pyspark[connect]",
    ),
]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What went wrong in each part of `connect_session.py`, which shares one server."""
    folder = tmp_path_factory.mktemp("connect")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    script = Path(__file__).with_name("connect_session.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=560,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, str] = json.loads((folder / "failures.json").read_text())
    return found


@pytest.mark.parametrize("part", ["format", "rows", "feeds", "sql", "page"])
def test_a_connect_session_does_as_a_classic_one(failures: dict[str, str], part: str) -> None:
    assert part not in failures, failures[part]
