"""Streams as values: offsets, which snapshots belong to a stream, how much a batch takes, which rows it has."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_spark.errors import InvalidInputError, StreamingError
from ducklake_spark.format.changes import parse_changes
from ducklake_spark.format.streaming import (
    NO_LIMITS,
    START,
    Limits,
    Offset,
    Piece,
    Policy,
    Position,
    Selection,
    StreamFile,
    TableChange,
    change_of,
    pieces,
    taken,
)

INSERT = TableChange(1, inserts=True)
DELETE = TableChange(2, deletes=True)
UPDATE = TableChange(3, inserts=True, deletes=True)
NOTHING = TableChange(4)


@pytest.mark.parametrize("position", [START, Position(7), Position(7, 0), Position(7, 120)])
def test_offset_is_read_as_it_was_written(position: Position) -> None:
    offset = Offset("b1", 4, True, position)
    assert Offset.of_json(offset.to_json()) == offset


@pytest.mark.parametrize("text", ["", "7", "{}", '{"table": "x"}', '{"reservoirVersion": 3}'])
def test_offset_of_another_source_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not of a lake"):
        Offset.of_json(text)


def test_position_orders_by_snapshot_and_row() -> None:
    ordered = [START, Position(1, 5), Position(1, 9), Position(1), Position(2, 0), Position(2)]
    assert all(one < other for one, other in itertools.pairwise(ordered))


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("inserted_into_table:1", TableChange(9, inserts=True)),
        ("inlined_insert:1", TableChange(9, inserts=True)),
        ("inserted_into_table:2", TableChange(9)),
        ("deleted_from_table:1", TableChange(9, deletes=True)),
        ("inlined_delete:1", TableChange(9, deletes=True)),
        ("inserted_into_table:1,deleted_from_table:1", TableChange(9, inserts=True, deletes=True)),
        ("inlined_insert:1,inlined_delete:1", TableChange(9, inserts=True, deletes=True)),
        ("altered_table:1", TableChange(9, alters=True)),
        ("dropped_table:1", TableChange(9, drops=True)),
        ("inline_flush:1", TableChange(9)),
        ("deleted_from_table:1,inline_flush:1", TableChange(9)),
        ("merge_adjacent:1", TableChange(9)),
        ("rewrite_delete:1", TableChange(9, rewrites=True)),
    ],
)
def test_snapshot_changes_a_table(text: str, change: TableChange) -> None:
    assert change_of(1, 9, parse_changes(text)) == change


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(), [True, "deletes rows", "updates or overwrites", False]),
        (Policy(ignore_deletes=True), [True, False, "updates or overwrites", False]),
        (Policy(ignore_changes=True), [True, False, True, False]),
        (Policy(skip_changes=True), [True, False, False, False]),
        (Policy(feed=True), [True, True, True, False]),
    ],
)
def test_policy_takes_changes(policy: Policy, expected: list[bool | str]) -> None:
    for change, result in zip((INSERT, DELETE, UPDATE, NOTHING), expected, strict=True):
        if isinstance(result, str):
            with pytest.raises(StreamingError, match=result):
                policy.takes(change)
        else:
            assert policy.takes(change) is result


def test_changes_are_taken_until_one_that_cannot_be() -> None:
    later = TableChange(5, inserts=True)
    found, problem = taken([INSERT, NOTHING, DELETE, later], Policy())
    assert found == [INSERT]
    assert problem is not None and "Snapshot 2" in str(problem)


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        (NO_LIMITS, 4),
        (Limits(files=1), 1),
        (Limits(files=2), 2),
        (Limits(files=3), 2),
        (Limits(size=1), 1),
        (Limits(size=35), 2),
        (Limits(size=60), 3),
        (Limits(files=4, size=25), 1),
    ],
)
def test_limits_admit_whole_pieces_and_at_least_one(limits: Limits, end: int) -> None:
    parts = [Piece(Position(i), files, 10 * i) for i, files in ((1, 1), (2, 1), (3, 2), (4, 1))]
    assert limits.admit(parts) == Position(end)
    assert limits.admit([]) is None


def test_pieces_of_an_append_are_its_files() -> None:
    files = [StreamFile(5, 30, 10, 3, False), StreamFile(5, 10, 20, 2, False), StreamFile(6, 40, 5, 1, False)]
    found = list(pieces([5, 6], files, {}, frozenset({5, 6}), START))
    assert found == [Piece(Position(5, 30), 1, 2), Piece(Position(5), 1, 3), Piece(Position(6), 1, 1)]
    assert list(pieces([5, 6], files, {}, frozenset({5, 6}), Position(5, 30))) == found[1:]


@pytest.mark.parametrize(
    ("files", "inlined", "appends"),
    [
        ([StreamFile(5, 10, 5, 1, False), StreamFile(5, 15, 5, 1, False)], {}, frozenset()),
        ([StreamFile(5, 10, 5, 1, False), StreamFile(5, None, 5, 1, False)], {}, frozenset({5})),
        ([StreamFile(5, 10, 5, 1, False), StreamFile(5, 15, 5, 1, True)], {}, frozenset({5})),
        ([StreamFile(5, 10, 5, 1, False), StreamFile(5, 15, 5, 1, False)], {5: 100}, frozenset({5})),
    ],
    ids=["update", "no row ids", "merged", "inlined rows"],
)
def test_pieces_keep_a_snapshot_together(
    files: list[StreamFile], inlined: dict[int, int], appends: frozenset[int]
) -> None:
    [piece] = pieces([5], files, inlined, appends, START)
    assert piece == Piece(Position(5), 2, 2 + inlined.get(5, 0))


def test_pieces_of_rows_in_the_catalog_count_as_one_file() -> None:
    assert list(pieces([5], [], {5: 300}, frozenset({5}), START)) == [Piece(Position(5), 1, 300)]


def test_pieces_of_a_snapshot_whose_files_were_merged_with_earlier_ones() -> None:
    merged = StreamFile(4, 0, 30, 9, True)
    found = list(pieces([4, 5], [merged], {}, frozenset({4, 5}), Position(4, 10)))
    assert found == [Piece(Position(4), 1, 9), Piece(Position(5), 1, 0)]


POSITIONS = st.builds(Position, st.integers(-1, 6), st.integers(0, 40) | st.just(Position(0).row))
FILES = st.builds(
    StreamFile,
    st.integers(0, 6),
    st.integers(0, 40) | st.none(),
    st.integers(1, 12),
    st.just(1),
    st.just(False),
)


@given(after=POSITIONS, upto=POSITIONS, left_out=st.frozensets(st.integers(0, 6)), file=FILES)
def test_selection_of_a_file_agrees_with_that_of_its_rows(
    after: Position, upto: Position, left_out: frozenset[int], file: StreamFile
) -> None:
    selection = Selection(min(after, upto), max(after, upto), left_out)
    share = selection.of_file(file)
    if file.row_id_start is None:
        return
    rows = [selection.has(file.begin_snapshot, file.row_id_start + i) for i in range(file.record_count)]
    assert share != "all" or all(rows)
    assert share != "none" or not any(rows)


@given(
    bounds=st.lists(POSITIONS, min_size=1, max_size=5),
    snapshot=st.integers(0, 6),
    row=st.integers(0, 45),
)
def test_selections_in_sequence_have_each_row_once(bounds: list[Position], snapshot: int, row: int) -> None:
    ends = [START, *sorted(bounds), Position(6)]
    found = [Selection(one, other).has(snapshot, row) for one, other in itertools.pairwise(ends)]
    assert sum(found) == 1


def test_selection_looks_into_files_of_several_snapshots() -> None:
    merged = StreamFile(3, 0, 10, 1, True)
    assert Selection(Position(4), Position(6)).of_file(merged) == "some"
    assert Selection(START, Position(2)).of_file(merged) == "none"
