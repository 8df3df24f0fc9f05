"""From the edits of a transaction to the catalog rows of one snapshot. Pure: ids come in, statements come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import zip_longest
from typing import Any, Union

from ducklake_spark.format.changes import format_changes
from ducklake_spark.format.column_mapping import TYPE, Shape
from ducklake_spark.format.columns import ColumnDef, walk_all
from ducklake_spark.format.compaction import CompactedFile, CompactFiles, CompactionKind, SourceFile
from ducklake_spark.format.data import DataFile, DeleteFile, added_statistics
from ducklake_spark.format.edits import Edits, TableEdit
from ducklake_spark.format.encryption import stored
from ducklake_spark.format.flush import FlushInlinedData, flush_rows
from ducklake_spark.format.objects import MacroDef, Snapshot, TableDef, ViewDef, is_local, quoted_list
from ducklake_spark.format.statistics import ColumnStats, TableStats, merge_table
from ducklake_spark.format.versions import FORMAT_1_0, PLAIN, InlinedColumns, LakeFormat


@dataclass(frozen=True)
class Insert:
    """Rows for a table, by position."""

    table: str
    rows: Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class InsertInlined:
    """Rows for an inlined data table; `casts` as in `InlineBatch`, for the columns after the first three."""

    table: str
    rows: Sequence[tuple[Any, ...]]
    casts: Sequence[str]


@dataclass(frozen=True)
class Execute:
    """A statement with parameters."""

    sql: str
    params: tuple[Any, ...]


NOW = "{now}"
"""Stands in a statement for the database's own expression of the present time."""

Statement = Union[Insert, InsertInlined, Execute]  # noqa: UP007 - a name for readers


@dataclass(frozen=True)
class CommitInfo:
    """Who committed, and why. `given` tells an explicit empty message from none."""

    author: str | None = None
    message: str | None = None
    extra_info: str | None = None

    @property
    def given(self) -> bool:
        """Whether anything was said."""
        return not (self.author is None and self.message is None and self.extra_info is None)


@dataclass
class Batch:
    """All that one commit writes, in order. The row of `ducklake_snapshot` itself comes before it."""

    snapshot_id: int
    schema_version: int
    next_catalog_id: int
    next_file_id: int
    changes_made: str | None = None
    inlined_tables: list[tuple[str, TableDef]] = field(default_factory=list)
    delete_tables: list[str] = field(default_factory=list)
    """Tables of inlined deletes that must be there."""
    statements: list[Statement] = field(default_factory=list)
    real_ids: dict[int, int] = field(default_factory=dict)
    makes_snapshot: bool = True


_MOST_IDS = 1000
"""How many ids one statement names; databases have a limit on parameters."""
_MOST_SCHEDULED = 300
_SCHEDULE = (
    "INSERT INTO ducklake_files_scheduled_for_deletion "
    "(data_file_id, path, path_is_relative, schedule_start) VALUES"
)

_TABLE_PARTS = (
    ("ducklake_table", "table_id"),
    ("ducklake_partition_info", "table_id"),
    ("ducklake_column", "table_id"),
    ("ducklake_column_tag", "table_id"),
    ("ducklake_data_file", "table_id"),
    ("ducklake_delete_file", "table_id"),
    ("ducklake_tag", "object_id"),
    ("ducklake_sort_info", "table_id"),
)


_FILE_PARTS = (
    "ducklake_data_file",
    "ducklake_file_column_stats",
    "ducklake_delete_file",
    "ducklake_file_partition_value",
    "ducklake_file_variant_stats",
)
"""What the catalog keeps of a data file."""


@dataclass(frozen=True)
class TableState:
    """What a commit must know of a table to which rows are added."""

    stats: TableStats = field(default_factory=TableStats)
    inlined_table: str | None = None
    """Where inlined rows go; None when a table for them must be made."""
    mappings: Mapping[Shape, int] = field(default_factory=dict)
    """The name maps of files that were added before."""


