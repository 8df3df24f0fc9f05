"""Files of which the catalog does not say in which types they keep a table's columns.

Files that were added to the lake know columns by name only, in whatever types; DuckDB's reader casts them. And a
transaction that inserts and then changes columns leaves files as they were before the change, in the snapshot that has
it. Spark's reader must be told, so these files are asked themselves, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.scan.projection.column import History, NameMap, Node
from ducklake_spark.scan.projection.footer import NOTHING, Part, read

Types = tuple[tuple[int, str], ...]
"""Columns and fields by id, and the types in which a file keeps them."""

_ASKED = ("uint64", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz")
"""Types of columns for which Spark must know exactly what it reads; others it widens by itself."""


def asked(columns: Iterable[ColumnDef], history: History) -> frozenset[int]:
    """The columns and fields of which an added file must tell the type.

    That are also decimals, which Spark does not give more digits behind the point if there are fewer before it then,
    and all whose type was changed since.
    """
    return frozenset(
        node.column_id
        for column in columns
        for node in column.walk()
        if node.type in _ASKED
        or (node.type.startswith("decimal") and not node.type.endswith(",0)"))
        or any(version.column_type != node.type for version in history.versions.get(node.column_id, ()))
    )


def types_of(path: str, names: NameMap, columns: Iterable[ColumnDef], wanted: frozenset[int]) -> Types:
    """What an added file keeps otherwise than the table.

    Args:
        path: The whole path of the file.
        names: How the file calls the columns.
        columns: The table's columns.
        wanted: Those that matter, as `asked` says.
    """
    return tuple(sorted(_differing(columns, read(path), names, wanted))) if wanted else ()


def _differing(
    columns: Iterable[ColumnDef], found: Part, names: NameMap, wanted: frozenset[int]
) -> Iterator[tuple[int, str]]:
    for column in columns:
        source = names.sources.get(column.column_id)
        part = next((part for part in found.parts if part.name == source), None)
        if part is not None:
            yield from _in(column, part, names, wanted)


def _in(node: ColumnDef, found: Part, names: NameMap, wanted: frozenset[int]) -> Iterator[tuple[int, str]]:
    if node.type == "struct":
        yield from _differing(node.children, found, names, wanted)
    elif node.type in ("list", "map"):
        # The repeated group that the format wants, with the element, or the key and the value, inside.
        inner = found.parts[0] if found.parts else NOTHING
        parts = inner.parts if len(inner.parts) == len(node.children) else found.parts
        for child, part in zip(node.children, parts, strict=False):
            yield from _in(child, part, names, wanted)
    elif node.column_id in wanted and found.type is not None and found.type != node.type:
        yield node.column_id, found.type


def types_before(path: str, history: History, at: int) -> Types | None:
    """The types of all columns of a file from the snapshot that changed some; None if it was written after the change.

    Args:
        path: The whole path of the file.
        history: All versions of the table's columns.
        at: The snapshot of the file, and of the change.
    """
    found = {part.field_id: part for part in read(path).walk() if part.field_id in history.versions}
    if not found:
        return None
    types: dict[int, str] = {}
    is_older = False
    for column_id, versions in history.versions.items():
        now = [node.column_type for node in versions if node.begin_snapshot <= at]
        before = [node.column_type for node in versions if node.begin_snapshot < at]
        if column_id not in found:
            is_older = is_older or (bool(now) and not before)
            continue
        types[column_id] = (now or [versions[0].column_type])[-1]
        if (
            before
            and before[-1] != types[column_id]
            and _kept_as(found[column_id], before[-1], types[column_id])
        ):
            types[column_id] = before[-1]
            is_older = True
    return tuple(sorted(types.items())) if is_older else None


def _kept_as(part: Part, before: str, now: str) -> bool:
    return part.type in _stored(before) and part.type not in _stored(now)


def _stored(column_type: str) -> tuple[str, ...]:
    """The types in which files keep a column; 128-bit integers are doubles in those of the extension."""
    if column_type in ("int128", "uint128"):
        return ("float64", "decimal(38,0)")
    return ("timestamp",) if column_type == "timestamp_s" else (column_type,)


def types_in(path: str, columns: Iterable[ColumnDef]) -> Types:
    """The types of the columns that a file of this transaction has, as it was written."""
    found = {part.field_id: part for part in read(path).walk() if part.field_id is not None}
    types: dict[int, str] = {}
    for node in (node for column in columns for node in column.walk()):
        part = found.get(node.column_id)
        if part is not None:
            is_known = part.type is not None and part.type not in _stored(node.type)
            types[node.column_id] = str(part.type) if is_known else node.type
    return tuple(sorted(types.items()))


def history_of(types: Types, history: History | None = None) -> History:
    """The past of a table as such a file knows it: nothing but its own columns, from the beginning."""
    if history is None:
        return History.of(Node(column_id, 0, text, None) for column_id, text in types)
    parents = {column_id: versions[-1] for column_id, versions in history.versions.items()}
    return History.of(
        Node(column_id, 0, text, parents[column_id].parent_column, parents[column_id].column_name)
        for column_id, text in types
    )
