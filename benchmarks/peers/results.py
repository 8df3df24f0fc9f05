"""What was measured, as values: measurements, the conditions under which they were taken, and ratios out of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PEERS = ("parquet", "delta", "iceberg")
OURS = ("sql", "table")
SYSTEMS = (*PEERS, *OURS, "duckdb")
TITLES = {
    "parquet": "plain Parquet",
    "delta": "Delta",
    "iceberg": "Iceberg",
    "sql": "ours, `spark.sql`",
    "table": "ours, `lake.table`",
    "duckdb": "DuckDB's extension",
}
GOAL = 0.9
"""What a row should take of the best peer's time."""
SCAN_GOAL = 1.05
"""What a scan may take of plain Parquet's time, where that is the best peer."""


@dataclass(frozen=True)
class Measurement:
    """What one system took for one row of a table, once. Turns with the same number were taken right after another."""

    row: str
    system: str
    turn: int
    wall: float
    cpu: float


@dataclass(frozen=True)
class Conditions:
    """Under which a group of rows was measured."""

    date: str
    scale: float
    rounds: int
    others: float
    """How much of the cores other programs took meanwhile, 1 for all."""
    load: float
    warm: int = 0
    """Rounds on small tables before, unmeasured."""


@dataclass
class Results:
    """All that a report is made of."""

    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Systems that were not to be had, and why."""
    measurements: list[Measurement] = field(default_factory=list)
    conditions: dict[str, Conditions] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    """What is no time: bytes, lines of a picture."""
    failures: dict[str, str] = field(default_factory=dict)
    """What went wrong, by row and system."""

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Results:
        given = json.loads(path.read_text())
        given["measurements"] = [Measurement(**each) for each in given["measurements"]]
        given["conditions"] = {group: Conditions(**each) for group, each in given["conditions"].items()}
        return cls(**given)

    def without_rows(self, rows: Iterable[str]) -> None:
        """Forgets rows that are measured anew."""
        gone = set(rows)
        self.measurements = [each for each in self.measurements if each.row not in gone]
        self.failures = {key: why for key, why in self.failures.items() if key.split("/")[0] not in gone}

    def taken(self, row: str, system: str, kind: str = "wall") -> dict[int, float]:
        """Seconds by turn."""
        return {
            each.turn: getattr(each, kind)
            for each in self.measurements
            if each.row == row and each.system == system
        }

    def median(self, row: str, system: str, kind: str = "wall") -> float | None:
        taken = self.taken(row, system, kind)
        return statistics.median(taken.values()) if taken else None

    def best_peer(self, row: str, kind: str = "wall") -> str | None:
        """The peer with the smallest median."""
        medians = {system: self.median(row, system, kind) for system in PEERS}
        found = {system: value for system, value in medians.items() if value is not None}
        return min(found, key=found.__getitem__) if found else None

    def ratio(self, row: str, system: str, peer: str, kind: str = "wall") -> float | None:
        """The median of what a system took of a peer's time in the same turn, so that a busy machine disturbs both."""
        mine, theirs = self.taken(row, system, kind), self.taken(row, peer, kind)
        ratios = [mine[turn] / theirs[turn] for turn in mine if theirs.get(turn)]
        return statistics.median(ratios) if ratios else None


def goal_of(scan: bool, peer: str) -> float:
    """A scan cannot be faster than Spark's own of the same files, so beside plain Parquet it may take a little more."""
    return SCAN_GOAL if scan and peer == "parquet" else GOAL
