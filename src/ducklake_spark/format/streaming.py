"""A table as a stream: how far a reader is, what a snapshot adds to it, and how much of it one batch takes. Pure.

The rows of a stream stand in an order that neither compaction nor a flush changes: by the snapshot that a row began in,
and inside of it by row id. An offset is a place in that order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ducklake_spark.errors import InvalidInputError, StreamingError
from ducklake_spark.format.changes import ChangeSet

_LAST = 2**63 - 1


@dataclass(frozen=True, order=True)
class Position:
    """All rows of earlier snapshots, and of this one those with row ids below `row`."""

    snapshot: int
    row: int = _LAST

    @property
    def is_whole(self) -> bool:
        """Whether it includes all rows of its snapshot."""
        return self.row == _LAST


START = Position(-1)
"""Before all rows."""


@dataclass(frozen=True)
class Offset:
    """What of a table a stream has read, as its checkpoint keeps it.

    Args:
        table: The table's uuid: a name may come to mean another table.
        base: The snapshot at which the stream began; it goes on with the snapshots after it.
        whole: Whether the stream began with all rows that the table had at that snapshot.
        position: How far it is.
    """

    table: str
    base: int
    whole: bool
    position: Position

    @property
    def is_initial(self) -> bool:
        """Whether it stands among the rows that the table had at the beginning."""
        return self.whole and self.position.snapshot <= self.base

    def to_json(self) -> str:
        """The text for the checkpoint.

        >>> Offset("6b1d", 4, True, Position(7)).to_json()
        '{"table": "6b1d", "base": 4, "whole": true, "snapshot": 7}'
        """
        place = asdict(self.position)
        if self.position.is_whole:
            del place["row"]
        return json.dumps({"table": self.table, "base": self.base, "whole": self.whole, **place})

    @classmethod
    def of_json(cls, text: str) -> Offset:
        """An offset out of a checkpoint.

        Raises:
            InvalidInputError: The text is not one of ours.
        """
        try:
            read = json.loads(text)
            place = Position(int(read["snapshot"]), int(read.get("row", _LAST)))
            return cls(str(read["table"]), int(read["base"]), bool(read["whole"]), place)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InvalidInputError(
                f"The checkpoint of the stream has an offset that is not of a lake: {text[:100]}. Give the stream "
                "another checkpointLocation."
            ) from None

    def at(self, position: Position) -> Offset:
        """The same stream at another place."""
        return Offset(self.table, self.base, self.whole, position)


# --- What a snapshot does to a table. -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableChange:
    """What one snapshot did to one table."""

    snapshot_id: int
    inserts: bool = False
    deletes: bool = False
    alters: bool = False
    drops: bool = False
    rewrites: bool = False
    """Whether it moved rows to files under its own id."""

    @property
    def is_append(self) -> bool:
        """Whether it only added rows: then their ids are new, and ascend from file to file."""
        return self.inserts and not self.deletes


def change_of(table_id: int, snapshot_id: int, changes: ChangeSet) -> TableChange:
    """What a snapshot did to a table. Compaction and flushes move rows, and add and remove none."""
    deletes = table_id in changes.deleted_from_tables
    if table_id in changes.inline_flushes:
        deletes = False  # inlined deletes that became a file: the snapshot that made them said so
    return TableChange(
        snapshot_id,
        inserts=table_id in changes.inserted_into_tables or table_id in changes.inlined_inserts,
        deletes=deletes or table_id in changes.inlined_deletes,
        alters=table_id in changes.altered_tables,
        drops=table_id in changes.dropped_tables,
        rewrites=table_id in changes.rewrite_deletes,
    )


@dataclass(frozen=True)
class Policy:
    """What a stream does with snapshots that delete or update rows.

    Args:
        feed: It is a change data feed: all changes are rows of it.
        ignore_deletes: Snapshots that only delete are passed over.
        ignore_changes: So are they, and of those that update or overwrite, the new rows are read.
        skip_changes: Every snapshot that deletes or updates rows is passed over, with the rows that it adds.
    """

    feed: bool = False
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_changes: bool = False

    def takes(self, change: TableChange) -> bool:
        """Whether rows of a snapshot belong to the stream.

        Raises:
            StreamingError: It deletes or updates rows, and nobody said what to do then.
        """
        if self.feed:
            return change.inserts or change.deletes
        if not change.deletes:
            return change.inserts
        if self.skip_changes:
            return False
        if self.ignore_changes:
            return change.inserts
        if change.inserts:
            raise StreamingError(
                f"Snapshot {change.snapshot_id} updates or overwrites rows of the table, and a stream of added rows "
                "cannot tell of that. Read with readChangeFeed, or set skipChangeCommits (leave such snapshots out) "
                "or ignoreChanges (read their new rows); or begin anew with another checkpointLocation."
            )
        if not self.ignore_deletes:
            raise StreamingError(
                f"Snapshot {change.snapshot_id} deletes rows of the table, and a stream of added rows cannot tell of "
                "that. Read with readChangeFeed, or set ignoreDeletes or skipChangeCommits; or begin anew with another "
                "checkpointLocation."
            )
        return False


DEFAULT_POLICY = Policy()


def taken(changes: Iterable[TableChange], policy: Policy) -> tuple[list[TableChange], StreamingError | None]:
    """The snapshots of a stream until one that it cannot take, and what is wrong with that one."""
    found = []
    for change in changes:
        try:
            if policy.takes(change):
                found.append(change)
        except StreamingError as error:
            return found, error
    return found, None


# --- How much a batch takes. ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamFile:
    """A data file that a stream has to read, as the catalog describes it."""

    begin_snapshot: int
    row_id_start: int | None
    record_count: int
    size: int
    is_partial: bool
    """Whether it holds rows of several snapshots, of which `begin_snapshot` is the first."""


@dataclass(frozen=True)
class Piece:
    """Rows that are not split between batches: up to a position, from so many files and bytes."""

    end: Position
    files: int
    size: int


@dataclass(frozen=True)
class Limits:
    """How much a batch takes: it ends before a piece that would be too much, but has at least one."""

    files: int | None = None
    size: int | None = None

    def admit(self, pieces: Iterable[Piece]) -> Position | None:
        """How far a batch goes; None if there is nothing to read."""
        end, files, size = None, 0, 0
        for piece in pieces:
            files, size = files + piece.files, size + piece.size
            over = (self.files is not None and files > self.files) or (
                self.size is not None and size > self.size
            )
            if over and end is not None:
                break
            end = piece.end
        return end


NO_LIMITS = Limits()


def pieces(
    snapshots: Sequence[int],
    files: Iterable[StreamFile],
    inlined: Mapping[int, int],
    appends: frozenset[int],
    after: Position,
) -> Iterator[Piece]:
    """The rows of snapshots in pieces, from a position on.

    A snapshot that only appended files is a piece for each file, since their row ids follow each other. Any other one
    is a piece as a whole.

    Args:
        snapshots: The snapshots of the stream, in order.
        files: Their files.
        inlined: How many bytes of rows the catalog has of a snapshot.
        appends: The snapshots that only appended.
        after: Where the rows begin.
    """
    of_snapshot: dict[int, list[StreamFile]] = {}
    for file in files:
        of_snapshot.setdefault(file.begin_snapshot, []).append(file)
    for snapshot in snapshots:
        own = of_snapshot.get(snapshot, [])
        starts = sorted(file.row_id_start for file in own if file.row_id_start is not None)
        can_split = len(own) > 1 and len(set(starts)) == len(own) and snapshot in appends
        if not can_split or snapshot in inlined or any(file.is_partial for file in own):
            if Position(snapshot) > after:
                size = sum(file.size for file in own) + inlined.get(snapshot, 0)
                yield Piece(Position(snapshot), max(1, len(own)), size)
            continue
        own.sort(key=lambda file: file.row_id_start or 0)
        ends = [Position(snapshot, start) for start in starts[1:]] + [Position(snapshot)]
        for file, end in zip(own, ends, strict=True):
            if end > after:
                yield Piece(end, 1, file.size)


# --- Which rows a batch takes. ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """The rows of a batch: those of some snapshots after one position and up to another.

    Args:
        after: The rows up to here were read before.
        upto: These rows are the last ones.
        left_out: Snapshots in between whose rows do not belong to the stream.
    """

    after: Position
    upto: Position
    left_out: frozenset[int] = frozenset()

    @property
    def first(self) -> int:
        """The first snapshot that can have rows."""
        return self.after.snapshot + 1 if self.after.is_whole else self.after.snapshot

    @property
    def last(self) -> int:
        """The last one."""
        return self.upto.snapshot

    def of_file(self, file: StreamFile) -> Literal["all", "some", "none"]:
        """How many rows of a data file belong to the batch; "some" is for files that have to be looked into."""
        begin = file.begin_snapshot
        if begin > self.last:
            return "none"
        if file.is_partial:
            return "some"
        if begin < self.first or begin in self.left_out:
            return "none"
        low = self.after.row if begin == self.after.snapshot else None
        high = self.upto.row if begin == self.last and not self.upto.is_whole else None
        if low is None and high is None:
            return "all"
        start = file.row_id_start
        if start is None:
            return "some"
        end = start + file.record_count
        if (low is not None and end <= low) or (high is not None and start >= high):
            return "none"
        inside = (low is None or start >= low) and (high is None or end <= high)
        return "all" if inside else "some"

    def has(self, snapshot: int, row: int) -> bool:
        """Whether a row belongs to the batch."""
        return (
            self.first <= snapshot <= self.last
            and snapshot not in self.left_out
            and not (snapshot == self.after.snapshot and row < self.after.row)
            and not (snapshot == self.last and row >= self.upto.row)
        )
