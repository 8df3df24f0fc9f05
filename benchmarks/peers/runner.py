"""One process for each system, which takes actions by a pipe, so that all take turns at the same work."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.results import Measurement, Results

LIMIT = 900
"""Seconds after which an action is given up, and its system with it."""


class Worker:
    """The process of one system."""

    def __init__(self, name: str, folder: Path, cores: int, memory: str, jars: Path) -> None:
        self.name, self.folder = name, folder
        folder.mkdir(parents=True)
        arguments = [name, str(folder), str(cores), memory, str(jars)]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.peers.worker", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=Path(__file__).parents[2],
                text=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )

    def ask(self, do: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the process answers; an error where it does not."""
        self.tell(do, arguments)
        return self.answer()

    def tell(self, do: str, arguments: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        # An answer that does not come says that the process ended.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"do": do, "with": arguments}) + "\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], LIMIT)[0]:
            self.process.kill()
            return {"error": f"no answer within {LIMIT} s"}
        line = self.process.stdout.readline()
        if not line:
            return {"error": f"its process ended; {self.folder / 'log'} says why"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        if self.process.poll() is None:
            self.ask("close", {})
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Row:
    """A line of a table: what is done."""

    key: str
    title: str
    scan: bool = False


class Bench:
    """The systems that run, and what they took."""

    def __init__(
        self, names: Iterable[str], folder: Path, cores: int, memory: str, jars: Path, results: Results
    ) -> None:
        self.results, self.warming, self.turn = results, False, 0
        self.workers: dict[str, Worker] = {}
        self.without: set[tuple[str, str]] = set()
        """Systems and the tables that they could not bring to where the others are."""
        started = [Worker(name, folder / name, cores, memory, jars) for name in names]
        for worker in started:
            worker.tell("open", {})
        for worker in started:
            name, answer = worker.name, worker.answer()
            if "given" in answer:
                self.workers[name] = worker
                results.versions[name] = answer["given"]
                results.missing.pop(name, None)
            else:
                why = answer.get("unsupported") or answer["error"]
                results.missing[name] = why
                print(f"{name} is left out: {why}", flush=True)
                worker.close()

    def ask(self, name: str, do: str, table: str = "", **arguments: Any) -> dict[str, Any] | None:
        """One action of one system; nothing where it cannot do it, and from then on for this table."""
        if (name, table) in self.without:
            return None
        answer = self.workers[name].ask(do, arguments)
        if "given" in answer:
            return answer
        self.without.add((name, table))
        if "error" in answer:
            self.results.failures[f"{do}/{name}"] = answer["error"]
            print(f"  {name} failed to {do}: {answer['error']}", flush=True)
            if self.workers[name].process.poll() is not None:
                self.workers.pop(name).close()
        return None

    def everyone(self, do: str, table: str = "", **arguments: Any) -> dict[str, Any]:
        """An action of all systems which is not measured; what each gave."""
        given = {name: self.ask(name, do, table, **arguments) for name in list(self.workers)}
        return {name: answer["given"] for name, answer in given.items() if answer is not None}

    def measure(
        self,
        row: Row,
        do: str,
        table: str,
        *,
        of_each: dict[str, dict[str, Any]] | None = None,
        alike: Iterable[str] | None = None,
        **arguments: Any,
    ) -> None:
        """Lets each system do the same, and compares what they answer.

        Args:
            row: What is done.
            do: The action.
            table: What it is done to: who could not follow until now is not asked.
            of_each: More arguments by system; who has none is not asked.
            alike: Systems whose answers must be alike; all without it.
            arguments: Those of the action.
        """
        # Who comes first changes, as nobody should always find the machine as the same one left it.
        names = list(self.workers)
        shift = self.turn % max(len(names), 1)
        given: dict[str, Any] = {}
        self.turn += 1
        for name in names[shift:] + names[:shift]:
            if of_each is not None and name not in of_each:
                continue
            answer = self.ask(name, do, table, **arguments, **(of_each or {}).get(name, {}))
            if answer is None:
                continue
            given[name] = answer["given"]
            if not self.warming:
                self.results.measurements.append(
                    Measurement(row.key, name, self.turn, round(answer["wall"], 4), round(answer["cpu"], 3))
                )
        compared = {name: rows for name, rows in given.items() if alike is None or name in alike}
        if len({json.dumps(rows) for rows in compared.values()}) > 1:
            raise SystemExit(f'The answers to "{row.title}" differ: {str(compared)[:2000]}')
        if self.warming:
            print(f"  {row.title}", flush=True)
        else:
            taken = [
                each for each in self.results.measurements if each.row == row.key and each.turn == self.turn
            ]
            shown = ", ".join(f"{each.system} {each.wall:.2f} ({each.cpu:.1f})" for each in taken)
            print(f"  {row.title}: {shown}", flush=True)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
