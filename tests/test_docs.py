"""The code blocks of README.md and docs/: a reader who copies them gets what they promise."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from typer.testing import CliRunner

import ducklake_spark
from ducklake_spark.cli.app import app
from tests.interop.oracle import Oracle

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
POSTGRES = "dbname=lake_catalog"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def run(text: str, page: str, names: dict[str, object]) -> None:
    """Runs a block; a comment `# -> text` behind an expression, or below it, says what that gives."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        place = f"{page}: {lines[node.lineno - 1]}"
        assert node.end_lineno is not None
        below = lines[node.end_lineno] if node.end_lineno < len(lines) else ""
        shown = re.search(r"  # -> (.*)$", lines[node.end_lineno - 1]) or re.match(r"# -> (.*)$", below)
        if isinstance(node, ast.Expr) and shown:
            value = eval(compile(ast.Expression(node.value), place, "eval"), names)
            assert repr(value) == shown[1], place
        else:
            assert not shown, place
            exec(compile(ast.Module([node], []), place, "exec"), names)


@pytest.fixture(autouse=True)
def _no_lake_left() -> Iterator[None]:
    """A reader runs a page in a process of its own, without lakes of other pages."""
    yield
    for lake in ducklake_spark.lakes().values():
        lake.close()


@pytest.mark.spark
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_one_after_another(
    page: Path,
    oracle: Oracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    database = None
    for language, text in blocks(page):
        if language == "python":
            request.getfixturevalue("spark")  # the active session, which a lake without one takes
            if POSTGRES in text:
                database = database or request.getfixturevalue("postgres_server").fresh_database()
                text = text.replace(POSTGRES, json.dumps(database)[1:-1])
            run(text, page.name, names)
        elif (
            language == "sql" and page.name != "from-duckdb.md"
        ):  # tests/sql/test_scripts.py runs those on both
            for statement in filter(str.strip, text.split(";")):
                # DuckDB runs in another folder
                oracle.execute(statement.replace("'ducklake:", f"'ducklake:{tmp_path}/"))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_first_minute_can_be_had_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader runs the script again in the same folder."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        names: dict[str, object] = {"__name__": "docs"}
        for language, text in blocks(ROOT / "README.md"):
            if language == "python":
                run(text, "README.md", names)


def test_commands_in_shell_blocks_are_those_of_the_command_line() -> None:
    """What no test can run, such as a line for cron, is at least understood."""
    commands = {str(info.name): info for info in app.registered_commands}
    seen = 0
    for page in PAGES:
        text = "\n".join(text for language, text in blocks(page) if language in ("sh", "console"))
        for name, rest in re.findall(r"(?:^|[ /])ducklake-spark (?!--)([\w-]+)(.*)$", text, re.MULTILINE):
            assert name in commands, f"{page.name}: {name}"
            shown = click.unstyle(CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output)
            options = re.findall(r"(?<= )--[a-z][a-z-]*", re.sub(r"'.*?'|\".*?\"", "", rest.split(" #")[0]))
            assert not [option for option in options if f"{option} " not in shown], (
                f"{page.name}: {name}{rest}"
            )
            seen += 1
    assert seen > 10


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_messages_of_the_page_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    section = page.split("## By message")[1].split("\n## ")[0]
    messages = re.findall(r"^\| `(.*?)` \|", section, re.MULTILINE)
    texts = []
    for path in (ROOT / "src").glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    assert len(messages) > 20
    assert not [message for message in messages if not any(message in text for text in texts)]


def test_every_error_is_on_the_page_of_errors() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    errors = [name for name in ducklake_spark.__all__ if name.endswith("Error") and name != "DuckLakeError"]
    assert len(errors) > 20
    assert not [name for name in errors if f"`{name}`" not in page]


def test_the_statements_that_the_architecture_traces_go_through_functions_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## Two statements, room by room")[1].split("\n## ")[0]
    room, text, missing, seen = "", "", [], 0
    for first, rest in re.findall(r"^\|(.*?)\|(.*)\|$", section, re.MULTILINE):
        named = re.match(r" `(\w+)/`", first)
        room = named[1] if named else room
        for name in re.findall(r"`([\w./]+)`", rest):
            if name.endswith(".py"):
                text = (ROOT / "src" / "ducklake_spark" / room / name).read_text(encoding="utf-8")
            elif not all(re.search(rf"(class|def) {part}\b", text) for part in name.split(".")):
                missing.append((room, name))
            seen += 1
    assert seen > 40 and not missing


def test_the_files_that_the_architecture_names_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    known = {
        str(path.relative_to(ROOT / "src" / "ducklake_spark"))
        for path in ROOT.glob("src/ducklake_spark/**/*.py")
    }
    names = set(re.findall(r"`([\w/]+\.py)`", page))
    assert names
    assert not [
        name for name in names if not any(path == name or path.endswith(f"/{name}") for path in known)
    ]
