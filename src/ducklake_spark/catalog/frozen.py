"""A frozen lake: a catalog in a DuckDB file on read-only storage, of which this process reads a copy of its own."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ducklake_spark.errors import CatalogError

_FROZEN = re.compile(
    r"ducklake:(?:duckdb:)?((?:https?|s3[an]?|gs|gcs|abfss?|hdfs|viewfs)://\S+)\Z", re.IGNORECASE
)
_TIMEOUT = 60


def frozen_url(uri: str) -> str | None:
    """The URL of a catalog file that is not on this machine; None for any other attach string.

    >>> frozen_url("ducklake:https://example.org/sales.ducklake"), frozen_url("ducklake:sales.ducklake")
    ('https://example.org/sales.ducklake', None)
    """
    found = _FROZEN.match(uri)
    return found[1] if found else None


@dataclass(frozen=True)
class FrozenCatalog:
    """A copy of a catalog file."""

    path: str

    def remove(self) -> None:
        """Removes the copy."""
        shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)


def fetched(url: str, fetch: Callable[[str, str], None]) -> FrozenCatalog:
    """Copies a catalog file into a folder that only this user can open.

    Args:
        url: Where it is. What stands behind a `?` may be a signature: no error shows it.
        fetch: Copies a file of an object store to a path of this machine.

    Raises:
        CatalogError: It cannot be had.
    """
    shown = url.partition("?")[0]
    name = unquote(urlsplit(url).path).rpartition("/")[2] or "lake.ducklake"
    folder = tempfile.mkdtemp(prefix="ducklake-spark-")
    path = os.path.join(folder, name)
    try:
        with _told(shown):
            if url.lower().startswith(("http:", "https:")):
                with urllib.request.urlopen(url, timeout=_TIMEOUT) as source, open(path, "wb") as target:
                    shutil.copyfileobj(source, target)
            else:
                fetch(url, path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return FrozenCatalog(path)


@contextmanager
def _told(shown: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise CatalogError(f"There is no catalog at {shown}.") from None
    except urllib.error.HTTPError as error:
        raise CatalogError(
            f"The catalog at {shown} cannot be fetched: {error.code} {error.reason}."
        ) from None
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or "the connection failed"
        raise CatalogError(f"The catalog at {shown} cannot be fetched: {reason}.") from None
