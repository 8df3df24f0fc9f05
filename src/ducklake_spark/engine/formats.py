"""What `df.write.format("ducklake")` does: one commit that creates a table, adds to it or replaces its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ducklake_spark.catalog import ddl, streams
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine import inserts
from ducklake_spark.engine import rows as row_changes
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.names import Name
from ducklake_spark.write.schema import column_specs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class WriteOptions:
    """How a DataFrame is written.

    Args:
        mode: `append`, `overwrite`, `ignore`, or `error` when the table exists.
        where: Overwrite only the rows for which this holds.
        by_partition: Overwrite only the partitions that there are rows for.
        merge_schema: Add columns that the table does not have.
        overwrite_schema: Overwrite the table with its columns.
        partitioned_by: The partition keys of a table that is created.
        sorted_by: Its sort keys.
        transaction: A name and a number; a number that is not higher than the last one of this name writes nothing.
    """

    mode: str
    where: str | None = None
    by_partition: bool = False
    merge_schema: bool = False
    overwrite_schema: bool = False
    partitioned_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    transaction: tuple[str, int] | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether an overwrite leaves rows that were there."""
        return self.where is not None or self.by_partition

    def check(self) -> None:
        """Raises InvalidInputError for options that contradict each other."""
        narrow = [
            name
            for name, given in (
                ("replaceWhere", self.where),
                ("partitionOverwriteMode=dynamic", self.by_partition),
            )
            if given
        ]
        if narrow and self.mode != "overwrite":
            raise InvalidInputError(
                f'{narrow[0]} belongs to mode "overwrite"; this write has mode "{self.mode}".'
            )
        if len(narrow) > 1:
            raise InvalidInputError(f"Give {narrow[0]} or {narrow[1]}, not both.")
        if self.overwrite_schema and (self.mode != "overwrite" or narrow or self.merge_schema):
            raise InvalidInputError(
                'overwriteSchema replaces the table: it belongs to mode "overwrite", without replaceWhere, '
                "partitionOverwriteMode=dynamic and mergeSchema."
            )


def write(scope: Scope, name: Name, frame: DataFrame, options: WriteOptions) -> bool:
    """Writes a DataFrame; False if nothing was done because the table, or the numbered write, is there already."""
    options.check()

    def run(tx: Transaction) -> bool:
        schema, own = scope.resolve(tx, name)
        table = tx.table(schema, own)
        if table is not None and options.mode in ("ignore", "error"):
            return False
        if table is not None and is_done(tx, table.table_id, options):
            return True
        if table is None or options.overwrite_schema:
            specs = column_specs(frame.schema, own, not_null=(), defaults={})
            replaces = table is not None
            table = ddl.create_table(
                tx,
                schema,
                own,
                specs,
                partitioned_by=options.partitioned_by,
                sorted_by=options.sorted_by,
                or_replace=replaces,
            )
            inserts.add_rows(scope, tx, table, frame)
        elif options.mode == "append":
            row_changes.insert(scope, tx, table, frame, merge_schema=options.merge_schema)
        else:
            row_changes.overwrite_frame(
                scope,
                tx,
                table,
                frame,
                options.where,
                by_partition=options.by_partition,
                merge_schema=options.merge_schema,
            )
        mark_done(tx, table.table_id, options)
        return True

    return scope.statement(run)


def is_done(tx: Transaction, table_id: int, options: WriteOptions) -> bool:
    """Whether a table took the numbered write already."""
    if options.transaction is None:
        return False
    name, number = options.transaction
    return streams.last_batch(tx, table_id, name) >= number


def mark_done(tx: Transaction, table_id: int, options: WriteOptions) -> None:
    """Lets the table remember the numbered write, if it wrote something."""
    if options.transaction is not None and tx.edits.makes_snapshot:
        streams.mark_batch(tx, table_id, *options.transaction)
