"""Compaction as values: which files are merged or rewritten together, and the change that a compaction makes. Pure.

The rules are the extension's. What it reads of the catalog for them is a `Candidate`; what becomes of a group of them
is a `CompactedGroup`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ducklake_spark.format.data import DataFile
from ducklake_spark.format.encryption import FileKey
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.statistics import TableStats


class CompactionKind(Enum):
    """What a compaction does to its sources: a merge takes their place, a rewrite ends them."""

    MERGE = "merge_adjacent"
    REWRITE = "rewrite_delete"


@dataclass(frozen=True)
class Candidate:
    """A live data file, as far as compaction has to know it.

    Attributes:
        schema_version: That of the table when the file began.
        partition_id: The partition specification under which it was written.
        partition_values: Its value of each key.
        deleted_rows: How many of its rows are deleted, by a delete file or in the catalog.
        has_deletes: Whether it ever lost rows; delete files that ended count.
        is_exact: Whether it keeps 128-bit integers as decimals.
        key: With which it is encrypted.
    """

    data_file_id: int
    path: str
    path_is_relative: bool
    record_count: int
    file_size_bytes: int
    begin_snapshot: int
    row_id_start: int | None = None
    partial_max: int | None = None
    schema_version: int = 0
    partition_id: int | None = None
    partition_values: tuple[str | None, ...] = ()
    mapping_id: int | None = None
    deleted_rows: int = 0
    has_deletes: bool = False
    is_exact: bool = False
    key: FileKey | None = None

    @property
    def live_bytes(self) -> int:
        """What its live rows take, about."""
        if not self.record_count:
            return 0
        return int(self.file_size_bytes * (1 - self.deleted_rows / self.record_count))

    @property
    def last_snapshot(self) -> int:
        """The newest snapshot that added a row of it."""
        return self.begin_snapshot if self.partial_max is None else self.partial_max


@dataclass(frozen=True)
class MergeLimits:
    """Which files are small, and how much is done.

    Attributes:
        target_file_size: The size at which a merged file is large enough.
        min_file_size: Smaller files are left alone.
        max_file_size: Files of this size or more are left alone; by default of the target size.
        max_compacted_files: How many merged files are made at most.
    """

    target_file_size: int
    min_file_size: int | None = None
    max_file_size: int | None = None
    max_compacted_files: int | None = None

    def is_small(self, size: int) -> bool:
        """Whether a file of this size is merged with others."""
        highest = self.target_file_size if self.max_file_size is None else self.max_file_size
        return (self.min_file_size or 0) <= size < min(highest, self.target_file_size)


Group = tuple[Candidate, ...]


def merge_groups(candidates: Iterable[Candidate], limits: MergeLimits) -> list[Group]:
    """The files that become one, group by group.

    >>> small = [Candidate(i, "", True, 1, size, i) for i, size in enumerate((3, 4, 2, 9, 1, 1))]
    >>> [[file.file_size_bytes for file in group] for group in merge_groups(small, MergeLimits(8))]
    [[3, 4, 2], [1, 1]]
    """
    chosen = (file for file in candidates if not file.has_deletes and limits.is_small(file.file_size_bytes))
    found = [
        group
        for some in _alike(chosen)
        for group in _packed(some, [file.file_size_bytes for file in some], limits.target_file_size)
        if len(group) > 1
    ]
    return found if limits.max_compacted_files is None else found[: limits.max_compacted_files]


def rewrite_groups(candidates: Iterable[Candidate], threshold: float, target_file_size: int) -> list[Group]:
    """The files of which at least this part is deleted, those together whose live rows fit in one file.

    >>> files = [Candidate(i, "", True, 10, 100, i, deleted_rows=deleted) for i, deleted in enumerate((5, 0, 9, 4))]
    >>> [[file.data_file_id for file in group] for group in rewrite_groups(files, 0.5, 1000)]
    [[0, 2]]
    """
    chosen = (
        file
        for file in candidates
        if file.deleted_rows and file.record_count and file.deleted_rows / file.record_count >= threshold
    )
    return [
        group
        for some in _alike(chosen)
        for group in _packed(some, [file.live_bytes for file in some], target_file_size)
    ]


def _alike(files: Iterable[Candidate]) -> list[list[Candidate]]:
    """Files that can share one: of one schema, partition and encoding; in the order of their rows."""
    found: dict[object, list[Candidate]] = {}
    for file in sorted(files, key=_row_order):
        key = (file.schema_version, file.partition_id, file.partition_values, file.is_exact)
        found.setdefault(key, []).append(file)
    return list(found.values())


def _row_order(file: Candidate) -> tuple[int, bool, int, int]:
    return (file.begin_snapshot, file.row_id_start is None, file.row_id_start or 0, file.data_file_id)


def _packed(files: Sequence[Candidate], sizes: Sequence[int], target: int) -> list[Group]:
    """Neighbours until they are as large as the target: the last one may go beyond it."""
    groups: list[list[Candidate]] = []
    size = target
    for file, own in zip(files, sizes, strict=True):
        if size >= target:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += own
    return [tuple(group) for group in groups]


def are_adjacent(group: Sequence[Candidate]) -> bool:
    """Whether the row ids of the files follow each other, as far as the catalog knows.

    >>> are_adjacent([Candidate(0, "", True, 5, 1, 1, 0), Candidate(1, "", True, 5, 1, 2, 5)])
    True
    """
    if any(file.row_id_start is None for file in group):
        return False
    return all(
        (one.row_id_start or 0) + one.record_count == other.row_id_start
        for one, other in itertools.pairwise(group)
    )


@dataclass(frozen=True)
class SourceFile:
    """A data file that a compaction takes: its id, and its path as `files_scheduled_for_deletion` names it."""

    data_file_id: int
    path: str
    path_is_relative: bool


@dataclass(frozen=True)
class CompactedFile:
    """A file that a compaction wrote.

    Attributes:
        file: The file.
        begin_snapshot: Of its oldest row; None for one that begins with the compaction.
        partial_max: Of its newest row, if rows say of which snapshot they are.
    """

    file: DataFile
    begin_snapshot: int | None = None
    partial_max: int | None = None


@dataclass(frozen=True)
class CompactedGroup:
    """Files and what became of their rows; no file where no row was left."""

    sources: tuple[SourceFile, ...]
    files: tuple[CompactedFile, ...]


@dataclass(frozen=True)
class CompactFiles:
    """Rows that moved to other files.

    Attributes:
        stats: The counts of the table after a rewrite that left no deleted rows; true only at the snapshot `stats_at`.
    """

    table: TableDef
    kind: CompactionKind
    groups: tuple[CompactedGroup, ...]
    stats: TableStats | None = field(default=None, compare=False)
    stats_at: int | None = None

    @property
    def source_ids(self) -> list[int]:
        """The files that are taken."""
        return [source.data_file_id for group in self.groups for source in group.sources]

    @property
    def written(self) -> list[CompactedFile]:
        """The files that were made."""
        return [file for group in self.groups for file in group.files]
