"""The functions of the extension, in CALL and in FROM: one registry, and how each becomes a call of the lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.lake import Lake


def call(lake: Lake, name: str, positional: Sequence[Any], named: Mapping[str, Any]) -> DataFrame:
    """Calls a function of the lake with values, not expressions.

    Args:
        lake: The lake that the function is about.
        name: `ducklake_snapshots` or `snapshots`; the first has the lake's name as its first argument.
        positional: Values in order.
        named: Values by parameter name.
    """
    raise NotImplementedError
