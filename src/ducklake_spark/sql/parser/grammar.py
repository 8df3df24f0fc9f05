"""Our dialects: sqlglot's Spark and DuckDB, with every statement read by us and nothing passed on unread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token

from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_alter import AlterGrammar
from ducklake_spark.sql.parser.grammar_dml import DmlGrammar
from ducklake_spark.sql.parser.grammar_other import NOT_HERE, OtherGrammar
from ducklake_spark.sql.parser.grammar_queries import LakeDuckDB, LakeSpark
from ducklake_spark.sql.parser.grammar_session import SessionGrammar


class LakeStatement(exp.Expression):
    """A statement that is no query: `this` is its value, see `nodes`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "with_": False}

    @property
    def node(self) -> nodes.Node:
        """What the statement says."""
        found: nodes.Node = self.args["this"]
        return found


class Grammar(SessionGrammar, AlterGrammar, DmlGrammar, OtherGrammar):
    """Reads a statement by its first word; what is left are queries, which sqlglot reads."""

    def _parse_statement(self) -> exp.Expr | None:
        if not self._curr:
            return None
        if self._curr.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            return self._parse_query()
        word = self._curr.text.upper().partition(" ")[0]  # some keywords are one token of two words
        read = STATEMENTS.get(word)
        if read is None and not self._is_spark:
            read = OF_DUCKDB.get(word)
        if read is None and word in NOT_HERE:
            self._refuse(word, NOT_HERE[word])
        if read is None:
            return self._parse_query()
        self._advance()
        return LakeStatement(this=read(self))

    def _parse_query(self) -> exp.Expr | None:
        word = self._curr.text
        found: Any = super()._parse_statement()
        while isinstance(found, exp.Alias):
            found = found.this
        if isinstance(found, exp.Pivot):  # sqlglot does not read what may follow
            for key, read in (("order", self._parse_order), ("limit", self._parse_limit)):
                found.set(key, read())
        if not isinstance(found, (exp.Query, exp.Values, exp.Pivot, LakeStatement)):
            self._fail(f"{word} begins no statement that a lake knows")
        return found

    def _parse_as_command(self, start: Token) -> exp.Command:
        self._fail(f"cannot read what follows {start.text}")


STATEMENTS: dict[str, Callable[[Grammar], nodes.Node]] = {
    "CREATE": Grammar._create,
    "DROP": Grammar._drop,
    "ALTER": Grammar._alter,
    "COMMENT": Grammar._comment,
    "INSERT": Grammar._insert,
    "UPDATE": Grammar._update,
    "DELETE": Grammar._delete,
    "MERGE": Grammar._merge,
    "TRUNCATE": Grammar._truncate,
    "BEGIN": Grammar._begin,
    "START": Grammar._start,
    "COMMIT": Grammar._commit,
    "END": Grammar._commit,
    "ROLLBACK": Grammar._rollback,
    "ABORT": Grammar._rollback,
    "USE": Grammar._use,
    "SET": Grammar._set_variable,
    "RESET": Grammar._reset_variable,
    "CHECKPOINT": Grammar._checkpoint,
    "SHOW": Grammar._show,
    "DESCRIBE": Grammar._describe,
    "DESC": Grammar._describe,
    "SUMMARIZE": Grammar._summarize,
    "EXPLAIN": Grammar._explain,
    "CALL": Grammar._call,
}
"""Statements of both dialects, by their first word."""

OF_DUCKDB: dict[str, Callable[[Grammar], nodes.Node]] = {
    "ATTACH": Grammar._attach,
    "DETACH": Grammar._detach,
    "PREPARE": Grammar._prepare,
    "EXECUTE": Grammar._execute,
    "DEALLOCATE": Grammar._deallocate,
    "PRAGMA": Grammar._pragma,
    "COPY": Grammar._copy,
    "EXPORT": Grammar._export,
    "IMPORT": Grammar._import,
    "INSTALL": Grammar._nothing,
    "LOAD": Grammar._nothing,
    "UPDATE EXTENSIONS": Grammar._nothing,
    "VACUUM": Grammar._nothing,
    "ANALYZE": Grammar._nothing,
}
"""Statements that DuckDB has and Spark has not, or has with another meaning."""


class StatementSpark(LakeSpark):
    """Spark's dialect with the statements of lakes."""

    class Tokenizer(LakeSpark.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(Grammar, LakeSpark.Parser):
        SUPPORTS_TABLE_QUERY = True

        @property
        def _is_spark(self) -> bool:
            return True


class StatementDuckDB(LakeDuckDB):
    """DuckDB's dialect with the statements of lakes."""

    class Tokenizer(LakeDuckDB.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(Grammar, LakeDuckDB.Parser):
        @property
        def _is_spark(self) -> bool:
            return False


STATEMENT_DIALECTS: dict[str, type[Dialect]] = {"spark": StatementSpark, "duckdb": StatementDuckDB}
