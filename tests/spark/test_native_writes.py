"""Writes through the session's own SQL and DataFrame writers: rows as asked for, one snapshot each, read by the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from ducklake_spark import AmbiguousMergeError, InvalidInputError
from tests.interop.oracle import Oracle
from tests.spark.conftest import NativeLake

pytestmark = pytest.mark.spark

START = [(1, "a", 1), (2, "b", 1), (3, "c", 2)]


@pytest.fixture
def t(native: NativeLake, oracle: Oracle) -> Iterator[str]:
    """A table; what a test leaves in it, the oracle reads as Spark does."""
    name = native.table("t", "a INT, b VARCHAR, day INT", *START, partitioned_by=["day"])
    yield name
    oracle.attach(native.uri, name="nat")
    assert native.rows(f"SELECT * FROM {name}") == sorted(
        map(tuple, oracle.execute("SELECT * FROM nat.main.t")), key=repr
    )


def kept(*places: int) -> list[tuple[Any, ...]]:
    return [START[i] for i in places]


CHANGES = {
    "insert values": (
        "INSERT INTO {t} VALUES (4, 'd', 2), (5, NULL, 3)",
        [*START, (4, "d", 2), (5, None, 3)],
    ),
    "insert into table": ("INSERT INTO TABLE {t} TABLE {t}", [*START, *START]),
    "insert itself": (
        "INSERT INTO {t} SELECT a + 100, b, day FROM {t} WHERE day = 1",
        [*START, (101, "a", 1), (102, "b", 1)],
    ),
    "insert all columns in another order": (
        "INSERT INTO {t} (day, b, a) VALUES (5, 'x', 9)",
        [*START, (9, "x", 5)],
    ),
    "insert by name": ("INSERT INTO {t} BY NAME SELECT 'n' AS b, 6 AS day, 9 AS a", [*START, (9, "n", 6)]),
    "insert with a cast": ("INSERT INTO {t} VALUES (CAST(7 AS BIGINT), 5, 1)", [*START, (7, "5", 1)]),
    "insert with cte": (
        "WITH s AS (SELECT a + 50 AS a, b, day FROM {t}) INSERT INTO {t} SELECT * FROM s WHERE a > 52",
        [*START, (53, "c", 2)],
    ),
    "insert partition": ("INSERT INTO {t} PARTITION (day = 8) VALUES (4, 'p')", [*START, (4, "p", 8)]),
    "overwrite": ("INSERT OVERWRITE {t} SELECT 7, 'o', 7", [(7, "o", 7)]),
    "overwrite itself": (
        "INSERT OVERWRITE {t} SELECT a, upper(b), day FROM {t}",
        [(1, "A", 1), (2, "B", 1), (3, "C", 2)],
    ),
    "overwrite partition": (
        "INSERT OVERWRITE {t} PARTITION (day = 1) VALUES (4, 'p')",
        [START[2], (4, "p", 1)],
    ),
    "replace where": (
        "INSERT INTO {t} REPLACE WHERE day = 1 AND a > 1 SELECT 8, 'r', 1",
        [START[0], START[2], (8, "r", 1)],
    ),
    "truncate": ("TRUNCATE TABLE {t}", []),
    "delete": ("DELETE FROM {t} WHERE a = 2", kept(0, 2)),
    "delete all": ("DELETE FROM {t}", []),
    "delete nothing": ("DELETE FROM {t} WHERE false", START),
    "delete in": ("DELETE FROM {t} AS q WHERE q.a IN (SELECT max(a) FROM {t})", kept(0, 1)),
    "delete not in": ("DELETE FROM {t} WHERE a NOT IN (SELECT a FROM {t} WHERE day = 2)", kept(2)),
    "delete correlated": (
        "DELETE FROM {t} o WHERE EXISTS (SELECT 1 FROM {t} i WHERE i.day = o.day AND i.a > o.a)",
        kept(1, 2),
    ),
    "delete scalar": ("DELETE FROM {t} WHERE a < (SELECT avg(a) FROM {t})", kept(1, 2)),
    "delete by row id": ("DELETE FROM {t} WHERE rowid = 0", kept(1, 2)),
    "update": (
        "UPDATE {t} AS u SET b = concat(u.b, '!'), a = a + 10 WHERE day = 1",
        [(11, "a!", 1), (12, "b!", 1), START[2]],
    ),
    "update all": ("UPDATE {t} SET day = 0", [(1, "a", 0), (2, "b", 0), (3, "c", 0)]),
    "update swaps": ("UPDATE {t} SET a = day, day = a WHERE a = 3", [*kept(0, 1), (2, "c", 3)]),
    "update by subqueries": (
        "UPDATE {t} SET b = (SELECT max(b) FROM {t}) WHERE a IN (SELECT min(a) FROM {t})",
        [(1, "c", 1), *kept(1, 2)],
    ),
    "update casts": ("UPDATE {t} SET a = CAST(7 AS BIGINT), b = 5 WHERE a = 1", [(7, "5", 1), *kept(1, 2)]),
    "merge all clauses": (
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (1, 'del', 1), (2, 'upd', 1), (9, 'new', 9), (8, 'no', 8) AS "
        "s(a, b, day)) s ON t.a = s.a WHEN MATCHED AND s.b = 'del' THEN DELETE WHEN MATCHED THEN UPDATE SET b = s.b "
        "WHEN NOT MATCHED AND s.a > 8 THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.day = 2 THEN UPDATE SET b = 'or'",
        [(2, "upd", 1), (3, "or", 2), (9, "new", 9)],
    ),
    "merge star": (
        "MERGE INTO {t} USING (SELECT a + 1 AS a, upper(b) AS b, day FROM {t}) s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [(1, "a", 1), (2, "A", 1), (3, "B", 1), (4, "C", 2)],
    ),
    "merge with cte": (
        "WITH s AS (SELECT 1 AS k, 'cte' AS v) MERGE INTO {t} t USING s ON t.a = s.k WHEN MATCHED THEN UPDATE SET t.b = v",
        [(1, "cte", 1), *kept(1, 2)],
    ),
    "merge inserts only": (
        "MERGE INTO {t} t USING (SELECT 3 AS a, 'x' AS b, 1 AS day UNION ALL SELECT 4, 'y', 1) s ON t.a = s.a "
        "WHEN NOT MATCHED THEN INSERT (a, b, day) VALUES (s.a, s.b, s.day)",
        [*START, (4, "y", 1)],
    ),
    "merge deletes by source": (
        "MERGE INTO {t} t USING (SELECT 1 AS a) s ON t.a = s.a WHEN NOT MATCHED BY SOURCE THEN DELETE",
        kept(0),
    ),
    "merge on a subquery": (
        "MERGE INTO {t} t USING (SELECT 3 AS a) s ON t.a = s.a WHEN MATCHED AND t.a IN (SELECT max(a) FROM {t}) "
        "THEN UPDATE SET b = 'top'",
        [*kept(0, 1), (3, "top", 2)],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_statements(native: NativeLake, t: str, change: str) -> None:
    statement, expected = CHANGES[change]
    before = native.lake.version
    assert native.sql(statement.format(t=t)).collect() == []
    assert native.rows(f"SELECT * FROM {t}") == sorted(expected, key=repr)
    assert native.lake.version - before == (0 if change == "delete nothing" else 1)


def test_omitted_columns_take_their_defaults(native: NativeLake) -> None:
    name = native.table(
        "d", "a INT, b VARCHAR, c INT, d DATE", defaults={"b": "it's", "c": 7, "d": "2026-01-02"}
    )
    native.sql(f"INSERT INTO {name} (a) VALUES (1)")
    native.sql(f"INSERT INTO {name} BY NAME SELECT 2 AS a, 8 AS c")
    native.sql(f"INSERT INTO {name} VALUES (3, DEFAULT, DEFAULT, DEFAULT)")
    native.sql(
        f"MERGE INTO {name} d USING (SELECT 4 AS k) ON d.a = k WHEN NOT MATCHED THEN INSERT (a, c) VALUES (k, DEFAULT)"
    )
    native.sql(f"UPDATE {name} SET c = DEFAULT WHERE a = 2")
    found = native.rows(f"SELECT a, b, c, CAST(d AS STRING) FROM {name}")
    assert found == [(i, "it's", 7, "2026-01-02") for i in (1, 2, 3, 4)]


def test_not_null_is_kept(native: NativeLake) -> None:
    name = native.table("n", "a INT, b INT", (1, 1), not_null=["a"])
    for statement in (f"INSERT INTO {name} VALUES (NULL, 1)", f"UPDATE {name} SET a = NULL"):
        with pytest.raises(Exception, match=r"NOT NULL|NOT_NULL|null"):
            native.sql(statement)
    assert native.rows(f"SELECT * FROM {name}") == [(1, 1)]


def test_nested_fields_are_updated(native: NativeLake) -> None:
    name = native.table("s", "id INT, st STRUCT(x INT, y VARCHAR)")
    native.sql(f"INSERT INTO {name} VALUES (1, named_struct('x', 1, 'y', 'p'))")
    native.sql(f"UPDATE {name} SET st.x = st.x + 41 WHERE id = 1")
    assert native.rows(f"SELECT st.x, st.y FROM {name}") == [(42, "p")]
    native.sql(
        f"MERGE INTO {name} t USING (SELECT 1 AS k) ON t.id = k WHEN MATCHED THEN UPDATE SET t.st.y = 'q'"
    )
    assert native.rows(f"SELECT st.x, st.y FROM {name}") == [(42, "q")]


def test_dynamic_overwrite(native: NativeLake, t: str) -> None:
    flat = native.table("flat", "a INT", (1,), (2,))
    native.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        native.sql(f"INSERT OVERWRITE {t} SELECT 9, 'dyn', 1")
        native.sql(f"INSERT OVERWRITE {flat} VALUES (3)")  # a table without partitions is replaced as a whole
    finally:
        native.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert native.rows(f"SELECT * FROM {t}") == [(3, "c", 2), (9, "dyn", 1)]
    assert native.rows(f"SELECT * FROM {flat}") == [(3,)]


def test_options_of_writers_are_passed_on(native: NativeLake, t: str) -> None:
    """As with `format("ducklake")`: what is to be overwritten, and writes that are made once."""

    def writer(mode: str, *row: Any, **options: str) -> Any:
        frame = native.spark.createDataFrame([row], "a INT, b STRING, day INT")
        return frame.write.mode(mode).options(**options)

    writer("overwrite", 8, "rw", 1, replaceWhere="day = 1").saveAsTable(t)
    assert native.rows(f"SELECT * FROM {t}") == [(3, "c", 2), (8, "rw", 1)]
    writer("overwrite", 9, "dyn", 2, partitionOverwriteMode="dynamic").saveAsTable(t)
    writer("overwrite", 7, "dyn", 1, partitionOverwriteMode="dynamic").insertInto(t)
    assert native.rows(f"SELECT * FROM {t}") == [(7, "dyn", 1), (9, "dyn", 2)]
    assert native.lake["t"].partitioned_by == ['"day"']
    for number in ("1", "1", "0", "2"):
        once = {"txnAppId": "job", "txnVersion": number}
        writer("append", int(number), "once", 3, **once).saveAsTable(t)
        writer("append", int(number), "never", 3, **once).insertInto(t)
    assert native.rows(f"SELECT a, b FROM {t} WHERE day = 3") == [(1, "once"), (2, "once")]
    writer("overwrite", 4, "new", 3, txnAppId="job", txnVersion="2").saveAsTable(t)
    assert native.spark.table(t).count() == 4
    with pytest.raises(InvalidInputError, match='belongs to mode "overwrite"'):
        writer("append", 1, "x", 1, replaceWhere="day = 1").saveAsTable(t)
    writer("overwrite", 4, "new", 3, replaceWhere="day = 1").saveAsTable("nat.main.made")
    assert native.rows("TABLE nat.main.made") == [(4, "new", 3)]


def test_dataframe_writers(native: NativeLake, t: str) -> None:
    spark = native.spark

    def frame(*rows: tuple[Any, ...], names: str = "a INT, b STRING, day INT") -> Any:
        return spark.createDataFrame(list(rows), names)

    frame((1, "app", 4), names="day INT, b STRING, a INT").writeTo(t).append()
    frame((5, "into", 1)).write.insertInto(t)
    frame((1, "sat", 6), names="day INT, b STRING, a INT").write.mode("append").saveAsTable(t)
    assert native.rows(f"SELECT * FROM {t} WHERE a > 3") == [(4, "app", 1), (5, "into", 1), (6, "sat", 1)]
    frame((7, "ow", 1)).writeTo(t).overwrite(F.col("day") == 1)
    assert native.rows(f"SELECT * FROM {t}") == [(3, "c", 2), (7, "ow", 1)]
    frame((8, "op", 2)).writeTo(t).overwritePartitions()
    assert native.rows(f"SELECT * FROM {t}") == [(7, "ow", 1), (8, "op", 2)]
    frame((9, "io", 3)).write.insertInto(t, overwrite=True)
    assert native.rows(f"SELECT * FROM {t}") == [(9, "io", 3)]


def test_tables_are_created_and_replaced_with_their_rows_in_one_snapshot(native: NativeLake) -> None:
    spark, lake = native.spark, native.lake
    for make in (
        lambda: spark.range(2).writeTo("nat.main.w").create(),
        lambda: spark.range(3).writeTo("nat.main.w").replace(),
        lambda: spark.range(4).writeTo("nat.main.w").partitionedBy(F.col("id")).createOrReplace(),
        lambda: spark.range(3).write.mode("overwrite").saveAsTable("nat.main.w"),
        lambda: native.sql("CREATE OR REPLACE TABLE nat.main.w AS SELECT id + 1 AS id FROM nat.main.w"),
        lambda: native.sql(
            "CREATE TABLE nat.main.x PARTITIONED BY (id) COMMENT 'c' AS SELECT * FROM nat.main.w"
        ),
        lambda: spark.range(1).write.saveAsTable("nat.main.y"),
        lambda: native.sql("CREATE OR REPLACE TABLE nat.main.y (n INT)"),
    ):
        before = lake.version
        make()
        assert lake.version - before == 1
    assert (
        native.rows("SELECT * FROM nat.main.w")
        == native.rows("SELECT * FROM nat.main.x")
        == [(1,), (2,), (3,)]
    )
    assert (lake["x"].partitioned_by, lake["x"].comment, lake["y"].columns) == (["id"], "c", ["n"])
    before = lake.version
    for fail in (
        lambda: spark.range(1).writeTo("nat.main.w").create(),
        lambda: spark.range(1).write.saveAsTable("nat.main.w"),
        lambda: spark.range(1).writeTo("nat.main.none").replace(),
        lambda: spark.range(1).writeTo("nat.main.none").append(),
        lambda: native.sql("CREATE TABLE nat.none.w AS SELECT 1 AS a"),
        lambda: native.sql("CREATE TABLE nat.main.bad AS SELECT CAST(raise_error('boom') AS INT) AS x"),
        lambda: native.sql(
            "CREATE OR REPLACE TABLE nat.main.w AS SELECT CAST(raise_error('boom') AS INT) AS x"
        ),
    ):
        with pytest.raises(PySparkException):
            fail()
    native.sql("CREATE TABLE IF NOT EXISTS nat.main.w AS SELECT 5 AS id")
    assert lake.version == before and "main.bad" not in lake.tables()
    for name in ("w", "x", "y"):
        native.sql(f"DROP TABLE nat.main.{name}")


@pytest.mark.skipif(
    "not hasattr(__import__('pyspark').sql.DataFrame, 'mergeInto')", reason="Spark 4.0 and later"
)
def test_merge_into_of_dataframes(native: NativeLake, t: str) -> None:
    source = native.spark.createDataFrame([(1, "m", 1), (9, "new", 9)], "a INT, b STRING, day INT").alias("s")
    source.mergeInto(t, F.expr("t.a = s.a")).whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert native.rows(f"SELECT * FROM {t}") == [(1, "m", 1), *kept(1, 2), (9, "new", 9)]


def test_merge_schema_adds_columns_that_come_with_the_rows(native: NativeLake) -> None:
    name = native.table("wide", "a INT, b VARCHAR", (1, "x"))
    frame = native.spark.createDataFrame([(5, 2, "n")], "c INT, a INT, b STRING")
    with pytest.raises(AnalysisException):
        frame.writeTo(name).append()
    before = native.lake.version
    frame.writeTo(name).option("mergeSchema", "true").append()
    assert native.lake.version == before + 1
    frame.withColumn("d", F.lit(1)).write.option("mergeSchema", "true").mode("append").saveAsTable(name)
    assert native.rows(f"SELECT * FROM {name}") == [(1, "x", None, None), (2, "n", 5, 1), (2, "n", 5, None)]
    frame.withColumn("e", F.lit(2)).writeTo(name).option("mergeSchema", "true").overwrite(F.col("a") == 2)
    assert native.rows(f"SELECT * FROM {name}") == [(1, "x", None, None, None), (2, "n", 5, None, 2)]


@pytest.mark.skipif("__import__('pyspark').__version__ < '4.1'", reason="Spark 4.1 and later")
def test_merge_with_schema_evolution(native: NativeLake) -> None:
    name = native.table("evolved", "a INT", (1,))
    native.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING (SELECT 1 AS a, 'new' AS g) s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert native.rows(f"SELECT * FROM {name}") == [(1, "new")]


def test_failed_statements_change_nothing(native: NativeLake, t: str) -> None:
    before = native.lake.version
    with pytest.raises(AmbiguousMergeError):
        native.sql(
            f"MERGE INTO {t} t USING (SELECT 1 AS a UNION ALL SELECT 1) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 'q'"
        )
    for statement in (
        f"INSERT INTO {t} VALUES (array(1), 'x', 1)",
        f"INSERT INTO {t} SELECT raise_error('boom'), 'x', 1",
        f"UPDATE {t} SET a = CAST(concat(b, 'x') AS INT)",
        f"DELETE FROM {t} WHERE nothing = 1",
    ):
        with pytest.raises(PySparkException):
            native.sql(statement)
    native.sql(f"EXPLAIN DELETE FROM {t} WHERE a = 1").collect()
    assert native.lake.version == before


def test_views_cannot_be_written(native: NativeLake, t: str) -> None:
    native.lake.create_view("v", "SELECT * FROM t", or_replace=True)
    for statement in (
        "INSERT INTO nat.main.v VALUES (1, 'x', 1)",
        "DELETE FROM nat.main.v",
        "UPDATE nat.main.v SET a = 1",
    ):
        with pytest.raises(AnalysisException):
            native.sql(statement)
    native.lake.drop_view("v")
