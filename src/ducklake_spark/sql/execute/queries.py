"""A query over lake tables -> DataFrame: names are spliced into the user's own text, and Spark does the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyspark.sql.types as T
import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ErrorLevel, SqlglotError

from ducklake_spark.errors import DuckLakeError, InvalidInputError, shortened
from ducklake_spark.scan.projection.types import choices_of
from ducklake_spark.spark.errors import cause_of, condition_of, quiet, user_error
from ducklake_spark.spark.worker_functions import Scalar, arrow_schema, scalars
from ducklake_spark.sql.duckdb import pivot as duckdb_pivot
from ducklake_spark.sql.duckdb import select as duckdb_select
from ducklake_spark.sql.duckdb import worker_expressions
from ducklake_spark.sql.duckdb.dialect import UntranslatedError, translate
from ducklake_spark.sql.execute import duckdb_queries, functions
from ducklake_spark.sql.execute.constants import Constants
from ducklake_spark.sql.parser.grammar_queries import ODD_TREES, QUERY_DIALECTS, first_line, parse_query_text
from ducklake_spark.sql.parser.parse import Args, Statement
from ducklake_spark.sql.parser.texts import Spliced, splice
from ducklake_spark.sql.resolve.names import NameResolver
from ducklake_spark.sql.resolve.rewrite import Rewriter, Rewritten
from ducklake_spark.sql.resolve.substitution import as_written
from ducklake_spark.workers.duckdb_expression import DuckDBExpression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ducklake_spark.api.lake import Lake


QUERIES = (exp.Query, exp.Values, exp.Pivot)
_NOT_FOUND = ("TABLE_OR_VIEW_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE", "SCHEMA_NOT_FOUND")
"""What Spark says when no catalog of its own has a name."""


@dataclass(frozen=True)
class Prepared:
    """A query or expression in Spark's SQL, the DataFrames that it names, and the parameters that are left."""

    resolver: NameResolver
    spliced: Spliced
    frames: Mapping[str, DataFrame]
    args: Args
    unknown: Sequence[tuple[str, ...]]


def query(lake: Lake, statement: Statement, args: Args = None) -> DataFrame:
    """The rows of a query (SELECT, VALUES, WITH, FROM, set operations)."""
    if not isinstance(statement.tree, QUERIES):
        raise InvalidInputError(f"This is no statement that a lake or Spark knows: {statement.text}")
    return run_query(NameResolver(lake), statement.tree, statement.text, statement.dialect, args)


def frame_of_tree(lake: Lake, tree: exp.Expr, text: str, dialect: str, args: Args = None) -> DataFrame:
    """The rows of a query that is part of a larger statement.

    Args:
        lake: The lake.
        tree: The query's own tree, out of the statement's.
        text: The text of the whole statement, to which the places in the tree refer.
        dialect: The dialect of the text.
        args: Values for parameters in the query.
    """
    return run_query(NameResolver(lake), tree, text, dialect, args)


def run_query(
    resolver: NameResolver, tree: exp.Expr, text: str | None, dialect: str, args: Args = None
) -> DataFrame:
    """The rows of a query.

    Args:
        resolver: What its names mean.
        tree: Its tree, whose places refer to the text.
        text: The text that it stands in; None for a tree that has none.
        dialect: The dialect of tree and text.
        args: Values of parameters.
    """
    if isinstance(tree, exp.Subquery) and not tree.args.get("with_"):
        tree.set("alias", None)
    if dialect == "duckdb":
        return _run_duckdb(resolver, tree, text, args)
    return run_prepared(resolver.lake.spark, prepare(resolver, tree, text, dialect, args))


def run_known(resolver: NameResolver, tree: exp.Expr, text: str, dialect: str) -> DataFrame:
    """The rows of a stored query, all of whose tables a lake must have.

    Raises:
        DuckLakeError: It names another.
    """
    if dialect == "duckdb":
        return _run_duckdb(resolver, tree, text, None, known_only=True)
    prepared = prepare(resolver, tree, text, dialect, None)
    _require_known(prepared.unknown)
    return run_prepared(resolver.lake.spark, prepared)


def _require_known(unknown: Sequence[tuple[str, ...]]) -> None:
    if unknown:
        name = ".".join(unknown[0])
        raise DuckLakeError(f'it reads a table "{name}" that the lake does not have at this snapshot')


