"""`history()` after the extension moved rows: the counts of each snapshot stay right, or are NULL."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from tests.interop.oracle import Oracle

pytestmark = pytest.mark.spark

FLUSH = "CALL ducklake_flush_inlined_data('lake')"
MERGE = "CALL ducklake_merge_adjacent_files('lake')"
REWRITE = "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)"

Counts = dict[int, tuple["int | None", "int | None"]]


class Scene:
    """A lake that the extension writes, with what each of its snapshots did to the rows."""

    def __init__(self, oracle: Oracle, spark: SparkSession, folder: Path, inline: int) -> None:
        folder.mkdir()
        self.oracle, self.spark, self.uri = oracle, spark, f"ducklake:{folder}/m.ducklake"
        oracle.attach(self.uri, data_inlining_row_limit=inline)
        oracle.execute("CREATE TABLE t (k INT, n INT)")
        self.done: Counts = {}

    def run(self, sql: str) -> None:
        before = self._version()
        answer = self.oracle.execute(sql)
        if self._version() == before:
            return
        kind, count = sql.split()[0], 0 if sql.startswith("CALL") else answer[0][0]
        inserted, deleted = count * (kind != "DELETE"), count * (kind != "INSERT")
        self.done |= dict.fromkeys(range(before + 1, self._version() + 1), (inserted, deleted))

    def _version(self) -> int:
        return int(self.oracle.execute("SELECT id FROM lake.current_snapshot()")[0][0])

    def history(self) -> Counts:
        self.oracle.detach()
        with ducklake_spark.attach(self.uri, name="lake", spark=self.spark) as lake:
            rows = lake["t"].history().collect()
        return {row.snapshot_id: (row.rows_inserted, row.rows_deleted) for row in rows if row.snapshot_id > 1}


INSERT = "INSERT INTO t SELECT i, 0 FROM range({}, {}) r(i)"


@pytest.mark.parametrize(
    ("steps", "unknown"),
    [
        # An update of a row in a file, kept in the catalog until it is flushed.
        ([INSERT.format(0, 20), "UPDATE t SET n = 1 WHERE k = 1", FLUSH], 0),
        ([INSERT.format(0, 20), "UPDATE t SET n = 1 WHERE k = 1", FLUSH, INSERT.format(20, 40), MERGE], 2),
        # A delete from a file that was merged: the file has rows of several snapshots, the delete is of one.
        ([INSERT.format(0, 20), INSERT.format(20, 40), MERGE, "DELETE FROM t WHERE k % 2 = 0"], 2),
        (
            [
                INSERT.format(0, 20),
                INSERT.format(20, 40),
                MERGE,
                "UPDATE t SET n = 1 WHERE k % 2 = 0",
                REWRITE,
            ],
            2,
        ),
        # Rows that came and went in the catalog: only the files know of which snapshot they were.
        ([INSERT.format(0, 3), "UPDATE t SET n = 1 WHERE k = 1", FLUSH], 3),
    ],
)
def test_counts_after_maintenance(
    oracle: Oracle, spark: SparkSession, tmp_path: Path, steps: list[str], unknown: int
) -> None:
    scene = Scene(oracle, spark, tmp_path / "lake", inline=10)
    for step in steps:
        scene.run(step)
    check(scene.history(), scene.done)
    assert sum(count is None for counts in scene.history().values() for count in counts) <= unknown


def check(found: Counts, done: Counts) -> None:
    assert found.keys() == done.keys()
    for at, counts in found.items():
        for count, right in zip(counts, done[at], strict=True):
            assert count is None or count == right, f"at {at}: {counts}, and it was {done[at]}"


@pytest.mark.parametrize("seed", range(12))
def test_counts_after_anything(oracle: Oracle, spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    scene, key = Scene(oracle, spark, tmp_path / "lake", inline=chance.choice([0, 4, 10])), 0
    for _ in range(chance.randint(5, 12)):
        rows = chance.choice([2, 5, 15])
        step = chance.choice(["insert"] * 3 + ["update", "delete"] * 2 + [FLUSH, FLUSH, MERGE, REWRITE])
        if step == "insert":
            step, key = INSERT.format(key, key + rows), key + rows
        elif step == "update":
            step = f"UPDATE t SET n = n + 1 WHERE k % {rows} = 1"
        elif step == "delete":
            step = f"DELETE FROM t WHERE k % {rows} = 0"
        scene.run(step)
    check(scene.history(), scene.done)
