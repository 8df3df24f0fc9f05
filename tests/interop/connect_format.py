"""`format("ducklake")` as a Python data source, through Spark Connect: a part of `connect_session.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ducklake_spark import Lake


def check(spark: SparkSession, folder: str) -> None:
    """Reads and writes, in a time zone that is nobody's default."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        _check(spark, f"{folder}/format")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def _check(spark: SparkSession, folder: str) -> None:
    import ducklake_spark
    from tests.interop.oracle import Oracle
    from tests.interop.test_python_source import fill

    Path(folder).mkdir()
    uri = f"ducklake:sqlite:{folder}/lake.sqlite"
    with Oracle() as oracle:
        oracle.attach(uri, data_path=f"{folder}/data [x]")
        fill(oracle, folder)
        oracle.detach()
        with ducklake_spark.attach(uri, spark=spark, name="lake") as lake:
            # Spark finds it without being told, where this package is on the path of the server.
            found = spark.read.format("ducklake").option("table", "main.t").load(uri)
            assert found.schema.simpleString() == lake.table("t").schema.simpleString()
            assert _sorted(found) == _sorted(lake.table("t"))
            ducklake_spark.register(spark)
            ducklake_spark.register(spark)
            _reads(spark, lake, uri)
            _writes(spark, lake, uri)
        oracle.attach(uri)
        assert oracle.execute("SELECT count(*), count(DISTINCT id) FROM w") == [(60, 60)]


def _sorted(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


def _reads(spark: SparkSession, lake: Lake, uri: str) -> None:
    found = spark.read.format("ducklake").options(table="t").load(uri).where("b2 > 90 AND z = 1 OR b2 = 7")
    assert _sorted(found) == _sorted(lake.table("t").where("b2 > 90 AND z = 1 OR b2 = 7"))
    feed = spark.read.format("ducklake").options(table="t", readChangeFeed="true", startingVersion=2)
    assert _sorted(feed.load(uri)) == _sorted(lake.table_changes("t", 2))
    _fails(lambda: spark.read.format("ducklake").load("lake.t").count(), "needs the lake and the table")


def _writes(spark: SparkSession, lake: Lake, uri: str) -> None:
    def write(frame: DataFrame, mode: str) -> int:
        before = lake.version
        frame.write.format("ducklake").mode(mode).option("table", "w").save(uri)
        return lake.version - before

    def rows(start: int, end: int) -> DataFrame:
        return spark.range(start, end, 1, 2).selectExpr("id", "'n' AS v")

    assert write(rows(3, 200), "append") == 1  # makes the table
    assert write(rows(0, 50), "overwrite") == 1
    assert write(rows(50, 60), "append") == 1
    data = Path(lake.data_path)
    before, version = sorted(map(str, data.rglob("*"))), lake.version
    boom = rows(0, 100).selectExpr("if(id = 70, raise_error('boom'), id) AS id", "v")
    _fails(lambda: write(boom, "append"), "boom")
    assert lake.version == version and sorted(map(str, data.rglob("*"))) == before
    _fails(lambda: write(rows(0, 1), "ignore"), "UNSUPPORTED_DATA_SOURCE_SAVE_MODE")


def _fails(run: Callable[[], Any], message: str) -> None:
    try:
        run()
    except Exception as error:
        assert message in str(error), str(error)[:3000]
    else:
        raise AssertionError(f"did not fail: {message}")
