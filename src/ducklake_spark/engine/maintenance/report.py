"""What a job of maintenance did, as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ducklake_spark.engine.column_texts import split_columns


@dataclass(frozen=True)
class Report:
    """What a job did.

    Attributes:
        columns: Names and types of the columns that the extension's function of the same name has, as `answer()` takes
            them.
        rows: The rows, with the columns of the extension and then our own.
        more: Names and types of our own columns, which methods of `Lake` show and SQL does not.
    """

    columns: str
    rows: Sequence[tuple[Any, ...]]
    more: str = ""

    @property
    def all_columns(self) -> str:
        """The extension's columns and ours."""
        return f"{self.columns}, {self.more}" if self.more else self.columns

    def like_extension(self) -> list[tuple[Any, ...]]:
        """The rows with the extension's columns only."""
        ours = len(split_columns(self.more)) if self.more else 0
        return [row[: len(row) - ours] for row in self.rows]
