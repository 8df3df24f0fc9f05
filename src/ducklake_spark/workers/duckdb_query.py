"""A query that only DuckDB can answer, in one task: the rows of its tables come in, the rows of its answer go out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_spark.format.duckdb_library import arrow_reader

TAG = "ducklake_tag"
"""Says which table a row belongs to."""
NO_TABLE = -1
"""The tag of a row of no table, which is there so that a task runs where all tables are empty."""


@dataclass(frozen=True)
class Input:
    """A table of the query.

    Args:
        name: Its name in the query.
        schema: Its columns as Spark gives them.
        select: What DuckDB makes of these columns.
    """

    name: str
    schema: pa.Schema
    select: str


@dataclass(frozen=True)
class DuckDBQuery:
    """Runs in one task. Rows beyond the memory of DuckDB go to files of the worker while it computes."""

    settings: tuple[str, ...]
    inputs: tuple[Input, ...]
    sql: str
    result: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with tempfile.TemporaryDirectory(prefix="ducklake_query_") as folder:
            connection = duckdb.connect(":memory:", config={"threads": 1})
            try:
                connection.execute("SET temp_directory = '" + folder.replace("'", "''") + "'")
                for setting in self.settings:
                    connection.execute(setting)
                self._fill(connection, batches)
                reader = arrow_reader(connection, self.sql, 10_000)
                for batch in reader:
                    if batch.num_rows:
                        yield _as(batch, self.result)
            finally:
                connection.close()

    def _fill(self, connection: duckdb.DuckDBPyConnection, batches: Iterable[pa.RecordBatch]) -> None:
        for place, table in enumerate(self.inputs):
            connection.register("ducklake_rows", table.schema.empty_table())
            connection.execute(f"CREATE TABLE ducklake_table{place} AS FROM ducklake_rows")
            connection.unregister("ducklake_rows")
            connection.execute(
                f'CREATE VIEW "{table.name}" AS SELECT {table.select} FROM ducklake_table{place}'
            )
        for batch in batches:
            for place in range(len(self.inputs)):
                rows = self._own_rows(batch, place)
                if rows.num_rows:
                    connection.register("ducklake_rows", rows)
                    connection.execute(f"INSERT INTO ducklake_table{place} FROM ducklake_rows")
                    connection.unregister("ducklake_rows")

    def _own_rows(self, batch: pa.RecordBatch, place: int) -> pa.Table:
        rows = pa.Table.from_batches([batch])
        schema = self.inputs[place].schema
        if len(self.inputs) > 1:
            rows = rows.filter(pc.equal(rows.column(TAG), place)).select([f"t{place}"])
            rows = rows.flatten() if rows.num_rows else schema.empty_table()
        elif TAG in rows.column_names:
            tags = rows.column(TAG)
            if rows.num_rows and pc.min(tags).as_py() == NO_TABLE:
                rows = rows.filter(pc.equal(tags, place))
            rows = rows.drop_columns([TAG])
        return pa.Table.from_arrays(rows.columns, names=schema.names) if rows.num_rows else rows


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with exactly these types, as Spark wants them."""
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)
