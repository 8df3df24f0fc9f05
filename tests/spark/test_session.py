"""The session that we start: its JVM begins beside what needs none, once, and goes when nothing came to need it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import threading
import ducklake_spark
from ducklake_spark.spark import session

launched = []
begin = session._Jvm.begin
def counted(jvm):
    launched.append(jvm)
    begin(jvm)
session._Jvm.begin = counted

lake = ducklake_spark.attach("ducklake:m.ducklake")
lake.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2), (9); UPDATE t SET a = 8 WHERE a = 9")
lake.sql("DELETE FROM t WHERE a > 7")
assert not launched, "no statement needed Spark"

# A statement before it fails: the JVM that was begun is given up, and ends as soon as it is there.
try:
    lake.sql("CREATE TABLE t (a INT); UPDATE t SET a = a + 3")
except ducklake_spark.AlreadyExistsError:
    pass
[unused] = launched
assert session._expected is None
unused._thread.join()
assert unused._gateway.proc.poll() is not None, "it is still there"

# Taken by the first of two threads that need one; the other gets the same session.
found = []
def update():
    lake.sql("CREATE TABLE IF NOT EXISTS u (a INT); UPDATE t SET a = a + 1 WHERE a > 100")
    found.append(lake.spark)
threads = [threading.Thread(target=update) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(launched) == 2, launched
assert found[0].sparkContext is found[1].sparkContext
assert launched[1]._gateway is found[0].sparkContext._gateway
assert session._expected is None

lake.sql("UPDATE t SET a = 6 + 1 WHERE a = 1")
assert len(launched) == 2, "there is a session"
print(sorted(row.a for row in lake.sql("SELECT * FROM t").collect()))

# A session that its owner stops: what needs none goes on, and is not said to have failed when it was committed.
with lake.transaction():
    lake["t"].insert([(3,)])
    lake.spark.stop()
lake.sql("INSERT INTO t VALUES (4)")
with lake.transaction():
    lake.sql("DELETE FROM t WHERE a = 7")
assert lake["t"].insert([(5,)]) == 1
assert lake.version == 10, lake.version
try:
    lake.table("t")
except ducklake_spark.SparkUnavailableError as error:
    assert "was stopped" in str(error)
else:
    raise AssertionError("there was a session")
lake.close()
with ducklake_spark.attach("ducklake:m.ducklake") as lake:
    [(name, *_)] = lake._scope.store.query("SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = 1")
    print(sorted(a for a, in lake._scope.store.query(f"SELECT a FROM {name} WHERE end_snapshot IS NULL")))
"""


@pytest.mark.spark
def test_a_jvm_is_started_once_and_only_if_needed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[2, 7]\n[2, 3, 4, 5]\n"), done.stderr[
        -3000:
    ]
