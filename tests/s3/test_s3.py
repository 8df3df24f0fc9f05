"""A lake in a bucket: whatever is done with it, in turns with the extension on the same bucket."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import ducklake_spark
from ducklake_spark.errors import CatalogError, FileError, InvalidInputError, ReadOnlyError
from tests.interop.oracle import Oracle
from tests.s3.store import BUCKET, KEY, SECRET, Store

pytestmark = pytest.mark.spark
Attach = Callable[..., Any]


@pytest.fixture
def theirs(oracle: Oracle, tmp_path: Path) -> Callable[..., list[Any]]:
    """Statements of the extension on the test's lake, which nobody else has open."""

    def run(*statements: str) -> list[Any]:
        oracle.attach(f"ducklake:{tmp_path}/lake.ducklake")
        try:
            return [oracle.execute(each) for each in statements][-1]
        finally:
            oracle.detach()

    return run


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def named(lake: Any) -> set[str]:
    """The keys of the files that the catalog names now or at an older snapshot."""
    frames = [lake.metadata(f"ducklake_{kind}_file").select("path") for kind in ("data", "delete")]
    return {row[0].rpartition("/")[2] for frame in frames for row in frame.collect()}


def stored(store: Store, bucket: str) -> set[str]:
    return {key.rpartition("/")[2] for key in store.keys(bucket.removeprefix(f"s3://{BUCKET}/"))}


def test_rows_are_changed_in_turns(
    attach: Attach, bucket: str, theirs: Any, store: Store, spark: Any
) -> None:
    with attach(data_inlining_row_limit=0) as lake:
        lake.sql("CREATE TABLE t (i INT, s STRING, l ARRAY<INT>) PARTITIONED BY (s)")
        lake["t"].insert(
            spark.sql("SELECT INT(id) i, IF(id < 5, 'a', 'b') s, array(INT(id)) l FROM range(10)")
        )
    theirs("INSERT INTO t VALUES (10, 'a', [10]), (11, 'c d', NULL)", "DELETE FROM t WHERE i IN (1, 6)")
    with attach() as lake:
        assert rows(lake.sql("SELECT s, count(*), sum(i) FROM t GROUP BY s")) == [
            ("a", 5, 19),
            ("b", 4, 29),
            ("c d", 1, 11),
        ]
        before = lake.current_snapshot().first()[0]
        assert lake["t"].delete("i IN (2, 10)") == 2
        assert lake["t"].update({"l": "array(i, i)"}, "i = 3") == 1
        lake.sql(
            "MERGE INTO t USING (SELECT 4 i UNION ALL SELECT 20) u ON t.i = u.i WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (i, s) VALUES (u.i, 'a')"
        )
        assert lake.table("t", version=before).count() == 10
        changes = lake.table_changes("t", before + 1, lake.current_snapshot().first()[0])
        assert rows(changes.select("i", "change_type")) == [
            (2, "delete"), (3, "update_postimage"), (3, "update_preimage"), (4, "delete"), (10, "delete"), (20, "insert")
        ]  # fmt: skip
        expected = rows(lake.table("t").select("i", "s", "l"))
        assert [row[0] for row in expected] == [0, 3, 5, 7, 8, 9, 11, 20]
        assert expected[1][2] == [3, 3]
    assert sorted(theirs("SELECT i, s, l FROM t")) == expected
    theirs("UPDATE t SET s = 'z' WHERE i = 0")
    with attach(write_deletion_vectors=True) as lake:
        assert lake["t"].delete("i IN (5, 7)") == 2  # over the extension's delete file
        assert stored(store, bucket) == named(lake)
    assert sorted(theirs("SELECT i, s FROM t")) == [
        (0, "z"),
        (3, "a"),
        (8, "b"),
        (9, "b"),
        (11, "c d"),
        (20, "a"),
    ]
    with attach() as lake:
        assert [row[0] for row in rows(lake.table("t"))] == [0, 3, 8, 9, 11, 20]
        lake["t"].restore(before)
        assert lake.table("t").count() == 10
        with lake.transaction():
            lake["t"].insert([(30, "a", [1])])
            lake["t"].delete("i IN (0, 30)")
            lake["t"].delete("i = 11")
            assert lake.table("t").count() == 8
        assert stored(store, bucket) == named(lake)
    assert theirs("SELECT count(*), min(i) FROM t") == [(8, 2)]


