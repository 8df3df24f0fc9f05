"""What a lake needs: the state of each table in numbers, and the jobs that would help; and how they are done."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ducklake_spark.catalog import inventory
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.info import table_path
from ducklake_spark.engine.maintenance.cleanup import cleanup_old_files, delete_orphaned_files
from ducklake_spark.engine.maintenance.compaction import merge_adjacent_files, rewrite_data_files
from ducklake_spark.engine.maintenance.expire import expire_snapshots
from ducklake_spark.engine.maintenance.flush import flush_inlined_data
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.changes import ChangeSet, parse_changes
from ducklake_spark.format.duckdb_sql import quote_if_needed
from ducklake_spark.format.objects import TableDef

SAVED_FILES = 8
"""So many files fewer are worth a merge."""
INLINED_ROWS = 1000
"""So many rows in the catalog are worth a flush."""
DELETED = 0.3
"""A file of which so much is deleted is worth a rewrite, unless the option rewrite_delete_threshold says otherwise."""
SNAPSHOTS = 1000
"""So many snapshots are worth a word."""

_HEALTH = (
    "schema_name string, table_name string, files bigint, bytes bigint, small_files bigint, deleted_rows bigint, "
    "delete_ratio double, inlined_rows bigint, snapshots bigint, old_files bigint, old_bytes bigint, "
    "orphans bigint, advice string"
)
_MAINTAIN = "schema_name string, table_name string, job string, reason string, call string, results bigint"

Run = Callable[[Scope], Report]


@dataclass(frozen=True)
class Advice:
    """A job that would help.

    Attributes:
        table: The table; None if it is about the lake.
        job: Its name.
        call: How a user would write it.
        reason: Why, in a few words.
        run: The job; None if only a person can decide.
    """

    table: TableDef | None
    schema_name: str | None
    job: str
    call: str
    reason: str
    run: Run | None


@dataclass(frozen=True)
class _Tables:
    """The tables of a lake at its newest snapshot, with their sizes."""

    tx: Transaction
    tables: Sequence[tuple[str, TableDef]]
    sizes: Mapping[int, inventory.Size]

    @classmethod
    def of(cls, scope: Scope) -> _Tables:
        tx = scope.read_transaction()
        sizes = inventory.sizes(tx.store, tx.snapshot.snapshot_id)
        tables = [(tx.schema_of(table.schema_id).name, table) for table in tx.all_tables()]
        return cls(tx, sorted(tables, key=lambda each: (each[0], each[1].name)), sizes)

    def size(self, table: TableDef) -> inventory.Size:
        return self.sizes.get(table.table_id, inventory.Size())

    def is_compacted(self, table: TableDef) -> bool:
        """Whether jobs may change its files."""
        option = self.tx.options.get("auto_compact", schema_id=table.schema_id, table_id=table.table_id)
        return option != "false"


def health(scope: Scope) -> Report:
    """A row for each table, and one for the lake; the last column is what would help."""
    found = _Tables.of(scope)
    by_table: dict[int | None, list[Advice]] = defaultdict(list)
    for each in _advice(scope, found):
        by_table[None if each.table is None else each.table.table_id].append(each)
    merges = _small_files(scope)
    touched, total = _snapshots(scope)
    old = _old_files(found.tx)
    orphans = [str(row[0]) for row in delete_orphaned_files(scope, dry_run=True).rows]
    rows: list[tuple[Any, ...]] = []
    for schema_name, table in found.tables:
        size = found.size(table)
        folder = table_path(scope, found.tx.schema_of(table.schema_id), table)
        own = [path for path in orphans if path.startswith(folder)]
        files, old_bytes = old.get(table.table_id, (0, 0))
        rows.append(
            (
                schema_name,
                table.name,
                size.files,
                size.file_bytes,
                merges.get((schema_name, table.name), (0, 0))[0],
                size.deleted,
                round(size.deleted / size.records, 4) if size.records else 0.0,
                size.inlined_rows,
                touched[table.table_id],
                files,
                old_bytes,
                len(own),
                _told(by_table[table.table_id]),
            )
        )
        orphans = [path for path in orphans if not path.startswith(folder)]
    sums = [sum(row[place] for row in rows) for place in (2, 3, 4, 5)]
    whole = sum(found.sizes.values(), inventory.Size())
    rows.append(
        (
            None,
            None,
            *sums,
            round(whole.deleted / whole.records, 4) if whole.records else 0.0,
            sum(row[7] for row in rows),
            total,
            sum(files for files, _ in old.values()),
            sum(size for _, size in old.values()),
            sum(row[11] for row in rows) + len(orphans),
            _told(by_table[None]),
        )
    )
    return Report(_HEALTH, rows)


def maintain(scope: Scope, *, dry_run: bool = False) -> Report:
    """Does what `health()` advises, job by job. What a job leaves is looked at again before the next one."""
    if not dry_run:
        scope.require_writable()
    rows = []
    for stage in _STAGES:
        for each in stage(scope, _Tables.of(scope)):
            if each.run is None:
                continue
            results = None if dry_run else len(each.run(scope).rows)
            name = each.table.name if each.table is not None else None
            rows.append((each.schema_name, name, each.job, each.reason, each.call, results))
    return Report(_MAINTAIN, rows)


def _told(advice: Iterable[Advice]) -> str | None:
    return "; ".join(each.call for each in advice) or None


def all_advice(scope: Scope) -> Iterable[Advice]:
    """The jobs that would help, in the order in which to do them."""
    return _advice(scope, _Tables.of(scope))


def _advice(scope: Scope, found: _Tables) -> Iterable[Advice]:
    for stage in _STAGES:
        yield from stage(scope, found)


def _of_table(
    schema_name: str, table: TableDef, job: str, reason: str, run: Run, arguments: str = ""
) -> Advice:
    name = f"{quote_if_needed(schema_name)}.{quote_if_needed(table.name)}"
    shown = name.replace("\\", "\\\\").replace("'", "\\'")
    return Advice(table, schema_name, job, f"lake['{shown}'].{job}({arguments})", reason, run)


def _of_lake(job: str, reason: str, run: Run | None, arguments: str = "") -> Advice:
    return Advice(None, None, job, f"lake.{job}({arguments})", reason, run)


def _flushes(_: Scope, found: _Tables) -> Iterable[Advice]:
    for schema_name, table in found.tables:
        inlined = found.size(table).inlined_rows
        if inlined >= INLINED_ROWS and found.is_compacted(table):
            reason = f"{inlined} rows are in the catalog"
            yield _of_table(
                schema_name, table, "flush_inlined_data", reason, _flush((schema_name, table.name))
            )


def _flush(name: tuple[str, str]) -> Run:
    return lambda scope: flush_inlined_data(scope, table=name)


def _expiries(scope: Scope, _: _Tables) -> Iterable[Advice]:
    expired = len(expire_snapshots(scope, dry_run=True).rows)
    if expired:
        reason = f"{expired} snapshots are older than the option expire_older_than"
        yield _of_lake("expire_snapshots", reason, expire_snapshots)
    elif not scope.read_transaction().options.get("expire_older_than"):
        count = _snapshots(scope)[1]
        if count >= SNAPSHOTS:
            # How long history is kept is for people to say.
            yield _of_lake("expire_snapshots", f"there are {count} snapshots", None, "older_than=...")


def _rewrites(_: Scope, found: _Tables) -> Iterable[Advice]:
    deletes = inventory.deleted_rows(found.tx.store, found.tx.snapshot.snapshot_id)
    for schema_name, table in found.tables:
        files = deletes.get(table.table_id)
        if not files or not found.is_compacted(table):
            continue
        option = found.tx.options.get(
            "rewrite_delete_threshold", schema_id=table.schema_id, table_id=table.table_id
        )
        least = DELETED if option is None else float(option)
        count = sum(deleted >= least * rows for deleted, rows in files)
        if count:
            threshold = DELETED if option is None else None
            reason = f"many rows of {count} {'file' if count == 1 else 'files'} are deleted"
            run = _rewrite((schema_name, table.name), threshold)
            arguments = "" if threshold is None else f"delete_threshold={threshold}"
            yield _of_table(schema_name, table, "rewrite_data_files", reason, run, arguments)


def _rewrite(name: tuple[str, str], threshold: float | None) -> Run:
    return lambda scope: rewrite_data_files(scope, table=name, delete_threshold=threshold)


def _merges(scope: Scope, found: _Tables) -> Iterable[Advice]:
    small = _small_files(scope, least_files=SAVED_FILES + 1)
    for schema_name, table in found.tables:
        before, after = small.get((schema_name, table.name), (0, 0))
        if before - after >= SAVED_FILES:
            reason = f"{before} small files fit into {after}"
            run = _merge((schema_name, table.name))
            yield _of_table(schema_name, table, "merge_adjacent_files", reason, run)


def _merge(name: tuple[str, str]) -> Run:
    return lambda scope: merge_adjacent_files(scope, table=name)


def _cleanups(scope: Scope, _: _Tables) -> Iterable[Advice]:
    files = len(cleanup_old_files(scope, dry_run=True).rows)
    if files:
        yield _of_lake("cleanup_old_files", f"no snapshot needs {files} files any more", cleanup_old_files)


def _orphans(scope: Scope, _: _Tables) -> Iterable[Advice]:
    files = len(delete_orphaned_files(scope, dry_run=True).rows)
    if files:
        yield _of_lake("delete_orphaned_files", f"no catalog row names {files} files", delete_orphaned_files)


_STAGES: tuple[Callable[[Scope, _Tables], Iterable[Advice]], ...] = (
    _flushes,
    _expiries,
    _rewrites,
    _merges,
    _cleanups,
    _orphans,
)
"""In an order in which each job sees what the ones before it left."""


def _small_files(scope: Scope, least_files: int = 2) -> dict[tuple[str, str], tuple[int, int]]:
    """How many files of each table a merge would take, and how many it would make."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    planned = merge_adjacent_files(scope, least_files=least_files, dry_run=True).rows
    for schema_name, table_name, before, after, *_ in planned:
        known = found.get((schema_name, table_name), (0, 0))
        found[schema_name, table_name] = (known[0] + int(before), known[1] + int(after))
    return found


