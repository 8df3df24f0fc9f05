"""Inlined data that becomes files: the change, and its rows in the catalog. Pure.

The rows of a table stay what they are: their ids and the snapshots at which they came and went travel with them into
the files. So a flush conflicts with those who change the same rows meanwhile, and with nobody else.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import Any

from ducklake_spark.format.data import DataFile
from ducklake_spark.format.encryption import FileKey, stored
from ducklake_spark.format.objects import TableDef

Row = tuple[Any, ...]


@dataclass(frozen=True)
class HistoryDeletes:
    """A delete file that says of each position when it was deleted.

    Attributes:
        path: As it is stored, relative to the table's folder.
        whole_path: Where it is.
        delete_count: How many positions it has.
        begin_snapshot: Of the oldest delete in it.
        last_snapshot: Of the newest.
        end_snapshot: From when on nothing is read of its data file any more, if the file that it replaces said so.
        replaces: Id, path and relativity of the committed delete files whose place it takes.
        key: With which it is encrypted.
    """

    path: str
    whole_path: str
    delete_count: int
    file_size_bytes: int
    footer_size: int
    begin_snapshot: int
    last_snapshot: int
    end_snapshot: int | None = None
    replaces: tuple[tuple[int, str, bool], ...] = ()
    key: FileKey | None = None


@dataclass(frozen=True)
class FlushedFile:
    """A data file of rows that were inlined.

    Attributes:
        file: The file; its `row_id_start` is the least row id in it.
        begin_snapshot: Of the oldest row.
        partial_max: Of the newest.
        deletes: The rows of it that ended while they were inlined.
    """

    file: DataFile
    begin_snapshot: int
    partial_max: int
    deletes: HistoryDeletes | None = None


@dataclass(frozen=True)
class FlushInlinedData:
    """All inlined data of a table that a snapshot knows, in files.

    Attributes:
        snapshot_id: That snapshot. What came into the catalog later stays there.
        inlined_tables: The inlined data tables whose rows the files have.
        files: The files.
        deletes: By data file, the inlined deletes of it together with those in its delete files.
    """

    table: TableDef
    snapshot_id: int
    inlined_tables: tuple[str, ...] = ()
    files: tuple[FlushedFile, ...] = ()
    deletes: tuple[tuple[int, HistoryDeletes], ...] = ()

    @property
    def row_count(self) -> int:
        """How many versions of rows go to files."""
        return sum(each.file.record_count for each in self.files)

    @property
    def bytes(self) -> int:
        """What the data files take."""
        return sum(each.file.file_size_bytes for each in self.files)

    @property
    def delete_files(self) -> list[HistoryDeletes]:
        """All delete files."""
        return [deletes for _, deletes in self.deletes] + [
            each.deletes for each in self.files if each.deletes
        ]

    @property
    def whole_paths(self) -> list[str]:
        """Where all its files are."""
        return [each.file.whole_path for each in self.files] + [each.whole_path for each in self.delete_files]


@dataclass
class FlushRows:
    """The catalog rows of a flush."""

    next_file_id: int
    data_files: list[Row] = field(default_factory=list)
    column_stats: list[Row] = field(default_factory=list)
    variant_stats: list[Row] = field(default_factory=list)
    partition_values: list[Row] = field(default_factory=list)
    delete_files: list[Row] = field(default_factory=list)
    replaced: list[tuple[int, str, bool]] = field(default_factory=list)
    """Delete files that are forgotten and scheduled for deletion."""

    def new_id(self) -> int:
        """The next id of a file."""
        self.next_file_id += 1
        return self.next_file_id - 1


def flush_rows(change: FlushInlinedData, next_file_id: int) -> FlushRows:
    """What a flush inserts. Data files come first, then deletes of older files, then those of the new ones."""
    rows, table_id = FlushRows(next_file_id), change.table.table_id
    new: list[tuple[int, HistoryDeletes]] = []
    for each in change.files:
        file, file_id = each.file, rows.new_id()
        if each.deletes is not None:
            new.append((file_id, each.deletes))
        rows.data_files.append(
            (
                *(file_id, table_id, each.begin_snapshot, None, None),
                *(file.path, file.path_is_relative, "parquet"),
                *(file.record_count, file.file_size_bytes, file.footer_size),
                *(file.row_id_start, file.partition_id, stored(file.key), None, each.partial_max),
            )
        )
        for stats in file.columns:
            column_id, *values = astuple(stats)
            rows.column_stats.append((file_id, table_id, column_id, *values[:-1]))
            rows.variant_stats += [(file_id, table_id, column_id, *astuple(leaf)) for leaf in stats.variants]
        rows.partition_values += [
            (file_id, table_id, index, value) for index, value in enumerate(file.partition_values)
        ]
    for file_id, deletes in change.deletes:
        rows.replaced += deletes.replaces
        rows.delete_files.append(_delete_row(rows, table_id, file_id, deletes, deletes.last_snapshot))
    for file_id, deletes in new:
        # As the extension writes it; readers look for the column of snapshots in the file.
        rows.delete_files.append(_delete_row(rows, table_id, file_id, deletes, None))
    return rows


def _delete_row(
    rows: FlushRows, table_id: int, data_file_id: int, deletes: HistoryDeletes, partial_max: int | None
) -> Row:
    return (
        *(rows.new_id(), table_id, deletes.begin_snapshot, deletes.end_snapshot, data_file_id),
        *(deletes.path, True, "parquet"),
        *(
            deletes.delete_count,
            deletes.file_size_bytes,
            deletes.footer_size,
            stored(deletes.key),
            partial_max,
        ),
    )
