"""What the handles answer is what the extension answers: snapshots, options, settings, and which snapshot a time is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import ducklake_spark
from ducklake_spark import ReadOnlyError, SnapshotNotFoundError
from ducklake_spark.format.changes import changes_map, parse_changes
from ducklake_spark.format.options import OPTIONS
from tests.interop.oracle import Oracle, OracleError
from tests.interop.test_ddl_twins import SCRIPTS

KINDS = ["duckdb", "sqlite", "postgres"]

EVERYTHING = """
    CREATE SCHEMA s1; CREATE SCHEMA "S 2.x"; CREATE SCHEMA "quo""te,d";
    CREATE TABLE t(i INT, s VARCHAR); CREATE TABLE "S 2.x"."ta.b,le"(i INT); CREATE TABLE s1."select"(i INT);
    INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
    DELETE FROM t WHERE i = 1;
    UPDATE t SET s = 'bb' WHERE i = 2;
    CALL ducklake_flush_inlined_data('lake');
    INSERT INTO t SELECT r, 'x' FROM range(100) q(r);
    INSERT INTO t SELECT r, 'y' FROM range(100) q(r);
    DELETE FROM t WHERE i BETWEEN 10 AND 60;
    DELETE FROM t WHERE i = 70;
    UPDATE t SET s = 'z' WHERE i > 80;
    CREATE TABLE m AS FROM range(100); INSERT INTO m FROM range(50);
    CALL ducklake_merge_adjacent_files('lake');
    CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0);
    ALTER TABLE t ADD COLUMN j INT; COMMENT ON TABLE t IS 'c'; ALTER TABLE t SET PARTITIONED BY (j);
    ALTER TABLE t RENAME TO "T w"; ALTER TABLE "T w" RENAME TO t;
    CREATE VIEW v AS SELECT 1 AS one; COMMENT ON VIEW v IS 'c'; ALTER VIEW v RENAME TO "v'v";
    CREATE MACRO s1.m1(a) AS a + 1; CREATE MACRO tm() AS TABLE SELECT 1;
    BEGIN; CREATE TABLE s1.b(i INT); CREATE TABLE s1.a(i INT); CREATE VIEW s1.c AS SELECT 1; DROP TABLE s1."select";
    INSERT INTO t VALUES (5, 'n', 6); CALL lake.set_commit_message('Ada', 'many', extra_info => '{"k": 1}'); COMMIT;
    DROP VIEW "v'v"; DROP MACRO s1.m1; DROP MACRO TABLE tm; DROP SCHEMA s1 CASCADE; DROP TABLE "S 2.x"."ta.b,le";
    DROP SCHEMA "quo""te,d"; TRUNCATE t; CREATE OR REPLACE TABLE t(k INT)
"""


def script(oracle: Oracle, text: str = EVERYTHING) -> None:
    for statement in text.split(";"):
        if statement.strip():
            oracle.execute(statement)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def zoned(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Spark hands out times without a zone, in the zone of this process; the extension's are in UTC."""
    return [tuple(v.astimezone(timezone.utc) if isinstance(v, datetime) else v for v in row) for row in found]


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_of_every_kind_of_change(
    kind: str, make_location: Callable[[str], str], oracle: Oracle, spark: SparkSession, tmp_path: Path
) -> None:
    uri = make_location(kind)
    oracle.attach(uri, data_path=str(tmp_path / "data"))
    script(oracle)
    theirs = oracle.execute("FROM lake.snapshots()")
    names = [name for name, *_ in oracle.execute("DESCRIBE FROM lake.snapshots()")]
    oracle.detach()
    keys = {key for row in theirs for key in row[3]}
    assert len(keys) == 19, f"the script makes every kind of change, not only {sorted(keys)}"

    with ducklake_spark.attach(uri, spark=spark) as lake:
        frame = lake.snapshots()
        assert frame.columns == names
        assert zoned(rows(frame)) == zoned(theirs)
        # A map has no order in Spark, but what goes into it has the extension's.
        texts = [row[3] for row in lake._scope.snapshot_rows()]
        ours = [changes_map(parse_changes(text)) for text in texts]
        assert [list(changes) for changes in ours] == [list(row[3]) for row in theirs]


