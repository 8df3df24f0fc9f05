"""Two lakes on SQLite: one for the extension, one for us. The extension looks at both after each statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import ducklake_spark
from tests.interop.oracle import Oracle, OracleError


class Twins:
    """Runs statements of DuckDB's dialect on both lakes."""

    def __init__(self, oracle: Oracle, lake: ducklake_spark.Lake) -> None:
        self.oracle, self.lake = oracle, lake

    def run(self, sql: str) -> tuple[Any, Any]:
        """The rows of both answers, or both errors."""
        theirs: Any
        ours: Any
        try:
            theirs = self.oracle.execute(sql)
        except OracleError as error:
            theirs = error
        try:
            ours = [tuple(row) for row in self.lake.sql(sql, dialect="duckdb").collect()]
        except ducklake_spark.DuckLakeError as error:
            ours = error
        return theirs, ours

    def same(self, sql: str, tables: Sequence[str] = ()) -> None:
        """Both give the same answer, and afterwards the tables have the same rows."""
        theirs, ours = self.run(sql)
        assert not isinstance(theirs, OracleError), theirs
        assert ours == theirs, sql
        for table in tables:
            self.same_rows(table, sql)

    def refused(self, sql: str) -> str:
        """Both refuse it; our reason."""
        theirs, ours = self.run(sql)
        assert isinstance(theirs, OracleError), f"the extension accepts {sql}"
        assert isinstance(ours, ducklake_spark.DuckLakeError), f"we accept {sql}"
        return str(ours)

    def same_rows(self, table: str, why: str = "") -> None:
        """The table has the same rows in both lakes, as the extension reads them."""
        theirs, ours = (
            self.oracle.execute(f"SELECT * FROM {lake}.{table} ORDER BY ALL") for lake in ("lake", "ours")
        )
        assert ours == theirs, why


@contextmanager
def twins(oracle: Oracle, spark: SparkSession, folder: Path) -> Iterator[Twins]:
    """Two empty lakes; both are called `lake` by those who write to them."""
    oracle.attach(f"ducklake:sqlite:{folder / 'theirs.sqlite'}", data_path=str(folder / "theirs"))
    uri = f"ducklake:sqlite:{folder / 'ours.sqlite'}"
    with ducklake_spark.attach(uri, spark=spark, name="lake", data_path=str(folder / "ours")) as lake:
        oracle.attach(uri, name="ours", use=False)
        yield Twins(oracle, lake)
    oracle.detach()
