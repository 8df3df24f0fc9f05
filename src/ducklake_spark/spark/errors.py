"""Spark's errors as ours: one exception of a type that can be caught, in a sentence, and no log line beside it.

What goes wrong inside a file index that the JVM asks, or in a data file of a lake, leaves Spark as the error it was.
"""

from __future__ import annotations

import functools
import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote

from ducklake_spark.errors import (
    ConstraintError,
    DuckLakeError,
    FileError,
    InvalidInputError,
    NativeUnavailableError,
    NotFoundError,
    WorkerError,
    did_you_mean,
    from_text,
    shortened,
)
from ducklake_spark.workers.parquet_source import FAILURE_MARK, MISSING, NO_CRYPTO, NOT_ENCRYPTED, WRONG_KEY

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""With these PySpark logs each error as a page of JSON while it makes the exception."""
_HIDDEN = ("__ducklake", "_ducklake_internal")
_NO_COLUMN = ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")
_LONGEST = 250
_KEPT_FOLDERS = 10_000

Function = TypeVar("Function", bound=Callable[..., Any])

# --- Silence. ---------------------------------------------------------------------------------------------------

_is_quiet: ContextVar[bool] = ContextVar("ducklake_is_quiet", default=False)


class _Filter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - as logging calls it
        return not _is_quiet.get()


_filter = _Filter()


@contextmanager
def quiet() -> Iterator[None]:
    """PySpark logs no errors of queries in this thread: they are raised, and say it better."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_filter)  # the same one again is no second one
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


# --- Words. -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """What Spark's error is about: the words for it, the columns that users can name, the values that they gave."""

    what: str
    columns: Sequence[str] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


def is_of_spark(error: BaseException) -> bool:
    """Whether Spark or its bridge raised it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, (PySparkException, Py4JError)) and not isinstance(error, DuckLakeError)


def condition_of(error: Any) -> str:
    """Spark's name for what is wrong, or nothing."""
    asked = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    found = re.search(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]", str(error)) if asked is None else None
    return str((asked() if asked else found and found[1]) or "")


