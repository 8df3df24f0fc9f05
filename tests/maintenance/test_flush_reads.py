"""What Spark reads before and after a flush, what it deletes afterwards, and flushes in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import ConflictError, InvalidInputError, Lake, NotFoundError
from ducklake_spark.errors import TransactionError
from tests.interop.oracle import Oracle

pytestmark = pytest.mark.spark

HISTORY = (
    "CREATE TABLE t(i INT)",
    "INSERT INTO t SELECT i FROM range(100, 150) r(i)",
    "INSERT INTO t VALUES (0)",
    "ALTER TABLE t ADD COLUMN p VARCHAR",
    "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')",
    "DELETE FROM t WHERE i IN (0, 1, 100)",
    "UPDATE t SET p = 'u' WHERE i IN (2, 101)",
    "UPDATE t SET p = 'v' WHERE i = 2",
)


@pytest.fixture
def lake(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    oracle.attach(uri)
    for statement in HISTORY:
        oracle.execute(statement)
    oracle.detach()
    with ducklake_spark.attach(uri, name="lake", spark=spark) as lake:
        yield lake


def read(frame: Any) -> list[Any]:
    return sorted(map(tuple, frame.collect()), key=repr)


def everything(lake: Lake) -> dict[str, list[Any]]:
    """The rows at snapshots, and change feeds."""
    found: dict[str, list[Any]] = {}
    for version in (3, 5, 6, 7, 8):
        found[f"rows {version}"] = read(lake.table("t", version=version, virtual_columns=["rowid"]))
    for version in (3, 7):
        found[f"feed {version}"] = read(lake.table_changes("t", version, 8))
    return found


def test_nothing_changes_for_readers(lake: Lake, oracle: Oracle, tmp_path: Path) -> None:
    before = everything(lake)
    # Plans that were made before, and run after.
    frames = {version: lake.table("t", version=version) for version in (5, None)}
    rows = {version: read(lake.table("t", version=version)) for version in frames}
    deleted = lake.table_changes("t", 6, 8)
    feed = read(deleted)

    [answer] = lake["t"].flush_inlined_data().collect()

    assert (answer.rows_flushed, answer.files, answer.delete_files) == (7, 2, 3)
    assert {version: read(frame) for version, frame in frames.items()} == rows
    assert read(deleted) == feed
    assert everything(lake) == before
    # What was flushed can be deleted and changed, and the extension sees it.
    assert lake["t"].delete("i = 3") == 1
    assert lake["t"].update({"p": "'w'"}, "i IN (2, 102)") == 2
    lake.flush_inlined_data()
    expected = read(lake.table("t"))
    lake.close()
    oracle.attach(f"ducklake:{tmp_path}/lake.ducklake")
    assert sorted(oracle.execute("FROM t"), key=repr) == expected
    assert expected[:1] == [(101, "u")] and (2, "w") in expected and len(expected) == 50


def test_two_of_ours(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/lake.ducklake", spark=spark) as other:
        expected = read(lake.table("t"))
        with pytest.raises(ConflictError, match="flush"), lake.transaction():
            lake["t"].delete("i = 3")
            other.flush_inlined_data()
        other["t"].delete("i = 103")
        with pytest.raises(ConflictError), lake.transaction():
            lake["t"].delete(
                "i BETWEEN 104 AND 130"
            )  # a delete file for the one that gets its inlined deletes
            assert other["t"].flush_inlined_data().collect() == []
        other["t"].insert([(50, None)])
        with pytest.raises(ConflictError, match="flush"), lake.transaction():
            other["t"].insert([(61, None)])
            lake.flush_inlined_data()
            other["t"].delete("i = 50")
        with pytest.raises(TransactionError, match="flushed"), lake.transaction():
            lake.flush_inlined_data()
            lake["t"].delete("i = 61")
        with pytest.raises(TransactionError, match="deleted or updated"), lake.transaction():
            lake["t"].delete("i = 61")
            lake.flush_inlined_data()
        with lake.transaction():
            lake["t"].insert([(70, None), (71, None)])
            lake.flush_inlined_data()
            lake["t"].delete("i = 70")  # a row of this transaction
        left = [row for row in expected if row != (103, None)] + [(61, None), (71, None)]
        assert read(lake.table("t")) == sorted(left, key=repr)


def test_sql(lake: Lake) -> None:
    lake.create_schema("s")
    lake.create_table("s.u", {"i": "int"})

    def filled() -> int:
        lake["s.u"].insert([(1,)])
        lake["t"].insert([(1, None)])
        return lake.version

    lake.flush_inlined_data()
    both = [("main", "t", 1), ("s", "u", 1)]
    for text, expected in [
        ("CALL ducklake_flush_inlined_data('lake')", both),
        ("CALL lake.flush_inlined_data()", both),
        ("FROM ducklake_flush_inlined_data('lake')", both),
        (
            "SELECT table_name FROM lake.flush_inlined_data() WHERE rows_flushed = 1 ORDER BY 1",
            [("t",), ("u",)],
        ),
        ("CALL ducklake_flush_inlined_data('lake', table_name => 'T')", both[:1]),
        ("CALL lake.flush_inlined_data(schema_name => 'S')", [("s", "u", 2)]),
        ("CALL ducklake_flush_inlined_data('lake', schema_name => 's', table_name => 'u')", []),
        ("CALL ducklake_flush_inlined_data('lake', table_name => 's.u')", []),
    ]:
        if expected:
            version = filled()
        assert read(lake.sql(text, dialect="duckdb")) == expected, text
        assert lake.version == version + bool(expected), text
        version = lake.version
    for text, error in [
        ("CALL ducklake_flush_inlined_data('lake', table_name => 'nope')", NotFoundError),
        ("CALL ducklake_flush_inlined_data('lake', schema_name => 'nope')", NotFoundError),
        ("CALL ducklake_flush_inlined_data('lake', table_name => NULL)", InvalidInputError),
        ("CALL ducklake_flush_inlined_data('lake', table_name => 7)", InvalidInputError),
        ("CALL ducklake_flush_inlined_data('lake', tabel_name => 't')", InvalidInputError),
        ("CALL ducklake_flush_inlined_data()", InvalidInputError),
    ]:
        with pytest.raises(error):
            lake.sql(text, dialect="duckdb")
    assert lake.version == version
