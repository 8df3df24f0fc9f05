"""How a lake and a table look in a terminal and in a notebook.

One or two questions to the catalog, and no Spark. Whatever goes wrong on the way, a handle can always be shown: then it
says its name and what went wrong. Credentials never show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ducklake_spark.catalog import inventory
from ducklake_spark.catalog.store import Row, Store
from ducklake_spark.engine import html
from ducklake_spark.engine.html import human_bytes
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError, NotFoundError
from ducklake_spark.format.changes import changes_map, changes_text, parse_changes
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.objects import is_local
from ducklake_spark.format.types import duckdb_name, text_literal

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake
    from ducklake_spark.api.table import Table

_PLAIN_VALUE = re.compile(r"u?int\d+|float\d+|decimal.*|boolean")
"""Types whose values need no quotes."""
_COLUMNS = 40
_SNAPSHOTS = 5


@dataclass(frozen=True)
class Card:
    """What is shown of a handle: facts, then lists with a head."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    lists: Sequence[tuple[Sequence[str], Sequence[Sequence[str]]]] = ()


def lake_text(lake: Lake) -> str:
    """The text of a lake in a terminal."""
    return _text(_safely(str(lake), lambda: _lake_card(lake, with_lists=False)))


def lake_html(lake: Lake) -> str:
    """A lake in a notebook, with its newest snapshots."""
    return _html(_safely(str(lake), lambda: _lake_card(lake, with_lists=True)))


def table_text(table: Table) -> str:
    """The text of a table in a terminal: its columns and its size."""
    return _text(_safely(str(table), lambda: _table_card(table, with_history=False)))


def table_html(table: Table) -> str:
    """A table in a notebook: its columns, its size and its history."""
    return _html(_safely(str(table), lambda: _table_card(table, with_history=True)))


