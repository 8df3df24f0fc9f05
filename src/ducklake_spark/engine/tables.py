"""CREATE TABLE: by columns that are named, or by rows that bring theirs and are inserted in the same snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.retry import repeatable
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import SchemaDef, TableDef
from ducklake_spark.write.schema import SchemaLike, column_specs, is_frame


def create_table(
    scope: Scope,
    name: Name,
    schema: SchemaLike | Any,
    *,
    partitioned_by: Sequence[str],
    sorted_by: Sequence[str],
    not_null: Sequence[str],
    defaults: Mapping[str, Any],
    comment: str | None,
    if_not_exists: bool,
    or_replace: bool,
) -> tuple[SchemaDef, TableDef]:
    """Creates a table, and inserts the rows that `schema` may be; see `Lake.create_table`."""
    own = scope.parts(name, "table")[1]
    schema = repeatable(schema)
    rows = None
    if not is_frame(schema) and not isinstance(schema, (str, Mapping)):
        from ducklake_spark.write.inferred import given_rows

        rows = given_rows(schema, own)
    columns = schema if rows is None else rows.columns(own)
    not_null = repeatable(not_null)
    partitioned_by, sorted_by = repeatable(partitioned_by), repeatable(sorted_by)

    def run(tx: Transaction) -> tuple[SchemaDef, TableDef]:
        found, own = scope.resolve(tx, name, new=True)
        specs = column_specs(columns, own, not_null=not_null, defaults=defaults)
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
        if not existed and (rows is not None or is_frame(schema)):
            from ducklake_spark.engine.inserts import add_rows

            add_rows(scope, tx, table, schema if rows is None else rows.rows)
        return found, table

    return scope.statement(run)
