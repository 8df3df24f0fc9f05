"""Queries in Spark's dialect over one lake: names, time travel, virtual columns, parameters, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import DuckLakeError
from ducklake_spark.errors import InvalidInputError, NotFoundError
from ducklake_spark.sql.execute import queries
from tests.interop.oracle import Oracle
from tests.sql.shared import Both, both

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def twin(
    spark: SparkSession, _oracle_process: Oracle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    with both(spark, _oracle_process, tmp_path_factory.mktemp("queries")) as made:
        yield made


@pytest.fixture(scope="module")
def lake(twin: Both) -> ducklake_spark.Lake:
    return twin.lake


def rows(lake: ducklake_spark.Lake, sql: str, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(sql, **options).collect()]


NAMES = {
    "SELECT i FROM t ORDER BY i": [(1,), (2,), (3,)],
    "SELECT t.i, name FROM t JOIN s1.t AS u ON t.i = u.i ORDER BY 1": [(1, "one"), (2, "two")],
    "SELECT main.t.i, s1.t.name FROM main.t JOIN s1.t ON main.t.i = s1.t.i ORDER BY 1": [
        (1, "one"),
        (2, "two"),
    ],
    "SELECT lake.main.t.i FROM lake.main.t WHERE lake.main.t.i = 1": [(1,)],
    "SELECT `t`.st.x, t.m['k'] FROM lake.t WHERE t.st.x = 1": [(1, 1)],
    "WITH t AS (SELECT i + 100 AS z FROM t) SELECT max(z) FROM t": [(103,)],
    "WITH a AS (SELECT i FROM t), b AS (SELECT i FROM a WHERE i > 1) SELECT count(*) FROM b": [(2,)],
    "SELECT count(*) FROM (SELECT i FROM t UNION ALL SELECT i FROM s1.t)": [(6,)],
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM s1.t u WHERE u.i = t.i) ORDER BY i": [(1,), (2,)],
    "SELECT i FROM t WHERE i IN (SELECT i FROM s1.t) ORDER BY i DESC": [(2,), (1,)],
    "SELECT count(*) FROM t TABLESAMPLE (100 PERCENT)": [(3,)],
    "SELECT t.i, e FROM t LATERAL VIEW explode(l) x AS e WHERE i = 1 ORDER BY e": [(1, 1), (1, 2), (1, 3)],
    "SELECT `a b`, `{x}` FROM `odd name`": [(1, 5)],
    "SELECT '{t}', i FROM t WHERE i = 1 -- {t}": [("{t}", 1)],
    "SELECT s FROM v ORDER BY i": [("a!",), ("b!",)],
    "SELECT x FROM with_macro ORDER BY x": [(10,), (11,), (12,)],
    "VALUES (1, 'x')": [(1, "x")],
    "SELECT * FROM s1.t PIVOT (max(name) FOR i IN (1 AS a, 2 AS b))": [("one", "two")],
    "SELECT /*+ BROADCAST(t) */ t.i FROM t JOIN s1.t u ON t.i = u.i ORDER BY i LIMIT 1": [(1,)],
    "SELECT count(DISTINCT g) FILTER (WHERE a > 3) FROM n": [(3,)],
    "FROM n |> WHERE a < 2 |> SELECT a |> ORDER BY a": [(0,), (1,)],
}


@pytest.mark.parametrize("sql", NAMES)
def test_names_of_the_lake(lake: ducklake_spark.Lake, sql: str) -> None:
    assert rows(lake, sql) == NAMES[sql]


def test_the_user_s_text_stays_as_it_is(lake: ducklake_spark.Lake) -> None:
    assert lake.sql("SELECT  i+1,  upper( s ) FROM t").columns == ["(i + 1)", "upper(s)"]


def test_session_tables_and_other_lakes_join(
    lake: ducklake_spark.Lake, spark: SparkSession, tmp_path: Any
) -> None:
    spark.range(5).createOrReplaceTempView("session_numbers")
    assert rows(lake, "SELECT max(id) FROM t JOIN session_numbers ON id = i") == [(3,)]
    with ducklake_spark.attach(f"ducklake:{tmp_path}/o.ducklake", name="other", spark=spark) as other:
        other.create_table("o", {"i": "int"}).insert([(2,)])
        assert rows(lake, "SELECT t.s FROM t JOIN other.o ON o.i = t.i") == [("b",)]
        assert rows(lake, "SELECT other.main.o.i FROM other.main.o") == [(2,)]
    with pytest.raises(NotFoundError):
        lake.sql("SELECT * FROM other.main.o")
    assert spark.catalog.dropTempView("session_numbers")
    assert not [row for row in spark.sql("SHOW VIEWS").collect() if row.viewName.startswith("ducklake_")]


TRAVEL = [
    "SELECT count(*) FROM t VERSION AS OF 2",
    "SELECT count(*) FROM t FOR VERSION AS OF 2 AS x",
    "SELECT count(*) FROM main.t FOR SYSTEM_VERSION AS OF '2'",
    "SELECT count(*) FROM t AT (VERSION => 2)",
    "SELECT count(x.i) FROM lake.main.t AS x AT (VERSION => 1 + 1)",
    "SELECT count(*) FROM t TIMESTAMP AS OF '{at}'",
    "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '{at}'",
    "SELECT count(*) FROM t AT (TIMESTAMP => TIMESTAMP '{at}' + INTERVAL '0' SECOND)",
]


@pytest.mark.parametrize("sql", TRAVEL)
def test_time_travel(lake: ducklake_spark.Lake, sql: str) -> None:
    at = lake.sql("SELECT CAST(snapshot_time AS STRING) FROM lake.snapshots() WHERE snapshot_id = 2").first()
    assert rows(lake, sql.replace("{at}", at[0])) == [(1,)]


def test_time_travel_with_parameters(lake: ducklake_spark.Lake) -> None:
    sql = "SELECT ?, count(*) FROM t VERSION AS OF ? WHERE i < ?"
    assert rows(lake, sql, args=["x", 2, 5]) == [("x", 1)]
    assert rows(lake, "SELECT :a, count(*) FROM t VERSION AS OF :v", args={"a": 1, "v": 3}) == [(1, 3)]
    assert rows(lake, "SELECT i FROM t WHERE s = :s AND '{:s}' = '{:s}'", args={"s": "a"}) == [(1,)]


def test_time_travel_to_nowhere_is_an_error(lake: ducklake_spark.Lake) -> None:
    for sql, words in [
        ("SELECT * FROM t VERSION AS OF 0", "There was no table"),
        ("SELECT * FROM t VERSION AS OF 999", "999"),
        ("SELECT * FROM t VERSION AS OF i", "constant"),
        ("SELECT * FROM t VERSION AS OF 'x'", "number of a snapshot"),
        ("SELECT * FROM t TIMESTAMP AS OF 'x'", "x"),
        ("SELECT * FROM t VERSION AS OF ?", "args="),
    ]:
        with pytest.raises(DuckLakeError, match=words):
            lake.sql(sql)


def test_virtual_columns(lake: ducklake_spark.Lake) -> None:
    assert lake.sql("SELECT * FROM n WHERE rowid = 3").columns == ["a", "b", "g"]
    assert rows(lake, "SELECT rowid, * FROM n WHERE rowid = 3") == [(3, 3, 30, "g0")]
    assert rows(lake, "SELECT x.*, x.rowid, u.* FROM n x JOIN s1.t u ON u.i = x.a WHERE u.rowid = 0") == [
        (1, 10, "g1", 1, 1, "one")
    ]
    assert rows(lake, "SELECT * EXCEPT (g) FROM f WHERE file_row_number = 2") == [(2, 20)]
    assert rows(lake, "SELECT count(*), min(snapshot_id) FROM f WHERE filename LIKE '%.parquet'")[0][0] == 20
    assert rows(lake, "SELECT rowid FROM `odd name`") == [(77,)]
    assert rows(lake, "SELECT rowid FROM (SELECT a AS rowid FROM n WHERE a = 5) q, t LIMIT 1") == [(5,)]
    assert rows(lake, "SELECT * FROM (SELECT * FROM s1.t WHERE rowid = 1) WHERE i IN (SELECT i FROM t)") == [
        (2, "two")
    ]


def test_errors_say_where(lake: ducklake_spark.Lake) -> None:
    with pytest.raises(NotFoundError, match='Did you mean "with_macro"'):
        lake.sql("SELECT * FROM with_makro")
    with pytest.raises(NotFoundError, match=r'There is no column "nope"\..* \(line 2, column 3\)') as found2:
        lake.sql("SELECT i FROM lake.main.t WHERE\n  nope = 1")
    assert "\n" not in str(found2.value) and found2.value.__suppress_context__
    for sql in ("SELECT FROM WHERE", "SELECT * FROM t WHERE (", "SELECT i FROM t GROUP BY", "i + 1"):
        with pytest.raises(DuckLakeError):
            lake.sql(sql)
    with pytest.raises(DuckLakeError, match="holds no statement"):
        lake.sql(" ; -- nothing")


def test_macros_in_spark_s_dialect(lake: ducklake_spark.Lake) -> None:
    assert rows(
        lake, "SELECT add(1, 2), add(5), main.add(i, b => 3), lake.main.add(1) FROM t WHERE i = 1"
    ) == [(3, 15, 4, 11)]
    assert rows(lake, "SELECT half(5), add(add(1, 1), half(3)), biggest()") == [(2.5, 3.5, 19)]
    assert rows(lake, "SELECT sum(a) FROM first_rows(3)") == [(3,)]
    assert rows(lake, "SELECT x.b, n.a FROM lake.first_rows(4, least => 3) AS x JOIN n ON n.a = x.a") == [
        (30, 3)
    ]
    assert rows(lake, "SELECT first_rows.a FROM main.first_rows(1)") == [(0,)]
    with pytest.raises(InvalidInputError, match=r"add\(a, b\)"):
        lake.sql("SELECT add(1, 2, 3)")


def test_names_cannot_smuggle_sql(spark: SparkSession, tmp_path: Any) -> None:
    odd = [
        "a`b",
        'a"b',
        "a;DROP TABLE t",
        "a' OR '1'='1",
        "x) AS y, (SELECT 1",
        "{t}",
        "a.b",
        "-- a",
        "t VERSION AS OF 1",
    ]
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="l`k", spark=spark) as lake:
        lake.create_schema("s`; x")
        for place, name in enumerate(odd):
            lake.create_table(("s`; x", name), {name: "int"}).insert([(place,)])
        for place, name in enumerate(odd):
            own, double = name.replace("`", "``"), name.replace('"', '""')
            query = f"SELECT `s``; x`.`{own}`.`{own}`, rowid FROM `l``k`.`s``; x`.`{own}` WHERE `{own}` = :v"
            assert rows(lake, query, args={"v": place}) == [(place, 0)], name
            query = f'SELECT "{double}" + 1 FROM "s`; x"."{double}"'
            assert rows(lake, query, dialect="duckdb") == [(place + 1,)], name
        for value in odd:
            assert rows(lake, "SELECT :v", args={"v": value}) == [(value,)]
            with pytest.raises(DuckLakeError):
                lake.sql("SELECT * FROM table_changes(:v, 0, 1)", args={"v": value})


def test_transactions_and_older_snapshots(spark: SparkSession, tmp_path: Any) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", name="lake", spark=spark) as lake:
        lake.create_table("t", {"i": "int"}).insert([(1,)])
        frame = lake.sql("SELECT count(*) FROM t")
        with lake.transaction():
            lake["t"].insert([(2,)])
            assert rows(lake, "SELECT count(*) FROM t") == [(2,)]
            assert rows(lake, "SELECT count(*) FROM t VERSION AS OF 2") == [(1,)]
        assert frame.collect()[0][0] == 1  # a DataFrame stays at its snapshot
        assert rows(lake.at(version=2), "SELECT count(*) FROM lake.main.t") == [(1,)]
        assert rows(lake, "SELECT count(*) FROM t a JOIN t AT (VERSION => 2) b USING (i)") == [(1,)]


def test_parts_of_statements(lake: ducklake_spark.Lake) -> None:
    text = "INSERT INTO x SELECT  i,upper( s ) FROM lake.main.t WHERE i < ? ORDER BY i"
    tree = queries.parse_query_text(text, "spark").expression
    frame = queries.frame_of_tree(lake, tree, text, "spark", [3])
    assert frame.columns == ["i", "upper(s)"] and [tuple(row) for row in frame.collect()] == [
        (1, "A"),
        (2, "B"),
    ]
    condition = "i IN (SELECT max(i) FROM s1.t WHERE i < 3)"
    with queries.bound(lake, queries.parse_query_text(condition, "spark"), "spark") as found:
        assert lake.table("t").where(found).count() == 1
    value = "i // 2 + add(1)"
    assert "DIV" in queries.expression_text(lake, queries.parse_query_text(value, "duckdb"), "duckdb")
    with pytest.raises(InvalidInputError, match="subquery"):
        queries.expression_text(lake, queries.parse_query_text(condition, "spark"), "spark")
