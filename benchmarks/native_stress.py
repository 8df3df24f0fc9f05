"""Many threads of mixed `spark.sql` queries, writes and transactions on one lake: no wrong row, no internal error.

    python benchmarks/native_stress.py [--threads 64] [--seconds 90] [--catalog ducklake:...]

Each thread draws its next statement by chance. What must hold at every moment is asked all the time: money moves
between accounts in transactions and its sum stays; a thread's own rows are there, once, in order; counters that MERGE
raises are what was counted; two queries of one snapshot agree. Prints what was done, and exits with 1 if anything
was wrong.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ducklake_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACCOUNTS, MONEY = 8, 100
LATER = (ducklake_spark.ConflictError, ducklake_spark.RetryLimitError)
"""What a writer may be told when others were faster: nothing was changed."""


class Mix:
    """The statements of all threads, and what was found wrong."""

    def __init__(self, lake: ducklake_spark.Lake, spark: SparkSession, seed: int = 1) -> None:
        self.lake, self.spark, self.name, self.seed = lake, spark, lake.name, seed
        self.done: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.counted: collections.Counter[int] = collections.Counter()
        self.own: collections.Counter[int] = collections.Counter()
        self.lock = threading.Lock()
        for statement in (
            "CREATE TABLE {}.main.accounts (id INT, n INT)",
            f"INSERT INTO {{}}.main.accounts SELECT CAST(id AS INT), {MONEY} FROM range({ACCOUNTS})",
            "CREATE TABLE {}.main.log (thread INT, i INT) PARTITIONED BY (thread)",
            "CREATE TABLE {}.main.counters (thread INT, n INT)",
            "CREATE VIEW {0}.main.total AS SELECT sum(n) AS n FROM {0}.main.accounts",
        ):
            spark.sql(statement.format(self.name))

    def rows(self, text: str, *names: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(text.format(f"{self.name}.main", *names)).collect()]

    def run(self, threads: int, seconds: float) -> None:
        """Runs all threads, then looks at the whole once more."""
        end = time.monotonic() + seconds
        started = [threading.Thread(target=self._work, args=(i, end)) for i in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        self._attempt("the end", self._check_all)

    def _work(self, thread: int, end: float) -> None:
        chance = random.Random(self.seed * 1000 + thread)
        kinds: list[tuple[Callable[[int, random.Random], None], int]] = [
            (self.sums, 5), (self.joins, 3), (self.own_rows, 3), (self.feeds, 2), (self.travels, 2),
            (self.moves_money, 4), (self.appends, 4), (self.counts, 3), (self.replaces, 1), (self.maintains, 1),
        ]  # fmt: skip
        while time.monotonic() < end and len(self.wrong) < 20:
            [(kind, _)] = chance.choices(kinds, [weight for _, weight in kinds])
            self._attempt(kind.__name__, lambda kind=kind: kind(thread, chance))

    def _attempt(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
            said = name
        except LATER:
            said = f"{name}: others were faster"
        except ducklake_spark.DuckLakeError as error:
            if "Make the DataFrame again" not in str(error):
                return self._fail(name)
            said = f"{name}: compacted meanwhile"
        except Exception:
            return self._fail(name)
        with self.lock:
            self.done[said] += 1

    def _fail(self, name: str) -> None:
        with self.lock:
            self.wrong.append(f"{name}: {traceback.format_exc()}")

    # Queries.

    def sums(self, _thread: int, chance: random.Random) -> None:
        """Money stays, whoever looks and however."""
        queries = (
            "SELECT count(*), sum(n) FROM {}.accounts",
            f"SELECT {ACCOUNTS}, n FROM {{}}.total",
            "SELECT count(*), sum(n) FROM (SELECT id, n FROM {0}.accounts WHERE id < 4 UNION ALL SELECT id, n FROM "
            "{0}.accounts WHERE id >= 4)",
        )
        assert self.rows(chance.choice(queries[:2])) == [(ACCOUNTS, ACCOUNTS * MONEY)]
        # Two scans of one statement may be of two snapshots, of which each holds.
        assert self.rows(queries[2])[0][0] == ACCOUNTS

    def joins(self, _thread: int, _chance: random.Random) -> None:
        """Accounts with themselves."""
        [(count,)] = self.rows("SELECT count(*) FROM {0}.accounts x JOIN {0}.accounts y USING (id)")
        assert count == ACCOUNTS, count

    def own_rows(self, thread: int, _chance: random.Random) -> None:
        """What this thread has appended is there, once."""
        found = self.rows("SELECT count(*), count(DISTINCT i), max(i) FROM {}.log WHERE thread = {}", thread)
        assert found == [(self.own[thread], self.own[thread], self.own[thread] or None)], (
            found,
            self.own[thread],
        )

    def feeds(self, thread: int, _chance: random.Random) -> None:
        """The change feed of appends is what was appended."""
        name = f"{self.name}.system.table_insertions"
        shown = name if self.spark.version >= "4.2" else f"`{name}`"
        found = self.rows(
            "SELECT count(*) FROM {1}('log', 0, {2}) WHERE thread = {3}", shown, self.lake.version, thread
        )
        assert found == [(self.own[thread],)], (found, self.own[thread])

    def travels(self, _thread: int, _chance: random.Random) -> None:
        """A snapshot stays what it is."""
        version = self.lake.version
        query = f"SELECT count(*), sum(i) FROM {{}}.log VERSION AS OF {version}"
        assert self.rows(query) == self.rows(query)
        found = self.rows(f"SELECT count(*), sum(n) FROM {{}}.accounts VERSION AS OF {version}")
        assert found == [(ACCOUNTS, ACCOUNTS * MONEY)], found

    # Writes.

    def moves_money(self, _thread: int, chance: random.Random) -> None:
        """From one account to another, in a transaction that sees its own half."""
        one, other = chance.sample(range(ACCOUNTS), 2)
        with self.lake.transaction():
            self.spark.sql(f"UPDATE {self.name}.main.accounts SET n = n - 1 WHERE id = {one}")
            found = self.rows("SELECT sum(n) FROM {}.accounts")
            assert found == [(ACCOUNTS * MONEY - 1,)], found
            self.spark.sql(f"UPDATE {self.name}.main.accounts SET n = n + 1 WHERE id = {other}")

    def appends(self, thread: int, _chance: random.Random) -> None:
        """A row of this thread."""
        self.spark.sql(f"INSERT INTO {self.name}.main.log VALUES ({thread}, {self.own[thread] + 1})")
        self.own[thread] += 1

    def counts(self, thread: int, _chance: random.Random) -> None:
        """A MERGE that is run again whenever others were faster."""
        self.spark.sql(
            f"MERGE INTO {self.name}.main.counters t USING (SELECT {thread} AS thread) s ON t.thread = s.thread "
            "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (thread, n) VALUES (s.thread, 1)"
        )
        self.counted[thread] += 1

    def replaces(self, thread: int, _chance: random.Random) -> None:
        """A table of this thread, made anew of a query."""
        name = f"{self.name}.main.copy_{thread}"
        self.spark.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM {self.name}.main.accounts")
        assert self.rows(f"SELECT count(*), sum(n) FROM {name}") == [(ACCOUNTS, ACCOUNTS * MONEY)]
        self.spark.sql(f"DROP TABLE {name}")

    def maintains(self, _thread: int, chance: random.Random) -> None:
        """Inlined rows become files, and small files one."""
        job = chance.choice(("flush_inlined_data", "merge_adjacent_files", "rewrite_data_files"))
        self.spark.sql(
            f"CALL {self.name}.system.{job}('{chance.choice(('log', 'accounts', 'counters'))}')"
        ).collect()

    def _check_all(self) -> None:
        assert self.rows("SELECT count(*), sum(n) FROM {}.accounts") == [(ACCOUNTS, ACCOUNTS * MONEY)]
        logged = dict(
            self.rows("SELECT thread, count(DISTINCT i) FROM {}.log GROUP BY thread HAVING count(*) = max(i)")
        )
        assert logged == +self.own, (logged, self.own)
        assert dict(self.rows("SELECT thread, n FROM {}.counters")) == +self.counted


def main() -> None:
    """The command line."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--catalog")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
    builder = SparkSession.builder.master("local[*]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        uri = options.catalog or f"ducklake:sqlite:{folder}/catalog.sqlite"
        with ducklake_spark.attach(uri, spark=spark, name="stress", data_path=f"{folder}/files") as lake:
            mix = Mix(lake, spark, options.seed)
            mix.run(options.threads, options.seconds)
            print(f"{lake.version} snapshots")
    for name, count in sorted(mix.done.items()):
        print(f"{count:6} {name}")
    for text in mix.wrong:
        print(text)
    spark.stop()
    sys.exit(1 if mix.wrong else 0)


if __name__ == "__main__":
    main()
