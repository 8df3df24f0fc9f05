"""How fast changes of single rows are, beside the same change by hand in plain Spark: read all, change, write all.

    python benchmarks/rows.py [--rows 6001215] [--times 3] [--only delete update merge feed] [--json out.json]

Also what a change feed over the last of 100 snapshots reads. The rows are those of `benchmarks/write.py`.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.write import COLUMNS, LINEITEM_ROWS, Bench, Cost, cost

GOAL = 0.33
KEYS = ("l_orderkey", "l_linenumber")


class RowBench(Bench):
    """Deletes, updates and merges of one row in a hundred, each turn of other rows."""

    warm = 10
    """Turns with a hundredth of the rows before the measured ones: a young JVM compiles itself for many statements."""

    def change(
        self, what: str, frame: Any, ours: Callable[[Any, int], Any], plain: Callable[[Any, int], Any]
    ) -> None:
        """Measures a change in turns with the same one by hand; the first turn with all rows warms up as well."""
        self._turns(f"{what}, warming up", frame.sample(0.01, seed=1), ours, plain, self.warm)
        taken = self._turns(what, frame, ours, plain, self.times + 1)[1:]
        self.ratio(f"{what} / read, change and write all", *map(list, zip(*taken, strict=True)), GOAL)  # type: ignore[arg-type]

    def _turns(
        self,
        what: str,
        frame: Any,
        ours: Callable[[Any, int], Any],
        plain: Callable[[Any, int], Any],
        times: int,
    ) -> list[tuple[Cost, Cost]]:
        source, target = str(self.folder / "by_hand"), str(self.folder / "by_hand_after")
        frame.write.mode("overwrite").option("compression", "zstd").parquet(source)
        taken: list[tuple[Cost, Cost]] = []
        with self.lake(what) as lake:
            table = lake.create_table("t", COLUMNS)
            table.insert(frame)
            for turn in range(times):
                by_hand = plain(self.spark.read.parquet(source), turn)
                writer = by_hand.write.mode("overwrite").option("compression", "zstd")
                theirs = cost(functools.partial(writer.parquet, target))
                mine = cost(functools.partial(ours, table, turn))
                taken.append((mine, theirs))
        for folder in (source, target, str(self.folder / what)):
            shutil.rmtree(folder)
        return taken

    def delete(self, frame: Any) -> None:
        for kind, some in ROWS.items():
            self.change(
                f"delete {kind}",
                frame,
                lambda table, turn, some=some: table.delete(some(turn)),
                lambda rows, turn, some=some: rows.where(f"NOT ({some(turn)})"),
            )

    def update(self, frame: Any) -> None:
        changed = "CASE WHEN {0} THEN cast(l_quantity + 1 AS DECIMAL(15,2)) ELSE l_quantity END"
        for kind, some in ROWS.items():
            self.change(
                f"update {kind}",
                frame,
                lambda table, turn, some=some: table.update(
                    {"l_quantity": "cast(l_quantity + 1 AS DECIMAL(15,2))"}, some(turn)
                ),
                lambda rows, turn, some=some: rows.selectExpr(
                    *(
                        f"{changed.format(some(turn))} AS {name}" if name == "l_quantity" else name
                        for name in rows.columns
                    )
                ),
            )

    def merge(self, frame: Any) -> None:
        """Half of the source's rows are in the table, half are new."""
        for kind, some in ROWS.items():
            self._merge(frame, kind, some)

    def _merge(self, frame: Any, kind: str, some: Callable[[int], str]) -> None:
        def source(turn: int) -> Any:
            some_rows = frame.where(some(turn)).selectExpr(
                *("l_orderkey + (l_partkey % 2) * 1000000000 AS l_orderkey" if name == "l_orderkey" else name
                  for name in frame.columns)
            )  # fmt: skip
            return some_rows.dropDuplicates(list(KEYS))

        def ours(table: Any, turn: int) -> Any:
            on = " AND ".join(f"target.{key} = source.{key}" for key in KEYS)
            merge = table.merge(source(turn), on).when_matched().update_all()
            return merge.when_not_matched().insert_all().execute()

        def plain(rows: Any, turn: int) -> Any:
            new = source(turn)
            return rows.join(new, list(KEYS), "left_anti").select(*rows.columns).unionByName(new)

        self.change(f"merge {kind}", frame, ours, plain)

    def feed(self) -> None:
        """A feed over the last of 100 snapshots, each a file of its own."""
        from ducklake_spark.engine.feeds import feed_of

        with self.lake("feed") as lake:
            table = lake.create_table("t", {"a": "bigint", "b": "varchar"})
            for turn in range(98):
                table.insert([{"a": turn * 1000 + i, "b": f"row {i}"} for i in range(1000)])
            table.update({"b": "'new'"}, "a >= 97000 AND a < 97500")
            last = lake.version
            feed = feed_of(lake, "t", last, last)
            files = len(feed.inserted) + len(feed.deleted) + len(feed.positions.files)
            lake.table_changes("t", last, last).count()
            taken = []
            for _ in range(self.times):
                start = time.perf_counter()
                count = lake.table_changes("t", last, last).count()
                taken.append(time.perf_counter() - start)
        self.say("feed of the last of 100 snapshots, files", str(files), "3", files == 3)
        self.say("feed of the last of 100 snapshots", f"{statistics.median(taken):.2f} s for {count} rows")


def _scattered(turn: int) -> str:
    """One row in a hundred, all over the table, other ones each turn: every page of the files must be read."""
    return f"(l_partkey * 31 + l_suppkey) % 100 = {turn}"


def _range(turn: int) -> str:
    """One row in a hundred, next to each other, as where the newest orders change."""
    return f"l_orderkey BETWEEN {turn * 60_000 + 1} AND {(turn + 1) * 60_000}"


ROWS = {"1 %, scattered": _scattered, "1 %, a range of keys": _range}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=LINEITEM_ROWS)
    parser.add_argument("--times", type=int, default=3, help="measured turns, after those that warm up")
    parser.add_argument("--only", nargs="+", default=["delete", "update", "merge", "feed"])
    parser.add_argument("--json", type=Path, help="write the results here too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = RowBench(Path(folder), given.rows, given.times)
        frame = bench.source() if set(given.only) - {"feed"} else None
        for name in given.only:
            run = getattr(bench, name)
            run() if name == "feed" else run(frame)
        bench.show()
        if given.json:
            given.json.write_text(json.dumps(bench.results, indent=2))
        bench.spark.stop()


if __name__ == "__main__":
    main()
