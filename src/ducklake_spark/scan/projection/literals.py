"""Initial defaults as Spark SQL literals: DuckDB's text of a value becomes what Spark's Parquet reader fills in."""

from __future__ import annotations

import functools
import struct
import threading
from typing import Any

import duckdb

from ducklake_spark.errors import DuckLakeError
from ducklake_spark.format.duckdb_library import NO_THREADS
from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.types import DataType, Decimal, Scalar, duckdb_name
from ducklake_spark.scan.projection.types import TypeChoices

_lock = threading.Lock()


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=NO_THREADS)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _value(sql: str, text: str, data_type: DataType) -> Any:
    """An expression over `v`, which is the text cast to the type."""
    with _lock:
        try:
            row = first_row(
                _connection().execute(
                    f"SELECT {sql} FROM (SELECT CAST(?::VARCHAR AS {duckdb_name(data_type)}) AS v)", [text]
                )
            )
        except duckdb.Error as error:
            raise DuckLakeError(
                f"The initial default {text!r} of a column is not a {duckdb_name(data_type)}: {error}"
            ) from error
    assert row is not None
    return row[0]


def is_filled_by_reader(data_type: DataType) -> bool:
    """Whether Spark's reader can fill a missing column with a default: not with bytes, nor with wide decimals."""
    match data_type:
        case Decimal(precision, _):
            return precision <= 18
        case _:
            return data_type.name not in ("uint64", "blob", "uuid", "interval")


@functools.lru_cache(maxsize=4096)
def spark_literal(text: str, data_type: DataType, choices: TypeChoices) -> str:
    """A Spark SQL expression without columns, in the type in which the column is read from files.

    >>> spark_literal("2020-02-02", Scalar("date"), TypeChoices())
    "CAST('2020-02-02' AS DATE)"
    """
    match data_type:
        case Decimal(precision, scale):
            return f"CAST('{_value('v::VARCHAR', text, data_type)}' AS DECIMAL({precision},{scale}))"
        case Scalar(name):
            return _scalar_literal(text, name, data_type, choices)
        case _:
            raise DuckLakeError(
                f"A column of type {duckdb_name(data_type)} has a default, which the format forbids."
            )


_INTEGERS = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "uint8": "SMALLINT",
    "uint16": "INT",
    "uint32": "BIGINT",
    "uint64": "DECIMAL(20,0)",
}


def _scalar_literal(text: str, name: str, data_type: DataType, choices: TypeChoices) -> str:
    if name in ("varchar", "json"):
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    if name == "boolean":
        return str(_value("v", text, data_type)).lower()
    if name in _INTEGERS:
        return f"CAST('{_value('v::VARCHAR', text, data_type)}' AS {_INTEGERS[name]})"
    if name in ("int128", "uint128", "float32", "float64"):
        shown = _value("v::VARCHAR", text, data_type)
        return f"CAST('{shown}' AS {'FLOAT' if name == 'float32' else 'DOUBLE'})"
    if name == "blob":
        return f"X'{_value('v', text, data_type).hex()}'"
    if name == "uuid":
        return f"X'{_value('v::VARCHAR', text, data_type).replace('-', '')}'"
    if name == "date":
        return f"CAST('{_spark_date(_value('v::VARCHAR', text, data_type))}' AS DATE)"
    if name in ("timestamp", "timestamp_s", "timestamp_ms"):
        return f"CAST('{_spark_date(_value('v::VARCHAR', text, data_type))}' AS TIMESTAMP_NTZ)"
    if name == "timestamptz":
        return f"CAST('{_spark_date(_value('v::TIMESTAMP::VARCHAR', text, data_type))} UTC' AS TIMESTAMP)"
    if name == "timestamp_ns":
        return f"CAST('{_value('epoch_ns(v)', text, data_type)}' AS BIGINT)"
    if name in ("time", "timetz"):
        # Files keep the time in UTC.
        clock = "(v AT TIME ZONE 'UTC')::TIME" if name == "timetz" else "v"
        if choices.time:
            return f"CAST('{_value(f'({clock})::VARCHAR', text, data_type)}' AS TIME(6))"
        micros = _value(f"epoch_us({clock})", text, data_type)
        return f"CAST('{micros}' AS BIGINT)"
    if name == "interval":
        months = _value("datepart('year', v) * 12 + datepart('month', v)", text, data_type)
        days = _value("datepart('day', v)", text, data_type)
        clock = "datepart('hour', v) * 3600000 + datepart('minute', v) * 60000 + datepart('millisecond', v)"
        return f"X'{struct.pack('<iii', months, days, _value(clock, text, data_type)).hex()}'"
    raise DuckLakeError(f"An initial default of type {name} cannot be read.")


def _spark_date(text: str) -> str:
    """DuckDB's `0044-03-15 (BC)` and `12345-01-01` as Spark reads them."""
    if text == "infinity" or text == "-infinity":
        raise DuckLakeError(f"An initial default of {text} cannot be read.")
    if text.endswith(" (BC)"):
        year, rest = text.removesuffix(" (BC)").split("-", 1)
        return f"-{int(year) - 1:04d}-{rest}"
    year = text.split("-", 1)[0]
    return "+" + text if len(year) > 4 else text
