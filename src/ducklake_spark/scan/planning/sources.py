"""Where the files of a scan come from, as Spark asks for them, and where a row comes from in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ducklake_spark.catalog.store import Store
from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.types import fold
from ducklake_spark.scan.deletion_bitmap import DeletedRows
from ducklake_spark.scan.planning.column_statistics import (
    Statistics,
    column_statistics,
    exact_statistics,
    row_count,
)
from ducklake_spark.scan.planning.file_facts import FileCode
from ducklake_spark.scan.planning.first_rows import enough_files, partition_counts, sure_bound
from ducklake_spark.scan.planning.listing import (
    Condition,
    ScanFile,
    data_files,
    delete_files,
    files_and_deletes,
    require_snapshot,
)
from ducklake_spark.scan.planning.plan import FileGroup, ScanPlan
from ducklake_spark.scan.pruning.file_pruning import condition
from ducklake_spark.spark.file_index import IndexedFile


class WithDeletes:
    """Files of which a scan leaves out rows."""

    rows_deleted: DeletedRows | None
    """What says which rows a scan leaves out; without it, it leaves out none."""

    @property
    def has_deletes(self) -> bool:
        return self.rows_deleted is not None

    def deleted(self, names: Sequence[str]) -> bytes:
        assert self.rows_deleted is not None
        return self.rows_deleted.bits(names)


@dataclass(frozen=True)
class GroupFiles(WithDeletes):
    """The files of a group for Spark, listed in the catalog with the query's filters."""

    store: Store
    plan: ScanPlan
    group: FileGroup
    code: FileCode
    dropped: frozenset[int] = frozenset()
    changes_rows: bool = False
    """Whether a transaction has deleted rows that the catalog does not know of."""
    rows_deleted: DeletedRows | None = None

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
        deleted = "" if self.rows_deleted is None else self.rows_deleted.token
        at = f"{plan.table.table_id} {plan.snapshot.snapshot_id}"
        return f"{where} {at} {self.group} {self.code} {self.dropped} {deleted}"

    @property
    def size(self) -> int:
        return self.group.size

    @property
    def names(self) -> tuple[str, str, str]:
        return self.plan.lake.name, self.plan.schema.name, self.plan.table.name

    @property
    def rows(self) -> int | None:
        key = self.group.key
        return None if key.has_deletes or key.is_filtered or self.dropped else self.group.records

    def statistics(self) -> tuple[int | None, Mapping[str, Statistics]]:
        if self.dropped or self.changes_rows:
            return None, {}
        rows = row_count(self.store, self.plan, self.group)
        return rows, {} if rows is None else column_statistics(self.store, self.plan, self.group)

    def exact(self, names: frozenset[str]) -> tuple[int | None, Mapping[str, Statistics]]:
        deletes = self.plan.deletes
        # A row may be deleted both in the catalog and in a file.
        unsure = self.group.key.has_deletes and (
            names or (deletes.formats and deletes.inlined_table is not None)
        )
        if self.dropped or self.changes_rows or unsure:
            return None, {}
        rows = row_count(self.store, self.plan, self.group)
        require_snapshot(self.store, self.plan)
        return rows, {} if rows is None else exact_statistics(self.store, self.plan, self.group, names)

    def bound(self, name: str, rows: int, ascending: bool) -> int | float | str | bool | None:
        if self.dropped or self.changes_rows:
            return None
        return sure_bound(self.store, self.plan, self.group, name, rows, ascending=ascending)

    def counts(self, names: Sequence[str]) -> list[list[Any]] | None:
        if self.dropped or self.changes_rows:
            return None
        require_snapshot(self.store, self.plan)
        return partition_counts(self.store, self.plan, self.group, names)

    def first(self, rows: int) -> list[IndexedFile]:
        unsure = self.dropped or self.changes_rows
        return self._indexed(None if unsure else enough_files(self.plan, self.group, rows))

    def scan_files(self, keep: Condition | None = None) -> list[ScanFile]:
        """The files, those that the transaction dropped left out."""
        return self._left(data_files(self.store, self.plan, self.group.key, keep))

    def _left(self, files: list[ScanFile]) -> list[ScanFile]:
        return [file for file in files if file.data_file_id not in self.dropped] if self.dropped else files

    def files(self, filters: Sequence[Any]) -> list[IndexedFile]:
        return self._indexed(condition(filters, self.plan, self.group, self.store.kind))

    def _indexed(self, keep: Condition | None) -> list[IndexedFile]:
        names: Mapping[int, str] = {}
        if self.rows_deleted is None:
            files = self.scan_files(keep)
        else:
            listed, deletes = files_and_deletes(self.store, self.plan, self.group.key, keep)
            files = self._left(listed)
            names = self.rows_deleted.names(files, deletes)
        return [
            IndexedFile(
                file.path,
                file.size,
                self.code.encode(file),
                file.key,
                file.begin_snapshot,
                names.get(file.data_file_id),
            )
            for file in files
        ]


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

    def files(self, filters: Sequence[Any]) -> list[IndexedFile]:  # noqa: ARG002 - other sources prune by them
        found = delete_files(self.store, self.plan, "parquet")
        if not self.plan.deletes.formats.get("puffin") and delete_files(self.store, self.plan, "puffin"):
            raise DuckLakeError(
                f"The delete files of {self.plan.title} were replaced by deletion vectors after this DataFrame was "
                "made. Make the DataFrame again: it will have the same rows."
            )
        return [IndexedFile(file.path, file.size, file.data_file_id, file.key) for file in found]