def visible(text: str) -> str:
    """A text for a terminal: control characters as escapes, because data must not move the cursor.

    >>> visible("a\\x1b[2Jb".encode().decode("unicode_escape"))
    'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each in "\n\t" or each.isprintable() else each.encode("unicode_escape").decode()
        for each in text
    )


def default_text(column: ColumnDef) -> str | None:
    """A column's default as SQL: an expression as it is, a value as a literal.

    >>> default_text(ColumnDef(1, "a", "varchar", default_value="it's")), default_text(ColumnDef(1, "a", "int32"))
    ("'it''s'", None)
    """
    value = column.default_value
    if value is None or column.default_value_type == "expression" or _PLAIN_VALUE.fullmatch(column.type):
        return value
    return text_literal(value)


def without_credentials(path: str) -> str:
    """A path or URL without the user and password in it.

    >>> without_credentials("s3://key:secret@bucket/x"), without_credentials("abfss://container@account/x")
    ('s3://***@bucket/x', 'abfss://container@account/x')
    """
    return re.sub(r"://[^/@:]*:[^/@]*@", "://***@", path)


def error_text(error: BaseException) -> str:
    """An error in one line, without the plan or the stack that Spark adds.

    >>> error_text(ValueError("no such\\n  thing"))
    'ValueError: no such thing'
    """
    if isinstance(error, DuckLakeError):
        return " ".join(str(error).split())
    kind = type(error)
    if kind.__module__.startswith("py4j"):
        reason = next((line[2:] for line in str(error).splitlines() if line.startswith(": ")), str(error))
        return " ".join(reason.split())
    if kind.__module__.startswith("pyspark"):
        text = str(error).split("\n\nJVM stacktrace", 1)[0]
        text = re.split(r";?\n(?=['+!]|\s*\n|== |Driver stacktrace)", text, maxsplit=1)[0]
        return " ".join(text.split())
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return f"{kind.__name__}: {' '.join(str(error).split())}"


def _safely(title: str, made: Callable[[], Card]) -> Card:
    try:
        return made()
    except NotFoundError:
        return Card(title)
    except (
        Exception
    ) as error:  # a debugger or a log must be able to show a handle, whatever happened to its lake
        return Card(title, [("", f"({' '.join(str(error).split())})")])


def _lake_card(lake: Lake, *, with_lists: bool) -> Card:
    scope = scope_of(lake)
    if scope.is_closed:
        return Card(str(lake))
    snapshot = scope.read_transaction().snapshot
    found = inventory.contents(scope.store, snapshot.snapshot_id)
    counts = ((found.schemas, "schema"), (found.tables, "table"), (found.views, "view"))
    facts = [
        ("snapshot", f"{snapshot.snapshot_id} of {snapshot.snapshot_time:%Y-%m-%d %H:%M:%S} UTC"),
        ("contents", ", ".join(_counted(count, noun) for count, noun in counts)),
        ("files", f"{_counted(found.files, 'file')}, {human_bytes(found.file_bytes)}"),
        ("data path", without_credentials(lake.data_path)),
    ]
    if not with_lists:
        return Card(str(lake), facts)
    rows = [row for row in scope.snapshot_rows(_SNAPSHOTS) if row[0] <= snapshot.snapshot_id]
    return Card(str(lake), facts, [_history(scope.store, rows[::-1])])


def _table_card(table: Table, *, with_history: bool) -> Card:
    definition = table.definition
    facts = []
    if definition.comment:
        facts.append(("comment", definition.comment))
    for label, keys in (("partitioned by", table.partitioned_by), ("sorted by", table.sorted_by)):
        if keys:
            facts.append((label, ", ".join(keys)))
    columns = [_column(column) for column in definition.columns[:_COLUMNS]]
    left = len(definition.columns) - _COLUMNS
    if left > 0:
        columns.append((f"and {_counted(left, 'column')} more", "", ""))
    lists: list[tuple[Sequence[str], Sequence[Sequence[str]]]] = [(("column", "type", "comment"), columns)]
    tx = scope_of(table).read_transaction()
    store, snapshot = tx.store, tx.snapshot
    if not is_local(definition.table_id):
        found = inventory.sizes(store, snapshot.snapshot_id, definition.table_id)
        facts.append(("size", _size(found.get(definition.table_id, inventory.Size()))))
        if with_history:
            rows = inventory.history(store, definition.table_id, snapshot.snapshot_id, _SNAPSHOTS)
            lists.append(_history(store, rows))
    return Card(str(table), facts, lists)


def _column(column: ColumnDef) -> tuple[str, str, str]:
    kind = duckdb_name(column.data_type)
    if not column.nulls_allowed:
        kind += " NOT NULL"
    default = default_text(column)
    if default is not None:
        kind += f" DEFAULT {default}"
    return column.name, kind, column.comment or ""


def _size(size: inventory.Size) -> str:
    if not size.files and not size.inlined_rows:
        return "no rows"
    rows = "rows unknown" if size.rows is None else _counted(size.rows, "row")
    text = f"{rows}, {_counted(size.files, 'file')}, {human_bytes(size.file_bytes)}"
    return f"{text}, {_counted(size.inlined_rows, 'row')} in the catalog" if size.inlined_rows else text


def _history(store: Store, rows: Iterable[Row]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    made = [(row, changes_map(parse_changes(row[3]))) for row in rows]
    ids = (value for _, changes in made for values in changes.values() for value in values)
    names = inventory.names(store, (int(value) for value in ids if value.isdecimal()))
    shown = []
    for (snapshot_id, micros, _, _, author, message, _), changes in made:
        named = {key: [names.get(value, value) for value in values] for key, values in changes.items()}
        moment = f"{inventory.moment(micros):%Y-%m-%d %H:%M:%S}"
        shown.append((str(snapshot_id), moment, changes_text(named), author or "", message or ""))
    return ("snapshot", "time (UTC)", "changes", "author", "message"), shown


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _text(card: Card) -> str:
    lines = [card.title]
    for _, rows in card.lists:
        widths = [max((len(row[index]) for row in rows), default=0) for index in range(2)]
        lines += [
            "  " + "  ".join((row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2])).rstrip()
            for row in rows
        ]
    width = max((len(label) for label, _ in card.facts), default=0)
    lines += ["  " + f"{label.ljust(width)}  {value}".strip() for label, value in card.facts]
    return "\n".join(visible(line.replace("\n", " ")) for line in lines)


def _html(card: Card) -> str:
    return html.box(card.title, html.facts(card.facts), *(_html_list(*each) for each in card.lists))


def _html_list(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    used = [index for index in range(len(head)) if any(row[index] for row in rows)]
    cells = [
        [
            html.Cell(row[at], is_number=head[at] == "snapshot", is_whole=head[at].startswith("time"))
            for at in used
        ]
        for row in rows
    ]
    return html.grid([head[index] for index in used], cells) if used else ""
