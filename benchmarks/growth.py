"""What the same steps cost as a lake grows: 1, 10 and 100 times the files, the snapshots and the tables.

    python benchmarks/growth.py [--times 7] [--sizes 1,10,100] [--catalog duckdb] [--json results.json]

One lake for each size of each kind; they take turns at each step. A cell is the median in milliseconds, in brackets
that of the processors. The exponent is the slope from the smallest to the largest: 0 is constant, 1 is in proportion.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import ducklake_spark
from benchmarks.write import cost
from ducklake_spark import Lake
from ducklake_spark.spark.session import start

FILES, SNAPSHOTS, TABLES = 100, 100, 10
"""How much there is at size 1; of what does not grow, there is as much."""
GROWS = ("files", "snapshots", "tables")
ROWS = 100
"""Of a file."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--sizes", default="1,10,100")
    parser.add_argument("--catalog", default="duckdb", help="duckdb or sqlite")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    spark = start({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    results: dict[str, dict[str, dict[str, list[float]]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for grown in GROWS:
            lakes = {}
            for size in sizes:
                name = f"{grown}_{size}"
                location = f"ducklake:{given.catalog}:{folder / name}.{given.catalog}"
                made = stack.enter_context(ducklake_spark.attach(location, spark=spark, name=name))
                lakes[size] = Known(made, location)
                fill(made, folder / f"{name}.parquet", **{grown: size})
            results[grown] = measure(lakes, given.times)
            show(grown, results[grown], sizes)
            for known in lakes.values():
                known.lake.close()
    spark.stop()
    if given.json:
        given.json.write_text(json.dumps(results, indent=2))


class Known:
    """A lake, and what its steps need to know."""

    def __init__(self, lake: Lake, location: str) -> None:
        self.lake, self.location, self.turn = lake, location, 0


def fill(lake: Lake, folder: Path, files: int = 1, snapshots: int = 1, tables: int = 1) -> None:
    """A table `t` of many files, other tables, and a table `other` that many snapshots changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for number in range(files * FILES):
        first = number * ROWS
        rows = pa.table({"id": range(first, first + ROWS), "v": [f"v{number}"] * ROWS})
        pq.write_table(rows, folder / f"{number:06}.parquet")
    with lake.transaction():
        lake.create_table("t", {"id": "bigint", "v": "varchar"})
        lake.create_table("other", {"id": "bigint"})
        for number in range(tables * TABLES):
            lake.create_table(f"t{number}", {"id": "bigint", "v": "varchar"})
    lake["t"].add_data_files(f"{folder}/*.parquet")
    for number in range(snapshots * SNAPSHOTS):
        lake["other"].insert([(number,)])
    lake["other"].flush_inlined_data()


def steps(known: Known) -> dict[str, Callable[[], Any]]:
    """What is done to each lake, in this order."""
    lake, spark = known.lake, known.lake.spark
    name = f"{lake.name}.main.t"

    def insert() -> None:
        lake["other"].insert([(-1,)])

    def attach() -> object:
        return ducklake_spark.attach(known.location, name=lake.name, spark=spark)["t"].columns

    def delete() -> None:
        known.turn += 1
        lake["t"].delete(f"id = {known.turn * 3}")

    return {
        "attach again, columns of a table": attach,
        "plan: one file by its bounds": lambda: (
            spark.sql(f"SELECT * FROM {name} WHERE id = 4711")._jdf.queryExecution().executedPlan()
        ),
        "scan: one file by its bounds": spark.sql(f"SELECT * FROM {name} WHERE id = 4711").collect,
        "the same, after a commit": lambda: spark.sql(f"SELECT * FROM {name} WHERE id = 4711").collect(),
        "count(*)": lambda: spark.sql(f"SELECT count(*) FROM {name}").collect(),
        "count(*) of the second snapshot": lambda: spark.sql(
            f"SELECT count(*) FROM {name} VERSION AS OF 2"
        ).collect(),
        "insert a row": insert,
        "append 20,000 rows": lambda: lake["other"].insert(spark.range(20_000)),
        "delete a row": delete,
        "create a table, and drop it": lambda: (
            lake.create_table("made", {"id": "bigint"}),
            lake["made"].drop(),
        ),
    }


def measure(lakes: dict[int, Known], times: int) -> dict[str, dict[str, list[float]]]:
    """Medians of seconds by step: those of the clock and those of the processors, by size."""
    work = {size: steps(known) for size, known in lakes.items()}
    found = {}
    for step in next(iter(work.values())):
        taken: dict[int, list[tuple[float, float]]] = {size: [] for size in lakes}
        for turn in range(times + 2):
            for size in lakes:
                spent = cost(work[size][step])
                if turn >= 2:  # the first ones compile Java
                    taken[size].append((spent.wall, spent.cpu))
        found[step] = {
            "wall": [statistics.median(each[0] for each in taken[size]) for size in lakes],
            "cpu": [statistics.mean(each[1] for each in taken[size]) for size in lakes],
        }
    return found


def show(grown: str, found: dict[str, dict[str, list[float]]], sizes: list[int]) -> None:
    """The table of what grows, for people."""
    base = {"files": FILES, "snapshots": SNAPSHOTS, "tables": TABLES}[grown]
    print(f"\n{grown}".ljust(36) + "".join(f"{size * base:>18,}" for size in sizes) + f"{'exponent':>18}")
    for step, taken in found.items():
        cells = [
            f"{wall * 1000:.0f} ({cpu * 1000:.0f})"
            for wall, cpu in zip(taken["wall"], taken["cpu"], strict=True)
        ]
        span = math.log(sizes[-1] / sizes[0]) if len(sizes) > 1 else 1.0
        slopes = [
            math.log(max(taken[kind][-1], 0.0005) / max(taken[kind][0], 0.0005)) / span
            for kind in ("wall", "cpu")
        ]
        exponents = f"{slopes[0]:.2f} ({slopes[1]:.2f})"
        print(f"{step:35}" + "".join(f"{cell:>18}" for cell in cells) + f"{exponents:>18}", flush=True)


if __name__ == "__main__":
    main()
