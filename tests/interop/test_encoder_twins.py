"""Both encoders leave what the extension leaves: files with the same statistics, and the same rows when read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.write.encoders import spark_encoder
from tests.interop import catalogs
from tests.interop.oracle import Oracle

pytestmark = pytest.mark.spark

IGNORED = {
    "ducklake_data_file": ["file_size_bytes", "footer_size"],
    "ducklake_table_stats": ["file_size_bytes"],
    "ducklake_file_column_stats": ["column_size_bytes"],
}

FLAT = (
    "a INT, b BIGINT, c VARCHAR, d DOUBLE, e DECIMAL(10,2), f DATE, g TIMESTAMP, h BOOLEAN, i BLOB, j TINYINT, k FLOAT, "
    "m TIMESTAMPTZ, o SMALLINT, p DECIMAL(4,1), q DECIMAL(30,3), s STRUCT(x BIGINT, y STRUCT(z VARCHAR, w DOUBLE))"
)
FLAT_ROWS = (
    "SELECT i::INT a, CASE WHEN i % 5 = 0 THEN NULL ELSE i * 1000000000 END::BIGINT b, CASE WHEN i % 3 = 0 THEN NULL ELSE 'é' || i END c, "
    "CASE WHEN i % 7 = 3 THEN 'nan'::DOUBLE ELSE i / 4 END d, (i * 1.25)::DECIMAL(10,2) e, DATE '1400-01-01' + (i * 10000)::INT f, "
    "TIMESTAMP '1400-01-01 00:00:00.5' + to_hours(i * 100000) g, i % 2 = 0 h, ('\\xFF\\x00' || i)::BLOB i, (i % 100)::TINYINT j, "
    "(CASE WHEN i % 2 = 0 THEN -i ELSE i END * 1e20)::FLOAT k, TIMESTAMPTZ '1960-01-01 00:00:00.000001+00' + to_days(i::INT) m, "
    "(-i)::SMALLINT o, (-i / 10)::DECIMAL(4,1) p, (i * 123456789012345.678)::DECIMAL(30,3) q, "
    "CASE WHEN i % 4 = 0 THEN NULL ELSE {{'x': i, 'y': CASE WHEN i % 4 = 1 THEN NULL ELSE {{'z': 'z' || i, 'w': i / 8}} END}} END s "
    "FROM range({start}, {stop}) t(i)"
)
ODD = "a INT, t VARCHAR, u VARCHAR, v VARCHAR, b BLOB, n DOUBLE, o FLOAT, p DOUBLE, x INT, y DATE, z DOUBLE"
ODD_ROWS = (
    "SELECT i::INT a, repeat('z', 300) || i t, repeat('é', 300) u, 'a' || repeat('é', 300) v,"
    "unhex('00' || repeat('FF', 400)) b, 'nan'::DOUBLE n, CASE i % 3 WHEN 0 THEN 'inf' WHEN 1 THEN '-inf' ELSE 'nan' END::FLOAT o, "
    "NULL::DOUBLE p, NULL::INT x, NULL::DATE y, CASE WHEN i % 2 = 0 THEN NULL ELSE 'nan' END::DOUBLE z FROM range({start}, {stop}) t(i)"
)
PARTITIONED = "k INT, t VARCHAR, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ, b BOOLEAN, f DOUBLE, e DECIMAL(10,2), g DECIMAL(20,2), l BIGINT, r FLOAT, x BLOB, s SMALLINT"
PARTITIONED_ROWS = (
    "SELECT CASE WHEN i % 5 = 4 THEN NULL ELSE i % 5 END::INT k, CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 'x/y =%' WHEN 2 THEN 'é' ELSE 'B' END t, "
    "CASE WHEN i % 6 = 5 THEN NULL ELSE DATE '1969-11-30' + (i % 6 * 20)::INT END d, TIMESTAMP '2019-12-31 22:30:00.5' + to_hours(i % 4) ts, "
    "TIMESTAMPTZ '2019-12-31 22:30:00.25+00' + to_hours(i % 4) tz, CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END b, "
    "CASE i % 4 WHEN 0 THEN 1e20 WHEN 1 THEN -1.5 WHEN 2 THEN 0.1 END f, (i % 3 * 1.5 - 1)::DECIMAL(10,2) e, (i % 3 * 1.5 - 1)::DECIMAL(20,2) g, "
    "(i % 3 * 1000000007)::BIGINT l, (i % 3 / 3)::FLOAT r, ('b' || i % 3)::BLOB x, (i % 4 - 2)::SMALLINT s FROM range(60) t(i)"
)


@pytest.fixture(params=["spark", "worker"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which encoder writes; the one of Spark is chosen by itself wherever it can."""
    if request.param == "worker":
        monkeypatch.setattr(spark_encoder, "plan", lambda *_, **__: None)
    return str(request.param)


@pytest.fixture
def twins(tmp_path: Path) -> tuple[str, str, str]:
    return (
        f"ducklake:{tmp_path / 'theirs.ducklake'}",
        f"ducklake:{tmp_path / 'ours.ducklake'}",
        str(tmp_path / "data"),
    )


