"""What each mistake of `mistakes.py` must be: an error of ours, short, that names the thing, silent, and without effect."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ducklake_spark import DuckLakeError
from tests.errors.mistakes import MISTAKES, MISUSES

pytestmark = pytest.mark.spark

LONGEST = 400
HIDDEN = (
    "__ducklake",
    "_ducklake_internal",
    "ducklake_spark_",
    "py4j",
    "org.apache",
    "\tat ",
    "Traceback",
    "\x1b",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All mistakes, made by a script in a process of its own."""
    result = tmp_path_factory.mktemp("mistakes") / "result.json"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-m", "tests.errors.mistakes", str(result)], cwd=root, check=True)
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def test_there_are_many() -> None:
    assert len(MISTAKES) + len(MISUSES) >= 150


@pytest.mark.parametrize("title", MISTAKES)
def test_a_mistake_is_a_typed_error_in_a_sentence(title: str, made: dict[str, Any]) -> None:
    mistake, found = MISTAKES[title], made[title]
    assert issubclass(mistake.error, DuckLakeError)
    assert (found["type"], found["message"]) == (mistake.error.__qualname__, found["message"])
    _check_message(found["message"], mistake.names)
    assert found["chain"] == []


@pytest.mark.parametrize("title", MISUSES)
def test_a_wrong_command_ends_with_its_code_and_a_sentence(title: str, made: dict[str, Any]) -> None:
    misuse, found = MISUSES[title], made[title]
    assert (found["code"], found["written"], found["escaped"]) == (misuse.code, "", False), found
    usage = "Usage: "
    message = " ".join(re.sub(r"[│╭╮╰╯─]+", " ", found["message"]).split())
    _check_message(message, misuse.names)
    assert message.startswith((usage, "Error: "))


@pytest.mark.parametrize("title", [*MISTAKES, *MISUSES])
def test_a_mistake_is_silent_and_changes_nothing(title: str, made: dict[str, Any]) -> None:
    found = made[title]
    assert (found["changed"], found["files"]) == (False, [])
    if title in MISTAKES and MISTAKES[title].is_logged:
        assert "QueryContextLogger" not in found["printed"]
    else:
        assert found["printed"] == ""


def _check_message(message: str, names: tuple[str, ...]) -> None:
    assert 10 < len(message) < LONGEST
    assert "\n" not in message
    assert [name for name in names if name.lower() not in message.lower()] == [], message
    assert [word for word in HIDDEN if word in message] == []
    said = re.split(r" (?:The statement is|Statement \d+ of \d+ is|in): ", message)[0]
    assert len(re.findall(r"[.!?] (?=[A-Z])", said)) <= 3, message
