"""docs/cli.md: each command prints what the page says, and the page names each command and option."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import Run

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = (
    *("sql", "changes", "info", "tables", "schema", "files", "snapshots", "health", "maintain", "checkpoint"),
    *(
        "flush-inlined-data",
        "merge-adjacent-files",
        "rewrite-data-files",
        "compact",
        "expire-snapshots",
        "cleanup-old-files",
    ),
    *("delete-orphaned-files", "add-data-files"),
)


def examples() -> list[tuple[str, str]]:
    text = "".join(block[1] for block in CONSOLE.finditer(PAGE.read_text(encoding="utf-8")))
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


@pytest.mark.spark
def test_the_page_shows_what_the_commands_print(
    run: Run, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checker = doctest.OutputChecker()
    assert len(examples()) > 10
    for command, expected in examples():
        name, *arguments = shlex.split(command)
        assert name == "ducklake-spark"
        answer = run(*arguments)
        printed = answer.out + answer.err
        assert checker.check_output(expected, printed, doctest.ELLIPSIS), f"$ {command}\n{printed}"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_every_option(run: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    page = PAGE.read_text(encoding="utf-8")
    assert f"`{command} LAKE" in page
    options = set(re.findall(r"--[a-z-]+", run(command, "--help").out)) - {"--no"}
    assert "--format" in options
    assert not {option for option in options if option not in page}


def test_the_page_of_the_explorer_names_every_option(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    page = PAGE.with_name("explorer.md").read_text(encoding="utf-8") + PAGE.read_text(encoding="utf-8")
    options = set(re.findall(r"--[a-z-]+", run("explore", "--help").out)) - {"--no"}
    assert "--port" in options
    assert not {option for option in options if option not in page}
