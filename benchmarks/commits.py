"""Commits per second of several processes at once on one lake in PostgreSQL, beside those of DuckDB's own extension.

    python benchmarks/commits.py [--writers 1,4,8] [--seconds 4] [--rounds 2] [--json results.json]

Each writer is a process that inserts rows, one in each commit, into one table of all. Ours and theirs take turns, each
on a lake of its own in the same server, which runs without fsync. In the end the rows are counted: none may be lost.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.servers import running, start_postgres

Insert = Callable[[int], Any]


def ours(database: str, folder: str) -> Insert:
    """A writer of this package; its lake is made by the first."""
    import ducklake_spark

    lake = ducklake_spark.attach(f"ducklake:postgres:{database}", data_path=folder)
    lake.sql("CREATE TABLE IF NOT EXISTS t (writer BIGINT, turn BIGINT)")
    turns = iter(range(1 << 40))
    return lambda writer: lake["t"].insert([(writer, next(turns))])


def extension(database: str, folder: str) -> Any:
    """A connection of DuckDB with the lake attached; a commit of it may lose as often as it takes."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    row = connection.execute("PRAGMA version").fetchone()
    assert row is not None
    for name in ("postgres_scanner", "ducklake"):
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        file = Path(spec.origin).parent / "extensions" / row[0] / f"{name}.duckdb_extension"
        connection.execute(f"LOAD '{file}'")
    connection.execute("SET ducklake_max_retry_count = 100")
    uri = f"ducklake:postgres:{database}".replace("'", "''")
    connection.execute(f"ATTACH '{uri}' AS lake (DATA_PATH '{folder}')")
    return connection


def theirs(database: str, folder: str) -> Insert:
    """A writer of the extension."""
    connection, turns = extension(database, folder), iter(range(1 << 40))
    connection.execute("CREATE TABLE IF NOT EXISTS lake.t (writer BIGINT, turn BIGINT)")
    return lambda writer: connection.execute("INSERT INTO lake.t VALUES (?, ?)", [writer, next(turns)])


SYSTEMS = {"ours": ours, "extension": theirs}


def write(
    system: str, database: str, folder: str, writer: int, seconds: float, ready: Any, pipe: Any
) -> None:
    """One process: says how many rows it inserted while all of them did, and how many it could not."""
    insert = SYSTEMS[system](database, folder)
    for _ in range(3):
        insert(writer)
    ready.wait()
    done = failed = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        try:
            insert(writer)
            done += 1
        except Exception:
            failed += 1
    pipe.send((done, failed))


def measured(system: str, server: Any, folder: Path, writers: int, seconds: float) -> tuple[float, int, int]:
    """Commits per second, statements that failed, and rows that are missing in the end."""
    database, data = server.fresh_database(), str(folder / f"{system}-{time.monotonic_ns()}")
    context = get_context("spawn")
    first = context.Process(target=count, args=(system, database, data, None))
    first.start()
    first.join()
    ready = context.Barrier(writers)
    pipes, processes = [], []
    for writer in range(writers):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=write, args=(system, database, data, writer, seconds, ready, there))
        process.start()
        pipes.append(here)
        processes.append(process)
    found = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    here, there = context.Pipe(duplex=False)
    last = context.Process(target=count, args=(system, database, data, there))
    last.start()
    present = here.recv()
    last.join()
    done = sum(each[0] for each in found)
    return done / seconds, sum(each[1] for each in found), done + 3 * writers - present


def count(system: str, database: str, folder: str, pipe: Any) -> None:
    """Makes the lake and its table, or says how many rows it has: by the extension, who is the judge."""
    if pipe is None:
        SYSTEMS[system](database, folder)
        return
    pipe.send(extension(database, folder).execute("SELECT count(*) FROM lake.t").fetchone()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--writers", default="1,4,8")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch, running(start_postgres) as server:
        for writers in map(int, given.writers.split(",")):
            taken: dict[str, dict[str, Any]] = {
                system: {"rates": [], "failed": 0, "lost": 0} for system in given.systems.split(",")
            }
            for _ in range(given.rounds):
                for system, found in taken.items():
                    rate, failed, lost = measured(system, server, Path(scratch), writers, given.seconds)
                    found["rates"].append(rate)
                    found["failed"] += failed
                    found["lost"] += lost
                    if failed or lost:
                        print(
                            f"  {system}, {writers} writers: {failed} statements failed, {lost} rows are lost"
                        )
            medians = {system: statistics.median(found["rates"]) for system, found in taken.items()}
            results[str(writers)] = taken
            said = ", ".join(f"{system} {rate:.0f}" for system, rate in medians.items())
            ratio = f"; ratio {medians['ours'] / medians['extension']:.2f}" if len(medians) == 2 else ""
            print(f"{writers} writers, commits per second: {said}{ratio}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
