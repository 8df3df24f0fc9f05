"""A DuckDB of the driver for one session: its settings and variables, and expressions that name no table."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import duckdb

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.duckdb_library import NO_THREADS
from ducklake_spark.format.objects import EPOCH
from ducklake_spark.format.types import quote, text_literal
from ducklake_spark.sql.execute.session import Session


def connection(session: Session) -> duckdb.DuckDBPyConnection:
    """The DuckDB of a session, in the time zone of Spark's session if there is one."""
    if session.duckdb is None:
        session.duckdb = duckdb.connect(":memory:", config=NO_THREADS)
        session.duckdb.execute("SET autoinstall_known_extensions = false")
    spark = scope_of(session.home).session
    if spark is not None:
        zone = spark.conf.get("spark.sql.session.timeZone")
        if zone != session.zone:
            session.duckdb.execute(f"SET TimeZone = {text_literal(str(zone))}")
            session.zone = zone
    found: duckdb.DuckDBPyConnection = session.duckdb
    return found


def rows(session: Session, sql: str, params: Any = None) -> list[tuple[Any, ...]]:
    """The rows of a statement that names no table of a lake.

    Raises:
        InvalidInputError: What DuckDB says against it.
    """
    try:
        found = (
            connection(session).execute(sql, params)
            if params is not None
            else connection(session).execute(sql)
        )
        return list(found.fetchall()) if found.description else []
    except duckdb.Error as error:
        raise InvalidInputError(str(error).split("\n\n")[0]) from None


def has_function(name: str) -> bool:
    """Whether DuckDB has a function that can be called."""
    sql = "SELECT count(*) FROM duckdb_functions() WHERE function_name = lower(?) AND function_type = 'table'"
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        row = connection.execute(sql, [name]).fetchone()
    return bool(row and row[0])


def described_rows(session: Session, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names of the columns and the rows of a statement."""
    found = rows(session, sql)
    return [str(column[0]) for column in connection(session).description or ()], found


def value(session: Session, expression: str) -> Any:
    """The value of an expression without columns; times have a zone.

    Raises:
        InvalidInputError: It has columns, or no value.
    """
    kind = str(rows(session, f"DESCRIBE SELECT {expression} AS v")[0][1])
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        zoned = f"({expression})" if kind != "TIMESTAMP_NS" else f"({expression})::TIMESTAMP"
        if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"):
            zoned = f"({expression})::TIMESTAMP::TIMESTAMPTZ"
        micros = rows(session, f"SELECT epoch_us({zoned})")[0][0]
        return None if micros is None else EPOCH + timedelta(microseconds=micros)
    return rows(session, f"SELECT {expression}")[0][0]


def set_setting(session: Session, name: str, given: Any) -> None:
    """SET and RESET of a setting of DuckDB.

    Raises:
        InvalidInputError: There is no such setting, or it does not take the value.
    """
    if given is None:
        rows(session, f"RESET {quote(name)}")
        session.settings.pop(name, None)
        return
    text = text_literal(given) if isinstance(given, str) else str(given).lower()
    rows(session, f"SET {quote(name)} = {text}")
    session.settings[name] = text


def variable_text(session: Session, name: str) -> str:
    """The value of a variable as an expression of DuckDB."""
    # Its text and its type together say any value.
    [(text, kind)] = rows(
        session, "SELECT CAST(getvariable(?) AS VARCHAR), typeof(getvariable(?))", [name, name]
    )
    if text is None or kind == '"NULL"':
        return "NULL" if kind == '"NULL"' else f"CAST(NULL AS {kind})"
    return f"CAST({text_literal(text)} AS {kind})"
