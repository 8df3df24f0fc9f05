"""What sqlglot's dialects lack for queries: time travel in all its forms, and the place of its clauses in the text."""

from __future__ import annotations

import json
import re
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parser import Parser, binary_range_parser
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.parsers.spark import SparkParser

from ducklake_spark.errors import InvalidInputError, shortened


class QueryGrammar(Parser):
    """Time-travel clauses know where they begin and end, so that they can be cut out of the user's text."""

    VERSION_PHRASES = {  # noqa: RUF012 - sqlglot's own way
        **Parser.VERSION_PHRASES,
        ("FOR", "SYSTEM_VERSION"): "VERSION",
        ("FOR", "SYSTEM", "VERSION"): "VERSION",
        ("SYSTEM_VERSION", "AS", "OF"): "VERSION",
        ("SYSTEM_TIME", "AS", "OF"): "TIMESTAMP",
    }

    def _parse_version(self) -> exp.Version | None:
        start = self._curr.start
        found = super()._parse_version()
        if found is not None:
            found.meta.update(start=start, end=self._prev.end)
        return found

    def _parse_placeholder(self) -> exp.Expr | None:
        start = self._curr.start
        found = super()._parse_placeholder()
        if isinstance(found, exp.Placeholder):
            found.meta.update(start=start, end=self._prev.end)
        return found

    def _parse_expression(self) -> exp.Expr | None:
        start = self._curr.start
        found = super()._parse_expression()
        if isinstance(found, exp.Expr):
            found.meta["expression_span"] = (start, self._prev.end + 1)
        return found

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self._curr.start
        found = super()._parse_select(*args, **kwargs)
        if isinstance(found, exp.Query):
            found.meta["query_span"] = (start, self._prev.end + 1)
        return found

    def _parse_ddl_select(self) -> exp.Expr | None:
        start = self._curr.start
        found = super()._parse_ddl_select()
        if isinstance(found, exp.Query):
            found.meta["query_span"] = (start, self._prev.end + 1)
        return found

    def _parse_historical_data(self) -> exp.HistoricalData | None:
        start = self._curr.start
        found = super()._parse_historical_data()
        if found is not None:
            found.meta.update(start=start, end=self._prev.end)
        return found


class LakeSpark(Spark):
    """Spark's dialect with the clauses of lakes in queries."""

    class Parser(QueryGrammar, SparkParser):
        FUNC_TOKENS = {*SparkParser.FUNC_TOKENS, TokenType.SETTINGS}  # noqa: RUF012


_AS_WRITTEN = frozenset({"REDUCE", "APPLY", "JAROWINKLER_SIMILARITY", "JARO_WINKLER_SIMILARITY", "DECODE"})
"""Functions of DuckDB's whose arguments sqlglot does not keep as they are."""


class LakeDuckDB(DuckDB):
    """DuckDB's dialect with the clauses of lakes in queries."""

    class Tokenizer(DuckDB.Tokenizer):
        pass

    class Parser(QueryGrammar, DuckDBParser):
        FUNC_TOKENS = {*DuckDBParser.FUNC_TOKENS, TokenType.SETTINGS, TokenType.APPLY}  # noqa: RUF012
        FUNCTIONS = {  # noqa: RUF012
            name: make for name, make in DuckDBParser.FUNCTIONS.items() if name not in _AS_WRITTEN
        }
        RANGE_PARSERS = {  # noqa: RUF012
            **DuckDBParser.RANGE_PARSERS,
            # `~` compares the whole text, which is what sqlglot has this node for.
            TokenType.TILDE: binary_range_parser(exp.SimilarTo),
        }
        ARRAY_CONSTRUCTORS = {"ARRAY": exp.Array}  # noqa: RUF012 - `list[1]` is a part of a column

        def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            is_name = self._curr and self._curr.text.upper() == "MAP" and not self._at_map()
            return None if is_name else super()._parse_function_call(*args, **kwargs)

        def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            if self._prev.token_type != TokenType.L_PAREN or self._curr.text.upper() != "SHOW":
                return super()._parse_select(*args, **kwargs)
            start = self._curr.start
            while self._curr and self._curr.token_type != TokenType.R_PAREN:
                self._advance()
            found = exp.Describe(this=exp.Table(this=exp.to_identifier("tables")))
            found.meta["ducklake_show"] = self.sql[start : self._prev.end + 1]
            return found

        def _at_map(self) -> bool:
            """Whether the word MAP begins a value, and is no column's name."""
            return bool(self._next) and self._next.token_type in (TokenType.L_BRACE, TokenType.L_PAREN)


