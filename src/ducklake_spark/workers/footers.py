"""Footers of Parquet files, read by DuckDB: many at once, in the driver or in Spark's tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

_AT_ONCE = 200
"""Files of one query: enough that it pays, few enough that a damaged one is found quickly."""
_QUERY = """
SELECT x.f.file_name, x.f.num_rows, x.f.file_size_bytes, x.f.footer_size, x.f.encryption_algorithm,
  list_transform(x.s, lambda node: [node.name, node.num_children::VARCHAR, node.type, node.converted_type,
    node.logical_type, node.precision::VARCHAR, node.scale::VARCHAR, node.repetition_type, node.duckdb_type]),
  list_transform(x.m, lambda chunk: [chunk.column_id::VARCHAR, chunk.num_values::VARCHAR,
    chunk.stats_null_count::VARCHAR, chunk.total_compressed_size::VARCHAR, chunk.stats_min_value, chunk.stats_max_value,
    chunk.stats_min, chunk.stats_max, to_json(chunk.geo_bbox)::VARCHAR, to_json(chunk.geo_types)::VARCHAR]),
  list_filter(x.k, lambda pair: pair.key = 'geo'::BLOB)[1].value
FROM (SELECT parquet_file_metadata[1] AS f, parquet_schema AS s, parquet_metadata AS m, parquet_kv_metadata AS k
  FROM parquet_full_metadata(?)) AS x
"""


@dataclass(frozen=True)
class RawFooter:
    """What a file says of itself, in DuckDB's words.

    Attributes:
        schema: Nodes in order: name, number of children, physical, converted and logical type, precision, scale,
            repetition, and the type that DuckDB reads.
        chunks: For each column of each row group: the column's number, values, NULLs, bytes, bounds, deprecated bounds,
            and the box and kinds of geometries as JSON.
        error: Why it cannot be read; then nothing else is known.
    """

    path: str
    rows: int = 0
    size: int = 0
    footer_size: int = 0
    schema: tuple[tuple[Any, ...], ...] = ()
    chunks: tuple[tuple[Any, ...], ...] = ()
    error: str | None = None


def read_footers(paths: Sequence[str]) -> list[RawFooter]:
    """The footers of files of this machine, in order."""
    found: list[RawFooter] = []
    for first in range(0, len(paths), _AT_ONCE):
        some = paths[first : first + _AT_ONCE]
        try:
            found += _read(some)
        except duckdb.Error as error:
            # One of them is damaged: each by itself tells which.
            found += [_read_one(path) for path in some] if len(some) > 1 else [_failed(some[0], error)]
    return found


def _read_one(path: str) -> RawFooter:
    try:
        return _read([path])[0]
    except duckdb.Error as error:
        return _failed(path, error)


def _read(paths: Sequence[str]) -> list[RawFooter]:
    # A new one each time: a footer that makes no sense can end a DuckDB for good.
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.execute(_QUERY, [[_literal(path) for path in paths]]).fetchall()
    read = {row[0]: row for row in rows}
    return [_footer(path, read[path]) for path in paths]


def _footer(path: str, row: tuple[Any, ...]) -> RawFooter:
    _, count, size, footer_size, encryption, schema, chunks, geo = row
    if encryption is not None:
        return RawFooter(path, error="it is encrypted")
    return RawFooter(
        path,
        int(count),
        int(size),
        int(footer_size),
        tuple(_with_geometry(map(tuple, schema), geo)),
        tuple(map(tuple, chunks)),
    )


def _with_geometry(schema: Iterable[tuple[Any, ...]], geo: bytes | None) -> Iterator[tuple[Any, ...]]:
    """The schema of a GeoParquet file, whose geometries are bytes that only a remark in the footer tells of."""
    try:
        names = set(json.loads(geo)["columns"]) if geo else set()
    except (ValueError, TypeError, KeyError):
        names = set()
    for node in schema:
        yield (*node[:-1], "GEOMETRY") if node[0] in names and node[2] == "BYTE_ARRAY" else node


def _failed(path: str, error: duckdb.Error) -> RawFooter:
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            size = file.tell()
            file.seek(max(0, size - 4))
            end = file.read(4)
    except OSError as problem:
        return RawFooter(path, error=f"it cannot be read ({problem.strerror})")
    if end == b"PARE":
        return RawFooter(path, error="it is encrypted")
    if size < 12 or end != b"PAR1":
        return RawFooter(path, error="it is not a Parquet file, or it was cut off")
    said = " ".join(str(error).split())
    return RawFooter(path, error=f"its footer is damaged ({said[:120]})")


def _literal(path: str) -> str:
    """A path in which nothing is a pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


@dataclass(frozen=True)
class ReadFooters:
    """Reads footers in the workers: a column of paths becomes a column of JSON."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            footers = read_footers(batch.column(0).to_pylist())
            texts = [json.dumps(footer.__dict__) for footer in footers]
            yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["footer"])


def from_json(text: str) -> RawFooter:
    """A footer as the workers send it."""
    parts = json.loads(text)
    for name in ("schema", "chunks"):
        parts[name] = tuple(map(tuple, parts[name]))
    return RawFooter(**parts)
