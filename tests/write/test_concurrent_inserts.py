"""Four processes and the extension insert into one table at once: no row is lost, doubled or numbered twice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.oracle import OracleError
from tests.write import inserter
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark

PROCESSES, TURNS, THEIRS = 4, 6, 8


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_inserts_at_once(make_lake: Callable[..., WrittenLake], kind: str, tmp_path: Path) -> None:
    lake = make_lake(kind)
    lake.table("t", {"who": "int", "turn": "int", "i": "int", "l": "int[]"})
    lake.close()
    processes = [
        subprocess.Popen(
            [sys.executable, inserter.__file__, lake.uri, str(lake.data_path), str(number), str(TURNS)],
            stderr=subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]
    try:
        committed = insert_by_the_extension(lake)
        for process in processes:
            _, words = process.communicate(timeout=200)
            assert process.returncode == 0, words.decode()[-3000:]
    finally:
        for process in processes:
            process.kill()
    wanted = set().union(*(inserter.expected(number, TURNS) for number in range(PROCESSES)))
    wanted |= {(99, turn, i) for turn in committed for i in range(2 if turn % 2 else 12)}
    found = lake.ask("SELECT who, turn, i FROM t")
    assert len(found) == len(wanted)
    assert set(found) == wanted
    assert lake.check("t") == len(wanted)
    row_ids = [
        row["rowid"] for row in lake.ours.table("t", virtual_columns=["rowid"]).select("rowid").collect()
    ]
    assert sorted(row_ids) == list(range(len(wanted)))
    assert lake.rows("ducklake_table_stats", "record_count", "next_row_id") == [(len(wanted), len(wanted))]
    bounds = {
        row[0]: row[1:]
        for row in lake.rows("ducklake_table_column_stats", "column_id", "min_value", "max_value")
    }
    assert bounds[1] == ("0", "99" if committed else str(PROCESSES - 1))
    assert bounds[3] == ("0", "12")
    assert lake.files() == lake.registered()


def insert_by_the_extension(lake: WrittenLake) -> list[int]:
    """Turns of the extension; it gives up where another holds the lock, and then nothing of the turn is there."""
    committed = []
    for turn in range(THEIRS):
        rows = 2 if turn % 2 else 12
        for _ in range(50):
            try:
                lake.ask(f"INSERT INTO t SELECT 99, {turn}, i, NULL FROM range({rows}) r(i)")
                committed.append(turn)
                break
            except OracleError as error:
                if "lock" not in str(error) and "onflict" not in str(error) and "exceeded" not in str(error):
                    raise
                time.sleep(0.05)
        time.sleep(0.1)
    return committed
