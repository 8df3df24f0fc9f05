"""One process of many that commit to one lake. It says what it is about to do, does it, and says what came of it.

Started as `python worker.py LOCATION LOG NUMBER FIRST LAST`. The log has a line before and a line after each commit,
so that the reader of a killed process's log knows what it may have done last.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.errors import AlreadyExistsError, ConflictError

SHARED = 3
KINDS = ("table", "shared column", "own column", "race", "group")


def prepare(lake: Lake, workers: int) -> int:
    """What the processes find, in one snapshot. Returns its id."""
    with lake.transaction():
        for number in range(SHARED):
            lake.create_table(f"shared_{number}", {"a": "int"})
        for number in range(workers):
            lake.create_table(f"own_{number}", {"a": "int", "b": "struct(x int)"})
    return lake.version


def kind_of(step: int) -> str:
    """What a step does."""
    return KINDS[step % len(KINDS)]


def act(lake: Lake, worker: int, step: int) -> str:
    """Makes the change of a step inside a transaction. Returns the name of what it fights for."""
    kind, mark = kind_of(step), f"{worker}_{step}"
    if kind == "table":
        lake.create_table(f"t_{mark}", {"a": "int", "b": "varchar[]"}, comment=mark)
        return f"t_{mark}"
    if kind == "shared column":
        table = f"shared_{step % SHARED}"
        lake[table].add_column(f"c_{mark}", "bigint", default=step)
        return table
    if kind == "own column":
        lake[f"own_{worker}"].add_column(f"c_{mark}", "date")
        lake[f"own_{worker}"].set_comment(mark)
        return f"own_{worker}"
    if kind == "race":
        lake.create_table(f"race_{step}", {f"by_{worker}": "int"})
        return f"race_{step}"
    lake.create_schema(f"s_{mark}")
    lake.create_table(f"s_{mark}.t", {"a": "int"}, partitioned_by=["a"], sorted_by=["a"])
    lake.create_view(f"s_{mark}.v", "SELECT 1 AS one", dialect="duckdb")
    lake[f"own_{worker}"].add_column(f"b.f_{mark}", "int")
    return f"own_{worker}"


def run(location: str, log: Path, worker: int, first: int, last: int) -> None:
    """The steps from first to last, each tried once."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(**words: Any) -> None:
        os.write(file, (json.dumps(words) + "\n").encode())

    with ducklake_spark.attach(location) as lake:
        for step in range(first, last):
            words: dict[str, Any] = {"worker": worker, "step": step, "kind": kind_of(step)}
            say(**words, outcome="begun")
            try:
                with lake.transaction(message=f"{worker}/{step}"):
                    words["start"] = lake.version
                    words["object"] = act(lake, worker, step)
                say(**words, outcome="committed", snapshot=lake._scope.last_committed)
            except ConflictError as error:
                say(**words, outcome="conflict", text=str(error))
            except AlreadyExistsError:
                say(**words, outcome="exists")


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
