"""Suggestions while SQL is typed: keywords, and the names of schemas, tables and columns of the lake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ducklake_spark.api.lake import Lake
from ducklake_spark.catalog import ddl
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError
from ducklake_spark.sql.parser.lines import keywords, place


class Names:
    """What the lake has, asked once and again after each statement."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._relations: dict[str, list[str]] | None = None
        self._columns: dict[tuple[str, ...], list[str]] = {}

    @property
    def default_schema(self) -> str:
        """The schema of names that have no schema."""
        return self._lake.default_schema

    def forget(self) -> None:
        """The next question asks the catalog again."""
        self._relations, self._columns = None, {}

    def relations(self) -> dict[str, list[str]]:
        """Tables and views, by schema."""
        if self._relations is None:
            view = scope_of(self._lake).read_transaction()
            self._relations = {
                schema.name: sorted([*view.table_names(schema), *view.view_names(schema)])
                for schema in view.schemas()
            }
        return self._relations

    def columns(self, name: tuple[str, ...]) -> list[str]:
        """The columns of a table; none when there is no such table."""
        if name not in self._columns:
            view = scope_of(self._lake).read_transaction()
            schema, own = scope_of(self._lake).resolve(view, name)
            self._columns[name] = [column.name for column in ddl.get_table(view, schema, own).columns]
        return self._columns[name]


class SqlCompleter(Completer):
    """Suggests what may stand at the cursor."""

    def __init__(self, names: Names, dialect: Callable[[], str], commands: Iterable[str]) -> None:
        self._names, self._dialect, self._commands = names, dialect, sorted(commands)

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - prompt_toolkit gives it
    ) -> Iterator[Completion]:
        text, cursor = document.text, document.cursor_position
        if text.startswith("."):
            command, space, argument = document.text_before_cursor.partition(" ")
            if not space:
                yield from _starting(command, self._commands, "command")
                return
            text, cursor = f"FROM {argument}", len(f"FROM {argument}")  # what they take is a table
        found = place(text, cursor, self._dialect())
        if found is None or (not found.prefix and not found.qualifier and not found.wants_relation):
            return
        try:
            for kind, words in self._candidates(found.qualifier, found.wants_relation, dict(found.relations)):
                yield from _starting(found.prefix, words, kind, self._quoted)
        except DuckLakeError:
            return  # a lake that does not answer will say so when the statement runs
        if not found.qualifier and not found.wants_relation:
            yield from _starting(found.prefix, keywords(self._dialect()), "keyword")

    def _candidates(
        self, qualifier: tuple[str, ...], wants_relation: bool, named: dict[str, tuple[str, ...]]
    ) -> Iterator[tuple[str, list[str]]]:
        relations = self._names.relations()
        default = self._names.default_schema
        if qualifier:
            schema = qualifier[-1].lower()
            yield "table", [name for key in relations if key.lower() == schema for name in relations[key]]
            if not wants_relation:
                by_alias = {alias.lower(): name for alias, name in named.items()}
                yield "column", self._columns(by_alias.get(schema, qualifier))
            return
        if not wants_relation:
            for name in named.values():
                yield "column", self._columns(name)
        yield "table", relations.get(default, [])
        yield "schema", sorted(relations)

    def _columns(self, name: tuple[str, ...]) -> list[str]:
        try:
            return self._names.columns(name)
        except DuckLakeError:
            return []  # a view, a CTE, or a name that is not whole yet

    def _quoted(self, word: str) -> str:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word):
            return word
        mark = "`" if self._dialect() == "spark" else '"'
        return mark + word.replace(mark, mark * 2) + mark


def _starting(
    prefix: str, words: Iterable[str], kind: str, quoted: Callable[[str], str] = str
) -> Iterator[Completion]:
    for word in dict.fromkeys(words):
        if word.lower().startswith(prefix.lower()) and word != prefix:
            shown = word.lower() if kind == "keyword" and prefix.islower() else word
            yield Completion(quoted(shown), -len(prefix), display=word, display_meta=kind)
