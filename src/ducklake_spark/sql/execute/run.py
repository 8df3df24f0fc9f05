"""`lake.sql()`: statements in order, each to the room that does it. No logic of the lake lives here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ducklake_spark.engine.endless import clamped
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError, InvalidInputError, add_statement
from ducklake_spark.format.types import fold
from ducklake_spark.spark.errors import quiet
from ducklake_spark.sql.execute import queries, statements
from ducklake_spark.sql.execute.plain_changes import plain_statement
from ducklake_spark.sql.execute.session import Session, session_of
from ducklake_spark.sql.execute.words import with_duckdbs
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar import LakeStatement
from ducklake_spark.sql.parser.parse import Args, Statement, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake


def run(lake: Lake, text: str, dialect: str = "spark", args: Args = None) -> DataFrame:
    """Runs every statement of the text; the result of the last one."""
    if args is not None and (isinstance(args, str) or not isinstance(args, (Mapping, Sequence))):
        raise InvalidInputError(f"args= takes a dict or a list of values, not {args!r}.")
    with quiet():
        try:
            found = _run(lake, text, dialect, args)
        except DuckLakeError as error:
            if dialect == "duckdb":
                with_duckdbs(error)
            raise
        return clamped(found) if dialect == "duckdb" else found


def _run(lake: Lake, text: str, dialect: str, args: Args) -> DataFrame:
    found = parse(text, dialect)
    if not found:
        raise InvalidInputError("The SQL text holds no statement.")
    session = session_of(lake)
    if scope_of(lake).is_closed and fold(lake.name) not in session.detached:
        scope_of(lake).require_open()
    needs_spark = any(map(_needs_spark, found))
    with scope_of(lake).expecting_spark() if needs_spark else nullcontext():
        return _run_each(session, lake, found, args)


def _needs_spark(statement: Statement) -> bool:
    """Whether it surely cannot be answered by the catalog alone."""
    if not isinstance(statement.tree, LakeStatement):
        return True
    node = statement.tree.node
    if isinstance(node, (nodes.Update, nodes.Delete)) and plain_statement(
        statement.text, statement.dialect, node
    ):
        return False
    return isinstance(node, (nodes.Update, nodes.Merge)) or (
        isinstance(node, nodes.Delete) and node.where is not None
    )


def _run_each(session: Session, handle: Lake, found: Sequence[Statement], args: Args) -> DataFrame:
    result: DataFrame
    for place, statement in enumerate(found, start=1):
        # A handle of a lake that SQL attached speaks of that lake, whatever the session uses.
        lake = session.joined(session.current if handle is session.home else handle)
        if statement.is_query:
            try:
                result = queries.query(lake, statement, statement.own_args(args))
            except DuckLakeError as error:
                if len(found) == 1:
                    raise
                add_statement(error, statement.text, f"Statement {place} of {len(found)} is:")
                raise
        else:
            result = statements.execute(lake, statement, statement.own_args(args))
    return result
