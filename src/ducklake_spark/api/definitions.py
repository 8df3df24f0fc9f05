"""The methods of `Lake` that define what is in it: schemas, tables, views and macros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.retry import repeatable
from ducklake_spark.format import duckdb_sql
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import SchemaDef, ViewDef
from ducklake_spark.write.schema import SchemaLike

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake
    from ducklake_spark.api.row_sources import RowSource
    from ducklake_spark.api.table import Table
    from ducklake_spark.engine.scope import Scope


class LakeDefinitions:
    """The definitions of a lake; a part of `Lake`."""

    _scope: Scope

    # What there is.

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
        tx = self._scope.read_transaction()
        return [_dotted(each, name) for each in _chosen(tx, schema) for name in sorted(tx.table_names(each))]

    def views(self, schema: str | None = None) -> list[str]:
        """The views of a schema, or of all, as `schema.view`."""
        tx = self._scope.read_transaction()
        return [_dotted(each, name) for each in _chosen(tx, schema) for name in sorted(tx.view_names(each))]

    def macros(self, schema: str | None = None) -> list[str]:
        """The macros of a schema, or of all, as `schema.macro`."""
        tx = self._scope.read_transaction()
        names = {_dotted(each, macro.name) for each in _chosen(tx, schema) for macro in tx.macros(each)}
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

    # Schemas and tables.

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
        schema: SchemaLike | RowSource,
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
        from ducklake_spark.engine.tables import create_table

        found, table = create_table(
            self._scope,
            name,
            schema,
            partitioned_by=partitioned_by,
            sorted_by=sorted_by,
            not_null=not_null,
            defaults=defaults or {},
            comment=comment,
            if_not_exists=if_not_exists,
            or_replace=or_replace,
        )
        return Table(cast("Lake", self), found.name, table.name)

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

    # Views.

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
        from ducklake_spark.sql.parser.stored_texts import stored_query

        columns = repeatable(columns)

        def run(tx: Transaction) -> None:
            schema, own = self._scope.resolve(tx, name, "view", new=True)
            text = stored_query(sql, dialect, self._scope.name, f'the query of view "{own}"')
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

    # Macros.

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
        from ducklake_spark.sql.parser.stored_texts import stored_macro

        bodies = [(text, repeatable(names)) for text, names in [(sql, parameters), *overloads]]

        def run(tx: Transaction) -> None:
            schema, own = self._scope.resolve(tx, name, "macro", new=True)
            impls = [
                stored_macro(text, names, dialect, self._scope.name, table=table) for text, names in bodies
            ]
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


def _chosen(tx: Transaction, schema: str | None) -> list[SchemaDef]:
    return tx.schemas() if schema is None else [ddl.get_schema(tx, schema)]


def _dotted(schema: SchemaDef, name: str) -> str:
    return f"{duckdb_sql.quote_if_needed(schema.name)}.{duckdb_sql.quote_if_needed(name)}"
