"""Commands that ask only the catalog: what they say, in every format, what they refuse, and that Spark stays out."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import ducklake_spark
from ducklake_spark.cli.output import Format
from tests.cli.conftest import Run, Seen


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_info_counts_what_the_extension_counts(run: Run, seen: Seen) -> None:
    answer = run("info", seen.path, "--format", "json")
    info = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert {
        key: info[key] for key in ("name", "catalog_type", "format_version", "snapshot", "encrypted")
    } == {
        "name": "shop",
        "catalog_type": "duckdb",
        "format_version": "1.0",
        "snapshot": 13,
        "encrypted": False,
    }
    assert info["data_path"] == f"{seen.path}.files/"
    assert (info["schemas"], info["tables"], info["views"]) == (2, 2, 1)
    totals = [sum(int(str(row[index])) for row in seen.table_info) for index in (4, 5, 6, 7)]
    assert [info["files"], info["bytes"], info["delete_files"], info["delete_bytes"]] == totals
    assert info["rows"] == seen.counts["orders"] + seen.counts["odd name"]


def test_tables_have_the_rows_that_a_query_counts(run: Run, seen: Seen) -> None:
    found = {row["name"]: row for row in rows_of(run("tables", seen.path, "-o", "csv").out)}
    assert list(found) == ["odd name", "v", "orders"]
    assert found["v"] == {
        "schema": "main", "name": "v", "kind": "view", "rows": "", "files": "", "bytes": "",
    }  # fmt: skip
    assert int(found["orders"]["rows"]) == seen.counts["orders"]
    assert int(found["odd name"]["rows"]) == seen.counts["odd name"]
    info = {row[0]: row for row in seen.table_info}
    assert [int(found["orders"][key]) for key in ("files", "bytes")] == list(info["orders"][4:6])
    only = rows_of(run("tables", seen.path, "--schema", "SALES", "-o", "csv").out)
    assert [row["name"] for row in only] == ["orders"]


@pytest.mark.parametrize("version", [7, 8])
def test_time_travel_shows_the_rows_of_then(run: Run, seen: Seen, version: int) -> None:
    answer = run("tables", seen.path, "--version-at", str(version), "-o", "json")
    [orders] = json.loads(answer.out)
    assert orders["rows"] == seen.counts[f"orders at {version}"]
    snapshots = json.loads(run("snapshots", seen.path, "-o", "json").out)
    then = snapshots[version]["snapshot_time"]
    assert run("tables", seen.path, "--timestamp", then, "-o", "json").out == answer.out


def test_files_are_those_that_the_extension_lists(run: Run, seen: Seen) -> None:
    found = json.loads(run("files", seen.path, "sales.orders", "-o", "json").out)
    assert sorted((row["path"], row["bytes"], row["delete_file"]) for row in found) == sorted(
        (row[0], row[1], row[4]) for row in seen.files
    )
    assert sum(row["rows"] - row["deleted"] for row in found) == seen.counts["orders"]
    shown = run("files", seen.path, '"odd name"').out
    assert "2 more rows are in the catalog" in shown


def test_schema_shows_columns_defaults_and_keys(run: Run, seen: Seen) -> None:
    described = json.loads(run("schema", seen.path, "sales.orders", "-o", "json").out)
    assert described == {
        "table": "sales.orders",
        "comment": "all of them",
        "columns": [
            {"name": "id", "type": "BIGINT", "nullable": False, "default": None, "comment": "the key"},
            {
                "name": "made",
                "type": "TIMESTAMP WITH TIME ZONE",
                "nullable": True,
                "default": "now()",
                "comment": None,
            },
            {"name": "tags", "type": "VARCHAR[]", "nullable": True, "default": None, "comment": None},
        ],
        "partitioned_by": ["year(made)"],
        "sorted_by": ["id DESC NULLS LAST"],
    }
    shown = run("schema", seen.path, "sales.orders").out
    for words in (
        "Comment: all of them",
        "Partitioned by: year(made)",
        "Sorted by: id DESC NULLS LAST",
        "│ id ",
    ):
        assert words in shown
    assert rows_of(run("schema", seen.path, "sales.orders", "-o", "csv").out)[0]["name"] == "id"


def test_snapshots_come_in_order_and_name_what_changed(run: Run, seen: Seen) -> None:
    found = json.loads(run("snapshots", seen.path, "-o", "json").out)
    assert [row["snapshot_id"] for row in found] == list(range(14))
    assert found[2]["changes"] == {"tables_created": ["sales.orders"]}
    shown = run("snapshots", seen.path, "-n", "7").out
    assert "tables inserted into: sales.orders" in shown
    assert 'inlined insert: main."odd name"' in shown
    assert "schemas created: main" not in shown
    assert len(rows_of(run("snapshots", seen.path, "-n", "2", "-o", "csv").out)) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["info", "no/such.ducklake"], 1, "does not exist"),
        (["info", "missing.ducklake"], 1, "There is no lake at ducklake:duckdb:missing.ducklake"),
        (["info", "sqlite:missing.db"], 1, "There is no lake at ducklake:sqlite:missing.db"),
        (["info", "missing"], 1, 'no persistent secret "missing"'),
        (["info", "ducklake:sqlight:x"], 2, 'Did you mean "sqlite"'),
        (["info"], 2, "LAKE"),
        (["nope"], 2, "nope"),
        (["schema", "{lake}", "sales.ordres"], 1, 'Did you mean "orders"'),
        (["tables", "{lake}", "--version-at", "99"], 1, "No snapshot found at version 99"),
        (["tables", "{lake}", "--timestamp", "soon"], 2, "is not a time"),
        (["tables", "{lake}", "--format", "xml"], 2, "xml"),
        (["sql", "missing.ducklake", "SELECT 1"], 1, "--create"),
        (["sql", "{lake}", "SELECT 1", "-f", "x.sql"], 2, "not both"),
        (["sql", "{lake}", "SELECT 1", "--dialect", "oracle"], 2, "spark or duckdb"),
        (["sql", "{lake}", "SELECT 1", "--conf", "x"], 2, "KEY=VALUE"),
        (["sql", "{lake}", "-f", "missing.sql"], 1, "missing.sql: No such file"),
        (["changes", "{lake}", "nope"], 1, 'no table "nope"'),
    ],
)
def test_errors_are_one_sentence_and_an_exit_code(
    run: Run,
    seen: Seen,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = run(*(argument.format(lake=seen.path) for argument in arguments))
    assert (answer.code, answer.out) == (code, "")
    assert words in answer.err
    assert "Traceback" not in answer.err
    if answer.err.startswith("Error: "):
        assert answer.err.count("\n") == 1
    assert not list(tmp_path.iterdir()), "a typo made a lake"


def test_debug_shows_the_traceback(run: Run) -> None:
    with pytest.raises(ducklake_spark.NotADuckLakeError):
        run("info", "missing.ducklake", "--debug")


def test_a_sqlite_file_is_known_by_its_content(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lake.ducklake"
    ducklake_spark.attach(f"ducklake:sqlite:{file}", data_path=tmp_path / "data").close()
    assert json.loads(run("info", str(file), "-o", "json").out)["catalog_type"] == "sqlite"
    assert json.loads(run("info", f"sqlite:{file}", "-o", "json").out)["files"] == 0


def test_version(run: Run) -> None:
    assert run("--version").out == f"ducklake-spark {ducklake_spark.__version__}\n"


@pytest.mark.parametrize("command", [["info"], ["tables"], ["snapshots"], ["schema", "sales.orders"], ["files", "sales.orders"]])  # fmt: skip
def test_commands_write_the_same_in_every_format(run: Run, seen: Seen, command: list[str]) -> None:
    name, *rest = command
    written: dict[str, Any] = {
        each.value: run(name, seen.path, *rest, "--format", each.value) for each in Format
    }
    assert {answer.code for answer in written.values()} == {0}
    parsed = json.loads(written["json"].out)
    count = {"info": 1, "schema": 3}.get(name, len(parsed))
    assert len(rows_of(written["csv"].out)) == count
    assert len(written["table"].out.splitlines()) > count


_PROBE = """
import sys
from ducklake_spark.cli.app import app
code = 0
try:
    app(sys.argv[1:])
except SystemExit as exit:
    code = exit.code
heavy = {"pyspark", "py4j", "pandas", "pyarrow", "numpy", "sqlglot", "prompt_toolkit"}
print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("command", [["info"], ["tables"], ["snapshots"], ["schema", "sales.orders"], ["files", "sales.orders"]])  # fmt: skip
def test_no_spark_is_imported_for_the_catalog(seen: Seen, command: list[str]) -> None:
    name, *rest = command
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROBE), name, seen.path, *rest],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr.strip() == "0 []"
    assert done.stdout
