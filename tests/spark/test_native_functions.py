"""Functions of a lake in FROM of Spark's SQL, Spark's clause CHANGES, and views that change."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException

from ducklake_spark import InvalidInputError, NotFoundError, SnapshotNotFoundError
from tests.interop.oracle import Oracle
from tests.spark.conftest import NativeLake

pytestmark = pytest.mark.spark


def version(native: NativeLake) -> tuple[int, ...]:
    return tuple(map(int, native.spark.version.split(".")[:2]))


def function(native: NativeLake, name: str) -> str:
    """A function of the lake for FROM: older versions of Spark take its name in one part only."""
    return f"nat.{name}" if version(native) >= (4, 2) else f"`nat.{name}`"


@pytest.fixture(scope="module")
def t(native: NativeLake) -> tuple[int, int]:
    """A table with an insert, an update and a delete: its first and its last snapshot."""
    native.lake.create_schema("s")
    table = native.lake.create_table("s.t", "a INT, b VARCHAR")
    first = native.lake.version
    table.insert([(1, "x"), (2, "y"), (3, "z")])
    table.update({"b": "'changed'"}, "a = 2")
    table.delete("a = 3")
    return first, native.lake.version


def test_feeds_are_those_of_the_extension(native: NativeLake, t: tuple[int, int], oracle: Oracle) -> None:
    oracle.attach(native.uri, name="nat")
    for name in ("table_changes", "table_insertions", "table_deletions"):
        theirs = oracle.execute(f"SELECT * FROM ducklake_{name}('nat', 's', 't', {t[0]}, {t[1]})")
        ours = f"SELECT * FROM {function(native, f'system.{name}')}('s.t', {t[0]}, {t[1]})"
        assert native.rows(ours) == sorted(map(tuple, theirs), key=repr)
    infos = "SELECT table_name, file_count FROM {}"
    assert native.rows(infos.format(f"{function(native, 'table_info')}()")) == sorted(
        map(tuple, oracle.execute(infos.format("ducklake_table_info('nat')"))), key=repr
    )


def test_functions_stand_wherever_a_table_can(native: NativeLake, t: tuple[int, int]) -> None:
    first, last = t
    everything = native.rows(native.lake.table_changes("s.t", first, last))
    changes, deletions, snapshots = (
        function(native, f"system.{name}") for name in ("table_changes", "table_deletions", "snapshots")
    )
    feed = f"{changes}('s.t', {first}, {last})"
    assert native.rows(f"SELECT * FROM {feed} WHERE table_changes.a > 0") == everything
    named = f"SELECT * FROM {changes}('s.t', end_snapshot => :last, start_snapshot => :first - 0L)"
    assert native.rows(native.spark.sql(named, args={"first": first, "last": last})) == everything
    times = "current_timestamp() - INTERVAL 1 DAY, current_timestamp()"
    assert native.rows(f"SELECT * FROM {changes}('s.t', {times})") == everything
    twice = (
        f"WITH c AS (SELECT * FROM {feed}) SELECT count(*) FROM c JOIN {feed} d USING (rowid, snapshot_id, change_type) "
        f"WHERE c.a IN (SELECT a FROM {deletions}('s.t', 0, (SELECT max(snapshot_id) FROM {snapshots}())))"
    )
    assert native.rows(twice) == [(5,)]
    native.sql(f"CREATE TABLE nat.s.kept AS SELECT * FROM {feed}")
    native.sql(f"INSERT INTO nat.s.kept SELECT * FROM {feed}")
    assert native.spark.table("nat.s.kept").count() == 2 * len(everything)
    native.sql(f"CREATE OR REPLACE TEMP VIEW news AS SELECT count(*) AS n FROM {snapshots}()")
    before = native.rows("SELECT * FROM news")[0][0]
    native.sql("DROP TABLE nat.s.kept")
    assert native.rows("SELECT * FROM news") == [(before + 1,)]
    native.spark.catalog.dropTempView("news")


def test_functions_of_the_current_catalog(native: NativeLake, t: tuple[int, int]) -> None:
    history = native.rows(native.lake["s.t"].history())
    native.sql("USE nat.s")
    try:
        assert native.rows("SELECT * FROM history('s.t')") == history
        assert native.rows("SELECT * FROM range(1) JOIN explode(array(5))") == [(0, 5)]
    finally:
        native.sql("USE spark_catalog.default")
    with pytest.raises(AnalysisException, match="UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
        native.sql("SELECT * FROM history('s.t')")


def test_mistakes_name_the_way_out(native: NativeLake, t: tuple[int, int]) -> None:
    def select(name: str, arguments: str) -> None:
        native.sql(f"SELECT * FROM {function(native, f'system.{name}')}({arguments})")

    before = native.lake.version
    with pytest.raises(NotFoundError, match=r"Did you mean .table_changes"):
        select("table_change", "'s.t', 1, 2")
    with pytest.raises(InvalidInputError, match='needs a value for "start_snapshot"'):
        select("table_changes", "'s.t'")
    with pytest.raises(InvalidInputError, match=r"CALL nat.system.merge_adjacent_files"):
        select("merge_adjacent_files", "")
    with pytest.raises(InvalidInputError, match=r"history\(table_name\)"):
        select("history", "")
    with pytest.raises(SnapshotNotFoundError):
        select("table_changes", "'s.t', 1, 99999")
    if version(native) < (4, 1):
        with pytest.raises(InvalidInputError, match=r"FROM `nat.system.snapshots`\(...\); or use CALL"):
            native.sql("SELECT * FROM nat.system.snapshots()")
    assert native.lake.version == before


def test_a_transaction_sees_its_own_snapshot(native: NativeLake, t: tuple[int, int]) -> None:
    with native.lake.transaction():
        native.lake.create_schema("passing")
        current = function(native, "system.current_snapshot")
        assert native.rows(f"SELECT * FROM {current}()") == [(native.lake.version,)]
        native.lake.drop_schema("passing")


def test_changes_of_spark(native: NativeLake, t: tuple[int, int]) -> None:
    first, last = t
    query = f"SELECT b, a, _change_type, _commit_version FROM nat.s.t CHANGES FROM VERSION {first} "
    if version(native) < (4, 2):
        with pytest.raises(ParseException):
            native.sql(query)
        return

    def feed(start: int, end: int | None = None, **options: Any) -> list[tuple[Any, ...]]:
        changes = native.lake.table_changes("s.t", start, end, **options)
        return native.rows(changes.select("b", "a", "change_type", "snapshot_id"))

    assert native.rows(f"{query} TO VERSION {last}") == feed(first, last)
    assert native.rows(f"{query} EXCLUSIVE TO VERSION {last} EXCLUSIVE") == feed(first + 1, last - 1)
    assert native.rows(query) == feed(first)
    assert native.rows(f"{query} WITH (deduplicationMode = 'netChanges')") == feed(first, net=True)
    reader: Any = native.spark.read.option("startingVersion", first).option("endingVersion", last)
    found = reader.changes("nat.s.t")
    assert found.columns == ["a", "b", "_change_type", "_commit_version", "_commit_timestamp"]
    assert native.rows(found.select("b", "a", "_change_type", "_commit_version")) == feed(first, last)
    times = {row.snapshot_id: row.snapshot_time for row in native.lake.snapshots().collect()}
    assert all(row._commit_timestamp == times[row._commit_version] for row in found.collect())
    since = f"CHANGES FROM TIMESTAMP '{times[last]}'"
    assert native.rows(f"SELECT t.a, _change_type FROM nat.s.t {since}") == [(3, "delete")]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        native.sql("SELECT * FROM nat.s.nothing CHANGES FROM VERSION 1")
    native.table("odd", "_change_type INT")
    with pytest.raises(InvalidInputError, match="table_changes"):
        native.sql("SELECT * FROM nat.main.odd CHANGES FROM VERSION 1")


def test_views_change_and_get_other_names(native: NativeLake, t: tuple[int, int], oracle: Oracle) -> None:
    native.sql("CREATE VIEW nat.s.v COMMENT 'kept' AS SELECT a FROM nat.s.t")
    native.sql("EXPLAIN ALTER VIEW nat.s.v AS SELECT 1 AS one")
    native.sql("ALTER VIEW nat.s.v AS SELECT b, a FROM nat.s.t WHERE a = 1")
    assert native.rows("SELECT * FROM nat.s.v") == [("x", 1)]
    native.sql("ALTER VIEW nat.s.v RENAME TO w")
    native.sql("ALTER VIEW nat.s.w RENAME TO nat.s.x")
    assert [row.viewName for row in native.sql("SHOW VIEWS IN nat.s").collect()] == ["x"]
    described = {row.col_name: row.data_type for row in native.sql("DESCRIBE EXTENDED nat.s.x").collect()}
    assert described["Comment"] == "kept"
    oracle.attach(native.uri, name="nat")
    assert list(map(tuple, oracle.execute("SELECT * FROM nat.s.x"))) == [("x", 1)]
    with pytest.raises(NotFoundError, match='no view "nothing"'):
        native.sql("ALTER VIEW nat.s.nothing AS SELECT 1 AS one")
    with pytest.raises(InvalidInputError, match="stays in its schema"):
        native.sql("ALTER VIEW nat.s.x RENAME TO nat.main.x")
    native.sql("DROP VIEW nat.s.x")
