"""Types of the lake that Spark does not have, kept when a query takes a column as it is out of one table."""

from __future__ import annotations

from sqlglot import exp

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.columns import ColumnDef, find
from ducklake_spark.format.types import DataType
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.parser.nodes import Piece
from ducklake_spark.sql.resolve.names import NameResolver, parts_of


def types_of(context: Context, query: Piece) -> list[DataType] | None:
    """The lake types of the columns of a query like `SELECT a, b AS c FROM t`; None when it is not so simple.

    Spark has no `uuid`, and shows it as text: a table made from such a column should have a `uuid` again.
    """
    tree = parse_query_text(context.source(query), context.dialect)
    while isinstance(tree, exp.Subquery) and tree.is_wrapper:
        tree = tree.this
    if not isinstance(tree, exp.Select) or tree.args.get("with_") or tree.args.get("joins"):
        return None
    source = tree.args.get("from_") or tree.args.get("from")
    table = source.this if isinstance(source, exp.From) else None
    if not isinstance(table, exp.Table) or any(
        table.args.get(key) for key in ("joins", "pivots", "laterals", "version", "when")
    ):
        return None
    columns = _columns(context, table)
    return None if columns is None else _chosen(tree, columns)


def _columns(context: Context, table: exp.Table) -> tuple[ColumnDef, ...] | None:
    parts = parts_of(table)
    for lake, schema_name, name in NameResolver(context.lake).candidates(parts) if parts else ():
        tx = scope_of(lake).read_transaction()
        schema = tx.schema(schema_name)
        found = None if schema is None else tx.table(schema, name)
        if found is not None:
            return tuple(found.columns)
    return None


def _chosen(tree: exp.Select, columns: tuple[ColumnDef, ...]) -> list[DataType] | None:
    types: list[DataType] = []
    for item in tree.expressions:
        if isinstance(item, exp.Star) and not any(item.args.values()):
            types.extend(column.data_type for column in columns)
            continue
        inner = item.this if isinstance(item, exp.Alias) else item
        if not isinstance(inner, exp.Column) or isinstance(inner.this, exp.Star):
            return None
        try:
            column = find(columns, inner.name)
        except DuckLakeError:
            return None
        if column is None or len(inner.parts) > 2:
            return None
        types.append(column.data_type)
    return types
