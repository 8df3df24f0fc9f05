"""One open DuckDB database per catalog file and process, and the proof that this process still has its lock.

DuckDB keeps other processes out with a POSIX lock, which anybody in this process can drop without knowing
(`file_lock.py`). So the lock is looked at before the file is relied on, and taken again if nobody wrote meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import duckdb

from .file_lock import Identity, hold, identity

Stamp = tuple[tuple[int, int] | None, ...]

_registry = threading.RLock()
_open: dict[Identity, DatabaseFile] = {}


class LockLostError(Exception):
    """This process lost its lock on the file, and another one has it or has written since."""


def acquire(path: str, user: int, *, read_only: bool, config: Mapping[str, Any]) -> DatabaseFile:
    """The open database of a file, for one more user. A reader may share the one of a writer.

    Raises:
        duckdb.Error: DuckDB cannot open it.
    """
    with _registry:
        key = identity(path)
        found = _open.get(key) if key is not None else None
        if found is not None and (read_only or not found.read_only):
            found.users[user] = 0
            if found.is_open:  # garbage may have been collected, its last user among it
                return found
        connection = duckdb.connect(path, read_only=read_only, config=dict(config))
        made = DatabaseFile(path, connection, read_only=read_only)
        made.users[user] = 0
        _open[made.key] = made
        return made


class DatabaseFile:
    """A database that is open in this process: the one of its file, shared by all who attach it.

    A user calls `release()` after `acquire()`, and `close_cursor()` after each `cursor()`. DuckDB closes the file when
    all have done both: not earlier, since another thread may be in the middle of a query.
    """

    def __init__(self, path: str, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        self.path, self.read_only = path, read_only
        self.users: dict[int, int] = {}
        """How many cursors each user has."""
        self.on_lost: dict[int, Callable[[], Callable[[], None] | None]] = {}
        """How each user closes the cursors that it keeps, as weak references."""
        self.writer = threading.RLock()
        """Held by whoever writes: DuckDB would let one of two writers fail at its COMMIT."""
        self._connection: duckdb.DuckDBPyConnection | None = connection
        self._released: dict[int, int] = {}
        """Cursors of users that are gone, which threads of theirs still use."""
        self._lost: str | None = None
        self._pid = os.getpid()
        self._hold = hold(path)
        self.key: Identity = self._hold.identity
        self._stamp = self._seen()

    @property
    def is_open(self) -> bool:
        """Whether DuckDB has it open."""
        return self._connection is not None

    def cursor(self, user: int) -> duckdb.DuckDBPyConnection:
        """A new connection to the database."""
        with _registry:
            self._require_not_lost()
            assert self._connection is not None
            cursor = self._connection.cursor()
            self.users[user] += 1
            return cursor

    def close_cursor(self, user: int, cursor: duckdb.DuckDBPyConnection) -> None:
        """Gives a connection back for good."""
        with suppress(duckdb.Error):
            cursor.close()
        with _registry:
            counts = self.users if user in self.users else self._released
            counts[user] = counts.get(user, 1) - 1
            self._close_if_unused()

    def release(self, user: int) -> None:
        """One user less. The last one closes the file, where DuckDB writes its log into it and unlocks it."""
        if self._pid != os.getpid():
            return  # it is the parent's
        with _registry:
            if (count := self.users.pop(user, 0)) > 0:
                self._released[user] = count
            self.on_lost.pop(user, None)
            self._close_if_unused()

    def forget(self, user: int) -> None:
        """A user was collected as garbage, its cursors with it."""
        if self._pid == os.getpid():
            with _registry:
                self.users[user] = 0
                self.release(user)

    def leave_to_parent(self) -> list[object]:
        """What a forked child must neither use nor destroy: a destructor would write into the parent's file."""
        return [self._connection]

    # The lock.

    def require_lock(self) -> None:
        """Makes sure that no other process can have the file open.

        Raises:
            LockLostError: Another one has it, or had it since and may have written.
        """
        self._require_not_lost()
        if self._has_lock():
            return
        with self.writer:  # nobody of this process is writing while we look
            if not self._locked_again():
                raise LockLostError("another process has opened it")
            if self._stamp != self._seen():
                self._lose("another process has written to it")

    def wrote(self) -> None:
        """This process has written; call it while `writer` is held."""
        self._stamp = self._seen()

    def _has_lock(self) -> bool:
        return not self.read_only and self._hold.is_locked_by_us()

    def _is_ours(self) -> bool:
        return self._has_lock() or (self._locked_again() and self._stamp == self._seen())

    def _locked_again(self) -> bool:
        return self._hold.lock(shared=self.read_only)

    def _require_not_lost(self) -> None:
        if self._lost is not None:
            raise LockLostError(self._lost)

    def _lose(self, reason: str) -> None:
        """Gives the database up, so that it can be opened anew, without writing a byte of what it has in memory."""
        with _registry:
            self._lost = reason
            _open.pop(self.key, None)
            self._write_nothing_more()
            users = list(self.on_lost.values())
        for reference in users:
            if (close_cursors := reference()) is not None:
                close_cursors()
        with _registry:
            self._close_if_unused()
        raise LockLostError(reason)

    def _write_nothing_more(self) -> None:
        if self._connection is not None:
            with suppress(duckdb.Error):
                self._connection.execute("PRAGMA disable_checkpoint_on_shutdown")

    def _seen(self) -> Stamp:
        return tuple(_stamp(path) for path in (self.path, f"{self.path}.wal"))

    # The end.

    def _close_if_unused(self) -> None:
        if self._connection is None or any(self._released.values()):
            return
        if self.users and (self._lost is None or any(self.users.values())):
            return
        if not self.read_only and self._lost is None and not self._is_ours():
            # What we committed is in the log of the file, which others read when they open it.
            self._write_nothing_more()
        connection, self._connection = self._connection, None
        if _open.get(self.key) is self:
            del _open[self.key]
        connection.close()
        self._hold.release()


def _stamp(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        status = os.stat(path)
        return status.st_size, status.st_mtime_ns
    return None
