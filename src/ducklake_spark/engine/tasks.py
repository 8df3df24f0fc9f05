"""Reads and writes of tables by tasks that others run: planned, and committed once, where there is no Spark session."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog import ddl, streams
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine import inserts
from ducklake_spark.engine.formats import WriteOptions
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import AlreadyExistsError, ConflictError, FileError, InvalidInputError
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.types import duckdb_name
from ducklake_spark.scan.planning.plan import LakeInfo
from ducklake_spark.scan.worker_tasks import TableTasks, shown_schema, table_tasks
from ducklake_spark.workers.duckdb_encoder import Encoding
from ducklake_spark.write.encoders.encoding import require_level, rows_encoding
from ducklake_spark.write.expressions import check_assignable, needs_session
from ducklake_spark.write.failures import refused
from ducklake_spark.write.files import added_by_tasks
from ducklake_spark.write.merge_schema import merged
from ducklake_spark.write.rowlevel.truncate import all_rows
from ducklake_spark.write.schema import column_specs
from ducklake_spark.write.target import Target, place_of
from ducklake_spark.write.values import Fields, column_positions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def table_schema(scope: Scope, name: Name) -> StructType:
    """The columns of a table, as tasks show them."""
    return shown_schema(_table(scope, scope.read_transaction(), name).columns)


def read(scope: Scope, name: Name, filters: Sequence[Any], tasks: int) -> TableTasks:
    """What tasks read of a table at the snapshot of the scope."""
    tx = scope.read_transaction()
    table = _table(scope, tx, name)
    info = LakeInfo(scope.name, scope.config.data_path, scope.config.is_encrypted)
    return table_tasks(tx.store, info, tx.schema_of(table.schema_id), table, tx.snapshot, filters, tasks)


def _table(scope: Scope, tx: Transaction, name: Name) -> TableDef:
    schema, own = scope.resolve(tx, name)
    if tx.table(schema, own) is None and tx.view(schema, own) is not None:
        raise InvalidInputError(
            f'"{schema.name}"."{own}" is a view, which needs a Spark session to be read. Read its tables instead, '
            "or attach the lake in the client and use lake.table()."
        )
    return ddl.get_table(tx, schema, own)


@dataclass(frozen=True)
class TaskWrite:
    """A write that tasks do.

    Attributes:
        name: The table.
        options: How it is written.
        schema: The rows that come.
        table: The table as it will be, for which the files are written.
        shape: What of it the files depend on, as a text: values change their classes where they travel by value.
        encoding: What a task does with its rows, whose columns are called `c0`, `c1` ...
    """

    name: tuple[str, ...]
    options: WriteOptions
    schema: StructType
    table: TableDef
    shape: str
    encoding: Encoding

    @property
    def fields(self) -> Fields:
        """The names and types of the rows that come."""
        return [(part.name, part.dataType) for part in self.schema.fields]

    def forget(self) -> None:
        """Removes all that tasks wrote. A task that is late finds no folder to write to."""
        shutil.rmtree(self.encoding.folder, ignore_errors=True)


def plan_write(scope: Scope, name: Name, schema: StructType, options: WriteOptions) -> TaskWrite:
    """Checks a write and says what its tasks do. Changes nothing in the lake.

    Raises:
        InvalidInputError: The rows do not fit the table, or something is asked for that needs a session.
    """
    options.check()
    _require_possible(options)
    scope.require_open()
    scope.require_writable()
    tx = scope.new_transaction()
    target = _target(scope, tx, name, schema, options)
    if target.is_remote:
        raise InvalidInputError(
            f'The data of the lake "{scope.name}" is in an object store, {scope.config.data_path}, which a Python data '
            "source has no settings to reach. Attach the lake in the client and use the methods of its tables."
        )
    require_level(target)
    fields = [(part.name, part.dataType) for part in schema.fields]
    for column, position in column_positions(target, fields).items():
        given, where = fields[position][1], f'"{target.table.name}.{column.name}"'
        check_assignable(given, column.data_type, where)
        if needs_session(given, column.data_type):
            raise InvalidInputError(
                f"Column {where} is {duckdb_name(column.data_type)}, and the rows have {given.simpleString()}: workers "
                "do not know the session by which Spark casts that. Cast it in the DataFrame first."
            )
    job = os.path.join(place_of(target.folder), f"job-{uuid.uuid4()}")
    encoding = rows_encoding(target, fields, job, target.inline_limit)
    try:
        os.makedirs(job)
    except OSError as error:
        raise refused(target, error) or FileError(f"{job} cannot be made: {error}.") from None
    return TaskWrite(tuple(name), options, schema, target.table, _shape(target.table), encoding)


def commit_write(scope: Scope, write: TaskWrite, results: Sequence[tuple[str, str]]) -> None:
    """Commits what tasks wrote, all of it as one snapshot, or nothing. Their folder is gone afterwards."""

    def run(tx: Transaction) -> None:
        options = write.options
        target = _target(scope, tx, write.name, write.schema, options)
        table = target.table
        if (
            options.transaction is not None
            and streams.last_batch(tx, table.table_id, options.transaction[0]) >= (options.transaction[1])
        ):
            return
        if _shape(table) != write.shape:
            raise ConflictError(
                f'Transaction conflict: table "{table.name}" was altered while rows for it were written. Nothing was '
                "written; run it again."
            )
        added = added_by_tasks(target, write.fields, write.encoding, results)
        if options.mode == "overwrite":
            for change in all_rows(target, None)[0]:
                tx.apply(change)
        inserts.add(tx, added)
        if options.transaction is not None and tx.edits.makes_snapshot:
            streams.mark_batch(tx, table.table_id, *options.transaction)

    try:
        # The files are there once only: a conflict is for the user to see.
        scope.statement(run, most_retries=0)
    finally:
        write.forget()


def _target(scope: Scope, tx: Transaction, name: Name, schema: StructType, options: WriteOptions) -> Target:
    """The table as the target of the write, created or widened in the transaction where that is asked for."""
    where, own = scope.resolve(tx, name)
    table = tx.table(where, own)
    if table is not None and options.mode == "error":
        raise AlreadyExistsError(
            f'Table "{where.name}.{own}" exists already. Write with mode "append" or "overwrite".'
        )
    if table is None or options.overwrite_schema:
        table = ddl.create_table(
            tx,
            where,
            own,
            column_specs(schema, own, not_null=(), defaults={}),
            partitioned_by=options.partitioned_by,
            or_replace=table is not None,
        )
    elif options.merge_schema:
        table = merged(tx, table, schema)
    return inserts.target_of(scope, tx, table)


def _shape(table: TableDef) -> str:
    """What files that were written for a table depend on."""
    keys = None if table.partitioning is None else table.partitioning.keys
    return repr((table.columns, keys, table.sorting))


def _require_possible(options: WriteOptions) -> None:
    if options.where is not None or options.by_partition:
        what = "replaceWhere" if options.where is not None else "partitionOverwriteMode=dynamic"
        raise InvalidInputError(
            f"{what} must read the table to know which rows to replace, which a Python data source cannot. Attach the "
            "lake in the client: lake[table].overwrite(rows, where) and .overwrite_partitions(rows) do it."
        )
