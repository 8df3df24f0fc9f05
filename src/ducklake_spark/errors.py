"""Every error that the package raises on purpose: one root, one subclass per thing a caller may want to catch."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DuckLakeError(Exception):
    """The root of all errors of this package."""


class InvalidInputError(DuckLakeError, ValueError):
    """An argument, name, type, option or default that the lake cannot accept."""


class AmbiguousMergeError(InvalidInputError):
    """Several rows of a merge's source would change one row of the target. Nothing was written."""


class CatalogError(DuckLakeError):
    """The catalog database cannot be used as it is."""


class CatalogConnectionError(CatalogError):
    """The catalog database cannot be reached, or the connection to it was lost."""


class NotADuckLakeError(CatalogError):
    """The database exists but holds no lake, or only part of one."""


class CatalogVersionError(CatalogError):
    """The lake has a format version that this package does not write."""


class MissingDriverError(CatalogError, ImportError):
    """The Python driver of the catalog database is not installed."""


class NotFoundError(DuckLakeError, LookupError):
    """A schema, table, view, macro, column, option or snapshot does not exist."""


class SnapshotNotFoundError(NotFoundError):
    """No snapshot with this version, or none at this time."""


class AlreadyExistsError(DuckLakeError):
    """An object with this name exists already."""


class DependencyError(DuckLakeError):
    """Something else in the lake needs the object that was to be dropped or changed."""


class TypeChangeError(DuckLakeError):
    """A change of type that could lose data."""


class ConstraintError(DuckLakeError):
    """Rows of the table do not satisfy a constraint."""


class FileError(DuckLakeError):
    """A file of the lake is gone, or is not what the catalog says."""


class SparkUnavailableError(DuckLakeError):
    """Spark is needed and cannot be started: most often there is no Java. Nothing was changed."""


class WorkerError(DuckLakeError):
    """Spark's Python workers lack something that is needed there. Nothing was written."""


class ReadOnlyError(DuckLakeError):
    """The lake was attached read-only, or at an older snapshot."""


class ClosedError(DuckLakeError):
    """The lake was closed."""


class TransactionError(DuckLakeError):
    """A transaction was used in a way that it does not allow."""


class ConflictError(TransactionError):
    """Another transaction committed a change that cannot be combined with this one. Nothing was written."""


class RetryLimitError(TransactionError):
    """The commit was tried as often as allowed and lost every time. Nothing was written."""


class CommitUnknownError(TransactionError):
    """The connection was lost during COMMIT and it could not be found out whether the snapshot exists."""


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A sentence that suggests near names, or nothing.

    >>> did_you_mean("custmers", ["orders", "customers"])
    ' Did you mean "customers"?'
    >>> did_you_mean("x", ["orders"])
    ''
    """
    by_fold = {candidate.lower(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.lower(), by_fold, n=3, cutoff=0.6)
    if not near:
        return ""
    return " Did you mean " + " or ".join(f'"{by_fold[match]}"' for match in near) + "?"
