"""`attach()` makes a lake a catalog of its session: when, under which name, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ducklake_spark
from ducklake_spark import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]


@pytest.fixture
def uri(tmp_path: Path, spark: SparkSession) -> Iterator[str]:
    yield f"ducklake:{tmp_path}/m.ducklake"
    assert spark.conf.get("spark.sql.catalog.mine", None) is None


def test_a_lake_is_a_catalog_until_it_is_closed(spark: SparkSession, uri: str) -> None:
    with ducklake_spark.attach(uri, spark=spark, name="mine") as lake:
        lake.create_table("t", "a INT").insert([(1,)])
        assert "mine" in [each.name for each in spark.catalog.listCatalogs("mine*")]
        assert spark.table("mine.main.t").count() == 1
        later = spark.newSession()
        assert later.table("mine.main.t").count() == 1
        later.sql("DELETE FROM mine.main.t WHERE a = 1")
        assert later.table("mine.main.t").count() == 0
    with pytest.raises(Exception, match="mine"):
        spark.table("mine.main.t")
    with pytest.raises(ducklake_spark.ClosedError):
        later.table("mine.main.t")


def test_an_active_session_is_taken_and_none_is_given(spark: SparkSession, uri: str) -> None:
    spark.range(1).count()
    with ducklake_spark.attach(uri, name="mine") as lake:
        lake.create_table("t", "a INT")
        assert spark.table("mine.main.t").columns == ["a"]


def test_a_cell_can_be_run_again(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    first = ducklake_spark.attach(uri, spark=spark, name="mine")
    first.create_table("t", "a INT").insert([(1,)])
    old = spark.table("mine.main.t")
    again = ducklake_spark.attach(uri, spark=spark, name="mine")
    assert spark.table("mine.main.t").count() == 1
    first.close()
    assert spark.table("mine.main.t").count() == 1
    other = ducklake_spark.attach(f"ducklake:{tmp_path}/other.ducklake", spark=spark, name="mine")
    other.create_table("t", "b INT")
    assert spark.table("mine.main.t").columns == ["b"]
    assert old.columns == ["a"]
    again.close()
    other.close()


def test_a_lake_can_be_left_out(spark: SparkSession, uri: str) -> None:
    with ducklake_spark.attach(uri, spark=spark, name="mine", catalog=False) as lake:
        lake.create_table("t", "a INT")
        assert spark.conf.get("spark.sql.catalog.mine", None) is None


@pytest.mark.parametrize("name", ["spark_catalog", "system", "taken"])
def test_a_name_that_is_used_is_refused(spark: SparkSession, uri: str, name: str) -> None:
    spark.conf.set("spark.sql.catalog.taken", "org.example.Catalog")
    try:
        with pytest.raises(InvalidInputError, match=rf'catalog "{name}" already.*catalog=False'):
            ducklake_spark.attach(uri, spark=spark, name=name)
        with ducklake_spark.attach(uri, spark=spark, name=name, catalog=False) as lake:
            assert lake.name == name
    finally:
        spark.conf.unset("spark.sql.catalog.taken")


def test_wrong_arguments_are_named(spark: SparkSession, uri: str) -> None:
    with pytest.raises(InvalidInputError, match="catalog takes True or False"):
        ducklake_spark.attach(uri, spark=spark, catalog="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match='no parameter "spark_sql"'):
        ducklake_spark.attach(uri, spark=spark, spark_sql=True)


def test_sessions_of_foreach_batch_know_the_lake(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    with ducklake_spark.attach(uri, spark=spark, name="mine") as lake:
        lake.create_table("t", "a BIGINT")
        (tmp_path / "in").mkdir()
        spark.range(3).coalesce(1).write.mode("append").json(str(tmp_path / "in"))
        stream = spark.readStream.schema("id BIGINT").json(str(tmp_path / "in"))
        query = (
            stream.selectExpr("id AS a")
            .writeStream.foreachBatch(lambda frame, _: frame.writeTo("mine.main.t").append())
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert sorted(row.a for row in spark.table("mine.main.t").collect()) == [0, 1, 2]


def test_a_lake_that_could_not_become_a_catalog_says_why(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ducklake_spark.errors import NativeUnavailableError
    from ducklake_spark.sql.native import register

    def refuse(*_: object) -> None:
        raise NativeUnavailableError("This JVM's class loader takes no classes.")

    monkeypatch.setattr(register, "register", refuse)
    with ducklake_spark.attach(uri, spark=spark, name="mine") as lake:
        lake.create_table("t", "a INT").insert([(1,)])
        assert lake.sql("SELECT * FROM t").count() == 1
        for use in (lambda: spark.sql("SELECT * FROM mine.main.t"), lambda: spark.table("mine.main.t")):
            with pytest.raises(NativeUnavailableError, match=r'"mine": This JVM.*lake\.sql'):
                use()
    with pytest.raises(Exception, match="mine") as raised:
        spark.table("mine.main.t")
    assert not isinstance(raised.value, NativeUnavailableError)


def test_configure_attaches_lakes_to_the_session_that_is_built(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession as Session

    options = {"uri": f"ducklake:sqlite:{tmp_path}/s.sqlite", "data_path": f"{tmp_path}/files"}
    builder = ducklake_spark.configure(Session.builder, mine=f"ducklake:{tmp_path}/m.ducklake", other=options)
    found = builder.getOrCreate()
    try:
        for name in ("mine", "other"):
            found.sql(f"CREATE TABLE {name}.main.t AS SELECT 1 AS a")
            assert builder.getOrCreate().table(f"{name}.main.t").count() == 1
        assert found.conf.get("spark.sql.catalog.other.data_path") == f"{tmp_path}/files"
    finally:
        for name, uri in (("mine", f"ducklake:{tmp_path}/m.ducklake"), ("other", options["uri"])):
            ducklake_spark.attach(uri, spark=spark, name=name).close()


@pytest.mark.parametrize(
    "lakes", [{}, {"mine": 1}, {"mine": {}}, {"mine": {"uri": "ducklake:m.ducklake", "name": "x"}}]
)
def test_configure_refuses_what_is_no_lake(spark: SparkSession, lakes: dict[str, object]) -> None:
    from pyspark.sql import SparkSession as Session

    with pytest.raises(InvalidInputError, match=r"configure\(\)"):
        ducklake_spark.configure(Session.builder, **lakes)  # type: ignore[arg-type]


def test_settings_of_spark_show_no_passwords(spark: SparkSession) -> None:
    from pyspark.sql import SparkSession as Session

    builder = Session.builder
    uri = "ducklake:postgres:dbname=d host=localhost user=u password=secret123"
    ducklake_spark.configure(builder, mine={"uri": uri, "meta_password": "secret456"})
    assert "secret" not in str(builder._options)
