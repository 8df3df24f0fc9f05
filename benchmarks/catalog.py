"""How fast the catalog is: commits beside those of DuckDB's own extension, with a slow network, in bulk, and at size.

    python benchmarks/catalog.py [--commits 60] [--tables 10000] [--rows 100000] [--json results.json]

Ours and theirs take turns on the same machine, each on a lake of its own in the same database server; the extension
measures itself, in a process of its own. The servers run without fsync, for both.
"""

from __future__ import annotations

import argparse
import json
import queue
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import ducklake_spark
from ducklake_spark import Lake
from tests.catalog.many import fill, watching
from tests.interop.oracle import Oracle
from tests.servers import running, start_mysql, start_postgres

KINDS = ("duckdb", "sqlite", "postgres", "mysql")
Samples = dict[str, list[float]]


class Delay:
    """A TCP relay that delivers everything a little later, in both directions."""

    def __init__(self, port: int, seconds_each_way: float) -> None:
        self._target, self._delay = port, seconds_each_way
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, target in ((client, server), (server, client)):
                    waiting: queue.Queue[tuple[float, bytes]] = queue.Queue()
                    threading.Thread(target=self._receive, args=[source, waiting], daemon=True).start()
                    threading.Thread(target=self._send, args=[target, waiting], daemon=True).start()

    def _receive(self, source: socket.socket, waiting: queue.Queue[tuple[float, bytes]]) -> None:
        data = b"more"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            waiting.put((time.perf_counter() + self._delay, data))

    def _send(self, target: socket.socket, waiting: queue.Queue[tuple[float, bytes]]) -> None:
        with suppress(OSError):
            while True:
                due, data = waiting.get()
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                time.sleep(max(0.0, due - time.perf_counter()))
                target.sendall(data)


def quantiles(seconds: list[float]) -> tuple[float, float]:
    """Median and 95th percentile, in milliseconds."""
    return statistics.median(seconds) * 1000, statistics.quantiles(seconds, n=20)[-1] * 1000


def timed(run: Callable[[], Any]) -> float:
    """How long it takes, in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def ours(lake: Lake, number: int, taken: Samples) -> None:
    """One commit of each kind by us."""
    name = f"t{number}"
    taken["create table"].append(timed(lambda: lake.create_table(name, {"a": "int", "b": "varchar"})))
    table = lake[name]
    taken["add column"].append(timed(lambda: table.add_column("c", "bigint")))
    taken["comment"].append(timed(lambda: table.set_comment(f"number {number}")))


def theirs(oracle: Oracle, number: int, taken: Samples) -> None:
    """The same by the extension."""
    statements = {
        "create table": f"CREATE TABLE t{number}(a INTEGER, b VARCHAR)",
        "add column": f"ALTER TABLE t{number} ADD COLUMN c BIGINT",
        "comment": f"COMMENT ON TABLE t{number} IS 'number {number}'",
    }
    for name, seconds in zip(statements, oracle.timed(list(statements.values())), strict=True):
        taken[name].append(seconds)


def empty() -> Samples:
    return {"create table": [], "add column": [], "comment": []}


class Places:
    """New catalog databases of each kind, on servers that start when they are asked for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self._servers: dict[str, Any] = {}
        self._count = 0

    def server(self, kind: str) -> Any:
        if kind not in self._servers:
            start = start_postgres if kind == "postgres" else start_mysql
            self._servers[kind] = self._stack.enter_context(running(start))
        return self._servers[kind]

    def new(self, kind: str) -> str:
        """An attach string."""
        self._count += 1
        if kind in ("postgres", "mysql"):
            return f"ducklake:{kind}:{self.server(kind).fresh_database()}"
        return f"ducklake:{kind}:{self.folder / f'{self._count}.{kind}'}"

    @contextmanager
    def lake(self, location: str) -> Iterator[Lake]:
        """Ours, attached."""
        with ducklake_spark.attach(location, data_path=str(self.folder / "data")) as lake:
            yield lake


