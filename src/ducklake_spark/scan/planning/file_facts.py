"""Facts of a file that its rows carry: packed into one number, which travels as the file's modification time.

Spark gives every row the modification time of its file (`_metadata.file_modification_time`), and the file index says
what that time is. So a row knows its file's id, row ids and snapshot without a join, and only when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ducklake_spark.scan.planning.listing import ScanFile

LIMIT = 2**53
"""Modification times are milliseconds, which Spark turns into microseconds of 64 bits."""


@dataclass(frozen=True)
class Part:
    """One number of the code: its lowest value, and how many values it can have."""

    name: str
    lowest: int
    size: int


@dataclass(frozen=True)
class FileCode:
    """Numbers of known ranges, written one behind the other in a mixed base."""

    parts: tuple[Part, ...]

    @property
    def fits(self) -> bool:
        """Whether every combination is a possible modification time."""
        product = 1
        for part in self.parts:
            product *= part.size
        return product <= LIMIT

    def encode(self, file: ScanFile) -> int:
        """The code of a file.

        >>> code = FileCode((Part("data_file_id", 5, 10), Part("begin_snapshot", 0, 4)))
        >>> code.encode(ScanFile(7, "p", 0, begin_snapshot=3))
        11
        """
        code = 0
        for part in self.parts:
            code = code * part.size + _value(file, part.name) - part.lowest
        return code

    def arithmetic(self, name: str) -> tuple[int, int | None, int] | None:
        """(divisor, modulus, lowest): a part is `code / divisor % modulus + lowest`. None if it is not in the code.

        The first part, which stands for all that is left, needs no modulus.
        """
        divisor = 1
        for part in reversed(self.parts):
            if part.name == name:
                return divisor, None if part is self.parts[0] else part.size, part.lowest
            divisor *= part.size
        return None


def _value(file: ScanFile, name: str) -> int:
    if name == "row_id_start":
        return -1 if file.row_id_start is None else file.row_id_start
    value: int = getattr(file, name)
    return value


def file_code(ranges: Iterable[tuple[str, int, int]]) -> FileCode:
    """A code for numbers given as (name, lowest, highest)."""
    return FileCode(tuple(Part(name, low, max(high - low + 1, 1)) for name, low, high in ranges))
