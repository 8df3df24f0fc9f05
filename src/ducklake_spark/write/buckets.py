"""The bucket hash over whole columns: in a worker as functions of its DuckDB connection."""

from __future__ import annotations

import re
import struct
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ducklake_spark.format.bucket import murmur3
from ducklake_spark.format.types import DataType, Decimal

Numbers = npt.NDArray[Any]

_WHOLE_NUMBERS = frozenset({"boolean", "int8", "int16", "int32", "int64"})
_LONG_DECIMAL = 18
"""Decimals with more digits are hashed as text."""
_TIMETZ = re.compile(r"(\d+):(\d\d):(\d\d)(?:\.(\d+))?([+-])(\d+)(?::(\d\d))?(?::(\d\d))?\Z")
_LAST_OFFSET = 16 * 3600 - 1
"""DuckDB keeps a time zone's offset as its distance from the greatest one."""
_LONG_TEXT = 256
"""Longer values are hashed one by one: a loop over blocks pays off only while many values have them."""


def bucket_sql(expression: str, data_type: DataType, count: int) -> str:
    """DuckDB SQL for the bucket of a value; the connection needs `register`."""
    return f"({_hash_sql(expression, data_type)} & 2147483647) % {count}"


def _hash_sql(expression: str, data_type: DataType) -> str:
    name = data_type.name
    if isinstance(data_type, Decimal) and data_type.precision <= _LONG_DECIMAL:
        # The text without the point is the unscaled number, whatever the precision.
        return f"murmur3_of_long(CAST(replace(CAST({expression} AS VARCHAR), '.', '') AS BIGINT))"
    if name in _WHOLE_NUMBERS:
        return f"murmur3_of_long(CAST({expression} AS BIGINT))"
    if name in ("float32", "float64"):
        return f"murmur3_of_double(CAST({expression} AS DOUBLE))"
    if name == "date":
        return f"murmur3_of_long({expression} - DATE '1970-01-01')"
    if name == "timestamp_s":
        return f"murmur3_of_long(epoch_us({expression}) // 1000000)"
    if name == "timestamp_ms":
        return f"murmur3_of_long(epoch_ms({expression}))"
    if name == "timestamp_ns":
        return f"murmur3_of_long(epoch_ns({expression}))"
    if name in ("timestamp", "timestamptz", "time"):
        return f"murmur3_of_long(epoch_us({expression}))"
    if name == "timetz":
        return f"murmur3_of_timetz(CAST({expression} AS VARCHAR))"
    if name == "blob":
        return f"murmur3_of_bytes({expression})"
    return f"murmur3_of_bytes(encode(CAST({expression} AS VARCHAR)))"


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes the functions that `bucket_sql` uses."""
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
