"""A table by its name, in the running transaction or the newest snapshot: what all methods of `Table` begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.format.duckdb_sql import partition_texts
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.sorting import sort_texts
from ducklake_spark.format.types import duckdb_name

if TYPE_CHECKING:
    from ducklake_spark.api.lake import Lake

T = TypeVar("T")


class TableHandle:
    """A table's name, and what it is; a part of `Table`."""

    def __init__(self, lake: Lake, schema_name: str, name: str) -> None:
        self._lake, self._schema_name, self._name = lake, schema_name, name
        self._scope = scope_of(lake)

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
        return partition_texts(table.partitioning, table.columns)

    @property
    def sorted_by(self) -> list[str]:
        """Its sort keys, as `set_sorted_by` takes them."""
        return sort_texts(self.definition.sorting)

    def _find(self, tx: Transaction) -> TableDef:
        return ddl.get_table(tx, ddl.get_schema(tx, self._schema_name), self._name)

    def _statement(self, run: Callable[[Transaction, TableDef], T]) -> T:
        return self._scope.statement(lambda tx: run(tx, self._find(tx)))