def _run_duckdb(
    resolver: NameResolver, tree: exp.Expr, text: str | None, args: Args, *, known_only: bool = False
) -> DataFrame:
    """The rows of a query in DuckDB's dialect."""
    rewriter, done, args = _rewritten(resolver, tree, text, args)
    if known_only:
        _require_known(done.unknown)
    plain = rewriter.tree if args is None else with_values(rewriter.tree, args)
    own = _own_text(rewriter, done, tree) if args is None else None

    asked = duckdb_queries.Asked(plain, own or plain.sql("duckdb"), done.frames, done.types)
    return _answered(resolver, asked, rewriter.tree, args, done.unknown)


def _answered(
    resolver: NameResolver,
    asked: duckdb_queries.Asked,
    tree: exp.Expr,
    args: Args,
    unknown: Sequence[tuple[str, ...]],
) -> DataFrame:
    """The rows of a query over DataFrames, whose tree may have parameters yet."""
    spark = resolver.lake.spark
    frames, types = asked.frames, asked.types

    def by_spark() -> DataFrame:
        made = spark_sql(tree, "duckdb", frames, types)
        return run_prepared(spark, Prepared(resolver, Spliced(made, made), frames, args, unknown))

    def in_parts(settings: Sequence[str], every_call: bool) -> DataFrame:
        schemas = {name: frame.schema for name, frame in frames.items()}
        made, parts = worker_expressions.translated(
            tree, schemas, types, choices_of(spark), every_call=every_call
        )
        text = _spark_text(made)
        prepared = Prepared(resolver, Spliced(text, text), frames, args, unknown)
        with scalars(spark, (_scalar(part, settings) for part in parts)):
            return run_prepared(spark, prepared)

    def again(other: duckdb_queries.Asked) -> DataFrame:
        return _answered(resolver, other, other.tree, None, ())

    ways = duckdb_queries.Ways(by_spark, in_parts, again)
    return duckdb_queries.answered(resolver.lake, asked, ways, is_known=not unknown)


def _scalar(part: worker_expressions.Part, settings: Sequence[str]) -> Scalar:
    schema = arrow_schema(T.StructType([T.StructField("r", part.type)]))
    expression = DuckDBExpression(tuple(settings), part.sql, schema.field(0).type)
    return Scalar(part.name, expression, part.said, part.type)


def _own_text(rewriter: Rewriter, done: Rewritten, tree: exp.Expr) -> str | None:
    """The user's own text with the names of DataFrames; None where only the tree says all."""
    text = rewriter.text
    span = _span(tree, text, "duckdb") if done.is_text_whole and text is not None else None
    if span is None or text is None:
        return None
    start, end = span
    inside = [edit for edit in done.edits if start <= edit.start and edit.end <= end]
    whole = splice(text, inside).text
    return whole[start : end + len(whole) - len(text)]


def _rewritten(
    resolver: NameResolver, tree: exp.Expr, text: str | None, args: Args
) -> tuple[Rewriter, Rewritten, Args]:
    """A tree of DuckDB's dialect whose tables are names of DataFrames."""
    tree = tree.copy()
    _number_markers(tree, text, "duckdb")
    if tree.find(exp.Pivot):
        tree, text = _without_pivots(resolver, tree, args), None
    duckdb_select.name_columns(tree, text)
    constants = Constants(resolver.lake, "duckdb", args, lambda node: spark_sql(node, "duckdb"))
    before = tree.sql("duckdb")
    tree = duckdb_queries.filled(resolver.lake, tree)
    kept = text if tree.sql("duckdb") == before else None
    rewriter = Rewriter(resolver, tree, constants, kept)
    done = rewriter.run()
    if isinstance(args, Sequence):
        args = _named_markers(rewriter.tree, args)
    return rewriter, done, args


def with_values(tree: exp.Expr, args: Args) -> exp.Expr:
    """The tree with the values of its parameters."""

    def change(node: exp.Expr) -> exp.Expr:
        if (
            isinstance(node, (exp.Placeholder, exp.Parameter))
            and isinstance(args, Mapping)
            and node.name in args
        ):
            try:
                return exp.convert(args[node.name])
            except ValueError:
                return node
        return node

    return tree.transform(change)


