"""Values in the names of folders, `year=2024/region=eu/file.parquet`, by DuckDB's rules. Pure."""

from __future__ import annotations

import re
from urllib.parse import unquote

_NULLS = ("null", "__hive_default_partition__")
_SEPARATOR = re.compile(r"[/\\]")


def parse(path: str) -> dict[str, str]:
    """The keys in a path with their values as they stand there. Of a key that comes twice, the first counts.

    >>> parse("s3://b/year=2024/x=1=2/region=a%20b/year=7/k=v.parquet")
    {'year': '2024', 'region': 'a%20b'}
    """
    found: dict[str, str] = {}
    for folder in _SEPARATOR.split(path)[:-1]:
        key, is_given, value = folder.partition("=")
        if is_given and key and "=" not in value:
            found.setdefault(key, value)
    return found


def text_of(value: str, *, is_text: bool) -> str | None:
    """What a value means, before it is cast to its column's type: None for NULL.

    >>> text_of("a%20b", is_text=True), text_of("NULL", is_text=True), text_of("", is_text=False)
    ('a b', None, None)
    """
    if value.lower() in _NULLS or (not value and not is_text):
        return None
    return unquote(value)
