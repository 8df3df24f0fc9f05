"""Groups that are programs of their own: commits of many writers, and what steps cost as a lake grows."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.peers import machine
from benchmarks.peers.results import Conditions, Results

ROOT = Path(__file__).parents[2]
OTHERS = {
    "commits": "Commits per second",
    "growth": "Cost as work grows",
}
COMMITS_GOAL = 1.5
"""Of the extension's commits per second, with the most writers."""
CONSTANT = 0.1
"""An exponent up to which something counts as constant: a hundred times the work takes 1.6 times as long."""
_BASE = {"files": 100, "snapshots": 100, "tables": 10}
"""How much there is at size 1 in benchmarks/growth.py."""


def measure(name: str, given: argparse.Namespace, results: Results) -> None:
    """Runs one of them, and keeps what it found among the figures."""
    print(OTHERS[name], flush=True)
    watch = machine.Watch()
    with tempfile.TemporaryDirectory() as work:
        found = Path(work, "found.json")
        asked = ["--rounds", str(given.rounds)] if name == "commits" else ["--sizes", given.sizes]
        command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *asked, "--json", str(found)]
        done = subprocess.run(command, check=False, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"})
        if done.returncode:
            results.failures[f"{name}/all"] = f"benchmarks/{name}.py ended with {done.returncode}"
            return
        results.failures.pop(f"{name}/all", None)
        results.figures[name] = json.loads(found.read_text())
    results.figures[f"{name} sizes"] = given.sizes
    results.conditions[name] = Conditions(
        f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        0,
        given.rounds if name == "commits" else 1,
        round(watch.others(), 3),
        round(os.getloadavg()[1], 1),
    )


def section(name: str, results: Results) -> list[str]:
    """What the report says of one of them."""
    if name not in results.figures:
        return []
    text = (
        commits(results.figures[name])
        if name == "commits"
        else growth(results.figures[name], results.figures[f"{name} sizes"])
    )
    return [f"## {OTHERS[name]}", *text]


def commits(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """How many commits per second, and whether any was lost."""
    lines = [
        "| writers | ours | DuckDB's extension | ratio | rows lost, ours and its |",
        "|---|---|---|---|---|",
    ]
    ratio = 0.0
    for writers, systems in found.items():
        ours, theirs = (statistics.median(systems[name]["rates"]) for name in ("ours", "extension"))
        lost = " and ".join(str(systems[name]["lost"]) for name in ("ours", "extension"))
        ratio = ours / theirs
        lines.append(f"| {writers} | {ours:.0f} | {theirs:.0f} | {ratio:.2f} | {lost} |")
    last = list(found)[-1]
    verdict = "reached" if ratio >= COMMITS_GOAL else f"missed by {1 - ratio / COMMITS_GOAL:.0%}"
    return [
        "Processes that insert a row each time into one table, on one PostgreSQL server (without fsync); the "
        "extension of DuckDB does the same on a lake of its own, in turns.",
        "\n".join(lines),
        f"The goal, {COMMITS_GOAL} times the extension's with {last} writers and no row lost, is {verdict}.",
    ]


def growth(found: Mapping[str, Mapping[str, Mapping[str, list[float]]]], given: str) -> list[str]:
    """The same steps on lakes of several sizes."""
    sizes = [int(size) for size in given.split(",")]
    parts = [
        "The same steps of ours on lakes with a catalog in DuckDB, in milliseconds by the clock, and in brackets of "
        "the processors; the exponent is the slope from the smallest to the largest lake: 0 is constant, 1 is in "
        "proportion."
    ]
    growing = []
    for grown, steps in found.items():
        heads = [f"{grown}: {size * _BASE[grown]:,}" for size in sizes]
        lines = [f"| step | {' | '.join(heads)} | exponent |", "|---" * (len(sizes) + 2) + "|"]
        for step, taken in steps.items():
            cells = [
                f"{1000 * wall:.0f} ({1000 * cpu:.0f})"
                for wall, cpu in zip(taken["wall"], taken["cpu"], strict=True)
            ]
            slopes = [exponent(taken[kind], sizes) for kind in ("wall", "cpu")]
            lines.append(f"| {step} | {' | '.join(cells)} | {slopes[0]:.2f} ({slopes[1]:.2f}) |")
            if min(slopes) > CONSTANT:
                growing.append(f"*{step}* with {grown} ({slopes[0]:.2f})")
        parts.append("\n".join(lines))
    said = ", ".join(growing) if growing else "nothing"
    parts.append(
        f"By the clock and by the processors, more than constant (an exponent above {CONSTANT}): {said}."
    )
    return parts


def exponent(taken: list[float], sizes: list[int]) -> float:
    """The slope in logarithms, of what takes half a millisecond at least.

    >>> exponent([0.1, 1.0, 10.0], [1, 10, 100])
    1.0
    """
    least = 0.0005
    return math.log(max(taken[-1], least) / max(taken[0], least)) / math.log(sizes[-1] / sizes[0])
