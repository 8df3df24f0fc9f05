"""Jobs beside writers, and beside each other, on a catalog that many share: every snapshot shows what was written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import ConflictError, Lake
from tests.interop import catalogs
from tests.interop.oracle import Oracle, OracleError

pytestmark = pytest.mark.spark

Rows = dict[int, int]


def change(turn: int, rows: Rows) -> tuple[str, Rows]:
    """A statement, and the rows that it leaves."""
    if turn % 3 == 0:
        new = dict.fromkeys(range(100 * turn, 100 * turn + 12 + turn % 5), 0)
        values = ", ".join(f"({k}, 0)" for k in new)
        return f"INSERT INTO {{table}} VALUES {values}", rows | new
    if turn % 3 == 1:
        return (
            f"UPDATE {{table}} SET n = n + 1 WHERE k % 10 = {turn % 10}",
            {k: n + (k % 10 == turn % 10) for k, n in rows.items()},
        )
    return (
        f"DELETE FROM {{table}} WHERE k % 7 = {turn % 7}",
        {k: n for k, n in rows.items() if k % 7 != turn % 7},
    )


class Writer(threading.Thread):
    """Changes a table, each change as often as it takes, and remembers what each snapshot has.

    It goes on until enough was done beside it: how many jobs a number of turns has beside it depends on the machine.
    """

    def __init__(self, table: str, turns: int, run: Callable[[str], int], enough: threading.Event) -> None:
        super().__init__(name=f"writes {table}", daemon=True)
        self._enough = enough
        self.table, self._turns, self._run_sql = table, turns, run
        self.expected: dict[int, list[tuple[int, int]]] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        rows: Rows = {}
        try:
            for turn in range(10 * self._turns):
                if turn >= self._turns and self._enough.is_set():
                    break
                sql, made = change(turn, rows)
                version = self._committed(sql.format(table=self.table))
                if made != rows:
                    self.expected[version] = sorted(made.items())
                rows = made
        except BaseException as error:
            self.failure = error

    def _committed(self, sql: str) -> int:
        while True:
            try:
                return self._run_sql(sql)
            except (OracleError, ConflictError) as error:
                if "onflict" not in str(error) and not isinstance(error, ConflictError):
                    raise


@contextmanager
def attached(uri: str, spark: SparkSession, **options: Any) -> Iterator[Lake]:
    with ducklake_spark.attach(uri, name="lake", spark=spark, **options) as lake:
        yield lake


def test_rows_of_writers_stay_beside_every_job(
    make_location: Callable[[str], str], tmp_path: Path, spark: SparkSession
) -> None:
    uri = make_location("postgres")
    with Oracle() as other, attached(uri, spark, data_path=str(tmp_path / "data")) as lake:
        lake.create_table("theirs", {"k": "int", "n": "int"})
        lake.create_table("ours", {"k": "int", "n": "int"})
        # In the catalog, the extension's deletes are lost beside any compaction, its own too.
        lake.set_option("data_inlining_row_limit", 0, table="theirs")
        other.attach(uri)

        def by_extension(sql: str) -> int:
            other.execute(sql)
            return int(other.execute("FROM lake.last_committed_snapshot()")[0][0])

        with attached(uri, spark) as own:

            def by_us(sql: str) -> int:
                own.sql(sql)
                return int(own.last_committed_snapshot().first()[0])

            enough = threading.Event()
            writers = [Writer("theirs", 24, by_extension, enough), Writer("ours", 8, by_us, enough)]
            for writer in writers:
                writer.start()
            jobs: list[Callable[[], Any]] = [
                lambda: lake.merge_adjacent_files(),
                lambda: lake.rewrite_data_files(delete_threshold=0.1),
                lambda: lake.flush_inlined_data(),
                lambda: lake.cleanup_old_files(cleanup_all=True),
                lambda: lake.delete_orphaned_files(older_than="2020-01-01"),
                lambda: lake["ours"].compact(order_by="k"),
            ]
            done = [0] * len(jobs)
            while any(writer.is_alive() for writer in writers):
                for place, job in enumerate(jobs):
                    try:
                        done[place] += bool(job().collect())
                    except ConflictError:
                        continue  # too busy: the job can be run again
                    if sum(done) > 3:
                        enough.set()
            for writer in writers:
                writer.join()
        assert [writer.failure for writer in writers] == [None, None]
        assert sum(done) > 3
        for writer in writers:
            for version, rows in writer.expected.items():
                sql = f"SELECT k, n FROM {writer.table} AT (VERSION => {version}) ORDER BY k"
                assert other.execute(sql) == rows, (writer.table, version)
            last = lake.table(writer.table).orderBy("k").collect()
            assert [tuple(row) for row in last] == rows
        lake.expire_snapshots(older_than="2100-01-01")
        lake.cleanup_old_files(cleanup_all=True)
        assert (
            other.execute("SELECT k, n FROM ours ORDER BY k") == writers[1].expected[max(writers[1].expected)]
        )
        named = {
            row["path"] for name in ("data", "delete") for row in catalogs.dump(uri)[f"ducklake_{name}_file"]
        }
        assert {path.name for path in (tmp_path / "data").rglob("*.parquet")} == {
            Path(path).name for path in named
        }


THEIRS = (
    "DELETE FROM t WHERE k % 20 = 1",  # kept in the catalog
    "DELETE FROM t WHERE k % 20 > 5",  # in a delete file
    "UPDATE t SET k = k + 1000 WHERE k % 20 = 2",
    "TRUNCATE t",
)


@pytest.mark.parametrize(
    "job",
    [
        lambda lake: lake.merge_adjacent_files(),
        lambda lake: lake.rewrite_data_files(delete_threshold=0),
        lambda lake: lake["t"].compact(order_by="k"),
    ],
    ids=["merge", "rewrite", "compact"],
)
def test_a_change_of_the_extension_meanwhile_is_a_conflict(
    job: Callable[[Lake], Any], make_location: Callable[[str], str], tmp_path: Path, spark: SparkSession
) -> None:
    uri = make_location("postgres")
    with Oracle() as other, attached(uri, spark, data_path=str(tmp_path / "data")) as lake:
        other.attach(uri)
        other.execute("CREATE TABLE t(k INT)")
        for statement in THEIRS:
            for start in (0, 20, 40):
                other.execute(f"INSERT INTO t SELECT i + {start} FROM range(20) r(i)")
            other.execute("DELETE FROM t WHERE k = 0")
            with pytest.raises(ConflictError), lake.transaction():
                assert job(lake).collect()
                other.execute(statement)
            expected = other.execute("SELECT k FROM t ORDER BY k")
            assert [tuple(row) for row in lake.table("t").orderBy("k").collect()] == expected, statement
            job(lake)
            assert other.execute("SELECT k FROM t ORDER BY k") == expected, statement


def test_two_jobs_at_once(make_location: Callable[[str], str], tmp_path: Path, spark: SparkSession) -> None:
    """They work on the same files: one of them wins, the other begins again, or says that it could not."""
    uri = make_location("postgres")
    with (
        attached(uri, spark, data_path=str(tmp_path / "data")) as first,
        attached(uri, spark) as second,
    ):
        table = first.create_table("t", {"k": "int"})
        for start in range(0, 160, 20):
            table.insert([(k,) for k in range(start, start + 20)])
        table.delete("k % 4 = 1")
        version = first.version
        expected = [k for k in range(160) if k % 4 != 1]
        pairs: list[tuple[Callable[[Lake], Any], Callable[[Lake], Any]]] = [
            (
                lambda lake: lake["t"].compact(order_by="k"),
                lambda lake: lake.rewrite_data_files(delete_threshold=0),
            ),
            (lambda lake: lake.merge_adjacent_files(), lambda lake: lake.merge_adjacent_files()),
            (
                lambda lake: lake.expire_snapshots(versions=[1]),
                lambda lake: lake.expire_snapshots(versions=[1]),
            ),
            (
                lambda lake: lake.cleanup_old_files(cleanup_all=True),
                lambda lake: lake.cleanup_old_files(cleanup_all=True),
            ),
        ]
        for pair in pairs:
            barrier, failures = threading.Barrier(2), list[BaseException]()

            def run(
                job: Callable[[Lake], Any],
                lake: Lake,
                barrier: threading.Barrier = barrier,
                failures: list[BaseException] = failures,
            ) -> None:
                barrier.wait()
                try:
                    job(lake)
                except ConflictError:
                    pass
                except BaseException as error:
                    failures.append(error)

            threads = [
                threading.Thread(target=run, args=each) for each in zip(pair, (first, second), strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
            assert sorted(row.k for row in first.table("t").collect()) == expected
            assert sorted(row.k for row in first.table("t", version=version).collect()) == expected
        assert first.list_files("t").count() == 1
