"""Statements outside of transactions that lose against another writer are planned anew, and lose nothing."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import (
    AlreadyExistsError,
    AmbiguousMergeError,
    ConflictError,
    ConstraintError,
    InvalidInputError,
    Lake,
    NotFoundError,
    TransactionError,
)
from ducklake_spark.engine.scope import Scope
from tests.concurrency.invariants import assert_sound
from tests.interop import catalogs
from tests.interop.oracle import Oracle
from tests.write.lakes import files_below

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

Act = Callable[[], object]


class Scene:
    """Two handles on one lake: what the rival does happens right before our commit."""

    def __init__(self, uri: str, data_path: Path, spark: SparkSession) -> None:
        self.uri, self.data_path, self.spark = uri, data_path, spark
        self.lake, self.rival = self.attach(), self.attach()
        self.names = (f"t{number}" for number in itertools.count())
        self.commits = 0

    def attach(self, **options: Any) -> Lake:
        return ducklake_spark.attach(
            self.uri, name="lake", data_path=str(self.data_path), spark=self.spark, **options
        )

    def table(self, *values: tuple[int, int], name: str | None = None) -> str:
        """A new table of keys and numbers, with a file of them, and none in the catalog."""
        name = name or next(self.names)
        self.rival.create_table(name, {"k": "int", "n": "int"})
        self.rival.set_option("data_inlining_row_limit", 0, table=name)
        if values:
            self.rival[name].insert(list(values))
        return name

    def before_commit(self, act: Act, times: int = 1, lake: Lake | None = None) -> None:
        """From now on a statement's commit comes too late, so many times."""
        late = lake or self.lake
        commit, self.commits = Scope._commit.__get__(late._scope), 0

        def committed(transaction: Any) -> None:
            self.commits += 1
            if self.commits <= times:
                act()
            commit(transaction)

        late._scope._commit = committed  # type: ignore[method-assign]

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.rival.table(name).collect()), key=repr)

    def files(self, name: str) -> int:
        """How many files are in the folder of a table; each must be known to the catalog."""
        [folder] = self.data_path.glob(f"*/{name}*/") or [self.data_path / "none"]
        return len(files_below(folder))


@pytest.fixture(scope="module")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("retries")
    made = Scene(f"ducklake:sqlite:{folder}/lake.db", folder / "data", spark)
    yield made
    made.lake.close()
    made.rival.close()
    assert_sound(catalogs.dump(made.uri))


@pytest.fixture(autouse=True)
def _in_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """The shared handle commits in time again."""
    yield
    if "scene" in request.fixturenames:
        request.getfixturevalue("scene").lake._scope.__dict__.pop("_commit", None)


# What was run again, and what came of it.


@pytest.mark.parametrize("door", ["python", "sql", "merge"])
def test_updates_of_one_row_add_up(scene: Scene, spark: SparkSession, door: str) -> None:
    t = scene.table((1, 0))
    source = spark.createDataFrame([(1,)], "k int")
    ours: dict[str, Act] = {
        "python": lambda: scene.lake[t].update({"n": "n + 1"}, "k = 1"),
        "sql": lambda: scene.lake.sql(f"UPDATE {t} SET n = n + 1 WHERE k = 1").collect()[0].Count,
        "merge": lambda: (
            scene.lake[t]
            .merge(source, "target.k = source.k")
            .when_matched()
            .update({"n": "target.n + 1"})
            .execute()
            .updated
        ),
    }
    times = 2 if door == "python" else 1
    scene.before_commit(lambda: scene.rival[t].update({"n": "n + 10"}), times)
    assert ours[door]() == 1
    assert scene.rows(t) == [(1, times * 10 + 1)]
    assert scene.commits == times + 1


def test_files_of_lost_attempts_are_removed(scene: Scene) -> None:
    t = scene.table((1, 0), (2, 0))
    scene.before_commit(lambda: scene.rival[t].update({"n": "n + 10"}, "k = 1"))
    scene.lake[t].update({"n": "n + 1"}, "k = 1")
    assert scene.rows(t) == [(1, 11), (2, 0)]
    paths = [
        row.path
        for name in ("data_file", "delete_file")
        for row in scene.lake.metadata(name).collect()
        if row.table_id == scene.lake[t].definition.table_id
    ]
    assert scene.files(t) == len(paths)


