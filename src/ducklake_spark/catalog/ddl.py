"""Schema, table, view and macro statements: each checks against what the transaction sees, then applies a change."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.errors import (
    AlreadyExistsError,
    ConstraintError,
    DependencyError,
    InvalidInputError,
    NotFoundError,
    did_you_mean,
)
from ducklake_spark.format import columns as cols
from ducklake_spark.format import duckdb_sql
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.edits import (
    ChangeColumns,
    CommentColumn,
    CommentTable,
    CommentView,
    CreateMacro,
    CreateSchema,
    CreateTable,
    CreateView,
    DropMacro,
    DropSchema,
    DropTable,
    DropView,
    RenameTable,
    RenameView,
    SetOption,
    SetPartitioning,
    SetSorting,
)
from ducklake_spark.format.names import check_name, check_text
from ducklake_spark.format.objects import (
    MacroDef,
    MacroImpl,
    SchemaDef,
    TableDef,
    ViewDef,
    is_local,
    uuid7,
)
from ducklake_spark.format.options import normalize_option
from ducklake_spark.format.partitioning import Partitioning, fits, parse_keys
from ducklake_spark.format.paths import folder
from ducklake_spark.format.sorting import Sorting, SortKey
from ducklake_spark.format.types import NESTED, DataType, duckdb_name, fold

# Finding things, with good errors.


def get_schema(tx: Transaction, name: str) -> SchemaDef:
    """The schema with this name.

    Raises:
        NotFoundError: There is none, with near names.
    """
    schema = tx.schema(name)
    if schema is None:
        names = [each.name for each in tx.schemas()]
        raise NotFoundError(
            f'There is no schema "{name}" in the lake{_version(tx)}.'
            f"{other_times(tx, 'schema', name) or did_you_mean(name, names)}"
        )
    return schema


def get_table(tx: Transaction, schema: SchemaDef, name: str) -> TableDef:
    """The table with this name.

    Raises:
        NotFoundError: There is none, with near names, or it is a view.
    """
    table = tx.table(schema, name)
    if table is None:
        if tx.view(schema, name) is not None:
            raise NotFoundError(f'"{schema.name}"."{name}" is a view, not a table.')
        hint = (
            other_times(tx, "table", name, schema)
            or did_you_mean(name, tx.table_names(schema))
            or _elsewhere(tx, schema, name)
        )
        raise NotFoundError(f'There is no table "{name}" in schema "{schema.name}"{_version(tx)}.{hint}')
    return table


def _version(tx: Transaction) -> str:
    """The version that is looked at, where that is not the newest."""
    [[newest]] = tx.store.query("SELECT max(snapshot_id) FROM ducklake_snapshot")
    at = tx.snapshot.snapshot_id
    return "" if newest is None or at >= int(newest) else f" at version {at}"


def other_times(tx: Transaction, kind: str, name: str, schema: SchemaDef | None = None) -> str:
    """Since when or until when the lake has a table, view or schema that it does not have at this snapshot."""
    inside, of_schema = ("", ()) if schema is None else (" AND schema_id = ?", (schema.schema_id,))
    if not isinstance(name, str) or (schema is not None and is_local(schema.schema_id)):
        return ""
    rows = tx.store.query(
        f"SELECT begin_snapshot, end_snapshot FROM ducklake_{kind} WHERE lower({kind}_name) = ?{inside} "
        "ORDER BY begin_snapshot",
        (name.lower(), *of_schema),
    )
    at = tx.snapshot.snapshot_id
    times = [(int(begin), None if end is None else int(end)) for begin, end in rows]
    if any(begin <= at and (end is None or end > at) for begin, end in times):
        return ""  # it is there, and the running transaction dropped or renamed it
    later = [begin for begin, _ in times if begin > at]
    if later:
        return f" It is there from snapshot {later[0]} on."
    past = [(begin, end - 1) for begin, end in times if end is not None]
    if not past:
        return ""
    begin, last = past[-1]
    return f" It was there from snapshot {begin} to {last}; read it at version {last}."


def _elsewhere(tx: Transaction, schema: SchemaDef, name: str) -> str:
    """Whether another schema has the table; only asked when the look-up failed."""
    found = [s.name for s in tx.schemas() if s.schema_id != schema.schema_id and tx.table(s, name)]
    return f' Did you mean "{found[0]}.{name}"?' if found else ""


def get_view(tx: Transaction, schema: SchemaDef, name: str) -> ViewDef:
    """The view with this name.

    Raises:
        NotFoundError: There is none, with near names, or it is a table.
    """
    view = tx.view(schema, name)
    if view is None:
        if tx.table(schema, name) is not None:
            raise NotFoundError(f'"{schema.name}"."{name}" is a table, not a view.')
        near = did_you_mean(name, tx.view_names(schema))
        raise NotFoundError(f'There is no view "{name}" in schema "{schema.name}".{near}')
    return view


def _require_free_relation(tx: Transaction, schema: SchemaDef, name: str) -> None:
    tx.look_up(schema, name)
    for kind, found in (("table", tx.table(schema, name)), ("view", tx.view(schema, name))):
        if found is not None:
            raise AlreadyExistsError(f'Schema "{schema.name}" has a {kind} "{found.name}" already.')


# Schemas.


def create_schema(tx: Transaction, name: str, *, if_not_exists: bool = False) -> None:
    """CREATE SCHEMA."""
    check_name("schema", name)
    if tx.schema(name) is not None:
        if if_not_exists:
            return
        raise AlreadyExistsError(f'The lake has a schema "{name}" already.')
    schema_uuid = uuid7()
    tx.apply(CreateSchema(SchemaDef(tx.edits.new_id(), schema_uuid, name, folder(name, schema_uuid), True)))


def drop_schema(tx: Transaction, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
    """DROP SCHEMA; with `cascade`, all that is in it."""
    if if_exists and tx.schema(name) is None:
        return
    schema = get_schema(tx, name)
    tables, views, macros = tx.table_names(schema), tx.view_names(schema), tx.macros(schema)
    if not cascade and (tables or views or macros):
        held = (
            [f'table "{n}"' for n in tables]
            + [f'view "{n}"' for n in views]
            + [f'macro "{m.name}"' for m in macros]
        )
        shown = ", ".join(held[:5]) + (f" and {len(held) - 5} more" if len(held) > 5 else "")
        raise DependencyError(
            f'Cannot drop schema "{schema.name}": it holds {shown}. Drop them first, or drop with cascade=True.'
        )
    for table_name in tables:
        tx.apply(DropTable(get_table(tx, schema, table_name)))
    for view_name in views:
        tx.apply(DropView(get_view(tx, schema, view_name)))
    for macro in macros:
        tx.apply(DropMacro(macro))
    tx.apply(DropSchema(schema))


# Tables.

ColumnSpec = tuple[str, DataType, bool, Any]
"""Name, type, whether NULL is allowed, and the default given by the user (None for none)."""


def create_table(
    tx: Transaction,
    schema: SchemaDef,
    name: str,
    specs: Sequence[ColumnSpec],
    *,
    partitioned_by: Sequence[str] = (),
    sorted_by: Sequence[str] = (),
    comment: str | None = None,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> TableDef:
    """CREATE TABLE."""
    check_name("table", name)
    check_text("A comment", comment)
    if if_not_exists and or_replace:
        raise InvalidInputError("A table is created with if_not_exists or with or_replace, not with both.")
    tx.look_up(schema, name)
    found = tx.table(schema, name)
    if found is not None and if_not_exists:
        return found
    if found is None or not or_replace:
        _require_free_relation(tx, schema, name)
    if not specs:
        raise InvalidInputError(f'Table "{name}" needs at least one column.')
    table_uuid = uuid7()
    table = TableDef(
        tx.edits.new_id(),
        table_uuid,
        schema.schema_id,
        name,
        folder(name, table_uuid),
        True,
        (),
        next_column_id=1,
    )
    for spec in specs:
        table = _with_column(tx, table, None, *spec)
    keys = parse_keys(_texts("partitioned_by", partitioned_by), table.columns, name, tx.store.format)
    sort_keys = _sort_keys(tx, table, _texts("sorted_by", sorted_by))
    if found is not None:
        tx.apply(DropTable(found))
    tx.apply(CreateTable(table, schema))
    if keys:
        tx.apply(SetPartitioning(_now(tx, table), Partitioning(tx.edits.new_id(), keys)))
    if sort_keys:
        tx.apply(SetSorting(_now(tx, table), Sorting(tx.edits.new_id(), sort_keys)))
    if comment is not None:
        tx.apply(CommentTable(_now(tx, table), comment))
    return _now(tx, table)


def _texts(what: str, given: Sequence[str] | str) -> Sequence[str]:
    """The texts of a list; one text stands for a list of one."""
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise InvalidInputError(f"{what} takes a list of texts, not {given!r}.")
    return texts


def _now(tx: Transaction, table: TableDef) -> TableDef:
    now = tx.table_of(table.table_id)
    assert now is not None
    return now


def drop_table(tx: Transaction, schema: SchemaDef, name: str, *, if_exists: bool = False) -> None:
    """DROP TABLE."""
    if if_exists and tx.table(schema, name) is None and tx.view(schema, name) is None:
        return
    tx.apply(DropTable(get_table(tx, schema, name)))


def rename_table(tx: Transaction, table: TableDef, new_name: str) -> None:
    """ALTER TABLE RENAME TO."""
    check_name("table", new_name)
    if new_name == table.name:
        return
    schema = tx.schema_of(table.schema_id)
    if fold(new_name) != fold(table.name):
        _require_free_relation(tx, schema, new_name)
    tx.apply(RenameTable(table, schema, new_name))


# Columns.


def _check_column_name(tx: Transaction, table: TableDef, name: str) -> None:
    check_name("column", name)
    if fold(name) not in tx.store.format.reserved_names:
        return
    if tx.options.inlining_limit(schema_id=table.schema_id, table_id=table.table_id) > 0:
        raise InvalidInputError(
            f'The column name "{name}" is reserved by DuckLake while small inserts are inlined. Use another name, or '
            'turn inlining off with set_option("data_inlining_row_limit", 0).'
        )


def _with_column(
    tx: Transaction,
    table: TableDef,
    parent: ColumnDef | None,
    name: str,
    data_type: DataType,
    nulls_allowed: bool,
    default: Any,
) -> TableDef:
    """The table with one column, or one field of a struct, more."""
    if parent is None:
        _check_column_name(tx, table, name)
        cols.require_free(table.columns, name, f'Table "{table.name}"')
    else:
        check_name("field", name)
        cols.require_free(parent.children, name, f'Struct "{parent.name}" of table "{table.name}"')
    column, next_id = cols.build(name, data_type, table.next_column_id)
    given = duckdb_sql.default_of(default, data_type, name)
    if data_type.name not in NESTED:
        column = replace(
            column, initial_default=given.initial, default_value=given.value, default_value_type=given.type
        )
    if parent is None:
        column = replace(column, nulls_allowed=nulls_allowed)
        return replace(table, columns=(*table.columns, column), next_column_id=next_id)
    column = _as_added_field(column)
    grown = replace(parent, children=(*parent.children, column))
    return replace(table, columns=cols.replace_node(table.columns, grown), next_column_id=next_id)


def _as_added_field(node: ColumnDef) -> ColumnDef:
    """As the extension writes fields that are added later; readers ignore these two values for nested fields."""
    children = tuple(_as_added_field(child) for child in node.children)
    kind = node.default_value_type or "literal"
    return replace(node, nulls_allowed=False, default_value_type=kind, children=children)


def add_column(
    tx: Transaction,
    table: TableDef,
    path: Sequence[str],
    data_type: DataType,
    *,
    default: Any = None,
    nulls_allowed: bool = True,
    if_not_exists: bool = False,
    has_rows: Callable[[TableDef], bool],
) -> None:
    """ALTER TABLE ADD COLUMN, also of a field: `path` names the structs above it."""
    parent = cols.require_field_parent(table.columns, path, table.name)
    siblings = table.columns if parent is None else parent.children
    if if_not_exists and cols.find(siblings, path[-1]) is not None:
        return
    changed = _with_column(tx, table, parent, path[-1], data_type, nulls_allowed, default)
    added = cols.resolve(changed.columns, path, table.name)
    computed = added.default_value_type == "expression" and added.initial_default is None
    if computed and has_rows(table):
        raise InvalidInputError(
            f'Cannot add column "{".".join(path)}" to table "{table.name}" with the default {added.default_value}: '
            "rows that exist already need a plain value. Add the column without a default, then set the default."
        )
    if not nulls_allowed:
        if parent is not None:
            raise InvalidInputError("Only columns of a table can be NOT NULL, not fields of structs.")
        if added.initial_default is None and has_rows(table):
            raise ConstraintError(
                f'Cannot add column "{path[-1]}" to table "{table.name}" as NOT NULL: the rows that exist already '
                "would be NULL in it. Give a default, or allow NULL."
            )
    # Rows that others insert meanwhile would be NULL in it
    needs_no_rows = computed or (not nulls_allowed and added.initial_default is None)
    tx.apply(ChangeColumns(table, changed.columns, changed.next_column_id, checks_nulls=needs_no_rows))


def drop_column(tx: Transaction, table: TableDef, path: Sequence[str], *, if_exists: bool = False) -> None:
    """ALTER TABLE DROP COLUMN, also of a field."""
    try:
        column = cols.resolve(table.columns, path, table.name)
    except NotFoundError:
        if if_exists:
            return
        raise
    parent = cols.require_field_parent(table.columns, path, table.name)
    if parent is None:
        _require_unused(table, column)
    cols.require_remaining(table.columns if parent is None else parent.children, path, table.name)
    remaining = cols.remove_node(table.columns, column.column_id)
    tx.apply(ChangeColumns(table, remaining, table.next_column_id))


def _require_unused(table: TableDef, column: ColumnDef) -> None:
    used_by = None
    if table.partitioning and any(key.column_id == column.column_id for key in table.partitioning.keys):
        used_by = "partitioned"
    for key in table.sorting.keys if table.sorting else ():
        names = duckdb_sql.referenced_columns(key.expression) if key.dialect == "duckdb" else ()
        if fold(column.name) in map(fold, names):
            used_by = "sorted"
    if used_by is not None:
        way_out = "reset_partitioned_by()" if used_by == "partitioned" else "reset_sorted_by()"
        raise DependencyError(
            f'Cannot drop column "{column.name}": table "{table.name}" is {used_by} by it. Call {way_out} or change '
            "the specification first."
        )


def rename_column(tx: Transaction, table: TableDef, path: Sequence[str], new_name: str) -> None:
    """ALTER TABLE RENAME COLUMN, also of a field."""
    column = cols.resolve(table.columns, path, table.name)
    parent = cols.require_field_parent(table.columns, path, table.name)
    if new_name == column.name:
        return
    if parent is None:
        _check_column_name(tx, table, new_name)
        where = f'Table "{table.name}"'
        siblings, renamed = table.columns, replace(column, name=new_name)
    else:
        check_name("field", new_name)
        where = f'Struct "{parent.name}" of table "{table.name}"'
        # As the extension writes renamed fields, but with the initial default, which old rows need.
        changes: dict[str, Any] = {"nulls_allowed": False, "default_value_type": "", "default_value": None}
        siblings, renamed = parent.children, replace(column, name=new_name, **changes)
    cols.require_free(siblings, new_name, where, but=column.column_id)
    changed = cols.replace_node(table.columns, renamed)
    tx.apply(ChangeColumns(table, changed, table.next_column_id, frozenset({column.column_id})))
    if parent is None and table.sorting is not None:
        keys = tuple(
            replace(key, expression=duckdb_sql.rename_column(key.expression, column.name, new_name))
            if key.dialect == "duckdb"
            else key
            for key in table.sorting.keys
        )
        if keys != table.sorting.keys:
            tx.apply(SetSorting(_now(tx, table), Sorting(tx.edits.new_id(), keys)))


def set_type(tx: Transaction, table: TableDef, path: Sequence[str], new: DataType) -> None:
    """ALTER TABLE ALTER COLUMN SET TYPE, also of a field, an element, a key or a value."""
    column = cols.resolve(table.columns, path, table.name)
    changed, next_id = cols.retype(column, new, table.next_column_id, nested=len(path) > 1)
    if len(path) == 1:
        _require_transforms_fit(table, column, new)
    if changed == column:
        return
    before = {node.column_id: node for node in column.walk()}
    rewritten = frozenset(
        node.column_id
        for node in changed.walk()
        if node.column_id in before
        and replace(node, children=()) != replace(before[node.column_id], children=())
    )
    if changed.initial_default is not None:
        # Readers cast it; one that cannot be cast would make the old rows unreadable.
        duckdb_sql.cast_text(changed.initial_default, changed.data_type, column.name)
    columns = cols.replace_node(table.columns, changed)
    tx.apply(ChangeColumns(table, columns, next_id, rewritten))


def _require_transforms_fit(table: TableDef, column: ColumnDef, new: DataType) -> None:
    for key in table.partitioning.keys if table.partitioning else ():
        if key.column_id == column.column_id and not fits(key.transform, new):
            raise DependencyError(
                f'Cannot change column "{column.name}" of table "{table.name}" to {duckdb_name(new)}: the table is '
                f"partitioned by {key.transform}({column.name}), which that type does not have. Call "
                "reset_partitioned_by() or change the specification first."
            )


def set_default(tx: Transaction, table: TableDef, path: Sequence[str], default: Any) -> None:
    """ALTER TABLE ALTER COLUMN SET DEFAULT, or DROP DEFAULT with None. Rows that exist keep what they have."""
    column = cols.resolve(table.columns, path, table.name)
    if len(path) > 1:
        raise InvalidInputError(
            f'Cannot set a default for "{".".join(path)}" of table "{table.name}": only columns of the table have one '
            "for new rows."
        )
    given = duckdb_sql.default_of(default, column.data_type, column.name)
    changed = replace(column, default_value=given.value, default_value_type=given.type)
    _replace_column(tx, table, changed)


def _replace_column(
    tx: Transaction, table: TableDef, column: ColumnDef, *, checks_nulls: bool = False
) -> None:
    columns = cols.replace_node(table.columns, column)
    rewritten = frozenset({column.column_id})
    tx.apply(
        ChangeColumns(
            table, columns, table.next_column_id, rewritten, layout=False, checks_nulls=checks_nulls
        )
    )


def set_nulls_allowed(
    tx: Transaction,
    table: TableDef,
    path: Sequence[str],
    allowed: bool,
    *,
    has_nulls: Callable[[TableDef, ColumnDef], bool],
) -> None:
    """ALTER TABLE ALTER COLUMN SET NOT NULL or DROP NOT NULL."""
    column = cols.resolve(table.columns, path, table.name)
    if len(path) > 1:
        raise InvalidInputError(
            f'Cannot set or drop NOT NULL for "{".".join(path)}" of table "{table.name}": only columns of the table '
            "have it."
        )
    if allowed == column.nulls_allowed:
        return
    if not allowed and has_nulls(table, column):
        raise ConstraintError(
            f'Cannot set NOT NULL on column "{column.name}" of table "{table.name}": it holds NULL. Replace the NULLs '
            "first."
        )
    _replace_column(tx, table, replace(column, nulls_allowed=allowed), checks_nulls=not allowed)


# Comments, partitioning, sorting.


def comment_table(tx: Transaction, table: TableDef, comment: str | None) -> None:
    """COMMENT ON TABLE."""
    check_text("A comment", comment)
    tx.apply(CommentTable(table, comment))


def comment_column(tx: Transaction, table: TableDef, path: Sequence[str], comment: str | None) -> None:
    """COMMENT ON COLUMN."""
    check_text("A comment", comment)
    column = cols.resolve(table.columns, path, table.name)
    if len(path) > 1:
        raise InvalidInputError(
            f'Cannot comment on "{".".join(path)}" of table "{table.name}": only columns of the table have comments.'
        )
    tx.apply(CommentColumn(table, column.column_id, comment))


def comment_view(tx: Transaction, view: ViewDef, comment: str | None) -> None:
    """COMMENT ON VIEW."""
    check_text("A comment", comment)
    tx.apply(CommentView(view, comment))


def set_partitioned_by(tx: Transaction, table: TableDef, texts: Sequence[str]) -> None:
    """ALTER TABLE SET PARTITIONED BY; nothing happens when the keys are the same."""
    keys = parse_keys(_texts("set_partitioned_by()", texts), table.columns, table.name, tx.store.format)
    if not keys:
        raise InvalidInputError(
            f'Cannot partition table "{table.name}" by nothing: give a key, or call reset_partitioned_by().'
        )
    if table.partitioning is None or table.partitioning.keys != keys:
        tx.apply(SetPartitioning(table, Partitioning(tx.edits.new_id(), keys)))


def reset_partitioned_by(tx: Transaction, table: TableDef) -> None:
    """ALTER TABLE RESET PARTITIONED BY; nothing happens to a table that is not partitioned."""
    if table.partitioning is not None and table.partitioning.keys:
        tx.apply(SetPartitioning(table, Partitioning(tx.edits.new_id(), ())))


def _sort_keys(tx: Transaction, table: TableDef, texts: Sequence[str]) -> tuple[SortKey, ...]:
    keys = tuple(duckdb_sql.sort_key(text) for text in texts)
    for key in keys:
        for name in duckdb_sql.referenced_columns(key.expression):
            cols.resolve(table.columns, [name], table.name)
        if cols.find(table.columns, key.expression) is None:
            _check_sort_key(tx, table, key)
    return keys


def _check_sort_key(tx: Transaction, table: TableDef, key: SortKey) -> None:
    types = [(column.name, column.data_type) for column in table.columns]
    macros = [macro.name for schema in tx.schemas() for macro in tx.macros(schema)]
    duckdb_sql.check_sort_key(key.expression, types, table.name, macros)


def set_sorted_by(tx: Transaction, table: TableDef, texts: Sequence[str]) -> None:
    """ALTER TABLE SET SORTED BY."""
    keys = _sort_keys(tx, table, _texts("set_sorted_by()", texts))
    if not keys:
        raise InvalidInputError(
            f'Cannot sort table "{table.name}" by nothing: give a key, or call reset_sorted_by().'
        )
    tx.apply(SetSorting(table, Sorting(tx.edits.new_id(), keys)))


def reset_sorted_by(tx: Transaction, table: TableDef) -> None:
    """ALTER TABLE RESET SORTED BY; nothing happens to a table that is not sorted."""
    if table.sorting is not None:
        tx.apply(SetSorting(table, None))


# Views and macros.


def create_view(
    tx: Transaction,
    schema: SchemaDef,
    name: str,
    sql: str,
    column_aliases: Sequence[str] = (),
    *,
    comment: str | None = None,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> None:
    """CREATE VIEW; `sql` as DuckDB prints it."""
    check_name("view", name)
    check_text("A comment", comment)
    if if_not_exists and or_replace:
        raise InvalidInputError("A view is created with if_not_exists or with or_replace, not with both.")
    for alias in _texts("columns", column_aliases):
        check_name("column", alias)
    folded = [fold(alias) for alias in column_aliases]
    for alias in column_aliases:
        if folded.count(fold(alias)) > 1:
            raise InvalidInputError(f'View "{name}" has two columns named "{alias}".')
    tx.look_up(schema, name)
    found = tx.view(schema, name)
    if found is not None and if_not_exists:
        return
    if found is None or not or_replace:
        _require_free_relation(tx, schema, name)
    if found is not None:
        tx.apply(DropView(found))
    view = ViewDef(
        tx.edits.new_id(), str(uuid.uuid4()), schema.schema_id, name, "duckdb", sql, tuple(column_aliases)
    )
    tx.apply(CreateView(view, schema))
    if comment is not None:
        tx.apply(CommentView(view, comment))


def drop_view(tx: Transaction, schema: SchemaDef, name: str, *, if_exists: bool = False) -> None:
    """DROP VIEW."""
    if if_exists and tx.view(schema, name) is None and tx.table(schema, name) is None:
        return
    tx.apply(DropView(get_view(tx, schema, name)))


def rename_view(tx: Transaction, schema: SchemaDef, name: str, new_name: str) -> None:
    """ALTER VIEW RENAME TO."""
    check_name("view", new_name)
    view = get_view(tx, schema, name)
    if new_name == view.name:
        return
    if fold(new_name) != fold(view.name):
        _require_free_relation(tx, schema, new_name)
    tx.apply(RenameView(view, schema, new_name))


def create_macro(
    tx: Transaction,
    schema: SchemaDef,
    name: str,
    impls: Sequence[MacroImpl],
    *,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> None:
    """CREATE MACRO with one or more overloads."""
    check_name("macro", name)
    if if_not_exists and or_replace:
        raise InvalidInputError("A macro is created with if_not_exists or with or_replace, not with both.")
    table = impls[0].type == "table"
    found = tx.macro(schema, name, table=table)
    if found is not None:
        if if_not_exists:
            return
        if not or_replace:
            kind = "table macro" if table else "macro"
            raise AlreadyExistsError(f'Schema "{schema.name}" has a {kind} "{found.name}" already.')
        tx.apply(DropMacro(found))
    tx.apply(CreateMacro(MacroDef(tx.edits.new_id(), schema.schema_id, name, tuple(impls)), schema))


def drop_macro(
    tx: Transaction, schema: SchemaDef, name: str, *, table: bool = False, if_exists: bool = False
) -> None:
    """DROP MACRO or DROP MACRO TABLE."""
    macro = tx.macro(schema, name, table=table)
    if macro is None:
        if if_exists:
            return
        kind = "table macro" if table else "macro"
        names = [each.name for each in tx.macros(schema) if each.is_table == table]
        raise NotFoundError(
            f'There is no {kind} "{name}" in schema "{schema.name}".{did_you_mean(name, names)}'
        )
    tx.apply(DropMacro(macro))


# Options.


def set_option(
    tx: Transaction, key: str, value: Any, *, schema: SchemaDef | None = None, table: TableDef | None = None
) -> None:
    """set_option() at the scope of the lake, a schema or a table."""
    name, text = normalize_option(key, value)
    if name == "data_inlining_row_limit" and text != "0":
        _require_no_reserved_names(tx, schema, table)
    if table is not None:
        tx.apply(SetOption(name, text, "table", table.table_id))
    elif schema is not None:
        tx.apply(SetOption(name, text, "schema", schema.schema_id))
    else:
        tx.apply(SetOption(name, text))


def _require_no_reserved_names(tx: Transaction, schema: SchemaDef | None, table: TableDef | None) -> None:
    for each in [table] if table is not None else tx.all_tables():
        if schema is not None and table is None and each.schema_id != schema.schema_id:
            continue
        for column in each.columns:
            if fold(column.name) in tx.store.format.reserved_names:
                raise InvalidInputError(
                    f'Cannot inline data: table "{each.name}" has a column "{column.name}", a name that is reserved '
                    "then. Rename the column, or set the option for other tables only."
                )
