"""What is different between a lake at two snapshots, and what became of columns, for each kind of catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ducklake_spark
from ducklake_spark import InvalidInputError, Lake, SnapshotNotFoundError
from ducklake_spark.engine.column_history import column_history
from ducklake_spark.engine.differences import LakeDifference, difference
from ducklake_spark.engine.scope import scope_of


@pytest.fixture
def changed(location: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake of which every snapshot changes something else."""
    data = str(tmp_path_factory.mktemp("data"))
    with ducklake_spark.attach(location, name="lake", data_path=data) as lake:
        table = lake.create_table("t", {"a": "int", "s": "struct(x int)"})  # 1
        table.insert([(1, {"x": 2})])  # 2
        lake.create_schema("other")  # 3
        lake.create_table("other.gone", {"a": "int"})  # 4
        table.rename_column("a", "b")  # 5
        table.add_column("c", "varchar", default="new")  # 6
        table.set_partitioned_by("b")  # 7
        table.set_comment("words", column="b")  # 8
        lake.drop_table("other.gone")  # 9
        table.rename("u")  # 10
        table.add_column("s.y", "int")  # 11
        table.drop_column("c")  # 12
        lake.create_view("v", "SELECT 1 AS one")  # 13
        yield lake


def compared(lake: Lake, first: int, last: int) -> LakeDifference:
    return difference(scope_of(lake), first, last)


def test_definitions_and_rows_are_compared(changed: Lake) -> None:
    found = compared(changed, 1, 13)
    assert found.schemas_created == ["other"] and found.schemas_dropped == []
    assert found.views_created == ["main.v"]
    [table] = found.tables
    assert (table.schema_name, table.name, table.kind, table.has_new_rows) == ("main", "u", "altered", True)
    assert table.changes == (
        "renamed from t",
        "column a renamed to b",
        "column b: comment “words”",
        'column s: STRUCT("x" INTEGER) → STRUCT("x" INTEGER, "y" INTEGER)',
        "partitioned by b",
    )
    assert found.feed_start == 2


@pytest.mark.parametrize(
    ("first", "last", "kinds"),
    [
        (0, 1, {"t": "created"}),
        (1, 2, {"t": "rows"}),
        (4, 9, {"t": "altered", "gone": "dropped"}),
        (3, 4, {"gone": "created"}),
    ],
)
def test_tables_are_named_by_what_happened_to_them(
    changed: Lake, first: int, last: int, kinds: dict[str, str]
) -> None:
    assert {each.name: each.kind for each in compared(changed, first, last).tables} == kinds


def test_what_came_and_went_in_between_is_not_different(changed: Lake) -> None:
    assert all(each.name != "gone" for each in compared(changed, 3, 9).tables)


def test_many_tables_are_asked_for_at_once(changed: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one = compared(changed, 1, 13)
    monkeypatch.setattr("ducklake_spark.engine.differences._MANY", 0)
    assert compared(changed, 1, 13) == one_by_one


def test_bounds_must_be_snapshots_in_order(changed: Lake) -> None:
    with pytest.raises(InvalidInputError, match="not before"):
        compared(changed, 2, 2)
    with pytest.raises(SnapshotNotFoundError):
        compared(changed, 2, 99)


def test_columns_tell_their_history(changed: Lake) -> None:
    events = column_history(scope_of(changed), changed["u"].definition)
    assert [(each.snapshot_id, each.column, each.what) for each in events] == [
        (12, "c", "dropped"),
        (11, "s.y", "added as int32"),
        (8, "b", "comment “words”"),
        (6, "c", "added as varchar"),
        (5, "b", "renamed from a"),
    ]
