"""Statements that define, show and call: in DuckDB's dialect they do what the extension does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import DuckLakeError, InvalidInputError, Lake, NotFoundError, TransactionError
from tests.interop import catalogs
from tests.interop.oracle import Oracle
from tests.interop.test_ddl_twins import SCRIPTS
from tests.sql.twins import Twins, twins

pytestmark = pytest.mark.spark


@pytest.fixture
def two(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> Iterator[Twins]:
    with twins(oracle, spark, tmp_path) as pair:
        yield pair


@pytest.fixture
def duck(lake: Lake, spark: SparkSession) -> Any:
    """Runs statements of DuckDB's dialect on a lake; rows as tuples."""
    return lambda text: [tuple(row) for row in lake.sql(text, "duckdb").collect()]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_extensions_statements_leave_the_extensions_catalog(
    oracle: Oracle, spark: SparkSession, tmp_path: Path, script: str
) -> None:
    theirs, ours = (f"ducklake:{tmp_path / side}.duckdb" for side in ("theirs", "ours"))
    data_path = str(tmp_path / "data")
    statements = [sql for sql, _ in SCRIPTS[script]]
    oracle.attach(theirs, data_path=data_path)
    for statement in statements:
        oracle.execute(statement)
    oracle.detach()
    with ducklake_spark.attach(ours, spark=spark, name="lake", data_path=data_path) as lake:
        for statement in statements:
            lake.sql(statement, dialect="duckdb")
    catalogs.assert_same(theirs, ours)


TYPES = (
    "a BOOLEAN, b TINYINT, c SMALLINT, d INTEGER, e BIGINT, f HUGEINT, g UTINYINT, h USMALLINT, i UINTEGER, j UBIGINT, "
    "k FLOAT, l DOUBLE, m DECIMAL, n DECIMAL(9,4), o VARCHAR, p BLOB, q DATE, r TIME, s TIMESTAMP, t TIMESTAMPTZ, "
    "u TIMESTAMP_S, v TIMESTAMP_MS, w TIMESTAMP_NS, x INTERVAL, y UUID, z JSON, aa INT8, ab INT4, ac INT2, ad INT1, "
    "ae INT64, af LONG, ag SHORT, ah REAL, ai FLOAT4, aj FLOAT8, ak NUMERIC(5), al TEXT, am STRING, an CHAR(3), "
    "ao VARCHAR(10), ap BYTEA, aq DATETIME, ar TIMESTAMP(3), as_ TIMESTAMP WITH TIME ZONE, at_ TIME WITH TIME ZONE, "
    "au INT[], av STRUCT(x INT, y VARCHAR[])[], aw MAP(VARCHAR, STRUCT(k DATE)), ax DOUBLE PRECISION, ay LOGICAL, "
    "az SIGNED, ba FLOAT(30), bb CHARACTER VARYING(4), bc BPCHAR, bd OID, be TIMESTAMP WITHOUT TIME ZONE, bf INT ARRAY"
)


def test_a_name_of_a_type_means_what_it_means_in_duckdb(two: Twins) -> None:
    two.same(f"CREATE TABLE t({TYPES})")
    two.same("DESCRIBE t")


QUESTIONS = [
    "DESCRIBE t",
    "DESC main.t",
    "SHOW t",
    "DESCRIBE SELECT a + 1 AS a, c + 1 AS d, st, l FROM t",
    "DESCRIBE TABLE t",
    "SHOW TABLES FROM main",
    "SHOW TABLES FROM s",
    "SELECT * FROM t",
]


def test_questions_are_answered_as_by_the_extension(two: Twins) -> None:
    two.same(
        "CREATE TABLE t(a INT DEFAULT 42, b VARCHAR DEFAULT 'it''s', c DOUBLE DEFAULT (1 + 2), d DATE NOT NULL, "
        '"odd col" BOOLEAN, st STRUCT("a b" INT, x VARCHAR), l INT[], m MAP(INT, VARCHAR), e TIMESTAMP DEFAULT now())'
    )
    two.same("CREATE SCHEMA s")
    two.same("CREATE VIEW v AS SELECT a, b FROM t")
    two.same("CREATE TABLE s.u(i INT)")
    for question in QUESTIONS:
        two.same(question)
    for question, key in (("SHOW ALL TABLES", 0), ("SHOW SCHEMAS", 0), ("DESCRIBE", 0)):
        theirs, ours = two.run(question)
        assert ours == [row for row in theirs if row[key] in ("lake", "memory")], question
    assert two.run("SHOW DATABASES")[1] == [("lake",), ("memory",)]
    assert [row[:3] for row in two.run("DESCRIBE v")[1]] == [row[:3] for row in two.run("DESCRIBE v")[0]]
    two.lake.sql("USE s", "duckdb")
    two.oracle.execute("USE lake.s")
    assert [tuple(row) for row in two.lake.sql("SHOW TABLES", "duckdb").collect()] == two.oracle.execute(
        "SHOW TABLES"
    )


