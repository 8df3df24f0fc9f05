"""What an expression costs that DuckDB evaluates in the workers, beside one of Spark's own over the same rows.

    python benchmarks/duckdb_expressions.py [--rows 2000000] [--times 3] [--json out.json]

The least of all times is shown, and its ratio to a scan of the same columns in the same run. In the last row the whole
query is one task, as for all that cannot be cut out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time

from pyspark.sql import SparkSession

import ducklake_spark

QUERIES = {
    "scan alone": "SELECT count(a), count(b) FROM t",
    "Spark: upper(b)": "SELECT max(upper(b)) FROM t",
    "Spark: format('{:,}', a)": "SELECT max(format('{:,}', a)) FROM t",
    "workers: format_bytes(a)": "SELECT max(format_bytes(a)) FROM t",
    "workers: gcd(a, 360)": "SELECT max(gcd(a, 360)) FROM t",
    "workers: jaccard(b, 'x12')": "SELECT max(jaccard(b, 'x12')) FROM t",
    "workers, 1 % of the rows": "SELECT max(format_bytes(a)) FROM t WHERE a < {part}",
    "one task: approx_quantile(a, 0.5)": "SELECT approx_quantile(a, 0.5) FROM t",
}


def main() -> None:
    """Makes a table, runs each query, and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    figures: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ducklake_spark.attach(f"ducklake:{folder}/m.ducklake", name="lake", spark=spark) as lake,
    ):
        lake.create_table("t", spark.range(options.rows).selectExpr("id AS a", "concat('x', id) AS b"))
        for name, sql in QUERIES.items():
            text = sql.format(part=options.rows // 100) if "{part}" in sql else sql
            times = []
            for _ in range(options.times + 1):
                begin = time.perf_counter()
                lake.sql(text, "duckdb").collect()
                times.append(time.perf_counter() - begin)
            figures[name] = min(times[1:])  # the first one starts workers and compiles
    base = figures["scan alone"]
    print(f"{options.rows:,} rows")
    for name, seconds in figures.items():
        print(f"{name:40} {seconds:8.2f} s {seconds / base:8.2f} of the scan")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
