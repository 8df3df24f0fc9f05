"""Parquet files of one schema become one file, row group by row group: pages are copied, not decoded. Pure bytes.

A footer is read and written by a small codec for Thrift's compact protocol that keeps what it does not know. All that
has to change is where things are: positions in a file that is put behind another one grow by what stands before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

_MAGIC = b"PAR1"
_TAIL = 8
"""Bytes after a footer: its length, and the magic."""
_BUFFER = 1 << 22
_MOST_ORDINALS = 1 << 15

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_VERSION, _SCHEMA, _ROWS, _ROW_GROUPS = 1, 2, 3, 4
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
_CHUNK_OFFSET, _CHUNK_DATA, _INDEX_OFFSET, _INDEX_LENGTH, _BOUNDS_OFFSET = 2, 3, 4, 5, 6
_PAGE_OFFSETS = (9, 10, 11, 14)
"""Positions of a chunk's data pages, index page, dictionary page and Bloom filter."""
_LOCATIONS, _LOCATION_OFFSET = 1, 1

Struct = dict[int, tuple[int, Any]]
"""By the id of a field, its type and its value; lists are pairs of the type of their items and the items."""


class UnlikeFilesError(Exception):
    """The files do not have the same columns, or are not plain Parquet files."""


@dataclass(frozen=True)
class Layout:
    """A file's footer, and where it begins."""

    path: str
    footer: Struct
    end: int

    @property
    def shape(self) -> tuple[Any, ...]:
        """What files must have in common."""
        return tuple(self.footer.get(field) for field in (_SCHEMA, 7))


def read_layout(path: str) -> Layout:
    """Reads a file's footer.

    Raises:
        UnlikeFilesError: It is no Parquet file, or an encrypted one.
    """
    with open(path, "rb") as file:
        data, end = _footer_bytes(file, path)
    return Layout(path, _Reader(data).struct(), end)


def row_count(path: str) -> int:
    """How many rows a file has, by the first fields of its footer."""
    with open(path, "rb") as file:
        data, _ = _footer_bytes(file, path)
    for field, _, value in _Reader(data).fields():
        if field == _ROWS:
            return int(value)
    raise UnlikeFilesError(f"{path} does not say how many rows it has")


def _footer_bytes(file: BinaryIO, path: str) -> tuple[bytes, int]:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[:4], "little")
    end = size - _TAIL - length
    if tail[4:] != _MAGIC or end < len(_MAGIC):
        raise UnlikeFilesError(f"{path} is no plain Parquet file")
    file.seek(end)
    return file.read(length), end


def concat(paths: Sequence[str]) -> tuple[int, int]:
    """Puts the row groups of files behind those of the first one; the others are removed.

    Returns:
        The sizes of the first file and of its footer.

    Raises:
        UnlikeFilesError: The files differ in their columns. None was changed.
    """
    layouts = [read_layout(path) for path in paths]
    if any(layout.shape != layouts[0].shape for layout in layouts):
        raise UnlikeFilesError(f"the files beside {paths[0]} have other columns")
    footer = layouts[0].footer
    groups: list[Struct] = []
    pending: list[tuple[Struct, bytes]] = []
    with open(paths[0], "r+b") as target:
        position = target.seek(layouts[0].end)
        target.truncate()
        for number, layout in enumerate(layouts):
            moved = position - len(_MAGIC) if number else 0
            if number:
                with open(layout.path, "rb") as source:
                    indexes = list(_page_indexes(source, layout))
                    position += _copy_body(source, layout, target)
            else:
                indexes = list(_page_indexes(target, layout))
                target.seek(position)
            for group in _items(layout.footer, _ROW_GROUPS):
                _shift_group(group, moved, len(groups))
                groups.append(group)
            pending += [(chunk, _shifted_index(index, moved)) for chunk, index in indexes] if moved else []
        for chunk, index in pending:
            chunk[_INDEX_OFFSET] = (_I64, target.tell())
            chunk[_INDEX_LENGTH] = (_I32, len(index))
            target.write(index)
        footer[_ROW_GROUPS] = (_LIST, (_STRUCT, groups))
        footer[_ROWS] = (_I64, sum(int(layout.footer[_ROWS][1]) for layout in layouts))
        written = _Writer().struct(footer)
        target.write(written + len(written).to_bytes(4, "little") + _MAGIC)
        size = target.tell()
    for path in paths[1:]:
        os.remove(path)
    return size, len(written)


