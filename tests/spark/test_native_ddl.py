"""Definitions through the session's own SQL: what the lake then has, and what Spark shows of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException

from ducklake_spark import DuckLakeError, InvalidInputError, NotFoundError
from tests.interop.oracle import Oracle
from tests.spark.conftest import NativeLake

pytestmark = pytest.mark.spark


def test_namespaces(native: NativeLake) -> None:
    native.sql("CREATE NAMESPACE nat.sales")
    native.sql("CREATE SCHEMA IF NOT EXISTS nat.sales")
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        native.sql("CREATE NAMESPACE nat.sales")
    assert native.rows("SHOW NAMESPACES IN nat") == [("main",), ("sales",)]
    assert "sales" in native.lake.schemas()
    native.sql("CREATE TABLE nat.sales.o (a INT)")
    with pytest.raises(AnalysisException, match=r"SCHEMA_NOT_EMPTY|NON_EMPTY"):
        native.sql("DROP NAMESPACE nat.sales")
    native.sql("DROP NAMESPACE nat.sales CASCADE")
    assert native.rows("SHOW NAMESPACES IN nat") == [("main",)]
    native.sql("DROP NAMESPACE IF EXISTS nat.sales")
    for statement in (
        "DROP NAMESPACE nat.sales",
        "SHOW TABLES IN nat.sales",
        "CREATE TABLE nat.sales.t (a INT)",
        "USE nat.sales",
    ):
        with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
            native.sql(statement)
    with pytest.raises(InvalidInputError, match="no namespaces in them"):
        native.sql("CREATE NAMESPACE nat.main.deeper")


def test_create_table_with_everything(native: NativeLake, oracle: Oracle) -> None:
    native.sql(
        "CREATE TABLE nat.main.o (id BIGINT NOT NULL COMMENT 'key', at TIMESTAMP, st STRUCT<x: INT, y: ARRAY<STRING>>, "
        "q INT DEFAULT 7, s STRING DEFAULT 'it\\'s', n DECIMAL(10, 2)) USING ducklake PARTITIONED BY (days(at), "
        "bucket(4, id), s) COMMENT 'orders' TBLPROPERTIES ('parquet_compression' = 'zstd')"
    )
    table = native.lake["o"]
    assert table.types == {
        "id": "BIGINT",
        "at": "TIMESTAMP WITH TIME ZONE",
        "st": 'STRUCT("x" INTEGER, "y" VARCHAR[])',
        "q": "INTEGER",
        "s": "VARCHAR",
        "n": "DECIMAL(10,2)",
    }
    assert (table.comment, table.definition.columns[0].comment) == ("orders", "key")
    assert table.partitioned_by == ['day("at")', "bucket(4, id)", "s"]
    assert native.lake.get_option("parquet_compression", table="o") == "zstd"
    oracle.attach(native.uri, name="nat")
    oracle.execute("INSERT INTO nat.main.o (id, \"at\") VALUES (1, TIMESTAMPTZ '2026-01-02 03:04:05+00')")
    assert native.rows("SELECT id, q, s FROM nat.main.o") == [(1, 7, "it's")]
    described = dict(row[:2] for row in native.sql("DESCRIBE EXTENDED nat.main.o").collect())
    assert (described["Part 0"], described["Comment"], described["Provider"]) == (
        "days(at)",
        "orders",
        "ducklake",
    )
    shown = native.rows("SHOW CREATE TABLE nat.main.o")[0][0]
    assert "PARTITIONED BY (days(at), " in shown and "NOT NULL COMMENT 'key'" in shown
    assert ("parquet_compression", "zstd") in native.rows("SHOW TBLPROPERTIES nat.main.o")
    assert [row[0] for row in native.rows("SHOW COLUMNS IN nat.main.o")] == sorted(table.columns)
    native.sql("DROP TABLE nat.main.o")


ALTERS = {
    "ADD COLUMNS (n DOUBLE COMMENT 'd', st.z DATE)": {"n": "DOUBLE", "st": 'STRUCT("x" INTEGER, "z" DATE)'},
    "ADD COLUMN m MAP<STRING, INT>": {"m": "MAP(VARCHAR, INTEGER)"},
    "RENAME COLUMN b TO c": {"c": "VARCHAR", "b": None},
    "ALTER COLUMN a TYPE BIGINT": {"a": "BIGINT"},
    "DROP COLUMN b": {"b": None},
    "DROP COLUMN IF EXISTS nothing": {},
    "ALTER COLUMN b COMMENT 'words'": {},
}


@pytest.mark.parametrize("change", ALTERS)
def test_alter_columns(native: NativeLake, change: str) -> None:
    native.table("alt", "a INT, b VARCHAR, st STRUCT(x INT)", (1, "x", {"x": 2}))
    native.sql(f"ALTER TABLE nat.main.alt {change}")
    types = native.lake["alt"].types
    assert {name: types.get(name) for name in ALTERS[change]} == ALTERS[change]
    assert native.spark.table("nat.main.alt").count() == 1


def test_alter_the_rest(native: NativeLake) -> None:
    native.table("rest", "a INT, b VARCHAR", (1, "x"))
    table = native.lake["rest"]
    table.set_not_null("a")
    native.sql("ALTER TABLE nat.main.rest ALTER COLUMN a DROP NOT NULL")
    assert table.definition.columns[0].nulls_allowed
    native.sql("COMMENT ON TABLE nat.main.rest IS 'said'")
    native.sql("ALTER TABLE nat.main.rest ALTER COLUMN b COMMENT 'words'")
    assert (table.comment, table.definition.columns[1].comment) == ("said", "words")
    native.sql(
        "ALTER TABLE nat.main.rest SET TBLPROPERTIES ('target_file_size' = '10MB', 'comment' = 'other')"
    )
    assert (native.lake.get_option("target_file_size", table="rest"), table.comment) == ("10000000", "other")
    native.sql("ALTER TABLE nat.main.rest RENAME TO main.rested")
    assert "rested" in native.lake and "rest" not in native.lake
    native.sql("ALTER TABLE nat.main.rested RENAME TO nat.main.rest")
    native.sql("ALTER TABLE nat.main.rest RENAME TO nat.rested")
    native.sql("DROP TABLE nat.main.rested")
    native.sql("DROP TABLE IF EXISTS nat.main.rested")


@pytest.mark.skipif(
    "__import__('pyspark').__version__ < '4.1'", reason="Spark 4.0 takes no defaults of V2 tables"
)
def test_defaults_are_altered(native: NativeLake) -> None:
    native.table("def", "a INT, b INT")
    native.sql("ALTER TABLE nat.main.def ALTER COLUMN b SET DEFAULT 5")
    native.sql("INSERT INTO nat.main.def (a) VALUES (1)")
    native.sql("ALTER TABLE nat.main.def ALTER COLUMN b DROP DEFAULT")
    native.sql("INSERT INTO nat.main.def (a) VALUES (2)")
    assert native.rows("SELECT * FROM nat.main.def") == [(1, 5), (2, None)]


def test_cluster_by_is_the_sort_order(native: NativeLake) -> None:
    native.sql("CREATE TABLE nat.main.cl (a INT, b INT) CLUSTER BY (b, a)")
    assert [key.split()[0] for key in native.lake["cl"].sorted_by] == ["b", "a"]
    native.sql("ALTER TABLE nat.main.cl CLUSTER BY (a)")
    assert [key.split()[0] for key in native.lake["cl"].sorted_by] == ["a"]
    native.sql("ALTER TABLE nat.main.cl CLUSTER BY NONE")
    assert native.lake["cl"].sorted_by == []


MISTAKES = {
    "CREATE TABLE nat.main.bad (a INT) USING csv": "USING ducklake",
    "CREATE TABLE nat.main.bad (a INT) LOCATION '/tmp/x'": "LOCATION",
    "CREATE TABLE nat.main.bad (a INT) TBLPROPERTIES ('nothing' = '1')": "nothing",
    "CREATE TABLE nat.main.bad (a INT) PARTITIONED BY (truncate(4, a))": "does not partition by truncate",
    "CREATE TABLE nat.main.bad (a ARRAY<STRING COLLATE UTF8_LCASE>)": "no collations",
    "ALTER TABLE nat.main.mis ADD COLUMN b STRING COLLATE UTF8_LCASE": "no collations",
    "ALTER TABLE nat.main.mis ADD COLUMN b INT FIRST": "comes last",
    "ALTER TABLE nat.main.mis ALTER COLUMN a TYPE STRING": "only promotions",
    "ALTER TABLE nat.main.mis RENAME TO other.mis": "stays in its schema",
    "ALTER TABLE nat.main.mis UNSET TBLPROPERTIES ('target_file_size')": "cannot be unset",
    "CALL nat.system.nothing()": "no procedure",
    "CALL nat.system.list_files()": "table_name",
}


@pytest.mark.parametrize("statement", MISTAKES)
def test_mistakes_are_errors_that_say_what_is_wrong(native: NativeLake, statement: str) -> None:
    if "mis" not in native.lake:
        native.table("mis", "a INT", (1,))
    before = native.lake.version
    with pytest.raises((DuckLakeError, AnalysisException, ParseException), match=MISTAKES[statement]):
        native.sql(statement)
    assert native.lake.version == before


def test_spark_catalog(native: NativeLake) -> None:
    native.table("listed", "a INT, b VARCHAR")
    catalog = native.spark.catalog
    native.spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")  # Spark cannot list any tables without
    assert "listed" in [each.name for each in catalog.listTables("nat.main")]
    assert [each.name for each in catalog.listColumns("nat.main.listed")] == ["a", "b"]
    assert catalog.tableExists("nat.main.listed") and not catalog.tableExists("nat.main.nothing")
    assert catalog.getTable("nat.main.listed").catalog == "nat"
    assert "nat" in [each.name for each in catalog.listCatalogs()]
    catalog.setCurrentCatalog("nat")
    assert catalog.currentDatabase() == "main"
    assert "abs" in [each.name for each in catalog.listFunctions()]
    assert catalog.functionExists("abs") and not catalog.functionExists("nothing")
    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        native.sql("SELECT nothing(1)")
    catalog.setCurrentCatalog("spark_catalog")
    native.spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")


CALLS: dict[str, Any] = {
    "nat.system.snapshots()": None,
    "nat.snapshots()": None,
    "nat.ducklake_current_snapshot()": None,
    "nat.system.list_files('called')": None,
    "nat.system.list_files(table_name => 'called', schema => 'main')": None,
    "nat.system.table_info()": None,
    "nat.system.set_option('target_file_size', '20MB', table_name => 'called')": 0,
    "nat.system.options()": None,
    "nat.system.flush_inlined_data('called')": 1,
    "nat.system.merge_adjacent_files('called')": None,
    "nat.system.rewrite_data_files(delete_threshold => 0.5)": None,
    "nat.system.expire_snapshots(older_than => TIMESTAMP '2020-01-01 00:00:00')": 0,
    "nat.system.expire_snapshots(versions => array(0L), dry_run => true)": None,
    "nat.system.cleanup_old_files(dry_run => true)": None,
    "nat.system.delete_orphaned_files(dry_run => true)": None,
}


def test_call(native: NativeLake) -> None:
    native.table("called", "a INT", (1,), (2,))
    start = native.lake.version
    for call, count in CALLS.items():
        found = native.sql(f"CALL {call}").collect()
        assert count is None or len(found) == count, call
    feed = native.rows(f"CALL nat.system.table_changes('called', '{start}', '{start}')")
    assert [row[2:] for row in feed] == [("insert", 1), ("insert", 2)]
    assert native.rows("CALL nat.current_snapshot()") == [(native.lake.version,)]
    assert isinstance(native.sql("CALL nat.snapshots()").collect()[0].snapshot_time, datetime)
    with pytest.raises(NotFoundError, match="nothing"):
        native.sql("CALL nat.system.list_files('nothing')")


def test_views_are_created_shown_and_dropped(native: NativeLake, oracle: Oracle) -> None:
    native.table("seen", "a INT, b VARCHAR", (1, "x"), (2, "y"))
    native.sql("CREATE VIEW nat.main.vw (k) COMMENT 'c' AS SELECT a FROM nat.main.seen WHERE a > 1")
    assert native.rows("SELECT k FROM nat.main.vw") == [(2,)]
    assert native.lake.view("vw").comment == "c"
    oracle.attach(native.uri, name="nat")
    assert oracle.execute("SELECT k FROM nat.main.vw") == [(2,)]
    assert native.rows("SHOW VIEWS IN nat.main LIKE 'v*'") == [("main", "vw", False)]
    native.sql("EXPLAIN CREATE VIEW nat.main.never AS SELECT 1 AS a").collect()
    native.sql("CREATE VIEW IF NOT EXISTS nat.main.vw AS SELECT 1 AS a")
    assert native.spark.table("nat.main.vw").columns == ["k"]
    native.sql("USE nat.main")
    native.sql("CREATE OR REPLACE VIEW vw AS SELECT upper(b) AS u FROM seen")
    assert native.rows("SELECT * FROM vw") == [("X",), ("Y",)]
    assert native.rows("SHOW VIEWS") == [("main", "vw", False)]
    native.sql("USE spark_catalog.default")
    with pytest.raises(DuckLakeError, match="nothing"):
        native.sql("CREATE VIEW nat.main.bad AS SELECT * FROM nothing")
    for statement in ("DROP TABLE nat.main.vw", "DROP TABLE IF EXISTS nat.main.vw"):
        with pytest.raises(NotFoundError, match="is a view, not a table"):
            native.sql(statement)
    native.sql("DROP VIEW nat.main.vw")
    native.sql("DROP VIEW IF EXISTS nat.main.vw")
    with pytest.raises(NotFoundError, match="vw"):
        native.sql("DROP VIEW nat.main.vw")
    assert native.lake.views() == []
