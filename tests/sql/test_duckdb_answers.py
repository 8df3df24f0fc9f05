"""Answers that depend on the engine, in DuckDB and in Spark with DuckDB's dialect: value by value."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ducklake_spark.errors import DuckLakeError
from tests.interop.oracle import Oracle
from tests.sql.answers import ANSWERS, ERRORS, TABLE
from tests.sql.twins import Twins, twins
from tests.sql.values import plain

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def twin(
    spark: SparkSession, _oracle_process: Oracle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Twins]:
    with twins(_oracle_process, spark, tmp_path_factory.mktemp("answers")) as made:
        made.oracle.execute(TABLE)
        made.lake.sql(TABLE, dialect="duckdb")
        yield made


@pytest.mark.parametrize(("kind", "zone"), [*((kind, "UTC") for kind in ANSWERS), ("times", "Europe/Berlin")])
def test_values_are_those_of_duckdb(twin: Twins, spark: SparkSession, kind: str, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    order = "" if kind == "aggregates" else " ORDER BY w.a"
    sql = f"SELECT {', '.join(ANSWERS[kind])} FROM w{order}"
    spark.conf.set("spark.sql.session.timeZone", zone)
    twin.oracle.execute(f"SET TimeZone = '{zone}'")
    try:
        theirs = [plain(row) for row in twin.oracle.execute(sql)]
        frame = twin.lake.sql(sql, dialect="duckdb")
        ours = [plain(tuple(row)) for row in frame.collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
        twin.oracle.execute("SET TimeZone = 'UTC'")
    wrong = {
        name: ([row[place] for row in theirs], [row[place] for row in ours])
        for place, name in enumerate(frame.columns)
        if [row[place] for row in theirs] != [row[place] for row in ours]
    }
    assert not wrong


def test_what_has_no_answer_is_an_error(twin: Twins) -> None:
    for expression in ERRORS:
        with pytest.raises((DuckLakeError, PySparkException)):
            twin.lake.sql(f"SELECT {expression} FROM w", dialect="duckdb").collect()
