"""How old something must be to be removed: what the arguments and the options of a lake say."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ducklake_spark.engine.scope import Scope
from ducklake_spark.engine.times import Timestamp, micros_of
from ducklake_spark.errors import InvalidInputError, TransactionError
from ducklake_spark.format.duckdb_sql import before

_DEFAULT_AGE = "2 days"


def flag(value: Any, name: str) -> bool:
    """A parameter that is true or false."""
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name} takes True or False, not {value!r}.")
    return value


def limit_micros(scope: Scope, option: str, default: str) -> int | None:
    """The time before which things are old by an option of the lake; None if it says nothing.

    Raises:
        InvalidInputError: The option holds something else than an interval.
    """
    text = scope.read_transaction().options.get(option)
    text = default if text is None else text
    if not text:
        return None
    try:
        return before(micros_of(datetime.now(timezone.utc), option), text)
    except InvalidInputError:
        raise InvalidInputError(
            f"The option {option} of the lake holds {text!r}, which is no interval: set it to one such as '7 days'."
        ) from None


def cleanup_limit(scope: Scope, job: str, older_than: Timestamp | None, cleanup_all: Any) -> int | None:
    """The time before which a file is old enough to be deleted; None when every file is.

    Raises:
        InvalidInputError: Both are given, or the option `delete_older_than` is empty and neither is.
    """
    everything = flag(cleanup_all, "cleanup_all")
    if everything and older_than is not None:
        raise InvalidInputError(f"{job} takes older_than or cleanup_all, not both.")
    if everything:
        return None
    limit = (
        micros_of(older_than, "older_than")
        if older_than is not None
        else limit_micros(scope, "delete_older_than", _DEFAULT_AGE)
    )
    if limit is None:
        raise InvalidInputError(
            f"{job} needs older_than or cleanup_all, because the option delete_older_than is empty. Give one of them, "
            "or set the option to an interval such as '2 days'."
        )
    return limit


def require_no_transaction(scope: Scope, job: str) -> None:
    """Raises TransactionError inside of a transaction: what a job removes cannot be brought back by a rollback."""
    if scope.transaction is not None:
        raise TransactionError(
            f"{job} cannot run inside of a transaction, because it cannot be rolled back. Commit first, then call it."
        )
