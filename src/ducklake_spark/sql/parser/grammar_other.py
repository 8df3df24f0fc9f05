"""Transactions, USE, SHOW, DESCRIBE, EXPLAIN, CALL, SET and the statements that a lake does not have."""

from __future__ import annotations

from sqlglot import TokenType

from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_base import QUERY_STARTS, Words

NOT_HERE = {
    "ATTACH": "attach lakes with ducklake_spark.attach()",
    "DETACH": "use lake.close()",
    "COPY": "use DataFrame.write to export, and INSERT INTO ... SELECT to import",
    "EXPORT": "use DataFrame.write",
    "IMPORT": "use INSERT INTO ... SELECT",
    "INSTALL": "nothing needs to be installed",
    "LOAD": "nothing needs to be loaded; read files with spark.read",
    "PRAGMA": "use SHOW, DESCRIBE or CALL",
    "VACUUM": "there is nothing to vacuum; see the maintenance functions",
    "ANALYZE": "statistics are kept with every write",
    "PREPARE": "give parameters as args=",
    "EXECUTE": "give parameters as args=",
    "DEALLOCATE": "give parameters as args=",
    "GRANT": "rights are those of the catalog database and of the files",
    "REVOKE": "rights are those of the catalog database and of the files",
    "CACHE": "use DataFrame.cache()",
    "UNCACHE": "use DataFrame.unpersist()",
    "REFRESH": "every statement sees the newest snapshot",
    "OPTIMIZE": "see the maintenance functions",
    "MSCK": "partitions are in the catalog, and need no repair",
    "REPAIR": "partitions are in the catalog, and need no repair",
    "LIST": "use spark itself",
    "DECLARE": "give parameters as args=",
    "LOCK": "writers are kept apart by snapshots",
    "UNLOCK": "writers are kept apart by snapshots",
    "SAVEPOINT": "a transaction has no points to go back to; ROLLBACK undoes it all",
    "REINDEX": "the format has no indexes",
    "KILL": "use Spark's own tools",
    "ADD": "use SparkContext.addFile and addPyFile",
}


