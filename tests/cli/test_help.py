"""Help, completion and colours: what a person at a shell sees."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from typer.testing import CliRunner

from ducklake_spark.cli import examples
from ducklake_spark.cli.app import app
from tests.cli.conftest import Run

ESCAPE = "\x1b["


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command `ducklake-spark` of these sources."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "ducklake-spark"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ducklake_spark "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return folder


def completions(shell: str, words: str, **more: str) -> str:
    env = {"_DUCKLAKE_SPARK_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": words, **more}
    return CliRunner().invoke(app, [], env=env, prog_name="ducklake-spark").stdout


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_the_help_of_a_command_has_examples_that_it_understands(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = run(name, "--help").out
    for arguments, _ in examples.EXAMPLES[name]:
        assert f"ducklake-spark {name} {arguments}" in shown
        options = set(re.findall(r"(?<= )--?[a-z][a-z-]*", f" {arguments}"))
        assert not {option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", shown)}


def test_every_command_has_examples(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {info.name for info in app.registered_commands}
    assert names == set(examples.EXAMPLES)
    assert "ducklake-spark tables shop.ducklake" in run("--help").out


def test_bash_completes_commands_and_options(command: Path) -> None:
    script = """
eval "$(_DUCKLAKE_SPARK_COMPLETE=source_bash ducklake-spark)"
complete -p ducklake-spark
COMP_WORDS=(ducklake-spark expl); COMP_CWORD=1
_ducklake_spark_completion ducklake-spark; echo "${COMPREPLY[@]}"
COMP_WORDS=(ducklake-spark explore lake --no-b); COMP_CWORD=3
_ducklake_spark_completion ducklake-spark; echo "${COMPREPLY[@]}"
"""
    path = f"{command}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    first, *rest = done.stdout.splitlines()
    assert first.startswith("complete ") and first.endswith(" ducklake-spark"), done.stderr
    assert rest == ["explore", "--no-browser"]


def test_zsh_and_fish_are_answered_in_their_words() -> None:
    assert '"explore":' in completions("zsh", "ducklake-spark expl")
    fish = completions("fish", "ducklake-spark expl", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert fish.startswith("explore\t")
    for value in ("spark", "duckdb"):
        assert value in completions("zsh", "ducklake-spark sql lake --dialect ")
    assert "json" in completions("zsh", "ducklake-spark info lake --format ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_can_read(shell: str, tmp_path: Path) -> None:
    env = {"_DUCKLAKE_SPARK_COMPLETE": f"source_{shell}"}
    script = CliRunner().invoke(app, [], env=env, prog_name="ducklake-spark").stdout
    assert f"_DUCKLAKE_SPARK_COMPLETE=complete_{shell}" in script
    found = shutil.which(shell)
    if found is not None:  # zsh and fish are not everywhere
        path = tmp_path / "completion"
        path.write_text(script, encoding="utf-8")
        assert subprocess.run([found, "-n", str(path)], check=False).returncode == 0


def test_only_a_terminal_that_wants_colours_gets_them(command: Path, tmp_path: Path) -> None:
    program, wrong = str(command / "ducklake-spark"), ["info", str(tmp_path / "nothing.ducklake")]
    plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    piped = subprocess.run([program, *wrong], env=plain, capture_output=True, text=True, check=False)
    assert piped.stderr.startswith("Error: There is no lake at ")
    assert ESCAPE not in piped.stderr + piped.stdout
    terminal = {**plain, "TERM": "xterm-256color"}
    seen = [
        str(pexpect.run(f"{program} {' '.join(wrong)}", env=env, encoding="utf-8", timeout=60))
        for env in (terminal, {**terminal, "NO_COLOR": "1"})
    ]
    assert f"{ESCAPE}31m" in seen[0] and ESCAPE not in seen[1]
