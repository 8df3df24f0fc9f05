"""How long it takes to add many existing Parquet files to a table, beside DuckDB's extension in the same run.

    python benchmarks/add_files.py [--files 10000] [--columns 8] [--extension] [--json out.json]

Seconds on the clock, and of the processor: our own process, its JVM and its workers together.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

GOAL = 60.0
"""Seconds that 10,000 files may take on two idle cores."""


def make_files(folder: Path, files: int, columns: int) -> None:
    """Small files of one shape: numbers, texts and a list, in folders of a day each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i in range(files):
        rows = {f"c{k}": [i, i + k] if k % 2 else [str(i), str(k)] for k in range(columns - 1)}
        target = folder / f"day={i % 100}"
        target.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({**rows, "l": [[i], [1, 2, 3]]}), target / f"{i}.parquet")


def schema(columns: int) -> str:
    """The table's columns."""
    kinds = ", ".join(f"c{k} {'BIGINT' if k % 2 else 'VARCHAR'}" for k in range(columns - 1))
    return f"{kinds}, l BIGINT[], day INTEGER"


def cpu() -> float:
    """Seconds of the processor, of this process and of all that it started and that ended."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total + _running_children()


def _running_children() -> float:
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for entry in Path("/proc").iterdir():
        try:
            parts = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if entry.name.isdigit() and int(parts[1]) == os.getpid():
            total += sum(map(int, parts[11:15])) / ticks
    return total


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of the processor."""
    start, used = time.perf_counter(), cpu()
    run()
    return time.perf_counter() - start, cpu() - used


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--extension", action="store_true", help="measure DuckDB's extension as well")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    import ducklake_spark

    folder = Path(tempfile.mkdtemp())
    try:
        make_files(folder / "files", options.files, options.columns)
        pattern = f"{folder}/files/**/*.parquet"
        results: dict[str, tuple[float, float]] = {}
        with ducklake_spark.attach(f"ducklake:{folder}/ours.ducklake", name="lake") as lake:
            lake.sql(f"CREATE TABLE t({schema(options.columns)})", dialect="duckdb")
            lake.spark.range(1).count()  # a session is there already
            results["ducklake-spark"] = timed(lambda: lake.add_data_files("t", pattern))
            count = lake.table("t").count()
            assert count == 2 * options.files, count
        if options.extension:
            from tests.interop.oracle import Oracle

            with Oracle(threads=None) as oracle:
                oracle.attach(f"ducklake:{folder}/theirs.ducklake", data_path=f"{folder}/theirs")
                oracle.execute(f"CREATE TABLE t({schema(options.columns)})")
                call = f"CALL ducklake_add_data_files('lake', 't', '{pattern}')"
                results["extension"] = timed(lambda: oracle.execute(call))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, (wall, used) in results.items():
        print(f"{name:16} {options.files} files: {wall:7.1f} s, processor {used:6.1f} s")
    goal = GOAL * options.files / 10_000
    print(f"goal: {goal:.0f} s, {'reached' if results['ducklake-spark'][0] <= goal else 'missed'}")
    if options.json is not None:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
