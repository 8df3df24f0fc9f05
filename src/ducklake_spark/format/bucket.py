"""The hash of `bucket(N)`: murmur3 over bytes that depend on the type as DuckDB stores it. Pure."""

from __future__ import annotations

import struct
from decimal import Decimal as Number
from typing import Any

from ducklake_spark.format.types import DataType, Decimal, Scalar

_AS_TEXT = frozenset({"uint8", "uint16", "uint32", "uint64", "int128", "uint128", "uuid"})
_AS_BYTES = frozenset({"varchar", "json", "blob"})
_UNHASHED = frozenset({"interval", "list", "struct", "map", "variant", "geometry", "timetz", "time_ns"})
_UNITS = {"timestamp_s": 1_000_000, "timestamp_ms": 1_000}


def murmur3(data: bytes) -> int:
    """MurmurHash3 x86 32 with seed 0, unsigned.

    >>> murmur3(b"iceberg")
    1210000089
    """
    mask, value = 0xFFFFFFFF, 0

    def mixed(block: int) -> int:
        block = block * 0xCC9E2D51 & mask
        return (block << 15 | block >> 17) * 0x1B873593 & mask

    end = len(data) // 4 * 4
    for (block,) in struct.iter_unpack("<I", data[:end]):
        value ^= mixed(block)
        value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & mask
    if end < len(data):
        value ^= mixed(int.from_bytes(data[end:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & mask
    value = (value ^ value >> 13) * 0xC2B2AE35 & mask
    return (value ^ value >> 16) & mask


def bucket(value: Any, data_type: DataType, buckets: int) -> int | None:
    """The bucket of a value; None for types whose hash is not known here.

    Args:
        value: An integer (dates in days, times in microseconds, `timestamp_ns` in nanoseconds), a Decimal, a float,
            text or bytes.
        data_type: The column's type.
        buckets: N of `bucket(N)`.

    >>> bucket(34, Scalar("int32"), 16)
    3
    """
    hashed = _bytes(value, data_type)
    return None if hashed is None else (murmur3(hashed) & 0x7FFFFFFF) % buckets


def _bytes(value: Any, data_type: DataType) -> bytes | None:
    match data_type:
        case Decimal(precision, scale):
            exact = Number(value).scaleb(scale)
            if exact != exact.to_integral_value():
                return None
            if precision > 18:
                return f"{Number(value):.{scale}f}".encode()
            return struct.pack("<q", int(exact))
        case Scalar("float32" | "float64"):
            return struct.pack("<d", 0.0 if value == 0 else value)
        case Scalar(name) if name in _AS_BYTES:
            return value.encode() if isinstance(value, str) else bytes(value)
        case Scalar(name) if name in _AS_TEXT:
            return str(value).encode()
        case _ if data_type.name in _UNHASHED:
            return None
        case _:
            return struct.pack("<q", int(value) // _UNITS.get(data_type.name, 1))
