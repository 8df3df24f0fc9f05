"""MERGE INTO -> a merge of the engine."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ducklake_spark.engine.merge import MergeClause, run_merge
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError, did_you_mean
from ducklake_spark.format.columns import find
from ducklake_spark.format.names import ticked
from ducklake_spark.format.types import fold, quote
from ducklake_spark.scan.projection.types import choices_of, user_type
from ducklake_spark.sql.execute.assign import Assigned, fitted
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.execute.dml import target_of
from ducklake_spark.sql.parser import nodes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_WHEN = {
    "matched": "WHEN MATCHED",
    "not matched": "WHEN NOT MATCHED",
    "not matched by source": "WHEN NOT MATCHED BY SOURCE",
}


def merge(context: Context, node: nodes.Merge) -> int:
    """MERGE INTO: how many rows were inserted, updated and deleted."""
    with ExitStack() as stack:
        return _Merge(context, node, stack).run()


class _Merge:
    def __init__(self, context: Context, node: nodes.Merge, stack: ExitStack) -> None:
        self.context, self.node, self.stack = context, node, stack
        if fold(node.alias) == fold(node.source_alias):
            raise InvalidInputError(f'MERGE INTO calls both sides "{node.alias}": give one of them an alias.')
        self.table = target_of(context, node.name)
        self.source = self._source()
        target = context.lake.table((self.table.schema_name, self.table.name))
        self.frames = {
            "matched": target.alias(node.alias).crossJoin(self.source.alias(node.source_alias)),
            "not matched": self.source.alias(node.source_alias),
            "not matched by source": target.alias(node.alias),
        }
        self.passed: dict[str, list[str]] = {kind: [] for kind in _WHEN}

    def _source(self) -> DataFrame:
        context, node = self.context, self.node
        text = "" if node.ctes is None else context.source(node.ctes)
        return context.frame_of(f"{text} SELECT * FROM {context.source(node.source)}", node.ctes, node.source)

    def run(self) -> int:
        on = self._on()
        clauses = []
        for clause in self.node.clauses:
            condition = self._condition(clause)
            if clause.action != "nothing":
                clauses.append(self._clause(clause, condition))
        if not clauses:
            return 0
        with self.context.running():
            result = run_merge(
                scope_of(self.context.lake),
                (self.table.schema_name, self.table.name),
                self.source,
                on,
                clauses,
                merge_schema=self.node.merge_schema,
                names=(self.node.alias, self.node.source_alias),
            )
        return result.inserted + result.updated + result.deleted

    def _on(self) -> str:
        node = self.node
        if node.on is not None:
            return self.stack.enter_context(self.context.expression(node.on))
        sides = (ticked(node.alias), ticked(node.source_alias))
        pairs = []
        for name in node.using:
            self._require_column(name, self.table.columns, self.table.name)
            self._require_column(name, self.source.columns, node.source_alias)
            pairs.append(f"{sides[0]}.{ticked(name)} = {sides[1]}.{ticked(name)}")
        return " AND ".join(pairs)

    def _require_column(self, name: str, columns: list[str], side: str) -> None:
        if fold(name) not in map(fold, columns):
            raise NotFoundError(f'"{side}" has no column "{name}".{did_you_mean(name, columns)}')

    def _condition(self, clause: nodes.When) -> str | None:
        """When the clause is taken; rows that a DO NOTHING before it took are left alone."""
        own = None
        if clause.condition is not None:
            own = self.stack.enter_context(self.context.expression(clause.condition))
        parts = [f"NOT coalesce({each}, false)" for each in self.passed[clause.kind]]
        if own is not None:
            parts.append(f"({own})")
        if clause.action == "nothing":
            self.passed[clause.kind].append(f"({own})" if own is not None else "true")
        return " AND ".join(parts) or None

    def _clause(self, clause: nodes.When, condition: str | None) -> MergeClause:
        if clause.action == "delete":
            return MergeClause(clause.kind, "delete", condition)
        if clause.action == "error":
            action = "insert" if clause.kind == "not matched" else "update"
            return MergeClause(clause.kind, action, condition, self._raising(clause))
        values = self._inserted(clause) if clause.action == "insert" else self._updated(clause)
        return MergeClause(clause.kind, clause.action, condition, values)

    def _raising(self, clause: nodes.When) -> dict[str, Column]:
        from pyspark.sql import functions as F

        column = self.table.definition.columns[0]
        text = f"Merge error condition {_WHEN[clause.kind]}" + (
            f": {clause.message}" if clause.message else ""
        )
        kind = user_type(column.data_type, choices_of(self.context.lake.spark))
        return {quote(column.name): F.raise_error(F.lit(text)).cast(kind)}

    def _updated(self, clause: nodes.When) -> dict[str, Any] | None:
        """The new values by column; None takes every column of the source by its name."""
        if clause.assignments is None:
            return None if self._is_by_name(clause) else self._by_place("UPDATE")
        values: dict[str, Any] = {}
        known = {fold(column) for column in self.table.columns}
        for assignment in clause.assignments:
            path = assignment.path
            if len(path) > 1 and fold(path[0]) not in known and fold(path[0]) == fold(self.node.alias):
                path = path[1:]
            if assignment.value is None:
                raise InvalidInputError(
                    f'"{".".join(path)}" cannot be set to DEFAULT by an UPDATE, as in the extension. Give the value.'
                )
            text = self.stack.enter_context(self.context.expression(assignment.value))
            key = ".".join(map(quote, path))
            if key in values:
                raise InvalidInputError(f'The merge assigns "{".".join(path)}" twice.')
            values[key] = fitted(self.context, self.frames[clause.kind], text, Assigned(self.table, path))
        return values

    def _inserted(self, clause: nodes.When) -> dict[str, Any] | None:
        """The values of a new row by column; None takes every column of the source by its name."""
        if clause.values is None:
            return None if self._is_by_name(clause) else self._by_place("INSERT")
        if not clause.values:
            raise InvalidInputError(
                "INSERT DEFAULT VALUES cannot stand in a MERGE: name a column and its value instead."
            )
        names = list(clause.columns) if clause.columns is not None else self.table.columns
        if len(names) != len(clause.values):
            raise InvalidInputError(
                f"The INSERT of a merge has {len(names)} columns and {len(clause.values)} values."
            )
        values: dict[str, Any] = {}
        for name, piece in zip(names, clause.values, strict=True):
            if find(self.table.definition.columns, name) is None:
                self._require_column(name, self.table.columns, self.table.name)
            if piece is not None:
                text = self.stack.enter_context(self.context.expression(piece))
                values[quote(name)] = fitted(
                    self.context, self.frames["not matched"], text, Assigned(self.table, (name,))
                )
        return values

    def _is_by_name(self, clause: nodes.When) -> bool:
        """Spark takes columns by name, DuckDB by place unless the clause says otherwise."""
        return clause.by_name if clause.by_name is not None else self.context.dialect == "spark"

    def _by_place(self, verb: str) -> dict[str, Any]:
        names, given = self.table.columns, self.source.columns
        if len(names) != len(given):
            raise InvalidInputError(
                f'{verb} of all columns takes them by place: table "{self.table.name}" has {len(names)}, the source '
                f"{len(given)}. Write {verb} BY NAME, or name the columns."
            )
        frame = self.frames["not matched"]
        return {
            quote(name): fitted(
                self.context,
                frame,
                f"{ticked(self.node.source_alias)}.{ticked(each)}",
                Assigned(self.table, (name,)),
            )
            for name, each in zip(names, given, strict=True)
        }
