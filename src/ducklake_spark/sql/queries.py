"""A query over lake tables -> DataFrame: names are spliced into the user's own text, and Spark does the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ducklake_spark.sql.parse import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.lake import Lake

Args = Mapping[str, Any] | Sequence[Any] | None


def query(lake: Lake, statement: Statement, args: Args = None) -> DataFrame:
    """The rows of a query (SELECT, VALUES, WITH, FROM, set operations)."""
    raise NotImplementedError


def frame_of_tree(lake: Lake, tree: exp.Expr, text: str, dialect: str, args: Args = None) -> DataFrame:
    """The rows of a query that is part of a larger statement.

    Args:
        lake: The lake.
        tree: The query's own tree, out of the statement's.
        text: The text of the whole statement, to which the places in the tree refer.
        dialect: The dialect of the text.
        args: Values for parameters in the query.
    """
    raise NotImplementedError


def expression_text(lake: Lake, tree: exp.Expr, text: str, dialect: str) -> str:
    """An expression without lake tables in it, in Spark's SQL; macros of the lake are replaced by what they mean."""
    raise NotImplementedError


@contextmanager
def bound(lake: Lake, tree: exp.Expr, text: str, dialect: str, args: Args = None) -> Iterator[str]:
    """An expression in Spark's SQL, in which subqueries over lake tables can be run until the block ends."""
    raise NotImplementedError
    yield ""
