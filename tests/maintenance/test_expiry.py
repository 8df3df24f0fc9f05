"""Expiry of snapshots beside the extension's: the same rows of the catalog go, and the rest can still be read."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import ducklake_spark
from ducklake_spark import (
    ClosedError,
    InvalidInputError,
    Lake,
    ReadOnlyError,
    SnapshotNotFoundError,
    TransactionError,
)
from ducklake_spark.catalog import expiry, lake_files
from ducklake_spark.engine.scope import scope_of
from tests.interop import catalogs
from tests.interop.oracle import Oracle

FUTURE = "2100-01-01"

HISTORY = (
    "CREATE TABLE t(i INTEGER, s VARCHAR)",
    "INSERT INTO t VALUES (1, 'inlined'), (2, 'inlined')",
    "INSERT INTO t SELECT i, 'file' FROM range(100) r(i)",
    "DELETE FROM t WHERE i = 50",
    "INSERT INTO t SELECT i, 'file' FROM range(100, 200) r(i)",
    "DELETE FROM t WHERE i % 7 = 0",
    "ALTER TABLE t RENAME TO t2",
    "COMMENT ON TABLE t2 IS 'one'",
    "COMMENT ON TABLE t2 IS 'two'",
    "COMMENT ON COLUMN t2.i IS 'three'",
    "ALTER TABLE t2 ADD COLUMN x DOUBLE DEFAULT 1.5",
    "DELETE FROM t2 WHERE i % 5 = 0",
    "CREATE SCHEMA s2",
    "CREATE TABLE s2.u(k INTEGER, v VARIANT)",
    "ALTER TABLE s2.u SET PARTITIONED BY (k)",
    "INSERT INTO s2.u SELECT i % 3, i::VARIANT FROM range(30) r(i)",
    "INSERT INTO s2.u VALUES (7, 'x'::VARIANT)",
    "CREATE VIEW s2.v AS SELECT 42 AS a",
    "CREATE MACRO s2.m(a, b := 2) AS a + b",
    "COMMENT ON VIEW s2.v IS 'seen'",
    "DROP VIEW s2.v",
    "DROP MACRO s2.m",
    "DROP TABLE s2.u",
    "DROP SCHEMA s2",
    "CREATE TABLE w(a INTEGER, b INTEGER)",
    "ALTER TABLE w SET SORTED BY (b)",
    "CALL ducklake_add_data_files('lake', 'w', '{outside}/added.parquet')",
    "CALL ducklake_add_data_files('lake', 'w', '{data}/inside.parquet')",
    "INSERT INTO w SELECT i, -i FROM range(20) r(i)",
    "INSERT INTO w SELECT i, -i FROM range(20) r(i)",
    "UPDATE w SET a = 0 WHERE a > 10",
    "CALL ducklake_merge_adjacent_files('lake')",
    "DROP TABLE w",
    "UPDATE t2 SET s = 'changed' WHERE i < 60",
    "CALL ducklake_rewrite_data_files('lake', 't2', delete_threshold => 0.1)",
    "CREATE TABLE last(i INTEGER)",
)


ROWS: dict[tuple[str, int], list[Any]] = {}
"""The rows of its tables before anything was expired."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake that the extension wrote, of which tests use copies: expiry touches no file."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "outside").mkdir()
    with Oracle() as oracle:
        oracle.attach(
            f"ducklake:{folder}/lake.ducklake", data_path=f"{folder}/data/", data_inlining_row_limit=5
        )
        for place in ("outside/added", "data/inside"):
            (folder / place).parent.mkdir(exist_ok=True)
            oracle.execute(f"COPY (SELECT 1 AS a, 2 AS b) TO '{folder / place}.parquet'")
        for statement in HISTORY:
            oracle.execute(statement.format(data=folder / "data", outside=folder / "outside"))
        ROWS.update(rows_at_snapshots(oracle))
        oracle.detach()
    return folder