def test_create_table_can_be_shown_and_run(lake: Lake, spark: SparkSession) -> None:
    for dialect in ("duckdb", "spark"):
        lake.sql(
            "CREATE TABLE t(a INT NOT NULL DEFAULT 42, \"o \"\"d`d\" VARCHAR DEFAULT 'it''s', tz TIMESTAMPTZ, ts TIMESTAMP, "
            'u UUID, st STRUCT("a b" INT, l UBIGINT[]), m MAP(VARCHAR, DECIMAL(9,2)));'
            "ALTER TABLE t SET PARTITIONED BY (a, year(tz), bucket(4, u)); ALTER TABLE t SET SORTED BY (tz DESC, a + 1)",
            "duckdb",
        )
        before = lake["t"]
        facts = (before.types, before.partitioned_by, before.sorted_by)
        defaults = [(column.default_value, column.nulls_allowed) for column in before.definition.columns]
        [(text,)] = lake.sql("SHOW CREATE TABLE t", dialect).collect()
        lake.sql("DROP TABLE t")
        lake.sql(text, dialect)
        after = lake["t"]
        assert (after.types, after.partitioned_by, after.sorted_by) == facts, text
        assert [
            (column.default_value, column.nulls_allowed) for column in after.definition.columns
        ] == defaults
        lake.sql("DROP TABLE t")


def test_summarize_and_explain(lake: Lake, spark: SparkSession) -> None:
    lake.sql(
        "CREATE TABLE t AS SELECT * FROM VALUES (1, 'x', 2.5D), (3, 'y', 4.5D), (NULL, 'x', NULL) AS t(a, b, c)"
    )
    rows = {row["column_name"]: row for row in lake.sql("SUMMARIZE t", "duckdb").collect()}
    assert list(rows) == ["a", "b", "c"]
    a, b = rows["a"], rows["b"]
    assert (a["column_type"], a["min"], a["max"], a["approx_unique"], a["avg"], a["count"]) == (
        "INTEGER", "1", "3", 2, "2.0", 3
    )  # fmt: skip
    assert str(a["null_percentage"]) == "33.33" and a["std"].startswith("1.4142")
    assert (b["min"], b["max"], b["avg"]) == ("x", "y", None)
    assert lake.sql("SUMMARIZE SELECT a FROM t WHERE a > 1", "duckdb").collect()[0]["max"] == "3"
    [(plan,)] = lake.sql("EXPLAIN SELECT a FROM t WHERE a > 1").collect()
    assert "Physical Plan" in plan and "Scan" in plan
    [(key, plan)] = lake.sql("EXPLAIN FROM t", "duckdb").collect()
    assert key == "physical_plan" and "Scan" in plan
    with pytest.raises(InvalidInputError, match="EXPLAIN DELETE"):
        lake.sql("EXPLAIN DELETE FROM t")


# Transactions.


def test_transactions_begin_commit_and_roll_back(two: Twins) -> None:
    two.same("CREATE TABLE t(a INT)")
    for statement in ("BEGIN", "INSERT INTO t VALUES (1)", "CREATE TABLE u(a INT)", "ROLLBACK"):
        two.same(statement, ["t"] if statement == "ROLLBACK" else [])
    for statement in ("START TRANSACTION", "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)", "COMMIT"):
        two.same(statement)
    two.same_rows("t")
    assert two.lake.version == 2
    two.refused("COMMIT")
    two.refused("ROLLBACK")
    two.same("BEGIN TRANSACTION")
    assert "nested" in two.refused("BEGIN")
    two.run("ROLLBACK")


@pytest.mark.parametrize(
    ("failing", "aborts"),
    [
        ("INSERT INTO nope VALUES (1)", False),
        ("CREATE TABLE t(a INT)", False),
        ("SELECT nope FROM t", False),
        ("DELETE FROM t WHERE nope = 1", False),
        ("INSERT INTO t VALUES (1, 2)", False),
        ("INSERT INTO t VALUES (NULL)", True),
        ("INSERT INTO t SELECT 99999999999", True),
    ],
)
def test_a_statement_that_fails_while_it_runs_ends_the_transaction(
    two: Twins, failing: str, aborts: bool
) -> None:
    two.same("CREATE TABLE t(a INT NOT NULL)")
    two.same("BEGIN")
    two.same("INSERT INTO t VALUES (1)")
    two.refused(failing)
    if not aborts:
        two.same("INSERT INTO t VALUES (2)")
        two.same("COMMIT", ["t"])
        return
    assert "aborted" in two.refused("INSERT INTO t VALUES (2)")
    # The extension says nothing here, although nothing was committed.
    theirs, ours = two.run("COMMIT")
    assert theirs == [] and isinstance(ours, TransactionError)
    two.same_rows("t")
    two.same("INSERT INTO t VALUES (3)", ["t"])


