"""A statement that lost against another writer is run again on the newest snapshot: how often, and in which turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from threading import Lock
from typing import Any, TypeVar

from ducklake_spark.catalog.store import Failure
from ducklake_spark.catalog.transaction import RetryPolicy
from ducklake_spark.errors import ConflictError

T = TypeVar("T")

_FREE_ATTEMPTS = 3
"""A statement that lost so often takes the turn: other statements of this process wait for it before they begin."""
_PATIENCE_SECONDS = 5.0
"""How long a statement waits for another's turn; bounded, since the other one may itself wait for this thread."""
_turns: dict[str, Lock] = {}


class CommitConflict(Exception):
    """The commit of a statement met a conflict: what the statement did was undone, and it can be run again."""

    def __init__(self, conflict: ConflictError) -> None:
        super().__init__(str(conflict))
        self.conflict = conflict


def until_committed(attempt: Callable[[], T], lake: str, retries: int, policy: RetryPolicy) -> T:
    """Runs a statement until its commit meets no conflict.

    Short statements would win against a long one every time: a statement that lost some times has the turn among those
    of this process. Between processes there is chance only.

    Args:
        attempt: Begins, runs and commits; raises `CommitConflict` when the commit lost.
        lake: What to call the lake in this process.
        retries: How often it is run again.
        policy: How long to wait in between.

    Raises:
        ConflictError: The last attempt's.
    """
    turn = _turns.setdefault(lake, Lock())
    if turn.acquire(timeout=_PATIENCE_SECONDS):
        turn.release()
    has_turn = False
    try:
        lost = 0
        while True:
            try:
                return attempt()
            except CommitConflict as failure:
                conflict = failure.conflict
            lost += 1
            if lost > retries:
                tried = f" It was run {lost} times (statement_retries)." if retries else ""
                raise ConflictError(f"{conflict}{tried}") from None
            policy.wait(lost - 1, Failure.COLLISION)
            if lost >= _FREE_ATTEMPTS and not has_turn:
                has_turn = turn.acquire(timeout=_PATIENCE_SECONDS)
    finally:
        if has_turn:
            turn.release()


def repeatable(values: Any) -> Any:
    """What a user gave, so that a second attempt finds it too: what can be gone through only once is kept.

    >>> repeatable(n * n for n in range(3)), repeatable("text")
    ([0, 1, 4], 'text')
    """
    if not isinstance(values, Iterable) or isinstance(values, Sized):
        return values
    if hasattr(values, "__arrow_c_stream__"):  # a reader of Arrow's batches
        import pyarrow

        return pyarrow.table(values)
    return list(values)
