"""Any sequence of changes: what the handle sees is what a new handle reads, and what a transaction sees is what it commits."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ducklake_spark
from ducklake_spark import DuckLakeError, Lake
from ducklake_spark.catalog.snapshot import Cache
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.types import duckdb_name
from tests.format.test_types import types

# Few names, so that changes meet; some that are equal but for case.
NAMES = ["a", "A", "b", 'c"d', "e.f", "ä"]
names = st.sampled_from(NAMES)
simple = st.sampled_from(
    ["int", "tinyint", "bigint", "varchar", "date", "decimal(5,2)", "struct(a int, b date)", "int[]"]
)
texts = simple | types.map(duckdb_name)
paths = st.lists(names | st.sampled_from(["element", "key", "value"]), min_size=1, max_size=3).map(tuple)
tables = st.tuples(st.sampled_from(["main", "s", 'S"2']), names)
comments = st.none() | st.sampled_from(["", "c", "it's"])
Step = Callable[[Lake], object]


def on(
    name: str, *arguments: st.SearchStrategy[Any], **options: st.SearchStrategy[Any]
) -> st.SearchStrategy[Step]:
    """A method of a table, called with generated arguments."""

    def step(table: tuple[str, str], given_: tuple[Any, ...], more: dict[str, Any]) -> Step:
        def run(lake: Lake) -> object:
            return getattr(lake[table], name)(*given_, **more)

        run.__name__ = f"{table}.{name}{given_}{more}"
        run.__qualname__ = run.__name__
        return run

    return st.builds(step, tables, st.tuples(*arguments), st.fixed_dictionaries(options))


def of_lake(
    name: str, *arguments: st.SearchStrategy[Any], **options: st.SearchStrategy[Any]
) -> st.SearchStrategy[Step]:
    def step(given_: tuple[Any, ...], more: dict[str, Any]) -> Step:
        def run(lake: Lake) -> object:
            return getattr(lake, name)(*given_, **more)

        run.__name__ = f"{name}{given_}{more}"
        run.__qualname__ = run.__name__
        return run

    return st.builds(step, st.tuples(*arguments), st.fixed_dictionaries(options))


columns = st.dictionaries(names, texts, min_size=1, max_size=4)
steps: st.SearchStrategy[Step] = st.one_of(
    of_lake("create_schema", st.sampled_from(["s", "S", 'S"2'])),
    of_lake("drop_schema", st.sampled_from(["s", 'S"2', "main"]), cascade=st.booleans()),
    of_lake("create_table", tables, columns, comment=comments, or_replace=st.booleans()),
    of_lake("create_table", tables, columns),
    of_lake("drop_table", tables),
    of_lake("create_view", tables, st.just("SELECT 1 AS x"), comment=comments, or_replace=st.booleans()),
    of_lake("rename_view", tables, names),
    of_lake("comment_view", tables, comments),
    of_lake("drop_view", tables),
    of_lake("create_macro", tables, st.just("x + 1"), st.just(["x"]), or_replace=st.booleans()),
    of_lake("drop_macro", tables),
    of_lake("set_option", st.just("parquet_version"), st.sampled_from([1, 2]), table=st.none() | tables),
    on("add_column", paths, texts, default=st.none() | st.sampled_from([1, "x", "2020-01-01"])),
    on("add_column", names.map(lambda n: (n,)), simple, if_not_exists=st.booleans()),
    on("drop_column", paths),
    on("rename_column", paths, names),
    on("set_type", paths, texts),
    on("set_default", paths, st.sampled_from([1, "x", None])),
    on("set_not_null", paths),
    on("drop_not_null", paths),
    on("rename", names),
    on("set_comment", comments, column=st.none() | paths),
    on("set_partitioned_by", st.sampled_from(["a", "bucket(4, b)", "year(a)", '"e.f"'])),
    on("reset_partitioned_by"),
    on("set_sorted_by", st.sampled_from(["a DESC", "coalesce(a, b)", '"c""d" NULLS FIRST'])),
    on("reset_sorted_by"),
)  # fmt: skip


@contextmanager
def new_lake(kind: str, make_location: Callable[[str], str]) -> Iterator[Lake]:
    """A fresh lake for one generated example."""
    folder = tempfile.mkdtemp()
    uri = f"ducklake:{kind}:{folder}/l.{kind}" if kind in ("sqlite", "duckdb") else make_location(kind)
    try:
        with ducklake_spark.attach(uri, name="lake", data_path=Path(folder) / "data") as lake:
            lake.create_schema("s")
            lake.create_table("a", {"a": "int", "b": "struct(a int, b date)", "e.f": "date"})
            lake.create_table("s.b", {"a": "int[]", "b": "map(varchar, struct(a int))"}, comment="c")
            yield lake
    finally:
        shutil.rmtree(folder)


def fresh(lake: Lake) -> Lake:
    """Another handle that remembers nothing."""
    return Lake(Scope(lake._scope.store, lake._scope.config, Cache()))


def contents(lake: Lake) -> dict[str, Any]:
    """All that can be seen, without ids that a commit gives."""
    view = lake._scope.read_transaction()
    found: dict[str, Any] = {"schemas": sorted((s.name, s.path) for s in view.schemas())}
    for schema in view.schemas():
        found[schema.name] = {
            "tables": sorted(view.table_names(schema)),
            "views": sorted(view.view_names(schema)),
            "macros": sorted((macro.name, macro.impls) for macro in view.macros(schema)),
        }
        for name in view.table_names(schema):
            table = view.table(schema, name)
            assert table is not None
            assert view.table_of(table.table_id) == table
            found[schema.name, name] = plain(table), comments_of(table.columns)
            option = view.options.get("parquet_version", schema_id=table.schema_id, table_id=table.table_id)
            found[schema.name, name, "option"] = option
        for name in view.view_names(schema):
            seen = view.view(schema, name)
            assert seen is not None
            found[schema.name, name, "view"] = seen.sql, seen.view_uuid, seen.comment
    return found


def plain(table: TableDef) -> TableDef:
    partitioning = table.partitioning and replace(table.partitioning, partition_id=0)
    sorting = table.sorting and replace(table.sorting, sort_id=0)
    return replace(table, table_id=0, schema_id=0, partitioning=partitioning or None, sorting=sorting or None)


def comments_of(nodes: tuple[ColumnDef, ...]) -> list[Any]:
    return [(node.comment, comments_of(node.children)) for node in nodes]


def unchangeable(found: dict[Any, Any]) -> dict[Any, Any]:
    """Without what later snapshots change: options belong to none, and column ids are never used again."""
    return {
        key: (replace(value[0], next_column_id=0), value[1])
        if isinstance(value, tuple) and isinstance(value[0], TableDef)
        else value
        for key, value in found.items()
        if key[-1] != "option"
    }


kinds = pytest.mark.parametrize(
    ("kind", "examples"), [("sqlite", 40), ("duckdb", 15), ("postgres", 5), ("mysql", 5)]
)


def several(examples: int) -> int:
    """So many of a hundred in the deep run, and half of them in the quick one."""
    most = settings().max_examples
    return max(2, examples * most // (100 if most > 100 else 200))


@kinds
def test_every_change_is_read_back(kind: str, examples: int, make_location: Callable[[str], str]) -> None:
    @settings(max_examples=several(examples))
    @given(st.lists(steps, min_size=3, max_size=12))
    def check(sequence: list[Step]) -> None:
        with new_lake(kind, make_location) as lake:
            past: list[tuple[int, dict[str, Any]]] = []
            for step in sequence:
                version, before = lake.version, contents(lake)
                try:
                    step(lake)
                except DuckLakeError:
                    assert (lake.version, contents(lake)) == (version, before), "an error changes nothing"
                    continue
                now = contents(lake)
                assert now == contents(fresh(lake))
                assert lake.version <= version + 1
                if lake.version == version:
                    changed = {key for key in now if now[key] != before.get(key)}
                    assert all(key[-1] == "option" for key in changed), "options belong to no snapshot"
                past.append((lake.version, now))
            for version, then in dict(past).items():
                assert unchangeable(contents(fresh(lake).at(version=version))) == unchangeable(then)

    check()


@kinds
def test_a_transaction_commits_what_it_saw(
    kind: str, examples: int, make_location: Callable[[str], str]
) -> None:
    @settings(max_examples=several(examples))
    @given(st.lists(steps, min_size=1, max_size=12))
    def check(sequence: list[Step]) -> None:
        with new_lake(kind, make_location) as lake:
            version, before = lake.version, contents(lake)
            with lake.transaction():
                for step in sequence:
                    seen = contents(lake)
                    try:
                        step(lake)
                    except DuckLakeError:
                        assert contents(lake) == seen, "an error changes nothing"
                assert contents(fresh(lake)) == before, "others see nothing yet"
                seen = contents(lake)
            assert contents(lake) == seen
            assert contents(fresh(lake)) == seen
            assert lake.version <= version + 1

    check()
