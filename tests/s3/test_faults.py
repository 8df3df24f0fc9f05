"""A store that refuses, throttles or falls silent: nothing is lost, and the catalog names no file that is not there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ducklake_spark.errors import DuckLakeError, FileError
from tests.s3.store import BUCKET, Store, denied, silent, throttled

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(attach: Callable[..., Any], spark: Any) -> Any:
    lake = attach(data_inlining_row_limit=0)
    lake.sql("CREATE TABLE t (id BIGINT)")
    lake["t"].insert(spark.range(100))
    return lake


def files(lake: Any) -> set[str]:
    frames = [lake.metadata(f"ducklake_{kind}_file").select("path") for kind in ("data", "delete")]
    return {row[0] for frame in frames for row in frame.collect()}


def stored(store: Store, bucket: str) -> set[str]:
    return {key.rpartition("/")[2] for key in store.keys(bucket.removeprefix(f"s3://{BUCKET}/"))}


def test_refused_writes_change_nothing(lake: Any, store: Store, bucket: str, spark: Any) -> None:
    before, at = files(lake), lake.current_snapshot().first()[0]
    lake["t"].insert(spark.range(200, 210))
    more = files(lake)
    for fault, change in (
        (denied("PUT", "main/t/"), lambda: lake["t"].insert(spark.range(1000, 1100, 1, 4))),
        (denied("POST", "main/t/"), lambda: lake["t"].insert(spark.range(1000, 1100, 1, 4))),
        (denied("PUT", "-delete"), lambda: lake["t"].delete("id < 10")),
        (denied("POST", "-delete"), lambda: lake["t"].update({"id": "-id"}, "id < 10")),
        (denied("GET", "main/t/"), lambda: lake.merge_adjacent_files("t").collect()),
    ):
        with store.failing(fault):
            try:
                change()
            except DuckLakeError as error:
                assert "main/t/" in str(error)
            except Exception as error:  # Spark's own, of a read that was refused
                assert "AccessDenied" in str(error) or "Forbidden" in str(error) or "403" in str(error)
            else:
                assert fault is not None and stored(store, bucket) == files(lake), "nothing was asked so"
                continue
        assert files(lake) == more
        assert lake.table("t").count() == 110
    assert stored(store, bucket) == more, "nothing is left over"
    assert before < more and lake.table("t", version=at).count() == 100


def test_throttled_and_broken_requests_are_tried_again(
    lake: Any, store: Store, bucket: str, spark: Any
) -> None:
    with store.failing(throttled("PUT", 3)):
        lake["t"].insert(spark.range(200, 210))
    with store.failing(throttled("POST", 2)):
        lake["t"].insert(spark.range(210, 220))
    with store.failing(throttled("GET", 3)):
        assert lake.table("t").count() == 120
    with store.failing(silent("PUT", "main/t/", 0.5, 2)):
        assert lake["t"].delete("id < 10") == 10
    with store.failing(throttled("GET", 3)):
        lake.merge_adjacent_files("t")
    assert lake.table("t").count() == 110
    lake.expire_snapshots(versions=[row[0] for row in lake.snapshots().select("snapshot_id").collect()][:-1])
    with store.failing(throttled("DELETE", 2)):
        assert lake.cleanup_old_files(cleanup_all=True).count()
    assert stored(store, bucket) == files(lake)


def test_a_refused_read_says_who_refused(lake: Any, store: Store) -> None:
    for fault, said in (
        (denied("GET", "main/t/"), "The store refused it"),
        (throttled("GET", 1000), "The store did not answer"),
    ):
        with (
            store.failing(fault),
            pytest.raises(FileError, match=f"cannot be read: .*main/t/.*{said}") as caught,
        ):
            lake.table("t").collect()
        assert "Restore" not in str(caught.value)
    assert lake.table("t").count() == 100


def test_a_refused_cleanup_is_done_later(lake: Any, store: Store, bucket: str, spark: Any) -> None:
    lake["t"].insert(spark.range(200, 210))
    lake.merge_adjacent_files("t")
    lake.expire_snapshots(versions=[row[0] for row in lake.snapshots().select("snapshot_id").collect()][:-1])
    before = stored(store, bucket)

    def refuse(request: Any) -> Any:
        return denied("DELETE", "")(request) or (
            denied("POST", "")(request) if "delete" in request.query else None
        )

    with store.failing(refuse):
        try:
            lake.cleanup_old_files(cleanup_all=True).collect()
        except FileError as error:
            assert bucket in str(error)
    assert stored(store, bucket) == before
    assert lake.table("t").count() == 110
    assert lake.cleanup_old_files(cleanup_all=True).count()
    assert stored(store, bucket) == files(lake) < before


def test_a_store_that_goes_away_in_the_middle(lake: Any, store: Store, bucket: str, spark: Any) -> None:
    lake.sql("CREATE TABLE parts (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    before = files(lake)
    arrived = []

    def away(
        request: Any,
    ) -> Any:  # the first file arrives, and its bytes are seen there; then all is refused
        if request.method in ("PUT", "POST") and ".parquet" in request.path:
            arrived.append(request.path)
            if len(set(arrived)) > 1:
                return denied(request.method, "")(request)
        return None

    for change in (
        lambda: lake["parts"].insert(spark.range(100).selectExpr("id", "id % 4 AS k")),
        lambda: lake["t"].update({"id": "-id"}, "id < 10"),
    ):
        arrived.clear()
        with store.failing(away), pytest.raises(FileError, match="Nothing was changed"):
            change()
        assert len(set(arrived)) > 1, "one file at least was there already"
        assert stored(store, bucket) == files(lake) == before
    assert lake.table("t").count() == 100


def test_silence_in_a_cleanup(lake: Any, store: Store, bucket: str, spark: Any) -> None:
    lake["t"].insert(spark.range(200, 210))
    lake.merge_adjacent_files("t")
    lake.expire_snapshots(versions=[row[0] for row in lake.snapshots().select("snapshot_id").collect()][:-1])

    def unanswered(request: Any) -> Any:  # the store deletes, and does not say so
        if request.method == "DELETE" or (request.method == "POST" and "delete" in request.query):
            raise ConnectionAbortedError
        return None

    with store.failing(unanswered):
        try:
            lake.cleanup_old_files(cleanup_all=True).collect()
        except FileError as error:
            assert bucket in str(error)
            assert lake.metadata("ducklake_files_scheduled_for_deletion").count()
    assert lake.table("t").count() == 110
    lake.cleanup_old_files(cleanup_all=True).collect()
    assert stored(store, bucket) == files(lake)
    assert lake.metadata("ducklake_files_scheduled_for_deletion").count() == 0


def test_a_store_that_is_not_there_is_told_soon(attach: Callable[..., Any], store: Store) -> None:
    options = {"endpoint": "http://127.0.0.1:9", "region": "us-east-1", "key_id": "AKIA", "secret": "hidden"}
    lake = attach(data_path="s3://nowhere/x", storage_options=options, data_inlining_row_limit=0)
    lake.create_table("t", {"id": "bigint"})
    start = time.monotonic()
    with pytest.raises(FileError, match=r"Could not connect to server.*Nothing was changed") as caught:
        lake["t"].insert([(1,), (2,)])
    assert time.monotonic() - start < 100, "seconds of waiting, not minutes"
    assert "hidden" not in str(caught.value)
    assert files(lake) == set()
