"""The conflict matrix, cell by cell, as pure values: the extension's table and the holes that it leaves open."""

from __future__ import annotations

import dataclasses

import pytest

from ducklake_spark.errors import ConflictError
from ducklake_spark.format.changes import ChangeSet, format_changes, parse_changes
from ducklake_spark.format.conflicts import ConcurrentChanges, OwnChanges, check

T, OTHER = 7, 8
TABLE_FIELDS = {
    "drop": "dropped_tables",
    "alter": "altered_tables",
    "insert": "inserted_into_tables",
    "inlined insert": "inlined_inserts",
    "delete": "deleted_from_tables",
    "inlined delete": "inlined_deletes",
    "flush": "inline_flushes",
    "merge": "merge_adjacents",
    "rewrite": "rewrite_deletes",
}

# Rows: mine. The words after it: what of theirs, on the same table, it cannot be combined with. The extension's table,
# plus what it lacks (marked +).
MATRIX = {
    "drop": "drop",
    "alter": "drop, alter",
    "insert": "drop, alter, delete, inlined delete",
    "inlined insert": "drop, alter, delete, inlined delete",
    "delete": "drop, alter, merge, rewrite, insert, inlined insert",
    # + merge and rewrite: the file that it deletes from is gone, and the delete would be lost
    "inlined delete": "drop, alter, inlined delete, flush, insert, inlined insert, merge, rewrite",
    "flush": "drop, inlined delete, flush",
    # + alter. Deletes and other compactions are compared file by file: see below
    "merge": "drop, alter",
    "rewrite": "drop, alter",
}


def changes(what: str, table_id: int = T) -> ChangeSet:
    return ChangeSet(**{TABLE_FIELDS[what]: {table_id}})


@pytest.mark.parametrize("mine", TABLE_FIELDS)
@pytest.mark.parametrize("theirs", TABLE_FIELDS)
def test_changes_of_one_table(mine: str, theirs: str) -> None:
    both = OwnChanges(changes(mine), table_names={T: "sales"}), ConcurrentChanges(changes(theirs))
    if theirs in MATRIX[mine].split(", "):
        with pytest.raises(ConflictError, match=r'table "sales" \(id 7\)'):
            check(*both)
    else:
        check(*both)


@pytest.mark.parametrize("mine", TABLE_FIELDS)
@pytest.mark.parametrize("theirs", TABLE_FIELDS)
def test_changes_of_different_tables_never_conflict(mine: str, theirs: str) -> None:
    check(
        OwnChanges(changes(mine), renamed_tables={T}),
        ConcurrentChanges(changes(theirs, OTHER), renamed_tables={OTHER}),
    )


@pytest.mark.parametrize("mine", ["delete", "inlined delete"])
@pytest.mark.parametrize("theirs", ["delete", "inlined delete"])
def test_deletes_meet_in_a_file(mine: str, theirs: str) -> None:
    with pytest.raises(ConflictError, match="data file 3"):
        check(
            OwnChanges(changes(mine), deleted_files={2: 1, 3: 1}),
            ConcurrentChanges(ChangeSet(), deleted_files={3: 7, 4: 7}),
        )
    if (mine, theirs) != ("inlined delete", "inlined delete"):
        check(
            OwnChanges(changes(mine), deleted_files={2: 1}),
            ConcurrentChanges(changes(theirs), deleted_files={4: 7}),
        )


@pytest.mark.parametrize("theirs", TABLE_FIELDS)
def test_flush_of_deletes_deletes_nothing(theirs: str) -> None:
    """It moves deletes to files: rows may come in meanwhile, and columns change."""
    both = OwnChanges(changes("delete"), flushed_tables={T}), ConcurrentChanges(changes(theirs))
    if theirs in ("drop", "inlined delete", "flush", "merge", "rewrite"):
        with pytest.raises(ConflictError, match="cannot flush table"):
            check(*both)
    else:
        check(*both)


