"""Paths of a lake on this machine, and whether files can be made there; without Spark."""

from __future__ import annotations

import os
import re

from ducklake_spark.errors import FileError

_LOCAL = "file:"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


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


def require_writable(folder: str) -> None:
    """Finds out before the first insert whether files can be made in a folder, or it in its parent.

    Raises:
        FileError: They cannot.
    """
    local = local_path(whole_path(folder))
    if local is None:
        return
    place = os.path.abspath(local)
    while not os.path.lexists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        reason = f'"{place}" is not a folder'
    elif not os.access(place, os.W_OK | os.X_OK):
        reason = f'this process may not write in "{place}"'
    else:
        return
    raise FileError(
        f'The data path "{folder}" cannot be used: {reason}. Change its permissions, give another data_path, or '
        "attach the lake with read_only=True."
    )
