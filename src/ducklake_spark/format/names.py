"""Names as users write them: parts with dots between, in double quotes or backticks where a part has odd characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from ducklake_spark.errors import InvalidInputError

Name = Union[str, Sequence[str]]  # noqa: UP007 - a name for readers
"""`"schema.table"`, or the parts as a tuple, which needs no quoting."""


def split_name(name: Name, what: str = "table") -> tuple[str, ...]:
    """The parts of a name.

    >>> split_name('main."odd.name"'), split_name(("main", "odd.name"))
    (('main', 'odd.name'), ('main', 'odd.name'))

    Raises:
        InvalidInputError: It is empty, has an empty part, or a quote without its end.
    """
    if not isinstance(name, str):
        parts = tuple(name)
        if not parts or not all(isinstance(part, str) and part for part in parts):
            raise InvalidInputError(
                f"{name!r} is not the name of a {what}: it needs parts that are not empty."
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
