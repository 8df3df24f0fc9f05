"""Runs the calls of `function_calls.py` on the extension and on ours, and says which functions do not answer alike.

`python -m tests.sql.function_sweep` runs all of them and writes docs/sql-functions.md.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import ducklake_spark
from ducklake_spark.scan.projection.types import choices_of
from ducklake_spark.sql.duckdb.one_task import shown_sql
from tests.interop.oracle import Oracle, OracleError
from tests.sql.function_calls import ABOUT_DUCKDB, TABLE, Function, functions
from tests.sql.shared import LIGHT
from tests.sql.values import plain

PAGE = Path(__file__).parents[2] / "docs" / "sql-functions.md"
BATCH = 40
ROADS = {"spark": "Spark", "parts": "DuckDB in the workers", "one task": "DuckDB in one task"}


@dataclass(frozen=True)
class Answer:
    """What became of a call.

    Args:
        road: Who answered: a key of `ROADS`.
        difference: What differs; None if nothing does.
    """

    road: str
    difference: str | None


@contextlib.contextmanager
def lakes(spark: SparkSession, oracle: Oracle, folder: Path) -> Iterator[Sweep]:
    """One lake that both have open, with the table of the calls."""
    oracle.attach(f"ducklake:sqlite:{folder}/m.sqlite", data_path=str(folder / "data"))
    oracle.execute("SET TimeZone = 'UTC'")
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 30)")
    oracle.execute(TABLE)
    before = {key: spark.conf.get(key, None) for key in (*LIGHT, "spark.sql.session.timeZone")}
    for key, value in {**LIGHT, "spark.sql.session.timeZone": "UTC"}.items():
        spark.conf.set(key, value)
    try:
        with ducklake_spark.attach(f"ducklake:sqlite:{folder}/m.sqlite", name="lake", spark=spark) as lake:
            yield Sweep(oracle, lake)
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


class Sweep:
    """Compares calls on two sides."""

    def __init__(self, oracle: Oracle, lake: ducklake_spark.Lake) -> None:
        self.oracle, self.lake = oracle, lake

    def answers(self, found: Sequence[Function]) -> dict[str, dict[str, Answer]]:
        """By function and call. Many calls share a query; which fail together are asked one by one."""
        made: dict[str, dict[str, Answer]] = {each.name: {} for each in found}
        for kind in ("scalar", "aggregate"):
            for volatile in (False, True):
                calls = [
                    (each.name, call)
                    for each in found
                    if each.kind == kind and each.is_volatile is volatile
                    for call in each.calls
                ]
                for start in range(0, len(calls), BATCH):
                    part = calls[start : start + BATCH]
                    for name, call, answer in self._compared(part, kind, values=not volatile):
                        made[name][call] = answer
        return made

    def _compared(
        self, calls: Sequence[tuple[str, str]], kind: str, *, values: bool
    ) -> Iterator[tuple[str, str, Answer]]:
        order = " ORDER BY id" if kind == "scalar" else ""
        sql = f"SELECT {', '.join(call for _, call in calls)} FROM calls{order}"
        try:
            theirs = self.theirs(sql)
        except OracleError as error:
            if len(calls) > 1:
                yield from self._halves(calls, kind, values=values)
            elif "not found" not in str(error):
                yield *calls[0], Answer("spark", None)  # only a DuckDB without extensions answers it
            return
        try:
            frame = self.lake.sql(sql, dialect="duckdb")
            road = _road(frame)
            if len(calls) > 1 and road == "one task":
                yield from self._halves(calls, kind, values=values)
                return
            ours = [plain(tuple(row)) for row in frame.collect()]
        except Exception as error:
            if len(calls) > 1:
                yield from self._halves(calls, kind, values=values)
            else:
                yield *calls[0], Answer("spark", f"{type(error).__name__}: {str(error)[:200]}")
            return
        if len(calls) > 1 and len(ours) != len(theirs):
            yield from self._halves(calls, kind, values=values)
            return
        for place, (name, call) in enumerate(calls):
            left, right = [row[place] for row in theirs], [row[place] for row in ours]
            if not values:
                left, right = [value is None for value in left], [value is None for value in right]
            yield name, call, Answer(road, None if left == right else f"{left} here {right}")

    def _halves(
        self, calls: Sequence[tuple[str, str]], kind: str, *, values: bool
    ) -> Iterator[tuple[str, str, Answer]]:
        middle = len(calls) // 2
        yield from self._compared(calls[:middle], kind, values=values)
        yield from self._compared(calls[middle:], kind, values=values)

    def theirs(self, sql: str) -> list[Any]:
        """The extension's rows in the forms in which Spark shows values."""
        columns = [(str(row[0]), str(row[1])) for row in self.oracle.execute(f"DESCRIBE {sql}")]
        text, _ = shown_sql(choices_of(self.lake.spark), sql, columns)
        return [plain(row) for row in self.oracle.execute(text)]


