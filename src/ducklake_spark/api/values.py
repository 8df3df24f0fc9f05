"""Values of rows as texts for people, CSV and JSON. Knows plain Python values, and neither lakes nor Spark."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any


class Json(str):
    """A text that is JSON already."""


class Pairs(tuple[tuple[Any, Any], ...]):
    """A map whose keys need not be texts."""


def plain_text(value: Any) -> str:
    """A value in a table or in CSV; nested ones as JSON.

    >>> plain_text(None), plain_text(True), plain_text([1, None]), plain_text(b"\\x00a")
    ('', 'true', '[1, null]', '\\\\x0061')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return "\\x" + value.hex()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, (int, float)):
        return str(value)
    return json_text(value)


def json_text(value: Any) -> str:
    """A value as JSON. Decimals keep all digits; numbers that JSON does not have are texts.

    >>> json_text({"a": [1, float("nan"), None], "b": Pairs([(1, "x")])})
    '{"a": [1, "NaN", null], "b": {"1": "x"}}'
    """
    if value is None:
        return "null"
    if isinstance(value, Json):
        return value
    if isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else json.dumps(_UNUSUAL[str(value)])
    if isinstance(value, Mapping):
        return json_object(value.items())
    if isinstance(value, Pairs):
        return json_object((plain_text(key), item) for key, item in value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(plain_text(value), ensure_ascii=False)


_UNUSUAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_object(items: Iterable[tuple[str, Any]]) -> str:
    """A JSON object; names may repeat."""
    return "{" + ", ".join(f"{json_text(key)}: {json_text(value)}" for key, value in items) + "}"
