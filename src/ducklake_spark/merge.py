"""`Table.merge(...)`: clauses that read like the SQL, run with one evaluation of the source."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import pyspark.sql.types as spark_types
from pyspark.sql import Column
from pyspark.sql import functions as F

from ducklake_spark.catalog import ddl
from ducklake_spark.errors import ConflictError, InvalidInputError
from ducklake_spark.format.columns import find
from ducklake_spark.format.edits import DeleteRows
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import TableDef
from ducklake_spark.reading import read
from ducklake_spark.schema import data_type_of
from ducklake_spark.write.insert import ROW_ID, Added, Target, row_count, rows_to_add
from ducklake_spark.write.jobs import side_by_side
from ducklake_spark.write.matching import Key, Keys, facts_of, keys_of, known
from ducklake_spark.write.rowlevel import (
    HIDDEN,
    PLACE,
    assigned_values,
    delete_matching,
    kept_row_id,
    mentioned,
    versions_to_add,
)

if TYPE_CHECKING:
    from ducklake_spark.catalog.transaction import Transaction
    from ducklake_spark.table import Table

Condition = Union[str, Column, None]  # noqa: UP007 - a name for readers
TARGET, SOURCE = "target", "source"
_CLAUSE, _COUNT, _NUMBER = "__ducklake_clause", "__ducklake_count", "__ducklake_number"
_BROADCAST_BYTES = 64 << 20


@dataclass(frozen=True)
class MergeResult:
    """How many rows a merge inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class _Clause:
    kind: str
    """`matched`, `not matched` or `not matched by source`."""
    action: str
    """`update`, `delete` or `insert`."""
    condition: Condition
    values: Mapping[str, Any] | None = None
    """None takes every column of the source by its name."""


class MergeBuilder:
    """A merge that is being described. Conditions and values call the two sides `target` and `source`.

    >>> table = getfixture("lake").create_table("t", {"id": "int", "v": "varchar"})
    >>> table.insert([(1, "old"), (2, "old")])
    2
    >>> spark = getfixture("spark")
    >>> changes = spark.createDataFrame([(2, "new"), (3, "new")], "id int, v string")
    >>> merge = table.merge(changes, "target.id = source.id")
    >>> merge.when_matched().update_all().when_not_matched().insert_all().execute()
    MergeResult(inserted=1, updated=1, deleted=0)
    """

    def __init__(
        self,
        table: Table,
        source: Any,
        on: str | Column,
        *,
        merge_schema: bool = False,
        names: tuple[str, str] = (TARGET, SOURCE),
    ) -> None:
        self._table, self._source, self._on, self._merge_schema = table, source, on, merge_schema
        self._names = names
        self._clauses: list[_Clause] = []

    def when_matched(self, condition: Condition = None) -> MatchedClause:
        """Rows of the target that a row of the source matches."""
        return MatchedClause(self, "matched", condition)

    def when_not_matched(self, condition: Condition = None) -> NotMatchedClause:
        """Rows of the source that match none of the target."""
        return NotMatchedClause(self, condition)

    def when_not_matched_by_source(self, condition: Condition = None) -> MatchedBySourceClause:
        """Rows of the target that no row of the source matches."""
        return MatchedBySourceClause(self, condition)

    def _with(self, clause: _Clause) -> MergeBuilder:
        self._clauses.append(clause)
        return self

    def execute(self) -> MergeResult:
        """Runs the merge as one snapshot. For each row the first clause whose condition holds is taken.

        Raises:
            ConflictError: Two rows of the source would change one row of the target.
        """
        if not self._clauses:
            raise InvalidInputError(
                "A merge needs at least one clause: when_matched(), when_not_matched() ..."
            )
        with self._table._change() as (tx, table):
            return _Run(
                self._table,
                tx,
                table,
                self._source,
                self._on,
                self._clauses,
                merge_schema=self._merge_schema,
                names=self._names,
            ).run()


