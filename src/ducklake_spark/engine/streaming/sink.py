"""A table as the sink of a stream: each batch is one commit, and a batch that comes again changes nothing."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ducklake_spark.catalog import ddl, streams
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine import rows as row_changes
from ducklake_spark.engine.merge import MergeClause, run_merge
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import InvalidInputError, did_you_mean
from ducklake_spark.format.columns import find
from ducklake_spark.format.names import Name, ticked
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.rows import CommitInfo
from ducklake_spark.write.schema import column_specs

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

APPEND, COMPLETE, UPDATE = "append", "complete", "update"


@dataclass(frozen=True)
class SinkOptions:
    """How batches are written.

    Args:
        mode: `append` adds rows, `complete` replaces all of them, `update` merges them by keys.
        merge_keys: The columns by which `update` finds the row that a new one replaces.
        merge_schema: Whether columns that the table does not have are added to it.
        partitioned_by: The partition keys of a table that the first batch creates.
        sorted_by: Its sort keys.
    """

    mode: str = APPEND
    merge_keys: tuple[str, ...] = ()
    merge_schema: bool = False
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()


class TableSink:
    """Writes batches of a streaming query into a table."""

    def __init__(self, scope: Scope, name: Name, options: SinkOptions) -> None:
        scope.require_writable()
        if options.mode == UPDATE and not options.merge_keys:
            raise InvalidInputError(
                'Output mode "update" replaces rows of the table: name the columns that tell which, as option '
                'mergeKeys ("id" or "region, id"). Or use output mode "append" or "complete".'
            )
        if options.merge_keys and options.mode != UPDATE:
            raise InvalidInputError(
                f'mergeKeys belongs to output mode "update"; this stream has "{options.mode}".'
            )
        self.scope, self.name, self.options = scope, name, options

    def add(self, query: str, batch: int, frame: DataFrame) -> bool:
        """Commits a batch; False if the table has it already."""
        if batch < 0:
            raise InvalidInputError(f"A batch has a number from 0 on, not {batch}.")

        def run(tx: Transaction) -> bool:
            table = self._table(tx, frame)
            if streams.last_batch(tx, table.table_id, query) >= batch:
                return False
            self._write(tx, table, frame)
            if tx.edits.makes_snapshot:
                told = json.dumps({"streaming_query": query, "batch": batch})
                tx.info = CommitInfo(None, f"batch {batch} of the streaming query {query}", told)
                streams.mark_batch(tx, table.table_id, query, batch)
            return True

        return self.scope.statement(run)

    def _table(self, tx: Transaction, frame: DataFrame) -> TableDef:
        """The table, which the first batch may create."""
        schema, own = self.scope.resolve(tx, self.name)
        found = tx.table(schema, own)
        if found is not None:
            return found
        specs = column_specs(frame.schema, own, not_null=(), defaults={})
        keys = self.options
        return ddl.create_table(
            tx, schema, own, specs, partitioned_by=keys.partitioned_by, sorted_by=keys.sorted_by
        )

    def _write(self, tx: Transaction, table: TableDef, frame: DataFrame) -> None:
        scope, options = self.scope, self.options
        if options.mode == APPEND:
            row_changes.insert(scope, tx, table, frame, merge_schema=options.merge_schema)
        elif options.mode == COMPLETE:
            row_changes.overwrite_frame(
                scope, tx, table, frame, None, by_partition=False, merge_schema=options.merge_schema
            )
        else:
            self._merge(tx, table, frame)

    def _merge(self, tx: Transaction, table: TableDef, frame: DataFrame) -> None:
        from pyspark.sql import functions as F

        for key in self.options.merge_keys:
            for known, what in (
                (frame.columns, "the stream"),
                ([c.name for c in table.columns], "the table"),
            ):
                if key.lower() not in {name.lower() for name in known}:
                    raise InvalidInputError(
                        f'mergeKeys names "{key}", which {what} has not.{did_you_mean(key, known)}'
                    )

        def same(key: str) -> Column:
            target, source = F.col(f"target.{ticked(key)}"), F.col(f"source.{ticked(key)}")
            column = find(table.columns, key)
            # Only plain equality lets a merge look for its rows in few files.
            is_plain = column is not None and not column.nulls_allowed
            return target == source if is_plain else target.eqNullSafe(source)

        on = functools.reduce(lambda one, other: one & other, map(same, self.options.merge_keys))
        clauses = [MergeClause("matched", "update", None), MergeClause("not matched", "insert", None)]
        schema = tx.schema_of(table.schema_id)
        run_merge(
            self.scope, (schema.name, table.name), frame, on, clauses, merge_schema=self.options.merge_schema
        )
