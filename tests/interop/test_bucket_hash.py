"""The bucket hash of each type is the extension's, by value and by column."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_spark.format.bucket import bucket, murmur3
from ducklake_spark.format.types import parse_type
from ducklake_spark.workers.buckets import hash_bytes, register
from ducklake_spark.write.partitioning.buckets import bucket_sql

VALUES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false", "NULL"],
    "TINYINT": ["-128", "0", "34", "127"],
    "SMALLINT": ["-32768", "34"],
    "INTEGER": ["-2147483648", "34", "2147483647"],
    "BIGINT": ["-9223372036854775808", "34", "9223372036854775807", "NULL"],
    "UTINYINT": ["0", "34", "255"],
    "USMALLINT": ["65535"],
    "UINTEGER": ["4294967295"],
    "UBIGINT": ["34", "18446744073709551615"],
    "HUGEINT": ["34", "-170141183460469231731687303715884105727"],
    "UHUGEINT": ["34"],
    "FLOAT": ["1.1", "-0.0", "0.0", "'inf'", "'nan'", "1e-30"],
    "DOUBLE": ["1.0", "-0.0", "1.1", "'-inf'", "'nan'", "NULL"],
    "DECIMAL(4,2)": ["14.20", "-0.05", "0"],
    "DECIMAL(9,3)": ["-123456.789"],
    "DECIMAL(18,0)": ["123456789012345678"],
    "DECIMAL(18,18)": ["0.123456789012345678", "-0.000000000000000001"],
    "DECIMAL(20,2)": ["14.20", "-0.05", "0"],
    "DECIMAL(38,10)": ["1234567890123456789.5"],
    "DATE": ["'2017-11-16'", "'1400-02-28'", "'0044-03-15 (BC)'", "'9999-12-31'"],
    "TIME": ["'22:31:08'", "'00:00:00.000001'", "'24:00:00'"],
    "TIMETZ": ["'22:31:08+01'", "'00:00:00-15:30'", "'12:00:00.5+00'", "'01:02:03+05:45:10'"],
    "TIMESTAMP": ["'2017-11-16 22:31:08'", "'1969-12-31 23:59:59.999999'"],
    "TIMESTAMP_S": ["'2017-11-16 22:31:08'", "'1960-01-01'"],
    "TIMESTAMP_MS": ["'2017-11-16 22:31:08.5'", "'1960-01-01 00:00:00.001'"],
    "TIMESTAMP_NS": ["'2017-11-16 22:31:08.123456789'"],
    "TIMESTAMPTZ": ["'2017-11-16 22:31:08+01'", "'1960-01-01 00:00:00.5+00'"],
    "VARCHAR": ["'iceberg'", "''", "'é'", "'a'", "'ab'", "'abc'", "'abcd'", "repeat('xyz', 500)", "NULL"],
    "JSON": ["""'{"a": 1}'"""],
    "BLOB": [r"'\x00\x01\x02\x03'", r"'\xFF'", "''"],
    "UUID": ["'550e8400-e29b-41d4-a716-446655440000'"],
    "INTERVAL": ["'1 day'", "'14 months 3 days 04:05:06.5'"],
    "INTEGER[]": ["[1, 2]", "[]", "[NULL]"],
    "STRUCT(a INTEGER, b VARCHAR)": ["{'a': 1, 'b': 'x y'}"],
    "MAP(VARCHAR, INTEGER)": ["MAP {'a': 1}"],
}


@pytest.fixture(scope="module")
def connection() -> Any:
    found = duckdb.connect(config={"autoinstall_known_extensions": False})
    found.execute("SET TimeZone = 'UTC'")
    row = found.execute("PRAGMA version").fetchone()
    spec = importlib.util.find_spec("duckdb_extension_ducklake")
    assert row is not None and spec is not None and spec.origin is not None
    file = Path(spec.origin).parent / "extensions" / row[0] / "ducklake.duckdb_extension"
    found.execute(f"LOAD '{file}'")
    register(found)
    yield found
    found.close()


ASKED = {
    "DATE": "CAST(v - DATE '1970-01-01' AS BIGINT)",
    "TIME": "epoch_us(v)",
    "TIMESTAMP": "epoch_us(v)",
    "TIMESTAMP_S": "epoch_us(v)",
    "TIMESTAMP_MS": "epoch_us(v)",
    "TIMESTAMP_NS": "epoch_ns(v)",
    "TIMESTAMPTZ": "epoch_us(v)",
    "UUID": "CAST(v AS VARCHAR)",
}
"""How a value is given to `bucket`, where not as itself."""


@pytest.mark.parametrize("sql_type", VALUES)
def test_bucket_of_a_value_is_the_extensions(connection: Any, sql_type: str) -> None:
    rows = ", ".join(f"(CAST({value} AS {sql_type}))" for value in VALUES[sql_type] if value != "NULL")
    asked = ASKED.get(sql_type, "v")
    found = connection.execute(
        f"SELECT murmur3_32(v) & 2147483647, {asked} FROM (VALUES {rows}) t(v)"
    ).fetchall()
    for expected, value in found:
        ours = bucket(value, parse_type(sql_type), 1 << 31)
        assert ours is None or ours == expected


@pytest.mark.parametrize("sql_type", VALUES)
def test_buckets_of_a_column_are_the_extensions(connection: Any, sql_type: str) -> None:
    rows = ", ".join(f"(CAST({value} AS {sql_type}))" for value in [*VALUES[sql_type], "NULL"] * 3)
    ours = bucket_sql("v", parse_type(sql_type), 1000)
    found = connection.execute(
        f"SELECT (murmur3_32(v) & 2147483647) % 1000, {ours} FROM (VALUES {rows}) t(v)"
    ).fetchall()
    assert [ours for _, ours in found] == [theirs for theirs, _ in found]


@given(st.lists(st.binary(max_size=300), min_size=1))
def test_hashing_a_column_is_hashing_its_values(values: list[bytes]) -> None:
    assert hash_bytes(pa.array(values, type=pa.binary())).tolist() == [
        np.uint32(murmur3(value)).view(np.int32) for value in values
    ]
