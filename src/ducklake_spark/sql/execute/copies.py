"""COPY: rows of files into tables and out of them, and whole lakes into others."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from ducklake_spark.engine.answers import answer
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError
from ducklake_spark.format.duckdb_sql import CATALOG_TOKEN, Expression
from ducklake_spark.format.types import duckdb_name, fold, quote, text_literal
from ducklake_spark.sql.duckdb import one_task
from ducklake_spark.sql.execute import dml, duckdb_queries, mirror, queries
from ducklake_spark.sql.execute.assign import fitted_frame
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.execute.session import session_of
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.resolve.files import format_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

_READERS = {"parquet": "read_parquet", "csv": "read_csv", "json": "read_json"}


def copy_to(context: Context, node: nodes.CopyTo) -> DataFrame:
    """COPY of a table or a query to files: DuckDB writes them, in one task."""
    if node.query is not None:
        frame = context.frame(node.query)
    else:
        assert node.table is not None
        columns = "*" if node.columns is None else ", ".join(map(quote, node.columns))
        frame = context.frame_of(f"SELECT {columns} FROM {'.'.join(map(quote, node.table))}")
    said = duckdb_queries.columns_of(frame)
    types = None if said is None else [kind for _, kind in said]
    path = str(context.value(node.path))
    options = ", ".join(_option_text(context, each) for each in node.options)
    target = text_literal(path) + (f" ({options})" if options else "")
    session = session_of(context.lake)
    count = one_task.copied(frame, types, target, duckdb_queries.settings_of(session))
    return answer(scope_of(context.lake), [(count,)], "Count bigint")


def _option_text(context: Context, option: nodes.AttachOption) -> str:
    name = quote(option.name)
    return name if option.value is None else f"{name} {context.source(option.value)}"


def copy_from(context: Context, node: nodes.CopyFrom) -> int:
    """COPY of files into a table: columns by place, values cast to their columns' types."""
    table = dml.target_of(context, node.table)
    names = list(node.columns) if node.columns is not None else table.columns
    path = str(context.value(node.path))
    options = {fold(each.name): each for each in node.options}
    chosen = options.pop("format", None)
    said = None if chosen is None or chosen.value is None else context.source(chosen.value)
    kind = fold(said.strip("'")) if said is not None else format_of(path) or "csv"
    if kind not in _READERS:
        raise InvalidInputError(f'COPY ... FROM reads parquet, csv and json files, not "{kind}".')
    texts = [_reader_option(context, each) for each in options.values()]
    if kind == "csv":
        types = {fold(column.name): duckdb_name(column.data_type) for column in table.definition.columns}
        unknown = [name for name in names if fold(name) not in types]
        if unknown:
            raise NotFoundError(f'Table "{table.name}" has no column "{unknown[0]}".')
        texts.append(f"names = [{', '.join(map(text_literal, names))}]")
        texts.append(f"dtypes = [{', '.join(text_literal(types[fold(name)]) for name in names)}]")
    source = f"SELECT * FROM {_READERS[kind]}({', '.join([text_literal(path), *texts])})"
    frame = queries.frame_of_tree(context.around, parse_query_text(source, "duckdb"), source, "duckdb")
    if len(frame.columns) != len(names):
        raise InvalidInputError(
            f'The file has {len(frame.columns)} columns, and table "{table.name}" takes {len(names)} '
            f"({', '.join(names)})."
        )
    with context.running():
        return table.insert(fitted_frame(context, frame.toDF(*names), table))


def _reader_option(context: Context, option: nodes.AttachOption) -> str:
    name = {"delimiter": "delim", "nullstr": "nullstr"}.get(fold(option.name), fold(option.name))
    if option.value is None:
        return f"{name} = true"
    return f"{name} = {context.source(option.value)}"


