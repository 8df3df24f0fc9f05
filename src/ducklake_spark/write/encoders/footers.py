"""What files say of themselves: the statistics of the format from the footers of Parquet files, read by DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import duckdb

from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.statistics import ColumnStats, merge_files
from ducklake_spark.format.types import quote

_LONGEST_BOUND = 256
"""Bytes of a bound; longer ones are cut, and then an upper bound is made greater."""
_BOOLEANS = {"true": "1", "false": "0"}
_ESCAPED = re.compile(r"\\x([0-9A-F]{2})|([^\\])")


@dataclass(frozen=True)
class Footer:
    """One file: its sizes, and what its footer says of each leaf column."""

    rows: int
    size: int
    footer_size: int
    columns: tuple[ColumnStats, ...]


def read_footers(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: Sequence[ColumnDef]
) -> dict[str, Footer]:
    """By path, the footers of files whose first columns are these.

    Bounds of floats with NaN among them are not in a footer: those columns are read.
    """
    leaves = [(path, node) for column in columns for path, node in _leaves(column, quote(column.name))]
    found: dict[str, dict[int, list[ColumnStats]]] = {path: {} for path in paths}
    chunks = connection.execute(
        "SELECT file_name, column_id, num_values, stats_null_count, total_compressed_size, stats_min_value, "
        "stats_max_value FROM parquet_metadata(?) WHERE column_id < ? ORDER BY file_name, row_group_id",
        [list(paths), len(leaves)],
    )
    while batch := chunks.fetchmany(10_000):
        for name, leaf, values, nulls, size, low, high in batch:
            parts = found[name].setdefault(leaf, [])
            parts.append(_chunk_stats(leaves[leaf][1], values, nulls, size, low, high))
    sizes = connection.execute(
        "SELECT file_name, num_rows, file_size_bytes, footer_size FROM parquet_file_metadata(?)",
        [list(paths)],
    ).fetchall()
    footers = {}
    for name, rows, size, footer_size in sizes:
        merged = [merge_files(found[name][leaf], leaves[leaf][1].type) for leaf in sorted(found[name])]
        stats = _with_fractions(connection, name, leaves, merged) if rows else []
        footers[name] = Footer(rows, size, footer_size, tuple(stats))
    return footers


def _leaves(column: ColumnDef, path: str) -> Iterable[tuple[str, ColumnDef]]:
    if not column.children:
        yield path, column
    for child in column.children:
        yield from _leaves(child, f"{path}.{quote(child.name)}")


def _chunk_stats(
    column: ColumnDef, values: int, nulls: int | None, size: int, low: str | None, high: str | None
) -> ColumnStats:
    if column.type == "boolean":
        low, high = _BOOLEANS.get(low or ""), _BOOLEANS.get(high or "")
    elif column.type == "varchar":
        low, high = text_bounds(low, high)
    elif column.type == "blob":
        low, high = blob_bounds(low, high)
    nan = False if column.type in ("float32", "float64") else None
    valid = None if nulls is None else values - nulls
    return ColumnStats(column.column_id, size, valid, nulls, low, high, nan)


def text_bounds(low: str | None, high: str | None) -> tuple[str | None, str | None]:
    """Bounds of texts as the format keeps them: not too long, and none with a NUL byte.

    >>> low, high = text_bounds("a" * 300, "z" * 300)
    >>> len(low), high[-2:]
    (256, 'z{')
    """
    if low is None or high is None:
        return None, None
    first, last = low.encode(), high.encode()
    if len(last) > _LONGEST_BOUND:
        # Only a letter of one byte can be made greater and stay a letter.
        last = _cut(last).rstrip(bytes(range(0x7F, 0x100)))
        if not last:
            return None, None
        last = last[:-1] + bytes([last[-1] + 1])
    low, high = _cut(first).decode(), last.decode()
    return None if "\0" in low else low, None if "\0" in high else high


def _cut(text: bytes) -> bytes:
    return text[:_LONGEST_BOUND].decode(errors="ignore").encode() if len(text) > _LONGEST_BOUND else text


def blob_bounds(low: str | None, high: str | None) -> tuple[str | None, str | None]:
    """Bounds of bytes, from DuckDB's text to the format's hexadecimal one.

    >>> blob_bounds("a", "\\\\xFFb")
    ('61', 'FF62')
    """
    if low is None or high is None:
        return None, None
    first, last = _bytes(low), _bytes(high)
    if len(last) > _LONGEST_BOUND:
        last = last[:_LONGEST_BOUND].rstrip(b"\xff")
        if not last:
            return None, None
        last = last[:-1] + bytes([last[-1] + 1])
    return first[:_LONGEST_BOUND].hex().upper(), last.hex().upper()


def _bytes(text: str) -> bytes:
    return b"".join(
        bytes([int(code, 16)]) if code else letter.encode() for code, letter in _ESCAPED.findall(text)
    )


def _with_fractions(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    leaves: Sequence[tuple[str, ColumnDef]],
    stats: Sequence[ColumnStats],
) -> list[ColumnStats]:
    """Statistics in which floats that a footer leaves out because of NaN have their bounds."""
    result = list(stats)
    for i, (sql, column) in enumerate(leaves):
        found = stats[i]
        silent = found.min_value is None or found.max_value is None
        if column.type in ("float32", "float64") and silent and not found.all_null:
            row = first_row(
                connection.execute(
                    f"SELECT bool_or(isnan(v)), min(v) FILTER (NOT isnan(v))::VARCHAR, "
                    f"max(v) FILTER (NOT isnan(v))::VARCHAR FROM (SELECT {sql} AS v FROM read_parquet(?))",
                    [path],
                )
            )
            assert row is not None
            result[i] = ColumnStats(
                column.column_id,
                found.column_size_bytes,
                found.value_count,
                found.null_count,
                row[1],
                row[2],
                row[0],
            )
    return result
