"""What the catalog knows exactly of a group of files, for Spark's optimizer: asked only where statistics are wanted.

Table statistics of the catalog are bounds that deletes do not move; those of files are exact as long as no row of the
file is deleted. So they are summed up over the files of a group, by the database.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal as Number
from typing import Any

import pyspark.sql.types as spark_types

from ducklake_spark.catalog.store import Query, Store
from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.types import Decimal
from ducklake_spark.scan.planning.plan import FileGroup, ScanPlan, group_condition

Statistics = tuple[int | float | str | bool | None, int | float | str | bool | None, int]
"""The least and the greatest value as Spark keeps them (decimals as text), and the number of NULLs."""

_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})
_EXACT = _INTEGERS | {"boolean", "date", "timestamp", "timestamptz"}
"""Types whose bounds in the catalog are values that are in the file. Texts may be cut."""
_FLOATS = frozenset({"float32", "float64"})
_TIMES: dict[type[spark_types.DataType], str] = {
    spark_types.DateType: "____-__-__",
    spark_types.TimestampType: "____-__-__ __:__:__%+00",
    spark_types.TimestampNTZType: "____-__-__ __:__:__%",
}
"""How texts of the years 1 to 9999 look, whose order is that of their values."""
_UNBOUNDED = (spark_types.StringType, spark_types.BinaryType)
"""Types of which Spark uses no bounds."""
_NUMBER = "'^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$'"
_EPOCH = datetime(1970, 1, 1)


def row_count(store: Store, plan: ScanPlan, group: FileGroup) -> int | None:
    """The rows of a group that are not deleted; None where the catalog does not say."""
    if group.key.is_filtered:
        return None
    if not group.key.has_deletes:
        return group.records
    where, params = group_condition(plan, group.key)
    files = f"IN (SELECT f.data_file_id FROM ducklake_data_file f WHERE {where})"
    at = plan.snapshot.snapshot_id
    queries: list[Query] = [
        (
            "SELECT sum(delete_count), sum(CASE WHEN partial_max > ? OR delete_count IS NULL THEN 1 ELSE 0 END) FROM "
            f"ducklake_delete_file WHERE table_id = ? AND {LIVE} AND data_file_id {files}",
            (at, plan.table.table_id, at, at, *params),
        )
    ]
    if plan.deletes.inlined_table is not None:
        queries.append(
            (
                f"SELECT count(*) FROM {plan.deletes.inlined_table} WHERE begin_snapshot <= ? AND file_id {files}",
                (at, *params),
            )
        )
    (in_files, unsure), *inlined = (rows[0] for rows in store.query_many(queries))
    return None if unsure else group.records - int(in_files or 0) - sum(int(count) for (count,) in inlined)


def exact_statistics(
    store: Store, plan: ScanPlan, group: FileGroup, names: frozenset[str]
) -> dict[str, Statistics]:
    """The same of columns with these names, as a scan would find it: bounds that may be wide or rounded are None.

    Floating point numbers have two zeros, and values that are no numbers, which not every writer counts. Bounds of
    files that others added are what their writers made of them.
    """
    if not names:
        return {}
    return {
        name: found if has_exact_bounds(plan, group, name) else (None, None, found[2])
        for name, found in column_statistics(store, plan, group, names).items()
    }


def has_exact_bounds(plan: ScanPlan, group: FileGroup, name: str) -> bool:
    """Whether bounds of the column with this name are values that are in the files."""
    return group.key.mapping_id is None and any(
        made.field is not None
        and made.field.name == name
        and (isinstance(column.data_type, Decimal) or column.data_type.name in _EXACT)
        for column, made in zip(plan.table.columns, group.projections, strict=True)
    )


def statistics_column(plan: ScanPlan, group: FileGroup, name: str, kind: str) -> StatisticsColumn | None:
    """The column with this name and SQL for its bounds; None where the catalog's statistics say nothing of it."""
    return next((each for each in _wanted(plan, group, kind) if each.name == name), None)


def column_statistics(
    store: Store, plan: ScanPlan, group: FileGroup, names: frozenset[str] | None = None
) -> dict[str, Statistics]:
    """Statistics by the name of the column in the group's relation; columns of which not all is known are left out.

    Args:
        store: The catalog.
        plan: The table at its snapshot.
        group: Files of it.
        names: The columns that are asked for; None for all.
    """
    if group.key.is_filtered or group.key.has_deletes:
        return {}
    wanted = [each for each in _wanted(plan, group, store.kind) if names is None or each.name in names]
    kinds = dict.fromkeys((each.low, each.high) for each in wanted)
    where, params = group_condition(plan, group.key)
    answers = store.query_many(
        [
            _query(low, high, [c for c in wanted if (c.low, c.high) == (low, high)], plan, where, params)
            for low, high in kinds
        ]
    )
    found: dict[str, Statistics] = {}
    by_id = {each.column_id: each for each in wanted}
    for column_id, files, nulls, unknown, valued, least, greatest in (
        row for rows in answers for row in rows
    ):
        column = by_id[int(column_id)]
        if int(files) != group.files or int(unknown or 0):
            continue
        bounds = column.value(least), column.value(greatest)
        # For Spark a column without bounds has no values.
        if None not in bounds or column.is_unbounded or not int(valued or 0):
            found[column.name] = (*bounds, int(nulls))
    return found


