"""CREATE, DROP, ALTER and COMMENT ON -> calls of `Lake` and `Table`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError
from ducklake_spark.format.duckdb_sql import Expression
from ducklake_spark.format.types import duckdb_name, fold, quote
from ducklake_spark.scan.projection.types import choices_of, user_type
from ducklake_spark.sql.duckdb import one_task
from ducklake_spark.sql.execute import duckdb_queries, mirror
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.execute.session import session_of
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_queries import parse_query_text
from ducklake_spark.sql.parser.texts import Edit, splice
from ducklake_spark.sql.resolve.files import format_of
from ducklake_spark.sql.resolve.lake_types import types_of
from ducklake_spark.sql.resolve.names import NameResolver, cte_of, identifiers_of, parts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.table import Table


def create_schema(context: Context, node: nodes.CreateSchema) -> None:
    """CREATE SCHEMA."""
    name = context.schema_name(node.name)
    if node.or_replace:
        raise InvalidInputError(
            f'CREATE OR REPLACE SCHEMA "{name}" would drop all that is in it: use DROP SCHEMA ... CASCADE first.'
        )
    context.lake.create_schema(name, if_not_exists=node.if_not_exists)


def create_table(context: Context, node: nodes.CreateTable) -> int | None:
    """CREATE TABLE; with a query, the number of rows."""
    name = context.name(node.name)
    if node.if_not_exists and name in context.lake:
        return None if node.query is None else 0
    if node.like is not None:
        _create_alike(context, name, node, context.lake[context.name(node.like)])
        return None
    frame = None
    if node.query is None:
        columns = [(column.path[0], _type_text(column)) for column in node.columns]
    else:
        with one_task.storing():
            columns, frame = _columns_of(context, context.frame(node.query), node)
    table = context.lake.create_table(
        name,
        columns,
        partitioned_by=node.partitioned_by,
        sorted_by=[_sort_key(context, key) for key in node.sorted_by],
        not_null=[column.path[0] for column in node.columns if column.not_null],
        defaults={
            column.path[0]: context.default(column.default)
            for column in node.columns
            if column.default is not None
        },
        comment=node.comment,
        if_not_exists=node.if_not_exists,
        or_replace=node.or_replace,
    )
    for column in node.columns:
        if column.comment is not None:
            table.set_comment(column.comment, column=(column.path[0],))
    if frame is None:
        return None
    with context.running():
        return table.insert(frame) if node.with_data else 0


def _create_alike(context: Context, name: nodes.Name, node: nodes.CreateTable, model: Table) -> None:
    """CREATE TABLE ... LIKE: columns with what they have, and keys; no rows."""
    columns = model.definition.columns
    table = context.lake.create_table(
        name,
        [(column.name, duckdb_name(column.data_type)) for column in columns],
        partitioned_by=model.partitioned_by,
        sorted_by=model.sorted_by,
        not_null=[column.name for column in columns if not column.nulls_allowed],
        defaults={
            column.name: Expression(column.default_value)
            if column.default_value_type == "expression"
            else column.default_value
            for column in columns
            if column.default_value is not None
        },
        comment=model.comment,
        or_replace=node.or_replace,
    )
    for column in columns:
        if column.comment is not None:
            table.set_comment(column.comment, column=(column.name,))


def _type_text(column: nodes.Column) -> str:
    if column.type is None:
        raise InvalidInputError(f'Column "{column.path[0]}" has no type.')
    return duckdb_name(column.type)


def _columns_of(
    context: Context, frame: DataFrame, node: nodes.CreateTable
) -> tuple[list[tuple[str, Any]], DataFrame]:
    """The columns of CREATE TABLE ... AS, under the names that the statement gives them."""
    if any(column.type is not None for column in node.columns):
        raise InvalidInputError(
            "CREATE TABLE ... AS takes the types from the query: give names only, or cast in the query."
        )
    names = [column.path[0] for column in node.columns]
    if len(names) > len(frame.columns):
        raise InvalidInputError(f"{len(names)} columns are named, and the query has {len(frame.columns)}.")
    said = duckdb_queries.columns_of(frame)
    frame = frame.toDF(*names, *frame.columns[len(names) :])
    if context.dialect == "duckdb":
        frame = frame.toDF(*_distinct(frame.columns))
    seen: set[str] = set()
    for name in frame.columns:
        if fold(name) in seen:
            raise InvalidInputError(f'The query has two columns named "{name}": give one of them an alias.')
        seen.add(fold(name))
    assert node.query is not None
    if said is not None:
        return [(name, kind) for name, (_, kind) in zip(frame.columns, said, strict=True)], frame
    kept = types_of(context, node.query) or []
    if len(kept) != len(frame.columns):
        return [(field.name, field.dataType) for field in frame.schema.fields], frame
    # What Spark only shows as something else is stored as what it is.
    choices = choices_of(context.lake.spark)
    columns: list[tuple[str, Any]] = []
    for field, data_type in zip(frame.schema.fields, kept, strict=True):
        same = user_type(data_type, choices) == field.dataType
        columns.append((field.name, duckdb_name(data_type) if same else field.dataType))
    return columns, frame


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns as DuckDB tells them apart.

    >>> _distinct(["a", "A", "b", "a"])
    ['a', 'A_1', 'b', 'a_2']
    """
    counts: dict[str, int] = {}
    found = []
    for name in names:
        count = counts.get(fold(name), 0)
        counts[fold(name)] = count + 1
        found.append(f"{name}_{count}" if count else name)
    return found


