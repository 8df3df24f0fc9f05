"""The end of the process: Java's threads keep what they can call, and so lakes, beyond the end of Python's modules.

DuckDB 2 counts what is alive when its own module ends, and prints a page about it.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any

_OURS = "ducklake_spark."
_OF_PYSPARK = frozenset({"ForeachBatchFunction"})
"""Functions of users, whose variables may be lakes."""


def install() -> None:
    """What the process does when it ends; handlers of users that are registered later run before it."""
    atexit.register(_let_go)


def _let_go() -> None:
    """Takes the objects of ours out of what Py4J keeps for Java: Java ends with the process, and calls none again."""
    module = sys.modules.get("pyspark")
    gateway: Any = getattr(getattr(module, "SparkContext", None), "_gateway", None)
    if gateway is None:
        return
    pool = gateway.gateway_property.pool
    with pool.lock:
        for key, each in list(pool.dict.items()):
            kind = type(each)
            if kind.__module__.startswith(_OURS) or kind.__name__ in _OF_PYSPARK:
                del pool.dict[key]
