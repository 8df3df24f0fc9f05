"""Ctrl-C: stops Spark's jobs and reaches the user as one KeyboardInterrupt, and never in the middle of a commit.

PySpark's own handler cancels jobs by a call on the very connection whose answer it interrupts: that fails with a page
of traces, the jobs go on, and other threads lose their connections. Ours cancels in a thread of its own. The call that
waits then ends by itself, and its answer is replaced by a KeyboardInterrupt.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_waiting = threading.Event()
"""Set from Ctrl-C until the call that it interrupts has returned."""
_hooked = False


@contextmanager
def held() -> Iterator[None]:
    """Ctrl-C waits until the end of the block: what has begun there is either done or not."""
    before = signal.getsignal(signal.SIGINT)
    if not _is_main_thread() or before is None:
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


@contextmanager
def quiet() -> Iterator[None]:
    """For calls that cannot be cancelled: Ctrl-C ends them at once, without Py4J's traces."""
    before = signal.getsignal(signal.SIGINT)
    if not _is_main_thread() or before is not signal.default_int_handler:
        yield
        return
    was_pressed = False

    def handler(_: int, frame: FrameType | None) -> None:
        nonlocal was_pressed
        was_pressed = True
        _raise(frame)

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    except BaseException:
        if was_pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is handler:  # a new SparkContext brings its own
            signal.signal(signal.SIGINT, before)


def install() -> None:
    """Takes the place of PySpark's handler, if that is what answers Ctrl-C now."""
    global _hooked
    if not _is_main_thread():
        return
    current: Any = signal.getsignal(signal.SIGINT)
    if getattr(current, "__module__", None) != "pyspark.core.context":
        return
    if not _hooked:
        import py4j.java_gateway
        import py4j.protocol

        # PySpark takes the first for the sessions that are made later; the second is in use now.
        py4j.protocol.get_return_value = _unless_interrupted(py4j.protocol.get_return_value)
        py4j.java_gateway.get_return_value = _unless_interrupted(py4j.java_gateway.get_return_value)
        _hooked = True
    signal.signal(signal.SIGINT, _cancel_and_raise)


def _unless_interrupted(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_return_value(*args: Any, **named: Any) -> Any:
        if _waiting.is_set() and _is_main_thread():
            _waiting.clear()
            raise KeyboardInterrupt
        return original(*args, **named)

    return get_return_value


def _cancel_and_raise(_: int, frame: FrameType | None) -> None:
    threading.Thread(target=_cancel, name="cancels Spark's jobs", daemon=True).start()
    if _is_in_py4j(frame) and not _waiting.is_set():
        _waiting.set()  # who presses once more does not want to wait
        return
    _waiting.clear()
    _raise(frame)


def _cancel() -> None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        context.cancelAllJobs()


def _raise(frame: FrameType | None) -> None:
    if _is_in_py4j(frame):
        if not any(isinstance(each, _Quiet) for each in logging.root.filters):
            logging.root.addFilter(_Quiet())
        if not logging.root.handlers:
            # Else Py4J's call of `logging.exception` would configure the user's logging.
            logging.root.addHandler(_PLACEHOLDER)
    raise KeyboardInterrupt


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_in_py4j(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "send_command" and frame.f_globals.get("__name__") == "py4j.java_gateway":
            return True
        frame = frame.f_back
    return False


_PLACEHOLDER = logging.NullHandler()


class _Quiet(logging.Filter):
    """Drops the one line that Py4J logs, with all its traces, of a call that was interrupted."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg != "KeyboardInterrupt while sending command.":
            return True
        logging.root.removeHandler(_PLACEHOLDER)
        return False
