"""Why rows could not be written: a value that does not fit, a folder that refuses files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from ducklake_spark.errors import DuckLakeError, FileError, shortened
from ducklake_spark.format.objects import TableDef
from ducklake_spark.spark.errors import crypto_error, task_failure
from ducklake_spark.workers.duckdb_encoder import NULL_REASON
from ducklake_spark.workers.parquet_source import FAILURE_MARK
from ducklake_spark.write.inline import misfit_error, not_null_error
from ducklake_spark.write.target import Target, place_of

T = TypeVar("T")


def explained(target: Target, run: Callable[[], T]) -> T:
    """Runs the encoder; what a worker found wrong with a value becomes an error that names it."""
    try:
        return run()
    except Exception as error:
        refusal = refused(target, error)
        if refusal is not None:
            raise refusal from None
        failure = task_failure(str(error))
        if failure is None:
            raise
        if "store" in failure:
            raise unreachable(target, failure) from None
        raise said(target.table, failure) from None


def said(table: TableDef, failure: Mapping[str, str | None]) -> DuckLakeError:
    """What a worker said of a value or of a key, as an error that names the table."""
    undecided = crypto_error(failure, f'Table "{table.name}"')
    if undecided is not None:
        return undecided
    column, value, reason = failure.get("column"), failure.get("value"), failure.get("reason")
    if column is not None and NULL_REASON in str(reason):
        return not_null_error(table, column)
    return misfit_error(table, column, value, str(reason))


def unreachable(target: Target, failure: Mapping[str, str | None]) -> FileError:
    """What a store said, for the table that was to be written."""
    return FileError(
        f'Table "{target.table.name}" cannot be written: {failure.get("store")}: {failure.get("reason")}. Nothing was '
        "changed: see docs/storage.md for the settings of object stores, and try again."
    )


_REFUSALS = re.compile(
    r"\[Errno \d+\] (?P<os>[^:\n]+)|IO Error: (?P<duckdb>[^\n\"]*?(?:\"[^\"]*\")?[^\n\"]*)"
    r"|(?P<java>Permission denied|No space left on device|Mkdirs failed[^\n(]*|Read-only file system)"
)
"""What the operating system says, as Python, DuckDB and Java pass it on."""


def refused(target: Target, error: BaseException) -> FileError | None:
    """A folder that cannot be written to, here or where a worker runs; None for any other error."""
    if isinstance(error, DuckLakeError) or FAILURE_MARK in str(error):
        return None
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
    else:
        text = str(error)
        known = (
            "Error: [Errno ",
            "IO Error: ",
            "IOException",
            "FileSystemException",
            "AccessDeniedException",
        )
        found = _REFUSALS.search(text) if any(mark in text for mark in known) else None
        if found is None:
            return None
        reason = next(part for part in found.groups() if part)
    return FileError(
        f'Cannot write data files of table "{target.table.name}" to {place_of(target.folder)}: '
        f"{shortened(reason, 120).rstrip('.')}. Nothing was written: make the folder writable for Spark and try again."
    )
