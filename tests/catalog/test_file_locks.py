"""A catalog file belongs to one process: whatever that process does, no other can write and nothing is overwritten.

A POSIX lock is gone as soon as any descriptor of the file is closed in the process that has it, so each test looks
from outside.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

import ducklake_spark
from ducklake_spark.catalog.file_lock import held
from ducklake_spark.errors import CatalogConnectionError, DuckLakeError

Insert = Callable[["Path | str", int], str]

_LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
_OTHER = textwrap.dedent("""
    import json, sys, ducklake_spark
    for line in sys.stdin:
        location, value = json.loads(line)
        try:
            with ducklake_spark.attach(location) as lake:
                lake["t"].insert([(value,)])
            print(json.dumps(""), flush=True)
        except ducklake_spark.DuckLakeError as error:
            print(json.dumps(str(error)), flush=True)
""")


def is_locked(path: Path) -> bool:
    """Whether another process is refused."""
    done = subprocess.run([sys.executable, "-S", "-c", _LOCK, path], capture_output=True, text=True)
    assert done.returncode == 0 or "BlockingIOError" in done.stderr, done.stderr
    return done.returncode != 0


@pytest.fixture(scope="module")
def insert_elsewhere() -> Iterator[Insert]:
    """Another process attaches the lake, inserts a row and closes it; its error, if it has one."""
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        said, answers = other.stdin, other.stdout
        assert said is not None and answers is not None

        def insert(path: Path | str, value: int) -> str:
            print(json.dumps([f"ducklake:{path}", value]), file=said, flush=True)
            return str(json.loads(answers.readline()))

        yield insert
        said.close()
        assert other.wait() == 0


def rows(lake: ducklake_spark.Lake) -> list[int]:
    """The rows of the table `t`, all of which are in the catalog."""
    [(name,), *_] = lake._scope.store.query(
        "SELECT table_name FROM ducklake_inlined_data_tables ORDER BY table_id"
    )
    return sorted(
        value for (value,) in lake._scope.store.query(f'SELECT i FROM "{name}" WHERE end_snapshot IS NULL')
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A lake with a table `t(i)`."""
    path = tmp_path / "l.ducklake"
    with ducklake_spark.attach(f"ducklake:{path}") as lake:
        lake.create_table("t", "i INT")
    return path


def attach_again(path: Path) -> None:
    ducklake_spark.attach(f"ducklake:{path}").close()


def attach_and_keep(path: Path) -> None:
    _kept.append(ducklake_spark.attach(f"ducklake:{path}"))


def attach_and_forget(path: Path) -> None:
    lake = ducklake_spark.attach(f"ducklake:{path}", catalog=False)
    lake.tables()
    del lake
    gc.collect()


def attach_by_a_link(path: Path) -> None:
    link = path.with_name("link.ducklake")
    link.symlink_to(path)
    with ducklake_spark.attach(f"ducklake:{link}") as lake:
        lake.create_table("by_link", "i INT")


def attach_by_another_name(path: Path) -> None:
    other = path.with_name("hard.ducklake")
    os.link(path, other)
    with ducklake_spark.attach(f"ducklake:{other}") as lake:
        lake.create_table("by_name", "i INT")


