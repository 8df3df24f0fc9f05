"""Which inserts live in the catalog, in which of its tables, and what the extension makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from tests.interop import catalogs
from tests.interop.oracle import Oracle
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark

KINDS = ["duckdb", "sqlite", "postgres"]


def inserted(lake: WrittenLake, table: str, rows: int) -> str:
    """Where an insert of so many rows went."""
    before = len(lake.files())
    lake.ours[table].insert([{"a": i} for i in range(rows)])
    return "file" if len(lake.files()) > before else "catalog"


def test_limits_by_scope(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("sqlite")
    lake.ours.create_schema("s")
    for name in ("t", "s.u", "s.v"):
        lake.table(name, {"a": "int"})
    assert [inserted(lake, "t", 10), inserted(lake, "t", 11)] == ["catalog", "file"]
    lake.ours.set_option("data_inlining_row_limit", 3)
    assert [inserted(lake, name, rows) for name in ("t", "s.u") for rows in (3, 4)] == ["catalog", "file"] * 2
    lake.ours.set_option("data_inlining_row_limit", 5, schema="s")
    assert [inserted(lake, "t", 4), inserted(lake, "s.u", 5), inserted(lake, "s.u", 6)] == [
        "file",
        "catalog",
        "file",
    ]
    lake.ours.set_option("data_inlining_row_limit", 0, table="s.v")
    assert [inserted(lake, "s.v", 1), inserted(lake, "s.u", 1)] == ["file", "catalog"]
    with lake.ours.transaction():
        lake.ours.set_option("data_inlining_row_limit", 1, table="t")
        assert lake.ours["t"].insert([{"a": 1}, {"a": 2}]) == 2
    assert inserted(lake, "t", 2) == "file"
    for name in ("t", "s.u", "s.v"):
        lake.check(name)


def test_limit_of_attach(make_lake: Callable[..., WrittenLake], spark: SparkSession) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=2)
    lake.table("t", {"a": "int"})
    assert [inserted(lake, "t", 2), inserted(lake, "t", 3)] == ["catalog", "file"]
    files = len(lake.files())
    # DataFrames of which the plan knows that they are small, and those of which nobody knows before they ran.
    lake.ours["t"].insert(spark.range(2).selectExpr("int(id) a"))
    lake.ours["t"].insert(spark.range(100).selectExpr("int(id) a").where("a < 2"))
    assert len(lake.files()) == files
    lake.ours["t"].insert(spark.range(100).selectExpr("int(id) a").where("a < 3").repartition(3))
    assert len(lake.files()) > files
    assert lake.check("t") == 12


@pytest.mark.parametrize("columns", ["a int, l int[]", "a int"], ids=["workers", "spark"])
def test_small_frames_run_once(
    make_lake: Callable[..., WrittenLake], spark: SparkSession, tmp_path: Path, columns: str
) -> None:
    lake = make_lake("sqlite")
    lake.table("t", columns)
    marks = tmp_path / "marks"
    marks.mkdir()

    def seen(batches):  # type: ignore[no-untyped-def]  # runs in a worker
        import uuid

        for batch in batches:
            (marks / str(uuid.uuid4())).touch()
            yield batch

    lake.ours["t"].insert(spark.range(0, 5, 1, 1).selectExpr("int(id) a").mapInArrow(seen, "a int"))
    assert lake.files() == []
    assert len(list(marks.iterdir())) == 1
    assert lake.check("t") == 5


def test_reserved_and_long_names_go_to_files(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("postgres", data_inlining_row_limit=0)
    lake.table("reserved", {"a": "int", "Row_ID": "int"})
    lake.close()
    lake.options["data_inlining_row_limit"] = 10
    lake.table("long", {"a": "int", "é" * 32: "int"})
    lake.table("fits", {"a": "int", "é" * 31: "int"})
    lake.table("odd", {"a": "int", "q\"uo'te, ; -- 🦆": "int"})
    assert [inserted(lake, name, 1) for name in ("reserved", "long", "fits", "odd")] == [
        "file",
        "file",
        "catalog",
        "catalog",
    ]
    for name in ("reserved", "long", "fits", "odd"):
        assert lake.check(name) == 1


def test_types_that_cannot_be_inlined_go_to_files(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("sqlite")
    for name, type_, value in (
        ("v", "variant", {"x": 1}),
        ("g", "geometry", "POINT(1 2)"),
        ("n", "geometry[]", ["POINT(1 2)"]),
    ):
        lake.table(name, {"a": type_}).insert([{"a": value}])
    assert len(lake.files()) == 3
    assert lake.rows("ducklake_inlined_data_tables") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_change_makes_a_new_table_of_inlined_rows(
    make_lake: Callable[..., WrittenLake], kind: str
) -> None:
    lake = make_lake(kind)
    table = lake.table("t", {"a": "int", "b": "varchar"})
    table.insert([(1, "x")])
    table.add_column("c", "int", default=7)
    table.insert([(2, "y", None)])
    table.rename_column("a", "id")
    table.set_type("id", "bigint")
    table.insert([(3_000_000_000, "z", 1)])
    table.set_not_null("id")
    table.insert([(4, "w", 1)])
    assert lake.files() == []
    assert lake.ask("SELECT id, b, c FROM t ORDER BY id") == [
        (1, "x", 7),
        (2, "y", None),
        (4, "w", 1),
        (3_000_000_000, "z", 1),
    ]
    assert lake.check("t") == 4
    assert [row[0] for row in sorted(lake.rows("ducklake_inlined_data_tables", "schema_version"))] == [
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_flushed_by_the_extension(make_lake: Callable[..., WrittenLake], kind: str) -> None:
    lake = make_lake(kind)
    columns = "n int, b boolean, d double, m decimal(10,2), s varchar, x blob, u uuid, h int128, t timestamptz, l int[], st struct(a varchar)"
    table = lake.table("t", columns)
    rows = [
        (
            1,
            True,
            0.5,
            1.5,
            "é'\\",
            b"\x00\xff",
            "550e8400-e29b-41d4-a716-446655440000",
            2**40,
            None,
            [1, None],
            {"a": "x, y"},
        ),
        (2,) + (None,) * 10,
    ]
    table.insert(rows[:1])
    table.insert(rows[1:])
    before = lake.theirs("t")
    lake.ask("CALL ducklake_flush_inlined_data('lake')")
    assert lake.theirs("t") == before
    assert len(lake.files()) == 1
    assert lake.check("t") == 2
    lake.ours["t"].insert(rows)
    assert lake.check("t") == 4


def late(oracle_execute: Callable[[str], object]) -> None:
    oracle_execute("CREATE TABLE t(a INTEGER)")
    oracle_execute("INSERT INTO t VALUES (1)")
    oracle_execute("CALL lake.set_option('data_inlining_row_limit', 10)")
    oracle_execute("INSERT INTO t VALUES (2)")
    oracle_execute("INSERT INTO t VALUES (3)")


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_first_table_of_inlined_rows(
    oracle: Oracle, spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    """Its name has the schema version that its snapshot raises."""
    if kind == "postgres":
        theirs, ours = make_location(kind), make_location(kind)
    else:
        theirs, ours = (f"ducklake:{kind}:{tmp_path / name}" for name in ("theirs", "ours"))
    data = str(tmp_path / "data")
    oracle.attach(theirs, data_path=data, data_inlining_row_limit=0)
    late(oracle.execute)
    oracle.detach()
    with ducklake_spark.attach(
        ours, name="lake", data_path=data, spark=spark, data_inlining_row_limit=0
    ) as lake:
        table = lake.create_table("t", {"a": "int"})
        table.insert([{"a": 1}])
        lake.set_option("data_inlining_row_limit", 10)
        table.insert([{"a": 2}])
        table.insert([{"a": 3}])
    ignored = {"*": ["file_size_bytes", "footer_size", "column_size_bytes"]}
    catalogs.assert_same(theirs, ours, ignore=ignored)


@pytest.mark.parametrize("kind", KINDS)
def test_ddl_while_inlining_is_off(make_lake: Callable[..., WrittenLake], kind: str) -> None:
    """The newest table of inlined rows then has an old layout, and must not be written to."""
    lake = make_lake(kind)
    table = lake.table("t", {"a": "int", "s": "struct(x int)"})
    table.insert([(1, {"x": 1})])
    lake.ours.set_option("data_inlining_row_limit", 0)
    table.add_column("b", "int")
    table.add_column("s.y", "int")
    lake.ours.set_option("data_inlining_row_limit", 10)
    table.insert([(2, {"x": 2, "y": 2}, 2)])
    assert lake.files() == []
    assert lake.ask("SELECT * FROM t ORDER BY a") == [
        (1, {"x": 1, "y": None}, None),
        (2, {"x": 2, "y": 2}, 2),
    ]
    assert lake.check("t") == 2


@pytest.mark.parametrize("kind", KINDS)
def test_each_side_continues_the_others_tables(
    make_lake: Callable[..., WrittenLake], spark: SparkSession, kind: str
) -> None:
    lake = make_lake(kind)
    lake.table("t", {"a": "int", "b": "varchar", "l": "int[]"})
    count = 0
    for turn in range(2):
        start = turn * 1000
        lake.ours["t"].insert([(start + i, f"inlined {i}", [i]) for i in range(5)])
        lake.ours["t"].insert(
            spark.range(start + 100, start + 150).selectExpr(
                "int(id) a", "string(id) b", "array(int(id), null) l"
            )
        )
        count += 55
        assert lake.check("t") == count
        lake.ask(f"INSERT INTO t SELECT {start} + i, 'theirs', [i] FROM range(200, 203) r(i)")
        lake.ask(f"INSERT INTO t SELECT {start} + i, 'theirs', NULL FROM range(300, 350) r(i)")
        lake.ask(
            f"UPDATE t SET b = 'updated' WHERE a IN ({start + 1}, {start + 110}, {start + 201}, {start + 320})"
        )
        lake.ask(f"DELETE FROM t WHERE a IN ({start + 2}, {start + 111}, {start + 202}, {start + 321})")
        count += 53 - 4
        assert lake.check("t") == count
        lake.ours["t"].insert([(start + 900, "after", None)])
        count += 1
        lake.ask("CALL ducklake_flush_inlined_data('lake')")
        assert lake.check("t") == count
        lake.ask("CALL ducklake_merge_adjacent_files('lake')")
        assert lake.check("t") == count
        ids = lake.ask("SELECT rowid FROM t")
        assert len(set(ids)) == count
    lake.ask("CREATE TABLE u(a INTEGER, b DECIMAL(10,2) DEFAULT 1.5, s STRUCT(x INTEGER))")
    lake.ask("INSERT INTO u VALUES (1, 2.5, {'x': 1})")
    lake.ours["u"].insert([{"a": 2, "s": {"x": 2}}])
    lake.ours["u"].insert(spark.range(3, 53).selectExpr("int(id) a"))
    assert lake.check("u") == 52
    assert lake.ask("SELECT sum(b) FROM u WHERE a > 1")[0][0] * 2 == 51 * 3


@pytest.mark.parametrize("kind", KINDS)
def test_json_inside_of_lists_and_maps(make_lake: Callable[..., WrittenLake], kind: str) -> None:
    lake = make_lake(kind)
    lake.ours.sql("CREATE TABLE t(l JSON[], m MAP(VARCHAR, JSON), i INT)", dialect="duckdb")
    rows = [(['{"a": [1, 2]}', None, '"x, y"'], {"k": "[{}]"}, 1), (None, {}, 2)]
    with lake.ours.transaction():
        lake.ours["t"].insert(rows)
        lake.ours["t"].add_column("late", "int")
    assert sorted(map(tuple, lake.ours.table("t").drop("late").collect()), key=lambda row: row[2]) == rows
    if kind == "duckdb":
        assert lake.check("t") == 2  # elsewhere the extension takes the text of such a list for JSON
