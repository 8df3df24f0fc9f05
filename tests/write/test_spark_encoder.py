"""Spark's own writer as an encoder: when it is chosen, what it refuses, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import ducklake_spark
from ducklake_spark import ConstraintError, InvalidInputError, Lake
from ducklake_spark.write import insert
from ducklake_spark.write.encoders.footers import blob_bounds, text_bounds

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _no_rows_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are written by this process: here they come from where Spark cannot say how many they are."""
    monkeypatch.setattr(insert, "_ONE_TASK", -1)


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    uri = f"ducklake:{tmp_path / 'lake.ducklake'}"
    with ducklake_spark.attach(uri, name="lake", data_path=str(tmp_path / "data"), spark=spark) as found:
        yield found


def files(lake: Lake) -> list[dict[str, Any]]:
    """What DuckDB finds in the files of the lake."""
    with duckdb.connect() as connection:
        found = connection.execute(
            f"SELECT * FROM parquet_file_metadata('{lake.data_path}/**/*.parquet') ORDER BY file_name"
        )
        names = [part[0] for part in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def by_spark(lake: Lake) -> bool:
    return all(str(file["created_by"]).startswith("parquet-mr") for file in files(lake))


def test_every_node_is_optional_and_has_its_id(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", "a BIGINT, s STRUCT(x BIGINT, y STRUCT(z INT)), c TIMESTAMPTZ")
    table.insert(
        spark.range(20).select(
            F.col("id").alias("a"),
            F.struct(F.col("id").alias("x"), F.struct(F.lit(1).alias("z")).alias("y")).alias("s"),
            F.lit("2020-01-01").cast("timestamp").alias("c"),
        )
    )
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT name, repetition_type, field_id, converted_type FROM parquet_schema(?)",
            [files(lake)[0]["file_name"]],
        ).fetchall()
    ids = [(node.name, node.column_id) for column in table.definition.columns for node in column.walk()]
    assert [(name, field_id) for name, _, field_id, _ in found[1:]] == ids
    assert {repetition for _, repetition, _, _ in found[1:]} == {"OPTIONAL"}
    assert found[-1][3] == "TIMESTAMP_MICROS"


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("TINYINT", "300", "300"),
        ("INTEGER", "3000000000L", "3000000000"),
        ("DECIMAL(4,2)", "100", "100"),
        ("DECIMAL(4,2)", "123.45BD", "123.45"),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    lake: Lake, spark: SparkSession, ansi: str, column: str, value: str, shown: str
) -> None:
    table = lake.create_table("t", f"a BIGINT, v {column}")
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        rows = spark.range(20).selectExpr("id AS a", f"CASE WHEN id = 13 THEN {value} ELSE 1 END AS v")
        with pytest.raises(InvalidInputError, match=rf'(?s){shown}.*"v".*"t"|"v".*"t".*{shown}'):
            table.insert(rows)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
    assert table.to_df().count() == 0
    assert not list(Path(lake.data_path).rglob("*.parquet"))


