"""Where the files of a scan come from, as Spark asks for them, and where a row comes from in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column

from ducklake_spark.catalog.store import Store
from ducklake_spark.scan.codes import FileCode
from ducklake_spark.scan.listing import Condition, ScanFile, data_files, delete_files
from ducklake_spark.scan.plan import FileGroup, ScanPlan
from ducklake_spark.scan.pruning import condition
from ducklake_spark.scan.relation import IndexedFile


@dataclass(frozen=True)
class GroupFiles:
    """The files of a group for Spark, listed in the catalog with the query's filters."""

    store: Store
    plan: ScanPlan
    group: FileGroup
    code: FileCode
    dropped: frozenset[int] = frozenset()

    @property
    def title(self) -> str:
        return self.plan.title

    @property
    def total(self) -> int:
        return self.group.files

    @property
    def token(self) -> str:
        plan = self.plan
        where = f"{self.store.display} {self.store.metadata_schema} {plan.lake.data_path} {plan.next_file_id}"
        return f"{where} {plan.table.table_id} {plan.snapshot.snapshot_id} {self.group} {self.code} {self.dropped}"

    @property
    def size(self) -> int:
        return self.group.size

    def scan_files(self, keep: Condition | None = None) -> list[ScanFile]:
        """The files, those that the transaction dropped left out."""
        files = data_files(self.store, self.plan, self.group.key, keep)
        return [file for file in files if file.data_file_id not in self.dropped] if self.dropped else files

    def files(self, filters: Sequence[Any]) -> list[IndexedFile]:
        keep = condition(filters, self.plan, self.group, self.store.kind)
        return [IndexedFile(file.path, file.size, self.code.encode(file)) for file in self.scan_files(keep)]


@dataclass(frozen=True)
class DeleteFiles:
    """The delete files of a table for Spark; their code is the id of their data file."""

    store: Store
    plan: ScanPlan

    @property
    def title(self) -> str:
        return f"deletes of {self.plan.title}"

    @property
    def total(self) -> int:
        return self.plan.deletes.formats.get("parquet", 0)

    @property
    def token(self) -> str:
        plan = self.plan
        where = f"deletes {self.store.display} {self.store.metadata_schema} {plan.lake.data_path}"
        return f"{where} {plan.table.table_id} {plan.snapshot.snapshot_id} {plan.newest_snapshot}"

    @property
    def size(self) -> int:
        return self.plan.deletes.positions * 8

    def files(self, filters: Sequence[Any]) -> list[IndexedFile]:
        found = delete_files(self.store, self.plan, "parquet")
        return [IndexedFile(file.path, file.size, file.data_file_id) for file in found]


@dataclass(frozen=True)
class FixedFiles:
    """Files that a transaction wrote and the catalog does not know yet."""

    plan: ScanPlan
    listed: tuple[ScanFile, ...]

    @property
    def title(self) -> str:
        return f"{self.plan.title} and the transaction"

    @property
    def total(self) -> int:
        return len(self.listed)

    @property
    def token(self) -> str:
        return f"{self.plan.table.table_uuid} {self.listed}"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.listed)

    def files(self, filters: Sequence[Any]) -> list[IndexedFile]:
        # Ids of uncommitted files are negative, which a modification time can be as well.
        return [IndexedFile(file.path, file.size, file.data_file_id) for file in self.listed]


@dataclass(frozen=True)
class RowSource:
    """Where a relation's rows come from: the path of the file, the position in it, and the file's code."""

    path: Column
    position: Column
    code: Column
