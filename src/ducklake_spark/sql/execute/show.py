"""SHOW, DESCRIBE, SUMMARIZE and EXPLAIN: what the catalog and Spark know, in the columns that each dialect uses."""

from __future__ import annotations

import contextlib
import fnmatch
import io
import re
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog import ddl as catalog_ddl
from ducklake_spark.engine.answers import answer
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.columns import ColumnDef, resolve
from ducklake_spark.format.duckdb_sql import quote_if_needed
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import SchemaDef, TableDef
from ducklake_spark.format.types import NESTED, fold, quote, text_literal
from ducklake_spark.spark import file_index as relation
from ducklake_spark.sql.execute import functions, metadata
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.execute.queries import spark_sql
from ducklake_spark.sql.execute.session import session_of
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.resolve.type_names import duckdb_type_text, spark_type_text
from ducklake_spark.write.schema import data_type_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.catalog.transaction import Transaction

_DESCRIBED = (
    "column_name string, column_type string, `null` string, key string, `default` string, extra string"
)


def show(context: Context, node: nodes.Show) -> DataFrame:
    """SHOW."""
    if context.dialect == "duckdb" and node.pattern is None and node.what in _OF_DUCKDB:
        found = metadata.answer(context.lake, _OF_DUCKDB[node.what])
        if found is not None and (node.what != "tables" or node.name is None):
            return found
    return _SHOW[node.what](context, node)


_OF_DUCKDB = {
    "schemas": "SHOW SCHEMAS",
    "databases": "SHOW DATABASES",
    "tables": "SHOW TABLES",
    "all tables": "SHOW ALL TABLES",
}
"""What DuckDB says of all databases."""


def _frame(context: Context, rows: Iterable[Sequence[Any]], columns: str) -> DataFrame:
    return answer(scope_of(context.lake), rows, columns)


def _matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Names that fit a pattern of Spark's: `*` for any characters, `|` between patterns."""
    if pattern is None:
        return sorted(names)
    patterns = [each.strip().lower().replace("%", "*") for each in pattern.split("|")]
    return sorted(name for name in names if any(fnmatch.fnmatchcase(name.lower(), each) for each in patterns))


def _schemas(context: Context, node: nodes.Show) -> DataFrame:
    lake = context.lake
    names = _matching(lake.schemas(), node.pattern)
    if context.dialect == "spark":
        return _frame(context, [(name,) for name in names], "namespace string")
    rows = [(lake.name, name, fold(name) == fold(lake.default_schema)) for name in names]
    return _frame(context, rows, "database_name string, schema_name string, current boolean")


def _databases(context: Context, node: nodes.Show) -> DataFrame:
    return _frame(
        context, [(name,) for name in _matching([context.lake.name], node.pattern)], "database_name string"
    )


def _shown_schemas(context: Context, tx: Transaction, name: nodes.Name | None) -> list[SchemaDef]:
    """The schema that is asked about; DuckDB shows what names without a schema can mean."""
    if name is not None:
        if len(name) == 1 and fold(name[0]) == fold(context.lake.name) and tx.schema(name[0]) is None:
            return tx.schemas()
        return [catalog_ddl.get_schema(tx, context.schema_name(name))]
    own = catalog_ddl.get_schema(tx, context.lake.default_schema)
    main = tx.schema("main")
    if context.dialect == "spark" or main is None or main.schema_id == own.schema_id:
        return [own]
    return [own, main]


def _tables(context: Context, node: nodes.Show) -> DataFrame:
    tx = scope_of(context.lake).read_transaction()
    rows = [
        (schema.name, name, False)
        for schema in _shown_schemas(context, tx, node.name)
        for name in _matching([*tx.table_names(schema), *tx.view_names(schema)], node.pattern)
    ]
    if context.dialect == "spark":
        return _frame(context, rows, "namespace string, tableName string, isTemporary boolean")
    return _frame(context, sorted((name,) for _, name, _ in rows), "name string")


def _views(context: Context, node: nodes.Show) -> DataFrame:
    tx = scope_of(context.lake).read_transaction()
    rows = [
        (schema.name, name, False)
        for schema in _shown_schemas(context, tx, node.name)
        for name in _matching(tx.view_names(schema), node.pattern)
    ]
    return _frame(context, rows, "namespace string, viewName string, isTemporary boolean")


