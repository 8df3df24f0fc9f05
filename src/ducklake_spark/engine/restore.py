"""`Table.restore()`: the net changes since a snapshot, undone in a new one.

Files that ended since then are used again under a new name of the same bytes. Under their old name they would be
removed with the snapshots that saw them first: the catalog schedules a file for deletion by its old row, without
regard to another one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ducklake_spark.catalog.snapshot import SnapshotReader
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import DuckLakeError, NotFoundError, TransactionError, TypeChangeError
from ducklake_spark.format.columns import ColumnDef, walk_all
from ducklake_spark.format.data import DataFile, FileDeletes
from ducklake_spark.format.edits import (
    ChangeColumns,
    CommentColumn,
    CommentTable,
    DeleteRows,
    InsertFiles,
    SetPartitioning,
    SetSorting,
)
from ducklake_spark.format.encryption import key_of
from ducklake_spark.format.objects import Snapshot, TableDef, is_local, uuid7
from ducklake_spark.format.partitioning import Partitioning
from ducklake_spark.format.statistics import ColumnStats
from ducklake_spark.scan.change_feed.frames import ChangeReader
from ducklake_spark.scan.change_feed.plan import Feed, FeedFile, make_feed
from ducklake_spark.scan.planning.plan import LakeInfo
from ducklake_spark.scan.projection.types import choices_of
from ducklake_spark.workers.object_store import is_remote
from ducklake_spark.write.failures import explained, refused
from ducklake_spark.write.insert import rows_to_add
from ducklake_spark.write.rowlevel.deletes import LOCATOR, delete_matching, inlined_delete_counts
from ducklake_spark.write.target import Target, place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def restore(scope: Scope, tx: Transaction, table: TableDef, then: Snapshot) -> None:
    """Adds to a transaction what makes a table that of an earlier snapshot.

    Raises:
        NotFoundError: The table was not there then.
        TypeChangeError: A type was widened since.
        TransactionError: The transaction has changed the table already.
    """
    old = _old_table(scope, tx, table, then)
    now = _restore_schema(tx, table, old)
    _Rows(scope, tx, now, then).restore()


def _old_table(scope: Scope, tx: Transaction, table: TableDef, then: Snapshot) -> TableDef:
    if table.table_id in tx.edits.tables or is_local(table.table_id):
        raise TransactionError(
            f'Cannot restore table "{table.name}" in a transaction that has changed it. Commit or roll back first.'
        )
    old = SnapshotReader(tx.store, then, scope.cache).table_of(table.table_id)
    if old is None:
        raise NotFoundError(
            f'Table "{table.name}" was not there at version {then.snapshot_id}: it was created later, perhaps under '
            "the name of a table that was dropped. See history() for its versions."
        )
    types = {node.column_id: node for node, _ in walk_all(old.columns)}
    for column_id, later in tx.store.query(
        "SELECT column_id, column_type FROM ducklake_column WHERE table_id = ? AND begin_snapshot > ?",
        (table.table_id, then.snapshot_id),
    ):
        if column_id in types and str(later).lower() != types[column_id].type:
            node = types[column_id]
            raise TypeChangeError(
                f'Cannot restore table "{table.name}" to version {then.snapshot_id}: "{node.name}" was {node.type} '
                f"then and became {str(later).lower()} since, and types cannot be narrowed in place. Make a new "
                f'table of lake.table("{table.name}", version={then.snapshot_id}) instead.'
            )
    return old


# Schema


def _restore_schema(tx: Transaction, table: TableDef, old: TableDef) -> TableDef:
    """Columns that were dropped come back under their ids, so that files and inlined rows still have their values."""
    now_nodes, old_nodes = _nodes(table.columns), _nodes(old.columns)
    if now_nodes != old_nodes:
        rewritten = frozenset(i for i, node in old_nodes.items() if i in now_nodes and now_nodes[i] != node)
        tx.apply(ChangeColumns(table, old.columns, table.next_column_id, rewritten))
    comments = {column.column_id: column.comment for column in table.columns}
    for column in old.columns:
        if comments.get(column.column_id) != column.comment:
            tx.apply(CommentColumn(_now(tx, table), column.column_id, column.comment))
    if table.comment != old.comment:
        tx.apply(CommentTable(_now(tx, table), old.comment))
    keys = old.partitioning.keys if old.partitioning is not None else ()
    if keys != (table.partitioning.keys if table.partitioning is not None else ()):
        tx.apply(SetPartitioning(_now(tx, table), Partitioning(tx.edits.new_id(), keys)))
    sort_keys = old.sorting.keys if old.sorting is not None else ()
    if sort_keys != (table.sorting.keys if table.sorting is not None else ()):
        sorting = replace(old.sorting, sort_id=tx.edits.new_id()) if old.sorting is not None else None
        tx.apply(SetSorting(_now(tx, table), sorting))
    return _now(tx, table)


def _now(tx: Transaction, table: TableDef) -> TableDef:
    return tx.table_of(table.table_id) or table


def _nodes(columns: Sequence[ColumnDef]) -> dict[int, tuple[ColumnDef, int | None]]:
    """Every node by itself, with its parent."""
    return {node.column_id: (replace(node, children=()), parent) for node, parent in walk_all(columns)}


# Rows


class _Rows:
    def __init__(self, scope: Scope, tx: Transaction, table: TableDef, then: Snapshot) -> None:
        self.scope, self.tx, self.table, self.then = scope, tx, table, then
        self.schema = tx.schema_of(table.schema_id)
        self.target = Target(tx, self.schema, table, scope.config.data_path, scope.access, has_row_ids=True)
        self.feed: Feed = make_feed(
            tx.store,
            LakeInfo(scope.name, scope.config.data_path, scope.config.is_encrypted, scope.access),
            self.schema,
            table,
            replace(then, snapshot_id=then.snapshot_id + 1),
            tx.snapshot,
            choices_of(scope.spark, "long"),
            is_net=True,
        )

    def restore(self) -> None:
        again = [file for file in self.feed.deleted if self._is_usable(file)]
        self._use_again(again)
        self._remove_new()
        rest = [file for file in self.feed.deleted if file not in again]
        rows = self._reader(replace(self.feed, deleted=tuple(rest))).old_rows()
        added = None if rows is None else rows_to_add(self.target, rows)
        if added is not None:
            self.tx.apply(added)

    def _reader(self, feed: Feed) -> ChangeReader:
        return ChangeReader(self.scope.spark, self.tx.store, feed)

    def _remove_new(self) -> None:
        """Ends what began since: whole files, inlined rows, and rows in files that must not end."""
        kept = inlined_delete_counts(self.target)
        mixed = [
            file
            for file in self.feed.inserted
            if file.begin_snapshot <= self.then.snapshot_id or file.data_file_id in kept
        ]
        locators = self._reader(self.feed).new_locators(mixed)
        if locators is not None:
            change, _ = delete_matching(self.target, _located(locators))
            if change is not None:
                self.tx.apply(change)
        ended = tuple(
            FileDeletes(file.data_file_id, ended=True) for file in self.feed.inserted if file not in mixed
        )
        inlined = tuple(
            (name, tuple(int(row[0]) for row in versions.inserted))
            for name, versions in self.feed.inlined.items()
            if versions.inserted
        )
        if ended or inlined:
            self.tx.apply(DeleteRows(self.table, ended, inlined))

    # Files that are used again

    def _is_usable(self, file: FeedFile) -> bool:
        """Whether the rows of a file that ended can come back with it: it says nothing of snapshots or names."""
        has_ended = file.end_snapshot is not None and file.end_snapshot <= self.tx.snapshot.snapshot_id
        has_variants = any(column.type == "variant" for column in self.table.columns)
        return has_ended and not file.is_partial and file.mapping_id is None and not has_variants

    def _use_again(self, files: Sequence[FeedFile]) -> None:
        if not files:
            return
        facts = self._facts()
        self.tx.apply(
            InsertFiles(self.table, tuple(self._linked(file, facts[file.data_file_id]) for file in files))
        )
        ids = {file.data_file_id: -1 - place for place, file in enumerate(files)}
        positions = replace(
            self.feed.positions,
            files=tuple(each for each in self.feed.positions.files if each.data_file_id in ids),
            inlined=tuple(each for each in self.feed.positions.inlined if each[0] in ids),
        )
        locators = self._reader(replace(self.feed, positions=positions)).deleted_locators()
        if locators is None:
            return
        file_id, position, at = locators.columns
        old = locators.where(F.col(at) <= F.lit(self.then.snapshot_id))
        pairs = ",".join(f"{real}:{local}" for real, local in ids.items())
        local = F.str_to_map(F.lit(pairs))[F.col(file_id).cast("string")].cast("long")
        change, _ = delete_matching(
            self.target, _located(old.select(local.alias("f"), F.col(position).alias("p")))
        )
        if change is not None:
            self.tx.apply(change)

    def _facts(self) -> dict[int, DataFile]:
        """What the catalog says of files, as new ones."""
        table_id, then = self.table.table_id, self.then.snapshot_id
        ended = (
            "SELECT data_file_id FROM ducklake_data_file WHERE table_id = ? AND begin_snapshot <= ? AND "
            "end_snapshot > ?"
        )
        params = (table_id, table_id, then, then)
        rows, stats, values = self.tx.store.query_many(
            [
                (
                    "SELECT data_file_id, record_count, file_size_bytes, footer_size, row_id_start, partition_id, "
                    "encryption_key FROM "
                    f"ducklake_data_file WHERE table_id = ? AND data_file_id IN ({ended})",
                    params,
                ),
                (
                    "SELECT data_file_id, column_id, column_size_bytes, value_count, null_count, min_value, max_value, "
                    "contains_nan, extra_stats FROM ducklake_file_column_stats WHERE table_id = ? AND data_file_id IN "
                    f"({ended}) ORDER BY data_file_id, column_id",
                    params,
                ),
                (
                    "SELECT data_file_id, partition_value FROM ducklake_file_partition_value WHERE table_id = ? AND "
                    f"data_file_id IN ({ended}) ORDER BY data_file_id, partition_key_index",
                    params,
                ),
            ]
        )
        columns: dict[int, list[ColumnStats]] = {}
        for file_id, column_id, size, count, nulls, low, high, nan, extra in stats:
            is_nan = None if nan is None else bool(nan)
            columns.setdefault(file_id, []).append(
                ColumnStats(column_id, size, count, nulls, low, high, is_nan, extra)
            )
        keys: dict[int, list[str | None]] = {}
        for file_id, value in values:
            keys.setdefault(file_id, []).append(value)
        return {
            file_id: DataFile(
                path="",
                path_is_relative=True,
                record_count=int(count),
                file_size_bytes=int(size),
                footer_size=footer,
                columns=tuple(columns.get(file_id, ())),
                partition_id=partition_id,
                partition_values=tuple(keys.get(file_id, ())),
                has_row_ids=True,
                row_id_start=start,
                key=key_of(key),
            )
            for file_id, count, size, footer, start, partition_id, key in rows
        }

    def _linked(self, file: FeedFile, facts: DataFile) -> DataFile:
        """Another name of the same bytes, or a copy where the storage has no second names."""
        source, folder = place_of(file.path), place_of(self.target.folder)
        name = f"ducklake-{uuid7()}.parquet"
        whole = os.path.join(folder, name)
        if self.target.is_remote or is_remote(source):
            self.tx.written.append(whole)
            try:
                explained(self.target, lambda: self.target.access([source]).copy(source, whole))
            except OSError as error:
                raise self._unreadable(source, error) from error
            return replace(facts, path=name, whole_path=whole)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise refused(self.target, error) or error from None
        self.tx.written.append(whole)
        try:
            try:
                os.link(source, whole)
            except FileNotFoundError:
                raise
            except OSError:
                shutil.copyfile(source, whole)
        except OSError as error:
            raise self._unreadable(source, error) from error
        return replace(facts, path=name, whole_path=whole)

    def _unreadable(self, source: str, error: OSError) -> DuckLakeError:
        return DuckLakeError(
            f'Cannot restore table "{self.table.name}" to version {self.then.snapshot_id}: its data file {source} '
            f"cannot be read ({error})."
        )


def _located(locators: DataFrame) -> DataFrame:
    """Positions of rows in files, as `delete_matching` takes them."""
    file_id, position = (F.col(name) for name in locators.columns)
    missing = F.lit(None).cast("string")
    return locators.select(
        *(part.alias(name) for part, name in zip((file_id, missing, position), LOCATOR, strict=True))
    )
