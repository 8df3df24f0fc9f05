"""What the keys of a merge's source tell of the table: files that have none of them need not be read."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyspark.sql.types as spark_types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.format.names import ticked
from ducklake_spark.format.types import fold
from ducklake_spark.scan.deletion_bitmap import is_unset, packed
from ducklake_spark.spark.file_index import equal_columns, is_classic, numbers

FEW = 1000
"""Up to so many rows of a source each key is looked for by itself; of more, only their range."""
_ROW_BITS = 33
_ROW_OF_PARTITION = (1 << _ROW_BITS) - 1
"""The bits of `monotonically_increasing_id` that count the rows of one partition."""
_INTEGERS = (
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
)


@dataclass(frozen=True)
class Key:
    """A column of the table that must equal one of the source in every match."""

    target: str
    source: str
    kind: str
    """The type of the source's column, in SQL."""


@dataclass(frozen=True)
class Keys:
    """What is known of all keys of a source."""

    keys: tuple[Key, ...]
    count: int
    values: tuple[tuple[str | None, str | None, frozenset[str]], ...]
    """By key the least and the greatest value as text, and all of them if there are only few rows."""

    def condition(self, table_name: str) -> Column | None:
        """What is true of every row that can match, or None if that is unknown."""
        tests = []
        for key, (least, greatest, values) in zip(self.keys, self.values, strict=True):
            column = f"{ticked(table_name)}.{ticked(key.target)}"
            if least is None or greatest is None:
                return F.lit(False)  # only NULL, which equals nothing
            if self.count <= FEW:
                listed = ", ".join(_literal(value, key.kind) for value in sorted(values))
                tests.append(f"{column} IN ({listed})")
            else:
                tests.append(
                    f"{column} BETWEEN {_literal(least, key.kind)} AND {_literal(greatest, key.kind)}"
                )
        return F.expr(" AND ".join(tests)) if tests else None


def keys_of(table: DataFrame, source: DataFrame, on: Column, names: tuple[str, str]) -> tuple[Key, ...]:
    """The columns that a join's condition compares.

    Args:
        table: The table under its alias.
        source: The source under its alias.
        on: The condition.
        names: The two aliases.
    """
    if not is_classic(table.sparkSession):
        return ()
    kinds = {name: _types_by_name(frame.schema) for name, frame in zip(names, (table, source), strict=True)}
    found: dict[Key, None] = {}
    for one, other in equal_columns(table.join(source, on, "inner")):
        sides = {alias: name for alias, name in (one, other) if alias in names}
        if len(sides) < 2:
            continue
        target_kind, source_kind = (kinds[name].get(fold(sides[name])) for name in names)
        if target_kind is not None and source_kind is not None and _comparable(target_kind, source_kind):
            found[Key(sides[names[0]], sides[names[1]], source_kind.simpleString())] = None
    return tuple(found)


def facts_of(keys: Sequence[Key], number: str) -> list[str]:
    """Aggregates over the source, in SQL, that say what is known of its keys.

    Args:
        keys: The keys.
        number: The column of the source with its `monotonically_increasing_id`.
    """
    # Of each partition a few values are enough: if there are more rows, the set is not asked for.
    is_first = f"({number} & {_ROW_OF_PARTITION}L) < {FEW}"
    wanted = ["count(1)"]
    for key in keys:
        column = ticked(key.source)
        some = f"collect_set(CASE WHEN {is_first} THEN CAST({column} AS STRING) END)"
        wanted += [
            f"CAST(min({column}) AS STRING)",
            f"CAST(max({column}) AS STRING)",
            f"CASE WHEN count(1) <= {FEW} THEN {some} END",
        ]
    return wanted


def known(keys: Sequence[Key], row: Sequence[Any]) -> Keys:
    """The answer to `facts_of`."""
    count, *rest = row
    values = tuple((rest[i], rest[i + 1], frozenset(rest[i + 2] or ())) for i in range(0, len(rest), 3))
    return Keys(tuple(keys), count, values)


@dataclass(frozen=True)
class SourceNumbers:
    """Numbers of a source's rows, made by `monotonically_increasing_id`, as bits that each task can ask for."""

    token: str
    positions: Mapping[int, Any]
    """By partition of the source, the positions of rows."""

    title = "rows of the source that match"

    @classmethod
    def of(cls, numbers: Any) -> SourceNumbers:
        """Of an array of 64-bit numbers."""
        import numpy as np

        found = np.unique(numbers)
        partitions, starts = np.unique(found >> _ROW_BITS, return_index=True)
        parts = np.split(found & _ROW_OF_PARTITION, starts[1:]) if len(found) else []
        positions = {int(number): part for number, part in zip(partitions, parts, strict=True)}
        return cls(f"numbers {uuid.uuid4()}", positions)

    def numbers(self) -> bytes:
        """The bits, big end first."""
        return packed(dict(self.positions), (0, max(self.positions, default=0)))

    def lack(self, spark: SparkSession, number: Column) -> Column:
        """Whether a number is none of these."""
        partition = F.shiftright(number, _ROW_BITS)
        is_later = partition > max(self.positions, default=0)
        unset = is_unset(numbers(spark, self), partition, number.bitwiseAND(_ROW_OF_PARTITION))
        return F.when(is_later, F.lit(True)).otherwise(unset)


def _types_by_name(schema: spark_types.StructType) -> dict[str, spark_types.DataType | None]:
    """None for names that are there twice."""
    found: dict[str, spark_types.DataType | None] = {}
    for part in schema.fields:
        name = fold(part.name)
        found[name] = None if name in found else part.dataType
    return found


def _comparable(one: spark_types.DataType, other: spark_types.DataType) -> bool:
    """Whether equal values of the two lie between the least and the greatest, and have texts that can be read back."""
    if isinstance(one, _INTEGERS) and isinstance(other, _INTEGERS):
        return True
    texts = (spark_types.DateType, spark_types.TimestampNTZType, spark_types.DecimalType)
    return one == other and (isinstance(one, texts) or one == spark_types.StringType())


def _literal(text: str, kind: str) -> str:
    """A value for SQL. Texts go as bytes: nothing in them can be taken for anything else."""
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return f"{text}L"
    value = f"CAST(X'{text.encode().hex()}' AS STRING)"
    return value if kind == "string" else f"CAST({value} AS {kind})"
