"""Reads through the session's own SQL: what `lake.table` and the oracle give, with the same plan."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from ducklake_spark import ClosedError, InvalidInputError, SnapshotNotFoundError
from ducklake_spark.scan.planning.sources import GroupFiles
from tests.interop.oracle import Oracle
from tests.spark.conftest import NativeLake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def t(native: NativeLake) -> str:
    """Files of two partitions, deleted rows, a delete file, and inlined rows."""
    name = native.table("t", "a INT, b VARCHAR, day INT", partitioned_by=["day"])
    table = native.lake["t"]
    table.set_option("data_inlining_row_limit", 0)
    table.insert([(i, f"r{i}", i % 2) for i in range(10)])
    table.insert([(i, f"r{i}", i % 2) for i in range(10, 20)])
    table.delete("a IN (3, 14)")
    table.set_option("data_inlining_row_limit", 10)
    table.insert([(100, "inlined", 7), (101, None, None)])
    return name


QUERIES = [
    "SELECT * FROM nat.main.t",
    "SELECT a, b FROM nat.main.t WHERE a BETWEEN 2 AND 15 AND day = 1",
    "SELECT day, count(*), max(b) FROM nat.main.t GROUP BY day",
    "SELECT x.a, y.b FROM nat.main.t x JOIN nat.main.t y ON x.a = y.a + 1",
    "SELECT a FROM nat.main.t o WHERE a IN (SELECT a + 1 FROM nat.main.t WHERE day = 1) AND EXISTS "
    "(SELECT 1 FROM nat.main.t i WHERE i.a = o.a) AND a < (SELECT max(a) FROM nat.main.t)",
    "WITH c AS (SELECT * FROM nat.main.t) SELECT a, 1 AS n FROM c WHERE day = 1 UNION ALL SELECT a, 0 FROM c WHERE a < 5",
    "SELECT a, row_number() OVER (PARTITION BY day ORDER BY a) FROM nat.main.t",
    "SELECT a FROM nat.main.t WHERE b IS NULL OR b LIKE 'inl%'",
    "SELECT count(DISTINCT day) FROM nat.main.t",
]


@pytest.mark.parametrize("query", QUERIES)
def test_queries_answer_as_the_oracle_does(native: NativeLake, t: str, oracle: Oracle, query: str) -> None:
    oracle.attach(native.uri, name="nat")
    assert native.rows(query) == sorted(map(tuple, oracle.execute(query)), key=repr)


def test_scans_are_pruned_as_those_of_lake_table(native: NativeLake, t: str) -> None:
    def explained(frame: Any) -> str:
        return native.lake.explain(frame)

    ours = native.lake.table("t").where("a = 12").select("b")
    assert explained(native.sql(f"SELECT b FROM {t} WHERE a = 12")) == explained(ours)
    assert explained(native.spark.table(t).where("a = 12").select("b")) == explained(ours)
    assert "2 of 4 files" in explained(ours)
    plan = native.sql(f"SELECT b FROM {t} WHERE a = 12")._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan and "BatchScan" not in plan


def test_explain_shows_files_kept_of_total(native: NativeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    name = native.table("kept", "a INT")
    native.lake["kept"].set_option("data_inlining_row_limit", 0)
    for i in range(3):
        native.lake["kept"].insert([(i,)])
    query = f"SELECT * FROM {name} WHERE a = 1"
    assert " 1 of 3 files" in native.rows(f"EXPLAIN {query}")[0][0]
    assert " 3 of 3 files" in native.rows(f"EXPLAIN SELECT * FROM {name}")[0][0]
    asked: list[Any] = []
    listed = GroupFiles.files
    monkeypatch.setattr(GroupFiles, "files", lambda self, *given: asked.append(given) or listed(self, *given))
    assert native.rows(query) == [(1,)] and len(asked) == 1, "no query is planned for EXPLAIN"
    # Both scans have one index.
    joined = native.rows(f"EXPLAIN SELECT 1 FROM ({query}) x JOIN {name} y ON x.a < y.a")[0][0]
    assert " of 3 files" not in joined and "3 files" in joined


def test_dataframes_join_with_themselves(native: NativeLake, t: str) -> None:
    frame = native.spark.table(t)
    joined = frame.alias("x").join(frame.alias("y"), F.expr("x.a = y.a + 1")).selectExpr("x.a")
    assert joined.count() == native.rows(f"SELECT count(*) FROM {t} x JOIN {t} y ON x.a = y.a + 1")[0][0]


def test_a_dataframe_stays_at_its_snapshot(native: NativeLake) -> None:
    name = native.table("pinned", "a INT", (1,))
    frame = native.spark.table(name)
    native.lake["pinned"].insert([(2,)])
    assert frame.count() == 1
    assert native.spark.table(name).count() == 2
    native.lake.drop_table("pinned")
    assert frame.count() == 1


def test_time_travel(native: NativeLake) -> None:
    name = native.table("travel", "a INT", (1,))
    version = native.lake.version
    native.lake["travel"].insert([(2,)])
    native.lake["travel"].add_column("b", "int")
    assert native.rows(f"SELECT * FROM {name} VERSION AS OF {version}") == [(1,)]
    assert native.spark.read.option("versionAsOf", version).table(name).count() == 1
    assert native.rows(f"SELECT count(*) FROM {name} TIMESTAMP AS OF current_timestamp()") == [(2,)]
    assert native.spark.read.option("timestampAsOf", "2999-01-01").table(name).count() == 2
    joined = f"SELECT n.a, o.a FROM {name} n LEFT JOIN {name} VERSION AS OF {version} o ON n.a = o.a"
    assert native.rows(joined) == [(1, 1), (2, None)]
    with pytest.raises(SnapshotNotFoundError, match="99999"):
        native.sql(f"SELECT * FROM {name} VERSION AS OF 99999")
    with pytest.raises(AnalysisException):
        native.sql(f"INSERT INTO {name} VERSION AS OF {version} VALUES (1)")


def test_change_feeds_are_read_by_options(native: NativeLake) -> None:
    name = native.table("fed", "a INT", (1,), (2,))
    start = native.lake.version
    native.lake["fed"].delete("a = 1")

    def reader(**options: Any) -> Any:
        return native.spark.read.options(readChangeFeed="true", startingVersion=start, **options)

    assert native.rows(reader().table(name)) == native.rows(native.lake.table_changes("fed", start))
    options = f"'readChangeFeed' = 'true', 'startingVersion' = '{start}', 'endingVersion' = '{start}'"
    inserts = f"SELECT f.a, f.change_type FROM {name} WITH ({options}) AS f"
    assert native.rows(inserts) == [(1, "insert"), (2, "insert")]
    for option, value, message in (
        ("versionAsOf", start, "does not go with readChangeFeed"),
        ("startingTimestamp", "2020-01-01", "not both"),
        ("nothing", "1", 'no option "nothing"'),
    ):
        with pytest.raises(InvalidInputError, match=message):
            reader(**{option: value}).table(name)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        reader().table("nat.main.unfed")


def test_virtual_columns_are_metadata_columns(native: NativeLake, t: str) -> None:
    query = f"SELECT a, rowid, snapshot_id, filename, file_row_number FROM {t} WHERE a IN (0, 12, 100)"
    ours = native.lake.table("t", virtual_columns=["rowid", "snapshot_id", "filename", "file_row_number"])
    chosen = ours.where("a IN (0, 12, 100)").select(
        "a", "rowid", "snapshot_id", "filename", "file_row_number"
    )
    assert native.rows(query) == native.rows(chosen)
    assert native.spark.table(t).columns == ["a", "b", "day"]
    native.table("own", "rowid VARCHAR", ("mine",))
    assert native.rows("SELECT rowid FROM nat.main.own") == [("mine",)]


def test_views_of_the_lake_are_read(native: NativeLake, t: str) -> None:
    native.lake.create_view("v", "SELECT a, upper(b) AS u FROM t WHERE a > 15", or_replace=True)
    assert native.rows("SELECT v.u, t.day FROM nat.main.v JOIN nat.main.t USING (a)") == native.rows(
        f"SELECT upper(b), day FROM {t} WHERE a > 15"
    )
    native.lake.create_view(
        "deep",
        "WITH c AS (SELECT DISTINCT day FROM t) SELECT day, nullif(day, 1) AS n FROM c WHERE day IN (SELECT day FROM t) "
        "EXCEPT SELECT 7, 7",
        or_replace=True,
    )
    assert native.rows("SELECT x.day, y.n FROM nat.main.deep x JOIN nat.main.deep y USING (day)") == [
        (0, 0),
        (1, None),
    ]
    with pytest.raises(AnalysisException):
        native.sql("INSERT INTO nat.main.v VALUES (1, 'x')")


def test_metadata_tables(native: NativeLake, t: str) -> None:
    lake = native.lake
    assert native.rows(f"SELECT * FROM {t}.files") == native.rows(lake.list_files("t"))
    assert native.rows(f"SELECT snapshot_id, changes FROM {t}.history") == native.rows(
        lake["t"].history().select("snapshot_id", "changes")
    )
    assert native.rows(f"SELECT snapshot_id FROM {t}.snapshots") == native.rows(
        lake["t"].history().select("snapshot_id")
    )
    assert native.rows(f"SELECT partition['day'], files, rows FROM {t}.partitions") == [
        ("0", 2, 10),
        ("1", 2, 10),
    ]
    changes = native.rows(f"SELECT change_type, count(*) FROM {t}.changes GROUP BY 1")
    assert changes == [("delete", 2), ("insert", 22)]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        native.sql(f"SELECT * FROM {t}.nothing")
    # Without its schema, as other names; a schema of the table's name comes first.
    assert native.rows("SELECT snapshot_id FROM nat.t.snapshots") == native.rows(
        f"SELECT snapshot_id FROM {t}.snapshots"
    )
    lake.create_schema("t")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        native.sql("SELECT * FROM nat.t.snapshots")
    lake.drop_schema("t")


def test_types_are_shown_as_lake_table_shows_them(native: NativeLake) -> None:
    columns = "a UUID, b UINT64, c STRUCT(x INT, y VARCHAR[]), d MAP(VARCHAR, INT), e TIMESTAMPTZ, f HUGEINT, g TIME"
    native.table("kinds", columns)
    native.lake.sql(
        "INSERT INTO kinds VALUES ('00000000-0000-0000-0000-000000000001', 1, named_struct('x', 1, 'y', array('p')), "
        "map('k', 2), TIMESTAMP '2026-01-01 00:00:00', 5, '10:11:12')"
    )
    frame = native.spark.table("nat.main.kinds")
    assert [(f.name, f.dataType) for f in frame.schema.fields] == [
        (f.name, f.dataType) for f in native.lake.table("kinds").schema.fields
    ]
    assert native.rows(frame) == native.rows(native.lake.table("kinds"))
    native.sql("CREATE TABLE nat.main.kinds2 AS SELECT * FROM nat.main.kinds")
    assert native.lake["kinds2"].types == native.lake["kinds"].types


def test_names_and_the_current_catalog(native: NativeLake, t: str) -> None:
    native.sql("USE nat.main")
    assert native.rows("SELECT max(a) FROM t") == [(101,)]
    assert native.spark.catalog.currentCatalog() == "nat"
    native.sql("USE spark_catalog.default")
    assert native.rows("SELECT max(a) FROM nat.t") == [(101,)]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        native.sql("SELECT * FROM nat.main.nothing")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        native.sql(f"SELECT nothing FROM {t}")


def test_temporary_views_and_caches_follow_the_lake(native: NativeLake) -> None:
    name = native.table("followed", "a INT", (1,))
    native.sql(f"CREATE OR REPLACE TEMP VIEW tv AS SELECT a FROM {name}")
    native.sql(f"CACHE TABLE {name}")
    assert native.rows(f"SELECT * FROM {name}") == [(1,)]
    native.sql(f"INSERT INTO {name} VALUES (2)")
    assert native.rows(f"SELECT * FROM {name}") == native.rows("SELECT * FROM tv") == [(1,), (2,)]
    native.lake["followed"].insert([(3,)])
    assert native.rows(f"SELECT * FROM {name}") == native.rows("SELECT * FROM tv") == [(1,), (2,), (3,)]
    with native.lake.transaction():
        native.sql(f"INSERT INTO {name} VALUES (4)")
        assert native.rows(f"SELECT count(*) FROM {name}") == [(4,)]
        native.sql(f"DELETE FROM {name} WHERE a = 4")
    native.sql(f"UNCACHE TABLE {name}")
    assert native.rows(f"SELECT * FROM {name}") == [(1,), (2,), (3,)]
    native.spark.catalog.dropTempView("tv")


def test_queries_of_many_threads(native: NativeLake, t: str) -> None:
    expected = native.rows(f"SELECT count(*), sum(a) FROM {t}")[0]
    wrong: list[Any] = []

    def query(i: int) -> None:
        try:
            found = native.rows(
                f"SELECT count(*), sum(x.a) FROM {t} x JOIN {t} y ON x.a = y.a WHERE x.a >= {-i} AND "
                f"x.a IN (SELECT a FROM {t})"
            )
            if found != [expected]:
                wrong.append(found)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=query, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_dataframe_of_a_closed_lake_says_so(native: NativeLake, tmp_path: Any) -> None:
    import ducklake_spark

    other = ducklake_spark.attach(f"ducklake:{tmp_path}/o.ducklake", spark=native.spark, name="closing")
    other.create_table("t", "a INT")
    frame = native.spark.table("closing.main.t")
    other.close()
    with pytest.raises(ClosedError, match="was closed"):
        frame.collect()
