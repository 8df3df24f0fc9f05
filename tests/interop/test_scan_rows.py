"""Rows of lakes that the extension wrote, read by us: deletes, inlined rows, compactions, added files, odd paths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ducklake_spark.scan import connect, inlined
from ducklake_spark.scan.inlined import INLINED_ROW_ID, INLINED_SNAPSHOT_ID
from ducklake_spark.scan.planning.listing import ScanFile
from ducklake_spark.scan.read import Pending, _Reader
from tests.interop.oracle import Oracle
from tests.scan.lakes import Lake, in_order

pytestmark = pytest.mark.spark
MakeLake = Callable[..., Lake]
CATALOGS = ["duckdb", "sqlite", "postgres"]
VIRTUAL = ("rowid", "snapshot_id", "filename", "file_row_number")


@pytest.fixture(params=["reader", "bits", "join"])
def way_of_deletes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reader leaves deleted rows out; without our classes they are looked up in bits, and joined where they are many."""
    way: str = request.param
    if way == "bits":
        monkeypatch.setattr("ducklake_spark.scan.read.leaves_out_rows", lambda _: False)
    if way == "join":
        monkeypatch.setattr("ducklake_spark.scan.deletion_bitmap._MAX_POSITIONS", -1)
    return way


def joins(frame: Any) -> bool:
    return "Join" in frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize(
    ("kind", "way_of_deletes"),
    [*((kind, "reader") for kind in CATALOGS), ("duckdb", "bits"), ("duckdb", "join")],
    indirect=["way_of_deletes"],
)
@pytest.mark.usefixtures("way_of_deletes")
def test_deletes_of_every_kind_at_every_snapshot(make_lake: MakeLake, kind: str) -> None:
    lake = make_lake(kind)
    lake.write(
        "CREATE TABLE t(a INTEGER, b VARCHAR)",
        "INSERT INTO t SELECT i, 'x' || i FROM range(1000) r(i)",
        "DELETE FROM t WHERE a % 7 = 0",  # a delete file
        "INSERT INTO t VALUES (5000, 'inlined')",
        "DELETE FROM t WHERE a IN (1, 2)",  # inlined deletes
        "UPDATE t SET b = 'changed' WHERE a = 3",
        "DELETE FROM t WHERE a % 11 = 0",  # a delete file with history
        "DELETE FROM t WHERE a = 5000",
        "CALL ducklake_flush_inlined_data('lake')",
        "UPDATE t SET b = b || '!' WHERE a % 5 = 0",
        "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.1)",
    )
    assert lake.check("t") > 5000


def test_deletion_vectors(make_lake: MakeLake, way_of_deletes: str) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CALL lake.set_option('write_deletion_vectors', true)",
        "CREATE TABLE t(a INTEGER)",
        "INSERT INTO t SELECT i FROM range(200000) r(i)",
        "DELETE FROM t WHERE a % 3 = 0",
        "INSERT INTO t SELECT i FROM range(1000) r(i)",
        "DELETE FROM t WHERE a BETWEEN 100 AND 5000",
    )
    assert lake.check("t") > 200000
    assert joins(lake.read("t")) == (way_of_deletes == "join")


def test_deletes_of_many_files(make_lake: MakeLake, way_of_deletes: str) -> None:
    """Each file has bits of its own length, one has none, and one is deleted to its last row."""
    lake = make_lake(data_inlining_row_limit=0)
    sizes = (1, 63, 64, 65, 128, 1000, 5)
    for number, size in enumerate(sizes):
        create = "CREATE TABLE t AS" if number == 0 else "INSERT INTO t"
        lake.write(f"{create} SELECT {number} AS file, i::INTEGER AS a FROM range({size}) r(i)")
    lake.write(
        "DELETE FROM t WHERE file IN (0, 1, 2) AND a % 2 = 1",
        "DELETE FROM t WHERE file = 3 AND a IN (0, 63, 64)",
        "DELETE FROM t WHERE file = 4 AND a = 127",
        "DELETE FROM t WHERE file = 6 AND a < 4",
    )
    assert lake.check("t") > 1000
    frame = lake.read("t")
    pair = frame.alias("x").join(frame.alias("y"), "file").where("x.a = y.a AND x.file = 4")
    assert pair.count() == 127
    frame.cache()
    assert frame.count() == frame.where("a >= 0").count() == lake.read("t").count()
    frame.unpersist()
    assert joins(frame) == (way_of_deletes == "join")


