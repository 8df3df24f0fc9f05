"""Whether files are as the catalog says, looked at when a scan lists them.

Spark trusts the list it is given: it says which file is gone, but not of which table, and of a file that grew it would
read the old length only. Files in object stores are not looked at: one request each is too dear.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ducklake_spark.errors import FileError
from ducklake_spark.spark.errors import file_gone
from ducklake_spark.storage import local_path

if TYPE_CHECKING:
    from ducklake_spark.spark.file_index import IndexedFile

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