@pytest.fixture
def twins(written: Path, tmp_path: Path) -> tuple[str, str]:
    """Two copies of that lake."""
    for name in ("ours", "theirs"):
        shutil.copy(written / "lake.ducklake", tmp_path / f"{name}.ducklake")
    return f"ducklake:{tmp_path}/ours.ducklake", f"ducklake:{tmp_path}/theirs.ducklake"


SEEN = (3, 6, 12, 16, 24, 29, 31, 33, len(HISTORY))
"""Snapshots whose rows are compared."""


def rows_at_snapshots(oracle: Oracle) -> dict[tuple[str, int], list[Any]]:
    found = {}
    for (version,) in oracle.execute(
        f"SELECT snapshot_id FROM ducklake_snapshots('lake') WHERE snapshot_id IN {SEEN}"
    ):
        tables = oracle.execute(
            "SELECT s.schema_name, t.table_name FROM __ducklake_metadata_lake.ducklake_table t JOIN "
            "__ducklake_metadata_lake.ducklake_schema s USING (schema_id) WHERE "
            f"{version} >= t.begin_snapshot AND ({version} < t.end_snapshot OR t.end_snapshot IS NULL)"
        )
        for schema, table in tables:
            name = f'"{schema}"."{table}"'
            found[name, version] = sorted(
                map(repr, oracle.execute(f"SELECT * FROM {name} AT (VERSION => {version})"))
            )
    return found


MIDDLE = len(HISTORY) // 2


@pytest.mark.parametrize(
    "criterion",
    [
        {"versions": list(range(1, MIDDLE))},
        {"versions": [3, 4, 5, 9, 17, 21, 26, 27, 30, len(HISTORY) - 1]},
        {"versions": [len(HISTORY), 99, 0, 0]},
        {"older_than": "middle"},
        {"older_than": FUTURE},
    ],
    ids=str,
)
def test_catalog_and_answer_are_those_of_the_extension(
    oracle: Oracle, twins: tuple[str, str], criterion: dict[str, Any]
) -> None:
    ours, theirs = twins
    if criterion.get("older_than") == "middle":
        with ducklake_spark.attach(theirs) as lake:
            criterion = {"older_than": scope_of(lake).snapshot_values()[MIDDLE][1]}
    given = [f"older_than => '{value}'" for key, value in criterion.items() if key == "older_than"]
    given += [f"versions => {value}" for key, value in criterion.items() if key == "versions"]
    oracle.attach(theirs)
    call = ", ".join(["CALL ducklake_expire_snapshots('lake'", *given])
    would = oracle.execute(f"{call}, dry_run => true)")
    expected = oracle.execute(f"{call})")
    oracle.detach()

    with ducklake_spark.attach(ours) as lake:
        untouched = catalogs.dump(ours)
        assert [tuple(row) for row in lake.expire_snapshots(**criterion, dry_run=True).collect()] == _naive(
            would
        )
        catalogs.assert_same(catalogs.dump(ours), untouched)
        answered = [tuple(row) for row in lake.expire_snapshots(**criterion).collect()]

    assert answered == _naive(expected)
    catalogs.assert_same(ours, theirs)
    oracle.attach(ours)
    after = rows_at_snapshots(oracle)
    expired = {row[0] for row in expected}
    assert after == {key: rows for key, rows in ROWS.items() if key[1] not in expired}
    oracle.execute("INSERT INTO last VALUES (1)")  # the extension goes on
    assert oracle.execute("FROM last") == [(1,)]


def test_what_fits_no_snapshot_expires_none(twins: tuple[str, str]) -> None:
    ours, theirs = twins
    with ducklake_spark.attach(ours) as lake:
        for criterion in ({"versions": [len(HISTORY)]}, {"versions": []}, {"older_than": "2000-01-01"}, {}):
            assert lake.expire_snapshots(**criterion).count() == 0
    catalogs.assert_same(ours, theirs)


def _naive(rows: list[Any]) -> list[Any]:
    """Times as a DataFrame gives them."""
    return [(row[0], row[1].astimezone().replace(tzinfo=None), *row[2:]) for row in rows]


