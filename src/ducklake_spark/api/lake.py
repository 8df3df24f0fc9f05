"""`Lake`: the handle a user holds. Statements come in, are resolved at one snapshot, and become one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ducklake_spark.api.change_feeds import LakeChangeFeeds
from ducklake_spark.api.definitions import LakeDefinitions
from ducklake_spark.api.maintenance import LakeMaintenance
from ducklake_spark.api.metadata import LakeMetadata
from ducklake_spark.catalog import ddl
from ducklake_spark.engine.scope import Scope
from ducklake_spark.engine.times import Timestamp, scope_at
from ducklake_spark.errors import InvalidInputError, NotFoundError, TransactionError
from ducklake_spark.format.names import Name, check_name, check_text
from ducklake_spark.format.rows import CommitInfo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ducklake_spark.api.plots import LakePlots
    from ducklake_spark.api.table import Table
    from ducklake_spark.explorer.server import Explorer
    from ducklake_spark.scan.projection.types import TimestampNs


class Lake(LakeDefinitions, LakeChangeFeeds, LakeMetadata, LakeMaintenance):
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
        return Lake(scope_at(self._scope, version, timestamp))

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

    # Reading.

    @property
    def version(self) -> int:
        """The id of the snapshot that reads see now."""
        return self._scope.read_transaction().snapshot.snapshot_id

    def __getitem__(self, name: Name) -> Table:
        """The handle of a table.

        Raises:
            NotFoundError: There is no such table, with near names.
        """
        from ducklake_spark.api.table import Table

        tx = self._scope.read_transaction()
        schema, table_name = self._scope.resolve(tx, name)
        table = ddl.get_table(tx, schema, table_name)
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
            virtual_columns: Add some of `rowid`, `snapshot_id`, `filename`, `file_row_number` and `file_index`.
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

    def explore(self, *, port: int = 0, write: bool = False) -> Explorer:
        """Starts the lake explorer, a web page of this computer, and prints its URL. Needs the extra `explore`.

        It runs until the lake is closed, or until `close()` of what is returned. The URL has a token in it that nobody
        else knows; whoever has the URL, and can reach this computer's own address, sees the lake.

        Args:
            port: Where it listens; 0 for any port that is free.
            write: Whether SQL that is typed there may change the lake.

        Raises:
            MissingDriverError: The extra `explore` is not installed.
            InvalidInputError: The port cannot be used.
        """
        from ducklake_spark.explorer.server import explore

        self._scope.require_open()
        found = explore(self, port=port, write=write)
        print(f"The lake explorer: {found.url}")
        return found

    @property
    def plot(self) -> LakePlots:
        """Pictures of the lake: `plot.sizes()`. Needs the extra `plot`."""
        from ducklake_spark.api.plots import LakePlots

        return LakePlots(self)

    def __contains__(self, name: object) -> bool:
        """Whether the lake has a table of this name."""
        if not isinstance(name, (str, tuple, list)):
            return False
        tx = self._scope.read_transaction()
        try:
            schema, own = self._scope.resolve(tx, name)
        except NotFoundError:
            return False
        return tx.table(schema, own) is not None


def _commit_info(author: str | None, message: str | None, extra_info: str | None) -> CommitInfo:
    for what, text in (("author", author), ("message", message), ("extra_info", extra_info)):
        check_text(what, text)
    return CommitInfo(author, message, extra_info)
