"""Rows that a transaction adds: files that were written, and rows that will live in the catalog. Pure values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ducklake_spark.format.statistics import ColumnStats, merge_files
from ducklake_spark.format.types import NESTED


@dataclass(frozen=True)
class DataFile:
    """A data file that was written; `path` as it is stored."""

    path: str
    path_is_relative: bool
    record_count: int
    file_size_bytes: int
    footer_size: int | None
    columns: tuple[ColumnStats, ...] = ()
    partition_id: int | None = None
    """The specification under which it was written; may be local."""
    partition_values: tuple[str | None, ...] = ()
    whole_path: str = ""
    """Where it is, for reads before the commit and for removal when there is none."""


@dataclass(frozen=True)
class InlineBatch:
    """Rows for the catalog: one text or plain value per column, in the encoding of the catalog database."""

    rows: Sequence[tuple[Any, ...]]
    columns: tuple[ColumnStats, ...]
    casts: Sequence[str] = field(default_factory=tuple)
    """For each column the SQL that turns the parameter into the physical type, with `?` in it."""

    @property
    def record_count(self) -> int:
        """How many rows."""
        return len(self.rows)


def added_statistics(
    files: Sequence[DataFile], batches: Sequence[InlineBatch], types: Mapping[int, str]
) -> dict[int, ColumnStats]:
    """What all added rows together say of each column; nothing of a column that some of them are silent on."""
    parts: dict[int, list[ColumnStats]] = {}
    added: list[DataFile | InlineBatch] = [*files, *batches]
    sources = [source.columns for source in added if source.record_count]
    for columns in sources:
        for stats in columns:
            parts.setdefault(stats.column_id, []).append(stats)
    return {
        column_id: merge_files(found, types[column_id])
        for column_id, found in parts.items()
        if column_id in types and types[column_id] not in NESTED and len(found) == len(sources)
    }
