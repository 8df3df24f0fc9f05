"""How files that were not written for a table call its columns: the rows of a name map. Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

TYPE = "map_by_name"


@dataclass(frozen=True)
class MappedColumn:
    """A column or field of a file, and the id of the table's column that it is.

    Attributes:
        source_name: As the file spells it; `list` for the element of a list.
        target_field_id: The id of the table's column.
        is_partition: Whether the value stands in the names of folders instead of the file.
        children: Its fields, its element, or its key and value.
    """

    source_name: str
    target_field_id: int
    is_partition: bool = False
    children: tuple[MappedColumn, ...] = ()

    def walk(self) -> Iterator[MappedColumn]:
        """This one and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


Shape = frozenset[tuple[str, int, bool, Any]]
"""What makes two mappings the same: all that they say, in any order."""


@dataclass(frozen=True)
class ColumnMapping:
    """The columns of files of one shape."""

    columns: tuple[MappedColumn, ...]

    @property
    def shape(self) -> Shape:
        """Files whose mappings have the same shape share one."""
        return _shape(self.columns)

    def walk(self) -> Iterator[MappedColumn]:
        """All columns and fields, parents first."""
        for column in self.columns:
            yield from column.walk()

    def rows(self, mapping_id: int) -> list[tuple[Any, ...]]:
        """The rows of `ducklake_name_mapping`: each has a number, by which its children name it.

        >>> ColumnMapping((MappedColumn("l", 4, children=(MappedColumn("list", 5),)),)).rows(9)
        [(9, 0, 'l', 4, None, False), (9, 1, 'list', 5, 0, False)]
        """
        rows: list[tuple[Any, ...]] = []

        def add(columns: Iterable[MappedColumn], parent: int | None) -> None:
            for column in columns:
                own = len(rows)
                rows.append(
                    (
                        mapping_id,
                        own,
                        column.source_name,
                        column.target_field_id,
                        parent,
                        column.is_partition,
                    )
                )
                add(column.children, own)

        add(self.columns, None)
        return rows


def _shape(columns: Iterable[MappedColumn]) -> Shape:
    return frozenset(
        (column.source_name, column.target_field_id, column.is_partition, _shape(column.children))
        for column in columns
    )


def known_shapes(rows: Iterable[Sequence[Any]]) -> dict[Shape, int]:
    """The mappings that a catalog has: the lowest id of each shape, from rows as `ColumnMapping.rows` makes them.

    >>> mapping = ColumnMapping((MappedColumn("l", 4, children=(MappedColumn("list", 5),)),))
    >>> known_shapes(mapping.rows(9)) == {mapping.shape: 9}
    True
    """
    found: dict[int, dict[int | None, list[Sequence[Any]]]] = {}
    for row in rows:
        parent = None if row[4] is None else int(row[4])
        found.setdefault(int(row[0]), {}).setdefault(parent, []).append(row)
    shapes: dict[Shape, int] = {}
    for mapping_id in sorted(found, reverse=True):
        shapes[_shape(_children(found[mapping_id], None))] = mapping_id
    return shapes


def _children(rows: dict[int | None, list[Sequence[Any]]], parent: int | None) -> Iterator[MappedColumn]:
    for _, own, source, target, _, is_partition in rows.get(parent, ()):
        children = tuple(_children(rows, int(own)))
        yield MappedColumn(str(source), int(target), bool(is_partition), children)