def expression_text(lake: Lake, tree: exp.Expr, dialect: str) -> str:
    """An expression without lake tables in it, in Spark's SQL; macros of the lake are replaced by what they mean."""
    prepared = prepare(NameResolver(lake), tree, None, dialect, None)
    if prepared.frames:
        raise InvalidInputError(f"A subquery over lake tables cannot stand here: {tree.sql(dialect=dialect)}")
    return prepared.spliced.text


@contextmanager
def bound(lake: Lake, tree: exp.Expr, dialect: str, args: Args = None) -> Iterator[str]:
    """An expression in Spark's SQL, in which subqueries over lake tables can be run until the block ends."""
    prepared = prepare(NameResolver(lake), tree, None, dialect, args)
    with _views(lake.spark, prepared.frames):
        yield prepared.spliced.text


def prepare(resolver: NameResolver, tree: exp.Expr, text: str | None, dialect: str, args: Args) -> Prepared:
    """Resolves the names of a tree and gives Spark's text for it."""
    if dialect == "duckdb":
        made_by, done, args = _rewritten(resolver, tree, text, args)
        made = spark_sql(made_by.tree, dialect, done.frames, done.types)
        return Prepared(resolver, Spliced(made, made), done.frames, args, done.unknown)
    tree = tree.copy()
    markers = _number_markers(tree, text, dialect)
    constants = Constants(resolver.lake, dialect, args, lambda node: spark_sql(node, dialect))
    span = _span(tree, text, dialect)
    rewriter = Rewriter(resolver, tree, constants, None if span is None else text)
    done = rewriter.run()
    if span is None or text is None:
        if isinstance(args, Sequence):
            args = _named_markers(rewriter.tree, args)
        made = spark_sql(rewriter.tree, dialect, done.frames, done.types)
        return Prepared(resolver, Spliced(made, made), done.frames, args, done.unknown)
    start, end = span
    inside = [edit for edit in done.edits if start <= edit.start and edit.end <= end]
    whole = splice(text, inside)
    shift = len(whole.text) - len(text)
    spliced = Spliced(text, whole.text[start : end + shift], whole.edits, start)
    if isinstance(args, Sequence):
        replaced = [(edit.start, edit.end) for edit in inside]
        kept = [place for place, at in enumerate(markers) if start <= at < end]
        kept = [place for place in kept if not any(a <= markers[place] < b for a, b in replaced)]
        args = [args[place] for place in kept if place < len(args)]
    return Prepared(resolver, spliced, done.frames, args, done.unknown)


def _without_pivots(resolver: NameResolver, tree: exp.Expr, args: Args) -> exp.Expr:
    def columns(query: exp.Expr) -> list[str]:
        return run_query(resolver, query, None, "duckdb", args).columns

    def values(query: exp.Expr) -> list[str]:
        rows = run_query(resolver, query, None, "duckdb", args).limit(duckdb_pivot.MOST_COLUMNS + 1).collect()
        return [str(row[0]) for row in rows]

    with functions.only_asking("PIVOT"):
        return duckdb_pivot.expand(tree, columns, values)


