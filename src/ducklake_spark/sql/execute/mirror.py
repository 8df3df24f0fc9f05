"""What DuckDB says about databases: a DuckDB in memory gets the lakes' schemas, tables, views and macros without rows.

`information_schema`, `duckdb_tables()`, `SHOW` and `DESCRIBE` are then DuckDB's own; what a lake says otherwise, such
as its path and the number of rows of its tables, is put into the answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from ducklake_spark.catalog.tables import tables_of
from ducklake_spark.engine import lakes as registry
from ducklake_spark.engine.scope import Scope, scope_of
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.duckdb_library import NO_THREADS, arrow_table
from ducklake_spark.format.duckdb_sql import CATALOG_TOKEN, quote_if_needed
from ducklake_spark.format.objects import MacroDef, MacroParameter, TableDef, ViewDef
from ducklake_spark.format.types import NESTED, duckdb_name, fold, parse_type, quote, text_literal
from ducklake_spark.sql.execute.session import SCRATCH, Session
from ducklake_spark.sql.execute.settings import OPTIONS, RETRY, setting_text

if TYPE_CHECKING:
    import pyarrow as pa

    from ducklake_spark.api.lake import Lake

_SCHEMAS = ("information_schema", "pg_catalog")
_PLAIN = frozenset(
    (
        *(
            "duckdb_tables",
            "duckdb_views",
            "duckdb_columns",
            "duckdb_schemas",
            "duckdb_databases",
            "duckdb_constraints",
        ),
        *(
            "duckdb_types",
            "duckdb_indexes",
            "duckdb_logs",
            "pragma_database_list",
            "sqlite_master",
            "sqlite_schema",
        ),
        "sqlite_temp_master",
    )
)
_PG_CATALOG = frozenset(
    (
        *("pg_am", "pg_attrdef", "pg_attribute", "pg_class", "pg_constraint", "pg_database", "pg_depend"),
        *("pg_description", "pg_enum", "pg_index", "pg_indexes", "pg_namespace", "pg_prepared_statements"),
        *("pg_proc", "pg_sequence", "pg_sequences", "pg_settings", "pg_tables", "pg_tablespace", "pg_type"),
        "pg_views",
    )
)
"""Tables of PostgreSQL that DuckDB also has by their names alone."""
_FUNCTIONS = ("duckdb_", "pragma_")


def is_about_databases(parts: Sequence[str], *, is_call: bool) -> bool:
    """Whether a name in FROM is a table or function about databases."""
    last = fold(parts[-1])
    if is_call:
        return last.startswith(_FUNCTIONS)
    if len(parts) == 1:
        return last in _PLAIN or last in _PG_CATALOG
    return fold(parts[-2]) in _SCHEMAS


@dataclass
class Mirror:
    """A DuckDB that has what lakes have, and what they say of themselves beside that."""

    connection: duckdb.DuckDBPyConnection
    notes: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {"tables": [], "views": [], "databases": [], "settings": []}
    )

    def answer(self, sql: str) -> pa.Table:
        """The rows of a statement.

        Raises:
            InvalidInputError: What DuckDB says against it.
        """
        try:
            return arrow_table(self.connection, sql)
        except duckdb.Error as error:
            raise InvalidInputError(str(error).split("\n\n")[0]) from None

    def table(self, source: str) -> pa.Table:
        """All rows of a table or function about databases, such as `duckdb_tables()`."""
        name = fold(source.partition("(")[0].rpartition(".")[2].strip('"'))
        changed = _CHANGED.get(name)
        if changed is None:
            return self.answer(f"FROM {source}")
        kind, columns, text = changed
        return self.answer(text.format(source, _inline(self.notes[kind], columns)))


def _inline(rows: Sequence[Sequence[Any]], columns: str) -> str:
    """Rows as a table of a query; `columns` are names and types."""
    pairs = [each.strip().split(" ", 1) for each in columns.split(";")]
    texts = []
    for row in rows:
        values = (f"CAST({_literal(value)} AS {kind})" for value, (_, kind) in zip(row, pairs, strict=True))
        texts.append(f"SELECT {', '.join(values)}")
    if not texts:
        texts = [f"SELECT {', '.join(f'CAST(NULL AS {kind})' for _, kind in pairs)} WHERE false"]
    return f"({' UNION ALL '.join(texts)}) AS n({', '.join(name for name, _ in pairs)})"


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "MAP {" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    if value is None or isinstance(value, (bool, int)):
        return "NULL" if value is None else str(value).lower()
    return text_literal(str(value))


_TABLE_NOTES = (
    "database_name VARCHAR; schema_name VARCHAR; table_name VARCHAR; note_rows BIGINT; note_sql VARCHAR"
)
_VIEW_NOTES = "database_name VARCHAR; schema_name VARCHAR; view_name VARCHAR; note_sql VARCHAR"
_DATABASE_NOTES = (
    "database_name VARCHAR; note_path VARCHAR; note_tags MAP(VARCHAR, VARCHAR); note_readonly BOOLEAN; "
    "note_options MAP(VARCHAR, VARCHAR)"
)
_CHANGED = {
    "duckdb_tables": (
        "tables",
        _TABLE_NOTES,
        "SELECT t.* REPLACE (coalesce(n.note_rows, t.estimated_size) AS estimated_size, coalesce(n.note_sql, t.sql) AS "
        "sql) FROM {0} AS t LEFT JOIN {1} USING (database_name, schema_name, table_name)",
    ),
    "duckdb_views": (
        "views",
        _VIEW_NOTES,
        "SELECT v.* REPLACE (coalesce(n.note_sql, v.sql) AS sql) FROM {0} AS v LEFT JOIN {1} "
        "USING (database_name, schema_name, view_name)",
    ),
    "views": (
        "views",
        _VIEW_NOTES,
        "SELECT v.* REPLACE (coalesce(n.note_sql, v.view_definition) AS view_definition) FROM {0} AS v LEFT JOIN {1} "
        "ON n.database_name = v.table_catalog AND n.schema_name = v.table_schema AND n.view_name = v.table_name",
    ),
    "duckdb_databases": (
        "databases",
        _DATABASE_NOTES,
        "SELECT d.* REPLACE (coalesce(n.note_path, d.path) AS path, coalesce(n.note_tags, d.tags) AS tags, "
        "CASE WHEN n.note_path IS NULL THEN d.type ELSE 'ducklake' END AS type, coalesce(n.note_readonly, "
        "d.readonly) AS readonly, coalesce(n.note_options, d.options) AS options) FROM {0} AS d LEFT JOIN {1} "
        "USING (database_name)",
    ),
    "duckdb_schemas": (
        "databases",
        _DATABASE_NOTES,
        "SELECT s.* REPLACE (s.internal AND s.database_name NOT IN (SELECT n.database_name FROM {1}) AS internal) "
        "FROM {0} AS s",
    ),
    "duckdb_types": (
        "databases",
        _DATABASE_NOTES,
        "SELECT t.* FROM {0} AS t WHERE t.database_name NOT IN (SELECT n.database_name FROM {1})",
    ),
    "duckdb_settings": (
        "settings",
        "name VARCHAR; value VARCHAR",
        "FROM {0} UNION ALL BY NAME SELECT *, 'A setting of lakes' AS description, 'VARCHAR' AS input_type, "
        "'GLOBAL' AS scope FROM {1}",
    ),
    "duckdb_extensions": (
        "databases",
        _DATABASE_NOTES,
        "SELECT e.* REPLACE (e.loaded OR e.extension_name = 'ducklake' AS loaded, e.installed OR e.extension_name = "
        "'ducklake' AS installed) FROM {0} AS e",
    ),
    "pragma_database_list": (
        "databases",
        _DATABASE_NOTES,
        "SELECT d.* REPLACE (coalesce(n.note_path, d.file) AS file) FROM {0} AS d LEFT JOIN {1} ON "
        "n.database_name = d.name",
    ),
}
"""What a lake says otherwise than a database in memory."""


def lakes_of(session: Session, current: Lake) -> list[Lake]:
    """The lakes that a session sees."""
    found = {
        fold(lake.name): lake
        for lake in registry.known().values()
        if fold(lake.name) not in session.detached and scope_of(lake).sql_session in (None, session)
    }
    found.update((fold(lake.name), lake) for lake in (*session.lakes(), current))
    return [lake for lake in found.values() if not scope_of(lake).is_closed]


@contextmanager
def mirrored(session: Session, current: Lake) -> Iterator[Mirror]:
    """A DuckDB with all that the session's lakes have."""
    connection = duckdb.connect(":memory:", config=NO_THREADS)
    mirror = Mirror(connection)
    try:
        for name, value in session.settings.items():
            with suppress(duckdb.Error):
                connection.execute(f"SET {quote(name)} = {value}")
        for lake in sorted(lakes_of(session, current), key=lambda each: each.name):
            _fill(mirror, session.joined(lake))
        mirror.notes["settings"] += [(name, setting_text(current, name)) for name in (*RETRY, *OPTIONS)]
        connection.execute(f"USE {quote(current.name)}.{quote(current.default_schema)}")
        yield mirror
    finally:
        connection.close()


