"""Options of a lake, of its schemas and of its tables: set, in force, and listed."""

from __future__ import annotations

from typing import Any

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.names import Name, split_name
from ducklake_spark.format.objects import SchemaDef, TableDef
from ducklake_spark.format.options import OPTIONS, OptionKey, option_def


def set_option(scope: Scope, option: str, value: Any, *, schema: str | None, table: Name | None) -> None:
    """Sets an option of a table, of a schema, or of the lake when neither is given."""

    def run(tx: Transaction) -> None:
        if table is not None:
            ddl.set_option(tx, option, value, table=_table(scope, tx, schema, table)[1])
        elif schema is not None:
            ddl.set_option(tx, option, value, schema=ddl.get_schema(tx, schema))
        else:
            ddl.set_option(tx, option, value)

    scope.statement(run)


def get_option(scope: Scope, option: str, *, schema: str | None, table: Name | None) -> str | None:
    """The value that is in force; None when it has its default."""
    key, _ = option_def(option)
    tx = scope.read_transaction()
    if table is not None:
        found, definition = _table(scope, tx, schema, table)
        return tx.options.get(key, schema_id=found.schema_id, table_id=definition.table_id)
    schema_id = None if schema is None else ddl.get_schema(tx, schema).schema_id
    return tx.options.get(key, schema_id=schema_id)


def option_rows(scope: Scope) -> list[tuple[Any, ...]]:
    """The options that are set: name, description, value, scope, and the schema or table that they are of."""
    tx = scope.read_transaction()
    schemas = {schema.schema_id: schema for schema in tx.schemas()}
    rows = []
    for (key, kind, scope_id), value in sorted(tx.options.stored.items(), key=_option_order):
        entry = None
        if kind == "schema" and scope_id in schemas:
            entry = schemas[scope_id].name
        elif kind == "table" and scope_id is not None:
            table = tx.table_of(scope_id)
            entry = f"{schemas[table.schema_id].name}.{table.name}" if table is not None else None
        description = OPTIONS[key].description if key in OPTIONS else None
        rows.append((key, description, value, (kind or "global").upper(), entry))
    return rows


def _table(scope: Scope, tx: Transaction, schema: str | None, table: Name) -> tuple[SchemaDef, TableDef]:
    parts = (schema, *split_name(table)) if schema is not None else table
    found, own = scope.resolve(tx, parts)
    return found, ddl.get_table(tx, found, own)


def _option_order(item: tuple[OptionKey, str]) -> tuple[str, int, int]:
    """By name, as the extension lists them, and for each name tables, schemas and the lake."""
    (key, scope, scope_id), _ = item
    return key, {"table": 0, "schema": 1}.get(scope or "", 2), scope_id or 0
