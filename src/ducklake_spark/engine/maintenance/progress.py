"""A progress bar for work of a job that this process does; Spark shows its own for work of Spark."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

_EVERY = 0.5
"""Seconds between two looks of the bar, and before the first one: short work shows none."""
_WIDTH = 30


class Progress:
    """How far a job is, in a line of the terminal that is gone when the job is done; nothing where there is none.

    Args:
        job: Its name.
        total: How much there is to do.
        unit: Of what.
        stream: Where it is shown; by default the standard error.
    """

    def __init__(self, job: str, total: int, unit: str, stream: TextIO | None = None) -> None:
        self._job, self._total, self._unit = job, total, unit
        self._stream = stream or sys.stderr
        self._is_shown = self._stream is not None and self._stream.isatty()
        self._done, self._drawn = 0, 0
        self._next = time.monotonic() + _EVERY

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()

    def advance(self, count: int = 1) -> None:
        """So much more is done."""
        self._done += count
        if self._is_shown and time.monotonic() >= self._next:
            self._draw()
            self._next = time.monotonic() + _EVERY

    def _draw(self) -> None:
        filled = _WIDTH * min(self._done, self._total) // max(self._total, 1)
        bar = "=" * filled + " " * (_WIDTH - filled)
        line = f"{self._job} [{bar}] {self._done:,} of {self._total:,} {self._unit}"
        self._stream.write("\r" + line.ljust(self._drawn))
        self._stream.flush()
        self._drawn = len(line)
