"""The interactive shell, in a pseudo-terminal as a person has it."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

import ducklake_spark

ENTER, TAB, CTRL_C, CTRL_D, UP = "\r", "\t", "\x03", "\x04", "\x1b[A"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A person at a terminal: types, and waits for what shows."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._child = pexpect.spawn(
            sys.executable,
            ["-m", "ducklake_spark", *arguments],
            env={**os.environ, **environment},
            encoding="utf-8",
            timeout=120,
            dimensions=(40, 120),
        )

    def type(self, text: str) -> None:
        self._child.send(text)

    def sees(self, words: str) -> str:
        """Waits until a text shows; everything since the last one that was waited for."""
        self._child.expect_exact(words)
        return ESCAPES.sub("", str(self._child.before) + words)

    def asks(self) -> str:
        """Waits for the next prompt."""
        self._child.expect("\x1b\\[\\?2004h")  # bracketed paste: the prompt takes input again
        shown = ESCAPES.sub("", str(self._child.before))
        self._child.expect(r"lake\*?>")
        return shown

    def leaves(self) -> int:
        """Waits for the end; the exit code."""
        self._child.expect(pexpect.EOF)
        self._child.close()
        code = self._child.exitstatus
        assert code is not None
        return int(code)

    def waits_for_java(self, seconds: float) -> None:
        """Until the JVM runs and has computed for so long; how far it is does not depend on what else the machine does."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            for pid, command in self._started():
                with contextlib.suppress(OSError):
                    spent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
                    if "SparkSubmit" in command and sum(map(int, spent)) >= seconds * os.sysconf(
                        "SC_CLK_TCK"
                    ):
                        return
            time.sleep(0.02)
        raise AssertionError(f"no JVM among {self.children()}")

    def children(self) -> list[str]:
        """The programs that it has started and that still run."""
        return [command for _, command in self._started() if command]

    def _started(self) -> list[tuple[int, str]]:
        found, parents = [], {self._child.pid}
        for _ in range(4):  # Spark's scripts start one another
            for folder in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    parent = int(folder.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1])
                    if parent in parents and int(folder.name) not in parents:
                        parents.add(int(folder.name))
                        command = folder.joinpath("cmdline").read_text().replace("\0", " ")
                        found.append((int(folder.name), command))
        return found

    def close(self) -> None:
        self._child.close(force=True)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def terminal(tmp_path: Path, state: Path) -> Iterator[Terminal]:
    """The shell on a lake with a table."""
    path = f"ducklake:sqlite:{tmp_path / 'lake.sqlite'}"
    with ducklake_spark.attach(path, data_path=tmp_path / "data") as lake:
        lake.create_table("orders", {"id": "bigint", "customer": "varchar"}, partitioned_by=["bucket(4, id)"])
    environment = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": str(state)}
    terminal = Terminal(["sql", path], environment)
    terminal.sees("Type .help for help.")
    terminal.asks()
    yield terminal
    terminal.close()


def test_commands_need_no_spark_and_errors_do_not_end_the_shell(terminal: Terminal, state: Path) -> None:
    terminal.type(f".tables{ENTER}")
    assert re.search(r"main\s*│ orders\s*│ table", terminal.asks())
    terminal.type(f".schema orders{ENTER}")
    assert "Partitioned by: bucket(4, id)" in terminal.asks()
    terminal.type(f".help{ENTER}")
    assert ".timer on|off" in terminal.asks()
    for typed, words in (
        (".nope", 'There is no command ".nope"'),
        (".schema nope", 'There is no table "nope"'),
        (".dialect oracle", "spark or duckdb"),
        (".mode xml", "table or json or csv"),
        (".read no.sql", "no.sql: No such file"),
    ):
        terminal.type(f"{typed}{ENTER}")
        [line] = [line for line in terminal.asks().splitlines() if "Error: " in line]
        assert words in line
    terminal.type(f".mode json{ENTER}")
    terminal.asks()
    terminal.type(f".tables{ENTER}")
    assert '"name": "orders"' in terminal.asks()
    terminal.type(".quit" + ENTER)
    assert terminal.leaves() == 0
    history = state / "ducklake-spark" / "history"
    assert "+.schema orders" in history.read_text(encoding="utf-8")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_names_are_completed_and_ctrl_c_forgets_the_line(terminal: Terminal) -> None:
    terminal.type("SELECT * FROM ord")
    terminal.sees("orders")
    terminal.type(CTRL_C)
    terminal.asks()
    terminal.type("SELECT cust FROM orders" + "\x1b[D" * len(" FROM orders"))
    terminal.type(TAB)
    terminal.sees("customer")
    terminal.type(CTRL_C)
    terminal.asks()
    terminal.type(CTRL_D)
    assert terminal.leaves() == 0


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("seconds", [0, 1.5], ids=["its scripts", "its session"])
def test_ctrl_c_while_spark_starts_leaves_nothing_behind(terminal: Terminal, seconds: float) -> None:
    terminal.type(f"SELECT 'sum ' || sum(id) AS total FROM orders;{ENTER}")
    terminal.sees("Starting Spark")
    terminal.waits_for_java(seconds)
    terminal.type(CTRL_C)
    shown = terminal.sees("Cancelled.") + terminal.asks()
    assert "Traceback" not in shown and "py4j" not in shown
    end = time.monotonic() + 60
    while terminal.children() and time.monotonic() < end:
        time.sleep(0.2)
    assert terminal.children() == []
    terminal.type(f"SELECT 1 + 1 AS two FROM orders;{ENTER}")
    assert "two" in terminal.sees("two")
    terminal.asks()
    terminal.type(CTRL_D)
    assert terminal.leaves() == 0


@pytest.mark.spark
def test_statements_run_over_several_lines_and_can_be_cancelled(terminal: Terminal) -> None:
    terminal.type(f".timer on{ENTER}")
    terminal.asks()
    terminal.type(f"INSERT INTO orders{ENTER}")
    terminal.sees("...")
    terminal.type(f"VALUES (1, 'a;'), (2, 'b');{ENTER}")
    terminal.sees("Run time: ")
    terminal.asks()
    terminal.type(f"SELECT 'sum ' || sum(id) AS total FROM orders;{ENTER}")
    assert "sum 3" in terminal.asks()
    terminal.type(f"SELECT nope FROM orders;{ENTER}")
    [line] = [line for line in terminal.asks().splitlines() if "Error: " in line]
    assert "nope" in line
    terminal.type(f"SELECT count(*) FROM range(100000000000000) WHERE id % 7 = 3;{ENTER}")
    terminal.sees("Stage")
    terminal.type(CTRL_C)
    shown = terminal.sees("Cancelled.")
    shown += terminal.asks()
    assert "Traceback" not in shown and "py4j" not in shown
    terminal.type(f".dialect duckdb{ENTER}")
    terminal.asks()
    terminal.type(f".mode csv{ENTER}")
    terminal.asks()
    terminal.type(f"FROM orders SELECT max(id)::VARCHAR || '!' AS top;{ENTER}")
    assert "2!" in terminal.asks()
    terminal.type(f"BEGIN;{ENTER}")
    terminal.sees("lake*>")
    terminal.type(f"DELETE FROM orders;{ENTER}")
    terminal.asks()
    terminal.type(CTRL_D)
    assert "it was rolled back" in terminal.sees("rolled back")
    assert terminal.leaves() == 1