class MatchedBySourceClause:
    """What becomes of rows of the target that no row of the source matches."""

    _kind = "not matched by source"

    def __init__(self, builder: MergeBuilder, condition: Condition) -> None:
        self._builder, self._condition = builder, condition

    def update(self, values: Mapping[str, Any]) -> MergeBuilder:
        """Gives columns new values; SQL text, Columns, or plain values that are no text."""
        if not values:
            raise InvalidInputError("An update of a merge assigns no column.")
        return self._builder._with(_Clause(self._kind, "update", self._condition, values))

    def delete(self) -> MergeBuilder:
        """Deletes the row."""
        return self._builder._with(_Clause(self._kind, "delete", self._condition))


class MatchedClause(MatchedBySourceClause):
    """What becomes of rows of the target that a row of the source matches."""

    def __init__(self, builder: MergeBuilder, kind: str, condition: Condition) -> None:
        super().__init__(builder, condition)
        self._kind = kind

    def update_all(self) -> MergeBuilder:
        """Takes every column of the source by its name."""
        return self._builder._with(_Clause(self._kind, "update", self._condition))


class NotMatchedClause:
    """What becomes of rows of the source that match none of the target."""

    def __init__(self, builder: MergeBuilder, condition: Condition) -> None:
        self._builder, self._condition = builder, condition

    def insert(self, values: Mapping[str, Any]) -> MergeBuilder:
        """Inserts a row; columns that are left out take their defaults."""
        if not values:
            raise InvalidInputError("An insert of a merge gives no column.")
        return self._builder._with(_Clause("not matched", "insert", self._condition, values))

    def insert_all(self) -> MergeBuilder:
        """Inserts every column of the source by its name."""
        return self._builder._with(_Clause("not matched", "insert", self._condition))


