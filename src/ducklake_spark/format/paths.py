"""Where things are: folder names, and paths relative to the folder of their parent."""

from __future__ import annotations

import re

_HADOOP_S3 = re.compile(r"s3[an]://")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+\Z")


def folder(name: str, object_uuid: str) -> str:
    """The folder of a schema or table: its name if that is plain, else its uuid.

    >>> folder("t-1", "u"), folder("a b", "u")
    ('t-1/', 'u/')
    """
    return (name if _PLAIN.match(name) else object_uuid) + "/"


def normalize_data_path(path: str) -> str:
    """A data path as the catalog keeps it: separators `/`, exactly one at the end; S3 as DuckDB calls it.

    >>> normalize_data_path("x/y//"), normalize_data_path("s3a://bucket/x")
    ('x/y/', 's3://bucket/x/')
    """
    return as_in_duckdb(path).replace("\\", "/").rstrip("/") + "/"


def as_in_duckdb(path: str) -> str:
    """A path with DuckDB's scheme for S3, where Hadoop has another.

    >>> as_in_duckdb("s3a://bucket/x.parquet")
    's3://bucket/x.parquet'
    """
    return _HADOOP_S3.sub("s3://", path)


def join(parent: str, path: str | None, path_is_relative: bool) -> str:
    """A stored path made whole; without a path, the parent's own folder."""
    if path is None:
        return parent
    return parent + path if path_is_relative else path


def relative_to(parent: str, path: str) -> tuple[str, bool]:
    """How a whole path is stored below `parent`: the rest of it and True, or all of it and False."""
    return (path[len(parent) :], True) if path.startswith(parent) else (path, False)
