"""The methods of `Lake` that give change data feeds: the rows that came, went or changed between two snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ducklake_spark.format.names import Name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.engine.feeds import Bound
    from ducklake_spark.engine.scope import Scope
    from ducklake_spark.scan.projection.types import TimestampNs


class LakeChangeFeeds:
    """The change data feeds of a lake; a part of `Lake`."""

    _scope: Scope

    def table_changes(
        self,
        name: Name,
        start: Bound,
        end: Bound | None = None,
        *,
        net: bool = False,
        timestamp_ns: TimestampNs = "long",
    ) -> DataFrame:
        """The change data feed of a table from one snapshot to another, both included: what became of each row.

        The columns are `snapshot_id`, `rowid`, `change_type` (`insert`, `delete`, `update_preimage`,
        `update_postimage`) and those that the table has at the end. Only files of these snapshots are read.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int"})
        >>> table.insert([{"a": 1}, {"a": 2}]), table.update({"a": "20"}, "a = 2")
        (2, 1)
        >>> lake.table_changes("t", 3, 3).select("change_type", "a").orderBy("change_type").collect()
        [Row(change_type='update_postimage', a=20), Row(change_type='update_preimage', a=2)]
        >>> lake.table_changes("t", 0, 3, net=True).select("change_type", "a").orderBy("a").collect()
        [Row(change_type='insert', a=1), Row(change_type='insert', a=20)]

        Args:
            name: `table` or `schema.table`.
            start: The first snapshot: a version, or a time (the first snapshot from then on).
            end: The last snapshot: a version, or a time (the last snapshot until then); the newest without one.
            net: Only what became of each row in sum: nothing for a row that came and went, one pair of images for a
                row that was updated many times. `snapshot_id` says when the image that is shown came or went.
            timestamp_ns: Show nanosecond timestamps as "long" (nothing is lost) or "micros".

        Raises:
            SnapshotNotFoundError: There is no such snapshot.
            NotFoundError: There is no such table at the end.
        """
        from ducklake_spark.engine import feeds

        return feeds.changes(self._scope, name, start, end, net=net, timestamp_ns=timestamp_ns)

    def table_insertions(
        self,
        name: Name,
        start: Bound,
        end: Bound | None = None,
        *,
        virtual_columns: Sequence[str] = (),
        timestamp_ns: TimestampNs = "long",
    ) -> DataFrame:
        """The rows that were added to a table from one snapshot to another, new versions of updated rows too.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.insert([(1, "x"), (2, "y")]), table.update({"b": "'z'"}, "a = 2")
        (2, 1)
        >>> lake.table_insertions("t", 3, 3, virtual_columns=["rowid"]).collect()
        [Row(a=2, b='z', rowid=1)]

        Args:
            name: `table` or `schema.table`.
            start: The first snapshot, as in `table_changes`.
            end: The last snapshot, as in `table_changes`.
            virtual_columns: Add `rowid` or `snapshot_id` behind the table's own columns.
            timestamp_ns: Show nanosecond timestamps as "long" (nothing is lost) or "micros".
        """
        from ducklake_spark.engine import feeds

        return feeds.insertions(self._scope, name, start, end, virtual_columns, timestamp_ns)

    def table_deletions(
        self,
        name: Name,
        start: Bound,
        end: Bound | None = None,
        *,
        virtual_columns: Sequence[str] = (),
        timestamp_ns: TimestampNs = "long",
    ) -> DataFrame:
        """The rows that were removed from a table from one snapshot to another, old versions of updated rows too.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.insert([(1, "x"), (2, "y")]), table.delete("a = 2")
        (2, 1)
        >>> lake.table_deletions("t", 3, 3).collect()
        [Row(a=2, b='y')]

        Args:
            name: `table` or `schema.table`.
            start: The first snapshot, as in `table_changes`.
            end: The last snapshot, as in `table_changes`.
            virtual_columns: Add `rowid` or `snapshot_id` behind the table's own columns.
            timestamp_ns: Show nanosecond timestamps as "long" (nothing is lost) or "micros".
        """
        from ducklake_spark.engine import feeds

        return feeds.deletions(self._scope, name, start, end, virtual_columns, timestamp_ns)
