"""What a scan reads, as a value: groups of files that share one way of being read, deletes and inlined rows.

Made from a few SQL queries whose results do not grow with the number of files. The files of a group are listed
when Spark asks for them, with the query's filters.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from ducklake_spark.catalog.store import Query, Store
from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.errors import DuckLakeError, FileError, NotFoundError
from ducklake_spark.format import paths
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.objects import SchemaDef, Snapshot, TableDef, is_local, table_folder
from ducklake_spark.format.partitioning import PartitionKey
from ducklake_spark.scan.inlined import InlinedTable
from ducklake_spark.scan.planning.staleness import has_moved
from ducklake_spark.scan.projection.column import (
    ColumnProjection,
    History,
    NameMap,
    Node,
    column_projection,
    epochs,
)
from ducklake_spark.scan.projection.footer import read_all
from ducklake_spark.scan.projection.physical_types import (
    Types,
    asked,
    history_of,
    types_before,
    types_of,
)
from ducklake_spark.scan.projection.types import TypeChoices
from ducklake_spark.scan.projection.worker_columns import projection as workers_projection
from ducklake_spark.storage import whole_path
from ducklake_spark.workers.object_store import Access

_ATTEMPTS = 10
_REMEMBERED = 100


@dataclass(frozen=True)
class LakeInfo:
    """What a scan must know about the lake: its name for messages, where its data is, and whether it is encrypted."""

    name: str
    data_path: str
    is_encrypted: bool = False
    reach: Callable[[], Access] = field(default=Access, repr=False, compare=False)
    """Says how workers reach object stores."""


@dataclass(frozen=True)
class GroupKey:
    """What tells one way of reading from another."""

    mapping_id: int | None = None
    has_deletes: bool = False
    is_filtered: bool = False
    """Whether rows of later snapshots are in the files."""
    epoch: int = 0
    exact_integers: bool = False
    """Whether the files keep 128-bit integers as decimals."""
    file_ids: tuple[int, ...] | None = None
    """Which files they are, where nothing in the catalog tells them from others."""
    other_ids: tuple[int, ...] = ()
    """Those others, which are read in another way."""
    deletes_differ: bool = False
    """Whether files without deletes are among them as well."""

    def has(self, other: GroupKey) -> bool:
        """Whether it is a key of the same files, or of some of them."""
        return (
            replace(other, has_deletes=True, deletes_differ=True) == self
            if self.deletes_differ
            else self == other
        )


@dataclass(frozen=True)
class FileGroup:
    """Files that are read in one way, with what the catalog says about all of them."""

    key: GroupKey
    projections: tuple[ColumnProjection, ...]
    files: int
    size: int
    records: int
    highest_row_id_start: int
    first_snapshot: int
    last_snapshot: int
    lowest_file_id: int
    highest_file_id: int


@dataclass(frozen=True)
class DeleteSources:
    """Where deleted positions are: how many delete files of each format, and whether the catalog has some."""

    formats: Mapping[str, int] = field(default_factory=dict)
    positions: int = 0
    inlined_table: str | None = None


@dataclass(frozen=True)
class ScanPlan:
    """A table at a snapshot."""

    lake: LakeInfo
    schema: SchemaDef
    table: TableDef
    snapshot: Snapshot
    choices: TypeChoices
    history: History
    boundaries: tuple[int, ...]
    groups: tuple[FileGroup, ...]
    deletes: DeleteSources
    inlined: tuple[InlinedTable, ...]
    newest_snapshot: int
    """The lake's newest snapshot when the plan was made: nothing can have moved while it is the newest."""
    next_file_id: int
    """Files with this id or a higher one were written later, and hold nothing that this plan does not know of."""
    bucket_keys: tuple[tuple[int, int, int, int], ...] = ()
    """Every bucket key that the table ever had: specification, index of the key, column and number of buckets."""

    column_rows: tuple[tuple[Any, ...], ...] = ()
    """All versions of the table's columns, as the catalog keeps them."""

    def columns_at(self, snapshot_id: int) -> tuple[ColumnDef, ...]:
        """The columns that the table had at an earlier snapshot, without their defaults."""
        return InlinedTable("", 0, columns_at(self.column_rows, snapshot_id)).columns()

    @property
    def table_path(self) -> str:
        """The folder of the table, whole."""
        return table_folder(self.lake.data_path, self.schema, self.table)

    @property
    def title(self) -> str:
        """The table as messages and `explain()` name it: `lake.main.t at snapshot 7`."""
        return (
            f"{self.lake.name}.{self.schema.name}.{self.table.name} at snapshot {self.snapshot.snapshot_id}"
        )

    @property
    def total_files(self) -> int:
        """How many data files the table has."""
        return sum(group.files for group in self.groups)


