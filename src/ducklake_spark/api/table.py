"""`Table`: one table's handle. It finds the table by its name, in the running transaction or the newest snapshot."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ducklake_spark.api.columns import TableColumns, column_path
from ducklake_spark.api.maintenance import TableMaintenance
from ducklake_spark.api.rows import TableRows
from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.times import Timestamp, scope_at
from ducklake_spark.format.duckdb_sql import quote_if_needed
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import TableDef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.plots import TablePlots


class Table(TableRows, TableColumns, TableMaintenance):
    """A table of a lake. Made by `lake["schema.table"]`, or by `lake.create_table()`."""

    def __repr__(self) -> str:
        from ducklake_spark.api.display import table_text

        return table_text(self)

    def _repr_html_(self) -> str:
        from ducklake_spark.api.display import table_html

        return table_html(self)

    def __str__(self) -> str:
        return f"Table({quote_if_needed(self._schema_name)}.{quote_if_needed(self._name)})"

    @property
    def plot(self) -> TablePlots:
        """Pictures of its files and its history: `plot.files()`, `plot.history()`. Needs the extra `plot`."""
        from ducklake_spark.api.plots import TablePlots

        return TablePlots(self)

    def detail(self) -> DataFrame:
        """One row that says what the table is: ids, place, keys, and how many files, bytes and rows it has.

        >>> table = getfixture("lake").create_table("t", {"a": "int", "b": "int"}, partitioned_by=["a"])
        >>> table.insert([{"a": 1}, {"a": 2}])
        2
        >>> table.detail().select("schema", "name", "partitioned_by", "files", "rows").first()
        Row(schema='main', name='t', partitioned_by=['a'], files=0, rows=2)
        """
        from ducklake_spark.engine.info import detail

        tx = self._scope.read_transaction()
        return detail(self._scope, tx, self._find(tx))

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

        return history(self._scope, self._find(self._scope.read_transaction()))

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

        then = scope_at(self._scope, version, timestamp).pinned
        assert then is not None
        is_own = self._scope.transaction is None
        self._statement(lambda tx, table: restore(self._scope, tx, table, then))
        return self._scope.read_transaction().snapshot.snapshot_id if is_own else None

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
                ddl.comment_column(tx, table, column_path(table, column), comment)

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
