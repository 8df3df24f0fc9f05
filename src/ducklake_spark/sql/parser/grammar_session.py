"""Statements about the session and files, as DuckDB has them: ATTACH, PREPARE, PRAGMA, COPY, secrets."""

from __future__ import annotations

from sqlglot import TokenType

from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_base import Words


class SessionGrammar(Words):
    """What only DuckDB's dialect has."""

    # Lakes.

    def _attach(self) -> nodes.Node:
        or_replace = self._take("OR", "REPLACE")
        self._take("DATABASE")
        if_not_exists = self._take_if_not_exists()
        path = self._need_expression("the path of a database")
        name = self._need_part() if self._take("AS") else None
        options = self._options() if self._match(TokenType.L_PAREN) else ()
        self._need_end()
        return nodes.Attach(path, name, options, if_not_exists, or_replace)

    def _options(self) -> tuple[nodes.AttachOption, ...]:
        """`NAME value, NAME`, after the opening parenthesis."""
        found: list[nodes.AttachOption] = []
        while not self._match(TokenType.R_PAREN):
            found.append(self._option())
            self._match(TokenType.COMMA)
        return tuple(found)

    def _option(self) -> nodes.AttachOption:
        name = self._need_part()
        self._match(TokenType.EQ)
        self._match(TokenType.FARROW)
        if not self._curr or self._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            return nodes.AttachOption(name, None)
        return nodes.AttachOption(name, self._need_expression("a value"))

    def _detach(self) -> nodes.Node:
        self._take("DATABASE")
        if_exists = self._take_if_exists()
        name = self._need_part()
        self._need_end()
        return nodes.Detach(name, if_exists)

    # Prepared statements.

    def _prepare(self) -> nodes.Node:
        name = self._need_part()
        self._need("AS")
        return nodes.Prepare(name, self._to_the_end("a statement"))

    def _execute(self) -> nodes.Node:
        name = self._need_part()
        arguments = self._call_arguments() if self._match(TokenType.L_PAREN) else ()
        self._need_end()
        return nodes.Execute(name, arguments)

    def _call_arguments(self) -> tuple[nodes.Argument, ...]:
        """After the opening parenthesis."""
        if self._match(TokenType.R_PAREN):
            return ()
        found = self._list(self._argument)
        self._need_mark(TokenType.R_PAREN, ")")
        return found

    def _argument(self) -> nodes.Argument:
        name = None
        names = [TokenType.FARROW, TokenType.COLON_EQ]
        if self._curr and self._curr.token_type not in (TokenType.STRING, TokenType.NUMBER):
            names.append(TokenType.EQ)
        if self._next and self._next.token_type in names:
            name = self._need_part()
            self._advance()
        return nodes.Argument(name, self._need_expression("a value"))

    def _deallocate(self) -> nodes.Node:
        self._take("PREPARE")
        name = None if self._take("ALL") else self._need_part()
        self._need_end()
        return nodes.Deallocate(name)

    # Settings.

    def _pragma(self) -> nodes.Node:
        name = self._need_part()
        arguments: tuple[nodes.Argument, ...] = ()
        value = None
        if self._match(TokenType.L_PAREN):
            arguments = self._call_arguments()
        elif self._match(TokenType.EQ):
            value = self._need_expression("a value")
        self._need_end()
        return nodes.Pragma(name, arguments, value)

    def _nothing(self) -> nodes.Node:
        word = self._prev.text.upper()
        if self._curr and word in ("VACUUM", "ANALYZE"):
            self._refuse(
                f"{word} of a table", "statistics are kept with every write; see the maintenance functions"
            )
        if self._curr:
            self._advance(len(self._tokens) - self._index)
        return nodes.Nothing(word)

    # Files.

    def _copy(self) -> nodes.Node:
        if self._take("FROM", "DATABASE"):
            return self._copy_database()
        if self._match(TokenType.L_PAREN, advance=False):
            self._advance()
            query = self._need_query()
            self._need_mark(TokenType.R_PAREN, ")")
            self._need("TO")
            return nodes.CopyTo(query, None, None, *self._file())
        table = self._need_name()
        columns = None
        if self._match(TokenType.L_PAREN, advance=False):
            columns = self._wrapped_list(self._need_part)
        if self._take("FROM"):
            return nodes.CopyFrom(table, columns, *self._file())
        self._need("TO")
        return nodes.CopyTo(None, table, columns, *self._file())

    def _file(self) -> tuple[nodes.Piece, tuple[nodes.AttachOption, ...]]:
        path = self._need_expression("the path of a file")
        self._take("WITH")
        options = self._options() if self._match(TokenType.L_PAREN) else ()
        self._need_end()
        return path, options

    def _copy_database(self) -> nodes.Node:
        source = self._need_part()
        self._need("TO")
        target = self._need_part()
        what = "all"
        if self._match(TokenType.L_PAREN):
            if not self._at_any("SCHEMA", "DATA"):
                self._fail("expected SCHEMA or DATA")
            what = self._need_part().lower()
            self._need_mark(TokenType.R_PAREN, ")")
        self._need_end()
        return nodes.CopyDatabase(source, target, what)

    def _export(self) -> nodes.Node:
        self._need("DATABASE")
        database = None
        if not self._match(TokenType.STRING, advance=False):
            database = self._need_part()
            self._need("TO")
        return nodes.ExportDatabase(database, *self._file())

    def _import(self) -> nodes.Node:
        self._need("DATABASE")
        path = self._need_expression("the path of a folder")
        self._need_end()
        return nodes.ImportDatabase(path)

    # Secrets.

    def _create_secret(self, *, or_replace: bool, persistent: bool) -> nodes.Node:
        """After CREATE ... SECRET."""
        if_not_exists = self._take_if_not_exists()
        name = None
        if not self._match(TokenType.L_PAREN, advance=False):
            name = self._need_part()
            if self._take("IN"):
                self._need_part()
        self._need_mark(TokenType.L_PAREN, "(")
        options = self._options()
        self._need_end()
        return nodes.CreateSecret(name, options, persistent, if_not_exists, or_replace)

    def _drop_secret(self) -> nodes.Node:
        """After DROP ... SECRET."""
        if_exists = self._take_if_exists()
        name = self._need_part()
        if self._take("FROM"):
            self._need_part()
        self._need_end()
        return nodes.DropSecret(name, if_exists)
