"""What a worker's Python has, said by the worker itself: with Python's own library, as nothing else may be there."""

from __future__ import annotations

import json
import platform
import sys

NEEDED = ("pyarrow", "pandas", "duckdb")


def probe() -> str:
    """The worker's Python and the versions of what it needs (None for what it lacks), as JSON."""
    found: dict[str, str | None] = {}
    for name in NEEDED:
        try:
            found[name] = str(__import__(name).__version__)
        except ImportError:
            found[name] = None
    return json.dumps({"executable": sys.executable, "python": platform.python_version(), "packages": found})
