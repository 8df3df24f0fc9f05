"""UPDATE and DELETE of rows in the catalog by plain values: without Spark, and with what DuckDB and the extension say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

import ducklake_spark
from ducklake_spark import ConstraintError, InvalidInputError, Lake
from ducklake_spark.engine.scope import Scope
from ducklake_spark.sql.execute.plain_changes import plain_statement
from ducklake_spark.sql.parser.grammar import LakeStatement
from ducklake_spark.sql.parser.parse import parse
from tests.interop import catalogs
from tests.interop.oracle import Oracle

COLUMNS = "k BIGINT NOT NULL, s VARCHAR, d DATE, n DECIMAL(9, 2), b BOOLEAN, u UBIGINT"
ROWS = """(1, 'Ada', DATE '2026-01-31', 1.50, true, 18446744073709551615), (2, 'ada', NULL, -2, false, 0),
    (3, NULL, DATE '0001-01-01', NULL, NULL, NULL), (-9223372036854775808, '', DATE '9999-12-31', 0, true, 7),
    (9223372036854775807, 'é', DATE '1969-12-31', 9999999.99, false, 9223372036854775808)"""

CONDITIONS = [
    "k = 1",
    "1 < k",
    "t.k >= 2 AND NOT b",
    "k <> 1 OR s IS NULL",
    "k != -9223372036854775808",
    "k < 9223372036854775807",
    "s = 'ada'",
    "s > 'B'",
    "'é' >= s",
    "s IS NOT NULL",
    "s = NULL",
    "NOT (s = NULL)",
    "s <> 'Ada' OR TRUE = b",
    "d <= DATE '1970-01-01'",
    "d BETWEEN DATE '0001-01-01' AND DATE '2026-01-31'",
    "NOT d BETWEEN DATE '2000-01-01' AND NULL",
    "n = 1.5",
    "n < 0 OR n >= 9999999",
    "n IN (1.50, -2)",
    "n NOT IN (1.50, NULL)",
    "k IN (1, 3, 77)",
    "s NOT IN ('Ada', '')",
    "s IN ('Ada', NULL)",
    "b",
    "NOT b",
    "b = false AND (k = 2 OR k = 1)",
    "b IS NULL",
    "u = 9223372036854775807",
    "u > 5 AND u < 9",
]


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    place = tmp_path_factory.mktemp("plain")
    with ducklake_spark.attach(f"ducklake:{place}/lake.ducklake", name="plain") as lake:
        lake.sql(f"CREATE TABLE t ({COLUMNS})", dialect="duckdb")
        lake.sql(f"INSERT INTO t VALUES {ROWS}", dialect="duckdb")
        yield lake


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: Scope) -> None:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr(Scope, "spark", property(missing))


@pytest.fixture(scope="module")
def judge() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE t ({COLUMNS}); INSERT INTO t VALUES {ROWS}")
        yield connection


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.usefixtures("no_spark")
def test_condition_holds_where_duckdb_says(
    values: Lake, judge: duckdb.DuckDBPyConnection, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    monkeypatch.setattr(
        "ducklake_spark.sql.execute.statements._counted", lambda _, count: counts.append(count)
    )
    for statement, dialect in [
        (f"DELETE FROM t WHERE {condition}", "spark"),
        (f"UPDATE t SET s = NULL WHERE {condition}", "duckdb"),
    ]:
        with pytest.raises(ZeroDivisionError), values.transaction():
            values.sql(statement, dialect=dialect)
            raise ZeroDivisionError
    [wanted] = judge.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchone() or ()
    assert counts == [wanted, wanted]


NOT_PLAIN = [
    "lower(s) = 'ada'",
    "k = 1.0",
    "k = '1'",
    "d = '2026-01-31'",
    "s = 'a\\nb'",
    's = "Ada"',
    "k = u",
    "rowid = 1",
    "k + 1 = 2",
    "k = 9223372036854775808",
    "x.k = 1",
    "k IN (SELECT 1)",
    "k IN (1, '2')",
    "s = '${x}'",
    "k = ?",
    "s LIKE 'A%'",
    "CAST(s AS DATE) = DATE '2026-01-31'",
    "n = 1.234",
    "NOT k",
    "1 = 1",
    "k <=> NULL",
]


@pytest.mark.parametrize("condition", NOT_PLAIN)
def test_what_needs_spark_is_left_to_it(values: Lake, condition: str) -> None:
    text = f"DELETE FROM t WHERE {condition}"
    [statement] = parse(text, "spark")
    assert isinstance(statement.tree, LakeStatement)
    found = plain_statement(text, "spark", statement.tree.node)
    assert found is None or found.of(values["t"].definition) is None


def test_a_value_that_is_computed_is_left_to_spark(values: Lake) -> None:
    for value in ("k + 1", "k", "DEFAULT", "'1'", "upper('a')"):
        text = f"UPDATE t SET k = {value}"
        [statement] = parse(text, "spark")
        assert isinstance(statement.tree, LakeStatement)
        found = plain_statement(text, "spark", statement.tree.node)
        assert found is None or found.of(values["t"].definition) is None


@pytest.mark.usefixtures("no_spark")
def test_refused_values_change_nothing(values: Lake) -> None:
    version = values.version
    with pytest.raises(ConstraintError, match='column "k" of table "t"'):
        values.sql("UPDATE t SET k = NULL WHERE s = 'Ada'")
    with pytest.raises(InvalidInputError, match='column "n" of table "t"'):
        values.sql("UPDATE t SET n = 12345678.5 WHERE k = 1")
    assert values.version == version
    values.sql("UPDATE t SET s = 'x' WHERE k = 77")
    assert values.version == version, "no row, no snapshot"


COLUMN_TYPES = "k BIGINT, s VARCHAR, d DATE, n DECIMAL(9, 2), b BOOLEAN, f DOUBLE, g FLOAT, z TIMESTAMP, w TIMESTAMPTZ, y BLOB"
FIRST = "(1, 'a', DATE '2026-01-31', 1.5, true, 0.1, 0.1, '2026-01-31 01:02:03.4', '2026-01-31 01:02:03.4+01', 'x')"
OTHERS = "(2, 'b', NULL, NULL, NULL, 'nan', '-inf', NULL, NULL, NULL), (3, '', 'infinity', 0, false, -0.0, 1, '-infinity', 'infinity', '')"


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    "kind", ["duckdb", "sqlite", "postgres"]
)  # on MySQL the extension fails at the second insert
def test_changes_are_those_of_the_extension(
    oracle: Oracle, tmp_path: Path, make_location: Callable[[str], str], kind: str
) -> None:
    begun = [
        f"CREATE TABLE t ({COLUMN_TYPES})",
        f"INSERT INTO t VALUES {FIRST}",
        f"INSERT INTO t VALUES {OTHERS}",
    ]
    steps = [
        "UPDATE t SET s = 'c', d = DATE '2026-02-01' WHERE k = 1",
        "UPDATE t SET b = NULL, n = -1.25 WHERE k IN (1, 3)",
        "UPDATE t SET k = 0 WHERE s = 'nobody'",
        "DELETE FROM t WHERE s = 'b'",
        "ALTER TABLE t ADD COLUMN late INTEGER DEFAULT 5",
        "UPDATE t AS x SET s = 'd' WHERE x.k = 3 AND late = 5",
        "UPDATE t SET k = 7",
        "DELETE FROM t WHERE k > 6",
    ]
    theirs, ours = f"ducklake:{tmp_path}/theirs.ducklake", make_location(kind)
    path = str(tmp_path / "data")
    seen = []
    for location, done_by_us in [(theirs, []), (ours, steps)]:
        oracle.attach(location, data_path=path)
        for step in [*begun, *(() if done_by_us else steps)]:
            oracle.execute(step)
        if done_by_us:
            oracle.detach()
            with ducklake_spark.attach(location, catalog=False) as lake:
                for step in done_by_us:
                    lake.sql(step, dialect="duckdb")
            oracle.attach(location)
        versions = [
            row[0]
            for row in oracle.execute("SELECT snapshot_id FROM lake.snapshots() ORDER BY ALL")
            if row[0] > 2
        ]
        seen.append(
            [
                repr(oracle.execute(f"SELECT * FROM t AT (VERSION => {version}) ORDER BY ALL"))
                for version in versions
            ]
        )
        oracle.detach()
    assert seen[0] == seen[1]
    if kind == "duckdb":
        catalogs.assert_same(ours, theirs)


@pytest.mark.usefixtures("no_spark")
def test_methods_of_a_table_do_the_same(values: Lake) -> None:
    table = values.create_table("m", "k BIGINT, s VARCHAR")
    table.insert([(1, "a"), (2, "b"), (3, "c")])
    assert table.update({"s": "'x'", "K": "7"}, "k IN (1, 2)") == 2
    assert table.delete("t.s = 'x'", alias="t") == 2
    assert table.update({"s": "NULL"}) == 1
    with values.transaction():
        assert table.delete("k = 3") == 1
    with pytest.raises(AssertionError, match="Spark was asked for"):
        table.delete("m.k = k + 0")
    assert [row.changes for row in values.snapshots().tail(1)] == [
        {"inlined_delete": [str(table.definition.table_id)]}
    ]


def test_row_ids_stay_and_files_go_the_other_way(values: Lake) -> None:
    values.sql("CREATE TABLE u (k BIGINT, s VARCHAR)")
    values.sql("INSERT INTO u VALUES (1, 'a'), (2, 'b')")
    values.sql("UPDATE u SET s = 'c' WHERE k = 1")
    read = lambda: sorted(map(tuple, values.table("u", virtual_columns=["rowid"]).collect()))  # noqa: E731
    assert read() == [(1, "c", 0), (2, "b", 1)]
    values["u"].flush_inlined_data()
    values.sql("UPDATE u SET s = 'd' WHERE k = 1")
    assert read() == [(1, "d", 0), (2, "b", 1)]
    values.sql("BEGIN; INSERT INTO u VALUES (3, 'e'); UPDATE u SET s = 'f' WHERE k = 3; COMMIT")
    assert read() == [(1, "d", 0), (2, "b", 1), (3, "f", 2)]


def test_long_decimals_keep_their_digits(values: Lake) -> None:
    digits = "123456789012345678901234567890123456.78"
    values.sql("CREATE TABLE long (n DECIMAL(38, 2))")
    values.sql(f"INSERT INTO long VALUES ({digits}), (-{digits})")
    assert [str(n) for (n,) in values.table("long").orderBy("n").collect()] == [f"-{digits}", digits]