def _road(frame: DataFrame) -> str:
    if not hasattr(frame, "_jdf"):  # rows that the driver has
        return "one task"
    text = frame._jdf.queryExecution().analyzed().toString()
    return "one task" if "MapInArrow" in text else "parts" if "duckdb: " in text else "spark"


def page(found: Sequence[Function], answers: dict[str, dict[str, Answer]]) -> str:
    """docs/sql-functions.md."""
    parts = [
        "# Functions of DuckDB",
        "Generated by `python -m tests.sql.function_sweep`, which takes the functions that DuckDB lists in "
        "`duckdb_functions()`, scalar and aggregate, makes calls of each from the types of its parameters and from "
        'its examples, and compares the answers of `lake.sql(..., dialect="duckdb")` with those of the extension. '
        "Left out: operators, collations and what has no name to be called by; "
        + ", ".join(f"`{name}`" for name in sorted(ABOUT_DUCKDB))
        + ", which are about the connection that asks or have no answer to compare; and functions of which DuckDB "
        "answered no call that was tried. Of those whose answers change, such as `random()`, only which rows are NULL "
        "is compared. [SQL](sql.md#who-answers) says who answers what.",
    ]
    rows = []
    for kind in ("scalar", "aggregate"):
        tried = [each for each in found if each.kind == kind and answers[each.name]]
        alike = [each for each in tried if all(a.difference is None for a in answers[each.name].values())]
        calls = [answer for each in tried for answer in answers[each.name].values()]
        rows.append(
            (
                kind,
                len(tried),
                len(alike),
                f"{100 * len(alike) / max(1, len(tried)):.1f} %",
                len(calls),
                sum(answer.difference is None for answer in calls),
            )
        )
    parts.append(_grid(("functions", "tried", "alike in all calls", "", "calls", "alike"), rows))
    parts.append("## Functions that do not answer alike")
    parts.append(
        _grid(
            ("function", "calls alike", "such as"),
            [
                (
                    f"`{each.name}`",
                    f"{sum(a.difference is None for a in answers[each.name].values())} of {len(answers[each.name])}",
                    f"`{next(call for call, a in answers[each.name].items() if a.difference is not None)}`",
                )
                for each in found
                if any(answer.difference is not None for answer in answers[each.name].values())
            ],
        )
    )
    return "\n\n".join(parts) + "\n"


def _grid(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(
        [*lines, *("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)]
    )


def main(names: Sequence[str]) -> None:
    """Runs the sweep: of all functions, and then writes the page, or of some."""
    found = [each for each in functions() if not names or each.name in names]
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with (
        Oracle() as oracle,
        tempfile.TemporaryDirectory() as folder,
        lakes(spark, oracle, Path(folder)) as sweep,
    ):
        answers = sweep.answers(found)
    for name, calls in answers.items():
        for call, answer in calls.items():
            if answer.difference is not None or names:
                print(f"{name}: {call} [{answer.road}]: {answer.difference}")
    for kind in ("scalar", "aggregate"):
        tried = [each for each in found if each.kind == kind and answers[each.name]]
        alike = sum(all(a.difference is None for a in answers[each.name].values()) for each in tried)
        print(f"{alike} of {len(tried)} {kind} functions answer alike")
    if not names:
        PAGE.write_text(page(found, answers), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
