"""Statements that change the lake or ask about it -> calls of `Lake` and `Table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ducklake_spark.sql.parse import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.lake import Lake


def execute(lake: Lake, statement: Statement, args: Mapping[str, Any] | Sequence[Any] | None) -> DataFrame:
    """Runs one statement that is no query; DML answers with one row, the number of rows."""
    raise NotImplementedError
