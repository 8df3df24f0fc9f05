"""Ctrl-C: stops Spark's jobs and reaches the user as one KeyboardInterrupt, and never in the middle of a commit."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

_PATIENCE = 5.0
"""Seconds that a cancellation may take before the user gets the terminal back all the same."""


@contextmanager
def held() -> Iterator[None]:
    """Ctrl-C waits until the end of the block: what has begun there is either done or not."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    pending: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pending.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pending:
            signal.raise_signal(signal.SIGINT)


def install() -> None:
    """Takes the place of PySpark's own handler, if that is what answers Ctrl-C now.

    PySpark's cancels the jobs by a call on the very connection whose answer it interrupts. That fails with a page of
    traces, and the jobs go on.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handler: Any = signal.getsignal(signal.SIGINT)
    if getattr(handler, "__module__", None) == "pyspark.core.context":
        signal.signal(signal.SIGINT, _cancel_and_raise)
    mute()


def mute() -> None:
    """Keeps back what Py4J logs of a call that Ctrl-C ended, and nothing else."""
    if not any(isinstance(each, _Quiet) for each in logging.root.filters):
        logging.root.addFilter(_Quiet())


def _cancel_and_raise(number: int, frame: FrameType | None) -> NoReturn:
    canceller = threading.Thread(target=_cancel, name="cancels Spark's jobs", daemon=True)
    canceller.start()
    canceller.join(_PATIENCE)
    if not logging.root.handlers and _is_in_py4j(frame):
        # Else Py4J's call of `logging.exception` would configure the user's logging.
        logging.root.addHandler(_PLACEHOLDER)
    raise KeyboardInterrupt


def _cancel() -> None:
    """In a thread of its own, which has a connection of its own."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        context.cancelAllJobs()


def _is_in_py4j(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == "py4j.java_gateway" and frame.f_code.co_name == "send_command":
            return True
        frame = frame.f_back
    return False


_PLACEHOLDER = logging.NullHandler()


class _Quiet(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg != "KeyboardInterrupt while sending command.":
            return True
        logging.root.removeHandler(_PLACEHOLDER)
        return False
