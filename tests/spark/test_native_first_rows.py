"""The first rows of a table, and counts by partition: the catalog says which files are enough, or all of it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.spark.conftest import NativeLake
from tests.spark.test_native_aggregates import is_scanned

pytestmark = pytest.mark.spark

FILES, ROWS = 8, 50
KINDS = {
    "i": ("INT", "CAST(id AS INT)"),
    "d": ("DECIMAL(9,2)", "CAST(id AS DECIMAL(9,2)) / 4"),
    "day": ("DATE", "DATE'1969-12-01' + CAST(id AS INT)"),
    "at": ("TIMESTAMPTZ", "TIMESTAMP'1969-12-31 23:59:59.25Z' + make_dt_interval(0, 0, 0, id)"),
    "some": ("BIGINT", "if(id % 10 = 3, NULL, id)"),
    "s": ("VARCHAR", "lpad(id, 4, '0')"),
    "f": ("DOUBLE", "if(id = 399, CAST('NaN' AS DOUBLE), CAST(id AS DOUBLE))"),
}


def kept(native: NativeLake, frame: DataFrame) -> str:
    """How many files of how many, of each scan in turn."""
    return ", ".join(line.rpartition(": ")[2] for line in native.lake.explain(frame).splitlines())


@pytest.fixture(scope="module")
def ranges(native: NativeLake) -> str:
    """Files of rows 0 to 49, 50 to 99 and so on, the last ones first."""
    name = native.table("ranges", ", ".join(f"{column} {kind}" for column, (kind, _) in KINDS.items()))
    values = ", ".join(sql for _, sql in KINDS.values())
    for number in reversed(range(FILES)):
        native.sql(f"INSERT INTO {name} SELECT {values} FROM range({number * ROWS}, {(number + 1) * ROWS})")
    return name


def python_order(rows: list[Any], column: int, order: str) -> list[Any]:
    values = [row[column] for row in rows]
    present = sorted((value for value in values if value is not None), reverse="DESC" in order)
    missing = [None] * (len(values) - len(present))
    first = "NULLS FIRST" in order or ("NULLS" not in order and "DESC" not in order)
    return missing + present if first else present + missing


@pytest.mark.parametrize("order", ["", "DESC", "NULLS LAST", "DESC NULLS FIRST"])
@pytest.mark.parametrize("column", ["i", "some"])
def test_the_first_rows_in_an_order_are_read_from_the_files_that_can_have_them(
    native: NativeLake, ranges: str, column: str, order: str
) -> None:
    every = [tuple(row) for row in native.spark.table(ranges).select(column).collect()]
    frame = native.sql(f"SELECT {column} FROM {ranges} ORDER BY {column} {order} LIMIT 60 OFFSET 3")

    assert [row[0] for row in frame.collect()] == python_order(every, 0, order)[3:63]
    # All files can have NULLs; of values, two files have enough.
    nulls_first = column == "some" and order in ("", "DESC NULLS FIRST")
    assert kept(native, frame) == ("8 of 8 files" if nulls_first else "2 of 8 files")


@pytest.mark.parametrize("column", ["d", "day", "at"])
def test_other_types_with_bounds_do_so_too(native: NativeLake, ranges: str, column: str) -> None:
    for frame in (native.spark.table(ranges), native.lake.table("ranges")):
        top = frame.orderBy(frame[column].desc(), "i").limit(5).select("i")
        assert [row[0] for row in top.collect()] == [399, 398, 397, 396, 395]
        assert kept(native, top) == "1 of 8 files"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i FROM {0} ORDER BY s LIMIT 3",
        "SELECT i FROM {0} ORDER BY f DESC LIMIT 3",
        "SELECT i FROM {0} ORDER BY i % 7 LIMIT 3",
        "SELECT i FROM {0} WHERE s LIKE '%9' ORDER BY i LIMIT 3",
        "SELECT i FROM {0} ORDER BY i",
        "SELECT i FROM {0} ORDER BY i LIMIT 500",
        "SELECT sum(i) FROM {0} GROUP BY s ORDER BY 1 LIMIT 3",
        "SELECT i FROM {0} WHERE s > '0300' LIMIT 3",
    ],
)
def test_where_bounds_do_not_decide_all_files_are_read(native: NativeLake, ranges: str, query: str) -> None:
    frame = native.sql(query.format(ranges))
    assert kept(native, frame).endswith("2 of 8 files" if "> '0300'" in query else "8 of 8 files")
    assert len(frame.collect()) == (400 if "LIMIT 3" not in query else 3)


def test_nan_is_the_greatest_number(native: NativeLake, ranges: str) -> None:
    rows = native.sql(f"SELECT i FROM {ranges} ORDER BY f DESC LIMIT 2").collect()
    assert [row[0] for row in rows] == [399, 398]


@pytest.mark.parametrize(("limit", "files"), [(1, 1), (50, 1), (51, 2), (399, 8), (1000, 8)])
def test_a_limit_without_an_order_lists_as_many_files_as_it_needs(
    native: NativeLake, ranges: str, limit: int, files: int
) -> None:
    for frame in (
        native.sql(f"SELECT s, i + 1 FROM {ranges} LIMIT {limit}"),
        native.lake.table("ranges").limit(limit),
    ):
        assert kept(native, frame) == f"{files} of 8 files"
        assert len(frame.collect()) == min(limit, FILES * ROWS)
    assert native.lake.table("ranges").limit(limit).count() == min(limit, FILES * ROWS)
    assert native.lake.table("ranges").count() == FILES * ROWS


def test_limits_hold_whatever_was_deleted_inserted_or_is_pending(native: NativeLake) -> None:
    name = native.table("moving", "i INT, s VARCHAR")
    table = native.lake["moving"]
    for low in (0, 100, 200, 300):
        native.sql(f"INSERT INTO {name} SELECT CAST(id AS INT), 'x' FROM range({low}, {low + 100})")

    def check() -> None:
        every = sorted(row[0] for row in native.lake.table("moving").collect())
        for count in (1, 60, 150):
            low = native.lake.table("moving").orderBy("i").limit(count)
            high = native.lake.table("moving").orderBy("i", ascending=False).limit(count)
            assert [row[0] for row in low.collect()] == every[:count]
            assert [row[0] for row in high.collect()] == every[::-1][:count]
            assert len(native.lake.table("moving").limit(count).collect()) == min(count, len(every))

    check()
    table.delete("i < 50")
    check()
    table.insert([(-5, "inlined"), (1000, "inlined")])
    check()
    with native.lake.transaction():
        table.delete("i > 320")
        table.insert(native.spark.range(2000, 2050).selectExpr("CAST(id AS INT) AS i", "'y' AS s"))
        check()
        table.delete("i = 2010")
        check()
    native.lake.flush_inlined_data("moving")
    check()
    table.update({"i": "i + 5000"}, "i % 2 = 0")
    check()
    before = native.lake.version
    native.lake.rewrite_data_files("moving", delete_threshold=0)
    native.lake.merge_adjacent_files("moving")
    check()
    old = native.lake.table("moving", version=before)
    assert [row[0] for row in old.orderBy("i").limit(3).collect()] == [-5, 51, 53]
    assert len(old.limit(100).collect()) == 100


def test_changes_of_all_rows_are_not_limited(native: NativeLake) -> None:
    name = native.table("whole", "i INT")
    for low in (0, 40, 80):
        native.sql(f"INSERT INTO {name} SELECT CAST(id AS INT) FROM range({low}, {low + 40})")

    assert native.lake["whole"].update({"i": "i + 1000"}) == 120
    assert native.rows(f"SELECT min(i), max(i), count(*) FROM {name}") == [(1000, 1119, 120)]
    assert native.lake["whole"].delete("true") == 120


GROUPED = "p VARCHAR, q INT, day DATE, v INT"


@pytest.fixture(scope="module")
def parts(native: NativeLake) -> str:
    name = native.table("parts", GROUPED, partitioned_by=["p", "q", "day"])
    native.sql(
        f"INSERT INTO {name} SELECT elt(id % 4 + 1, 'a', 'A', '', NULL), CAST(id % 3 - 1 AS INT), "
        "DATE'1969-12-31' + CAST(id % 2 AS INT), CAST(id AS INT) FROM range(100)"
    )
    native.lake["parts"].insert([("inlined", 7, None, 1), ("a", -1, None, 2), (None, None, None, 3)])
    return name


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        ("p", "p, count(*)"),
        ("q, p", "count(1) + 1 AS n, q, p"),
        ("day", "day, count(*) AS n"),
        ("q", "q"),
        ("p, q, day", "p, q * 2, day, count(*)"),
    ],
)
def test_rows_of_partitions_are_counted_by_the_catalog(
    native: NativeLake, parts: str, keys: str, asked: str
) -> None:
    query = f"SELECT {asked} FROM {{}} GROUP BY {keys}"
    native.lake.table("parts").localCheckpoint().createOrReplaceTempView("parts_rows")
    frame = native.sql(query.format(parts))
    assert not is_scanned(frame)
    assert native.rows(frame) == native.rows(query.format("parts_rows"))
    distinct = native.sql(f"SELECT DISTINCT {keys} FROM {parts}")
    assert not is_scanned(distinct)
    assert native.rows(distinct) == native.rows(f"SELECT DISTINCT {keys} FROM parts_rows")


def test_a_scan_counts_other_groups(native: NativeLake, parts: str) -> None:
    for query in (
        "SELECT v, count(*) FROM {0} GROUP BY v",
        "SELECT p, count(v) FROM {0} GROUP BY p",
        "SELECT p, max(v) FROM {0} GROUP BY p",
        "SELECT p, count(*) FROM {0} WHERE v > 3 GROUP BY p",
        "SELECT upper(p), count(*) FROM {0} GROUP BY upper(p)",
        "SELECT p, count(*) FROM {0} GROUP BY ROLLUP (p)",
    ):
        assert is_scanned(native.sql(query.format(parts))), query


def test_a_scan_counts_where_partitions_changed_or_rows_are_deleted(native: NativeLake) -> None:
    name = native.table("kinds", "p VARCHAR, v INT")
    rows = "SELECT elt(id % 2 + 1, 'a', 'b'), CAST(id AS INT) FROM range(40)"
    asked = f"SELECT p, count(*) FROM {name} GROUP BY p"
    native.sql(f"INSERT INTO {name} {rows}")
    assert is_scanned(native.sql(asked))  # files without a key
    native.lake["kinds"].set_partitioned_by("p")
    native.sql(f"INSERT INTO {name} {rows}")
    assert is_scanned(native.sql(asked))  # some of them
    assert native.rows(asked) == [("a", 40), ("b", 40)]
    native.lake["kinds"].truncate()
    native.sql(f"INSERT INTO {name} {rows}")
    assert not is_scanned(native.sql(asked))
    native.lake["kinds"].delete("v = 3")
    assert native.rows(asked) == [("a", 20), ("b", 19)]
    native.lake["kinds"].truncate()
    assert native.rows(asked) == []
