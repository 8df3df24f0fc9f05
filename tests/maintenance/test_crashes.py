"""Every job, stopped at every step: nothing is lost, and the job can be run again.

A process that is killed leaves its files and its catalog as they are at that moment. So a copy of both, made after each
statement to the catalog and each file that is moved or deleted, is the lake of a process that was killed there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.engine.maintenance import cleanup
from ducklake_spark.engine.scope import scope_of
from tests.interop import catalogs
from tests.interop.oracle import Oracle
from tests.maintenance.twins import Told, told

pytestmark = pytest.mark.spark

HISTORY = (
    "CREATE TABLE t(i INT, k VARCHAR)",
    *(f"INSERT INTO t SELECT {n} + i, 'x' FROM range(20) r(i)" for n in (0, 20, 40, 60)),
    "DELETE FROM t WHERE i < 15",
    "INSERT INTO t VALUES (100, 'inlined'), (101, 'inlined')",
    "DELETE FROM t WHERE i IN (101, 61)",
    "UPDATE t SET k = 'y' WHERE i = 100",
    "CREATE TABLE gone(i INT)",
    "INSERT INTO gone SELECT i FROM range(20) r(i)",
    "DROP TABLE gone",
    "CREATE TABLE small(i INT)",
    *(f"INSERT INTO small SELECT {n} + i FROM range(20) r(i)" for n in (0, 20)),
    "CALL ducklake_merge_adjacent_files('lake', 'small')",
)
_MOVES = (os.replace, os.unlink, os.remove, os.rename)
EVERYTHING: dict[str, Any] = {"cleanup_all": True}
JOBS: dict[str, Callable[[Lake], Any]] = {
    "merge": lambda lake: lake.merge_adjacent_files(),
    "rewrite": lambda lake: lake.rewrite_data_files(delete_threshold=0.01),
    "flush": lambda lake: lake.flush_inlined_data(),
    "compact": lambda lake: lake["t"].compact(zorder_by=["i", "k"]),
    "expire": lambda lake: lake.expire_snapshots(older_than="2100-01-01"),
    "cleanup": lambda lake: lake.cleanup_old_files(**EVERYTHING),
    "orphans": lambda lake: lake.delete_orphaned_files(**EVERYTHING),
    "add": lambda lake: lake["t"].add_data_files(f"{lake.data_path}../added/*.parquet"),
}


Disk = frozenset[tuple[str, str]]
"""The files of a folder, each with a sum of its bytes."""


def catalog_of(disk: Disk) -> Disk:
    """Those of the catalog: they are not in a folder."""
    return frozenset(file for file in disk if file[0].count("/") == 1)


class Crashes:
    """A lake in a folder, and copies of the folder as a kill would leave it."""

    def __init__(self, folder: Path, oracle: Oracle, spark: SparkSession) -> None:
        self.live, self.copies = folder / "live", folder / "copies"
        self.oracle, self.spark = oracle, spark
        self.uri = f"ducklake:{self.live}/lake.ducklake"
        self._known: set[Disk] = set()
        self._told: list[tuple[Disk, Told]] = []

    @contextmanager
    def lake(self) -> Iterator[Lake]:
        with ducklake_spark.attach(self.uri, name="lake", spark=self.spark) as lake:
            yield lake

    def restore(self, copy: Path) -> None:
        shutil.rmtree(self.live)
        shutil.copytree(copy, self.live)

    def on_disk(self) -> Disk:
        """What each file holds.

        Another process looks: who opens and closes a catalog's file in this one lets go of its lock.
        """
        sums = subprocess.run(
            ["find", ".", "-type", "f", "-exec", "sha256sum", "{}", "+"],
            cwd=self.live,
            check=True,
            capture_output=True,
            text=True,
        )
        return frozenset(tuple(reversed(line.split(maxsplit=1))) for line in sums.stdout.splitlines())  # type: ignore[misc]

    def take(self) -> None:
        """Copies what is on disk now, unless that is known."""
        state = self.on_disk()
        if state not in self._known:
            subprocess.run(["cp", "-r", self.live, self.copies / str(len(self._known))], check=True)
            self._known.add(state)

    def taken(self) -> list[Path]:
        return sorted(self.copies.iterdir())

    def told(self) -> Told:
        """What the extension reads: the same where the catalog is the same, byte for byte, and no file is gone or changed."""
        state = self.on_disk()
        for known, found in self._told:
            if known <= state and catalog_of(known) == catalog_of(state):
                return found
        found = told(self.oracle, self.uri)
        self._told.append((state, found))
        return found

    def unknown(self) -> set[str]:
        """Files on disk that no row of the catalog names."""
        dump = catalogs.dump(self.uri)
        named = {
            os.path.basename(row["path"])
            for name in ("data", "delete")
            for row in dump[f"ducklake_{name}_file"]
        }
        found = {path.name for path in (self.live / "lake.ducklake.files").rglob("*") if path.is_file()}
        assert named <= found | {path.name for path in (self.live / "added").iterdir()}, (
            "files that are needed"
        )
        return found - named


@pytest.fixture(scope="module")
def base(
    _oracle_process: Oracle, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> tuple[Crashes, Path]:
    folder = tmp_path_factory.mktemp("crashes")
    made = Crashes(folder, _oracle_process, spark)
    made.live.mkdir()
    made.oracle.attach(made.uri)
    for statement in HISTORY:
        made.oracle.execute(statement)
    made.oracle.reset()
    for name in (
        "lake.ducklake.files/main/t/orphan-1",
        "lake.ducklake.files/main/orphan-2",
        "added/1",
        "added/2",
    ):
        path = made.live / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        made.oracle.execute(f"COPY (SELECT 500 AS i, 'added' AS k) TO '{path}' (FORMAT parquet)")
    shutil.copytree(made.live, folder / "base")
    return made, folder / "base"


@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_is_killed_loses_nothing(
    base: tuple[Crashes, Path], job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes, start = base
    crashes.restore(start)
    shutil.rmtree(crashes.copies, ignore_errors=True)
    crashes.copies.mkdir()
    crashes._known.clear()
    if job == "cleanup":
        with crashes.lake() as lake:
            lake.expire_snapshots(older_than="2100-01-01")
    before = crashes.told()
    with crashes.lake() as lake, monkeypatch.context() as patched:
        patched.setattr(cleanup, "_BATCH", 1)
        after_each_step(patched, lake, crashes.take)
        JOBS[job](lake)
        crashes.take()
    taken = crashes.taken()
    assert len(taken) >= 2
    for copy in taken:
        crashes.restore(copy)
        alive = crashes.told()
        check(before, alive, job)
        with crashes.lake() as lake:
            JOBS[job](lake)
        check(alive, crashes.told(), job)
        with crashes.lake() as lake:
            lake.expire_snapshots(older_than="2100-01-01")
            lake.cleanup_old_files(cleanup_all=True)
            lake.delete_orphaned_files(cleanup_all=True)
        assert crashes.unknown() == set(), copy


def after_each_step(patched: pytest.MonkeyPatch, lake: Lake, take: Callable[[], None]) -> None:
    """Lets `take` look after each statement of a session, and before and after each file that is moved or deleted."""
    with scope_of(lake).store.begin() as session:
        kind = type(session)
    for owner, name in (
        *((kind, name) for name in ("execute", "insert", "flush")),
        *((os, call.__name__) for call in _MOVES),
    ):
        patched.setattr(owner, name, followed(getattr(owner, name), take))


def followed(call: Callable[..., Any], take: Callable[[], None]) -> Callable[..., Any]:
    def both(*given: Any, **named: Any) -> Any:
        if call in _MOVES:
            take()
        result = call(*given, **named)
        take()
        return result

    return both


def check(before: Told, after: Told, job: str) -> None:
    """Every snapshot that is still there shows what it showed; an expiry may have taken some, but not the newest."""
    kept = before if job != "expire" else {key: value for key, value in before.items() if key in after}
    assert {key: after.get(key) for key in kept} == kept
    assert any(table.endswith('"t"') for table, _ in after)
