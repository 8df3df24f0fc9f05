"""An expression that only DuckDB can evaluate, over batches of columns: the body of an Arrow UDF."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from ducklake_spark.format.duckdb_library import arrow_table

_open: dict[tuple[str, ...], duckdb.DuckDBPyConnection] = {}
"""The databases of this worker by their settings: to open one costs more than to evaluate a batch."""


@dataclass(frozen=True)
class DuckDBExpression:
    """Evaluates one expression.

    Args:
        settings: Statements that DuckDB runs first.
        sql: A query of one column over the table `ducklake_rows`, whose columns are c0, c1 and so on.
        result: The type that Spark wants.
    """

    settings: tuple[str, ...]
    sql: str
    result: pa.DataType

    def __call__(self, *columns: pa.Array) -> pa.Array:
        names = [f"c{place}" for place in range(len(columns))]
        connection = _connection(self.settings)
        connection.register("ducklake_rows", pa.Table.from_arrays(list(columns), names=names))
        try:
            found = arrow_table(connection, self.sql).column(0)
        finally:
            connection.unregister("ducklake_rows")
        made = found.combine_chunks()
        whole = pa.concat_arrays(made.chunks) if isinstance(made, pa.ChunkedArray) else made
        return whole if whole.type == self.result else whole.cast(self.result)


def _connection(settings: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    if settings not in _open:
        connection = duckdb.connect(":memory:", config={"threads": 1})
        for setting in settings:
            connection.execute(setting)
        _open[settings] = connection
    return _open[settings]
