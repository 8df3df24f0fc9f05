"""Statements that Spark itself refuses for such catalogs, and what dbt-spark sends: answered by the lake."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from ducklake_spark import ConstraintError, InvalidInputError, NotFoundError
from tests.interop.oracle import Oracle
from tests.spark.conftest import NativeLake

pytestmark = pytest.mark.spark


def test_analyze_needs_nothing(native: NativeLake) -> None:
    native.table("ana", "a INT, b VARCHAR", (1, "x"))
    before = native.lake.version
    for what in (
        "TABLE nat.main.ana COMPUTE STATISTICS",
        "TABLE nat.main.ana COMPUTE STATISTICS NOSCAN",
        "TABLE nat.main.ana COMPUTE STATISTICS FOR ALL COLUMNS",
        "TABLE nat.main.ana COMPUTE STATISTICS FOR COLUMNS a, B",
        "TABLES IN nat.main COMPUTE STATISTICS",
    ):
        assert native.rows(f"ANALYZE {what}") == []
    assert native.lake.version == before
    with pytest.raises(NotFoundError, match='no column "nothing"'):
        native.sql("ANALYZE TABLE nat.main.ana COMPUTE STATISTICS FOR COLUMNS a, nothing")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        native.sql("ANALYZE TABLE nat.main.nothing COMPUTE STATISTICS")


def test_set_not_null(native: NativeLake, oracle: Oracle) -> None:
    native.table("nn", "a INT, b VARCHAR", (1, None))
    native.sql("EXPLAIN ALTER TABLE nat.main.nn ALTER COLUMN a SET NOT NULL")
    assert native.lake["nn"].definition.columns[0].nulls_allowed
    native.sql("ALTER TABLE nat.main.nn ALTER COLUMN a SET NOT NULL")
    assert not native.lake["nn"].definition.columns[0].nulls_allowed
    with pytest.raises(ConstraintError, match="holds NULL"):
        native.sql("ALTER TABLE nat.main.nn CHANGE COLUMN b SET NOT NULL")
    oracle.attach(native.uri, name="nat")
    with pytest.raises(Exception, match="NOT NULL constraint failed"):
        oracle.execute("INSERT INTO nat.main.nn VALUES (NULL, 'x')")


def test_views_show_what_they_are(native: NativeLake) -> None:
    native.table("seen", "a INT, b VARCHAR", (1, "x"), (2, "y"))
    native.sql("CREATE VIEW nat.main.sees AS SELECT a + 1 AS c FROM nat.main.seen WHERE b LIKE 'y%'")
    [(text,)] = native.rows("SHOW CREATE TABLE nat.main.sees")
    assert text.startswith("CREATE VIEW `nat`.`main`.`sees` AS\nSELECT ")
    native.sql("DROP VIEW nat.main.sees")
    native.sql(text)
    assert native.rows("SELECT * FROM nat.main.sees") == [(3,)]
    assert any("VIEW" in str(row) for row in native.rows("DESCRIBE EXTENDED nat.main.sees"))
    for name in ("sees", "seen.files"):
        with pytest.raises(InvalidInputError, match="no table whose rows can be changed"):
            native.sql(f"TRUNCATE TABLE nat.main.{name}")


@pytest.mark.skipif(
    "tuple(map(int, __import__('pyspark').__version__.split('.')[:2])) < (4, 3)",
    reason="until Spark 4.3 only its own catalog has CREATE TABLE LIKE",
)
def test_create_table_like(native: NativeLake) -> None:
    native.sql(
        "CREATE TABLE nat.main.model (a INT NOT NULL, at TIMESTAMP, s STRING DEFAULT 'it') "
        "PARTITIONED BY (months(at)) TBLPROPERTIES ('parquet_compression' = 'zstd')"
    )
    for _ in range(2):
        native.sql("CREATE TABLE IF NOT EXISTS nat.main.copy LIKE nat.main.model")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        native.sql("CREATE TABLE nat.main.copy LIKE nat.main.model")
    assert native.lake["copy"].partitioned_by == ['month("at")']
    assert not native.lake["copy"].definition.columns[0].nulls_allowed
    assert native.lake.get_option("parquet_compression", table="copy") == "zstd"
    native.sql("INSERT INTO nat.main.copy (a) VALUES (1)")
    assert native.rows("SELECT * FROM nat.main.copy") == [(1, None, "it")]


@pytest.mark.skipif("__import__('pyspark').__version__ < '4.1'", reason="Spark 4.0 has no constraints")
def test_check_constraints_are_refused(native: NativeLake) -> None:
    native.table("chk", "a INT", (1,))
    with pytest.raises(InvalidInputError, match="no CHECK constraints"):
        native.sql("ALTER TABLE nat.main.chk ADD CONSTRAINT positive CHECK (a > 0)")


def test_what_dbt_sends(native: NativeLake, oracle: Oracle) -> None:
    """Its own words, with names of two parts: a seed, an incremental model, and a snapshot's merge from a view."""
    native.sql("USE nat")
    try:
        native.sql("create schema if not exists dbt")
        native.sql("create table dbt.seed (id bigint, status string, at timestamp) using ducklake")
        native.sql(
            "insert into dbt.seed values (cast(1.0 as bigint), cast('sent' as string), cast('2026-01-05 10:00:00' as timestamp)),"
            "(cast(2.0 as bigint), cast('sent' as string), cast('2026-02-05 10:00:00' as timestamp))"
        )
        for _ in range(2):
            native.sql(
                "create or replace table dbt.orders using ducklake tblproperties ('parquet_compression' = 'zstd') "
                "partitioned by (months(at)) as select id, status, at from dbt.seed"
            )
        native.sql("update dbt.seed set status = 'back' where id = 2")
        native.sql("insert into dbt.seed values (3, 'sent', timestamp'2026-02-06 00:00:00')")
        native.sql("create or replace temporary view orders__dbt_tmp as select * from dbt.seed where id > 1")
        native.sql(
            "merge into dbt.orders as DBT_INTERNAL_DEST using orders__dbt_tmp as DBT_INTERNAL_SOURCE "
            "on DBT_INTERNAL_SOURCE.id = DBT_INTERNAL_DEST.id "
            "when matched then update set * when not matched then insert *"
        )
        native.sql(
            "create or replace view dbt.history__dbt_tmp as select *, md5(coalesce(cast(id as string), '') || '|') as k from dbt.seed"
        )
        native.sql(
            "create or replace table dbt.history using ducklake as select * from dbt.history__dbt_tmp where id = 1"
        )
        native.sql(
            "merge into dbt.history as d using dbt.history__dbt_tmp as s on s.k = d.k "
            "when matched and d.status = 'none' then update set status = s.status when not matched then insert *"
        )
        native.sql("drop view if exists dbt.history__dbt_tmp")
        assert native.rows("show views in dbt") == []
        assert {row[1] for row in native.rows("show tables in dbt like '*'")} == {"seed", "orders", "history"}
        described = [row[0] for row in native.sql("describe extended dbt.orders").collect()]
        assert described[: described.index("")][:3] == ["id", "status", "at"]
    finally:
        native.sql("USE spark_catalog.default")
    oracle.attach(native.uri, name="nat")
    orders = oracle.execute("SELECT id, status FROM nat.dbt.orders ORDER BY id")
    assert orders == [(1, "sent"), (2, "back"), (3, "sent")]
    assert oracle.execute("SELECT count(DISTINCT k) FROM nat.dbt.history") == [(3,)]


