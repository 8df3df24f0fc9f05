"""Rows that Spark hands to a lake, and analyzed DELETE, UPDATE and MERGE: each one statement on a table."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyspark.sql.types as spark_types

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine import format_options, formats
from ducklake_spark.engine import rows as row_changes
from ducklake_spark.engine.formats import WriteOptions
from ducklake_spark.engine.merge import MergeClause, run_merge
from ducklake_spark.engine.scope import Scope, scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.types import quote
from ducklake_spark.spark.native.catalog import Statement, frame_of
from ducklake_spark.sql.native.definitions import Definitions, Facts
from ducklake_spark.sql.native.loaded import Loaded, LoadedTables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ducklake_spark.api.lake import Lake

_ACTIONS = {"DeleteAction": "delete", "UpdateAction": "update", "InsertAction": "insert"}


class Writes:
    """What Spark changes in the tables of a lake."""

    def __init__(self, lake: Lake, loaded: LoadedTables, definitions: Definitions) -> None:
        self._lake, self._loaded, self._definitions = lake, loaded, definitions
        self._staged: dict[str, Facts] = {}
        self._lock = threading.Lock()

    # CREATE TABLE AS and REPLACE TABLE.

    def stage(self, facts: Facts, _: Any) -> str:
        """A table that is to be created or replaced when its rows are there."""
        name = self._definitions.require_new(facts, facts["mode"])
        handle = json.dumps({"table": facts["name"], "staged": uuid.uuid4().hex})
        with self._lock:
            self._staged[handle] = facts
        schema = spark_types.StructType.fromJson(json.loads(facts["schema"]))
        return self._loaded.staged(name, schema, handle)

    def commit_staged(self, facts: Facts, _: Any) -> None:
        """The end of such a statement; without rows it is done now."""
        with self._lock:
            staged = self._staged.pop(facts["handle"], None)
        if staged is not None:
            self._definitions.create_with(staged)

    def abort_staged(self, facts: Facts, _: Any) -> None:
        """It failed."""
        with self._lock:
            self._staged.pop(facts["handle"], None)

    # Rows.

    def truncate(self, facts: Facts, _: Any) -> None:
        """TRUNCATE TABLE."""
        scope = scope_of(self._lake)
        self._run(
            self._loaded.find(facts["handle"]), lambda tx, table: row_changes.truncate(scope, tx, table)
        )

    def write(self, facts: Facts, objects: Sequence[Any]) -> None:
        """Rows for a table, or a statement that changes its rows."""
        frame = frame_of(self._lake.spark, objects[0])
        with self._lock:
            staged = self._staged.pop(facts["handle"], None)
        if staged is not None:
            self._create(staged, frame, facts["options"])
            return
        loaded = self._loaded.find(facts["handle"])
        command = facts.get("command")
        if command is not None:
            self._command(loaded, command, objects, facts["options"])
            return
        scope = scope_of(self._lake)
        if facts["truncate"]:
            self._run(loaded, lambda tx, table: row_changes.overwrite(scope, tx, table, frame))
        else:
            how = format_options.of_catalog(facts["options"], "append")
            self._run(
                loaded,
                lambda tx, table: row_changes.insert(scope, tx, table, frame, merge_schema=how.merge_schema),
                how,
            )

    def _create(self, staged: Facts, frame: DataFrame, options: Mapping[str, str]) -> None:
        """A table with its rows; where an overwrite is to leave rows that were there, the table stays."""
        replaces = staged["mode"] == "create or replace"
        how = format_options.of_catalog(options, "overwrite" if replaces else "error")
        scope, name = scope_of(self._lake), self._definitions.name(staged)
        if how.is_narrow and name in self._lake:
            formats.write(scope, name, frame, how)
            return

        def run(tx: Transaction) -> None:
            known = self._lake[name].definition if name in self._lake else None
            if known is None or not formats.is_done(tx, known.table_id, how):
                self._definitions.create_with(staged, frame)
                formats.mark_done(tx, self._lake[name].definition.table_id, how)

        scope.statement(run)

    def _run(
        self, loaded: Loaded, run: Callable[[Transaction, TableDef], Any], how: WriteOptions | None = None
    ) -> None:
        """Runs a statement on the table that was loaded, whatever it is called by now."""
        assert loaded.table is not None
        wanted = loaded.table

        def on_table(tx: Transaction) -> None:
            table = tx.table_of(wanted.table_id)
            if table is None:
                raise NotFoundError(f'The table "{wanted.name}" was dropped meanwhile.')
            if how is None:
                run(tx, table)
            elif not formats.is_done(tx, table.table_id, how):
                run(tx, table)
                formats.mark_done(tx, table.table_id, how)

        scope_of(self._lake).statement(on_table)

    def _command(
        self, loaded: Loaded, command: Mapping[str, Any], objects: Sequence[Any], options: Mapping[str, str]
    ) -> None:
        spark = self._lake.spark
        given = [objects[i] for i in range(len(objects))]
        how = format_options.of_catalog(options, "overwrite")

        def run(tx: Transaction, table: TableDef) -> None:
            versions = loaded.tx.snapshot.snapshot_id, tx.snapshot.snapshot_id
            statement = Statement(spark, given[command["relation"]], *versions)
            if how.merge_schema:
                table = row_changes.widened(tx, table, statement.frame(given[0]))
            _Command(scope_of(self._lake), tx, table, statement, given).run(command, how)

        self._run(loaded, run, how)


class _Command:
    """An analyzed statement that changes rows, run once in a transaction."""

    def __init__(
        self, scope: Scope, tx: Transaction, table: TableDef, statement: Statement, given: Sequence[Any]
    ) -> None:
        self._on = (scope, tx, table)
        self._statement, self._given = statement, given

    def run(self, command: Mapping[str, Any], how: WriteOptions) -> None:
        """Runs it."""
        rows = self._given[0]
        condition = self._column(command.get("condition"))
        known = self._statement.known
        kind = command["kind"]
        if kind == "OverwritePartitionsDynamic" or (kind == "OverwriteByExpression" and condition is None):
            # A table without partitions is one: Spark comes this way with it when all overwrites are to be dynamic.
            by_partition = how.by_partition or kind == "OverwritePartitionsDynamic"
            row_changes.overwrite_frame(
                *self._on,
                self._statement.frame(rows),
                how.where,
                by_partition=by_partition,
                merge_schema=False,
            )
        elif kind == "OverwriteByExpression":
            row_changes.overwrite(*self._on, self._statement.frame(rows), condition, known)
        elif kind == "DeleteFromTable" and condition is None:
            row_changes.truncate(*self._on)
        elif kind == "DeleteFromTable":
            assert condition is not None
            row_changes.delete(*self._on, condition, known)
        elif kind == "UpdateTable":
            row_changes.update(*self._on, self._values(command["values"]), condition, known)
        elif kind == "MergeIntoTable":
            self._merge(command, condition)
        else:
            raise InvalidInputError(f"A lake has no {kind}.")

    def _merge(self, command: Mapping[str, Any], condition: Column | None) -> None:
        from pyspark.sql import functions as F

        scope, tx, table = self._on
        clauses = [
            MergeClause(
                each["kind"],
                _action(each["action"]),
                self._column(each["condition"]),
                self._values(each["values"]) if "values" in each else None,
            )
            for each in command["clauses"]
        ]
        run_merge(
            scope,
            (tx.schema_of(table.schema_id).name, table.name),
            self._statement.frame(self._given[command["source"]]),
            F.lit(True) if condition is None else condition,
            clauses,
            named=self._statement.known,
        )

    def _column(self, place: int | None) -> Column | None:
        return None if place is None else self._statement.column(self._given[place])

    def _values(self, given: Sequence[Any]) -> dict[str, Column]:
        return {
            ".".join(map(quote, path)): self._statement.column(self._given[place]) for path, place in given
        }


def _action(name: str) -> str:
    if name not in _ACTIONS:
        raise InvalidInputError(f"A merge into a lake has no {name}.")
    return _ACTIONS[name]
