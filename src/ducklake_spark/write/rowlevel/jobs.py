"""Two Spark jobs of one statement that do not need each other's results."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar

from pyspark import InheritableThread
from pyspark.sql.utils import is_remote

First = TypeVar("First")
Second = TypeVar("Second")


def side_by_side(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Runs both at the same time. Both have ended when this returns or raises: nothing is written behind its back.

    >>> side_by_side(lambda: 1, lambda: 2)
    (1, 2)
    """
    done: list[First] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(first())
        except BaseException as error:
            failed.append(error)

    # It inherits what Spark knows of this thread: the job's group, description and pool. Connect has none of these.
    context = contextvars.copy_context()
    target = functools.partial(context.run, run)
    thread: Any = Thread(target=target) if is_remote() else InheritableThread(target=target)
    thread.start()
    try:
        result = second()
    finally:
        try:
            thread.join()
        except KeyboardInterrupt:  # its jobs were cancelled: it ends soon
            thread.join()
            raise
    if failed:
        raise failed[0]
    return done[0], result
