"""Private database servers for the tests: started once per session, on a loopback port and in a folder of their own."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

POSTGRES_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
)
PASSWORD = "s3cret'pass word"
MYSQL_PASSWORD = "s3cretpass"


def find_binary(names: Sequence[str], places: Sequence[str] = ()) -> str:
    """The first of `names` on PATH or in Debian's places; skips the test with a sentence when there is none."""
    for name in names:
        for folder in ("/usr/sbin", "/usr/bin", "/usr/local/bin"):
            if os.access(f"{folder}/{name}", os.X_OK):
                return f"{folder}/{name}"
        if found := shutil.which(name):
            return found
        for place in places:
            if hits := sorted(Path("/").glob(f"{place.lstrip('/')}/{name}")):
                return str(hits[-1])
    pytest.skip(f"{names[0]} is not installed on this machine; `make servers` installs it")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def as_user(name: str, folder: Path) -> Callable[[], None] | None:
    """What a child process does first when we are root, because database servers refuse to run as root."""
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam(name)
    os.chown(folder, user.pw_uid, user.pw_gid)

    def drop() -> None:
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)

    return drop


@dataclass
class Server:
    """A running server: `start` and `stop` may be called again, to see what a restart does to open connections."""

    command: list[str]
    folder: Path
    port: int
    drop: Callable[[], None] | None
    ready: Callable[[], object]
    stop_signal: signal.Signals
    abandon_signal: signal.Signals
    process: subprocess.Popen[bytes] | None = None
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def start(self) -> None:
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdout=log,
                stderr=log,
                preexec_fn=self.drop,
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            )
        end = time.monotonic() + 60
        while True:
            try:
                self.ready()
                return
            except Exception:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(
                        (self.folder / "server.log").read_text(errors="replace")[-3000:]
                    ) from None
                time.sleep(0.05)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(self.stop_signal)
            self.process.wait(60)
            self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def abandon(self) -> None:
        """Stops it for good: nobody needs its files any more, so it need not bring them in order."""
        if self.process is not None:
            self.process.send_signal(self.abandon_signal)
            self.process.wait(60)
            self.process = None


ServerT = TypeVar("ServerT", bound=Server)


class PostgresServer(Server):
    def conninfo(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=lake password='{_libpq_quoted(PASSWORD)}' dbname={database}"

    def fresh_database(self) -> str:
        """Makes an empty database and returns its libpq conninfo."""
        import psycopg

        name = f"lake{next(self.numbers)}"
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]  # psycopg wants a literal
        return self.conninfo(name)


class MySQLServer(Server):
    def conninfo(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=lake password={MYSQL_PASSWORD} database={database}"

    def connect(self, database: str | None = None):  # type: ignore[no-untyped-def]  # pymysql has no types
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="lake",
            password=MYSQL_PASSWORD,
            database=database,
            autocommit=True,
        )

    def fresh_database(self) -> str:
        """Makes an empty database and returns its conninfo in the form of DuckDB's mysql extension."""
        name = f"lake{next(self.numbers)}"
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        return self.conninfo(name)


def _libpq_quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


@contextmanager
def running(start: Callable[[Path], ServerT]) -> Iterator[ServerT]:
    """A server in a folder outside of pytest's, whose folders are closed to the users that servers run as.

    On a disk, wherever other files of tests are: servers are told not to wait for it, and have much to write.
    """
    with tempfile.TemporaryDirectory(prefix="ducklake-spark-", dir="/tmp") as folder:
        server = start(Path(folder))
        try:
            yield server
        finally:
            server.abandon()


def start_postgres(folder: Path) -> PostgresServer:
    initdb = find_binary(["initdb"], POSTGRES_PLACES)
    postgres = find_binary(["postgres"], POSTGRES_PLACES)
    drop = as_user("postgres", folder)
    data, port = folder / "data", free_port()
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    subprocess.run(
        [initdb, "-D", str(data), "-U", "lake", "-A", "scram-sha-256", "--pwfile", str(folder / "password"),
         "-E", "UTF8", "--locale", "C", "--no-sync"],
        check=True, capture_output=True, preexec_fn=drop, cwd=folder,
    )  # fmt: skip
    settings = {
        "listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off",
        "synchronous_commit": "off", "full_page_writes": "off", "max_connections": 60, "shared_buffers": "32MB",
    }  # fmt: skip
    command = [
        postgres,
        "-D",
        str(data),
        *(part for key, value in settings.items() for part in ("-c", f"{key}={value}")),
    ]

    def ready() -> None:
        import psycopg

        psycopg.connect(server.conninfo("postgres")).close()

    server = PostgresServer(
        command, folder, port, drop, ready, signal.SIGINT, signal.SIGQUIT
    )  # fast, immediate
    server.start()
    return server


def start_mysql(folder: Path) -> MySQLServer:
    install = find_binary(["mariadb-install-db", "mysql_install_db"])
    mariadbd = find_binary(["mariadbd", "mysqld"])
    drop = as_user("mysql", folder)
    data, port = folder / "data", free_port()
    subprocess.run(
        [install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"],
        check=True, capture_output=True, preexec_fn=drop, cwd=folder,
    )  # fmt: skip
    (folder / "init.sql").write_text(
        f"CREATE USER IF NOT EXISTS lake@'127.0.0.1' IDENTIFIED BY '{MYSQL_PASSWORD}';\n"
        "GRANT ALL ON *.* TO lake@'127.0.0.1';\n"
    )
    (folder / "init.sql").chmod(0o644)
    command = [
        mariadbd, "--no-defaults", f"--datadir={data}", "--bind-address=127.0.0.1", f"--port={port}",
        f"--socket={folder}/my.sock", f"--pid-file={folder}/my.pid", f"--init-file={folder}/init.sql",
        "--skip-name-resolve", "--innodb-buffer-pool-size=64M", "--debug-no-sync",
    ]  # fmt: skip
    server = MySQLServer(
        command, folder, port, drop, lambda: server.connect().close(), signal.SIGTERM, signal.SIGKILL
    )
    server.start()
    return server