def _sort_key(context: Context, key: nodes.SortKey) -> str:
    return context.duckdb_text(key.expression) + key.order


def create_view(context: Context, node: nodes.CreateView) -> None:
    """CREATE VIEW."""
    query = context.source(node.query)
    if context.dialect == "duckdb":
        query = _require_tables(context, query)
    context.lake.create_view(
        context.name(node.name),
        query,
        node.columns,
        dialect=context.dialect,
        comment=node.comment,
        if_not_exists=node.if_not_exists,
        or_replace=node.or_replace,
    )


def _require_tables(context: Context, query: str) -> str:
    """The query of a view; as in DuckDB, what it reads must be there. In another lake's view it has that lake's name.

    Raises:
        NotFoundError: A table that the query names by its lake or alone is in no lake.
    """
    tree = parse_query_text(query, "duckdb")
    used = context.home or context.lake
    resolver = NameResolver(used)
    session = session_of(context.lake)
    edits = []
    for table in tree.find_all(exp.Table):
        parts = parts_of(table)
        if not parts or cte_of(table) is not None or table.args.get("version") or table.args.get("when"):
            continue
        is_elsewhere = (
            fold(parts[0]) in map(fold, session.sources)
            or mirror.is_about_databases(parts, is_call=False)
            or format_of(parts[-1]) is not None
        )
        if is_elsewhere:
            continue
        found = resolver.relation(parts)
        if found is None:
            raise resolver.not_found(parts)
        names = identifiers_of(table)
        if used is not context.lake and all("start" in name.meta for name in names):
            start, end = names[0].meta["start"], names[-1].meta["end"] + 1
            edits.append(Edit(start, end, ".".join(map(quote, found.full_name))))
    return splice(query, edits).text


def create_macro(context: Context, node: nodes.CreateMacro) -> None:
    """CREATE MACRO, and CREATE FUNCTION of SQL."""
    kinds = {body.table for body in node.bodies}
    if len(kinds) > 1:
        raise InvalidInputError("All implementations of a macro are expressions, or all are queries.")
    bodies = [(context.source(body.body), _parameters(context, body.parameters)) for body in node.bodies]
    context.lake.create_macro(
        context.name(node.name),
        *bodies[0],
        table=node.bodies[0].table,
        overloads=bodies[1:],
        dialect=context.dialect,
        if_not_exists=node.if_not_exists,
        or_replace=node.or_replace,
    )


def _parameters(context: Context, parameters: Sequence[nodes.Parameter]) -> list[str]:
    texts = []
    for parameter in parameters:
        text = quote(parameter.name)
        if parameter.type is not None:
            text += f" {duckdb_name(parameter.type)}"
        if parameter.default is not None:
            text += f" := {context.duckdb_text(parameter.default)}"
        texts.append(text)
    return texts


