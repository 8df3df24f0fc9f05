"""Lakes in a bucket, plain and encrypted, by every entry that Spark has, in turns with the extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.oracle import Oracle
from tests.s3.store import BUCKET, KEY, SECRET, Store

pytestmark = pytest.mark.spark


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def lake(request: pytest.FixtureRequest, attach: Callable[..., Any]) -> Iterator[Any]:
    options = {"encrypted": True} if request.param else {}
    yield attach(name="lake", data_inlining_row_limit=0, **options)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def named(lake: Any) -> set[str]:
    frames = [lake.metadata(f"ducklake_{kind}_file").select("path") for kind in ("data", "delete")]
    return {row[0].rpartition("/")[2] for frame in frames for row in frame.collect()}


def stored(store: Store, bucket: str) -> dict[str, str]:
    folder = bucket.removeprefix(f"s3://{BUCKET}/")
    return {key.rpartition("/")[2]: key for key in store.keys(folder)}


def test_every_entry_reaches_the_bucket(
    lake: Any, bucket: str, store: Store, spark: Any, oracle: Oracle, tmp_path: Path
) -> None:
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    is_encrypted = str(lake.get_option("encrypted")).lower() == "true"
    spark.sql("CREATE TABLE lake.t (i BIGINT, s STRING, l ARRAY<INT>)")
    spark.sql("INSERT INTO lake.t SELECT id, 'first', array(1, NULL) FROM range(40)")
    lake.sql(
        "INSERT INTO t SELECT i, 'second', [i::INT] FROM range(40, 80) r(i); DELETE FROM t WHERE i % 4 = 0;"
        "UPDATE t SET s = s || '!' WHERE i < 10",
        dialect="duckdb",
    )
    loaded = lake.version
    spark.sql("UPDATE lake.t SET l = array(7) WHERE i = 41")
    spark.sql(
        "MERGE INTO lake.t USING (SELECT id FROM range(78, 82)) n ON t.i = n.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (i, s) VALUES (n.id, 'merged')"
    )
    spark.sql("SELECT 90L AS i, 'written' AS s, array(9) AS l").writeTo("lake.t").append()
    source = spark.readStream.option("startingVersion", 1).option("skipChangeCommits", True).table("lake.t")
    sink = source.writeStream.format("ducklake").trigger(availableNow=True)
    sink.option("checkpointLocation", str(tmp_path / "checkpoint")).toTable("lake.copied").awaitTermination()
    assert spark.table("lake.copied").count() == 40 + 40 + 1, "without those of commits that delete, too"
    lake.merge_adjacent_files()
    lake.rewrite_data_files("t", delete_threshold=0.01)

    expected = rows(lake.table("t"))
    assert len(expected) == 60 - 2 + 2 + 1
    assert (41, "second", [7]) in expected
    assert (1, "first!", [1, None]) in expected
    reader = spark.read.format("ducklake")
    assert rows(reader.load("lake.t")) == expected == rows(spark.table("lake.t"))
    older = rows(reader.option("versionAsOf", loaded).load("lake.t"))
    assert older == rows(spark.sql(f"SELECT * FROM lake.t VERSION AS OF {loaded}"))
    assert len(older) == 60
    feed = rows(lake.table_changes("t", 1, lake.version).select("snapshot_id", "rowid", "change_type"))
    last = lake.version
    lake.close()

    for key in stored(store, bucket).values():
        content = store.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        assert content[:4] == (b"PARE" if is_encrypted else b"PAR1")
        assert (b"second" in content) <= (not is_encrypted)
    oracle.attach(uri)
    assert sorted(oracle.execute("FROM t"), key=str) == expected
    assert sorted(oracle.execute(f"FROM t AT (VERSION => {loaded})"), key=str) == older
    told = oracle.execute(
        f"SELECT snapshot_id, rowid, change_type FROM ducklake_table_changes('lake', 'main', 't', 1, {last})"
    )
    assert sorted(told, key=str) == feed
    oracle.execute("UPDATE t SET s = 'theirs' WHERE i = 90")
    oracle.execute("DELETE FROM t WHERE i = 80")
    oracle.detach()


def test_old_files_go_and_nothing_else(lake: Any, bucket: str, store: Store, spark: Any) -> None:
    lake.sql("CREATE TABLE t AS SELECT id FROM range(50)")
    lake["t"].delete("id < 10")
    lake["t"].insert(spark.range(50, 60))
    lake.rewrite_data_files("t", delete_threshold=0.01)
    lake.merge_adjacent_files()
    versions = [row[0] for row in lake.snapshots().select("snapshot_id").collect()]
    lake.expire_snapshots(versions=versions[:-1])
    assert lake.cleanup_old_files(cleanup_all=True).count() >= 2
    assert set(stored(store, bucket)) == named(lake)
    assert lake.sql("SELECT count(*), sum(id) FROM t").first()[:] == (50, sum(range(10, 60)))
    shown = str(lake.metadata("ducklake_metadata").collect()) + lake.sql("EXPLAIN EXTENDED FROM t").first()[0]
    assert SECRET not in shown
    assert KEY not in shown
