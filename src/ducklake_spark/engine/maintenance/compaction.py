"""Compaction: `merge_adjacent_files` and `rewrite_data_files`.

Which files are taken is decided by the catalog alone (`format/compaction.py`); their rows are moved by Spark's tasks
(`write/compaction.py`); the commit takes the old files away, or ends them, and adds the new ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.inserts import target_of
from ducklake_spark.engine.maintenance.candidates import candidates, deletes_of, tables_then
from ducklake_spark.engine.maintenance.progress import Progress
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.maintenance.table_statistics import exact_counts
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import DuckLakeError, InvalidInputError
from ducklake_spark.format.compaction import (
    CompactedGroup,
    CompactFiles,
    CompactionKind,
    Group,
    MergeLimits,
    merge_groups,
    rewrite_groups,
)
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import TableDef, is_local
from ducklake_spark.format.options import DEFAULT_TARGET_FILE_SIZE
from ducklake_spark.scan.planning.plan import name_maps
from ducklake_spark.write.compaction import Compaction
from ducklake_spark.write.target import Target

COLUMNS = "schema_name string, table_name string, files_processed bigint, files_created bigint"
MORE = "rows bigint, bytes_before bigint, bytes_after bigint"
RETRIES = 3
"""How often a compaction is run again after a conflict: its work may be large."""

_JOBS = {CompactionKind.MERGE: "merge_adjacent_files", CompactionKind.REWRITE: "rewrite_data_files"}

Plan = Callable[[Transaction, Target], list[Group]]
Row = tuple[Any, ...]


def merge_adjacent_files(
    scope: Scope,
    table: Name | None = None,
    *,
    schema: str | None = None,
    min_file_size: int | None = None,
    max_file_size: int | None = None,
    max_compacted_files: int | None = None,
    where: Any = None,
    least_files: int = 2,
    dry_run: bool = False,
) -> Report:
    """Merges small files, table by table; tables with fewer files than `least_files` are not looked at."""
    smallest = _whole(min_file_size, "min_file_size", least=0)
    largest = _whole(max_file_size, "max_file_size", least=1)
    most = _whole(max_compacted_files, "max_compacted_files", least=1)
    if smallest is not None and largest is not None and smallest >= largest:
        raise InvalidInputError(
            f"min_file_size must be less than max_file_size, and {smallest} is not less than {largest}."
        )

    def plan(tx: Transaction, target: Target) -> list[Group]:
        limits = MergeLimits(target_size(target), smallest, largest, most)
        found = candidates(tx, target.table)
        if where is not None:
            from ducklake_spark.engine.maintenance.partition_filter import in_partitions

            found = in_partitions(scope, target.table, found, where)
        return merge_groups(found, limits)

    return _each_table(scope, table, schema, CompactionKind.MERGE, plan, least_files, dry_run=dry_run)


def rewrite_data_files(
    scope: Scope,
    table: Name | None = None,
    *,
    schema: str | None = None,
    delete_threshold: float | None = None,
    dry_run: bool = False,
) -> Report:
    """Rewrites files of which many rows are deleted, table by table."""
    given = _threshold(delete_threshold)

    def plan(tx: Transaction, target: Target) -> list[Group]:
        threshold = given
        if threshold is None:
            threshold = _threshold(float(target.option("rewrite_delete_threshold") or 0.95)) or 0.0
        return rewrite_groups(candidates(tx, target.table), threshold, target_size(target))

    return _each_table(scope, table, schema, CompactionKind.REWRITE, plan, 1, dry_run=dry_run)


def _whole(value: Any, name: str, *, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInputError(f"{name} must be a whole number, not {value!r}.")
    if value < least:
        wanted = "greater than zero" if least else "zero or more"
        raise InvalidInputError(f"{name} must be {wanted}, not {value}.")
    return value


def _threshold(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInputError(f"delete_threshold must be a number between 0 and 1, not {value!r}.")
    if not 0 <= value <= 1:
        raise InvalidInputError(f"delete_threshold must be between 0 and 1, not {value}.")
    return float(value)


def target_size(target: Target) -> int:
    """How large the table's files should be."""
    return int(target.option("target_file_size") or DEFAULT_TARGET_FILE_SIZE)