def _functions(context: Context, node: nodes.Show) -> DataFrame:
    tx = scope_of(context.lake).read_transaction()
    names = {
        f"{schema.name}.{macro.name}"
        for schema in _shown_schemas(context, tx, node.name)
        for macro in tx.macros(schema)
    }
    return _frame(context, [(name,) for name in _matching(names, node.pattern)], "function string")


def _all_tables(context: Context, _node: nodes.Show) -> DataFrame:
    lake = context.lake
    tx = scope_of(lake).read_transaction()
    rows = []
    for schema in sorted(tx.schemas(), key=lambda each: each.name):
        found: dict[str, list[tuple[str, str]]] = {}
        for name in tx.table_names(schema):
            columns = catalog_ddl.get_table(tx, schema, name).columns
            found[name] = [(column.name, duckdb_type_text(column.data_type)) for column in columns]
        for name in tx.view_names(schema):
            found[name] = _types_of(lake.table((schema.name, name)))
        for name in sorted(found):
            names, types = [each for each, _ in found[name]], [each for _, each in found[name]]
            rows.append((lake.name, schema.name, name, names, types, False))
    return _frame(
        context,
        rows,
        "database string, schema string, name string, column_names array<string>, column_types array<string>, "
        "temporary boolean",
    )


def _types_of(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, duckdb_type_text(data_type_of(field.dataType))) for field in frame.schema.fields]


def _columns(context: Context, node: nodes.Show) -> DataFrame:
    assert node.name is not None
    name = context.name(node.name)
    names = context.lake[name].columns if name in context.lake else context.lake.table(name).columns
    return _frame(context, [(each,) for each in names], "col_name string")


def _create_table(context: Context, node: nodes.Show) -> DataFrame:
    assert node.name is not None
    name = context.name(node.name)
    text = _view_text(context, name) if name not in context.lake else _table_text(context, name)
    return _frame(context, [(text,)], "createtab_stmt string")


def _view_text(context: Context, name: nodes.Name) -> str:
    view = context.lake.view(name)
    aliases = f" ({', '.join(map(quote_if_needed, view.column_aliases))})" if view.column_aliases else ""
    sql = view.sql.replace("{DUCKLAKE_CATALOG}", quote_if_needed(context.lake.name))
    return f"CREATE VIEW {quote_if_needed(view.name)}{aliases} AS {sql}"


def _table_text(context: Context, name: nodes.Name) -> str:
    """The statement that makes such a table, in the dialect in which it is asked for."""
    table = context.lake[name]
    definition = table.definition
    quoted, type_text = _writers(context)
    lines = []
    for column in definition.columns:
        line = f"  {quoted(column.name)} {type_text(column.data_type)}"
        if not column.nulls_allowed:
            line += " NOT NULL"
        default = _default_text(context, column)
        if default is not None:
            line += f" DEFAULT {default}"
        if column.comment is not None and context.dialect == "spark":
            line += f" COMMENT {_literal(context, column.comment)}"
        lines.append(line)
    text = f"CREATE TABLE {quoted(table.schema_name)}.{quoted(table.name)} (\n" + ",\n".join(lines) + ")"
    partitioning = definition.partitioning
    if partitioning is not None and partitioning.keys:
        text += f"\nPARTITIONED BY ({', '.join(_partition_texts(context, definition))})"
    if table.sorted_by:
        text += f"\nSORTED BY ({', '.join(table.sorted_by)})"
    if definition.comment is not None and context.dialect == "spark":
        text += f"\nCOMMENT {_literal(context, definition.comment)}"
    return text


def _partition_texts(context: Context, table: TableDef) -> list[str]:
    quoted, _ = _writers(context)
    names = {column.column_id: quoted(column.name) for column in table.columns}
    texts = []
    for key in table.partitioning.keys if table.partitioning is not None else ():
        name = names[key.column_id]
        if key.buckets is not None:
            texts.append(f"bucket({key.buckets}, {name})")
        else:
            texts.append(name if key.transform == "identity" else f"{key.transform}({name})")
    return texts


def _writers(context: Context) -> Any:
    if context.dialect == "duckdb":
        return quote_if_needed, duckdb_type_text
    return (lambda name: ticked(name)), spark_type_text