def attach_by_a_relative_path(path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{os.path.relpath(path)}") as lake:
        assert "main.t" in lake.tables()


def attach_read_only(path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{path}", read_only=True) as lake:
        assert "main.t" in lake.tables()


def attach_at_a_snapshot(path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{path}", snapshot_version=0) as lake:
        assert lake.tables() == []


def attach_in_vain(path: Path) -> None:
    for options in ({"data_path": "/elsewhere"}, {"encrypted": True}, {"snapshot_version": 99}):
        with pytest.raises(DuckLakeError):
            ducklake_spark.attach(f"ducklake:{path}", **options)


def attach_as_sqlite(path: Path) -> None:
    with pytest.raises(DuckLakeError, match="not a SQLite"):
        ducklake_spark.attach(f"ducklake:sqlite:{path}", data_path=str(path.parent))


def look_with_the_command_line(path: Path) -> None:
    from ducklake_spark.cli.connect import Target, connect

    connect(Target(str(path))).close()


def look_at_the_first_bytes(path: Path) -> None:
    with held(str(path)) as file:
        assert file.first_bytes(12)[8:] == b"DUCK"


def open_with_duckdb(path: Path) -> None:
    with pytest.raises(duckdb.Error), duckdb.connect(str(path)) as connection:
        connection.execute("SELECT 1")


def attach_with_duckdb(path: Path) -> None:
    with duckdb.connect() as connection, pytest.raises(duckdb.Error):
        connection.execute(f"ATTACH '{path}' AS other")


def use_threads(path: Path) -> None:
    threads = [threading.Thread(target=attach_again, args=(path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


_kept: list[ducklake_spark.Lake] = []


@pytest.mark.parametrize(
    "act",
    [
        attach_again, attach_and_keep, attach_and_forget, attach_by_a_link, attach_by_another_name,
        attach_by_a_relative_path, attach_read_only, attach_at_a_snapshot, attach_in_vain, attach_as_sqlite,
        look_with_the_command_line, look_at_the_first_bytes, open_with_duckdb, attach_with_duckdb, use_threads,
    ],
)  # fmt: skip
def test_the_lock_stays(act: Callable[[Path], None], path: Path) -> None:
    lake = ducklake_spark.attach(f"ducklake:{path}")
    assert is_locked(path)
    act(path)
    assert is_locked(path)
    lake["t"].insert([(1,)])
    assert is_locked(path)
    assert rows(lake) == [1]
    lake.close()
    while _kept:
        assert is_locked(path)
        assert rows(_kept[-1]) == [1]
        _kept.pop().close()
    assert not is_locked(path)
    with ducklake_spark.attach(f"ducklake:{path}") as lake:
        assert rows(lake) == [1]


def test_a_cell_that_runs_twice_loses_no_rows_of_others(path: Path, insert_elsewhere: Insert) -> None:
    lake = ducklake_spark.attach(f"ducklake:{path}")
    again = ducklake_spark.attach(f"ducklake:{path}")
    assert "is in use: a DuckDB file can be open in one process only" in insert_elsewhere(path, 1)
    lake["t"].insert([(2,)])
    again["t"].insert([(3,)])
    lake.close()
    again.close()
    assert insert_elsewhere(path, 4) == ""
    with ducklake_spark.attach(f"ducklake:{path}") as lake:
        assert rows(lake) == [2, 3, 4]


def test_a_handle_that_was_forgotten_lets_the_file_go(path: Path) -> None:
    lake: ducklake_spark.Lake | None = ducklake_spark.attach(f"ducklake:{path}", catalog=False)
    assert is_locked(path)
    del lake
    gc.collect()
    assert not is_locked(path)


def test_a_copy_by_this_process_drops_the_lock_and_it_is_taken_again(path: Path, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{path}") as lake:
        shutil.copy(path, tmp_path / "copy.ducklake")
        assert not is_locked(path)  # nobody could prevent that
        lake["t"].insert([(1,)])
        assert is_locked(path)
        assert rows(lake) == [1]


@pytest.mark.parametrize("look", ["insert", "read", "close"])
@pytest.mark.parametrize("wrote_before", [True, False])
def test_rows_of_another_process_are_not_overwritten(
    wrote_before: bool, look: str, path: Path, insert_elsewhere: Insert, tmp_path: Path
) -> None:
    lake = ducklake_spark.attach(f"ducklake:{path}")
    if wrote_before:
        lake["t"].insert([(1,)])
        shutil.copy(f"{path}.wal", tmp_path / "copy.ducklake.wal")  # DuckDB locks its log as well
    shutil.copy(path, tmp_path / "copy.ducklake")
    assert insert_elsewhere(path, 2) == ""
    if look == "insert":
        with pytest.raises(
            CatalogConnectionError, match=r"another process has written to it.* attach it again"
        ):
            lake["t"].insert([(3,)])
    elif look == "read":
        with pytest.raises(CatalogConnectionError, match="another process has written to it"):
            lake.tables()
    expected = [1, 2] if wrote_before else [2]
    # A handle that was lost does not stand in the way of a new one, as when a cell is run again.
    if look != "close":
        with ducklake_spark.attach(f"ducklake:{path}") as again:
            assert rows(again) == expected
            again["t"].insert([(4,)])
        with pytest.raises(CatalogConnectionError, match="attach it again"):
            lake["t"].insert([(3,)])
        expected.append(4)
    lake.close()
    with ducklake_spark.attach(f"ducklake:{path}") as lake:
        assert rows(lake) == expected


def test_a_file_that_another_process_has_open_is_not_written(path: Path, tmp_path: Path) -> None:
    lake = ducklake_spark.attach(f"ducklake:{path}")
    shutil.copy(path, tmp_path / "copy.ducklake")
    hold = "import sys, ducklake_spark as d; lake = d.attach(sys.argv[1]); lake.tables(); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, f"ducklake:{path}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(CatalogConnectionError, match="another process has opened it"):
            lake["t"].insert([(3,)])
        other.communicate(b"\n")
    lake.close()


def test_a_reader_notices_that_the_file_changed(path: Path, insert_elsewhere: Insert, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{path}", read_only=True) as lake:
        assert lake.tables() == ["main.t"]
        shutil.copy(path, tmp_path / "copy.ducklake")
        assert lake.tables() == ["main.t"]
        shutil.copy(path, tmp_path / "copy.ducklake")
        assert insert_elsewhere(path, 1) == ""
        with pytest.raises(CatalogConnectionError, match="attach it again"):
            lake.tables()


def test_the_log_of_a_linked_catalog_is_where_others_look_for_it(path: Path) -> None:
    link = path.with_name("link.ducklake")
    link.symlink_to(path)
    script = "import os, sys, ducklake_spark as d; d.attach(sys.argv[1])['t'].insert([(1,)]); os._exit(9)"
    done = subprocess.run([sys.executable, "-c", script, f"ducklake:{link}"])
    assert done.returncode == 9
    with ducklake_spark.attach(f"ducklake:{path}") as lake:
        assert rows(lake) == [1]


# Forked processes

_FORK = textwrap.dedent("""
    import os, sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    import ducklake_spark
    lake = ducklake_spark.attach(sys.argv[1], data_path=sys.argv[2])
    lake.create_table("t", "i INT")
    lake["t"].insert([(1,)])
    table = lake["t"]
    for end in ("close", "exit"):
        child = os.fork()
        if child != 0:
            assert os.waitpid(child, 0)[1] == 0
            continue
        for act in (lambda: table.insert([(2,)]), lake.tables, lake.begin, lambda: lake.create_schema("s")):
            try:
                act()
            except ducklake_spark.errors.ClosedError as error:
                assert "forked" in str(error), error
            else:
                print("a child used an inherited handle", flush=True)
        if end == "close":
            lake.close()
        sys.exit(0)  # with all destructors
    table.insert([(3,)])
    print(lake.version, flush=True)
    lake.close()
""")


def test_a_forked_child_neither_writes_nor_closes(location: str, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    done = subprocess.run(
        [sys.executable, "-c", _FORK, location, data], capture_output=True, text=True, timeout=60
    )
    # DuckDB 2 reports, to no harm, what the child leaves alone.
    said = [
        line for line in done.stderr.splitlines() if not re.match("nanobind: | - |See https://nanobind", line)
    ]
    assert (done.stdout, said, done.returncode) == ("3\n", [], 0)
    with ducklake_spark.attach(location) as lake:
        assert rows(lake) == [1, 3]


def test_a_child_may_attach_for_itself(tmp_path: Path) -> None:
    location = f"ducklake:sqlite:{tmp_path / 'lake.sqlite'}"
    script = textwrap.dedent("""
        import multiprocessing, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import ducklake_spark
        lake = ducklake_spark.attach(sys.argv[1], data_path=sys.argv[2])
        lake.create_table("t", "i INT")
        def work(value):
            with ducklake_spark.attach(sys.argv[1]) as own:
                own["t"].insert([(value,)])
        with multiprocessing.get_context("fork").Pool(3) as pool:
            pool.map(work, range(6))
        lake["t"].insert([(6,)])
        lake.close()
    """)
    done = subprocess.run(
        [sys.executable, "-c", script, location, str(tmp_path / "data")], capture_output=True, text=True
    )
    assert (done.stderr, done.returncode) == ("", 0)
    with ducklake_spark.attach(location) as lake:
        assert rows(lake) == list(range(7))


# SQLite


def test_a_sqlite_catalog_with_a_write_ahead_log(insert_elsewhere: Insert, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    location = f"ducklake:sqlite:{path}"
    with ducklake_spark.attach(location, data_path=str(tmp_path / "data")) as lake:
        lake.create_table("t", "i INT")
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchall() == [("wal",)]
    connection.close()
    lake = ducklake_spark.attach(location)
    again = ducklake_spark.attach(location)
    lake["t"].insert([(1,)])
    again.close()
    assert insert_elsewhere(f"sqlite:{path}", 2) == ""
    lake["t"].insert([(3,)])
    assert rows(lake) == [1, 2, 3]
    lake.close()
    assert not path.with_name("l.sqlite-wal").exists()  # the last one leaves all in the file
