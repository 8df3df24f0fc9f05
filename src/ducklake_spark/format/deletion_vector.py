"""Deletion vectors: a bitmap of deleted positions in a file of its own (format `puffin`), read and made. Pure bytes.

The file is one blob of Iceberg's type `deletion-vector-v1`: for each upper half of a position a portable Roaring bitmap
of the lower halves, with a length, a magic and a checksum around them. Or it is a Puffin container of several of them,
each with all that was deleted from its snapshot on, until the next one's.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.errors import DuckLakeError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Positions = npt.NDArray[np.int64]

_MAGIC = b"\xd1\xd3\x39\x64"
_CONTAINER = b"PFA1"
_COMPRESSED = 1
_BLOB = "deletion-vector-v1"
_NO_RUNS, _WITH_RUNS = 12346, 12347
_LARGEST_ARRAY = 4096
"""A container with more values is a bitmap of 65,536 bits instead of a list."""


def vector_positions(data: bytes, where: str, at: int | None = None) -> Positions:
    """The positions in a deletion vector, in ascending order: of several, in the one that counts at a snapshot.

    >>> vector_positions(bytes.fromhex(
    ...     "00000026d1d33964010000000000000000000000"
    ...     "3a300000010000000000020010000000000001000200748ad0d0"), "x").tolist()
    [0, 1, 2]

    Raises:
        DuckLakeError: The bytes are not a deletion vector.
    """
    try:
        return bitmap_positions(data, at)
    except ValueError as error:
        raise _damaged(where, error) from error


def is_container(data: bytes) -> bool:
    """Whether there can be several vectors, each of another snapshot."""
    return data.startswith(_CONTAINER)


def stamped_positions(data: bytes, where: str) -> list[tuple[int, int | None]]:
    """The positions in a deletion vector, each with the snapshot in which it was deleted, where the file tells it.

    Raises:
        DuckLakeError: The bytes are not a deletion vector.
    """
    try:
        return stamped_bits(data)
    except ValueError as error:
        raise _damaged(where, error) from error


def stamped_bits(data: bytes) -> list[tuple[int, int | None]]:
    """The same for workers: damage is a ValueError."""
    found: dict[int, int | None] = {}
    for snapshot_id, blob in _vectors(data):
        for position in _positions(blob).tolist():
            found.setdefault(position, snapshot_id)
    return list(found.items())


def _damaged(where: str, error: ValueError) -> DuckLakeError:
    return DuckLakeError(f"The deletion vector {where} is damaged: {error}.")


def bitmap_positions(data: bytes, at: int | None = None) -> Positions:
    """The same for workers, which do not have the package's errors: damage is a ValueError."""
    import numpy as np

    known = [
        blob for snapshot_id, blob in _vectors(data) if at is None or snapshot_id is None or snapshot_id <= at
    ]
    return _positions(known[-1]) if known else np.empty(0, np.int64)


def _vectors(data: bytes) -> list[tuple[int | None, bytes]]:
    """The vectors of a file, oldest first, each with the snapshot from which on it counts."""
    if not data.startswith(_CONTAINER):
        return [(None, data)]
    if len(data) < 20 or data[-4:] != _CONTAINER:
        raise ValueError("a container without an end")
    size, flags = struct.unpack_from("<iB", data, len(data) - 12)
    start = len(data) - 12 - size
    if size < 0 or start < 8 or data[start - 4 : start] != _CONTAINER:
        raise ValueError("a container without a footer")
    if flags & _COMPRESSED:
        raise ValueError("its footer is compressed, which is not read here")
    try:
        blobs = [blob for blob in json.loads(data[start:-12])["blobs"] if blob["type"] == _BLOB]
        found = [(_snapshot(blob), data[blob["offset"] : blob["offset"] + blob["length"]]) for blob in blobs]
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"a footer without {error}") from error
    return sorted(found, key=lambda each: -1 if each[0] is None else each[0])


def _snapshot(blob: dict[str, Any]) -> int | None:
    text = blob.get("properties", {}).get("ducklake-snapshot-id")
    return None if text is None else int(text)


