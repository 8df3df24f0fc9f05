"""How fast a scan is, as ratios within one run: against `spark.read.parquet` on the same files.

    python benchmarks/scan.py [--rows 6000000] [--files 10000] [--statistics 100000] [--tpch 1] [--json results.json]

The lakes are written by DuckDB's own extension, in a process of its own; the many files of the planning benchmarks are
rows of the catalog only, except where they are read.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
sys.path.insert(0, str(Path(__file__).parents[1]))

from ducklake_spark.catalog.indexes import ensure_indexes
from tests.servers import running, start_postgres

LINEITEM = """
    SELECT i AS l_orderkey, (i * 7919) % 200000 AS l_partkey, (i * 104729) % 10000 AS l_suppkey, i % 7 AS l_linenumber,
           (i % 50 + 1)::DECIMAL(15,2) AS l_quantity, ((i * 31) % 100000 / 100)::DECIMAL(15,2) AS l_extendedprice,
           ((i % 11) / 100)::DECIMAL(15,2) AS l_discount, ((i % 9) / 100)::DECIMAL(15,2) AS l_tax,
           chr((65 + i % 3)::INTEGER) AS l_returnflag, chr((70 + i % 2)::INTEGER) AS l_linestatus,
           DATE '1992-01-01' + (i * 2500 // {rows})::INTEGER AS l_shipdate,
           'comment number ' || (i % 1000) AS l_comment
    FROM range({rows}) r(i)
"""
TPCH = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
QUERIES = {
    "sum of four columns": "SELECT sum(l_quantity), sum(l_extendedprice), sum(l_discount), sum(l_tax) FROM {}",
    "group by two flags": "SELECT l_returnflag, l_linestatus, sum(l_quantity), count(*) FROM {} GROUP BY 1, 2",
    "selective filter": "SELECT sum(l_extendedprice) FROM {} WHERE l_shipdate = DATE '1995-06-01'",
    "text": "SELECT max(l_comment), count(DISTINCT l_suppkey) FROM {}",
}


def extension_file(name: str) -> str:
    """The file of an extension that pip installed."""
    import duckdb

    row = duckdb.execute("PRAGMA version").fetchone()
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None or row is None:
        raise SystemExit(f"The package duckdb-extension-{name} is missing: pip install -e '.[dev,bench]'")
    return str(Path(spec.origin).parent / "extensions" / row[0] / f"{name}.duckdb_extension")


def in_duckdb(statements: list[str], names: Sequence[str]) -> list[Any]:
    """Runs statements in a DuckDB of another process; the rows of the last one."""
    code = "import duckdb, sys, json\nc = duckdb.connect()\nfor s in json.load(sys.stdin): r = c.execute(s)\n"
    code += "print(json.dumps(r.fetchall(), default=str))"
    # Its progress bar would be printed among the rows.
    loads = ["SET enable_progress_bar = false", *(f"LOAD '{extension_file(name)}'" for name in names)]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(loads + statements),
        text=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def extension(statements: list[str], *names: str) -> None:
    """Runs statements of DuckDB's extension in another process."""
    in_duckdb(statements, ("ducklake", *names))


def tpch_queries() -> list[str]:
    """The 22 queries of TPC-H, which Spark takes as DuckDB prints them."""
    rows = in_duckdb(["SELECT query FROM tpch_queries() ORDER BY query_nr"], ("tpch",))
    return [row[0].strip().rstrip(";") for row in rows]


def best(run: Callable[[], Any], times: int = 5) -> float:
    """The shortest of several runs, in seconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


def alternated(runs: dict[str, Callable[[], Any]], times: int = 5) -> dict[str, float]:
    """The median of each, measured in turns so that a busy machine disturbs all alike."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(times + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(values[1:]) for name, values in taken.items()}


class Bench:
    def __init__(self, folder: Path) -> None:
        from pyspark.sql import SparkSession

        self.folder = folder
        self.results: dict[str, float] = {}
        self.spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.memory", "2g")
            .getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("OFF")

    def table(self, uri: str, name: str) -> tuple[Any, Any]:
        """Opens the lake; returns the store and a function that makes the DataFrame."""
        from ducklake_spark.catalog.location import parse_location
        from ducklake_spark.catalog.open import open_store
        from ducklake_spark.catalog.snapshot import Cache, SnapshotReader, latest_query, snapshot_of
        from ducklake_spark.scan.planning.plan import LakeInfo
        from ducklake_spark.scan.read import read_table

        store = open_store(parse_location(uri))
        snapshot = snapshot_of(store.query(*latest_query(store)))
        reader = SnapshotReader(store, snapshot, Cache())
        schema = reader.schemas()[0]
        table = reader.table(schema.schema_id, name)
        assert table is not None
        path = store.query("SELECT value FROM ducklake_metadata WHERE \"key\" = 'data_path'")[0][0]
        return store, lambda: read_table(self.spark, store, LakeInfo("lake", path), schema, table, snapshot)

    def say(self, what: str, value: float, unit: str = "") -> None:
        self.results[what] = round(value, 4)
        print(f"{what}: {value:.3f} {unit}".rstrip(), flush=True)

    def scans(self, rows: int) -> None:
        """Our DataFrame against spark.read.parquet on the same files; then with 1 % of the rows deleted."""
        lake, data = self.folder / "scan.ducklake", self.folder / "scan"
        query = LINEITEM.format(rows=rows)
        extension(
            [
                f"ATTACH 'ducklake:{lake}' AS lake (DATA_PATH '{data}', DATA_INLINING_ROW_LIMIT 0)",
                f"CREATE TABLE lake.plain AS {query}",
                f"CREATE TABLE lake.holes AS {query}",
                "DELETE FROM lake.holes WHERE l_orderkey % 100 = 7",
            ]
        )
        store, plain = self.table(f"ducklake:{lake}", "plain")
        other, holes = self.table(f"ducklake:{lake}", "holes")
        files = sorted(str(file) for file in (data / "main" / "plain").glob("*.parquet"))
        plain().createOrReplaceTempView("ours")
        holes().createOrReplaceTempView("with_holes")
        self.spark.read.parquet(*files).createOrReplaceTempView("theirs")
        total = {"ours": 0.0, "theirs": 0.0, "with_holes": 0.0}
        for name, sql in QUERIES.items():
            runs = {view: (lambda s=sql, v=view: self.spark.sql(s.format(v)).collect()) for view in total}
            taken = alternated(runs)
            for view, seconds in taken.items():
                total[view] += seconds
            self.say(f"{name}, ours / spark.read.parquet", taken["ours"] / taken["theirs"])
        self.say("all scans, spark.read.parquet", total["theirs"], "s")
        self.say("all scans, ours / spark.read.parquet", total["ours"] / total["theirs"])
        self.say("all scans, 1 % deleted / without deletes", total["with_holes"] / total["ours"])
        store.close()
        other.close()

    def tpch(self, scale: float, times: int) -> None:
        """All queries of TPC-H on a lake that DuckDB wrote, against spark.read.parquet on its files."""
        import ducklake_spark

        lake, data = self.folder / "tpch.ducklake", self.folder / "tpch"
        generated = f"ATTACH '{self.folder / 'tpch.db'}' AS made; USE made; CALL dbgen(sf = {scale})"
        copied = [f"CREATE TABLE lake.{name} AS FROM made.{name}" for name in TPCH]
        attach = f"ATTACH 'ducklake:{lake}' AS lake (DATA_PATH '{data}', DATA_INLINING_ROW_LIMIT 0)"
        extension([*generated.split("; "), attach, *copied], "tpch")
        total = {"ours": 0.0, "theirs": 0.0}
        with ducklake_spark.attach(f"ducklake:{lake}", spark=self.spark) as opened:
            for number, query in enumerate(tpch_queries(), 1):
                answers: dict[str, Any] = {}

                def run(side: str, text: str, answers: dict[str, Any] = answers) -> None:
                    for name in TPCH:
                        files = [str(file) for file in (data / "main" / name).glob("*.parquet")]
                        frame = opened.table(name) if side == "ours" else self.spark.read.parquet(*files)
                        frame.createOrReplaceTempView(name)
                    answers[side] = self.spark.sql(text).collect()

                runs = {side: (lambda side=side, text=query: run(side, text)) for side in total}
                taken = alternated(runs, times)
                assert answers["ours"] == answers["theirs"], f"query {number}"
                for side, seconds in taken.items():
                    total[side] += seconds
                self.say(f"TPC-H {number}, ours / spark.read.parquet", taken["ours"] / taken["theirs"])
        self.say("TPC-H, spark.read.parquet", total["theirs"], "s")
        self.say("TPC-H, all 22 queries, ours / spark.read.parquet", total["ours"] / total["theirs"])

    def many_files(self, files: int) -> None:
        """A DataFrame over many small files: made and planned by us, and by spark.read.parquet."""
        lake, data = self.folder / "many.ducklake", self.folder / "many"
        extension(
            [
                f"ATTACH 'ducklake:{lake}' AS lake (DATA_PATH '{data}', DATA_INLINING_ROW_LIMIT 0)",
                "CREATE TABLE lake.t(a INTEGER, b INTEGER)",
                "ALTER TABLE lake.t SET PARTITIONED BY (a)",
                f"INSERT INTO lake.t SELECT i, i FROM range({files}) r(i)",
            ]
        )
        store, make = self.table(f"ducklake:{lake}", "t")
        paths = [str(file) for file in (data / "main" / "t").glob("**/*.parquet")]
        assert len(paths) == files

        def planned(frame: Any) -> None:
            frame._jdf.queryExecution().executedPlan()

        make()
        ours = best(lambda: planned(make().where("b = 17")), 3)
        listed = best(lambda: make().where("b >= 0").rdd.getNumPartitions(), 2)
        theirs = best(
            lambda: planned(self.spark.read.schema("a int, b int").parquet(*paths).where("b = 17")), 1
        )
        self.say(f"{files} files, made and planned by us", ours, "s")
        self.say(f"{files} files, made, planned and all listed by us", listed, "s")
        self.say(f"{files} files, spark.read.parquet", theirs, "s")
        self.say(f"{files} files, spark.read.parquet / ours", theirs / ours, "times")
        store.close()

    def selective(self, kind: str, files: int, place: str | None = None) -> None:
        """One file of very many, chosen in the catalog: ten columns of statistics for each file."""
        place, data = place or str(self.folder / f"stats.{kind}"), self.folder / "stats"
        columns = ", ".join(f"c{i} BIGINT" for i in range(10))
        scanner = [] if kind == "duckdb" else [f"{kind}_scanner"]
        quoted = place.replace("'", "''")
        extension(
            [
                f"ATTACH 'ducklake:{kind}:{quoted}' AS lake (DATA_PATH '{data}', DATA_INLINING_ROW_LIMIT 0)",
                f"CREATE TABLE lake.t({columns})",
                f"INSERT INTO lake.t SELECT {', '.join(['0'] * 10)}",
            ],
            *scanner,
        )
        store, make = self.table(f"ducklake:{kind}:{place}", "t")
        ensure_indexes(store)
        table_id = store.query("SELECT table_id FROM ducklake_table")[0][0]
        with store.begin() as session:
            session.insert(
                "ducklake_data_file",
                [
                    (
                        i,
                        table_id,
                        2,
                        None,
                        None,
                        f"f{i}.parquet",
                        True,
                        "parquet",
                        100,
                        1000,
                        100,
                        i * 100,
                        None,
                        None,
                        None,
                        None,
                    )
                    for i in range(1, files)
                ],
            )
            session.insert(
                "ducklake_file_column_stats",
                [
                    (i, table_id, c, 100, 100, 0, str(i * 100), str(i * 100 + 99), None, None)
                    for i in range(1, files)
                    for c in range(1, 11)
                ],
            )
            session.execute("UPDATE ducklake_snapshot SET next_file_id = ? WHERE snapshot_id = 2", (files,))
        store.close()
        store, make = self.table(f"ducklake:{kind}:{place}", "t")

        # Only the one that is left in the end has to exist.
        (data / "main" / "t" / "f7777.parquet").write_bytes(b"PAR1".rjust(1000))

        def plan_one() -> int:
            frame = make().where("c3 = 777750 AND c5 > 0")
            return len(frame._jdf.queryExecution().executedPlan().toString()) + frame.rdd.getNumPartitions()

        plan_one()
        self.say(f"one of {files} files, {kind}: made, planned and listed", best(plan_one, 3), "s")
        store.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--statistics", type=int, default=100_000)
    parser.add_argument("--tpch", type=float, default=1.0, help="the scale factor; 0 leaves it out")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        if given.rows:
            bench.scans(given.rows)
        if given.tpch:
            bench.tpch(given.tpch, given.times)
        if given.files:
            bench.many_files(given.files)
        if given.statistics:
            bench.selective("duckdb", given.statistics)
            bench.selective("sqlite", given.statistics)
            with running(start_postgres) as server:
                bench.selective("postgres", given.statistics, server.fresh_database())
        bench.spark.stop()
    if given.json:
        Path(given.json).write_text(json.dumps(bench.results, indent=2) + "\n")


if __name__ == "__main__":
    main()
