"""Files that a scan leaves out: exactly those that cannot have a matching row, decided in the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_spark.spark.file_index import explain
from tests.interop.oracle import Oracle
from tests.scan.lakes import Lake

pytestmark = pytest.mark.spark
MakeLake = Callable[..., Lake]

COLUMNS = {
    "i8": ("TINYINT", "n"),
    "i64": ("BIGINT", "n * 1000000000000"),
    "u64": ("UBIGINT", "9223372036854775808::UBIGINT + n::UBIGINT"),
    "dec": ("DECIMAL(10,2)", "n / 4.0"),
    "dec38": ("DECIMAL(38,4)", "n + 0.0625"),
    "f": ("FLOAT", "n / 2.0"),
    "d": ("DOUBLE", "n * 1e10"),
    "dt": ("DATE", "DATE '2019-12-15' + n::INTEGER"),
    "ts": ("TIMESTAMP", "TIMESTAMP '2019-12-31 00:00:00.5' + to_hours(n)"),
    "tms": ("TIMESTAMP_MS", "TIMESTAMP '2019-12-31 00:00:00.5' + to_hours(n)"),
    "tns": ("TIMESTAMP_NS", "(TIMESTAMP '2019-12-31 00:00:00.5' + to_hours(n))::TIMESTAMP_NS"),
    "tz": ("TIMESTAMPTZ", "(TIMESTAMP '2019-12-31 00:00:00.5' + to_hours(n)) AT TIME ZONE 'UTC'"),
    "s": ("VARCHAR", "printf('%03d', n)"),
    "b": ("BOOLEAN", "n >= 30"),
    "st": ("STRUCT(a INTEGER, deep STRUCT(z VARCHAR))", "{'a': n, 'deep': {'z': printf('%03d', n)}}"),
    "sparse": ("INTEGER", "CASE WHEN n >= 50 THEN n END"),
    "u": ("UUID", "uuid()"),
    "l": ("INTEGER[]", "[n]"),
}
NANOS_OF_HOUR_30 = 1577750400_500000000 + 30 * 3600 * 1_000_000_000
# The table has six files of ten numbers each (0-9, 10-19 ...), and one of NULLs.
CASES = [
    ("i8 = 25", 1),
    ("25 = i8", 1),
    ("i8 > 44", 2),
    ("i8 >= 49", 2),
    ("i8 > 49", 1),
    ("i8 < 10", 1),
    ("i8 <= 10", 2),
    ("i8 <> 5", 6),
    ("i8 IN (5, 55, 70)", 2),
    ("i8 IN (0,1,2,3,4,5,6,7,8,9,25,70,71,72,73)", 2),
    (f"i64 IN ({', '.join(str(n * 1000000000000 + i) for n in (25, 55) for i in range(60))})", 2),
    ("i8 NOT IN (1, 2)", 6),
    ("i8 IS NULL", 1),
    ("i8 IS NOT NULL", 6),
    ("NOT (i8 < 50)", 1),
    ("i8 < 10 OR i8 >= 50", 2),
    ("i8 < 10 OR u IS NOT NULL", 6),
    ("i8 < 10 AND length(s) = 3", 1),
    ("i8 BETWEEN 15 AND 25 AND s = '020'", 1),
    ("NOT (i8 < 50 OR s = '055')", 1),
    ("i8 <=> 25", 1),
    ("i8 = 127", 0),
    ("i64 = 25000000000000", 1),
    ("i64 > 44000000000001", 2),
    ("u64 = 9223372036854775833", 1),
    ("dec = 6.25", 1),
    ("dec > 12.25", 1),
    ("dec >= 12.25", 2),
    ("dec38 < 9.0625", 1),
    ("dec38 <= 10.0625", 2),
    ("f = 12.5", 1),
    ("f > 24.5", 1),
    ("d < 1e11", 1),
    ("d >= 5e11", 1),
    ("dt = DATE '2020-01-09'", 1),
    ("dt < DATE '2019-12-25'", 1),
    ("dt IN (DATE '2019-12-15', DATE '2020-03-01')", 1),
    ("ts >= TIMESTAMP_NTZ '2020-01-02 02:00:00.5'", 1),
    ("ts < TIMESTAMP_NTZ '2019-12-31 10:00:00.5'", 1),
    ("ts <= TIMESTAMP_NTZ '2019-12-31 10:00:00.5'", 2),
    ("ts < TIMESTAMP_NTZ '2019-12-31 10:00:00'", 1),
    ("tms = TIMESTAMP_NTZ '2020-01-01 06:00:00.5'", 1),
    (f"tns = {NANOS_OF_HOUR_30}", 1),
    (f"tns > {NANOS_OF_HOUR_30 + 19 * 3600 * 1_000_000_000}", 1),
    ("tz = TIMESTAMP '2020-01-01 06:00:00.5 UTC'", 1),
    ("tz >= TIMESTAMP '2020-01-02 02:00:00.5 UTC'", 1),
    ("s = '025'", 1),
    ("s LIKE '02%'", 1),
    ("s LIKE '0%'", 6),
    ("s LIKE '%5'", 6),
    ("s > '049'", 1),
    ("s IN ('000', '059')", 2),
    ("b", 3),
    ("NOT b", 3),
    ("b = false", 3),
    ("st.a = 25", 1),
    ("st.deep.z = '025'", 1),
    ("st.a IS NULL", 1),
    ("sparse > 0", 1),
    ("sparse IS NULL", 6),
    ("l[0] = 5", 7),
]


@pytest.fixture(scope="module", params=["duckdb", "sqlite", "postgres"])
def numbers(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    folder: Path = tmp_path_factory.mktemp("numbers")
    if request.param == "postgres":
        uri = f"ducklake:postgres:{request.getfixturevalue('postgres_server').fresh_database()}"
    else:
        uri = f"ducklake:{request.param}:{folder}/lake.db"
    with Oracle() as oracle:
        lake = Lake(oracle, spark, uri, folder / "data")
        lake.options = {"data_inlining_row_limit": 0}
        defined = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
        made = ", ".join(f"({sql})::{type_}" for type_, sql in COLUMNS.values())
        lake.write(
            f"CREATE TABLE t({defined})",
            *(f"INSERT INTO t SELECT {made} FROM range({i}, {i + 10}) r(n)" for i in range(0, 60, 10)),
            f"INSERT INTO t VALUES ({', '.join(['NULL'] * len(COLUMNS))})",
        )
        yield lake
        lake.close()


def kept(frame: DataFrame) -> int:
    found = [re.search(r": (\d+) of (\d+) files$", line) for line in explain(frame).splitlines()]
    return sum(int(match[1]) for match in found if match)


def test_files_kept_are_those_that_can_match(numbers: Lake) -> None:
    frame = numbers.read("t")
    everything = [row.asDict() for row in frame.selectExpr("i8", "_metadata.file_name AS file").collect()]
    assert len({row["file"] for row in everything}) == 7
    wrong = []
    for condition, expected in CASES:
        found = kept(frame.where(condition))
        if found != expected:
            wrong.append((condition, found, expected))
    assert not wrong


def test_pruned_rows_are_the_rows(numbers: Lake) -> None:
    frame = numbers.read("t").cache()
    frame.count()
    plain = numbers.read("t")
    for condition, _ in CASES[::3]:
        assert plain.where(condition).count() == frame.where(condition).count(), condition
    frame.unpersist()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_nan_and_infinity(make_lake: MakeLake, kind: str) -> None:
    lake = make_lake(kind, data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(a DOUBLE)",
        "INSERT INTO t VALUES (1), (2)",
        "INSERT INTO t VALUES (1), ('nan')",
        "INSERT INTO t VALUES ('nan')",
        "INSERT INTO t VALUES ('inf'), (5)",
        "INSERT INTO t VALUES ('-inf'), (-5)",
    )
    frame = lake.read("t")
    expected = {
        "a > 100": 3,
        "a = double('nan')": 2,
        "a < 0": 2,
        "a = 1": 3,
        "a <> 1": 5,
        "a >= double('inf')": 5,
        "a IN (1, double('nan'))": 3,
    }
    found = {condition: kept(frame.where(condition)) for condition in expected}
    # All that can match are kept; infinity itself is left to Spark.
    assert {c: found[c] >= n for c, n in expected.items()} == dict.fromkeys(expected, True)
    expected_rows = {
        "a > 100": 3,
        "a = double('nan')": 2,
        "a < 0": 2,
        "a = 1": 2,
        "a <> 1": 7,
        "a IN (1, double('nan'))": 4,
    }
    assert {c: frame.where(c).count() for c in expected_rows} == expected_rows


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_buckets_of_every_specification(make_lake: MakeLake, kind: str) -> None:
    lake = make_lake(kind, data_inlining_row_limit=0)
    values = "SELECT i, 'k' || i, i + 0.25, DATE '2020-01-01' + i::INTEGER FROM range(40) r(i)"
    lake.write(
        "CREATE TABLE t(a INTEGER, s VARCHAR, d DECIMAL(10,2), dt DATE)",
        f"INSERT INTO t {values}",
        "ALTER TABLE t SET PARTITIONED BY (bucket(8, a))",
        f"INSERT INTO t {values}",
        "ALTER TABLE t SET PARTITIONED BY (bucket(4, s))",
        f"INSERT INTO t {values}",
        "ALTER TABLE t SET PARTITIONED BY (bucket(4, d), bucket(2, dt))",
        f"INSERT INTO t {values}",
    )
    frame = lake.read("t")
    for condition in ("a = 17", "s = 'k17'", "d = 17.25", "dt = DATE '2020-01-18'", "a IN (3, 4)"):
        found = lake.read("t").where(condition)
        assert found.count() == (8 if "IN" in condition else 4)
        assert kept(frame.where(condition)) < kept(frame)
    assert kept(frame.where("a = 17 AND s = 'k17'")) <= 1 + 1 + 1 + 8


def test_nothing_is_pruned_wrongly_after_promotions(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(f FLOAT, d DATE, i INTEGER, b BOOLEAN)",
        "INSERT INTO t VALUES (3.14, '2020-01-01', 5, true)",
        "ALTER TABLE t ALTER f SET TYPE DOUBLE",
        "ALTER TABLE t ALTER d SET TYPE TIMESTAMP",
        "ALTER TABLE t ALTER i SET TYPE BIGINT",
        "ALTER TABLE t ALTER b SET TYPE INTEGER",
    )
    frame = lake.read("t")
    assert (
        frame.where("f > 3.14D AND d >= TIMESTAMP_NTZ '2020-01-01 00:00:00' AND b = 1 AND i = 5").count() == 1
    )
    assert kept(frame.where("i > 5")) == 0
