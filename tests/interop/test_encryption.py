"""Encrypted lakes, beside the extension: each side reads, changes and keeps secret what the other wrote."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import DuckLakeError, FileError, Lake
from tests.interop import catalogs, test_scan_evolution, test_scan_types
from tests.interop.oracle import Oracle, literal
from tests.scan.lakes import Lake as ScannedLake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]
SECRET = "a text that nobody may find on disk"
IGNORED = {
    "ducklake_data_file": ["file_size_bytes", "footer_size"],
    "ducklake_delete_file": ["file_size_bytes", "footer_size"],
    "ducklake_table_stats": ["file_size_bytes"],
    "ducklake_file_column_stats": ["column_size_bytes"],
}


@pytest.fixture
def writer(oracle: Oracle) -> Oracle:
    """The extension with what it needs to encrypt."""
    spec = importlib.util.find_spec("duckdb_extension_httpfs")
    if spec is None or spec.origin is None:
        pytest.skip("the package duckdb-extension-httpfs is not installed: run `make venv`")
    [file] = Path(spec.origin).parent.glob(f"extensions/v{duckdb.__version__}/httpfs.duckdb_extension")
    oracle.execute(f"LOAD {literal(str(file))}")
    return oracle


@pytest.fixture
def make_lake(
    writer: Oracle, spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[..., ScannedLake]]:
    """Lakes that the extension writes, all of them encrypted; the tests of scans below run on such."""
    made: list[ScannedLake] = []

    def make(kind: str = "duckdb", folder: str = "data", **options: Any) -> ScannedLake:
        lake = ScannedLake(writer, spark, make_location(kind), tmp_path / folder)
        lake.options = {"encrypted": True, **options}
        made.append(lake)
        return lake

    yield make
    for lake in made:
        lake.close()


# What the extension writes, in each type and of each age.


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_scalars(make_lake: Callable[..., ScannedLake], kind: str) -> None:
    test_scan_types.test_scalars(make_lake, kind, inlined=False)


test_variant_and_geometry = test_scan_types.test_variant_and_geometry
test_promotions_twice_and_nested = test_scan_evolution.test_promotions_twice_and_nested


def test_nested(make_lake: Callable[..., ScannedLake]) -> None:
    test_scan_types.test_nested(make_lake, "duckdb", inlined=False)


def test_columns_that_change_in_the_transaction_of_their_rows(make_lake: Callable[..., ScannedLake]) -> None:
    test_scan_evolution.test_columns_that_change_in_the_transaction_of_their_rows(make_lake, "DATE")


def test_fields_renamed_dropped_and_added(make_lake: Callable[..., ScannedLake]) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(a INTEGER, s STRUCT(x INTEGER, y VARCHAR))",
        "INSERT INTO t VALUES (1, {'x': 1, 'y': 'one'})",
        "ALTER TABLE t RENAME COLUMN s.x TO z",
        "ALTER TABLE t DROP COLUMN s.y",
        "ALTER TABLE t ADD COLUMN s.x VARCHAR DEFAULT 'new'",
        "INSERT INTO t VALUES (2, {'z': 2, 'x': 'two'})",
        "ALTER TABLE t RENAME a TO b",
        "ALTER TABLE t ADD COLUMN a BIGINT DEFAULT 7",
        "DELETE FROM t WHERE b = 2",
    )
    assert lake.check("t") > 10


# What we write.


@pytest.fixture
def ours(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with ducklake_spark.attach(
        f"ducklake:{tmp_path}/ours.ducklake", encrypted=True, spark=spark, name="lake"
    ) as lake:
        yield lake


SCRIPT = (
    "CREATE TABLE t(i BIGINT, s VARCHAR, st STRUCT(x INTEGER, y VARCHAR), l INTEGER[])",
    "INSERT INTO t SELECT i, '{secret}', {{'x': i, 'y': 'a'}}, [i, NULL] FROM range(100) r(i)",
    "DELETE FROM t WHERE i % 4 = 0",
    "UPDATE t SET s = 'changed' WHERE i < 50",
    "DELETE FROM t WHERE i % 4 = 1",
    "INSERT INTO t SELECT i, '{secret}', NULL, NULL FROM range(200, 250) r(i)",
    "MERGE INTO t USING (SELECT i FROM range(240, 280) r(i)) m ON t.i = m.i WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT (i, s) VALUES (m.i, '{secret}')",
    "ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 42",
    "INSERT INTO t SELECT i, '{secret}', NULL, NULL, 1 FROM range(300, 340) r(i)",
)  # fmt: skip
QUERY = "SELECT i, s, st.x, st.y, l, rowid FROM t"


def run(lake: Lake, *statements: str) -> None:
    for statement in statements:
        lake.sql(statement, dialect="duckdb")


def rows_of(lake: Lake, version: int) -> list[tuple[Any, ...]]:
    text = QUERY.replace("FROM t", f"FROM t AT (VERSION => {version})")
    return sorted((tuple(row) for row in lake.sql(text, dialect="duckdb").collect()), key=str)


def test_every_change_is_read_by_the_extension_and_stays_secret(
    writer: Oracle, ours: Lake, tmp_path: Path
) -> None:
    ours.set_option("data_inlining_row_limit", 0)
    run(ours, *(statement.format(secret=SECRET) for statement in SCRIPT))
    versions = range(2, ours.version + 1)
    expected = {version: rows_of(ours, version) for version in versions}
    changes = sorted(
        tuple(row)
        for row in ours.table_changes("t", 1, ours.version)
        .select("snapshot_id", "rowid", "change_type")
        .collect()
    )
    ours.rewrite_data_files("t", delete_threshold=0.1)
    ours.merge_adjacent_files()
    after = rows_of(ours, ours.version)
    keys = [
        row[0]
        for name in ("ducklake_data_file", "ducklake_delete_file")
        for row in ours.metadata(name).select("encryption_key").collect()
    ]
    newest = ours.version
    ours.close()

    assert None not in keys
    assert len(set(keys)) == len(keys) > 5
    files = list(tmp_path.rglob("*.parquet"))
    assert files
    for file in files:
        content = file.read_bytes()
        assert content[:4] == content[-4:] == b"PARE"
        assert SECRET.encode() not in content
    writer.attach(f"ducklake:{tmp_path}/ours.ducklake")
    for version, rows in {**expected, newest: after}.items():
        theirs = writer.execute(QUERY.replace("FROM t", f"FROM t AT (VERSION => {version})"))
        assert sorted(theirs, key=str) == rows, version
    told = writer.execute(
        f"SELECT snapshot_id, rowid, change_type FROM ducklake_table_changes('lake', 'main', 't', 1, {max(versions)})"
    )
    assert sorted(told) == changes
    assert after == expected[max(versions)]


def test_the_same_statements_leave_the_same_catalog(
    writer: Oracle, spark: SparkSession, tmp_path: Path
) -> None:
    statements = (
        "CREATE TABLE t(i BIGINT, k VARCHAR)",
        "INSERT INTO t SELECT i, 'k' || i FROM range(100) r(i)",
        "DELETE FROM t WHERE i < 20",
        "DELETE FROM t WHERE i < 40",
        "ALTER TABLE t SET PARTITIONED BY (k)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'x')",
    )
    theirs, own = (f"ducklake:{tmp_path}/{side}.ducklake" for side in ("theirs", "ours"))
    options = {"encrypted": True, "data_path": f"{tmp_path}/data", "data_inlining_row_limit": 0}
    writer.attach(theirs, **options)
    for statement in statements:
        writer.execute(statement)
    writer.detach()
    with ducklake_spark.attach(own, spark=spark, name="lake", **options) as lake:  # type: ignore[arg-type]
        run(lake, *statements)

    catalogs.assert_same(own, theirs, ignore=IGNORED)


def test_inlined_data_is_flushed_to_encrypted_files(writer: Oracle, ours: Lake, tmp_path: Path) -> None:
    run(
        ours,
        "CREATE TABLE t(i BIGINT, s VARCHAR)",
        f"INSERT INTO t VALUES (1, '{SECRET}'), (2, 'b')",
        "INSERT INTO t SELECT i, 'c' FROM range(100, 200) r(i)",
        "UPDATE t SET s = 'd' WHERE i = 2",
        "DELETE FROM t WHERE i IN (1, 100, 101)",
    )
    ours.flush_inlined_data()
    rows = sorted(tuple(row) for row in ours.table("t").collect())
    ours.close()

    assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.rglob("*.parquet"))
    writer.attach(f"ducklake:{tmp_path}/ours.ducklake")
    assert sorted(writer.execute("FROM t")) == rows
    assert len(rows) == 99


def test_files_of_one_statement_have_keys_of_their_own(ours: Lake, spark: SparkSession) -> None:
    table = ours.create_table("p", "k INT, i BIGINT", partitioned_by=["k"])
    table.insert(spark.range(0, 100, 1, 1).selectExpr("int(id % 4) k", "id i"))

    files = ours.metadata("ducklake_data_file").select("path", "encryption_key").collect()
    assert len(files) == len({key for _, key in files}) == 4
    assert not any("/" in path for path, _ in files), "names of partitions would tell values"
    assert ours.sql("SELECT sum(i) FROM p WHERE k = 1").collect()[0][0] == sum(range(1, 100, 4))


def test_a_transaction_reads_its_own_encrypted_rows(ours: Lake) -> None:
    run(ours, "CREATE TABLE t(i BIGINT)", "INSERT INTO t SELECT i FROM range(50) r(i)")
    with ours.transaction():
        run(ours, "INSERT INTO t SELECT i FROM range(50, 100) r(i)", "DELETE FROM t WHERE i % 2 = 0")
        run(ours, "ALTER TABLE t ADD COLUMN j INTEGER DEFAULT 3")
        assert [tuple(row) for row in ours.sql("SELECT count(*), sum(i), sum(j) FROM t").collect()] == [
            (50, 2500, 150)
        ]
    assert [tuple(row) for row in ours.sql("SELECT count(*), sum(i), sum(j) FROM t").collect()] == [
        (50, 2500, 150)
    ]


# What a scan reads.


def test_a_scan_reads_the_columns_and_files_that_the_query_needs(
    ours: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        ours,
        "CREATE TABLE t(i BIGINT, s VARCHAR, unread VARCHAR)",
        *(f"INSERT INTO t SELECT i, 's' || i, 'u' FROM range({n}00, {n}00 + 100) r(i)" for n in (1, 2, 3)),
    )
    frame = ours.sql("SELECT s FROM t WHERE i >= 250 AND i < 260")
    frame.explain(extended=True)
    shown = capsys.readouterr().out
    scan = shown.split("== Physical Plan ==")[1]

    assert "GreaterThanOrEqual(i,250)" in scan
    assert "unread" not in scan
    keys = [row[0] for row in ours.metadata("ducklake_data_file").select("encryption_key").collect()]
    assert not any(key in shown for key in keys)
    # A file that the filters rule out is not even looked at.
    first = next(
        row[0] for row in ours.metadata("ducklake_data_file").orderBy("data_file_id").select("path").collect()
    )
    [file] = Path(ours.data_path).rglob(first)
    file.unlink()
    assert sorted(row[0] for row in frame.collect()) == [f"s{i}" for i in range(250, 260)]
    with pytest.raises(FileError, match=first):
        ours.sql("SELECT count(s) FROM t").collect()


# Mistakes.


def catalog_file(lake: Lake, sql: str, *params: Any) -> list[Any]:
    """Changes the catalog behind the package's back."""
    path = str(lake.data_path).removesuffix(".files/")
    lake.close()
    with duckdb.connect(path) as connection:
        return connection.execute(sql, params).fetchall()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("AAECAwQFBgcICQoLDA0ODw==", "does not decrypt"),
        ("bm8ga2V5IGF0IGFsbA==", "does not decrypt"),
        (None, "without a key"),
    ],
    ids=["another key", "no key at all", "missing"],
)
def test_a_key_that_is_wrong_is_told_and_not_shown(
    ours: Lake,
    spark: SparkSession,
    tmp_path: Path,
    key: str | None,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run(ours, "CREATE TABLE t(i BIGINT)", "INSERT INTO t SELECT i FROM range(50) r(i)")
    real = ours.metadata("ducklake_data_file").select("encryption_key").collect()[0][0]
    catalog_file(ours, "UPDATE ducklake_data_file SET encryption_key = ?", key)
    with (
        ducklake_spark.attach(f"ducklake:{tmp_path}/ours.ducklake", spark=spark, name="lake") as lake,
        caplog.at_level(logging.DEBUG),
    ):
        for act in (
            lambda: lake.sql("SELECT * FROM t").collect(),
            lambda: lake.sql("UPDATE t SET i = i + 1"),
            lambda: lake.table_changes("t", 1, 2).collect(),
        ):
            with pytest.raises(DuckLakeError, match=said) as error:
                act()
            assert real not in str(error.value)
            assert not key or key not in str(error.value)
    assert real not in caplog.text


def test_a_plain_file_in_an_encrypted_lake_is_told(ours: Lake, spark: SparkSession, tmp_path: Path) -> None:
    run(ours, "CREATE TABLE t(i BIGINT)", "INSERT INTO t SELECT i FROM range(50) r(i)")
    [file] = Path(ours.data_path).rglob("*.parquet")
    size = file.stat().st_size
    duckdb.sql("SELECT range AS i FROM range(50)").write_parquet(str(file))
    assert file.stat().st_size != size
    catalog_file(ours, "UPDATE ducklake_data_file SET file_size_bytes = ?", file.stat().st_size)
    with (
        ducklake_spark.attach(f"ducklake:{tmp_path}/ours.ducklake", spark=spark, name="lake") as lake,
        pytest.raises(FileError, match=f"not encrypted.*{file.name}"),
    ):
        lake.sql("SELECT * FROM t").collect()


def test_an_encrypted_file_in_a_plain_lake_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/ours.ducklake", spark=spark, name="lake") as lake:
        run(lake, "CREATE TABLE t(i BIGINT)", "INSERT INTO t SELECT i FROM range(50) r(i)")
        catalog_file(lake, "UPDATE ducklake_data_file SET encryption_key = 'AAECAwQFBgcICQoLDA0ODw=='")
    with (
        ducklake_spark.attach(f"ducklake:{tmp_path}/ours.ducklake", spark=spark, name="lake") as lake,
        pytest.raises(
            FileError, match=r"lake\.main\.t .*1 encrypted data files, though its lake is not encrypted"
        ),
    ):
        lake.sql("SELECT * FROM t").collect()


def test_existing_files_cannot_be_added(ours: Lake, tmp_path: Path) -> None:
    file = tmp_path / "plain.parquet"
    duckdb.sql("SELECT range AS i FROM range(50)").write_parquet(str(file))
    run(ours, "CREATE TABLE t(i BIGINT)")
    with pytest.raises(DuckLakeError, match='table "t": its lake is encrypted'):
        ours.add_data_files("t", str(file))


@pytest.mark.parametrize("feed", ["false", "true"])
def test_streams_read_encrypted_files(spark: SparkSession, tmp_path: Path, feed: str) -> None:
    uri = f"ducklake:{tmp_path}/streamed.ducklake"
    with ducklake_spark.attach(uri, name="streamed", spark=spark, encrypted=True) as lake:
        table = lake.create_table("t", "k BIGINT, s STRING")
        table.insert(spark.range(50).selectExpr("id AS k", "'x' AS s"))
        table.insert([(1000, "y")])
        source = spark.readStream.option("readChangeFeed", feed).option("startingVersion", 1)
        sink = source.table("streamed.main.t").writeStream.format("ducklake").trigger(availableNow=True)
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
        sink.toTable("streamed.main.copy").awaitTermination()
        assert sorted(row.k for row in lake.table("copy").collect()) == [*range(50), 1000]
