"""What users may give as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ArrowStream(Protocol):
    """Columns as Arrow passes them on: tables of Arrow, pandas, Polars, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream of the columns."""


RowSource = Union["DataFrame", ArrowStream, Iterable[Union[Mapping[str, Any], Sequence[Any]]]]  # noqa: UP007
"""A DataFrame of Spark; a table of Arrow or pandas, or what passes on its columns as they do; dicts, tuples or Rows."""
