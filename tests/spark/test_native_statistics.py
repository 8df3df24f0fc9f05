"""What Spark's optimizer knows of tables: rows, bytes and columns, as exact as the catalog knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

import ducklake_spark
from ducklake_spark.catalog.sqlite import SQLiteStore
from tests.spark.conftest import NativeLake

pytestmark = pytest.mark.spark

COLUMNS = (
    "a INT, b BIGINT, d DECIMAL(9,2), f DOUBLE, day DATE, at TIMESTAMPTZ, s VARCHAR, yes BOOLEAN, u UINT64"
)


@contextmanager
def settings(native: NativeLake, **values: str) -> Iterator[None]:
    names = {name: f"spark.sql.{name.replace('_', '.')}" for name in values}
    before = {name: native.spark.conf.get(key) for name, key in names.items()}
    try:
        for name, value in values.items():
            native.spark.conf.set(names[name], value)
        yield
    finally:
        for name, value in before.items():
            native.spark.conf.set(names[name], value)


def statistics(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan().stats()


def rows(frame: DataFrame) -> int | None:
    found = statistics(frame).rowCount()
    return None if found.isEmpty() else int(str(found.get()))


def columns(frame: DataFrame) -> dict[str, tuple[str, str, int]]:
    plan = frame._jdf.queryExecution().optimizedPlan()
    known, found = plan.stats().attributeStats(), {}
    for i in range(plan.output().size()):
        attribute = plan.output().apply(i)
        if known.contains(attribute):
            each = known.apply(attribute)
            bounds = (str(side.get()) if side.isDefined() else "" for side in (each.min(), each.max()))
            found[str(attribute.name())] = (*bounds, int(str(each.nullCount().get())))
    return found


@pytest.fixture(scope="module")
def big(native: NativeLake) -> str:
    """Files of two inserts, without deletes."""
    name = native.table("big", COLUMNS)
    for low in (0, 500):
        native.sql(
            f"INSERT INTO {name} SELECT CAST(id AS INT), if(id % 10 = 0, NULL, -id), CAST(id AS DECIMAL(9,2)) / 4, id * 1.5D, "
            "DATE'2024-02-01' + CAST(id AS INT), TIMESTAMP'2024-02-01 10:00:00.25Z' + make_dt_interval(CAST(id AS INT)), "
            f"CAST(id AS STRING), id > 100, CAST(id AS DECIMAL(20,0)) FROM range({low}, {low + 500})"
        )
    return name


def test_rows_and_columns_are_those_of_the_catalog(native: NativeLake, big: str) -> None:
    with settings(native, cbo_enabled="true"):
        for frame in (native.spark.table(big), native.lake.table("big"), native.sql(f"SELECT * FROM {big}")):
            assert rows(frame) == 1000
            assert columns(frame) == {
                "a": ("0", "999", 0),
                "b": ("-999", "-1", 100),
                "d": ("0.00", "249.75", 0),
                "f": ("0.0", "1498.5", 0),
                "day": ("19754", "20753", 0),
                "at": ("1706781600250000", "1793095200250000", 0),
                "s": ("", "", 0),
                "yes": ("False", "True", 0),
            }
        assert columns(native.spark.table(big).where("a >= 0").select("a")) == {"a": ("0", "999", 0)}
        analyzed = native.spark.table(big)._jdf.queryExecution().analyzed().stats()
        assert analyzed.rowCount().get() == 1000


def test_rows_are_exact_after_every_kind_of_change(native: NativeLake) -> None:
    name = native.table("moving", "a INT")
    table = native.lake["moving"]

    def check() -> None:
        frame = native.lake.table("moving")
        assert rows(frame) == len(frame.collect())

    with settings(native, cbo_enabled="true"):
        check()
        table.insert(native.spark.range(100).selectExpr("CAST(id AS INT) AS a"))
        table.insert([(1000,), (None,)])
        check()
        native.sql(f"DELETE FROM {name} WHERE a IN (3, 4, 1000)")
        check()
        table.set_option("data_inlining_row_limit", 0)
        native.sql(f"UPDATE {name} SET a = -a WHERE a BETWEEN 10 AND 30")
        version = native.lake.version
        check()
        assert columns(native.lake.table("moving")) == {}
        native.lake.rewrite_data_files("moving", delete_threshold=0)
        check()
        native.lake.flush_inlined_data("moving")
        native.lake.merge_adjacent_files("moving")
        check()
        # A merged file has rows of later snapshots too: how many, the catalog does not say.
        assert rows(native.lake.table("moving", version=version)) is None
        table.truncate()
        check()
        table.insert(native.spark.range(5).selectExpr("CAST(id AS INT) AS a"))
        check()
        with native.lake.transaction():
            native.sql(f"INSERT INTO {name} VALUES (1), (2)")
            assert native.rows(f"SELECT count(*) FROM {name}") == [(7,)]


def test_values_that_are_not_known_are_left_out(native: NativeLake) -> None:
    name = native.table("odd", "n FLOAT, i DOUBLE, e INT, old TIMESTAMP, added INT")
    native.lake["odd"].set_option("data_inlining_row_limit", 0)
    native.sql(
        f"INSERT INTO {name} SELECT CAST('NaN' AS FLOAT), CAST('Infinity' AS DOUBLE), NULL, TIMESTAMP_NTZ'0001-01-01', 1"
    )
    native.lake["odd"].add_column("late", "int")
    with settings(native, cbo_enabled="true"):
        assert rows(native.spark.table(name)) == 1
        assert columns(native.spark.table(name)) == {
            "e": ("", "", 1),
            "old": ("-62135596800000000", "-62135596800000000", 0),
            "added": ("1", "1", 0),
        }


def test_small_tables_are_broadcast_and_joins_begin_with_them(native: NativeLake, big: str) -> None:
    native.table("small", "a INT, b BIGINT")
    native.lake["small"].insert([(1, 1), (2, 2)])
    native.table("middle", "a INT")
    native.lake["middle"].insert(native.spark.range(50).selectExpr("CAST(id AS INT) AS a"))
    with settings(
        native, cbo_enabled="true", cbo_joinReorder_enabled="true", autoBroadcastJoinThreshold="4000"
    ):
        joined = native.sql(
            f"SELECT 1 FROM {big} x JOIN nat.main.middle y ON x.a = y.a JOIN nat.main.small z ON y.a = z.a"
        )
        plan = joined._jdf.queryExecution().optimizedPlan().toString()
        order = [
            word.split("[")[0]
            for word in plan.split()
            if word.startswith("nat.main.") or word == "LocalRelation"
        ]
        assert order[-1] == "nat.main.big" or order[0] == "nat.main.big", plan
        assert set(order[:2]) == {"nat.main.middle", "LocalRelation"} or set(order[1:]) == {
            "nat.main.middle",
            "LocalRelation",
        }
        physical = joined._jdf.queryExecution().executedPlan().toString()
        assert physical.count("BroadcastHashJoin") == 2


def test_statistics_cost_nothing_where_nobody_asks(
    native: NativeLake, big: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    kept = SQLiteStore.query_many

    def query_many(self: Any, queries: Any) -> Any:
        asked.extend(text for text, _ in queries if "ducklake_file_column_stats" in text)
        return kept(self, queries)

    monkeypatch.setattr(SQLiteStore, "query_many", query_many)
    query = f"SELECT x.a FROM {big} x JOIN {big} y ON x.a = y.b"
    native.table("elsewhere", "a INT")  # a new snapshot, of which nothing is remembered
    native.sql(query)._jdf.queryExecution().executedPlan()
    assert asked == []
    with settings(native, cbo_enabled="true"):
        native.sql(query)._jdf.queryExecution().executedPlan()
        assert 0 < len(asked) <= 16
        asked.clear()
        native.sql(query)._jdf.queryExecution().executedPlan()
        assert asked == []


@pytest.mark.parametrize("kind", ["duckdb", "postgres", "mysql"])
def test_every_database_tells_the_same(
    native: NativeLake, make_location: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    with (
        ducklake_spark.attach(
            make_location(kind), spark=native.spark, name="other", data_path=tmp_path / "files", catalog=False
        ) as lake,
        settings(native, cbo_enabled="true"),
    ):
        table = lake.create_table("t", COLUMNS)
        table.set_option("data_inlining_row_limit", 0)
        table.insert(
            native.spark.sql(
                "SELECT 9 AS a, 10L AS b, 1.50BD AS d, -0.5D AS f, DATE'2024-02-01' AS day, TIMESTAMP'2024-02-01 10:00:00Z' AS at, "
                "'x' AS s, true AS yes, CAST(1 AS DECIMAL(20,0)) AS u"
            )
        )
        table.insert(
            native.spark.sql(
                "SELECT 10 AS a, NULL AS b, 10.25BD AS d, 3D AS f, DATE'2024-02-02' AS day, TIMESTAMP'2024-02-01 10:00:00.5Z' AS "
                "at, NULL AS s, false AS yes, CAST(1 AS DECIMAL(20,0)) AS u"
            )
        )
        assert rows(lake.table("t")) == 2
        assert columns(lake.table("t")) == {
            "a": ("9", "10", 0),
            "b": ("10", "10", 1),
            "d": ("1.50", "10.25", 0),
            "f": ("-0.5", "3.0", 0),
            "day": ("19754", "19755", 0),
            "at": ("1706781600000000", "1706781600500000", 0),
            "s": ("", "", 1),
            "yes": ("False", "True", 0),
        }
        table.delete("a = 9")
        assert rows(lake.table("t")) == 1
