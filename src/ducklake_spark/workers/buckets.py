"""The bucket hash over whole columns, as functions of a worker's DuckDB connection; `bucket_sql` calls them."""

from __future__ import annotations

import re
import struct
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ducklake_spark.format.bucket import murmur3

Numbers = npt.NDArray[Any]

_TIMETZ = re.compile(r"(\d+):(\d\d):(\d\d)(?:\.(\d+))?([+-])(\d+)(?::(\d\d))?(?::(\d\d))?\Z")
_LAST_OFFSET = 16 * 3600 - 1
"""DuckDB keeps a time zone's offset as its distance from the greatest one."""
_LONG_TEXT = 256
"""Longer values are hashed one by one: a loop over blocks pays off only while many values have them."""


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes the functions that the SQL of a bucket uses."""
    functions = (
        ("murmur3_of_long", lambda values: hash_longs(_numbers(values, np.int64)), "BIGINT"),
        ("murmur3_of_double", lambda values: hash_doubles(_numbers(values, np.float64)), "DOUBLE"),
        ("murmur3_of_bytes", hash_bytes, "BLOB"),
        ("murmur3_of_timetz", _hash_timetz, "VARCHAR"),
    )
    for name, function, parameter in functions:
        connection.create_function(name, _per_chunk(function), [parameter], "INTEGER", type="arrow")  # type: ignore[call-overload]  # the stubs do not know the kind


def _per_chunk(function: Any) -> Any:
    def hashed(values: pa.ChunkedArray) -> pa.Array:
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
        return pa.array(function(array), type=pa.int32(), mask=np.asarray(array.is_null()))

    return hashed


def _numbers(values: pa.Array, kind: Any) -> Numbers:
    return np.asarray(values.fill_null(0)).astype(kind, copy=False)


def hash_doubles(values: Numbers) -> Any:
    """The hashes of doubles; minus zero counts as zero."""
    return hash_longs((values + 0.0).view(np.int64))


def hash_longs(values: Numbers) -> Any:
    """The hashes of 64-bit numbers."""
    bits = values.view(np.uint64)
    state = np.zeros(len(values), dtype=np.uint32)
    for block in (bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)):
        state = _with_block(state, block.astype(np.uint32))
    return _finished(state, np.uint32(8))


def hash_bytes(values: pa.Array) -> Any:
    """The hashes of texts of bytes: block after block for all values that still have one."""
    array = values.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    # Three bytes more, so that a tail can be read as if it were a block.
    data = np.concatenate([np.frombuffer(data_buffer or b"", dtype=np.uint8), np.zeros(4, dtype=np.uint8)])
    starts, lengths = offsets[:-1], np.diff(offsets)
    long = lengths > _LONG_TEXT
    state = np.zeros(len(lengths), dtype=np.uint32)
    blocks = np.where(long, 0, lengths // 4)
    for number in range(int(blocks.max(initial=0))):
        active = np.flatnonzero(blocks > number)
        state[active] = _with_block(state[active], _block(data, starts[active] + 4 * number))
    tails = lengths % 4
    rest = _block(data, starts + lengths - tails) & (
        (np.uint32(1) << (8 * tails).astype(np.uint32)) - np.uint32(1)
    )
    hashed = _finished(state ^ _mixed(rest), lengths.astype(np.uint32))
    for i in np.flatnonzero(long):
        hashed[i] = _signed(murmur3(data[starts[i] : starts[i] + lengths[i]].tobytes()))
    return hashed


def _block(data: Numbers, starts: Numbers) -> Numbers:
    block = np.zeros(len(starts), dtype=np.uint32)
    for byte in range(4):
        block |= data[starts + byte].astype(np.uint32) << np.uint32(8 * byte)
    return block


def _mixed(block: Numbers) -> Any:
    block = block * np.uint32(0xCC9E2D51)
    return (block << np.uint32(15) | block >> np.uint32(17)) * np.uint32(0x1B873593)


def _with_block(state: Numbers, block: Numbers) -> Any:
    state = state ^ _mixed(block)
    return (state << np.uint32(13) | state >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(state: Any, length: Any) -> Any:
    state = state ^ length
    state = (state ^ state >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    state = (state ^ state >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (state ^ state >> np.uint32(16)).view(np.int32)


def _hash_timetz(values: pa.Array) -> list[int]:
    return [
        0 if text is None else _signed(murmur3(struct.pack("<q", _bits(text)))) for text in values.to_pylist()
    ]


def _bits(text: str) -> int:
    """A time with its zone as DuckDB keeps it: microseconds, then the offset."""
    match = _TIMETZ.match(text)
    assert match is not None, text
    hours, minutes, seconds, fraction, sign, *offset = match.groups()
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 10**6 + int(f"{fraction or '':0<6}")
    zone = sum(int(part or 0) * unit for part, unit in zip(offset, (3600, 60, 1), strict=True))
    return (micros << 24) + _LAST_OFFSET - (-zone if sign == "-" else zone)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
