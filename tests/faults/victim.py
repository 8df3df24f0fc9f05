"""A process that dies, or runs out of disk, at a chosen moment of a commit.

Started as `python victim.py LOCATION MOMENT`. Prints what it was told before it ended.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import ducklake_spark
from ducklake_spark.catalog.pool import WriteSession
from ducklake_spark.errors import DuckLakeError


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: type, name: str, act: Callable[..., None]) -> None:
    """Lets something happen before a method."""
    method = getattr(owner, name)

    def wrapped(self: Any, *arguments: Any) -> Any:
        act(self, *arguments)
        return method(self, *arguments)

    setattr(owner, name, wrapped)


def after(owner: type, name: str, act: Callable[..., None]) -> None:
    """Lets something happen after a method."""
    method = getattr(owner, name)

    def wrapped(self: Any, *arguments: Any) -> Any:
        result = method(self, *arguments)
        act(self, *arguments)
        return result

    setattr(owner, name, wrapped)


def at_changes(_: object, table: str, *__: object) -> None:
    if table == "ducklake_snapshot_changes":
        die()


def arrange(session: type[WriteSession[Any]], moment: str) -> None:
    """Sets the trap."""
    if moment == "before the last row":
        before(session, "insert", at_changes)
    elif moment == "before COMMIT":
        before(session, "commit", die)
    elif moment == "after COMMIT":
        after(session, "commit", die)


def fill(lake: ducklake_spark.Lake, path: str) -> None:
    """Commits until the disk is full, as far as this process can see, and once more when there is room again."""
    # DuckDB writes into its log, which is empty now; SQLite writes into the file itself
    room = 60_000 + (os.path.getsize(path) if lake._scope.store.kind == "sqlite" else 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    for number in range(1000):
        try:
            lake.create_table(f"t{number}", {f"c{position}": "int" for position in range(20)})
        except DuckLakeError as error:
            print(number, type(error).__name__, error)
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    lake.create_table("room", {"a": "int"})


def main(location: str, moment: str) -> None:
    with ducklake_spark.attach(location) as lake:
        if moment == "a full disk":
            fill(lake, location.split(":", 2)[2])
            return
        with lake._scope.store.begin() as session:
            pass
        arrange(type(session), moment)  # type: ignore[arg-type]  # every session is one
        with lake.transaction():
            lake.create_table("t", {"a": "int"})
            lake["kept"].add_column("b", "int")


if __name__ == "__main__":
    main(*sys.argv[1:])
