"""Eight processes commit to one lake: every commit is accounted for, every conflict has one winner, nothing is torn."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ducklake_spark
from tests.concurrency import worker
from tests.concurrency.invariants import assert_sound
from tests.interop import catalogs
from tests.interop.oracle import Oracle, OracleError

WORKERS, COMMITS, EXTENSION_COMMITS = 8, 50 if os.environ.get("DUCKLAKE_SPARK_TEST_DEEP") else 25, 12
Words = dict[str, Any]


class Crew:
    """The worker processes of one lake, and their logs."""

    def __init__(self, location: str, folder: Path) -> None:
        self.location, self.folder = location, folder
        with ducklake_spark.attach(location, data_path=str(folder / "data")) as lake:
            self.prepared = worker.prepare(lake, WORKERS)

    def start(self, number: int, first: int = 0, last: int = COMMITS) -> subprocess.Popen[bytes]:
        arguments = [self.location, str(self._log(number)), str(number), str(first), str(last)]
        return subprocess.Popen([sys.executable, worker.__file__, *arguments], stderr=subprocess.PIPE)

    def _log(self, number: int) -> Path:
        return self.folder / f"worker-{number}.log"

    def words(self) -> list[Words]:
        """The last word on each step, of all workers."""
        last: dict[tuple[int, int], Words] = {}
        for log in sorted(self.folder.glob("worker-*.log")):
            for words in map(json.loads, log.read_text().splitlines()):
                last[words["worker"], words["step"]] = words
        return list(last.values())

    def next_step(self, number: int) -> int:
        """The step after the last one that was begun."""
        log = self._log(number)
        lines = log.read_text().splitlines() if log.exists() else []
        return int(json.loads(lines[-1])["step"]) + 1 if lines else 0

    def finish(self, processes: list[subprocess.Popen[bytes]]) -> None:
        errors = [process.communicate()[1].decode() for process in processes]
        assert not any(errors), "\n".join(errors)


def judge(crew: Crew) -> Counter[str]:
    """Compares what the workers said with what the catalog says. Returns how often each outcome was told."""
    catalog = catalogs.dump(crew.location)
    assert_sound(catalog, leftovers=crew.location.startswith("ducklake:mysql"))
    return judge_words(crew, catalog)


def judge_words(crew: Crew, catalog: catalogs.Catalog) -> Counter[str]:
    """The same for a catalog in which others may have written too."""
    found = {
        row["commit_message"]: row["snapshot_id"]
        for row in catalog["ducklake_snapshot_changes"]
        if row["snapshot_id"] > crew.prepared and row["commit_message"] is not None
    }
    words = crew.words()
    told = {f"{each['worker']}/{each['step']}": each for each in words}
    assert found.keys() <= told.keys()
    for name, each in told.items():
        if each["outcome"] == "committed":
            assert found.get(name) == each["snapshot"], f"{name} was committed as {each['snapshot']}"
        elif each["outcome"] != "begun":
            assert name not in found, f"{name} lost, and is in the catalog"
    _judge_losers(catalog, words, found)
    _judge_changes(catalog, told, found)
    return Counter(each["outcome"] for each in words)


def _judge_losers(catalog: catalogs.Catalog, words: list[Words], found: dict[str, int]) -> None:
    """A loser has a winner: somebody who changed the same object after the loser began."""
    changed: dict[str, set[int]] = defaultdict(set)
    names = {row["table_id"]: row["table_name"] for row in catalog["ducklake_table"]}
    for row in catalog["ducklake_snapshot_changes"]:
        for table_id in re.findall(r"altered_table:(\d+)", row["changes_made"] or ""):
            changed[names[int(table_id)]].add(row["snapshot_id"])
        for name in re.findall(r'created_table:"main"\."(\w+)"', row["changes_made"] or ""):
            changed[name].add(row["snapshot_id"])
    for each in words:
        if each["outcome"] == "conflict":
            assert any(snapshot > each["start"] for snapshot in changed[each["object"]]), each
        if each["outcome"] in ("conflict", "exists"):
            assert each["kind"] in ("shared column", "race"), each
    for step in {each["step"] for each in words if each["kind"] == "race"}:
        winners = [name for name in found if name.endswith(f"/{step}")]
        assert len(winners) == 1 and len(changed[f"race_{step}"]) == 1, f"step {step} was won by {winners}"


def _judge_changes(catalog: catalogs.Catalog, told: dict[str, Words], found: dict[str, int]) -> None:
    """All rows of a commit, or none."""
    columns = {row["column_name"] for row in catalog["ducklake_column"]}
    tables = Counter(row["begin_snapshot"] for row in catalog["ducklake_table"])
    views = Counter(row["begin_snapshot"] for row in catalog["ducklake_view"])
    schemas = Counter(row["begin_snapshot"] for row in catalog["ducklake_schema"])
    for name, each in told.items():
        snapshot, mark = found.get(name), f"{each['worker']}_{each['step']}"
        if each["kind"] in ("shared column", "own column"):
            assert (f"c_{mark}" in columns) == (snapshot is not None), name
        if each["kind"] == "group":
            assert (f"f_{mark}" in columns) == (snapshot is not None), name
            if snapshot is not None:
                assert (schemas[snapshot], tables[snapshot], views[snapshot]) == (1, 1, 1), name


def assert_extension_agrees(oracle: Oracle, location: str) -> None:
    """The extension attaches and lists the same tables."""
    with ducklake_spark.attach(location, read_only=True) as lake:
        ours = lake.tables()
    oracle.attach(location)
    listed = oracle.execute(
        "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE database_name = 'lake'"
    )
    assert sorted(name for (name,) in listed) == sorted(ours)
    oracle.execute("SELECT * FROM shared_0")


@pytest.mark.parametrize("kind", ["postgres", "sqlite", "mysql"])
def test_eight_processes(
    kind: str, make_location: Callable[[str], str], tmp_path: Path, oracle: Oracle
) -> None:
    crew = Crew(make_location(kind), tmp_path)
    crew.finish([crew.start(number) for number in range(WORKERS)])

    outcomes = judge(crew)

    assert outcomes.total() == WORKERS * COMMITS
    assert outcomes["conflict"] > 0, "the test is about conflicts"
    assert outcomes["begun"] == 0
    if kind != "mysql":  # there the lake is ours only: the extension cannot write it
        assert_extension_agrees(oracle, crew.location)


@pytest.mark.parametrize("kind", ["postgres", "sqlite", "mysql"])
def test_processes_that_are_killed(
    kind: str, make_location: Callable[[str], str], tmp_path: Path, oracle: Oracle
) -> None:
    crew = Crew(make_location(kind), tmp_path)
    dice = random.Random(kind)
    processes = [crew.start(number) for number in range(WORKERS)]
    killed = 0
    while killed < 12:
        time.sleep(dice.uniform(0.05, 0.4))
        number = dice.randrange(WORKERS)
        if processes[number].poll() is None and crew.next_step(number) > 0:
            processes[number].kill()
            processes[number].communicate()
            killed += 1
            processes[number] = crew.start(number, crew.next_step(number))
        elif all(process.poll() is not None for process in processes):
            break
    crew.finish(processes)

    outcomes = judge(crew)

    assert outcomes.total() == WORKERS * COMMITS
    assert outcomes["begun"] <= killed, "only the dead leave without a word"
    if kind != "mysql":
        assert_extension_agrees(oracle, crew.location)


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_the_extension_among_the_processes(
    kind: str, make_location: Callable[[str], str], tmp_path: Path, oracle: Oracle
) -> None:
    crew = Crew(make_location(kind), tmp_path)
    done: list[str] = []
    refused: list[str] = []

    def extension() -> None:
        oracle.attach(crew.location)
        for step in range(EXTENSION_COMMITS):
            statement = (
                f"CREATE TABLE e_{step}(a INTEGER, b VARCHAR[])"
                if step % 2
                else f"ALTER TABLE shared_{step % worker.SHARED} ADD COLUMN e_{step} INTEGER"
            )
            while len(done) <= step:  # it gives up at once where we wait: "database is locked"
                try:
                    oracle.execute(statement)
                    done.append(f"e_{step}")
                except OracleError as error:
                    refused.append(str(error))

    thread = threading.Thread(target=extension)
    thread.start()
    crew.finish([crew.start(number, 0, 20) for number in range(WORKERS // 2)])
    thread.join()
    oracle.reset()

    catalog = catalogs.dump(crew.location)
    assert_sound(catalog)
    made = [row["table_name"] for row in catalog["ducklake_table"]]
    made += [row["column_name"] for row in catalog["ducklake_column"]]
    assert sorted(done) == sorted(name for name in made if re.fullmatch(r"e_\d+", name)), (
        "all, and none twice"
    )
    assert all(re.search("(?i)conflict|locked|retry", text) for text in refused), refused
    told = judge_words(crew, catalog)
    assert told.total() == WORKERS // 2 * 20