def make_plan(
    store: Store,
    lake: LakeInfo,
    schema: SchemaDef,
    table: TableDef,
    snapshot: Snapshot,
    choices: TypeChoices,
) -> ScanPlan:
    """Asks the catalog how the table is to be read. Repeats itself if a compaction came between its queries.

    What it learns of the newest snapshot holds as long as that is the newest one, and is remembered.
    """
    place = (lake, schema, table, snapshot, choices)
    known = _remembered(store, place)
    if known is not None:
        return known
    for _ in range(_ATTEMPTS):
        plan, newest = _make_plan(store, lake, schema, table, snapshot, choices)
        if plan.newest_snapshot == newest or not has_moved(store, table.table_id, plan.newest_snapshot):
            if plan.newest_snapshot == newest == snapshot.snapshot_id and not is_local(table.table_id):
                _remember(store, place, plan)
            return plan
    raise DuckLakeError(
        f"The lake {lake.name} was changed {_ATTEMPTS} times while a scan of {plan.title} was planned. Try again."
    )


_plans: WeakKeyDictionary[Store, OrderedDict[int, tuple[tuple[Any, ...], ScanPlan]]] = WeakKeyDictionary()
"""Plans at a lake's newest snapshot, of the tables that were read last."""
_plans_lock = threading.Lock()


def _remembered(store: Store, place: tuple[Any, ...]) -> ScanPlan | None:
    with _plans_lock:
        known = _plans.get(store, {}).get(place[2].table_id)
    if known is None or known[0] != place:
        return None
    plan = known[1]
    # Who reads an older snapshot may have to know what was compacted since. Empty inlined tables go without a snapshot.
    [(newest,)], tables = store.query_many(
        [
            ("SELECT max(snapshot_id) FROM ducklake_snapshot", ()),
            (
                "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?",
                (plan.table.table_id,),
            ),
        ]
    )
    is_same = {str(name) for (name,) in tables} == {each.table_name for each in plan.inlined}
    return plan if newest == plan.newest_snapshot and is_same else None


def _remember(store: Store, place: tuple[Any, ...], plan: ScanPlan) -> None:
    with _plans_lock:
        plans = _plans.setdefault(store, OrderedDict())
        plans[place[2].table_id] = (place, plan)
        plans.move_to_end(place[2].table_id)
        while len(plans) > _REMEMBERED:
            plans.popitem(last=False)


