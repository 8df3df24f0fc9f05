"""Statements that change rows, once by the extension and once by us: same answers, same rows after each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import AmbiguousMergeError
from tests.interop.oracle import Oracle
from tests.sql.twins import Twins, twins

pytestmark = pytest.mark.spark


@pytest.fixture
def two(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> Iterator[Twins]:
    with twins(oracle, spark, tmp_path) as pair:
        yield pair


INSERTS = [
    "INSERT INTO t VALUES (1, DEFAULT, {'x': 1, 'y': 'p'}, [1, 2])",
    "INSERT INTO t DEFAULT VALUES",
    "INSERT INTO t BY NAME SELECT 2 AS a",
    "INSERT INTO t BY POSITION SELECT 3, 'three', NULL, [3]",
    "INSERT INTO t SELECT 4, 'four', {'x': 4, 'y': 'q'}, NULL",
    "INSERT INTO t (b, a) VALUES ('z', 9), (DEFAULT, 10), ('y', DEFAULT)",
    "INSERT INTO t (a) VALUES ('7'), (8.6), (NULL)",
    "INSERT INTO t (b) VALUES (1), (true), (DATE '2020-01-01')",
    "INSERT INTO main.t (\"a\", B) VALUES (6, 'it''s')",
    "WITH w AS (SELECT 20 AS a) INSERT INTO t (a) SELECT a + 1 FROM w",
    "INSERT INTO t (a, b) SELECT i, 'r' || i FROM (SELECT unnest(range(30, 60)) AS i)",
    "INSERT INTO t (a) SELECT max(a) + 1 FROM t",
    "INSERT INTO t BY NAME (SELECT 'n' AS b, 99 AS a)",
    "INSERT INTO d VALUES ('2020-02-29', '2020-01-01 10:00:00', '1.25', 'true')",
    "INSERT INTO one VALUES ({'a': 1, 'b': 'x'}), (NULL)",
    "WITH w AS (SELECT 3 AS h) INSERT INTO t (a) VALUES ((SELECT h FROM w)), (DEFAULT)",
    "INSERT INTO ty VALUES ('550e8400-e29b-41d4-a716-446655440000', 18446744073709551615, '2020-01-01 00:00:00.123456789', '12:34:56.5', "
    "INTERVAL '1 day', '{\"a\": 1}', 'abc', 200, 170141183460469231731687303715884105, '2020-01-01 10:00:00+02', 1.2345, '2020-01-01 10:00:00', MAP {'a': 1}, 1.5)",
    "CREATE TABLE ctas AS SELECT * FROM ty",
    "DESCRIBE ctas",
    "CREATE TABLE named(x, y) AS SELECT a, b AS bb FROM main.ty AS z WHERE h > 3",
    "DESCRIBE named",
    "INSERT INTO d SELECT DATE '2021-01-01', TIMESTAMP '2021-01-01 00:00:00', 2, false",
]

REFUSED_INSERTS = [
    "INSERT INTO t VALUES (5)",
    "INSERT INTO t SELECT 5",
    "INSERT INTO t VALUES (1, 2, 3, 4, 5)",
    "INSERT INTO t (a, a) VALUES (1, 2)",
    "INSERT INTO t (nope) VALUES (1)",
    "INSERT INTO t BY NAME SELECT 1 AS nope",
    "INSERT INTO nope VALUES (1)",
    "INSERT INTO t (a) VALUES ('q')",
    "INSERT INTO t (a) VALUES (99999999999)",
    "INSERT INTO n VALUES (NULL)",
    "INSERT INTO t (a) VALUES (1) RETURNING a",
    "INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING",
    "INSERT OR REPLACE INTO t (a) VALUES (1)",
    "INSERT INTO v VALUES (1)",
]


def test_inserts(two: Twins) -> None:
    two.same("CREATE TABLE t(a INT, b VARCHAR DEFAULT 'd', st STRUCT(x INT, y VARCHAR), l INT[])")
    two.same("CREATE TABLE d(d DATE, ts TIMESTAMP, n DECIMAL(10,3), f BOOLEAN)")
    two.same("CREATE TABLE n(a INT NOT NULL)")
    two.same("CREATE TABLE one(st STRUCT(a INT, b VARCHAR))")
    two.same(
        "CREATE TABLE ty(a UUID, b UBIGINT, c TIMESTAMP_NS, d TIME, e INTERVAL, f JSON, g BLOB, h UTINYINT, i HUGEINT, j TIMESTAMPTZ, "
        "k DECIMAL(18,3), l TIMESTAMP_S, m MAP(VARCHAR, INT), n FLOAT)"
    )
    two.same("CREATE VIEW v AS SELECT a FROM t")
    for statement in INSERTS:
        two.same(statement, ["t"])
    for statement in REFUSED_INSERTS:
        two.refused(statement)
    for table in ("t", "d", "one", "ty", "ctas", "named"):
        two.same_rows(table)


CHANGES = [
    "UPDATE t SET b = 'one' WHERE a = 1",
    "UPDATE t AS x SET a = x.a + 100, b = x.b || '!' WHERE x.a BETWEEN 2 AND 4",
    "UPDATE t SET (a, b) = (a + 1, 'pair') WHERE a = 5",
    "UPDATE t SET a = '77' WHERE a = 7",
    "UPDATE t SET b = (SELECT max(name) FROM u) WHERE a = 8",
    "UPDATE t SET b = 'in' WHERE a IN (SELECT id FROM u WHERE id > 8)",
    "UPDATE t SET b = 'exists' WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.a AND u.name = 'n9')",
    "UPDATE t SET b = u.name FROM u WHERE t.a = u.id",
    "UPDATE t SET b = t.b || x.k, a = t.a FROM u JOIN (VALUES (10, 'kk')) x(i, k) ON u.id = x.i WHERE t.a = u.id",
    "UPDATE t SET b = NULL WHERE a = 12345",
    "DELETE FROM t USING u WHERE t.a = u.id AND u.id < 11",
    "DELETE FROM t USING (VALUES (20), (21)) x(i) WHERE t.a = x.i",
    "DELETE FROM t WHERE a NOT IN (SELECT a FROM t WHERE a < 48)",
    "WITH w AS (SELECT 30 AS i) DELETE FROM t WHERE a IN (SELECT i FROM w)",
    "WITH w AS (SELECT 31 AS i) UPDATE t SET b = 'cte' WHERE a IN (SELECT i FROM w)",
    "TRUNCATE u",
    "DELETE FROM t AS x WHERE x.a = 41",
    "DELETE FROM t",
    "TRUNCATE TABLE t",
    "DELETE FROM t WHERE a = 1",
]

REFUSED_CHANGES = [
    "UPDATE nope SET a = 1",
    "UPDATE t SET nope = 1",
    "UPDATE t SET a = DEFAULT",
    "UPDATE t SET a = 1 WHERE nope = 1",
    "UPDATE t SET a = 1 RETURNING a",
    "DELETE FROM nope",
    "DELETE FROM t WHERE nope = 1",
    "DELETE FROM t RETURNING a",
    "UPDATE v SET a = 1",
    "DELETE FROM v",
    "TRUNCATE nope",
    "UPDATE t SET a = 'word' WHERE a = 1",
]


def test_updates_and_deletes(two: Twins) -> None:
    two.same("CREATE TABLE t(a INT, b VARCHAR, st STRUCT(x INT, y VARCHAR))")
    two.same("CREATE TABLE u(id INT, name VARCHAR)")
    two.same("CREATE VIEW v AS SELECT a FROM t")
    two.same("INSERT INTO t SELECT i, 'v' || i, {'x': i, 'y': 'y'} FROM (SELECT unnest(range(0, 50)) AS i)")
    two.same("INSERT INTO u SELECT i, 'n' || i FROM (SELECT unnest(range(7, 13)) AS i)")
    for statement in REFUSED_CHANGES:
        two.refused(statement)
    for statement in CHANGES:
        two.same(statement, ["t", "u"])
    # Both remove each row once; the extension counts a row as often as it matches.
    two.run("INSERT INTO t (a) VALUES (1), (2), (3)")
    assert two.run("DELETE FROM t USING (VALUES (1), (1), (2)) x(i) WHERE t.a = x.i") == ([(3,)], [(2,)])
    two.same_rows("t")


MERGES = [
    "MERGE INTO t USING (SELECT 7 AS a, 'n' AS b) u ON t.a = u.a WHEN MATCHED THEN UPDATE SET b = u.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (u.a, u.b)",
    "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b || '!' WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)",
    "MERGE INTO t AS x USING s AS y USING (a) WHEN MATCHED AND y.a > 4 THEN DELETE",
    "MERGE INTO t USING s USING (a) WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO t USING (SELECT 'p' AS b, 300 AS a) u USING (a) WHEN NOT MATCHED THEN INSERT BY NAME",
    "MERGE INTO t USING s USING (a) WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED BY SOURCE AND t.a = 300 THEN UPDATE SET b = 'bysrc'",
    "MERGE INTO t USING s USING (a) WHEN MATCHED AND t.a = 3 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET b = 'after'",
    "MERGE INTO t USING (SELECT 400 AS a) u ON t.a = u.a WHEN NOT MATCHED BY TARGET THEN INSERT (a, b) VALUES (u.a, DEFAULT)",
    "MERGE INTO t USING (SELECT '401' AS a) u ON t.a = u.a WHEN NOT MATCHED THEN INSERT (a) VALUES (u.a)",
    "MERGE INTO t USING (VALUES (500, 'five'), (501, 'six')) u(i, k) ON t.a = u.i WHEN NOT MATCHED AND u.i = 501 THEN INSERT (a, b) VALUES (u.i, u.k)",
    "WITH w AS (SELECT 600 AS a) MERGE INTO t USING w ON t.a = w.a WHEN NOT MATCHED THEN INSERT (a) VALUES (w.a)",
    "MERGE INTO t USING s ON t.a = s.a AND t.a IN (SELECT a FROM s WHERE a = 3) WHEN MATCHED THEN UPDATE SET b = 'sub'",
    "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED BY SOURCE THEN DELETE",
]

REFUSED_MERGES = [
    "MERGE INTO t USING (SELECT 3 AS a, 'n' AS b, 1 AS c) u USING (a) WHEN MATCHED THEN UPDATE",
    "MERGE INTO t USING (SELECT 3 AS a) u USING (a) WHEN MATCHED THEN ERROR 'boo'",
    "MERGE INTO t USING (SELECT 3 AS a) u USING (b) WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING (SELECT 3 AS a, 'n' AS b) u USING (a) WHEN MATCHED AND b = 'z' THEN DELETE",
    "MERGE INTO t USING (SELECT 3 AS a) u USING (a) WHEN MATCHED THEN UPDATE SET b = DEFAULT",
    "MERGE INTO t USING nope USING (a) WHEN MATCHED THEN DELETE",
    "MERGE INTO nope USING t USING (a) WHEN MATCHED THEN DELETE",
]


def test_merges(two: Twins) -> None:
    two.same("CREATE TABLE t(a INT, b VARCHAR DEFAULT 'dflt')")
    two.same("CREATE TABLE s(a INT, b VARCHAR)")
    two.same("INSERT INTO t SELECT i, 'v' || i FROM (SELECT unnest(range(0, 6)) AS i)")
    two.same("INSERT INTO s SELECT i, 's' || i FROM (SELECT unnest(range(2, 9)) AS i)")
    for statement in MERGES:
        two.same(statement, ["t"])
    assert "boo" in two.refused(REFUSED_MERGES[1])
    for statement in REFUSED_MERGES:
        two.refused(statement)
    two.same_rows("t")


def test_merges_of_several_clauses_which_the_extension_does_not_have(two: Twins) -> None:
    sql = two.lake.sql
    sql(
        "CREATE TABLE t(a INT, b VARCHAR); INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, 'x'), (9, 'x')",
        "duckdb",
    )
    [(count,)] = sql(
        "MERGE INTO t AS x USING (VALUES (1), (2), (4)) y(a) ON x.a = y.a WHEN MATCHED AND y.a = 1 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET b = 'kept' WHEN NOT MATCHED THEN INSERT VALUES (y.a, 'new') "
        "WHEN NOT MATCHED BY SOURCE AND x.a = 9 THEN UPDATE SET b = 'alone' WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "duckdb",
    ).collect()
    assert count == 5
    assert two.oracle.execute("FROM ours.t ORDER BY a") == [(2, "kept"), (4, "new"), (9, "alone")]
    with pytest.raises(AmbiguousMergeError, match="ambiguous"):
        sql(
            "MERGE INTO t USING (VALUES (2), (2)) y(a) ON t.a = y.a WHEN MATCHED THEN UPDATE SET b = 'z'",
            "duckdb",
        )
