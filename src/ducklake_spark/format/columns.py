"""Columns as a tree of nodes with ids, and the edits that schema evolution makes on it. Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ducklake_spark.errors import (
    AlreadyExistsError,
    DependencyError,
    InvalidInputError,
    NotFoundError,
    TypeChangeError,
    did_you_mean,
)
from ducklake_spark.format.types import (
    NESTED,
    DataType,
    List,
    Map,
    Struct,
    check_promotion,
    duckdb_name,
    fold,
    parse_type,
)


@dataclass(frozen=True)
class ColumnDef:
    """One node of a table's schema: a column, a field of a struct, a list's element, a map's key or value."""

    column_id: int
    name: str
    type: str
    nulls_allowed: bool = True
    initial_default: str | None = None
    default_value: str | None = None
    default_value_type: str = "literal"
    children: tuple[ColumnDef, ...] = ()
    comment: str | None = field(default=None, compare=False)

    @property
    def data_type(self) -> DataType:
        """The whole type, children included."""
        if self.type == "list":
            return List(self.children[0].data_type)
        if self.type == "map":
            return Map(self.children[0].data_type, self.children[1].data_type)
        if self.type == "struct":
            return Struct(tuple((child.name, child.data_type) for child in self.children))
        return parse_type(self.type)

    def walk(self) -> Iterator[ColumnDef]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def child(self, name: str) -> ColumnDef | None:
        """The child with this name, without regard to case."""
        return find(self.children, name)


def find(columns: Iterable[ColumnDef], name: str) -> ColumnDef | None:
    """The column with this name, without regard to case."""
    wanted = fold(name)
    return next((column for column in columns if fold(column.name) == wanted), None)


def walk_all(columns: Iterable[ColumnDef]) -> Iterator[tuple[ColumnDef, int | None]]:
    """Every node with the id of its parent, parents first."""
    pending: list[tuple[ColumnDef, int | None]] = [(column, None) for column in reversed(list(columns))]
    while pending:
        column, parent = pending.pop()
        yield column, parent
        pending.extend((child, column.column_id) for child in reversed(column.children))


def build(name: str, data_type: DataType, next_id: int) -> tuple[ColumnDef, int]:
    """A new node with ids from `next_id` on, parents before children. Returns it and the next free id."""
    own_id, next_id = next_id, next_id + 1
    parts: Sequence[tuple[str, DataType]] = ()
    match data_type:
        case List(element):
            parts = [("element", element)]
        case Map(key, value):
            parts = [("key", key), ("value", value)]
        case Struct(fields):
            parts = fields
    children = []
    for part_name, part_type in parts:
        child, next_id = build(part_name, part_type, next_id)
        children.append(child)
    kind = "" if parts else "literal"
    column = ColumnDef(own_id, name, data_type.name, default_value_type=kind, children=tuple(children))
    return column, next_id


def resolve(columns: Sequence[ColumnDef], path: Sequence[str], table: str) -> ColumnDef:
    """The node at a path of names.

    Raises:
        NotFoundError: There is no such column, with near names.
    """
    level: Sequence[ColumnDef] = columns
    found: ColumnDef | None = None
    for depth, name in enumerate(path):
        found = find(level, name)
        if found is None:
            where = f'Column "{".".join(path[:depth])}" of table "{table}"' if depth else f'Table "{table}"'
            kind = "field" if depth else "column"
            if depth and not level:
                raise NotFoundError(f"{where} has no fields: it is not nested.")
            names = [column.name for column in level]
            raise NotFoundError(f'{where} has no {kind} "{name}".{did_you_mean(name, names)}')
        level = found.children
    if found is None:
        raise InvalidInputError("The name of a column is empty.")
    return found


def replace_node(columns: Sequence[ColumnDef], node: ColumnDef) -> tuple[ColumnDef, ...]:
    """The tree with the node of the same id replaced."""
    return tuple(
        node
        if column.column_id == node.column_id
        else replace(column, children=replace_node(column.children, node))
        if column.children
        else column
        for column in columns
    )


def remove_node(columns: Sequence[ColumnDef], column_id: int) -> tuple[ColumnDef, ...]:
    """The tree without the node of this id and what is below it."""
    return tuple(
        replace(column, children=remove_node(column.children, column_id)) if column.children else column
        for column in columns
        if column.column_id != column_id
    )


def require_field_parent(columns: Sequence[ColumnDef], path: Sequence[str], table: str) -> ColumnDef | None:
    """The struct in which the last name of `path` is a field; None for a column of the table itself.

    Raises:
        TypeChangeError: The parent is not a struct.
    """
    if len(path) == 1:
        return None
    parent = resolve(columns, path[:-1], table)
    if parent.type != "struct":
        hint = {
            "list": f' Its element is reached as "{".".join(path[:-1])}.element".',
            "map": f' Its value is reached as "{".".join(path[:-1])}.value".',
        }.get(parent.type, "")
        raise TypeChangeError(
            f'Column "{".".join(path[:-1])}" of table "{table}" is {duckdb_name(parent.data_type)}: only a struct has '
            f"fields that can be added, dropped or renamed.{hint}"
        )
    return parent


def require_free(siblings: Iterable[ColumnDef], name: str, where: str, but: int | None = None) -> None:
    """Raises when another column or field has this name.

    Raises:
        AlreadyExistsError: The name is taken.
    """
    taken = find(siblings, name)
    if taken is not None and taken.column_id != but:
        raise AlreadyExistsError(f'{where} has a column or field "{taken.name}" already.')


def require_remaining(siblings: Sequence[ColumnDef], path: Sequence[str], table: str) -> None:
    """Raises when the last name of `path` is the only one at its level.

    Raises:
        DependencyError: Nothing would be left.
    """
    if len(siblings) > 1:
        return
    if len(path) == 1:
        raise DependencyError(
            f'Cannot drop column "{path[0]}": it is the only column of table "{table}". Drop the table instead.'
        )
    raise DependencyError(
        f'Cannot drop field "{".".join(path)}" of table "{table}": it is the only field of its struct. Drop the '
        f'column "{".".join(path[:-1])}" instead.'
    )


def retype(column: ColumnDef, new: DataType, next_id: int, *, nested: bool = False) -> tuple[ColumnDef, int]:
    """The column with a wider type; fields of structs are matched by name, new ones get ids from `next_id` on.

    Raises:
        TypeChangeError: The change could lose data.
    """
    old = column.data_type
    if old == new:
        return column, next_id
    if column.type not in NESTED or column.type != new.name:
        check_promotion(column.name, old, new)
        if nested:
            # The extension writes a promoted field like this; readers ignore both values for nested fields.
            changed = replace(column, type=new.name, nulls_allowed=False, default_value_type="")
        else:
            changed = replace(column, type=new.name)
        return changed, next_id
    children: list[ColumnDef] = []
    match new:
        case List(element):
            parts: Sequence[DataType] = [element]
        case Map(key, value):
            parts = [key, value]
        case _:
            parts = []
    for child, part in zip(column.children, parts, strict=False):
        changed, next_id = retype(child, part, next_id, nested=True)
        children.append(changed)
    if isinstance(new, Struct):
        wanted = {fold(name): (name, part) for name, part in new.fields}
        for child in column.children:
            if fold(child.name) in wanted:
                changed, next_id = retype(child, wanted.pop(fold(child.name))[1], next_id, nested=True)
                children.append(changed)
        for name, part in wanted.values():
            added, next_id = build(name, part, next_id)
            children.append(added)
    return replace(column, children=tuple(children)), next_id
