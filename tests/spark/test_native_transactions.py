"""Transactions around the session's own SQL: one snapshot, own changes visible, other threads outside."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ducklake_spark import ConflictError
from tests.spark.conftest import NativeLake

pytestmark = pytest.mark.spark


def in_thread(run: Any) -> Any:
    found: list[Any] = []

    def body() -> None:
        try:
            found.append(run())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return found[0]


def test_statements_of_a_transaction_are_one_snapshot(native: NativeLake) -> None:
    name = native.table("t", "a INT, b VARCHAR", (1, "x"))
    before = native.lake.version
    with native.lake.transaction(author="Ada", message="all at once"):
        native.sql(f"INSERT INTO {name} VALUES (2, 'new')")
        native.sql(f"UPDATE {name} SET b = 'changed' WHERE a = 2")
        native.sql(f"DELETE FROM {name} WHERE a = 1")
        native.sql("CREATE OR REPLACE TABLE nat.main.u AS SELECT * FROM nat.main.t")
        native.sql("ALTER TABLE nat.main.u ADD COLUMN c INT")
        native.sql("MERGE INTO nat.main.u USING nat.main.t s ON u.a = s.a WHEN MATCHED THEN UPDATE SET c = 5")
        native.spark.range(1).selectExpr("CAST(id AS INT) AS a", "'df' AS b", "1 AS c").writeTo(
            "nat.main.u"
        ).append()
        assert native.rows(f"SELECT * FROM {name}") == [(2, "changed")]
        assert native.rows("SELECT * FROM nat.main.u") == [(0, "df", 1), (2, "changed", 5)]
        assert native.spark.table("nat.main.u").where("rowid >= 0").count() == 2
        assert in_thread(lambda: native.rows(f"SELECT * FROM {name}")) == [(1, "x")]
        assert native.lake.version == before
    assert native.lake.version == before + 1
    assert native.rows(f"SELECT * FROM {name}") == [(2, "changed")]
    assert native.rows("SELECT author, commit_message FROM nat.main.u.history")[0] == ("Ada", "all at once")


def test_a_rollback_undoes_all(native: NativeLake) -> None:
    name = native.table("r", "a INT", (1,))
    before = native.lake.version
    with pytest.raises(ZeroDivisionError), native.lake.transaction():
        native.sql(f"DELETE FROM {name}")
        native.sql("CREATE TABLE nat.main.gone (a INT)")
        raise ZeroDivisionError
    assert native.rows(f"SELECT * FROM {name}") == [(1,)]
    assert not native.spark.catalog.tableExists("nat.main.gone")
    native.lake.begin()
    native.sql(f"DELETE FROM {name}")
    native.lake.rollback()
    native.sql(f"INSERT INTO {name} VALUES (2)")
    assert (native.rows(f"SELECT * FROM {name}"), native.lake.version) == ([(1,), (2,)], before + 1)


def test_a_dataframe_of_a_transaction_stays_what_it_was(native: NativeLake) -> None:
    name = native.table("s", "a INT", (1,))
    with native.lake.transaction():
        native.sql(f"INSERT INTO {name} VALUES (2)")
        frame = native.spark.table(name)
        native.sql(f"INSERT INTO {name} VALUES (3)")
        assert frame.count() == 2
        assert native.spark.table(name).count() == 3


def test_what_is_loaded_before_a_change_is_nobodys_after_it(native: NativeLake) -> None:
    """A table that a transaction has not changed yet is the same table for all; what it changes then is its own."""
    name = native.table("before", "a INT", (1,), (2,))

    def change() -> None:
        with native.lake.transaction():
            other, loaded = in_thread(lambda: native.spark.table(name)), native.spark.table(name)
            native.lake["before"].delete("a = 1")
            native.lake["before"].insert([(7,), (8,)])
            assert in_thread(lambda: sorted(other.collect())) == [(1,), (2,)]
            assert sorted(loaded.collect()) == [(1,), (2,)]
            assert native.rows(f"SELECT * FROM {name}") == [(2,), (7,), (8,)]
            raise KeyError

    with pytest.raises(KeyError):
        change()
    assert native.rows(f"SELECT * FROM {name}") == [(1,), (2,)]
    assert native.spark.table(name).count() == 2


def test_threads_have_transactions_of_their_own(native: NativeLake) -> None:
    name = native.table("own", "a INT")
    barrier = threading.Barrier(3)
    failed: list[BaseException] = []

    def work(i: int) -> None:
        try:
            with native.lake.transaction():
                native.sql(f"INSERT INTO {name} VALUES ({i})")
                barrier.wait()
                assert native.rows(f"SELECT * FROM {name}") == [(i,)]
                barrier.wait()
        except BaseException as error:
            barrier.abort()
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert native.rows(f"SELECT * FROM {name}") == [(0,), (1,), (2,)]


def test_conflicts_are_errors_of_ours_in_transactions_and_retried_outside(native: NativeLake) -> None:
    name = native.table("c", "a INT, b INT", (1, 1))

    def meanwhile() -> None:
        in_thread(lambda: native.sql(f"UPDATE {name} SET b = b + 1"))

    with pytest.raises(ConflictError), native.lake.transaction():
        native.sql(f"UPDATE {name} SET b = 10")
        meanwhile()
    assert native.rows(f"SELECT * FROM {name}") == [(1, 2)]
    barrier = threading.Barrier(4)

    def count() -> None:
        barrier.wait()
        native.sql(f"UPDATE {name} SET b = b + 1")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert native.rows(f"SELECT * FROM {name}") == [(1, 6)]


@pytest.mark.parametrize("job", ["flush_inlined_data", "merge_adjacent_files"])
def test_rows_that_others_move_do_not_come_back(native: NativeLake, job: str) -> None:
    """What a transaction deleted is known by its place: one that cannot be committed must not read on either."""
    is_inlined = job == "flush_inlined_data"
    name = native.table("moves", "a INT, b INT", (1, 1), (2, 2))
    if not is_inlined:
        native.lake["moves"].flush_inlined_data()
        native.lake["moves"].insert([(3, 3)])
        native.lake["moves"].flush_inlined_data()

    def move() -> None:
        in_thread(lambda: native.sql(f"CALL nat.system.{job}('moves')").collect())

    with native.lake.transaction():
        native.sql(f"INSERT INTO {name} VALUES (9, 9)")
        before = native.rows(f"SELECT * FROM {name}")
        move()
        assert native.rows(f"SELECT * FROM {name}") == before  # rows that are only added bear it
    native.lake["moves"].insert([(5, 5)])
    if not is_inlined:
        native.lake["moves"].flush_inlined_data()
    with pytest.raises(ConflictError, match="run it again"), native.lake.transaction():
        native.sql(f"UPDATE {name} SET b = 10 WHERE a = {5 if is_inlined else 1}")
        move()
        native.rows(f"SELECT * FROM {name}")
        pytest.fail("the old row was read beside the new one")
    assert (1, 1) in native.rows(f"SELECT * FROM {name}")


def test_a_statement_that_is_run_again_reads_its_subqueries_again(native: NativeLake) -> None:
    name = native.table("again", "a INT", (0,))
    barrier = threading.Barrier(3)
    failed: list[BaseException] = []

    def count() -> None:
        try:
            barrier.wait()
            native.sql(f"UPDATE {name} SET a = (SELECT max(a) FROM {name}) + 1")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert native.rows(f"SELECT * FROM {name}") == [(3,)]


UNPINNED = """
import ducklake_spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
lake = ducklake_spark.attach("ducklake:m.ducklake", spark=spark, name="lake")
spark.sql("CREATE TABLE lake.main.t (a INT)")
try:
    with lake.transaction():
        spark.sql("SELECT * FROM lake.main.t")
except ducklake_spark.TransactionError as error:
    print(error)
print(spark.table("lake.main.t").count())
"""


def test_without_threads_of_its_own_spark_is_refused_in_transactions(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", UNPINNED],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PIN_THREAD": "false"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = run.stdout.splitlines()
    assert len(lines) == 2 and "PYSPARK_PIN_THREAD" in lines[0] and lines[1] == "0", run.stderr
