"""`overwrite_partitions`: the partitions of the new rows are replaced, whatever form their old rows have."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from ducklake_spark import InvalidInputError
from tests.write.lakes import WrittenLake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]


def rows(lake: WrittenLake, table: str = "t") -> list[tuple[Any, ...]]:
    return sorted(map(tuple, lake.ours.table(table).collect()), key=repr)


@pytest.mark.parametrize("kind", ["duckdb", "postgres", "mysql"])
def test_old_rows_of_every_form(make_lake: Callable[..., WrittenLake], kind: str) -> None:
    """Files of the present keys, of older keys and of none, rows in the catalog, rows with deletes."""
    lake = make_lake(kind, data_inlining_row_limit=5)
    table = lake.table("t", {"p": "varchar", "d": "timestamptz", "n": "int"})
    at = {day: datetime.datetime(2024, 5, day, 23, 30, tzinfo=datetime.timezone.utc) for day in (1, 2)}

    def some(day: int, *numbers: int) -> list[dict[str, Any]]:
        return [{"p": None if n % 3 == 0 else f"p{n % 3}", "d": at[day], "n": n} for n in numbers]

    table.insert(some(1, *range(0, 20)))
    table.set_partitioned_by("p")
    table.insert(some(1, *range(20, 40)))
    table.set_partitioned_by("p", "day(d)")
    table.insert(some(2, *range(40, 60)))
    table.insert(some(1, *range(60, 80)))
    table.delete("n IN (41, 61)")
    table.insert(some(1, 80, 81, 82))  # in the catalog
    # Two partitions: p1 of the first day, and NULL of the second.
    new = [{"p": "p1", "d": at[1], "n": 1001}, {"p": None, "d": at[2], "n": 1002}]
    before = rows(lake)
    version = lake.ours.version
    frame = lake.ours.spark.createDataFrame(new, "p string, d timestamp, n int")
    assert lake.ours["t"].overwrite_partitions(frame) == 2
    assert lake.ours.version == version + 1

    def goes(row: tuple[Any, ...]) -> bool:
        return (row[0], row[1].day) in (("p1", 1), (None, 2))

    kept = [row for row in before if not goes(row)]
    assert [row for row in rows(lake) if row[2] < 1000] == kept and len(kept) < len(before)
    assert sorted(row[2] for row in rows(lake) if row[2] > 1000) == [1001, 1002]
    if kind != "mysql":
        assert lake.check("t") == len(kept) + 2
        lake.ask("INSERT INTO t VALUES ('p1', '2024-05-01 12:00:00+00', 2000)")
        assert lake.check("t") == len(kept) + 3


def test_buckets_and_nothing_to_write(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    table = lake.table("t", {"k": "bigint", "v": "varchar"}, partitioned_by=["bucket(4, k)"])
    table.insert([(k, "old") for k in range(100)])
    assert table.overwrite_partitions([(7, "new")]) == 1
    left = lake.check("t")
    assert 60 < left < 90
    assert lake.ask("SELECT count(*) FROM t WHERE v = 'new'") == [(1,)]
    version = lake.ours.version
    assert lake.ours["t"].overwrite_partitions([]) == 0
    assert lake.ours.version == version


def test_inside_a_transaction(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("duckdb", data_inlining_row_limit=0)
    table = lake.table("t", {"p": "int", "n": "int"}, partitioned_by=["p"])
    table.insert([(p, p * 10 + i) for p in range(3) for i in range(3)])
    with lake.ours.transaction():
        lake.ours["t"].insert([(1, 100), (2, 200)])
        lake.ours["t"].delete("n = 0")
        lake.ours["t"].overwrite_partitions([(0, -1), (1, -1)])
        assert rows(lake) == sorted([(0, -1), (1, -1), (2, 20), (2, 21), (2, 22), (2, 200)], key=repr)
    assert lake.check("t") == 6


def test_a_table_without_partitions(make_lake: Callable[..., WrittenLake]) -> None:
    lake = make_lake("duckdb")
    table = lake.table("t", {"a": "int"})
    with pytest.raises(InvalidInputError, match=r"not partitioned.*overwrite\(\)"):
        table.overwrite_partitions([(1,)])
