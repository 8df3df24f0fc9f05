"""Statements in Spark's dialect: what they leave in the lake, and what they answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import DuckLakeError, Lake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One lake for all; each test has tables of its own."""
    folder = tmp_path_factory.mktemp("spark_statements")
    with ducklake_spark.attach(f"ducklake:{folder / 'm.ducklake'}", spark=spark, name="lake") as lake:
        yield lake


def rows(lake: Lake, text: str, args: Any = None) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(text, args=args).collect()]


def test_types_mean_what_they_mean_in_spark(shared: Lake) -> None:
    shared.sql(
        "CREATE TABLE types (a boolean, b byte, c short, d int, e long, f float, g real, h double, i decimal, j decimal(9,2), "
        "k string, l varchar(10), m char(3), n binary, o date, p timestamp, q timestamp_ntz, r timestamp_ltz, "
        "s array<struct<x: int, y: timestamp>>, t map<string, array<bigint>>, u struct<`a b`: tinyint, c numeric(4)>, "
        "v uuid, w timestamp_ns, x interval, y variant, z bigint)"
    )
    assert list(shared["types"].types.values()) == [
        "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "FLOAT", "DOUBLE", "DECIMAL(10,0)", "DECIMAL(9,2)",
        "VARCHAR", "VARCHAR", "VARCHAR", "BLOB", "DATE", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE",
        'STRUCT("x" INTEGER, "y" TIMESTAMP WITH TIME ZONE)[]', "MAP(VARCHAR, BIGINT[])", 'STRUCT("a b" TINYINT, "c" DECIMAL(4,0))',
        "UUID", "TIMESTAMP_NS", "INTERVAL", "VARIANT", "BIGINT",
    ]  # fmt: skip
    described = dict(row[:2] for row in rows(shared, "DESCRIBE types"))
    assert (described["p"], described["q"], described["s"]) == (
        "timestamp", "timestamp_ntz", "array<struct<x: int, y: timestamp>>"
    )  # fmt: skip


def test_a_table_like_another(shared: Lake) -> None:
    shared.sql(
        "CREATE TABLE model (id BIGINT NOT NULL COMMENT 'the key', at TIMESTAMP DEFAULT now(), n INT DEFAULT 7, "
        "s STRUCT<x: ARRAY<INT>>) PARTITIONED BY (year(at), bucket(4, id)) COMMENT 'the first'"
    )
    shared["model"].set_sorted_by("n DESC")
    shared.sql("INSERT INTO model (id) VALUES (1)")
    shared.sql("CREATE TABLE IF NOT EXISTS alike LIKE lake.main.model")
    alike, model = shared["alike"], shared["model"]
    assert (alike.types, alike.partitioned_by, alike.sorted_by, alike.comment) == (
        model.types, model.partitioned_by, model.sorted_by, "the first"
    )  # fmt: skip
    facts = [
        [
            (c.name, c.nulls_allowed, c.default_value, c.default_value_type, c.comment)
            for c in table.definition.columns
        ]
        for table in (alike, model)
    ]
    assert facts[0] == facts[1]
    shared.sql("INSERT INTO alike (id) VALUES (2)")
    assert rows(shared, "SELECT id, at IS NOT NULL, n FROM alike") == [(2, True, 7)]
    with pytest.raises(DuckLakeError, match=r"modle.*model"):
        shared.sql("CREATE TABLE other LIKE modle")


def test_tables_are_made_as_spark_users_write_them(shared: Lake) -> None:
    shared.sql("CREATE SCHEMA IF NOT EXISTS lake.sales; CREATE DATABASE IF NOT EXISTS sales")
    shared.sql(
        "CREATE TABLE IF NOT EXISTS lake.sales.orders (id BIGINT NOT NULL COMMENT 'the key', at TIMESTAMP, region STRING DEFAULT 'eu') "
        "USING ducklake PARTITIONED BY (days(at), bucket(4, id), region) COMMENT 'all orders'"
    )
    orders = shared["sales.orders"]
    assert orders.partitioned_by == ["day(at)", "bucket(4, id)", "region"] or orders.partitioned_by == [
        'day("at")', "bucket(4, id)", "region"
    ]  # fmt: skip
    assert (orders.comment, orders.definition.columns[0].comment) == ("all orders", "the key")
    assert not orders.definition.columns[0].nulls_allowed
    shared.sql("CREATE TABLE hive (a INT) PARTITIONED BY (p STRING)")
    assert shared["hive"].columns == ["a", "p"] and shared["hive"].partitioned_by == ["p"]
    assert rows(shared, "CREATE TABLE made PARTITIONED BY (k) AS SELECT id % 2 AS k, id FROM range(20)") == [
        (20,)
    ]
    assert rows(shared, "CREATE OR REPLACE TABLE made AS SELECT 1 AS one") == [(1,)]
    assert rows(shared, "CREATE TABLE IF NOT EXISTS made AS SELECT 2 AS two") == [(0,)]
    assert rows(shared, "SELECT * FROM made") == [(1,)]
    assert rows(shared, "CREATE TABLE sorted (a INT, b STRING) SORTED BY (b DESC, a)") == []
    assert shared["sorted"].sorted_by == ["b DESC NULLS LAST", "a ASC NULLS LAST"]
    with pytest.raises(DuckLakeError, match="two columns"):
        shared.sql("CREATE TABLE twice AS SELECT 1 AS a, 2 AS A")
    shared.sql("DROP TABLE IF EXISTS nope; DROP TABLE made, sorted; DROP SCHEMA sales CASCADE")
    assert "made" not in shared and "sales" not in shared.schemas()