@dataclass(frozen=True)
class FixedFiles(WithDeletes):
    """Files that a transaction wrote and the catalog does not know yet."""

    plan: ScanPlan
    listed: tuple[ScanFile, ...]
    rows_deleted: DeletedRows | None = None

    @property
    def title(self) -> str:
        return f"{self.plan.title} and the transaction"

    @property
    def total(self) -> int:
        return len(self.listed)

    @property
    def token(self) -> str:
        deleted = "" if self.rows_deleted is None else self.rows_deleted.token
        return f"{self.plan.table.table_uuid} {self.listed} {deleted}"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.listed)

    def files(self, filters: Sequence[Any]) -> list[IndexedFile]:  # noqa: ARG002 - other sources prune by them
        # Ids of uncommitted files are negative, which a modification time can be as well.
        names = {} if self.rows_deleted is None else self.rows_deleted.names(self.listed, {})
        return [
            IndexedFile(
                file.path, file.size, file.data_file_id, file.key, deleted=names.get(file.data_file_id)
            )
            for file in self.listed
        ]


@dataclass(frozen=True)
class RowSource:
    """Where a relation's rows come from, in SQL: the path of the file, the position in it, and the file's code."""

    path: str
    position: str
    code: str
    is_added: bool = False
    """Whether these are columns that the relation has beside its own."""


_METADATA = "_metadata"
NO_NUMBER, NO_TEXT = "CAST(NULL AS BIGINT)", "CAST(NULL AS STRING)"


def with_source(frame: DataFrame, names: Iterable[str]) -> tuple[DataFrame, RowSource]:
    """A relation with columns of these names, and where its rows come from.

    In SQL, because a text costs one call to the JVM, and a column one for each of its parts.
    """
    if not any(fold(name) == _METADATA for name in names):
        code = f"unix_millis({_METADATA}.file_modification_time)"
        return frame, RowSource(f"{_METADATA}.file_path", f"{_METADATA}.row_index", code)
    # The table's own column of this name would be taken for Spark's.
    made = RowSource("__ducklake_own_path", "__ducklake_own_position", "__ducklake_own_code", is_added=True)
    found = frame.metadataColumn(_METADATA)
    frame = frame.select(
        "*",
        found["file_path"].alias(made.path),
        found["row_index"].alias(made.position),
        F.unix_millis(found["file_modification_time"]).alias(made.code),
    )
    return frame, made


def plain_path(path: str) -> str:
    """SQL for Spark's URI as the path that DuckDB shows: decoded, and without `file:`."""
    return f"regexp_replace(url_decode(replace({path}, '+', '%2B')), '^file:/+', '/')"