@dataclass(frozen=True)
class StatisticsColumn:
    """A column, and SQL for its bounds as values that the database compares."""

    column_id: int
    name: str
    kind: spark_types.DataType
    low: str
    high: str

    @property
    def is_unbounded(self) -> bool:
        return isinstance(self.kind, _UNBOUNDED)

    def value(self, found: Any) -> int | float | str | bool | None:
        """A bound as Spark keeps it."""
        if found is None or self.is_unbounded:
            return None
        match self.kind:
            case spark_types.DecimalType():
                return str(Number(str(found)).quantize(Number(1).scaleb(-self.kind.scale)))
            case spark_types.BooleanType():
                return bool(found)
            case spark_types.FloatType() | spark_types.DoubleType():
                return float(found) if math.isfinite(float(found)) else None
            case spark_types.DateType():
                return (date.fromisoformat(_text(found)) - _EPOCH.date()).days
            case spark_types.TimestampType() | spark_types.TimestampNTZType():
                moment, _, fraction = _text(found).removesuffix("+00").partition(".")
                since = datetime.fromisoformat(moment) - _EPOCH
                return (since.days * 86400 + since.seconds) * 1_000_000 + int(f"{fraction:0<6}"[:6])
        return int(found)


def _text(found: Any) -> str:
    return found if isinstance(found, str) else bytes(found).decode()


def _wanted(plan: ScanPlan, group: FileGroup, kind: str) -> Iterator[StatisticsColumn]:
    for column, made in zip(plan.table.columns, group.projections, strict=True):
        versions = plan.history.versions.get(column.column_id, ())
        if made.field is None or not made.is_plain or len({node.column_type for node in versions}) > 1:
            continue
        if isinstance(made.field.dataType, _UNBOUNDED):
            if column.type in ("varchar", "json", "blob"):
                yield StatisticsColumn(column.column_id, made.field.name, made.field.dataType, "NULL", "NULL")
            continue
        sides = [_value_sql(column, made.field.dataType, f"s.{side}_value", kind) for side in ("min", "max")]
        if sides[0] is not None and sides[1] is not None:
            yield StatisticsColumn(column.column_id, made.field.name, made.field.dataType, sides[0], sides[1])


def _value_sql(column: ColumnDef, spark_type: spark_types.DataType, bound: str, kind: str) -> str | None:
    """A bound's text as what it means; NULL where it is none of the type, None where the database cannot compare it."""
    data_type = column.data_type
    if data_type.name == "boolean":
        return f"CASE WHEN {bound} IN ('1', 'true') THEN 1 WHEN {bound} IN ('0', 'false') THEN 0 END"
    form = _TIMES.get(type(spark_type))
    if form is not None:
        order = {"postgres": f'{bound} COLLATE "C"', "mysql": f"CAST({bound} AS BINARY)"}.get(kind, bound)
        return f"CASE WHEN {bound} LIKE '{form}' AND {bound} NOT LIKE '%BC%' THEN {order} END"
    if isinstance(data_type, Decimal):
        if kind == "sqlite" and data_type.precision > 15:
            return None
        exact = f"DECIMAL(38,{data_type.scale})"
        target = {"duckdb": exact, "sqlite": "REAL", "postgres": "numeric", "mysql": "DECIMAL(65,30)"}[kind]
    elif data_type.name in _FLOATS:
        target = {"sqlite": "REAL", "postgres": "double precision"}.get(kind, "DOUBLE")
    elif data_type.name in _INTEGERS:
        target = {"sqlite": "INTEGER", "mysql": "SIGNED"}.get(kind, "BIGINT")
    else:
        return None
    if kind == "duckdb":
        return f"TRY_CAST({bound} AS {target})"
    looks = {"sqlite": "GLOB '*[0-9]*'", "postgres": f"~ {_NUMBER}", "mysql": f"REGEXP {_NUMBER}"}[kind]
    return f"CASE WHEN {bound} {looks} THEN CAST({bound} AS {target}) END"


def _query(
    low: str, high: str, columns: list[StatisticsColumn], plan: ScanPlan, where: str, params: tuple[Any, ...]
) -> Query:
    ids = ", ".join(str(column.column_id) for column in columns)
    bad = (
        ""
        if columns[0].is_unbounded
        else f"WHEN s.value_count > 0 AND (({low}) IS NULL OR ({high}) IS NULL) THEN 1 "
    )
    return (
        "SELECT s.column_id, count(*), sum(s.null_count), sum(CASE WHEN s.null_count IS NULL OR s.value_count IS NULL "
        f"OR s.contains_nan THEN 1 {bad}ELSE 0 END), sum(s.value_count), min({low}), max({high}) "
        f"FROM ducklake_file_column_stats s WHERE s.table_id = ? AND s.column_id IN ({ids}) AND s.data_file_id IN "
        f"(SELECT f.data_file_id FROM ducklake_data_file f WHERE {where}) GROUP BY s.column_id",
        (plan.table.table_id, *params),
    )
