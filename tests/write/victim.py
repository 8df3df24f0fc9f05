"""A process that writes to a lake until it is killed, or until one of its helpers is.

Started as `python victim.py MASTER LOCATION DATA_PATH MARKS`: on the master `none` it commits without Spark, on a local one
it writes three times, on a cluster twice. In the folder MARKS, or in one below it for each write, it leaves a file for
each thing that happened, which tells the test when to strike: `pid-N` for a Python worker in the middle of its rows,
`committing`, and `outcome` with what came of it as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROWS, TASKS = 2000, 4


def rows_in_parts(marks: str, fails: bool) -> Any:
    """Hands some rows on, and the rest when it may: each task breaks once in the middle, or waits there for a file `go`."""

    def hand_on(batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for place, batch in enumerate(batches):
            if place == 3 and fails and context.attemptNumber() == 0:
                Path(marks, f"failed-{context.partitionId()}").touch()
                raise RuntimeError("this attempt fails")
            if place == 3 and not fails:
                Path(marks, f"pid-{os.getpid()}").touch()
                end = time.monotonic() + 400
                while not Path(marks, "go").exists() and time.monotonic() < end:
                    time.sleep(0.05)
            yield batch

    return hand_on


def pause_before_commit(marks: Path) -> None:
    """All rows of the snapshot are sent, and the transaction stays open."""
    from ducklake_spark.catalog.transaction import Transaction

    write = Transaction._write

    def paused(self: Transaction, session: Any, batch: Any) -> None:
        write(self, session, batch)
        session.query("SELECT 1")  # sends them
        (marks / "committing").touch()
        time.sleep(600)

    Transaction._write = paused  # type: ignore[method-assign]


def commit(location: str, data_path: str, marks: Path) -> None:
    """Rows of this process, in files and in the catalog, which need no session."""
    import ducklake_spark

    pause_before_commit(marks)
    with ducklake_spark.attach(location, data_path=data_path) as lake, lake.transaction():
        lake["nested"].insert([(i, [i]) for i in range(ROWS)])
        lake["nested"].insert([(i, [i]) for i in range(5)])
        lake["flat"].insert([(1,)])


def changes(lake: Any, spark: Any) -> list[int]:
    """A merge, an update and a delete; how many rows there are in the end, and how many of each kind."""
    lake["m"].insert(spark.range(0, 100, 1, TASKS).selectExpr("id", "'old' v", "array(id) l"))
    source = spark.range(90, 110, 1, TASKS).selectExpr("id", "'merged' v", "array(id) l")
    builder = lake["m"].merge(source, "target.id = source.id")
    builder.when_matched().update({"v": "source.v"}).when_not_matched().insert_all().execute()
    lake["m"].update({"v": "'updated'"}, "id < 5")
    lake["m"].delete("id BETWEEN 20 AND 39")
    found = {row["v"]: row["count"] for row in lake.table("m").groupBy("v").count().collect()}
    return [sum(found.values()), *(found[kind] for kind in ("old", "merged", "updated"))]


def write(lake: Any, spark: Any, marks: Path, fails: bool, first: int = 0) -> dict[str, Any]:
    """Inserts of both kinds of files, and what came of them; the folder `marks` tells how far they are."""
    marks.mkdir()
    outcome: dict[str, Any] = {}
    source = spark.range(first, first + ROWS, 1, TASKS)
    rows = source.mapInArrow(rows_in_parts(str(marks), fails), "id bigint")
    try:
        for name, values in (("nested", ["id", "array(id) l"]), ("flat", ["id"])):
            with lake.transaction():
                lake[name].insert(rows.selectExpr(*values))
            outcome[name] = lake.table(name).count()
    except KeyboardInterrupt:
        outcome["cancelled"] = spark.range(3).count()
    except Exception as error:
        outcome["error"] = str(error)
    return outcome


def say(marks: Path, outcome: dict[str, Any]) -> None:
    """Whoever sees the file sees all of it."""
    (marks / "new").write_text(json.dumps(outcome))
    (marks / "new").rename(marks / "outcome")


def main(master: str, location: str, data_path: str, marks: Path) -> None:
    from pyspark.sql import SparkSession

    import ducklake_spark

    if master == "none":
        return commit(location, data_path, marks)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        .config("spark.executor.extraJavaOptions", os.environ.get("SPARK_SUBMIT_OPTS", ""))
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with ducklake_spark.attach(location, data_path=data_path, spark=spark) as lake:
        if master.startswith("local["):
            for strike in ("worker", "cancel", "driver"):
                say(marks / strike, write(lake, spark, marks / strike, False))
        else:
            say(marks / "retry", write(lake, spark, marks / "retry", True))
            outcome = write(lake, spark, marks / "executor", False, ROWS)
            say(marks / "executor", outcome | {"changed": changes(lake, spark)})
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