def _each_table(
    scope: Scope,
    name: Name | None,
    schema: str | None,
    kind: CompactionKind,
    plan: Plan,
    least_files: int,
    *,
    dry_run: bool,
) -> Report:
    """Does what is to be done in each table; every table is a commit of its own, unless a transaction is running."""
    scope.require_open()
    if not dry_run:
        scope.require_writable()
    rows: list[Row] = []
    done: list[str] = []
    ids = table_ids(scope, name, schema)
    if name is None:
        # One query instead of several for each table: most tables of a large lake have nothing to be done.
        ids = sorted(set(ids) & _with_files(scope.read_transaction(), least_files))
    with Progress(_JOBS[kind], len(ids), "tables") as progress:
        for table_id in ids:
            try:
                if dry_run:
                    found = _planned(scope, scope.read_transaction(), table_id, plan)
                else:
                    job = functools.partial(_compacted, scope, table_id, kind, plan)
                    found = scope.statement(job, most_retries=RETRIES)
            except DuckLakeError as error:
                if done and scope.transaction is None:
                    raise type(error)(f"{error} Done before it: {', '.join(done)}.") from error
                raise
            rows += found
            done += [f'"{row[0]}"."{row[1]}"' for row in found[:1]]
            progress.advance()
    return Report(COLUMNS, rows, MORE)


def table_ids(scope: Scope, name: Name | None, schema: str | None) -> list[int]:
    """The tables that are meant, by id: one, those of a schema, or all."""
    tx = scope.read_transaction()
    if name is not None:
        parts: Name = name if schema is None or not isinstance(name, str) else (schema, name)
        found, own = scope.resolve(tx, parts)
        return [ddl.get_table(tx, found, own).table_id]
    wanted = None if schema is None else ddl.get_schema(tx, schema).schema_id
    return sorted(table.table_id for table in tx.all_tables() if wanted in (None, table.schema_id))


def _with_files(tx: Transaction, least: int) -> set[int]:
    rows = tx.store.query(
        "SELECT table_id FROM ducklake_data_file WHERE begin_snapshot <= ? AND end_snapshot IS NULL "
        "GROUP BY table_id HAVING count(*) >= ?",
        (tx.snapshot.snapshot_id, least),
    )
    return {int(table_id) for (table_id,) in rows}


def table_target(scope: Scope, tx: Transaction, table_id: int) -> Target | None:
    """A table to be compacted; None if it is gone."""
    table = tx.table_of(table_id)
    if table is None or is_local(table_id):
        return None
    return target_of(scope, tx, table)


def _planned_groups(
    scope: Scope, tx: Transaction, table_id: int, plan: Plan
) -> tuple[Target, list[Group]] | None:
    """What is to be done in a table; None where its options say that nothing is."""
    target = table_target(scope, tx, table_id)
    if target is None or target.option("auto_compact") == "false":
        return None
    return target, plan(tx, target)


def _planned(scope: Scope, tx: Transaction, table_id: int, plan: Plan) -> list[Row]:
    planned = _planned_groups(scope, tx, table_id, plan)
    if planned is None:
        return []
    target, groups = planned
    return [planned_row(target, group, 1 if live_rows(group) else 0) for group in groups]


def planned_row(target: Target, group: Group, files_created: int) -> Row:
    """A row of the report of a dry run."""
    before = sum(file.file_size_bytes for file in group)
    rows = live_rows(group)
    return (target.schema.name, target.table.name, len(group), files_created, rows, before, None)


def live_rows(group: Group) -> int:
    """How many rows of the files are not deleted."""
    return sum(file.record_count - file.deleted_rows for file in group)


def _compacted(scope: Scope, table_id: int, kind: CompactionKind, plan: Plan, tx: Transaction) -> list[Row]:
    planned = _planned_groups(scope, tx, table_id, plan)
    if planned is None or not planned[1]:
        return []
    target, groups = planned
    made = _compaction(tx, target, kind, groups).run(groups, scope.spark)
    stats = None if kind is CompactionKind.MERGE else exact_counts(tx, target.table, made)
    tx.apply(CompactFiles(target.table, kind, made, stats, tx.snapshot.snapshot_id))
    return [done_row(target, group, result) for group, result in zip(groups, made, strict=True)]


def _compaction(tx: Transaction, target: Target, kind: CompactionKind, groups: Sequence[Group]) -> Compaction:
    mapped = {file.mapping_id for group in groups for file in group if file.mapping_id is not None}
    return Compaction(
        target,
        kind,
        tables_then(tx, target.table, groups),
        name_maps(tx.store, mapped),
        deletes_of(target, groups),
        _macros(tx, target.table),
    )


def _macros(tx: Transaction, table: TableDef) -> list[Any]:
    """The functions that sort keys of a table may call; those of its own schema hide those of `main`."""
    if table.sorting is None:
        return []
    own = tx.schema_of(table.schema_id)
    main = tx.schema("main")
    schemas = [own] if main is None or main.schema_id == own.schema_id else [main, own]
    return [macro for schema in schemas for macro in tx.macros(schema)]


def done_row(target: Target, group: Group, result: CompactedGroup) -> Row:
    """A row of the report."""
    return (
        target.schema.name,
        target.table.name,
        len(group),
        len(result.files),
        sum(each.file.record_count for each in result.files),
        sum(file.file_size_bytes for file in group),
        sum(each.file.file_size_bytes for each in result.files),
    )
