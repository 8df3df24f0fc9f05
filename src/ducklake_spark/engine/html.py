"""Facts and rows as HTML for notebooks: escaped, with styles inside, since notebooks drop style sheets.

No colour is one of light or dark: texts and lines have the colour of the page around them, some of it seen through.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

_BOX = "font-size:13px;line-height:1.45;color:inherit;max-width:100%;overflow-x:auto"
_TITLE = "font-weight:600;margin:2px 0 6px"
_TABLE = (
    "font-size:13px;border-collapse:collapse;border:0;margin:0 0 10px;color:inherit;background:transparent"
)
_LINE = "border-bottom:1px solid rgba(128,128,128,.25)"
_CELL = "padding:3px 14px 3px 0;vertical-align:top;border:0;background:transparent;color:inherit"
_LEFT, _RIGHT = "text-align:left", "text-align:right;font-variant-numeric:tabular-nums"
_QUIET = "opacity:.65"
_WHOLE = "white-space:nowrap"
_TEXT = "white-space:pre-wrap;max-width:34em"
_LONG_WORD = 30
"""Words of more letters are broken wherever the line ends; others stay whole, and lists may be wide."""


@dataclass(frozen=True)
class Cell:
    """A text of a list.

    Attributes:
        text: What is shown.
        is_number: It stands to the right.
        is_quiet: It says little, such as NULL.
        is_whole: It stays on one line.
        more: What a mouse that rests on it sees.
    """

    text: str
    is_number: bool = False
    is_quiet: bool = False
    is_whole: bool = False
    more: str | None = None


def box(title: str, *parts: str) -> str:
    """A title and what belongs to it.

    >>> box("<b>").count("&lt;b&gt;")
    1
    """
    head = f'<div style="{_TITLE}">{html.escape(title)}</div>' if title else ""
    return f'<div style="{_BOX}">{head}{"".join(parts)}</div>'


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Labels with their values; nothing if there are none."""
    lines = "".join(
        f'<tr style="background:transparent"><th style="{_CELL};{_LEFT};{_QUIET};font-weight:400">'
        f'{html.escape(label)}</th><td style="{_CELL};{_LEFT};{_text(value)}">{html.escape(value)}</td></tr>'
        for label, value in pairs
    )
    return f'<table style="{_TABLE}"><tbody>{lines}</tbody></table>' if lines else ""


def grid(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Rows with a head. A column of numbers stands to the right, and so does its name."""
    numbers = [any(row[place].is_number for row in rows) for place in range(len(head))]
    names = "".join(
        f'<th style="{_CELL};{_LINE};{_RIGHT if is_number else _LEFT};font-weight:600">{html.escape(name)}</th>'
        for name, is_number in zip(head, numbers, strict=True)
    )
    lines = "".join(
        f'<tr style="background:transparent">{"".join(map(_cell, row, numbers))}</tr>' for row in rows
    )
    return f'<table style="{_TABLE}"><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>'


def note(text: str) -> str:
    """A quiet line below."""
    return f'<div style="{_QUIET}">{html.escape(text)}</div>'


def human_bytes(count: int) -> str:
    """A size for people, in powers of ten as DuckDB shows them.

    >>> human_bytes(999), human_bytes(1_250_000)
    ('999 bytes', '1.2 MB')
    """
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    power = min(int(math.log10(count)) // 3, 5)
    return f"{count / 1000**power:.1f} {['', 'kB', 'MB', 'GB', 'TB', 'PB'][power]}"


def _text(text: str) -> str:
    """The style of a text.

    >>> "anywhere" in _text("inserted_into_table, deleted_from_table"), "anywhere" in _text("x" * 100)
    (False, True)
    """
    is_long = any(len(word) > _LONG_WORD for word in text.split())
    return f"{_TEXT};overflow-wrap:{'anywhere' if is_long else 'break-word'}"


def _cell(cell: Cell, is_number: bool) -> str:
    style = f"{_CELL};{_LINE};{_RIGHT if is_number else f'{_LEFT};{_WHOLE if cell.is_whole else _text(cell.text)}'}"
    if cell.is_quiet:
        style += f";{_QUIET}"
    more = f' title="{html.escape(cell.more)}"' if cell.more else ""
    return f'<td style="{style}"{more}>{html.escape(cell.text)}</td>'
