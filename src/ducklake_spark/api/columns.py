"""The methods of `Table` that change its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ducklake_spark.api.table_handle import TableHandle
from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.constraints import has_nulls, has_rows
from ducklake_spark.format.columns import find
from ducklake_spark.format.names import Name, split_name
from ducklake_spark.format.objects import TableDef
from ducklake_spark.write.schema import TypeLike, data_type_of


class TableColumns(TableHandle):
    """The columns of a table; a part of `Table`."""

    def add_column(
        self,
        name: Name,
        type: TypeLike,
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
                column_path(table, name),
                data_type_of(type),
                default=default,
                nulls_allowed=not not_null,
                if_not_exists=if_not_exists,
                has_rows=lambda found: has_rows(tx, found),
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
        self._statement(
            lambda tx, table: ddl.drop_column(tx, table, column_path(table, name), if_exists=if_exists)
        )

    def rename_column(self, name: Name, new_name: str) -> None:
        """RENAME COLUMN, also of a field; the new name is one part, taken as it is.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.rename_column("b", "text")
        >>> table.columns
        ['a', 'text']
        """
        self._statement(lambda tx, table: ddl.rename_column(tx, table, column_path(table, name), new_name))

    def set_type(self, name: Name, type: TypeLike) -> None:
        """SET TYPE: a wider type that keeps every value; also of fields, elements, keys and values.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_type("a", "bigint")
        >>> table.types
        {'a': 'BIGINT', 'b': 'VARCHAR'}
        """
        self._statement(
            lambda tx, table: ddl.set_type(tx, table, column_path(table, name), data_type_of(type))
        )

    def set_default(self, name: Name, default: Any) -> None:
        """SET DEFAULT for rows to come; an `Expression` is computed for each row.

        >>> lake = getfixture("lake")
        >>> table = lake.create_table("t", {"a": "int", "b": "varchar"})
        >>> table.set_default("b", "none")
        >>> table.insert([{"a": 1}]), table.to_df().collect()
        (1, [Row(a=1, b='none')])
        """
        self._statement(lambda tx, table: ddl.set_default(tx, table, column_path(table, name), default))

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
                column_path(table, name),
                False,
                has_nulls=lambda found, column: has_nulls(self._scope, tx, found, column),
            )

        self._statement(run)

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
                tx, table, column_path(table, name), True, has_nulls=lambda *_: False
            )
        )


def column_path(table: TableDef, name: Name) -> Sequence[str]:
    """The parts of a column's name; a column that has dots in its name is found as it is."""
    if isinstance(name, str) and find(table.columns, name) is not None:
        return (name,)
    return split_name(name, "column")
