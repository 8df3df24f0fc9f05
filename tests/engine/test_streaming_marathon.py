"""Thousands of small batches from a table to a table, with crashes at any point, and maintenance beside: no row twice,
none lost.

What Spark's engine does around a source and a sink is done here: it writes down where a batch ends before it reads it,
and that it was committed afterwards. A crash is between any two of these, or inside of the commit.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ducklake_spark
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.engine.streaming.sink import SinkOptions, TableSink
from ducklake_spark.engine.streaming.source import StreamOptions, TableStream
from ducklake_spark.format.streaming import Limits, Offset
from tests.interop.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ducklake_spark import Lake

pytestmark = pytest.mark.spark
CHECK = "spark.sql.streaming.unsupportedOperationCheck"
BATCHES = int(os.environ.get("DUCKLAKE_SPARK_TEST_BATCHES", 0)) or (
    2880 if os.environ.get("DUCKLAKE_SPARK_TEST_DEEP") else 25
)
"""A batch each ten seconds, for eight hours."""


class Crash(Exception):
    """The process of a stream is gone."""


class Sink(TableSink):
    """Crashes when a batch is written and not committed, if it is told so."""

    crashes = False

    def _write(self, *args: Any) -> None:
        super()._write(*args)
        if self.crashes:
            raise Crash


class Query:
    """A streaming query: a source, maybe a sink, and the two logs that stay when everything else is lost."""

    def __init__(self, lake: Lake, source: str, chance: random.Random) -> None:
        self.lake, self.name, self.chance = lake, source, chance
        self.planned: list[str] = []
        self.committed = self.crashed = 0
        self.restart()

    def restart(self) -> None:
        options = StreamOptions(starting_version=0, limits=Limits(files=4))
        self.source = TableStream(scope_of(self.lake), self.name, options)

    def at(self, batch: int) -> Offset | None:
        return Offset.of_json(self.planned[batch]) if batch >= 0 else None

    def needs(self) -> int:
        """The oldest snapshot that this query has still to look at."""
        offset = self.at(self.committed - 1)
        return 0 if offset is None else offset.position.snapshot

    def step(self) -> bool:
        """One batch, or a crash in it; False if there is nothing to do."""
        if self.committed == len(self.planned):
            end = self.source.latest(self.at(self.committed - 1))
            if end is None or end == self.at(self.committed - 1):
                return False
            self.planned.append(end.to_json())
        end = self.at(self.committed)
        assert end is not None
        try:
            frame = self.source.batch(self.at(self.committed - 1), end)
            self.add(self.committed, [tuple(row) for row in frame.collect()])
            self.committed += 1
        except Crash:
            self.crashed += 1
            self.restart()
        return True

    def add(self, batch: int, rows: list[tuple[Any, ...]]) -> None:
        raise NotImplementedError


class Copier(Query):
    """Writes what it reads into `copy`."""

    def restart(self) -> None:
        super().restart()
        self.sink = Sink(scope_of(self.lake), "copy", SinkOptions())

    def add(self, batch: int, rows: list[tuple[Any, ...]]) -> None:
        crash = self.chance.choice(("before", "inside", "after", *("never",) * 12))
        if crash == "before":
            raise Crash
        self.sink.crashes = crash == "inside"
        frame = self.lake.spark.createDataFrame(rows, "id BIGINT, v STRING")
        self.sink.add("query", batch, frame)
        if crash == "after":
            raise Crash


class Checker(Query):
    """Looks at every row that comes into `copy`."""

    def __init__(self, *args: Any) -> None:
        self.seen: set[int] = set()
        super().__init__(*args)

    def add(self, batch: int, rows: list[tuple[Any, ...]]) -> None:
        ids = [row[0] for row in rows]
        assert len(set(ids)) == len(ids) and self.seen.isdisjoint(ids), f"batch {batch} repeats rows"
        if self.chance.random() < 0.1:
            raise Crash
        self.seen.update(ids)


@pytest.fixture
def lake(spark: SparkSession, interpreted: None, tmp_path: Path) -> Iterator[Lake]:
    spark.conf.set(CHECK, "false")
    with ducklake_spark.attach(
        f"ducklake:sqlite:{tmp_path}/lake.sqlite", spark=spark, data_path=tmp_path / "data", name="lake"
    ) as lake:
        for name in ("source", "copy"):
            lake.create_table(name, {"id": "bigint", "v": "varchar"})
        yield lake
    spark.conf.unset(CHECK)


def test_no_row_is_lost_or_repeated(lake: Lake, oracle: Oracle, tmp_path: Path) -> None:
    chance = random.Random(7)
    copier, checker = Copier(lake, "source", chance), Checker(lake, "copy", chance)
    jobs = itertools.cycle(("flush", "expire", "merge", "clean up"))
    source, rows, expired = lake["source"], 0, 0

    def append() -> None:
        nonlocal rows
        # More than ten become a file.
        count = chance.choice((1, 2, 3, 5, 8, 12))
        source.insert([(i, f"v{i}") for i in range(rows, rows + count)])
        rows += count

    def maintain() -> None:
        nonlocal expired
        job, table = next(jobs), chance.choice(("source", "copy"))
        if job == "flush":
            lake.flush_inlined_data(table)
        elif job == "merge":
            lake.merge_adjacent_files(table)
        elif job == "clean up":
            lake.cleanup_old_files(cleanup_all=True)
        else:
            known = {row[0] for row in lake.snapshots().collect()}
            old = sorted(each for each in known if each < min(copier.needs(), checker.needs()))
            if old:
                lake.expire_snapshots(versions=old)
                expired += len(old)

    for turn in range(100 * BATCHES):
        if copier.committed >= BATCHES:
            break
        append()
        copier.step()
        if turn % 3 == 0:
            checker.step()
        if turn % 5 == 4:
            maintain()
    while copier.step():
        pass
    while checker.step():
        pass
    assert copier.committed >= BATCHES and copier.crashed and checker.crashed and expired
    assert checker.seen == set(range(rows))
    print(
        f"{copier.committed} batches, {rows} rows, {copier.crashed} + {checker.crashed} crashes, {expired} expired"
    )
    oracle.attach(f"ducklake:sqlite:{tmp_path}/lake.sqlite")
    for name in ("source", "copy"):
        found = oracle.execute(f"SELECT count(*), count(DISTINCT id), min(id), max(id) FROM {name}")
        assert found == [(rows, rows, 0, rows - 1)], name
