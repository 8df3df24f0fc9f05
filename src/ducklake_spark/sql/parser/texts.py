"""Edits of the user's text: what is replaced, and where a place in the new text was in the old one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Puts `text` where the characters from `start` to before `end` are."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Spliced:
    """A text after edits, or the part of it that begins at `start` of the old text."""

    before: str
    text: str
    edits: tuple[Edit, ...] = ()
    start: int = 0

    def place(self, index: int) -> int:
        """Where a character of the new text came from in the old one."""
        index += self.start
        shift = 0
        for edit in self.edits:
            start = edit.start + shift
            if index < start:
                break
            if index < start + len(edit.text):
                return edit.start
            shift += len(edit.text) - (edit.end - edit.start)
        return max(0, min(index - shift, len(self.before)))

    def line_and_column(self, index: int) -> tuple[int, int]:
        """Line and column, from 1, in the old text of a character of the new one."""
        place = self.place(index)
        before = self.before[:place]
        return before.count("\n") + 1, place - (before.rfind("\n") + 1) + 1


def splice(text: str, edits: Sequence[Edit]) -> Spliced:
    """The text with edits made; one that lies inside another is dropped, as the outer one says it all.

    >>> splice("FROM a.t, b", [Edit(5, 8, "x"), Edit(10, 11, "yy")]).text
    'FROM x, yy'
    """
    kept: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if kept and edit.start < kept[-1].end:
            continue
        kept.append(edit)
    parts, last = [], 0
    for edit in kept:
        parts += [text[last : edit.start], edit.text]
        last = edit.end
    return Spliced(text, "".join(parts) + text[last:], tuple(kept))
