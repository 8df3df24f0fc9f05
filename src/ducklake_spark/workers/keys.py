"""Partition keys of rows that Spark cannot compute itself, as columns beside the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from ducklake_spark.format.duckdb_library import arrow_table
from ducklake_spark.workers.buckets import register


@dataclass(frozen=True)
class AddBuckets:
    """Adds the numbers of buckets to the rows in the workers, for types whose hash Spark cannot compute."""

    columns: tuple[tuple[str, str], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection = duckdb.connect(":memory:", config={"threads": 1})
        connection.execute("SET TimeZone = 'UTC'")
        register(connection)
        asked = ", ".join(f"CAST({sql} AS INTEGER) AS {name}" for name, sql in self.columns)
        for batch in batches:
            connection.register("arriving", batch)
            found = arrow_table(connection, f"SELECT {asked} FROM arriving")
            arrays = [*batch.columns, *(column.combine_chunks() for column in found.columns)]
            arrays = [
                pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
                for array in arrays
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, *found.column_names])
        connection.close()


@dataclass(frozen=True)
class AddKeyTexts:
    """Adds the texts of partition keys to the rows, in the workers, as the encoder computes them."""

    kept: tuple[str, ...]
    """The first arriving columns, which stay; the others are dropped."""
    columns: tuple[tuple[str, str], ...]
    """Quoted names and SQL of the columns that the keys are made of."""
    keys: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stored = ", ".join(f"{sql} AS {name}" for name, sql in self.columns)
        keys = ", ".join(f"{sql} AS k{i}" for i, sql in enumerate(self.keys))
        with duckdb.connect(":memory:", config={"threads": 1}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            register(connection)
            for batch in batches:
                connection.register("arriving", batch)
                found = arrow_table(connection, f"SELECT {keys} FROM (SELECT {stored} FROM arriving)")
                arrays = [
                    *batch.columns[: len(self.kept)],
                    *(
                        pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
                        for column in found.columns
                    ),
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=[*self.kept, *found.column_names])
