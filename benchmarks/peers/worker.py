"""The process of one system: takes actions as lines of JSON, answers what they gave and what they cost."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.peers.jars import NoJars
from benchmarks.peers.machine import tree_seconds
from benchmarks.peers.systems import SYSTEMS, Unsupported


def answer(system: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Runs one action."""
    before, start = tree_seconds(), time.perf_counter()
    try:
        given = getattr(system, asked["do"])(**asked["with"])
    except (Unsupported, NoJars, NotImplementedError) as error:
        return {"unsupported": str(error) or "it cannot do this"}
    except Exception as error:
        traceback.print_exc()
        return {"error": (str(error).strip().splitlines() or [type(error).__name__])[0][:300]}
    wall = time.perf_counter() - start
    return {"given": given, "wall": wall, "cpu": tree_seconds() - before}


def main() -> None:
    name, folder, cores, memory, jars = sys.argv[1:]
    # The pipe is for answers only: what Spark and its children print goes elsewhere.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    system = SYSTEMS[name](Path(folder), int(cores), memory, Path(jars))
    for line in sys.stdin:
        pipe.write(json.dumps(answer(system, json.loads(line))) + "\n")
        pipe.flush()


if __name__ == "__main__":
    main()
