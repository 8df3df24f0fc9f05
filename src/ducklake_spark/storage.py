"""Questions about folders and files of a lake that are answered without Spark."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from ducklake_spark.errors import FileError


def local_path(path: str) -> str | None:
    """A path of this machine's own file systems, without a scheme; None for an object store.

    >>> local_path("/data/x/"), local_path("file:///data/x"), local_path("s3://bucket/x")
    ('/data/x/', '/data/x', None)
    """
    if path.lower().startswith("file:"):
        return unquote(urlsplit(path).path)
    return None if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path) else path


def require_writable(folder: str) -> None:
    """Finds out before the first insert whether files can be made in a folder, or it in its parent.

    Raises:
        FileError: They cannot.
    """
    local = local_path(folder)
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
