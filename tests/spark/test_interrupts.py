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
import logging, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
import ducklake_spark

def tell(tracker):
    while not any(info and info.numActiveTasks for info in map(tracker.getStageInfo, tracker.getActiveStageIds())):
        time.sleep(0.1)
    print("RUNNING", flush=True)

def interrupt_statements(name, **session):
    lake = ducklake_spark.attach(f"ducklake:{name}.ducklake", data_inlining_row_limit=0, **session)
    lake.create_table("t", "id BIGINT, tags VARCHAR[]").insert([(1, ["a"])])
    lake.sql("SELECT count(*) FROM t").collect()
    tracker = lake.spark.sparkContext.statusTracker()
    before = lake.version, sorted(Path(f"{name}.ducklake.files").rglob("*"))
    many = "range(100000000000000) WHERE id % 7 = 3"
    for statement in (
        "INSERT INTO t SELECT id, array('x') FROM " + many,
        "UPDATE t SET id = (SELECT count(*) FROM " + many + ")",
    ):
        threading.Thread(target=tell, args=[tracker]).start()
        try:
            lake.sql(statement)
        except KeyboardInterrupt as error:
            print("interrupted", error.__cause__, flush=True)
        assert (lake.version, sorted(Path(f"{name}.ducklake.files").rglob("*"))) == before
        end = time.monotonic() + 60
        while tracker.getActiveJobsIds():
            assert time.monotonic() < end, "jobs go on"
            time.sleep(0.1)
    assert not logging.root.handlers
    print("after", lake.sql("SELECT count(*) FROM t").first()[0], lake.sql("DELETE FROM t").first()[0], flush=True)
    lake.spark.stop()
    lake.close()

interrupt_statements("ours")
print("NEXT", flush=True)
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
interrupt_statements("users", spark=spark.config("spark.ui.showConsoleProgress", "false").getOrCreate())
"""


@pytest.mark.spark
def test_ctrl_c_stops_a_statement(tmp_path: Path) -> None:
    """In a session that we made, then in one of the user's."""
    errors = tmp_path / "errors"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    said = []
    of_ours = None
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.strip())
            if line == "RUNNING\n":
                process.send_signal(signal.SIGINT)
            if line == "NEXT\n":
                of_ours = errors.read_text()
    shown = errors.read_text()
    assert process.wait() == 0, shown[-3000:]
    each = ["RUNNING", "interrupted None"] * 2 + ["after 1 1"]
    assert said == [*each, "NEXT", *each]
    assert of_ours == ""
    assert "py4j" not in shown and "Traceback" not in shown


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
