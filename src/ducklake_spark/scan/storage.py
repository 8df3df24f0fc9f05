"""Whether files are as the catalog says, looked at when a scan lists them.

Spark trusts the list it is given: it says which file is gone, but not of which table, and of a file that grew it would
read the old length only. Files in object stores are not looked at: one request each is too dear.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ducklake_spark.errors import FileError

if TYPE_CHECKING:
    from ducklake_spark.scan.relation import IndexedFile

_LOCAL = "file:"
_ENDS_READ = 1000
"""Of more files than this only the sizes are looked at, not the ends as well."""


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
        if not file.path.startswith(_LOCAL):
            continue
        path = "/" + file.path.removeprefix(_LOCAL).lstrip("/")
        try:
            found = os.stat(path).st_size
            end = _end(path) if reads_ends and (found == file.size or not file.size) else b"PAR1"
        except FileNotFoundError:
            raise FileError(
                f"A file of {title} is gone: {path}. Something other than the lake removed it; restore it, or read a "
                "snapshot that does not need it."
            ) from None
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
