"""Rows in transactions: one snapshot or none, seen by their own transaction, and no file that nobody knows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import ConflictError, DuckLakeError
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark

LIMITS = {"inlined": 1000, "files": 0}


@pytest.fixture(params=LIMITS)
def limit(request: pytest.FixtureRequest) -> int:
    return LIMITS[request.param]


def test_rows_and_ddl_are_one_snapshot(make_lake: Callable[..., WrittenLake], limit: int) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=limit)
    t, u = lake.table("t", {"a": "int"}), lake.table("u", {"a": "int"})
    t.insert([{"a": 0}])
    version = lake.ours.version
    with lake.ours.transaction(message="all of it"):
        t.insert([{"a": 1}])
        t.add_column("b", "varchar", default="filled")
        t.insert([{"a": 2}, {"a": 3, "b": "own"}])
        u.insert([{"a": 10}])
        t.rename_column("a", "id")
        t.insert([{"id": 4, "b": None}])
        t.rename("renamed")
        t.insert([{"id": 5, "b": "last"}])
        made = lake.ours.create_table("made", {"x": "int", "s": "struct(y int)"})
        made.insert([{"x": 1, "s": {"y": 1}}])
        assert sorted(lake.ours.table("renamed").collect()) == [
            (0, "filled"), (1, "filled"), (2, "filled"), (3, "own"), (4, None), (5, "last"),
        ]  # fmt: skip
        assert lake.ours.table("made").collect() == [(1, (1,))]
        assert lake.ours.table("u").count() == 1
    assert lake.ours.version == version + 1
    assert lake.ask("SELECT * FROM renamed ORDER BY id") == [
        (0, "filled"), (1, "filled"), (2, "filled"), (3, "own"), (4, None), (5, "last"),
    ]  # fmt: skip
    assert lake.check("renamed") == 6 and lake.check("u") == 1 and lake.check("made") == 1
    stats = {
        row[0]: row[1:]
        for row in lake.rows("ducklake_table_stats", "table_id", "record_count", "next_row_id")
    }
    assert stats == {1: (6, 6), 2: (1, 1), 3: (1, 1)}
    assert lake.files() == lake.registered()


def test_types_that_change_under_inlined_rows(make_lake: Callable[..., WrittenLake]) -> None:
    for kind in ("duckdb", "sqlite", "postgres"):
        lake = make_lake(kind, data_inlining_row_limit=100)
        table = lake.table(
            "t",
            "n int, i int, d date, s struct(a int, b varchar), l struct(a int)[], m map(int, struct(a int)), v float, gone int",
        )
        row = {
            "n": 1,
            "i": 7,
            "d": dt.date(2020, 1, 1),
            "s": {"a": 1, "b": "x, y"},
            "l": [{"a": 1}, None],
            "m": {1: {"a": 1}},
            "v": 0.5,
            "gone": 1,
        }
        with lake.ours.transaction():
            table.insert([row, {"n": 2}])
            table.set_type("i", "bigint")
            table.set_type("d", "timestamp")
            table.set_type("v", "double")
            table.add_column("s.c", "int", default=5)
            table.rename_column("s.a", "first")
            table.add_column("l.element.b", "varchar", default="new")
            table.set_type("m.value.a", "bigint")
            table.drop_column("gone")
            table.add_column("e", "boolean", default=True)
            assert sorted(lake.ours.table("t").drop("d", "m").collect())[0][:4] == (
                1,
                7,
                (1, "x, y", 5),
                [(1, "new"), None],
            )
        expected: list[tuple[Any, ...]] = [
            (
                1,
                7,
                dt.datetime(2020, 1, 1),
                {"first": 1, "b": "x, y", "c": 5},
                [{"a": 1, "b": "new"}, None],
                {1: {"a": 1}},
                0.5,
                True,
            ),
            (2, None, None, None, None, None, None, True),
        ]
        assert lake.ask("SELECT * FROM t ORDER BY n") == expected, kind
        lake.check("t")
        lake.close()


def test_types_change_under_files_of_the_transaction(make_lake: Callable[..., WrittenLake]) -> None:
    """The files stay as they are: what they hold is cast as they are read, by the extension and by us."""
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    table = lake.table(
        "t", "i int, d date, f decimal(5,2), h hugeint, ts timestamp, b int, s struct(a int, l date[])"
    )
    day = dt.date(2020, 1, 1)
    row = {
        "i": 1,
        "d": day,
        "f": 1.25,
        "h": 10**20,
        "ts": dt.datetime(2020, 1, 1, 5),
        "b": 7,
        "s": {"a": 1, "l": [day, None]},
    }
    table.insert([{**row, "i": 0}])
    with lake.ours.transaction():
        table.insert([row])
        for name, new in {
            "i": "bigint",
            "d": "timestamptz",
            "f": "double",
            "h": "float",
            "ts": "timestamp_ns",
            "b": "hugeint",
        }.items():
            table.set_type(name, new)
        table.add_column("s.b", "int", default=5)
        table.set_type("s.l.element", "timestamp")
        table.add_column("u", "uuid", default="550e8400-e29b-41d4-a716-446655440000")
        table.insert([{**row, "i": 2, "h": 1.5, "s": {"a": 2, "l": None, "b": 6}, "u": None}])
        inside = sorted(map(tuple, lake.ours.table("t").collect()), key=repr)
        assert table.delete("i = 2") == 1
        assert table.update({"f": "f + 1"}, "i = 1") == 1
        table.update({"f": "f - 1"}, "i = 1")
        table.insert([{**row, "i": 2, "h": 1.5, "s": {"a": 2, "l": None, "b": 6}, "u": None}])
    assert lake.check("t") == 3
    assert sorted(map(tuple, lake.ours.table("t").collect()), key=repr) == inside
    assert lake.ask("SELECT i, d, f, s.b, s.l, u::VARCHAR FROM t WHERE i = 1") == [
        (
            1,
            dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc),
            1.25,
            5,
            [dt.datetime(2020, 1, 1), None],
            "550e8400-e29b-41d4-a716-446655440000",
        )
    ]


def test_a_statement_that_fails_leaves_the_deletes_of_those_before_it(
    make_lake: Callable[..., WrittenLake],
) -> None:
    """The second update would take the place of the first one's delete file, and must not before it is whole."""
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    table = lake.table("t", "a int not null, b int")
    table.insert([(i, i) for i in range(100)])
    with lake.ours.transaction():
        assert table.update({"b": "-b"}, "a < 10") == 10
        with pytest.raises(DuckLakeError):
            table.update({"a": "nullif(a, 20)"}, "a BETWEEN 15 AND 30")
        assert lake.ours.table("t").count() == 100
    assert lake.ask("SELECT count(*), sum(b) FROM t") == [(100, 4950 - 2 * 45)]
    assert lake.check("t") == 100
    assert lake.files() == lake.registered()


