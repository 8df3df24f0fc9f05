"""The changes of a transaction as values, and `Edits`: what they add up to. Pure.

A change is applied after it was checked, so `apply` cannot fail half way. Objects made here have negative ids; real
ones are given by `rows.build`, anew for each attempt to commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, TypeVar, Union

from ducklake_spark.format.changes import ChangeSet
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.compaction import CompactFiles, CompactionKind
from ducklake_spark.format.conflicts import OwnChanges
from ducklake_spark.format.data import DataFile, DeleteFile, FileDeletes, InlineBatch
from ducklake_spark.format.flush import FlushInlinedData
from ducklake_spark.format.objects import MacroDef, SchemaDef, TableDef, ViewDef, is_local
from ducklake_spark.format.partitioning import Partitioning
from ducklake_spark.format.sorting import Sorting
from ducklake_spark.format.types import fold


@dataclass(frozen=True)
class CreateSchema:
    """A new schema."""

    schema: SchemaDef


@dataclass(frozen=True)
class DropSchema:
    """A schema that is empty, or emptied by changes before this one."""

    schema: SchemaDef


@dataclass(frozen=True)
class CreateTable:
    """A new table."""

    table: TableDef
    schema: SchemaDef


@dataclass(frozen=True)
class DropTable:
    """A table and all that belongs to it."""

    table: TableDef


@dataclass(frozen=True)
class RenameTable:
    """A new name in the same schema."""

    table: TableDef
    schema: SchemaDef
    name: str


@dataclass(frozen=True)
class ChangeColumns:
    """New columns of a table.

    Attributes:
        rewritten: Ids of nodes that get a new row although they existed before.
        layout: Whether names or types changed, so that inlined rows need a new table.
        checks_nulls: Whether a NOT NULL was checked on the rows.
    """

    table: TableDef
    columns: tuple[ColumnDef, ...]
    next_column_id: int
    rewritten: frozenset[int] = frozenset()
    layout: bool = True
    checks_nulls: bool = False


@dataclass(frozen=True)
class SetPartitioning:
    """A partition specification with a local id; without keys it resets."""

    table: TableDef
    partitioning: Partitioning


@dataclass(frozen=True)
class SetSorting:
    """A sort specification with a local id, or None to reset."""

    table: TableDef
    sorting: Sorting | None


@dataclass(frozen=True)
class CommentTable:
    """A comment on a table, or None to remove it."""

    table: TableDef
    comment: str | None


@dataclass(frozen=True)
class CommentColumn:
    """A comment on a column, or None to remove it."""

    table: TableDef
    column_id: int
    comment: str | None


@dataclass(frozen=True)
class CreateView:
    """A new view."""

    view: ViewDef
    schema: SchemaDef


@dataclass(frozen=True)
class DropView:
    """A view and its comments."""

    view: ViewDef


@dataclass(frozen=True)
class RenameView:
    """A new name in the same schema."""

    view: ViewDef
    schema: SchemaDef
    name: str


@dataclass(frozen=True)
class CommentView:
    """A comment on a view, or None to remove it."""

    view: ViewDef
    comment: str | None


@dataclass(frozen=True)
class CreateMacro:
    """A new macro."""

    macro: MacroDef
    schema: SchemaDef


@dataclass(frozen=True)
class DropMacro:
    """A macro."""

    macro: MacroDef


@dataclass(frozen=True)
class SetOption:
    """An option at a scope; `scope_id` may be local. Options are not part of any snapshot."""

    key: str
    value: str
    scope: str | None = None
    scope_id: int | None = None


@dataclass(frozen=True)
class InsertFiles:
    """Files that were written for a table."""

    table: TableDef
    files: tuple[DataFile, ...]


@dataclass(frozen=True)
class InlineRows:
    """Rows that go into the catalog."""

    table: TableDef
    batch: InlineBatch


@dataclass(frozen=True)
class TruncateTable:
    """All rows of a table go: those of earlier snapshots end, those of this transaction were never there.

    Attributes:
        inlined_tables: The inlined data tables that have live rows.
        file_ids: The live data files.
        kept: Those of them that do not end: their rows are deleted one by one, by other changes.
    """

    table: TableDef
    inlined_tables: tuple[str, ...] = ()
    file_ids: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()

    @property
    def ended(self) -> frozenset[int]:
        """The data files that end."""
        return self.file_ids - self.kept


@dataclass(frozen=True)
class DeleteRows:
    """Rows that go.

    Attributes:
        files: What is deleted from committed files, each the whole of what this transaction deletes from it.
        inlined: Row ids of committed inlined rows, by the name of their table.
        own_files: Delete files for files of this transaction, by their place; None drops the file.
        own_rows: Places of inlined rows of this transaction, counted over all its batches for the table.
    """

    table: TableDef
    files: tuple[FileDeletes, ...] = ()
    inlined: tuple[tuple[str, tuple[int, ...]], ...] = ()
    own_files: tuple[tuple[int, DeleteFile | None], ...] = ()
    own_rows: frozenset[int] = frozenset()


Change = Union[  # noqa: UP007 - long
    CreateSchema,
    DropSchema,
    CreateTable,
    DropTable,
    RenameTable,
    ChangeColumns,
    SetPartitioning,
    SetSorting,
    CommentTable,
    CommentColumn,
    CreateView,
    DropView,
    RenameView,
    CommentView,
    CreateMacro,
    DropMacro,
    SetOption,
    InsertFiles,
    InlineRows,
    TruncateTable,
    DeleteRows,
    FlushInlinedData,
    CompactFiles,
]

E = TypeVar("E", bound="Edit[Any]")
T = TypeVar("T", SchemaDef, TableDef, ViewDef, MacroDef)


@dataclass
class Edit(Generic[T]):
    """One object: as it was at the start (None if made here) and as it is now (None if dropped)."""

    base: T | None
    now: T | None
    schema_name: str = ""
    names: list[str] = field(default_factory=list)
    """Every name that this transaction gave it, in order."""
    altered: bool = False
    commented: bool = False


@dataclass
class TableEdit(Edit[TableDef]):
    """The changes of a table that rows depend on."""

    versioned: bool = False
    layout: bool = False
    checks_nulls: bool = False
    partitioned: bool = False
    sorted: bool = False
    rewritten: set[int] = field(default_factory=set)
    column_comments: dict[int, str | None] = field(default_factory=dict)
    files: list[DataFile] = field(default_factory=list)
    batches: list[InlineBatch] = field(default_factory=list)
    emptied: TruncateTable | None = None
    deletes: dict[int, FileDeletes] = field(default_factory=dict)
    ended_rows: dict[str, set[int]] = field(default_factory=dict)
    own_deletes: dict[int, DeleteFile] = field(default_factory=dict)
    flushed: FlushInlinedData | None = None
    compactions: list[CompactFiles] = field(default_factory=list)

    def delete(self, change: DeleteRows) -> None:
        """Adds deletes."""
        self.deletes |= {each.data_file_id: each for each in change.files}
        for name, row_ids in change.inlined:
            self.ended_rows.setdefault(name, set()).update(row_ids)
        for place, file in change.own_files:
            if file is not None:
                self.own_deletes[place] = file
        if change.own_rows:
            self.batches = _without(self.batches, change.own_rows)
        removed = {place for place, file in change.own_files if file is None}
        if removed:
            kept = [place for place in range(len(self.files)) if place not in removed]
            self.own_deletes = {
                new: self.own_deletes[old] for new, old in enumerate(kept) if old in self.own_deletes
            }
            self.files = [self.files[place] for place in kept]

    @property
    def is_ddl(self) -> bool:
        """Whether anything but rows changed."""
        return bool(self.names) or self.altered or self.now is None

    @property
    def has_effect(self) -> bool:
        """Whether it changes anything: not if the table came and went, nor if all its files did."""
        if self.base is not self.now:
            return True
        rows = (
            self.files or self.batches or self.deletes or self.ended_rows or self.flushed or self.compactions
        )
        return self.base is not None and bool(rows or self.emptied is not None or self.is_ddl)

    @property
    def changes_rows(self) -> bool:
        """Whether rows come or go."""
        changed = self.files or self.batches or self.deletes or self.ended_rows
        return bool(changed or self.emptied is not None)

    @property
    def is_compacted_twice(self) -> bool:
        """Whether a file was compacted more than once."""
        ids = [file_id for compaction in self.compactions for file_id in compaction.source_ids]
        return len(ids) != len(set(ids)) or len({compaction.kind for compaction in self.compactions}) > 1

    @property
    def adds_rows(self) -> bool:
        """Whether rows are added."""
        return self.now is not None and bool(self.files or self.batches)


def _without(batches: list[InlineBatch], places: frozenset[int]) -> list[InlineBatch]:
    """The batches less some rows. Their statistics stay: bounds need not be tight."""
    result, start = [], 0
    for batch in batches:
        kept = [i for i in range(len(batch.rows)) if start + i not in places]
        start += len(batch.rows)
        row_ids = tuple(batch.row_ids[i] for i in kept) if batch.row_ids else ()
        result.append(replace(batch, rows=[batch.rows[i] for i in kept], row_ids=row_ids))
    return result


def _copied(edit: E) -> E:
    """As it is now, with collections of its own."""
    own: dict[str, Any] = {part.name: _own(getattr(edit, part.name)) for part in fields(edit)}
    return replace(edit, **own)


def _own(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _own(part) for key, part in value.items()}
    return type(value)(value) if isinstance(value, (list, set)) else value


class Edits:
    """All changes of a transaction, object by object, in the order in which the objects were first touched."""

    def __init__(self) -> None:
        self.schemas: dict[int, Edit[SchemaDef]] = {}
        self.tables: dict[int, TableEdit] = {}
        self.views: dict[int, Edit[ViewDef]] = {}
        self.macros: dict[int, Edit[MacroDef]] = {}
        self.options: dict[tuple[str, str | None, int | None], str] = {}
        self.created: list[int] = []
        """Ids of new tables and views, in order."""
        self._local = 0
        self._own: set[tuple[int, int]] = set()
        """Which edits no copy shares: the identity of their collection, and their key in it."""

    def copy(self) -> Edits:
        """The changes as they are now. Edits are shared until one of the two changes them, so a copy is cheap."""
        made = Edits()
        made.schemas, made.tables = dict(self.schemas), dict(self.tables)
        made.views, made.macros = dict(self.views), dict(self.macros)
        made.options, made.created, made._local = dict(self.options), list(self.created), self._local
        self._own.clear()
        return made

    def _to_change(self, edits: dict[int, E], object_id: int, new: E) -> E:
        """The edit of an object, which may be changed: `new` if there is none yet, and never one that a copy shares."""
        key = (id(edits), object_id)
        if key not in self._own:
            edits[object_id] = _copied(edits[object_id]) if object_id in edits else new
            self._own.add(key)
        return edits[object_id]

    def new_id(self) -> int:
        """A local id for a new object."""
        self._local -= 1
        return self._local

    def __bool__(self) -> bool:
        return bool(self.options) or self.makes_snapshot

    @property
    def makes_snapshot(self) -> bool:
        """Whether anything is left that a snapshot would show."""
        return any(True for _ in self._effective())

    def _effective(self) -> Iterator[object]:
        yield from (edit for edit in self.tables.values() if edit.has_effect)
        for edits in (self.schemas, self.views, self.macros):
            yield from (edit for edit in edits.values() if edit.base is not None or edit.now is not None)

    @property
    def is_ddl(self) -> bool:
        """Whether the schema version rises."""
        tables = (edit for edit in self.tables.values() if edit.base is not None or edit.now is not None)
        others = (self.schemas, self.views, self.macros)
        return any(edit.is_ddl for edit in tables) or any(
            edit.base is not None or edit.now is not None for edits in others for edit in edits.values()
        )

    @property
    def mixes_compaction(self) -> bool:
        """Whether files were compacted and something else was changed, which cannot be one snapshot."""
        compacted = [edit for edit in self.tables.values() if edit.compactions]
        others = [
            edit for edit in self._effective() if not isinstance(edit, TableEdit) or not edit.compactions
        ]
        return bool(compacted) and (
            bool(others)
            or self.is_ddl
            or any(edit.changes_rows or edit.is_compacted_twice for edit in compacted)
        )

    def apply(self, change: Change) -> None:
        """Adds a change that was checked."""
        match change:
            case CreateSchema(schema):
                self.schemas[schema.schema_id] = Edit(None, schema)
            case DropSchema(schema):
                self._to_change(self.schemas, schema.schema_id, Edit(schema, schema)).now = None
            case CreateTable(table, schema):
                self.tables[table.table_id] = TableEdit(
                    None, table, schema.name, [table.name], versioned=True, layout=True
                )
                self.created.append(table.table_id)
            case DropTable(table):
                self._table(table).now = None
            case RenameTable(table, schema, name):
                renamed = self._table(table)
                renamed.now = replace(table, name=name)
                renamed.schema_name, renamed.versioned, renamed.layout = schema.name, True, True
                renamed.names.append(name)
            case ChangeColumns(table, columns, next_column_id, rewritten, layout, checks_nulls):
                changed = self._alter(table, replace(table, columns=columns, next_column_id=next_column_id))
                changed.rewritten |= rewritten
                changed.versioned = True
                changed.layout |= layout
                changed.checks_nulls |= checks_nulls
            case SetPartitioning(table, partitioning):
                changed = self._alter(table, replace(table, partitioning=partitioning))
                changed.partitioned = changed.versioned = changed.layout = True
            case SetSorting(table, sorting):
                self._alter(table, replace(table, sorting=sorting)).sorted = True
            case CommentTable(table, comment):
                self._alter(table, replace(table, comment=comment)).commented = True
            case CommentColumn(table, column_id, comment):
                columns = tuple(
                    replace(column, comment=comment) if column.column_id == column_id else column
                    for column in table.columns
                )
                self._alter(table, replace(table, columns=columns)).column_comments[column_id] = comment
            case CreateView(view, schema):
                self.views[view.view_id] = Edit(None, view, schema.name, [view.name])
                self.created.append(view.view_id)
            case DropView(view):
                self._to_change(self.views, view.view_id, Edit(view, view)).now = None
            case RenameView(view, schema, name):
                view_edit = self._to_change(self.views, view.view_id, Edit(view, view))
                view_edit.now, view_edit.schema_name = replace(view, name=name), schema.name
                view_edit.names.append(name)
            case CommentView(view, comment):
                view_edit = self._to_change(self.views, view.view_id, Edit(view, view))
                view_edit.now = replace(view, comment=comment)
                view_edit.altered = view_edit.commented = True
            case CreateMacro(macro, schema):
                self.macros[macro.macro_id] = Edit(None, macro, schema.name, [macro.name])
            case DropMacro(macro):
                self._to_change(self.macros, macro.macro_id, Edit(macro, macro)).now = None
            case DeleteRows(table):
                self._table(table).delete(change)
            case CompactFiles(table):
                self._table(table).compactions.append(change)
            case InsertFiles(table, files):
                self._table(table).files.extend(files)
            case TruncateTable(table):
                emptied = self._table(table)
                emptied.files, emptied.batches, emptied.own_deletes = [], [], {}
                emptied.deletes = {i: each for i, each in emptied.deletes.items() if i in change.kept}
                emptied.ended_rows = {}
                if not is_local(table.table_id):
                    emptied.emptied = change
            case FlushInlinedData(table):
                self._table(table).flushed = change
            case InlineRows(table, batch):
                self._table(table).batches.append(batch)
            case SetOption(key, value, scope, scope_id):
                self.options[(key, scope, scope_id)] = value

    def _table(self, table: TableDef) -> TableEdit:
        return self._to_change(self.tables, table.table_id, TableEdit(table, table))

    def _alter(self, before: TableDef, after: TableDef) -> TableEdit:
        edit = self._table(before)
        edit.now, edit.altered = after, True
        return edit

    def changes(self, real_id: dict[int, int]) -> ChangeSet:
        """What `changes_made` will say, with local ids replaced."""
        result = ChangeSet()
        for schema_id, schema in self.schemas.items():
            if schema.now is not None and schema.base is None:
                result.created_schemas.append(schema.now.name)
            elif schema.now is None and schema.base is not None:
                result.dropped_schemas.add(schema_id)
        for table_id, table in self.tables.items():
            if table.now is None:
                if table.base is not None:
                    result.dropped_tables.add(table_id)
                continue
            # A new table is logged with every name it had, an old one only with its last.
            names = table.names if table.base is None else table.names[-1:]
            result.created_tables.extend((table.schema_name, name) for name in names)
            if table.altered:
                result.altered_tables.add(real_id.get(table_id, table_id))
            emptied = table.emptied
            if (emptied and emptied.ended) or any(each.file or each.ended for each in table.deletes.values()):
                result.deleted_from_tables.add(table_id)
            if (
                (emptied and emptied.inlined_tables)
                or table.ended_rows
                or any(each.inlined for each in table.deletes.values())
            ):
                result.inlined_deletes.add(table_id)
            if table.files:
                result.inserted_into_tables.add(real_id.get(table_id, table_id))
            if table.batches:
                result.inlined_inserts.add(real_id.get(table_id, table_id))
            if table.flushed is not None and table.flushed.files:
                result.inline_flushes.add(table_id)
            if table.flushed is not None and table.flushed.deletes:
                result.deleted_from_tables.add(table_id)
            for compaction in table.compactions:
                is_merge = compaction.kind is CompactionKind.MERGE
                (result.merge_adjacents if is_merge else result.rewrite_deletes).add(table_id)
        for view_id, view in self.views.items():
            if view.now is None:
                if view.base is not None:
                    result.dropped_views.add(view_id)
                continue
            names = view.names if view.base is None else view.names[-1:]
            result.created_views.extend((view.schema_name, name) for name in names)
            if view.altered:
                result.altered_views.add(real_id.get(view_id, view_id))
        for macro_id, macro in self.macros.items():
            if macro.now is not None and macro.base is None:
                created = result.created_table_macros if macro.now.is_table else result.created_scalar_macros
                created.append((macro.schema_name, macro.now.name))
            elif macro.now is None and macro.base is not None:
                dropped = result.dropped_table_macros if macro.base.is_table else result.dropped_scalar_macros
                dropped.add(macro_id)
        return result

    def own_changes(self, schemas: dict[int, str]) -> OwnChanges:
        """What the conflict check compares; `schemas` are the names of the schemas at the start."""
        names: dict[int, str] = {}
        for edits in (self.tables, self.views, self.macros):
            for object_id, edit in edits.items():
                if edit.base is not None:
                    names[object_id] = edit.base.name
        return OwnChanges(
            changes=self.changes({}),
            schema_ids={fold(name): schema_id for schema_id, name in schemas.items()},
            schema_names=schemas,
            table_names=names,
            renamed_tables={i for i, e in self.tables.items() if e.base and e.now and e.names},
            renamed_views={i for i, e in self.views.items() if e.base and e.now and e.names},
            deleted_files={
                file_id: table_id
                for table_id, edit in self.tables.items()
                for file_id in (
                    *edit.deletes,
                    *(edit.emptied.file_ids if edit.emptied else ()),
                    *(i for i, _ in (edit.flushed.deletes if edit.flushed else ())),
                )
            },
            compacted_files={
                file_id: table_id
                for table_id, edit in self.tables.items()
                for compaction in edit.compactions
                for file_id in compaction.source_ids
            },
            ended_rows={i: e.ended_rows for i, e in self.tables.items() if not e.emptied},
            not_null_tables={i for i, e in self.tables.items() if e.checks_nulls and not is_local(i)},
            flushed_tables={i for i, e in self.tables.items() if e.flushed is not None},
        )
