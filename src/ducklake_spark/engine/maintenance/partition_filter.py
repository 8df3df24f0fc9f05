"""Conditions on partitions: which files a compaction may take, by the partition values that the catalog has of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import InvalidInputError, shortened
from ducklake_spark.format.compaction import Candidate
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import TableDef
from ducklake_spark.scan.projection.types import TypeChoices, user_type
from ducklake_spark.write.rowlevel.assignments import require_condition


def in_partitions(scope: Scope, table: TableDef, files: Iterable[Candidate], where: Any) -> list[Candidate]:
    """The files of the table's present partitions for which a condition on their values is true.

    Raises:
        InvalidInputError: The table has no such partitions, or the condition speaks of something else.
    """
    require_condition(where, f'the compaction of table "{table.name}"')
    partitioning = table.partitioning
    names = {column.column_id: column for column in table.columns}
    keys = [
        (index, names[key.column_id])
        for index, key in enumerate(partitioning.keys if partitioning is not None else ())
        if key.transform == "identity"
    ]
    if partitioning is None or not keys:
        raise InvalidInputError(
            f'Table "{table.name}" is not partitioned by values of columns, so a compaction of it takes no condition. '
            "Leave `where` out."
        )
    present = [file for file in files if file.partition_id == partitioning.partition_id]
    values = list(dict.fromkeys(tuple(file.partition_values[i] for i, _ in keys) for file in present))
    chosen = set(_matching(scope, table, [column for _, column in keys], values, where))
    return [file for file in present if tuple(file.partition_values[i] for i, _ in keys) in chosen]


def _matching(
    scope: Scope,
    table: TableDef,
    columns: Sequence[Any],
    values: Sequence[tuple[str | None, ...]],
    where: Any,
) -> list[tuple[str | None, ...]]:
    """The values for which the condition is true. As few as partitions, so they go to Spark from here."""
    texts = pa.table(
        {f"t{i}": pa.array([value[i] for value in values], pa.string()) for i in range(len(columns))}
    )
    frame = scope.spark.createDataFrame(texts)
    typed = [
        F.col(f"t{i}").cast(user_type(column.data_type, TypeChoices())).alias(column.name)
        for i, column in enumerate(columns)
    ]
    frame = frame.select(*typed, *(F.col(f"t{i}") for i in range(len(columns))))
    known = ", ".join(f'"{column.name}"' for column in columns)
    try:
        found = frame.where(where).select(*(ticked(f"t{i}") for i in range(len(columns)))).collect()
    except PySparkException as error:
        raise InvalidInputError(
            f'The condition {shortened(str(where), 80)} of the compaction of table "{table.name}" must be about the '
            f"columns by which the table is partitioned, {known}: {shortened(str(error).splitlines()[0], 120)}"
        ) from None
    return [tuple(row) for row in found]
