"""Where rows go, and the change that adds them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ducklake_spark import storage
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.format.edits import InlineRows, InsertFiles
from ducklake_spark.format.objects import SchemaDef, TableDef, table_folder
from ducklake_spark.workers.object_store import NOWHERE, Access, is_remote


@dataclass(frozen=True)
class Target:
    """Where rows go: the table as the transaction sees it, and the lake's data path."""

    tx: Transaction
    schema: SchemaDef
    table: TableDef
    data_path: str
    reach: Callable[[], Access] = Access
    """Says how workers reach object stores."""
    has_row_ids: bool = False
    """Whether the rows are new versions of old ones: they bring their row ids in the column `ROW_ID_NAME`."""
    always_files: bool = False
    """Whether even few rows become files, because their partition values must be known."""

    @property
    def folder(self) -> str:
        """The table's folder, whole."""
        return table_folder(self.data_path, self.schema, self.table)

    @property
    def is_remote(self) -> bool:
        """Whether the table's files are in an object store."""
        return is_remote(self.folder)

    def access(self, paths: Iterable[str] = ()) -> Access:
        """How workers reach the table's folder, and these files."""
        return self.reach() if self.is_remote or any(map(is_remote, paths)) else NOWHERE

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


def place_of(path: str) -> str:
    """A path of this machine, absolute; one of an object store as it is."""
    local = storage.local_path(path)
    return path if local is None and is_remote(path) else os.path.abspath(local or path)
