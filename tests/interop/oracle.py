"""The judge of every interop test: DuckDB's own `ducklake` extension, in a process of its own.

A DuckDB catalog file can be open in one process only, and a SQLite file must not be opened through two
libraries in one process. Started as a script, this file is that other process: it answers pickled requests
on its pipes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

Row = tuple[Any, ...]

EXTENSIONS = ("ducklake", "sqlite_scanner", "postgres_scanner", "mysql_scanner")


class OracleError(Exception):
    """What DuckDB said: the text is the message, `kind` its exception class (`TransactionException`)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Oracle:
    """DuckDB with the `ducklake` extension, kept alive between tests because starting takes most of a second.

    The process starts at the first use, and again after it died or was interrupted.

    Args:
        threads: How many threads DuckDB has; by itself as many as there are cores. Handing the small queries of tests
            from thread to thread takes a fifth of their time.
    """

    def __init__(self, threads: int | None = 1) -> None:
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def attach(self, uri: str, name: str = "lake", *, use: bool = True, **options: Any) -> None:
        """`ATTACH 'uri' AS name (OPTIONS)`, then `USE name`.

        Args:
            uri: Such as `ducklake:x.ducklake` or `ducklake:postgres:dbname=x`.
            name: The lake's name in SQL.
            use: Whether names without a catalog mean this lake from now on.
            options: ATTACH parameters in any case; None means not given.
        """
        given = [f"{key.upper()} {literal(value)}" for key, value in options.items() if value is not None]
        self.execute(f"ATTACH {literal(uri)} AS {quoted(name)}" + (f" ({', '.join(given)})" if given else ""))
        if use:
            self.execute(f"USE {quoted(name)}")

    def execute(self, sql: str, params: Sequence[Any] | None = None) -> list[Row]:
        """Runs one or several statements in one session; the rows are those of the last one.

        Raises:
            OracleError: DuckDB refused, or its process died.
        """
        return self._ask("execute", sql, params)

    def timed(self, statements: Sequence[str]) -> list[float]:
        """Runs statements one by one, and says how many seconds each took in the other process."""
        return [seconds for (seconds,) in self._ask("timed", statements)]

    def detach(self) -> None:
        """Rolls back an open transaction and detaches everything: another process can open the files then."""
        if self._process is not None:
            self._ask("detach")

    def reset(self) -> None:
        """As after a start: nothing attached, settings of the extension at their defaults, a new session."""
        if self._process is not None:
            self._ask("reset")

    def close(self) -> None:
        """Ends the process. The oracle can be used again afterwards."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            # The end of its input tells the child to close its files in order.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def kill(self) -> None:
        """Ends the process as a crash would: without closing anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.close()

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, *request: Any) -> list[Row]:
        process = self._process if self._process is not None else self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            _send(process.stdin, request)
            answer = _receive(process.stdout)
        except (EOFError, BrokenPipeError):
            raise OracleError("Died", f"the oracle's process died: {self._last_words()}") from None
        except BaseException:
            # An interrupted exchange (a test's timeout) leaves an answer in the pipe that nobody asked for.
            self.kill()
            raise
        if answer[0] == "error":
            raise OracleError(answer[1], answer[2])
        rows: list[Row] = answer[1]
        return rows

    def _start(self) -> subprocess.Popen[bytes]:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        # The extension may need another release of DuckDB than the one under test.
        python = os.environ.get("DUCKLAKE_SPARK_ORACLE_PYTHON", sys.executable)
        self._process = subprocess.Popen(
            [python, __file__, *(() if self._threads is None else [str(self._threads)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        return self._process

    def _last_words(self) -> str:
        assert self._process is not None and self._stderr is not None
        code = self._process.wait()
        self._stderr.seek(0)
        words = self._stderr.read().decode(errors="replace").strip()
        self.close()
        return f"exit code {code}. {words[-2000:]}"


def quoted(name: str) -> str:
    """A name as a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """A value as a SQL literal.

    >>> literal("it's"), literal(True), literal(7), literal({"a": "b"})
    ("'it''s'", 'true', '7', "MAP {'a': 'b'}")
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, dict):
        return "MAP {" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return "'" + str(value).replace("'", "''") + "'"


def _send(pipe: IO[bytes], message: Any) -> None:
    data = pickle.dumps(message)
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(pipe.read(struct.unpack("<Q", head)[0]))


class _Child:
    """The other side of the pipes: one DuckDB instance, one session at a time."""

    def __init__(self, threads: Sequence[str]) -> None:
        import duckdb

        config: dict[str, Any] = {"autoinstall_known_extensions": False}
        if threads:
            config["threads"] = int(threads[0])
        self.database = duckdb.connect(config=config)
        row = self.database.execute("PRAGMA version").fetchone()
        assert row is not None
        for extension in EXTENSIONS:
            # From the file inside the package: INSTALL would write to the home folder, where processes meet.
            spec = importlib.util.find_spec(f"duckdb_extension_{extension}")
            if spec is None or spec.origin is None:
                raise RuntimeError(f"package duckdb-extension-{extension} is not installed: run `make venv`")
            file = Path(spec.origin).parent / "extensions" / row[0] / f"{extension}.duckdb_extension"
            self.database.execute(f"LOAD {literal(file)}")
        self.session = self.database.cursor()
        self.reset()

    def execute(self, sql: str, params: Sequence[Any] | None) -> list[Row]:
        self.session.execute(sql, params) if params is not None else self.session.execute(sql)
        # TIMESTAMPTZ comes back as datetime only with pytz, which the `dev` extra brings.
        return list(self.session.fetchall()) if self.session.description else []

    def timed(self, statements: Sequence[str]) -> list[Row]:
        taken: list[Row] = []
        for statement in statements:
            start = time.perf_counter()
            self.session.execute(statement)
            taken.append((time.perf_counter() - start,))
        return taken

    def detach(self) -> list[Row]:
        self.session.close()
        self.session = self.database.cursor()
        self.session.execute("USE memory")
        # Lakes first: each takes its own catalog database with it.
        attached = self.session.execute(
            "SELECT database_name FROM duckdb_databases() WHERE NOT internal AND database_name <> 'memory' "
            "ORDER BY type <> 'ducklake'"
        ).fetchall()
        for (name,) in attached:
            self.session.execute(f"DETACH DATABASE IF EXISTS {quoted(name)}")
        return []

    def reset(self) -> list[Row]:
        self.detach()
        self.database.execute("SET GLOBAL TimeZone = 'UTC'")
        settings = self.database.execute("SELECT name FROM duckdb_settings() WHERE name LIKE 'ducklake_%'")
        for (name,) in settings.fetchall():
            self.database.execute(f"RESET GLOBAL {quoted(name)}")
        return []


def _serve() -> None:
    # Whatever a library prints must not end up between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    child = _Child(sys.argv[1:])
    while True:
        try:
            action, *arguments = _receive(sys.stdin.buffer)
        except EOFError:
            break
        try:
            rows = getattr(child, action)(*arguments)
            answer: tuple[Any, ...] = ("rows", rows)
        except Exception as error:
            answer = ("error", type(error).__name__, str(error))
        _send(answers, answer)
    child.detach()
    child.database.close()


if __name__ == "__main__":
    _serve()
