"""A merge: which rows of a table change, go or come, with one evaluation of the source."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as spark_types
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ducklake_spark.catalog import ddl
from ducklake_spark.engine.inserts import target_of
from ducklake_spark.engine.reads import read
from ducklake_spark.engine.rows import Naming, as_it_is
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import AmbiguousMergeError, InvalidInputError, shortened
from ducklake_spark.format.columns import find
from ducklake_spark.format.edits import DeleteRows
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import TableDef
from ducklake_spark.scan.projection.column import ROW_ID_NAME
from ducklake_spark.spark.columns import Value, selected
from ducklake_spark.spark.file_index import calls_are_folded
from ducklake_spark.spark.writer import checkpointed, checkpointed_with, few_here, is_classic_frame
from ducklake_spark.write.insert import arriving, rows_to_add
from ducklake_spark.write.local import LocalRows
from ducklake_spark.write.rowlevel.assignments import assigned_values, mentioned
from ducklake_spark.write.rowlevel.deletes import LOCATOR, delete_here, delete_matching
from ducklake_spark.write.rowlevel.jobs import side_by_side
from ducklake_spark.write.rowlevel.matching import Key, Keys, SourceNumbers, facts_of, keys_of, known
from ducklake_spark.write.rowlevel.updates import (
    HIDDEN,
    MOST_ROWS,
    evaluated,
    kept_row_id,
    versions_here,
    versions_to_add,
)
from ducklake_spark.write.schema import data_type_of
from ducklake_spark.write.target import Added, Target, row_count

if TYPE_CHECKING:
    from ducklake_spark.catalog.transaction import Transaction

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
class MergeClause:
    """What becomes of rows of one kind."""

    kind: str
    """`matched`, `not matched` or `not matched by source`."""
    action: str
    """`update`, `delete` or `insert`."""
    condition: Condition
    values: Mapping[str, Any] | None = None
    """None takes every column of the source by its name."""


def run_merge(
    scope: Scope,
    name: tuple[str, str],
    source: DataFrame,
    on: str | Column,
    clauses: Sequence[MergeClause],
    *,
    merge_schema: bool = False,
    names: tuple[str, str] = (TARGET, SOURCE),
    named: Naming = as_it_is,
) -> MergeResult:
    """Merges a DataFrame into a table, as one statement.

    Args:
        scope: The lake.
        name: The table's schema and its own name.
        source: The DataFrame.
        on: When a row of the source matches one of the target.
        clauses: What is done; for each row the first one whose condition holds.
        merge_schema: Add columns that only the source has.
        names: What condition and values call the target and the source.
        named: How they know the target's columns, where that is not by names.

    Raises:
        AmbiguousMergeError: Two rows of the source would change one row of the target.
    """

    def run(tx: Transaction) -> MergeResult:
        table = ddl.get_table(tx, ddl.get_schema(tx, name[0]), name[1])
        return _Run(
            scope, tx, table, source, on, clauses, merge_schema=merge_schema, names=names, named=named
        ).run()

    return scope.statement(run)


class _Run:
    def __init__(
        self,
        scope: Scope,
        tx: Transaction,
        table: TableDef,
        source: DataFrame,
        on: str | Column,
        clauses: Sequence[MergeClause],
        *,
        merge_schema: bool,
        names: tuple[str, str],
        named: Naming,
    ) -> None:
        self.scope, self.tx, self.table, self.clauses = scope, tx, table, clauses
        self.target_name, self.source_name = names
        if merge_schema:
            self._add_columns(source)
        self._check_sources(source)
        self.on = F.expr(on) if isinstance(on, str) else on
        self.matched: DataFrame | SourceNumbers | None = None
        """The numbers of rows of the source that match one of the target, where a scan found them already."""
        self.names = source.columns
        texts = [part for clause in clauses for part in (clause.condition, clause.values)]
        frame = named(read(scope, tx, self.table, (*HIDDEN, *mentioned(on, texts))))
        self.frame = frame.alias(self.target_name)
        keys = self.keys = keys_of(self.frame, source.alias(self.source_name), self.on, names)
        # Evaluated once: a source that gives other rows each time cannot tear the merge.
        self.source, self.is_small, facts = _kept(source, keys)
        self.rows_of_source = facts.count
        self.source = self.source.alias(self.source_name)
        can_match = facts.condition(self.target_name)
        self.candidates = self.frame if can_match is None else self.frame.where(can_match)
        """The rows of the target that a row of the source can match."""

    def _of_target(self, column: str) -> Column:
        return F.col(self._in_target(column))

    def _in_target(self, column: str) -> str:
        return f"{ticked(self.target_name)}.{column}"

    def _of_source(self, column: str) -> Column:
        return F.col(f"{ticked(self.source_name)}.{column}")

    def _add_columns(self, source: DataFrame) -> None:
        for part in source.schema.fields:
            if find(self.table.columns, part.name) is None:
                kind = data_type_of(part.dataType)
                ddl.add_column(self.tx, self.table, (part.name,), kind, has_rows=lambda _: False)
                found = self.tx.table_of(self.table.table_id)
                assert found is not None
                self.table = found

    def _check_sources(self, source: DataFrame) -> None:
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
            replaced: tuple[list[Added], DeleteRows | None, int] = ([], None, 0)
            inserted = self._inserted()
        elif isinstance(changes, LocalRows):
            self._require_single_here(changes)
            replaced = self._replaced_here(changes)
            inserted = self._inserted()
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

    def _of_changes(self) -> Target:
        return target_of(self.scope, self.tx, self.table, has_row_ids=True)

    @functools.cached_property
    def _updates(self) -> list[int]:
        return [i for i, clause in enumerate(self.clauses) if clause.action == "update"]

    def _replaced(self, changes: Any) -> tuple[list[Added], DeleteRows | None, int]:
        """The new versions of changed rows, the deletes of the old ones, and how many those are."""
        target, updates = self._of_changes(), self._updates
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

    def _replaced_here(self, changes: LocalRows) -> tuple[list[Added], DeleteRows | None, int]:
        """The same of rows that are here."""
        target, spark = self._of_changes(), self.scope.spark
        rows = changes.table
        deletes, count = delete_here(target, rows.select(LOCATOR), spark)
        if not self._updates:
            return [], deletes, count
        clauses = pa.array(self._updates, rows.column(_CLAUSE).type)
        updated = rows.filter(pc.is_in(rows.column(_CLAUSE), clauses))
        return versions_here(target, LocalRows(updated, changes.fields)), deletes, count

    def _to_add(self, target: Target, rows: DataFrame) -> Added:
        if self.rows_of_source <= MOST_ROWS and is_classic_frame(rows):
            here = arriving(target, rows).here(self.rows_of_source)
            if here is not None:
                return rows_to_add(target, here)
        return rows_to_add(target, rows)

    def _changes(self) -> LocalRows | DataFrame | None:
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
        every = {"matched", "not matched"} <= kinds
        found = functools.reduce(lambda one, other: one.unionByName(other), parts)
        rows: LocalRows | DataFrame
        if self.rows_of_source <= MOST_ROWS:
            rows = evaluated(self._of_changes(), found, (_CLAUSE, _NUMBER), with_joins=True)
        else:
            rows = checkpointed(found)
        if isinstance(rows, LocalRows):
            table = rows.table
            if every:
                known = table.column(_NUMBER).drop_null().to_numpy()
                self.matched = SourceNumbers.of(known)
            return LocalRows(table.filter(pc.is_valid(table.column(_CLAUSE))), rows.fields)
        if every:
            self.matched = rows.where(F.col(_NUMBER).isNotNull()).select(F.col(_NUMBER).alias(_COUNT))
        return rows.where(f"{_CLAUSE} IS NOT NULL").drop(_NUMBER)

    def _changed(self, rows: DataFrame, kind: str, *, every: bool = False) -> DataFrame:
        """Rows with new values; with `every`, those without a clause too, as mere numbers of the source's row."""
        new = {
            i: self._assigned(each, i)
            for i, each in enumerate(self.clauses)
            if each.kind == kind and each.action == "update"
        }
        found = rows.withColumn(_CLAUSE, self._clause_of(kind))
        found = found if every else found.where(f"{_CLAUSE} IS NOT NULL")
        given = {}
        for i, of in new.items():
            is_chosen = F.expr(f"{_CLAUSE} = {i}")
            # A value may fail for rows that it is not meant for.
            given.update({text: F.when(is_chosen, value) for text, value in of.values() if value is not None})
        found = found.withColumns(given) if given else found
        values = []
        for column in self.table.columns:
            value = self._in_target(ticked(column.name))
            for i, of in new.items():
                if column.name in of:
                    value = f"CASE WHEN {_CLAUSE} = {i} THEN {of[column.name][0]} ELSE {value} END"
            value = f"CASE WHEN {_CLAUSE} IS NOT NULL THEN {value} END" if every else value
            values.append((column.name, value))
        hidden = [(name, self._in_target(name)) for name in HIDDEN]
        number = f"{ticked(self.source_name)}.{_NUMBER}" if every else "CAST(NULL AS BIGINT)"
        kept = kept_row_id(*(text for _, text in hidden))
        values += [(ROW_ID_NAME, kept), *hidden, (_CLAUSE, _CLAUSE), (_NUMBER, number)]
        return selected(found, values)

    def _clause_of(self, kind: str) -> Column:
        chosen = F.expr("CAST(NULL AS INT)")
        for i, clause in reversed(list(enumerate(self.clauses))):
            if clause.kind == kind:
                holds = clause.condition
                if holds is None:
                    chosen = F.expr(str(i))
                    continue
                test = F.expr(holds) if isinstance(holds, str) else holds
                chosen = F.when(test, F.lit(i)).otherwise(chosen)
        return chosen

    def _assigned(self, clause: MergeClause, number: int) -> dict[str, tuple[str, Column | None]]:
        """By column its new value in SQL, and the column that this names where it is none of the source."""
        if clause.values is not None:
            values = assigned_values(clause.values, self.table, prefix=ticked(self.target_name))
            return {
                name: (f"__ducklake_new_{number}_{place}", value)
                for place, (name, value) in enumerate(values.items())
            }
        return {
            column.name: (f"{ticked(self.source_name)}.{ticked(name)}", None)
            for name in self.names
            if (column := find(self.table.columns, name)) is not None
        }

    @property
    def _deletes_only(self) -> bool:
        matched = [clause for clause in self.clauses if clause.kind == "matched"]
        # Deleting a row twice is deleting it.
        return len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None

    def _require_single(self, changes: Any) -> None:
        if self._deletes_only:
            return
        twice = (
            changes.groupBy(*LOCATOR)
            .agg(F.count(F.lit(1)).alias(_COUNT))
            .where(F.col(_COUNT) > 1)
            .limit(1)
            .collect()
        )
        if twice:
            raise self._ambiguous([twice[0][name] for name in LOCATOR], twice[0][_COUNT])

    def _require_single_here(self, changes: LocalRows) -> None:
        if self._deletes_only:
            return
        counted = changes.table.select(LOCATOR).group_by(list(LOCATOR)).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, 1).to_pylist()
        if twice:
            raise self._ambiguous([twice[0][name] for name in LOCATOR], twice[0]["count_all"])

    def _ambiguous(self, place: list[Any], count: int) -> AmbiguousMergeError:
        shown = self._shown_row(place)
        return AmbiguousMergeError(
            f'The merge into "{self.table.name}" is ambiguous: {count} rows of the source match one '
            f"row of the target ({shown}) and would change it. Make the source unique, or narrow the condition."
        )

    def _shown_row(self, place: list[Any]) -> str:
        """The row of the target that is there, by the columns that the merge compares, else by its first ones."""
        compared = dict.fromkeys(key.target for key in self.keys)
        names = list(compared or (column.name for column in self.table.columns))[:3]
        is_there = functools.reduce(
            lambda one, other: one & other,
            (
                self._of_target(name).eqNullSafe(F.lit(value))
                for name, value in zip(LOCATOR, place, strict=True)
            ),
        )
        columns = [self._of_target(ticked(name)).alias(f"c{i}") for i, name in enumerate(names)]
        row = self.frame.where(is_there).select(*columns).first()
        return ", ".join(
            f"{name} = {shortened(repr(value), 40)}" for name, value in zip(names, row or (), strict=False)
        )

    def _matched(self) -> DataFrame | SourceNumbers:
        """The numbers of the rows of the source that match a row of the target."""
        if self.matched is not None and (
            not isinstance(self.matched, SourceNumbers) or calls_are_folded(self.scope.spark)
        ):
            return self.matched
        # By number: so the table is joined with the source, which may be small, and not the source with the table.
        matched = self.candidates.join(self.source, self.on, "inner").select(
            self._of_source(_NUMBER).alias(_COUNT)
        )
        if (
            self.rows_of_source <= MOST_ROWS
            and is_classic_frame(matched)
            and calls_are_folded(self.scope.spark)
        ):
            here = few_here(matched, MOST_ROWS)
            if here is not None:
                return SourceNumbers.of(here.column(_COUNT).to_numpy())
        return matched

    def _inserted(self) -> list[Added]:
        clauses = [(i, clause) for i, clause in enumerate(self.clauses) if clause.kind == "not matched"]
        if not clauses:
            return []
        matched = self._matched()
        if isinstance(matched, SourceNumbers):
            rows = self.source.where(matched.lack(self.scope.spark, self._of_source(_NUMBER)))
        else:
            matched = matched.distinct()
            matched = F.broadcast(matched) if self.is_small else matched
            rows = self.source.join(matched, self._of_source(_NUMBER) == F.col(_COUNT), "left_anti")
        rows = rows.withColumn(_CLAUSE, self._clause_of("not matched")).where(f"{_CLAUSE} IS NOT NULL")
        rows = (rows if len(clauses) == 1 else checkpointed(rows)).alias(self.source_name)
        added = []
        for i, clause in clauses:
            chosen = rows.where(f"{_CLAUSE} = {i}")
            values: dict[str, Value] = {
                name: f"{ticked(self.source_name)}.{ticked(name)}" for name in self.names
            }
            if clause.values is not None:
                values = dict(assigned_values(clause.values, self.table, prefix=ticked(self.source_name)))
            new = selected(chosen, values.items())
            added.append(self._to_add(target_of(self.scope, self.tx, self.table), new))
        return added


def _kept(source: DataFrame, keys: tuple[Key, ...]) -> tuple[DataFrame, bool, Keys]:
    """The rows of a source with numbers, evaluated once; whether they are few enough to be sent to the table; keys."""
    numbered = source.withColumn(_NUMBER, F.monotonically_increasing_id())
    kept, found = checkpointed_with(numbered, facts_of(keys, _NUMBER))
    facts = known(keys, found)
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