def test_an_insert_beside_a_delete(scene: Scene) -> None:
    t = scene.table((1, 0), (2, 0))
    scene.before_commit(lambda: scene.rival[t].delete("k = 1"))
    assert scene.lake[t].insert([(3, 0)]) == 1
    assert scene.rows(t) == [(2, 0), (3, 0)]
    assert scene.commits == 2


def test_an_insert_beside_a_new_column(scene: Scene) -> None:
    t = scene.table((1, 0))
    scene.before_commit(lambda: scene.rival[t].add_column("word", "varchar", default="none"))
    scene.lake[t].insert([{"k": 2, "n": 2}])
    assert scene.rows(t) == [(1, 0, "none"), (2, 2, "none")]


def test_a_column_that_is_gone_is_said(scene: Scene) -> None:
    t = scene.table((1, 0))
    scene.before_commit(lambda: scene.rival[t].drop_column("n"))
    with pytest.raises(InvalidInputError, match='"n"'):
        scene.lake[t].insert([{"k": 2, "n": 2}])
    assert scene.rows(t) == [(1,)]


def test_a_truncate_and_an_overwrite_take_what_came(scene: Scene) -> None:
    t = scene.table((1, 0))
    scene.before_commit(lambda: scene.rival[t].insert([(2, 0)]))
    assert scene.lake[t].truncate() == 2
    scene.rival[t].insert([(3, 0)])
    scene.before_commit(lambda: scene.rival[t].insert([(4, 0)]))
    assert scene.lake[t].overwrite([(5, 0)]) == 1
    assert scene.rows(t) == [(5, 0)]


def test_rows_that_can_be_read_only_once(scene: Scene) -> None:
    t = scene.table((1, 0))
    scene.before_commit(lambda: scene.rival[t].delete("k = 1"))
    assert scene.lake[t].insert((k, 0) for k in range(2, 5)) == 3
    assert scene.rows(t) == [(2, 0), (3, 0), (4, 0)]
    scene.before_commit(lambda: scene.rival[t].delete("k = 2"))
    assert scene.lake[t].overwrite(iter([(7, 7)]), "k > 2") == 1
    assert scene.rows(t) == [(7, 7)]


def test_sql_reads_its_sources_again(scene: Scene) -> None:
    source, t = scene.table((1, 1)), scene.table((1, 0), (2, 0), (9, 9))

    def theirs() -> None:
        scene.rival[source].insert([(2, 5)])
        scene.rival[t].delete("k = 9")

    scene.before_commit(theirs)
    scene.lake.sql(f"INSERT INTO {t} SELECT k + 100, n FROM {source}", "duckdb")
    assert scene.rows(t) == [(1, 0), (101, 1), (102, 5), (2, 0)]
    scene.before_commit(
        lambda: (scene.rival[source].update({"n": "n * 2"}), scene.rival[t].delete("k > 100"))
    )
    scene.lake.sql(f"UPDATE {t} SET n = s.n FROM {source} s WHERE s.k = {t}.k", "duckdb")
    assert scene.rows(t) == [(1, 2), (2, 10)]
    scene.before_commit(lambda: (scene.rival[source].insert([(3, 7)]), scene.rival[t].delete("k = 1")))
    scene.lake.sql(
        f"MERGE INTO {t} USING {source} s ON s.k = {t}.k WHEN MATCHED THEN UPDATE SET n = 0 "
        "WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, s.n)",
    )
    assert scene.rows(t) == [(1, 2), (2, 0), (3, 7)]


def test_a_dataframe_stays_what_it_was(scene: Scene) -> None:
    source, t = scene.table((1, 1)), scene.table((9, 9))

    def theirs() -> None:
        scene.rival[source].insert([(2, 5)])
        scene.rival[t].delete("k = 9")

    frame = scene.lake.table(source)
    scene.before_commit(theirs)
    assert scene.lake[t].insert(frame) == 1
    assert scene.rows(t) == [(1, 1)]


