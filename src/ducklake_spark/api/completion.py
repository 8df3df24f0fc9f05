"""Suggestions while SQL is typed: keywords, and the names of schemas, tables and columns of the lake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ducklake_spark.api.lake import Lake
from ducklake_spark.catalog import ddl
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError
from ducklake_spark.sql.parser.lines import keywords, place


@dataclass(frozen=True)
class Suggestion:
    """What may stand at the cursor, instead of the last `replaced` characters before it."""

    text: str
    shown: str
    kind: str
    """`keyword`, `schema`, `table` or `column`."""
    replaced: int


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
            tx = scope_of(self._lake).read_transaction()
            self._relations = {
                schema.name: sorted([*tx.table_names(schema), *tx.view_names(schema)])
                for schema in tx.schemas()
            }
        return self._relations

    def columns(self, name: tuple[str, ...]) -> list[str]:
        """The columns of a table; none when there is no such table."""
        if name not in self._columns:
            tx = scope_of(self._lake).read_transaction()
            schema, own = scope_of(self._lake).resolve(tx, name)
            self._columns[name] = [column.name for column in ddl.get_table(tx, schema, own).columns]
        return self._columns[name]


def suggestions(names: Names, text: str, cursor: int, dialect: str) -> Iterator[Suggestion]:
    """What may stand at the cursor of a text; nothing where a lake does not answer."""
    found = place(text, cursor, dialect)
    if found is None or (not found.prefix and not found.qualifier and not found.wants_relation):
        return
    try:
        for kind, words in _candidates(names, found.qualifier, found.wants_relation, dict(found.relations)):
            yield from starting(found.prefix, words, kind, dialect)
    except DuckLakeError:
        return  # a lake that does not answer will say so when the statement runs
    if not found.qualifier and not found.wants_relation:
        yield from starting(found.prefix, keywords(dialect), "keyword")


def starting(
    prefix: str, words: Iterable[str], kind: str, dialect: str | None = None
) -> Iterator[Suggestion]:
    """The words that begin so, in the quotes that they need in a dialect."""
    for word in dict.fromkeys(words):
        if word.lower().startswith(prefix.lower()) and word != prefix:
            shown = word.lower() if kind == "keyword" and prefix.islower() else word
            yield Suggestion(_quoted(shown, dialect), word, kind, len(prefix))


def _candidates(
    names: Names, qualifier: tuple[str, ...], wants_relation: bool, named: dict[str, tuple[str, ...]]
) -> Iterator[tuple[str, list[str]]]:
    relations = names.relations()
    if qualifier:
        schema = qualifier[-1].lower()
        yield "table", [name for key in relations if key.lower() == schema for name in relations[key]]
        if not wants_relation:
            by_alias = {alias.lower(): name for alias, name in named.items()}
            yield "column", _columns(names, by_alias.get(schema, qualifier))
        return
    if not wants_relation:
        for name in named.values():
            yield "column", _columns(names, name)
    yield "table", relations.get(names.default_schema, [])
    yield "schema", sorted(relations)


def _columns(names: Names, name: tuple[str, ...]) -> list[str]:
    try:
        return names.columns(name)
    except DuckLakeError:
        return []  # a view, a CTE, or a name that is not whole yet


def _quoted(word: str, dialect: str | None) -> str:
    if dialect is None or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word):
        return word
    mark = "`" if dialect == "spark" else '"'
    return mark + word.replace(mark, mark * 2) + mark
