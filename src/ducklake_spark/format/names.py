"""Names as users write them: parts with dots between, in double quotes or backticks where a part has odd characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from ducklake_spark.errors import InvalidInputError

Name = Union[str, Sequence[str]]  # noqa: UP007 - a name for readers
"""`"schema.table"`, or the parts as a tuple, which needs no quoting."""


def check_text(what: str, text: object) -> None:
    """Raises for what no catalog database keeps as text; None is no text and passes.

    Raises:
        InvalidInputError: Not a text, or one with a NUL character or half of a surrogate pair.
    """
    if text is None:
        return
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} must be a text, not {text!r}.")
    if "\0" in text:
        raise InvalidInputError(f"{what} has a NUL character, which databases do not store: {_short(text)}.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInputError(f"{what} is not valid Unicode: {_short(text)} has half of a surrogate pair.")


def check_name(kind: str, name: object) -> None:
    """Raises for a name that no database can keep.

    Raises:
        InvalidInputError: It is no text, empty, or has characters that cannot be stored.
    """
    if isinstance(name, str) and not name:
        raise InvalidInputError(f"The name of a {kind} is empty. Give it at least one character.")
    check_text(f"The name of a {kind}", "" if name is None else name)
    if name is None:
        raise InvalidInputError(f"The name of a {kind} must be a text, not None.")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


def ticked(name: str) -> str:
    """A name as Spark's SQL and its column paths take any name.

    >>> ticked("a b"), ticked("a`b")
    ('`a b`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


def split_name(name: Name, what: str = "table") -> tuple[str, ...]:
    """The parts of a name.

    >>> split_name('main."odd.name"'), split_name(("main", "odd.name"))
    (('main', 'odd.name'), ('main', 'odd.name'))

    Raises:
        InvalidInputError: It is empty, has an empty part, or a quote without its end.
    """
    if not isinstance(name, str):
        parts = tuple(name) if isinstance(name, Sequence) else ()
        if not parts or not all(isinstance(part, str) and part for part in parts):
            raise InvalidInputError(
                f"{name!r} is not the name of a {what}: give a text, or a tuple of texts that are not empty."
            )
        return parts
    found: list[str] = []
    position = 0
    while True:
        part, position = _part(name, position, what)
        found.append(part)
        if position >= len(name):
            return tuple(found)
        if name[position] != ".":
            raise InvalidInputError(f"{name!r} is not the name of a {what}: put odd names in double quotes.")
        position += 1


def _part(name: str, start: int, what: str) -> tuple[str, int]:
    mark = name[start : start + 1]
    if mark not in ('"', "`") or mark == "":
        end = name.find(".", start)
        end = len(name) if end < 0 else end
        if end == start:
            raise InvalidInputError(f"{name!r} is not the name of a {what}: a part of it is empty.")
        return name[start:end], end
    end = start + 1
    while True:
        end = name.find(mark, end)
        if end < 0:
            raise InvalidInputError(f"{name!r} is not the name of a {what}: a quote has no end.")
        if name[end : end + 2] != mark * 2:
            break
        end += 2
    if end == start + 1:
        raise InvalidInputError(f"{name!r} is not the name of a {what}: a part of it is empty.")
    return name[start + 1 : end].replace(mark * 2, mark), end + 1
