"""How fast writes are, as ratios within one run: against Spark's own writer, and against DuckDB's extension.

    python benchmarks/write.py [--rows 6001215] [--times 3] [--only append partitions inlined files] [--json out.json]

The rows are TPC-H's lineitem where DuckDB's `tpch` extension is installed (`pip install duckdb-extension-tpch`), else
rows that look like it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

LINEITEM_ROWS = 6_001_215
SYNTHETIC = """
    SELECT i AS l_orderkey, (i * 7919) % 200000 AS l_partkey, (i * 104729) % 10000 AS l_suppkey, i % 7 AS l_linenumber,
           (i % 50 + 1)::DECIMAL(15,2) AS l_quantity, ((i * 31) % 100000 / 100)::DECIMAL(15,2) AS l_extendedprice,
           ((i % 11) / 100)::DECIMAL(15,2) AS l_discount, ((i % 9) / 100)::DECIMAL(15,2) AS l_tax,
           chr((65 + i % 3)::INTEGER) AS l_returnflag, chr((70 + i % 2)::INTEGER) AS l_linestatus,
           DATE '1992-01-01' + ((i * 7919) % 2500)::INTEGER AS l_shipdate,
           DATE '1992-01-01' + ((i * 7907) % 2500)::INTEGER AS l_commitdate,
           DATE '1992-01-01' + ((i * 7901) % 2500)::INTEGER AS l_receiptdate,
           ['NONE', 'COD', 'TAKE BACK RETURN', 'DELIVER IN PERSON'][1 + i % 4] AS l_shipinstruct,
           ['AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB'][1 + i % 6] AS l_shipmode,
           md5(i::VARCHAR) AS l_comment
    FROM range({rows}) r(i)
"""
COLUMNS = (
    "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber BIGINT, l_quantity DECIMAL(15,2), "
    "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag VARCHAR, "
    "l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct VARCHAR, "
    "l_shipmode VARCHAR, l_comment VARCHAR"
)
EXTENSION_INSERTS = """
import json, statistics, sys, time
import duckdb
asked = json.load(sys.stdin)
connection = duckdb.connect()
for name in ("ducklake", "sqlite_scanner", "postgres_scanner", "mysql_scanner"):
    connection.execute(f"LOAD '{asked['extensions'][name]}'")
uri = asked['uri'].replace("'", "''")
connection.execute(f"ATTACH '{uri}' AS lake (DATA_PATH '{asked['data']}')")
connection.execute("CREATE TABLE lake.t(a INTEGER, b VARCHAR, c DOUBLE, d TIMESTAMP)")
taken = []
for i in range(asked["times"]):
    start = time.perf_counter()
    connection.execute(f"INSERT INTO lake.t VALUES ({i}, 'row {i}', {i} / 3, TIMESTAMP '2020-01-01')")
    taken.append(time.perf_counter() - start)
print(json.dumps(statistics.median(taken[5:])))
"""


def extension_file(name: str) -> str:
    """The file of an extension that pip installed."""
    import duckdb

    row = duckdb.execute("PRAGMA version").fetchone()
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None or row is None:
        return ""
    return str(Path(spec.origin).parent / "extensions" / row[0] / f"{name}.duckdb_extension")


def timed(run: Callable[[], Any]) -> float:
    """Seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


class Cost(NamedTuple):
    """Seconds of the clock, and seconds in which this process and all below it kept a core busy."""

    wall: float
    cpu: float


def cost(run: Callable[[], Any]) -> Cost:
    """What a run costs. The second number means something on a busy machine too."""
    before, start = busy(), time.perf_counter()
    run()
    return Cost(time.perf_counter() - start, busy() - before)


