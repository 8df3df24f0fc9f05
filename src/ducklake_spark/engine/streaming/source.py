"""A table as the source of a stream: where it begins, how far the next batch goes, and the rows of a batch."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ducklake_spark.catalog import ddl, streams
from ducklake_spark.catalog.snapshot import (
    SnapshotReader,
    latest_query,
    snapshot_at_version,
    snapshot_from_time,
    snapshot_of,
)
from ducklake_spark.catalog.streams import Step
from ducklake_spark.engine.scope import Scope
from ducklake_spark.engine.times import Timestamp, micros_of
from ducklake_spark.errors import InvalidInputError, SchemaChangedError, StreamingError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import SchemaDef, Snapshot, TableDef
from ducklake_spark.format.streaming import (
    DEFAULT_POLICY,
    NO_LIMITS,
    START,
    Limits,
    Offset,
    Piece,
    Policy,
    Position,
    Selection,
    TableChange,
    pieces,
    taken,
)
from ducklake_spark.scan.change_feed.plan import make_feed
from ducklake_spark.scan.change_feed.stream import StreamReader, stream_schema
from ducklake_spark.scan.planning.plan import LakeInfo
from ducklake_spark.scan.projection.types import choices_of

if TYPE_CHECKING:
    import pyspark.sql.types as spark_types
    from pyspark.sql import DataFrame

_FEW_FOREIGN = 100
"""So many snapshots that do nothing to the table are passed over without a batch; then an empty one writes down that
they were looked at, before they are expired."""
_IDLE_SECONDS = 0.2
"""Spark asks for new rows a hundred times a second while there are none; the catalog is not asked so often."""


@dataclass(frozen=True)
class StreamOptions:
    """How a table is streamed."""

    policy: Policy = DEFAULT_POLICY
    limits: Limits = NO_LIMITS
    starting_version: int | str | None = None
    """A version, "latest", or None for all rows that there are."""
    starting_timestamp: Timestamp | None = None
    fail_on_data_loss: bool = True


@dataclass(frozen=True)
class _Target:
    """The table that a stream reads, at the snapshot that gives it its columns."""

    schema: SchemaDef
    table: TableDef
    known: Snapshot

    @property
    def title(self) -> str:
        return f'"{self.schema.name}"."{self.table.name}"'


def resolve(scope: Scope, name: Name) -> _Target:
    """The table of a stream as it is now."""
    tx = scope.apart().read_transaction()
    schema, own = scope.resolve(tx, name)
    if tx.table(schema, own) is None and tx.view(schema, own) is not None:
        raise InvalidInputError(
            f'"{schema.name}"."{own}" is a view. Streams read tables: name the tables that it reads.'
        )
    return _Target(schema, ddl.get_table(tx, schema, own), tx.snapshot)


class TableStream:
    """A stream of a table's rows, or of its changes. What it has read is known by offsets, which Spark keeps."""

    def __init__(self, scope: Scope, name: Name, options: StreamOptions) -> None:
        self.scope, self.options = scope, options
        self.store = scope.store
        self.target = resolve(scope, name)
        self._origin: Offset | None = None
        self._asked: Offset | None = None
        self.until: int | None = None
        self._is_first = True
        self._idle_since: float | None = None
        self._left: tuple[int, int] = (0, 0)
        self._lock = threading.Lock()

    @property
    def schema(self) -> spark_types.StructType:
        """The columns of a batch."""
        return schema_of(self.scope, self.target.table, self.options)

    # How far.

    def stop_at_newest(self) -> None:
        """The stream ends with the snapshot that is the newest now."""
        self.until = self._newest().snapshot_id

    def latest(self, start: Offset | None, *, is_limited: bool = True) -> Offset | None:
        """How far the next batch goes: the start itself if there is nothing to read, None before the first batch.

        Raises:
            StreamingError: The stream cannot go on.
        """
        with self._lock:
            self.scope.require_open()
            self._pause()
            offset = self._asked = start or self._origin or self._begin()
            self._require_same(offset)
            limits = self.options.limits if is_limited else NO_LIMITS
            end = self._initial_end(offset, limits) if _reads_base(offset) else None
            if end is None:
                if _reads_base(offset):  # the table was empty
                    offset = self._origin = offset.at(Position(offset.base))
                end = self._end(offset, limits)
            if end is None:
                self._idle_since = time.monotonic()
                return start
            self._is_first, self._idle_since = False, None
            return offset.at(end)

    def _pause(self) -> None:
        if self._idle_since is not None:
            time.sleep(max(0.0, self._idle_since + _IDLE_SECONDS - time.monotonic()))

    def _newest(self) -> Snapshot:
        return snapshot_of(self.store.query(*latest_query(self.store)))

    def _begin(self) -> Offset:
        """Where a new stream begins."""
        options, table = self.options, self.target.table.table_uuid
        newest = self._newest().snapshot_id
        base, whole = newest if self.until is None else self.until, False
        if options.starting_timestamp is not None:
            text = str(options.starting_timestamp)
            micros = micros_of(options.starting_timestamp, "startingTimestamp")
            base = snapshot_from_time(self.store, micros, text).snapshot_id - 1
        elif isinstance(options.starting_version, int):
            if options.starting_version != newest + 1:
                snapshot_at_version(self.store, options.starting_version)
            base = options.starting_version - 1
        elif options.starting_version is None:
            whole = True
        self._origin = Offset(table, base, whole, START if whole else Position(base))
        return self._origin

    def _initial_end(self, offset: Offset, limits: Limits) -> Position | None:
        """The end of a batch of the rows that the table had at the beginning; None if there are none left."""
        base = offset.base
        self._require_base(base)
        first = max(0, offset.position.snapshot)
        files = streams.stream_files(self.store, self.target.table.table_id, first, base, base)
        inlined = streams.inlined_sizes(self.store, self.target.table.table_id, first, base, base)
        found = sorted({file.begin_snapshot for file in files} | set(inlined))
        counts = Counter(file.begin_snapshot for file in files)
        several = [snapshot for snapshot, count in counts.items() if count > 1]
        if limits == NO_LIMITS:
            several = []  # whatever they are, they are read at once
        appends = streams.appends_among(self.store, self.target.table.table_id, several)
        parts = list(pieces(found, files, inlined, appends, offset.position))
        end = limits.admit(parts)
        self._note(parts, end)
        return Position(base) if parts and end == parts[-1].end else end

    def _end(self, offset: Offset, limits: Limits) -> Position | None:
        """The end of a batch of what came later; None if there is nothing."""
        position = offset.position
        steps = self._following(position)
        good, problem = self._usable(steps)
        self._left = (0, 0)
        if good:
            first, last = good[0].change.snapshot_id, good[-1].change.snapshot_id
            table_id = self.target.table.table_id
            files = streams.stream_files(self.store, table_id, first, last)
            inlined = streams.inlined_sizes(self.store, table_id, first, last)
            changes = [step.change for step in good]
            # The changes of a snapshot belong together: an update's two images are found side by side.
            appends = frozenset() if self.options.policy.feed else streams.known_appends(changes)
            parts = list(pieces([each.snapshot_id for each in changes], files, inlined, appends, position))
            end = limits.admit(parts)
            self._note(parts, end)
            if end is not None:
                is_all = end == parts[-1].end and problem is None
                return Position(steps[-1].snapshot.snapshot_id) if is_all else end
        if problem is not None:
            raise problem
        passed = len(steps) - (0 if position.is_whole else 1)
        if passed >= _FEW_FOREIGN or (passed and self._is_first):
            return Position(steps[-1].snapshot.snapshot_id)
        return None

    def _note(self, parts: Sequence[Piece], end: Position | None) -> None:
        left = [piece for piece in parts if end is None or piece.end > end]
        self._left = (sum(piece.files for piece in left), sum(piece.size for piece in left))

    def newest(self) -> Offset | None:
        """Where the stream would be if it had read all; None before it was asked for a batch."""
        if self._asked is None:
            return None
        newest = self._newest().snapshot_id
        return self._asked.at(Position(newest if self.until is None else self.until))

    def metrics(self) -> dict[str, str]:
        """What is known to be left to read after the batch that was planned last."""
        files, size = self._left
        return {"numFilesOutstanding": str(files), "numBytesOutstanding": str(size)}

    # Snapshots.

    def _following(self, position: Position, until: int | None = None) -> list[Step]:
        """The snapshots after a position, and that of the position itself if some of its rows are left."""
        first = position.snapshot + 1 if position.is_whole else position.snapshot
        until = self.until if until is None else until
        all_steps = streams.steps(self.store, self.target.table.table_id, min(first, position.snapshot))
        newest = all_steps[-1].snapshot.snapshot_id if all_steps else self._newest().snapshot_id
        if newest < position.snapshot:
            raise StreamingError(
                f"The stream of {self.target.title} has read up to snapshot {position.snapshot}, and the newest one of "
                f"the lake is {newest}: its catalog was restored from a backup. Begin anew with another "
                "checkpointLocation."
            )
        last = newest if until is None else min(newest, until)
        steps = [step for step in all_steps if first <= step.snapshot.snapshot_id <= last]
        wanted = range(first, last + 1)
        if self.options.fail_on_data_loss and len(steps) != len(wanted):
            there = {step.snapshot.snapshot_id for step in steps}
            lost = [each for each in wanted if each not in there]
            raise StreamingError(
                f"Snapshots {lost[0]} to {lost[-1]} were expired before the stream of {self.target.title} read them. "
                "Begin anew with another checkpointLocation, or set failOnDataLoss to false to leave out their rows."
            )
        return steps

    def _usable(self, steps: Sequence[Step]) -> tuple[list[Step], StreamingError | None]:
        """The snapshots with rows of the stream, until one at which it has to stop, and why."""
        usable = []
        problem: StreamingError | None = None
        for step in steps:
            problem = self._stops(step)
            if problem is not None:
                break
            usable.append(step)
        changes, refused = taken([step.change for step in usable], self.options.policy)
        ids = {change.snapshot_id for change in changes}
        return [step for step in usable if step.snapshot.snapshot_id in ids], refused or problem

    def _stops(self, step: Step) -> StreamingError | None:
        target, at = self.target, step.snapshot.snapshot_id
        if step.change.drops:
            return StreamingError(
                f"Table {target.title} was dropped in snapshot {at}: its stream ends there."
            )
        if not step.change.alters or at <= target.known.snapshot_id:
            return None
        table = SnapshotReader(self.store, step.snapshot, self.scope.cache).table_of(target.table.table_id)
        if table is None or _shape(table.columns) == _shape(target.table.columns):
            return None
        return SchemaChangedError(
            f"The columns of table {target.title} changed in snapshot {at}. All rows before it were read; start the "
            "stream again to go on with the new columns."
        )

    def _require_base(self, base: int) -> None:
        if not self.store.query("SELECT 1 FROM ducklake_snapshot WHERE snapshot_id = ?", (base,)):
            raise StreamingError(
                f"Snapshot {base}, at which the stream of {self.target.title} began to read the table, was expired "
                "before all of it was read. Begin anew with another checkpointLocation."
            )

    def _require_same(self, offset: Offset) -> None:
        if offset.table != self.target.table.table_uuid:
            raise StreamingError(
                f"The checkpoint of the stream is of another table than {self.target.title} is now: that one was "
                "dropped or replaced. Begin anew with another checkpointLocation."
            )

    # Rows.

    def batch(self, start: Offset | None, end: Offset) -> DataFrame:
        """The rows after one offset, up to another one; the same rows each time.

        Raises:
            StreamingError: They cannot be read any more.
        """
        self.scope.require_open()
        self._require_same(end)
        if end.is_initial:
            return self._initial_batch(start, end)
        after = Position(end.base) if start is None else start.position
        if end.whole:
            after = max(after, Position(end.base))
        steps = self._following(after, until=end.position.snapshot)
        changes, problem = taken([step.change for step in steps], self.options.policy)
        if problem is not None:
            raise problem
        selection = Selection(after, end.position, self._left_out(after, end.position, steps, changes))
        if not changes:
            selection = Selection(end.position, end.position)
        reader = self._reader(selection, end.position.snapshot, is_net=False)
        return reader.changes() if self.options.policy.feed else reader.appended()

    def _left_out(
        self, after: Position, upto: Position, steps: Sequence[Step], changes: Sequence[TableChange]
    ) -> frozenset[int]:
        """Snapshots that have rows which do not belong to the stream: moved ones, passed over ones, expired ones."""
        belongs = {change.snapshot_id for change in changes}
        there = {step.snapshot.snapshot_id for step in steps}
        lost = {each for each in range(after.snapshot + 1, upto.snapshot + 1) if each not in there}
        others = [
            step.change for step in steps if step.change.snapshot_id not in belongs or step.change.rewrites
        ]
        return frozenset(lost | {each.snapshot_id for each in others if each.inserts or each.rewrites})

    def _initial_batch(self, start: Offset | None, end: Offset) -> DataFrame:
        self._require_base(end.base)
        selection = Selection(START if start is None else start.position, end.position)
        reader = self._reader(selection, end.base, is_net=True)
        return reader.initial_changes() if self.options.policy.feed else reader.appended()

    def _reader(self, selection: Selection, last: int, *, is_net: bool) -> StreamReader:
        """Reads what a selection picks of the rows that came up to a snapshot."""
        target, scope = self.target, self.scope
        # Of these two only the ids matter; the snapshots themselves may be lost.
        first, end = (Snapshot(each, 0, 0, 0, 0) for each in (max(0, selection.first), last))
        columns_at = max(end, target.known, key=lambda each: each.snapshot_id)
        info = LakeInfo(scope.name, scope.config.data_path, scope.config.is_encrypted, scope.access)
        choices = choices_of(scope.spark, "long")
        feed = make_feed(
            self.store,
            info,
            target.schema,
            target.table,
            first,
            end,
            choices,
            is_net=is_net,
            columns_at=columns_at,
        )
        return StreamReader(scope.spark, self.store, feed, selection)


def schema_of(scope: Scope, table: TableDef, options: StreamOptions) -> spark_types.StructType:
    """The columns of a table's stream."""
    return stream_schema(table, choices_of(scope.spark, "long"), is_feed=options.policy.feed)


def _reads_base(offset: Offset) -> bool:
    """Whether rows that the table had at the beginning are left to read."""
    return offset.whole and offset.position < Position(offset.base)


def _shape(columns: Sequence[ColumnDef]) -> tuple[object, ...]:
    """What of columns a reader sees."""
    return tuple(
        (column.column_id, column.name, str(column.data_type), _shape(column.children)) for column in columns
    )
