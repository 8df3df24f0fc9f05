"""Starts Spark for the command line, without the lines that a JVM greets people with."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ducklake_spark.errors import DuckLakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(settings: Mapping[str, str]) -> SparkSession:
    """The session in which statements run: the active one, or a new one.

    Where it runs is for Spark's own settings to say (spark-defaults.conf, SPARK_REMOTE); without a word, it is local.

    Raises:
        DuckLakeError: Spark cannot be started.
    """
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    # PySpark logs an error of a query, with the whole stack, before it raises it.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    in_terminal = sys.stderr.isatty()
    builder = (
        SparkSession.builder.appName("ducklake-spark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "true" if in_terminal else "false")
        .config("spark.log.level", "ERROR")
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _waiting(in_terminal), _quiet() as heard:
        try:
            return builder.getOrCreate()
        except PySparkException as error:
            said = [line.strip() for line in heard() if "java" in line.lower()]
            reason = said[0] if said else str(error).splitlines()[0]
            raise DuckLakeError(
                f"Spark could not start ({reason}). It needs Java 17 or 21, found by JAVA_HOME or on the PATH."
            ) from error


@contextmanager
def _waiting(in_terminal: bool) -> Iterator[None]:
    """A word in a terminal: starting takes seconds."""
    if not in_terminal:
        yield
        return
    from rich.console import Console

    with os.fdopen(os.dup(2), "w") as terminal, Console(file=terminal).status("Starting Spark"):
        yield


@contextmanager
def _quiet() -> Iterator[Callable[[], list[str]]]:
    """Keeps back what the JVM says on standard error while it starts; what it says later is passed on.

    The JVM inherits a pipe as its standard error. A thread reads it as long as the JVM lives, so that progress bars
    and errors of later statements still reach the terminal.
    """
    reader, writer = os.pipe()
    real = os.dup(2)
    relay = _Relay(reader, real)
    os.dup2(writer, 2)
    os.close(writer)
    try:
        relay.start()
        yield relay.heard
    finally:
        os.dup2(real, 2)
        relay.is_open = True


class _Relay(threading.Thread):
    def __init__(self, reader: int, target: int) -> None:
        super().__init__(name="stderr of Spark", daemon=True)
        self._reader, self._target = reader, target
        self._kept = b""
        self.is_open = False

    def run(self) -> None:
        while True:
            data = os.read(self._reader, 65536)
            if not data:
                return
            if self.is_open:
                os.write(self._target, data)
            else:
                self._kept += data

    def heard(self) -> list[str]:
        """The lines that were kept back."""
        return self._kept.decode(errors="replace").splitlines()