class _Run:
    def __init__(
        self,
        handle: Table,
        tx: Transaction,
        table: TableDef,
        source: Any,
        on: str | Column,
        clauses: list[_Clause],
        *,
        merge_schema: bool,
        names: tuple[str, str],
    ) -> None:
        self.handle, self.tx, self.table, self.clauses = handle, tx, table, clauses
        self.target_name, self.source_name = names
        self.lake = handle._lake
        if merge_schema:
            self._add_columns(source)
        self._check_sources(source)
        self.on = F.expr(on) if isinstance(on, str) else on
        self.matched: Any | None = None
        """The numbers of rows of the source that match one of the target, where a scan found them already."""
        self.names = source.columns
        name = (handle.schema_name, handle.name)
        texts = [part for clause in clauses for part in (clause.condition, clause.values)]
        self.frame = read(self.lake, name, (*HIDDEN, *mentioned(on, texts)), "long", tx).alias(
            self.target_name
        )
        keys = keys_of(self.frame, source.alias(self.source_name), self.on, names)
        # Evaluated once: a source that gives other rows each time cannot tear the merge.
        self.source, self.is_small, facts = _kept(source, keys)
        self.source = self.source.alias(self.source_name)
        can_match = facts.condition(self.target_name)
        self.candidates = self.frame if can_match is None else self.frame.where(can_match)
        """The rows of the target that a row of the source can match."""

    def _of_target(self, column: str) -> Column:
        return F.col(f"{ticked(self.target_name)}.{column}")

    def _of_source(self, column: str) -> Column:
        return F.col(f"{ticked(self.source_name)}.{column}")

    def _add_columns(self, source: Any) -> None:
        for part in source.schema.fields:
            if find(self.table.columns, part.name) is None:
                kind = data_type_of(part.dataType)
                ddl.add_column(self.tx, self.table, (part.name,), kind, has_rows=lambda _: False)
                self.table = self.handle._find(self.tx)

    def _check_sources(self, source: Any) -> None:
        if any(clause.action in ("update", "insert") and clause.values is None for clause in self.clauses):
            for name in source.columns:
                if find(self.table.columns, name) is None:
                    raise InvalidInputError(
                        f'The source of the merge has a column "{name}" that table "{self.table.name}" does not have. '
                        "Drop it, name the values, or merge with merge_schema=True."
                    )

    def run(self) -> MergeResult:
        changes = self._changes()
        if changes is None:
            inserted = self._inserted()
            replaced: tuple[list[Added], DeleteRows | None, int] = ([], None, 0)
        else:
            _, (replaced, inserted) = side_by_side(
                lambda: self._require_single(changes),
                lambda: side_by_side(lambda: self._replaced(changes), self._inserted),
            )
        added, deletes, count = replaced
        for change in (deletes, *added, *inserted):
            if change is not None:
                self.tx.apply(change)
        updated = sum(map(row_count, added))
        return MergeResult(sum(map(row_count, inserted)), updated, count - updated)

    def _replaced(self, changes: Any) -> tuple[list[Added], DeleteRows | None, int]:
        """The new versions of changed rows, the deletes of the old ones, and how many those are."""
        updates = [i for i, clause in enumerate(self.clauses) if clause.action == "update"]
        target = self.handle._target(self.tx, self.table, has_row_ids=True)
        added, (deletes, count) = side_by_side(
            lambda: (
                versions_to_add(
                    target,
                    changes.where(F.col(_CLAUSE).isin(updates)).drop(_CLAUSE),
                )
                if updates
                else []
            ),
            lambda: delete_matching(target, changes),
        )
        return added, deletes, count

    def _to_add(self, target: Target, rows: Any) -> Added:
        return rows_to_add(target, rows)

    def _changes(self) -> Any | None:
        """The rows of the target that change, with their new values and the number of their clause."""
        kinds = {clause.kind for clause in self.clauses}
        parts = []
        if "matched" in kinds:
            # One scan for both: which rows of the target change, and which rows of the source are new.
            every = "not matched" in kinds
            parts.append(
                self._changed(self.candidates.join(self.source, self.on, "inner"), "matched", every=every)
            )
        if "not matched by source" in kinds:
            parts.append(
                self._changed(self.frame.join(self.source, self.on, "left_anti"), "not matched by source")
            )
        if not parts:
            return None
        found = functools.reduce(lambda one, other: one.unionByName(other), parts).localCheckpoint()
        if {"matched", "not matched"} <= kinds:
            self.matched = found.where(F.col(_NUMBER).isNotNull()).select(F.col(_NUMBER).alias(_COUNT))
        return found.where(F.col(_CLAUSE).isNotNull()).drop(_NUMBER)

    def _changed(self, rows: Any, kind: str, *, every: bool = False) -> Any:
        """Rows with new values; with `every`, those without a clause too, as mere numbers of the source's row."""
        clause = self._clause_of(kind)
        number = self._of_source(_NUMBER) if every else F.lit(None).cast("long")
        columns = []
        for column in self.table.columns:
            value = self._of_target(ticked(column.name))
            for i, each in enumerate(self.clauses):
                if each.kind == kind and each.action == "update":
                    new = self._assigned(each).get(column.name)
                    if new is not None:
                        value = F.when(F.col(_CLAUSE) == i, new).otherwise(value)
            value = F.when(F.col(_CLAUSE).isNotNull(), value) if every else value
            columns.append(value.alias(column.name))
        kept = kept_row_id(*(self._of_target(name) for name in HIDDEN)).alias(ROW_ID)
        hidden = [self._of_target(name).alias(name) for name in HIDDEN]
        found = rows.withColumn(_CLAUSE, clause)
        found = found if every else found.where(F.col(_CLAUSE).isNotNull())
        return found.select(*columns, kept, *hidden, F.col(_CLAUSE), number.alias(_NUMBER))

    def _clause_of(self, kind: str) -> Column:
        chosen = F.lit(None).cast("int")
        for i, clause in reversed(list(enumerate(self.clauses))):
            if clause.kind == kind:
                holds = clause.condition
                test = F.lit(True) if holds is None else F.expr(holds) if isinstance(holds, str) else holds
                chosen = F.when(test, F.lit(i)).otherwise(chosen)
        return chosen

    def _assigned(self, clause: _Clause) -> dict[str, Column]:
        if clause.values is not None:
            return assigned_values(clause.values, self.table, prefix=ticked(self.target_name))
        return {
            column.name: self._of_source(ticked(name))
            for name in self.names
            if (column := find(self.table.columns, name)) is not None
        }

    def _require_single(self, changes: Any) -> None:
        matched = [clause for clause in self.clauses if clause.kind == "matched"]
        if len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None:
            return  # deleting a row twice is deleting it
        keys = [column.name for column in self.table.columns][:3]
        twice = (
            changes.groupBy(*PLACE)
            .agg(F.count(F.lit(1)).alias(_COUNT), *(F.first(ticked(key)).alias(key) for key in keys))
            .where(F.col(_COUNT) > 1)
            .limit(1)
            .collect()
        )
        if twice:
            shown = ", ".join(f"{key} = {twice[0][key]!r}" for key in keys)
            raise ConflictError(
                f'The merge into "{self.table.name}" is ambiguous: {twice[0][_COUNT]} rows of the source match one '
                f"row of the target ({shown}) and would change it. Make the source unique, or narrow the condition."
            )

    def _inserted(self) -> list[Added]:
        clauses = [(i, clause) for i, clause in enumerate(self.clauses) if clause.kind == "not matched"]
        if not clauses:
            return []
        matched = self.matched
        if matched is None:
            # By number: so the table is joined with the source, which may be small, and not the source with the table.
            matched = self.candidates.join(self.source, self.on, "inner")
            matched = matched.select(self._of_source(_NUMBER).alias(_COUNT))
        matched = matched.distinct()
        matched = F.broadcast(matched) if self.is_small else matched
        rows = self.source.join(matched, self._of_source(_NUMBER) == F.col(_COUNT), "left_anti")
        rows = rows.withColumn(_CLAUSE, self._clause_of("not matched"))
        rows = rows.where(F.col(_CLAUSE).isNotNull())
        rows = (rows if len(clauses) == 1 else rows.localCheckpoint()).alias(self.source_name)
        added = []
        for i, clause in clauses:
            chosen = rows.where(F.col(_CLAUSE) == i)
            if clause.values is None:
                columns = [self._of_source(ticked(name)).alias(name) for name in self.names]
            else:
                values = assigned_values(clause.values, self.table, prefix=ticked(self.source_name))
                columns = [value.alias(name) for name, value in values.items()]
            added.append(self._to_add(self.handle._target(self.tx, self.table), chosen.select(*columns)))
        return added


def _kept(source: Any, keys: tuple[Key, ...]) -> tuple[Any, bool, Keys]:
    """The rows of a source with numbers, evaluated once; whether they are few enough to be sent to the table; keys."""
    kept = source.withColumn(_NUMBER, F.monotonically_increasing_id()).localCheckpoint()
    facts = known(keys, kept.agg(*facts_of(keys, _NUMBER)).first())
    width = sum(_width(part.dataType) for part in source.schema.fields)
    is_small = facts.count * width <= _BROADCAST_BYTES
    return (F.broadcast(kept) if is_small else kept), is_small, facts


def _width(data_type: spark_types.DataType) -> int:
    """About how many bytes a value takes."""
    if isinstance(data_type, (spark_types.ArrayType, spark_types.MapType)):
        return 200
    if isinstance(data_type, spark_types.StructType):
        return sum(_width(part.dataType) for part in data_type.fields)
    return 40 if isinstance(data_type, (spark_types.StringType, spark_types.BinaryType)) else 8
