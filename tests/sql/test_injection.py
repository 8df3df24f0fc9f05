"""Hostile names, values, options and paths: they stay what they are, and no statement hides in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import hypothesis
import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import DuckLakeError, Lake
from ducklake_spark.sql.parser.outside import outside
from ducklake_spark.sql.parser.parse import parse
from tests.sql import test_dml, test_statements

HOSTILE = [
    "x; DROP TABLE victim",
    "x'; DROP TABLE victim; --",
    'x"; DROP TABLE victim; --',
    "x`; DROP TABLE victim; --",
    "x*/ DROP TABLE victim /*",
    "x\\'; DROP TABLE victim; --",
    "x\n; DROP TABLE victim",
    "{DUCKLAKE_CATALOG}.main.victim",
    "{victim} $victim ${victim} %s ?",
    "ducklake_view_0",
    "main.victim",
    "a=b/../../victim",
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("injection")
    with ducklake_spark.attach(f"ducklake:{folder / 'm.ducklake'}", spark=spark, name="lake") as lake:
        lake.sql("CREATE TABLE victim (a INT); INSERT INTO victim VALUES (1)")
        yield lake
        assert lake.sql("SELECT a FROM victim").collect() == [(1,)], "somebody touched the victim"


def quoted(name: str, dialect: str) -> str:
    mark = '"' if dialect == "duckdb" else "`"
    return mark + name.replace(mark, mark * 2) + mark


def literal(text: str, dialect: str) -> str:
    if dialect == "duckdb":
        return "'" + text.replace("'", "''") + "'"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.mark.spark
@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
def test_quoted_names_and_values_are_only_that(lake: Lake, dialect: str) -> None:
    names, values = [quoted(text, dialect) for text in HOSTILE], [literal(text, dialect) for text in HOSTILE]
    kind = "VARCHAR" if dialect == "duckdb" else "STRING"
    columns = ", ".join(f"{name} {kind} DEFAULT {value}" for name, value in zip(names, values, strict=True))
    same = " AND ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    lake.sql(f"CREATE OR REPLACE TABLE wide ({columns}, b INT)", dialect)
    lake.sql(f"INSERT INTO wide VALUES ({', '.join(values)}, 1); INSERT INTO wide (b) VALUES (2)", dialect)
    lake.sql(f"UPDATE wide SET b = b + 1, {names[0]} = {values[0]} WHERE {same}", dialect)
    found = lake.sql("SELECT * FROM wide ORDER BY b", dialect).collect()
    assert [tuple(row) for row in found] == [(*HOSTILE, 2), (*HOSTILE, 3)]
    everything = " AND ".join(f"{name} = ?" for name in names)
    assert lake.sql(f"DELETE FROM wide WHERE {everything} AND b = ?", dialect, [*HOSTILE, 2]).collect() == [
        (1,)
    ]
    assert lake.sql(f"SELECT b FROM wide WHERE {everything}", dialect, HOSTILE).collect() == [(3,)]


JAVA = "reflect('java.lang.System', 'setProperty', 'evil', '1')"
OUTSIDE = {
    "SELECT * FROM of_duckdb": ("ducklake_view", f"SELECT {JAVA} AS a"),
    "SELECT * FROM of_spark": ("ducklake_view", "SELECT TRANSFORM (1) USING 'touch evil' AS (a STRING)"),
    "SELECT scalar()": ("ducklake_macro_impl", JAVA),
    "SELECT * FROM many()": ("ducklake_macro_impl", f"SELECT {JAVA} AS a"),
}
"""Queries, and what somebody puts into the catalog for them, past all checks."""


@pytest.mark.spark
def test_what_a_lake_stores_calls_no_java_and_starts_no_program(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever may write to a lake could do anything as whoever reads it."""
    monkeypatch.chdir(tmp_path)
    with ducklake_spark.attach("ducklake:m.ducklake", name="trap") as lake:
        lake.create_view("of_duckdb", "SELECT 1 AS a")
        lake.create_view("of_spark", "SELECT 1 AS a")
        lake.create_macro("scalar", "1")
        lake.create_macro("many", "SELECT 1 AS a", table=True)
        for sql in (f"SELECT {JAVA} AS a", "SELECT TRANSFORM (1) USING 'touch evil' AS (a STRING)"):
            with pytest.raises(DuckLakeError, match="no text of a lake may do"):
                lake.create_view("v", sql)
    with duckdb.connect("m.ducklake") as catalog:
        for place, (table, text) in enumerate(OUTSIDE.values()):
            key = "view_name" if table == "ducklake_view" else "type"
            value = ("of_duckdb", "of_spark", "scalar", "table")[place]
            catalog.execute(f"UPDATE {table} SET sql = ? WHERE {key} = ?", [text, value])
        catalog.execute("UPDATE ducklake_view SET dialect = 'spark' WHERE view_name = 'of_spark'")
    with ducklake_spark.attach("ducklake:m.ducklake", name="trap") as lake:
        for query in OUTSIDE:
            for dialect in ("spark", "duckdb"):
                with pytest.raises(DuckLakeError, match="no text of a lake may do"):
                    lake.sql(query, dialect).collect()
        with pytest.raises(Exception, match="no text of a lake may do"):
            spark.sql("SELECT * FROM trap.main.of_duckdb").collect()
    assert not (tmp_path / "evil").exists()


