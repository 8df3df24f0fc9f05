"""One of many who change the rows of one table: as a thread, or as `python changer.py LOCATION DATA NUMBER TURNS`.

Each change is told with the snapshot that it became, so that all of them can be replayed in order. The process makes
only changes that need no Spark.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import ducklake_spark
from ducklake_spark import ConflictError, Lake

Rows = dict[int, int]
"""The values by the key."""


def changes(number: int, turns: int, kinds: str) -> Iterator[dict[str, Any]]:
    """Random changes: `i` inserts few rows, `f` a file of them, `d` deletes, `u` updates, `t` does two at once."""
    dice = random.Random(number)
    for turn in range(turns):
        kind = dice.choice(kinds)
        count = {"i": 3, "f": 12, "t": 2}.get(kind, 0)
        first = 100_000 * (number + 1) + 100 * turn
        yield {"kind": kind, "keys": list(range(first, first + count)), "modulus": dice.choice([5, 7, 11]), "rest": dice.randrange(5)}  # fmt: skip


def replay(rows: Rows, change: dict[str, Any]) -> None:
    """The change on a plain dict."""

    def is_hit(key: int) -> bool:
        return bool(key % change["modulus"] == change["rest"])

    if change["kind"] in "ut":
        rows.update({key: value + 1 for key, value in rows.items() if is_hit(key)})
    if change["kind"] == "d":
        for key in [key for key in rows if is_hit(key)]:
            del rows[key]
    rows.update(dict.fromkeys(change["keys"], 0))


def statements(change: dict[str, Any]) -> list[str]:
    """The change in SQL."""
    condition = f"k % {change['modulus']} = {change['rest']}"
    made = []
    if change["kind"] in "ut":
        made.append(f"UPDATE t SET n = n + 1 WHERE {condition}")
    if change["kind"] == "d":
        made.append(f"DELETE FROM t WHERE {condition}")
    if change["keys"]:
        made.append("INSERT INTO t VALUES " + ", ".join(f"({key}, 0)" for key in change["keys"]))
    return made


def make(lake: Lake, change: dict[str, Any]) -> int | None:
    """The change as calls of ours, again on newer rows when it lost, but not for ever.

    Returns:
        The snapshot that it became; None if it changed nothing, or lost every time.
    """
    for _ in range(12):
        with contextlib.suppress(ConflictError):
            return _make(lake, change)
    return None


def _make(lake: Lake, change: dict[str, Any]) -> int | None:
    condition = f"k % {change['modulus']} = {change['rest']}"
    before = lake._scope.last_committed
    with lake.transaction():
        if change["kind"] in "ut":
            lake["t"].update({"n": "n + 1"}, condition)
        if change["kind"] == "d":
            lake["t"].delete(condition)
        if change["keys"]:
            lake["t"].insert([{"k": key, "n": 0} for key in change["keys"]])
    return lake._scope.last_committed if lake._scope.last_committed != before else None


def run(location: str, data_path: str, number: int, turns: int) -> None:
    with ducklake_spark.attach(location, name="lake", data_path=data_path, max_retry_count=200) as lake:
        for change in changes(number, turns, "if"):
            print(json.dumps([make(lake, change), change]), flush=True)
            time.sleep(0.5)  # the others have more to do


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
