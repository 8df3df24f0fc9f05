"""How fast compaction is, beside plain Spark that reads and writes the same rows and beside DuckDB's extension.

    python benchmarks/maintenance.py [--rows 6001215] [--files 2000] [--times 3] [--only merge rewrite]

The lakes are made by the extension in a process of its own, and copied for each turn. The rows are those of
`benchmarks/write.py`. The memory of the driver, of Spark's JVM and of its Python workers is the most that each had.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.write import LINEITEM_ROWS, Bench, Cost, cost, extension_file

GOAL = 0.8
EXTENSION = """
import json, resource, sys, time
import duckdb
asked = json.load(sys.stdin)
connection = duckdb.connect(config={"threads": 2})
connection.execute("SET enable_progress_bar = false")
connection.execute(f"LOAD '{asked['extension']}'")
connection.execute(
    f"ATTACH 'ducklake:{asked['catalog']}' AS lake (DATA_PATH '{asked['data']}', OVERRIDE_DATA_PATH true, "
    "DATA_INLINING_ROW_LIMIT 0)"
)
start = time.perf_counter()
for statement in asked["statements"]:
    connection.execute(statement)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""


class MaintenanceBench(Bench):
    """Compactions of lakes that the extension made."""

    def extension(self, name: str, *statements: str) -> tuple[Cost, int]:
        """Statements of the extension in a process of its own: what they cost, and its memory in KB."""
        asked = {
            "extension": extension_file("ducklake"),
            "catalog": str(self.folder / f"{name}.ducklake"),
            "data": str(self.folder / name),
            "statements": statements,
        }
        done = subprocess.run(
            [sys.executable, "-c", EXTENSION],
            input=json.dumps(asked),
            text=True,
            capture_output=True,
            check=True,
        )
        wall, cpu, memory = json.loads(done.stdout.splitlines()[-1])
        return Cost(wall, cpu), int(memory)

    def make(self, name: str, source: str, files: int, *more: str) -> None:
        """A lake with one table of so many files."""
        step = -(-self.rows // files)
        parts = (
            f"INSERT INTO lake.t SELECT * FROM rows WHERE rowid >= {i * step} AND rowid < {(i + 1) * step}"
            for i in range(files)
        )
        self.extension(
            name,
            "CALL lake.set_option('parquet_compression', 'zstd')",
            f"CREATE TEMP TABLE rows AS FROM read_parquet('{source}')",
            "CREATE TABLE lake.t AS FROM rows LIMIT 0",
            *parts,
            *more,
        )

    @contextmanager
    def copy(self, name: str) -> Iterator[str]:
        """The name of a copy of a lake."""
        copied = f"{name}_copy"
        shutil.copy(self.folder / f"{name}.ducklake", self.folder / f"{copied}.ducklake")
        shutil.copytree(self.folder / name, self.folder / copied)
        try:
            yield copied
        finally:
            shutil.rmtree(self.folder / copied)
            for path in self.folder.glob(f"{copied}.ducklake*"):
                path.unlink()

    def job(self, what: str, name: str, ours: Callable[[Any], Any], theirs: str, frame: Any) -> None:
        """Measures a job in turns with the extension's and with plain Spark; the first turn warms up."""
        import ducklake_spark

        taken: dict[str, list[Cost]] = {"ours": [], "extension": [], "plain": []}
        memory = 0
        for turn in range(self.times + 1):
            with self.copy(name) as copied:
                extension, memory = self.extension(copied, theirs)
            with self.copy(name) as copied:
                uri, data = f"ducklake:{self.folder / copied}.ducklake", str(self.folder / copied)
                with ducklake_spark.attach(
                    uri, data_path=data, override_data_path=True, spark=self.spark
                ) as lake:
                    own = cost(functools.partial(ours, lake))
            plain = self.plain(frame())
            if turn:
                for key, value in (("ours", own), ("extension", extension), ("plain", plain)):
                    taken[key].append(value)
        self.ratio(f"{what} / plain Spark", taken["ours"], taken["plain"], GOAL)
        self.ratio(f"{what} / the extension", taken["ours"], taken["extension"], 2.0)
        for process, kilobytes in (*memory_of_processes().items(), ("extension", memory)):
            self.say(f"{what}, memory of {process}", f"{kilobytes / 1024:.0f} MB")

    def merge(self, files: int) -> None:
        """Small files become large ones."""
        source = self._source()
        self.make("small", source, files)
        paths = [str(path) for path in (self.folder / "small").rglob("*.parquet")]
        self.job(
            f"merging {files} files",
            "small",
            lambda lake: lake.merge_adjacent_files("t").collect(),
            "CALL ducklake_merge_adjacent_files('lake', 't')",
            lambda: self.spark.read.parquet(*paths),
        )

    def rewrite(self, files: int) -> None:  # noqa: ARG002 - called like the other
        """Files that lost 30 % of their rows."""
        source = self._source()
        gone = "(l_partkey * 31 + l_suppkey) % 10 < 3"
        self.make("deleted", source, 8, f"DELETE FROM lake.t WHERE {gone}")
        paths = [
            str(p) for p in (self.folder / "deleted").rglob("*.parquet") if not p.stem.endswith("-delete")
        ]
        self.job(
            "rewriting 30 % deleted",
            "deleted",
            lambda lake: lake.rewrite_data_files("t", delete_threshold=0.1).collect(),
            "CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0.1)",
            lambda: self.spark.read.parquet(*paths).where(f"NOT ({gone})"),
        )

    def _source(self) -> str:
        path = self.folder / "source" / "lineitem.parquet"
        if not path.exists():
            self.source()
        return str(path)


def memory_of_processes() -> dict[str, int]:
    """The most memory that the driver, the JVM and any worker had, in KB."""
    import os

    found: dict[str, int] = {}
    parents: dict[int, tuple[int, str, int]] = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            facts = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
            peak = int(facts.get("VmHWM", "0").split()[0])
            parents[int(path.parent.name)] = (int(facts["PPid"]), facts["Name"].strip(), peak)
    for pid, (_, name, peak) in parents.items():
        chain, at = [pid], pid
        while at in parents and at != os.getpid():
            at = parents[at][0]
            chain.append(at)
        if os.getpid() not in chain:
            continue
        kind = "the driver" if pid == os.getpid() else "the JVM" if name == "java" else "a worker"
        found[kind] = max(found.get(kind, 0), peak)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=LINEITEM_ROWS)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--times", type=int, default=3, help="measured turns, after one that warms up")
    parser.add_argument("--only", nargs="+", default=["merge", "rewrite"])
    parser.add_argument("--json", type=Path, help="write the results here too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = MaintenanceBench(Path(folder), given.rows, given.times)
        for name in given.only:
            getattr(bench, name)(given.files)
        bench.show()
        if given.json:
            given.json.write_text(json.dumps(bench.results, indent=2))
        bench.spark.stop()


if __name__ == "__main__":
    main()
