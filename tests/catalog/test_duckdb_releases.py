"""DuckDB as a library, in the release under test; the oracle may have another one (`make test-duckdb2`)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import ducklake_spark
from ducklake_spark.engine.scope import scope_of
from tests.interop.oracle import Oracle, literal


def storage_version(oracle: Oracle, path: Path) -> str:
    """The version of a DuckDB file, as the oracle's release says it."""
    oracle.execute(f"ATTACH '{path}' AS looked_at (READ_ONLY)")
    [(found,)] = oracle.execute(
        "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'looked_at'"
    )
    oracle.execute("DETACH looked_at")
    return str(found)


def test_a_catalog_file_of_ours_is_one_of_duckdb_1_5(oracle: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "lake.ducklake"
    with ducklake_spark.attach(f"ducklake:{path}") as lake:
        lake.create_table("t", {"i": "int", "v": "varchar[]"})
        lake["t"].insert([(1, ["a"]), (2, None)])
    assert storage_version(oracle, path) == "v1.5.0+"

    oracle.attach(f"ducklake:{path}")
    assert oracle.execute("FROM t") == [(1, ["a"]), (2, None)]
    oracle.execute("INSERT INTO t VALUES (3, [])")
    oracle.detach()
    with ducklake_spark.attach(f"ducklake:{path}") as lake:
        lake["t"].insert([(4, ["d"])])
    assert storage_version(oracle, path) == "v1.5.0+"
    oracle.attach(f"ducklake:{path}")
    assert oracle.execute("SELECT i FROM t ORDER BY i") == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("version", ["v1.0.0", "v1.5.0"])
def test_a_file_that_exists_is_not_upgraded(oracle: Oracle, tmp_path: Path, version: str) -> None:
    path = tmp_path / "lake.ducklake"
    oracle.execute(f"ATTACH '{path}' AS made (STORAGE_VERSION '{version}'); CREATE TABLE made.other(i INT)")
    oracle.execute("INSERT INTO made.other VALUES (1); DETACH made")
    before = storage_version(oracle, path)
    with ducklake_spark.attach(f"ducklake:{path}", create_if_not_exists=True) as lake:
        lake.create_table("t", {"i": "int"})
        lake["t"].insert([(1,), (2,)])
    with ducklake_spark.attach(f"ducklake:{path}") as lake:
        lake["t"].insert([(3,)])

    assert storage_version(oracle, path) == before
    oracle.attach(f"ducklake:{path}")
    assert oracle.execute("FROM t") == [(1,), (2,), (3,)]


EVERYTHING = """
import sys, ducklake_spark

def use(folder):  # variables of a function: nobody empties them when the process ends
    lake = ducklake_spark.attach(f"ducklake:{folder}/lake.ducklake", name="lake", data_inlining_row_limit=0)
    spark = lake.spark
    lake.sql("CREATE TABLE t (id BIGINT, l INT[])")
    lake.sql("CREATE TABLE copied (id BIGINT)")
    lake["t"].insert(spark.range(10).selectExpr("id", "array(1, 2) AS l"))
    lake["t"].delete("id = 3")
    spark.sql("UPDATE lake.t SET id = 20 WHERE id = 4")
    lake.sql("SELECT id, list_sum(l) FROM t", dialect="duckdb").collect()

    def each(rows, number):
        lake["copied"].insert(rows.select("id"))

    stream = spark.readStream.table("lake.t").writeStream.foreachBatch(each).trigger(availableNow=True)
    stream.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
    print(lake.table("t").count(), spark.table("lake.copied").count())
    return lake, lake.table("t")

kept = use(sys.argv[1])
"""


@pytest.mark.spark
def test_a_process_with_open_lakes_ends_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-c", EVERYTHING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.stdout == "9 9\n"
    assert done.stderr == ""
    assert done.returncode == 0


ON_DUCKDB_2 = pytest.mark.skipif(duckdb.__version__ < "2", reason="there is httpfs for DuckDB 1.5")


@ON_DUCKDB_2
def test_an_encrypted_lake_without_httpfs_says_so(tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/lake.ducklake", encrypted=True) as lake:
        lake.create_table("t", {"i": "int"})
        lake["t"].set_option("data_inlining_row_limit", 0)
        needed = rf"the DuckDB {duckdb.__version__} of .* which takes a DuckDB 1\.5"
        with pytest.raises(ducklake_spark.errors.WorkerError, match=needed):
            lake["t"].insert([(1,)])
        assert scope_of(lake).store.query("SELECT count(*) FROM ducklake_data_file") == [(0,)]


@ON_DUCKDB_2
def test_encrypted_files_of_duckdb_1_5_are_read(oracle: Oracle, tmp_path: Path) -> None:
    spec = importlib.util.find_spec("duckdb_extension_httpfs")
    assert spec is not None and spec.origin is not None
    [file] = Path(spec.origin).parent.glob("extensions/v1.5.*/httpfs.duckdb_extension")
    oracle.execute(f"LOAD {literal(file)}")
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    oracle.attach(uri, encrypted=True, data_inlining_row_limit=0)
    oracle.execute("CREATE TABLE t AS SELECT i::INTEGER AS i, {'a': [i]} AS s FROM range(3) r(i)")
    oracle.execute("DELETE FROM t WHERE i = 1")
    oracle.detach()
    with ducklake_spark.attach(uri) as lake:
        assert [tuple(row) for row in lake.sql("SELECT i, s.a[0] FROM t ORDER BY i").collect()] == [
            (0, 0),
            (2, 2),
        ]