def test_what_does_more_than_read_rows_is_seen_in_every_spelling() -> None:
    for text in (
        "SELECT Reflect /* x */ ('java.lang.System', 'exit', 0)",
        "SELECT system.builtin.`java_method`('java.lang.System', 'exit', 0)",
        "SELECT r'\\', try_reflect('java.lang.System', 'exit', 0), r'\\'",
        "SELECT TRANSFORM (a) USING 'cat' AS (x STRING) FROM t",
        'FROM t SELECT TRANSFORM (a) USING "cat"',
        "SELECT 1 AS a |> SELECT TRANSFORM (a) USING r'cat'",
    ):
        assert outside(text, "spark"), text
    for text in (
        "SELECT reflect, 'reflect(1)', transform(l, x -> x) FROM t JOIN u USING (reflect) -- reflect(1)",
        "SELECT * FROM t JOIN u USING(a)",
    ):
        assert outside(text, "spark") is None, text
    assert outside("PIVOT t ON a USING sum(b); FROM t USING SAMPLE 10%", "duckdb") is None


@pytest.mark.spark
def test_duckdb_has_no_select_into(lake: Lake, spark: SparkSession) -> None:
    with pytest.raises(DuckLakeError, match=r"no SELECT \.\.\. INTO"):
        lake.sql("SELECT a INTO evil FROM victim", "duckdb")
    assert not spark.catalog.tableExists("spark_catalog.default.evil")


@pytest.mark.spark
@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
def test_hostile_tables_views_schemas_and_macros(lake: Lake, dialect: str) -> None:
    for text in HOSTILE:
        name, value = quoted(text, dialect), literal(text, dialect)
        lake.sql(
            f"CREATE SCHEMA {name}; CREATE TABLE {name}.{name} ({name} INT); COMMENT ON TABLE {name}.{name} IS {value};"
            f"ALTER TABLE {name}.{name} RENAME COLUMN {name} TO a; ALTER TABLE {name}.{name} ADD COLUMN {name} INT;"
            f"ALTER TABLE {name}.{name} SET PARTITIONED BY ({name}); CREATE VIEW {name}.v AS SELECT a FROM {name}.{name};"
            f"CREATE MACRO {name}.m(a) AS a",
            dialect,
        )
        assert lake[(text, text)].comment == text and lake[(text, text)].columns == ["a", text]
        [(shown,)] = lake.sql(f"SHOW CREATE TABLE {name}.{name}", dialect).collect()
        lake.sql(f"DROP TABLE {name}.{name}; {shown}; DROP SCHEMA {name} CASCADE", dialect)
    assert lake.schemas() == ["main"]


@pytest.mark.spark
@pytest.mark.parametrize("text", HOSTILE[:-2], ids=range(len(HOSTILE) - 2))
def test_options_calls_and_paths_take_no_sql(lake: Lake, text: str) -> None:
    value = literal(text, "duckdb")
    for statement in (
        f"CALL lake.set_option({value}, 1)",
        f"CALL lake.set_option('parquet_compression', {value})",
        f"CALL lake.set_option('target_file_size', '1MB', table_name => {value})",
        f"CALL ducklake_snapshots({value})",
        f"CALL lake.table_changes({value}, 0, 1)",
        f"SET ducklake_target_file_size = {value}",
        f"USE {quoted(text, 'duckdb')}",
        f"SHOW TABLES FROM {quoted(text, 'duckdb')}",
        f"ALTER TABLE victim SET SORTED BY ({quoted(text, 'duckdb')})",
        f"ALTER TABLE victim SET PARTITIONED BY ({quoted(text, 'duckdb')})",
    ):
        with pytest.raises(DuckLakeError):
            lake.sql(statement, "duckdb")
    # A message is free text, and is kept as it is.
    lake.sql(
        f"BEGIN; CALL lake.set_commit_message({value}, {value}); COMMENT ON TABLE victim IS {value}; COMMIT",
        "duckdb",
    )
    assert lake.snapshots().orderBy("snapshot_id").tail(1)[0]["author"] == text


