"""The Python of Spark's workers: in local sessions the driver's own, on clusters one that is asked before it is used."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark import cloudpickle

from ducklake_spark.format.types import Scalar
from ducklake_spark.workers.deletes import DeleteEncoding, TableFile
from ducklake_spark.workers.duckdb_encoder import EncodedColumn, EncodedKey, Encoding
from ducklake_spark.workers.keys import AddBuckets, AddKeyTexts
from ducklake_spark.workers.probe import probe
from ducklake_spark.write.partitioning.buckets import bucket_sql

HASHED = bucket_sql("c0", Scalar("varchar"), 4)

CHANGES = """
import os, sys
from pyspark.sql import SparkSession
import ducklake_spark

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
lake = ducklake_spark.attach("ducklake:m.ducklake", spark=spark, data_inlining_row_limit=0)
t = lake.create_table("t", {"id": "int", "tags": "varchar[]"})
source = spark.range(18, 25).selectExpr("CAST(id AS INT) AS id", "array('m') AS tags")
print("insert", t.insert(spark.range(20).selectExpr("CAST(id AS INT) AS id", "array('a') AS tags")))
print("delete", t.delete("id % 5 = 0"))
print("update", t.update({"tags": "array('x')"}, "id = 3"))
merge = t.merge(source, "target.id = source.id").when_matched().update_all()
print("merge", merge.when_not_matched().insert_all().execute())
keyed = {"id": "uuid", "n": "int[]"}
b = lake.create_table("b", keyed, partitioned_by=["bucket(4, id)"])
print("bucket", b.insert(spark.range(10).selectExpr("uuid() AS id", "array(1) AS n")))
print("partitions", b.overwrite_partitions(spark.range(10).selectExpr("uuid() AS id", "array(1) AS n")))
print("the user's own:", spark.sparkContext.pythonExec)
lake.close()
spark.stop()

os.environ["PYSPARK_PYTHON"] = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
lake = ducklake_spark.attach("ducklake:m.ducklake", spark=spark)
print("insert", lake["t"].insert(spark.range(20).selectExpr("CAST(id AS INT) AS id", "array('a') AS tags")))
print("delete", lake["t"].delete("id = 22"))
print("the user's own:", spark.sparkContext.pythonExec)
"""

DONE = [
    "insert 20",
    "delete 4",
    "update 1",
    "merge MergeResult(inserted=5, updated=2, deleted=0)",
    "bucket 10",
    "partitions 10",
    "the user's own: python3",
]

CLUSTER = """
from pathlib import Path
from pyspark.sql import SparkSession
import ducklake_spark

spark = SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
lake = ducklake_spark.attach("ducklake:m.ducklake", spark=spark, data_inlining_row_limit=0)
nested, flat = lake.create_table("t", {"id": "int", "tags": "varchar[]"}), lake.create_table("f", {"id": "int"})
flat.insert([(1,), (2,)])
rows = spark.range(3).selectExpr("CAST(id AS INT) AS id")
before = lake.version, sorted(Path().rglob("*.parquet")), sorted(Path("m.ducklake.files").rglob("*"))
try:
    nested.insert(spark.range(20000).selectExpr("CAST(id AS INT) AS id", "array('a') AS tags"))
except ducklake_spark.WorkerError as error:
    print(error.__cause__, error)
after = lake.version, sorted(Path().rglob("*.parquet")), sorted(Path("m.ducklake.files").rglob("*"))
assert before == after, after
# Few rows need no Python workers.
assert nested.insert(rows.selectExpr("id", "array('a') AS tags")) == 3
assert flat.delete("id = 1") == 1
assert flat.update({"id": "1"}, "id = 2") == 1
print(flat.merge(rows, "target.id = source.id").when_matched().update_all().execute())
"""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder whose `python3` has no packages."""
    folder = tmp_path / "bin"
    folder.mkdir()
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" -S "$@"\n')
    python.chmod(0o755)
    checked = subprocess.run([python, "-c", "import duckdb"], capture_output=True, text=True)
    assert "ModuleNotFoundError" in checked.stderr
    return folder


def run(script: str, folder: Path, bare: Path, *arguments: str, **variables: str) -> list[str]:
    """The lines of a script in a process whose environment was not activated."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name == "SPARK_SUBMIT_OPTS" or not name.startswith(("PYSPARK", "SPARK"))
    }
    environment |= {"PATH": f"{bare}{os.pathsep}{environment['PATH']}", **variables}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=560,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.spark
def test_a_local_session_needs_no_activated_environment_and_works_whatever_python_is_set(
    tmp_path: Path, bare: Path
) -> None:
    python = str(bare / "python3")
    said = run(CHANGES, tmp_path, bare, python)
    assert said == [*DONE, "insert 20", "delete 1", f"the user's own: {python}"]


@pytest.mark.spark
def test_workers_of_a_cluster_are_asked_before_anything_is_written(tmp_path: Path, bare: Path) -> None:
    home = {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
    said = run(CLUSTER, tmp_path, bare, **home)
    line, merged = said
    assert line.startswith("None The Python of Spark's workers, "), line
    assert "has no pyarrow, no pandas, no duckdb. Workers need Python 3." in line
    assert len(line) < 400 + len(str(tmp_path))
    assert merged == "MergeResult(inserted=0, updated=1, deleted=0)"


def functions(folder: str) -> list[tuple[object, pa.RecordBatch]]:
    """Each function that workers run, with rows for it."""
    texts = pa.record_batch({"c0": pa.array(["x", None, "y" * 300])})
    deleted = pa.record_batch({"f": [7], "n": pa.array([None], pa.string()), "p": [[0, 2]]})
    columns = (EncodedColumn("a", "c0"),)
    key = EncodedKey(f"CAST({HASHED.replace('c0', 'a')} AS VARCHAR)", "bucket")
    return [
        (Encoding(folder, columns, "{'a': 1}", keys=(key,)), texts),
        (DeleteEncoding(folder, 0, 5, {7: TableFile("f.parquet", 5)}), deleted),
        (AddBuckets((("k0", HASHED),)), texts),
        (AddKeyTexts((), (("a", "c0"),), (f"CAST({HASHED.replace('c0', 'a')} AS VARCHAR)",)), texts),
        (probe, None),
    ]


def test_functions_for_workers_run_without_the_package(tmp_path: Path) -> None:
    """They travel by value: a worker has Python's own library, DuckDB, PyArrow and what these need."""
    import ducklake_spark.spark.worker_functions  # noqa: F401  # says what travels by value

    sent = tmp_path / "sent"
    sent.write_bytes(cloudpickle.dumps(functions(str(tmp_path))))
    program = textwrap.dedent(
        """
        import pickle, sys
        sys.modules["ducklake_spark"] = None
        from pyspark import cloudpickle
        for function, rows in pickle.load(open("sent", "rb")):
            found = function() if rows is None else [batch.num_rows for batch in function([rows])]
            print(getattr(function, "__name__", type(function).__name__), found)
        assert not [name for name in sys.modules if name.startswith("ducklake_spark.")]
        """
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *lines, probed = done.stdout.splitlines()
    assert lines == ["Encoding [1, 1]", "DeleteEncoding [1]", "AddBuckets [3]", "AddKeyTexts [3]"]
    assert probed.startswith('probe {"executable"')
