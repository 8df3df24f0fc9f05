"""Several processes on one catalog: one creates the lake, all commit to it, and no snapshot is lost or doubled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from ducklake_spark.catalog.create import initialize, inspect
from ducklake_spark.catalog.location import parse_location
from ducklake_spark.catalog.open import open_store
from ducklake_spark.catalog.store import Failure

PROCESSES, COMMITS = 3, 20


def work(location: str) -> None:
    """What each process does: creates the lake or finds it, then commits until it succeeded often enough."""
    store = open_store(parse_location(location))
    initialize(store, data_path="data/", encrypted=False, created_by="test")
    done = 0
    while done < COMMITS:
        [(newest,)] = store.query("SELECT max(snapshot_id) FROM ducklake_snapshot")
        try:
            with store.begin() as session:
                session.execute(
                    f"INSERT INTO ducklake_snapshot VALUES (?, {store.now_sql}, 0, 1, 0)", [newest + 1]
                )
                session.insert("ducklake_snapshot_changes", [(newest + 1, None, None, None, None)])
            done += 1
        except store.driver_errors as error:
            assert store.classify(error) in (Failure.COLLISION, Failure.TRANSIENT), error
    store.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_no_snapshot_is_lost_or_doubled(kind: str, make_location: Callable[[str], str]) -> None:
    location = make_location(kind)
    command = [sys.executable, __file__, location]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(PROCESSES)]
    errors = [process.communicate()[1].decode() for process in processes]
    assert errors == [""] * PROCESSES

    store = open_store(parse_location(location))
    assert inspect(store).exists
    expected = PROCESSES * COMMITS
    rows = store.query("SELECT count(*), max(snapshot_id) FROM ducklake_snapshot")
    assert rows == [(expected + 1, expected)]
    assert store.query("SELECT count(*) FROM ducklake_snapshot_changes") == [(expected + 1,)]
    store.close()


if __name__ == "__main__":
    work(sys.argv[1])
