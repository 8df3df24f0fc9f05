"""The interactive shell: statements over several lines until `;`, and commands that begin with a dot."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from ducklake_spark.api.completion import Names
from ducklake_spark.api.lake import Lake
from ducklake_spark.cli import reports, session
from ducklake_spark.cli.complete import SqlCompleter
from ducklake_spark.cli.connect import WrongUse
from ducklake_spark.cli.errors import show
from ducklake_spark.cli.output import Format, write
from ducklake_spark.cli.startup import start_spark
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.sql.parser.lines import ends_statement

HELP = """\
Statements end with ; and may take several lines. Ctrl-C cancels, Ctrl-D leaves.

.help                   this text
.tables [SCHEMA]        tables and views
.schema TABLE           a table's columns and keys
.files TABLE            a table's data files
.snapshots [N]          the newest snapshots
.read FILE              run the statements in a file
.dialect spark|duckdb   the dialect of statements
.mode table|json|csv    how results are shown
.limit N                how many rows a table shows; 0 for all
.timer on|off           whether to say how long statements take
.quit                   leave (.exit too)"""


class Leave(Exception):
    """The user wants to go."""


class Shell:
    """Reads statements and commands, runs them, and goes on after errors."""

    def __init__(
        self, lake: Lake, settings: Mapping[str, str], dialect: str, fmt: Format, limit: int, debug: bool
    ) -> None:
        self._lake, self._settings, self._debug = lake, settings, debug
        self._dialect, self._format, self._limit = dialect, fmt, limit
        self._timer = self._started = False
        self._names = Names(lake)
        self._commands: dict[str, Callable[[str], None]] = {
            ".help": lambda _: typer.echo(HELP),
            ".tables": self._tables,
            ".schema": self._schema,
            ".files": self._files,
            ".snapshots": self._snapshots,
            ".read": self._read,
            ".dialect": self._set_dialect,
            ".mode": self._set_mode,
            ".limit": self._set_limit,
            ".timer": self._set_timer,
            ".quit": self._leave,
            ".exit": self._leave,
        }

    def run(self) -> None:
        """Until the user leaves."""
        from ducklake_spark import __version__

        lake = self._lake
        typer.echo(f"ducklake-spark {__version__}: {scope_of(lake).store.display}, snapshot {lake.version}")
        typer.echo("Statements end with ;  Type .help for help.")
        prompt: PromptSession[str] = PromptSession(
            history=_history(),
            auto_suggest=AutoSuggestFromHistory(),
            completer=SqlCompleter(self._names, lambda: self._dialect, self._commands),
            lexer=PygmentsLexer(SqlLexer),
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation=lambda width, _line, _wrapped: "." * (width - 2) + "> ",
        )
        while True:
            try:
                text = prompt.prompt(f"{lake.name}{'*' if scope_of(lake).transaction else ''}> ")
                self.execute(text.strip())
            except KeyboardInterrupt:
                continue
            except (EOFError, Leave):
                break
        scope_of(lake).require_ended()

    def execute(self, text: str) -> None:
        """Runs what was typed; an error is one line, and Ctrl-C stops what runs."""
        start = time.perf_counter()
        try:
            if text.startswith("."):
                self._command(text)
            elif text.strip("; \n\t"):
                self._statements(text)
            else:
                return
        except Leave:
            raise
        except KeyboardInterrupt:
            self._cancel()
            typer.echo("Cancelled.", err=True)
        except Exception as error:
            if self._debug:
                import traceback

                traceback.print_exc()
            show(error)
        if self._timer:
            typer.echo(f"Run time: {time.perf_counter() - start:.3f} s")

    def _statements(self, text: str) -> None:
        if not self._started:
            start_spark(self._settings)
            self._started = True
        try:
            session.run(self._lake, text, self._dialect, self._format, self._limit)
        finally:
            self._names.forget()

    def _cancel(self) -> None:
        if self._started:
            from ducklake_spark.cli.frames import cancel_jobs

            cancel_jobs()

    def _keys(self) -> KeyBindings:
        bindings = KeyBindings()

        @bindings.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
                buffer.complete_state = None  # Enter takes the suggestion that was chosen
            elif self._is_whole(buffer.text):
                buffer.validate_and_handle()
            else:
                buffer.insert_text("\n")

        return bindings

    def _is_whole(self, text: str) -> bool:
        typed = text.strip()
        return not typed or typed.startswith(".") or ends_statement(text, self._dialect)

    # Commands.

    def _command(self, text: str) -> None:
        name, _, argument = text.partition(" ")
        command = self._commands.get(name.lower())
        if command is None:
            raise WrongUse(f'There is no command "{name}". Type .help for a list.')
        command(argument.strip().rstrip(";").strip())

    def _tables(self, schema: str) -> None:
        write(reports.tables(self._lake, schema or None), self._format)

    def _schema(self, table: str) -> None:
        _required(table, ".schema TABLE")
        write(reports.schema_rows(reports.schema(self._lake, table)), self._format)

    def _files(self, table: str) -> None:
        _required(table, ".files TABLE")
        write(reports.files(self._lake, table, people=self._format is Format.table), self._format)

    def _snapshots(self, newest: str) -> None:
        if newest and not newest.isdecimal():
            raise WrongUse(f'.snapshots takes a number, not "{newest}".')
        count = int(newest) if newest else 20
        write(reports.snapshots(self._lake, count, people=self._format is Format.table), self._format)

    def _read(self, file: str) -> None:
        _required(file, ".read FILE")
        self._statements(Path(file).expanduser().read_text(encoding="utf-8-sig"))

    def _set_dialect(self, value: str) -> None:
        self._dialect = _one_of(value, ("spark", "duckdb"), ".dialect", self._dialect)

    def _set_mode(self, value: str) -> None:
        choices = tuple(each.value for each in Format)
        self._format = Format(_one_of(value, choices, ".mode", self._format.value))

    def _set_limit(self, value: str) -> None:
        if not value.isdecimal():
            raise WrongUse(f'.limit takes a number, not "{value}".')
        self._limit = int(value)

    def _set_timer(self, value: str) -> None:
        self._timer = _one_of(value, ("on", "off"), ".timer", "on" if self._timer else "off") == "on"

    def _leave(self, _: str) -> None:
        raise Leave


def _required(value: str, form: str) -> None:
    if not value:
        raise WrongUse(f"Write {form}.")


def _one_of(value: str, choices: tuple[str, ...], command: str, now: str) -> str:
    """The chosen value; without one, the present value is shown and kept."""
    if not value:
        typer.echo(now)
        return now
    if value.lower() not in choices:
        raise WrongUse(f'{command} takes {" or ".join(choices)}, not "{value}".')
    return value.lower()


def _history() -> History:
    """In the user's state folder, for the user's eyes only; not at all where that cannot be written."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home())
    else:
        base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    file = Path(base) / "ducklake-spark" / "history"
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))