def build(
    edits: Edits,
    latest: Snapshot,
    can_inline: Callable[[TableDef], bool],
    info: CommitInfo,
    states: Mapping[int, TableState] | None = None,
    lake_format: LakeFormat = FORMAT_1_0,
    inlined_columns: Callable[[str], InlinedColumns] = lambda _: PLAIN,
) -> Batch:
    """The rows of the snapshot after `latest`.

    Args:
        edits: The changes; local ids in them are replaced by real ones.
        latest: The snapshot that this one follows.
        can_inline: Whether small inserts into this table may live in the catalog; tables and schemas in the question
            carry the ids of `edits`.
        info: Author and message.
        states: By id, the existing tables to which rows are added.
        lake_format: What the lake has.
        inlined_columns: The names of the first columns of a table of inlined rows.
    """
    return _Builder(edits, latest, can_inline, info, states or {}, lake_format, inlined_columns).build()


class _Builder:
    def __init__(
        self,
        edits: Edits,
        latest: Snapshot,
        can_inline: Callable[[TableDef], bool],
        info: CommitInfo,
        states: Mapping[int, TableState],
        lake_format: LakeFormat,
        inlined_columns: Callable[[str], InlinedColumns],
    ) -> None:
        self.format, self.inlined_columns = lake_format, inlined_columns
        self.edits, self.can_inline, self.info, self.states = edits, can_inline, info, states
        made = edits.makes_snapshot
        self.raised = edits.is_ddl or any(
            edit.batches and edit.now and self._state(edit.now).inlined_table is None
            for edit in edits.tables.values()
        )
        self.batch = Batch(
            snapshot_id=latest.snapshot_id + 1,
            schema_version=latest.schema_version + (1 if self.raised else 0),
            next_catalog_id=latest.next_catalog_id,
            next_file_id=latest.next_file_id,
            makes_snapshot=made,
        )
        self.ids = self.batch.real_ids
        self.own_delete_files: dict[int, list[tuple[int, DeleteFile]]] = {}
        self.mappings: dict[int, dict[Shape, int]] = {}

    def _state(self, table: TableDef) -> TableState:
        return self.states.get(table.table_id, TableState())

    def build(self) -> Batch:
        if self.batch.makes_snapshot:
            self._allocate()
            self._mappings()
            self._schemas()
            self._tables()
            self._views()
            self._macros()
            self.batch.changes_made = format_changes(self.edits.changes(self.ids))
            info = self.info
            self._insert(
                "ducklake_snapshot_changes",
                (
                    self.batch.snapshot_id,
                    self.batch.changes_made,
                    info.author,
                    info.message,
                    info.extra_info,
                ),
            )
        self._options()
        return self.batch

    def _real(self, object_id: int) -> int:
        return self.ids.get(object_id, object_id)

    def _next(self, local_id: int) -> None:
        self.ids[local_id] = self.batch.next_catalog_id
        self.batch.next_catalog_id += 1

    def _allocate(self) -> None:
        """Schemas first, then tables and views with their specifications, then scalar and table macros."""
        edits = self.edits
        for schema_id, schema in edits.schemas.items():
            if schema.now is not None and is_local(schema_id):
                self._next(schema_id)
        for object_id in edits.created:
            table = edits.tables.get(object_id)
            if table is not None and table.now is not None:
                self._next(object_id)
                self._allocate_specifications(table)
            view = edits.views.get(object_id)
            if view is not None and view.now is not None:
                self._next(object_id)
        for table_id, table in edits.tables.items():
            if not is_local(table_id):
                self._allocate_specifications(table)
        for of_tables in (False, True):
            for macro_id, macro in edits.macros.items():
                if macro.now is not None and is_local(macro_id) and macro.now.is_table == of_tables:
                    self._next(macro_id)

    def _mappings(self) -> None:
        """Name maps of added files: one for each shape that the table has none of yet. Their ids are those of files."""
        for edit in self.edits.tables.values():
            if edit.now is None:
                continue
            table_id = self._real(edit.now.table_id)
            known = self.mappings[table_id] = dict(self._state(edit.now).mappings)
            for mapping in (file.mapping for file in edit.files):
                if mapping is None or mapping.shape in known:
                    continue
                known[mapping.shape] = self.batch.next_file_id
                self._insert("ducklake_column_mapping", (self.batch.next_file_id, table_id, TYPE))
                self._insert("ducklake_name_mapping", *mapping.rows(self.batch.next_file_id))
                self.batch.next_file_id += 1

    def _allocate_specifications(self, edit: TableEdit) -> None:
        if edit.now is None:
            return
        if edit.partitioned and edit.now.partitioning is not None:
            self._next(edit.now.partitioning.partition_id)
        if edit.sorted and edit.now.sorting is not None:
            self._next(edit.now.sorting.sort_id)

    def _insert(self, table: str, *rows: tuple[Any, ...]) -> None:
        if rows:
            self.batch.statements.append(Insert(table, rows))

    def _end(
        self,
        table: str,
        key: str,
        ids: Sequence[int],
        also: str = "",
        params: Sequence[Any] = (),
        end: str = "end_snapshot",
    ) -> None:
        for first in range(0, len(ids), _MOST_IDS):
            some = ids[first : first + _MOST_IDS]
            marks = ", ".join("?" * len(some))
            self.batch.statements.append(
                Execute(
                    f"UPDATE {table} SET {end} = ? WHERE {end} IS NULL AND {key} IN ({marks}){also}",
                    (self.batch.snapshot_id, *some, *params),
                )
            )

    def _schemas(self) -> None:
        begin = self.batch.snapshot_id
        dropped = [i for i, e in self.edits.schemas.items() if e.now is None and e.base is not None]
        self._end("ducklake_schema", "schema_id", dropped)
        self._insert(
            "ducklake_schema",
            *(
                (self.ids[i], e.now.schema_uuid, begin, None, e.now.name, e.now.path, e.now.path_is_relative)
                for i, e in self.edits.schemas.items()
                if e.now is not None and e.base is None
            ),
        )

    def _tables(self) -> None:
        dropped = [i for i, e in self.edits.tables.items() if e.now is None and e.base is not None]
        for part, key in _TABLE_PARTS:
            self._end(part, key, dropped)
        for edit in self.edits.tables.values():
            if edit.now is not None:
                self._table(edit, edit.now)

    def _table(self, edit: TableEdit, table: TableDef) -> None:
        begin, table_id = self.batch.snapshot_id, self._real(table.table_id)
        if edit.base is not None and edit.names:
            self._end("ducklake_table", "table_id", [table_id])
        if edit.names:
            self._insert(
                "ducklake_table",
                (
                    table_id,
                    table.table_uuid,
                    begin,
                    None,
                    self._real(table.schema_id),
                    table.name,
                    table.path,
                    table.path_is_relative,
                ),
            )
        self._columns(edit, table, table_id)
        self._specifications(edit, table, table_id)
        if edit.commented:
            self._tag(table_id, table.comment, is_new=edit.base is None)
        if edit.versioned:
            self._insert("ducklake_schema_versions", (begin, self.batch.schema_version, table_id))
        inlined_table = self._state(table).inlined_table
        if (edit.layout and self.can_inline(table)) or (
            edit.batches and (edit.layout or inlined_table is None)
        ):
            inlined_table = f"ducklake_inlined_data_{table_id}_{self.batch.schema_version}"
            self.batch.inlined_tables.append((inlined_table, table))
            self._insert("ducklake_inlined_data_tables", (table_id, inlined_table, self.batch.schema_version))
        if edit.emptied is not None:
            self._emptied(edit, table_id)
        if edit.adds_rows:
            self._added(edit, table, table_id, inlined_table)
        self._deleted(edit, table_id)
        if edit.flushed is not None:
            self._flushed(edit.flushed, table_id)
        for compaction in edit.compactions:
            self._compacted(compaction, table_id)

    def _deleted(self, edit: TableEdit, table_id: int) -> None:
        begin = self.batch.snapshot_id
        self._end("ducklake_data_file", "data_file_id", [i for i, each in edit.deletes.items() if each.ended])
        positions = [(i, position, begin) for i, each in edit.deletes.items() for position in each.inlined]
        if positions:
            name = f"ducklake_inlined_delete_{table_id}"
            self.batch.delete_tables.append(name)
            self._insert(name, *positions)
        for name, row_ids in edit.ended_rows.items():
            # Not the new versions of the same rows, which this snapshot begins.
            own = self.inlined_columns(name)
            also = f" AND {own.begin} < ?"
            self._end(f'"{name}"', own.row_id, sorted(row_ids), also, [begin], end=own.end)
        continued = [each.file for each in edit.deletes.values() if each.file and each.file.stamp is None]
        ended = [file.replaces[0] for file in continued if file.replaces is not None]
        self._end("ducklake_delete_file", "delete_file_id", ended)
        rows = []
        for file_id, file in self.own_delete_files.get(table_id, ()):
            rows.append(self._delete_row(file, table_id, file_id))
        for file_id, each in edit.deletes.items():
            if each.file is not None:
                rows.append(self._delete_row(each.file, table_id, file_id))
        self._insert("ducklake_delete_file", *rows)

    def _delete_row(self, file: DeleteFile, table_id: int, data_file_id: int) -> tuple[Any, ...]:
        if file.replaces is not None and file.stamp is not None:
            self._forget_delete_file(file.replaces)
        delete_file_id, self.batch.next_file_id = self.batch.next_file_id, self.batch.next_file_id + 1
        begin = self.batch.snapshot_id
        return (
            delete_file_id,
            table_id,
            begin if file.begin_snapshot is None else file.begin_snapshot,
            None,
            data_file_id,
            file.path,
            True,
            file.format,
            file.delete_count,
            file.file_size_bytes,
            file.footer_size,
            stored(file.key),
            None if file.stamp is None else begin,
        )

    def _flushed(self, change: FlushInlinedData, table_id: int) -> None:
        rows = flush_rows(change, self.batch.next_file_id)
        self.batch.next_file_id = rows.next_file_id
        self._insert("ducklake_data_file", *rows.data_files)
        self._insert("ducklake_file_column_stats", *rows.column_stats)
        self._insert("ducklake_file_variant_stats", *rows.variant_stats)
        self._insert("ducklake_file_partition_value", *rows.partition_values)
        known = (change.snapshot_id,)
        emptied = [(name, self.inlined_columns(name).begin) for name in change.inlined_tables]
        if change.deletes:
            emptied.append((f"ducklake_inlined_delete_{table_id}", "begin_snapshot"))
        for name, own in emptied:
            self.batch.statements.append(Execute(f'DELETE FROM "{name}" WHERE {own} <= ?', known))
        for replaced in rows.replaced:
            self._forget_delete_file(replaced)
        self._insert("ducklake_delete_file", *rows.delete_files)
        if change.bytes:
            # The table's other statistics have these rows already.
            added = "UPDATE ducklake_table_stats SET file_size_bytes = file_size_bytes + ? WHERE table_id = ?"
            self.batch.statements.append(Execute(added, (change.bytes, table_id)))

    def _forget_delete_file(self, replaced: tuple[int, str, bool]) -> None:
        """Another file has its deletes: it is not even needed for time travel."""
        forget = Execute("DELETE FROM ducklake_delete_file WHERE delete_file_id = ?", replaced[:1])
        schedule = f"{_SCHEDULE} (?, ?, ?, {NOW})"
        self.batch.statements += [forget, Execute(schedule, replaced)]

    def _compacted(self, change: CompactFiles, table_id: int) -> None:
        """Merged files are forgotten, as the new ones tell the snapshot of each row; rewritten ones end."""
        sources = change.source_ids
        if change.kind is CompactionKind.MERGE:
            for part in _FILE_PARTS:
                self._delete_from(part, "data_file_id", sources)
            self._schedule([source for group in change.groups for source in group.sources])
        else:
            self._end("ducklake_data_file", "data_file_id", sources)
            self._end("ducklake_delete_file", "data_file_id", sources)
        self._insert_files(table_id, change.written)
        if change.stats is not None and change.stats_at == self.batch.snapshot_id - 1:
            self._replace_counts(table_id, change.stats)

    def _schedule(self, files: Sequence[SourceFile]) -> None:
        """Files that no snapshot needs any more; they stay until a clean-up, for readers that know them."""
        for first in range(0, len(files), _MOST_SCHEDULED):
            some = files[first : first + _MOST_SCHEDULED]
            marks = ", ".join([f"(?, ?, ?, {NOW})"] * len(some))
            values = [part for file in some for part in (file.data_file_id, file.path, file.path_is_relative)]
            self.batch.statements.append(Execute(f"{_SCHEDULE} {marks}", tuple(values)))

    def _insert_files(self, table_id: int, written: Sequence[CompactedFile]) -> None:
        files, columns, variants, values = [], [], [], []
        for each in written:
            file = each.file
            file_id, self.batch.next_file_id = self.batch.next_file_id, self.batch.next_file_id + 1
            begin = self.batch.snapshot_id if each.begin_snapshot is None else each.begin_snapshot
            row = _file_row(file, file_id, table_id, begin, file.row_id_start, file.partition_id, None)
            files.append((*row[:-1], each.partial_max))
            columns += [_file_stats_row(stats, file_id, table_id) for stats in file.columns]
            variants += _variant_rows(file, file_id, table_id)
            values += [(file_id, table_id, i, value) for i, value in enumerate(file.partition_values)]
        self._insert("ducklake_data_file", *files)
        self._insert("ducklake_file_column_stats", *columns)
        self._insert("ducklake_file_variant_stats", *variants)
        self._insert("ducklake_file_partition_value", *values)

    def _delete_from(self, table: str, key: str, ids: Sequence[int]) -> None:
        for first in range(0, len(ids), _MOST_IDS):
            some = ids[first : first + _MOST_IDS]
            marks = ", ".join("?" * len(some))
            self.batch.statements.append(
                Execute(f"DELETE FROM {table} WHERE {key} IN ({marks})", tuple(some))
            )

    def _replace_counts(self, table_id: int, stats: TableStats) -> None:
        """How many rows and bytes a table has, counted anew."""
        self.batch.statements.append(
            Execute(
                "UPDATE ducklake_table_stats SET record_count = ?, file_size_bytes = ? WHERE table_id = ?",
                (stats.record_count, stats.file_size_bytes, table_id),
            )
        )

    def _emptied(self, edit: TableEdit, table_id: int) -> None:
        """All rows that were there at the start end; rows of this transaction are added after."""
        assert edit.emptied is not None
        if edit.emptied.kept:
            self._end("ducklake_data_file", "data_file_id", sorted(edit.emptied.ended))
        elif edit.emptied.ended:
            self._end("ducklake_data_file", "table_id", [table_id])
        for name in edit.emptied.inlined_tables:
            end = self.inlined_columns(name).end
            self.batch.statements.append(
                Execute(f'UPDATE "{name}" SET {end} = ? WHERE {end} IS NULL', (self.batch.snapshot_id,))
            )

    def _added(self, edit: TableEdit, table: TableDef, table_id: int, inlined_table: str | None) -> None:
        stats, begin = self._state(table).stats, self.batch.snapshot_id
        row_id, size, count = stats.next_row_id, stats.file_size_bytes, stats.record_count
        files, columns, variants, values = [], [], [], []
        for place, file in enumerate(edit.files):
            file_id, self.batch.next_file_id = self.batch.next_file_id, self.batch.next_file_id + 1
            if place in edit.own_deletes:
                self.own_delete_files.setdefault(table_id, []).append((file_id, edit.own_deletes[place]))
            partition_id = None if file.partition_id is None else self._real(file.partition_id)
            first = file.row_id_start if file.has_row_ids else row_id
            mapping_id = None if file.mapping is None else self.mappings[table_id][file.mapping.shape]
            files.append(_file_row(file, file_id, table_id, begin, first, partition_id, mapping_id))
            columns += [_file_stats_row(each, file_id, table_id) for each in file.columns]
            variants += _variant_rows(file, file_id, table_id)
            values += [(file_id, table_id, i, value) for i, value in enumerate(file.partition_values)]
            row_id += 0 if file.has_row_ids else file.record_count
            count += file.record_count
            size += file.file_size_bytes
        if not edit.files and not (edit.flushed and edit.flushed.files):
            self.batch.next_file_id += 1  # a sign that data changed, although there is no file
        self._insert("ducklake_data_file", *files)
        self._insert("ducklake_file_column_stats", *columns)
        self._insert("ducklake_file_variant_stats", *variants)
        self._insert("ducklake_file_partition_value", *values)
        for batch in edit.batches:
            assert inlined_table is not None
            rows = []
            for kept, row in zip_longest(batch.row_ids, batch.rows):
                rows.append((row_id if kept is None else kept, begin, None, *row))
                row_id += 1 if kept is None else 0
                count += 1
            self.batch.statements.append(InsertInlined(inlined_table, rows, batch.casts))
        self._table_stats(edit, table, table_id, row_id, size, count)

    def _table_stats(
        self, edit: TableEdit, table: TableDef, table_id: int, next_row_id: int, size: int, count: int
    ) -> None:
        stats = self._state(table).stats
        types = {node.column_id: node.type for node, _ in walk_all(table.columns)}
        merged = dict(stats.columns)
        if any(not file.has_row_ids for file in edit.files) or any(
            batch.record_count or batch.columns for batch in edit.batches
        ):
            merged = merge_table(stats, added_statistics(edit.files, edit.batches, types), table.columns)
        if stats.stored:
            self.batch.statements.append(
                Execute(
                    "UPDATE ducklake_table_stats SET record_count = ?, next_row_id = ?, file_size_bytes = ? "
                    "WHERE table_id = ?",
                    (count, next_row_id, size, table_id),
                )
            )
        else:
            self._insert("ducklake_table_stats", (table_id, count, next_row_id, size))
        for column_id in sorted(stats.columns.keys() - merged.keys()):
            self.batch.statements.append(
                Execute(
                    "DELETE FROM ducklake_table_column_stats WHERE table_id = ? AND column_id = ?",
                    (table_id, column_id),
                )
            )
        new = []
        for column_id, column in merged.items():
            values = (
                column.contains_null,
                column.contains_nan,
                column.min_value,
                column.max_value,
                column.extra_stats,
            )
            if not column.stored:
                new.append((table_id, column_id, *values))
            elif column != stats.columns.get(column_id):
                self.batch.statements.append(
                    Execute(
                        "UPDATE ducklake_table_column_stats SET contains_null = ?, contains_nan = ?, min_value = ?, "
                        "max_value = ?, extra_stats = ? WHERE table_id = ? AND column_id = ?",
                        (*values, table_id, column_id),
                    )
                )
        self._insert("ducklake_table_column_stats", *new)

    def _columns(self, edit: TableEdit, table: TableDef, table_id: int) -> None:
        before = {node.column_id for node, _ in walk_all(edit.base.columns)} if edit.base else set()
        after = {node.column_id for node, _ in walk_all(table.columns)}
        ended = sorted((before - after) | (edit.rewritten & before & after))
        self._end("ducklake_column", "table_id", [table_id] if ended else [], *_in("column_id", ended))
        self._insert(
            "ducklake_column",
            *(
                _column_row(node, parent, table_id, self.batch.snapshot_id)
                for node, parent in walk_all(table.columns)
                if node.column_id not in before or node.column_id in edit.rewritten
            ),
        )
        comments = {i: text for i, text in edit.column_comments.items() if i in after}
        commented = sorted(comments.keys() & before)
        self._end(
            "ducklake_column_tag", "table_id", [table_id] if commented else [], *_in("column_id", commented)
        )
        self._insert(
            "ducklake_column_tag",
            *(
                (table_id, i, self.batch.snapshot_id, None, "comment", text)
                for i, text in comments.items()
                if i in before or text is not None
            ),
        )

    def _specifications(self, edit: TableEdit, table: TableDef, table_id: int) -> None:
        begin = self.batch.snapshot_id
        if edit.partitioned and table.partitioning is not None:
            if edit.base is not None:
                self._end("ducklake_partition_info", "table_id", [table_id])
            partition_id = self.ids[table.partitioning.partition_id]
            self._insert("ducklake_partition_info", (partition_id, table_id, begin, None))
            self._insert(
                "ducklake_partition_column",
                *(
                    (partition_id, table_id, index, key.column_id, key.transform)
                    for index, key in enumerate(table.partitioning.keys)
                ),
            )
        if edit.sorted:
            if edit.base is not None:
                self._end("ducklake_sort_info", "table_id", [table_id])
            if table.sorting is not None:
                sort_id = self.ids[table.sorting.sort_id]
                self._insert("ducklake_sort_info", (sort_id, table_id, begin, None))
                self._insert(
                    "ducklake_sort_expression",
                    *(
                        (sort_id, table_id, index, key.expression, key.dialect, key.direction, key.null_order)
                        for index, key in enumerate(table.sorting.keys)
                    ),
                )

    def _tag(self, object_id: int, comment: str | None, *, is_new: bool) -> None:
        if not is_new:
            self._end("ducklake_tag", "object_id", [object_id], ' AND "key" = ?', ["comment"])
        elif comment is None:
            return
        self._insert("ducklake_tag", (object_id, self.batch.snapshot_id, None, "comment", comment))

    def _views(self) -> None:
        dropped = [i for i, e in self.edits.views.items() if e.now is None and e.base is not None]
        self._end("ducklake_view", "view_id", dropped)
        self._end("ducklake_tag", "object_id", dropped)
        if self.format.has_view_column_tags:
            self._end("ducklake_view_column_tag", "view_id", dropped)
        for edit in self.edits.views.values():
            if edit.now is None:
                continue
            view_id = self._real(edit.now.view_id)
            if edit.base is not None and edit.names:
                self._end("ducklake_view", "view_id", [view_id])
            if edit.names:
                self._insert("ducklake_view", self._view_row(edit.now, view_id))
            if edit.commented:
                self._tag(view_id, edit.now.comment, is_new=edit.base is None)

    def _view_row(self, view: ViewDef, view_id: int) -> tuple[Any, ...]:
        aliases = quoted_list(view.column_aliases)
        schema_id = self._real(view.schema_id)
        begin = self.batch.snapshot_id
        return (view_id, view.view_uuid, begin, None, schema_id, view.name, view.dialect, view.sql, aliases)

    def _macros(self) -> None:
        dropped = [i for i, e in self.edits.macros.items() if e.now is None and e.base is not None]
        self._end("ducklake_macro", "macro_id", dropped)
        for edit in self.edits.macros.values():
            if edit.now is not None and edit.base is None:
                self._macro(edit.now, self.ids[edit.now.macro_id])

    def _macro(self, macro: MacroDef, macro_id: int) -> None:
        begin = self.batch.snapshot_id
        self._insert("ducklake_macro", (self._real(macro.schema_id), macro_id, macro.name, begin, None))
        self._insert(
            "ducklake_macro_impl",
            *((macro_id, index, impl.dialect, impl.sql, impl.type) for index, impl in enumerate(macro.impls)),
        )
        self._insert(
            "ducklake_macro_parameters",
            *(
                (
                    macro_id,
                    index,
                    position,
                    parameter.name,
                    parameter.type,
                    "NULL" if parameter.default_value is None else parameter.default_value,
                    parameter.default_value_type,
                )
                for index, impl in enumerate(macro.impls)
                for position, parameter in enumerate(impl.parameters)
            ),
        )

    def _options(self) -> None:
        for (key, scope, scope_id), value in self.edits.options.items():
            real_id = None if scope_id is None else self._real(scope_id)
            params: tuple[Any, ...] = (key,)
            where = '"key" = ? AND scope IS NULL'
            if scope is not None:
                where, params = '"key" = ? AND scope = ? AND scope_id = ?', (key, scope, real_id)
            self.batch.statements.append(Execute(f"DELETE FROM ducklake_metadata WHERE {where}", params))
            self._insert("ducklake_metadata", (key, value, scope, real_id))