class OtherGrammar(Words):
    """Statements about the session, and questions."""

    # Transactions.

    def _begin(self) -> nodes.Node:
        if not self._take("TRANSACTION"):
            self._take("WORK")
        if self._is_spark and self._at("READ", "ONLY"):
            self._refuse("BEGIN ... READ ONLY", "attach the lake with read_only=True")
        only_reads = not self._take("READ", "WRITE") and self._take("READ", "ONLY")
        self._need_end()
        return nodes.Transaction("begin read only" if only_reads else "begin")

    def _start(self) -> nodes.Node:
        if not self._at("TRANSACTION"):
            self._fail("expected TRANSACTION after START")
        return self._begin()

    def _commit(self) -> nodes.Node:
        return self._transaction_end("commit")

    def _rollback(self) -> nodes.Node:
        return self._transaction_end("rollback")

    def _transaction_end(self, action: str) -> nodes.Node:
        if not self._take("TRANSACTION"):
            self._take("WORK")
        if self._at("TO"):
            self._refuse("ROLLBACK TO", "a transaction has no points to go back to; ROLLBACK undoes it all")
        self._need_end()
        return nodes.Transaction(action)

    # The session.

    def _use(self) -> nodes.Node:
        for word in ("SCHEMA", "DATABASE", "NAMESPACE", "CATALOG"):
            if self._at(word) and self._next:
                self._advance()
                break
        name = self._need_name()
        self._need_end()
        return nodes.Use(name)

    def _set_variable(self) -> nodes.Node:
        if not self._is_spark and self._at("VARIABLE") and self._next:
            return self._session_variable()
        for word in ("SESSION", "GLOBAL", "LOCAL"):
            if self._take(word):
                break
        if self._is_spark and not self._curr:
            return nodes.SparkSet()
        name = self._need_part()
        if self._is_spark and not name.lower().startswith("ducklake_"):
            self._advance(len(self._tokens) - self._index)
            return nodes.SparkSet()
        if not (self._match(TokenType.EQ) or self._take("TO")) and not self._match(
            TokenType.STRING, advance=False
        ):
            self._fail("expected = and a value")
        value = self._need_expression("a value")
        self._need_end()
        return nodes.SetVariable(name, value)

    def _session_variable(self) -> nodes.Node:
        self._need("VARIABLE")
        name = self._need_part()
        if not self._match(TokenType.EQ):
            self._need("TO")
        value = self._need_expression("a value")
        self._need_end()
        return nodes.SessionVariable(name, value)

    def _reset_variable(self) -> nodes.Node:
        if not self._is_spark and self._at("VARIABLE") and self._next:
            self._need("VARIABLE")
            return nodes.SessionVariable(self._need_part(), None)
        for word in ("SESSION", "GLOBAL", "LOCAL"):
            if self._take(word):
                break
        if self._is_spark and not (self._curr and self._curr.text.lower().startswith("ducklake_")):
            self._advance(len(self._tokens) - self._index)
            return nodes.SparkSet()
        name = self._need_part()
        self._need_end()
        return nodes.SetVariable(name, None)

    def _checkpoint(self) -> nodes.Node:
        name = self._need_name() if self._curr else None
        self._need_end()
        return nodes.Checkpoint(name)

    # Questions.

    def _show(self) -> nodes.Node:
        found = self._shown()
        self._need_end()
        return found

    def _shown(self) -> nodes.Show | nodes.Describe:
        if self._take("SCHEMAS") or self._take("NAMESPACES") or (self._is_spark and self._take("DATABASES")):
            if self._take("FROM") or self._take("IN"):
                self._need_name()
            return nodes.Show("schemas", None, self._pattern())
        if self._take("DATABASES") or self._take("CATALOGS"):
            return nodes.Show("databases", None, self._pattern())
        if self._take("ALL", "TABLES"):
            return nodes.Show("all tables")
        for words, what in ((("TABLES",), "tables"), (("VIEWS",), "views")):
            if self._take(*words):
                return nodes.Show(what, self._in_schema(), self._pattern())
        if self._take("MACROS") or self._take("USER", "FUNCTIONS") or self._take("FUNCTIONS"):
            return nodes.Show("functions", self._in_schema(), self._pattern())
        if self._take("COLUMNS"):
            if not self._take("FROM"):
                self._need("IN")
            name = self._need_name()
            if self._take("FROM") or self._take("IN"):
                name = (*self._need_name(), *name)
            return nodes.Show("columns", name)
        if self._take("CREATE", "TABLE") or self._take("CREATE", "VIEW"):
            return nodes.Show("create table", self._need_name())
        if self._at("TBLPROPERTIES") or self._at("TABLE", "EXTENDED") or self._at("PARTITIONS"):
            self._refuse(
                f"SHOW {self._curr.text.upper()}", "use CALL options(), table_info() or t.partitions"
            )
        if self._is_spark:
            self._fail("expected SCHEMAS, TABLES, VIEWS, COLUMNS, FUNCTIONS or CREATE TABLE after SHOW")
        return nodes.Describe(self._need_name(), None)

    def _in_schema(self) -> nodes.Name | None:
        return self._need_name() if self._take("FROM") or self._take("IN") else None

    def _pattern(self) -> str | None:
        if self._take("LIKE") or self._match(TokenType.STRING, advance=False):
            return self._need_string()
        return None

    def _describe(self) -> nodes.Node:
        if not self._curr:
            return nodes.Show("all tables")
        if self._take("SCHEMA") or self._take("DATABASE") or self._take("NAMESPACE"):
            self._take("EXTENDED")
            found = nodes.Describe(self._need_name(), None, "schema")
            self._need_end()
            return found
        if self._at("FUNCTION"):
            self._refuse("DESCRIBE FUNCTION", "use SHOW FUNCTIONS")
        if self._take("QUERY") or self._at_query():
            query = self._need_query()
            self._need_end()
            return nodes.Describe(None, query)
        if self._next:
            self._take("TABLE")
        extended = bool(self._next) and (self._take("EXTENDED") or self._take("FORMATTED"))
        name = self._need_name()
        column = self._need_name() if self._curr else None
        self._need_end()
        return nodes.Describe(name, None, "table", column, extended)

    def _at_query(self) -> bool:
        starts = any(self._at(word) for word in QUERY_STARTS if word != "TABLE")
        return (starts and bool(self._next)) or bool(self._match(TokenType.L_PAREN, advance=False))

    def _summarize(self) -> nodes.Node:
        if self._at_query():
            found = nodes.Summarize(self._need_query(), False)
        else:
            if self._next:
                self._take("TABLE")
            found = nodes.Summarize(self._piece_of(self._need_name, "a table"), True)
        self._need_end()
        return found

    def _explain(self) -> nodes.Node:
        mode = "formatted"
        if not self._is_spark and self._take("ANALYZE"):
            mode = "analyze"
        if self._match(TokenType.L_PAREN, advance=False) and self._next.text.upper() in ("FORMAT", "ANALYZE"):
            self._wrapped_list(self._explain_option)
        if self._at("ANALYZE"):
            self._refuse("EXPLAIN ANALYZE", "look at Spark's own pages for what a query took")
        for word in ("EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL"):
            if self._take(word):
                mode = "extended" if word == "LOGICAL" else word.lower()
        if not self._is_spark and self._at_any("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "COPY"):
            mode = "analyze statement" if mode == "analyze" else "statement"
            return nodes.Explain(self._to_the_end("a statement"), mode)
        if not self._at_query() and not self._at("TABLE"):
            verb = self._curr.text.upper() if self._curr else "nothing"
            self._refuse(f"EXPLAIN {verb}", "only queries can be explained; explain the query inside of it")
        query = self._need_query()
        self._need_end()
        return nodes.Explain(query, mode)

    def _explain_option(self) -> None:
        """`FORMAT json` and the like: the answer is our own text in any case."""
        self._need_part()
        if self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            self._need_part()

    def _call(self) -> nodes.Node:
        name = self._need_name()
        self._need_mark(TokenType.L_PAREN, "(")
        arguments = self._call_arguments()
        self._need_end()
        return nodes.Call(name, arguments)

    def _call_arguments(self) -> tuple[nodes.Argument, ...]:
        raise NotImplementedError  # see grammar_session
