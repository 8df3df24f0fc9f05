"""Flushes beside other writers, and flushes that die: no row is lost, none is there twice."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ducklake_spark
from ducklake_spark import ConflictError, Lake
from ducklake_spark.errors import FileError
from ducklake_spark.write import flush
from tests.interop import catalogs
from tests.interop.oracle import Oracle, OracleError
from tests.maintenance import flush_victim
from tests.maintenance.twins import kept, told

HISTORY = (
    "CREATE TABLE t(i INT)",
    "INSERT INTO t SELECT i FROM range(100, 150) r(i)",
    "INSERT INTO t VALUES (0)",
    "ALTER TABLE t ADD COLUMN p VARCHAR",
    "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')",
    "DELETE FROM t WHERE i IN (0, 1, 100)",
    "UPDATE t SET p = 'u' WHERE i IN (2, 101)",
)


def inlined(uri: str) -> dict[str, int]:
    """How many rows the tables of inlined data have."""
    names = catalogs.rows_only(catalogs.dump(uri))
    return {name: len(rows) for name, rows in names.items() if name.startswith("ducklake_inlined_d") and rows and name != "ducklake_inlined_data_tables"}  # fmt: skip


def ids(oracle: Oracle) -> list[int]:
    return [i for (i,) in oracle.execute("SELECT i FROM t WHERE i < 100 ORDER BY i")]


def test_on_every_catalog(location: str, tmp_path: Path) -> None:
    with ducklake_spark.attach(location, data_path=str(tmp_path / "data")) as lake:
        table = lake.create_table("t", {"i": "int", "p": "string", "l": "array<double>", "b": "boolean"})
        table.insert([(1, "x", [1.5, None], True), (2, None, None, None)])
        table.add_column("z", "date")
        lake.create_table("u", {"i": "int"}).insert([(1,)])
        table.insert([{"i": 3, "p": "it's\n😀", "b": False, "z": datetime.date(2020, 1, 2)}])
        [first, second] = [tuple(row)[:4] for row in lake.flush_inlined_data().collect()]
        assert (first, second) == (("main", "t", 3, 2), ("main", "u", 1, 1))
        table.insert([{"i": 4}])
        assert [tuple(row)[:4] for row in table.flush_inlined_data().collect()] == [("main", "t", 1, 1)]
    assert inlined(location) == {}
    dump = catalogs.dump(location)
    # The old one stays where the extension may know of it.
    assert len(dump["ducklake_inlined_data_tables"]) == (
        3 if "sqlite" in location or "postgres" in location else 2
    )
    files = [row for row in dump["ducklake_data_file"] if row["table_id"] == 1]
    assert [(row["begin_snapshot"], row["partial_max"], row["row_id_start"]) for row in files] == [
        (2, 2, 0),
        (6, 6, 2),
        (8, 8, 3),
    ]
    paths = [str(path) for path in (tmp_path / "data" / "main" / "t").glob("*.parquet")]
    rows = duckdb.connect().execute(
        "SELECT i, p, l, b, CAST(z AS VARCHAR) FROM read_parquet(?, union_by_name = true) ORDER BY i", [paths]
    )
    assert rows.fetchall() == [
        (1, "x", [1.5, None], True, None),
        (2, None, None, None, None),
        (3, "it's\n😀", None, False, "2020-01-02"),
        (4, None, None, None, None),
    ]


def test_a_flush_without_a_snapshot_takes_no_table_from_readers(tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/lake.ducklake") as lake:
        lake.create_table("t", "i INT")
        lake["t"].add_column("p", "varchar")
        lake.sql("DELETE FROM t WHERE i = 5")  # remembers how the table is read, and changes nothing
        version = lake.version
        lake.flush_inlined_data()
        assert lake.version == version
        lake.sql("DELETE FROM t WHERE i = 5")
        lake["t"].insert([(5, "a"), (6, "b")])
        lake.sql("DELETE FROM t WHERE i = 5")
        assert lake.version == version + 2


def test_files_that_vanish_before_the_commit_are_not_committed(tmp_path: Path) -> None:
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    with ducklake_spark.attach(uri) as lake, ducklake_spark.attach(uri) as other:
        lake.create_table("t", "i INT").insert([(1,), (2,)])
        with pytest.raises(FileError, match="is gone: something removes files"), lake.transaction():
            assert [row.rows_flushed for row in lake.flush_inlined_data().collect()] == [2]
            assert len(other.delete_orphaned_files(cleanup_all=True).collect()) == 1
        assert lake.version == 2
        # The rows were still where they had been.
        assert [row.rows_flushed for row in lake.flush_inlined_data().collect()] == [2]
        assert lake.version == 3


def test_pages(oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come from the catalog a few at a time; versions of one row stay together."""
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    oracle.attach(uri)
    for statement in (
        "CREATE TABLE t(i INT)",
        *(f"INSERT INTO t SELECT i FROM range({first}, {first + 5}) r(i)" for first in (0, 5)),
        *["UPDATE t SET i = i + 100 WHERE i % 5 = 0"] * 3,
        "DELETE FROM t WHERE i = 7",
    ):
        oracle.execute(statement)
    oracle.reset()
    before = told(oracle, uri)
    monkeypatch.setattr(flush, "PAGE_ROWS", 3)
    with ducklake_spark.attach(uri) as lake:
        assert [row.rows_flushed for row in lake.flush_inlined_data().collect()] == [16]
    kept(before, told(oracle, uri))


