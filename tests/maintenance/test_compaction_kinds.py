"""Compaction of tables of every kind: sorted ones, all types, changed partition keys, added files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from ducklake_spark import Lake
from tests.interop.oracle import Oracle
from tests.maintenance.compaction_twins import Twins

pytestmark = pytest.mark.spark

INSERTS = tuple(
    f"INSERT INTO {{table}} SELECT (i * 37 + {n}) % 60, chr((97 + i % 7)::INT) || i || '-{n}', NULLIF(i % 4, 3) FROM range(20) r(i)"
    for n in (0, 20, 40)
)
SORTS = {
    "several": "g DESC NULLS FIRST, i ASC, s",
    "expression": "i % 10, lower(s) DESC",
    "macro_of_macro": "farther(i, 3), s",
}
MACROS = (
    "CREATE MACRO far(x) AS abs(x - 30)",
    "CREATE MACRO farther(x, y := 2) AS far(x) * y - x / 100",
)
ORDERS = {
    "several": "g DESC NULLS FIRST, i ASC, s",
    "expression": "i % 10, lower(s) DESC",
    "macro_of_macro": "abs(i - 30) * 3 - i / 100, s",
}


def in_file_order(paths: Sequence[str], wanted: str) -> list[Any]:
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        found: list[Any] = connection.execute(
            f"SELECT {wanted} FROM read_parquet(?, hive_partitioning = false)", [list(paths)]
        ).fetchall()
    return found


def test_sorted_tables_stay_sorted(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    twins = Twins(
        oracle,
        spark,
        tmp_path,
        *MACROS,
        *(f"CREATE TABLE {name}(i INT, s VARCHAR, g INT)" for name in SORTS),
        *(insert.format(table=name) for name in SORTS for insert in INSERTS),
        *(f"ALTER TABLE {name} SET SORTED BY ({keys})" for name, keys in SORTS.items()),
    )
    before = twins.story(1, *SORTS)
    with twins.lake() as lake:
        merged = [tuple(row)[1:4] for row in lake.merge_adjacent_files().collect()]
        assert sorted(merged) == sorted((name, 3, 1) for name in SORTS)
        for name, order in ORDERS.items():
            check_order(own_files(lake, name), order)
    for name in SORTS:
        twins.ask(f"DELETE FROM {name} WHERE i % 20 = 1")
    with twins.lake() as lake:
        lake.rewrite_data_files(delete_threshold=0.01)
        for name, order in ORDERS.items():
            check_order(own_files(lake, name), order)
    assert [each for each in twins.story(1, *SORTS) if each[1] <= before[-1][1]] == before
    # The extension's own files have the same order, where it can sort by such keys.
    for name in ("several", "expression"):
        twins.ask(f"CALL ducklake_merge_adjacent_files('lake', '{name}')", side=0)
        paths = twins.ask(f"SELECT data_file FROM ducklake_list_files('lake', '{name}')", side=0)
        check_order([path for (path,) in paths], ORDERS[name])


def own_files(lake: Lake, table: str) -> list[str]:
    return [row.data_file for row in lake.list_files(table).collect()]


def check_order(paths: Sequence[str], order: str) -> None:
    for path in paths:
        rows = in_file_order([path], "i, s, g")
        ordered = duckdb.sql(
            f"SELECT i, s, g FROM read_parquet('{path}', hive_partitioning = false) ORDER BY {order}"
        )
        assert len(rows) > 30
        assert rows == ordered.fetchall(), order


TYPES = (
    "a BOOLEAN, b TINYINT, c USMALLINT, d UBIGINT, e HUGEINT, f FLOAT, g DOUBLE, h DECIMAL(9, 2), j DECIMAL(38, 5), "
    "k VARCHAR, l BLOB, m DATE, n TIME, o TIMESTAMP, p TIMESTAMPTZ, q TIMESTAMP_S, r TIMESTAMP_NS, s UUID, t INTERVAL, "
    "u JSON, v INT[], w STRUCT(x INT, y VARCHAR[]), z MAP(VARCHAR, STRUCT(x DOUBLE))"
)
ROW = (
    "SELECT i % 2 = 0, i, i, 2::UBIGINT ** 63 + i, 2::HUGEINT ** 50 + i, i / 3, i / 7, i / 100, i / 1000, "
    "'x' || i, ('\\xAB' || i)::BLOB, DATE '1500-01-01' + i::INT, TIME '01:02:03.5', TIMESTAMP '2020-01-01' + to_days(i::INT), "
    "TIMESTAMPTZ '1901-01-01 00:00:00+01', TIMESTAMP_S '2020-01-01', TIMESTAMP_NS '2020-01-01 00:00:00.123456789', "
    "md5(i::VARCHAR)::UUID, INTERVAL '1 month 2 days', '{{\"a\": 1}}'::JSON, [i, NULL], {{'x': i, 'y': ['a', NULL]}}, "
    "MAP {{'k': {{'x': 1.5}}}} FROM range({0}, {0} + 15) r(i)"
)


def test_all_types_changed_keys_and_added_files(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    added = tmp_path / "added"
    added.mkdir()
    for number in (1, 2):
        duckdb.sql(
            f"COPY (SELECT {number} AS k, 'more' AS extra) TO '{added}/{number}.parquet' (FORMAT parquet)"
        )
    twins = Twins(
        oracle,
        spark,
        tmp_path,
        f"CREATE TABLE types({TYPES})",
        *(f"INSERT INTO types {ROW.format(n)}" for n in (0, 15, 30)),
        "INSERT INTO types SELECT * REPLACE (NULL AS a, NULL AS v, NULL AS w, NULL AS z) FROM types LIMIT 15",
        "CREATE TABLE keys(k INT, p VARCHAR)",
        *["INSERT INTO keys SELECT i, 'p' || i % 2 FROM range(20) r(i)"] * 2,
        "ALTER TABLE keys SET PARTITIONED BY (p)",
        *["INSERT INTO keys SELECT i, 'p' || i % 2 FROM range(20) r(i)"] * 2,
        "ALTER TABLE keys SET PARTITIONED BY (bucket(2, k))",
        *["INSERT INTO keys SELECT i, 'p' || i % 2 FROM range(20) r(i)"] * 2,
        "ALTER TABLE keys RESET PARTITIONED BY",
        *["INSERT INTO keys SELECT i, 'p' || i % 2 FROM range(20) r(i)"] * 2,
        "CREATE TABLE named(k INT, extra VARCHAR, late INT DEFAULT 7)",
        f"CALL ducklake_add_data_files('lake', 'named', '{added}/*.parquet', allow_missing => true)",
        "INSERT INTO named SELECT i, 'own', i FROM range(20) r(i)",
        "CREATE TABLE evolved(a INT, st STRUCT(x INT))",
        *["INSERT INTO evolved SELECT i, {'x': i} FROM range(20) r(i)"] * 2,
        "ALTER TABLE evolved ALTER a SET DATA TYPE BIGINT",
        "ALTER TABLE evolved ADD COLUMN st.y VARCHAR DEFAULT 'new'",
        *["INSERT INTO evolved SELECT i, {'x': i, 'y': 'z'} FROM range(20) r(i)"] * 2,
        "ALTER TABLE evolved DROP COLUMN st.x",
        *["INSERT INTO evolved SELECT i, {'y': 'z'} FROM range(20) r(i)"] * 2,
    )
    tables = ("types", "keys", "named", "evolved")
    before = twins.story(1, *tables)
    theirs = [
        row
        for name in tables
        for row in twins.ask(f"CALL ducklake_merge_adjacent_files('lake', '{name}')", 0)
    ]
    with twins.lake() as lake:
        ours = [tuple(row)[:4] for name in tables for row in lake.merge_adjacent_files(name).collect()]
    assert sorted(ours) == sorted(theirs)
    after = twins.story(1, *tables)
    assert [each for each in after if each[1] <= before[-1][1]] == before
    for name in tables[1:]:
        twins.ask(f"DELETE FROM {name} WHERE {'a' if name == 'evolved' else 'k'} % 5 = 1")
    with twins.lake() as lake:
        lake.rewrite_data_files(delete_threshold=0.01)
    after = twins.story(1, *tables)
    assert [each for each in after if each[1] <= before[-1][1]] == before
