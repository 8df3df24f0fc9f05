"""Runs SQL for the command line, and shows what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import typer

from ducklake_spark.api.lake import Lake
from ducklake_spark.catalog import inventory
from ducklake_spark.cli.connect import WrongUse
from ducklake_spark.cli.output import Format, write
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.spark.errors import quiet


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """Settings of Spark from `key=value` texts."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise WrongUse(f'--conf takes KEY=VALUE, such as spark.driver.memory=4g, not "{pair}".')
        found[key.strip()] = value
    return found


@quiet()
def run(lake: Lake, text: str, dialect: str, fmt: Format, limit: int) -> None:
    """Runs statements in order. A table shows the result of each; JSON and CSV are that of the last one."""
    from ducklake_spark.cli.frames import result_of
    from ducklake_spark.sql.parser.parse import parse

    statements = parse(text, dialect)
    if not statements:
        raise WrongUse("There is no statement to run.")
    for number, statement in enumerate(statements, start=1):
        frame = lake.sql(statement.text, dialect=dialect)
        if fmt is Format.table and not statement.is_query and frame.columns == ["Count"]:
            _show_count([row[0] for row in frame.take(1)])
        elif fmt is Format.table or number == len(statements):
            write(result_of(frame, fmt, limit), fmt, limit=limit)


def _show_count(counts: Sequence[int]) -> None:
    """How many rows a statement changed; one that changes no rows says nothing."""
    for count in counts:
        typer.echo(f"{count} row changed" if count == 1 else f"{count} rows changed")


@dataclass(frozen=True)
class Feed:
    """Which changes of which table: bounds are snapshots or times, None for the oldest and the newest."""

    table: str
    start: str | None = None
    end: str | None = None
    net: bool = False


@quiet()
def show_changes(lake: Lake, feed: Feed, fmt: Format, limit: int) -> None:
    """Shows the change feed of a table."""
    from ducklake_spark.cli.frames import result_of

    first = inventory.oldest_snapshot(scope_of(lake).store) if feed.start is None else _bound(feed.start)
    last = None if feed.end is None else _bound(feed.end)
    frame = lake.table_changes(feed.table, first, last, net=feed.net)
    write(result_of(frame.orderBy("snapshot_id", "rowid", "change_type"), fmt, limit), fmt, limit=limit)


def _bound(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text
