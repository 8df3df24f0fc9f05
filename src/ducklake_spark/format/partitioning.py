"""Partition specifications: keys with a transform, and the texts in which users and the catalog write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ducklake_spark.errors import InvalidInputError, did_you_mean
from ducklake_spark.format.columns import ColumnDef, resolve
from ducklake_spark.format.types import DataType, duckdb_name
from ducklake_spark.format.versions import FORMAT_1_0, LakeFormat

TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket")
EPOCH_TRANSFORMS = ("epoch_year", "epoch_month", "epoch_day", "epoch_hour")
"""Whole units of time between the beginning of 1970 and a value, which format 1.1 has."""
MAX_BUCKETS = 2**31 - 1

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*$", re.DOTALL)
_NUMBER = re.compile(r"\s*[0-9]{1,20}\s*\Z")
_BUCKET = re.compile(r"\s*bucket\s*\(\s*(\d+)\s*\)\s*$", re.IGNORECASE)
_WITH_DAYS = frozenset(
    {"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz", "interval"}
)
_WITH_HOURS = _WITH_DAYS | {"time", "timetz"}
_WITH_EPOCHS = _WITH_DAYS - {"interval"}
# Spark and Iceberg users write the plural form.
_SYNONYMS = {"years": "year", "months": "month", "days": "day", "hours": "hour", "date": "day"}


@dataclass(frozen=True)
class PartitionKey:
    """One key: a column by id, and the transform as the catalog writes it (`identity`, `year`, `bucket(8)`)."""

    column_id: int
    transform: str = "identity"

    @property
    def epoch_unit(self) -> str | None:
        """The unit that is counted since 1970, None for other transforms.

        >>> PartitionKey(1, "epoch_day").epoch_unit, PartitionKey(1, "day").epoch_unit
        ('day', None)
        """
        return self.transform.removeprefix("epoch_") if self.transform in EPOCH_TRANSFORMS else None

    @property
    def buckets(self) -> int | None:
        """N of `bucket(N)`, None for other transforms."""
        match = _BUCKET.match(self.transform)
        return int(match.group(1)) if match else None

    def text(self, column: str) -> str:
        """The key as users write it, with this name of its column.

        >>> PartitionKey(1, "bucket(8)").text("id"), PartitionKey(1, "year").text("at"), PartitionKey(1).text("id")
        ('bucket(8, id)', 'year(at)', 'id')
        """
        if self.buckets is not None:
            return f"bucket({self.buckets}, {column})"
        return column if self.transform == "identity" else f"{self.transform}({column})"


@dataclass(frozen=True)
class Partitioning:
    """A specification: its id and its keys. A table that was reset has one without keys."""

    partition_id: int
    keys: tuple[PartitionKey, ...]


def fits(transform: str, data_type: DataType) -> bool:
    """Whether values of this type can be transformed so; the extension accepts more, and then fails on every insert.

    >>> from ducklake_spark.format.types import parse_type
    >>> fits("year", parse_type("date")), fits("year", parse_type("bigint"))
    (True, False)
    """
    if transform in EPOCH_TRANSFORMS:
        return data_type.name in _WITH_EPOCHS
    if transform in ("year", "month", "day"):
        return data_type.name in _WITH_DAYS
    return transform != "hour" or data_type.name in _WITH_HOURS


def parse_keys(
    texts: Iterable[str],
    columns: Sequence[ColumnDef],
    table: str,
    lake_format: LakeFormat = FORMAT_1_0,
) -> tuple[PartitionKey, ...]:
    """Keys from texts like `region`, `year(ts)` or `bucket(16, id)`, as a format has them.

    Raises:
        InvalidInputError: Not a transform of the format, or not a bucket count.
        NotFoundError: There is no such column.
    """
    keys = tuple(_parse_key(text, columns, table, lake_format) for text in texts)
    for key in keys:
        name, data_type = next((c.name, c.data_type) for c in columns if c.column_id == key.column_id)
        if keys.count(key) > 1:
            raise InvalidInputError(
                f'Cannot partition table "{table}" by "{name}" twice: name each key once.'
            )
        if not fits(key.transform, data_type):
            raise InvalidInputError(
                f'Cannot partition table "{table}" by {key.transform}({name}): the column is '
                f"{duckdb_name(data_type)}, and only dates and times have a {key.transform}. Partition by the column "
                "itself, or by bucket(N, column)."
            )
    return keys


def _parse_key(text: str, columns: Sequence[ColumnDef], table: str, lake_format: LakeFormat) -> PartitionKey:
    call = _CALL.match(text)
    if call is None:
        return PartitionKey(_column(text, columns, table))
    name = _SYNONYMS.get(call.group(1).lower(), call.group(1).lower())
    if name in EPOCH_TRANSFORMS:
        if not lake_format.has_epoch_transforms:
            raise InvalidInputError(
                f'Cannot partition table "{table}" by {text.strip()}: the lake has format {lake_format.version}, and '
                f'"{name}" came with 1.1. Partition by {name.removeprefix("epoch_")}({call.group(2).strip()}) instead.'
            )
        return PartitionKey(_column(call.group(2), columns, table), name)
    if name not in TRANSFORMS:
        raise InvalidInputError(
            f'Cannot partition table "{table}" by {text.strip()}: the format has no transform "{call.group(1)}".'
            f"{did_you_mean(name, TRANSFORMS)} It has year, month, day, hour and bucket(N, column)."
        )
    if name != "bucket":
        return PartitionKey(_column(call.group(2), columns, table), name)
    count, _, column = call.group(2).partition(",")
    if not _NUMBER.match(count) and _NUMBER.match(column):
        count, column = column, count
    if not _NUMBER.match(count) or not 1 <= int(count) <= MAX_BUCKETS:
        raise InvalidInputError(
            f'Cannot partition table "{table}" by {text.strip()}: write bucket(N, column) with N from 1 to '
            f"{MAX_BUCKETS}."
        )
    return PartitionKey(_column(column, columns, table), f"bucket({int(count)})")


def _column(text: str, columns: Sequence[ColumnDef], table: str) -> int:
    name = text.strip()
    if not name:
        raise InvalidInputError(f'Cannot partition table "{table}": a key names no column.')
    for mark in ('"', "`"):
        if len(name) > 1 and name[0] == name[-1] == mark:
            name = name[1:-1].replace(mark * 2, mark)
            break
    else:
        if "." in name and not any(column.name == name for column in columns):
            raise InvalidInputError(
                f'Cannot partition table "{table}" by "{name}": a partition key is a column of the table, not a '
                "field of one."
            )
    return resolve(columns, [name], table).column_id
