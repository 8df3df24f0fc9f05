"""Which files are compacted together, by what the catalog says of them."""

from __future__ import annotations

from dataclasses import replace

from ducklake_spark.format.changes import format_changes
from ducklake_spark.format.compaction import (
    Candidate,
    CompactedFile,
    CompactedGroup,
    CompactFiles,
    CompactionKind,
    MergeLimits,
    SourceFile,
    are_adjacent,
    merge_groups,
    rewrite_groups,
)
from ducklake_spark.format.data import DataFile
from ducklake_spark.format.edits import Edits, InsertFiles
from ducklake_spark.format.objects import Snapshot, TableDef
from ducklake_spark.format.rows import CommitInfo, Execute, Insert, build
from ducklake_spark.format.statistics import TableStats

TABLE = TableDef(7, "u", 0, "t", "t/", True, (), 1)
LIMITS = MergeLimits(100)


def file(number: int, size: int = 10, **facts: object) -> Candidate:
    known: dict[str, object] = {"begin_snapshot": number, "row_id_start": 10 * number}
    return Candidate(number, f"{number}.parquet", True, 10, size, **(known | facts))  # type: ignore[arg-type]


def ids(groups: list[tuple[Candidate, ...]]) -> list[list[int]]:
    return [[each.data_file_id for each in group] for group in groups]


def test_files_are_taken_until_the_target_is_reached() -> None:
    sizes = (58, 21, 21, 39, 95, 21, 12, 131)
    assert ids(merge_groups([file(i, size) for i, size in enumerate(sizes)], LIMITS)) == [
        [0, 1, 2],
        [3, 4],
        [5, 6],
    ]
    # The last one may go beyond the target, as in the extension.
    assert ids(merge_groups([file(0, 58), file(1, 21), file(2, 20), file(3, 39)], LIMITS)) == [[0, 1, 2, 3]]


def test_what_is_not_merged() -> None:
    assert merge_groups([file(0)], LIMITS) == []
    assert merge_groups([file(0), file(1, has_deletes=True)], LIMITS) == []
    assert merge_groups([file(0), file(1, 100)], LIMITS) == []
    assert merge_groups([file(0), file(1, 50)], replace(LIMITS, max_file_size=50)) == []
    assert merge_groups([file(0), file(1, 50)], replace(LIMITS, min_file_size=11)) == []
    assert ids(merge_groups([file(0), file(1, 50)], replace(LIMITS, min_file_size=10, max_file_size=51))) == [
        [0, 1]
    ]


def test_only_files_of_one_kind_come_together() -> None:
    for other in (
        {"schema_version": 2},
        {"partition_id": 1},
        {"partition_values": ("a",)},
        {"partition_values": (None,)},
        {"is_exact": True},
    ):
        files = [file(0), file(1, **other), file(2), file(3, **other)]
        assert ids(merge_groups(files, LIMITS)) == [[0, 2], [1, 3]]
        assert ids(merge_groups(files, replace(LIMITS, max_compacted_files=1))) == [[0, 2]]
    assert ids(merge_groups([file(0, mapping_id=4), file(1)], LIMITS)) == [[0, 1]]


def test_files_are_in_the_order_of_their_rows() -> None:
    files = [
        file(5, begin_snapshot=2, row_id_start=30),
        file(4, begin_snapshot=2, row_id_start=40),
        file(9, begin_snapshot=1, row_id_start=None),
        file(3, begin_snapshot=1),
    ]
    assert ids(merge_groups(files, LIMITS)) == [[3, 9, 5, 4]]


def test_row_ids_follow_each_other() -> None:
    assert are_adjacent([file(0), file(1), file(2)])
    assert not are_adjacent([file(0), file(2)])
    assert not are_adjacent([file(0), file(1, row_id_start=None)])


def test_files_with_enough_deletes_are_rewritten() -> None:
    files = [file(i, 100, deleted_rows=deleted) for i, deleted in enumerate((0, 3, 5, 9, 10))]
    assert ids(rewrite_groups(files, 0.5, 1000)) == [[2, 3, 4]]
    assert ids(rewrite_groups(files, 0, 1000)) == [[1, 2, 3, 4]]
    assert ids(rewrite_groups(files, 1, 1000)) == [[4]]
    # By what is left of them: 70 and 50 bytes are as large as the target.
    assert ids(rewrite_groups(files, 0, 100)) == [[1, 2], [3, 4]]


def edits(kind: CompactionKind, stats: TableStats | None = None) -> Edits:
    group = CompactedGroup(
        (SourceFile(3, "main/t/3.parquet", True), SourceFile(4, "/far/4.parquet", False)),
        (CompactedFile(DataFile("n.parquet", True, 20, 15, 5, row_id_start=30), 2, 6),),
    )
    made = Edits()
    made.apply(CompactFiles(TABLE, kind, (group,), stats, 9))
    return made


def batch(changes: Edits, latest: int = 9) -> tuple[list[str], list[Insert]]:
    built = build(changes, Snapshot(latest, 0, 1, 8, 50), lambda _: False, CommitInfo())
    return (
        [each.sql for each in built.statements if isinstance(each, Execute)],
        [each for each in built.statements if isinstance(each, Insert)],
    )


def test_a_merge_forgets_its_sources_and_schedules_them() -> None:
    changes = edits(CompactionKind.MERGE)
    assert format_changes(changes.changes({})) == "merge_adjacent:7"
    statements, [added, *_] = batch(changes)
    assert [each.split()[2] for each in statements if each.startswith("DELETE")] == [
        "ducklake_data_file",
        "ducklake_file_column_stats",
        "ducklake_delete_file",
        "ducklake_file_partition_value",
        "ducklake_file_variant_stats",
    ]
    named = "(data_file_id, path, path_is_relative, schedule_start)"  # a later format may have more columns
    assert statements[-1].startswith(f"INSERT INTO ducklake_files_scheduled_for_deletion {named} VALUES")
    assert added.rows[0][:4] == (50, 7, 2, None)
    assert (added.rows[0][11], added.rows[0][-1]) == (30, 6)


def test_a_rewrite_ends_its_sources() -> None:
    stats = TableStats(20, 0, 15)
    changes = edits(CompactionKind.REWRITE, stats)
    assert format_changes(changes.changes({})) == "rewrite_delete:7"
    statements, _ = batch(changes)
    assert [each.split()[1] for each in statements] == [
        "ducklake_data_file",
        "ducklake_delete_file",
        "ducklake_table_stats",
    ]
    # Others were faster: what was counted is no longer so.
    assert "ducklake_table_stats" not in str(batch(changes, latest=10)[0])


def test_a_compaction_is_alone_in_its_snapshot() -> None:
    changes = edits(CompactionKind.MERGE)
    assert not changes.mixes_compaction
    changes.apply(InsertFiles(TABLE, (DataFile("x", True, 1, 1, 1),)))
    assert changes.mixes_compaction
    changes = edits(CompactionKind.MERGE)
    changes.apply(InsertFiles(replace(TABLE, table_id=8), (DataFile("x", True, 1, 1, 1),)))
    assert changes.mixes_compaction
    twice = edits(CompactionKind.MERGE)
    twice.apply(edits(CompactionKind.MERGE).tables[7].compactions[0])
    assert twice.mixes_compaction
