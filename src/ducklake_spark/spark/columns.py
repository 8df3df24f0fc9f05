"""Columns of DataFrames with few calls to the JVM.

PySpark makes a dozen calls for each method of a `Column`, to note where in Python it was called. SQL text is one call,
whatever it says. A list of texts is a call for each of them; here it travels as one text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
    frame = frame.withColumns(given) if given else frame
    if not hasattr(frame, "_jdf"):
        return frame.selectExpr(*texts)
    return DataFrame(frame._jdf.selectExpr(_texts(frame, texts)), frame.sparkSession)


def renamed(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """`frame.toDF` with these names."""
    if not hasattr(frame, "_jdf"):
        return frame.toDF(*names)
    return DataFrame(frame._jdf.toDF(_texts(frame, names)), frame.sparkSession)


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


def _texts(frame: DataFrame, texts: Sequence[str]) -> Any:
    """Texts as a Seq of the JVM's."""
    jvm: Any = frame.sparkSession.sparkContext._jvm
    mapper: Any = getattr(jvm, "com.fasterxml.jackson.databind.ObjectMapper")()
    kind: Any = getattr(jvm, "java.lang.Class").forName("java.util.ArrayList")
    return jvm.PythonUtils.toSeq(mapper.readValue(json.dumps(list(texts)), kind))
