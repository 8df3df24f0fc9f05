"""`Table.merge(...)`: clauses that read like the SQL."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame

from ducklake_spark.engine.merge import Condition, MergeClause, MergeResult, run_merge
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, shortened
from ducklake_spark.spark.errors import Subject, speaking_for
from ducklake_spark.write.local import frame_of_rows
from ducklake_spark.write.rowlevel.assignments import require_condition, require_values

if TYPE_CHECKING:
    from ducklake_spark.api.row_sources import RowSource
    from ducklake_spark.api.table import Table


def source_frame(table: Table, source: RowSource | Table | str) -> DataFrame:
    """The source of a merge as a DataFrame: a frame, a table or its name, or rows as `Table.insert` takes them.

    Raises:
        NotFoundError: There is no table of that name.
        InvalidInputError: It is nothing of these.
    """
    from ducklake_spark.api.table import Table as Handle

    if isinstance(source, DataFrame):
        return source
    if isinstance(source, Handle):
        return source.to_df()
    if isinstance(source, str):
        return table.lake.table(source)
    has_rows = isinstance(source, Iterable) and not isinstance(source, (bytes, Mapping))
    if not has_rows and not hasattr(source, "__arrow_c_stream__"):
        raise InvalidInputError(
            f'The source of a merge into table "{table.name}" is a DataFrame, a table or its name, an Arrow table, a '
            f"pandas DataFrame or a list of dicts, not {shortened(repr(source), 60)}."
        )
    return frame_of_rows(table.lake.spark, table.definition, source)


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
        source: RowSource | Table | str,
        on: str | Column,
        *,
        merge_schema: bool = False,
    ) -> None:
        self._is_run = True  # as long as there is nothing that could be
        what = f'the merge into table "{table.name}"'
        if on is None:
            raise InvalidInputError(f"{what[0].upper()}{what[1:]} needs a condition: when does a row match?")
        require_condition(on, what)
        self._table, self._source, self._on = table, source_frame(table, source), on
        self._merge_schema = merge_schema
        self._clauses: list[MergeClause] = []
        self._is_run = False

    def __repr__(self) -> str:
        clauses = ", ".join(f"when {each.kind} {each.action}" for each in self._clauses) or "no clauses"
        state = "was run" if self._is_run else "not run yet: call execute()"
        return f"MergeBuilder(into {self._table.schema_name}.{self._table.name}: {clauses}; {state})"

    def __del__(self) -> None:
        if not getattr(self, "_is_run", True) and not sys.is_finalizing():
            warnings.warn(
                f'The merge into table "{self._table.name}" was described, but never run: end it with .execute().',
                stacklevel=2,
            )

    def when_matched(self, condition: Condition = None) -> MatchedClause:
        """Rows of the target that a row of the source matches."""
        return MatchedClause(self._with, self._checked(condition))

    def when_not_matched(self, condition: Condition = None) -> NotMatchedClause:
        """Rows of the source that match none of the target."""
        return NotMatchedClause(self._with, self._checked(condition))

    def when_not_matched_by_source(self, condition: Condition = None) -> MatchedBySourceClause:
        """Rows of the target that no row of the source matches."""
        return MatchedBySourceClause(self._with, self._checked(condition))

    def _checked(self, condition: Condition) -> Condition:
        try:
            require_condition(condition, f'a clause of the merge into table "{self._table.name}"')
        except InvalidInputError:
            self._is_run = True  # the error says it
            raise
        return condition

    def _with(self, clause: MergeClause) -> MergeBuilder:
        if clause.values is not None:
            try:
                require_values(clause.values, f'a clause of the merge into table "{self._table.name}"')
            except InvalidInputError:
                self._is_run = True
                raise
        self._clauses.append(clause)
        return self

    def _about(self) -> Subject:
        """What an error of Spark in this merge is about."""
        values = {name: value for each in self._clauses for name, value in (each.values or {}).items()}
        return Subject(f'the merge into table "{self._table.name}"', values=values)

    @speaking_for(_about)
    def execute(self) -> MergeResult:
        """Runs the merge as one snapshot. For each row the first clause whose condition holds is taken.

        Raises:
            AmbiguousMergeError: Two rows of the source would change one row of the target.
        """
        self._is_run = True
        if not self._clauses:
            raise InvalidInputError(
                "A merge needs at least one clause: when_matched(), when_not_matched() ..."
            )

        return run_merge(
            scope_of(self._table),
            (self._table.schema_name, self._table.name),
            self._source,
            self._on,
            self._clauses,
            merge_schema=self._merge_schema,
        )


_Add = Callable[[MergeClause], MergeBuilder]


class MatchedBySourceClause:
    """What becomes of rows of the target that no row of the source matches."""

    _kind = "not matched by source"

    def __init__(self, add: _Add, condition: Condition) -> None:
        self._add, self._condition = add, condition

    def update(self, values: Mapping[str, Any]) -> MergeBuilder:
        """Gives columns new values; SQL text, Columns, or plain values that are no text."""
        return self._add(MergeClause(self._kind, "update", self._condition, values))

    def delete(self) -> MergeBuilder:
        """Deletes the row."""
        return self._add(MergeClause(self._kind, "delete", self._condition))


class MatchedClause(MatchedBySourceClause):
    """What becomes of rows of the target that a row of the source matches."""

    _kind = "matched"

    def update_all(self) -> MergeBuilder:
        """Takes every column of the source by its name."""
        return self._add(MergeClause(self._kind, "update", self._condition))


class NotMatchedClause:
    """What becomes of rows of the source that match none of the target."""

    def __init__(self, add: _Add, condition: Condition) -> None:
        self._add, self._condition = add, condition

    def insert(self, values: Mapping[str, Any]) -> MergeBuilder:
        """Inserts a row; columns that are left out take their defaults."""
        return self._add(MergeClause("not matched", "insert", self._condition, values))

    def insert_all(self) -> MergeBuilder:
        """Inserts every column of the source by its name."""
        return self._add(MergeClause("not matched", "insert", self._condition))
