"""What comes after a commit, or before a transaction has begun, fails: nobody is told that a commit failed which did not."""

from __future__ import annotations

import gc
import logging
import threading
from pathlib import Path

import pytest

import ducklake_spark
from ducklake_spark.catalog.store import CommitOutcomeUnknown


@pytest.fixture
def lake(tmp_path: Path) -> ducklake_spark.Lake:
    """A lake with an empty table `t(i)`, at snapshot 1."""
    lake = ducklake_spark.attach(f"ducklake:{tmp_path / 'l.ducklake'}")
    lake.create_table("t", "i INT")
    return lake


def fails(*_: object) -> None:
    raise AttributeError("the session is gone")


def test_a_commit_is_not_undone_by_what_follows_it(
    lake: ducklake_spark.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake._scope.on_commit = fails
    with caplog.at_level(logging.WARNING):
        assert lake["t"].insert([(1,)]) == 1
    assert lake.version == 2
    [said] = caplog.messages
    assert said.startswith("The commit is done, but tables that Spark has cached may be of an older snapshot")
    lake.close()


def test_indexes_whose_commit_is_lost_do_not_matter(
    lake: ducklake_spark.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: object) -> None:
        raise CommitOutcomeUnknown

    monkeypatch.setattr("ducklake_spark.engine.scope.ensure_indexes", lost)
    with lake.transaction():
        lake["t"].insert([(1,)])
        lake._scope.transaction.written.append("/nowhere/at/all.parquet")  # type: ignore[union-attr]  # there is one
    assert lake.version == 2
    lake.close()


def test_a_transaction_that_could_not_begin_takes_no_statements(lake: ducklake_spark.Lake) -> None:
    lake._scope.on_mark = fails
    with pytest.raises(AttributeError), lake.transaction():
        lake["t"].insert([(1,)])
    lake._scope.on_mark = None
    assert lake["t"].insert([(2,)]) == 1
    assert lake.version == 2  # it was committed, by itself
    with lake.transaction():
        lake["t"].insert([(3,)])
    assert lake.version == 3
    lake.close()


def test_a_transaction_is_over_though_spark_cannot_be_told(lake: ducklake_spark.Lake) -> None:
    with lake.transaction():
        lake["t"].insert([(1,)])
        lake._scope.on_mark = fails
        lake._scope._state.token = "of a session"
    assert lake.version == 2
    assert lake["t"].insert([(2,)]) == 1
    assert lake.version == 3
    lake.close()


def test_a_thread_that_ends_takes_its_transaction_with_it(lake: ducklake_spark.Lake) -> None:
    def begins() -> None:
        lake.begin()
        lake["t"].insert([(1,)])

    thread = threading.Thread(target=begins)
    thread.start()
    thread.join()
    gc.collect()
    lake._scope.require_none_begun("a test asks")
    assert lake["t"].insert([(2,)]) == 1
    assert lake.version == 2
    lake.close()