def test_their_expired_lake_goes_on_here(oracle: Oracle, twins: tuple[str, str]) -> None:
    _, theirs = twins
    oracle.attach(theirs)
    oracle.execute("CALL ducklake_expire_snapshots('lake', older_than => now() + INTERVAL 1 HOUR)")
    oracle.detach()

    with ducklake_spark.attach(theirs) as lake:
        lake["last"].insert([{"i": 5}])
        assert lake.expire_snapshots(older_than=FUTURE).count() == 1
        assert lake.snapshots().count() == 1


# The same on every database.


def history(lake: Lake, outside: Path) -> None:
    """Something of each kind of row, without Spark where that is possible."""
    lake.set_option("data_inlining_row_limit", 2)
    t = lake.create_table("t", {"i": "int"}, comment="one")
    t.insert([{"i": 1}])
    for start in (10, 20, 30):
        t.insert([{"i": start + n} for n in range(5)])
    t.set_comment("two")
    lake.create_schema("s2")
    u = lake.create_table("s2.u", {"k": "int", "v": "int"}, partitioned_by=["k"])
    u.insert([{"k": n % 2, "v": n} for n in range(6)])
    u.insert([{"k": 1, "v": 9}])
    lake.create_view("s2.v", "SELECT 1 AS a")
    lake.drop_view("s2.v")
    lake.drop_table("s2.u")
    lake.drop_schema("s2")
    lake.drop_table("t")
    lake.create_table("last", {"i": "int"})


@pytest.mark.parametrize("versions", [None, [2, 3, 4, 5, 9, 12, 13]], ids=["all", "some"])
def test_expiry_on_every_database(
    oracle: Oracle, location: str, tmp_path: Path, versions: list[int] | None
) -> None:
    theirs = f"ducklake:{tmp_path}/theirs.ducklake"
    for uri in (theirs, location):
        with ducklake_spark.attach(uri, data_path=str(tmp_path / "data"), name="lake") as lake:
            history(lake, tmp_path)
            if uri == location:
                chosen = {"versions": versions} if versions else {"older_than": FUTURE}
                expired = scope_of(lake).snapshot_values()
                answered = lake.expire_snapshots(**chosen).collect()
                assert [row.snapshot_id for row in answered] == (versions or [row[0] for row in expired[:-1]])
                assert lake.snapshots().count() == len(expired) - len(answered)
                lake["last"].insert([{"i": 1}])
    oracle.attach(theirs)
    given = f"versions => {versions}" if versions else f"older_than => '{FUTURE}'::TIMESTAMPTZ"
    oracle.execute(f"CALL ducklake_expire_snapshots('lake', {given})")
    oracle.detach()
    with ducklake_spark.attach(theirs, data_path=str(tmp_path / "data"), name="lake") as lake:
        lake["last"].insert([{"i": 1}])

    ours, expected = (catalogs.rows_only(catalogs.dump(uri)) for uri in (location, theirs))
    catalogs.assert_same(ours, expected)


# Files that are needed twice.


def add(oracle: Oracle, table: str, path: Path) -> None:
    oracle.execute(f"CALL ducklake_add_data_files('lake', '{table}', '{path}')")


def scheduled(uri: str) -> list[str]:
    return sorted(row["path"] for row in catalogs.dump(uri)["ducklake_files_scheduled_for_deletion"])


@pytest.mark.parametrize("looked_up", [200, 0], ids=["asked for", "all read"])
def test_a_file_of_two_tables_is_scheduled_with_the_last(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_up: int
) -> None:
    monkeypatch.setattr(lake_files, "_LOOKED_UP", looked_up)
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    oracle.attach(uri, data_path=f"{tmp_path}/data/")
    (tmp_path / "data" / "main" / "t").mkdir(parents=True)
    shared = [tmp_path / "x.parquet", tmp_path / "data" / "main" / "t" / "y.parquet"]
    for path in shared:
        oracle.execute(f"COPY (SELECT 1 AS i) TO '{path}'")
    for table in ("t", "u"):
        oracle.execute(f"CREATE TABLE {table}(i INTEGER)")
        for path in shared:
            add(oracle, table, path)
    oracle.execute("DROP TABLE t")
    oracle.detach()

    with ducklake_spark.attach(uri) as lake:
        lake.expire_snapshots(older_than=FUTURE)
        assert scheduled(uri) == []
        lake.drop_table("u")
        lake.expire_snapshots(older_than=FUTURE)
        assert scheduled(uri) == [str(shared[0]), "main/t/y.parquet"]