def drop(context: Context, node: nodes.Drop) -> None:
    """DROP; several objects go together or not at all."""
    lake = context.lake
    for name in node.names:
        if node.kind == "schema":
            own = context.schema_name(name)
            lake.drop_schema(own, cascade=node.cascade, if_exists=node.if_exists)
            if fold(own) == fold(lake.default_schema):
                scope_of(lake).on_rollback(
                    functools.partial(setattr, scope_of(lake), "default_schema", lake.default_schema)
                )
                scope_of(lake).default_schema = "main"
        elif node.kind == "table":
            lake.drop_table(context.name(name), if_exists=node.if_exists)
        elif node.kind == "view":
            lake.drop_view(context.name(name), if_exists=node.if_exists)
        else:
            lake.drop_macro(context.name(name), table=node.kind == "macro table", if_exists=node.if_exists)


def comment_on(context: Context, node: nodes.CommentOn) -> None:
    """COMMENT ON TABLE, VIEW or COLUMN."""
    lake, name = context.lake, context.name(node.name)
    if node.kind == "table":
        lake[name].set_comment(node.comment)
    elif node.kind == "view":
        lake.comment_view(name, node.comment)
    else:
        table, path = _table_and_path(context, name)
        table.set_comment(node.comment, column=path)


def _table_and_path(context: Context, name: nodes.Name) -> tuple[Table, nodes.Name]:
    """The table and the column of `t.c`, `s.t.c` or `t.c.field`."""
    for parts in (2, 1):
        if len(name) > parts and name[:parts] in context.lake:
            return context.lake[name[:parts]], name[parts:]
    if len(name) == 1:
        raise InvalidInputError(f'COMMENT ON COLUMN "{name[0]}" needs the table: write table.column.')
    return context.lake[name[:-1]], name[-1:]  # raises, and names the table


def alter(context: Context, node: nodes.Alter) -> None:
    """ALTER TABLE and ALTER VIEW; several changes are made together or not at all."""
    name = context.name(node.name)
    if node.kind == "view":
        _alter_view(context, node, name)
        return
    if node.if_exists and name not in context.lake:
        return
    table = context.lake[name]
    for action in node.actions:
        _alter_table(context, table, action)


def _alter_view(context: Context, node: nodes.Alter, name: nodes.Name) -> None:
    try:
        context.lake.view(name)
    except NotFoundError:
        if node.if_exists:
            return
        raise
    for action in node.actions:
        assert isinstance(action, nodes.RenameTo)
        context.lake.rename_view(name, _same_place(context, action.name, name))


def _same_place(context: Context, new: nodes.Name, old: nodes.Name) -> str:
    """The new name; it may have a schema in front, but not another one."""
    new = context.name(new)
    if len(new) > 1:
        schema = old[0] if len(old) > 1 else context.lake.default_schema
        if len(new) > 2 or fold(new[0]) != fold(schema):
            raise InvalidInputError(
                f'Cannot rename to "{".".join(new)}": a table stays in its schema, which is "{schema}".'
            )
    return new[-1]


def _alter_table(context: Context, table: Table, action: nodes.Action) -> None:
    match action:
        case nodes.AddColumn(column, if_not_exists):
            _add_column(context, table, column, if_not_exists)
        case nodes.DropColumn(path, if_exists):
            table.drop_column(path, if_exists=if_exists)
        case nodes.RenameColumn(path, new_name):
            table.rename_column(path, new_name)
        case nodes.RenameTo(name):
            table.rename(_same_place(context, name, (table.schema_name, table.name)))
        case nodes.SetType(path, data_type):
            table.set_type(path, duckdb_name(data_type))
        case nodes.SetDefault(path, default):
            table.set_default(path, context.default(default))
        case nodes.SetNotNull(path, not_null):
            if not_null:
                table.set_not_null(path)
            else:
                table.drop_not_null(path)
        case nodes.SetColumnComment(path, comment):
            table.set_comment(comment, column=path)
        case nodes.SetTableComment(comment):
            table.set_comment(comment)
        case nodes.SetPartitionedBy(keys):
            if keys is None:
                table.reset_partitioned_by()
            else:
                table.set_partitioned_by(*keys)
        case nodes.SetSortedBy(sort_keys):
            if sort_keys is None:
                table.reset_sorted_by()
            else:
                table.set_sorted_by(*(_sort_key(context, key) for key in sort_keys))


def _add_column(context: Context, table: Table, column: nodes.Column, if_not_exists: bool) -> None:
    before = None if column.comment is None else table.definition
    table.add_column(
        column.path,
        _type_text(column),
        default=context.default(column.default),
        not_null=column.not_null,
        if_not_exists=if_not_exists,
    )
    if before is not None and table.definition != before:
        table.set_comment(column.comment, column=column.path)
