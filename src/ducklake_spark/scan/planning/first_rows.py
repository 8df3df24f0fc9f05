"""Which files are enough for the first rows of a table, and how many rows each partition has: by the catalog alone.

Files of which rows are deleted count as if they had none, so that what is said here holds for those that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal as Number
from typing import Any

from ducklake_spark.catalog.store import Store
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.types import Decimal
from ducklake_spark.scan.planning.column_statistics import has_exact_bounds, statistics_column
from ducklake_spark.scan.planning.listing import Condition
from ducklake_spark.scan.planning.plan import FileGroup, ScanPlan, group_condition, has_deletes

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_DAY = date(1970, 1, 1)
_MOST_GROUPS = 100_000


def enough_files(plan: ScanPlan, group: FileGroup, rows: int) -> Condition | None:
    """A condition on `f`: it is one of the first files, which have so many rows. None where that is not known."""
    if group.key.is_filtered:
        return None
    where, params = group_condition(plan, group.key)
    return Condition(
        "f.data_file_id <= COALESCE((SELECT min(t.id) FROM (SELECT f.data_file_id AS id, sum(CASE WHEN "
        f"{has_deletes(plan)} THEN 0 ELSE f.record_count END) OVER (ORDER BY f.data_file_id) AS total "
        f"FROM ducklake_data_file f WHERE {where}) t WHERE t.total >= ?), f.data_file_id)",
        (*params, rows),
    )


def sure_bound(
    store: Store, plan: ScanPlan, group: FileGroup, name: str, rows: int, *, ascending: bool
) -> int | float | str | bool | None:
    """A value of the column with this name up to which there are so many rows, or from which on, if not ascending.

    As Spark keeps it (a decimal as text); None where the bounds of the files do not say.
    """
    column = statistics_column(plan, group, name, store.kind)
    if group.key.is_filtered or column is None or not has_exact_bounds(plan, group, name):
        return None
    where, params = group_condition(plan, group.key)
    bound, order, best = (column.high, "", "min") if ascending else (column.low, " DESC", "max")
    [(found,)] = store.query(
        f"SELECT {best}(t.bound) FROM (SELECT x.bound, sum(x.present) OVER (ORDER BY x.bound{order} ROWS UNBOUNDED "
        f"PRECEDING) AS total FROM (SELECT {bound} AS bound, s.value_count AS present FROM "
        "ducklake_file_column_stats s WHERE s.table_id = ? AND s.column_id = ? AND s.value_count > 0 AND "
        f"s.data_file_id IN (SELECT f.data_file_id FROM ducklake_data_file f WHERE {where} AND "
        f"NOT ({has_deletes(plan)}))) x WHERE x.bound IS NOT NULL) t WHERE t.total >= ?",
        (plan.table.table_id, column.column_id, *params, rows),
    )
    return column.value(found)


def partition_counts(
    store: Store, plan: ScanPlan, group: FileGroup, names: Sequence[str]
) -> list[list[Any]] | None:
    """For each combination of values of these columns, the values as Spark keeps them, and how many rows they have.

    None where rows are deleted, or files are not partitioned by these columns as they are.
    """
    key = group.key
    if key.is_filtered or key.has_deletes or key.mapping_id is not None:
        return None
    columns = [_partition_column(plan, group, name) for name in names]
    where, params = group_condition(plan, key)
    keys, joins, values = [], [], []
    for place, column in enumerate(columns):
        if column is None:
            return None
        text = f"v{place}.partition_value"
        # Letters of either case are alike in a text of MySQL's.
        keys.append(f"CAST({text} AS BINARY)" if store.kind == "mysql" else text)
        joins.append(
            "LEFT JOIN (SELECT v.data_file_id, v.partition_value, 1 AS known FROM ducklake_file_partition_value v "
            "JOIN ducklake_data_file d ON d.data_file_id = v.data_file_id JOIN ducklake_partition_column c ON "
            "c.partition_id = d.partition_id AND c.table_id = d.table_id AND c.partition_key_index = "
            "v.partition_key_index WHERE v.table_id = ? AND c.column_id = ? AND c.transform = 'identity') "
            f"v{place} ON v{place}.data_file_id = f.data_file_id"
        )
        values += [plan.table.table_id, column.column_id]
    known = " * ".join(f"COALESCE(v{place}.known, 0)" for place in range(len(columns)))
    by = ", ".join(keys)
    rows = store.query(
        f"SELECT {by}, sum(f.record_count), min({known}) FROM ducklake_data_file f {' '.join(joins)} WHERE {where} "
        f"GROUP BY {by}",
        (*values, *params),
    )
    if len(rows) > _MOST_GROUPS or any(not row[-1] for row in rows):
        return None
    found = []
    for row in rows:
        if not int(row[-2]):
            continue
        try:
            made = [_value(column, text) for column, text in zip(columns, row[:-2], strict=True) if column]
        except (ArithmeticError, ValueError):
            return None
        found.append([*made, int(row[-2])])
    return found


def _partition_column(plan: ScanPlan, group: FileGroup, name: str) -> ColumnDef | None:
    """A column whose values as partition keys are those of its rows."""
    for column, made in zip(plan.table.columns, group.projections, strict=True):
        if made.field is not None and made.field.name == name:
            versions = plan.history.versions.get(column.column_id, ())
            is_plain = made.is_plain and len({node.column_type for node in versions}) <= 1
            kind = column.data_type
            fits = isinstance(kind, Decimal) or kind.name in (*_INTEGERS, "varchar", "date", "boolean")
            return column if is_plain and fits else None
    return None


def _value(column: ColumnDef, given: Any) -> int | str | bool | None:
    """The text of a partition value as what Spark keeps.

    Raises:
        ValueError: It is no value of the type, as Spark has it; of decimals an ArithmeticError.
    """
    if given is None:
        return None
    text = given if isinstance(given, str) else bytes(given).decode()
    kind = column.data_type
    if isinstance(kind, Decimal):
        return str(Number(text).quantize(Number(1).scaleb(-kind.scale)))
    if kind.name == "varchar":
        return text
    if kind.name == "date":
        return (date.fromisoformat(text) - _DAY).days
    if kind.name == "boolean":
        if text not in ("true", "false"):
            raise ValueError(text)
        return text == "true"
    return int(text)
