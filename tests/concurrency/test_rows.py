"""Threads, processes and the extension change the rows of one table: what is left is what the committed changes say."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from tests.concurrency import changer
from tests.concurrency.invariants import assert_sound
from tests.interop import catalogs
from tests.interop.oracle import Oracle, OracleError

pytestmark = pytest.mark.spark

THREADS, TURNS, OTHERS = 3, 4, 10
Told = list[tuple[int, dict[str, Any]]]


def by_thread(location: str, data_path: str, spark: SparkSession, number: int, told: Told) -> None:
    with ducklake_spark.attach(
        location, name="lake", data_path=data_path, spark=spark, max_retry_count=200
    ) as lake:
        for change in changer.changes(number, TURNS, "ifdduut"):
            snapshot = changer.make(lake, change)
            if snapshot is not None:
                told.append((snapshot, change))


def by_extension(oracle: Oracle, told: Told) -> None:
    for change in changer.changes(50, OTHERS, "ifddu"):
        before = oracle.execute("SELECT id FROM lake.last_committed_snapshot()")
        try:
            for statement in ("BEGIN", *changer.statements(change), "COMMIT"):
                oracle.execute(statement)
        except OracleError:
            with contextlib.suppress(OracleError):
                oracle.execute("ROLLBACK")
            continue  # it lost, or found the file locked
        finally:
            time.sleep(0.5)
        after = oracle.execute("SELECT id FROM lake.last_committed_snapshot()")
        if after != before:
            told.append((after[0][0], change))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_rows_are_those_of_the_committed_changes(
    oracle: Oracle, spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    location, data_path = make_location(kind), str(tmp_path / "data")
    with ducklake_spark.attach(location, name="lake", data_path=data_path, spark=spark) as lake:
        lake.create_table("t", {"k": "bigint", "n": "bigint"})
        for start in (0, 30, 60):
            lake["t"].insert([{"k": key, "n": 0} for key in range(start, start + 30)])
        lake["t"].insert([{"k": key, "n": 0} for key in range(90, 95)])
        prepared = lake.version
    oracle.attach(location, data_path=data_path)
    told: Told = []
    process = subprocess.Popen(
        [sys.executable, changer.__file__, location, data_path, "70", str(OTHERS)], stdout=subprocess.PIPE
    )
    crew = [
        threading.Thread(target=by_thread, args=(location, data_path, spark, number, told))
        for number in range(THREADS)
    ]
    for thread in crew:
        thread.start()
    by_extension(oracle, told)
    for thread in crew:
        thread.join()
    words = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 0
    told += [(snapshot, change) for snapshot, change in map(json.loads, words.splitlines()) if snapshot]

    rows: changer.Rows = dict.fromkeys(range(95), 0)
    order = sorted(told, key=lambda each: each[0])
    assert [snapshot for snapshot, _ in order] == list(range(prepared + 1, prepared + 1 + len(order)))
    assert {change["kind"] for _, change in order} & {"u", "t"}, "the test is about changes of rows"
    for snapshot, change in order:
        changer.replay(rows, change)
        found = oracle.execute(f"SELECT k, n FROM t AT (VERSION => {snapshot})")
        assert len(found) == len(rows) and dict(found) == rows, f"at {snapshot}, after {change}"
    with ducklake_spark.attach(location, name="lake", spark=spark, read_only=True) as lake:
        read = lake.table("t", virtual_columns=["rowid"]).collect()
        assert {row.k: row.n for row in read} == rows and len(read) == len(rows)
        assert len({row["rowid"] for row in read}) == len(read)
        feed = lake.table_changes("t", prepared + 1, net=True).collect()
    net = dict.fromkeys(range(95), 0)
    for row in sorted(feed, key=lambda row: row.change_type in ("insert", "update_postimage")):
        if row.change_type in ("delete", "update_preimage"):
            assert net.pop(row.k) == row.n
        else:
            net[row.k] = row.n
    assert net == rows
    oracle.detach()
    assert_sound(catalogs.dump(location))
