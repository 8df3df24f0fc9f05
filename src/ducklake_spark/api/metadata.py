"""The methods of `Lake` that show what the catalog says: snapshots, options, tables and files, as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ducklake_spark.engine.options import get_option, option_rows, set_option
from ducklake_spark.engine.times import Timestamp
from ducklake_spark.format.names import Name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.engine.scope import Scope


class LakeMetadata:
    """What the catalog says of a lake; a part of `Lake`."""

    _scope: Scope

    # Options.

    def set_option(
        self, option: str, value: Any, *, schema: str | None = None, table: Name | None = None
    ) -> None:
        """Sets an option of the lake, of a schema or of a table. Options belong to no snapshot.

        >>> lake = getfixture("lake")
        >>> lake.set_option("target_file_size", "64MB")
        >>> lake.get_option("target_file_size")
        '64000000'
        """
        set_option(self._scope, option, value, schema=schema, table=table)

    def get_option(self, option: str, *, schema: str | None = None, table: Name | None = None) -> str | None:
        """The value of an option that is in force for a table, a schema or the lake; None when it has its default.

        >>> lake = getfixture("lake")
        >>> lake.set_option("parquet_compression", "zstd")
        >>> lake.get_option("parquet_compression"), lake.get_option("parquet_version")
        ('zstd', None)
        """
        return get_option(self._scope, option, schema=schema, table=table)

    def options(self) -> DataFrame:
        """The options that are set, with the columns and values of the extension's `options()`.

        >>> lake = getfixture("lake")
        >>> lake.set_option("target_file_size", "100MB")
        >>> lake.options().where("option_name = 'target_file_size'").select("value", "scope").collect()
        [Row(value='100000000', scope='GLOBAL')]
        """
        from ducklake_spark.engine.answers import answer

        return answer(
            self._scope,
            option_rows(self._scope),
            "option_name string, description string, value string, scope string, scope_entry string",
        )

    def settings(self) -> DataFrame:
        """The kind of catalog, the version of this package, and the data path.

        >>> getfixture("lake").settings().select("catalog_type").collect()
        [Row(catalog_type='duckdb')]
        """
        from ducklake_spark import __version__
        from ducklake_spark.engine.answers import answer

        return answer(
            self._scope,
            [(self._scope.store.kind, __version__, self._scope.config.data_path)],
            "catalog_type string, extension_version string, data_path string",
        )

    # Snapshots.

    def snapshots(self) -> DataFrame:
        """All snapshots, with the columns and values of the extension's `snapshots()`; newer ones than its own too.

        >>> lake = getfixture("lake")
        >>> lake.create_schema("s")
        >>> lake.snapshots().select("snapshot_id", "changes").collect()[-1]
        Row(snapshot_id=1, changes={'schemas_created': ['s']})
        """
        from ducklake_spark.engine import info

        return info.snapshots(self._scope)

    def current_snapshot(self) -> DataFrame:
        """The id of the snapshot that reads see now, as one row.

        >>> getfixture("lake").current_snapshot().collect()
        [Row(id=0)]
        """
        from ducklake_spark.engine.answers import answer

        return answer(self._scope, [(self._scope.read_transaction().snapshot.snapshot_id,)], "id bigint")

    def last_committed_snapshot(self) -> DataFrame:
        """The id of the last snapshot that this handle committed, or NULL, as one row.

        >>> lake = getfixture("lake")
        >>> lake.create_schema("s")
        >>> lake.last_committed_snapshot().collect()
        [Row(id=1)]
        """
        from ducklake_spark.engine.answers import answer

        return answer(self._scope, [(self._scope.last_committed,)], "id bigint")

    # Tables and files.

    def table_info(self) -> DataFrame:
        """Every table with its numbers of files and their sizes, with the columns of the extension's `table_info()`.

        >>> lake = getfixture("lake")
        >>> _ = lake.create_table("t", {"a": "int"})
        >>> lake.table_info().select("table_name", "file_count").collect()
        [Row(table_name='t', file_count=0)]
        """
        from ducklake_spark.engine import info

        return info.table_info(self._scope)

    def list_files(
        self, name: Name, *, version: int | None = None, timestamp: Timestamp | None = None
    ) -> DataFrame:
        """The files of a table, with the columns of the extension's `ducklake_list_files()`.

        >>> lake = getfixture("lake")
        >>> lake.set_option("data_inlining_row_limit", 0)
        >>> table = lake.create_table("t", {"a": "int"})
        >>> table.insert([(1,)]), lake.list_files("t").count()
        (1, 1)

        Args:
            name: `table` or `schema.table`.
            version: As of this snapshot.
            timestamp: As of the newest snapshot that is not younger.
        """
        from ducklake_spark.engine import info
        from ducklake_spark.engine.times import scope_at

        scope = self._scope
        if version is not None or timestamp is not None:
            scope = scope_at(scope, version, timestamp)
        return info.list_files(scope, name)

    def metadata(self, table: str) -> DataFrame:
        """A table of the catalog, as it is.

        >>> lake = getfixture("lake")
        >>> lake.metadata("ducklake_schema").select("schema_name").collect()
        [Row(schema_name='main')]
        """
        from ducklake_spark.engine import info

        return info.metadata(self._scope, table)
