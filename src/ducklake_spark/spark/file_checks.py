"""Whether files are as the catalog says, looked at when a scan lists them.

Spark trusts the list it is given: it says which file is gone, but not of which table, and of a file that grew it would
read the old length only. Files in object stores are not looked at: one request each is too dear.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ducklake_spark.errors import FileError
from ducklake_spark.spark.errors import file_gone

if TYPE_CHECKING:
    from ducklake_spark.spark.file_index import IndexedFile

_LOCAL = "file:"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_ENDS_READ = 1000
"""Of more files than this only the sizes are looked at, not the ends as well."""


def whole_path(path: str) -> str:
    """A path as Hadoop takes it: with a scheme. A relative one is relative to the working directory, as in DuckDB.

    >>> whole_path("s3://bucket/a b.parquet"), whole_path("/tmp/x%20.parquet")
    ('s3://bucket/a b.parquet', 'file:/tmp/x%20.parquet')
    """
    return path if _SCHEME.match(path) else "file:" + os.path.abspath(path)


def local_path(path: str) -> str | None:
    """Where a file is on this machine; None if it is not.

    >>> local_path("file:///tmp/x"), local_path("s3://bucket/x")
    ('/tmp/x', None)
    """
    return "/" + path.removeprefix(_LOCAL).lstrip("/") if path.startswith(_LOCAL) else None


def require_whole(files: Sequence[IndexedFile], title: str) -> None:
    """Raises for the first file that is gone, has another size or does not end like a Parquet file.

    Args:
        files: What a scan is about to read.
        title: The table and the snapshot.

    Raises:
        FileError: Names the table, the file and the snapshot.
    """
    reads_ends = len(files) <= _ENDS_READ
    for file in files:
        path = local_path(file.path)
        if path is None:
            continue
        try:
            found = os.stat(path).st_size
            end = _end(path) if reads_ends and (found == file.size or not file.size) else b"PAR1"
        except FileNotFoundError:
            raise file_gone(title, path) from None
        except OSError as error:
            raise FileError(f"A file of {title} cannot be read: {path}: {error.strerror}.") from error
        if found != file.size and file.size:
            raise FileError(
                f"A file of {title} is damaged: {path} has {found} bytes, and the catalog says {file.size}. Restore it."
            )
        if end not in (b"PAR1", b"PARE"):
            raise FileError(
                f"A file of {title} is damaged: {path} does not end like a Parquet file. Restore it."
            )


def _end(path: str) -> bytes:
    with open(path, "rb") as file:
        file.seek(-4, os.SEEK_END)
        return file.read(4)
