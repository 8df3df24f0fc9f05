"""Without Java: what needs no Spark works, and what needs it says so in one sentence before it changes anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys
import pyarrow
import ducklake_spark
from ducklake_spark import SparkUnavailableError

lake = ducklake_spark.attach("ducklake:m.ducklake")
for dialect, text, schema in (("spark", "STRING", "one"), ("duckdb", "VARCHAR", "two")):
    count = lake.sql(f'''
        CREATE SCHEMA {schema};
        CREATE TABLE {schema}.t (id BIGINT NOT NULL, name {text}, day DATE);
        ALTER TABLE {schema}.t ADD COLUMN n INT DEFAULT 42;
        INSERT INTO {schema}.t VALUES (1, 'a', DATE '2026-01-31', 1), (2, NULL, NULL, -2);
        CREATE VIEW {schema}.v AS SELECT id FROM {schema}.t;
        COMMENT ON TABLE {schema}.t IS 'x';
        BEGIN; DROP VIEW {schema}.v; ROLLBACK;
        INSERT INTO {schema}.t (id) VALUES (3)
    ''', dialect=dialect)
    assert count.collect() == [(1,)]
    assert lake.sql(f"SHOW TABLES IN {schema}" if dialect == "spark" else f"SHOW TABLES FROM {schema}", dialect).count() == 2
    assert lake.sql(f"DESCRIBE {schema}.t", dialect).count() == 4
    assert lake.sql(f"DROP VIEW {schema}.v", dialect).isEmpty()
table = lake["one.t"]
assert table.insert([(4, "b", None, 1)]) == 1
assert table.insert([{"id": i} for i in range(100)]) == 100  # a file
assert table.insert(pyarrow.table({"id": [7]})) == 1
with lake.transaction(author="Ada"):
    table.add_column("extra", "int")
assert lake.snapshots().count() == lake.current_snapshot().first()[0] + 1
assert lake.tables() == ["one.t", "two.t"]
assert lake.options().count() >= 3
assert [row.table_name for row in lake.table_info().collect()] == ["t", "t"]
assert lake.list_files("one.t").count() == 1
assert lake.settings().first().catalog_type == "duckdb"
assert lake.metadata("ducklake_table").toPandas().shape[0] >= 2
assert table.history().take(1)[0].author == "Ada"
lake.snapshots().show()
repr(lake), repr(table), repr(lake.snapshots())

refused = {
    "query": lambda: lake.sql("SELECT 1"),
    "table": lambda: lake.table("one.t"),
    "delete": lambda: table.delete("id = 1"),
    "delete by SQL": lambda: lake.sql("DELETE FROM one.t WHERE id = 1"),
    "update": lambda: lake.sql("UPDATE one.t SET id = 3", dialect="duckdb"),
    "insert": lambda: lake.sql("INSERT INTO one.t SELECT * FROM two.t"),
    "computed": lambda: lake.sql("INSERT INTO one.t (id) VALUES (1 + 1)"),
    "ctas": lambda: lake.sql("CREATE TABLE x AS SELECT 1 AS a"),
    "create": lambda: lake.create_table("x", lake.snapshots()),
    "insert rows of a frame": lambda: table.insert(lake.current_snapshot()),
    "changes": lambda: lake.table_changes("one.t", 0),
    "restore": lambda: table.restore(version=4),
    "filter": lambda: lake.snapshots().where("snapshot_id = 1"),
    "session": lambda: lake.spark,
}
for name, change in refused.items():
    before = lake.version, lake.tables()
    try:
        change()
    except SparkUnavailableError as error:
        text = str(error)
        assert "It needs Java 17 or 21, found by JAVA_HOME or on the PATH." in text, text
        assert len(text) < 400
    else:
        raise AssertionError(name + " was not refused")
    assert (lake.version, lake.tables()) == before, name
print("done")
"""


def test_what_needs_no_spark_works_without_java(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "bash", "env", "dirname", "basename", "readlink", "ls", "grep", "sed", "cat"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)  # all that Spark's scripts use, and no Java
    environment = {
        name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")
    }
    environment["PATH"] = str(tools)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("done\n")
    assert done.stderr == ""