WORDS = sorted(
    {
        word
        for statement in [*test_dml.INSERTS, *test_dml.CHANGES, *test_dml.MERGES, *test_statements.QUESTIONS]
        for word in statement.split()
    }
)
STATEMENTS = [
    *test_dml.INSERTS, *test_dml.CHANGES, *test_dml.MERGES, *test_statements.QUESTIONS,
    "CREATE OR REPLACE TABLE s.t (a INT NOT NULL DEFAULT 3, b STRUCT(x INT, y VARCHAR[])) PARTITIONED BY (year(a), bucket(4, b))",
    "CREATE MACRO m(a, b := 5) AS a + b, (a) AS a",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS a.b.c INTEGER DEFAULT 3",
    "ALTER TABLE t ALTER COLUMN a SET DATA TYPE BIGINT",
    "CALL lake.set_option('a', 1, table_name => 'x')",
    "COMMENT ON COLUMN t.a IS 'x'",
]  # fmt: skip


DEFINITIONS = [
    "CREATE OR REPLACE TABLE s.t (a INT NOT NULL DEFAULT 3, b DECIMAL(9,2)) PARTITIONED BY (bucket(4, a)) SORTED BY (b DESC)",
    "CREATE OR REPLACE MACRO s.m(a, b := 5) AS a + b, (a) AS a",
    "CREATE VIEW IF NOT EXISTS s.v (x) AS SELECT a FROM s.t",
    "ALTER TABLE s.t ADD COLUMN IF NOT EXISTS st.y INT DEFAULT 3",
    "ALTER TABLE s.t RENAME COLUMN st.x TO z",
    "ALTER TABLE s.t ALTER COLUMN a SET DATA TYPE BIGINT",
    "ALTER TABLE s.t SET SORTED BY (a DESC NULLS FIRST, lower(st.x))",
    "COMMENT ON COLUMN s.t.a IS 'x'",
    "DROP TABLE IF EXISTS s.t CASCADE",
    "BEGIN TRANSACTION",
    "USE lake.s",
    "SET ducklake_max_retry_count = 3",
    "SHOW TABLES FROM s",
    "CALL lake.set_option('sort_on_insert', true, table_name => 't', schema => 's')",
]


@st.composite
def mangled(draw: st.DrawFn, statements: Sequence[str] = STATEMENTS) -> str:
    """A statement in which some words were lost, doubled, swapped or replaced."""
    words = draw(st.sampled_from(statements)).split()
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(len(words) - 1, 0)))
        match draw(st.sampled_from(["drop", "double", "swap", "replace", "add"])):
            case "drop" if words:
                del words[place]
            case "double" if words:
                words.insert(place, words[place])
            case "swap" if len(words) > 1:
                other = draw(st.integers(0, len(words) - 1))
                words[place], words[other] = words[other], words[place]
            case "replace" if words:
                words[place] = draw(st.sampled_from([*WORDS, *HOSTILE, "(", ")", ",", ";", "'", '"', "`"]))
            case _:
                words.insert(place, draw(st.text(max_size=8)))
    return " ".join(words)


@hypothesis.given(mangled(), st.sampled_from(["spark", "duckdb"]))
@hypothesis.settings(max_examples=400)
def test_reading_gives_statements_or_an_error_of_ours(text: str, dialect: str) -> None:
    try:
        found = parse(text, dialect)
    except DuckLakeError:
        return
    assert all(statement.text for statement in found)


@pytest.mark.spark
@hypothesis.given(st.data())
@hypothesis.settings(max_examples=40, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_running_gives_a_result_or_an_error_of_ours(lake: Lake, data: st.DataObject) -> None:
    """Statements that need no Spark job, so that many can be tried."""
    text = data.draw(mangled(DEFINITIONS))
    try:
        lake.sql(text, data.draw(st.sampled_from(["spark", "duckdb"])))
    except DuckLakeError:
        pass
    finally:
        if lake._scope.transaction is not None:
            lake.rollback()
        lake.use("main")
        lake.sql(
            "DROP SCHEMA IF EXISTS s CASCADE; CREATE SCHEMA s; CREATE TABLE s.t (a INT, st STRUCT<x: INT>)"
        )
