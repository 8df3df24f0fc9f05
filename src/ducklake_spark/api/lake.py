"""`Lake`: the handle a user holds. Statements come in, are resolved at one snapshot, and become one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.snapshot import (
    snapshot_at_time,
    snapshot_at_version,
)
from ducklake_spark.catalog.tables import TABLES
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.retry import repeatable
from ducklake_spark.engine.scope import Scope
from ducklake_spark.engine.times import Timestamp, micros_of
from ducklake_spark.errors import (
    InvalidInputError,
    NotFoundError,
    TransactionError,
    did_you_mean,
)
from ducklake_spark.format import duckdb_sql
from ducklake_spark.format.names import Name, check_name, check_text, split_name
from ducklake_spark.format.objects import EPOCH, MacroImpl, SchemaDef, ViewDef
from ducklake_spark.format.options import OPTIONS, OptionKey, option_def
from ducklake_spark.format.rows import CommitInfo
from ducklake_spark.write.schema import SchemaLike, column_specs, is_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ducklake_spark.api.table import Table
    from ducklake_spark.engine.feeds import Bound
    from ducklake_spark.scan.projection.types import TimestampNs


class Lake:
    """A lake: a catalog database plus Parquet files. Made by `attach()`; also a context manager that closes it.

    Each change is a transaction of its own unless it stands inside `with lake.transaction():`. A lake may be used
    from several threads; each has its own transaction.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    # The handle itself.

    @property
    def name(self) -> str:
        """The lake's name in SQL."""
        return self._scope.name

    @property
    def default_schema(self) -> str:
        """The schema of names that have no schema; see `use()`."""
        return self._scope.default_schema

    def use(self, schema: str) -> None:
        """USE: names without a schema mean this one from now on. Tables of `main` that it does not have stay known.

        >>> lake = getfixture("lake")
        >>> lake.create_schema("sales")
        >>> lake.use("sales")
        >>> lake.create_table("orders", {"id": "bigint"}).schema_name
        'sales'

        Raises:
            NotFoundError: There is no such schema.
        """
        check_name("schema", schema)
        self._scope.default_schema = ddl.get_schema(self._scope.read_transaction(), schema).name

    @property
    def data_path(self) -> str:
        """Where the data files are.

        >>> getfixture("lake").data_path.endswith("metadata.ducklake.files/")
        True
        """
        return self._scope.config.data_path

    @property
    def read_only(self) -> bool:
        """Whether every change is refused."""
        return self._scope.config.read_only

    @property
    def spark(self) -> SparkSession:
        """The session in which data is read and written; made when it is first needed."""
        return self._scope.spark

    def close(self) -> None:
        """Closes the connections to the catalog. DataFrames that were made before can no longer be run."""
        self._scope.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        from ducklake_spark.api.display import lake_text

        return lake_text(self)

    def _repr_html_(self) -> str:
        from ducklake_spark.api.display import lake_html

        return lake_html(self)

    def __str__(self) -> str:
        scope = self._scope
        at = f" at version {scope.pinned.snapshot_id}" if scope.pinned else ""
        state = ", closed" if scope.is_closed else ", read-only" if self.read_only else ""
        return f"Lake({self.name}: {scope.store.display}{at}{state})"

    def at(self, *, version: int | None = None, timestamp: Timestamp | None = None) -> Lake:
        """The lake as it was at a snapshot, read-only.

        >>> lake = getfixture("lake")
        >>> _ = lake.create_table("t", {"a": "int"})
        >>> lake.at(version=0).tables(), lake.at(version=1).tables()
        ([], ['main.t'])

        Raises:
            SnapshotNotFoundError: There is no such snapshot.
        """
        if (version is None) == (timestamp is None):
            raise InvalidInputError("at() takes a version or a timestamp, and not both.")
        self._scope.require_open()
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise InvalidInputError(f"version takes a whole number, not {version!r}.")
        if version is not None:
            pinned = snapshot_at_version(self._scope.store, version)
        else:
            assert timestamp is not None
            pinned = snapshot_at_time(self._scope.store, micros_of(timestamp, "timestamp"), str(timestamp))
        return Lake(self._scope.at(pinned))

    # Transactions.

    @contextmanager
    def transaction(
        self, *, author: str | None = None, message: str | None = None, extra_info: str | None = None
    ) -> Iterator[Lake]:
        """Groups changes into one snapshot, or none when the block raises. Reads inside see the changes.

        >>> lake = getfixture("lake")
        >>> with lake.transaction(author="Ada", message="set up"):
        ...     lake.create_schema("sales")
        ...     orders = lake.create_table("sales.orders", {"id": "bigint"})
        >>> lake.version
        1

        Raises:
            ConflictError: At the end of the block, when others committed something that cannot be combined with it.
        """
        with self._scope.block(_commit_info(author, message, extra_info)):
            yield self

    def begin(
        self, *, author: str | None = None, message: str | None = None, extra_info: str | None = None
    ) -> None:
        """BEGIN: from now on the changes of this thread are one snapshot, until `commit()` or `rollback()`.

        >>> lake = getfixture("lake")
        >>> lake.begin()
        >>> lake.create_schema("sales")
        >>> lake.rollback()
        >>> lake.schemas()
        ['main']

        Raises:
            TransactionError: A transaction is running in this thread already.
        """
        self._scope.begin(_commit_info(author, message, extra_info))

    def commit(self) -> None:
        """COMMIT: makes the snapshot of what was changed since `begin()`.

        >>> lake = getfixture("lake")
        >>> lake.begin()
        >>> table = lake.create_table("t", {"a": "int"})
        >>> table.insert([(1,)])
        1
        >>> lake.commit()
        >>> lake.version
        1

        Raises:
            TransactionError: No transaction is running, or a statement of it failed while it ran.
            ConflictError: Others committed something that cannot be combined with it; nothing was written.
        """
        self._scope.commit()

    def rollback(self) -> None:
        """ROLLBACK: forgets what was changed since `begin()`.

        >>> lake = getfixture("lake")
        >>> lake.begin()
        >>> table = lake.create_table("t", {"a": "int"})
        >>> lake.rollback()
        >>> lake.tables()
        []

        Raises:
            TransactionError: No transaction is running.
        """
        self._scope.rollback()

    def set_commit_message(
        self, author: str | None, message: str | None, *, extra_info: str | None = None
    ) -> None:
        """Says who makes the running transaction, and why.

        >>> lake = getfixture("lake")
        >>> with lake.transaction():
        ...     lake.create_schema("s")
        ...     lake.set_commit_message("Ada", "a place for the raw data")
        >>> lake.snapshots().select("author", "commit_message").collect()[-1]
        Row(author='Ada', commit_message='a place for the raw data')
        """
        self._scope.require_open()
        if self._scope.transaction is None:
            raise TransactionError(
                "A commit message belongs to a transaction: use it inside `with lake.transaction():`, or give it "
                "there as author=, message= and extra_info=."
            )
        self._scope.transaction.info = _commit_info(author, message, extra_info)

    # What is in the lake.

    @property
    def version(self) -> int:
        """The id of the snapshot that reads see now."""
        return self._scope.read_transaction().snapshot.snapshot_id

    def schemas(self) -> list[str]:
        """The names of all schemas."""
        return [schema.name for schema in self._scope.read_transaction().schemas()]

    def tables(self, schema: str | None = None) -> list[str]:
        """The tables of a schema, or of all, as `schema.table`.

        >>> lake = getfixture("lake")
        >>> lake.create_schema("s")
        >>> table, other = lake.create_table("t", {"a": "int"}), lake.create_table("s.u", {"a": "int"})
        >>> lake.tables(), lake.tables("s")
        (['main.t', 's.u'], ['s.u'])
        """
        view = self._scope.read_transaction()
        return [
            _dotted(each, name) for each in _chosen(view, schema) for name in sorted(view.table_names(each))
        ]

    def views(self, schema: str | None = None) -> list[str]:
        """The views of a schema, or of all, as `schema.view`."""
        view = self._scope.read_transaction()
        return [
            _dotted(each, name) for each in _chosen(view, schema) for name in sorted(view.view_names(each))
        ]

    def macros(self, schema: str | None = None) -> list[str]:
        """The macros of a schema, or of all, as `schema.macro`."""
        view = self._scope.read_transaction()
        names = {_dotted(each, macro.name) for each in _chosen(view, schema) for macro in view.macros(each)}
        return sorted(names)

    def view(self, name: Name) -> ViewDef:
        """What a view is: its SQL text, its column aliases and its comment.

        >>> lake = getfixture("lake")
        >>> lake.create_view("v", "SELECT 1 AS a")
        >>> lake.view("v").sql
        'SELECT 1 AS a'
        """
        tx = self._scope.read_transaction()
        schema, view_name = self._scope.resolve(tx, name, "view")
        return ddl.get_view(tx, schema, view_name)

    def __getitem__(self, name: Name) -> Table:
        """The handle of a table.

        Raises:
            NotFoundError: There is no such table, with near names.
        """
        from ducklake_spark.api.table import Table

        view = self._scope.read_transaction()
        schema, table_name = self._scope.resolve(view, name)
        table = ddl.get_table(view, schema, table_name)
        return Table(self, schema.name, table.name)

    def table(
        self,
        name: Name,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        *,
        virtual_columns: Sequence[str] = (),
        timestamp_ns: TimestampNs = "long",
    ) -> DataFrame:
        """A table or view as a DataFrame, pinned to the snapshot at which it is made.

        >>> lake = getfixture("lake")
        >>> lake.create_table("t", {"a": "int"}).insert([{"a": 1}, {"a": 2}])
        2
        >>> lake.table("t").count(), lake.table("t", version=1).count()
        (2, 0)

        Args:
            name: `table` or `schema.table`.
            version: Read this snapshot.
            timestamp: Read the newest snapshot that is not younger.
            virtual_columns: Add some of `rowid`, `snapshot_id`, `filename` and `file_row_number`.
            timestamp_ns: Show nanosecond timestamps as "long" (nothing is lost) or "micros".
        """
        from ducklake_spark.engine.reads import read
        from ducklake_spark.sql.resolve.views import read_view

        if version is not None or timestamp is not None:
            return self.at(version=version, timestamp=timestamp).table(
                name, virtual_columns=virtual_columns, timestamp_ns=timestamp_ns
            )
        tx = self._scope.read_transaction()
        schema, own = self._scope.resolve(tx, name)
        view = tx.view(schema, own) if tx.table(schema, own) is None else None
        if view is not None:
            return read_view(self, tx, schema.name, view, timestamp_ns)
        return read(self._scope, tx, ddl.get_table(tx, schema, own), virtual_columns, timestamp_ns)

    def sql(
        self, text: str, dialect: str = "spark", args: Mapping[str, Any] | Sequence[Any] | None = None
    ) -> DataFrame:
        """Runs SQL: queries over the lake's tables and the session's, and statements that change the lake.

        >>> lake = getfixture("lake")
        >>> lake.sql("CREATE TABLE t AS SELECT id AS a FROM range(3)").collect()
        [Row(Count=3)]
        >>> lake.sql("SELECT sum(a) AS s FROM t WHERE a > :low", args={"low": 0}).collect()
        [Row(s=3)]
        >>> lake.sql("FROM t SELECT a::VARCHAR || '!' AS x ORDER BY a LIMIT 1", dialect="duckdb").collect()
        [Row(x='0!')]

        Args:
            text: One statement, or several with `;` between them, which run in order.
            dialect: "spark", or "duckdb" for DuckDB's.
            args: Values for `:name` or `?` in the text.

        Returns:
            The result of the last statement.
        """
        from ducklake_spark.sql.execute.run import run

        return run(self, text, dialect, args)

    def explain(self, frame: DataFrame) -> str:
        """Which files a query will read: a line for each scan of a lake, with how many are kept of how many.

        >>> lake = getfixture("lake")
        >>> lake.set_option("data_inlining_row_limit", 0)
        >>> table = lake.create_table("t", {"a": "int"})
        >>> table.insert([(1,), (2,)]), table.insert([(3,), (4,)])
        (2, 2)
        >>> print(lake.explain(lake.table("t").where("a > 2")))
        lake.main.t at snapshot 3: 1 of 2 files
        """
        from ducklake_spark.spark.file_index import explain, is_classic

        if not hasattr(frame, "sparkSession"):
            raise InvalidInputError(f"explain() takes a DataFrame, as lake.sql() gives it, not {frame!r}.")
        if not is_classic(frame.sparkSession):
            raise InvalidInputError(
                "explain() looks into the plan of a classic Spark session; a Spark Connect session does not show it."
            )
        return explain(frame)

    def __contains__(self, name: object) -> bool:
        """Whether the lake has a table of this name."""
        if not isinstance(name, (str, tuple, list)):
            return False
        view = self._scope.read_transaction()
        if view.schema(self._scope.parts(name, "table")[0]) is None:
            return False
        schema, own = self._scope.resolve(view, name)
        return view.table(schema, own) is not None

    # Schemas, tables, views and macros.

    def create_schema(self, name: str, *, if_not_exists: bool = False) -> None:
        """CREATE SCHEMA. The name is taken as it is, dots and quotes included.

        >>> lake = getfixture("lake")
        >>> lake.create_schema("raw")
        >>> lake.create_schema("raw", if_not_exists=True)
        >>> lake.schemas()
        ['main', 'raw']
        """
        self._scope.statement(lambda tx: ddl.create_schema(tx, name, if_not_exists=if_not_exists))

    def drop_schema(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """DROP SCHEMA; with `cascade`, all that is in it.

        >>> lake = getfixture("lake")
        >>> lake.create_schema("raw")
        >>> table = lake.create_table("raw.t", {"a": "int"})
        >>> lake.drop_schema("raw", cascade=True)
        >>> lake.schemas()
        ['main']
        """
        self._scope.statement(lambda tx: ddl.drop_schema(tx, name, cascade=cascade, if_exists=if_exists))

    def create_table(
        self,
        name: Name,
        schema: SchemaLike | Any,
        *,
        partitioned_by: Sequence[str] = (),
        sorted_by: Sequence[str] = (),
        not_null: Sequence[str] = (),
        defaults: Mapping[str, Any] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
        or_replace: bool = False,
    ) -> Table:
        """CREATE TABLE.

        >>> lake = getfixture("lake")
        >>> lake.create_table(
        ...     "events",
        ...     {"id": "bigint", "at": "timestamptz", "tags": "varchar[]"},
        ...     partitioned_by=["day(at)"],
        ...     not_null=["id"],
        ... )
        Table(main.events)
          id    BIGINT NOT NULL
          at    TIMESTAMP WITH TIME ZONE
          tags  VARCHAR[]
          partitioned by  day("at")
          size            no rows

        Args:
            name: `table` or `schema.table`.
            schema: A dict of names and types, a list of pairs, a text like `a INT, b VARCHAR`, a Spark StructType, or
                rows as `Table.insert` takes them (a DataFrame, an Arrow table, a pandas DataFrame, a list of dicts),
                which give the columns their names and types and are inserted in the same snapshot.
            partitioned_by: Keys such as `region`, `year(at)` or `bucket(16, id)`.
            sorted_by: Keys such as `at DESC`.
            not_null: Columns that cannot be NULL.
            defaults: Values for columns that an insert leaves out; an `Expression` is computed for each row.
            comment: A comment on the table.
            if_not_exists: Do nothing when the table exists.
            or_replace: Drop a table of that name first, in the same snapshot.
        """
        from ducklake_spark.api.table import Table

        own = self._scope.parts(name, "table")[1]
        schema = repeatable(schema)
        rows = None
        if not is_frame(schema) and not isinstance(schema, (str, Mapping)):
            from ducklake_spark.write.inferred import given_rows

            rows = given_rows(schema, own)
        columns = schema if rows is None else rows.columns(own)
        not_null = repeatable(not_null)
        partitioned_by, sorted_by = repeatable(partitioned_by), repeatable(sorted_by)

        def run(tx: Transaction) -> Table:
            found, own = self._scope.resolve(tx, name, new=True)
            specs = column_specs(columns, own, not_null=not_null, defaults=defaults or {})
            existed = if_not_exists and tx.table(found, own) is not None
            table = ddl.create_table(
                tx,
                found,
                own,
                specs,
                partitioned_by=partitioned_by,
                sorted_by=sorted_by,
                comment=comment,
                if_not_exists=if_not_exists,
                or_replace=or_replace,
            )
            handle = Table(self, found.name, table.name)
            if not existed and (rows is not None or is_frame(schema)):
                from ducklake_spark.engine.inserts import add_rows

                add_rows(self._scope, tx, table, schema if rows is None else rows.rows)
            return handle

        return self._scope.statement(run)

    def drop_table(self, name: Name, *, if_exists: bool = False) -> None:
        """DROP TABLE.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> lake.drop_table("t")
        >>> lake.drop_table("t", if_exists=True)
        >>> lake.at(version=1).tables()
        ['main.t']
        """

        def run(tx: Transaction) -> None:
            schema, own = self._scope.resolve(tx, name)
            ddl.drop_table(tx, schema, own, if_exists=if_exists)

        self._scope.statement(run)

    def create_view(
        self,
        name: Name,
        sql: str,
        columns: Sequence[str] = (),
        *,
        dialect: str = "spark",
        comment: str | None = None,
        if_not_exists: bool = False,
        or_replace: bool = False,
    ) -> None:
        """CREATE VIEW. The text is kept in DuckDB's dialect, which everybody who shares the lake can read.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> lake.create_view("v", "SELECT a * 2 AS twice FROM t")
        >>> table.insert([(1, "x")]), lake.table("v").collect()
        (1, [Row(twice=2)])

        Args:
            name: `view` or `schema.view`.
            sql: A query.
            columns: Names for its columns.
            dialect: The dialect of `sql`: `spark` or `duckdb`.
            comment: A comment on the view.
            if_not_exists: Do nothing when the view exists.
            or_replace: Drop a view of that name first, in the same snapshot.
        """
        columns = repeatable(columns)

        def run(tx: Transaction) -> None:
            schema, own = self._scope.resolve(tx, name, "view", new=True)
            text = duckdb_sql.canonical_query(
                _to_duckdb(sql, dialect), self.name, f'the query of view "{own}"'
            )
            ddl.create_view(
                tx,
                schema,
                own,
                text,
                columns,
                comment=comment,
                if_not_exists=if_not_exists,
                or_replace=or_replace,
            )

        self._scope.statement(run)

    def drop_view(self, name: Name, *, if_exists: bool = False) -> None:
        """DROP VIEW.

        >>> lake = getfixture("lake")
        >>> lake.create_view("v", "SELECT 1 AS a")
        >>> lake.drop_view("v")
        >>> lake.views()
        []
        """

        def run(tx: Transaction) -> None:
            schema, own = self._scope.resolve(tx, name, "view")
            ddl.drop_view(tx, schema, own, if_exists=if_exists)

        self._scope.statement(run)

    def rename_view(self, name: Name, new_name: str) -> None:
        """ALTER VIEW RENAME TO; the new name is in the same schema.

        >>> lake = getfixture("lake")
        >>> lake.create_view("v", "SELECT 1 AS a")
        >>> lake.rename_view("v", "w")
        >>> lake.views()
        ['main.w']
        """

        def run(tx: Transaction) -> None:
            schema, own = self._scope.resolve(tx, name, "view")
            ddl.rename_view(tx, schema, own, new_name)

        self._scope.statement(run)

    def comment_view(self, name: Name, comment: str | None) -> None:
        """COMMENT ON VIEW; None removes it.

        >>> lake = getfixture("lake")
        >>> lake.create_view("v", "SELECT 1 AS a")
        >>> lake.comment_view("v", "always one")
        >>> lake.view("v").comment
        'always one'
        """

        def run(tx: Transaction) -> None:
            schema, own = self._scope.resolve(tx, name, "view")
            ddl.comment_view(tx, ddl.get_view(tx, schema, own), comment)

        self._scope.statement(run)

    def create_macro(
        self,
        name: Name,
        sql: str,
        parameters: Sequence[str] = (),
        *,
        table: bool = False,
        overloads: Sequence[tuple[str, Sequence[str]]] = (),
        dialect: str = "spark",
        if_not_exists: bool = False,
        or_replace: bool = False,
    ) -> None:
        """CREATE MACRO.

        >>> getfixture("lake").create_macro("add", "a + b", ["a", "b := 10"])

        Args:
            name: `macro` or `schema.macro`.
            sql: An expression; a query for a table macro.
            parameters: Texts like `a`, `a INTEGER` or `b := 10`.
            table: Whether it is a table macro.
            overloads: More implementations, each with its parameters.
            dialect: The dialect of the texts: `spark` or `duckdb`.
            if_not_exists: Do nothing when the macro exists.
            or_replace: Drop a macro of that name first, in the same snapshot.
        """

        def impl(text: str, names: Sequence[str]) -> MacroImpl:
            if table:
                query = duckdb_sql.canonical_query(_to_duckdb(text, dialect), self.name, "the macro")
                return duckdb_sql.macro_impl(query, names, table=True)
            duckdb_sql.require_sql(text, "the macro")
            prefix = "SELECT "
            return duckdb_sql.macro_impl(
                _to_duckdb(prefix + text, dialect).removeprefix(prefix), names, table=False
            )

        bodies = [(text, repeatable(names)) for text, names in [(sql, parameters), *overloads]]

        def run(tx: Transaction) -> None:
            schema, own = self._scope.resolve(tx, name, "macro", new=True)
            impls = [impl(text, names) for text, names in bodies]
            ddl.create_macro(tx, schema, own, impls, if_not_exists=if_not_exists, or_replace=or_replace)

        self._scope.statement(run)

    def drop_macro(self, name: Name, *, table: bool = False, if_exists: bool = False) -> None:
        """DROP MACRO, or DROP MACRO TABLE with `table`.

        >>> lake = getfixture("lake")
        >>> lake.create_macro("add", "a + b", ["a", "b"])
        >>> lake.drop_macro("add")
        >>> lake.macros()
        []
        """

        def run(tx: Transaction) -> None:
            schema, own = self._scope.resolve(tx, name, "macro")
            ddl.drop_macro(tx, schema, own, table=table, if_exists=if_exists)

        self._scope.statement(run)

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

        def run(tx: Transaction) -> None:
            if table is not None:
                parts = (schema, *split_name(table)) if schema is not None else table
                found, own = self._scope.resolve(tx, parts)
                ddl.set_option(tx, option, value, table=ddl.get_table(tx, found, own))
            elif schema is not None:
                ddl.set_option(tx, option, value, schema=ddl.get_schema(tx, schema))
            else:
                ddl.set_option(tx, option, value)

        self._scope.statement(run)

    def get_option(self, option: str, *, schema: str | None = None, table: Name | None = None) -> str | None:
        """The value of an option that is in force for a table, a schema or the lake; None when it has its default.

        >>> lake = getfixture("lake")
        >>> lake.set_option("parquet_compression", "zstd")
        >>> lake.get_option("parquet_compression"), lake.get_option("parquet_version")
        ('zstd', None)
        """
        key, _ = option_def(option)
        tx = self._scope.read_transaction()
        if table is not None:
            parts = (schema, *split_name(table)) if schema is not None else table
            found, own = self._scope.resolve(tx, parts)
            definition = ddl.get_table(tx, found, own)
            return tx.options.get(key, schema_id=found.schema_id, table_id=definition.table_id)
        schema_id = None if schema is None else ddl.get_schema(tx, schema).schema_id
        return tx.options.get(key, schema_id=schema_id)

    # Answers as DataFrames.

    def table_changes(
        self,
        name: Name,
        start: Bound,
        end: Bound | None = None,
        *,
        net: bool = False,
        timestamp_ns: TimestampNs = "long",
    ) -> DataFrame:
        """What happened to each row of a table from one snapshot to another, both included.

        The columns are `snapshot_id`, `rowid`, `change_type` (`insert`, `delete`, `update_preimage`,
        `update_postimage`) and those that the table has at the end. Only files of these snapshots are read.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int"})
        >>> table.insert([{"a": 1}, {"a": 2}]), table.update({"a": "20"}, "a = 2")
        (2, 1)
        >>> lake.table_changes("t", 3, 3).select("change_type", "a").orderBy("change_type").collect()
        [Row(change_type='update_postimage', a=20), Row(change_type='update_preimage', a=2)]
        >>> lake.table_changes("t", 0, 3, net=True).select("change_type", "a").orderBy("a").collect()
        [Row(change_type='insert', a=1), Row(change_type='insert', a=20)]

        Args:
            name: `table` or `schema.table`.
            start: The first snapshot: a version, or a time (the first snapshot from then on).
            end: The last snapshot: a version, or a time (the last snapshot until then); the newest without one.
            net: Only what became of each row in sum: nothing for a row that came and went, one pair of images for a
                row that was updated many times. `snapshot_id` says when the image that is shown came or went.
            timestamp_ns: Show nanosecond timestamps as "long" (nothing is lost) or "micros".

        Raises:
            SnapshotNotFoundError: There is no such snapshot.
            NotFoundError: There is no such table at the end.
        """
        from ducklake_spark.engine import feeds

        return feeds.changes(self, name, start, end, net=net, timestamp_ns=timestamp_ns)

    def table_insertions(
        self,
        name: Name,
        start: Bound,
        end: Bound | None = None,
        *,
        virtual_columns: Sequence[str] = (),
        timestamp_ns: TimestampNs = "long",
    ) -> DataFrame:
        """The rows that were added to a table from one snapshot to another, new versions of updated rows too.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.insert([(1, "x"), (2, "y")]), table.update({"b": "'z'"}, "a = 2")
        (2, 1)
        >>> lake.table_insertions("t", 3, 3, virtual_columns=["rowid"]).collect()
        [Row(a=2, b='z', rowid=1)]

        Args:
            name: `table` or `schema.table`.
            start: The first snapshot, as in `table_changes`.
            end: The last snapshot, as in `table_changes`.
            virtual_columns: Add `rowid` or `snapshot_id` behind the table's own columns.
            timestamp_ns: Show nanosecond timestamps as "long" (nothing is lost) or "micros".
        """
        from ducklake_spark.engine import feeds

        return feeds.insertions(self, name, start, end, virtual_columns, timestamp_ns)

    def table_deletions(
        self,
        name: Name,
        start: Bound,
        end: Bound | None = None,
        *,
        virtual_columns: Sequence[str] = (),
        timestamp_ns: TimestampNs = "long",
    ) -> DataFrame:
        """The rows that were removed from a table from one snapshot to another, old versions of updated rows too.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.insert([(1, "x"), (2, "y")]), table.delete("a = 2")
        (2, 1)
        >>> lake.table_deletions("t", 3, 3).collect()
        [Row(a=2, b='y')]

        Args:
            name: `table` or `schema.table`.
            start: The first snapshot, as in `table_changes`.
            end: The last snapshot, as in `table_changes`.
            virtual_columns: Add `rowid` or `snapshot_id` behind the table's own columns.
            timestamp_ns: Show nanosecond timestamps as "long" (nothing is lost) or "micros".
        """
        from ducklake_spark.engine import feeds

        return feeds.deletions(self, name, start, end, virtual_columns, timestamp_ns)

    def snapshots(self) -> DataFrame:
        """All snapshots, with the columns and values of the extension's `snapshots()`; newer ones than its own too.

        >>> lake = getfixture("lake")
        >>> lake.create_schema("s")
        >>> lake.snapshots().select("snapshot_id", "changes").collect()[-1]
        Row(snapshot_id=1, changes={'schemas_created': ['s']})
        """
        from ducklake_spark.engine.answers import answer

        return answer(
            self,
            self._scope.snapshot_values(),
            "snapshot_id bigint, snapshot_time timestamp, schema_version bigint, changes map<string, array<string>>, "
            "author string, commit_message string, commit_extra_info string",
        )

    def current_snapshot(self) -> DataFrame:
        """The id of the snapshot that reads see now, as one row.

        >>> getfixture("lake").current_snapshot().collect()
        [Row(id=0)]
        """
        from ducklake_spark.engine.answers import answer

        return answer(self, [(self.version,)], "id bigint")

    def last_committed_snapshot(self) -> DataFrame:
        """The id of the last snapshot that this handle committed, or NULL, as one row.

        >>> lake = getfixture("lake")
        >>> lake.create_schema("s")
        >>> lake.last_committed_snapshot().collect()
        [Row(id=1)]
        """
        from ducklake_spark.engine.answers import answer

        return answer(self, [(self._scope.last_committed,)], "id bigint")

    def options(self) -> DataFrame:
        """The options that are set, with the columns and values of the extension's `options()`.

        >>> lake = getfixture("lake")
        >>> lake.set_option("target_file_size", "100MB")
        >>> lake.options().where("option_name = 'target_file_size'").select("value", "scope").collect()
        [Row(value='100000000', scope='GLOBAL')]
        """
        tx = self._scope.read_transaction()
        schemas = {schema.schema_id: schema for schema in tx.schemas()}
        rows = []
        for (key, scope, scope_id), value in sorted(tx.options.stored.items(), key=_option_order):
            entry = None
            if scope == "schema" and scope_id in schemas:
                entry = schemas[scope_id].name
            elif scope == "table" and scope_id is not None:
                table = tx.table_of(scope_id)
                entry = f"{schemas[table.schema_id].name}.{table.name}" if table is not None else None
            description = OPTIONS[key].description if key in OPTIONS else None
            rows.append((key, description, value, (scope or "global").upper(), entry))
        from ducklake_spark.engine.answers import answer

        return answer(
            self,
            rows,
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
            self,
            [(self._scope.store.kind, __version__, self.data_path)],
            "catalog_type string, extension_version string, data_path string",
        )

    def table_info(self) -> DataFrame:
        """Every table with its numbers of files and their sizes, with the columns of the extension's `table_info()`.

        >>> lake = getfixture("lake")
        >>> _ = lake.create_table("t", {"a": "int"})
        >>> lake.table_info().select("table_name", "file_count").collect()
        [Row(table_name='t', file_count=0)]
        """
        from ducklake_spark.engine import info

        return info.table_info(self)

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

        if version is not None or timestamp is not None:
            return self.at(version=version, timestamp=timestamp).list_files(name)
        return info.list_files(self, name)

    def metadata(self, table: str) -> DataFrame:
        """A table of the catalog, as it is.

        >>> lake = getfixture("lake")
        >>> lake.metadata("ducklake_schema").select("schema_name").collect()
        [Row(schema_name='main')]
        """
        self._scope.require_open()
        check_name("table", table)
        name = table.lower() if table.lower().startswith("ducklake_") else f"ducklake_{table.lower()}"
        definition = TABLES.get(name)
        if definition is None:
            raise NotFoundError(f'The catalog has no table "{table}".{did_you_mean(name, TABLES)}')
        selected = ", ".join(
            self._scope.store.micros_sql(column.name) if column.type == "TIMESTAMPTZ" else f'"{column.name}"'
            for column in definition.columns
        )
        kinds = {"BIGINT": "bigint", "BOOLEAN": "boolean", "TIMESTAMPTZ": "timestamp"}
        types = [kinds.get(column.type, "string") for column in definition.columns]
        rows = [
            tuple(_spark_value(value, kind) for value, kind in zip(row, types, strict=True))
            for row in self._scope.store.query(f"SELECT {selected} FROM {name}")
        ]
        columns = (f"{column.name} {kind}" for column, kind in zip(definition.columns, types, strict=True))
        from ducklake_spark.engine.answers import answer

        return answer(self, rows, ", ".join(columns))


def _commit_info(author: str | None, message: str | None, extra_info: str | None) -> CommitInfo:
    for what, text in (("author", author), ("message", message), ("extra_info", extra_info)):
        check_text(what, text)
    return CommitInfo(author, message, extra_info)


def _option_order(item: tuple[OptionKey, str]) -> tuple[str, int, int]:
    """By name, as the extension lists them, and for each name tables, schemas and the lake."""
    (key, scope, scope_id), _ = item
    return key, {"table": 0, "schema": 1}.get(scope or "", 2), scope_id or 0


def _microseconds(micros: Any) -> timedelta:
    return timedelta(microseconds=int(micros))


def _spark_value(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "timestamp":
        return EPOCH + _microseconds(value)
    if kind == "boolean":
        return bool(value)
    return int(value) if kind == "bigint" else str(value)


def _chosen(tx: Transaction, schema: str | None) -> list[SchemaDef]:
    return tx.schemas() if schema is None else [ddl.get_schema(tx, schema)]


def _dotted(schema: SchemaDef, name: str) -> str:
    return f"{duckdb_sql.quote_if_needed(schema.name)}.{duckdb_sql.quote_if_needed(name)}"


def _to_duckdb(sql: str, dialect: str) -> str:
    duckdb_sql.require_sql(sql, "the SQL text")
    if dialect == "duckdb":
        return sql
    if dialect != "spark":
        raise InvalidInputError(f'The dialect is "spark" or "duckdb", not "{dialect}".')
    import sqlglot

    from ducklake_spark.sql.parser.grammar_queries import ODD_TREES, unreadable

    try:
        statements = sqlglot.transpile(sql, read="spark", write="duckdb")
    except ODD_TREES as error:
        raise unreadable(error, sql) from None
    if len(statements) != 1:
        raise InvalidInputError(f"Give one statement, not {len(statements)}: {sql}")
    return statements[0]
