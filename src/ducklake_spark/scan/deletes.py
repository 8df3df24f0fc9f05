"""Deletion vectors: a bitmap of deleted positions in a file of its own (format `puffin`). Pure bytes."""

from __future__ import annotations

import struct
import zlib

from ducklake_spark.errors import DuckLakeError

_MAGIC = b"\xd1\xd3\x39\x64"
_NO_RUNS, _WITH_RUNS = 12346, 12347


def vector_positions(data: bytes, where: str) -> list[int]:
    """The positions in a deletion vector.

    >>> vector_positions(bytes.fromhex(
    ...     "00000026d1d33964010000000000000000000000"
    ...     "3a300000010000000000020010000000000001000200748ad0d0"), "x")
    [0, 1, 2]

    Raises:
        DuckLakeError: The bytes are not a deletion vector.
    """
    try:
        return bitmap_positions(data)
    except ValueError as error:
        raise DuckLakeError(f"The deletion vector {where} is damaged: {error}.") from error


def bitmap_positions(data: bytes) -> list[int]:
    """The same for workers, which do not have the package's errors: damage is a ValueError."""
    try:
        length = int.from_bytes(data[:4], "big")
        body, checksum = data[4 : 4 + length], data[4 + length : 8 + length]
        if body[:4] != _MAGIC or zlib.crc32(body) != int.from_bytes(checksum, "big"):
            raise ValueError("wrong magic or checksum")
        (count,) = struct.unpack_from("<Q", body, 4)
        position, found = 12, []
        for _ in range(count):
            (high,) = struct.unpack_from("<I", body, position)
            values, position = _bitmap(body, position + 4)
            found += [high << 32 | value for value in values]
        return found
    except struct.error as error:
        raise ValueError(str(error)) from error


def _bitmap(data: bytes, start: int) -> tuple[list[int], int]:
    """A portable Roaring bitmap of 32-bit numbers, and where it ends."""
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
    found: list[int] = []
    for index, (key, cardinality) in enumerate(headers):
        base = key << 16
        if runs and runs[index // 8] >> (index % 8) & 1:
            (number,) = struct.unpack_from("<H", data, position)
            for run in range(number):
                first, length = struct.unpack_from("<HH", data, position + 2 + 4 * run)
                found.extend(range(base + first, base + first + length + 1))
            position += 2 + 4 * number
        elif cardinality + 1 <= 4096:
            found += [base + value for value in struct.unpack_from(f"<{cardinality + 1}H", data, position)]
            position += 2 * (cardinality + 1)
        else:
            words = struct.unpack_from("<1024Q", data, position)
            for word_index, word in enumerate(words):
                while word:
                    found.append(base + word_index * 64 + (word & -word).bit_length() - 1)
                    word &= word - 1
            position += 8192
    return found, position
