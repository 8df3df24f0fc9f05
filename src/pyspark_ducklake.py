"""Where Spark looks for Python data sources by itself: top-level modules `pyspark_...` with a `DefaultSource`.

Every session looks once, also those that never read a lake, so that nothing is imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceWriter
    from pyspark.sql.types import StructType

    from ducklake_spark.api.python_source import DuckLakeSource


class DefaultSource(DataSource):
    """`format("ducklake")`: see `ducklake_spark.api.python_source`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._made: DuckLakeSource | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "ducklake"

    def _source(self) -> DuckLakeSource:
        if self._made is None:
            from ducklake_spark.api.python_source import DuckLakeSource

            self._made = DuckLakeSource(self.options)
        return self._made

    def schema(self) -> StructType:
        """The columns."""
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads a table, or its changes."""
        return self._source().reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes rows to a table."""
        return self._source().writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> Any:
        """Refuses."""
        return self._source().streamReader(schema)

    def simpleStreamReader(self, schema: StructType) -> Any:
        """Refuses."""
        return self._source().simpleStreamReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """Refuses."""
        return self._source().streamWriter(schema, overwrite)
