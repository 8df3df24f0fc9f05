"""CHECKPOINT: every job of maintenance in turn, each in transactions of its own, as the extension does it."""

from __future__ import annotations

from collections.abc import Callable

from ducklake_spark.engine.maintenance.age import flag
from ducklake_spark.engine.maintenance.cleanup import cleanup_old_files, delete_orphaned_files
from ducklake_spark.engine.maintenance.compaction import merge_adjacent_files, rewrite_data_files
from ducklake_spark.engine.maintenance.expire import expire_snapshots
from ducklake_spark.engine.maintenance.flush import flush_inlined_data
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.scope import Scope

_JOBS: dict[str, Callable[..., Report]] = {
    "flush_inlined_data": flush_inlined_data,
    "expire_snapshots": expire_snapshots,
    "merge_adjacent_files": merge_adjacent_files,
    "rewrite_data_files": rewrite_data_files,
    "cleanup_old_files": cleanup_old_files,
    "delete_orphaned_files": delete_orphaned_files,
}
"""In the extension's order."""


def checkpoint(scope: Scope, *, dry_run: bool = False) -> Report:
    """Runs every job with its defaults and the lake's options; a dry run says what each of them would do now.

    A transaction that is running in this thread is left alone: the jobs are not a part of it.
    """
    scope.require_open()
    if not flag(dry_run, "dry_run"):
        scope.require_writable()
    apart = scope.apart()
    rows = [(name, len(job(apart, dry_run=dry_run).rows)) for name, job in _JOBS.items()]
    return Report("job string, results bigint", rows)