def test_null_for_not_null_is_named(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", "a BIGINT, v INT")
    table.set_not_null("v")
    with pytest.raises(ConstraintError, match='column "v" of table "t"'):
        table.insert(spark.range(20).selectExpr("id AS a", "CASE WHEN id < 13 THEN 1 END AS v"))
    assert table.insert(spark.range(0, 20, 1, 1).selectExpr("id AS a", "CAST(id AS INT) AS v")) == 20
    assert by_spark(lake)


def test_missing_columns_take_their_defaults(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table(
        "t",
        {"a": "bigint", "b": "varchar", "c": "decimal(5,2)", "d": "date", "e": "timestamptz", "f": "int"},
        defaults={"b": "it's", "c": 1.5, "d": "2020-02-29", "e": "2020-01-01 00:00:00.5+01"},
    )
    table.insert(spark.range(0, 20, 1, 1).withColumnRenamed("id", "a"))
    assert by_spark(lake)
    row = (
        table.to_df()
        .selectExpr("b", "string(c) c", "string(d) d", "unix_micros(e) e", "f")
        .distinct()
        .collect()
    )
    assert [tuple(part) for part in row] == [("it's", "1.50", "2020-02-29", 1577833200500000, None)]


def test_the_session_keeps_its_settings(lake: Lake, spark: SparkSession) -> None:
    before = {
        key: spark.conf.get(key)
        for key in ("spark.sql.parquet.outputTimestampType", "spark.sql.adaptive.enabled")
    }
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        table = lake.create_table("t", "a BIGINT", partitioned_by=["bucket(2, a)"])
        table.insert(spark.range(20).withColumnRenamed("id", "a"))
        assert spark.conf.get("spark.sql.adaptive.enabled") == "false"
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", str(before["spark.sql.adaptive.enabled"]))
    assert {key: spark.conf.get(key) for key in before} == before
    assert SparkSession.getActiveSession() is spark


def test_only_data_files_are_left(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", "a BIGINT, b VARCHAR", partitioned_by=["b"])
    table.insert(spark.range(20).selectExpr("id AS a", "CAST(id % 2 AS STRING) AS b"))
    left = sorted(
        path.relative_to(lake.data_path) for path in Path(lake.data_path).rglob("*") if path.is_file()
    )
    assert len(left) == 2
    assert [str(path.parent) for path in left] == ["main/t/b=0", "main/t/b=1"]
    assert all(path.name.startswith("ducklake-") and path.name.endswith(".parquet") for path in left)
    assert not list(Path(lake.data_path).rglob("job-*"))


def test_few_rows_go_into_the_catalog(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", "a BIGINT, b TIMESTAMPTZ, c STRUCT(x VARCHAR)")
    rows = (
        spark.range(100)
        .where("id % 10 = 3")
        .selectExpr("id AS a", "timestamp_micros(id) AS b", "named_struct('x', string(id)) AS c")
    )
    assert table.insert(rows) == 10
    assert not list(Path(lake.data_path).rglob("*.parquet"))
    assert sorted(tuple(row) for row in table.to_df().selectExpr("a", "unix_micros(b)", "c.x").collect()) == [
        (i, i, str(i)) for i in range(3, 100, 10)
    ]


def test_options_of_the_lake_reach_the_file(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", "a BIGINT, b VARCHAR")
    table.set_option("parquet_compression", "zstd")
    table.set_option("parquet_row_group_size", 2048)
    table.set_option("target_file_size", "40KB")
    rows = spark.range(0, 20000, 1, 1).selectExpr("id AS a", "sha1(string(id)) AS b")
    table.insert(rows)
    table.insert(rows)
    with duckdb.connect() as connection:
        found = connection.execute(
            f"SELECT DISTINCT compression FROM parquet_metadata('{lake.data_path}/**/*.parquet')"
        ).fetchall()
        largest = connection.execute(
            f"SELECT max(row_group_num_rows) FROM parquet_metadata('{lake.data_path}/**/*.parquet')"
        ).fetchall()
    assert found == [("ZSTD",)]
    assert largest[0][0] < 2 * 2048  # DuckDB's writer ends a row group with the chunk in which it is full
    assert len(files(lake)) > 10


def test_rows_are_sorted_within_files(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table(
        "t", 'a BIGINT, "b c" INT, d INT', sorted_by=['"b c" DESC NULLS FIRST', "a"], partitioned_by=["d"]
    )
    table.insert(
        spark.range(0, 1000, 1, 2).selectExpr(
            "id AS a", "CASE WHEN id % 7 > 0 THEN int(id % 7) END AS `b c`", "int(id % 2) AS d"
        )
    )
    assert by_spark(lake)
    with duckdb.connect() as connection:
        for file in files(lake):
            found = connection.execute('SELECT "b c", a FROM read_parquet(?)', [file["file_name"]]).fetchall()
            assert found == sorted(found, key=lambda row: (row[0] is not None, -(row[0] or 0), row[1]))


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        ("a BIGINT, l INT[]", {}),
        ("a BIGINT, u UUID", {}),
        ("a BIGINT, v UINTEGER", {}),
        ("a BIGINT, t TIMESTAMP_NS", {}),
        ("a BIGINT", {"sorted_by": ["a % 3"]}),
        ("a BIGINT, r DOUBLE DEFAULT random()", {}),
    ],
)
def test_the_workers_write_what_spark_cannot(
    lake: Lake, spark: SparkSession, columns: str, settings: dict[str, Any]
) -> None:
    if "DEFAULT" in columns:
        table = lake.create_table(
            "t", {"a": "bigint", "r": "double"}, defaults={"r": ducklake_spark.Expression("random()")}
        )
    else:
        table = lake.create_table("t", columns, **settings)
    table.insert(spark.range(20).withColumnRenamed("id", "a"))
    assert not by_spark(lake)
    assert table.to_df().count() == 20


def test_a_skewed_partition_is_split_and_others_make_few_files(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", "a BIGINT, k INT, p VARCHAR", partitioned_by=["k"])
    table.set_option("target_file_size", "1MB")
    rows = spark.range(0, 200000, 1, 8).selectExpr(
        "id AS a", "CASE WHEN id % 10 = 0 THEN int(id % 500) ELSE -1 END AS k", "sha2(string(id), 512) AS p"
    )
    table.insert(rows)
    counts: dict[str, int] = {}
    for path in Path(lake.data_path).rglob("*.parquet"):
        counts[path.parent.name] = counts.get(path.parent.name, 0) + 1
    assert len(counts) == 51
    assert counts.pop("k=-1") >= 8, "about 12 MB should not be one file, nor the work of one task"
    assert sum(counts.values()) <= 2 * len(counts)
    assert table.to_df().count() == 200000


def test_bounds_without_a_greater_text_are_left_out() -> None:
    assert text_bounds("a\0b", "x") == (None, "x")
    assert text_bounds("é" * 200, "é" * 200) == (None, None)
    assert text_bounds("a" * 255 + "é", "\x7f" * 300) == (None, None)
    assert blob_bounds("\\xFF", "\\xFF" * 300) == (None, None)
