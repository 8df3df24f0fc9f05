"""Starts Spark for the command line, with a word in a terminal: it takes seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ducklake_spark.spark import interrupts
from ducklake_spark.spark.session import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(settings: Mapping[str, str]) -> SparkSession:
    """The session in which statements run: the active one, or a new one.

    Raises:
        SparkUnavailableError: Spark cannot be started.
    """
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession() or start(settings, _waiting())
    interrupts.install()
    return found


@contextmanager
def _waiting() -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with os.fdopen(os.dup(2), "w") as terminal, Console(file=terminal).status("Starting Spark"):
        yield