def frame_of(spark: SparkSession, sql: str) -> Any:
    """Rows of which nothing says that they are few: this process would write those by itself."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql(sql).to_arrow_table()
    once = F.explode(F.array(F.lit(1)))
    return spark.createDataFrame(found).coalesce(1).withColumn("once", once).drop("once")


def attach(uri: str, data_path: str, spark: SparkSession) -> Lake:
    return ducklake_spark.attach(uri, name="lake", data_path=data_path, spark=spark)


def writers(data_path: str) -> set[str]:
    with duckdb.connect() as connection:
        asked = f"SELECT DISTINCT split_part(created_by, ' ', 1) FROM parquet_file_metadata('{data_path}/**/*.parquet')"
        return {name for (name,) in connection.execute(asked).fetchall()}


@pytest.mark.parametrize(("columns", "rows"), [(FLAT, FLAT_ROWS), (ODD, ODD_ROWS)], ids=["flat", "odd"])
def test_same_rows_leave_equal_catalogs(
    oracle: Oracle, spark: SparkSession, twins: tuple[str, str, str], encoder: str, columns: str, rows: str
) -> None:
    theirs, ours, data_path = twins
    parts = ((0, 20), (20, 24), (24, 60)) if rows is FLAT_ROWS else ((0, 20), (20, 60))
    statements = [rows.format(start=start, stop=stop) for start, stop in parts]
    oracle.attach(theirs, data_path=data_path + "/theirs")
    oracle.execute(f"CREATE TABLE t({columns})")
    for sql in statements:
        oracle.execute(f"INSERT INTO t {sql}")
    expected = repr(oracle.execute("SELECT * FROM t ORDER BY a"))
    oracle.detach()
    with attach(ours, data_path + "/ours", spark) as lake:
        table = lake.create_table("t", columns)
        for sql in statements:
            table.insert(frame_of(spark, sql))
    oracle.attach(ours, data_path=data_path + "/ours")
    assert repr(oracle.execute("SELECT * FROM t ORDER BY a")) == expected
    oracle.detach()
    assert writers(data_path + "/ours") == {"parquet-mr" if encoder == "spark" else "DuckDB"}
    catalogs.assert_same(theirs, ours, ignore={**IGNORED, "ducklake_metadata": ["value"]})


SPECIFICATIONS = [
    ("k",),
    ("t", "b"),
    ("d", "f"),
    ("ts",),
    ("tz",),
    ("e", "g"),
    ("year(d)", "month(d)", "day(d)"),
    ("year(ts)", "month(ts)", "day(ts)", "hour(ts)"),
    ("year(tz)", "month(tz)", "day(tz)", "hour(tz)"),
    ("hour(d)", "bucket(4, k)"),
    ("bucket(3, t)", "bucket(4, l)", "k"),
    ("bucket(5, d)", "bucket(5, ts)"),
    ("bucket(5, tz)", "bucket(5, b)"),
    ("bucket(5, f)", "bucket(5, e)"),
    ("bucket(5, g)",),
    ("bucket(5, l)", "bucket(5, r)"),
    ("bucket(5, x)", "bucket(5, s)"),
]
IN_ZONES = [
    (keys, zone)
    for keys in SPECIFICATIONS
    for zone in ("UTC", "America/New_York")
    if zone == "UTC" or any("tz" in key for key in keys)
]


@pytest.mark.parametrize(
    ("keys", "zone"), IN_ZONES, ids=lambda each: each if isinstance(each, str) else ", ".join(each)
)
def test_partitions_are_the_extensions(
    oracle: Oracle,
    spark: SparkSession,
    twins: tuple[str, str, str],
    encoder: str,
    keys: tuple[str, ...],
    zone: str,
) -> None:
    theirs, ours, data_path = twins
    oracle.attach(theirs, data_path=data_path + "/theirs")
    oracle.execute(f"CREATE TABLE t({PARTITIONED})")
    oracle.execute(f"ALTER TABLE t SET PARTITIONED BY ({', '.join(keys)})")
    oracle.execute(f"INSERT INTO t {PARTITIONED_ROWS}")
    expected = sorted(map(repr, oracle.execute("SELECT * FROM t")))
    oracle.detach()
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        with attach(ours, data_path + "/ours", spark) as lake:
            table = lake.create_table("t", PARTITIONED, partitioned_by=keys)
            table.insert(frame_of(spark, PARTITIONED_ROWS))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert folders(data_path + "/ours") == folders(data_path + "/theirs")
    by_spark = encoder == "spark" and "bucket(5, g)" not in keys
    assert writers(data_path + "/ours") == {"parquet-mr" if by_spark else "DuckDB"}
    assert partition_values(ours) == partition_values(theirs)
    oracle.attach(ours, data_path=data_path + "/ours")
    assert sorted(map(repr, oracle.execute("SELECT * FROM t"))) == expected
    # Pruning by bucket and by bounds finds every row.
    for column in ("k", "t", "d", "l", "e"):
        for value, count in oracle.execute(
            f"SELECT {column}, count(*) FROM t WHERE {column} IS NOT NULL GROUP BY 1"
        ):
            assert oracle.execute(f"SELECT count(*) FROM t WHERE {column} = ?", [value]) == [(count,)]


def folders(data_path: str) -> set[str]:
    root = Path(data_path)
    return {str(path.parent.relative_to(root)) for path in root.rglob("*.parquet")}


def partition_values(uri: str) -> list[Any]:
    """The rows of a file in each partition, by the values."""
    catalog = catalogs.dump(uri)
    rows = {row["data_file_id"]: row["record_count"] for row in catalog["ducklake_data_file"]}
    values: dict[Any, list[Any]] = {}
    for row in catalog["ducklake_file_partition_value"]:
        values.setdefault(row["data_file_id"], []).append(
            (row["partition_key_index"], row["partition_value"])
        )
    return sorted((repr(sorted(found)), rows[file_id]) for file_id, found in values.items())
