"""The columns of data files as DuckDB reads them in the workers: by field ids, and fields of structs by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ducklake_spark.format.types import quote, text_literal


@dataclass(frozen=True)
class FileNode:
    """A column of the files, or a part of one.

    Attributes:
        kind: `struct`, `list`, `map`, or empty for a plain value.
        type: The type in the file, in DuckDB's words.
        default: SQL of the value where a file does not have the column.
        default_text: The same value as text, where no other sign tells that a file does not have the column.
    """

    column_id: int
    name: str
    kind: str
    type: str
    default: str | None = None
    default_text: str | None = None
    children: tuple[FileNode, ...] = ()

    def walk(self) -> Iterator[FileNode]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def struct_fields(node: FileNode) -> Iterator[FileNode]:
    """The fields of structs: what a reader finds by name."""
    for child in node.children:
        if node.kind == "struct":
            yield child
        yield from struct_fields(child)


def schema_entry(field_id: int, name: str, type_: str, default: str | None = None) -> str:
    """A column in the schema that `read_parquet` takes; `default` is the text of its value in files without it."""
    value = "NULL" if default is None else text_literal(default)
    return f"{field_id}: {{name: '{name}', type: {text_literal(type_)}, default_value: {value}}}"


def default_value(node: FileNode) -> str:
    """SQL of the value in files without the column."""
    return node.default or f"CAST(NULL AS {node.type})"


def rebuilt(node: FileNode, value: str, names: Mapping[int, str], depth: int = 0) -> str:
    """A column as the table has it, of a file in which the fields of structs may have other names."""
    item = f"x{depth}"
    if node.kind == "struct":
        parts = [
            f"{quote(child.name)} := "
            + (
                rebuilt(child, f"({value}).{quote(names[child.column_id])}", names, depth)
                if child.column_id in names
                else default_value(child)
            )
            for child in node.children
        ]
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(parts)}) END"
    if node.kind == "list":
        inner = rebuilt(node.children[0], item, names, depth + 1)
        return f"list_transform({value}, lambda {item}: {inner})"
    if node.kind == "map":
        key, inner = (
            rebuilt(child, f"{item}.{part}", names, depth + 1)
            for child, part in zip(node.children, ("key", "value"), strict=True)
        )
        entries = f"list_transform(map_entries({value}), lambda {item}: struct_pack(key := {key}, value := {inner}))"
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE map_from_entries({entries}) END"
    return f"CAST({value} AS {node.type})"


def names_in(node: FileNode, kind: Any) -> dict[int, str]:
    """How a file calls the fields inside a column, given the type that it says the column has.

    Args:
        node: The column as it was when the file began.
        kind: DuckDB's type of it in the file. Only changes of the file's own transaction can make a difference.
    """
    if node.kind == "struct":
        inside = dict(kind.children)
        free = [name for name in inside if name not in {child.name for child in node.children}]
        found: dict[int, str] = {}
        for child in node.children:
            name = child.name if child.name in inside else free.pop(0) if free else None
            if name is not None:
                found |= {child.column_id: name, **names_in(child, inside[name])}
        return found
    parts = [part for _, part in kind.children] if node.children else []
    found = {}
    for child, part in zip(node.children, parts, strict=False):
        found |= {child.column_id: child.name, **names_in(child, part)}
    return found