def _make_plan(
    store: Store, lake: LakeInfo, schema: SchemaDef, table: TableDef, snapshot: Snapshot, choices: TypeChoices
) -> tuple[ScanPlan, int]:
    at = snapshot.snapshot_id
    inlined_delete = f"ducklake_inlined_delete_{table.table_id}"
    newest, exists, tables, columns, formats, versions, keys = store.query_many(
        [
            ("SELECT max(snapshot_id), max(next_file_id) FROM ducklake_snapshot", ()),
            (f"SELECT 1 FROM ({store.tables_sql()}) AS t WHERE t.table_name = ?", (inlined_delete,)),
            (
                "SELECT table_name, schema_version FROM ducklake_inlined_data_tables WHERE table_id = ? "
                "ORDER BY schema_version",
                (table.table_id,),
            ),
            (
                "SELECT column_id, begin_snapshot, end_snapshot, column_type, parent_column, column_name, column_order "
                "FROM ducklake_column WHERE table_id = ? AND begin_snapshot <= ?",
                (table.table_id, at),
            ),
            (
                "SELECT format, count(*), sum(delete_count) FROM ducklake_delete_file WHERE table_id = ? AND "
                f"{LIVE} GROUP BY format",
                (table.table_id, at, at),
            ),
            (
                "SELECT schema_version, begin_snapshot FROM ducklake_schema_versions WHERE table_id = ?",
                (table.table_id,),
            ),
            (
                "SELECT partition_id, partition_key_index, column_id, transform FROM ducklake_partition_column "
                "WHERE table_id = ?",
                (table.table_id,),
            ),
        ]
    )
    deletes = DeleteSources(
        {str(name): int(count) for name, count, _ in formats},
        sum(int(positions or 0) for _, _, positions in formats),
        inlined_delete if exists else None,
    )
    nodes = [Node(c, b, str(t).lower(), p, n) for c, b, _, t, p, n, _ in columns]
    history = History.of(nodes)
    choices = replace(choices, infinite_millis=_may_be_infinite(store, table.table_id, nodes))
    begins = {int(version): int(begin) for version, begin in versions}
    first = min((node.begin_snapshot for node in nodes), default=0)
    plan = ScanPlan(
        lake,
        schema,
        table,
        snapshot,
        choices,
        history,
        () if lake.is_encrypted else epochs(table.columns, history, choices),
        (),
        deletes,
        tuple(
            InlinedTable(
                str(name), int(version), columns_at(columns, layout_begin(begins, int(version), first))
            )
            for name, version in tables
            # A table of a later version has no rows that this snapshot sees.
            if layout_begin(begins, int(version), first) <= at
        ),
        int(newest[0][0] or 0),
        int(newest[0][1] or 0),
        tuple(
            (int(partition_id), int(index), int(column_id), buckets)
            for partition_id, index, column_id, transform in keys
            if (buckets := PartitionKey(int(column_id), str(transform)).buckets) is not None
        ),
        tuple(map(tuple, columns)),
    )
    if not nodes and not is_local(table.table_id):
        raise NotFoundError(f"The catalog has no columns of {plan.title}: it was dropped and expired.")
    rows, after = summary(store, plan)
    _require_keys(plan, sum(int(row[5]) for row in rows), sum(int(row[-1]) for row in rows))
    names = name_maps(store, {row[0] for row in rows if row[0] is not None})
    groups = tuple(
        group
        for row in sorted(rows, key=lambda row: tuple(map(_sortable, row[:5])))
        for group in _groups(store, plan, row, names)
    )
    return replace(plan, groups=groups), after


def _require_keys(plan: ScanPlan, files: int, encrypted: int) -> None:
    """In an encrypted lake each file has a key, in another none."""
    if plan.lake.is_encrypted and encrypted < files:
        raise FileError(
            f"{plan.title} has {files - encrypted} data files without a key, though the lake is encrypted: DuckLake "
            "did not write them. Remove their rows of ducklake_data_file, or give these the keys."
        )
    if encrypted and not plan.lake.is_encrypted:
        raise FileError(
            f"{plan.title} has {encrypted} encrypted data files, though its lake is not encrypted: nothing reads them "
            "here. Set encrypted to true in ducklake_metadata if all of its files are."
        )


def _may_be_infinite(store: Store, table_id: int, nodes: Sequence[Node]) -> bool:
    """Whether the table's bounds leave room for a `timestamp_ms` without end."""
    ids = sorted({node.column_id for node in nodes if node.column_type == "timestamp_ms"})
    if not ids:
        return False
    finite = store.query(
        "SELECT count(*) FROM ducklake_table_column_stats WHERE min_value <> '-infinity' AND max_value <> 'infinity' "
        f"AND table_id = ? AND column_id IN ({', '.join(map(str, ids))})",
        (table_id,),
    )
    return int(finite[0][0]) < len(ids)


def layout_begin(begins: Mapping[int, int], version: int, first: int) -> int:
    """The snapshot at which the layout of an inlined data table began.

    A table that was made late, for the first rows after inlining was turned on, has a version of its own that stands
    in no row of `ducklake_schema_versions`: its layout is that of the version before.
    """
    return max((begin for known, begin in begins.items() if known <= version), default=first)


