"""Rows that Spark hands to a lake, and analyzed DELETE, UPDATE and MERGE: each one statement on a table."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyspark.sql.types as spark_types

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine import rows as row_changes
from ducklake_spark.engine.merge import MergeClause, run_merge
from ducklake_spark.engine.scope import Scope, scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.types import quote
from ducklake_spark.spark.native.catalog import Statement, frame_of
from ducklake_spark.sql.native.definitions import Definitions, Facts
from ducklake_spark.sql.native.loaded import Loaded, LoadedTables

if TYPE_CHECKING:
    from pyspark.sql import Column

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
            self._definitions.create_with(staged, frame)
            return
        loaded = self._loaded.find(facts["handle"])
        command = facts.get("command")
        if command is not None:
            self._command(loaded, command, objects, merges=_is_true(facts["options"], "mergeSchema"))
            return
        scope = scope_of(self._lake)
        if facts["truncate"]:
            self._run(loaded, lambda tx, table: row_changes.overwrite(scope, tx, table, frame))
        else:
            merges = _is_true(facts["options"], "mergeSchema")
            self._run(
                loaded, lambda tx, table: row_changes.insert(scope, tx, table, frame, merge_schema=merges)
            )

    def _run(self, loaded: Loaded, run: Callable[[Transaction, TableDef], Any]) -> None:
        """Runs a statement on the table that was loaded, whatever it is called by now."""
        assert loaded.table is not None
        wanted = loaded.table

        def on_table(tx: Transaction) -> None:
            table = tx.table_of(wanted.table_id)
            if table is None:
                raise NotFoundError(f'The table "{wanted.name}" was dropped meanwhile.')
            run(tx, table)

        scope_of(self._lake).statement(on_table)

    def _command(
        self, loaded: Loaded, command: Mapping[str, Any], objects: Sequence[Any], *, merges: bool
    ) -> None:
        spark = self._lake.spark
        given = [objects[i] for i in range(len(objects))]

        def run(tx: Transaction, table: TableDef) -> None:
            versions = loaded.tx.snapshot.snapshot_id, tx.snapshot.snapshot_id
            statement = Statement(spark, given[command["relation"]], *versions)
            if merges:
                table = row_changes.widened(tx, table, statement.frame(given[0]))
            _Command(scope_of(self._lake), tx, table, statement, given).run(command)

        self._run(loaded, run)


class _Command:
    """An analyzed statement that changes rows, run once in a transaction."""

    def __init__(
        self, scope: Scope, tx: Transaction, table: TableDef, statement: Statement, given: Sequence[Any]
    ) -> None:
        self._on = (scope, tx, table)
        self._statement, self._given = statement, given

    def run(self, command: Mapping[str, Any]) -> None:
        """Runs it."""
        rows = self._given[0]
        condition = self._column(command.get("condition"))
        known = self._statement.known
        kind = command["kind"]
        if kind == "OverwritePartitionsDynamic":
            row_changes.overwrite_partitions(*self._on, self._statement.frame(rows))
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


def _is_true(options: Mapping[str, str], key: str) -> bool:
    return any(name.lower() == key.lower() and value.lower() == "true" for name, value in options.items())