def test_every_way_to_alter_a_table(shared: Lake) -> None:
    shared.sql("CREATE TABLE alt (a INT, st STRUCT<x: INT, n: STRUCT<p: INT>>, l ARRAY<STRUCT<q: INT>>)")
    alt = shared["alt"]
    for statement in (
        "ALTER TABLE alt ADD COLUMN b STRING DEFAULT 'none'",
        "ALTER TABLE alt ADD COLUMNS (c INT COMMENT 'see', d DATE, st.y STRING, l.element.r BIGINT)",
        "ALTER TABLE alt ADD COLUMN IF NOT EXISTS c BIGINT",
        "ALTER TABLE alt ALTER COLUMN a TYPE BIGINT",
        "ALTER TABLE alt ALTER COLUMN st.x TYPE BIGINT",
        "ALTER TABLE alt CHANGE COLUMN c TYPE BIGINT COMMENT 'seen'",
        "ALTER TABLE alt RENAME COLUMN d TO day",
        "ALTER TABLE alt RENAME COLUMN st.n.p TO pp",
        "ALTER TABLE alt ALTER COLUMN b SET DEFAULT concat('n', 'o')",
        "ALTER TABLE alt ALTER COLUMN a SET NOT NULL",
        "ALTER TABLE alt ALTER COLUMN a DROP NOT NULL",
        "ALTER TABLE alt ALTER COLUMN day COMMENT 'the day'",
        "ALTER TABLE alt DROP COLUMN st.y",
        "ALTER TABLE alt DROP COLUMNS (c, day)",
        "ALTER TABLE alt DROP COLUMN IF EXISTS nope",
        "ALTER TABLE alt SET PARTITIONED BY (bucket(8, a))",
        "ALTER TABLE alt SET SORTED BY (a)",
        "COMMENT ON TABLE alt IS 'it\\'s'",
        "COMMENT ON COLUMN alt.a IS 'an a'",
    ):
        shared.sql(statement)
    assert alt.types == {
        "a": "BIGINT", "st": 'STRUCT("x" BIGINT, "n" STRUCT("pp" INTEGER))', "l": 'STRUCT("q" INTEGER, "r" BIGINT)[]', "b": "VARCHAR",
    }  # fmt: skip
    assert (alt.comment, alt.definition.columns[0].comment) == ("it's", "an a")
    assert alt.definition.columns[3].default_value == "('n' || 'o')"
    assert (alt.partitioned_by, alt.sorted_by) == (["bucket(8, a)"], ["a ASC NULLS LAST"])
    shared.sql(
        "ALTER TABLE alt RESET PARTITIONED BY; ALTER TABLE alt RESET SORTED BY; ALTER TABLE alt ALTER COLUMN b DROP DEFAULT"
    )
    shared.sql(
        "ALTER TABLE alt RENAME TO main.altered; ALTER TABLE IF EXISTS alt DROP COLUMN a; COMMENT ON TABLE altered IS NULL"
    )
    assert (shared["altered"].partitioned_by, shared["altered"].comment) == ([], None)


