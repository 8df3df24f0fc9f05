"""Changes of rows in files that have deletion vectors, which the extension writes when it is told to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("limit", [0, 10])
def test_deletes_and_updates_go_on_where_a_vector_stopped(
    make_lake: Callable[..., WrittenLake], limit: int
) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=limit)
    lake.ask("CALL lake.set_option('write_deletion_vectors', true)")
    lake.ask("CREATE TABLE t(a INTEGER, b VARCHAR)")
    lake.ask("INSERT INTO t SELECT i, 'x' FROM range(1000) r(i)")
    lake.ask("INSERT INTO t SELECT i, 'x' FROM range(1000, 1100) r(i)")
    lake.ask("DELETE FROM t WHERE a % 3 = 0 AND a < 1000")
    assert lake.rows("ducklake_delete_file", "format") == [("puffin",)]
    before = lake.ours.version
    assert lake.ours["t"].delete("a % 5 = 0 AND a < 1000") == 133
    assert lake.check("t") == 633
    assert lake.ours["t"].update({"b": "'changed'"}, "a BETWEEN 500 AND 540") == 21
    assert lake.ours["t"].delete("a IN (1, 2, 1050)") == 3
    assert lake.check("t") == 630
    assert lake.ask("SELECT count(*) FROM t WHERE b = 'changed'") == [(21,)]
    # Earlier snapshots are as they were.
    for version in (before - 1, before, before + 1):
        (theirs,) = lake.ask(f"SELECT count(*), sum(a) FROM t AT (VERSION => {version})")
        ours = lake.ours.table("t", version=version).selectExpr("count(*)", "sum(a)").first()
        assert ours is not None and tuple(ours) == theirs
    # And the extension goes on as well.
    lake.ask("DELETE FROM t WHERE a > 1090")
    assert lake.check("t") == 621


def test_a_frame_of_before_sees_the_deletes_of_before(make_lake: Callable[..., WrittenLake]) -> None:
    """The vector that it would have read is a Parquet file by the time it is used."""
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    lake.ask("CALL lake.set_option('write_deletion_vectors', true)")
    lake.ask("CREATE TABLE t AS SELECT i::INTEGER AS a FROM range(1000) r(i)")
    lake.ask("DELETE FROM t WHERE a % 3 = 0")
    frame = lake.ours.table("t")
    assert lake.ours["t"].delete("a % 5 = 0") == 133
    assert frame.count() == 666 and lake.ours.table("t").count() == 533
    assert lake.rows("ducklake_delete_file", "format") == [("parquet",)]