def _fill(mirror: Mirror, lake: Lake) -> None:
    scope, run = scope_of(lake), mirror.connection.execute
    tx = scope.read_transaction()
    is_scratch = fold(lake.name) in SCRATCH
    if not is_scratch:
        run(f"ATTACH ':memory:' AS {quote(lake.name)}")
        _note_database(mirror, lake)
    if scope.config.metadata_catalog is not None:
        _add_catalog(run, scope, scope.config.metadata_catalog)
    pending: list[tuple[str, str]] = []
    counts: dict[int, int] = dict(
        scope.store.query("SELECT table_id, record_count FROM ducklake_table_stats")
    )
    for schema in tx.schemas():
        inside = f"{quote(lake.name)}.{quote(schema.name)}"
        if schema.name != "main":
            run(f"CREATE SCHEMA IF NOT EXISTS {inside}")
        for name in tx.table_names(schema):
            table = tx.table(schema, name)
            if table is not None:
                run(_table_text(inside, table, temporary=lake.name == "temp"))
                _comments(run, inside, table)
                if not is_scratch:
                    key = (lake.name, schema.name, table.name)
                    mirror.notes["tables"].append((*key, counts.get(table.table_id, 0), None))
        for name in tx.view_names(schema):
            view = tx.view(schema, name)
            if view is not None:
                sql = view.sql.replace(CATALOG_TOKEN, quote_if_needed(lake.name))
                aliases = f" ({', '.join(map(quote, view.column_aliases))})" if view.column_aliases else ""
                kind = "TEMP VIEW" if lake.name == "temp" else "VIEW"
                now = _AT.sub("", sql)  # a database in memory has no past, and the same columns
                pending.append((inside, f"CREATE {kind} {inside}.{quote(view.name)}{aliases} AS {now}"))
                if view.comment is not None:
                    comment = f"COMMENT ON VIEW {inside}.{quote(view.name)} IS {text_literal(view.comment)}"
                    pending.append((inside, comment))
                if not is_scratch:
                    shown = f"CREATE VIEW {quote_if_needed(view.name)}{_aliases(view)} AS {sql};"
                    mirror.notes["views"].append((lake.name, schema.name, view.name, shown))
        prefix = "CREATE TEMP MACRO" if lake.name == "temp" else "CREATE MACRO"
        pending += [
            (inside, f"{prefix} {_macro_text(inside, macro, lake.name)}") for macro in tx.macros(schema)
        ]
    _make(run, pending)