def _items(struct: Struct, field: int) -> list[Any]:
    return list(struct[field][1][1]) if field in struct else []


def _copy_body(source: BinaryIO, layout: Layout, target: BinaryIO) -> int:
    """Everything between the magic and the footer."""
    length = layout.end - len(_MAGIC)
    source.seek(len(_MAGIC))
    left = length
    while left > 0:
        part = source.read(min(_BUFFER, left))
        if not part:
            raise UnlikeFilesError(f"{layout.path} is shorter than it was")
        target.write(part)
        left -= len(part)
    return length


def _shift_group(group: Struct, moved: int, ordinal: int) -> None:
    _shift(group, _GROUP_OFFSET, moved)
    if ordinal < _MOST_ORDINALS:
        group[_ORDINAL] = (_I16, ordinal)
    else:
        group.pop(_ORDINAL, None)
    for chunk in _items(group, _COLUMNS):
        _shift(chunk, _CHUNK_OFFSET, moved)
        _shift(chunk, _BOUNDS_OFFSET, moved)
        for field in _PAGE_OFFSETS:
            _shift(chunk[_CHUNK_DATA][1], field, moved)


def _shift(struct: Struct, field: int, moved: int) -> None:
    kind, value = struct.get(field, (_I64, 0))
    if value:  # 0 is nowhere
        struct[field] = (kind, value + moved)


def _page_indexes(file: BinaryIO, layout: Layout) -> Iterator[tuple[Struct, bytes]]:
    """The page index of each chunk that has one: it names positions of pages, and so has to be written anew."""
    for group in _items(layout.footer, _ROW_GROUPS):
        for chunk in _items(group, _COLUMNS):
            if chunk.get(_INDEX_OFFSET, (0, 0))[1]:
                file.seek(chunk[_INDEX_OFFSET][1])
                yield chunk, file.read(chunk[_INDEX_LENGTH][1])


def _shifted_index(data: bytes, moved: int) -> bytes:
    index = _Reader(data).struct()
    for location in _items(index, _LOCATIONS):
        _shift(location, _LOCATION_OFFSET, moved)
    return _Writer().struct(index)


class _Reader:
    """Thrift's compact protocol -> values."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def struct(self) -> Struct:
        return {field: (kind, value) for field, kind, value in self.fields()}

    def fields(self) -> Iterator[tuple[int, int, Any]]:
        field = 0
        while (head := self._byte()) != 0:
            kind, delta = head & 15, head >> 4
            field = field + delta if delta else self._zigzag()
            yield field, kind, (kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind))

    def value(self, kind: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            head = self._byte()
            count, item = head >> 4, head & 15
            if count == 15:
                count = self._varint()
            return item, [self.value(item) for _ in range(count)]
        if kind in (_BYTE, _TRUE, _FALSE):
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        raise UnlikeFilesError(f"a footer holds Thrift type {kind}")

    def _byte(self) -> int:
        byte = self.data[self.position]
        self.position += 1
        return byte

    def _take(self, length: int) -> bytes:
        taken = self.data[self.position : self.position + length]
        self.position += length
        return taken

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


class _Writer:
    """Values -> Thrift's compact protocol."""

    def struct(self, struct: Struct) -> bytes:
        parts, last = [], 0
        for field, (kind, value) in sorted(struct.items()):
            if kind in (_TRUE, _FALSE):
                kind, value = (_TRUE if value else _FALSE), None
            delta = field - last
            head = bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind]) + _zigzag(field)
            parts += [head, b"" if value is None else self.value(kind, value)]
            last = field
        return b"".join(parts) + b"\0"

    def value(self, kind: int, value: Any) -> bytes:
        if kind in (_I16, _I32, _I64):
            return _zigzag(value)
        if kind == _BINARY:
            return _varint(len(value)) + bytes(value)
        if kind == _STRUCT:
            return self.struct(value)
        if kind in (_LIST, _SET):
            item, items = value
            head = bytes([len(items) << 4 | item]) if len(items) < 15 else bytes([0xF0 | item])
            count = b"" if len(items) < 15 else _varint(len(items))
            return head + count + b"".join(self.value(item, each) for each in items)
        if kind in (_BYTE, _TRUE, _FALSE):
            return bytes([value])
        return bytes(value)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)