def test_files_are_kept_in_order(
    attach: Attach, bucket: str, theirs: Any, store: Store, oracle: Oracle
) -> None:
    with attach() as lake:
        lake.sql("CREATE TABLE t (i INT, s STRING)")
        lake["t"].insert([(i, "inlined") for i in range(5)])
        lake["t"].delete("i = 4")
        lake.flush_inlined_data()
        assert len(store.keys()) >= 2, "a data file, and its delete file"
    assert theirs("SELECT count(*), (SELECT count(*) FROM t AT (VERSION => 2)) FROM t") == [(4, 5)]
    theirs(
        "INSERT INTO t SELECT i, 'theirs' FROM range(100, 140) r(i)", "INSERT INTO t VALUES (200, 'theirs')"
    )
    oracle.execute(
        f"COPY (SELECT (300 + i)::INT AS i, 'added' AS s FROM range(3) r(i)) TO '{bucket}in/a.parquet'"
    )
    oracle.execute(f"COPY (SELECT 310 AS i, 'added' AS s) TO '{bucket}in/deep/b.parquet'")
    with attach(data_inlining_row_limit=0) as lake:
        added = lake.add_data_files("t", f"{bucket}in/**/*.parquet".replace("s3:", "s3a:"))
        assert sorted(row[0] for row in added.collect()) == [
            f"{bucket}in/a.parquet",
            f"{bucket}in/deep/b.parquet",
        ]
        lake["t"].insert([(400 + i, "ours") for i in range(3)])
        lake.flush_inlined_data()
        expected = rows(lake.table("t"))
        assert len(expected) == 4 + 41 + 4 + 3
        lake["t"].delete("i BETWEEN 100 AND 130")
        lake.rewrite_data_files("t", delete_threshold=0.1)
        lake.merge_adjacent_files("t")
        expected = [row for row in expected if not 100 <= row[0] <= 130]
        assert rows(lake.table("t")) == expected
        assert [lake.table("t", version=each).count() for each in (2, 3)] == [5, 4]
    assert sorted(theirs("SELECT * FROM t")) == expected
    with attach() as lake:
        lake.expire_snapshots(
            versions=[row[0] for row in lake.snapshots().select("snapshot_id").collect()][:-1]
        )
        gone = lake.cleanup_old_files(cleanup_all=True).count()
        assert gone
        assert stored(store, bucket) == named(lake)
        store.client.put_object(
            Bucket=BUCKET, Key=f"{bucket.split('/')[3]}/main/t/ducklake-left.parquet", Body=b"x"
        )
        [orphan] = lake.delete_orphaned_files(cleanup_all=True).collect()
        assert orphan[0] == f"{bucket}main/t/ducklake-left.parquet"
        assert stored(store, bucket) == named(lake)
        assert rows(lake.table("t")) == expected
    assert sorted(theirs("SELECT * FROM t")) == expected


def test_a_delete_file_names_the_snapshot_that_it_came_with(attach: Attach, theirs: Any, spark: Any) -> None:
    with attach(data_inlining_row_limit=0) as lake:
        lake.sql("CREATE TABLE t AS SELECT id FROM range(100)")
        lake.sql("CREATE TABLE other (id BIGINT)")
        lake["t"].delete("id < 5")
        with lake.transaction():
            lake["t"].delete("id < 10")
            beside = threading.Thread(target=lambda: lake["other"].insert(spark.range(3)))
            beside.start()
            beside.join()
        last = lake.current_snapshot().first()[0]
        assert lake.table("t", version=last - 1).count() == 95
        assert lake.table_deletions("t", last, last).count() == 5
    assert theirs(f"SELECT count(*), (SELECT count(*) FROM t AT (VERSION => {last - 1})) FROM t") == [
        (90, 95)
    ]


