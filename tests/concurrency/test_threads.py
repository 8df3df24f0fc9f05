"""Threads that share a handle, and handles that share a file: each commit is one snapshot, and none is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import ducklake_spark
from ducklake_spark.errors import ConflictError
from tests.concurrency.invariants import assert_sound
from tests.interop import catalogs

THREADS, COMMITS = 4, 8


def test_threads_of_one_handle(location: str, tmp_path: Path) -> None:
    outcomes: list[str] = []
    with ducklake_spark.attach(location, data_path=str(tmp_path)) as lake:
        lake.create_table("shared", {"a": "int"})

        def work(number: int) -> None:
            for step in range(COMMITS):
                try:
                    with lake.transaction(message=f"{number}/{step}"):
                        lake.create_table(f"t_{number}_{step}", {"a": "int"})
                        if step % 4 == 0:
                            lake["shared"].add_column(f"c_{number}_{step}", "int")
                    outcomes.append("committed")
                except ConflictError:
                    outcomes.append("conflict")
                except BaseException as error:
                    outcomes.append(repr(error))

        threads = [threading.Thread(target=work, args=[number]) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(outcomes) <= {"committed", "conflict"}
        assert len(outcomes) == THREADS * COMMITS
        assert lake.version == 1 + outcomes.count("committed")
        assert len(lake.tables()) == 1 + outcomes.count("committed")
    assert_sound(catalogs.dump(location), leftovers=location.startswith("ducklake:mysql"))


def test_a_transaction_of_one_thread_is_not_seen_by_another(location: str, tmp_path: Path) -> None:
    seen: list[list[str]] = []
    with ducklake_spark.attach(location, data_path=str(tmp_path)) as lake:
        with lake.transaction():
            lake.create_table("t", {"a": "int"})
            thread = threading.Thread(target=lambda: seen.append(lake.tables()))
            thread.start()
            thread.join()
        assert seen == [[]]
        assert lake.tables() == ["main.t"]
