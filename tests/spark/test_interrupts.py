"""Ctrl-C: one KeyboardInterrupt, no traces of others, no job that goes on, and a lake as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.spark import interrupts

SCRIPT = """
import logging, time
from pathlib import Path
from pyspark.sql import SparkSession
import ducklake_spark

{session}
lake = ducklake_spark.attach("ducklake:m.ducklake"{argument}, data_inlining_row_limit=0)
lake.create_table("t", "id BIGINT, tags VARCHAR[]").insert([(1, ["a"])])
lake.sql("SELECT count(*) FROM t").collect()
context = lake.spark.sparkContext
before = lake.version, sorted(Path("m.ducklake.files").rglob("*"))
many = "range(100000000000000) WHERE id % 7 = 3"
for statement in (
    "INSERT INTO t SELECT id, array('x') FROM " + many,
    "UPDATE t SET id = (SELECT count(*) FROM " + many + ")",
):
    print("RUNNING", flush=True)
    try:
        lake.sql(statement)
    except KeyboardInterrupt as error:
        print("interrupted", error.__cause__, flush=True)
    assert (lake.version, sorted(Path("m.ducklake.files").rglob("*"))) == before
    end = time.monotonic() + 60
    while context.statusTracker().getActiveJobsIds():
        assert time.monotonic() < end, "jobs go on"
        time.sleep(0.1)
assert not logging.root.handlers
print("after", lake.sql("SELECT count(*) FROM t").first()[0], lake.sql("DELETE FROM t").first()[0])
"""

OWN = """
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
spark = spark.config("spark.ui.showConsoleProgress", "false").getOrCreate()
"""


@pytest.mark.spark
@pytest.mark.parametrize("session", ["the user's", "ours"])
def test_ctrl_c_stops_a_statement(session: str, tmp_path: Path) -> None:
    own = session == "the user's"
    script = SCRIPT.format(session=OWN if own else "", argument=", spark=spark" if own else "")
    errors = tmp_path / "errors"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    said = []
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.strip())
            if line == "RUNNING\n":
                threading.Timer(5, process.send_signal, [signal.SIGINT]).start()
    shown = errors.read_text()
    assert process.wait() == 0, shown[-3000:]
    assert said == ["RUNNING", "interrupted None"] * 2 + ["after 1 1"]
    if own:
        assert "py4j" not in shown and "Traceback" not in shown
    else:
        assert shown == ""


def test_ctrl_c_waits_for_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the files of a snapshot that was made could be taken for those of one that was not."""
    commit = Transaction.commit

    def interrupted(transaction: Transaction) -> int | None:
        done = commit(transaction)
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.01)
        return done

    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", data_inlining_row_limit=0) as lake:
        table = lake.create_table("t", "a INT")
        monkeypatch.setattr(Transaction, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.insert([(1,)])
        monkeypatch.undo()
        assert lake.version == 2
        assert [Path(row.data_file).exists() for row in lake.list_files("t").collect()] == [True]


def test_other_threads_and_handlers_are_left_alone(lake: Lake) -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts.held():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    found = []

    def elsewhere() -> None:
        with interrupts.held():
            interrupts.install()
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [before]
    mine = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        chosen = signal.getsignal(signal.SIGINT)
        interrupts.install()
        assert signal.getsignal(signal.SIGINT) is chosen
    finally:
        signal.signal(signal.SIGINT, mine)
