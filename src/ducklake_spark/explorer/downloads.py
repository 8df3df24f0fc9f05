"""The rows of a DataFrame as the bytes of a file: however many there are, those of one partition are here at once."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_spark.api.frame_values import plain_rows, readable
from ducklake_spark.api.values import plain_text
from ducklake_spark.spark.worker_functions import map_in_arrow
from ducklake_spark.workers.arrow_stream import serialized

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CHUNK = 1 << 16


def csv_lines(frame: DataFrame) -> Iterator[bytes]:
    """The rows as CSV with a head, as `ducklake-spark sql --format csv` writes them."""
    types = [field.dataType for field in frame.schema.fields]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame.columns)
    if types:
        for row in plain_rows(readable(frame).toLocalIterator(), types):
            writer.writerow([plain_text(value) for value in row])
            if text.tell() > _CHUNK:
                yield text.getvalue().encode()
                text.seek(0)
                text.truncate()
    yield text.getvalue().encode()


def parquet_bytes(frame: DataFrame) -> Iterator[bytes]:
    """The rows as one Parquet file, which is written to a temporary place first."""
    with tempfile.TemporaryDirectory(prefix="ducklake-explorer-") as folder:
        path = os.path.join(folder, "result.parquet")
        _write(frame, path)
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk


def _write(frame: DataFrame, path: str) -> None:
    names = frame.columns
    arrow = _arrow_ready(frame)
    batches = map_in_arrow(arrow, serialized, "batch binary").toLocalIterator()
    writer: pq.ParquetWriter | None = None
    try:
        for row in batches:
            with pa.ipc.open_stream(row[0]) as reader:
                for batch in reader:
                    named = pa.RecordBatch.from_arrays(batch.columns, names=_unique(names))
                    if writer is None:
                        writer = pq.ParquetWriter(path, named.schema, compression="zstd")
                    writer.write_batch(named)
        if writer is None:
            empty = arrow.limit(0).toArrow()
            pq.write_table(empty.rename_columns(_unique(names)), path)
    finally:
        if writer is not None:
            writer.close()


def _arrow_ready(frame: DataFrame) -> DataFrame:
    """The frame with columns `c0`, `c1` ...; types that Arrow lacks are texts."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    lacking = tuple(
        found
        for name in ("VariantType", "CalendarIntervalType", "YearMonthIntervalType", "NullType", "TimeType")
        if (found := getattr(T, name, None)) is not None
    )
    kinds = [field.dataType for field in frame.schema.fields]
    plain = frame.toDF(*(f"c{place}" for place in range(len(kinds))))
    return plain.select(
        *(
            F.col(name).cast("string").alias(name) if isinstance(kind, lacking) else F.col(name)
            for name, kind in zip(plain.columns, kinds, strict=True)
        )
    )


def _unique(names: list[str]) -> list[str]:
    """Names that a file can have: those that repeat get a number."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found