def spark_sql(
    tree: exp.Expr,
    dialect: str,
    frames: Mapping[str, DataFrame] | None = None,
    types: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """The tree in Spark's SQL.

    Args:
        tree: The tree.
        dialect: Its dialect.
        frames: The DataFrames that it names, for the types of their columns.
        types: DuckDB's own types of these columns, where the lake says them.
    """
    schemas = {name: frame.schema for name, frame in (frames or {}).items()} if dialect == "duckdb" else {}
    try:
        return _spark_text(translate(tree, schemas, types) if dialect == "duckdb" else tree)
    except UntranslatedError as error:
        raise InvalidInputError(str(error)) from None
    except DuckLakeError:
        raise
    except ODD_TREES as error:
        raise InvalidInputError(f"Cannot be said in Spark's SQL: {first_line(error)}") from error


def _spark_text(tree: exp.Expr) -> str:
    return tree.sql(dialect="spark", unsupported_level=ErrorLevel.RAISE)


def _number_markers(tree: exp.Expr, text: str | None, dialect: str) -> list[int]:
    """Gives every `?` of the tree its number in the text; the places of all `?` in the text."""
    if text is None:
        return []
    try:
        tokens = sqlglot.tokenize(text, read=QUERY_DIALECTS[dialect])
    except SqlglotError:
        return []
    markers = [
        token.start for token in tokens if token.token_type == TokenType.PLACEHOLDER and token.text == "?"
    ]
    for node in tree.find_all(exp.Placeholder):
        if not node.args.get("this") and node.meta.get("start") in markers:
            node.meta["ducklake_marker"] = markers.index(node.meta["start"])
    return markers


def _named_markers(tree: exp.Expr, args: Sequence[Any]) -> dict[str, Any] | None:
    """Parameters by number as parameters by name, as their order may have changed."""
    values: dict[str, Any] = {}
    for node in list(tree.find_all(exp.Placeholder)):
        place = node.meta.get("ducklake_marker")
        if place is None and node.name.isdigit():
            place = int(node.name) - 1
        if place is None or not 0 <= place < len(args):
            raise InvalidInputError(f"args= has {len(args)} values, which is too few for the text.")
        name = f"ducklake_{place + 1}"
        values[name] = args[place]
        node.replace(exp.Placeholder(this=name))
    return values or None


def _span(tree: exp.Expr, text: str | None, dialect: str) -> tuple[int, int] | None:
    """Where the query stands in the text; None if that cannot be told, and the text is made from the tree."""
    if text is None or not isinstance(tree, QUERIES):
        return None
    for span in ((0, len(text)), tree.meta.get("query_span")):
        if span is None:
            continue
        try:
            if sqlglot.parse_one(text[slice(*span)], read=QUERY_DIALECTS[dialect]) == tree:
                return int(span[0]), int(span[1])
        except ODD_TREES:
            continue
    return None


@contextmanager
def _views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    made: list[str] = []
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
            made.append(name)
        yield
    finally:
        for name in made:
            spark.catalog.dropTempView(name)


def run_prepared(spark: SparkSession, prepared: Prepared) -> DataFrame:
    """Lets Spark analyse a query; its names are free again when this returns."""
    from pyspark.errors import PySparkException

    from ducklake_spark.spark.file_index import is_classic

    args = prepared.args
    given: Any = dict(args) if isinstance(args, Mapping) else list(args) if args is not None else None
    try:
        if is_classic(spark):
            with quiet(), _views(spark, prepared.frames), as_written(spark, prepared.spliced.text):
                return spark.sql(prepared.spliced.text, args=given or None)
        text = prepared.spliced.text.replace("{", "{{").replace("}", "}}")
        for name in prepared.frames:
            text = re.sub(rf"\b{name}\b", "{" + name + "}", text)
        return spark.sql(text, args=given or None, **prepared.frames)
    except PySparkException as error:
        raise _translated(prepared, error) from cause_of(error)
    except (TypeError, ValueError) as error:
        if isinstance(error, DuckLakeError):
            raise
        raise InvalidInputError(
            f"Spark does not take these arguments: {shortened(first_line(error))}"
        ) from error


def _translated(prepared: Prepared, error: Any) -> DuckLakeError:
    """Spark's error without Java's stack, with the place in the user's own text."""
    from ducklake_spark.spark.file_index import is_classic

    if condition_of(error) in _NOT_FOUND:
        named = {
            str(value).replace("`", "").lower() for value in (error.getMessageParameters() or {}).values()
        }
        for parts in prepared.unknown:
            # Spark 4.0 names the schema only.
            if {".".join(parts).lower(), ".".join(parts[:-1]).lower()} & named:
                return prepared.resolver.not_found(parts)
    place = _place(prepared.spliced.text, error) if is_classic(prepared.resolver.lake.spark) else None
    found = user_error(error)
    if place is not None:
        line, column = prepared.spliced.line_and_column(place)
        found.args = (f"{found} (line {line}, column {column})",)
    return found


def _place(text: str, error: Any) -> int | None:
    """The character of Spark's text that an error is about."""
    for context in error.getQueryContext() or ():
        if "SQL" in str(context.contextType()) and not context.objectType():
            return int(context.startIndex())
    found = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    if found is None:
        return None
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: int(found[1]) - 1]) + int(found[2])


__all__ = [
    "bound",
    "expression_text",
    "frame_of_tree",
    "parse_query_text",
    "prepare",
    "query",
    "run_prepared",
    "run_query",
    "spark_sql",
]
