"""Values of DuckDB and of Spark in one form, so that rows of both can be compared."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

from pyspark.sql import Row


def plain(value: Any) -> Any:
    """Structs as dicts, lists as lists, numbers as floats, times without a zone in UTC."""
    if isinstance(value, Row):
        return {key: plain(part) for key, part in value.asDict().items()}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float, decimal.Decimal)):
        number = float(value)
        return "nan" if math.isnan(number) else number if math.isinf(number) else round(number, 9)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return bytes(value) if isinstance(value, (bytearray, bytes)) else value
