"""How long README.md's first minute takes, each time in a new process: wall and CPU seconds of each step.

    python benchmarks/first_minute.py [--times 3] [--json out.json]

CPU is that of Python, the JVM and all they started: the number to compare on a machine that does other things. The
least of all times is shown. Linux only, as the processes are counted by /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

STEPS = ("import", "attach", "first sql", "first select", "at a version", "duckdb's dialect")
FIRST_SQL = """
    CREATE SCHEMA IF NOT EXISTS shop;
    CREATE OR REPLACE TABLE shop.orders (id BIGINT NOT NULL, customer STRING, ordered DATE);
    INSERT INTO shop.orders VALUES (1, 'Grace', DATE'2026-01-31'), (2, 'Edsger', NULL);
    UPDATE shop.orders SET ordered = DATE'2026-02-01' WHERE ordered IS NULL
"""


def cpu_seconds() -> float:
    """What this process and its descendants used so far."""
    used: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        used[int(stat.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    total = 0
    for process, (_, ticks) in used.items():
        above = process
        while above not in (0, os.getpid()):
            above = used.get(above, (0, 0))[0]
        total += ticks if above else 0
    return total / os.sysconf("SC_CLK_TCK")


def first_minute() -> dict[str, tuple[float, float]]:
    """Runs the script in this process, in a new folder."""
    spans: dict[str, tuple[float, float]] = {}

    def step(name: str, run: Callable[[], None]) -> None:
        wall, cpu = time.perf_counter(), cpu_seconds()
        run()
        spans[name] = (time.perf_counter() - wall, cpu_seconds() - cpu)

    def imported() -> None:
        import ducklake_spark  # noqa: F401

    def attached() -> None:
        nonlocal lake
        import ducklake_spark

        lake = ducklake_spark.attach("ducklake:metadata.ducklake")

    lake = None
    step("import", imported)
    step("attach", attached)
    assert lake is not None
    step("first sql", lambda: lake.sql(FIRST_SQL))
    step(
        "first select",
        lambda: lake.sql("SELECT customer, count(*) FROM shop.orders GROUP BY ALL").show(),
    )
    step("at a version", lambda: lake.sql("SELECT * FROM shop.orders VERSION AS OF 3").show())
    step(
        "duckdb's dialect",
        lambda: lake.sql("FROM shop.orders SELECT customer[1:3], ordered", dialect="duckdb").show(),
    )
    lake.close()
    return spans


def in_new_process() -> dict[str, tuple[float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "spans.json")
        subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--here", str(answer)],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        found: dict[str, tuple[float, float]] = json.loads(answer.read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the seconds of all times")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here is not None:
        options.here.write_text(json.dumps(first_minute()))
        return
    runs = [in_new_process() for _ in range(options.times)]
    if options.json is not None:
        options.json.write_text(json.dumps(runs, indent=1))
    print(f"{'':18}{'wall s':>8}{'CPU s':>8}")
    least = {name: [min(run[name][kind] for run in runs) for kind in (0, 1)] for name in STEPS}
    for name, (wall, cpu) in least.items():
        print(f"{name:18}{wall:8.2f}{cpu:8.2f}")
    print(
        f"{'all':18}{sum(each[0] for each in least.values()):8.2f}{sum(each[1] for each in least.values()):8.2f}"
    )


if __name__ == "__main__":
    main()