def test_replace_columns_keeps_those_that_come_again(native: NativeLake) -> None:
    native.table("rep", "a INT, b VARCHAR, c INT", (1, "x", 3))
    native.sql("ALTER TABLE nat.main.rep REPLACE COLUMNS (a BIGINT COMMENT 'wide', c INT, d STRING)")
    assert native.rows("SELECT * FROM nat.main.rep") == [(1, 3, None)]
    assert native.lake["rep"].types == {"a": "BIGINT", "c": "INTEGER", "d": "VARCHAR"}
    with pytest.raises(InvalidInputError, match="in the order in which they came"):
        native.sql("ALTER TABLE nat.main.rep REPLACE COLUMNS (c INT, a BIGINT)")
    assert native.lake["rep"].columns == ["a", "c", "d"]


def test_show_partitions_names_the_way(native: NativeLake) -> None:
    native.table("par", "a INT", partitioned_by=["a"])
    with pytest.raises(InvalidInputError, match=r"stands in nat\.main\.par\.partitions"):
        native.sql("SHOW PARTITIONS nat.main.par")


@pytest.mark.skipif(
    "tuple(map(int, __import__('pyspark').__version__.split('.')[:2])) < (4, 3)", reason="has no such INSERT"
)
def test_insert_with_schema_evolution(native: NativeLake) -> None:
    native.table("evo", "a INT", (1,))
    native.sql("INSERT WITH SCHEMA EVOLUTION INTO nat.main.evo BY NAME SELECT 2 AS a, 'x' AS b")
    assert native.rows("SELECT * FROM nat.main.evo") == [(1, None), (2, "x")]


def test_a_null_where_none_may_be_is_named(native: NativeLake) -> None:
    native.table("full", "a INT, b VARCHAR", (1, "x"), not_null=["a"])
    assert not native.spark.table("nat.main.full").schema["a"].nullable
    before = native.lake.version
    for statement in (
        "INSERT INTO nat.main.full VALUES (NULL, 'y')",
        "INSERT INTO nat.main.full SELECT CAST(NULL AS INT), 'y' FROM range(100)",
        "INSERT OVERWRITE nat.main.full VALUES (NULL, 'y')",
        "UPDATE nat.main.full SET a = NULL",
        "MERGE INTO nat.main.full t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = NULL",
    ):
        with pytest.raises(ConstraintError, match='column "a" of table "full"'):
            native.sql(statement)
    assert native.lake.version == before