def test_inserts(shared: Lake) -> None:
    shared.sql("CREATE TABLE ins (a INT, b STRING DEFAULT 'd', st STRUCT<x: INT, y: STRING>)")
    for statement, count in (
        ("INSERT INTO ins VALUES (1, 'one', named_struct('x', 1, 'y', 'p')), (2, NULL, NULL)", 2),
        ("INSERT INTO TABLE ins VALUES (3, DEFAULT, struct(3, 'q'))", 1),
        ("INSERT INTO ins (b, a) VALUES ('four', 4), (DEFAULT, 5)", 2),
        ("INSERT INTO ins BY NAME SELECT 6 AS a", 1),
        ("INSERT INTO ins (a, b) BY NAME SELECT 'seven' AS b, 7 AS a", 1),
        ("INSERT INTO ins (a) SELECT CAST(id + 8 AS INT) FROM range(2)", 2),
        ("WITH w AS (SELECT 10 AS a) INSERT INTO ins (a) SELECT a FROM w", 1),
    ):
        assert rows(shared, statement) == [(count,)], statement
    assert rows(shared, "SELECT a, b, st.x, st.y FROM ins ORDER BY a") == [
        (1, "one", 1, "p"), (2, None, None, None), (3, "d", 3, "q"), (4, "four", None, None), (5, "d", None, None),
        (6, "d", None, None), (7, "seven", None, None), (8, "d", None, None), (9, "d", None, None), (10, "d", None, None),
    ]  # fmt: skip
    assert rows(shared, "INSERT INTO ins REPLACE WHERE a > 2 SELECT 3, 'new', NULL") == [(1,)]
    assert rows(shared, "SELECT a, b FROM ins ORDER BY a") == [(1, "one"), (2, None), (3, "new")]
    assert rows(shared, "INSERT OVERWRITE ins SELECT a + 10, b, st FROM ins WHERE a = 1") == [(1,)]
    assert rows(shared, "SELECT a, b, st.y FROM ins") == [(11, "one", "p")]
    with pytest.raises(DuckLakeError, match="Cast"):
        shared.sql("INSERT INTO ins (a) VALUES ('12')")
    shared.sql("CREATE TABLE part (v INT, p STRING); INSERT INTO part VALUES (1, 'x'), (2, 'y')")
    assert rows(shared, "INSERT OVERWRITE TABLE part PARTITION (p = 'x') SELECT 9") == [(1,)]
    assert rows(shared, "INSERT INTO part PARTITION (p = 'z') VALUES (5)") == [(1,)]
    assert rows(shared, "SELECT v, p FROM part ORDER BY p") == [(9, "x"), (2, "y"), (5, "z")]