def _add_catalog(run: Any, scope: Scope, name: str) -> None:
    """The tables of the lake's catalog, which has a name that all see."""
    schema = quote(scope.store.metadata_schema or "main")
    run(f"ATTACH ':memory:' AS {quote(name)}")
    run(f"CREATE SCHEMA IF NOT EXISTS {quote(name)}.{schema}")
    for table in tables_of(scope.store.format).values():
        columns = ", ".join(f"{quote(column.name)} {column.type}" for column in table.columns)
        run(f"CREATE TABLE {quote(name)}.{schema}.{quote(table.name)} ({columns})")
    inlined = scope.store.query("SELECT table_name FROM ducklake_inlined_data_tables")
    for (table_name,) in inlined:
        columns = "row_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT"
        run(f"CREATE TABLE IF NOT EXISTS {quote(name)}.{schema}.{quote(table_name)} ({columns})")


_AT = re.compile(r" AT \((VERSION|TIMESTAMP) => (?:[^()']|'[^']*'|\((?:[^()']|'[^']*')*\))*\)", re.IGNORECASE)


def _aliases(view: ViewDef) -> str:
    return f" ({', '.join(map(quote_if_needed, view.column_aliases))})" if view.column_aliases else ""


def _make(run: Any, statements: list[tuple[str, str]]) -> None:
    """Runs statements that may need each other, in an order that works; what never works is left out.

    Names in them mean those of the schema that they stand in.
    """
    while statements:
        left = []
        for schema, text in statements:
            try:
                run(f"USE {schema}")
                run(text)
            except duckdb.Error:
                left.append((schema, text))
        if len(left) == len(statements):
            return
        statements = left


