"""What the execution of a statement needs: the lake, the text, and the pieces of the text as frames and expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError
from ducklake_spark.format.duckdb_sql import Expression
from ducklake_spark.format.types import fold
from ducklake_spark.sql.execute import local_duckdb, queries
from ducklake_spark.sql.execute.constants import only_value
from ducklake_spark.sql.execute.session import session_of
from ducklake_spark.sql.parser.grammar_queries import QUERY_DIALECTS, parse_query_text, unreadable
from ducklake_spark.sql.parser.nodes import Name, Piece
from ducklake_spark.sql.parser.parse import Args
from ducklake_spark.sql.resolve.substitution import as_written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake


@dataclass(frozen=True)
class Context:
    """A statement that is being executed."""

    lake: Lake
    """The lake that the statement changes or asks about."""
    text: str
    dialect: str
    args: Args = None
    home: Lake | None = None
    """The lake in use, where names without a lake are looked for, when it is another one."""

    @property
    def around(self) -> Lake:
        """The lake in use."""
        return self.home or self.lake

    # Names.

    def name(self, name: Name) -> Name:
        """A name without the lake's own in front."""
        if len(name) > 1 and fold(name[0]) == fold(self.lake.name) and len(name) != 2:
            return name[1:]
        return name

    def schema_name(self, name: Name) -> str:
        """The name of a schema, which may have the lake's in front."""
        if len(name) == 2 and fold(name[0]) == fold(self.lake.name):
            return name[1]
        if len(name) != 1:
            raise InvalidInputError(
                f'"{".".join(name)}" is not the name of a schema of the lake "{self.lake.name}".'
            )
        return name[0]

    # Pieces of the text.

    def source(self, piece: Piece) -> str:
        """The text of a piece."""
        return self.text[piece.start : piece.stop]

    def in_place(self, *pieces: Piece | None) -> str:
        """The pieces where they stand in the text, and blanks in between: places in messages stay right."""
        parts, at = [], 0
        for piece in pieces:
            if piece is not None:
                gap = self.text[at : piece.start]
                parts.append("".join(c if c == "\n" else " " for c in gap) + self.source(piece))
                at = piece.stop
        return "".join(parts)

    def quoted(self, name: str) -> str:
        """A name in the quotes of the dialect."""
        mark = '"' if self.dialect == "duckdb" else "`"
        return mark + name.replace(mark, mark * 2) + mark

    def is_string(self, piece: Piece) -> bool:
        """Whether a piece is a text in quotes."""
        text = self.source(piece)
        if text[0] not in "'\"" or (text[0] == '"' and self.dialect == "duckdb"):
            return False
        tree = parse_query_text(text, self.dialect)
        return isinstance(tree, exp.Literal) and bool(tree.is_string)

    def duckdb_text(self, piece: Piece) -> str:
        """An expression in DuckDB's dialect, for what the catalog keeps."""
        text = self.source(piece)
        if self.dialect == "duckdb":
            return text
        try:
            [translated] = sqlglot.transpile(f"SELECT {text}", read="spark", write="duckdb")
        except (SqlglotError, ValueError) as error:
            raise unreadable(error, text) from None
        return translated.removeprefix("SELECT ")

    def default(self, piece: Piece | None) -> Expression | None:
        """A default as the lake takes it."""
        return None if piece is None else Expression(self.duckdb_text(piece))

    # Rows and values.

    def frame(self, query: Piece, ctes: Piece | None = None) -> DataFrame:
        """The rows of a query in the statement, which may use the statement's own WITH."""
        text = self.in_place(ctes, query)
        if ctes is not None and self.source(query).upper().startswith("WITH"):
            text = f"{self.in_place(ctes)} SELECT * FROM ({self.source(query)})"
        return self.frame_of(text, ctes, query)

    def frame_of(self, text: str, *pieces: Piece | None) -> DataFrame:
        """The rows of a query that was put together from these pieces, in this order."""
        tree = parse_query_text(text, self.dialect)
        with as_written(self.lake.spark, text):
            return queries.frame_of_tree(self.around, tree, text, self.dialect, self._args_of(pieces))

    def _args_of(self, pieces: Sequence[Piece | None]) -> Args:
        """The parameters in these pieces: those without a name count in the whole text."""
        if self.args is None or isinstance(self.args, Mapping):
            return self.args
        places = self._markers()
        if len(places) > len(self.args):
            raise InvalidInputError(
                f"The statement has {len(places)} parameters, and args= has {len(self.args)}."
            )
        return [
            self.args[i]
            for piece in pieces
            if piece is not None
            for i, place in enumerate(places)
            if piece.start <= place < piece.stop
        ]

    def _markers(self) -> list[int]:
        """Where each `?` stands."""
        tokens = sqlglot.tokenize(self.text, read=QUERY_DIALECTS[self.dialect])
        return [token.start for token in tokens if token.token_type == TokenType.PLACEHOLDER]

    @contextmanager
    def expression(self, piece: Piece) -> Iterator[str]:
        """An expression in Spark's SQL; its subqueries work until the block ends."""
        text = self.source(piece)
        tree = parse_query_text(text, self.dialect)
        filled = self._filled(tree, piece)
        with (
            queries.bound(self.around, filled, self.dialect) as found,
            as_written(self.lake.spark, found),
        ):
            yield found

    def _filled(self, tree: exp.Expr, piece: Piece) -> exp.Expr:
        """The tree with the values of its parameters, since an expression has no parameters in Spark."""
        markers = list(tree.find_all(exp.Placeholder, exp.Parameter, bfs=False))
        if self.args is None or not markers:
            return tree
        unnamed = self._args_of([piece])
        left = [] if isinstance(unnamed, Mapping) else list(unnamed or ())
        for marker in markers:
            name = marker.name
            if isinstance(self.args, Mapping):
                values = [self.args[name]] if name in self.args else []
            elif name.isdigit():
                values = list(self.args[int(name) - 1 : int(name)])
            else:
                values = [left.pop(0)] if left else []
            if not values:
                raise InvalidInputError(f"args= lacks a value for a parameter of {self.source(piece)}")
            filled = _literal(values[0])
            if marker is tree:
                return filled
            marker.replace(filled)
        return tree

    def value(self, piece: Piece) -> Any:
        """The value of an expression without columns."""
        text = self.source(piece)
        tree = parse_query_text(text, self.dialect)
        if isinstance(tree, _CONSTANTS):
            return _constant(tree)
        if isinstance(tree, exp.Array) and all(isinstance(each, _CONSTANTS) for each in tree.expressions):
            return [
                _constant(each) for each in tree.expressions
            ]  # `['a', 'b']` is DuckDB's, and clear in both
        if isinstance(tree, exp.Column) and len(tree.parts) == 1:
            return tree.name  # `SET x = word`
        if self.dialect == "duckdb" and self.args is None and not tree.find(exp.Query):
            return local_duckdb.value(session_of(self.around), text)
        return only_value(self.frame_of(f"SELECT {text}", piece))

    def has_query(self, piece: Piece) -> bool:
        """Whether an expression reads tables."""
        return parse_query_text(self.source(piece), self.dialect).find(exp.Query) is not None

    # Transactions.

    @contextmanager
    def running(self) -> Iterator[None]:
        """A failure inside is one of the rows, not of the statement: as in DuckDB, it ends the transaction."""
        try:
            yield
        except NotFoundError:
            raise
        except BaseException:
            scope_of(self.lake).abort()
            raise


_CONSTANTS = (exp.Literal, exp.Boolean, exp.Null)


def _constant(tree: exp.Expr) -> Any:
    if isinstance(tree, exp.Literal):
        return str(tree.this) if tree.is_string else _number(str(tree.this))
    return bool(tree.this) if isinstance(tree, exp.Boolean) else None


def _literal(value: Any) -> exp.Expr:
    try:
        return exp.convert(value)
    except ValueError:
        raise InvalidInputError(f"{value!r} cannot be the value of a parameter here.") from None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