def test_an_encrypted_lake(attach: Attach, theirs: Any, bucket: str) -> None:
    with attach(encrypted=True, data_inlining_row_limit=0) as lake:
        lake.sql("CREATE TABLE t (i INT, s STRING)")
        lake["t"].insert([(1, "a"), (2, "b"), (3, "c")])
        lake["t"].insert([(4, "d")])
        lake["t"].delete("i = 2")
        lake.merge_adjacent_files("t")
        assert rows(lake.table("t")) == [(1, "a"), (3, "c"), (4, "d")]
    assert theirs("INSERT INTO t VALUES (5, 'e')", "SELECT i FROM t ORDER BY i") == [(1,), (3,), (4,), (5,)]
    with attach() as lake:
        assert rows(lake.sql("SELECT i FROM t WHERE i > 3")) == [(4,), (5,)]


def test_options_of_the_lake_are_used_and_not_shown(
    spark: Any, store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store.client.create_bucket(Bucket="other-bucket")
    hidden = "another/secret+key+of+this+lake"
    options = {"key_id": "AKIAOTHER", "secret": hidden, "region": "us-east-1", "url_style": "path"}
    uri = f"ducklake:{tmp_path}/other.ducklake"
    with pytest.raises(InvalidInputError, match='no setting "keyid"') as caught:
        ducklake_spark.attach(
            uri, spark=spark, data_path="s3a://other-bucket/x", storage_options={"keyid": hidden}
        )
    assert hidden not in str(caught.value)
    options["endpoint"] = store.endpoint
    with ducklake_spark.attach(
        uri, spark=spark, data_path="s3a://other-bucket/x", storage_options=options
    ) as lake:
        lake.sql("CREATE TABLE t AS SELECT id FROM range(100)")
        lake["t"].delete("id < 10")
        assert lake.get_option("data_path") == "s3://other-bucket/x/", "as DuckDB calls it"
        frame = lake.table("t")
        frame.explain(True)

        def refuse(request: Any) -> tuple[str, bytes] | None:
            return ("403 Forbidden", b"") if request.method == "PUT" else None

        with store.failing(refuse), pytest.raises(FileError, match="other-bucket") as refused:
            lake["t"].insert(spark.range(50))
        shown = [
            repr(lake),
            str(lake.options().collect()),
            str(lake.settings().collect()),
            str(refused.value),
        ]
        shown += [str(spark.sql("SET -v").collect()), str(lake.metadata("ducklake_metadata").collect())]
        assert frame.count() == 90
    shown += list(capfd.readouterr())
    assert not any(hidden in text or SECRET in text for text in shown)


def test_a_frozen_lake(attach: Attach, bucket: str, store: Store, spark: Any, tmp_path: Path) -> None:
    with attach(data_inlining_row_limit=0) as lake:
        lake.sql("CREATE TABLE t AS SELECT id FROM range(7)")
    place = f"{bucket.split('/')[3]}/frozen/lake.ducklake"
    store.client.upload_file(f"{tmp_path}/lake.ducklake", BUCKET, place)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    handler.func.log_message = lambda *_: None  # type: ignore[method-assign]
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    web = f"http://127.0.0.1:{server.server_port}"
    try:
        for url in (f"s3://{BUCKET}/{place}", f"ducklake:{web}/lake.ducklake?signature=private"):
            with ducklake_spark.attach(url, spark=spark) as lake:
                assert lake.name == "lake"
                assert lake.table("t").count() == 7
                with pytest.raises(ReadOnlyError):
                    lake["t"].delete()
        with pytest.raises(CatalogError, match="404") as caught:
            ducklake_spark.attach(f"ducklake:{web}/none.ducklake?signature=private", spark=spark)
        assert "private" not in str(caught.value)
        with pytest.raises(CatalogError, match="no catalog at s3://"):
            ducklake_spark.attach(f"ducklake:s3://{BUCKET}/none.ducklake", spark=spark)
    finally:
        server.shutdown()
        server.server_close()


def test_a_scheme_that_spark_does_not_know(spark: Any, tmp_path: Path) -> None:
    with (
        ducklake_spark.attach(f"ducklake:{tmp_path}/x.ducklake", data_path="gs://b/x", catalog=False) as lake,
        pytest.raises(FileError, match=r"no file system for gs://.*gcs-connector"),
    ):
        lake.sql("CREATE TABLE t AS SELECT id FROM range(2000)")
    assert KEY not in repr(spark.conf)
