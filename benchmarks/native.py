"""What a table costs through the session's own SQL beside `lake.table()` and `lake.sql()`, as ratios within one run.

    python benchmarks/native.py [--rows 2000000] [--parts 100] [--times 15]

All take turns. Time is that of the clock, as the median of all turns, and of the processors, as their mean. The goal
is at most 1.1 of `lake.table()`. Delta and Iceberg are measured on the same statements by `make bench-peers`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import ducklake_spark
from ducklake_spark.spark.session import start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GOAL = 1.1


def planned(frame: DataFrame) -> object:
    plan: Any = frame._jdf.queryExecution().executedPlan()
    return plan


def works(lake: ducklake_spark.Lake, rows: int) -> dict[str, dict[str, Callable[[], object]]]:
    """The same work in each way."""
    spark = lake.spark
    one = f"SELECT * FROM {{}} WHERE id = {rows // 2}"
    some = f"SELECT sum(v) FROM {{}} WHERE id BETWEEN {rows // 4} AND {rows // 2}"
    every = "SELECT k, sum(v), count(*) FROM {} GROUP BY k"

    def frame(text: str, way: str) -> DataFrame:
        if way == "spark.sql":
            return spark.sql(text.format("nat.main.t"))
        if way == "lake.sql":
            return lake.sql(text.format("t"), dialect="spark")
        found = lake.table("t")
        if text == one:
            return found.where(f"id = {rows // 2}")
        if text == some:
            return found.where(f"id BETWEEN {rows // 4} AND {rows // 2}").selectExpr("sum(v)")
        return found.groupBy("k").agg({"v": "sum", "*": "count"})

    ways = ("lake.table", "spark.sql", "lake.sql")
    return {
        "lookup": {
            "lake.table": lambda: lake.table("t").schema,
            "spark.sql": lambda: spark.table("nat.main.t").schema,
            "lake.sql": lambda: lake.sql("SELECT * FROM t", dialect="spark").schema,
        },
        "planning": {way: lambda way=way: planned(frame(one, way)) for way in ways},
        "one row": {way: lambda way=way: frame(one, way).collect() for way in ways},
        "a quarter": {way: lambda way=way: frame(some, way).collect() for way in ways},
        "all rows": {way: lambda way=way: frame(every, way).collect() for way in ways},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--parts", type=int, default=100, help="files of the table")
    parser.add_argument("--times", type=int, default=15)
    given = parser.parse_args()
    spark = start({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"})
    gateway: Any = spark.sparkContext._gateway
    used = Path(f"/proc/{gateway.proc.pid}/stat")
    ticks = os.sysconf("SC_CLK_TCK")

    def processors() -> float:
        """Of this process and of the JVM, where Linux says it; Java's counts in steps of 10 ms."""
        fields = used.read_text().rsplit(")", 1)[1].split() if used.exists() else ["0"] * 13
        return time.process_time() + (int(fields[11]) + int(fields[12])) / ticks

    with tempfile.TemporaryDirectory() as folder:
        lake = ducklake_spark.attach(f"ducklake:{folder}/lake.ducklake", name="nat", spark=spark)
        lake.create_table("t", {"id": "bigint", "k": "int", "v": "double"})
        step = -(-given.rows // given.parts)
        with lake.transaction():
            for first in range(0, given.rows, step):
                part = spark.range(first, min(given.rows, first + step), numPartitions=1)
                lake["t"].insert(part.selectExpr("id", "CAST(id % 10 AS INT) AS k", "id * 0.5 AS v"))
        files = lake.list_files("t").count()
        print(f"{given.rows} rows in {files} files; median of {given.times} turns, goal {GOAL}")
        print(f"{'':12}{'lake.table':>22}{'spark.sql':>22}{'ratio':>18}{'lake.sql':>22}{'ratio':>18}")
        for name, ways in works(lake, given.rows).items():
            wall: dict[str, list[float]] = {way: [] for way in ways}
            work: dict[str, list[float]] = {way: [] for way in ways}
            for turn in range(given.times + 5):
                for way, run in ways.items():
                    began, busy = time.perf_counter(), processors()
                    run()
                    if turn >= 5:  # the first ones compile Java
                        wall[way].append(time.perf_counter() - began)
                        work[way].append(processors() - busy)
            seconds = {way: (statistics.median(wall[way]), statistics.mean(work[way])) for way in ways}
            line = f"{name:12}"
            for way in ways:
                line += f"{f'{seconds[way][0] * 1000:.1f} ms, cpu {seconds[way][1] * 1000:.1f}':>22}"
                if way != "lake.table":
                    ratios = [a / b for a, b in zip(seconds[way], seconds["lake.table"], strict=True)]
                    line += f"{f'{ratios[0]:.2f}, cpu {ratios[1]:.2f}':>18}"
            print(line, flush=True)
        lake.close()
    spark.stop()


if __name__ == "__main__":
    main()
