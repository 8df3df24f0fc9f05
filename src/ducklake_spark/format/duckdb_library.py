"""What the releases of DuckDB want of a library that keeps databases open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

_MAJOR = int(duckdb.__version__.split(".", 1)[0])
NO_THREADS: dict[str, Any] = {"threads": 1} if _MAJOR < 2 else {"threads": 1, "async_threads": 0}
"""Settings of a database that this process keeps: no thread of its own.

DuckDB 2 starts threads for reading and writing. A forked child inherits a database without its threads, and crashes at
its end, when the database waits for them.
"""


def arrow_table(connection: duckdb.DuckDBPyConnection, sql: str, params: Sequence[Any] | None = None) -> Any:
    """The rows of a query as a table of Arrow.

    DuckDB 2 warns of the way that DuckDB 1 has for it, which copies rows there.
    """
    return _arrow_source(connection, sql, params).to_arrow_table()


def arrow_reader(connection: duckdb.DuckDBPyConnection, sql: str, batch_rows: int) -> Any:
    """The same in batches."""
    return _arrow_source(connection, sql, None).to_arrow_reader(batch_rows)


def _arrow_source(connection: duckdb.DuckDBPyConnection, sql: str, params: Sequence[Any] | None) -> Any:
    if _MAJOR < 2:
        return connection.execute(sql) if params is None else connection.execute(sql, params)
    return connection.sql(sql, params=params)