@pytest.mark.parametrize("mine", ["merge", "rewrite"])
@pytest.mark.parametrize("theirs", ["delete", "inlined delete", "merge", "rewrite"])
def test_a_compaction_meets_others_in_a_file(mine: str, theirs: str) -> None:
    own = OwnChanges(changes(mine), compacted_files={2: T, 3: T}, table_names={T: "sales"})
    with pytest.raises(
        ConflictError, match='cannot compact data file 3 of table "sales", because snapshot 9'
    ):
        check(own, ConcurrentChanges(changes(theirs), deleted_files={3: 9}))
    check(own, ConcurrentChanges(changes(theirs), deleted_files={4: 9}))


def test_compaction_of_older_versions_counts() -> None:
    with pytest.raises(ConflictError, match="compacted it"):
        check(OwnChanges(changes("delete")), ConcurrentChanges(ChangeSet(compacted_tables={T})))


# Renames have ids, which the log does not show.


@pytest.mark.parametrize("field", ["altered_tables", "dropped_tables"])
def test_a_renamed_table_is_not_as_it_was(field: str) -> None:
    with pytest.raises(ConflictError, match="renamed it"):
        check(OwnChanges(ChangeSet(**{field: {T}})), ConcurrentChanges(ChangeSet(), renamed_tables={T}))


@pytest.mark.parametrize(
    "theirs",
    [
        ConcurrentChanges(ChangeSet(dropped_tables={T})),
        ConcurrentChanges(ChangeSet(altered_tables={T})),
        ConcurrentChanges(ChangeSet(), renamed_tables={T}),
    ],
)
def test_a_table_to_rename_must_be_as_it_was(theirs: ConcurrentChanges) -> None:
    with pytest.raises(ConflictError, match="cannot rename table"):
        check(OwnChanges(ChangeSet(created_tables=[("main", "n")]), renamed_tables={T}), theirs)


@pytest.mark.parametrize(
    "theirs",
    [
        ConcurrentChanges(ChangeSet(dropped_views={T})),
        ConcurrentChanges(ChangeSet(altered_views={T})),
        ConcurrentChanges(ChangeSet(), renamed_views={T}),
    ],
)
def test_a_view_to_change_must_be_as_it_was(theirs: ConcurrentChanges) -> None:
    with pytest.raises(ConflictError, match="cannot alter view"):
        check(OwnChanges(ChangeSet(altered_views={T})), theirs)
    with pytest.raises(ConflictError, match="cannot rename view"):
        check(OwnChanges(ChangeSet(created_views=[("main", "n")]), renamed_views={T}), theirs)
    check(OwnChanges(ChangeSet(altered_views={OTHER})), theirs)


def test_a_view_to_drop_may_have_a_new_comment_but_no_new_name() -> None:
    mine = OwnChanges(ChangeSet(dropped_views={T}))
    check(mine, ConcurrentChanges(ChangeSet(altered_views={T})))
    for theirs in (
        ConcurrentChanges(ChangeSet(dropped_views={T})),
        ConcurrentChanges(ChangeSet(), renamed_views={T}),
    ):
        with pytest.raises(ConflictError, match="cannot drop view"):
            check(mine, theirs)


def test_ids_of_tables_and_views_are_not_mixed_up() -> None:
    check(
        OwnChanges(ChangeSet(altered_tables={T})),
        ConcurrentChanges(ChangeSet(dropped_views={T}, altered_views={T})),
    )
    check(
        OwnChanges(ChangeSet(dropped_views={T})),
        ConcurrentChanges(ChangeSet(dropped_tables={T}), renamed_tables={T}),
    )


@pytest.mark.parametrize("field", ["inserted_into_tables", "inlined_inserts"])
def test_not_null_was_checked_on_rows_that_are_not_all(field: str) -> None:
    theirs = ConcurrentChanges(ChangeSet(**{field: {T}}))
    with pytest.raises(ConflictError, match="cannot set NOT NULL on table"):
        check(OwnChanges(ChangeSet(altered_tables={T}), not_null_tables={T}), theirs)
    check(OwnChanges(ChangeSet(altered_tables={T})), theirs)


# Names.

NAMED = ["created_tables", "created_views", "created_scalar_macros", "created_table_macros"]
SPACES = {"created_tables": 0, "created_views": 0, "created_scalar_macros": 1, "created_table_macros": 2}


