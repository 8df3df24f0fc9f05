"""What `test_connect.py` looks at: the parts that a process with a session of Spark Connect runs, one after another."""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def main(folder: str) -> None:
    """Runs all parts in one session, and leaves the traces of those that failed in a file."""
    from tests.interop import connect_format

    spark = session()
    # The format first: a session that nobody told of it finds it.
    parts = {"format": connect_format.check, "rows": _rows, "feeds": _feeds, "sql": _sql, "page": _page}
    failures = {}
    for name, check in parts.items():
        try:
            check(spark, folder)
        except BaseException:
            failures[name] = traceback.format_exc()
    spark.stop()
    Path(folder, "failures.json").write_text(json.dumps(failures))


def session() -> SparkSession:
    """A session with a server of its own, which does not compile queries: the tests in this process have few rows."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

    # Not the usual port, which another server may have.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
    builder = SparkSession.builder.remote("local[2]").config("spark.connect.grpc.binding.port", str(port))
    for key, value in {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _rows(spark: SparkSession, folder: str) -> None:
    """The same scan, row for row."""
    from tests.interop.oracle import Oracle
    from tests.scan.lakes import Lake, in_order

    with Oracle() as oracle:
        lake = Lake(oracle, spark, f"ducklake:sqlite:{folder}/lake.sqlite", f"{folder}/da ta [x]")
        lake.write(
            "CREATE TABLE t(a INTEGER, u UUID, s STRUCT(x INTEGER), d DATE, h HUGEINT)",
            "INSERT INTO t SELECT i, uuid(), {'x': i}, DATE '1500-01-01' + i::INTEGER, i FROM range(100) r(i)",
            "DELETE FROM t WHERE a % 3 = 0",
            "DELETE FROM t WHERE a = 1",
            "INSERT INTO t VALUES (1000, NULL, NULL, NULL, NULL)",
            "ALTER TABLE t RENAME COLUMN a TO b",
            "ALTER TABLE t ADD COLUMN s.y VARCHAR DEFAULT 'y'",
            "ALTER TABLE t ADD COLUMN z BIGINT DEFAULT 42",
            "UPDATE t SET z = 1 WHERE b > 50",
            "DELETE FROM t WHERE b > 80",
            "CALL ducklake_flush_inlined_data('lake')",
        )
        assert lake.check("t") > 300
        theirs = lake.ask("SELECT b, rowid, snapshot_id, filename, file_row_number FROM t")
        frame = lake.read("t", virtual=("rowid", "snapshot_id", "filename", "file_row_number"))
        ours = frame.select("b", "rowid", "snapshot_id", "filename", "file_row_number").collect()
        assert in_order(ours) == in_order(theirs)
        lake.close()


def _feeds(spark: SparkSession, folder: str) -> None:
    """Changes of rows made through Connect, and their feed: as the extension reads it."""
    import ducklake_spark
    from tests.interop.feed_steps import change_rows, feed_of
    from tests.interop.oracle import Oracle

    uri = f"ducklake:sqlite:{folder}/feeds.sqlite"
    with ducklake_spark.attach(uri, spark=spark, name="lake", data_path=f"{folder}/feeds") as lake:
        change_rows(lake)
        feed, net, last = feed_of(lake), feed_of(lake, net=True), lake.version
        rows = sorted(map(tuple, lake.table("t").collect()), key=repr)
    with Oracle() as oracle:
        oracle.attach(uri)
        names = "snapshot_id, rowid, change_type, id, v, c"
        theirs = oracle.execute(f"SELECT {names} FROM lake.table_changes('t', 0, {last})")
        assert sorted(map(tuple, theirs), key=repr) == feed
        assert sorted(map(tuple, oracle.execute("FROM t")), key=repr) == rows
    assert sorted((row[2:] for row in net), key=repr) == rows and {row[1] for row in net} == {"insert"}


def _page(spark: SparkSession, folder: str) -> None:
    """The blocks of docs/guides/connect.md."""
    from tests.test_docs import blocks, run

    os.chdir(folder)
    page = ROOT / "docs" / "guides" / "connect.md"
    [text] = [text for language, text in blocks(page) if language == "py"]
    run(text, page.name, {"spark": spark})


def _sql(spark: SparkSession, folder: str) -> None:
    """`lake.sql` in both dialects: statements, queries over lake tables, parameters and errors."""
    import ducklake_spark

    with ducklake_spark.attach(f"ducklake:{folder}/sql.ducklake", spark=spark, name="lake") as lake:
        lake.sql("CREATE TABLE t (i INT, s STRING); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, '{c}')")
        found = lake.sql("SELECT i, s FROM t WHERE i < :most ORDER BY i", args={"most": 3}).collect()
        assert found == [(1, "a"), (2, "b")]
        try:
            spark.sql("SELECT * FROM lake.main.t").collect()
            raise AssertionError("A Connect session knows no lake.")
        except ducklake_spark.NativeUnavailableError as error:
            assert '"lake": A Spark Connect session' in str(error)
        for sql, expected in [
            (
                "FROM t SELECT i / 2, s[1], typeof(i), {'x': s}::VARCHAR ORDER BY i LIMIT 1",
                [(0.5, "a", "INTEGER", "{'x': a}")],
            ),
            ("SELECT * FROM (PIVOT t ON i USING max(s))", [("a", "b", "{c}")]),
            ("SELECT x.i, y.i FROM t x ASOF JOIN t y ON x.i > y.i ORDER BY 1", [(2, 1), (3, 2)]),
            ("SELECT list_transform([2.5, 3.5], x -> x::INT), printf('%.1f', 0.25)", [([3, 4], "0.2")]),
        ]:
            assert lake.sql(sql, dialect="duckdb").collect() == expected, sql
        assert lake.sql("UPDATE t SET s = concat(s, '!') WHERE i = 1").collect() == [(1,)]
        assert lake.sql("DELETE FROM t WHERE s = 'a!'", dialect="duckdb").collect() == [(1,)]
        with pytest.raises(ducklake_spark.DuckLakeError, match="nope"):
            lake.sql("SELECT * FROM nope", dialect="duckdb")


if __name__ == "__main__":
    main(sys.argv[1])
