"""SQL that may only read, whatever its text says: for those who show a lake to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ducklake_spark.errors import ReadOnlyError, add_statement
from ducklake_spark.sql.execute import functions
from ducklake_spark.sql.execute.run import run
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar import LakeStatement
from ducklake_spark.sql.parser.outside import outside
from ducklake_spark.sql.parser.parse import Statement, parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

_READS = (nodes.Show, nodes.Describe, nodes.Explain, nodes.Summarize, nodes.Use)
_WAY_OUT = "and only reading is allowed here"


def read(lake: Lake, text: str, dialect: str = "spark") -> DataFrame:
    """Runs SQL as `lake.sql()` does, and nothing that could change a lake, a session or a file.

    Args:
        lake: The lake, attached read-only or not.
        text: One statement, or several with `;` between them.
        dialect: "spark" or "duckdb".

    Raises:
        ReadOnlyError: A statement would change something; none was run.
    """
    for statement in parse(text, dialect):
        _require_reads(statement)
    with functions.only_asking("", "only reading is allowed here."):
        return run(lake, text, dialect)


def _require_reads(statement: Statement) -> None:
    tree = statement.tree
    if isinstance(tree, LakeStatement) and not isinstance(tree.node, _READS):
        raise _refused(f"This statement changes something, {_WAY_OUT}.", statement)
    found = outside(statement.text, statement.dialect)
    if found is not None:
        raise _refused(f"{found}, {_WAY_OUT}.", statement)


def _refused(reason: str, statement: Statement) -> ReadOnlyError:
    error = ReadOnlyError(reason)
    add_statement(error, statement.text)
    return error