@pytest.mark.parametrize("mine", NAMED)
@pytest.mark.parametrize("theirs", NAMED)
def test_names_are_taken_once_in_each_space(mine: str, theirs: str) -> None:
    made = OwnChanges(ChangeSet(**{mine: [("Main", "N")]}), schema_ids={"main": 0})
    taken = ConcurrentChanges(ChangeSet(**{theirs: [("main", "n")]}))
    if SPACES[mine] == SPACES[theirs]:
        with pytest.raises(ConflictError, match=r'"Main"\."N"'):
            check(made, taken)
    else:
        check(made, taken)
    check(made, ConcurrentChanges(ChangeSet(**{theirs: [("main", "m"), ("other", "n")]})))


@pytest.mark.parametrize("field", NAMED)
def test_a_schema_to_drop_must_be_as_empty_as_it_was(field: str) -> None:
    mine = OwnChanges(ChangeSet(dropped_schemas={3}), schema_names={3: "Sales", 4: "hr"})
    with pytest.raises(ConflictError, match='created "n" in it'):
        check(mine, ConcurrentChanges(ChangeSet(**{field: [("sales", "n")]})))
    check(mine, ConcurrentChanges(ChangeSet(**{field: [("hr", "n")]})))


@pytest.mark.parametrize("field", NAMED)
def test_a_schema_to_fill_must_be_there(field: str) -> None:
    mine = OwnChanges(ChangeSet(**{field: [("Sales", "n")]}), schema_ids={"sales": 3, "hr": 4})
    with pytest.raises(ConflictError, match='dropped schema "Sales"'):
        check(mine, ConcurrentChanges(ChangeSet(dropped_schemas={3})))
    check(mine, ConcurrentChanges(ChangeSet(dropped_schemas={4})))


def test_schemas() -> None:
    with pytest.raises(ConflictError, match='schema "A"'):
        check(
            OwnChanges(ChangeSet(created_schemas=["A"])),
            ConcurrentChanges(ChangeSet(created_schemas=["b", "a"])),
        )
    check(OwnChanges(ChangeSet(created_schemas=["A"])), ConcurrentChanges(ChangeSet(created_schemas=["b"])))
    with pytest.raises(ConflictError, match="schema"):
        check(OwnChanges(ChangeSet(dropped_schemas={3})), ConcurrentChanges(ChangeSet(dropped_schemas={3})))
    check(OwnChanges(ChangeSet(dropped_schemas={3})), ConcurrentChanges(ChangeSet(dropped_schemas={4})))


@pytest.mark.parametrize("field", ["dropped_scalar_macros", "dropped_table_macros"])
def test_macros_are_dropped_once(field: str) -> None:
    with pytest.raises(ConflictError, match="cannot drop"):
        check(OwnChanges(ChangeSet(**{field: {T}})), ConcurrentChanges(ChangeSet(**{field: {T}})))
    check(OwnChanges(ChangeSet(**{field: {T}})), ConcurrentChanges(ChangeSet(**{field: {OTHER}})))


def test_nothing_conflicts_with_nothing() -> None:
    full = ChangeSet()
    for part in dataclasses.fields(ChangeSet):
        value = getattr(full, part.name)
        value.add(T) if isinstance(value, set) else value.append(
            "s" if part.name == "created_schemas" else ("s", "n")
        )
    check(OwnChanges(full, schema_ids={"s": 1}, schema_names={T: "s"}), ConcurrentChanges(ChangeSet()))
    check(OwnChanges(ChangeSet()), ConcurrentChanges(full))


def test_the_log_carries_all_that_is_compared() -> None:
    full = ChangeSet(
        created_schemas=['s, "x'], created_tables=[("a.b", 'c"d')], altered_tables={1}, rewrite_deletes={2}
    )
    assert parse_changes(format_changes(full)) == full


def test_the_error_says_what_to_do() -> None:
    with pytest.raises(ConflictError) as caught:
        check(OwnChanges(changes("alter"), table_names={T: "sales"}), ConcurrentChanges(changes("drop")))
    assert str(caught.value) == (
        'Transaction conflict: cannot alter table "sales" (id 7), because another transaction dropped it after this '
        "one began. Nothing was written; run it again on the new snapshot."
    )
