"""`compact`: the live rows of files written anew, so that rows with near values of some columns are in the same files.

Beyond the reference. Rows are dealt by ranges of their keys, or along a Z-curve through the ranks of several columns,
which lets file pruning work on each of them. They keep their row ids; the old files end, as in a rewrite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.inserts import target_of
from ducklake_spark.engine.maintenance import compaction
from ducklake_spark.engine.maintenance.candidates import candidates
from ducklake_spark.engine.maintenance.partition_filter import in_partitions
from ducklake_spark.engine.maintenance.progress import Progress
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.maintenance.table_statistics import exact_counts
from ducklake_spark.engine.reads import read
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.columns import ColumnDef, resolve
from ducklake_spark.format.compaction import (
    Candidate,
    CompactedFile,
    CompactedGroup,
    CompactFiles,
    CompactionKind,
    Group,
)
from ducklake_spark.format.edits import InsertFiles
from ducklake_spark.format.names import Name, ticked
from ducklake_spark.format.objects import TableDef
from ducklake_spark.scan.projection.column import ROW_ID_NAME
from ducklake_spark.scan.read import FILE_ID, hidden
from ducklake_spark.write.compaction import in_partition, scheduled
from ducklake_spark.write.insert import rows_to_add
from ducklake_spark.write.target import Target

_UNORDERED = ("list", "map", "struct", "variant", "geometry", "interval")
_MOST_Z_COLUMNS = 8
_SAMPLE = 50_000
"""Rows by which the ranks of values are told."""
_Z = "__ducklake_z"


def compact(
    scope: Scope,
    table: Name,
    *,
    order_by: Any = None,
    zorder_by: Any = None,
    where: Any = None,
    dry_run: bool = False,
) -> Report:
    """Clusters the rows of a table."""
    if (order_by is None) == (zorder_by is None):
        raise InvalidInputError(
            "compact() takes either order_by or zorder_by: the columns by which rows are brought together. To merge "
            "small files as they are, use merge_adjacent_files()."
        )
    name = "order_by" if zorder_by is None else "zorder_by"
    keys = _names(order_by if zorder_by is None else zorder_by, name)
    if zorder_by is not None and len(keys) > _MOST_Z_COLUMNS:
        raise InvalidInputError(
            f"zorder_by takes at most {_MOST_Z_COLUMNS} columns, not {len(keys)}: with more, no column would be "
            "clustered."
        )
    table_id = compaction.table_ids(scope, table, None)[0]
    job = functools.partial(_compacted, scope, table_id, keys, zorder_by is not None, where)
    if dry_run:
        return Report(compaction.COLUMNS, job(scope.read_transaction(), dry_run=True), compaction.MORE)
    rows = scope.statement(job, most_retries=compaction.RETRIES)
    return Report(compaction.COLUMNS, rows, compaction.MORE)


def _names(given: Any, what: str) -> list[str]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"{what} is a list of names of columns, not {given!r}.")
    return list(names)


def _compacted(
    scope: Scope,
    table_id: int,
    keys: Sequence[str],
    is_z: bool,
    where: Any,
    tx: Transaction,
    *,
    dry_run: bool = False,
) -> list[tuple[Any, ...]]:
    target = compaction.table_target(scope, tx, table_id)
    if target is None:
        return []
    columns = [_key(target.table, name) for name in keys]
    files = candidates(tx, target.table)
    if where is not None:
        files = in_partitions(scope, target.table, files, where)
    groups = _partitions(files)
    if dry_run:
        return [
            compaction.planned_row(
                target, group, _wanted_files(target, group) if compaction.live_rows(group) else 0
            )
            for group in groups
        ]
    everything = frozenset(file.data_file_id for file in candidates(tx, target.table))
    made = []
    with Progress("compact", len(groups), "partitions") as progress:
        for group in groups:
            made.append(_clustered(scope, target, group, everything, columns, is_z))
            progress.advance()
    if made:
        stats = exact_counts(tx, target.table, made)
        change = CompactFiles(
            target.table, CompactionKind.REWRITE, tuple(made), stats, tx.snapshot.snapshot_id
        )
        tx.apply(change)
    return [compaction.done_row(target, group, result) for group, result in zip(groups, made, strict=True)]


def _key(table: TableDef, name: str) -> ColumnDef:
    column = resolve(table.columns, (name,), table.name)
    if column.type in _UNORDERED:
        raise InvalidInputError(
            f'Column "{column.name}" of table "{table.name}" is of type {column.type}, whose values have no order.'
        )
    return column


def _partitions(files: Sequence[Candidate]) -> list[Group]:
    """The files of each partition; rows never leave theirs."""
    found: dict[object, list[Candidate]] = {}
    for file in files:
        found.setdefault((file.partition_id, file.partition_values), []).append(file)
    return [tuple(group) for group in found.values()]


def _wanted_files(target: Target, group: Group) -> int:
    size = sum(file.live_bytes for file in group)
    return max(1, math.ceil(size / compaction.target_size(target)))


def _clustered(
    scope: Scope,
    target: Target,
    group: Group,
    everything: frozenset[int],
    columns: Sequence[ColumnDef],
    is_z: bool,
) -> CompactedGroup:
    """Writes the rows of one partition anew; `everything` are the ids of all files of the table."""
    tx, table = target.tx, target.table
    sources = tuple(scheduled(target, file) for file in group)
    others = everything - {file.data_file_id for file in group}
    row_id = hidden("rowid")
    frame = read(scope, tx, table, (FILE_ID, row_id), without=others).where(F.col(FILE_ID).isNotNull())
    keys = [F.col(ticked(column.name)) for column in columns]
    if is_z:
        frame = _with_z(frame, columns, compaction.live_rows(group), _wanted_files(target, group))
        keys = [F.col(_Z), *keys]
    dealt = frame.repartitionByRange(_wanted_files(target, group), *keys).sortWithinPartitions(*keys)
    own = [F.col(ticked(column.name)) for column in table.columns]
    # Not sorted by the table's own keys: these are asked for now. Nor dealt by partitions, of which there is one.
    plain = _without_specifications(scope, tx, table)
    added = rows_to_add(plain, dealt.select(*own, F.col(row_id).alias(ROW_ID_NAME)))
    if added is None:
        return CompactedGroup(sources, ())
    assert isinstance(added, InsertFiles)
    return CompactedGroup(
        sources, tuple(CompactedFile(in_partition(target, file, group)) for file in added.files)
    )


def _without_specifications(scope: Scope, tx: Transaction, table: TableDef) -> Target:
    plain = replace(table, partitioning=None, sorting=None)
    return replace(target_of(scope, tx, plain, has_row_ids=True), always_files=True)


def _with_z(frame: DataFrame, columns: Sequence[ColumnDef], rows: int, files: int) -> DataFrame:
    """The rows with their place on a Z-curve through the ranks of their values.

    Ranks, not values: so columns of all types and distributions count alike. They are told by the quantiles of a
    sample, which travel with the rows as arrays; NULL has the lowest rank.
    """
    bits = min(8, max(4, math.ceil(math.log2(16 * files) / len(columns))))
    names = [f"__ducklake_k{i}" for i in range(len(columns))]
    values = [F.col(ticked(column.name)).alias(name) for column, name in zip(columns, names, strict=True)]
    sample = frame.select(*values)
    if rows > _SAMPLE:
        sample = sample.sample(fraction=_SAMPLE / rows, seed=0)
    ordered = sample.agg(*(F.sort_array(F.collect_list(name)).alias(name) for name in names))
    cells = 1 << bits
    bounds = ordered.select(
        *(
            F.expr(
                f"transform(sequence(1, {cells - 1}), i -> get({name}, cast(i * size({name}) / {cells} as int)))"
            ).alias(name)
            for name in names
        )
    )
    ranks = [
        F.size(F.filter(F.col(name), functools.partial(_is_reached, F.col(ticked(column.name)))))
        for column, name in zip(columns, names, strict=True)
    ]
    return frame.crossJoin(F.broadcast(bounds)).withColumn(_Z, _interleaved(ranks, bits)).drop(*names)


def _is_reached(value: Column, bound: Column) -> Column:
    return bound <= value


def _interleaved(ranks: Sequence[Column], bits: int) -> Column:
    """One number of several: the highest bit of each, then the next of each."""
    total = F.lit(0).cast("long")
    for bit in range(bits):
        for place, rank in enumerate(ranks):
            own = F.shiftright(rank.cast("long"), bit).bitwiseAND(F.lit(1).cast("long"))
            shift = bit * len(ranks) + len(ranks) - 1 - place
            total = total.bitwiseOR(F.shiftleft(own, shift))
    return total