def test_a_create_that_came_second(scene: Scene) -> None:
    columns = {"k": "int", "n": "int"}
    lake, rival, names = scene.lake, scene.rival, scene.names
    for again in (
        lambda t: lake.create_table(t, columns),
        lambda t: lake.sql(f"CREATE TABLE {t} (k INT, n INT)"),
        lambda t: lake.sql(f"CREATE TABLE {t} AS SELECT 1 AS k, 2 AS n"),
    ):
        t = next(names)
        scene.before_commit(lambda t=t: rival.create_table(t, columns))
        with pytest.raises(AlreadyExistsError, match=t):
            again(t)
    for again in (
        lambda t: lake.create_table(t, columns, if_not_exists=True),
        lambda t: lake.sql(f"CREATE TABLE IF NOT EXISTS {t} AS SELECT 1 AS k, 2 AS n"),
        lambda t: lake.create_table(
            t, scene.spark.createDataFrame([(1, 2)], "k int, n int"), or_replace=True
        ),
    ):
        t = next(names)
        scene.before_commit(lambda t=t: rival.create_table(t, columns).insert([(5, 5)]))
        again(t)
        assert scene.rows(t) in ([(5, 5)], [(1, 2)])
    assert scene.rows(t) == [(1, 2)]


def test_a_drop_that_came_second(scene: Scene) -> None:
    t, u = scene.table(), scene.table()
    scene.before_commit(lambda: scene.rival.drop_table(t))
    with pytest.raises(NotFoundError, match=t):
        scene.lake.drop_table(t)
    scene.before_commit(lambda: scene.rival.drop_table(u))
    scene.lake.sql(f"DROP TABLE IF EXISTS {u}")
    assert u not in scene.lake and scene.commits == 2


def test_other_statements(scene: Scene) -> None:
    t = scene.table((1, 0))
    scene.before_commit(lambda: scene.rival[t].add_column("b", "int"))
    scene.lake[t].add_column("c", "int")
    scene.before_commit(lambda: scene.rival[t].set_comment("theirs"))
    scene.lake.sql(f"ALTER TABLE {t} RENAME COLUMN c TO d")
    scene.before_commit(lambda: scene.rival[t].insert([(2, 0, 0, 0)]))
    scene.lake[t].set_not_null("k")
    version = scene.lake.version
    scene.rival[t].overwrite([(7, 7, 7, 7)])
    scene.before_commit(lambda: scene.rival[t].update({"n": "8"}))
    scene.lake[t].restore(version)
    assert scene.lake[t].columns == ["k", "n", "b", "d"] and scene.lake[t].comment == "theirs"
    assert scene.rows(t) == [(1, 0, None, None), (2, 0, 0, 0)]


def test_a_renamed_handle_follows_the_attempt_that_won(scene: Scene) -> None:
    t, new = scene.table(), next(scene.names)
    handle = scene.lake[t]
    scene.before_commit(lambda: scene.rival[t].add_column("b", "int"))
    handle.rename(new)
    assert handle.name == new and handle.columns == ["k", "n", "b"]


# What is not run again.


def test_no_retries(scene: Scene) -> None:
    t = scene.table((1, 0))
    with scene.attach(statement_retries=0) as lake:
        scene.before_commit(lambda: scene.rival[t].update({"n": "10"}), lake=lake)
        with pytest.raises(ConflictError) as raised:
            lake[t].update({"n": "n + 1"})
        assert "statement_retries" not in str(raised.value)
    assert scene.commits == 1
    assert scene.rows(t) == [(1, 10)]
    assert scene.files(t) == 2, "the first file, and the new version of its row"


def test_retries_end(scene: Scene) -> None:
    t = scene.table((1, 0))
    with scene.attach(statement_retries=2, retry_wait_ms=1) as lake:
        scene.before_commit(lambda: scene.rival[t].update({"n": "n + 10"}), times=100, lake=lake)
        with pytest.raises(ConflictError, match=r"It was run 3 times \(statement_retries\)"):
            lake.sql(f"UPDATE {t} SET n = 0")
    assert scene.commits == 3
    assert scene.rows(t) == [(1, 30)]


def test_a_transaction_is_not_run_again(scene: Scene) -> None:
    t = scene.table((1, 0))
    with pytest.raises(ConflictError), scene.lake.transaction():
        scene.lake[t].update({"n": "n + 1"})
        scene.rival[t].update({"n": "n + 10"})
    scene.lake.sql("BEGIN")
    scene.lake.sql(f"UPDATE {t} SET n = n + 1")
    scene.rival[t].update({"n": "n + 10"})
    with pytest.raises(ConflictError):
        scene.lake.sql("COMMIT")
    assert scene.rows(t) == [(1, 20)]


