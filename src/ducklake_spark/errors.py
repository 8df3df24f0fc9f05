"""Every error that the package raises on purpose: one root, one subclass per thing a caller may want to catch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator


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


class UnsafePathError(FileError):
    """The catalog schedules files for deletion that are not the lake's own. They were not deleted."""


class SparkUnavailableError(DuckLakeError):
    """Spark is needed and cannot be started: most often there is no Java. Nothing was changed."""


class NativeUnavailableError(DuckLakeError):
    """The session's own SQL cannot know a lake: its JVM cannot load the classes that this takes. `lake.sql` works."""


class WorkerError(DuckLakeError):
    """Spark's Python workers lack something that is needed there. Nothing was written."""


class ReadOnlyError(DuckLakeError):
    """The lake was attached read-only, or at an older snapshot."""


class ClosedError(DuckLakeError):
    """The lake was closed."""


class TransactionError(DuckLakeError):
    """A transaction was used in a way that it does not allow."""


class StreamingError(DuckLakeError):
    """A stream cannot go on as it is: rows were changed, snapshots were expired, or the table is another one."""


class SchemaChangedError(StreamingError):
    """The columns of a table changed under a stream. Start the stream again: it goes on with the new columns."""


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


def shortened(text: str, longest: int = 200) -> str:
    """A text in one line that is not too long.

    >>> shortened("SELECT  1,\\n  2", 9)
    'SELECT...'
    """
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


_WITH_SECRETS = re.compile(r"^\s*ATTACH\b|\b(?:STORAGE_OPTIONS|METADATA_PARAMETERS|SECRET)\b", re.IGNORECASE)


def add_statement(error: DuckLakeError, text: str, label: str = "The statement is:") -> None:
    """Lets an error say of which statement it is, as far as there is room. What may hold secrets is cut before them."""
    said = str(error)
    if _WITH_SECRETS.search(text):
        shown = re.split(r"['\"$({=]", text, maxsplit=1)[0]
        text = text if shown == text else f"{shown.strip()} ..."
    error.args = (f"{said} {label} {shortened(text, max(40, min(200, 380 - len(said) - len(label))))}",)


def unwrap(exception: BaseException) -> BaseException:
    """The error of this package inside an exception of Spark or Py4J; the exception itself if there is none.

    A DataFrame of a lake asks the catalog while Spark runs, and what goes wrong there comes out of Spark. PySpark's own
    sessions raise the package's error as it is; other ways, such as a stream's `exception()`, wrap it into text.

    >>> unwrap(RuntimeError("Job aborted.\\nducklake_spark.errors.FileError: A file is gone.\\n\\tat org.apache"))
    FileError('A file is gone.')
    """
    for each in _chain(exception):
        found = each if isinstance(each, DuckLakeError) else from_text(str(each))
        if found is not None:
            return found
    return exception


def from_text(text: str) -> DuckLakeError | None:
    """The last error of this package that a printed traceback tells of."""
    found = re.findall(r"ducklake_spark\.errors\.(\w+): (.*)", text)
    for name, message in reversed(found):
        kind = globals().get(name)
        if isinstance(kind, type) and issubclass(kind, DuckLakeError):
            return kind(message.strip())
    return None


def _chain(exception: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while exception is not None and id(exception) not in seen:
        seen.add(id(exception))
        yield exception
        exception = exception.__cause__ or exception.__context__