def commits(places: Places, kind: str, count: int) -> dict[str, Samples]:
    """Ours and theirs in turns; the extension cannot write to MySQL."""
    both = {"ours": empty()} | ({"extension": empty()} if kind != "mysql" else {})
    with places.lake(places.new(kind)) as lake, Oracle(threads=None) as oracle:
        if "extension" in both:
            oracle.attach(places.new(kind), data_path=str(places.folder / "theirs"))
        for number in range(-3, count):  # three to warm up
            kept = both if number >= 0 else {name: empty() for name in both}
            ours(lake, number + 3, kept["ours"])
            if "extension" in kept:
                theirs(oracle, number + 3, kept["extension"])
    return both


def slow_network(places: Places, round_trip: float, count: int) -> Samples:
    """Our commits on PostgreSQL through a relay that makes each round trip longer."""
    server = places.server("postgres")
    relay = Delay(server.port, round_trip / 2)
    location = places.new("postgres").replace(f"port={server.port}", f"port={relay.port}")
    taken = empty()
    with places.lake(location) as lake:
        for number in range(-2, count):
            ours(lake, number + 2, taken if number >= 0 else empty())
    relay.close()
    return taken


def bulk(places: Places, kind: str, rows: int) -> float:
    """Seconds for that many rows of statistics in one commit."""
    values = [(i, 1, 1 + i % 20, 4096, 1000, i % 3, str(i), str(i + 10), None, None) for i in range(rows)]
    with places.lake(places.new(kind)) as lake:

        def insert() -> None:
            with lake._scope.store.begin() as session:
                session.insert("ducklake_file_column_stats", values)

        return timed(insert)


def look_up(places: Places, kind: str, tables: int) -> dict[str, float]:
    """One table among many: the first look, and looking again."""
    location = places.new(kind)
    with places.lake(location) as lake:
        fill(lake, tables)
    with places.lake(location) as lake:
        _ = lake.version
        with watching(lake._scope.store) as first:
            took = timed(lambda: lake[f"T{tables // 2}"].columns)
        with watching(lake._scope.store) as again:
            repeated = statistics.median(timed(lambda: lake[f"t{tables // 2}"]) for _ in range(50))
    return {
        "first ms": took * 1000,
        "queries": first.queries,
        "rows": first.rows,
        "again ms": repeated * 1000,
        "queries again": again.queries / 50,
    }


def show(title: str, head: list[str], lines: list[list[Any]]) -> None:
    """A table for people."""
    texts = [[f"{value:.1f}" if isinstance(value, float) else str(value) for value in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    print(f"\n{title}")
    for line in [head, *texts]:
        cells = [
            text.ljust(width) if i < 2 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  " + "  ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    results: dict[str, Any] = {}
    with ExitStack() as stack:
        places = Places(Path(stack.enter_context(tempfile.TemporaryDirectory())), stack)
        lines = []
        for kind in kinds:
            both = commits(places, kind, given.commits)
            for change, samples in both["ours"].items():
                mine = quantiles(samples)
                line: list[Any] = [kind, change, *mine]
                if "extension" in both:
                    other = quantiles(both["extension"][change])
                    line += [*other, f"{mine[0] / other[0]:.2f}"]
                else:
                    line += ["-", "-", "-"]
                lines.append(line)
        results["commits"] = lines
        show(
            f"One-change commits, milliseconds, {given.commits} of each in turns",
            ["database", "change", "p50", "p95", "extension p50", "p95", "ratio of p50"],
            lines,
        )
        if "postgres" in kinds:
            lines = []
            for added in (0.0, 5.0, 10.0):
                for change, samples in slow_network(places, added / 1000, given.commits // 3).items():
                    lines.append([f"+{added:g} ms a round trip", change, *quantiles(samples)])
            results["slow network"] = lines
            show("PostgreSQL at a distance, milliseconds", ["network", "change", "p50", "p95"], lines)
        lines = [[kind, f"{given.rows} rows", bulk(places, kind, given.rows)] for kind in kinds]
        results["bulk"] = lines
        show("Statistics in bulk, seconds", ["database", "what", "seconds"], lines)
        lines = [
            [kind, f"1 of {given.tables}", *look_up(places, kind, given.tables).values()] for kind in kinds
        ]
        results["look-up"] = lines
        show(
            "Looking up a table",
            ["database", "table", "first ms", "queries", "rows", "again ms", "queries again"],
            lines,
        )
    if given.json:
        given.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
