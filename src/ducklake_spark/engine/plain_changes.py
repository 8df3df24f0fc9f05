"""Updates and deletes of few rows that are all in the catalog, by values that are known here: they need no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine import inserts
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.columns import find
from ducklake_spark.format.edits import DeleteRows
from ducklake_spark.format.objects import TableDef, is_local
from ducklake_spark.format.types import Decimal
from ducklake_spark.scan.inlined import decode, fetch_rows
from ducklake_spark.scan.planning.plan import LakeInfo, ScanPlan, make_plan
from ducklake_spark.scan.planning.staleness import has_moved
from ducklake_spark.scan.projection.column import ROW_ID_NAME
from ducklake_spark.scan.projection.types import TypeChoices, user_type
from ducklake_spark.write.insert import rows_to_add
from ducklake_spark.write.local import LocalRows, local_rows

if TYPE_CHECKING:
    import pyarrow

Test = Callable[[Mapping[str, Any]], "bool | None"]
"""Whether a condition holds for a row, given by the names of its columns, with dates as days since 1970; None where SQL
does not know."""

COMPARED = frozenset(
    {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"varchar", "date", "boolean"}
)
"""Types, with decimals, whose values compare here as they do in Spark and in DuckDB."""
_KEPT = COMPARED | {"float32", "float64", "timestamp", "timestamptz", "blob"}
"""Types, with decimals, whose values come out of the catalog and go back unchanged."""
_MOST = 10_000
"""More rows than these are changed faster by Spark."""


@dataclass(frozen=True)
class PlainChange:
    """What becomes of the rows for which a test holds.

    Attributes:
        names: The columns that the test looks at.
        test: All rows without one.
        values: New values by column, as `insert` takes them; None deletes the rows.
    """

    names: tuple[str, ...]
    test: Test | None
    values: Mapping[str, Any] | None


def change(scope: Scope, tx: Transaction, table: TableDef, wanted: PlainChange) -> int | None:
    """Makes the change, and says how many rows it was; None when it has to go another way, with nothing done."""
    if is_local(table.table_id) or tx.edits.tables.get(table.table_id) is not None:
        return None
    if wanted.values is not None and not all(
        column.type in _KEPT or isinstance(column.data_type, Decimal) for column in table.columns
    ):
        return None
    choices = TypeChoices()
    info = LakeInfo(scope.name, scope.config.data_path, scope.config.is_encrypted, scope.access)
    plan = make_plan(tx.store, info, tx.schema_of(table.schema_id), table, tx.snapshot, choices)
    if plan.total_files or not _are_few(tx, plan):
        return None
    deleted: list[tuple[str, tuple[int, ...]]] = []
    matching: list[pyarrow.Table] = []
    for part in plan.inlined:
        rows = fetch_rows(tx.store, part, tx.snapshot.snapshot_id)
        if not rows:
            continue
        found = _matching(decode(rows, part, table.columns, choices), table, wanted)
        if found.num_rows:
            deleted.append((part.table_name, tuple(sorted(found.column("r").to_pylist()))))
            matching.append(found)
    if has_moved(tx.store, table.table_id, plan.newest_snapshot):
        return None
    count = sum(len(row_ids) for _, row_ids in deleted)
    if count == 0:
        return 0
    if wanted.values is not None:
        target = inserts.target_of(scope, tx, table, has_row_ids=True)
        if count > target.inline_limit:
            return None
        added = rows_to_add(target, _new_versions(matching, table, wanted.values, choices))
        tx.apply(DeleteRows(table, inlined=tuple(deleted)))
        return inserts.add(tx, added)
    tx.apply(DeleteRows(table, inlined=tuple(deleted)))
    return count


def _are_few(tx: Transaction, plan: ScanPlan) -> bool:
    if not plan.inlined:
        return True
    at = tx.snapshot.snapshot_id
    counts = tx.store.query_many(
        [
            (f'SELECT count(*) FROM "{part.table_name}" WHERE {own.live}', (at, at))
            for part in plan.inlined
            for own in [tx.store.inlined_columns(part.table_name)]
        ]
    )
    return sum(int(rows[0][0]) for rows in counts) <= _MOST


def _matching(rows: pyarrow.Table, table: TableDef, wanted: PlainChange) -> pyarrow.Table:
    if wanted.test is None:
        return rows
    import pyarrow

    names = [column.name for column in table.columns]
    columns = [_comparable(rows.column(f"u{names.index(name)}")) for name in wanted.names]
    holds = [
        wanted.test(dict(zip(wanted.names, row, strict=True))) is True
        for row in (zip(*columns, strict=True) if columns else [()] * rows.num_rows)
    ]
    return rows.filter(pyarrow.array(holds, pyarrow.bool_()))


def _comparable(column: pyarrow.ChunkedArray) -> list[Any]:
    """Values that Python compares; dates as days, as Python has not all of them."""
    import pyarrow

    if pyarrow.types.is_date32(column.type):
        column = column.cast(pyarrow.int32())
    return list(column.to_pylist())


def _new_versions(
    matching: list[pyarrow.Table], table: TableDef, values: Mapping[str, Any], choices: TypeChoices
) -> LocalRows:
    """The rows with their new values, and the row ids that they keep."""
    import pyarrow
    from pyspark.sql.types import LongType

    found = pyarrow.concat_tables(matching)
    given = local_rows(table, [dict(values)])
    places = {find(table.columns, name): place for place, (name, _) in enumerate(given.fields)}
    arrays, fields = [], []
    for place, column in enumerate(table.columns):
        if column in places:
            name, kind = given.fields[places[column]]
            value = given.table.column(f"c{places[column]}")
            arrays.append(value.take(pyarrow.array([0] * found.num_rows)))
        else:
            name, kind = column.name, user_type(column.data_type, choices)
            arrays.append(found.column(f"u{place}"))
        fields.append((name, kind))
    arrays.append(found.column("r"))
    fields.append((ROW_ID_NAME, LongType()))
    whole = pyarrow.Table.from_arrays(arrays, names=[f"c{place}" for place in range(len(arrays))])
    return LocalRows(whole, tuple(fields))
