"""The same statements, once by the extension and once by us, leave equal catalogs; each side continues the other's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

import ducklake_spark
from ducklake_spark import Expression, Lake
from tests.interop import catalogs
from tests.interop.oracle import Oracle

Step = tuple[str, Callable[[Lake], object]]

T = "CREATE TABLE t(i INT, s VARCHAR DEFAULT 'abc', n INT NOT NULL DEFAULT 42)"


def t(lake: Lake) -> object:
    return lake.create_table(
        "t", {"i": "int", "s": "varchar", "n": "int"}, not_null=["n"], defaults={"s": "abc", "n": 42}
    )


NESTED = (
    "CREATE TABLE a(i INT, s VARCHAR, st STRUCT(x INT, y VARCHAR, n STRUCT(p INT)), l STRUCT(q INT)[], "
    "m MAP(VARCHAR, STRUCT(v INT)), mi MAP(INT, INT), li INT[])"
)


def nested(lake: Lake) -> object:
    return lake.create_table(
        "a",
        "i INT, s VARCHAR, st STRUCT(x INT, y VARCHAR, n STRUCT(p INT)), l STRUCT(q INT)[], "
        "m MAP(VARCHAR, STRUCT(v INT)), mi MAP(INT, INT), li INT[]",
    )


SCRIPTS: dict[str, list[Step]] = {
    "schemas": [
        ("CREATE SCHEMA s1", lambda lake: lake.create_schema("s1")),
        ("CREATE SCHEMA IF NOT EXISTS S1", lambda lake: lake.create_schema("S1", if_not_exists=True)),
        ('CREATE SCHEMA "Weird na""me,x"', lambda lake: lake.create_schema('Weird na"me,x')),
        ("CREATE TABLE s1.a(x INT)", lambda lake: lake.create_table("s1.a", {"x": "int"})),
        ("CREATE VIEW s1.v AS SELECT 1 AS one", lambda lake: lake.create_view("s1.v", "SELECT 1 AS one")),
        ("CREATE MACRO s1.m(x) AS x", lambda lake: lake.create_macro("s1.m", "x", ["x"])),
        ("DROP SCHEMA s1 CASCADE", lambda lake: lake.drop_schema("s1", cascade=True)),
        ('DROP SCHEMA "Weird na""me,x"', lambda lake: lake.drop_schema('Weird na"me,x')),
        ("DROP SCHEMA IF EXISTS nope", lambda lake: lake.drop_schema("nope", if_exists=True)),
    ],
    "tables": [
        (T, t),
        (NESTED, nested),
        (
            'CREATE TABLE "tab ""le.x" (x INT DEFAULT (1+2), r DOUBLE DEFAULT random(), ts TIMESTAMP DEFAULT now(), '
            "nn VARCHAR DEFAULT NULL, d DATE DEFAULT DATE '2020-01-01', b BOOLEAN DEFAULT true, de DECIMAL(10,2) DEFAULT 1.5)",
            lambda lake: lake.create_table(
                ("main", 'tab "le.x'),
                "x INT, r DOUBLE, ts TIMESTAMP, nn VARCHAR, d DATE, b BOOLEAN, de DECIMAL(10,2)",
                defaults={
                    "x": Expression("1+2"),
                    "r": Expression("random()"),
                    "ts": Expression("now()"),
                    "nn": Expression("NULL"),
                    "d": Expression("DATE '2020-01-01'"),
                    "b": Expression("true"),
                    "de": Expression("1.5"),
                },
            ),
        ),
        (
            "CREATE TABLE IF NOT EXISTS T(z INT)",
            lambda lake: lake.create_table("T", {"z": "int"}, if_not_exists=True),
        ),
        (
            "CREATE OR REPLACE TABLE T(z INT)",
            lambda lake: lake.create_table("T", {"z": "int"}, or_replace=True),
        ),
        ("ALTER TABLE t RENAME TO Tlower", lambda lake: lake["t"].rename("Tlower")),
        ("ALTER TABLE tlower RENAME TO tLOWER", lambda lake: lake["tlower"].rename("tLOWER")),
        ("DROP TABLE TLOWER", lambda lake: lake.drop_table("TLOWER")),
        ("DROP TABLE IF EXISTS TLOWER", lambda lake: lake.drop_table("TLOWER", if_exists=True)),
    ],
    "every type": [
        (
            "CREATE TABLE types(a BOOLEAN, b TINYINT, c SMALLINT, d INTEGER, e BIGINT, f HUGEINT, g UTINYINT, h USMALLINT, "
            "i UINTEGER, j UBIGINT, k UHUGEINT, l FLOAT, m DOUBLE, n DECIMAL(4,1), o DECIMAL(18,6), p DECIMAL(38,0), q DATE, "
            "r TIME, s TIMETZ, t TIMESTAMP, u TIMESTAMPTZ, v TIMESTAMP_S, w TIMESTAMP_MS, x TIMESTAMP_NS, y INTERVAL, "
            'z VARCHAR, aa JSON, bb BLOB, cc UUID, dd DATE[][], ee MAP(UUID, STRUCT("q r" DECIMAL(9,2))))',
            lambda lake: lake.create_table(
                "types",
                "a BOOLEAN, b TINYINT, c SMALLINT, d INTEGER, e BIGINT, f HUGEINT, g UTINYINT, h USMALLINT, "
                "i UINTEGER, j UBIGINT, k UHUGEINT, l FLOAT, m DOUBLE, n DECIMAL(4,1), o DECIMAL(18,6), p DECIMAL(38,0), "
                "q DATE, r TIME, s TIMETZ, t TIMESTAMP, u TIMESTAMPTZ, v TIMESTAMP_S, w TIMESTAMP_MS, x TIMESTAMP_NS, "
                'y INTERVAL, z VARCHAR, aa JSON, bb BLOB, cc UUID, dd DATE[][], ee MAP(UUID, STRUCT("q r" DECIMAL(9,2)))',
            ),
        ),
        ("CREATE TABLE v(a VARIANT)", lambda lake: lake.create_table("v", {"a": "variant"})),
        (
            "CREATE TABLE v2(a STRUCT(x VARIANT)[])",
            lambda lake: lake.create_table("v2", {"a": "struct(x variant)[]"}),
        ),
        ("CREATE TABLE g(a GEOMETRY)", lambda lake: lake.create_table("g", {"a": "geometry"})),
    ],
    "columns": [
        (NESTED, nested),
        ("ALTER TABLE a ADD COLUMN n INTEGER", lambda lake: lake["a"].add_column("n", "integer")),
        (
            "ALTER TABLE a ADD COLUMN IF NOT EXISTS N INTEGER",
            lambda lake: lake["a"].add_column("N", "integer", if_not_exists=True),
        ),
        (
            "ALTER TABLE a ADD COLUMN dflt VARCHAR DEFAULT 'my''d'",
            lambda lake: lake["a"].add_column("dflt", "varchar", default="my'd"),
        ),
        (
            "ALTER TABLE a ADD COLUMN ddec DECIMAL(10,2) DEFAULT 1.5",
            lambda lake: lake["a"].add_column("ddec", "decimal(10,2)", default=1.5),
        ),
        (
            "ALTER TABLE a ADD COLUMN dd DATE DEFAULT '2020-02-02'",
            lambda lake: lake["a"].add_column("dd", "date", default="2020-02-02"),
        ),
        (
            "ALTER TABLE a ADD COLUMN st2 STRUCT(p INT, q VARCHAR[])",
            lambda lake: lake["a"].add_column("st2", "STRUCT(p INT, q VARCHAR[])"),
        ),
        ("ALTER TABLE a ADD COLUMN st.z BIGINT", lambda lake: lake["a"].add_column("st.z", "bigint")),
        (
            "ALTER TABLE a ADD COLUMN st.zz BIGINT DEFAULT 5",
            lambda lake: lake["a"].add_column("st.zz", "bigint", default=5),
        ),
        ("ALTER TABLE a ADD COLUMN l.element.r INT", lambda lake: lake["a"].add_column("l.element.r", "int")),
        (
            "ALTER TABLE a ADD COLUMN m.value.r STRUCT(k INT)",
            lambda lake: lake["a"].add_column("m.value.r", "struct(k int)"),
        ),
        ("ALTER TABLE a RENAME COLUMN st.y TO yy", lambda lake: lake["a"].rename_column("st.y", "yy")),
        (
            "ALTER TABLE a RENAME COLUMN l.element.q TO qq",
            lambda lake: lake["a"].rename_column("l.element.q", "qq"),
        ),
        ("ALTER TABLE a DROP COLUMN st.z", lambda lake: lake["a"].drop_column("st.z")),
        ("ALTER TABLE a DROP COLUMN st.n", lambda lake: lake["a"].drop_column("st.n")),
        ("ALTER TABLE a RENAME COLUMN i TO ii", lambda lake: lake["a"].rename_column("i", "ii")),
        ("ALTER TABLE a ALTER ii SET TYPE BIGINT", lambda lake: lake["a"].set_type("ii", "bigint")),
        (
            "ALTER TABLE a ALTER ddec SET TYPE DECIMAL(12,3)",
            lambda lake: lake["a"].set_type("ddec", "decimal(12,3)"),
        ),
        ("ALTER TABLE a ALTER ii SET DEFAULT 7", lambda lake: lake["a"].set_default("ii", 7)),
        ("ALTER TABLE a ALTER ii DROP DEFAULT", lambda lake: lake["a"].drop_default("ii")),
        ("ALTER TABLE a DROP COLUMN s", lambda lake: lake["a"].drop_column("s")),
        ("ALTER TABLE a DROP COLUMN st2", lambda lake: lake["a"].drop_column("st2")),
        (
            "ALTER TABLE a DROP COLUMN IF EXISTS st2",
            lambda lake: lake["a"].drop_column("st2", if_exists=True),
        ),
        (T, t),
        ("ALTER TABLE t ALTER n DROP NOT NULL", lambda lake: lake["t"].drop_not_null("n")),
    ],
    "nested types": [
        (NESTED, nested),
        (
            "ALTER TABLE a ALTER st SET TYPE STRUCT(x BIGINT, y VARCHAR, n STRUCT(p INT))",
            lambda lake: lake["a"].set_type("st", "STRUCT(x BIGINT, y VARCHAR, n STRUCT(p INT))"),
        ),
        (
            "ALTER TABLE a ALTER st SET TYPE STRUCT(x BIGINT, n STRUCT(p INT, r VARCHAR[]), z DATE)",
            lambda lake: lake["a"].set_type("st", "STRUCT(x BIGINT, n STRUCT(p INT, r VARCHAR[]), z DATE)"),
        ),
        (
            "ALTER TABLE a ALTER l SET TYPE STRUCT(q BIGINT, w INT[])[]",
            lambda lake: lake["a"].set_type("l", "STRUCT(q BIGINT, w INT[])[]"),
        ),
        (
            "ALTER TABLE a ALTER mi SET TYPE MAP(BIGINT, DOUBLE)",
            lambda lake: lake["a"].set_type("mi", "MAP(BIGINT, DOUBLE)"),
        ),
        ("ALTER TABLE a ALTER li SET TYPE BIGINT[]", lambda lake: lake["a"].set_type("li.element", "bigint")),
        (
            "ALTER TABLE a ALTER m SET TYPE MAP(VARCHAR, STRUCT(v BIGINT, w INT))",
            lambda lake: lake["a"].set_type("m", "MAP(VARCHAR, STRUCT(v BIGINT, w INT))"),
        ),
    ],
    "comments": [
        (T, t),
        ("COMMENT ON TABLE t IS 'table comment'", lambda lake: lake["t"].set_comment("table comment")),
        ("COMMENT ON TABLE t IS 'it''s new'", lambda lake: lake["t"].set_comment("it's new")),
        ("COMMENT ON TABLE t IS NULL", lambda lake: lake["t"].set_comment(None)),
        ("COMMENT ON COLUMN t.i IS 'col'", lambda lake: lake["t"].set_comment("col", column="i")),
        ("COMMENT ON COLUMN t.s IS 'two'", lambda lake: lake["t"].set_comment("two", column="S")),
        ("COMMENT ON COLUMN t.i IS NULL", lambda lake: lake["t"].set_comment(None, column="i")),
        ("ALTER TABLE t DROP COLUMN s", lambda lake: lake["t"].drop_column("s")),
        ("CREATE VIEW v AS SELECT i FROM t", lambda lake: lake.create_view("v", "SELECT i FROM t")),
        ("COMMENT ON VIEW v IS 'vc'", lambda lake: lake.comment_view("v", "vc")),
        ("COMMENT ON VIEW v IS 'vc2'", lambda lake: lake.comment_view("v", "vc2")),
        ("ALTER VIEW v RENAME TO vv", lambda lake: lake.rename_view("v", "vv")),
        ("DROP VIEW vv", lambda lake: lake.drop_view("vv")),
        ("DROP TABLE t", lambda lake: lake.drop_table("t")),
    ],
    "partitioning": [
        (
            "CREATE TABLE p(i INT, ts TIMESTAMP, s VARCHAR, d DATE)",
            lambda lake: lake.create_table("p", "i INT, ts TIMESTAMP, s VARCHAR, d DATE"),
        ),
        ("ALTER TABLE p RESET PARTITIONED BY", lambda lake: lake["p"].reset_partitioned_by()),
        ("ALTER TABLE p SET PARTITIONED BY (i)", lambda lake: lake["p"].set_partitioned_by("i")),
        ("ALTER TABLE p SET PARTITIONED BY (I)", lambda lake: lake["p"].set_partitioned_by("I")),
        (
            "ALTER TABLE p SET PARTITIONED BY (bucket(4, i), year(ts), month(ts), day(d), hour(ts), s)",
            lambda lake: lake["p"].set_partitioned_by(
                "bucket(4, i)", "year(ts)", "month(ts)", "day(d)", "hour(ts)", "s"
            ),
        ),
        ("ALTER TABLE p RESET PARTITIONED BY", lambda lake: lake["p"].reset_partitioned_by()),
        ("ALTER TABLE p RESET PARTITIONED BY", lambda lake: lake["p"].reset_partitioned_by()),
        ("ALTER TABLE p SET PARTITIONED BY (s)", lambda lake: lake["p"].set_partitioned_by("s")),
        ("ALTER TABLE p RENAME COLUMN s TO s2", lambda lake: lake["p"].rename_column("s", "s2")),
        ("DROP TABLE p", lambda lake: lake.drop_table("p")),
    ],
    "sorting": [
        (
            "CREATE TABLE o(i INT, ts TIMESTAMP, s VARCHAR)",
            lambda lake: lake.create_table("o", "i INT, ts TIMESTAMP, s VARCHAR"),
        ),
        (
            "ALTER TABLE o SET SORTED BY (i ASC NULLS LAST, lower(s) DESC, ts DESC NULLS FIRST, i + 1)",
            lambda lake: lake["o"].set_sorted_by(
                "i ASC NULLS LAST", "lower(s) DESC", "ts DESC NULLS FIRST", "i + 1"
            ),
        ),
        ("ALTER TABLE o SET SORTED BY (i)", lambda lake: lake["o"].set_sorted_by("i")),
        ("ALTER TABLE o RENAME COLUMN i TO j", lambda lake: lake["o"].rename_column("i", "j")),
        ("ALTER TABLE o ADD COLUMN k INT", lambda lake: lake["o"].add_column("k", "int")),
        ("ALTER TABLE o RESET SORTED BY", lambda lake: lake["o"].reset_sorted_by()),
        ("ALTER TABLE o SET SORTED BY (k DESC)", lambda lake: lake["o"].set_sorted_by("k DESC")),
        ("DROP TABLE o", lambda lake: lake.drop_table("o")),
    ],
    "views": [
        (T, t),
        ("CREATE VIEW v AS SELECT i, s FROM t", lambda lake: lake.create_view("v", "SELECT i, s FROM t")),
        (
            "CREATE VIEW v2(a,\"b c\") AS SELECT i, s FROM lake.main.t WHERE s='x' -- c",
            lambda lake: lake.create_view(
                "v2", "SELECT i, s FROM lake.main.t WHERE s='x' -- c", ["a", "b c"]
            ),
        ),
        (
            "CREATE VIEW IF NOT EXISTS v AS SELECT 1",
            lambda lake: lake.create_view("v", "SELECT 1", if_not_exists=True),
        ),
        (
            "CREATE OR REPLACE VIEW v AS SELECT count(*) AS c, max(i) FROM t GROUP BY s HAVING count(*) > 1 ORDER BY c",
            lambda lake: lake.create_view(
                "v",
                "SELECT count(*) AS c, max(i) FROM t GROUP BY s HAVING count(*) > 1 ORDER BY c",
                dialect="duckdb",
                or_replace=True,
            ),
        ),
        ("ALTER VIEW v RENAME TO vv", lambda lake: lake.rename_view("v", "vv")),
        ("DROP VIEW vv", lambda lake: lake.drop_view("vv")),
    ],
    "macros": [
        (T, t),
        (
            "CREATE MACRO add1(a, b := 10) AS a+b",
            lambda lake: lake.create_macro("add1", "a+b", ["a", "b := 10"]),
        ),
        (
            "CREATE MACRO add2(a INTEGER, b VARCHAR := 'x') AS a||b, (a INTEGER) AS a*2",
            lambda lake: lake.create_macro(
                "add2",
                "a||b",
                ["a INTEGER", "b VARCHAR := 'x'"],
                overloads=[("a*2", ["a INTEGER"])],
                dialect="duckdb",
            ),
        ),
        (
            "CREATE MACRO tm(x) AS TABLE SELECT * FROM t WHERE i > x",
            lambda lake: lake.create_macro("tm", "SELECT * FROM t WHERE i > x", ["x"], table=True),
        ),
        (
            "CREATE OR REPLACE MACRO add1(a) AS a+1",
            lambda lake: lake.create_macro("add1", "a+1", ["a"], or_replace=True),
        ),
        (
            "CREATE MACRO IF NOT EXISTS add1(a) AS a",
            lambda lake: lake.create_macro("add1", "a", ["a"], if_not_exists=True),
        ),
        ("DROP MACRO add1", lambda lake: lake.drop_macro("add1")),
        ("DROP MACRO TABLE tm", lambda lake: lake.drop_macro("tm", table=True)),
    ],
    "options": [
        (
            "CALL lake.set_option('parquet_compression','zstd')",
            lambda lake: lake.set_option("parquet_compression", "zstd"),
        ),
        (
            "CALL lake.set_option('parquet_compression','gzip')",
            lambda lake: lake.set_option("parquet_compression", "gzip"),
        ),
        ("CREATE TABLE u(a INT)", lambda lake: lake.create_table("u", {"a": "int"})),
        (
            "CALL lake.set_option('target_file_size','10MB', table_name=>'u')",
            lambda lake: lake.set_option("target_file_size", "10MB", table="u"),
        ),
        (
            "CALL lake.set_option('rewrite_delete_threshold',0.5, schema=>'main')",
            lambda lake: lake.set_option("rewrite_delete_threshold", 0.5, schema="main"),
        ),
        ("CALL lake.set_option('parquet_version',2)", lambda lake: lake.set_option("parquet_version", 2)),
        (
            "CALL lake.set_option('expire_older_than','1 month')",
            lambda lake: lake.set_option("expire_older_than", "1 month"),
        ),
        ("CALL lake.set_option('auto_compact',false)", lambda lake: lake.set_option("auto_compact", False)),
        (
            "CALL lake.set_option('parquet_row_group_size_bytes','1MiB')",
            lambda lake: lake.set_option("parquet_row_group_size_bytes", "1MiB"),
        ),
        (
            "CALL lake.set_option('data_inlining_row_limit',0)",
            lambda lake: lake.set_option("data_inlining_row_limit", 0),
        ),
        ("CREATE TABLE noinline(row_id INT)", lambda lake: lake.create_table("noinline", {"row_id": "int"})),
        (
            "CALL lake.set_option('data_inlining_row_limit',5, table_name=>'u')",
            lambda lake: lake.set_option("data_inlining_row_limit", 5, table="u"),
        ),
        ("ALTER TABLE u ADD COLUMN b INT", lambda lake: lake["u"].add_column("b", "int")),
    ],
}


def one_transaction(lake: Lake) -> None:
    with lake.transaction(author="me", message="msg", extra_info='{"a":1}'):
        lake.create_schema("ss")
        lake.create_table("ss.x", {"a": "int"})
        lake.drop_table("t")
        lake["ss.x"].set_comment("c")
        lake["ss.x"].rename("y")
        lake.create_macro("ss.m", "1")


def alter_twice(lake: Lake) -> None:
    with lake.transaction():
        lake["a"].add_column("q1", "int")
        lake["a"].drop_column("q1")
        lake["a"].add_column("q2", "int", default=3)
        lake["a"].rename_column("q2", "q3")
        lake["a"].set_comment("one")
        lake["a"].set_comment("two")
        lake["a"].set_partitioned_by("bucket(3, i)")
        lake["a"].set_sorted_by("s")


def nothing(lake: Lake) -> None:
    with lake.transaction():
        lake.create_table("tmp", {"a": "int"})
        lake.create_view("tmpv", "SELECT 1")
        lake.drop_table("tmp")
        lake.drop_view("tmpv")


SCRIPTS["transactions"] = [
    (T, t),
    (NESTED, nested),
    (
        "BEGIN; CREATE SCHEMA ss; CREATE TABLE ss.x(a INT); DROP TABLE t; "
        "COMMENT ON TABLE ss.x IS 'c'; ALTER TABLE ss.x RENAME TO y; CREATE MACRO ss.m() AS 1; "
        "CALL lake.set_commit_message('me', 'msg', extra_info => '{\"a\":1}'); COMMIT",
        one_transaction,
    ),
    (
        "BEGIN; ALTER TABLE a ADD COLUMN q1 INT; ALTER TABLE a DROP COLUMN q1; ALTER TABLE a ADD COLUMN q2 INT DEFAULT 3; "
        "ALTER TABLE a RENAME COLUMN q2 TO q3; COMMENT ON TABLE a IS 'one'; COMMENT ON TABLE a IS 'two'; "
        "ALTER TABLE a SET PARTITIONED BY (bucket(3, i)); "
        "ALTER TABLE a SET SORTED BY (s); COMMIT",
        alter_twice,
    ),
    (
        "BEGIN; CREATE TABLE tmp(a INT); CREATE VIEW tmpv AS SELECT 1; DROP TABLE tmp; DROP VIEW tmpv; COMMIT",
        nothing,
    ),
]


@pytest.fixture
def twins(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """Attach strings of two empty catalogs of one kind, and their data path."""
    if kind == "postgres":
        server = request.getfixturevalue("postgres_server")
        uris = [f"ducklake:postgres:{server.fresh_database()}" for _ in range(2)]
    else:
        uris = [f"ducklake:{kind}:{tmp_path / f'{side}.{kind}'}" for side in ("theirs", "ours")]
    return uris[0], uris[1], str(tmp_path / "data")


KINDS = ["duckdb", "sqlite", "postgres"]


def attach(uri: str, data_path: str) -> Lake:
    return ducklake_spark.attach(uri, name="lake", data_path=data_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_same_script_leaves_equal_catalogs(
    oracle: Oracle, twins: tuple[str, str, str], kind: str, script: str
) -> None:
    theirs, ours, data_path = twins
    oracle.attach(theirs, data_path=data_path)
    for sql, _ in SCRIPTS[script]:
        oracle.execute(sql)
    oracle.detach()
    with attach(ours, data_path) as lake:
        for _, step in SCRIPTS[script]:
            step(lake)
    catalogs.assert_same(theirs, ours)


# A script on one kind each: whole catalogs are compared on every kind above.
@pytest.mark.parametrize(("script", "kind"), list(zip(SCRIPTS, itertools.cycle(KINDS), strict=False)))
def test_each_side_continues_the_others_lake(
    oracle: Oracle, twins: tuple[str, str, str], kind: str, script: str
) -> None:
    theirs, mixed, data_path = twins
    oracle.attach(theirs, data_path=data_path)
    for sql, _ in SCRIPTS[script]:
        oracle.execute(sql)
    oracle.detach()
    for turn, (sql, step) in enumerate(SCRIPTS[script]):
        if turn % 2:
            oracle.attach(mixed, data_path=data_path)
            oracle.execute(sql)
            oracle.detach()
        else:
            with attach(mixed, data_path) as lake:
                step(lake)
    catalogs.assert_same(theirs, mixed)