def copy_database(context: Context, node: nodes.CopyDatabase) -> None:
    """COPY FROM DATABASE: schemas, tables, views and macros, and the rows."""
    session = session_of(context.lake)
    lakes = []
    for name in (node.source, node.target):
        lake = session.named(name)
        if lake is None:
            raise NotFoundError(f'There is no attached lake "{name}".')
        lakes.append(lake)
    source, target = lakes
    scope_of(target).statement(lambda _: _copy_lake(source, target, node.what))


def _copy_lake(source: Lake, target: Lake, what: str) -> None:
    tx = scope_of(source).read_transaction()
    views: list[tuple[tuple[str, str], Any]] = []
    for schema in tx.schemas():
        if what != "data":
            target.create_schema(schema.name, if_not_exists=True)
        for name in tx.table_names(schema):
            key = (schema.name, name)
            if what != "data":
                _create_alike(source, target, key)
            if what != "schema":
                target[key].insert(source.table(key))
        if what != "data":
            views += [((schema.name, name), tx.view(schema, name)) for name in tx.view_names(schema)]
            for macro in tx.macros(schema):
                _copy_macro(target, schema.name, macro)
    for key, view in views:
        sql = view.sql.replace(CATALOG_TOKEN, quote(target.name))
        target.create_view(key, sql, view.column_aliases, dialect="duckdb", comment=view.comment)


_LOADED = re.compile(r"COPY (?P<table>.+?) FROM (?P<file>'.*);")
"""A line of `load.sql`."""


def export_database(context: Context, node: nodes.ExportDatabase) -> None:
    """EXPORT DATABASE: the definitions as DuckDB writes them, and a file of each table's rows."""
    from ducklake_spark.sql.execute.run import run

    session = session_of(context.lake)
    lake = context.lake if node.database is None else session.named(node.database)
    if lake is None:
        raise NotFoundError(f'There is no attached lake "{node.database}".')
    path = str(context.value(node.path))
    options = ", ".join(_option_text(context, each) for each in node.options)
    with mirror.mirrored(session, lake) as found:
        found.answer(f"EXPORT DATABASE {text_literal(path)}" + (f" ({options})" if options else ""))
    with open(os.path.join(path, "load.sql")) as file:
        lines = [line for text in file if (line := _LOADED.match(text)) is not None]
    for line in lines:
        table = line["table"] if "." in line["table"] else f"main.{line['table']}"
        run(session.home, f"COPY {quote(lake.name)}.{table} TO {line['file']}", "duckdb")


def import_database(context: Context, node: nodes.ImportDatabase) -> None:
    """IMPORT DATABASE of what EXPORT DATABASE wrote."""
    from ducklake_spark.sql.execute.run import run

    path = str(context.value(node.path))
    for name in ("schema.sql", "load.sql"):
        try:
            with open(os.path.join(path, name)) as file:
                text = file.read()
        except OSError as error:
            raise NotFoundError(f'"{path}" holds no exported database: {error}.') from None
        if text.strip(" \n;"):
            run(session_of(context.lake).home, text, "duckdb")


def _create_alike(source: Lake, target: Lake, key: tuple[str, str]) -> None:
    definition = source[key].definition
    table = target.create_table(
        key,
        [(column.name, duckdb_name(column.data_type)) for column in definition.columns],
        not_null=[column.name for column in definition.columns if not column.nulls_allowed],
        defaults={
            column.name: Expression(column.default_value)
            if column.default_value_type == "expression"
            else column.default_value
            for column in definition.columns
            if column.default_value is not None
        },
        comment=definition.comment,
    )
    for column in definition.columns:
        if column.comment is not None:
            table.set_comment(column.comment, column=(column.name,))


def _copy_macro(target: Lake, schema: str, macro: Any) -> None:
    bodies = [
        (
            impl.sql.replace(CATALOG_TOKEN, quote(target.name)),
            [
                quote(each.name)
                if each.default_value is None
                else f"{quote(each.name)} := {text_literal(each.default_value)}"
                for each in impl.parameters
            ],
        )
        for impl in macro.impls
    ]
    target.create_macro(
        (schema, macro.name), *bodies[0], table=macro.is_table, overloads=bodies[1:], dialect="duckdb"
    )