def _literal(context: Context, text: str) -> str:
    if context.dialect != "spark":
        return text_literal(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _default_text(context: Context, column: ColumnDef) -> str | None:
    """A default in the dialect; None when there is none."""
    if column.default_value is None or column.data_type.name in NESTED:
        return None
    if column.default_value_type != "expression":
        return _literal(context, column.default_value)
    if context.dialect == "duckdb":
        return column.default_value
    return spark_sql(parse_query_text(column.default_value, "duckdb"), "duckdb")


def shown_default(column: ColumnDef) -> str | None:
    """A default as DuckDB shows it: a value in quotes, an expression as it is, none as NULL."""
    if column.data_type.name in NESTED:
        return None
    if column.default_value is None:
        return "NULL"
    if column.default_value_type == "expression":
        return column.default_value
    return text_literal(column.default_value)


def describe(context: Context, node: nodes.Describe) -> DataFrame:
    """DESCRIBE of a table, a view, a schema or a query."""
    if context.dialect == "duckdb" and node.kind == "table" and node.column is None:
        named = context.source(node.query) if node.query is not None else None
        if named is None and node.name is not None:
            named = ".".join(map(quote, (context.lake.name, *node.name)))
        found = metadata.answer(context.around, f"DESCRIBE {named}")
        if found is not None:
            return found
    if node.query is not None:
        with functions.only_asking("DESCRIBE"):
            return _described_frame(context, context.frame(node.query))
    assert node.name is not None
    if node.kind == "schema":
        schema = catalog_ddl.get_schema(
            scope_of(context.lake).read_transaction(), context.schema_name(node.name)
        )
        rows = [("Catalog Name", context.lake.name), ("Namespace Name", schema.name)]
        return _frame(context, rows, "info_name string, info_value string")
    name = context.name(node.name)
    if name not in context.lake:
        return _described_frame(context, context.lake.table(name))
    definition = context.lake[name].definition
    columns: Sequence[ColumnDef] = definition.columns
    if node.column is not None:
        columns = [resolve(definition.columns, node.column, definition.name)]
    if context.dialect == "duckdb":
        described = [
            (
                column.name,
                duckdb_type_text(column.data_type),
                "YES" if column.nulls_allowed else "NO",
                None,
                shown_default(column),
                None,
            )
            for column in columns
        ]
        return _frame(context, described, _DESCRIBED)
    shown: list[tuple[str, str, str | None]] = [
        (column.name, spark_type_text(column.data_type), column.comment) for column in columns
    ]
    if node.column is None:
        shown += _partition_rows(context, definition)
    if node.extended:
        shown += _details(context, name, definition)
    return _frame(context, shown, "col_name string, data_type string, comment string")


def _described_frame(context: Context, frame: DataFrame) -> DataFrame:
    if context.dialect == "duckdb":
        rows = [(name, kind, "YES", None, None, None) for name, kind in _types_of(frame)]
        return _frame(context, rows, _DESCRIBED)
    fields = [(field.name, field.dataType.simpleString(), None) for field in frame.schema.fields]
    return _frame(context, fields, "col_name string, data_type string, comment string")


def _partition_rows(context: Context, table: TableDef) -> list[tuple[str, str, str | None]]:
    keys = _partition_texts(context, table)
    if not keys:
        return []
    return [("# Partitioning", "", ""), *((f"Part {i}", key, "") for i, key in enumerate(keys))]


def _details(context: Context, name: nodes.Name, definition: TableDef) -> list[tuple[str, str, str | None]]:
    table = context.lake[name]
    return [
        ("", "", ""),
        ("# Detailed Table Information", "", ""),
        ("Name", f"{context.lake.name}.{table.schema_name}.{table.name}", ""),
        ("Type", "MANAGED", ""),
        ("Provider", "ducklake", ""),
        ("Comment", definition.comment or "", ""),
        ("Sorted by", ", ".join(table.sorted_by), ""),
        ("Table id", str(definition.table_id), ""),
    ]


def explain(context: Context, node: nodes.Explain) -> DataFrame:
    """EXPLAIN of a query: Spark's plan, which is not run."""
    if node.mode.endswith("statement"):
        return _explained_statement(context, node)
    with functions.only_asking("EXPLAIN"):
        frame = context.frame(node.query)
    if node.mode == "analyze":
        return _analyzed(context, frame)
    if relation.is_classic(frame.sparkSession):
        relation.explain(frame)  # lists the files, so that each scan says how many of them it keeps
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode=node.mode)
    if context.dialect == "spark":
        return _frame(context, [(text.getvalue(),)], "plan string")
    return _frame(context, [("physical_plan", text.getvalue())], "explain_key string, explain_value string")