def _sortable(value: Any) -> int:
    return -1 if value is None else int(value)


def columns_at(columns: Sequence[tuple[Any, ...]], at: int) -> tuple[tuple[int, str, str, int | None], ...]:
    """The nodes of the table's schema at a snapshot, in order: id, name, type, parent."""
    live = [row for row in columns if row[1] <= at and (row[2] is None or row[2] > at)]
    return tuple(
        (c, n, str(t).lower(), p) for c, _, _, t, p, n, _ in sorted(live, key=lambda row: (row[6], row[0]))
    )


def _groups(
    store: Store, plan: ScanPlan, row: Sequence[Any], names: Mapping[int, NameMap]
) -> Iterator[FileGroup]:
    """One group for one way of reading; more where files with one name map keep a column in several types."""
    key = GroupKey(row[0], bool(row[1]), bool(row[2]), int(row[3]), bool(row[4]))
    totals, columns = row[5:13], plan.table.columns
    start = plan.boundaries[key.epoch - 1] if key.epoch else None
    if key.mapping_id is not None:
        names_of = names[key.mapping_id]
        wanted = asked(columns, plan.history)
        if not wanted:
            yield _group(plan, key, totals, names_of)
            return
        found = dict[Types, list[tuple[Any, ...]]]()
        listed = list(_listed(store, plan, key))
        read_all([path for path, _ in listed])
        for path, facts in listed:
            found.setdefault(types_of(path, names_of, columns, wanted), []).append(facts)
        for types, files in found.items():
            own = key if len(found) == 1 else replace(key, file_ids=_ids(files))
            yield _group(plan, own, _totals(files), replace(names_of, types=dict(types)))
    elif start is not None and totals[4] == start:
        # Files of the very snapshot that changed the columns: were they written before the change?
        older = dict[Types, list[tuple[Any, ...]]]()
        for path, facts in _listed(store, plan, key, begin=start):
            if (before := types_before(path, plan.history, start)) is not None:
                older.setdefault(before, []).append(facts)
        for types, files in older.items():
            own = replace(key, file_ids=_ids(files))
            yield _group(plan, own, _totals(files), None, history_of(types, plan.history))
        apart = [facts for files in older.values() for facts in files]
        if len(apart) < totals[0]:
            left = (
                totals[0] - len(apart),
                totals[1] - sum(f[1] for f in apart),
                totals[2] - sum(f[2] for f in apart),
            )
            yield _group(plan, replace(key, other_ids=_ids(apart)), (*left, *totals[3:]), None)
    else:
        yield _group(plan, key, totals, None)


def _ids(files: Iterable[tuple[Any, ...]]) -> tuple[int, ...]:
    return tuple(sorted(facts[0] for facts in files))