def test_the_reader_leaves_rows_out(make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """One scan in batches for files with deletes and without, in which no other step looks for deleted rows."""
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t AS SELECT i::INTEGER AS a, {'x': i, 'y': ['z' || i]} AS s, CAST(i AS DECIMAL(20, 2)) AS d "
        "FROM range(30000) r(i)",
        "DELETE FROM t WHERE a % 10 = 3 OR a BETWEEN 4090 AND 9000",
        "INSERT INTO t SELECT i::INTEGER, {'x': i, 'y': NULL}, NULL FROM range(30000, 30010) r(i)",
    )
    plan = lake.read("t")._jdf.queryExecution().executedPlan().toString()
    assert plan.count("FileScan") == 1 and "Batched: true" in plan
    assert not {"Filter", "Union", "Join"} & set(plan.replace("(", " ").split())
    assert lake.check("t") == 30000 + 22580 + 22590
    read: list[str] = []
    reading = connect.read_bytes
    monkeypatch.setattr(connect, "read_bytes", lambda spark, path: read.append(path) or reading(spark, path))
    assert lake.read("t").where("s.x > 4000 AND a < 4100").selectExpr("sum(d)", "max(s.y[0])").collect()
    assert not read, "a delete file never changes, and is read once"
    lake.spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        lake.check("t")
    finally:
        lake.spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def test_deletes_where_a_session_folds_no_constants(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write("CREATE TABLE t AS SELECT i FROM range(100) r(i)", "DELETE FROM t WHERE i < 30")
    rule = "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"
    lake.spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    try:
        assert lake.read("t").count() == 70
    finally:
        lake.spark.conf.unset("spark.sql.optimizer.excludedRules")


@pytest.mark.parametrize("kind", CATALOGS)
def test_virtual_columns(make_lake: MakeLake, kind: str) -> None:
    lake = make_lake(kind)
    lake.write(
        "CREATE TABLE t(a INTEGER, b VARCHAR)",
        "INSERT INTO t SELECT i, 'x' FROM range(100) r(i)",
        "INSERT INTO t SELECT i, 'y' FROM range(100, 200) r(i)",
        "INSERT INTO t VALUES (1000, 'z')",
        "UPDATE t SET b = 'u' WHERE a BETWEEN 20 AND 60",
        "UPDATE t SET b = 'v' WHERE a = 70",
        "DELETE FROM t WHERE a = 80",
        "CALL ducklake_flush_inlined_data('lake')",
        "INSERT INTO t VALUES (2000, 'zz')",
    )
    names = ", ".join(VIRTUAL)
    theirs = lake.ask(f"SELECT a, b, {names} FROM t")

    frame = lake.read("t", virtual=VIRTUAL)

    assert in_order(frame.collect()) == in_order(theirs)
    assert [row.a for row in frame.where("rowid = 42").collect()] == [42]


def test_row_ids_too_large_for_a_files_code(make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake()
    lake.write(
        "CREATE TABLE t(a INTEGER)",
        "INSERT INTO t SELECT i FROM range(100) r(i)",
        "INSERT INTO t SELECT i FROM range(100, 200) r(i)",
        "DELETE FROM t WHERE a % 10 = 0",
    )
    theirs = lake.ask("SELECT a, rowid, snapshot_id FROM t")
    monkeypatch.setattr("ducklake_spark.scan.planning.file_facts.LIMIT", 1)

    frame = lake.read("t", virtual=("rowid", "snapshot_id"))

    assert in_order(frame.collect()) == in_order(theirs)


def test_uncommitted_changes_are_read_too(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=1)
    lake.write(
        "CREATE TABLE t(a INTEGER, u UUID)",
        "INSERT INTO t SELECT i, NULL FROM range(10) r(i)",
        "INSERT INTO t SELECT i, NULL FROM range(10, 20) r(i)",
        "INSERT INTO t VALUES (100, NULL)",
        "INSERT INTO t SELECT i, NULL FROM range(20, 30) r(i)",
    )
    paths = [row[0] for row in lake.ask("SELECT DISTINCT filename FROM t WHERE a BETWEEN 20 AND 29")]
    size = Path(paths[0]).stat().st_size
    inlined = lake.store.query("SELECT table_name FROM ducklake_inlined_data_tables")[0][0]
    rows = lake.spark.sql(
        f"SELECT 500 AS a, CAST(NULL AS STRING) AS u, 77L AS {INLINED_ROW_ID}, CAST(NULL AS BIGINT) AS {INLINED_SNAPSHOT_ID}"
    )
    pending = Pending(
        data_files=(ScanFile(-1, f"file:{paths[0]}", size),),
        dropped_files=frozenset({1}),
        deleted={0: [3, 4], -1: [0]},
        inlined=rows,
        deleted_inlined={inlined: frozenset({20})},
    )

    found = lake.read(
        "t", 4, pending=pending, virtual=("rowid", "snapshot_id", "filename", "file_row_number")
    )

    kept = [i for i in range(10) if i not in (3, 4)]
    assert sorted(row.a for row in found.collect()) == [*kept, *range(21, 30), 500]


def test_virtual_columns_are_hidden_by_the_tables_own(make_lake: MakeLake) -> None:
    lake = make_lake()
    lake.write("CREATE TABLE t(rowid VARCHAR)", "INSERT INTO t VALUES ('mine')")

    frame = lake.read("t", virtual=VIRTUAL)

    assert frame.columns == ["rowid", "snapshot_id", "filename", "file_row_number"]
    assert frame.first()["rowid"] == "mine"


def test_merged_files_at_older_snapshots(make_lake: MakeLake) -> None:
    lake = make_lake("duckdb", data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(a INTEGER)",
        *(f"INSERT INTO t SELECT i FROM range({n * 20}, {n * 20 + 20}) r(i)" for n in range(4)),
        "DELETE FROM t WHERE a = 3",
        "CALL ducklake_merge_adjacent_files('lake')",
        "INSERT INTO t SELECT i FROM range(100, 120) r(i)",
    )
    lake.check("t")
    theirs = lake.ask("SELECT a, rowid, snapshot_id FROM t AT (VERSION => 3)")
    assert in_order(lake.read("t", 3, virtual=("rowid", "snapshot_id")).collect()) == in_order(theirs)


def test_a_frame_made_before_a_compaction_has_its_rows_or_says_so(make_lake: MakeLake) -> None:
    lake = make_lake("sqlite", data_inlining_row_limit=0)
    lake.write("CREATE TABLE t(a INTEGER)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    newest, older = lake.read("t"), lake.read("t", 2)
    store = lake.store
    lake._store = None  # this frame goes on using it
    lake.write("CALL ducklake_merge_adjacent_files('lake')")
    lake.oracle.detach()
    lake._attached = False

    assert sorted(row.a for row in newest.collect()) == [1, 2]
    with pytest.raises(Exception, match="compacted after this DataFrame was made"):
        older.collect()  # the merged file has rows of later snapshots, which this plan would not leave out
    store.close()


def test_a_frame_is_not_changed_by_later_snapshots(make_lake: MakeLake) -> None:
    lake = make_lake("sqlite")
    lake.write(
        "CREATE TABLE t(a INTEGER)",
        "INSERT INTO t SELECT i FROM range(100) r(i)",
        "INSERT INTO t VALUES (100)",
        "DELETE FROM t WHERE a = 5",
    )
    frame = lake.read("t")
    store = lake.store
    lake._store = None
    lake.write(
        "DELETE FROM t WHERE a > 50",
        "INSERT INTO t SELECT i FROM range(1000, 1100) r(i)",
        "CALL ducklake_flush_inlined_data('lake')",
    )
    lake.oracle.detach()
    lake._attached = False

    assert sorted(row.a for row in frame.collect()) == [i for i in range(101) if i != 5]
    store.close()


def test_added_files_with_a_name_map(make_lake: MakeLake, tmp_path: Path) -> None:
    with duckdb.connect() as plain:
        plain.execute(
            "COPY (SELECT 1::TINYINT AS \"A\", {'Y': 5, 'X': 'q'} AS s, [{'k': 1}] AS l, 'more' AS extra) "
            f"TO '{tmp_path}/one.parquet'"
        )
        plain.execute(
            f"COPY (SELECT 7 AS a, 'a b/c%' AS part UNION ALL SELECT 8, NULL) TO '{tmp_path}/hive' (FORMAT parquet, PARTITION_BY part)"
        )
    lake = make_lake("duckdb")
    lake.write(
        "CREATE TABLE t(a INTEGER, s STRUCT(x VARCHAR, y BIGINT), l STRUCT(k INTEGER)[], part VARCHAR)",
        "INSERT INTO t VALUES (3, {'x': 'i', 'y': 1}, [], 'p')",
        f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/one.parquet', allow_missing => true, "
        "ignore_extra_columns => true)",
        f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/hive/*/*.parquet', allow_missing => true, "
        "hive_partitioning => true)",
        "ALTER TABLE t RENAME COLUMN s TO st",
        "ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 9",
        "DELETE FROM t WHERE a = 8",
    )
    assert lake.check("t") > 10
    theirs = lake.ask("SELECT a, rowid, snapshot_id, filename FROM t")
    ours = lake.read("t", virtual=("rowid", "snapshot_id", "filename"))
    assert in_order(ours.select("a", "rowid", "snapshot_id", "filename").collect()) == in_order(theirs)


def test_added_files_with_other_types(make_lake: MakeLake, tmp_path: Path) -> None:
    """Files under one name map, each with its own types; the catalog does not tell, and DuckDB casts as it reads."""
    times = [
        "2020-01-01 01:02:03.123456789",
        "1960-01-01 01:02:03.999999501",
        "1960-01-01 00:00:00.5",
        "2020-01-01 00:00:00.499500",
    ]
    files = {
        "nanos": [(name, "TIMESTAMP_NS") for name in ("t", "n")],
        "micros": [(name, "TIMESTAMP") for name in ("t", "s", "m", "n")],
        "millis": [(name, "TIMESTAMP_MS") for name in ("t", "s", "m", "n")],
    }
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(i INTEGER, t TIMESTAMP, s TIMESTAMP_S, m TIMESTAMP_MS, n TIMESTAMP_NS, "
        "l STRUCT(t TIMESTAMP)[], k MAP(INTEGER, TIMESTAMP), u UBIGINT)",
        "INSERT INTO t VALUES (0, '2020-01-01', '2020-01-01', '2020-01-01', '2020-01-01', NULL, NULL, 1)",
    )
    with duckdb.connect() as plain:
        for number, (name, columns) in enumerate(files.items(), 1):
            kind = columns[0][1]
            values = [f"v::{kind} AS {column}" for column, _ in columns]
            values += [f"[{{'t': v::{kind}}}] AS l", f"MAP {{1: v::{kind}}} AS k"]
            unsigned = ("UTINYINT", "USMALLINT", "UINTEGER")[number - 1]
            rows = ", ".join(f"('{time}')" for time in times)
            plain.execute(
                f"COPY (SELECT {number} AS i, {', '.join(values)}, 200::{unsigned} AS u FROM (VALUES {rows}) r(v)) "
                f"TO '{tmp_path}/{name}[x].parquet'"
            )
            lake.write(
                f"CALL ducklake_add_data_files('lake', 't', '{tmp_path}/{name}[[]x].parquet', allow_missing => true)"
            )
    lake.write("DELETE FROM t WHERE i = 2 AND t > '2020-01-01'")
    assert lake.check("t") > 10
    assert lake.read("t").where("n < 0").count() == 6


def test_odd_paths_and_names(make_lake: MakeLake) -> None:
    lake = make_lake(folder="da ta%20#[x] é😀+&=")
    lake.write(
        'CREATE SCHEMA "we ird.s"',
        'CREATE TABLE "we ird.s"."t/é 😀"("a b" INTEGER, "c.d" VARCHAR, "e`f" VARCHAR, "_metadata" INTEGER)',
        "INSERT INTO \"we ird.s\".\"t/é 😀\" SELECT i, 'x', 'y', i FROM range(100) r(i)",
        'DELETE FROM "we ird.s"."t/é 😀" WHERE "a b" % 2 = 0',
        'ALTER TABLE "we ird.s"."t/é 😀" SET PARTITIONED BY ("c.d")',
        "INSERT INTO \"we ird.s\".\"t/é 😀\" SELECT i, 'p q/%', 'y', i FROM range(100, 150) r(i)",
    )
    query = 'SELECT "a b", "c.d", "e`f", "_metadata", filename, rowid FROM "we ird.s"."t/é 😀"'
    theirs = lake.ask(query)
    store = lake.store
    del store

    frame = lake.read("we ird.s.t/é 😀", virtual=("filename", "rowid"))

    assert in_order(frame.collect()) == in_order(theirs)


def test_frames_of_two_snapshots_join_and_cache(make_lake: MakeLake) -> None:
    lake = make_lake()
    lake.write(
        "CREATE TABLE t(a INTEGER, b INTEGER)",
        "INSERT INTO t SELECT i, 1 FROM range(100) r(i)",
        "UPDATE t SET b = 2 WHERE a < 50",
    )
    old, new = lake.read("t", 2), lake.read("t", 3)

    changed = old.alias("o").join(new.alias("n"), "a").where("o.b <> n.b")
    assert changed.count() == 50
    cached = new.cache()
    assert cached.count() == 100
    assert cached.alias("x").join(cached.alias("y"), "a").count() == 100
    cached.unpersist()


def test_empty_tables(make_lake: MakeLake) -> None:
    lake = make_lake()
    lake.write("CREATE TABLE t(a INTEGER, u UUID[])", "INSERT INTO t VALUES (1, NULL)", "DELETE FROM t")
    assert lake.check("t") == 1
    assert lake.read("t").schema.simpleString() == "struct<a:int,u:array<string>>"


def test_a_flush_between_the_plan_and_the_rows(make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inlined rows that become a file while a scan is made are neither lost nor read twice."""
    lake = make_lake("sqlite")
    lake.write("CREATE TABLE t(a INTEGER)", "INSERT INTO t VALUES (1), (2)", "INSERT INTO t VALUES (3)")
    fetch, flushed = inlined.fetch_rows, []

    def late(*given: Any) -> Any:
        if not flushed:
            flushed.append(True)
            lake.oracle.attach(lake.uri, data_path=lake.data_path)
            lake.oracle.execute("CALL ducklake_flush_inlined_data('lake')")
            lake.oracle.detach()
        return fetch(*given)

    monkeypatch.setattr(inlined, "fetch_rows", late)
    assert sorted(row.a for row in lake.read("t").collect()) == [1, 2, 3]
    assert flushed


@pytest.mark.parametrize("flushes", [False, True])
def test_commits_while_a_scan_is_planned(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch, flushes: bool
) -> None:
    """A busy lake keeps nobody from reading; only where rows went somewhere else, the scan is planned anew."""
    lake = make_lake("sqlite")
    lake.write("CREATE TABLE t(a INTEGER)", "CREATE TABLE u(a INTEGER)", "INSERT INTO t VALUES (1), (2)")
    store, frame, planned = lake.store, _Reader.frame, []

    def interrupted(self: _Reader) -> Any:
        with Oracle() as other:
            if not planned or not flushes:
                other.attach(lake.uri, data_path=lake.data_path)
                other.execute(
                    "CALL ducklake_flush_inlined_data('lake')" if flushes else "INSERT INTO u VALUES (1)"
                )
                other.detach()
        planned.append(1)
        return frame(self)

    monkeypatch.setattr(_Reader, "frame", interrupted)
    read = lake.read("t")
    assert lake.store is store and len(planned) == (2 if flushes else 1)
    assert sorted(map(tuple, read.collect())) == [(1,), (2,)]