def _explained_statement(context: Context, node: nodes.Explain) -> DataFrame:
    """EXPLAIN of a change, which only ANALYZE makes."""
    from ducklake_spark.sql.execute.run import run

    text = context.source(node.query)
    key, said = "physical_plan", text
    if node.mode.startswith("analyze"):
        begin = time.perf_counter()
        run(session_of(context.lake).home, text, context.dialect, context.args)
        key, said = "analyzed_plan", f"Total Time: {time.perf_counter() - begin:.4f}s\n{text}"
    return _frame(context, [(key, said)], "explain_key string, explain_value string")


def _analyzed(context: Context, frame: DataFrame) -> DataFrame:
    """EXPLAIN ANALYZE: runs the query, and says how many rows it has, what it took and which files it read."""
    begin = time.perf_counter()
    rows = frame.count()
    seconds = time.perf_counter() - begin
    scans = relation.explain(frame) if relation.is_classic(frame.sparkSession) else ""
    files = sum(int(found) for found in re.findall(r"(\d+) of \d+ files?", scans))
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode="formatted")
    said = (
        f"Total Time: {seconds:.4f}s\nRows: {rows}\nTotal Files Read: {files}\n{scans}\n\n{text.getvalue()}"
    )
    return _frame(context, [("analyzed_plan", said)], "explain_key string, explain_value string")


def summarize(context: Context, node: nodes.Summarize) -> DataFrame:
    """SUMMARIZE: one row for each column. In Spark's dialect Spark computes it, with approximations of its own."""
    from pyspark.sql import functions as F

    if context.dialect == "duckdb":
        return context.frame_of(f"SELECT * FROM (SUMMARIZE {context.source(node.query)})", node.query)
    frame = (
        context.frame(node.query)
        if not node.is_table
        else context.frame_of(f"SELECT * FROM {context.source(node.query)}")
    )
    if not frame.columns:
        raise InvalidInputError("SUMMARIZE needs at least one column.")
    named = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    parts: DataFrame | None = None
    for i, (name, kind) in enumerate(_types_of(frame)):
        column = F.col(f"c{i}")
        simple = frame.schema.fields[i].dataType.typeName()
        is_number = simple in _NUMBERS or simple.startswith("decimal")
        none = F.lit(None).cast("string")

        def number(value: Any, here: bool = is_number, none: Any = none) -> Any:
            return value.cast("string") if here else none

        ordered = simple not in ("map", "variant", "struct", "array")
        nulls = F.try_divide(F.count(F.when(column.isNull(), 1)) * 100, F.count(F.lit(1)))
        row = named.agg(
            F.lit(name).alias("column_name"),
            F.lit(kind).alias("column_type"),
            (F.min(column).cast("string") if ordered else none).alias("min"),
            (F.max(column).cast("string") if ordered else none).alias("max"),
            (F.approx_count_distinct(column) if ordered else F.lit(None).cast("bigint")).alias(
                "approx_unique"
            ),
            number(F.avg(column)).alias("avg") if is_number else none.alias("avg"),
            number(F.stddev(column)).alias("std") if is_number else none.alias("std"),
            *(
                (number(F.percentile_approx(column, share)) if is_number else none).alias(
                    f"q{int(share * 100)}"
                )
                for share in (0.25, 0.5, 0.75)
            ),
            F.count(F.lit(1)).alias("count"),
            nulls.cast("decimal(9,2)").alias("null_percentage"),
        )
        parts = row if parts is None else parts.unionAll(row)
    assert parts is not None
    return parts


_NUMBERS = ("tinyint", "smallint", "integer", "bigint", "float", "double", "byte", "short", "long", "decimal")

_SHOW = {
    "schemas": _schemas,
    "databases": _databases,
    "tables": _tables,
    "views": _views,
    "functions": _functions,
    "all tables": _all_tables,
    "columns": _columns,
    "create table": _create_table,
}
