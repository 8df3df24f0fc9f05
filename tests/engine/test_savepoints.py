"""A statement that fails inside a transaction leaves nothing behind, by whichever door it came."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import (
    AlreadyExistsError,
    AmbiguousMergeError,
    DuckLakeError,
    Lake,
    NotFoundError,
)
from ducklake_spark.format.rows import CommitInfo
from tests.write.lakes import files_below

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("savepoints")
    with ducklake_spark.attach(
        f"ducklake:{folder}/m.ducklake", name="lake", spark=spark, data_inlining_row_limit=0
    ) as made:
        yield made


def files(lake: Lake, table: str) -> int:
    folder = Path(lake.data_path) / "main" / table
    return len(files_below(folder)) if folder.exists() else 0


def test_a_refused_create_table_makes_no_table(lake: Lake, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, None)], "a int, b int")
    with lake.transaction():
        with pytest.raises(DuckLakeError, match="NOT NULL"):
            lake.create_table("refused", frame, not_null=["b"])
        assert "refused" not in lake
        lake.create_table("beside", {"a": "int"})
    assert "refused" not in lake and "beside" in lake
    assert files(lake, "refused") == 0


def test_a_refused_merge_adds_no_columns(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("merged", {"k": "int"})
    table.insert([(1,)])
    twice = spark.createDataFrame([(1, "x"), (1, "y")], "k int, word string")
    with lake.transaction():
        merge = table.merge(twice, "target.k = source.k", merge_schema=True).when_matched().update_all()
        with pytest.raises(AmbiguousMergeError):
            merge.execute()
        assert table.columns == ["k"]
    assert table.columns == ["k"] and files(lake, "merged") == 1


def test_a_refused_insert_adds_no_columns(lake: Lake) -> None:
    table = lake.create_table("inserted", {"k": "int"}, not_null=["k"])
    with lake.transaction():
        with pytest.raises(DuckLakeError, match="NOT NULL"):
            table.insert([{"word": "x"}], merge_schema=True)
        assert table.columns == ["k"]
    assert table.columns == ["k"]


def test_files_of_a_failed_statement_go_at_once_and_others_stay(lake: Lake) -> None:
    table = lake.create_table("filled", {"k": "int"})
    with lake.transaction():
        table.insert([(1,)])
        assert files(lake, "filled") == 1
        with pytest.raises(NotFoundError, match='no column "nowhere"'):
            table.overwrite([(2,), (3,)], "nowhere = 1")
        assert files(lake, "filled") == 1
        assert table.to_df().collect() == [(1,)]
    assert table.to_df().collect() == [(1,)]


def test_handles_go_back_with_their_statement(lake: Lake) -> None:
    lake.create_schema("one")
    lake.use("one")
    try:
        with lake.transaction():
            with pytest.raises(NotFoundError):
                lake.sql("DROP SCHEMA one, nowhere")
            assert lake.default_schema == "one"
            lake.create_table("t", {"a": "int"})
        assert "one.t" in lake.tables()
        with pytest.raises(NotFoundError):
            lake.sql("DROP SCHEMA one, nowhere CASCADE")
        assert lake.default_schema == "one"
    finally:
        lake.use("main")


def more(lake: Lake) -> None:
    """Some of every kind of change, on top of those before."""
    lake.sql("ALTER TABLE s.t ADD COLUMN c INT")
    lake["s.t"].set_comment("of a column", column="a")
    lake["s.t"].insert([(3, 3, 3)])
    lake["s.t"].delete("a = 1")
    lake["s.inlined"].delete("a < 2")
    lake["s.inlined"].insert([(7,)])
    lake["s.t"].rename("u")
    lake["s.u"].set_partitioned_by("a")
    lake["s.emptied"].truncate()
    lake.rename_view("s.v", "w")
    lake.drop_macro("s.m")
    lake.set_option("target_file_size", "5MB", table="s.u")
    lake.set_option("parquet_compression", "zstd")
    lake.create_schema("s2")
    lake.create_table("s2.x", {"a": "int"})


@pytest.mark.parametrize("committed", [False, True], ids=["new-tables", "old-tables"])
def test_a_savepoint_keeps_every_kind_of_change(
    make_location: Callable[[str], str], spark: SparkSession, tmp_path: Path, committed: bool
) -> None:
    def prepare(lake: Lake) -> None:
        lake.create_schema("s")
        lake.create_table("s.t", {"a": "int", "b": "int"}).set_option("data_inlining_row_limit", 0)
        lake["s.t"].insert([(1, 1), (2, 2), (3, 3)])
        lake.create_table("s.inlined", {"a": "int"}).insert([(1,), (2,)])
        lake.create_table("s.emptied", {"a": "int"}).insert([(1,), (2,)])
        lake.create_view("s.v", "SELECT 1 AS one")
        lake.create_macro("s.m", "x", ["x"])

    with ducklake_spark.attach(make_location("sqlite"), data_path=str(tmp_path), spark=spark) as lake:
        if committed:
            prepare(lake)
        lake.begin()
        if not committed:
            prepare(lake)
        lake.set_option("target_file_size", "9MB")
        lake["s.t"].delete("a = 3")
        tx = lake._scope.transaction
        assert tx is not None
        before, written = state(tx), set(files_below(tmp_path))
        tables = {name: sorted(lake.table(name).collect()) for name in ("s.t", "s.inlined", "s.emptied")}
        with pytest.raises(KeyboardInterrupt), tx.savepoint():
            more(lake)
            tx.info = CommitInfo("Ada")
            raise KeyboardInterrupt
        assert state(tx) == before
        assert set(files_below(tmp_path)) == written
        assert {name: sorted(lake.table(name).collect()) for name in tables} == tables
        more(lake)
        lake.commit()
        assert sorted(lake.table("s.u").collect()) == [(2, 2, None), (3, 3, 3)]
        assert lake.table("s.inlined").count() == 2 and lake.tables("s2") == ["s2.x"]


def state(tx: Any) -> Any:
    """Everything that a transaction holds, as it is now."""
    edits = {name: value for name, value in vars(tx.edits).items() if name != "_own"}
    return copy.deepcopy([edits, tx.info, tx.written])


def test_a_statement_of_sql_that_fails_late_leaves_nothing(lake: Lake) -> None:
    with lake.transaction():
        lake.create_table("late", {"a": "int"})
        with pytest.raises(AlreadyExistsError):
            lake.sql("ALTER TABLE late ADD COLUMNS (b INT, a INT)")
        assert lake["late"].columns == ["a"]
