"""Files wherever Spark can read them: listed, found by a pattern, looked at, deleted; in bulk and in parallel.

Files of this machine are reached by plain calls of the operating system, without a JVM. All others go through Hadoop's
file systems with the settings of the session. Paths come back as they were given, and listed ones begin with the
folder as it was given, so that they can be compared with those in a catalog.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from ducklake_spark.errors import DuckLakeError, FileError, shortened
from ducklake_spark.spark.object_stores import prepare
from ducklake_spark.spark.session import session_or_local
from ducklake_spark.storage import local_path, whole_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

B = TypeVar("B")

_THREADS = 16
_PAGES_AT_ONCE = 4
_BATCH = 4096
_LISTED = 10_000
"""How many files of a listing come out of the JVM at once."""
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class FileStatus:
    """A file as storage knows it; `modified` has a zone."""

    path: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class Deletion:
    """What became of files that were to be deleted.

    Attributes:
        deleted: Those that were there, and are gone now.
        missing: Those that were gone already.
        failed: The reason by path, for those that are still there.
    """

    deleted: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def list_files(spark: SparkSession | None, folder: str) -> Iterator[FileStatus]:
    """All files below a folder, at any depth and in no order; none if there is no such folder.

    On this machine links are neither followed nor listed, except that the folder itself may be one.

    Args:
        spark: The session for what is not on this machine; None for the active one or a new one.
        folder: A path or URL, with or without a `/` at the end.

    Raises:
        FileError: The folder cannot be read.
    """
    root = folder if folder.endswith("/") else folder + "/"
    local = local_path(whole_path(root))
    if local is None:
        yield from _Hadoop(spark, root).listed()
    else:
        yield from _listed(local, root)


def glob_files(spark: SparkSession | None, pattern: str) -> list[FileStatus]:
    """The files that a pattern means, sorted by path: `*`, `?` and `[...]` within a name, `**` for any folders.

    A path without these characters is that file, or nothing. A file whose name is the pattern itself is found too.

    Raises:
        FileError: A folder cannot be read.
    """
    if not _MAGIC.search(pattern):
        return list(statuses(spark, [pattern]).values())
    exact = list(statuses(spark, [pattern]).values())
    if exact:
        return exact
    matches = re.compile(_regex(pattern)).fullmatch
    root = pattern[: _MAGIC.search(pattern).start()]  # type: ignore[union-attr]  # was found above
    root = root[: root.rfind("/") + 1]
    local = local_path(whole_path(root or "."))
    if local is None:
        found = [status for status in list_files(spark, root) if matches(status.path)]
    else:
        paths = _globbed(local, root, pattern[len(root) :].split("/"))
        found = list(statuses(spark, paths).values())
    return sorted(found, key=lambda status: status.path)


def statuses(spark: SparkSession | None, paths: Iterable[str]) -> dict[str, FileStatus]:
    """Sizes and times by path, in the order given; what does not exist, or is a folder, is not among them.

    Raises:
        FileError: Storage does not say.
    """
    found = _each(spark, paths, _status, lambda hadoop: hadoop.status)
    return {status.path: status for status in found if status is not None}


def delete_files(spark: SparkSession | None, paths: Iterable[str]) -> list[str]:
    """Deletes files. What is not there is no error.

    Returns:
        Those that were there, and are gone now.

    Raises:
        FileError: Some could not be deleted; all others are.
    """
    result = delete_each(spark, paths)
    if result.failed:
        path, reason = next(iter(result.failed.items()))
        others = f", nor {len(result.failed) - 1} others" if len(result.failed) > 1 else ""
        raise FileError(f"{path} cannot be deleted{others}: {shortened(reason)}.")
    return result.deleted


def delete_each(spark: SparkSession | None, paths: Iterable[str]) -> Deletion:
    """Deletes files, and says what became of each. A link is deleted, not what it leads to; a folder never is."""
    result = Deletion()
    remaining = iter(paths)
    while batch := list(islice(remaining, _BATCH)):
        one_by_one = _delete_in_bulk(spark, batch, result)
        _sort_in(result, _each(spark, one_by_one, _delete, lambda hadoop: hadoop.delete))
    return result


def _sort_in(result: Deletion, outcomes: Iterable[tuple[str, bool | str]]) -> None:
    for path, outcome in outcomes:
        if outcome is True:
            result.deleted.append(path)
        elif outcome is False:
            result.missing.append(path)
        else:
            result.failed[path] = outcome


def _delete_in_bulk(spark: SparkSession | None, paths: Sequence[str], result: Deletion) -> list[str]:
    """Deletes those whose store takes many at a time. The others are left to be deleted one by one."""
    stored: dict[str, list[str]] = {}
    left = []
    for path in paths:
        if local_path(whole_path(path)) is None:
            stored.setdefault(_authority(path), []).append(path)
        else:
            left.append(path)
    for some in stored.values():
        hadoop = _Hadoop(spark, some[0])
        if len(some) == 1 or not hadoop.deletes_in_bulk():
            left += some
            continue
        known = statuses(spark, some)
        # What has no status is a folder, or is gone: a look at each tells which.
        left += [path for path in some if path not in known]
        _sort_in(result, hadoop.delete_all(list(known)))
    return left


def first_bytes(spark: SparkSession | None, path: str, count: int) -> bytes | None:
    """How a file begins; None if there is no such file.

    Raises:
        FileError: It cannot be read.
    """
    local = local_path(whole_path(path))
    if local is None:
        return _Hadoop(spark, path).first_bytes(path, count)
    try:
        with open(local, "rb") as file:
            return file.read(count)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from error


def last_bytes(spark: SparkSession | None, counts: Mapping[FileStatus, int]) -> dict[str, bytes]:
    """How files end, by path: so many bytes of each.

    Raises:
        FileError: One of them cannot be read.
    """
    known = {status.path: (status, count) for status, count in counts.items()}

    def here(path: str, local: str) -> bytes:
        status, count = known[path]
        try:
            with open(local, "rb") as file:
                file.seek(max(0, status.size - count))
                return file.read(count)
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror}.") from error

    def there(hadoop: _Hadoop) -> Callable[[str], bytes]:
        return lambda path: hadoop.last_bytes(*known[path])

    return dict(zip(known, _each(spark, list(known), here, there), strict=True))


def _each(
    spark: SparkSession | None,
    paths: Iterable[str],
    here: Callable[[str, str], B],
    there: Callable[[_Hadoop], Callable[[str], B]],
) -> Iterator[B]:
    """Does one thing with each file, many at a time; the answers in order."""
    hadoop: dict[str, _Hadoop] = {}

    def one(path: str) -> B:
        local = local_path(whole_path(path))
        return here(path, local) if local is not None else there(hadoop[_authority(path)])(path)

    remaining = iter(paths)
    with ThreadPoolExecutor(_THREADS, "files") as pool:
        while batch := list(islice(remaining, _BATCH)):
            for path in batch:
                if local_path(whole_path(path)) is None and _authority(path) not in hadoop:
                    hadoop[_authority(path)] = _Hadoop(spark, path)
            yield from pool.map(one, batch)


def _authority(path: str) -> str:
    """Scheme and host of a URL: what has a file system of its own."""
    return "/".join(path.split("/", 3)[:3])


# This machine.


def _status_of(path: str, found: os.stat_result) -> FileStatus:
    return FileStatus(path, found.st_size, datetime.fromtimestamp(found.st_mtime, timezone.utc))


def _status(path: str, local: str) -> FileStatus | None:
    try:
        found = os.stat(local)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileError(f"{path} cannot be looked at: {error.strerror}.") from error
    return None if stat.S_ISDIR(found.st_mode) else _status_of(path, found)


def _delete(path: str, local: str) -> tuple[str, bool | str]:
    try:
        os.unlink(local)
    except (FileNotFoundError, NotADirectoryError):
        return path, False
    except OSError as error:
        return path, str(error.strerror)
    return path, True


def _listed(local: str, root: str) -> Iterator[FileStatus]:
    def scan(folder: str) -> tuple[list[FileStatus], list[str]]:
        files, folders = [], []
        try:
            with os.scandir(os.path.join(local, folder)) as entries:
                for entry in entries:
                    inner = folder + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(inner + "/")
                    elif entry.is_file(follow_symlinks=False):
                        files.append(_status_of(root + inner, entry.stat(follow_symlinks=False)))
        except FileNotFoundError:  # removed meanwhile
            pass
        except OSError as error:
            raise FileError(f"The folder {root}{folder} cannot be read: {error.strerror}.") from error
        return files, folders

    level = [""]
    with ThreadPoolExecutor(_THREADS, "files") as pool:
        while level:
            deeper: list[str] = []
            for files, folders in pool.map(scan, level):
                yield from files
                deeper += folders
            level = deeper


def _globbed(local: str, folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Paths that match a pattern's parts, one folder after the other, so that no others are opened."""
    first, *rest = parts
    if not rest and first != "**":
        yield from (folder + name for name in _names(local, first))
        return
    if first == "**":
        yield from _globbed(local, folder, rest or ["*"])
        for name in _names(local, "*"):
            deeper = os.path.join(local, name)
            if os.path.isdir(deeper) and not os.path.islink(deeper):
                yield from _globbed(deeper, f"{folder}{name}/", parts)
        return
    for name in _names(local, first):
        deeper = os.path.join(local, name)
        if os.path.isdir(deeper):
            yield from _globbed(deeper, f"{folder}{name}/", rest)


