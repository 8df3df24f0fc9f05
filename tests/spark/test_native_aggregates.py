"""Counts, least and greatest values that the catalog answers: those that a scan finds, or a scan finds them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ducklake_spark.errors import SnapshotNotFoundError
from tests.spark.conftest import NativeLake

pytestmark = pytest.mark.spark

EXACT = {
    "t": ("TINYINT", "CAST(id - 100 AS TINYINT)"),
    "h": ("SMALLINT", "CAST(id * 100 AS SMALLINT)"),
    "i": ("INT", "CAST(-id AS INT)"),
    "b": ("BIGINT", "if(id % 7 = 0, NULL, id * 10000000000)"),
    "u": ("UINT32", "4294967295 - id"),
    "d": ("DECIMAL(9,2)", "CAST(id AS DECIMAL(9,2)) / 4 - 3"),
    "yes": ("BOOLEAN", "id > 50"),
    "day": ("DATE", "DATE'1969-12-01' + CAST(id AS INT)"),
    "at": ("TIMESTAMPTZ", "TIMESTAMP'1969-12-31 23:59:59.25Z' + make_dt_interval(0, 0, 0, id / 8)"),
    "plain": ("TIMESTAMP", "TIMESTAMP_NTZ'2024-02-29 10:00:00' + make_dt_interval(0, CAST(id AS INT))"),
    "empty": ("INT", "CAST(NULL AS INT)"),
}
SCANNED = {
    "f": ("FLOAT", "if(id = 3, CAST('NaN' AS FLOAT), CAST(id AS FLOAT))"),
    "r": ("DOUBLE", "if(id = 3, -0.0D, 0.0D)"),
    "s": ("VARCHAR", "repeat('long text ', 30) || id"),
    "bin": ("BLOB", "CAST(CAST(id AS STRING) AS BINARY)"),
    "big": ("UINT64", "CAST('18446744073709551615' AS DECIMAL(20,0)) - id"),
    # SQLite compares no more than 15 digits.
    "w": ("DECIMAL(38,10)", "CAST('1234567890123456789012345678' AS DECIMAL(38,10)) + id"),
    "wide": ("INT128", "CAST('12345678901234567890123456789' AS DECIMAL(38,0)) + id"),
}
ALL = EXACT | SCANNED


def is_scanned(frame: DataFrame) -> bool:
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    return any(leaves.apply(i).nodeName() != "LocalRelation" for i in range(leaves.size()))


def measured(frame: DataFrame, *columns: str) -> DataFrame:
    made = [F.count("*").alias("rows")]
    for name in columns:
        made += [
            F.min(name).alias(f"min_{name}"),
            F.max(name).alias(f"max_{name}"),
            F.count(name).alias(f"n_{name}"),
        ]
    return frame.agg(*made)


def counted(frame: DataFrame, *columns: str) -> tuple[Any, ...]:
    """The same by Python, of all rows."""
    rows = frame.select(*columns).collect()
    made: list[Any] = [len(rows)]
    for place in range(len(columns)):
        values = [row[place] for row in rows if row[place] is not None]
        made += [min(values, default=None), max(values, default=None), len(values)]
    return tuple(made)


@pytest.fixture(scope="module")
def every(native: NativeLake) -> str:
    """Two files with a column of every type."""
    name = native.table("every", ", ".join(f"{column} {kind}" for column, (kind, _) in ALL.items()))
    values = ", ".join(sql for _, sql in ALL.values())
    for low in (0, 60):
        native.sql(f"INSERT INTO {name} SELECT {values} FROM range({low}, {low + 60})")
    return name


def test_the_catalog_answers_for_types_whose_bounds_are_exact(native: NativeLake, every: str) -> None:
    expected = counted(native.lake.table("every"), *EXACT)
    assert expected[0] == 120
    for frame in (native.lake.table("every"), native.spark.table(every)):
        asked = measured(frame, *EXACT)
        assert not is_scanned(asked)
        assert tuple(asked.collect()[0]) == expected
    assert native.lake.table("every").count() == 120


@pytest.mark.parametrize("column", SCANNED)
def test_a_scan_answers_for_all_others(native: NativeLake, every: str, column: str) -> None:
    asked = native.sql(f"SELECT min({column}), max({column}) FROM {every}")
    assert is_scanned(asked)
    low, high = asked.collect()[0]
    whole = native.sql(f"SELECT sort_array(collect_list({column})) AS all FROM {every}").collect()[0][0]
    assert (str(low), str(high)) == (str(whole[0]), str(whole[-1]))
    assert native.rows(f"SELECT count({column}) FROM {every}") == [(120,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM {0} WHERE i < -10",
        "SELECT yes, count(*) FROM {0} GROUP BY yes",
        "SELECT count(DISTINCT yes) FROM {0}",
        "SELECT count(*) FILTER (WHERE yes) FROM {0}",
        "SELECT max(i + 1) FROM {0}",
        "SELECT sum(i), count(*) FROM {0}",
        "SELECT count(*) FROM (SELECT * FROM {0} LIMIT 7)",
        "SELECT count(*) FROM {0} TABLESAMPLE (100 PERCENT)",
        "SELECT count(t, b) FROM {0}",
        "SELECT count(*) FROM {0} AS a JOIN {0} AS b USING (i)",
    ],
)
def test_other_questions_are_scans(native: NativeLake, every: str, query: str) -> None:
    assert is_scanned(native.sql(query.format(every)))


def test_what_is_made_of_the_values_is_answered_too(native: NativeLake, every: str) -> None:
    asked = native.sql(
        f"SELECT max(i) - min(i) AS span, count(*) * 2 AS twice, 'x' AS x FROM (SELECT i FROM {every} "
        f"UNION ALL SELECT -i FROM {every}) HAVING count(*) > 1"
    )
    assert asked.columns == ["span", "twice", "x"]
    assert tuple(asked.collect()[0]) == (238, 480, "x")
    both = native.sql(f"SELECT count(*), max(i) FROM (SELECT i FROM {every} UNION ALL SELECT i FROM {every})")
    assert not is_scanned(both)
    assert native.rows(f"SELECT i FROM {every} WHERE i = (SELECT min(i) FROM {every})") == [(-119,)]


def test_answers_stay_those_of_a_scan_after_every_change(native: NativeLake) -> None:
    name = native.table("changing", "i INT, s VARCHAR")
    table = native.lake["changing"]

    def check(*, scanned: bool) -> None:
        frame = native.lake.table("changing")
        assert tuple(measured(frame, "i").collect()[0]) == counted(frame, "i")
        assert frame.count() == len(frame.collect())
        assert is_scanned(measured(frame, "i")) is scanned
        assert native.rows(f"SELECT count(*) FROM {name}") == [(len(frame.collect()),)]

    check(scanned=False)
    table.insert([(7, "inlined"), (None, None), (-5, "")])
    check(scanned=False)
    table.insert(native.spark.range(100).selectExpr("CAST(id AS INT) AS i", "CAST(id AS STRING) AS s"))
    check(scanned=False)
    with native.lake.transaction():
        table.insert([(1000, "pending")])
        check(scanned=False)
        table.delete("i = 1000")
        table.delete("i < 3")
        frame = native.lake.table("changing")
        assert tuple(measured(frame, "i").collect()[0]) == counted(frame, "i")
    before = native.lake.version
    check(scanned=True)
    native.lake.flush_inlined_data("changing")
    native.sql(f"UPDATE {name} SET i = i + 1 WHERE i > 90")
    check(scanned=True)
    native.lake.rewrite_data_files("changing", delete_threshold=0)
    native.lake.merge_adjacent_files("changing")
    check(scanned=False)
    for version in range(before - 3, before + 1):
        frame = native.lake.table("changing", version=version)
        assert tuple(measured(frame, "i").collect()[0]) == counted(frame, "i")
        assert frame.count() == len(frame.collect())
    table.add_column("late", "int", default="4")
    table.insert(
        native.spark.range(3).selectExpr("CAST(id AS INT) AS i", "'x' AS s", "CAST(id AS INT) AS late")
    )
    frame = native.lake.table("changing")
    assert tuple(measured(frame, "i", "late").collect()[0]) == counted(frame, "i", "late")
    table.alter_column("i", "bigint") if hasattr(table, "alter_column") else native.sql(
        f"ALTER TABLE {name} ALTER COLUMN i TYPE BIGINT"
    )
    frame = native.lake.table("changing")
    assert tuple(measured(frame, "i").collect()[0]) == counted(frame, "i")
    table.truncate()
    check(scanned=False)


def test_an_expired_snapshot_answers_nothing(native: NativeLake) -> None:
    import datetime

    native.table("old", "i INT")
    native.lake["old"].insert(native.spark.range(30).selectExpr("CAST(id AS INT) AS i"))
    frame = native.lake.table("old")
    native.lake["old"].insert([(1,)])
    native.lake.expire_snapshots(older_than=datetime.datetime.now(datetime.timezone.utc))
    with pytest.raises(SnapshotNotFoundError, match="expired"):
        frame.count()


def test_columns_with_fields_are_counted(native: NativeLake) -> None:
    name = native.table("nested", "a INT, s STRUCT(x INT, y VARCHAR), l INT[], m MAP(VARCHAR, INT)")
    rows = "SELECT CAST(id AS INT), if(id = 2, NULL, named_struct('x', 1, 'y', 'z')), array(1), map('k', 2) FROM range(300)"
    native.sql(f"INSERT INTO {name} {rows}")
    assert native.rows(f"SELECT count(*), max(a) FROM {name}") == [(300, 299)]
    assert native.rows(f"SELECT count(s), count(l), count(m), count(s.x) FROM {name}") == [
        (299, 300, 300, 299)
    ]
