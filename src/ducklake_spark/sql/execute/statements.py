"""Statements that change the lake or ask about it -> calls of `Lake` and `Table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ducklake_spark.engine.answers import answer
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError, add_statement
from ducklake_spark.spark.errors import cause_of, is_of_spark, user_error
from ducklake_spark.sql.execute import (
    calls,
    catalog_rows,
    copies,
    databases,
    ddl,
    dml,
    merges,
    qualified,
    show,
)
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.execute.routing import routed
from ducklake_spark.sql.execute.session import session_of
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar import LakeStatement
from ducklake_spark.sql.parser.parse import Statement, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake


def execute(
    lake: Lake, statement: Statement, args: Mapping[str, Any] | Sequence[Any] | None = None
) -> DataFrame:
    """Runs one statement that is no query; DML answers with one row, the number of rows.

    Raises:
        DuckLakeError: What the lake says, with the statement.
    """
    tree = statement.tree
    assert isinstance(tree, LakeStatement)
    context = Context(lake, statement.text, statement.dialect, args)
    found: DataFrame | int | None = None
    try:
        in_catalog = catalog_rows.changed(context, tree.node)
        if in_catalog is not None:
            return _counted(lake, in_catalog)
        aliased = qualified.with_aliases(context, tree.node)
        if aliased is not None:
            [statement] = parse(aliased, "duckdb")
            assert isinstance(statement.tree, LakeStatement)
            tree, context = statement.tree, replace(context, text=statement.text)
        for part, node in routed(context, tree.node):
            found = _execute(part, node)
    except DuckLakeError as error:
        add_statement(error, statement.text)
        raise
    except Exception as error:
        if not is_of_spark(error):
            raise
        translated = user_error(error)
        add_statement(translated, statement.text)
        raise translated from cause_of(error)
    if found is None or isinstance(found, int):
        return _counted(lake, found)
    return found


def _counted(lake: Lake, count: int | None) -> DataFrame:
    """The answer to a change: one row with the number of rows, or none when it is not about rows."""
    return answer(scope_of(lake), [] if count is None else [(count,)], "Count bigint")


def _execute(context: Context, node: nodes.Node) -> DataFrame | int | None:
    found: DataFrame | int | None
    if type(node) in _CHANGES:
        session_of(context.lake).require_one_changed(context.lake)
        # Sources and conditions are planned inside: a second attempt reads the newest snapshot too.
        found = scope_of(context.lake).statement(lambda _: _CHANGES[type(node)](context, node))
    else:
        found = _OTHERS[type(node)](context, node)
    return found


_CHANGES: dict[type, Callable[[Context, Any], Any]] = {
    nodes.CreateSchema: ddl.create_schema,
    nodes.CreateTable: ddl.create_table,
    nodes.CreateView: ddl.create_view,
    nodes.CreateMacro: ddl.create_macro,
    nodes.Drop: ddl.drop,
    nodes.Alter: ddl.alter,
    nodes.CommentOn: ddl.comment_on,
    nodes.Insert: dml.insert,
    nodes.Update: dml.update,
    nodes.Delete: dml.delete,
    nodes.Merge: merges.merge,
    nodes.Truncate: dml.truncate,
    nodes.CopyFrom: copies.copy_from,
}
"""Statements that change the lake: each is one snapshot, or a part of the running transaction."""

_OTHERS: dict[type, Callable[[Context, Any], Any]] = {
    nodes.Transaction: calls.transaction,
    nodes.Use: calls.use,
    nodes.Call: calls.call,
    nodes.SetVariable: calls.set_variable,
    nodes.SessionVariable: databases.set_session_variable,
    nodes.Attach: databases.attach,
    nodes.Detach: databases.detach,
    nodes.Prepare: databases.prepare,
    nodes.Execute: databases.execute,
    nodes.Deallocate: databases.deallocate,
    nodes.Pragma: databases.pragma,
    nodes.Nothing: databases.nothing,
    nodes.CreateSecret: databases.create_secret,
    nodes.DropSecret: databases.drop_secret,
    nodes.CopyTo: copies.copy_to,
    nodes.CopyDatabase: copies.copy_database,
    nodes.ExportDatabase: copies.export_database,
    nodes.ImportDatabase: copies.import_database,
    nodes.SparkSet: calls.spark_set,
    nodes.Checkpoint: calls.checkpoint,
    nodes.Show: show.show,
    nodes.Describe: show.describe,
    nodes.Explain: show.explain,
    nodes.Summarize: show.summarize,
}