def _names(local: str, pattern: str) -> list[str]:
    if not _MAGIC.search(pattern):
        return [pattern] if os.path.lexists(os.path.join(local, pattern)) else []
    matches = re.compile(_regex(pattern)).fullmatch
    try:
        return sorted(name for name in os.listdir(local) if matches(name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise FileError(f"The folder {local} cannot be read: {error.strerror}.") from error


def _regex(pattern: str) -> str:
    """A pattern as a regular expression.

    >>> _regex("s3://b/**/x[!a-c]?.parquet")
    's3://b/(?:.*/)?x[^a-c][^/]\\\\.parquet'
    """
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|\[[!^]?[^\]/][^\]/]*\]|.", pattern, re.DOTALL)
    return "".join(map(_token, tokens))


def _token(token: str) -> str:
    fixed = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in fixed:
        return fixed[token]
    if len(token) > 1:  # a class of characters
        negated = token[1] in "!^"
        inner = re.sub(r"([\\\[&~|^])", r"\\\1", token[1 + negated : -1])
        return f"[{'^' * negated}{inner}]"
    return re.escape(token)


# Hadoop.


class _Hadoop:
    """The file system of a path, with the settings of the session. Safe in several threads."""

    def __init__(self, spark: SparkSession | None, path: str) -> None:
        from py4j.protocol import Py4JJavaError

        session = session_or_local(spark)
        if not hasattr(session, "_jsparkSession"):
            raise DuckLakeError(
                f"Files in {_authority(path)} cannot be listed or deleted through Spark Connect: use a classic session."
            )
        jvm: Any = session.sparkContext._jvm
        self._jvm, self._new_path = jvm, jvm.org.apache.hadoop.fs.Path
        self._given = path
        self._errors = Py4JJavaError
        prepare(session, path)
        try:
            self._path = self._new_path(path)
            self._system = self._path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        except Py4JJavaError as error:
            raise FileError(f"{_authority(path)} cannot be reached: {_reason(error)}.") from error

    def status(self, path: str) -> FileStatus | None:
        try:
            found = self._system.getFileStatus(self._new_path(path))
            return (
                None if found.isDirectory() else _of_java(path, found.getLen(), found.getModificationTime())
            )
        except self._errors as error:
            if _is_missing(error):
                return None
            raise FileError(f"{path} cannot be looked at: {_reason(error)}.") from error

    def delete(self, path: str) -> tuple[str, bool | str]:
        try:
            place = self._new_path(path)
            # A stored object has no folder of its name; what is one must not be deleted, not even an empty one
            if self._system.getFileStatus(place).isDirectory():
                return path, "it is a folder"
            return path, bool(self._system.delete(place, False))
        except self._errors as error:
            return path, False if _is_missing(error) else _reason(error)

    def deletes_in_bulk(self) -> bool:
        """Whether the store takes more than one delete in a request."""
        from py4j.protocol import Py4JError

        try:
            self._bulk = self._system.createBulkDelete(self._new_path(_authority(self._given) + "/"))
            return int(self._bulk.pageSize()) > 1
        except Py4JError:  # Hadoop before 3.4.1 does not know it
            return False

    def delete_all(self, paths: Sequence[str]) -> Iterator[tuple[str, bool | str]]:
        """Deletes files that are there, as many in a request as the store takes."""
        size = int(self._bulk.pageSize())
        pages = [paths[start : start + size] for start in range(0, len(paths), size)]
        with ThreadPoolExecutor(_PAGES_AT_ONCE, "files") as pool:
            for page in pool.map(self._delete_page, pages):
                yield from page

    def _delete_page(self, paths: Sequence[str]) -> list[tuple[str, bool | str]]:
        places = self._jvm.java.util.ArrayList()
        for path in paths:
            places.add(self._new_path(path))
        try:
            failed = {
                str(entry.getKey().toString()): str(entry.getValue())
                for entry in self._bulk.bulkDelete(places)
            }
        except self._errors as error:
            return [(path, _reason(error)) for path in paths]
        return [
            (path, failed.get(str(place.toString()), True)) for path, place in zip(paths, places, strict=True)
        ]

    def first_bytes(self, path: str, count: int) -> bytes | None:
        try:
            stream = self._system.open(self._new_path(path))
            try:
                return bytes(stream.readNBytes(count))
            finally:
                stream.close()
        except self._errors as error:
            if _is_missing(error):
                return None
            raise FileError(f"{path} cannot be read: {_reason(error)}.") from error

    def last_bytes(self, status: FileStatus, count: int) -> bytes:
        try:
            stream = self._system.open(self._new_path(status.path))
            try:
                stream.seek(max(0, status.size - count))
                return bytes(stream.readNBytes(count))
            finally:
                stream.close()
        except self._errors as error:
            raise FileError(f"{status.path} cannot be read: {_reason(error)}.") from error

    def listed(self) -> Iterator[FileStatus]:
        """All files below the path."""
        try:
            prefix = self._system.makeQualified(self._path).toString().rstrip("/") + "/"
            found = self._jvm.org.apache.hadoop.util.functional.RemoteIterators.toList(
                self._system.listFiles(self._path, True)
            )
            columns = self._columns()
            for start in range(0, found.size(), _LISTED):
                part = found.subList(start, min(found.size(), start + _LISTED))
                for path, size, millis in zip(*(column(part) for column in columns), strict=True):
                    inner = self._given + path[len(prefix) :] if path.startswith(prefix) else path
                    yield _of_java(inner, size, millis)
        except self._errors as error:
            if not _is_missing(error):
                raise FileError(f"The folder {self._given} cannot be read: {_reason(error)}.") from error

    def _columns(self) -> list[Callable[[Any], list[Any]]]:
        """Paths, sizes and times of a list of statuses, each as one text: asking for each value is a round trip."""
        jvm = self._jvm
        class_of = jvm.java.lang.Class.forName
        status, text = class_of("org.apache.hadoop.fs.FileStatus"), class_of("java.lang.String")
        path, number = class_of("org.apache.hadoop.fs.Path"), jvm.java.lang.Long.TYPE
        function = class_of("java.util.function.Function")
        lookup = jvm.java.lang.invoke.MethodHandles.publicLookup()
        mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()

        def method(owner: Any, name: str, kind: Any) -> Any:
            handle = lookup.findVirtual(owner, name, jvm.java.lang.invoke.MethodType.methodType(kind))
            return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(function, handle)

        def column(*methods: Any) -> Callable[[Any], list[Any]]:
            def values(found: Any) -> list[Any]:
                stream = found.stream()
                for each in methods:
                    stream = stream.map(each)
                whole: list[Any] = json.loads(mapper.writeValueAsString(stream.toArray()))
                return whole

            return values

        return [
            column(method(status, "getPath", path), method(path, "toString", text)),
            column(method(status, "getLen", number)),
            column(method(status, "getModificationTime", number)),
        ]


def _of_java(path: str, size: int, millis: int) -> FileStatus:
    return FileStatus(path, int(size), datetime.fromtimestamp(millis / 1000, timezone.utc))


def _is_missing(error: Any) -> bool:
    return str(error.java_exception.getClass().getName()) == "java.io.FileNotFoundException"


def _reason(error: Any) -> str:
    return shortened(
        str(error.java_exception.getMessage() or error.java_exception.toString()).rstrip("."), 160
    )
