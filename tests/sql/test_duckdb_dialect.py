"""The corpus in DuckDB's dialect: the extension's rows and ours, in order, and the names of their columns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ducklake_spark.errors import DuckLakeError, InvalidInputError
from tests.interop.oracle import Oracle
from tests.sql.corpus import CORPUS, NAMED
from tests.sql.shared import Both, both
from tests.sql.values import plain

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def twin(
    spark: SparkSession, _oracle_process: Oracle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    with both(spark, _oracle_process, tmp_path_factory.mktemp("duckdb")) as made:
        yield made


@pytest.mark.parametrize("clause", CORPUS)
def test_answers_as_the_extension_answers(twin: Both, clause: str) -> None:
    wrong = []
    for sql in CORPUS[clause]:
        expected = [plain(row) for row in twin.oracle.execute(sql)]
        try:
            found = [plain(tuple(row)) for row in twin.lake.sql(sql, dialect="duckdb").collect()]
        except Exception as error:
            wrong.append((sql, expected, repr(error)))
            continue
        if found != expected:
            wrong.append((sql, expected, found))
    assert not wrong


def test_columns_have_the_names_that_duckdb_gives(twin: Both) -> None:
    for sql in NAMED:
        expected = [row[0] for row in twin.oracle.execute(f"DESCRIBE {sql}")]
        assert twin.lake.sql(sql, dialect="duckdb").columns == expected, sql


def test_parameters(twin: Both) -> None:
    for sql, args in [
        ("SELECT ?, a FROM n WHERE a < ? ORDER BY a", ["x", 2]),
        ("SELECT $2, a FROM n WHERE a < $1 ORDER BY a", [2, "x"]),
        ("SELECT $x, a FROM n WHERE a = $y", {"x": "v", "y": 1}),
        ("SELECT count(*), ? FROM t AT (VERSION => ?)", [7, 2]),
    ]:
        expected = [plain(row) for row in twin.oracle.execute(sql, args)]
        assert [plain(tuple(row)) for row in twin.lake.sql(sql, "duckdb", args).collect()] == expected, sql
    with pytest.raises(InvalidInputError, match="args="):
        twin.lake.sql("SELECT ?, ?", dialect="duckdb", args=[1])


def test_what_cannot_be_said_is_refused_by_name(twin: Both) -> None:
    for sql, words in [
        ("SELECT * FROM t ASOF JOIN s1.t u ON t.i = u.i", "ASOF JOIN"),
        ("SELECT nope(a) FROM n", "(?i)nope"),
        ("SELECT nope FROM n", "nope"),
        ("FROM read_json('x.json')", "x.json"),
    ]:
        with pytest.raises(DuckLakeError, match=words):
            twin.lake.sql(sql, dialect="duckdb")


def test_what_spark_lacks_is_answered_by_duckdb(twin: Both) -> None:
    for sql in (
        "SELECT t.i, u.i FROM t ASOF RIGHT JOIN s1.t u ON t.i >= u.i ORDER BY ALL",
        "SELECT n.a, t.i FROM n POSITIONAL JOIN t ORDER BY ALL",
        "SELECT count(*) FROM (SELECT a FROM n LIMIT 10%)",
        "SELECT strftime(dt, '%' || 'Y') FROM t ORDER BY i",
        "SELECT list_zip(l, l)[1][1], format('{:e}', d), bar(i, 0, 9, 4) FROM t ORDER BY i",
        "SELECT histogram(g), string_agg(DISTINCT g, '|' ORDER BY g) FROM n",
        "SELECT t.l FROM t JOIN s1.t AS u USING (i) WHERE list_zip(t.l, t.l) IS NOT NULL ORDER BY i",
    ):
        expected = [plain(row) for row in twin.oracle.execute(sql)]
        assert [plain(tuple(row)) for row in twin.lake.sql(sql, "duckdb").collect()] == expected, sql


def test_overflow_is_an_error(twin: Both) -> None:
    from pyspark.errors import PySparkException

    for sql in (
        "SELECT 200::TINYINT",
        "SELECT (-1)::UTINYINT",
        "SELECT 256::UTINYINT",
        "SELECT 2147483647 + 1",
        "SELECT a::TINYINT FROM (SELECT 300 AS a)",
        "SELECT 'x'::INT",
    ):
        with pytest.raises((DuckLakeError, PySparkException)):
            twin.lake.sql(sql, dialect="duckdb").collect()