def _table_text(inside: str, table: TableDef, *, temporary: bool) -> str:
    kind = "TEMP TABLE" if temporary else "TABLE"
    return f"CREATE {kind} {inside}.{quote(table.name)} ({', '.join(map(_column_text, table.columns))})"


def _column_text(column: ColumnDef) -> str:
    text = f"{quote(column.name)} {duckdb_name(column.data_type)}"
    if column.data_type.name not in NESTED:
        if column.default_value is None:
            text += " DEFAULT NULL"
        elif column.default_value_type == "expression":
            text += f" DEFAULT ({column.default_value})"
        else:
            text += f" DEFAULT {text_literal(column.default_value)}"
    return text if column.nulls_allowed else f"{text} NOT NULL"


def _comments(run: Any, inside: str, table: TableDef) -> None:
    name = f"{inside}.{quote(table.name)}"
    if table.comment is not None:
        run(f"COMMENT ON TABLE {name} IS {text_literal(table.comment)}")
    for column in table.columns:
        if column.comment is not None:
            run(f"COMMENT ON COLUMN {name}.{quote(column.name)} IS {text_literal(column.comment)}")


def _macro_text(inside: str, macro: MacroDef, lake_name: str) -> str:
    parts = []
    for impl in macro.impls:
        parameters = ", ".join(map(_parameter_text, impl.parameters))
        sql = impl.sql.replace(CATALOG_TOKEN, quote_if_needed(lake_name))
        parts.append(f"({parameters}) AS {'TABLE ' if impl.type == 'table' else ''}{sql}")
    return f"{inside}.{quote(macro.name)}{', '.join(parts)}"


def _parameter_text(parameter: MacroParameter) -> str:
    kind = "" if parameter.type == "unknown" else f" {duckdb_name(parse_type(parameter.type))}"
    default = "" if parameter.default_value is None else f" := {text_literal(parameter.default_value)}"
    return f"{quote(parameter.name)}{kind}{default}"


def _note_database(mirror: Mirror, lake: Lake) -> None:
    scope = scope_of(lake)
    path = scope.store.display.removeprefix("ducklake:").removeprefix("duckdb:")
    options = {"data_path": scope.config.data_path}
    mirror.notes["databases"].append(
        (lake.name, path, {"data_path": scope.config.data_path}, scope.config.read_only, options)
    )


def secrets(session: Session) -> list[tuple[Any, ...]]:
    """The rows of `duckdb_secrets()`; no value of a secret is shown."""
    return [
        (name, secret["type"], "config", False, "memory", [], _redacted(name, secret))
        for name, secret in sorted(session.secrets.items())
    ]


def _redacted(name: str, secret: dict[str, Any]) -> str:
    shown = {key: "redacted" for key in sorted(secret) if key != "type"}
    return ";".join(
        [f"name={name}", f"type={secret['type']}", *(f"{key}={value}" for key, value in shown.items())]
    )