def test_a_block_is_not_ended_by_sql(lake: Lake, spark: SparkSession) -> None:
    with lake.transaction():
        lake.sql("CREATE TABLE t(a INT)")
        for statement in ("COMMIT", "ROLLBACK", "BEGIN"):
            with pytest.raises(TransactionError):
                lake.sql(statement)
    assert "t" in lake


def test_several_changes_of_one_statement_are_made_together_or_not_at_all(
    lake: Lake, spark: SparkSession
) -> None:
    lake.sql("CREATE TABLE t(a INT); CREATE TABLE u(a INT)")
    version = lake.version
    lake.sql("ALTER TABLE t ADD COLUMNS (b STRING COMMENT 'the b', c DATE)")
    assert lake.version == version + 1
    for failing in ("ALTER TABLE t ADD COLUMNS (d INT, b INT)", "DROP TABLE t, nope"):
        with pytest.raises(DuckLakeError):
            lake.sql(failing)
        lake.sql("BEGIN")
        with pytest.raises(DuckLakeError):
            lake.sql(failing)
        lake.sql("COMMIT")
    assert lake["t"].columns == ["a", "b", "c"]


# Schemas in use.


def test_use_changes_what_plain_names_mean(duck: Any, lake: Lake) -> None:
    duck("CREATE TABLE only_main(a INT); CREATE TABLE t(a INT); CREATE SCHEMA s; USE s")
    duck("CREATE TABLE t(b INT); INSERT INTO t VALUES (5)")
    assert duck("SELECT b FROM t") == [(5,)] and lake.default_schema == "s"
    assert duck("SELECT count(*) FROM only_main") == [(0,)]
    duck("INSERT INTO only_main VALUES (1); DELETE FROM t; DROP TABLE t")
    assert duck("FROM t") == [] and lake["t"].columns == ["a"]
    for statement in ("USE lake", "USE lake.s", "USE lake.main", "USE s", "USE main"):
        duck(statement)
    assert lake.default_schema == "main"
    for statement in ("USE nope", "USE nowhere.main", "USE a.b.c"):
        with pytest.raises(DuckLakeError):
            duck(statement)


# Settings and calls.


def test_settings_of_the_extension_are_set_for_the_handle(duck: Any, lake: Lake) -> None:
    duck("CREATE TABLE t(a INT); SET ducklake_default_data_inlining_row_limit = 0; INSERT INTO t VALUES (1)")
    assert duck("SELECT file_count FROM lake.table_info()") == [(1,)]
    duck("RESET ducklake_default_data_inlining_row_limit; INSERT INTO t VALUES (2)")
    assert duck("SELECT file_count FROM lake.table_info()") == [(1,)]
    duck("SET GLOBAL ducklake_max_retry_count TO 3; SET ducklake_retry_backoff = 2.5")
    assert (lake._scope.config.policy.max_retry_count, lake._scope.config.policy.retry_backoff) == (3, 2.5)
    duck("RESET ducklake_max_retry_count")
    assert lake._scope.config.policy.max_retry_count == 10
    for bad in (
        "SET nope = 1",
        "SET ducklake_max_retry_count = 'x'",
        "SET ducklake_max_retry_count = -1",
        "SET threads",
    ):
        with pytest.raises(DuckLakeError):
            duck(bad)
    lake.sql("SET spark.sql.shuffle.partitions = 2")
    assert lake.sql("SET spark.sql.shuffle.partitions").collect()[0][1] == "2"


def test_calls(duck: Any, lake: Lake) -> None:
    duck("CREATE TABLE t(a INT)")
    duck("CALL lake.set_option('target_file_size', '64MB')")
    duck("CALL ducklake_set_option('lake', 'data_inlining_row_limit', 3, table_name => 't')")
    assert (lake.get_option("target_file_size"), lake.get_option("data_inlining_row_limit", table="t")) == (
        "64000000",
        "3",
    )
    duck(
        "BEGIN; CALL lake.main.set_commit_message('Ada', 'why', extra_info => 'x'); INSERT INTO t VALUES (1); COMMIT"
    )
    assert [row[4:] for row in duck("CALL lake.snapshots()")][-1] == ("Ada", "why", "x")
    assert duck("CALL ducklake_current_snapshot('lake')") == [(2,)]
    assert lake.sql("CALL set_option(option => 'sort_on_insert', value => false)").collect() == []
    assert lake.get_option("sort_on_insert") == "false"
    for bad in ("CALL nope()", "CALL lake.nope()", "CALL nowhere.snapshots()", "CALL lake.snapshots(1)", "CHECKPOINT nope",
                "CALL lake.set_option(value => 1, 'x')", "CALL lake.merge_adjacent_files(max_file_size => 0)"):  # fmt: skip
        with pytest.raises(DuckLakeError):
            duck(bad)


