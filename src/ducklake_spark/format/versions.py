"""The versions of the format that are read and written, and what each of them has.

Code asks for a capability, never for a version: `store.format.has_view_column_tags`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

OLD_VERSIONS = ("0.1", "0.2", "0.3-dev1", "0.3", "0.4-dev1", "0.4")
"""Formats that are only migrated, to 1.0."""


@dataclass(frozen=True)
class InlinedColumns:
    """The names of the first three columns of a table of inlined rows."""

    row_id: str = "row_id"
    begin: str = "begin_snapshot"
    end: str = "end_snapshot"

    @property
    def all(self) -> tuple[str, str, str]:
        return self.row_id, self.begin, self.end

    @property
    def live(self) -> str:
        """A condition for rows that count at a snapshot, which is given twice."""
        return f"{self.begin} <= ? AND ({self.end} IS NULL OR {self.end} > ?)"


PLAIN = InlinedColumns()
PREFIXED = InlinedColumns("_ducklake_row_id", "_ducklake_begin_snapshot", "_ducklake_end_snapshot")


@dataclass(frozen=True)
class LakeFormat:
    """What a version of the format has.

    Attributes:
        version: As the catalog of a new lake says it.
        inlined: The names of the first columns of new tables of inlined rows.
        has_row_group_counts: Whether the catalog can say how many row groups a file has.
        has_view_column_tags: Whether columns of views can have comments.
        has_epoch_transforms: Whether partition keys can count units of time since 1970.
    """

    version: str
    inlined: InlinedColumns = PLAIN
    has_row_group_counts: bool = False
    has_view_column_tags: bool = False
    has_epoch_transforms: bool = False

    @property
    def reserved_names(self) -> frozenset[str]:
        """Names that no column of a table can have whose rows are inlined."""
        return frozenset({*self.inlined.all, "_ducklake_internal_row_id", "_ducklake_internal_snapshot_id"})

    @property
    def inlined_names_vary(self) -> bool:
        """Whether a table of inlined rows is to be asked for its names: some were made before they were changed."""
        return self.inlined != PLAIN


FORMAT_1_0 = LakeFormat("1.0")
FORMAT_1_1 = LakeFormat(
    "1.1", PREFIXED, has_row_group_counts=True, has_view_column_tags=True, has_epoch_transforms=True
)
FORMATS = (FORMAT_1_0, FORMAT_1_1)
"""What can be read and written, in order. New lakes have the first, unless another one is asked for."""
NEWEST = FORMATS[-1]


def format_of(version: str | None) -> LakeFormat | None:
    """The format of a lake's version text, development versions included; None if it is not known.

    >>> [found and found.version for found in map(format_of, ("1.0", "1.1", "1.1-dev1", "0.4", "1.10", "2.0"))]
    ['1.0', '1.1', '1.1', None, None, None]
    """
    if version == FORMAT_1_0.version:
        return FORMAT_1_0
    return FORMAT_1_1 if version is not None and re.fullmatch(r"1\.1(-.*)?", version) else None
