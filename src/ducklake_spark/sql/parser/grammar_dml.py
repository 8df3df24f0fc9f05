"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE, in both dialects."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import TokenType, exp

from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_base import QUERY_STARTS, Words
from ducklake_spark.sql.parser.nodes import Piece

_TOUCHES_NO_KEYS = "the format has no keys to conflict with; use MERGE INTO"
_NO_RETURNING = "ask for the rows with a query, or with table_changes()"


class DmlGrammar(Words):
    """Statements that change rows."""

    def _ctes(self) -> Piece | None:
        """`WITH ...` that stands before the statement whose first word was just read."""
        first, keyword = self._tokens[0], self._prev
        return Piece(first.start, keyword.start) if first.text.upper() == "WITH" else None

    def _take_alias(self, *stops: str) -> str | None:
        if self._take("AS"):
            return self._need_part()
        if self._curr and not self._at_any(*stops) and not self._match(TokenType.L_PAREN, advance=False):
            return self._need_part()
        return None

    def _no_returning(self, verb: str) -> None:
        if self._at("RETURNING"):
            self._refuse(f"{verb} ... RETURNING", _NO_RETURNING)
        self._need_end()

    # Insert.

    def _insert(self) -> nodes.Node:
        ctes = self._ctes()
        if self._at("OR"):
            self._refuse("INSERT OR REPLACE / IGNORE", _TOUCHES_NO_KEYS)
        overwrite = self._take("OVERWRITE")
        if overwrite and (self._at("DIRECTORY") or self._at("LOCAL")):
            self._refuse("INSERT OVERWRITE DIRECTORY", "use DataFrame.write")
        if not overwrite:
            self._need("INTO")
        else:
            self._take("INTO")
        self._take("TABLE")
        name = self._need_name()
        if self._take("AS"):
            self._need_part()
        partition = self._partition() if self._is_spark and self._take("PARTITION") else ()
        if self._take("IF", "NOT", "EXISTS"):
            self._refuse("INSERT ... IF NOT EXISTS", "use MERGE INTO ... WHEN NOT MATCHED")
        by_name = self._take("BY", "NAME")
        columns = None
        if self._match(TokenType.L_PAREN, advance=False) and not self._at_query_in_parens():
            columns = self._wrapped_list(self._need_part)
        by_name = by_name or self._take("BY", "NAME")
        if not by_name:
            self._take("BY", "POSITION")
        where = None
        if self._take("REPLACE", "WHERE"):
            where, overwrite = self._need_expression("a condition"), True
        query, values = None, None
        if not self._take("DEFAULT", "VALUES"):
            query, values = self._rows()
        if self._at("ON", "CONFLICT"):
            self._refuse("INSERT ... ON CONFLICT", _TOUCHES_NO_KEYS)
        self._no_returning("INSERT")
        return nodes.Insert(name, columns, query, values, by_name, overwrite, where, partition, ctes)

    def _at_query_in_parens(self) -> bool:
        following = self._next
        return following is not None and (
            following.token_type == TokenType.L_PAREN or following.text.upper() in QUERY_STARTS
        )

    def _partition(self) -> tuple[tuple[str, Piece], ...]:
        def item() -> tuple[str, Piece]:
            name = self._need_part()
            if not self._match(TokenType.EQ):
                self._refuse(
                    f"INSERT ... PARTITION ({name}) without a value", "select the column like any other"
                )
            return name, self._need_expression("a value")

        return self._wrapped_list(item)

    def _rows(self) -> tuple[Piece, tuple[tuple[Piece | None, ...], ...] | None]:
        """A query; the values one by one when it is nothing but VALUES."""
        if self._at("VALUES"):
            before, first = self._index, self._curr
            self._advance()
            rows = self._list(self._value_row)
            if not self._curr or self._at("ON") or self._at("RETURNING"):
                return Piece(first.start, self._prev.end + 1), rows
            self._retreat(before)
        return self._need_query(), None

    def _value_row(self) -> tuple[Piece | None, ...]:
        if not self._match(TokenType.L_PAREN, advance=False):
            return (self._value(),)
        return self._wrapped_list(self._value)

    def _value(self) -> Piece | None:
        return None if self._take("DEFAULT") else self._need_expression("a value")

    # Update and delete.

    def _update(self) -> nodes.Node:
        ctes = self._ctes()
        if self._at("OR"):
            self._refuse("UPDATE OR ...", _TOUCHES_NO_KEYS)
        name = self._need_name()
        alias = self._take_alias("SET")
        self._need("SET")
        assignments = self._assignments()
        source = self._piece_of(self._tables, "a table") if self._take("FROM") else None
        where = self._need_expression("a condition") if self._take("WHERE") else None
        self._no_returning("UPDATE")
        return nodes.Update(name, alias or name[-1], assignments, source, where, ctes)

    def _assignments(self) -> tuple[nodes.Assignment, ...]:
        found: list[nodes.Assignment] = []

        def one() -> None:
            if self._match(TokenType.L_PAREN, advance=False):
                paths = self._wrapped_list(self._need_name)
                self._need_mark(TokenType.EQ, "=")
                values = self._value_row()
                if len(values) != len(paths):
                    self._fail(f"{len(paths)} columns are assigned {len(values)} values")
                found.extend(map(nodes.Assignment, paths, values))
                return
            path = self._need_name()
            self._need_mark(TokenType.EQ, "=")
            found.append(nodes.Assignment(path, self._value()))

        self._list(one)
        return tuple(found)

    def _tables(self) -> object:
        """Tables, subqueries and joins, as behind FROM."""
        found: object = None
        while True:
            found = self._parse_table(joins=True)
            while self._parse_lateral():
                pass
            if not self._match(TokenType.COMMA):
                return found

    def _delete(self) -> nodes.Node:
        ctes = self._ctes()
        self._need("FROM")
        name = self._need_name()
        alias = self._take_alias("USING", "WHERE", "RETURNING")
        source = self._piece_of(self._tables, "a table") if self._take("USING") else None
        where = self._need_expression("a condition") if self._take("WHERE") else None
        self._no_returning("DELETE")
        return nodes.Delete(name, alias or name[-1], source, where, ctes)

    def _truncate(self) -> nodes.Node:
        self._take("TABLE")
        name = self._need_name()
        if self._at("PARTITION"):
            self._refuse("TRUNCATE ... PARTITION", "use DELETE FROM ... WHERE")
        self._need_end()
        return nodes.Truncate(name)

    # Merge.

    def _merge(self) -> nodes.Node:
        ctes = self._ctes()
        merge_schema = self._take("WITH", "SCHEMA", "EVOLUTION")
        self._need("INTO")
        name = self._need_name()
        alias = self._take_alias("USING") or name[-1]
        self._need("USING")
        trees: list[object] = []
        source = self._piece_of(_remembering(self._parse_table, trees), "a table or a query")
        [tree] = trees
        source_alias = tree.alias_or_name if isinstance(tree, exp.Expr) else ""
        if not source_alias:
            self._fail("the source of MERGE INTO needs an alias")
        on: Piece | None = None
        using: tuple[str, ...] = ()
        if self._take("USING"):
            using = self._wrapped_list(self._need_part)
        else:
            self._need("ON")
            on = self._need_expression("a condition")
        clauses = []
        while self._take("WHEN"):
            clauses.append(self._when())
        if not clauses:
            self._fail("expected WHEN MATCHED or WHEN NOT MATCHED")
        self._no_returning("MERGE")
        return nodes.Merge(name, alias, source, source_alias, on, using, tuple(clauses), merge_schema, ctes)

    def _when(self) -> nodes.When:
        if self._take("MATCHED"):
            kind = "matched"
        else:
            self._need("NOT", "MATCHED")
            kind = "not matched by source" if self._take("BY", "SOURCE") else "not matched"
            if kind == "not matched":
                self._take("BY", "TARGET")
        condition = self._need_expression("a condition") if self._take("AND") else None
        self._need("THEN")
        if self._take("DO", "NOTHING"):
            return nodes.When(kind, condition, "nothing")
        if self._take("ERROR"):
            message = self._need_string() if self._match(TokenType.STRING, advance=False) else None
            return nodes.When(kind, condition, "error", message=message)
        if kind == "not matched":
            self._need("INSERT")
            return self._when_insert(condition)
        if self._take("DELETE"):
            return nodes.When(kind, condition, "delete")
        self._need("UPDATE")
        by_name = self._by_name()
        if self._take("SET"):
            if self._match(TokenType.STAR):
                return self._all_columns(nodes.When(kind, condition, "update", by_name=by_name))
            return nodes.When(kind, condition, "update", self._assignments())
        return self._all_columns(nodes.When(kind, condition, "update", by_name=by_name))

    def _all_columns(self, clause: nodes.When) -> nodes.When:
        if clause.kind == "not matched by source":
            self._fail("WHEN NOT MATCHED BY SOURCE has no row of the source to take values from")
        return clause

    def _by_name(self) -> bool | None:
        if self._take("BY", "NAME"):
            return True
        return False if self._take("BY", "POSITION") else None

    def _when_insert(self, condition: Piece | None) -> nodes.When:
        by_name = self._by_name()
        if self._take("DEFAULT", "VALUES"):
            return nodes.When("not matched", condition, "insert", values=())
        columns = None
        if self._match(TokenType.L_PAREN, advance=False):
            columns = self._wrapped_list(self._need_part)
        if self._take("VALUES"):
            return nodes.When(
                "not matched", condition, "insert", columns=columns, values=self._wrapped_list(self._value)
            )
        if columns is not None:
            self._fail("expected VALUES")
        self._match(TokenType.STAR)
        return nodes.When("not matched", condition, "insert", by_name=by_name)


def _remembering(parse: Callable[[], object], found: list[object]) -> Callable[[], object]:
    def run() -> object:
        found.append(parse())
        return found[-1]

    return run