def _in(column: str, ids: Sequence[int]) -> tuple[str, Sequence[int]]:
    return f" AND {column} IN ({', '.join('?' * len(ids))})", ids


def _column_row(node: ColumnDef, parent: int | None, table_id: int, begin: int) -> tuple[Any, ...]:
    return (
        node.column_id,
        begin,
        None,
        table_id,
        node.column_id,
        node.name,
        node.type,
        node.initial_default,
        "NULL" if node.default_value is None else node.default_value,
        node.nulls_allowed,
        parent,
        node.default_value_type,
        "duckdb",
    )


def _file_row(
    file: DataFile,
    file_id: int,
    table_id: int,
    begin: int,
    row_id_start: int | None,
    partition_id: int | None,
    mapping_id: int | None,
) -> tuple[Any, ...]:
    return (
        file_id,
        table_id,
        begin,
        None,
        None,
        file.path,
        file.path_is_relative,
        "parquet",
        file.record_count,
        file.file_size_bytes,
        file.footer_size,
        row_id_start,
        partition_id,
        stored(file.key),
        mapping_id,
        None,
    )


def _variant_rows(file: DataFile, file_id: int, table_id: int) -> list[tuple[Any, ...]]:
    return [
        (file_id, table_id, each.column_id, *astuple(leaf)) for each in file.columns for leaf in each.variants
    ]


def _file_stats_row(stats: ColumnStats, file_id: int, table_id: int) -> tuple[Any, ...]:
    return (
        file_id,
        table_id,
        stats.column_id,
        stats.column_size_bytes,
        stats.value_count,
        stats.null_count,
        stats.min_value,
        stats.max_value,
        stats.contains_nan,
        stats.extra_stats,
    )