@pytest.fixture(params=["sqlite", "postgres"])
def shared(
    request: pytest.FixtureRequest, make_location: Callable[[str], str], oracle: Oracle, tmp_path: Path
) -> Any:
    """A lake that we have open here, and the extension in another process."""
    uri = make_location(request.param)
    oracle.attach(uri, data_path=str(tmp_path / "data"))
    for statement in HISTORY:
        oracle.execute(statement)
    with ducklake_spark.attach(uri, name="lake") as lake:
        yield lake, oracle, uri


def test_insert_meanwhile_stays(shared: tuple[Lake, Oracle, str]) -> None:
    lake, oracle, uri = shared
    with lake.transaction():
        lake.flush_inlined_data()
        oracle.execute("INSERT INTO t VALUES (9, 'new')")
        oracle.execute("ALTER TABLE t ADD COLUMN late INT")
    assert ids(oracle) == [2, 3, 9]
    assert inlined(uri) == {f"ducklake_inlined_data_1_{2}": 1}
    lake.flush_inlined_data()
    assert ids(oracle) == [2, 3, 9]
    assert inlined(uri) == {}


@pytest.mark.parametrize(
    "theirs",
    [
        "DELETE FROM t WHERE i = 3",  # an inlined row
        "DELETE FROM t WHERE i = 102",  # a row of a file with inlined deletes
        "DELETE FROM t WHERE i BETWEEN 102 AND 120",  # from the same file, by a delete file
        "UPDATE t SET p = 'w' WHERE i = 2",
        "CALL ducklake_flush_inlined_data('lake')",
        "TRUNCATE t",
        "DROP TABLE t",
    ],
)
def test_delete_meanwhile_is_a_conflict(
    theirs: str, shared: tuple[Lake, Oracle, str], tmp_path: Path
) -> None:
    lake, oracle, uri = shared
    with pytest.raises(ConflictError), lake.transaction():
        lake.flush_inlined_data()
        oracle.execute(theirs)
    dump = catalogs.dump(uri)
    named = {row["path"] for name in ("data", "delete") for row in dump[f"ducklake_{name}_file"]}
    assert {path.name for path in (tmp_path / "data").rglob("*.parquet")} == named, "ours are gone"
    if theirs != "DROP TABLE t":
        expected = oracle.execute("SELECT i, p FROM t ORDER BY ALL")
        lake.flush_inlined_data()  # on the new snapshot
        assert oracle.execute("SELECT i, p FROM t ORDER BY ALL") == expected
        assert inlined(uri) == {}


