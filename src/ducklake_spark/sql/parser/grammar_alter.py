"""ALTER TABLE and ALTER VIEW, in both dialects."""

from __future__ import annotations

from sqlglot import TokenType

from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_ddl import DdlGrammar


class AlterGrammar(DdlGrammar):
    """The forms of DuckDB, of the format's own documents, and of Spark."""

    def _alter(self) -> nodes.Node:
        if self._at("SCHEMA") or self._at("DATABASE") or self._at("NAMESPACE"):
            self._refuse("ALTER SCHEMA", "a schema cannot be changed; create another one")
        kind = next((kind for kind in ("TABLE", "VIEW") if self._take(kind)), None)
        if kind is None:
            self._fail("expected TABLE or VIEW after ALTER")
        if_exists = self._take_if_exists()
        name = self._need_name()
        actions = self._view_actions() if kind == "VIEW" else self._table_actions()
        self._need_end()
        return nodes.Alter(kind.lower(), name, if_exists, actions)

    def _view_actions(self) -> tuple[nodes.Action, ...]:
        if self._at("AS"):
            self._refuse("ALTER VIEW ... AS", "use CREATE OR REPLACE VIEW")
        self._need("RENAME", "TO")
        return (nodes.RenameTo(self._need_name()),)

    def _table_actions(self) -> tuple[nodes.Action, ...]:
        if self._take("ADD"):
            return self._add()
        if self._take("DROP"):
            return self._drop_columns()
        if self._take("RENAME"):
            return (self._rename(),)
        if self._take("ALTER") or self._take("CHANGE"):
            return self._change_column()
        if self._take("SET"):
            return (self._set(),)
        if self._take("RESET"):
            return (self._reset(),)
        if self._at("REPLACE", "COLUMNS"):
            self._refuse("REPLACE COLUMNS", "add, drop and rename columns one by one")
        if self._at_any("UNSET", "RECOVER", "PARTITION", "CLUSTER"):
            self._refuse(f"ALTER TABLE ... {self._curr.text.upper()}", "the format has no such thing")
        self._fail("expected ADD, DROP, RENAME, ALTER, SET or RESET")

    # Columns.

    def _add(self) -> tuple[nodes.Action, ...]:
        if self._at_constraint():
            self._refuse("ALTER TABLE ... ADD a constraint", "the format has NOT NULL and defaults only")
        if self._at("PARTITION"):
            self._refuse("ADD PARTITION", "partitions come from the rows; use SET PARTITIONED BY (...)")
        several = self._take("COLUMNS")
        if several or (self._take("COLUMN") and self._match(TokenType.L_PAREN, advance=False)):
            return self._wrapped_list(self._added) if self._at_paren() else self._list(self._added)
        if self._at_paren():
            return self._wrapped_list(self._added)
        return (self._added(),)

    def _at_paren(self) -> bool:
        return bool(self._match(TokenType.L_PAREN, advance=False))

    def _added(self) -> nodes.AddColumn:
        if_not_exists = self._take_if_not_exists()
        column = self._column(self._need_name())
        if self._at_any("FIRST", "AFTER"):
            self._refuse(f"ADD COLUMN ... {self._curr.text.upper()}", "columns are added at the end")
        return nodes.AddColumn(column, if_not_exists)

    def _drop_columns(self) -> tuple[nodes.Action, ...]:
        if self._at("PARTITION"):
            self._refuse("DROP PARTITION", "delete the rows with DELETE FROM ... WHERE")
        if self._at("CONSTRAINT"):
            self._refuse("DROP CONSTRAINT", "the format has NOT NULL only: ALTER column DROP NOT NULL")
        if not self._take("COLUMNS"):
            self._take("COLUMN")
        if_exists = self._take_if_exists()
        names = self._wrapped_list(self._need_name) if self._at_paren() else self._list(self._need_name)
        if not self._take("CASCADE"):
            self._take("RESTRICT")
        return tuple(nodes.DropColumn(name, if_exists) for name in names)

    def _rename(self) -> nodes.Action:
        if self._take("TO"):
            return nodes.RenameTo(self._need_name())
        self._take("COLUMN")
        path = self._need_name()
        self._need("TO")
        return nodes.RenameColumn(path, self._need_part())

    def _change_column(self) -> tuple[nodes.Action, ...]:
        self._take("COLUMN")
        path = self._need_name()
        if self._take("SET", "DEFAULT"):
            return (nodes.SetDefault(path, self._need_expression("a default")),)
        if self._take("DROP", "DEFAULT"):
            return (nodes.SetDefault(path, None),)
        if self._take("SET", "NOT", "NULL"):
            return (nodes.SetNotNull(path, True),)
        if self._take("DROP", "NOT", "NULL"):
            return (nodes.SetNotNull(path, False),)
        if self._take("COMMENT"):
            return (nodes.SetColumnComment(path, self._need_string_or_null()),)
        if self._take("TYPE") or self._take("SET", "DATA", "TYPE") or self._take("SET", "TYPE"):
            found = nodes.SetType(path, self._need_type())
            if self._at("USING"):
                self._refuse(
                    "ALTER COLUMN ... TYPE ... USING", "add a column, UPDATE it, and drop the old one"
                )
            if self._take("COMMENT"):
                return (found, nodes.SetColumnComment(path, self._need_string_or_null()))
            return (found,)
        if self._at_any("FIRST", "AFTER"):
            self._refuse(f"ALTER COLUMN ... {self._curr.text.upper()}", "columns keep their places")
        self._fail("expected SET TYPE, SET DEFAULT, DROP DEFAULT, SET NOT NULL, DROP NOT NULL or COMMENT")

    # The table.

    def _set(self) -> nodes.Action:
        if self._take("PARTITIONED", "BY"):
            keys, added = self._partition_keys()
            if added:
                self._fail("the columns of SET PARTITIONED BY have no types")
            return nodes.SetPartitionedBy(keys)
        if self._take("SORTED", "BY"):
            return nodes.SetSortedBy(self._wrapped_list(self._need_sort_key))
        if self._take("COMMENT"):
            return nodes.SetTableComment(self._need_string_or_null())
        if self._at("TBLPROPERTIES") or self._match(TokenType.L_PAREN, advance=False):
            self._refuse(
                "ALTER TABLE ... SET properties", "use CALL set_option(option, value, table_name => ...)"
            )
        if self._at_any("SCHEMA", "LOCATION", "SERDE", "SERDEPROPERTIES"):
            self._refuse(f"ALTER TABLE ... SET {self._curr.text.upper()}", "a table stays where it is")
        self._fail("expected PARTITIONED BY (...) or SORTED BY (...) after SET")

    def _reset(self) -> nodes.Action:
        if self._take("PARTITIONED", "BY"):
            return nodes.SetPartitionedBy(None)
        if self._take("SORTED", "BY"):
            return nodes.SetSortedBy(None)
        self._fail("expected PARTITIONED BY or SORTED BY after RESET")
