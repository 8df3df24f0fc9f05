"""Where rows go, and the change that adds them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ducklake_spark import storage
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.edits import InlineRows, InsertFiles
from ducklake_spark.format.objects import SchemaDef, TableDef, table_folder


@dataclass(frozen=True)
class Target:
    """Where rows go: the table as the transaction sees it, and the lake's data path."""

    tx: Transaction
    schema: SchemaDef
    table: TableDef
    data_path: str
    has_row_ids: bool = False
    """Whether the rows are new versions of old ones: they bring their row ids in the column `ROW_ID_NAME`."""
    always_files: bool = False
    """Whether even few rows become files, because their partition values must be known."""

    @property
    def folder(self) -> str:
        """The table's folder, whole."""
        return table_folder(self.data_path, self.schema, self.table)

    @property
    def inline_limit(self) -> int:
        """Up to how many rows go into the catalog."""
        table = self.table
        if self.always_files or not self.tx.can_inline(table):
            return 0
        return self.tx.options.inlining_limit(schema_id=table.schema_id, table_id=table.table_id)

    @property
    def is_encrypted(self) -> bool:
        """Whether the files of the lake are encrypted."""
        return self.tx.is_encrypted

    @property
    def has_hive_folders(self) -> bool:
        """Whether files of a partition are in a folder that names it; not by default where files are secret."""
        default = "false" if self.is_encrypted else "true"
        return (self.option("hive_file_pattern") or default) != "false"

    def option(self, key: str) -> str | None:
        """An option in force for the table."""
        return self.tx.options.get(key, schema_id=self.table.schema_id, table_id=self.table.table_id)


Added = InsertFiles | InlineRows | None
"""What an insert changes; None when there are no rows."""


def row_count(added: Added) -> int:
    """How many rows a change adds."""
    match added:
        case InsertFiles(_, files):
            return sum(file.record_count for file in files)
        case InlineRows(_, batch):
            return batch.record_count
        case None:
            return 0


def local_path(path: str) -> str:
    """A path of this machine.

    Raises:
        DuckLakeError: It is in an object store, to which workers cannot write.
    """
    path = storage.local_path(path) or path
    if "://" in path:
        raise DuckLakeError(
            f"Cannot write to {path}: data files are written to folders that all workers see; object stores are not "
            "among them in this version."
        )
    return os.path.abspath(path)