def test_other_failures_are_final(scene: Scene, spark: SparkSession) -> None:
    t = scene.table((1, 0))
    scene.rival[t].set_not_null("k")
    handle, begun = scene.lake[t], []
    begin = scene.lake._scope.new_transaction
    scene.lake._scope.new_transaction = lambda: begun.append(1) or begin()  # type: ignore[method-assign, func-returns-value]
    try:
        with pytest.raises(ConstraintError):
            handle.insert([{"n": 1}])
        assert len(begun) == 1
        twice = spark.createDataFrame([(1, 5), (1, 6)], "k int, n int")
        merge = handle.merge(twice, "target.k = source.k").when_matched().update_all()
        with pytest.raises(AmbiguousMergeError) as raised:
            merge.execute()
        assert len(begun) == 2 and not isinstance(raised.value, TransactionError)
    finally:
        del scene.lake._scope.new_transaction
    assert scene.rows(t) == [(1, 0)] and scene.files(t) == 1


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "3"])
def test_the_number_of_retries_is_checked(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="statement_retries takes a whole number from 0 on"):
        ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", statement_retries=wrong)


# Several at once.


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_counters(
    spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    threads, turns = 3, 4
    uri, data_path = make_location(kind), str(tmp_path / "data")
    failed: list[BaseException] = []

    def work(lake: Lake, number: int) -> None:
        try:
            for turn in range(turns):
                if (turn + number) % 2:
                    lake.sql("UPDATE t SET n = n + 1")
                else:
                    lake["t"].update({"n": "n + 1"})
        except BaseException as error:
            failed.append(error)

    with ducklake_spark.attach(uri, name="lake", data_path=data_path, spark=spark) as lake:
        lake.create_table("t", {"n": "int"}).insert([(0,)])
        handles = [
            lake if kind == "duckdb" else ducklake_spark.attach(uri, name="lake", spark=spark)
            for _ in range(threads)
        ]
        crew = [
            threading.Thread(target=work, args=each) for each in zip(handles, range(threads), strict=True)
        ]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        for handle in handles:
            handle.close()
    assert not failed, failed[0]
    with ducklake_spark.attach(uri, name="lake", spark=spark) as lake:
        assert lake.table("t").collect() == [(threads * turns,)]
        assert lake.version == 2 + threads * turns
    assert_sound(catalogs.dump(uri))


APPENDER = """
import sys, time
import ducklake_spark
with ducklake_spark.attach(sys.argv[1], name="lake") as lake:
    for number in range(int(sys.argv[2])):
        lake["t"].insert([(100 + number, 0)])
        time.sleep(0.3)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_append_job_beside_an_update_job(
    spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    uri, appended, updates = make_location(kind), 10, 0
    with ducklake_spark.attach(
        uri, name="lake", data_path=str(tmp_path / "data"), spark=spark, statement_retries=50
    ) as lake:
        lake.create_table("t", {"k": "int", "n": "int"}).insert([(1, 0), (2, 0)])
        process = subprocess.Popen([sys.executable, "-c", APPENDER, uri, str(appended)])
        end = time.monotonic() + 120
        while (process.poll() is None and time.monotonic() < end) or updates < 2:
            lake["t"].update({"n": "n + 1"}, "k < 100")
            updates += 1
        assert process.wait(timeout=60) == 0
        rows = {row.k: row.n for row in lake.table("t").collect()}
    assert rows == {1: updates, 2: updates} | {100 + number: 0 for number in range(appended)}
    assert_sound(catalogs.dump(uri))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_deletes_beside_compaction_by_the_extension(
    oracle: Oracle, spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    scene = Scene(make_location(kind), tmp_path / "data", spark)
    scene.table((1, 0), (2, 0), name="t")
    scene.rival["t"].insert([(3, 0), (4, 0)])
    scene.rival.set_option("data_inlining_row_limit", 10, table="t")
    oracle.attach(scene.uri, data_path=str(scene.data_path))
    scene.before_commit(lambda: oracle.execute("CALL lake.merge_adjacent_files()"))
    assert scene.lake["t"].delete("k = 1") == 1
    assert scene.commits == 2
    scene.rival["t"].insert([(5, 0), (6, 0)])
    scene.before_commit(lambda: oracle.execute("CALL ducklake_flush_inlined_data('lake')"))
    assert scene.lake["t"].update({"n": "9"}, "k IN (2, 5)") == 2
    assert scene.commits == 2
    expected = [(2, 9), (3, 0), (4, 0), (5, 9), (6, 0)]
    assert scene.rows("t") == expected
    assert oracle.execute("FROM t ORDER BY k") == expected
    oracle.detach()
    scene.lake.close()
    scene.rival.close()
    assert_sound(catalogs.dump(scene.uri))