QUERY_DIALECTS: dict[str, type[Dialect]] = {"spark": LakeSpark, "duckdb": LakeDuckDB}


ODD_TREES = (
    SqlglotError,
    RecursionError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What sqlglot raises for texts and trees that make no sense: its own errors, and whatever its code runs into."""


def parse_query_text(text: str, dialect: str) -> exp.Expr:
    """The tree of one query or expression.

    Raises:
        InvalidInputError: It is not SQL of this dialect.
    """
    try:
        return sqlglot.parse_one(text, read=QUERY_DIALECTS[dialect])
    except ODD_TREES as error:
        raise unreadable(error, text) from None


def respelled(text: str) -> str | None:
    """A query as DuckDB itself spells it, for what sqlglot does not know; None if DuckDB cannot read it either."""
    from ducklake_spark.format.duckdb_sql import answers
    from ducklake_spark.format.types import text_literal

    try:
        [(parsed,)] = answers(f"SELECT json_serialize_sql({text_literal(text)})")
        tree = json.dumps(_named(json.loads(parsed)))
        [(found,)] = answers(f"SELECT json_deserialize_sql({text_literal(tree)})")
        tokens = sqlglot.tokenize(found, read=LakeDuckDB)
    except (InvalidInputError, SqlglotError):
        return None
    made = str(found)
    for at in range(len(tokens) - 4, -1, -1):
        first, dot, name, opens = tokens[at : at + 4]
        is_call = dot.token_type == TokenType.DOT and opens.token_type == TokenType.L_PAREN
        if is_call and first.text == "main" and (at == 0 or tokens[at - 1].token_type != TokenType.DOT):
            made = made[: first.start] + name.text + made[opens.start :]
    return made


def _named(tree: Any) -> Any:
    """DuckDB's tree with names for operators that sqlglot does not read."""
    if isinstance(tree, list):
        return [_named(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("function_name") == "!__postfix":
        tree |= {"function_name": "factorial", "is_operator": False}
    return {key: _named(value) for key, value in tree.items()}


def unreadable(error: BaseException, text: str) -> InvalidInputError:
    """What is wrong with a text that is not SQL: line, column and what stands there."""
    shown = shortened(text, 120)
    if isinstance(error, ParseError) and error.errors:
        found = error.errors[0]
        mark, line, end = found.get("highlight") or "", found.get("line"), found.get("col")
        said = shortened(str(found.get("description") or ""), 120).removesuffix(".")
        if "<" in said or said.startswith(("Required keyword", "Invalid expression")) or not said:
            said = "syntax error"  # what sqlglot calls it speaks of its own classes
        column = max(1, int(end or 1) - max(len(mark), 1) + 1)
        near = f' near "{shortened(mark, 40)}"' if mark.strip() and ", found " not in said else ""
        said = said.replace("Expecting", "expecting")
        return InvalidInputError(
            f"Cannot read as SQL: {said} at line {line}, column {column}{near} in: {shown}"
        )
    missing = re.search(r"Missing (\S+) from (\d+):(\d+)", f"{error} {error.__cause__}")
    if missing is not None:
        return InvalidInputError(
            f"Cannot read as SQL: the quote or bracket {missing[1]} that opens in line {missing[2]} is never closed "
            f"in: {shown}"
        )
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else "syntax error"
    return InvalidInputError(f"Cannot read as SQL: {reason} in: {shown}")


def first_line(error: Any) -> str:
    """What an error says, in one line, without the marks that terminals show as underline."""
    text = str(error).replace("\x1b[4m", "").replace("\x1b[0m", "")
    return " ".join(text.split()) or type(error).__name__
