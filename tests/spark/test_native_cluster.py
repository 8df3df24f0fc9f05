"""The session's own SQL on a lake where executors are processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest


@pytest.mark.spark
def test_a_cluster_of_processes(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",  # executors do not look at SPARK_SUBMIT_OPTS
    }
    program = [sys.executable, "-m", "tests.spark.native_cluster", str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(program, env=environment, cwd=root, capture_output=True, text=True, timeout=500)
    shutil.rmtree(Path(environment["SPARK_HOME"]) / "work", ignore_errors=True)  # logs of the executors
    assert done.stdout.splitlines()[-1:] == ["all was right"], done.stdout + done.stderr[-1000:]