def _listed(
    store: Store, plan: ScanPlan, key: GroupKey, begin: int | None = None
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The files of a group, or of a snapshot in it: the whole path, and what `_totals` sums up."""
    where, params = group_condition(plan, key)
    where += "" if begin is None else f" AND f.begin_snapshot = {begin}"
    rows = store.query(
        "SELECT f.path, f.path_is_relative, f.data_file_id, f.file_size_bytes, f.record_count, f.row_id_start, "
        f"f.begin_snapshot FROM ducklake_data_file f WHERE {where}",
        params,
    )
    for path, relative, *facts in rows:
        yield whole_path(paths.join(plan.table_path, path, bool(relative))), tuple(facts)


def _totals(files: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """What files have in sum, as `summary` tells it."""
    ids, sizes, records, row_ids, snapshots = zip(*files, strict=True)
    known = [row_id for row_id in row_ids if row_id is not None]
    highest = max(known) if known else None
    return (
        len(files), sum(sizes), sum(records), highest, min(snapshots), max(snapshots), min(ids), max(ids)
    )  # fmt: skip


def _group(
    plan: ScanPlan,
    key: GroupKey,
    totals: Sequence[Any],
    names: NameMap | None,
    history: History | None = None,
) -> FileGroup:
    if plan.lake.is_encrypted:
        made = tuple(workers_projection(column, plan.choices) for column in plan.table.columns)
        return FileGroup(key, made, *(int(value) if value is not None else -1 for value in totals))
    choices = replace(plan.choices, exact_integers=key.exact_integers)
    # The first snapshot of the epoch's files: whatever came later in the epoch makes no difference to reading them.
    inside = int(totals[4]) if plan.boundaries and names is None else None
    projections = tuple(
        column_projection(column, choices, history=history or plan.history, snapshot_id=inside, names=names)
        for column in plan.table.columns
    )
    return FileGroup(key, projections, *(int(value) if value is not None else -1 for value in totals))


def summary(store: Store, plan: ScanPlan) -> tuple[list[tuple[Any, ...]], int]:
    """One row for each way of reading: the five parts of its key, what its files have in sum, and encrypted files.

    Also the newest snapshot. Nearly always there is one way, which is found without the sorting of a GROUP BY.
    """
    parts, totals = _summary_parts(plan)
    at = plan.snapshot.snapshot_id
    where = f"FROM ducklake_data_file f WHERE f.table_id = ? AND {LIVE} AND f.data_file_id < ?"
    params = (plan.table.table_id, at, at, plan.next_file_id)
    newest_query: Query = ("SELECT max(snapshot_id) FROM ducklake_snapshot", ())
    ends = ", ".join(f"min({part}), max({part})" for part in parts)
    (row,), newest = store.query_many(
        [(f"SELECT {ends}, count(f.mapping_id), {totals} {where}", params), newest_query]
    )
    width = 2 * len(parts)
    low, high, mapped, sums = row[0:width:2], row[1:width:2], row[width], row[width + 1 :]
    if not sums[0]:
        return [], int(newest[0][0] or 0)
    if low == high and mapped in (0, sums[0]):
        return [(*low, *sums)], int(newest[0][0] or 0)
    rows, newest = store.query_many(
        [(f"SELECT {', '.join(parts)}, {totals} {where} GROUP BY 1, 2, 3, 4, 5", params), newest_query]
    )
    return list(rows), int(newest[0][0] or 0)


def _summary_parts(plan: ScanPlan) -> tuple[list[str], str]:
    """The five parts of a group's key as expressions on `f`, and the sums."""
    epoch = "".join(
        f"WHEN f.begin_snapshot < {boundary} THEN {i} " for i, boundary in enumerate(plan.boundaries)
    )
    keys = [
        "f.mapping_id",
        f"CASE WHEN {has_deletes(plan)} THEN 1 ELSE 0 END",
        f"CASE WHEN f.partial_max > {plan.snapshot.snapshot_id} THEN 1 ELSE 0 END",
        f"CASE {epoch}ELSE {len(plan.boundaries)} END" if epoch else "0",
        f"CASE WHEN {is_exact(plan)} THEN 1 ELSE 0 END",
    ]
    sums = (
        "count(*), sum(f.file_size_bytes), sum(f.record_count), max(f.row_id_start), min(f.begin_snapshot), "
        "max(f.begin_snapshot), min(f.data_file_id), max(f.data_file_id), "
        "sum(CASE WHEN f.encryption_key IS NOT NULL THEN 1 ELSE 0 END)"
    )
    return keys, sums


def is_exact(plan: ScanPlan) -> str:
    """A condition on `f`: it keeps 128-bit integers as decimals.

    Such files say of these columns that they contain no NaN. The extension, which writes doubles, says nothing.
    """
    wide = sorted(
        column_id
        for column_id, versions in plan.history.versions.items()
        if any(node.column_type in ("int128", "uint128") for node in versions)
    )
    if not wide:
        return "1 = 0"
    return (
        "f.data_file_id IN (SELECT data_file_id FROM ducklake_file_column_stats WHERE table_id = "
        f"{plan.table.table_id} AND NOT contains_nan AND column_id IN ({', '.join(map(str, wide))}))"
    )


def has_deletes(plan: ScanPlan) -> str:
    """A condition on `f`: the file has deleted rows."""
    at, table_id = plan.snapshot.snapshot_id, plan.table.table_id
    parts = []
    # Where there are inlined deletes, a flush makes a delete file of them later.
    if plan.deletes.formats or plan.deletes.inlined_table is not None:
        live = f"begin_snapshot <= {at} AND (end_snapshot IS NULL OR end_snapshot > {at})"
        parts.append(
            f"f.data_file_id IN (SELECT data_file_id FROM ducklake_delete_file WHERE table_id = {table_id} AND {live})"
        )
    if plan.deletes.inlined_table is not None:
        parts.append(
            f"f.data_file_id IN (SELECT file_id FROM {plan.deletes.inlined_table} WHERE begin_snapshot <= {at})"
        )
    return " OR ".join(parts) or "1 = 0"


def group_condition(
    plan: ScanPlan, key: GroupKey, next_file_id: int | None = None
) -> tuple[str, tuple[Any, ...]]:
    """A condition on `f`: the file is live and belongs to the group; `next_file_id` as in the plan by default."""
    at = plan.snapshot.snapshot_id
    parts = [f"f.table_id = ? AND {LIVE} AND f.data_file_id < ?"]
    params: list[Any] = [plan.table.table_id, at, at, next_file_id or plan.next_file_id]
    if key.mapping_id is None:
        parts.append("f.mapping_id IS NULL")
    else:
        parts.append("f.mapping_id = ?")
        params.append(key.mapping_id)
    parts.append("f.partial_max > ?" if key.is_filtered else "(f.partial_max IS NULL OR f.partial_max <= ?)")
    params.append(at)
    if key.exact_integers:
        parts.append(is_exact(plan))
    elif is_exact(plan) != "1 = 0":
        parts.append(f"NOT ({is_exact(plan)})")
    if key.file_ids is not None:
        parts.append(f"f.data_file_id IN ({', '.join(map(str, key.file_ids))})")
    if key.other_ids:
        parts.append(f"f.data_file_id NOT IN ({', '.join(map(str, key.other_ids))})")
    if not key.deletes_differ:
        marks = has_deletes(plan)
        parts.append(f"({marks})" if key.has_deletes else f"NOT ({marks})")
    if plan.boundaries:
        edges = [None, *plan.boundaries, None]
        low, high = edges[key.epoch], edges[key.epoch + 1]
        if low is not None:
            parts.append(f"f.begin_snapshot >= {low}")
        if high is not None:
            parts.append(f"f.begin_snapshot < {high}")
    return " AND ".join(parts), tuple(params)


def together(groups: Iterable[FileGroup]) -> list[FileGroup]:
    """Groups of which some differ by deletes only as one each."""
    found: dict[tuple[GroupKey, tuple[ColumnProjection, ...]], FileGroup] = {}
    for group in groups:
        place = (replace(group.key, has_deletes=True, deletes_differ=True), group.projections)
        known = found.get(place)
        found[place] = group if known is None else _joined(place[0], known, group)
    return list(found.values())


def _joined(key: GroupKey, one: FileGroup, other: FileGroup) -> FileGroup:
    return FileGroup(
        key,
        one.projections,
        one.files + other.files,
        one.size + other.size,
        one.records + other.records,
        max(one.highest_row_id_start, other.highest_row_id_start),
        min(one.first_snapshot, other.first_snapshot),
        max(one.last_snapshot, other.last_snapshot),
        min(one.lowest_file_id, other.lowest_file_id),
        max(one.highest_file_id, other.highest_file_id),
    )


def name_maps(store: Store, mapping_ids: set[int]) -> dict[int, NameMap]:
    """The name maps with these ids."""
    if not mapping_ids:
        return {}
    marks = ", ".join("?" * len(mapping_ids))
    rows = store.query(
        "SELECT mapping_id, source_name, target_field_id, is_partition FROM ducklake_name_mapping "
        f"WHERE mapping_id IN ({marks})",
        tuple(mapping_ids),
    )
    found: dict[int, NameMap] = {}
    for mapping_id in mapping_ids:
        own = [row for row in rows if row[0] == mapping_id]
        found[mapping_id] = NameMap(
            {int(target): str(name) for _, name, target, partition in own if not partition},
            {int(target): str(name) for _, name, target, partition in own if partition},
        )
    return found
