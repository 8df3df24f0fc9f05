"""Points in time as users give them: a text or a datetime, without a zone UTC; and the lake as it was then."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Union

from ducklake_spark.catalog.snapshot import snapshot_at_time, snapshot_at_version
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.duckdb_sql import cast_text
from ducklake_spark.format.objects import EPOCH
from ducklake_spark.format.types import Scalar

Timestamp = Union[str, datetime]  # noqa: UP007 - a name for readers


_ENDLESS = {"infinity": 2**63 - 1, "-infinity": -(2**63) + 1}


def scope_at(scope: Scope, version: int | None, timestamp: Timestamp | None) -> Scope:
    """The scope of the same lake at a snapshot, by its version or by a time.

    Raises:
        SnapshotNotFoundError: There is no such snapshot.
    """
    if (version is None) == (timestamp is None):
        raise InvalidInputError("at() takes a version or a timestamp, and not both.")
    scope.require_open()
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise InvalidInputError(f"version takes a whole number, not {version!r}.")
    if version is not None:
        return scope.at(snapshot_at_version(scope.store, version))
    assert timestamp is not None
    return scope.at(snapshot_at_time(scope.store, micros_of(timestamp, "timestamp"), str(timestamp)))


def micros_of(timestamp: Timestamp, what: str) -> int:
    """A time as microseconds since 1970.

    >>> micros_of("1970-01-01 00:00:01.5", "timestamp")
    1500000

    Raises:
        InvalidInputError: Not a time.
    """
    if isinstance(timestamp, datetime):
        zoned = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=timezone.utc)
        return (zoned - EPOCH) // timedelta(microseconds=1)
    if not isinstance(timestamp, str):
        raise InvalidInputError(f"{what} takes a text or a datetime, not {timestamp!r}.")
    try:
        text = cast_text(timestamp, Scalar("timestamptz"), what)
    except InvalidInputError:
        raise InvalidInputError(
            f"{what} {timestamp!r} is not a time: write it like '2026-01-31 12:30:00' (UTC) or "
            "'2026-01-31 12:30:00+02'."
        ) from None
    if text in _ENDLESS:
        return _ENDLESS[text]
    try:
        return micros_of(datetime.fromisoformat(_padded(text)), what)
    except ValueError:
        raise InvalidInputError(
            f"{what} {timestamp!r} is out of range: give a year from 1 to 9999."
        ) from None


def _padded(text: str) -> str:
    """DuckDB's text in the form that Python 3.10 reads: six digits of fraction, a whole offset."""
    time = text.removesuffix("+00")
    whole, _, fraction = time.partition(".")
    return f"{whole}.{fraction:0<6}+00:00"