def test_own_rows_are_seen(make_lake: Callable[..., WrittenLake], limit: int, spark: SparkSession) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=limit)
    table = lake.table("t", {"a": "bigint", "h": "int128", "l": "varchar[]"})
    table.insert([(1, 10**30, ["x"])])
    with lake.ours.transaction():
        table.insert([(2, 10**31, None), (3, None, [])])
        table.insert(spark.range(4, 8).selectExpr("id a", "decimal(5) h", "array('y') l"))
        frame = lake.ours.table("t", virtual_columns=["rowid", "snapshot_id"])
        assert frame.count() == 7
        rows = sorted(frame.collect(), key=lambda row: row["a"])
        assert [(row["a"], row["h"]) for row in rows[:3]] == [(1, 10**30), (2, 10**31), (3, None)]
        assert rows[0]["rowid"] == 0
        assert len({row["rowid"] for row in rows}) == 7
        assert frame.where("a >= 5").count() == 3
        other = lake.attach()
        assert other.table("t").count() == 1
        other.close()
    assert lake.check("t") == 7
    after = lake.ours.table("t", virtual_columns=["rowid"])
    assert sorted(row["rowid"] for row in after.collect()) == list(range(7))


@pytest.mark.parametrize(("limit", "count", "made"), [(0, 1, 0), (10, 20, 0), (10, 1, 1)])
def test_rows_that_come_and_go_in_files_make_no_snapshot(
    make_lake: Callable[..., WrittenLake], spark: SparkSession, limit: int, count: int, made: int
) -> None:
    """The extension makes one for inlined rows, and none for rows in files."""
    lake = make_lake("sqlite", data_inlining_row_limit=limit)
    lake.table("t", {"a": "bigint"}).insert(spark.range(20).selectExpr("id a").coalesce(1))
    before = lake.ours.version
    rows = f"range(100, {100 + count})"
    lake.ask(f"BEGIN; INSERT INTO t SELECT range FROM {rows}; DELETE FROM t WHERE a >= 100; COMMIT")
    assert lake.ours.version - before == made
    before, table = lake.ours.version, lake.ours["t"]
    with lake.ours.transaction():
        assert table.insert(spark.range(100, 100 + count).selectExpr("id a").coalesce(1)) == count
        assert table.delete("a >= 100") == count
    assert lake.ours.version - before == made
    assert lake.check("t") == 20
    assert lake.files() == lake.registered()


def test_rollback_leaves_nothing(
    make_lake: Callable[..., WrittenLake], limit: int, spark: SparkSession
) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=limit)
    table = lake.table("t", {"a": "bigint"})
    table.insert([{"a": 1}])
    before, files = lake.catalog(), lake.files()
    with pytest.raises(ZeroDivisionError), lake.ours.transaction():
        lake.ours["t"].insert([{"a": 2}])
        lake.ours["t"].insert(spark.range(2000).toDF("a"))
        made = lake.ours.create_table("made", {"x": "bigint", "l": "int[]"}, partitioned_by=["x"])
        made.insert(spark.range(3).selectExpr("id x", "array(1) l"))
        raise ZeroDivisionError
    assert lake.catalog() == before
    assert lake.files() == files


