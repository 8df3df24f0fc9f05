"""Columns of DataFrames with few calls to the JVM.

PySpark makes a dozen calls for each method of a `Column`, to note where in Python it was called. SQL text is one call,
whatever it says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame

from ducklake_spark.format.names import ticked

Value = Column | str
"""A column, or SQL text."""
_GIVEN = "__ducklake_given_"


def selected(frame: DataFrame, values: Iterable[tuple[str, Value]]) -> DataFrame:
    """`frame.select` of these values under these names."""
    given: dict[str, Column] = {}
    texts = []
    for name, value in values:
        if isinstance(value, Column):
            text = f"{_GIVEN}{len(given)}"
            given[text] = value
        else:
            text = value
        texts.append(f"{text} AS {ticked(name)}")
    return (frame.withColumns(given) if given else frame).selectExpr(*texts)


def selected_with(frame: DataFrame, values: Iterable[tuple[str, Value, Mapping[str, Any]]]) -> DataFrame:
    """The same of a classic DataFrame, with metadata for each column."""
    jvm: Any = frame.sparkSession.sparkContext._jvm
    types: Any = getattr(jvm, "org.apache.spark.sql.types.Metadata")
    expr, metadata_of = jvm.functions.expr, types.fromJson
    columns = []
    for name, value, metadata in values:
        column = expr(value) if isinstance(value, str) else value._jc
        columns.append(getattr(column, "as")(name, metadata_of(json.dumps(metadata))))
    return DataFrame(frame._jdf.select(jvm.PythonUtils.toSeq(columns)), frame.sparkSession)
