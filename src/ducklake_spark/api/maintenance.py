"""The methods of `Lake` and `Table` that keep a lake small, fast and clean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.times import Timestamp
from ducklake_spark.format.names import Name, split_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ducklake_spark.engine.scope import HasScope, Scope
    from ducklake_spark.format.names import Name


class LakeMaintenance:
    """Maintenance of a lake; a part of `Lake`."""

    _scope: Scope

    def health(self) -> DataFrame:
        """What the lake needs: a row for each table, and a last one for the lake.

        Columns: `files` and `bytes` of now; `small_files` that a merge would take; `deleted_rows` in files and their
        share; `inlined_rows`; `snapshots` that changed the table; `old_files` and `old_bytes`, which only time travel
        needs; `orphans`, files that no catalog row names and that are older than the grace period; and `advice`, the
        call that would help. Nothing is changed, and no Spark is needed.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int"})
        >>> table.insert([(number,) for number in range(2000)])
        2000
        >>> table.delete("a < 1500")
        1500
        >>> [row.advice for row in lake.health().collect()]
        ["lake['main.t'].rewrite_data_files(delete_threshold=0.3)", None]
        """
        from ducklake_spark.engine.maintenance.health import health

        return shown(self, health(self._scope))

    def maintain(self, *, dry_run: bool = False) -> DataFrame:
        """Does what `health()` advises: flush, expire, rewrite, merge, clean up, in this order.

        How long history is kept is not guessed: snapshots are expired only if the option `expire_older_than` is set.

        Args:
            dry_run: Only show what would be done.

        Returns:
            A row for each job: the table, the job, the reason, the call, and how many results it had (none in a dry
            run).

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int"})
        >>> for start in range(0, 1000, 100):
        ...     _ = table.insert([(number,) for number in range(start, start + 100)])
        >>> [(row.job, row.reason) for row in lake.maintain(dry_run=True).collect()]
        [('merge_adjacent_files', '10 small files fit into 1')]
        >>> _ = lake.maintain()
        >>> lake.maintain().collect()
        []
        """
        from ducklake_spark.engine.maintenance.health import maintain

        return shown(self, maintain(self._scope, dry_run=dry_run))

    def checkpoint(self, *, dry_run: bool = False) -> DataFrame:
        """CHECKPOINT: every job of maintenance with its defaults and the lake's options, as the extension does it.

        They are, in this order: `flush_inlined_data`, `expire_snapshots`, `merge_adjacent_files`,
        `rewrite_data_files`, `cleanup_old_files`, `delete_orphaned_files`. Each commits by itself.

        Args:
            dry_run: Only say how many results each job would have if it were run now.

        Returns:
            A row for each job, with the number of its results.

        >>> lake = getfixture("lake")
        >>> _ = lake.create_table("t", {"a": "int"}).insert([(1,), (2,)])
        >>> [row.job for row in lake.checkpoint().collect() if row.results]
        ['flush_inlined_data']
        """
        from ducklake_spark.engine.maintenance.checkpoint import checkpoint

        return shown(self, checkpoint(self._scope, dry_run=dry_run))

    def expire_snapshots(
        self,
        older_than: Timestamp | None = None,
        versions: Iterable[int] | None = None,
        *,
        dry_run: bool = False,
    ) -> DataFrame:
        """Forgets old snapshots: nobody can read the lake as of them any more. The newest one always stays.

        Files that no other snapshot needs are scheduled for deletion; `cleanup_old_files()` deletes them. Without
        arguments, the option `expire_older_than` of the lake says how old a snapshot must be; without it, nothing is
        expired. A DataFrame that reads an expired snapshot raises SnapshotNotFoundError.

        >>> lake = getfixture("lake")
        >>> t = lake.create_table("t", {"a": "int"})
        >>> lake.expire_snapshots(versions=[0]).count(), lake.snapshots().count()
        (1, 1)

        Args:
            older_than: Snapshots that were made before this time, which is UTC if it has no zone.
            versions: The ids of snapshots; those that do not exist are ignored.
            dry_run: Only say what would be expired.

        Returns:
            The snapshots that were expired, with the columns of `snapshots()`.

        Raises:
            InvalidInputError: Both are given, or not what they should be.
            TransactionError: Inside of a transaction.
        """
        from ducklake_spark.engine.maintenance.expire import expire_snapshots

        return shown(self, expire_snapshots(self._scope, older_than, versions, dry_run=dry_run))

    def cleanup_old_files(
        self, older_than: Timestamp | None = None, *, cleanup_all: bool = False, dry_run: bool = False
    ) -> DataFrame:
        """Deletes files that no snapshot needs any more, because of `expire_snapshots()`, compaction or deletes.

        They wait for two days, or as long as the option `delete_older_than` says, for readers that are still at work.
        A file that some snapshot names all the same is never deleted. A job that was interrupted can be run again.

        >>> lake = getfixture("lake")
        >>> lake.cleanup_old_files(cleanup_all=True).columns
        ['path', 'bytes']

        Args:
            older_than: Only files that were scheduled before this time, which is UTC if it has no zone.
            cleanup_all: All that are scheduled.
            dry_run: Only say what would be deleted.

        Returns:
            The files, and their sizes; NULL for one that was gone already.

        Raises:
            InvalidInputError: Both are given, or neither although the option is empty.
            UnsafePathError: Some are not the lake's own: by their paths, or because links lead out of the data path.
                All others were deleted.
            FileError: Some could not be deleted; all others were.
            TransactionError: Inside of a transaction.
        """
        from ducklake_spark.engine.maintenance.cleanup import cleanup_old_files

        return shown(
            self, cleanup_old_files(self._scope, older_than, cleanup_all=cleanup_all, dry_run=dry_run)
        )

    def delete_orphaned_files(
        self, older_than: Timestamp | None = None, *, cleanup_all: bool = False, dry_run: bool = False
    ) -> DataFrame:
        """Deletes Parquet files below the data path that the catalog does not know, such as those of killed writers.

        A writer's files are unknown until it commits. By default only files are deleted that have not changed for two
        days, or for as long as the option `delete_older_than` says. With `cleanup_all`, or a recent `older_than`,
        nobody must be writing to the lake: the files of a running writer would be deleted, as by the extension.

        >>> lake = getfixture("lake")
        >>> lake.delete_orphaned_files().count()
        0

        Args:
            older_than: Only files that were last changed before this time, which is UTC if it has no zone.
            cleanup_all: Files of any age.
            dry_run: Only say what would be deleted.

        Returns:
            The files and their sizes.

        Raises:
            InvalidInputError: Both are given, or neither although the option is empty.
            FileError: Some could not be deleted; all others were.
            TransactionError: Inside of a transaction.
        """
        from ducklake_spark.engine.maintenance.cleanup import delete_orphaned_files

        return shown(
            self, delete_orphaned_files(self._scope, older_than, cleanup_all=cleanup_all, dry_run=dry_run)
        )

    def flush_inlined_data(
        self, table: Name | None = None, *, schema: str | None = None, dry_run: bool = False
    ) -> DataFrame:
        """Writes rows and deletes that are inlined in the catalog to files, in one snapshot.

        No row changes: time travel and change feeds give what they gave. Tables with the option `auto_compact` set to
        false are left alone. Files are in the order and the partitions of their table. No Spark is needed.

        Args:
            table: Only this table.
            schema: Only the tables of this schema, or the schema of the table.
            dry_run: Only say how many rows would be flushed.

        Returns:
            A row for each table that had inlined rows: `schema_name`, `table_name`, `rows_flushed` (versions of rows,
            deleted ones too), `files`, `bytes`, `delete_files`.

        Raises:
            NotFoundError: There is no such schema or table.
            TransactionError: The running transaction deleted or updated rows of such a table.

        >>> lake = getfixture("lake")
        >>> lake.create_table("t", {"a": "int"}).insert([(1,), (2,)])
        2
        >>> [(row.table_name, row.rows_flushed, row.files) for row in lake.flush_inlined_data().collect()]
        [('t', 2, 1)]
        """
        from ducklake_spark.engine.maintenance.flush import flush_inlined_data

        return shown(self, flush_inlined_data(self._scope, table, schema=schema, dry_run=dry_run))

    def merge_adjacent_files(
        self,
        table: Name | None = None,
        *,
        schema: str | None = None,
        min_file_size: int | None = None,
        max_file_size: int | None = None,
        max_compacted_files: int | None = None,
        where: str | Column | None = None,
        dry_run: bool = False,
    ) -> DataFrame:
        """Merges small data files into larger ones, of one table, of a schema or of the whole lake.

        Time travel and change feeds stay as they are: merged files tell the snapshot of each row. Only files without
        deleted rows are merged, of one partition and one version of the schema, in tables whose option `auto_compact`
        is not false. Each table is a commit of its own. The old files stay on disk until `cleanup_old_files()`.

        Args:
            table: The table; by default every table.
            schema: Its schema; without a table, every table of the schema.
            min_file_size: Smaller files, in bytes, are left alone.
            max_file_size: Files of this size or more are left alone; by default those of the option `target_file_size`.
            max_compacted_files: How many files are made in each table at most.
            where: A condition on columns by which the table is partitioned: only files of such partitions are merged.
            dry_run: Only says what would be done.

        Returns:
            One row for each file that was made: `schema_name`, `table_name`, `files_processed`, `files_created`, and
            `rows`, `bytes_before` and `bytes_after`.

        Example:
            >>> lake = getfixture("lake")
            >>> lake.merge_adjacent_files(dry_run=True).columns
            ['schema_name', 'table_name', 'files_processed', 'files_created', 'rows', 'bytes_before', 'bytes_after']
        """
        from ducklake_spark.engine.maintenance import compaction

        report = compaction.merge_adjacent_files(
            self._scope,
            table,
            schema=schema,
            min_file_size=min_file_size,
            max_file_size=max_file_size,
            max_compacted_files=max_compacted_files,
            where=where,
            dry_run=dry_run,
        )
        return shown(self, report)

    def rewrite_data_files(
        self,
        table: Name | None = None,
        *,
        schema: str | None = None,
        delete_threshold: float | None = None,
        dry_run: bool = False,
    ) -> DataFrame:
        """Writes files anew of which many rows are deleted, without those rows.

        Time travel stays as it is: the old files end, and are there until the snapshots that need them expire.

        Args:
            table: The table; by default every table.
            schema: Its schema; without a table, every table of the schema.
            delete_threshold: Which part of a file's rows must be deleted, from 0 to 1; by default the option
                `rewrite_delete_threshold`, or 0.95.
            dry_run: Only says what would be done.

        Returns:
            As `merge_adjacent_files()`; `files_created` is 0 where no row was left.

        Example:
            >>> lake = getfixture("lake")
            >>> lake.rewrite_data_files(delete_threshold=0.3, dry_run=True).count()
            0
        """
        from ducklake_spark.engine.maintenance import compaction

        report = compaction.rewrite_data_files(
            self._scope, table, schema=schema, delete_threshold=delete_threshold, dry_run=dry_run
        )
        return shown(self, report)

    def add_data_files(
        self,
        table: Name,
        path: str | Sequence[str],
        *,
        schema: str | None = None,
        allow_missing: bool = False,
        ignore_extra_columns: bool = False,
        hive_partitioning: bool | None = None,
        dry_run: bool = False,
    ) -> DataFrame:
        """Adds Parquet files to a table as they are: nothing is copied or rewritten.

        Columns are matched by name. From now on the files belong to the lake, which deletes them when no snapshot needs
        them any more; until the commit they are yours, and a transaction that is rolled back leaves them alone.

        Args:
            table: The table.
            path: A file, a folder, a pattern such as `/data/**/*.parquet`, or a list of these.
            schema: The table's schema.
            allow_missing: Whether files may lack columns of the table, which then read as their initial default.
            ignore_extra_columns: Whether files may have columns that the table lacks.
            hive_partitioning: Whether folders such as `year=2024` give values of columns. By default they do where they
                are called like columns of the table.
            dry_run: Only look at the files, and say what would be added.

        Returns:
            One row for each file: `filename`, `row_count`, `file_size_bytes`. Files without rows are left out.

        Raises:
            FileError: A file is not there, or cannot be read as Parquet.
            InvalidInputError: A file does not fit the table.
            ConstraintError: A NOT NULL column would have NULLs.

        >>> lake, folder = getfixture("lake"), getfixture("tmp_path")
        >>> lake.spark.range(3).write.parquet(f"{folder}/ids")
        >>> table = lake.create_table("events", "id BIGINT")
        >>> added = lake.add_data_files("events", f"{folder}/ids/*.parquet")
        >>> lake.table("events").count()
        3
        """
        from ducklake_spark.engine.maintenance import add_files

        report = add_files.add_data_files(
            self._scope,
            table if schema is None else (schema, *split_name(table, "table")),
            path,
            allow_missing=allow_missing,
            ignore_extra_columns=ignore_extra_columns,
            hive_partitioning=hive_partitioning,
            dry_run=dry_run,
        )
        return shown(self, report)


class TableMaintenance:
    """Maintenance of a table; a part of `Table`."""

    _scope: Scope
    _schema_name: str
    _name: str

    def flush_inlined_data(self, *, dry_run: bool = False) -> DataFrame:
        """Writes the table's inlined rows and deletes to files; see `Lake.flush_inlined_data()`.

        >>> table = getfixture("lake").create_table("t", {"a": "int"})
        >>> table.insert([(1,), (2,)])
        2
        >>> table.flush_inlined_data().first().rows_flushed
        2
        """
        from ducklake_spark.engine.maintenance.flush import flush_inlined_data

        return shown(self, flush_inlined_data(self._scope, (self._schema_name, self._name), dry_run=dry_run))

    def merge_adjacent_files(
        self,
        *,
        min_file_size: int | None = None,
        max_file_size: int | None = None,
        max_compacted_files: int | None = None,
        where: str | Column | None = None,
        dry_run: bool = False,
    ) -> DataFrame:
        """Merges the table's small data files into larger ones: see `Lake.merge_adjacent_files()`."""
        from ducklake_spark.engine.maintenance import compaction

        report = compaction.merge_adjacent_files(
            self._scope,
            (self._schema_name, self._name),
            min_file_size=min_file_size,
            max_file_size=max_file_size,
            max_compacted_files=max_compacted_files,
            where=where,
            dry_run=dry_run,
        )
        return shown(self, report)

    def rewrite_data_files(
        self, *, delete_threshold: float | None = None, dry_run: bool = False
    ) -> DataFrame:
        """Writes files of the table anew of which many rows are deleted: see `Lake.rewrite_data_files()`."""
        from ducklake_spark.engine.maintenance import compaction

        report = compaction.rewrite_data_files(
            self._scope,
            (self._schema_name, self._name),
            delete_threshold=delete_threshold,
            dry_run=dry_run,
        )
        return shown(self, report)

    def add_data_files(
        self,
        path: str | Sequence[str],
        *,
        allow_missing: bool = False,
        ignore_extra_columns: bool = False,
        hive_partitioning: bool | None = None,
        dry_run: bool = False,
    ) -> DataFrame:
        """Adds Parquet files to the table as they are: see `Lake.add_data_files()`."""
        from ducklake_spark.engine.maintenance import add_files

        report = add_files.add_data_files(
            self._scope,
            (self._schema_name, self._name),
            path,
            allow_missing=allow_missing,
            ignore_extra_columns=ignore_extra_columns,
            hive_partitioning=hive_partitioning,
            dry_run=dry_run,
        )
        return shown(self, report)

    def compact(
        self,
        *,
        order_by: str | Sequence[str] | None = None,
        zorder_by: str | Sequence[str] | None = None,
        where: str | Column | None = None,
        dry_run: bool = False,
    ) -> DataFrame:
        """Writes the table's files anew, with rows that have near values of some columns in the same files.

        Scans with conditions on these columns then read few files. `order_by` sorts by one column after the other, so
        that the first counts most; `zorder_by` brings rows together by all of them alike. Rows keep their row ids,
        and deleted rows go; rows in the catalog stay there. The old files end, and are there for time travel until
        their snapshots expire. Change feeds in DuckDB tell of the moved rows as updates that change nothing.

        Args:
            order_by: Columns to sort by.
            zorder_by: Two to eight columns, as a rule.
            where: A condition on columns by which the table is partitioned: only such partitions are written anew.
            dry_run: Only says what would be done.

        Returns:
            As `Lake.merge_adjacent_files()`, with one row for each partition.

        Example:
            >>> table = getfixture("lake").create_table("points", {"x": "int", "y": "int"})
            >>> table.compact(zorder_by=["x", "y"], dry_run=True).count()
            0
        """
        from ducklake_spark.engine.maintenance import clustering

        report = clustering.compact(
            self._scope,
            (self._schema_name, self._name),
            order_by=order_by,
            zorder_by=zorder_by,
            where=where,
            dry_run=dry_run,
        )
        return shown(self, report)


def shown(lake: HasScope, report: Report) -> DataFrame:
    """What a job did, as a DataFrame."""
    from ducklake_spark.engine.answers import answer
    from ducklake_spark.engine.scope import scope_of

    return answer(scope_of(lake), report.rows, report.all_columns)
