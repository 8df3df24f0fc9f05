"""CREATE, DROP, ALTER and COMMENT ON, in both dialects."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import TokenType

from ducklake_spark.format.types import fold, quote
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_base import Words
from ducklake_spark.sql.parser.nodes import Name

_NO_SUCH_THINGS = {
    "INDEX": "the format has no indexes; sort or partition the table instead",
    "SEQUENCE": "the format has no sequences; use uuid() or row_number()",
    "TYPE": "the format has no types of users; write the type where it is used",
    "TRIGGER": "the format has no triggers",
    "SECRET": "give credentials to attach(), or to Spark's file systems",
    "ROLE": "rights are those of the catalog database",
    "CATALOG": "attach another lake with ducklake_spark.attach()",
}
_CONSTRAINTS = ("UNIQUE", "CHECK", "REFERENCES", "CONSTRAINT", "GENERATED", "COLLATE")
_NO_CONSTRAINTS = "the format has NOT NULL and defaults only"


class DdlGrammar(Words):
    """Statements that define things."""

    def _create(self) -> nodes.Node:
        or_replace = self._take("OR", "REPLACE")
        temporary = self._take("GLOBAL") | (self._take("TEMP") or self._take("TEMPORARY"))
        if temporary and self._is_spark:
            self._refuse(
                "CREATE TEMPORARY",
                "what is in a lake stays; use DataFrame.createOrReplaceTempView for something that does not",
            )
        persistent = self._take("PERSISTENT")
        if not self._is_spark and self._take("SECRET"):
            return self._create_secret(or_replace=or_replace, persistent=persistent)
        made = self._created(or_replace)
        if not temporary:
            return made
        if not isinstance(made, (nodes.CreateTable, nodes.CreateView, nodes.CreateMacro)):
            self._refuse("CREATE TEMPORARY SCHEMA", "tables, views and macros can be temporary")
        name = made.name if fold(made.name[0]) == "temp" else ("temp", *made.name)
        return replace(made, name=name)

    def _create_secret(self, *, or_replace: bool, persistent: bool) -> nodes.Node:
        raise NotImplementedError  # see grammar_session

    def _drop_secret(self) -> nodes.Node:
        raise NotImplementedError  # see grammar_session

    def _created(self, or_replace: bool) -> nodes.Node:
        if self._at("EXTERNAL", "TABLE") or self._at("MATERIALIZED") or self._at("UNLOGGED"):
            self._refuse(f"CREATE {self._curr.text.upper()} TABLE", "use CREATE TABLE")
        if self._take("SCHEMA") or self._take("DATABASE") or self._take("NAMESPACE"):
            return self._create_schema(or_replace)
        if self._take("TABLE"):
            return self._create_table(or_replace)
        if self._take("VIEW") or self._take("RECURSIVE", "VIEW"):
            return self._create_view(or_replace)
        if self._take("MACRO") or self._take("FUNCTION"):
            return self._create_macro(or_replace)
        self._take("UNIQUE")
        return self._no_such_thing("CREATE")

    def _no_such_thing(self, verb: str) -> nodes.Node:
        kind = self._curr.text.upper() if self._curr else ""
        if kind in _NO_SUCH_THINGS:
            self._refuse(f"{verb} {kind}", _NO_SUCH_THINGS[kind])
        self._fail(f"expected SCHEMA, TABLE, VIEW, MACRO or FUNCTION after {verb}")

    def _create_schema(self, or_replace: bool) -> nodes.Node:
        if_not_exists = self._take_if_not_exists()
        name = self._need_name()
        for word in ("LOCATION", "WITH", "COMMENT", "MANAGED"):
            if self._at(word):
                self._refuse(
                    f"CREATE SCHEMA ... {word}", "a schema has a name and nothing else; leave it out"
                )
        self._need_end()
        return nodes.CreateSchema(name, if_not_exists, or_replace)

    # Tables.

    def _create_table(self, or_replace: bool) -> nodes.Node:
        if_not_exists = self._take_if_not_exists()
        name = self._need_name()
        columns: tuple[nodes.Column, ...] = ()
        if self._match(TokenType.L_PAREN, advance=False) and not self._query_in_parens():
            columns = self._wrapped_list(self._column_of_table)
        if self._is_spark and not columns and self._take("LIKE"):
            like = self._need_name()
            if self._take("USING"):
                self._table_format()
            self._need_end()
            return nodes.CreateTable(
                name, (), None, if_not_exists=if_not_exists, or_replace=or_replace, like=like
            )
        if self._at("LIKE"):
            self._refuse("CREATE TABLE ... LIKE", "use CREATE TABLE ... AS SELECT * FROM ... LIMIT 0")
        partitioned_by: tuple[str, ...] = ()
        sorted_by: tuple[nodes.SortKey, ...] = ()
        added: tuple[nodes.Column, ...] = ()
        comment = None
        while True:
            if self._take("USING"):
                self._table_format()
            elif self._take("PARTITIONED", "BY"):
                partitioned_by, added = self._partition_keys()
            elif self._take("SORTED", "BY"):
                sorted_by = self._wrapped_list(self._need_sort_key)
            elif self._take("COMMENT"):
                comment = self._need_string()
            elif self._at("CLUSTERED", "BY") or self._at("CLUSTER", "BY"):
                self._refuse("CLUSTERED BY", "use PARTITIONED BY (bucket(N, column)) and SORTED BY")
            elif self._at("LOCATION"):
                self._refuse("LOCATION", "a table's files are in the folder of the lake")
            elif self._at_any("TBLPROPERTIES", "OPTIONS", "WITH", "ROW", "STORED"):
                self._refuse(
                    f"CREATE TABLE ... {self._curr.text.upper()}", "use CALL set_option(...) afterwards"
                )
            else:
                break
        query, with_data = None, True
        if self._take("AS") or (self._is_spark and self._at_any("SELECT", "WITH", "FROM", "VALUES")):
            query = self._need_query()
            if self._take("WITH", "NO", "DATA"):
                with_data = False
            else:
                self._take("WITH", "DATA")
        self._need_end()
        if not columns and not added and query is None:
            self._fail("expected the columns of the table, or AS with a query")
        return nodes.CreateTable(
            name,
            (*columns, *added),
            query,
            partitioned_by,
            sorted_by,
            comment,
            with_data,
            if_not_exists,
            or_replace,
        )

    def _query_in_parens(self) -> bool:
        """Whether a parenthesis begins a query: `CREATE TABLE t (SELECT ...)`."""
        return self._next is not None and self._next.token_type in (TokenType.SELECT, TokenType.WITH)

    def _table_format(self) -> None:
        name = self._need_part()
        if name.lower() not in ("ducklake", "parquet"):
            self._refuse(f"USING {name}", "tables of a lake are Parquet files; leave USING out")

    def _column_of_table(self) -> nodes.Column:
        if self._at_constraint():
            self._refuse(f"the constraint {self._curr.text.upper()}", _NO_CONSTRAINTS)
        if self._at("LIKE"):
            self._refuse("CREATE TABLE (LIKE ...)", "use CREATE TABLE ... AS SELECT * FROM ... LIMIT 0")
        name = self._need_part()
        if self._at_column_end():
            return nodes.Column((name,), None)
        if self._at("AS") or self._at("GENERATED"):
            self._refuse(f"the generated column {quote(name)}", "compute it in a view or when inserting")
        return self._column((name,))

    def _at_constraint(self) -> bool:
        """Whether a constraint begins here, and not a column that is called so."""
        if self._at("PRIMARY", "KEY") or self._at("FOREIGN", "KEY"):
            return True
        in_parens = self._next is not None and self._next.token_type == TokenType.L_PAREN
        return (in_parens and self._at_any("UNIQUE", "CHECK")) or self._at("CONSTRAINT")

    def _at_column_end(self) -> bool:
        return (
            self._match(TokenType.COMMA, advance=False)
            or self._match(TokenType.R_PAREN, advance=False)
            or False
        )

    def _column(self, path: Name) -> nodes.Column:
        """The type and what follows, up to a comma or the end."""
        self._take_mark(TokenType.COLON)
        data_type = self._need_type()
        not_null, default, comment = False, None, None
        while True:
            if self._take("NOT", "NULL"):
                not_null = True
            elif self._take("NULL"):
                pass
            elif self._take("DEFAULT"):
                default = self._need_expression("a default")
            elif self._take("COMMENT"):
                comment = self._need_string()
            elif self._at("AS"):
                self._refuse(
                    f"the generated column {quote(path[-1])}", "compute it in a view or when inserting"
                )
            elif self._at("PRIMARY", "KEY") or self._at_any(*_CONSTRAINTS):
                self._refuse(f"the constraint {self._curr.text.upper()}", _NO_CONSTRAINTS)
            else:
                return nodes.Column(path, data_type, not_null, default, comment)

    def _partition_keys(self) -> tuple[tuple[str, ...], tuple[nodes.Column, ...]]:
        """Keys such as `year(at)`; Hive's form `(p INT)` also defines the column."""
        keys: list[str] = []
        added: list[nodes.Column] = []

        def key() -> None:
            name = self._need_part()
            if self._match(TokenType.L_PAREN, advance=False):
                arguments = self._wrapped_list(self._partition_argument)
                keys.append(f"{name}({', '.join(arguments)})")
            else:
                if self._match(TokenType.DOT, advance=False):
                    self._refuse(
                        f"PARTITIONED BY {name}.{self._next.text}", "a key is a column, not a field of one"
                    )
                keys.append(quote(name))
                if not self._at_column_end():
                    added.append(self._column((name,)))

        self._wrapped_list(key)
        return tuple(keys), tuple(added)

    def _partition_argument(self) -> str:
        if self._match(TokenType.NUMBER):
            return str(self._prev.text)
        return quote(self._need_part())

    # Views and macros.

    def _create_view(self, or_replace: bool) -> nodes.Node:
        if_not_exists = self._take_if_not_exists()
        name = self._need_name()
        columns: tuple[str, ...] = ()
        if self._match(TokenType.L_PAREN, advance=False):
            columns = self._wrapped_list(self._view_column)
        comment = self._need_string() if self._take("COMMENT") else None
        if self._at_any("TBLPROPERTIES", "WITH"):
            self._refuse(f"CREATE VIEW ... {self._curr.text.upper()}", "leave it out")
        self._need("AS")
        query = self._need_query()
        self._need_end()
        return nodes.CreateView(name, columns, query, comment, if_not_exists, or_replace)

    def _view_column(self) -> str:
        name = self._need_part()
        if self._at("COMMENT"):
            self._refuse(f"a comment on column {quote(name)} of a view", "the format has none")
        return name

    def _create_macro(self, or_replace: bool) -> nodes.Node:
        if_not_exists = self._take_if_not_exists()
        name = self._need_name()
        if not self._match(TokenType.L_PAREN, advance=False):
            self._fail("expected the parameters of the macro in parentheses")
        bodies = self._list(self._macro_body)
        self._need_end()
        return nodes.CreateMacro(name, bodies, if_not_exists, or_replace)

    def _macro_body(self) -> nodes.MacroBody:
        self._need_mark(TokenType.L_PAREN, "(")
        parameters: tuple[nodes.Parameter, ...] = ()
        if not self._match(TokenType.R_PAREN):
            parameters = self._list(self._macro_parameter)
            self._need_mark(TokenType.R_PAREN, ")")
        table = self._macro_returns()
        if self._is_spark and self._take("RETURN"):
            pass
        else:
            self._need("AS")
        table = self._take("TABLE") or table
        if table:
            return nodes.MacroBody(parameters, self._need_query(), True)
        if self._at("SELECT") or self._at("FROM"):
            self._fail("a macro that is a query begins with AS TABLE; expected an expression")
        return nodes.MacroBody(parameters, self._need_expression(), False)

    def _macro_returns(self) -> bool:
        """Spark's `RETURNS type` and `RETURNS TABLE`; the type is what the expression has."""
        table = False
        while self._is_spark:
            if self._take("RETURNS"):
                table = self._take("TABLE")
                if table and self._match(TokenType.L_PAREN, advance=False):
                    self._refuse("RETURNS TABLE (...) with columns", "name the columns in the query")
                if not table:
                    self._refuse(
                        "RETURNS with a type", "cast the expression instead: RETURN CAST(... AS type)"
                    )
            elif (
                self._take("LANGUAGE", "SQL") or self._take("DETERMINISTIC") or self._take("CONTAINS", "SQL")
            ):
                pass
            elif self._at("COMMENT"):
                self._refuse("a comment on a macro", "the format has none")
            elif self._at("USING") or self._at("LANGUAGE"):
                self._refuse("a function that is not SQL", "register it with spark.udf.register")
            else:
                return table
        return False

    def _macro_parameter(self) -> nodes.Parameter:
        name = self._need_part()
        data_type, default = None, None
        ends = (TokenType.COMMA, TokenType.R_PAREN, TokenType.COLON_EQ, TokenType.FARROW)
        if not self._match_set(ends, advance=False) and not self._at("DEFAULT"):
            data_type = self._need_type()
        if self._match(TokenType.COLON_EQ) or self._match(TokenType.FARROW) or self._take("DEFAULT"):
            default = self._need_expression("a default")
        return nodes.Parameter(name, data_type, default)

    # Drop and comment.

    def _drop(self) -> nodes.Node:
        if self._is_spark and (self._at("TEMPORARY") or self._at("TEMP")):
            self._refuse("DROP TEMPORARY", "use spark.catalog.dropTempView")
        if not self._is_spark:
            self._take("PERSISTENT") or self._take("TEMPORARY")
            if self._take("SECRET"):
                return self._drop_secret()
        if self._take("SCHEMA") or self._take("DATABASE") or self._take("NAMESPACE"):
            kind = "schema"
        elif self._take("TABLE"):
            kind = "table"
        elif self._take("VIEW"):
            kind = "view"
        elif self._take("MACRO") or self._take("FUNCTION"):
            kind = "macro table" if self._take("TABLE") else "macro"
        else:
            return self._no_such_thing("DROP")
        if_exists = self._take_if_exists()
        names = self._list(self._need_name)
        cascade = self._take("CASCADE")
        if not cascade:
            self._take("RESTRICT")
        self._take("PURGE")
        self._need_end()
        return nodes.Drop(kind, names, if_exists, cascade)

    def _comment(self) -> nodes.Node:
        self._need("ON")
        kind = next((kind for kind in ("TABLE", "VIEW", "COLUMN") if self._take(kind)), None)
        if kind is None:
            if self._at_any("SCHEMA", "DATABASE", "MACRO", "FUNCTION", "TYPE", "INDEX", "SEQUENCE"):
                self._refuse(
                    f"COMMENT ON {self._curr.text.upper()}", "comments are for tables, views and columns"
                )
            self._fail("expected TABLE, VIEW or COLUMN")
        name = self._need_name()
        self._need("IS")
        comment = self._need_string_or_null()
        self._need_end()
        return nodes.CommentOn(kind.lower(), name, comment)
