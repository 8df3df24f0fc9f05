"""`changes_made`: what one snapshot did, as the catalog writes it, as `snapshots()` shows it, and as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from ducklake_spark.errors import CatalogError
from ducklake_spark.format.duckdb_sql import quote_if_needed
from ducklake_spark.format.objects import parse_quoted_list
from ducklake_spark.format.types import fold, quote

ObjectName = tuple[str, str]
"""Schema and name of a table, view or macro."""


@dataclass
class ChangeSet:
    """The changes of one or more snapshots; ids ascend, names stand in the order of their creation."""

    dropped_schemas: set[int] = field(default_factory=set)
    dropped_tables: set[int] = field(default_factory=set)
    dropped_views: set[int] = field(default_factory=set)
    created_schemas: list[str] = field(default_factory=list)
    created_tables: list[ObjectName] = field(default_factory=list)
    created_views: list[ObjectName] = field(default_factory=list)
    created_scalar_macros: list[ObjectName] = field(default_factory=list)
    created_table_macros: list[ObjectName] = field(default_factory=list)
    dropped_scalar_macros: set[int] = field(default_factory=set)
    dropped_table_macros: set[int] = field(default_factory=set)
    inserted_into_tables: set[int] = field(default_factory=set)
    deleted_from_tables: set[int] = field(default_factory=set)
    altered_tables: set[int] = field(default_factory=set)
    altered_views: set[int] = field(default_factory=set)
    inlined_inserts: set[int] = field(default_factory=set)
    inlined_deletes: set[int] = field(default_factory=set)
    inline_flushes: set[int] = field(default_factory=set)
    merge_adjacents: set[int] = field(default_factory=set)
    rewrite_deletes: set[int] = field(default_factory=set)
    compacted_tables: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return any(getattr(self, part.name) for part in fields(self))

    def merge(self, other: ChangeSet) -> None:
        """Adds the changes of another snapshot."""
        for part in fields(self):
            own, others = getattr(self, part.name), getattr(other, part.name)
            if isinstance(own, set):
                own.update(others)
            else:
                own.extend(others)


# One row per kind: the word in `changes_made`, the field above, the key in `snapshots()`. The order is the order of
# emission of the extension.
WORDS = (
    ("dropped_schema", "dropped_schemas", "schemas_dropped"),
    ("dropped_table", "dropped_tables", "tables_dropped"),
    ("dropped_view", "dropped_views", "views_dropped"),
    ("created_schema", "created_schemas", "schemas_created"),
    ("created_table", "created_tables", "tables_created"),
    ("created_view", "created_views", "views_created"),
    ("created_scalar_macro", "created_scalar_macros", "scalar_macros_created"),
    ("created_table_macro", "created_table_macros", "table_macros_created"),
    ("dropped_scalar_macro", "dropped_scalar_macros", "scalar_macros_dropped"),
    ("dropped_table_macro", "dropped_table_macros", "table_macros_dropped"),
    ("inserted_into_table", "inserted_into_tables", "tables_inserted_into"),
    ("deleted_from_table", "deleted_from_tables", "tables_deleted_from"),
    ("altered_table", "altered_tables", "tables_altered"),
    ("altered_view", "altered_views", "views_altered"),
    ("inlined_insert", "inlined_inserts", "inlined_insert"),
    ("inlined_delete", "inlined_deletes", "inlined_delete"),
    ("inline_flush", "inline_flushes", "flushed_inlined"),
    ("merge_adjacent", "merge_adjacents", "merge_adjacent"),
    ("rewrite_delete", "rewrite_deletes", "rewrite_delete"),
    ("compacted_table", "compacted_tables", "tables_compacted"),
)
_FIELDS = {word: name for word, name, _ in WORDS} | {"flushed_inlined": "inline_flushes"}
# The order in which the extension's snapshots() fills its map.
_MAP_ORDER = (
    "schemas_created",
    "schemas_dropped",
    "tables_created",
    "views_created",
    "scalar_macros_created",
    "table_macros_created",
    "tables_dropped",
    "tables_altered",
    "tables_inserted_into",
    "tables_deleted_from",
    "views_dropped",
    "scalar_macros_dropped",
    "table_macros_dropped",
    "views_altered",
    "inlined_insert",
    "inlined_delete",
    "flushed_inlined",
    "merge_adjacent",
    "rewrite_delete",
    "tables_compacted",
)


def format_changes(changes: ChangeSet) -> str | None:
    """The text of `changes_made`; None when nothing changed.

    >>> format_changes(ChangeSet(created_tables=[("main", 't"x')], altered_tables={7, 3}))
    'created_table:"main"."t""x",altered_table:3,altered_table:7'
    """
    entries: list[str] = []
    for word, name, _ in WORDS:
        if word == "created_table":
            # Tables and views stand together, by name, as the extension writes them.
            relations = [("created_table", each) for each in changes.created_tables]
            relations += [("created_view", each) for each in changes.created_views]
            relations.sort(key=lambda relation: (fold(relation[1][0]), fold(relation[1][1])))
            entries += [f"{kind}:{quote(schema)}.{quote(own)}" for kind, (schema, own) in relations]
        elif word != "created_view":
            for value in _ordered(getattr(changes, name)):
                if isinstance(value, tuple):
                    entries.append(f"{word}:{quote(value[0])}.{quote(value[1])}")
                else:
                    entries.append(f"{word}:{quote(value) if isinstance(value, str) else value}")
    return ",".join(entries) or None


def _ordered(values: set[int] | list[str] | list[ObjectName]) -> list[int] | list[str] | list[ObjectName]:
    return sorted(values) if isinstance(values, set) else values


def parse_changes(text: str | None) -> ChangeSet:
    """The value of a `changes_made` text.

    Raises:
        CatalogError: A change that format 1.0 does not have, or one that cannot be read.
    """
    changes = ChangeSet()
    for entry in _split(text or ""):
        word, _, value = entry.partition(":")
        name = _FIELDS.get(word.strip())
        if name is None:
            raise CatalogError(
                f'A snapshot of the lake has a change of kind "{word}", which format 1.0 does not have: it was '
                "written by a newer version. Upgrade ducklake-spark."
            )
        target = getattr(changes, name)
        try:
            if isinstance(target, set):
                target.add(int(value))
            elif word == "created_schema":
                target.extend(parse_quoted_list(value))
            else:
                schema, _, rest = _split_name(value)
                target.append((schema, rest))
        except (ValueError, IndexError) as error:
            raise CatalogError(
                f'A snapshot of the lake says that it made the change "{entry}", which cannot be read: '
                "ducklake_snapshot_changes is damaged."
            ) from error
    return changes


def _split(text: str) -> list[str]:
    """The entries of a comma list, where commas in quotes do not count."""
    parts: list[str] = []
    start, quoted = 0, False
    for position, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            parts.append(text[start:position])
            start = position + 1
    if text:
        parts.append(text[start:])
    return parts


def _split_name(value: str) -> tuple[str, str, str]:
    quoted = False
    for position, character in enumerate(value):
        if character == '"':
            quoted = not quoted
        elif character == "." and not quoted:
            return parse_quoted_list(value[:position])[0], ".", parse_quoted_list(value[position + 1 :])[0]
    return "", "", parse_quoted_list(value)[0]


def changes_map(changes: ChangeSet) -> dict[str, list[str]]:
    """The map of `snapshots()`: names quoted where DuckDB must, ids as text.

    >>> changes_map(parse_changes('created_table:"main"."a b",inlined_insert:3'))
    {'tables_created': ['main."a b"'], 'inlined_insert': ['3']}
    """
    texts: dict[str, list[str]] = {}
    for _, name, key in WORDS:
        values = _ordered(getattr(changes, name))
        if values:
            texts[key] = [
                ".".join(map(quote_if_needed, value)) if isinstance(value, tuple) else str(value)
                for value in values
            ]
    return {key: texts[key] for key in _MAP_ORDER if key in texts}


def changes_text(changes: Mapping[str, Sequence[str]]) -> str:
    """The map of `snapshots()` in words.

    >>> changes_text({"tables_created": ["main.t"], "inlined_insert": ["3", "4"]})
    'tables created: main.t; inlined insert: 3, 4'
    """
    return "; ".join(f"{key.replace('_', ' ')}: {', '.join(values)}" for key, values in changes.items())