def test_a_failed_job_leaves_nothing(make_lake: Callable[..., WrittenLake], spark: SparkSession) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    flat, nested = lake.table("flat", {"a": "bigint"}), lake.table("nested", {"a": "bigint", "l": "int[]"})
    version = lake.ours.version
    frame = spark.range(0, 200_000, 1, 8).selectExpr("IF(id = 150000, bigint(raise_error('stop')), id) a")
    for table in (flat, nested):
        with pytest.raises(Exception, match="stop"):
            table.insert(frame)
    assert lake.ours.version == version
    assert lake.files() == []


def test_dropped_and_emptied_tables_take_their_files_along(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    old = lake.table("old", {"a": "int"})
    lake.table("kept", {"a": "int"})
    with lake.ours.transaction():
        old.insert([{"a": 1}])
        lake.ours["kept"].insert([{"a": 1}])
        lake.ours["kept"].truncate()
        lake.ours["kept"].insert([{"a": 2}])
        lake.ours["kept"].overwrite([{"a": 3}])
        made = lake.ours.create_table("made", {"a": "int"})
        made.insert([{"a": 1}])
        made.drop()
        old.drop()
    assert len(lake.files()) == 1
    assert lake.files() == lake.registered()
    assert lake.ask("SELECT * FROM kept") == [(3,)]
    with lake.ours.transaction():
        made = lake.ours.create_table("made", {"a": "int"})
        made.insert([{"a": 1}])
        made.drop()
    assert lake.files() == lake.registered()


def test_own_rows_that_change_get_ids_of_their_own(
    make_lake: Callable[..., WrittenLake], limit: int, spark: SparkSession
) -> None:
    """New versions of old rows keep their ids; new versions of rows that have none yet get theirs with the commit."""
    lake = make_lake("sqlite", data_inlining_row_limit=limit)
    table = lake.table("t", {"a": "int", "b": "varchar"})
    table.insert([(a, "old") for a in range(3)])
    with lake.ours.transaction():
        table.insert([(a, "new") for a in range(10, 13)])
        table.update({"b": "'changed'"}, "a IN (1, 10, 11)")
        source = spark.createDataFrame([(1, "merged"), (11, "merged"), (20, "merged")], "a INT, b STRING")
        merge = table.merge(source, "target.a = source.a").when_matched().update_all()
        merge.when_not_matched().insert_all().execute()
    shown = "SELECT a, b, rowid FROM t ORDER BY a"
    found = lake.ask(shown)
    assert [row[:2] for row in found] == [
        (0, "old"), (1, "merged"), (2, "old"), (10, "changed"), (11, "merged"), (12, "new"), (20, "merged"),
    ]  # fmt: skip
    ids = [row[2] for row in found]
    assert ids[:3] == [0, 1, 2] and len(set(ids)) == 7 and all(3 <= each < 20 for each in ids[3:])
    assert list(map(tuple, lake.ours.sql(shown).collect())) == found


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_conflict_after_writing_removes_the_files(make_lake: Callable[..., WrittenLake], kind: str) -> None:
    lake = make_lake(kind, data_inlining_row_limit=0)
    lake.table("t", {"a": "int"})
    other = lake.attach()
    version = lake.ours.version
    with pytest.raises(ConflictError), lake.ours.transaction():
        lake.ours["t"].insert([{"a": 1}])
        other["t"].add_column("b", "int")
    other.close()
    assert lake.ours.version == version + 1
    assert lake.files() == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_a_retry_keeps_its_files_and_moves_its_rows(
    make_lake: Callable[..., WrittenLake], kind: str, limit: int
) -> None:
    lake = make_lake(kind, data_inlining_row_limit=limit)
    table = lake.table("t", {"a": "int", "s": "varchar"})
    table.insert([{"a": 5, "s": "m"}])
    other = lake.attach()
    with lake.ours.transaction():
        table.insert([{"a": 1, "s": "a"}, {"a": 2}])
        written = lake.files()
        other["t"].insert([{"a": 9, "s": "z"}, {"a": 8}, {"a": 7}])
        other.create_table("else", {"x": "int"}).insert([{"x": 1}])
    other.close()
    assert set(written) <= set(lake.files())
    assert len(lake.files()) == (0 if limit else 4)
    rows = lake.ours.table("t", virtual_columns=["rowid"]).orderBy("rowid").collect()
    assert [tuple(row) for row in rows] == [
        (5, "m", 0), (9, "z", 1), (8, None, 2), (7, None, 3), (1, "a", 4), (2, None, 5),
    ]  # fmt: skip
    stats = lake.rows("ducklake_table_stats", "table_id", "record_count", "next_row_id")
    assert sorted(stats) == [(1, 6, 6), (2, 1, 1)]
    columns = lake.rows(
        "ducklake_table_column_stats", "column_id", "contains_null", "min_value", "max_value",
        where=lambda row: row["table_id"] == 1,
    )  # fmt: skip
    assert sorted(columns) == [(1, 0, "1", "9"), (2, 1, "a", "z")]
    if kind != "mysql":
        assert lake.check("t") == 6
    assert lake.files() == lake.registered()
