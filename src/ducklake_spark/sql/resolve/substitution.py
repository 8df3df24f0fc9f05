"""Text that Spark reads as it is: `${name}` in it is not replaced by a setting of the session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING = "spark.sql.variable.substitute"


@contextmanager
def as_written(spark: SparkSession, text: str) -> Iterator[None]:
    """Lets Spark read the text without putting settings into it, which values and names must not be able to ask for.

    The setting is the session's, so it is touched only for the rare text that has `${` in it.
    """
    if "${" not in text:
        yield
        return
    before = spark.conf.get(_SETTING, "true")
    spark.conf.set(_SETTING, "false")
    try:
        yield
    finally:
        spark.conf.set(_SETTING, str(before))
