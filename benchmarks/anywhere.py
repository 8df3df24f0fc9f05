"""What a lake costs in a bucket, and encrypted, beside a plain one on the local disk, in turns of one run.

    python benchmarks/anywhere.py [--rows 2000000] [--times 3] [--json out.json]

The bucket is that of a server on this machine, in a process of its own: no network lies between, and the server's
work is not counted as CPU. Ratios to a real store differ with its latency and width.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.write import Cost, cost

JARS = Path(__file__).parents[1] / "build" / "s3-jars"
KEY, SECRET, BUCKET = "bench", "bench-secret", "bench-bucket"
# In a session of its own, which makes init its parent: what it uses is not counted.
SERVER = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
import boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
host, port = server.get_host_and_port()
keys = dict(zip(("aws_access_key_id", "aws_secret_access_key"), sys.argv[1:]))
client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", **keys)
client.create_bucket(Bucket=sys.argv[3])
print(port, flush=True)
sys.stdin.read()  # until the benchmark ends, in whatever way
os._exit(0)
"""
ROWS = """
    SELECT id, id * 7919 % 200000 AS part, CAST(id % 50 AS DECIMAL(15,2)) AS price, id % 7 AS line,
           date_add(DATE'1992-01-01', CAST(id * 7919 % 2500 AS INT)) AS shipped, md5(CAST(id AS STRING)) AS comment
    FROM range(0, {rows}, 1, 2)
"""
PLACES = ("local, plain", "local, encrypted", "S3, plain", "S3, encrypted")
QUERIES = {
    "scan of all columns": "SELECT sum(part), sum(price), sum(line), max(shipped), max(comment) FROM t",
    "scan of one column": "SELECT sum(part) FROM t",
    "filter that keeps 1 %": "SELECT count(*), max(comment) FROM t WHERE id < {some}",
}


@contextlib.contextmanager
def endpoint() -> Iterator[str]:
    """The server of the bucket, while the block runs."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, KEY, SECRET, BUCKET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"


def session() -> Any:
    from pyspark.sql import SparkSession

    jars = sorted(map(str, JARS.glob("*.jar")))
    if not jars:
        raise SystemExit("No jars for S3 in build/s3-jars: run `make s3-jars`.")
    settings = {
        "spark.jars": ",".join(jars),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "4g",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def lakes(spark: Any, folder: Path, server: str) -> dict[str, Any]:
    """A lake in each place."""
    import ducklake_spark

    options = {
        "key_id": KEY,
        "secret": SECRET,
        "region": "us-east-1",
        "endpoint": server,
        "url_style": "path",
    }
    made = {}
    for number, place in enumerate(PLACES):
        remote = place.startswith("S3")
        made[place] = ducklake_spark.attach(
            f"ducklake:{folder}/{number}.ducklake",
            spark=spark,
            name=f"lake{number}",
            data_path=f"s3://{BUCKET}/{number}/" if remote else f"{folder}/{number}",
            storage_options=options if remote else None,
            encrypted=place.endswith("encrypted"),
            data_inlining_row_limit=0,
        )
    return made


def measure(source: Any, places: dict[str, Any], rows: int, times: int) -> dict[str, dict[str, list[Cost]]]:
    """What each work costs in each place; the first turn warms up and does not count."""
    found: dict[str, dict[str, list[Cost]]] = {}
    for turn in range(times + 1):
        for place, lake in places.items():
            name = f"t{turn}"
            lake.create_table(name, source.schema)
            works = {"insert": functools.partial(lake[name].insert, source)}
            for what, query in QUERIES.items():
                text = query.format(some=rows // 100).replace("FROM t", f"FROM {name}")
                works[what] = functools.partial(lambda lake, text: lake.sql(text).collect(), lake, text)
            works["delete of 1 % of the rows"] = functools.partial(lake[name].delete, "id % 100 = 7")
            for what, run in works.items():
                spent = cost(run)
                if turn:
                    found.setdefault(what, {}).setdefault(place, []).append(spent)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also writes the seconds there")
    asked = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="ducklake-spark-bench-") as folder, endpoint() as server:
        spark = session()
        places = lakes(spark, Path(folder), server)
        spark.sql(ROWS.format(rows=asked.rows)).write.parquet(f"{folder}/source")
        found = measure(spark.read.parquet(f"{folder}/source"), places, asked.rows, asked.times)
        print(
            f"{asked.rows:,} rows, medians of {asked.times}; seconds of clock / of CPU, and ratios to {PLACES[0]}"
        )
        for what, by_place in found.items():
            print(what)
            base = by_place[PLACES[0]]
            for place, costs in by_place.items():
                parts = []
                for part in ("wall", "cpu"):
                    value = statistics.median(getattr(each, part) for each in costs)
                    beside = statistics.median(getattr(each, part) for each in base)
                    parts.append(f"{value:6.2f} ({value / beside:4.2f})" if beside else f"{value:6.2f}")
                print(f"  {place:18} {' / '.join(parts)}")
        if asked.json:
            asked.json.write_text(json.dumps(found, indent=1))
        for lake in places.values():
            lake.close()
        spark.stop()


if __name__ == "__main__":
    main()