def test_updates_deletes_and_merges(shared: Lake) -> None:
    shared.sql("CREATE TABLE chg (a INT, b STRING, st STRUCT<x: INT, y: STRING>)")
    shared.sql(
        "INSERT INTO chg SELECT CAST(id AS INT), concat('v', id), named_struct('x', CAST(id AS INT), 'y', 'y') FROM range(10)"
    )
    assert rows(shared, "UPDATE chg AS c SET c.b = 'new', st.x = c.a * 2 WHERE c.a IN (1, 2)") == [(2,)]
    assert rows(shared, "UPDATE chg SET b = (SELECT max(b) FROM chg) WHERE a = 3") == [(1,)]
    assert rows(shared, "DELETE FROM chg WHERE a > (SELECT avg(a) + 3 FROM chg)") == [(2,)]
    assert rows(shared, "SELECT a, b, st.x FROM chg WHERE a IN (1, 2, 3) ORDER BY a") == [
        (1, "new", 2), (2, "new", 4), (3, "v9", 3)
    ]  # fmt: skip
    [(count,)] = rows(
        shared,
        "MERGE INTO chg t USING (SELECT CAST(id AS INT) AS a, 'm' AS b FROM range(6, 10)) s ON t.a = s.a "
        "WHEN MATCHED AND s.a = 6 THEN DELETE WHEN MATCHED THEN UPDATE SET t.b = s.b "
        "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, s.b) WHEN NOT MATCHED BY SOURCE AND t.a = 0 THEN UPDATE SET b = 'zero'",
    )
    assert count == 5
    assert rows(shared, "SELECT a, b FROM chg WHERE a = 0 OR a > 5 ORDER BY a") == [
        (0, "zero"), (7, "m"), (8, "m"), (9, "m")
    ]  # fmt: skip
    shared.sql("CREATE TABLE few (a INT, b STRING); INSERT INTO few VALUES (9, 'by name'), (77, 'by name')")
    assert rows(
        shared,
        "MERGE INTO chg USING few ON chg.a = few.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    ) == [(2,)]
    assert rows(shared, "SELECT a, b FROM chg WHERE b = 'by name' ORDER BY a") == [
        (9, "by name"),
        (77, "by name"),
    ]
    more = "MERGE WITH SCHEMA EVOLUTION INTO few USING (SELECT 77 AS a, DATE'2020-01-01' AS d) s ON few.a = s.a WHEN MATCHED THEN UPDATE SET *"
    assert rows(shared, more) == [(1,)]
    assert shared["few"].columns == ["a", "b", "d"]
    assert rows(shared, "TRUNCATE TABLE few") == [(2,)]


def test_parameters(shared: Lake) -> None:
    shared.sql("CREATE TABLE par (a INT, b STRING)")
    assert rows(
        shared, "INSERT INTO par VALUES (:a, :b), (2, 'two')", {"a": 1, "b": "it's; DROP TABLE par"}
    ) == [(2,)]
    assert rows(shared, "UPDATE par SET b = ? WHERE a = ?", ["'); DROP TABLE par; --", 2]) == [(1,)]
    assert rows(shared, "SELECT b FROM par WHERE a = ?", [2]) == [("'); DROP TABLE par; --",)]
    assert rows(shared, "DELETE FROM par WHERE b = :b", {"b": "it's; DROP TABLE par"}) == [(1,)]
    assert rows(
        shared,
        "MERGE INTO par USING (SELECT ? AS a) s ON par.a = s.a WHEN MATCHED AND s.a < ? THEN UPDATE SET b = ?",
        [2, 5, "set"],
    ) == [(1,)]
    assert rows(shared, "SELECT * FROM par") == [(2, "set")]
    assert rows(shared, "DELETE FROM par WHERE a = ?; SELECT ? + ?", [7, 30, 4]) == [(34,)], (
        "they count through the text"
    )
    assert [
        tuple(row) for row in shared.sql("UPDATE par SET b = $2 WHERE a = $1", "duckdb", [2, "$1"]).collect()
    ] == [(1,)]
    assert [
        tuple(row) for row in shared.sql("SELECT b FROM par WHERE a = $a", "duckdb", {"a": 2}).collect()
    ] == [("$1",)]
    with pytest.raises(DuckLakeError, match="args="):
        shared.sql("DELETE FROM par WHERE a = ?", args=[])
    with pytest.raises(DuckLakeError):
        shared.sql("DELETE FROM par WHERE a = :nope", args={"a": 1})


def test_views_and_functions(shared: Lake) -> None:
    shared.sql("CREATE TABLE base (a INT, b STRING); INSERT INTO base VALUES (1, 'x'), (2, 'y')")
    shared.sql("CREATE VIEW seen (n, t) COMMENT 'doubled' AS SELECT a * 2, upper(b) FROM base")
    assert rows(shared, "SELECT * FROM seen ORDER BY n") == [(2, "X"), (4, "Y")]
    shared.sql(
        "CREATE OR REPLACE VIEW seen AS SELECT a FROM base; ALTER VIEW seen RENAME TO looked; COMMENT ON VIEW looked IS 'l'"
    )
    assert (shared.view("looked").comment, rows(shared, "SELECT count(*) FROM looked")) == ("l", [(2,)])
    shared.sql("CREATE FUNCTION plus(x INT, y INT DEFAULT 10) RETURN x + y")
    shared.sql("CREATE OR REPLACE FUNCTION above(k INT) RETURNS TABLE RETURN SELECT a FROM base WHERE a > k")
    assert rows(shared, "SELECT plus(1), plus(1, 2)") == [(11, 3)]
    assert rows(shared, "SELECT * FROM above(1)") == [(2,)]
    assert rows(shared, "SHOW FUNCTIONS") == [("main.above",), ("main.plus",)]
    assert rows(shared, "SHOW VIEWS") == [("main", "looked", False)]
    shared.sql("DROP FUNCTION plus; DROP MACRO TABLE above; DROP VIEW looked")
    assert shared.macros() == [] and shared.views() == []


def test_questions(shared: Lake) -> None:
    shared.sql(
        "CREATE SCHEMA q; CREATE TABLE q.one (a INT COMMENT 'c', at TIMESTAMP) PARTITIONED BY (a, days(at)); CREATE TABLE q.two (b INT)"
    )
    assert ("q",) in rows(shared, "SHOW SCHEMAS") and rows(shared, "SHOW DATABASES LIKE 'q*'") == [("q",)]
    assert rows(shared, "SHOW TABLES IN q") == [("q", "one", False), ("q", "two", False)]
    assert rows(shared, "SHOW TABLES FROM lake.q LIKE '*w*|nope'") == [("q", "two", False)]
    assert (
        rows(shared, "SHOW COLUMNS IN q.one")
        == rows(shared, "SHOW COLUMNS FROM one IN q")
        == [("a",), ("at",)]
    )
    assert rows(shared, "DESCRIBE TABLE q.one") == [
        ("a", "int", "c"), ("at", "timestamp", None), ("# Partitioning", "", ""), ("Part 0", "`a`", ""), ("Part 1", "day(`at`)", ""),
    ]  # fmt: skip
    assert rows(shared, "DESC q.one a") == [("a", "int", "c")]
    extended = dict(row[:2] for row in rows(shared, "DESCRIBE EXTENDED q.one"))
    assert extended["Name"] == "lake.q.one" and extended["Provider"] == "ducklake"
    assert rows(shared, "DESCRIBE QUERY SELECT 1 AS a, now() AS t") == [
        ("a", "int", None),
        ("t", "timestamp", None),
    ]
    assert rows(shared, "TABLE q.two") == rows(shared, "VALUES (1) EXCEPT VALUES (1)") == []
    assert rows(shared, "DESCRIBE SCHEMA q") == [("Catalog Name", "lake"), ("Namespace Name", "q")]


def test_rows_that_went_in_by_sql_are_what_duckdb_reads(shared: Lake) -> None:
    shared.sql("CREATE TABLE moments (ltz TIMESTAMP, ntz TIMESTAMP_NTZ)")
    shared.sql(
        "INSERT INTO moments VALUES (TIMESTAMP'2020-01-01 10:00:00+02:00', TIMESTAMP_NTZ'2020-01-01 10:00:00')"
    )
    [(ltz, ntz)] = rows(shared, "SELECT CAST(ltz AS STRING), ntz FROM moments")
    assert (ltz, ntz) == ("2020-01-01 08:00:00", datetime(2020, 1, 1, 10))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE x (a INT) USING delta", "USING delta"),
        ("CREATE TABLE x (a INT) LOCATION '/x'", "LOCATION"),
        ("CREATE TABLE x (a INT) TBLPROPERTIES ('a' = 'b')", "set_option"),
        ("CREATE TABLE x (a INT) CLUSTERED BY (a) INTO 4 BUCKETS", "bucket"),
        ("CREATE TABLE x (a INT) LIKE ref", "LIKE"),
        ("CREATE EXTERNAL TABLE x (a INT)", "EXTERNAL"),
        ("CREATE TEMPORARY VIEW x AS SELECT 1", "createOrReplaceTempView"),
        ("CREATE FUNCTION f AS 'com.x.F'", "parameters"),
        ("CREATE FUNCTION f(x INT) RETURNS INT RETURN x", "RETURNS"),
        ("ALTER TABLE ref ADD COLUMN b INT FIRST", "FIRST"),
        ("ALTER TABLE ref ALTER COLUMN a AFTER b", "AFTER"),
        ("ALTER TABLE ref REPLACE COLUMNS (a INT)", "REPLACE COLUMNS"),
        ("ALTER TABLE ref SET TBLPROPERTIES ('a' = 'b')", "set_option"),
        ("ALTER TABLE ref DROP PARTITION (a = 1)", "DELETE"),
        ("ALTER VIEW v AS SELECT 1", "CREATE OR REPLACE VIEW"),
        ("INSERT OVERWRITE DIRECTORY '/x' SELECT 1", "DataFrame.write"),
        ("INSERT INTO ref PARTITION (a) SELECT 1", "without a value"),
        ("SHOW TBLPROPERTIES ref", "SHOW TBLPROPERTIES"),
        ("CACHE TABLE ref", "cache"),
        ("REFRESH TABLE ref", "newest snapshot"),
        ("ANALYZE TABLE ref COMPUTE STATISTICS", "statistics"),
        ("MSCK REPAIR TABLE ref", "repair"),
        ("LOAD DATA INPATH 'x' INTO TABLE ref", "LOAD"),
        ("OPTIMIZE ref", "OPTIMIZE"),
        ("ADD JAR 'x'", "ADD"),
        ("TRUNCATE TABLE ref PARTITION (a = 1)", "DELETE"),
        ("UPDATE ref SET a = 1, A = 2", "twice"),
        ("MERGE INTO ref USING ref ON true WHEN MATCHED THEN DELETE", "alias"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_says_so(shared: Lake, statement: str, message: str) -> None:
    if "ref" not in shared:
        shared.sql("CREATE TABLE ref (a INT)")
    version = shared.version
    with pytest.raises(DuckLakeError, match=message):
        shared.sql(statement)
    assert shared.version == version
