"""A catalog that goes back in time under those who use it, and a clock that does: nothing is mixed up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ducklake_spark
from ducklake_spark.errors import ConflictError
from tests.interop.oracle import Oracle


def go_back(lake: ducklake_spark.Lake, snapshot_id: int) -> None:
    """Does to the catalog what a restore from a backup does: what came after a snapshot never was."""
    with lake._scope.store.begin() as session:
        for table in ("snapshot", "snapshot_changes"):
            session.execute(f"DELETE FROM ducklake_{table} WHERE snapshot_id > ?", [snapshot_id])
        for table in ("schema", "table", "column", "data_file"):
            session.execute(f"DELETE FROM ducklake_{table} WHERE begin_snapshot > ?", [snapshot_id])
            session.execute(
                f"UPDATE ducklake_{table} SET end_snapshot = NULL WHERE end_snapshot > ?", [snapshot_id]
            )
        session.execute("DELETE FROM ducklake_schema_versions WHERE begin_snapshot > ?", [snapshot_id])
        for (name,) in session.query(
            "SELECT table_name FROM ducklake_inlined_data_tables WHERE schema_version > ?", [snapshot_id]
        ):
            session.execute(f'DROP TABLE "{name}"')
        session.execute("DELETE FROM ducklake_inlined_data_tables WHERE schema_version > ?", [snapshot_id])


@pytest.fixture
def lakes(location: str, tmp_path: Path) -> tuple[ducklake_spark.Lake, ducklake_spark.Lake]:
    """Two handles of one lake with a table `t(a)` at snapshot 1."""
    first = ducklake_spark.attach(location, data_path=tmp_path / "data")
    first.create_table("t", "a INT")
    return first, ducklake_spark.attach(location)


def test_what_was_remembered_of_versions_is_forgotten(
    lakes: tuple[ducklake_spark.Lake, ducklake_spark.Lake],
) -> None:
    ours, theirs = lakes
    ours["t"].add_column("b", "int")
    assert ours["t"].columns == ["a", "b"]  # remembered for schema version 2
    go_back(theirs, 1)
    theirs._scope.cache.clear()
    theirs["t"].add_column("c", "varchar")  # schema version 2 once more
    theirs.create_schema("s")
    assert ours["t"].columns == ["a", "c"]
    for lake in lakes:
        lake.close()


@pytest.mark.parametrize("later", [0, 1, 2, 3])
def test_a_transaction_does_not_commit_on_a_snapshot_that_never_was(
    later: int, lakes: tuple[ducklake_spark.Lake, ducklake_spark.Lake]
) -> None:
    ours, theirs = lakes
    ours.create_schema("lost1")
    ours.create_schema("lost2")
    with pytest.raises(ConflictError, match="restored from a backup"), ours.transaction():
        ours["t"].insert([(1,)])
        go_back(theirs, 1)
        theirs._scope.cache.clear()
        for number in range(later):  # up to the version that the transaction knows, and beyond it
            theirs.create_schema(f"s{number}")
    assert ours.version == 1 + later
    ours["t"].insert([(2,)])
    assert ours.version == 2 + later
    for lake in lakes:
        lake.close()


def test_a_clock_that_goes_back_confuses_neither_versions_nor_times(
    oracle: Oracle, make_location: Callable[[str], str], tmp_path: Path
) -> None:
    location = make_location("duckdb")
    with ducklake_spark.attach(location, data_path=tmp_path / "data") as lake:
        table = lake.create_table("t", "a INT")
        for number in range(3):
            table.insert([(number,)])
        for snapshot_id, hour in enumerate((9, 10, 12, 11, 13)):
            with lake._scope.store.begin() as session:
                session.execute(
                    f"UPDATE ducklake_snapshot SET snapshot_time = TIMESTAMPTZ '2026-01-01 {hour:02}:00:00+00' "
                    f"WHERE snapshot_id = {snapshot_id}"
                )
        hours = ("10", "11", "12", "13")
        ours = [lake.at(timestamp=f"2026-01-01 {hour}:30:00+00:00").version for hour in hours]
        assert ours == [1, 3, 2, 4]
        table.insert([(3,)])  # ids go on, whatever the times say
        assert lake.version == 5
    oracle.attach(location)
    theirs = [
        oracle.execute(f"SELECT count(*) FROM t AT (TIMESTAMP => TIMESTAMPTZ '2026-01-01 {hour}:30:00+00')")
        for hour in hours
    ]
    assert [count for ((count,),) in theirs] == [version - 1 for version in ours]
    assert oracle.execute("SELECT count(*) FROM t") == [(4,)]