@pytest.mark.spark
@pytest.mark.parametrize("name", ["schemas", "tables", "views", "macros", "transactions"])
@pytest.mark.parametrize("kind", [*KINDS, "mysql"])
def test_the_extension_lists_our_snapshots_as_we_do(
    name: str,
    kind: str,
    make_location: Callable[[str], str],
    oracle: Oracle,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    uri = make_location(kind)
    with ducklake_spark.attach(uri, spark=spark, name="lake", data_path=tmp_path / "data") as lake:
        for _, step in SCRIPTS[name]:
            step(lake)
        ours = rows(lake.snapshots())
        assert len(ours) == lake.version + 1
    oracle.attach(uri)
    assert zoned(ours) == zoned(oracle.execute("FROM lake.snapshots()"))


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_options_settings_and_current_snapshot(
    kind: str, make_location: Callable[[str], str], oracle: Oracle, spark: SparkSession, tmp_path: Path
) -> None:
    values: dict[str, Any] = {
        "auto_compact": True, "data_inlining_row_limit": 5, "delete_older_than": "1 day", "expire_older_than": "7 days",
        "hive_file_pattern": False, "parquet_compression": "ZSTD", "parquet_compression_level": 3,
        "parquet_row_group_size": 100, "parquet_row_group_size_bytes": "1.5MiB", "parquet_version": 2,
        "per_thread_output": True, "require_commit_message": False, "rewrite_delete_threshold": 0.123456789,
        "sort_on_insert": True, "target_file_size": "10MB", "write_deletion_vectors": False,
    }  # fmt: skip
    settable = {name for name, option in OPTIONS.items() if option.normalize is not None}
    assert values.keys() == settable, "every option is compared"
    theirs_at, ours_at = (make_location(kind) for _ in range(2))
    if ours_at == theirs_at:
        theirs_at = f"{theirs_at}.theirs"
    oracle.attach(theirs_at, data_path=str(tmp_path / "data"))
    script(
        oracle,
        'CREATE TABLE t(i INT); CREATE TABLE gone(i INT); CREATE SCHEMA "a b"; CREATE TABLE "a b"."c,d"(i INT)',
    )
    for key, value in values.items():
        literal = repr(value) if isinstance(value, str) else str(value)
        oracle.execute(f"CALL lake.set_option('{key}', {literal})")
    script(
        oracle,
        "CALL lake.set_option('parquet_version', 1, table_name => 't'); CALL lake.set_option('parquet_version', 2, schema => 'main'); "
        "CALL lake.set_option('auto_compact', true, table_name => 'c,d', schema => 'a b'); "
        "CALL lake.set_option('auto_compact', true, schema => 'a b')",
    )
    script(oracle, "CALL lake.set_option('auto_compact', true, table_name => 'gone'); DROP TABLE gone")
    theirs = oracle.execute("FROM lake.options()")
    names = [name for name, *_ in oracle.execute("DESCRIBE FROM lake.options()")]
    [(catalog_type, _, data_path)] = oracle.execute("FROM lake.settings()")
    settings_names = [name for name, *_ in oracle.execute("DESCRIBE FROM lake.settings()")]
    current = oracle.execute("FROM lake.current_snapshot()")
    oracle.detach()

    with ducklake_spark.attach(ours_at, spark=spark, data_path=tmp_path / "data") as lake:
        for table in ("t", "gone"):
            lake.create_table(table, {"i": "int"})
        lake.create_schema("a b")
        lake.create_table(("a b", "c,d"), {"i": "int"})
        for key, value in values.items():
            lake.set_option(key, value)
        lake.set_option("parquet_version", 1, table="t")
        lake.set_option("parquet_version", 2, schema="main")
        lake.set_option("auto_compact", True, table=("a b", "c,d"))
        lake.set_option("auto_compact", True, schema="a b")
        lake.set_option("auto_compact", True, table="gone")
        lake.drop_table("gone")
        frame = lake.options()
        assert frame.columns == names
        ours = rows(frame)
        assert by_scope(ours) == by_scope(theirs)
        assert [row[0] for row in ours] == [row[0] for row in theirs], "by name"
        settings = lake.settings()
        assert settings.columns == settings_names
        assert rows(settings) == [(catalog_type, ducklake_spark.__version__, data_path)]
        assert rows(lake.current_snapshot()) == current
        assert lake.current_snapshot().columns == lake.last_committed_snapshot().columns == ["id"]
        assert rows(lake.last_committed_snapshot()) == [(lake.version,)]
    with ducklake_spark.attach(theirs_at, spark=spark) as lake:
        assert sorted(rows(lake.options()), key=repr) == sorted(theirs, key=repr)
        assert rows(lake.last_committed_snapshot()) == [(None,)]


def by_scope(options: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Without the one that must differ; within a name, the extension's order is that of its table's rows."""
    return sorted((row for row in options if row[0] != "created_by"), key=repr)


# --- which snapshot -----------------------------------------------------------------------------------------


def tables_there(oracle: Oracle) -> list[str]:
    return [
        name
        for (name,) in oracle.execute(
            "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE database_name = 'lake' ORDER BY 1"
        )
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_versions_and_times_mean_the_same_snapshot(
    kind: str, make_location: Callable[[str], str], oracle: Oracle, tmp_path: Path
) -> None:
    uri = make_location(kind)
    oracle.attach(uri, data_path=str(tmp_path / "data"))
    for number in range(6):
        oracle.execute(f"CREATE TABLE t{number}(i INT)")
    script(
        oracle,
        "ALTER TABLE t0 RENAME TO renamed; DROP TABLE t1; CALL ducklake_expire_snapshots('lake', versions => [2, 3])",
    )
    times = {version: time for version, time, *_ in oracle.execute("FROM lake.snapshots()")}
    assert sorted(times) == [0, 1, 4, 5, 6, 7, 8]
    micro = timedelta(microseconds=1)
    wanted: list[dict[str, Any]] = [{"snapshot_version": version} for version in range(10)]
    for time in times.values():
        wanted += [{"snapshot_time": time + shift} for shift in (-micro, 0 * micro, micro)]
    wanted += [{"snapshot_time": text} for text in ("1999-12-31", "2999-01-01 12:00:00+05", "infinity")]
    oracle.detach()
    found: dict[str, list[str] | None] = {}
    for parameters in wanted:
        try:
            oracle.attach(uri, **parameters)
            found[str(parameters)] = tables_there(oracle)
        except OracleError as error:
            assert "No snapshot found" in str(error)
            found[str(parameters)] = None
        oracle.detach()
    assert sum(value is None for value in found.values()) == 3 + 2  # versions 2, 3 and 9, and two times

    for parameters in wanted:
        expected = found[str(parameters)]
        if expected is None:
            with pytest.raises(SnapshotNotFoundError, match="No snapshot found at"):
                ducklake_spark.attach(uri, **parameters)
            continue
        with ducklake_spark.attach(uri, **parameters) as lake:
            assert sorted(lake.tables()) == expected, parameters
            with pytest.raises(ReadOnlyError):
                lake.create_schema("s")
    with ducklake_spark.attach(uri) as lake:
        for parameters in wanted:
            at = {
                key.replace("snapshot_", "").replace("time", "timestamp"): value
                for key, value in parameters.items()
            }
            expected = found[str(parameters)]
            if expected is None:
                with pytest.raises(SnapshotNotFoundError):
                    lake.at(**at)
            else:
                assert sorted(lake.at(**at).tables()) == expected, parameters


def test_a_pinned_lake_is_read_only_there_too(oracle: Oracle, tmp_path: Path) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/l.sqlite"
    ducklake_spark.attach(uri, data_path=tmp_path / "data").close()
    oracle.attach(uri, snapshot_version=0)
    with pytest.raises(OracleError, match="read-only"):
        oracle.execute("CREATE TABLE t(i INT)")


@pytest.mark.spark
def test_snapshots_of_a_pinned_lake(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/l.sqlite"
    oracle.attach(uri, data_path=str(tmp_path / "data"))
    script(oracle, "CREATE TABLE a(i INT); CREATE TABLE b(i INT); CREATE TABLE c(i INT)")
    oracle.detach()
    oracle.attach(uri, snapshot_version=1)
    theirs = oracle.execute("FROM lake.snapshots()")
    current = oracle.execute("FROM lake.current_snapshot()")
    oracle.detach()
    with ducklake_spark.attach(uri, spark=spark, snapshot_version=1) as lake:
        assert zoned(rows(lake.snapshots())) == zoned(theirs)
        assert rows(lake.current_snapshot()) == current
    with ducklake_spark.attach(uri, spark=spark) as lake:
        assert zoned(rows(lake.at(version=1).snapshots())) == zoned(theirs)
