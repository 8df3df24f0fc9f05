"""Rows of DuckDB's answers. DuckDB 2 wants an answer read to its end before there is other work on a connection."""

from __future__ import annotations

from typing import Any, Protocol


class _Answer(Protocol):
    def fetchall(self) -> list[Any]: ...


def first_row(answer: _Answer) -> tuple[Any, ...] | None:
    """The first row of a small answer, which is read to its end; None if it has none."""
    rows: list[tuple[Any, ...]] = answer.fetchall()
    return rows[0] if rows else None
