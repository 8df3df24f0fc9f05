"""Random statements on a table: what they are in SQL, as calls of ours, and in a plain Python model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from hypothesis import strategies as st

from ducklake_spark import Lake


@dataclass(frozen=True)
class Insert:
    count: int


@dataclass(frozen=True)
class Delete:
    modulus: int
    rest: int


@dataclass(frozen=True)
class Update:
    modulus: int
    rest: int
    column: int


@dataclass(frozen=True)
class Merge:
    old: int
    new: int
    deletes: bool


@dataclass(frozen=True)
class AddColumn:
    default: int | None


@dataclass(frozen=True)
class DropColumn:
    column: int


@dataclass(frozen=True)
class RenameColumn:
    column: int


@dataclass(frozen=True)
class WidenColumn:
    column: int


@dataclass(frozen=True)
class Several:
    """A transaction."""

    changes: tuple[Any, ...]
    rolls_back: bool


@dataclass(frozen=True)
class Maintain:
    """Something that leaves the rows as they are; done by the extension."""

    function: str


@dataclass(frozen=True)
class Restore:
    """Back to an earlier version of the sequence; done by us."""

    back: int


Change = Union[  # noqa: UP007 - long
    Insert,
    Delete,
    Update,
    Merge,
    AddColumn,
    DropColumn,
    RenameColumn,
    WidenColumn,
    Several,
    Maintain,
    Restore,
]

counts = st.sampled_from([1, 2, 4, 12, 15])
moduli = st.sampled_from([1, 2, 3, 5])
inserts = st.builds(Insert, counts)
row_changes = st.one_of(
    inserts,
    st.builds(Delete, moduli, st.integers(0, 4)),
    st.builds(Update, moduli, st.integers(0, 4), st.integers(0, 3)),
    st.builds(Update, moduli, st.integers(0, 4), st.integers(0, 3)),
    st.builds(Merge, st.integers(1, 14), st.integers(0, 3), st.booleans()),
)
ddl = st.one_of(
    st.builds(AddColumn, st.none() | st.integers(0, 9)),
    st.builds(DropColumn, st.integers(0, 3)),
    st.builds(RenameColumn, st.integers(0, 3)),
    st.builds(WidenColumn, st.integers(0, 3)),
)
transactions = st.builds(
    lambda first, rest, rolls_back: Several((*first, *rest), rolls_back),
    st.lists(st.builds(AddColumn, st.none() | st.integers(0, 9)), max_size=1),
    st.lists(row_changes, min_size=2, max_size=3),
    st.sampled_from([False, False, True]),
)
maintenance = st.builds(
    Maintain,
    st.sampled_from(
        [
            "ducklake_flush_inlined_data('lake', table_name => '{table}')",
            "ducklake_merge_adjacent_files('lake', '{table}')",
            "ducklake_rewrite_data_files('lake', '{table}', delete_threshold => 0)",
        ]
    ),
)


@dataclass
class Column:
    uid: int
    name: str
    type: str
    default: Any = None


@dataclass
class Model:
    """The table as it should be. Rows have an identity of their own, which updates do not change."""

    table: str
    columns: list[Column] = field(
        default_factory=lambda: [Column(0, "id", "INT"), Column(1, "v", "VARCHAR"), Column(2, "n", "INT")]
    )
    rows: dict[int, dict[int, Any]] = field(default_factory=dict)
    next_id: int = 0
    next_uid: int = 3
    widened: set[int] = field(default_factory=set)

    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def shown(self, columns: Sequence[Column] | None = None) -> list[tuple[Any, ...]]:
        """The rows, in the order of their ids."""
        wanted = [column.uid for column in columns or self.columns]
        return sorted((tuple(row.get(uid) for uid in wanted) for row in self.rows.values()), key=repr)

    def new(self) -> int:
        self.next_uid += 1
        return self.next_uid

    def other(self, index: int) -> Column | None:
        """One of the columns that are not the key."""
        rest = self.columns[1:]
        return rest[index % len(rest)] if rest else None

    def add(self, values: dict[int, Any]) -> None:
        self.rows[self.new()] = {
            column.uid: values.get(column.uid, column.default) for column in self.columns
        }

    def having(self, uid: int) -> Column | None:
        return next((column for column in self.columns if column.uid == uid), None)


Call = Callable[[Lake], object]


def create(model: Model) -> tuple[str, Call]:
    columns = ", ".join(f"{column.name} {column.type}" for column in model.columns)
    return f"CREATE TABLE {model.table}({columns})", lambda lake: lake.create_table(model.table, columns)


def apply(model: Model, change: Change) -> tuple[str, Call] | None:
    """Changes the model; the change in SQL and as a call. None if it means nothing on this table."""
    table = model.table
    match change:
        case Insert(count):
            return _insert(model, count)
        case Delete(1, rest) if rest % 2:
            model.rows = {}
            return f"TRUNCATE {table}", lambda lake: lake[table].truncate()
        case Delete(modulus, rest):
            rest %= modulus
            condition = f"id % {modulus} = {rest}"
            model.rows = {u: row for u, row in model.rows.items() if row[0] % modulus != rest}
            return f"DELETE FROM {table} WHERE {condition}", lambda lake: lake[table].delete(condition)
        case Update(modulus, rest, index):
            return _update(model, modulus, rest % modulus, index)
        case Merge(old, new, deletes):
            return _merge(model, old, new, deletes)
        case AddColumn(default):
            column = Column(model.new(), f"c{model.next_uid}", "INT", default)
            model.columns.append(column)
            for row in model.rows.values():
                row[column.uid] = default
            text = f" DEFAULT {default}" if default is not None else ""
            sql = f"ALTER TABLE {table} ADD COLUMN {column.name} INT{text}"
            return sql, lambda lake: lake[table].add_column(column.name, "int", default=default)
        case DropColumn(index):
            column_or_none = model.other(index)
            if column_or_none is None:
                return None
            dropped = column_or_none.name
            model.columns.remove(column_or_none)
            return f"ALTER TABLE {table} DROP COLUMN {dropped}", lambda lake: lake[table].drop_column(dropped)
        case RenameColumn(index):
            column_or_none = model.other(index)
            if column_or_none is None:
                return None
            before, after = column_or_none.name, f"r{model.new()}"
            model.columns[model.columns.index(column_or_none)] = Column(
                column_or_none.uid, after, column_or_none.type, column_or_none.default
            )
            return (
                f"ALTER TABLE {table} RENAME COLUMN {before} TO {after}",
                lambda lake: lake[table].rename_column(before, after),
            )
        case WidenColumn(index):
            column_or_none = model.other(index)
            if column_or_none is None or column_or_none.type != "INT":
                return None
            name = column_or_none.name
            place = model.columns.index(column_or_none)
            model.columns[place] = Column(column_or_none.uid, name, "BIGINT", column_or_none.default)
            model.widened.add(column_or_none.uid)
            return (
                f"ALTER TABLE {table} ALTER {name} SET TYPE BIGINT",
                lambda lake: lake[table].set_type(name, "bigint"),
            )
        case Several(changes, rolls_back):
            return _several(model, changes, rolls_back)
    raise AssertionError(change)


def _insert(model: Model, count: int) -> tuple[str, Call]:
    rows = []
    for _ in range(count):
        number = model.next_id
        model.next_id += 1
        values = {0: number, 1: f"v{number}", 2: None if number % 4 == 3 else number}
        known = {uid: value for uid, value in values.items() if model.having(uid) is not None}
        model.add(known)
        rows.append({_name(model, uid): value for uid, value in known.items()})
    names = ", ".join(rows[0])
    texts = ", ".join("(" + ", ".join(_literal(value) for value in row.values()) + ")" for row in rows)
    table = model.table
    return f"INSERT INTO {table} ({names}) VALUES {texts}", lambda lake: lake[table].insert(rows)


def _update(model: Model, modulus: int, rest: int, index: int) -> tuple[str, Call] | None:
    column, table = model.other(index), model.table
    if column is None:
        return None
    tag = f"u{model.new()}"
    value = f"'{tag}'" if column.type == "VARCHAR" else f"coalesce({column.name}, 0) + 1"
    for row in model.rows.values():
        if row[0] % modulus == rest:
            row[column.uid] = tag if column.type == "VARCHAR" else (row.get(column.uid) or 0) + 1
    condition = f"id % {modulus} = {rest}"
    return (
        f"UPDATE {table} SET {column.name} = {value} WHERE {condition}",
        lambda lake: lake[table].update({column.name: value}, condition),
    )


def _merge(model: Model, old: int, new: int, deletes: bool) -> tuple[str, Call] | None:
    """Some of the newest rows and some that are to come. The extension takes one kind of change of old rows."""
    column, table = model.having(1), model.table
    if column is None:
        return None
    first, last = max(0, model.next_id - old), model.next_id + new
    if first == last:
        return None
    tag, v = f"m{model.new()}", column.name
    by_id = {row[0]: uid for uid, row in model.rows.items()}
    for number in range(first, last):
        uid = by_id.get(number)
        if uid is None:
            model.add({0: number, 1: tag})
        elif deletes:
            del model.rows[uid]
        else:
            model.rows[uid][1] = tag
    model.next_id = max(model.next_id, last)
    matched = "DELETE" if deletes else f"UPDATE SET {v} = s.v"
    sql = (
        f"MERGE INTO {table} USING (SELECT i::INT AS id, '{tag}' AS v FROM range({first}, {last}) r(i)) s "
        f"ON {table}.id = s.id WHEN MATCHED THEN {matched} "
        f"WHEN NOT MATCHED THEN INSERT (id, {v}) VALUES (s.id, s.v)"
    )

    def call(lake: Lake) -> object:
        source = lake.spark.range(first, last, 1, 1).selectExpr("cast(id as int) id", f"'{tag}' v")
        merge = lake[table].merge(source, "target.id = source.id")
        merge = merge.when_matched().delete() if deletes else merge.when_matched().update({v: "source.v"})
        return merge.when_not_matched().insert({"id": "source.id", v: "source.v"}).execute()

    return sql, call


class _RollBack(Exception):
    pass


def _several(model: Model, changes: Iterable[Change], rolls_back: bool) -> tuple[str, Call] | None:
    before = copy.deepcopy(model)
    made = [each for each in (apply(model, change) for change in changes) if each is not None]
    if rolls_back:
        ids, uids = model.next_id, model.next_uid
        vars(model).update(vars(before))
        model.next_id, model.next_uid = ids, uids
    if not made:
        return None
    sql = "; ".join(["BEGIN", *(text for text, _ in made), "ROLLBACK" if rolls_back else "COMMIT"])

    def call(lake: Lake) -> None:
        try:
            with lake.transaction():
                for _, each in made:
                    each(lake)
                if rolls_back:
                    raise _RollBack
        except _RollBack:
            pass

    return sql, call


def _name(model: Model, uid: int) -> str:
    column = model.having(uid)
    assert column is not None
    return column.name


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)