def _positions(data: bytes) -> Positions:
    import numpy as np

    try:
        length = int.from_bytes(data[:4], "big")
        body, checksum = data[4 : 4 + length], data[4 + length : 8 + length]
        if body[:4] != _MAGIC or zlib.crc32(body) != int.from_bytes(checksum, "big"):
            raise ValueError("wrong magic or checksum")
        (count,) = struct.unpack_from("<Q", body, 4)
        position, found = 12, [np.empty(0, np.int64)]
        for _ in range(count):
            (high,) = struct.unpack_from("<I", body, position)
            values, position = _bitmap(body, position + 4)
            found += [values + (high << 32)]
        return np.concatenate(found)
    except struct.error as error:
        raise ValueError(str(error)) from error


def vector_of(positions: Sequence[int] | Positions) -> bytes:
    """The deletion vector of some positions, which may come in any order and more than once.

    >>> vector_of([2, 0, 1, 1]).hex()
    '00000026d1d339640100000000000000000000003a300000010000000000020010000000000001000200748ad0d0'
    """
    import numpy as np

    wanted = np.unique(np.asarray(positions, dtype=np.int64))
    parts = _parts(wanted, 32)
    body = _MAGIC + struct.pack("<Q", len(parts))
    for high, values in parts:
        body += struct.pack("<I", high) + _bitmap_of(values)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _parts(values: Positions, bits: int) -> list[tuple[int, Positions]]:
    """Sorted values by what is above some bits, each with the rest."""
    import numpy as np

    keys, starts = np.unique(values >> bits, return_index=True)
    rests = np.split(values & ((1 << bits) - 1), starts[1:])
    return list(zip(keys.tolist(), rests, strict=True)) if len(keys) else []


def _bitmap_of(values: Positions) -> bytes:
    """A portable Roaring bitmap of 32-bit numbers without runs, as the extension writes it."""
    import numpy as np

    parts = _parts(values, 16)
    header = struct.pack("<II", _NO_RUNS, len(parts))
    containers = []
    for _, rests in parts:
        if len(rests) <= _LARGEST_ARRAY:
            containers.append(rests.astype("<u2").tobytes())
        else:
            bits = np.zeros(1 << 16, np.bool_)
            bits[rests] = True
            containers.append(np.packbits(bits, bitorder="little").tobytes())
    header += b"".join(struct.pack("<HH", key, len(rests) - 1) for key, rests in parts)
    offset = len(header) + 4 * len(parts)
    for container in containers:
        header += struct.pack("<I", offset)
        offset += len(container)
    return header + b"".join(containers)


def _bitmap(data: bytes, start: int) -> tuple[Positions, int]:
    """A portable Roaring bitmap of 32-bit numbers, and where it ends."""
    import numpy as np

    (cookie,) = struct.unpack_from("<I", data, start)
    position, runs = start + 4, b""
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = data[position : position + (count + 7) // 8]
        position += len(runs)
        has_offsets = count >= 4
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, position)
        position, has_offsets = position + 4, True
    else:
        raise ValueError("not a Roaring bitmap")
    headers = [struct.unpack_from("<HH", data, position + 4 * i) for i in range(count)]
    position += 4 * count + (4 * count if has_offsets else 0)
    found = [np.empty(0, np.int64)]
    for index, (key, cardinality) in enumerate(headers):
        base = key << 16
        if runs and runs[index // 8] >> (index % 8) & 1:
            (number,) = struct.unpack_from("<H", data, position)
            for run in range(number):
                first, length = struct.unpack_from("<HH", data, position + 2 + 4 * run)
                found.append(np.arange(base + first, base + first + length + 1, dtype=np.int64))
            position += 2 + 4 * number
        elif cardinality + 1 <= _LARGEST_ARRAY:
            found.append(np.frombuffer(data, "<u2", cardinality + 1, position).astype(np.int64) + base)
            position += 2 * (cardinality + 1)
        else:
            bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, position), bitorder="little")
            found.append(np.flatnonzero(bits).astype(np.int64) + base)
            position += 8192
    return np.concatenate(found), position
