"""`ducklake-spark sql` and `changes`: statements run on Spark, and what comes back in every format."""

from __future__ import annotations

import csv
import io
import json
import logging
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from tests.cli.conftest import Run

pytestmark = pytest.mark.spark

VALUES = """
SELECT id, name, CAST(id AS DECIMAL(20, 2)) AS amount, array(id, NULL) AS list, named_struct('x', id, 'y', name) AS st,
  map(id, timestamp_ntz'2024-01-01 10:00:00') AS times, date'9999-12-31' AS day, x'00ff' AS bin, id AS id
FROM t ORDER BY id
"""


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with a table of two rows and its changes."""
    file = str(tmp_path_factory.mktemp("sql") / "lake.ducklake")
    with ducklake_spark.attach(f"ducklake:{file}") as lake:
        table = lake.create_table("t", {"id": "bigint", "name": "varchar"})
        table.insert([{"id": 1, "name": "one"}, {"id": 2, "name": None}])
        table.delete("id = 2")
        table.insert([{"id": 2, "name": "two\x1b"}])
    return file


def test_json_and_csv_have_every_value(run: Run, path: str) -> None:
    rows = json.loads(run("sql", path, VALUES, "--format", "json").out, parse_float=Decimal)
    assert rows[0] == {
        "id": 1,
        "name": "one",
        "amount": Decimal("1.00"),
        "list": [1, None],
        "st": {"x": 1, "y": "one"},
        "times": {"1": "2024-01-01 10:00:00"},
        "day": "9999-12-31",
        "bin": "\\x00ff",
    }
    assert [row["name"] for row in rows] == ["one", "two\x1b"]
    lines = list(csv.reader(io.StringIO(run("sql", path, VALUES, "--format", "csv").out)))
    assert lines[0] == ["id", "name", "amount", "list", "st", "times", "day", "bin", "id"]
    assert lines[1][:5] == ["1", "one", "1.00", "[1, null]", '{"x": 1, "y": "one"}']


def test_a_table_is_for_people_and_ends_at_the_limit(run: Run, path: str) -> None:
    shown = run("sql", path, "SELECT id, name FROM t ORDER BY id").out
    assert "│  1 │ one" in shown
    assert "two\\x1b" in shown
    assert shown.endswith("2 rows\n")
    limited = run("sql", path, "SELECT id FROM range(1000)", "--limit", "5").out
    assert limited.count("\n") == 5 + 5
    assert "The first 5 rows; there are more" in limited
    assert (
        len(json.loads(run("sql", path, "SELECT id FROM range(1000)", "-o", "json", "-n", "5").out)) == 1000
    )


def test_duckdb_dialect_and_time_travel(run: Run, path: str) -> None:
    answer = run("sql", path, "FROM t SELECT count(*)::INT AS n", "-d", "duckdb", "-o", "csv")
    assert (answer.code, answer.out) == (0, "n\n2\n")
    answer = run("sql", path, "SELECT id FROM t", "--version-at", "3", "-o", "csv")
    assert answer.out == "id\n1\n"


def test_errors_are_not_logged_and_others_still_are(
    run: Run, path: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        answer = run("sql", path, "SELECT id, 1 / (id - id) FROM t")
        assert (answer.code, seen) == (1, []) and answer.err.count("\n") == 1
        with pytest.raises(Exception, match="nope"):
            spark.sql("SELECT nope FROM range(1)")
        assert len(seen) == 1, "what the same process does beside the command line is its own"
    finally:
        logger.removeHandler(handler)
        capsys.readouterr()


def test_files_and_pipes_are_run_in_order(run: Run, path: str, tmp_path: Path) -> None:
    file = tmp_path / "two.sql"
    file.write_text("SELECT 'first' AS a; -- ;\nSELECT 'second' AS b;\n", encoding="utf-8")
    assert run("sql", path, "-f", str(file), "-o", "csv").out == "b\nsecond\n", (
        "a program gets the last result"
    )
    shown = run("sql", path, "-f", str(file)).out
    assert shown.index("first") < shown.index("second")
    assert run("sql", path, "-o", "csv", typed="SELECT 1 AS c").out == "c\n1\n"
    assert run("sql", path, "-f", "-", "-o", "csv", typed="SELECT 1 AS c").out == "c\n1\n"
    empty = run("sql", path, typed="-- nothing\n")
    assert (empty.code, empty.err) == (2, "Error: There is no statement to run.\n")


def test_statements_change_the_lake_only_where_they_may(run: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "new.ducklake")
    assert run("sql", file, "SELECT 1").code == 1
    made = run("sql", file, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)", "--create", "-o", "csv")
    assert (made.code, made.err) == (0, "")
    assert made.out.splitlines()[1] == "2"
    assert run("sql", file, "SELECT count(*) AS n FROM t", "-o", "csv").out == "n\n2\n"
    for flags in (["--read-only"], ["--version-at", "1"]):
        refused = run("sql", file, "INSERT INTO t VALUES (3)", *flags)
        assert (refused.code, refused.out) == (1, "")
        assert "read-only" in refused.err
    open_end = run("sql", file, "BEGIN; INSERT INTO t VALUES (3)", "-o", "csv")
    assert open_end.code == 1
    assert "rolled back" in open_end.err
    assert run("sql", file, "SELECT count(*) AS n FROM t", "-o", "csv").out == "n\n2\n"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT nope FROM t", "nope"),
        ("SELECT * FROM nope", "nope"),
        ("SELEC 1", "SELEC"),
        ("SELECT raise_error('too bad')", "too bad"),
        ("SELECT 'open", "SELECT"),
    ],
)
def test_errors_of_statements_are_one_line(run: Run, path: str, statement: str, words: str) -> None:
    answer = run("sql", path, statement)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("Error: ")
    assert answer.err.count("\n") == 1
    assert words in answer.err
    assert "Traceback" not in answer.err and "org.apache" not in answer.err


def test_changes_come_in_the_order_of_snapshots(run: Run, path: str) -> None:
    rows = json.loads(run("changes", path, "t", "-o", "json").out)
    assert [(row["snapshot_id"], row["change_type"], row["id"]) for row in rows] == [
        (2, "insert", 1),
        (2, "insert", 2),
        (3, "delete", 2),
        (4, "insert", 2),
    ]
    some = json.loads(run("changes", path, "main.t", "--from", "3", "--to", "3", "-o", "json").out)
    assert [row["change_type"] for row in some] == ["delete"]
    net = json.loads(run("changes", path, "t", "--net", "-o", "json").out)
    assert [row["change_type"] for row in net] == ["insert", "insert"]
    wrong = run("changes", path, "t", "--from", "99")
    assert (wrong.code, wrong.out) == (1, "")