# What cannot be done says so.


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE x(a INT PRIMARY KEY)", "PRIMARY KEY"),
        ("CREATE TABLE x(a INT, PRIMARY KEY (a))", "PRIMARY KEY"),
        ("CREATE TABLE x(a INT UNIQUE)", "UNIQUE"),
        ("CREATE TABLE x(a INT CHECK (a > 1))", "CHECK"),
        ("CREATE TABLE x(a INT REFERENCES t)", "REFERENCES"),
        ("CREATE TABLE x(a INT, b INT GENERATED ALWAYS AS (a + 1))", "GENERATED"),
        ("CREATE TABLE x(a INT, b INT AS (a + 1))", "generated column"),
        ("CREATE TABLE x(a ENUM ('x'))", "enum"),
        ("CREATE TABLE x(a INT[3])", "fixed size"),
        ("CREATE TABLE x(a NOSUCH)", "NOSUCH|nosuch"),
        ("CREATE TABLE x(a INT) WITH (b = 1)", "WITH"),
        ("CREATE TABLE x()", "expected a name"),
        ("CREATE TABLE x", "expected the columns"),
        ("CREATE INDEX i ON t(a)", "INDEX"),
        ("CREATE SEQUENCE s", "SEQUENCE"),
        ("CREATE TYPE x AS ENUM ('a')", "TYPE"),
        ("CREATE OR REPLACE SCHEMA main", "CASCADE"),
        ("ALTER SCHEMA main RENAME TO x", "ALTER SCHEMA"),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", "constraint"),
        ("ALTER TABLE t ALTER a SET TYPE VARCHAR USING a::VARCHAR", "USING"),
        ("ALTER TABLE t ALTER a SET TYPE SMALLINT", "promotion"),
        ("ALTER TABLE t RENAME TO s.x", "schema"),
        ("ALTER TABLE t FROB", "FROB"),
        ("ALTER TABLE nope ADD COLUMN x INT", "nope"),
        ("COMMENT ON SCHEMA main IS 'x'", "COMMENT ON SCHEMA"),
        ("COMMENT ON COLUMN nope IS 'x'", "table.column"),
        ("GRANT ALL ON t TO x", "GRANT"),
        ("CHECKPOINT nope", "no attached lake"),
        ("ATTACH 'ducklake:x.ducklake' AS y (NOPE 1)", "NOPE|nope"),
        ("DETACH nope", "nope"),
        ("VACUUM t", "VACUUM"),
        ("EXECUTE nope", "nope"),
        ("PRAGMA nope", "nope"),
        ("COPY nope TO 'x.csv'", "nope"),
        ("DROP VIEW t", "t"),
        ("DROP MACRO nope", "nope"),
        ("frobnicate the table", "frobnicate"),
        ("1 + 1", "no statement"),
        ("", "no statement"),
        (";;", "no statement"),
        ("SELECT 'abc", "Cannot read"),
    ],
)
def test_what_cannot_be_done_says_so(lake_of_refusals: Lake, statement: str, message: str) -> None:
    with pytest.raises(DuckLakeError, match=message):
        lake_of_refusals.sql(statement, "duckdb")
    assert lake_of_refusals.version == 1


@pytest.fixture(scope="module")
def lake_of_refusals(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("refusals")
    with ducklake_spark.attach(f"ducklake:{folder / 'm.ducklake'}", spark=spark, name="lake") as lake:
        lake.create_table("t", {"a": "int"})
        yield lake


def test_an_error_names_the_statement_and_later_ones_do_not_run(lake: Lake, spark: SparkSession) -> None:
    with pytest.raises(NotFoundError, match="The statement is: DROP TABLE nope"):
        lake.sql("CREATE TABLE t(a INT); DROP TABLE nope; CREATE TABLE u(a INT)")
    assert lake.tables() == ["main.t"]
    for dialect in ("spark", "duckdb"):
        with pytest.raises(DuckLakeError, match=r"nope.* Statement 2 of 3 is: SELECT nope FROM t"):
            lake.sql("SELECT a FROM t; SELECT nope FROM t; CREATE TABLE u(a INT)", dialect)
    assert lake.tables() == ["main.t"]
    with pytest.raises(InvalidInputError):
        lake.sql("CREATE TABLE v(a INT); SELEC 1")
    assert lake.tables() == ["main.t"], "a text that cannot be read runs not at all"