@pytest.mark.parametrize("shared", ["postgres"], indirect=True)  # SQLite has one writer at a time
def test_flush_meanwhile_is_a_conflict_for_deletes_of_the_extension(shared: tuple[Lake, Oracle, str]) -> None:
    lake, oracle, _ = shared
    oracle.execute("BEGIN")
    oracle.execute("DELETE FROM t WHERE i = 3")
    lake.flush_inlined_data()
    with pytest.raises(OracleError, match=r"(?i)conflict"):
        oracle.execute("COMMIT")
    with contextlib.suppress(OracleError):
        oracle.execute("ROLLBACK")
    assert ids(oracle) == [2, 3]
    oracle.execute("DELETE FROM t WHERE i = 3")
    assert ids(oracle) == [2]


def test_a_busy_table(make_location: Callable[[str], str], tmp_path: Path) -> None:
    """Another process inserts, updates and deletes, this one flushes all the time; every snapshot is as it was made."""
    uri, expected = make_location("postgres"), dict[int, list[tuple[int, int]]]()
    with Oracle() as other:
        other.attach(uri, data_path=str(tmp_path / "data"))
        other.execute("CREATE TABLE t(k INT, n INT)")
        other.execute("INSERT INTO t SELECT i, 0 FROM range(1000, 1020) r(i)")
        done = threading.Event()
        failures: list[BaseException] = []

        def change() -> None:
            rows = dict.fromkeys(range(1000, 1020), 0)
            try:
                for turn in range(40):
                    statement, made = [
                        (f"INSERT INTO t VALUES ({turn}, 0), ({turn + 500}, 0)", rows | {turn: 0, turn + 500: 0}),
                        (f"UPDATE t SET n = n + 1 WHERE k % 4 = {turn % 4}", {k: n + (k % 4 == turn % 4) for k, n in rows.items()}),
                        (f"DELETE FROM t WHERE k % 7 = {turn % 7}", {k: n for k, n in rows.items() if k % 7 != turn % 7}),
                    ][turn % 3]  # fmt: skip
                    while True:
                        try:
                            other.execute(statement)
                            break
                        except OracleError as error:
                            if "onflict" not in str(error):
                                raise
                    rows = made
                    [(version,)] = other.execute("FROM lake.last_committed_snapshot()")
                    expected[version] = sorted(rows.items())
                    time.sleep(0.05)  # or nobody else would ever be first
            except BaseException as error:
                failures.append(error)
            finally:
                done.set()

        with ducklake_spark.attach(uri, name="lake") as lake:
            thread = threading.Thread(target=change)
            thread.start()
            flushes = 0
            while not done.is_set():
                with contextlib.suppress(ConflictError):
                    flushes += bool(lake.flush_inlined_data().collect())
            thread.join()
            assert not failures
            assert flushes
            lake.flush_inlined_data()
        for version, rows in expected.items():
            assert other.execute(f"SELECT k, n FROM t AT (VERSION => {version}) ORDER BY k") == rows, version
    assert inlined(uri) == {}


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        *(("duckdb", moment) for moment in flush_victim.MOMENTS),
        *(("postgres", moment) for moment in ("before COMMIT", "after COMMIT")),
    ],
)
def test_a_process_that_is_killed(
    kind: str, moment: str, oracle: Oracle, make_location: Callable[[str], str], tmp_path: Path
) -> None:
    uri, data = make_location(kind), str(tmp_path / "data")
    oracle.attach(uri, data_path=data)
    for statement in HISTORY:
        oracle.execute(statement)
    oracle.reset()
    before = told(oracle, uri)
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    victim = subprocess.run(
        [sys.executable, flush_victim.__file__, uri, data, moment],
        env=environment,
        capture_output=True,
        text=True,
    )

    assert victim.returncode == -signal.SIGKILL, victim.stdout + victim.stderr
    kept(before, told(oracle, uri))
    with ducklake_spark.attach(uri) as lake:
        lake.flush_inlined_data()
    kept(before, told(oracle, uri))
    assert inlined(uri) == {}
    assert len(catalogs.dump(uri)["ducklake_inlined_data_tables"]) == (1 if kind == "duckdb" else 2)