def plain_message(error: Any, longest: int = _LONGEST) -> str:
    """What Spark says in one line: without plans, stacks, codes, and columns that only the package knows."""
    text = str(getattr(error, "getMessage", lambda: "")() or "") or str(error)
    if type(error).__module__.startswith("py4j"):
        lines = [line for line in text.splitlines() if re.search(r"\[[A-Z0-9_.]{5,}\] |^: ", line)]
        text = lines[-1] if lines else text
    if "Traceback (most recent call last)" in text:
        lines = [
            line for line in text.splitlines() if re.match(r"\w[\w.]*(Error|Exception|Warning)?\b.*", line)
        ]
        text = f"an exception in Python: {lines[-1]}" if lines else text
    text = re.split(r"\n\s*(?:JVM stacktrace|== SQL|== DataFrame|Driver stacktrace)", text, maxsplit=1)[
        0
    ].strip()
    text = re.sub(r";\s*line \d+ pos \d+.*", "", text, flags=re.DOTALL)
    text = re.sub(r";\n['+!:]?\S.*", "", text, flags=re.DOTALL)
    text = re.sub(r"^.*?\[[A-Z][A-Z0-9_.]{4,}\] ", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*SQLSTATE: \w+;?", "", text)
    text = re.sub(r"\s*\(line \d+, pos \d+\)", "", text)
    text = re.sub(r" If necessary,? set \S+ to \S+ to bypass this error\.?", "", text)
    text = re.sub(r"\bducklake_[0-9a-f]{8}_\d+\b", "(table)", text)
    return shortened(_without_hidden(text), longest)


def _without_hidden(text: str) -> str:
    hidden = "|".join(_HIDDEN)
    return re.sub(rf"`?(?:{hidden})\w*`?(?:, )?", "", text)


def place_of(error: Any) -> tuple[int, int] | None:
    """Line and column in the text that Spark read, both from one on."""
    found = re.search(r"\(?line (\d+),? pos (\d+)\)?", str(error))
    return (int(found[1]), int(found[2]) + 1) if found else None


def not_found_column(error: Any) -> tuple[str, list[str]] | None:
    """The column or field that Spark did not find, and what it would have found; None if it is another error."""
    if not condition_of(error).startswith(_NO_COLUMN):
        return None
    parameters = error.getMessageParameters() or {}
    name = _plain_name(str(parameters.get("objectName") or parameters.get("fieldName") or "?"))
    return name, [each for each in _names_in(parameters.get("proposal")) if not each.startswith(_HIDDEN)]


def _names_in(listed: str | None) -> list[str]:
    return [_plain_name(each) for each in re.findall(r"(?:`(?:[^`]|``)*`\.?)+", listed or "")]


def _no_field(error: Any, where: str = "") -> NotFoundError:
    parameters = error.getMessageParameters() or {}
    name, fields = _plain_name(str(parameters.get("fieldName"))), _names_in(parameters.get("fields"))
    listed = " and ".join(f'"{each}"' for each in fields[:5])
    return NotFoundError(f'There is no field "{name}"{where}: the struct has {listed}.')


def _plain_name(quoted: str) -> str:
    parts = [part.replace("``", "`") for part in re.findall(r"`((?:[^`]|``)*)`", quoted)]
    return ".".join(parts) or quoted


def explained(error: BaseException, subject: Subject) -> DuckLakeError:
    """An error of Spark, raised while it looked at conditions and values, as one of ours."""
    missing = not_found_column(error)
    if missing is not None:
        return _missing(*missing, subject)
    if condition_of(error).startswith("FIELD_NOT_FOUND"):
        return _no_field(error, f" for {subject.what}")
    condition, place = condition_of(error), place_of(error)
    if condition.startswith("PARSE_") or type(error).__name__ == "ParseException":
        return _unreadable(error, subject, place)
    if condition == "AMBIGUOUS_REFERENCE":
        parameters: Mapping[str, str] = getattr(error, "getMessageParameters", dict)() or {}
        name = _plain_name(str(parameters.get("name", "")))
        sides = " or ".join(
            _plain_name(each) for each in str(parameters.get("referenceNames", "")).split(",")
        )
        return InvalidInputError(f'"{name}" is ambiguous in {subject.what}: write {sides}.')
    said = plain_message(error)
    if not said.endswith((".", "?", "!")):
        said += "."
    kind = _kind_of(error)
    return kind(f"{subject.what[0].upper()}{subject.what[1:]} failed: {said}")


def _kind_of(error: Any) -> type[DuckLakeError]:
    from pyspark.errors import PySparkException

    condition = condition_of(error)
    if condition == "USER_RAISED_EXCEPTION":
        return ConstraintError
    return InvalidInputError if condition or isinstance(error, PySparkException) else DuckLakeError


def cause_of(error: BaseException) -> BaseException | None:
    """What a translated error is raised from: the original where it says more, as of a user's own Python function."""
    return error if type(error).__name__ == "PythonException" else None


def _missing(name: str, near: Sequence[str], subject: Subject) -> DuckLakeError:
    if "." not in name and not did_you_mean(name, [*subject.columns, *near]):
        for column, value in subject.values.items():
            if isinstance(value, str) and _may_be_text(value, name):
                return _no_literal(column, value, subject)
    known = near if "." in name or not subject.columns else [*subject.columns, *near]
    shown = name if not name.startswith(_HIDDEN) else "a hidden column"
    named = f'column "{shown}"' if shown == name else shown
    return NotFoundError(f"There is no {named} for {subject.what}.{did_you_mean(name, known)}")


def _may_be_text(value: str, name: str) -> bool:
    """Whether a value looks like a text without quotes that begins with this name."""
    begins = re.match(rf"{re.escape(name)}\b", value.strip(), re.IGNORECASE)
    return begins is not None and re.fullmatch(r"[\w\s.,;:!?'\"@/-]+", value) is not None


def _no_literal(column: str, value: str, subject: Subject) -> InvalidInputError:
    given = shortened(value, 60)
    quoted = given.replace("'", "\\'")
    return InvalidInputError(
        f'The value for column "{column}" in {subject.what} is SQL, and {given} is no column and no literal. '
        f'For a text write "\'{quoted}\'" or F.lit("{given}").'
    )


def _unreadable(error: Any, subject: Subject, place: tuple[int, int] | None) -> InvalidInputError:
    read = re.search(r"== SQL[^=]*==\n(.*?)\n-*\^\^\^", str(error), re.DOTALL)
    text = read[1] if read else ""
    for column, value in subject.values.items():
        if isinstance(value, str) and value == text:
            return _no_literal(column, value, subject)
    where = f" (line {place[0]}, column {place[1]})" if place else ""
    said = plain_message(error, 120).rstrip(".")
    shown = f" in: {shortened(text, 80)}" if text.strip() else ""
    return InvalidInputError(
        f"Cannot read the SQL of {subject.what}: {said[:1].lower()}{said[1:]}{where}{shown}"
    )


def speaking_for(subject: Callable[..., Subject]) -> Callable[[Function], Function]:
    """Makes a method silent, and lets it raise Spark's errors as errors of ours.

    Args:
        subject: Called with the method's own arguments, only when there is an error.
    """

    def decorate(method: Function) -> Function:
        @functools.wraps(method)
        def run(*args: Any, **kwargs: Any) -> Any:
            with quiet():
                try:
                    return method(*args, **kwargs)
                except Exception as error:
                    if not is_of_spark(error):
                        raise
                    raise explained(error, subject(*args, **kwargs)) from cause_of(error)

        return run  # type: ignore[return-value]  # it takes and gives what the method does

    return decorate


def user_error(error: Any, longest: int = _LONGEST) -> DuckLakeError:
    """An error of Spark in a statement whose text is shown beside it."""
    missing = not_found_column(error)
    if missing is not None:
        name, near = missing
        return NotFoundError(f'There is no column "{name}".{did_you_mean(name, near)}')
    if condition_of(error).startswith("FIELD_NOT_FOUND"):
        return _no_field(error)
    return _kind_of(error)(plain_message(error, longest))


# --- Errors that come out of Spark at an action. --------------------------------------------------------------------

_folders: OrderedDict[str, str] = OrderedDict()
_folders_lock = threading.Lock()


def remember_files(paths: Iterable[str], title: str) -> None:
    """Remembers of which table files are that Spark is about to read, by their folders."""
    folders = {_plain_path(path).rpartition("/")[0] for path in paths}
    with _folders_lock:
        for folder in folders:
            _folders[folder] = title
            _folders.move_to_end(folder)
        while len(_folders) > _KEPT_FOLDERS:
            _folders.popitem(last=False)


def _plain_path(path: str) -> str:
    return re.sub(r"^file:/+", "/", path)


_missing_catalogs: dict[str, str] = {}
"""Lakes that could not become catalogs of a session, by name, and why."""
_NO_CATALOG = ("REQUIRES_SINGLE_PART_NAMESPACE", "NESTED_DATABASE", "NOT_FOUND", "find a catalog")


def say_missing(catalog: str, reason: str | None) -> None:
    """Remembers why a lake is no catalog of its session, for the error of whoever uses it there; None forgets it."""
    if reason is None:
        _missing_catalogs.pop(catalog, None)
        return
    _missing_catalogs[catalog] = reason
    install()
    _install_connect()


def missing_catalog(text: str) -> NativeUnavailableError | None:
    """What is wrong with a statement of Spark's that names a lake which is no catalog."""
    if not any(each in text for each in _NO_CATALOG):
        return None
    for name, reason in _missing_catalogs.items():
        if re.search(rf"`?\b{re.escape(name)}\b`?\.", text):
            return NativeUnavailableError(
                f'The session\'s own SQL does not know the lake "{name}": {reason} Use lake.sql() and lake.table().'
            )
    return None


catalogs: set[str] = set()
"""Lakes that are catalogs of a session."""
_NO_PARTS = re.compile(r"INVALID_TABLE_VALUED_FUNC_NAME\].*?database name: (`[^\n]*?`)\.(?: SQLSTATE|\s)")


def function_in_parts(text: str) -> InvalidInputError | None:
    """What is wrong with a function of a lake in FROM whose name the parser of an older Spark does not take."""
    found = _NO_PARTS.search(text)
    parts = found[1].strip("`").split("`.`") if found else []
    if not parts or parts[0] not in catalogs:
        return None
    return InvalidInputError(
        "The parser of this version of Spark takes no dots in the name of a function in FROM. Write the name in one: "
        f"FROM `{'.'.join(parts)}`(...); or use CALL {'.'.join(parts)}(...), or the lake's own method of this name."
    )


_OTHER_FORMAT = re.compile(
    r"input source\(\w+\) is different from the table (\S+)'s data source provider\(ducklake\)"
)


def stream_without_format(text: str) -> InvalidInputError | None:
    """What is wrong with a stream that is written into a table of a lake by its name alone."""
    found = _OTHER_FORMAT.search(text)
    return found and InvalidInputError(
        'A stream into a table of a lake names its format: writeStream.format("ducklake"), then '
        f'toTable("{found[1]}").'
    )


def _install_connect() -> None:
    """The same for Spark Connect, where PySpark makes exceptions of the server's answers."""
    import sys

    core: Any = sys.modules.get("pyspark.sql.connect.client.core")
    plain = getattr(core, "convert_exception", None)
    if plain is None or getattr(plain, "is_of_ducklake", False):
        return

    @functools.wraps(plain)
    def convert_exception(*args: Any, **kwargs: Any) -> Any:
        made = plain(*args, **kwargs)
        return missing_catalog(str(made)) or made

    convert_exception.is_of_ducklake = True  # type: ignore[attr-defined]  # a mark
    core.convert_exception = convert_exception


def install() -> None:
    """Lets PySpark raise errors of ours as they are where it makes Python's exceptions of Java's.

    PySpark puts its own function in front of Py4J's again and again, so ours stands where that one looks for the
    Python exception to raise. What is no error of a lake is left to PySpark.
    """
    from pyspark.errors.exceptions import captured

    plain: Any = captured.convert_exception
    if getattr(plain, "is_of_ducklake", False):
        return
    inside = threading.local()

    @functools.wraps(plain)
    def convert_exception(e: Any) -> Any:
        if getattr(inside, "busy", False):  # it converts the causes of an exception as well
            return plain(e)
        inside.busy = True
        try:
            return _of_lake(e) or plain(e)
        finally:
            inside.busy = False

    convert_exception.is_of_ducklake = True  # type: ignore[attr-defined]  # a mark
    captured.convert_exception = convert_exception


def _of_lake(java_exception: Any) -> DuckLakeError | None:
    from pyspark import SparkContext

    try:
        jvm: Any = SparkContext._jvm
        text = str(jvm.org.apache.spark.util.Utils.exceptionString(java_exception))
    except Exception:  # PySpark makes what it can of it
        return None
    return (
        from_text(text)
        or unreadable_file(text)
        or unreadable_by_worker(text)
        or missing_catalog(text)
        or function_in_parts(text)
        or stream_without_format(text)
    )


def unreadable_file(text: str) -> FileError | None:
    """A failure to read a file that is one of a lake's, out of what Spark says of it."""
    found = re.search(r"FAILED_READ_FILE\S*\] .*?reading file (\S+?)\.(?=\s)", text, re.DOTALL)
    if found is None:
        return None
    path = unquote(_plain_path(found[1]))
    with _folders_lock:
        title = _folders.get(path.rpartition("/")[0])
    if title is None:
        return None
    if "FILE_NOT_EXIST" in text or "FileNotFoundException" in text or "NoSuchFileException" in text:
        return file_gone(title, path)
    causes = re.findall(r"^Caused by: ([\w.$]+: .+)$", text, re.MULTILINE)
    reason = f": {shortened(causes[-1].partition(': ')[2], 150)}" if causes else ""
    advice = _advice("\n".join(causes))
    return FileError(f"A file of {title} cannot be read: {path}{reason.rstrip('.')}. {advice}")


_REFUSED = re.compile(
    r"AccessDenied|AccessControlException|CredentialInitialization|NoAuthWithAWS|InvalidAccessKeyId|SignatureDoesNotMatch"
    r"|Status ?Code[:=] ?40[13]\b|, 40[13],|\b40[13] (?:Forbidden|Unauthorized)|Permission denied|Forbidden"
)
_BUSY = re.compile(
    r"Throttl|SlowDown|TooManyRequests|ServerBusy|Status ?Code[:=] ?(?:429|5\d\d)\b|, (?:429|50[0-9]),"
    r"|Time(?:d )?out|ConnectException|ConnectionClosed|UnknownHost|SocketException|NoHttpResponse|EndpointConnection"
)


def _advice(causes: str) -> str:
    """What to do of a file that cannot be read: a store that does not hand it out may well have it."""
    if _REFUSED.search(causes):
        return (
            "The store refused it, which says nothing of the file: see that Spark's credentials may read there "
            "(docs/storage.md)."
        )
    if _BUSY.search(causes):
        return "The store did not answer, which says nothing of the file: run the query again later."
    return "Restore it."


def file_gone(title: str, path: str) -> FileError:
    """A data file that is not there."""
    return FileError(
        f"A file of {title} is gone: {path}. Something other than the lake removed it; restore it, or read a "
        "snapshot that does not need it."
    )


def unreadable_by_worker(text: str) -> DuckLakeError | None:
    """A file of a scan that a worker could not read; jobs that write files say by themselves what became of them."""
    failure = task_failure(text)
    if failure is None:
        return None
    path = str(failure.get("value"))
    with _folders_lock:
        title = _folders.get(path.rpartition("/")[0])
    return None if title is None else crypto_error(failure, title)


def crypto_error(failure: Mapping[str, Any], title: str) -> DuckLakeError | None:
    """What a worker found wrong with the key of a file, or with its DuckDB; None for another failure.

    Args:
        failure: What `task_failure` found.
        title: The table.
    """
    path, reason = failure.get("value"), failure.get("reason")
    if reason == MISSING:
        return file_gone(title, str(path))
    if reason == NO_CRYPTO:
        return WorkerError(
            f"{title} is in an encrypted lake, and DuckDB writes encrypted files only with its extension httpfs, which "
            f"brings OpenSSL and which the DuckDB {path} of Spark's workers does not have. Nothing was written: "
            "install ducklake-spark[encryption] there, which takes a DuckDB 1.5 for which PyPI has the extension, or "
            "run INSTALL httpfs there once."
        )
    if reason == WRONG_KEY:
        return FileError(
            f"{title} has a file that the key in the catalog does not decrypt: {path}. Restore the file, or the "
            "catalog's ducklake_data_file and ducklake_delete_file, from a backup."
        )
    if reason == NOT_ENCRYPTED:
        return FileError(
            f"{title} has a file that is not encrypted, though the catalog has a key of it: {path}. Restore the file."
        )
    return None


def task_failure(text: str) -> dict[str, Any] | None:
    """What a worker said of a value or a file, out of what Spark says of the worker."""
    at = text.find(FAILURE_MARK)
    if at < 0:
        return None
    decoder = json.JSONDecoder()
    try:
        found, _ = decoder.raw_decode(text[at + len(FAILURE_MARK) :])
    except ValueError:
        return None
    return dict(found)
