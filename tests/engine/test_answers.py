"""Answers that need no Spark: the very rows, texts and types that Spark would give, and a DataFrame to everybody."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.engine import answers
from ducklake_spark.engine.answers import LocalAnswer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ODD = "a\tb\n日本語のとても長い文章です、二十文字より長い 😀 and more"

ANSWERS: dict[str, Callable[[Lake], Any]] = {
    "snapshots": lambda lake: lake.snapshots(),
    "current": lambda lake: lake.current_snapshot(),
    "last": lambda lake: lake.last_committed_snapshot(),
    "options": lambda lake: lake.options(),
    "settings": lambda lake: lake.settings(),
    "table_info": lambda lake: lake.table_info(),
    "files": lambda lake: lake.list_files("t"),
    "no files": lambda lake: lake.list_files("u"),
    "metadata": lambda lake: lake.metadata("ducklake_data_file"),
    "schemas": lambda lake: lake.metadata("ducklake_schema"),
    "history": lambda lake: lake["t"].history(),
    "detail": lambda lake: lake["t"].detail(),
    "show": lambda lake: lake.sql("SHOW TABLES"),
    "all": lambda lake: lake.sql("SHOW ALL TABLES", dialect="duckdb"),
    "describe": lambda lake: lake.sql("DESCRIBE t", dialect="duckdb"),
    "nothing": lambda lake: lake.sql("CREATE SCHEMA IF NOT EXISTS main"),
    "count": lambda lake: lake.sql("INSERT INTO u VALUES (2)"),
    "call": lambda lake: lake.sql("CALL snapshots()"),
}

ASKED: dict[str, Callable[[DataFrame], Any]] = {
    "schema": lambda frame: frame.schema,
    "columns": lambda frame: (frame.columns, frame.dtypes),
    "collect": lambda frame: frame.collect(),
    "count": lambda frame: (frame.count(), frame.isEmpty()),
    "take": lambda frame: (frame.take(1), frame.take(0), frame.head(), frame.head(2), frame.first()),
    "tail": lambda frame: (frame.tail(1), frame.tail(100)),
    "iterator": lambda frame: list(frame.toLocalIterator()),
    "repr": repr,
    "show": lambda frame: frame.show(),
    "show whole": lambda frame: frame.show(truncate=False),
    "show some": lambda frame: (frame.show(1), frame.show(0), frame.show(2, 3), frame.show(2, 9)),
    "show vertical": lambda frame: (frame.show(vertical=True), frame.show(1, 10, True)),
    "printSchema": lambda frame: frame.printSchema(),
}


@pytest.fixture(scope="module")
def odd_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("answers")
    with ducklake_spark.attach(f"ducklake:{folder / 'm.ducklake'}", spark=spark) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        table = lake.create_table("t", {"a": "int", "b": "varchar[]"}, comment=ODD, partitioned_by=["a"])
        lake.create_table("u", {"a": "int"}, defaults={"a": 7})
        with lake.transaction(author="Ada", message=ODD, extra_info=""):
            table.insert([{"a": 1, "b": ["x", None]}])
        yield lake


@pytest.mark.parametrize("asked", ASKED)
def test_an_answer_is_what_spark_would_say(
    asked: str, odd_lake: Lake, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    for name, make in ANSWERS.items():
        local = make(odd_lake)
        assert isinstance(local, LocalAnswer), name
        capsys.readouterr()
        ours = ASKED[asked](local), capsys.readouterr().out
        real = Classic(local._jdf, spark)
        assert ours == (ASKED[asked](real), capsys.readouterr().out), name


def test_pandas_is_the_same_without_a_session(
    odd_lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pandas.testing import assert_frame_equal
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    monkeypatch.setenv("TZ", "UTC")  # the session's
    time.tzset()
    for make in ANSWERS.values():
        local = make(odd_lake)
        real = Classic(local._jdf, spark).toPandas()
        with monkeypatch.context() as nothing:
            nothing.setattr(answers, "_known_session", lambda scope: None)
            ours = local.toPandas()
        assert_frame_equal(ours, real)


def test_an_answer_is_a_frame_to_everybody(odd_lake: Lake, spark: SparkSession) -> None:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F
    from pyspark.testing import assertDataFrameEqual

    answer = odd_lake.snapshots()
    ids = [row.snapshot_id for row in answer.collect()]
    other = spark.range(2)
    assert isinstance(answer, DataFrame)
    assert other.join(answer, other.id == answer.snapshot_id).count() == 2
    assert answer.join(other, answer["snapshot_id"] == other.id, "left_semi").count() == 2
    assert other.union(odd_lake.current_snapshot()).count() == 3
    assert odd_lake.current_snapshot().unionByName(other).count() == 3
    assert other.crossJoin(F.broadcast(answer)).count() == 2 * len(ids)
    assert answer.where(F.col("snapshot_id") > 1).select("snapshot_id").orderBy("snapshot_id").first() == (2,)
    assert answer.groupBy("author").agg(F.max("snapshot_id").alias("m")).count() == 2
    assert spark.sql("SELECT count(*) FROM {a}", a=answer).first() == (len(ids),)
    answer.createOrReplaceTempView("answer_of_a_lake")
    assert spark.table("answer_of_a_lake").count() == len(ids)
    assert answer.cache().count() == len(ids)
    assert answer.unpersist().rdd.count() == len(ids)
    assert answer.withColumn("x", F.lit(1)).drop("x", "changes").exceptAll(answer.drop("changes")).isEmpty()
    assertDataFrameEqual(answer, spark.createDataFrame(answer.collect(), answer.schema))
    assert odd_lake.create_table("copied", answer).to_df().count() == len(ids)


def test_an_answer_without_a_session_gets_one_when_more_than_rows_is_asked(odd_lake: Lake) -> None:
    """Before the arguments of the method are made: they may be columns, which need a session."""
    started = []

    class Watched:
        @property
        def spark(self) -> Any:
            started.append(True)
            return odd_lake.spark

    answer = LocalAnswer(Watched(), [(1,)], *answers_schema("id bigint"))  # type: ignore[arg-type]
    assert answer.count() == 1 and answer.collect() == [(1,)] and "id" in answer.columns
    with pytest.raises(AttributeError):
        _ = answer._ipython_display_
    assert not started
    assert answer.where
    assert started


def answers_schema(columns: str) -> tuple[Any, Any]:
    import pyarrow as pa
    import pyspark.sql.types as T

    name, spark_type, arrow_type = answers._field(columns)
    return T.StructType([T.StructField(name, spark_type)]), pa.schema([(name, arrow_type)])