def busy() -> float:
    """Seconds that the tree of processes has been running, where the system tells; else 0."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            spent[int(path.parent.name)] = sum(int(part) for part in fields[11:15])
    wanted, added = {os.getpid()}, True
    while added:
        found = {pid for pid, parent in parents.items() if parent in wanted} - wanted
        wanted |= found
        added = bool(found)
    return sum(spent.get(pid, 0) for pid in wanted) / os.sysconf("SC_CLK_TCK")


class Bench:
    """One session, one folder, one table of results."""

    def __init__(self, folder: Path, rows: int, times: int) -> None:
        from pyspark.sql import SparkSession

        self.folder, self.rows, self.times = folder, rows, times
        self.results: list[tuple[str, str, str, bool | None]] = []
        self.spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "4g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("OFF")

    def say(self, what: str, value: str, goal: str = "", met: bool | None = None) -> None:
        self.results.append((what, value, goal, met))
        print(f"{what}: {value}" + (f" (goal {goal})" if goal else ""), flush=True)

    def ratio(self, what: str, ours: list[Cost], theirs: list[Cost], goal: float) -> None:
        """The ratio of the medians; measured in turns, so that a busy machine disturbs both alike."""
        for part, unit in (("wall", "s"), ("cpu", "s of CPU")):
            left = statistics.median(getattr(each, part) for each in ours)
            right = statistics.median(getattr(each, part) for each in theirs)
            if right:
                found, shown = left / right, f"{left:.1f} / {right:.1f} {unit}"
                self.say(f"{what}, {part}", f"{found:.2f} ({shown})", f"<= {goal}", found <= goal)

    def source(self) -> Any:
        """The rows as Parquet files that Spark reads."""
        import duckdb

        path = self.folder / "source"
        path.mkdir()
        with duckdb.connect() as connection:
            tpch = extension_file("tpch")
            if tpch:
                connection.execute(f"LOAD '{tpch}'")
                connection.execute(f"CALL dbgen(sf = {max(0.01, self.rows / LINEITEM_ROWS):.2f})")
                query = "SELECT * FROM lineitem"
            else:
                query = SYNTHETIC.format(rows=self.rows)
            print("rows of " + ("TPC-H" if tpch else "our own making"), flush=True)
            connection.execute(f"COPY ({query}) TO '{path}/lineitem.parquet' (COMPRESSION zstd)")
        return self.spark.read.parquet(str(path))

    @contextlib.contextmanager
    def lake(self, name: str) -> Iterator[Any]:
        """A new lake without inlining."""
        import ducklake_spark

        uri, data = f"ducklake:{self.folder / name}.ducklake", str(self.folder / name)
        with ducklake_spark.attach(uri, data_path=data, spark=self.spark) as lake:
            lake.set_option("parquet_compression", "zstd")
            yield lake

    def plain(self, frame: Any, *keys: str) -> Cost:
        """Spark's own write."""
        target = str(self.folder / "plain")
        writer = frame.write.mode("overwrite").option("compression", "zstd")
        taken = cost(lambda: (writer.partitionBy(*keys) if keys else writer).parquet(target))
        shutil.rmtree(target)
        return taken

    def append(self, frame: Any) -> None:
        """A flat table through both encoders."""
        from ducklake_spark.write.encoders import spark_encoder

        plan = spark_encoder.plan
        taken: dict[str, list[Cost]] = {"plain": [], "spark": [], "worker": []}
        with self.lake("append") as lake:
            for turn in range(self.times + 1):
                found = {"plain": self.plain(frame)}
                for encoder in ("spark", "worker"):
                    table = lake.create_table(f"{encoder}_{turn}", COLUMNS)
                    spark_encoder.plan = plan if encoder == "spark" else lambda *_, **__: None
                    found[encoder] = cost(functools.partial(table.insert, frame))
                    table.drop()
                    shutil.rmtree(self.folder / "append")
                    (self.folder / "append").mkdir()
                spark_encoder.plan = plan
                if turn:  # the first turn warms up
                    for name, seconds in found.items():
                        taken[name].append(seconds)
        self.ratio("append, Spark's writer / df.write.parquet", taken["spark"], taken["plain"], 1.1)
        self.ratio("append, worker encoder / df.write.parquet", taken["worker"], taken["plain"], 1.6)

    def partitions(self, frame: Any) -> None:
        """1,000 partitions against Spark's partitionBy."""
        from pyspark.sql import functions as F

        keyed = frame.withColumn("p", (F.col("l_orderkey") % 1000).cast("int"))
        helped = keyed.withColumn("q", F.col("p"))
        ours, theirs, counts = [], [], []
        with self.lake("partitions") as lake:
            for turn in range(self.times + 1):
                plain = self.plain(helped, "q")
                table = lake.create_table(f"t_{turn}", COLUMNS + ", p INT", partitioned_by=["p"])
                spent = cost(functools.partial(table.insert, keyed))
                files = [path.parent for path in (self.folder / "partitions").rglob("*.parquet")]
                counts.append(max(files.count(folder) for folder in set(files)))
                table.drop()
                shutil.rmtree(self.folder / "partitions")
                (self.folder / "partitions").mkdir()
                if turn:
                    ours.append(spent)
                    theirs.append(plain)
        self.ratio("1,000 partitions / partitionBy", ours, theirs, 1.3)
        self.say("files per partition", str(max(counts)), "<= 2", max(counts) <= 2)

    def inlined(self, kinds: list[str], times: int = 60) -> None:
        """One row at a time, p50, against the extension in a process of its own."""
        import ducklake_spark
        from tests.servers import running, start_mysql, start_postgres

        for kind in kinds:
            with contextlib.ExitStack() as stack:
                server: Any = None
                if kind in ("postgres", "mysql"):
                    server = stack.enter_context(
                        running(start_postgres if kind == "postgres" else start_mysql)
                    )

                def location(side: str, kind: str = kind, server: Any = server) -> str:
                    if server is not None:
                        return f"ducklake:{kind}:{server.fresh_database()}"
                    return f"ducklake:{kind}:{self.folder / f'{side}.{kind}'}"

                asked = {
                    "uri": location("theirs"),
                    "data": str(self.folder / "inlined"),
                    "times": times,
                    "extensions": {
                        name: extension_file(name)
                        for name in ("ducklake", "sqlite_scanner", "postgres_scanner", "mysql_scanner")
                    },
                }
                try:
                    answer = subprocess.run(
                        [sys.executable, "-c", EXTENSION_INSERTS],
                        input=json.dumps(asked),
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                    theirs = float(json.loads(answer.stdout))
                except subprocess.CalledProcessError as error:
                    print(
                        f"{kind}: the extension failed: {error.stderr.strip().splitlines()[-1]}", flush=True
                    )
                    continue
                uri, data = location("ours"), str(self.folder / "inlined")
                with ducklake_spark.attach(uri, data_path=data, spark=self.spark) as lake:
                    table = lake.create_table("t", "a INTEGER, b VARCHAR, c DOUBLE, d TIMESTAMP")
                    taken = []
                    day = datetime.datetime(2020, 1, 1)
                    for i in range(times):
                        row = {"a": i, "b": f"row {i}", "c": i / 3, "d": day}
                        taken.append(timed(functools.partial(table.insert, [row])))
                ours = statistics.median(taken[5:])
                self.say(
                    f"inlined insert, {kind}",
                    f"{ours / theirs:.2f} ({ours * 1000:.1f} ms / {theirs * 1000:.1f} ms)",
                    "<= 1",
                    ours <= theirs,
                )

    def files(self, count: int) -> None:
        """Many files in one commit: the catalog's part of it."""
        import ducklake_spark
        from ducklake_spark.format.data import DataFile
        from ducklake_spark.format.edits import InsertFiles
        from ducklake_spark.format.statistics import ColumnStats

        for kind in ("duckdb", "sqlite"):
            uri = f"ducklake:{kind}:{self.folder / f'files.{kind}'}"
            with ducklake_spark.attach(uri, data_path=str(self.folder / "files"), spark=self.spark) as lake:
                table = lake.create_table("t", COLUMNS)
                definition = table.definition
                files = tuple(
                    DataFile(
                        path=f"ducklake-{i}.parquet",
                        path_is_relative=True,
                        record_count=1000,
                        file_size_bytes=100000,
                        footer_size=1000,
                        columns=tuple(
                            ColumnStats(column.column_id, 5000, 1000, 0, str(i), str(i + 1))
                            for column in definition.columns
                        ),
                    )
                    for i in range(count)
                )

                taken = timed(functools.partial(_commit, lake, InsertFiles(definition, files)))
                self.say(f"{count:,} files in one commit, {kind}", f"{taken:.2f} s", "< 2 s", taken < 2)

    def show(self) -> None:
        width = max(len(row[0]) for row in self.results)
        print()
        for what, value, goal, met in self.results:
            mark = "" if met is None else "met" if met else "MISSED"
            print(f"{what:<{width}}  {value:<28}  {goal:<8}  {mark}")


def _commit(lake: Any, change: Any) -> None:
    with lake._change() as tx:
        tx.apply(change)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=LINEITEM_ROWS)
    parser.add_argument("--times", type=int, default=3, help="measured turns after one that warms up")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=["append", "partitions", "inlined", "files"])
    parser.add_argument("--catalogs", nargs="*", default=["duckdb", "sqlite", "postgres", "mysql"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ducklake-bench-") as folder:
        bench = Bench(Path(folder), given.rows, given.times)
        if {"append", "partitions"} & set(given.only):
            frame = bench.source()
            if "append" in given.only:
                bench.append(frame)
            if "partitions" in given.only:
                bench.partitions(frame)
        if "inlined" in given.only:
            bench.inlined(given.catalogs)
        if "files" in given.only:
            bench.files(given.files)
        bench.show()
        if given.json:
            given.json.write_text(json.dumps(bench.results, indent=1))


if __name__ == "__main__":
    main()
