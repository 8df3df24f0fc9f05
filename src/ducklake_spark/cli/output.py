"""Results as a table, JSON or CSV. Knows plain Python values, and neither lakes nor Spark.

JSON and CSV are written row by row, however many there are. A table is for people: it shows the first rows, and says
so when there are more.
"""

from __future__ import annotations

import csv
import enum
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from ducklake_spark.api.display import visible
from ducklake_spark.api.values import json_object, json_text, plain_text
from ducklake_spark.engine.html import human_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Rows = Iterable[Sequence[Any]]


class Format(str, enum.Enum):
    """How results are written."""

    table = "table"
    json = "json"
    csv = "csv"


class Bytes(int):
    """A number of bytes: people see `1.2 MB`, programs the number."""


@dataclass(frozen=True)
class Result:
    """Rows with names. `rows` may come one by one; names may repeat."""

    columns: Sequence[str]
    rows: Rows
    numeric: frozenset[int] = frozenset()
    """The columns that a table aligns to the right."""
    notes: Sequence[str] = field(default_factory=tuple)
    """What a table says below the rows."""


def write(result: Result, fmt: Format, *, limit: int = 0, out: IO[str] | None = None) -> int:
    """Writes a result.

    Args:
        result: What to write.
        fmt: How.
        limit: How many rows a table shows; 0 for all. JSON and CSV always have all.
        out: Where; standard output if not given.

    Returns:
        How many rows were written.
    """
    target = out or sys.stdout
    if fmt is Format.json:
        return _write_json(result, target)
    if fmt is Format.csv:
        return _write_csv(result, target)
    return _write_table(result, target, limit)


def write_record(record: Mapping[str, Any], fmt: Format, *, out: IO[str] | None = None) -> None:
    """Writes one thing with its properties: in a table one below the other, in JSON as one object."""
    target = out or sys.stdout
    if fmt is Format.json:
        target.write(json_text(record) + "\n")
    elif fmt is Format.csv:
        _write_csv(Result(tuple(record), [tuple(record.values())]), target)
    else:
        console = _console(target)
        width = max(map(len, record))
        for key, value in record.items():
            line = _cell(key.replace("_", " ").ljust(width + 2), "bold")
            line.append_text(_cell(value))
            console.print(line, soft_wrap=True)


def _write_json(result: Result, out: IO[str]) -> int:
    count = 0
    for row in result.rows:
        out.write(",\n " if count else "[")
        out.write(json_object(zip(result.columns, row, strict=True)))
        count += 1
    out.write("]\n" if count else "[]\n")
    return count


def _write_csv(result: Result, out: IO[str]) -> int:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(result.columns)
    count = 0
    for row in result.rows:
        writer.writerow([plain_text(value) for value in row])
        count += 1
    return count


def _write_table(result: Result, out: IO[str], limit: int) -> int:
    from rich import box
    from rich.table import Table

    rows = iter(result.rows)
    shown = list(itertools.islice(rows, limit)) if limit else list(rows)
    more = bool(limit) and next(rows, None) is not None
    console = _console(out)
    if result.columns:
        table = Table(box=box.ROUNDED, header_style="bold")
        for index, name in enumerate(result.columns):
            table.add_column(
                _cell(name), justify="right" if index in result.numeric else "left", overflow="fold"
            )
        for row in shown:
            table.add_row(*map(_cell, row))
        if not console.is_terminal:
            # Nobody looks at a line's end here: a cell is never cut or wrapped.
            console.width = 100_000
            console.width = console.measure(table).maximum
        console.print(table)
    count = f"{len(shown)} row" if len(shown) == 1 else f"{len(shown)} rows"
    if more:
        console.print(
            f"The first {count}; there are more: --limit (.limit in the shell) shows them, csv and json have all.",
            style="dim",
            soft_wrap=True,
        )
    elif result.columns:
        console.print(count, style="dim", soft_wrap=True)
    for note in result.notes:
        console.print(_cell(note), soft_wrap=True)
    return len(shown)


def _console(out: IO[str]) -> Console:
    from rich.console import Console

    return Console(file=out, highlight=False, markup=False, emoji=False)


def _cell(value: Any, style: str = "") -> Text:
    from rich.text import Text

    if value is None:
        return Text("NULL", "dim")
    text = human_bytes(value) if isinstance(value, Bytes) else plain_text(value)
    return Text(visible(text), style)
