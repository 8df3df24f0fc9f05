"""Clean-up: files that expiry and compaction scheduled for deletion, and files that no catalog row knows.

Files are deleted before the rows that schedule them, in batches: a job that was killed is run again, and finds some
files gone already. Right before each batch the catalog is asked again which files it names: such a file is never
deleted, even if it is scheduled.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ducklake_spark.catalog.expiry import in_transaction
from ducklake_spark.catalog.store import Session
from ducklake_spark.engine.maintenance.age import cleanup_limit, flag, require_no_transaction
from ducklake_spark.engine.maintenance.ownership import Ownership
from ducklake_spark.engine.maintenance.progress import Progress
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.scope import Scope
from ducklake_spark.engine.times import Timestamp, micros_of
from ducklake_spark.errors import FileError, UnsafePathError, shortened
from ducklake_spark.format import paths
from ducklake_spark.spark import files

T = TypeVar("T")

_BATCH = 2000
_ENDING = ".parquet"
"""Only such files are orphans, as for the extension, and their checksums: others may lie in the data path too."""


@dataclass(frozen=True)
class _Scheduled:
    """A row of `ducklake_files_scheduled_for_deletion`."""

    file_id: int | None
    stored: str
    relative: bool
    path: str
    is_old: bool


@dataclass
class _Outcome:
    """What became of files, and why some are still there."""

    rows: list[tuple[str, int | None]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def report(self) -> Report:
        """The files that are gone.

        Raises:
            UnsafePathError: Some were not the lake's own.
            FileError: Some could not be deleted.
        """
        problems = self.refused or self.failed
        if problems:
            path, reason = next(iter(problems.items()))
            others = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
            done = f"{len(self.rows)} other file{'' if len(self.rows) == 1 else 's'}"
            shown = path if len(path) <= 150 else f"...{path[-147:]}"
            if self.refused:
                raise UnsafePathError(
                    f"{shown}{others} cannot be the lake's own, and will not be deleted: {shortened(reason, 60)}. "
                    "If it was scheduled by mistake, delete its row from ducklake_files_scheduled_for_deletion. This "
                    f"did not stop {done}."
                )
            raise FileError(
                f"{shown}{others} cannot be deleted: {shortened(reason, 100)}. This did not stop {done}."
            )
        return Report("path string", self.rows, "bytes bigint")


def cleanup_old_files(
    scope: Scope, older_than: Timestamp | None = None, *, cleanup_all: bool = False, dry_run: bool = False
) -> Report:
    """Deletes the files that are scheduled for deletion long enough, and the rows that schedule them.

    Returns:
        The files, with their sizes as far as they were still there.
    """
    limit = _checked(scope, "cleanup_old_files()", older_than, cleanup_all, dry_run)
    scheduled = _scheduled(scope, limit)
    counts = Counter(row.file_id for row in scheduled)
    outcome, ownership = _Outcome(), Ownership(scope)
    old = [row for row in scheduled if row.is_old]
    with Progress("cleanup_old_files", len(old), "files") as progress:
        for batch in _batches(old):
            ownership.refresh()
            safe: dict[str, list[_Scheduled]] = {}
            for row in batch:
                reason = ownership.refusal(row.stored, relative=row.relative)
                if reason is not None:
                    outcome.refused[row.path] = reason
                elif not ownership.is_named(row.path):
                    safe.setdefault(row.path, []).append(row)
            deleted = _delete(scope, outcome, list(safe), dry_run=dry_run)
            if deleted:
                _forget(scope, [row for path in deleted for row in safe[path]], counts)
            progress.advance(len(batch))
    return outcome.report()


def delete_orphaned_files(
    scope: Scope, older_than: Timestamp | None = None, *, cleanup_all: bool = False, dry_run: bool = False
) -> Report:
    """Deletes Parquet files below the data path that no row of the catalog names, and that are old enough.

    Returns:
        The files with their sizes.
    """
    limit = _checked(scope, "delete_orphaned_files()", older_than, cleanup_all, dry_run)
    outcome, ownership = _Outcome(), Ownership(scope)
    # Listed before the catalog is read: what is committed in between is in the catalog by then
    found = sorted(
        status.path
        for status in files.list_files(scope.files_session, scope.config.data_path)
        if _data_file(status.path).endswith(_ENDING)
        and (limit is None or micros_of(status.modified, "modified") < limit)
    )
    with Progress("delete_orphaned_files", len(found), "files") as progress:
        for batch in _batches(found):
            ownership.refresh(scheduled=True)
            safe = [
                path
                for path in batch
                if not ownership.is_named(_data_file(path)) and not ownership.is_protected(path)
            ]
            _delete(scope, outcome, safe, dry_run=dry_run)
            progress.advance(len(batch))
    return outcome.report()


def _data_file(path: str) -> str:
    """The file itself, or the one whose checksum it is: Hadoop writes such beside each local file."""
    folder, name = os.path.split(path)
    is_checksum = name.startswith(".") and name.endswith(".crc")
    return os.path.join(folder, name[1:].removesuffix(".crc")) if is_checksum else path


def _checked(
    scope: Scope, job: str, older_than: Timestamp | None, cleanup_all: bool, dry_run: bool
) -> int | None:
    """Looks at the arguments. Returns the time before which files are old; None if all are."""
    scope.require_open()
    limit = cleanup_limit(scope, job, older_than, cleanup_all)
    if not flag(dry_run, "dry_run"):
        require_no_transaction(scope, job)
        scope.require_writable()
    return limit


def _scheduled(scope: Scope, limit: int | None) -> list[_Scheduled]:
    time = scope.store.micros_sql("schedule_start")
    rows = scope.store.query(
        f"SELECT data_file_id, path, path_is_relative, {time} FROM ducklake_files_scheduled_for_deletion"
    )
    return [
        _Scheduled(
            None if file_id is None else int(file_id),
            str(path),
            bool(relative),
            paths.join(scope.config.data_path, str(path), bool(relative)),
            limit is None or (micros is not None and int(micros) < limit),
        )
        for file_id, path, relative, micros in rows
    ]


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def _delete(scope: Scope, outcome: _Outcome, wanted: Sequence[str], *, dry_run: bool) -> list[str]:
    """Deletes files that were found safe, unless it is a dry run. Returns those that are gone."""
    sizes = {path: status.size for path, status in files.statuses(scope.files_session, wanted).items()}
    if dry_run:
        outcome.rows += [(path, sizes.get(path)) for path in wanted]
        return []
    result = files.delete_each(scope.files_session, wanted)
    outcome.failed |= result.failed
    deleted = [path for path in wanted if path not in result.failed]
    outcome.rows += [(path, sizes.get(path)) for path in deleted]
    return deleted


def _forget(scope: Scope, rows: Sequence[_Scheduled], counts: Counter[int | None]) -> None:
    """Removes the rows of deleted files. An id that several rows have, as none should, is no name for one of them."""
    alone = [row.file_id for row in rows if row.file_id is not None and counts[row.file_id] == 1]
    others = [row for row in rows if row.file_id is None or counts[row.file_id] > 1]

    def work(session: Session) -> None:
        if alone:
            ids = ", ".join(f"{file_id:d}" for file_id in alone)
            session.execute(
                f"DELETE FROM ducklake_files_scheduled_for_deletion WHERE data_file_id IN ({ids})"
            )
        for row in others:
            session.execute(
                "DELETE FROM ducklake_files_scheduled_for_deletion WHERE path = ? AND path_is_relative = ?",
                (row.stored, row.relative),
            )

    # Rows whose removal is unknown are found again by the next run, with their files gone
    in_transaction(scope.store, scope.config.policy, work, lambda _: True)
