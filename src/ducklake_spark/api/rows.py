"""The methods of `Table` that read and change its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ducklake_spark.api.table_handle import TableHandle
from ducklake_spark.engine.retry import repeatable
from ducklake_spark.engine.times import Timestamp
from ducklake_spark.errors import DuckLakeError
from ducklake_spark.spark.errors import Subject, speaking_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ducklake_spark.api.merge import MergeBuilder
    from ducklake_spark.api.row_sources import RowSource
    from ducklake_spark.api.table import Table
    from ducklake_spark.catalog.transaction import Transaction
    from ducklake_spark.format.objects import TableDef


def _about(change: str) -> Callable[..., Subject]:
    """What an error of Spark in a change of rows is about."""

    def subject(table: TableHandle, *args: Any, **kwargs: Any) -> Subject:
        given = args[0] if args else kwargs.get("assignments")
        values = given if change == "update of" and isinstance(given, Mapping) else {}
        try:
            columns = table.columns
        except DuckLakeError:
            columns = []
        return Subject(f'the {change} table "{table.name}"', columns, values)

    return subject


def _called(alias: str | None) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame if alias is None else frame.alias(alias)


class TableRows(TableHandle):
    """The rows of a table; a part of `Table`."""

    def to_df(self, version: int | None = None, timestamp: Timestamp | None = None) -> DataFrame:
        """The table as a DataFrame, pinned to the snapshot at which it is made; see `Lake.table`.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.insert([(1, "x")]), table.insert([(2, "y")])
        (1, 1)
        >>> table.to_df(version=2).collect()
        [Row(a=1, b='x')]
        """
        return self._lake.table((self._schema_name, self._name), version, timestamp)

    def insert(self, rows: RowSource, *, merge_schema: bool = False) -> int:
        """Adds rows: a DataFrame, an Arrow table, a pandas DataFrame, or a list of dicts, tuples or Rows.

        Columns are matched by name, without regard to case; a column that is left out takes its default. A time
        without a zone that goes into a column with one is taken in the zone of the session, or as UTC where the rows
        are not a DataFrame.

        >>> table = getfixture("lake").create_table("t", {"a": "int", "b": "varchar"}, defaults={"b": "none"})
        >>> table.insert([{"a": 1}, {"a": 2, "b": "two"}])
        2

        Args:
            rows: What to add.
            merge_schema: Add columns and fields that the table does not have, in the same snapshot.

        Returns:
            How many rows.

        Raises:
            InvalidInputError: A column is unknown, or a value does not fit; nothing is written.
            ConstraintError: NULL for a NOT NULL column; nothing is written.
        """
        from ducklake_spark.engine import rows as row_changes

        given = repeatable(rows)
        return self._statement(
            lambda tx, table: row_changes.insert(self._scope, tx, table, given, merge_schema=merge_schema)
        )

    def truncate(self) -> int:
        """Removes all rows in one snapshot; earlier snapshots keep them.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.insert([(1, "x"), (2, "y")]), table.truncate(), table.to_df().count()
        (2, 2, 0)

        Returns:
            How many rows.
        """
        from ducklake_spark.engine import rows as row_changes

        return self._statement(lambda tx, table: row_changes.truncate(self._scope, tx, table))

    @speaking_for(_about("overwrite of"))
    def overwrite(self, rows: RowSource, where: str | Column | None = None) -> int:
        """Replaces all rows, or those for which `where` holds, in one snapshot.

        >>> table = getfixture("lake").create_table("t", {"a": "int"})
        >>> table.insert([{"a": 1}]), table.overwrite([{"a": 2}, {"a": 3}])
        (1, 2)

        Returns:
            How many rows were added.
        """
        from ducklake_spark.engine import rows as row_changes
        from ducklake_spark.write.rowlevel.assignments import require_condition

        require_condition(where, f'the overwrite of table "{self._name}"')
        given = repeatable(rows)
        return self._statement(lambda tx, table: row_changes.overwrite(self._scope, tx, table, given, where))

    def overwrite_partitions(self, rows: RowSource) -> int:
        """Replaces each partition that `rows` have a row for, in one snapshot; all others stay.

        >>> table = getfixture("lake").create_table("t", {"day": "int", "n": "int"}, partitioned_by=["day"])
        >>> table.insert([(1, 10), (1, 11), (2, 20)]), table.overwrite_partitions([(2, 21), (3, 30)])
        (3, 2)
        >>> sorted(map(tuple, table.to_df().collect()))
        [(1, 10), (1, 11), (2, 21), (3, 30)]

        Returns:
            How many rows were added.

        Raises:
            InvalidInputError: The table is not partitioned.
        """
        from ducklake_spark.engine import rows as row_changes

        given = repeatable(rows)
        return self._statement(
            lambda tx, table: row_changes.overwrite_partitions(self._scope, tx, table, given)
        )

    @speaking_for(_about("delete from"))
    def delete(self, condition: str | Column | None = None, *, alias: str | None = None) -> int:
        """Deletes the rows for which the condition holds; all of them without one. Earlier snapshots keep them.

        >>> table = getfixture("lake").create_table("t", {"a": "int"})
        >>> table.insert([{"a": 1}, {"a": 2}]), table.delete("a = 1")
        (2, 1)

        Args:
            condition: SQL text or a Column.
            alias: What the condition calls the table.

        Returns:
            How many rows.
        """
        from ducklake_spark.engine import rows as row_changes
        from ducklake_spark.engine.plain_changes import change
        from ducklake_spark.sql.execute.plain_changes import plain_change
        from ducklake_spark.write.rowlevel.assignments import require_condition

        if condition is None:
            return self.truncate()
        require_condition(condition, f'the delete from table "{self._name}"')
        named, plain = _called(alias), plain_change(condition, None, alias)

        def run(tx: Transaction, table: TableDef) -> int:
            known = None if plain is None else plain.of(table)
            count = None if known is None else change(self._scope, tx, table, known)
            return row_changes.delete(self._scope, tx, table, condition, named) if count is None else count

        return self._statement(run)

    @speaking_for(_about("update of"))
    def update(
        self,
        assignments: Mapping[str, Any],
        condition: str | Column | None = None,
        *,
        alias: str | None = None,
    ) -> int:
        """Gives columns new values in the rows for which the condition holds. The rows keep their row ids.

        >>> table = getfixture("lake").create_table("t", {"a": "int", "b": "varchar"})
        >>> table.insert([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]), table.update({"b": "concat(b, a)"}, "a > 1")
        (2, 1)

        Args:
            assignments: By column, or by the path of a field, SQL text, a Column or a plain value that is no text.
            condition: SQL text or a Column; all rows without one.
            alias: What condition and values call the table.

        Returns:
            How many rows.
        """
        from ducklake_spark.engine import rows as row_changes
        from ducklake_spark.engine.plain_changes import change
        from ducklake_spark.sql.execute.plain_changes import plain_change
        from ducklake_spark.write.rowlevel.assignments import require_condition, require_values

        require_values(assignments, f'the update of table "{self._name}"')
        require_condition(condition, f'the update of table "{self._name}"')
        named, plain = _called(alias), plain_change(condition, assignments, alias)

        def run(tx: Transaction, table: TableDef) -> int:
            known = None if plain is None else plain.of(table)
            count = None if known is None else change(self._scope, tx, table, known)
            if count is not None:
                return count
            return row_changes.update(self._scope, tx, table, assignments, condition, named)

        return self._statement(run)

    def merge(
        self, source: RowSource | Table | str, on: str | Column, *, merge_schema: bool = False
    ) -> MergeBuilder:
        """Begins a merge; see `MergeBuilder`.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.insert([(1, "old")])
        1
        >>> source = lake.spark.createDataFrame([(1, "new"), (2, "new")], "a INT, b STRING")
        >>> merge = table.merge(source, "target.a = source.a").when_matched().update_all()
        >>> merge.when_not_matched().insert_all().execute()
        MergeResult(inserted=1, updated=1, deleted=0)

        Args:
            source: The rows to merge in: a DataFrame, a `Table` or the name of one in this lake, or rows as `insert`
                takes them.
            on: When a row of the source matches one of the table: SQL text or a Column over `source` and `target`.
            merge_schema: Add columns of the source that the table does not have, in the same snapshot.
        """
        from ducklake_spark.api.merge import MergeBuilder

        return MergeBuilder(cast("Table", self), source, on, merge_schema=merge_schema)
