"""Two handles on one lake: A begins and changes something, B commits, then A commits. Who may, and who may not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.errors import ConflictError
from tests.concurrency.invariants import assert_sound
from tests.interop import catalogs
from tests.interop.oracle import Oracle

Act = Callable[[Lake, str], object]


class Pair(NamedTuple):
    """Two handles on one lake, and names for schemas that no test had before."""

    a: Lake
    b: Lake
    location: str
    numbers: Iterator[int]


@pytest.fixture(scope="module", params=["duckdb", "sqlite", "postgres", "mysql"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    kind, folder = request.param, tmp_path_factory.mktemp("pair")
    rest = folder / "lake.db"
    if kind in ("postgres", "mysql"):
        rest = request.getfixturevalue(f"{kind}_server").fresh_database()
    location = f"ducklake:{kind}:{rest}"
    with ducklake_spark.attach(location, data_path=str(folder)) as a, ducklake_spark.attach(location) as b:
        yield Pair(a, b, location, itertools.count())
    assert_sound(catalogs.dump(location), leftovers=kind == "mysql")


def prepared(pair: Pair) -> str:
    """A schema with one of each."""
    schema = f"s{next(pair.numbers)}"
    with pair.a.transaction():
        pair.a.create_schema(schema)
        pair.a.create_table(f"{schema}.t", {"a": "int", "st": "struct(x int)"})
        pair.a.create_table(f"{schema}.other", {"a": "int"})
        pair.a.create_view(f"{schema}.v", "SELECT 1 AS one", dialect="duckdb")
        pair.a.create_view(f"{schema}.w", "SELECT 2 AS two", dialect="duckdb")
        pair.a.create_macro(f"{schema}.m", "x", ["x"], dialect="duckdb")
        pair.a.create_macro(f"{schema}.tm", "SELECT 1", table=True, dialect="duckdb")
        pair.a.create_schema(f"{schema}_empty")
    return schema


# What one does, by its name. `{s}` is the test's own schema.
ACTS: dict[str, Act] = {
    "add column": lambda lake, s: lake[f"{s}.t"].add_column("b", "int"),
    "add field": lambda lake, s: lake[f"{s}.t"].add_column("st.y", "int"),
    "rename column": lambda lake, s: lake[f"{s}.t"].rename_column("a", "z"),
    "retype column": lambda lake, s: lake[f"{s}.t"].set_type("a", "bigint"),
    "set default": lambda lake, s: lake[f"{s}.t"].set_default("a", 1),
    "set not null": lambda lake, s: lake[f"{s}.t"].set_not_null("a"),
    "comment on table": lambda lake, s: lake[f"{s}.t"].set_comment("c"),
    "comment on column": lambda lake, s: lake[f"{s}.t"].set_comment("c", column="a"),
    "partition": lambda lake, s: lake[f"{s}.t"].set_partitioned_by("a"),
    "sort": lambda lake, s: lake[f"{s}.t"].set_sorted_by("a"),
    "rename table": lambda lake, s: lake[f"{s}.t"].rename("renamed"),
    "rename table otherwise": lambda lake, s: lake[f"{s}.t"].rename("renamed2"),
    "drop table": lambda lake, s: lake.drop_table(f"{s}.t"),
    "replace table": lambda lake, s: lake.create_table(f"{s}.t", {"q": "int"}, or_replace=True),
    "alter other table": lambda lake, s: lake[f"{s}.other"].add_column("b", "int"),
    "drop other table": lambda lake, s: lake.drop_table(f"{s}.other"),
    "create table": lambda lake, s: lake.create_table(f"{s}.new", {"a": "int"}),
    "create TABLE": lambda lake, s: lake.create_table(f"{s.upper()}.NEW", {"a": "int"}),
    "create another table": lambda lake, s: lake.create_table(f"{s}.new2", {"a": "int"}),
    "create table elsewhere": lambda lake, s: lake.create_table(f"{s}_empty.new", {"a": "int"}),
    "create view": lambda lake, s: lake.create_view(f"{s}.new", "SELECT 1", dialect="duckdb"),
    "create view elsewhere": lambda lake, s: lake.create_view(f"{s}_empty.new", "SELECT 1", dialect="duckdb"),
    "replace view": lambda lake, s: lake.create_view(f"{s}.v", "SELECT 3", dialect="duckdb", or_replace=True),
    "comment on view": lambda lake, s: lake.comment_view(f"{s}.v", "c"),
    "rename view": lambda lake, s: lake.rename_view(f"{s}.v", "renamed"),
    "rename other view": lambda lake, s: lake.rename_view(f"{s}.w", "new"),
    "drop view": lambda lake, s: lake.drop_view(f"{s}.v"),
    "create macro": lambda lake, s: lake.create_macro(f"{s}.new", "1", dialect="duckdb"),
    "create table macro": lambda lake, s: lake.create_macro(
        f"{s}.new", "SELECT 1", table=True, dialect="duckdb"
    ),
    "create macro elsewhere": lambda lake, s: lake.create_macro(f"{s}_empty.new", "1", dialect="duckdb"),
    "create table macro elsewhere": lambda lake, s: lake.create_macro(
        f"{s}_empty.new", "SELECT 1", table=True, dialect="duckdb"
    ),
    "drop macro": lambda lake, s: lake.drop_macro(f"{s}.m"),
    "drop table macro": lambda lake, s: lake.drop_macro(f"{s}.tm", table=True),
    "create schema": lambda lake, s: lake.create_schema(f"{s}_new"),
    "create SCHEMA": lambda lake, s: lake.create_schema(f"{s}_NEW"),
    "create another schema": lambda lake, s: lake.create_schema(f"{s}_new2"),
    "drop schema": lambda lake, s: lake.drop_schema(s, cascade=True),
    "drop empty schema": lambda lake, s: lake.drop_schema(f"{s}_empty"),
    "set option": lambda lake, s: lake.set_option("target_file_size", "1MB", table=f"{s}.t"),
}

ALTERS = (
    "add column", "add field", "rename column", "retype column", "set default", "set not null", "comment on table",
    "comment on column", "partition", "sort",
)  # fmt: skip
DROPPED, ALTERED, RENAMED = "dropped it", "altered it", "renamed it"

# What A does, what B does, and what A is told.
CONFLICTS = [
    *((alter, "add column", ALTERED) for alter in ALTERS),
    *(("add column", alter, ALTERED) for alter in ALTERS),
    *((alter, "drop table", DROPPED) for alter in ALTERS),
    ("add column", "drop schema", DROPPED),
    ("add column", "replace table", DROPPED),
    # renames are logged as creations: only the id tells
    ("add column", "rename table", RENAMED),
    ("rename table", "add column", ALTERED),
    ("rename table", "rename table otherwise", RENAMED),
    ("rename table", "rename table", "with this name|renamed it"),
    ("rename table", "drop table", DROPPED),
    ("drop table", "rename table", RENAMED),
    ("replace table", "rename table", RENAMED),
    ("replace table", "drop table", DROPPED),
    ("replace table", "replace table", "with this name|dropped it"),
    ("drop table", "drop table", DROPPED),
    ("drop table", "replace table", DROPPED),
    ("drop table", "drop schema", DROPPED),
    ("drop schema", "drop table", DROPPED),
    ("drop schema", "drop schema", DROPPED),
    # names
    ("create table", "create table", "with this name"),
    ("create TABLE", "create table", "with this name"),
    ("create table", "create view", "with this name"),
    ("create view", "create table", "with this name"),
    ("create view", "create view", "with this name"),
    ("create table", "rename other view", "with this name"),
    ("rename other view", "create table", "with this name"),
    ("create macro", "create macro", "with this name"),
    ("create table macro", "create table macro", "with this name"),
    ("create schema", "create schema", "with this name"),
    ("create SCHEMA", "create schema", "with this name"),
    # schemas
    ("create table elsewhere", "drop empty schema", "dropped schema"),
    ("create view elsewhere", "drop empty schema", "dropped schema"),
    ("create macro elsewhere", "drop empty schema", "dropped schema"),
    ("create table macro elsewhere", "drop empty schema", "dropped schema"),
    ("drop empty schema", "create table elsewhere", "in it"),
    ("drop empty schema", "create view elsewhere", "in it"),
    ("drop empty schema", "create macro elsewhere", "in it"),
    ("drop empty schema", "create table macro elsewhere", "in it"),
    ("drop schema", "rename table", "in it|renamed it"),
    ("drop empty schema", "drop empty schema", DROPPED),
    # views and macros
    ("comment on view", "comment on view", ALTERED),
    ("comment on view", "drop view", DROPPED),
    ("comment on view", "rename view", RENAMED),
    ("comment on view", "replace view", DROPPED),
    ("rename view", "comment on view", ALTERED),
    ("rename view", "drop view", DROPPED),
    ("drop view", "drop view", DROPPED),
    ("drop view", "rename view", RENAMED),
    ("replace view", "drop view", DROPPED),
    ("drop macro", "drop macro", DROPPED),
    ("drop table macro", "drop table macro", DROPPED),
]  # fmt: skip

COMPATIBLE = [
    ("add column", "alter other table"),
    ("alter other table", "rename table"),
    ("alter other table", "drop table"),
    ("drop table", "drop other table"),
    ("drop table", "add column"),  # what is dropped may have changed
    ("drop view", "comment on view"),
    ("drop schema", "alter other table"),
    ("create table", "create another table"),
    ("create table", "create table elsewhere"),
    ("create table elsewhere", "create table"),
    ("create table", "drop empty schema"),
    ("create table", "create macro"),
    ("create macro", "create table"),
    ("create macro", "create table macro"),
    ("create schema", "create another schema"),
    ("comment on view", "add column"),
    ("add column", "comment on view"),
    ("rename view", "rename table otherwise"),
    ("create table", "drop view"),
    ("drop macro", "drop table macro"),
    ("add column", "set option"),
    ("set option", "add column"),
]


# The check is the same code on every database; what differs is when it runs, for which every third case will do.
in_full = pytest.mark.parametrize("pair", ["sqlite", "postgres"], indirect=True)
in_part = pytest.mark.parametrize("pair", ["duckdb", "mysql"], indirect=True)


@in_full
@pytest.mark.parametrize(("mine", "theirs", "told"), CONFLICTS, ids=lambda part: part.replace(" ", "-"))
def test_conflicts(pair: Pair, mine: str, theirs: str, told: str) -> None:
    schema = prepared(pair)
    start = pair.a.version

    with pytest.raises(ConflictError, match=told), pair.a.transaction():
        ACTS[mine](pair.a, schema)
        ACTS[theirs](pair.b, schema)

    assert pair.a.version == start + 1


@in_part
@pytest.mark.parametrize(("mine", "theirs", "told"), CONFLICTS[::3], ids=lambda part: part.replace(" ", "-"))
def test_conflicts_on_other_databases(pair: Pair, mine: str, theirs: str, told: str) -> None:
    test_conflicts(pair, mine, theirs, told)


@in_full
@pytest.mark.parametrize(("mine", "theirs"), COMPATIBLE, ids=lambda part: part.replace(" ", "-"))
def test_compatible_work(pair: Pair, mine: str, theirs: str) -> None:
    schema = prepared(pair)
    start = pair.a.version

    with pair.a.transaction():
        ACTS[mine](pair.a, schema)
        ACTS[theirs](pair.b, schema)

    snapshots = [name for name in (mine, theirs) if name != "set option"]
    assert pair.a.version == pair.b.version == start + len(snapshots)


@in_part
@pytest.mark.parametrize(("mine", "theirs"), COMPATIBLE[::3], ids=lambda part: part.replace(" ", "-"))
def test_compatible_work_on_other_databases(pair: Pair, mine: str, theirs: str) -> None:
    test_compatible_work(pair, mine, theirs)


@pytest.mark.parametrize("pair", ["sqlite"], indirect=True)
def test_each_alone_is_fine(pair: Pair) -> None:
    for act in ACTS.values():
        act(pair.a, prepared(pair))


def test_many_snapshots_in_between(pair: Pair) -> None:
    schema = prepared(pair)
    with pytest.raises(ConflictError, match=ALTERED), pair.a.transaction():
        pair.a[f"{schema}.t"].add_column("b", "int")
        pair.b[f"{schema}.t"].set_comment("x")
        for number in range(5):
            pair.b.create_table(f"{schema}.n{number}", {"a": "int"})


def test_ids_move_behind_those_of_others(pair: Pair) -> None:
    schema = prepared(pair)
    with pair.a.transaction():
        made = pair.a.create_table(f"{schema}.mine", {"a": "int"}, partitioned_by=["a"], sorted_by=["a"])
        pair.a.create_schema(f"{schema}_mine")
        theirs = pair.b.create_table(f"{schema}.theirs", {"a": "int"}, partitioned_by=["a"])
    ids = [made.definition.table_id, theirs.definition.table_id]
    assert ids[0] > ids[1]
    assert made.partitioned_by == theirs.partitioned_by == ["a"]
    assert made.sorted_by


def test_a_conflict_leaves_the_handle_usable(pair: Pair) -> None:
    schema = prepared(pair)
    with pytest.raises(ConflictError), pair.a.transaction():
        pair.a[f"{schema}.t"].add_column("b", "int")
        pair.b[f"{schema}.t"].add_column("c", "int")
    pair.a[f"{schema}.t"].add_column("b", "int")
    assert pair.b[f"{schema}.t"].columns == ["a", "st", "c", "b"]


@pytest.mark.parametrize("pair", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize(
    "lost", ["DELETE FROM {} WHERE snapshot_id = ?", "DELETE FROM {} WHERE snapshot_id > ?"]
)
def test_snapshots_that_are_gone_cannot_be_compared(
    lost: str, pair: Pair, tmp_path: Path, make_location: Callable[[str], str]
) -> None:
    location = make_location(pair.location.split(":")[1])
    with (
        ducklake_spark.attach(location, data_path=str(tmp_path)) as a,
        ducklake_spark.attach(location) as b,
    ):
        a.create_table("t", {"a": "int"})
        start = a.version
        with pytest.raises(ConflictError, match=r"no longer (all )?in the catalog"), a.transaction():
            a["t"].add_column("b", "int")
            b["t"].add_column("c", "int")
            b.create_table("u", {"a": "int"})
            with b._scope.store.begin() as session:
                gone = start + 1 if "=" in lost else start - 1
                for table in ("ducklake_snapshot", "ducklake_snapshot_changes"):
                    session.execute(lost.format(table), [gone])


@pytest.mark.parametrize("pair", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("mine", ["set not null", "add not null", "add computed", "add column"])
def test_rows_that_come_in_between(mine: str, pair: Pair, oracle: Oracle) -> None:
    schema = prepared(pair)
    acts: dict[str, Act] = {
        "add not null": lambda lake, s: lake[f"{s}.t"].add_column("b", "int", not_null=True),
        "add computed": lambda lake, s: lake[f"{s}.t"].add_column(
            "b", "double", default=ducklake_spark.Expression("random()")
        ),
    }
    oracle.attach(pair.location)

    def insert() -> None:
        oracle.execute(f"INSERT INTO {schema}.t(a) VALUES (NULL)")

    if mine == "add column":
        with pair.a.transaction():
            (acts | ACTS)[mine](pair.a, schema)
            insert()
        assert oracle.execute(f"SELECT a, b FROM {schema}.t") == [(None, None)]
        return
    with pytest.raises(ConflictError, match="inserted into it"), pair.a.transaction():
        (acts | ACTS)[mine](pair.a, schema)
        insert()


@pytest.mark.parametrize("pair", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize(("theirs", "told"), [
    ("ALTER TABLE {s}.t ADD COLUMN q INTEGER", ALTERED),
    ("ALTER TABLE {s}.t RENAME TO q", RENAMED),
    ("DROP TABLE {s}.t", DROPPED),
    ("CREATE OR REPLACE TABLE {s}.t(a INTEGER)", DROPPED),
    ("COMMENT ON TABLE {s}.t IS 'x'", ALTERED),
    ("DROP SCHEMA {s} CASCADE", DROPPED),
])  # fmt: skip
def test_the_extension_was_first(theirs: str, told: str, pair: Pair, oracle: Oracle) -> None:
    schema = prepared(pair)
    oracle.attach(pair.location)
    with pytest.raises(ConflictError, match=told), pair.a.transaction():
        pair.a[f"{schema}.t"].add_column("b", "int")
        oracle.execute(theirs.format(s=schema))
