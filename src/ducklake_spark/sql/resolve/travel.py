"""Time travel in FROM: `VERSION AS OF`, `TIMESTAMP AS OF` and DuckLake's `AT (...)` -> a version or a time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlglot import exp

from ducklake_spark.engine.times import micros_of
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.sql.execute.constants import Constants


def moment(table: exp.Table, constants: Constants) -> tuple[int | None, int | None]:
    """The version, or the time in microseconds since 1970, at which a table is to be read; both None for now.

    Raises:
        InvalidInputError: The clause is not one of a lake, or its value is neither a version nor a time.
    """
    version, when = table.args.get("version"), table.args.get("when")
    if version is None and when is None:
        return None, None
    if version is not None and when is not None:
        raise InvalidInputError(f'The table "{table.name}" has two time-travel clauses: give one.')
    if version is not None:
        kind, value = str(version.this).upper(), version.expression
        known = version.args.get("kind") == "AS OF"
    else:
        assert when is not None
        kind, value = str(when.args.get("kind")).upper(), when.expression
        known = str(when.this).upper() == "AT"
    if not known or kind not in ("VERSION", "TIMESTAMP") or value is None:
        raise InvalidInputError(
            f'The table "{table.name}" has a time-travel clause that a lake does not know. Write VERSION AS OF 3, '
            "TIMESTAMP AS OF '2026-01-31 12:30:00', AT (VERSION => 3) or AT (TIMESTAMP => ...)."
        )
    if kind == "VERSION":
        return _version(constants.value(value, "the version"), table), None
    return None, _micros(value, constants)


def _version(value: Any, table: exp.Table) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.lstrip("-").isdigit():
        raise InvalidInputError(
            f'The version of table "{table.name}" must be the number of a snapshot, not {value!r}.'
        )
    return int(text)


def _micros(node: exp.Expr, constants: Constants) -> int:
    what = "the time"
    if isinstance(node, (exp.Placeholder, exp.Parameter)):
        value = constants.value(node, what)
        if isinstance(value, datetime):
            return micros_of(value, "timestamp")
        if not isinstance(value, str):
            raise InvalidInputError(f"{what} must be a timestamp or its text, not {value!r}.")
        node = exp.Literal.string(value)
    micros = constants.computed(node, "unix_micros(CAST({} AS TIMESTAMP))", what)
    if micros is None:
        raise InvalidInputError("The time to read at is NULL.")
    return int(micros)
