"""`Table`: one table's handle. It finds the table by its name, in the running transaction or the newest snapshot."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ducklake_spark.api.lake import Lake
from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.retry import repeatable
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.engine.times import Timestamp
from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.columns import ColumnDef, find
from ducklake_spark.format.duckdb_sql import quote_if_needed
from ducklake_spark.format.edits import InsertFiles
from ducklake_spark.format.names import Name, split_name, ticked
from ducklake_spark.format.objects import TableDef, is_local
from ducklake_spark.format.types import duckdb_name
from ducklake_spark.spark.errors import Subject, speaking_for
from ducklake_spark.write.schema import data_type_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ducklake_spark.api.merge import MergeBuilder

T = TypeVar("T")

_WRONG_STATISTICS = ("timetz", "interval")
"""Types for which the reference writes that there are no NULLs although there are."""


def _about(change: str) -> Callable[..., Subject]:
    """What an error of Spark in a change of rows is about."""

    def subject(table: Table, *args: Any, **kwargs: Any) -> Subject:
        given = args[0] if args else kwargs.get("assignments")
        values = given if change == "update of" and isinstance(given, Mapping) else {}
        try:
            columns = table.columns
        except DuckLakeError:
            columns = []
        return Subject(f'the {change} table "{table.name}"', columns, values)

    return subject


class Table:
    """A table of a lake. Made by `lake["schema.table"]`, or by `lake.create_table()`."""

    def __init__(self, lake: Lake, schema_name: str, name: str) -> None:
        self._lake, self._schema_name, self._name = lake, schema_name, name
        self._scope = scope_of(lake)

    def __repr__(self) -> str:
        from ducklake_spark.api.display import table_text

        return table_text(self)

    def _repr_html_(self) -> str:
        from ducklake_spark.api.display import table_html

        return table_html(self)

    def __str__(self) -> str:
        return f"Table({quote_if_needed(self._schema_name)}.{quote_if_needed(self._name)})"

    # What it is.

    @property
    def lake(self) -> Lake:
        """The lake that it is in."""
        return self._lake

    @property
    def name(self) -> str:
        """Its name in the schema."""
        return self._name

    @property
    def schema_name(self) -> str:
        """The name of its schema."""
        return self._schema_name

    @property
    def definition(self) -> TableDef:
        """All that the catalog says of it: ids, columns as a tree, specifications, comments."""
        return self._find(self._scope.read_transaction())

    @property
    def columns(self) -> list[str]:
        """The names of its columns.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.columns
        ['a', 'b']
        """
        return [column.name for column in self.definition.columns]

    @property
    def types(self) -> dict[str, str]:
        """The types of its columns, in DuckDB's words.

        >>> table = getfixture("lake").create_table("t", "a INT, b STRUCT(x VARCHAR)")
        >>> table.types
        {'a': 'INTEGER', 'b': 'STRUCT("x" VARCHAR)'}
        """
        return {column.name: duckdb_name(column.data_type) for column in self.definition.columns}

    @property
    def comment(self) -> str | None:
        """Its comment."""
        return self.definition.comment

    @property
    def partitioned_by(self) -> list[str]:
        """Its partition keys, as `set_partitioned_by` takes them."""
        table = self.definition
        names = {column.column_id: quote_if_needed(column.name) for column in table.columns}
        keys = table.partitioning.keys if table.partitioning is not None else ()
        texts = []
        for key in keys:
            column = names[key.column_id]
            if key.buckets is not None:
                texts.append(f"bucket({key.buckets}, {column})")
            else:
                texts.append(column if key.transform == "identity" else f"{key.transform}({column})")
        return texts

    @property
    def sorted_by(self) -> list[str]:
        """Its sort keys, as `set_sorted_by` takes them."""
        sorting = self.definition.sorting
        return [
            f"{key.expression} {key.direction} {key.null_order.replace('_', ' ')}"
            for key in (sorting.keys if sorting is not None else ())
        ]

    # Columns.

    def add_column(
        self,
        name: Name,
        type: Any,
        *,
        default: Any = None,
        not_null: bool = False,
        if_not_exists: bool = False,
    ) -> None:
        """ADD COLUMN. `name` may lead into structs, lists and maps: `st.x`, `list.element.x`, `map.value.x`.

        Rows that exist already show the default.

        >>> table = getfixture("lake").create_table("t", {"a": "int", "st": "struct(x int)"})
        >>> table.add_column("b", "varchar", default="none")
        >>> table.add_column("st.y", "date")
        >>> table.types
        {'a': 'INTEGER', 'st': 'STRUCT("x" INTEGER, "y" DATE)', 'b': 'VARCHAR'}
        """

        def run(tx: Transaction, table: TableDef) -> None:
            ddl.add_column(
                tx,
                table,
                _path(table, name),
                data_type_of(type),
                default=default,
                nulls_allowed=not not_null,
                if_not_exists=if_not_exists,
                has_rows=lambda found: _has_rows(tx, found),
            )

        self._statement(run)

    def drop_column(self, name: Name, *, if_exists: bool = False) -> None:
        """DROP COLUMN, also of a field.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.drop_column("b")
        >>> table.columns
        ['a']
        """
        self._statement(lambda tx, table: ddl.drop_column(tx, table, _path(table, name), if_exists=if_exists))

    def rename_column(self, name: Name, new_name: str) -> None:
        """RENAME COLUMN, also of a field; the new name is one part, taken as it is.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.rename_column("b", "text")
        >>> table.columns
        ['a', 'text']
        """
        self._statement(lambda tx, table: ddl.rename_column(tx, table, _path(table, name), new_name))

    def set_type(self, name: Name, type: Any) -> None:
        """SET TYPE: a wider type that keeps every value; also of fields, elements, keys and values.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_type("a", "bigint")
        >>> table.types
        {'a': 'BIGINT', 'b': 'VARCHAR'}
        """
        self._statement(lambda tx, table: ddl.set_type(tx, table, _path(table, name), data_type_of(type)))

    def set_default(self, name: Name, default: Any) -> None:
        """SET DEFAULT for rows to come; an `Expression` is computed for each row.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_default("b", "none")
        >>> table.insert([{"a": 1}]), table.to_df().collect()
        (1, [Row(a=1, b='none')])
        """
        self._statement(lambda tx, table: ddl.set_default(tx, table, _path(table, name), default))

    def drop_default(self, name: Name) -> None:
        """DROP DEFAULT.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_default("b", "none")
        >>> table.drop_default("b")
        >>> table.insert([{"a": 1}]), table.to_df().collect()
        (1, [Row(a=1, b=None)])
        """
        self.set_default(name, None)

    def set_not_null(self, name: Name) -> None:
        """SET NOT NULL.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_not_null("a")
        >>> table.insert([{"b": "x"}])
        Traceback (most recent call last):
        ...
        ducklake_spark.errors.ConstraintError: NOT NULL constraint failed: column "a" of table "t" got a NULL. ...

        Raises:
            ConstraintError: The column holds NULL.
        """

        def run(tx: Transaction, table: TableDef) -> None:
            ddl.set_nulls_allowed(
                tx,
                table,
                _path(table, name),
                False,
                has_nulls=lambda found, column: (
                    _may_have_nulls(tx, found, column) and self._has_nulls(tx, found, column)
                ),
            )

        self._statement(run)

    def _has_nulls(self, tx: Transaction, table: TableDef, column: ColumnDef) -> bool:
        from pyspark.sql import functions as F

        from ducklake_spark.engine.reads import read

        frame = read(self._scope, tx, table)
        name = ticked(column.name)
        return bool(frame.where(F.col(name).isNull()).limit(1).count())

    def drop_not_null(self, name: Name) -> None:
        """DROP NOT NULL.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_not_null("a")
        >>> table.drop_not_null("a")
        >>> table.insert([{"b": "x"}])
        1
        """
        self._statement(
            lambda tx, table: ddl.set_nulls_allowed(
                tx, table, _path(table, name), True, has_nulls=lambda *_: False
            )
        )

    # Rows.

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

    def truncate(self) -> int:
        """Removes all rows in one snapshot; earlier snapshots keep them.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.insert([(1, "x"), (2, "y")]), table.truncate(), table.to_df().count()
        (2, 2, 0)

        Returns:
            How many rows.
        """
        return self._statement(lambda tx, table: self._empty(tx, table))

    def _empty(self, tx: Transaction, table: TableDef) -> int:
        from ducklake_spark.engine.inserts import target_of
        from ducklake_spark.write.rowlevel.truncate import all_rows

        changes, count = all_rows(
            target_of(self._scope, tx, table), lambda without: self._places(tx, table, without)
        )
        for change in changes:
            tx.apply(change)
        return count

    def _places(self, tx: Transaction, table: TableDef, without: frozenset[int]) -> DataFrame:
        """The rows and where they are, without those of some data files."""
        from ducklake_spark.engine.reads import read
        from ducklake_spark.write.rowlevel.deletes import LOCATOR

        return read(self._scope, tx, table, LOCATOR, without=without)

    @speaking_for(_about("overwrite of"))
    def overwrite(self, rows: Any, where: str | Column | None = None) -> int:
        """Replaces all rows, or those for which `where` holds, in one snapshot.

        >>> table = getfixture("lake").create_table("t", {"a": "int"})
        >>> table.insert([{"a": 1}]), table.overwrite([{"a": 2}, {"a": 3}])
        (1, 2)

        Returns:
            How many rows were added.
        """
        from ducklake_spark.engine.inserts import add, staged
        from ducklake_spark.write.rowlevel.deletes import require_condition

        require_condition(where, f'the overwrite of table "{self._name}"')
        rows = repeatable(rows)

        def run(tx: Transaction, table: TableDef) -> int:
            added = staged(self._scope, tx, table, rows)
            if where is None:
                self._empty(tx, table)
            else:
                self._delete(tx, table, where)
            return add(tx, added)

        return self._statement(run)

    def overwrite_partitions(self, rows: Any) -> int:
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
        from ducklake_spark.engine.inserts import add, target_of
        from ducklake_spark.write.insert import rows_to_add
        from ducklake_spark.write.partitioning.overwrite import replaced, require_keys

        rows = repeatable(rows)

        def run(tx: Transaction, table: TableDef) -> int:
            target = target_of(self._scope, tx, table)
            require_keys(target)
            added = rows_to_add(replace(target, always_files=True), rows)
            if not isinstance(added, InsertFiles):
                return 0
            for change in replaced(target, added, lambda without: self._places(tx, table, without)):
                tx.apply(change)
            return add(tx, added)

        return self._statement(run)

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
        from ducklake_spark.write.rowlevel.deletes import require_condition

        if condition is None:
            return self.truncate()
        require_condition(condition, f'the delete from table "{self._name}"')
        return self._statement(lambda tx, table: self._delete(tx, table, condition, alias))

    def _delete(
        self, tx: Transaction, table: TableDef, condition: str | Column, alias: str | None = None
    ) -> int:
        from ducklake_spark.engine.inserts import target_of
        from ducklake_spark.engine.reads import read
        from ducklake_spark.write.rowlevel.deletes import LOCATOR, delete_matching, mentioned

        virtual = (*LOCATOR, *mentioned(condition))
        frame = read(self._scope, tx, table, virtual)
        target = target_of(self._scope, tx, table)
        change, count = delete_matching(target, _called(frame, alias).where(condition))
        if change is not None:
            tx.apply(change)
        return count

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
        from ducklake_spark.engine.inserts import add, target_of
        from ducklake_spark.engine.reads import read
        from ducklake_spark.write.rowlevel.deletes import (
            HIDDEN,
            changed_rows,
            delete_matching,
            mentioned,
            require_condition,
            require_values,
            versions_to_add,
        )
        from ducklake_spark.write.rowlevel.jobs import side_by_side

        require_values(assignments, f'the update of table "{self._name}"')
        require_condition(condition, f'the update of table "{self._name}"')

        def run(tx: Transaction, table: TableDef) -> int:
            virtual = (*HIDDEN, *mentioned(condition, *assignments.values()))
            frame = read(self._scope, tx, table, virtual)
            frame = _called(frame, alias)
            matching = frame if condition is None else frame.where(condition)
            changed = changed_rows(matching, assignments, table)
            target = target_of(self._scope, tx, table, has_row_ids=True)
            added, (change, count) = side_by_side(
                lambda: versions_to_add(target, changed),
                lambda: delete_matching(target, changed),
            )
            if change is not None:
                tx.apply(change)
            for each in added:
                add(tx, each)
            return count

        return self._statement(run)

    def merge(self, source: Any, on: str | Column, *, merge_schema: bool = False) -> MergeBuilder:
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

        return MergeBuilder(self, source, on, merge_schema=merge_schema)

    def insert(self, rows: Any, *, merge_schema: bool = False) -> int:
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
        from ducklake_spark.engine.inserts import add_rows

        rows = repeatable(rows)

        def run(tx: Transaction, table: TableDef) -> int:
            if not merge_schema:
                return add_rows(self._scope, tx, table, rows)
            from ducklake_spark.write.merge_schema import merged, source_of

            source = source_of(table, rows)
            return add_rows(self._scope, tx, merged(tx, table, source), source)

        return self._statement(run)

    def detail(self) -> DataFrame:
        """One row that says what the table is: ids, place, keys, and how many files, bytes and rows it has.

        >>> table = getfixture("lake").create_table("t", {"a": "int", "b": "int"}, partitioned_by=["a"])
        >>> table.insert([{"a": 1}, {"a": 2}])
        2
        >>> table.detail().select("schema", "name", "partitioned_by", "files", "rows").first()
        Row(schema='main', name='t', partitioned_by=['a'], files=0, rows=2)
        """
        from ducklake_spark.engine.info import detail

        return detail(self)

    # The past.

    def history(self) -> DataFrame:
        """The snapshots that touched this table, the newest first: what they did, when, by whom and why.

        `changes` has the words of the format (`inserted_into_table`, `inlined_delete` ...). `rows_inserted` and
        `rows_deleted` count versions of rows, so an update counts in both; they are NULL where the catalog does not
        know without reading files, as after a compaction.

        >>> table = getfixture("lake").create_table("t", {"a": "int"})
        >>> table.insert([{"a": 1}, {"a": 2}]), table.delete("a = 1")
        (2, 1)
        >>> for row in table.history().select("snapshot_id", "changes", "rows_inserted", "rows_deleted").collect():
        ...     print(tuple(row))
        (3, ['inlined_delete'], 0, 1)
        (2, ['inlined_insert'], 2, 0)
        (1, ['created_table'], 0, 0)
        """
        from ducklake_spark.engine.history import history

        return history(self._lake, self._find(self._scope.read_transaction()))

    def restore(self, version: int | None = None, timestamp: Timestamp | None = None) -> int | None:
        """Makes rows and schema those of an earlier snapshot again, as one new snapshot.

        What is the same stays where it is; rows that were deleted or changed since come back with their row ids, and
        files that ended since are used again. The name stays, and so do options.

        >>> table = getfixture("lake").create_table("t", {"a": "int"})
        >>> table.insert([{"a": 1}, {"a": 2}]), table.delete()
        (2, 2)
        >>> table.restore(version=2), table.to_df().count()
        (4, 2)

        Args:
            version: The snapshot.
            timestamp: Or the newest snapshot that is not younger.

        Returns:
            The id of the new snapshot, or of the present one if nothing differs; None in a transaction, which has no
            snapshot before it ends.

        Raises:
            SnapshotNotFoundError: There is no such snapshot.
            NotFoundError: The table was not there then.
            TypeChangeError: A type was widened since, which cannot be undone in place.
        """
        from ducklake_spark.engine.restore import restore

        then = scope_of(self._lake.at(version=version, timestamp=timestamp)).pinned
        assert then is not None
        is_own = self._scope.transaction is None
        self._statement(lambda tx, table: restore(self._lake, tx, table, then))
        return self._lake.version if is_own else None

    # The table itself.

    def rename(self, new_name: str) -> None:
        """RENAME TO, in the same schema. The handle follows.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.rename("u")
        >>> table.name, lake.tables()
        ('u', ['main.u'])
        """
        self._statement(lambda tx, table: ddl.rename_table(tx, table, new_name))
        self._scope.on_rollback(functools.partial(setattr, self, "_name", self._name))
        self._name = new_name

    def drop(self) -> None:
        """DROP TABLE.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.drop()
        >>> lake.tables()
        []
        """
        self._lake.drop_table((self._schema_name, self._name))

    def set_comment(self, comment: str | None, *, column: Name | None = None) -> None:
        """COMMENT ON TABLE, or on a column; None removes it.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_comment("all that we know")
        >>> table.set_comment("in words", column="b")
        >>> table.comment
        'all that we know'
        """

        def run(tx: Transaction, table: TableDef) -> None:
            if column is None:
                ddl.comment_table(tx, table, comment)
            else:
                ddl.comment_column(tx, table, _path(table, column), comment)

        self._statement(run)

    def set_partitioned_by(self, *keys: str) -> None:
        """SET PARTITIONED BY keys such as `region`, `year(at)` or `bucket(16, id)`; for files to come.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"at": "timestamp", "id": "bigint"})
        >>> table.set_partitioned_by("year(at)", "bucket(16, id)")
        >>> table.partitioned_by
        ['year("at")', 'bucket(16, id)']
        """
        self._statement(lambda tx, table: ddl.set_partitioned_by(tx, table, keys))

    def reset_partitioned_by(self) -> None:
        """RESET PARTITIONED BY.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_partitioned_by("b")
        >>> table.reset_partitioned_by()
        >>> table.partitioned_by
        []
        """
        self._statement(lambda tx, table: ddl.reset_partitioned_by(tx, table))

    def set_sorted_by(self, *keys: str) -> None:
        """SET SORTED BY expressions such as `at DESC NULLS FIRST`; for files to come.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_sorted_by("a DESC", "b")
        >>> len(table.sorted_by)
        2
        """
        self._statement(lambda tx, table: ddl.set_sorted_by(tx, table, keys))

    def reset_sorted_by(self) -> None:
        """RESET SORTED BY.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_sorted_by("a")
        >>> table.reset_sorted_by()
        >>> table.sorted_by
        []
        """
        self._statement(lambda tx, table: ddl.reset_sorted_by(tx, table))

    def set_option(self, option: str, value: Any) -> None:
        """Sets an option for this table.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_option("parquet_compression", "zstd")
        >>> lake.get_option("parquet_compression", table="t")
        'zstd'
        """
        self._lake.set_option(option, value, table=(self._schema_name, self._name))

    # Inside.

    def _find(self, tx: Transaction) -> TableDef:
        return ddl.get_table(tx, ddl.get_schema(tx, self._schema_name), self._name)

    def _statement(self, run: Callable[[Transaction, TableDef], T]) -> T:
        return self._scope.statement(lambda tx: run(tx, self._find(tx)))


def _called(frame: DataFrame, alias: str | None) -> DataFrame:
    return frame if alias is None else frame.alias(alias)


def _path(table: TableDef, name: Name) -> Sequence[str]:
    """The parts of a column's name; a column that has dots in its name is found as it is."""
    if isinstance(name, str) and find(table.columns, name) is not None:
        return (name,)
    return split_name(name, "column")


def _has_rows(tx: Transaction, table: TableDef) -> bool:
    if is_local(table.table_id):
        return False
    rows = tx.store.query(
        "SELECT record_count FROM ducklake_table_stats WHERE table_id = ?", (table.table_id,)
    )
    return any(count is None or int(count) > 0 for (count,) in rows)


def _may_have_nulls(tx: Transaction, table: TableDef, column: ColumnDef) -> bool:
    """Whether the statistics leave it open that a row is NULL; they are bounds, and say nothing of pending rows."""
    edit = tx.edits.tables.get(table.table_id)
    if edit is not None and edit.adds_rows:
        return True
    if not _has_rows(tx, table):
        return False
    rows = tx.store.query(
        "SELECT contains_null FROM ducklake_table_column_stats WHERE table_id = ? AND column_id = ?",
        (table.table_id, column.column_id),
    )
    if column.type in _WRONG_STATISTICS or column.children or not rows:
        return True
    return any(value is None or bool(value) for (value,) in rows)
