"""One table of a lake with ten thousand costs what one table costs, and the second look costs nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.errors import NotFoundError
from tests.catalog.many import COLUMNS, fill, watching

TABLES = 10_000


@pytest.fixture(scope="module", params=["duckdb", "sqlite", "postgres", "mysql"])
def location(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    rest = tmp_path_factory.mktemp("many") / "lake.db"
    if request.param in ("postgres", "mysql"):
        rest = request.getfixturevalue(f"{request.param}_server").fresh_database()
    location = f"ducklake:{request.param}:{rest}"
    with ducklake_spark.attach(location, data_path="data/") as lake:
        fill(lake, TABLES)
    return location


@pytest.fixture
def lake(location: str) -> Iterator[Lake]:
    with ducklake_spark.attach(location) as lake:
        yield lake


def test_the_first_look(lake: Lake) -> None:
    with watching(lake._scope.store) as seen:
        table = lake["T7777"].definition
    assert (table.name, len(table.columns), table.next_column_id) == ("t7777", COLUMNS, COLUMNS + 1)
    assert seen.round_trips <= 4  # the snapshot, the schemas, the table, and the snapshot again
    assert seen.queries <= 11
    assert seen.rows <= COLUMNS + 15


def test_looking_again(lake: Lake) -> None:
    _ = lake["t1"].definition
    with watching(lake._scope.store) as seen:
        for _ in range(3):
            _ = lake["main.T1"].columns
    assert seen.round_trips == 6  # two handles' worth of "which snapshot is it?" each
    assert seen.rows == 6 * 5  # the newest snapshot and the four options of the lake


def test_looking_again_inside_a_transaction(lake: Lake) -> None:
    with lake.transaction():
        _ = lake["t1"].definition
        with watching(lake._scope.store) as seen:
            for _ in range(3):
                _ = lake["t1"].columns
        assert seen.queries == 0


def test_looking_again_after_rows_came_in(lake: Lake) -> None:
    """A snapshot without DDL keeps the schema version, and with it all that is known."""
    _ = lake["t2"].definition
    store, version = lake._scope.store, lake.version
    with store.begin() as session:
        session.execute(
            f"INSERT INTO ducklake_snapshot SELECT snapshot_id + 1, {store.now_sql}, schema_version, next_catalog_id, "
            "next_file_id FROM ducklake_snapshot WHERE snapshot_id = ?",
            [version],
        )
        session.insert("ducklake_snapshot_changes", [(version + 1, "inlined_insert:3", None, None, None)])
    with watching(lake._scope.store) as seen:
        assert lake["t2"].definition.name == "t2"
        assert lake.version == version + 1
    assert seen.round_trips == 3


def test_a_name_that_is_not_there(lake: Lake) -> None:
    with pytest.raises(NotFoundError, match='no table "t_7"'):
        lake["t_7"]
    with watching(lake._scope.store) as seen, pytest.raises(NotFoundError):
        lake["t_7"]
    assert seen.round_trips == 3  # that it is not there is known too; the others look whether it ever was


def test_changing_one_of_many(lake: Lake) -> None:
    table = lake["t3"]
    with watching(lake._scope.store) as seen:
        table.set_comment("one of many")
    assert seen.round_trips == 1
    with watching(lake._scope.store) as seen:
        assert table.comment == "one of many"
    assert seen.round_trips == 2  # the snapshot and the table: the schemas are known
    assert seen.rows <= COLUMNS + 10