def _snapshots(scope: Scope) -> tuple[Counter[int], int]:
    """How many snapshots changed each table, and how many there are."""
    touched: Counter[int] = Counter()
    rows = scope.snapshot_rows()
    for row in rows:
        touched.update(_touched(parse_changes(row[3])))
    return touched, len(rows)


def _touched(changes: ChangeSet) -> set[int]:
    return (
        changes.inserted_into_tables
        | changes.deleted_from_tables
        | changes.altered_tables
        | changes.inlined_inserts
        | changes.inlined_deletes
        | changes.inline_flushes
        | changes.merge_adjacents
        | changes.rewrite_deletes
        | changes.compacted_tables
    )


def _old_files(tx: Transaction) -> dict[int, tuple[int, int]]:
    """Files that only older snapshots need, and their bytes, by table."""
    found: dict[int, tuple[int, int]] = {}
    asked = [
        (
            f"SELECT table_id, count(*), sum(file_size_bytes) FROM {name} WHERE end_snapshot IS NOT NULL "
            "GROUP BY table_id",
            (),
        )
        for name in ("ducklake_data_file", "ducklake_delete_file")
    ]
    for rows in tx.store.query_many(asked):
        for table_id, count, size in rows:
            known = found.get(int(table_id), (0, 0))
            found[int(table_id)] = (known[0] + int(count), known[1] + int(size or 0))
    return found