# Arguments.


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/lake.ducklake", name="lake") as lake:
        lake.create_table("t", {"i": "int"})
        lake["t"].insert([{"i": 1}])
        yield lake


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"older_than": FUTURE, "versions": [1]}, "older_than or versions, not both"),
    ({"older_than": "yesterday"}, "is not a time"),
    ({"older_than": 5}, "takes a text or a datetime"),
    ({"versions": 1}, "takes a list of snapshot ids"),
    ({"versions": "1"}, "takes a list of snapshot ids"),
    ({"versions": [1.0]}, "whole numbers, not 1.0"),
    ({"versions": [True]}, "whole numbers, not True"),
    ({"versions": [-1]}, "whole numbers, not -1"),
    ({"versions": [None]}, "whole numbers, not None"),
    ({"dry_run": 1}, "dry_run takes True or False"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=str)
def test_mistakes_change_nothing(lake: Lake, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        lake.expire_snapshots(**arguments)
    assert lake.snapshots().count() == 3


def test_times_are_exclusive_and_may_have_a_zone(lake: Lake) -> None:
    times = [row[1] for row in scope_of(lake).snapshot_values()]

    def would(older_than: Any) -> list[int]:
        return [row.snapshot_id for row in lake.expire_snapshots(older_than, dry_run=True).collect()]

    assert would(times[1]) == [0]
    assert would(times[1] + timedelta(microseconds=1)) == [0, 1]
    assert would(times[1].astimezone(timezone(timedelta(hours=5)))) == [0]
    assert would(times[1].isoformat()) == [0]
    assert would(times[1].replace(tzinfo=None)) == [0]
    assert would("infinity") == [0, 1]


def test_the_option_says_how_old(lake: Lake) -> None:
    assert lake.expire_snapshots().count() == 0
    lake.set_option("expire_older_than", "1 week")
    assert lake.expire_snapshots().count() == 0
    lake.set_option("expire_older_than", "0 seconds")
    assert lake.expire_snapshots(versions=[]).count() == 0  # what is said explicitly goes first
    assert [row.snapshot_id for row in lake.expire_snapshots().collect()] == [0, 1]
    lake.set_option("expire_older_than", "")
    assert lake.expire_snapshots().count() == 0


def test_an_option_that_is_no_interval_is_named(lake: Lake) -> None:
    with scope_of(lake).store.begin() as session:
        session.execute("INSERT INTO ducklake_metadata VALUES ('expire_older_than', 'soon', NULL, NULL)")

    with pytest.raises(InvalidInputError, match="expire_older_than of the lake holds 'soon'"):
        lake.expire_snapshots()


def test_where_it_is_not_allowed(lake: Lake, tmp_path: Path) -> None:
    with lake.transaction(), pytest.raises(TransactionError, match="inside of a transaction"):
        lake.expire_snapshots(versions=[0])
    with pytest.raises(ReadOnlyError):
        lake.at(version=2).expire_snapshots(versions=[0])
    assert lake.snapshots().count() == 3
    lake.close()
    with pytest.raises(ClosedError):
        lake.expire_snapshots(versions=[0])


# Those who still look at an expired snapshot.


def test_handles_of_expired_versions_say_so(lake: Lake) -> None:
    pinned, newest = lake.at(version=1), lake.at(version=2)
    assert pinned.tables() == ["main.t"]
    lake.expire_snapshots(versions=[1])

    for look in (pinned.tables, lambda: pinned["t"], lambda: lake.at(version=1)):
        with pytest.raises(SnapshotNotFoundError, match="version 1"):
            look()
    assert newest.tables() == ["main.t"]
    lake.create_table("u", {"i": "int"})
    assert newest.tables() == ["main.t"]


@pytest.mark.spark
def test_frames_of_expired_snapshots_say_so(lake: Lake, spark: Any) -> None:
    """Without a look at the snapshot, the rows of files that ended would silently be missing."""
    lake.set_option("data_inlining_row_limit", 0)
    t = lake["t"]
    t.insert([{"i": 2}])
    old, rows = lake.at(version=3)["t"].to_df(), t.to_df()
    assert old.count() == rows.count() == 2
    t.truncate()
    old, rows = lake.at(version=3)["t"].to_df(), rows.select("i")
    lake.expire_snapshots(older_than=FUTURE)

    for frame in (old, rows):
        with pytest.raises(SnapshotNotFoundError, match="snapshot 3 was expired"):
            frame.collect()


# Beside others.


def test_a_statement_that_cannot_be_compared_any_more_is_run_again(lake: Lake) -> None:
    scope = scope_of(lake)
    runs = []

    def run(tx: Any) -> None:
        runs.append(tx.snapshot.snapshot_id)
        if len(runs) == 1:
            other = threading.Thread(target=meanwhile)
            other.start()
            other.join()
        from ducklake_spark.catalog import ddl

        ddl.create_schema(tx, "mine")

    def meanwhile() -> None:
        lake.create_schema("other")
        lake.create_schema("another")
        lake.expire_snapshots(older_than=FUTURE)

    scope.statement(run)

    assert runs == [2, 4]
    assert sorted(lake.schemas()) == ["another", "main", "mine", "other"]


def test_a_gap_behind_the_start_is_not_filled(make_location: Callable[[str], str], tmp_path: Path) -> None:
    """PostgreSQL: the key of an expired snapshot could be taken again by a writer that began before it."""
    uri = make_location("postgres")
    with (
        ducklake_spark.attach(uri, data_path=str(tmp_path / "data"), name="a") as lake,
        ducklake_spark.attach(uri, name="b") as other,
    ):
        t = lake.create_table("t", {"i": "int"})
        t.insert([{"i": 0}])
        lake.begin()
        t.insert([{"i": 1}])
        other["t"].insert([{"i": 2}])
        other["t"].insert([{"i": 3}])
        other.expire_snapshots(versions=[3])
        with pytest.raises(ducklake_spark.ConflictError, match="no longer all in the catalog"):
            lake.commit()
        assert [row.snapshot_id for row in lake.snapshots().collect()] == [0, 1, 2, 4]


@pytest.mark.parametrize("kind", ["postgres", "mysql", "sqlite", "duckdb"])
def test_writers_and_two_expiries_at_once(
    make_location: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    uri = make_location(kind)
    with ducklake_spark.attach(
        uri, data_path=str(tmp_path / "data"), name="lake", busy_timeout=30000
    ) as lake:
        lake.create_table("t", {"i": "int"})
        lake.set_option("data_inlining_row_limit", 0)
        errors: list[BaseException] = []

        def write() -> None:
            try:
                for n in range(6):
                    lake["t"].insert([{"i": n}])
                    lake.create_table(f"dropped_{threading.get_ident()}_{n}", {"a": "int"}).insert([{"a": 1}])
                    lake.drop_table(f"dropped_{threading.get_ident()}_{n}")
            except BaseException as error:
                errors.append(error)

        def expire() -> None:
            try:
                for _ in range(6):
                    lake.expire_snapshots(older_than=FUTURE)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=each) for each in (write, write, expire, expire)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert errors == []
        lake.expire_snapshots(older_than=FUTURE)
        dump = catalogs.dump(uri)
        files = {row["path"] for row in dump["ducklake_data_file"]}
        assert len(files) == 12 and len(dump["ducklake_snapshot"]) == 1 and len(dump["ducklake_table"]) == 1
        paths = [Path(row["path"]).name for row in dump["ducklake_files_scheduled_for_deletion"]]
        assert len(paths) == len(set(paths)) == 12 and files.isdisjoint(paths)


def test_a_failed_expiry_changes_nothing(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ducklake_spark.attach(location, data_path=str(tmp_path / "data"), name="lake") as lake:
        history(lake, tmp_path)
        before = catalogs.dump(location)
        with monkeypatch.context() as patched:
            patched.setattr(expiry, "_PARTS", (("ducklake_macro_impl", "no_such_table", "macro_id"),))
            with pytest.raises(ducklake_spark.CatalogError, match="no_such_table"):
                lake.expire_snapshots(older_than=FUTURE)
        catalogs.assert_same(before, catalogs.dump(location))
        assert lake.expire_snapshots(older_than=FUTURE).count() > 5


def test_a_catalog_cannot_have_its_own_tables_dropped(lake: Lake) -> None:
    lake.drop_table("t")
    with scope_of(lake).store.begin() as session:
        for name in ("ducklake_metadata", "x", 'ducklake_inlined_data_1_1"; DROP TABLE ducklake_tag; --'):
            session.execute("INSERT INTO ducklake_inlined_data_tables VALUES (1, ?, 9)", (name,))
        session.execute("CREATE TABLE x(i INTEGER)")

    lake.expire_snapshots(older_than=FUTURE)

    assert {"ducklake_metadata", "ducklake_tag", "x"} <= scope_of(lake).store.table_names()
    assert "ducklake_inlined_data_1_1" not in scope_of(lake).store.table_names()


# In SQL.


@pytest.mark.spark
def test_sql_forms(lake: Lake, spark: Any) -> None:
    def ids(sql: str) -> list[int]:
        return [row.snapshot_id for row in lake.sql(sql).collect()]

    assert ids("CALL ducklake_expire_snapshots('lake', versions => [0, 1], dry_run => true)") == [0, 1]
    assert ids("CALL lake.expire_snapshots(older_than => now() + INTERVAL 1 DAY, dry_run = true)") == [0, 1]
    assert ids("FROM ducklake_expire_snapshots('lake', versions := ['1', NULL], dry_run := true)") == [1]
    assert ids("CALL expire_snapshots(older_than => DATE '2100-01-01', dry_run => true)") == [0, 1]
    assert ids("CALL expire_snapshots(older_than => now() - INTERVAL 30 MINUTE)") == []
    for sql, message in (
        ("EXPLAIN FROM ducklake_expire_snapshots('lake', versions => [0])", "EXPLAIN would run it"),
        ("DESCRIBE FROM ducklake_expire_snapshots('lake', versions => [0])", "DESCRIBE would run it"),
        ("CALL expire_snapshots(older_than => NULL)", "not NULL"),
        ("CALL expire_snapshots(versions => NULL)", "list of snapshot ids"),
        ("CALL expire_snapshots(versions => 1)", "list of snapshot ids"),
        ("CALL expire_snapshots(x => 1)", 'no parameter "x"'),
        ("CALL expire_snapshots(older_than => now(), versions => [1])", "not both"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            lake.sql(sql)
    assert lake.snapshots().count() == 3

    assert ids("SELECT snapshot_id FROM ducklake_expire_snapshots('lake', versions => [0]) WHERE true") == [0]
    assert ids("CALL ducklake_expire_snapshots('lake', versions => [0, 1])") == [1]


@pytest.mark.spark
def test_times_of_sql_know_the_zone(lake: Lake, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock on the wall of this machine is not UTC everywhere: an hour's snapshots must not go by mistake."""
    import time

    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        would = "CALL expire_snapshots(older_than => {} , dry_run => true)"
        assert lake.sql(would.format("now() - INTERVAL 30 MINUTE")).count() == 0
        assert lake.sql(would.format("now() + INTERVAL 30 MINUTE")).count() == 2
        past, future = (f"{datetime.now(timezone.utc) + timedelta(minutes=m):%F %T}" for m in (-30, 30))
        assert lake.sql(would.format(f"TIMESTAMP '{past}'")).count() == 0
        assert lake.sql(would.format(f"TIMESTAMP_LTZ '{future}'")).count() == 2
    finally:
        monkeypatch.undo()
        time.tzset()
