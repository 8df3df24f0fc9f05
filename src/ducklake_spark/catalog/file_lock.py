"""Descriptors of catalog files beside the libraries that own them, without ever dropping a lock of these.

A POSIX lock belongs to the process and not to a descriptor: when any descriptor of the file is closed in the process,
by whomever (`shutil.copy`, a backup, a curious `open()`), all its locks on that file are gone and nobody is told. So no
code of this package opens a catalog file beside its library, except through `hold()`, whose descriptor stays open as
long as a lock may depend on it.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

if (
    sys.platform != "win32"
):  # there, closing loses no lock, and a file that is open keeps others out by itself
    import fcntl

Identity = tuple[int, int]

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid
_UNKNOWN = -1
_guard = threading.RLock()  # garbage may be collected, and a hold released, while it is held
_holds: dict[Identity, FileHold] = {}


def identity(path: str) -> Identity | None:
    """What stays the same while a file is the same, however its path is spelled."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None


def hold(path: str) -> FileHold:
    """A descriptor of a file that exists; call `release()` when it is no longer needed.

    Raises:
        OSError: It cannot be opened.
    """
    with _guard:
        found = _holds.get(identity(path) or (0, 0))
        if found is not None:
            found.users += 1
            if found.identity in _holds:
                return found
        found = FileHold(path)
        found.users += 1
        return _holds.setdefault(found.identity, found)


@contextmanager
def held(path: str) -> Iterator[FileHold]:
    """`hold()` for a look."""
    found = hold(path)
    try:
        yield found
    finally:
        found.release()


class FileHold:
    """The one descriptor that this package has of a catalog file, with which its lock can be seen and taken."""

    def __init__(self, path: str) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR)
        except OSError:  # a file that may only be read
            self._descriptor = os.open(path, os.O_RDONLY)
        status = os.fstat(self._descriptor)
        self.identity: Identity = (status.st_dev, status.st_ino)
        self.users = 0
        self._pid = os.getpid()

    def first_bytes(self, count: int) -> bytes:
        """How the file begins, by which a database knows its own."""
        if sys.platform == "win32":
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            return os.read(self._descriptor, count)
        return os.pread(self._descriptor, count, 0)

    def is_locked_by_us(self) -> bool:
        """Whether this process keeps all others from writing; False where the system cannot tell."""
        return sys.platform == "win32" or self._holder() == os.getpid()

    def lock(self, *, shared: bool) -> bool:
        """Takes the lock of the whole file for this process, again if it had it; False when another one has it."""
        if sys.platform == "win32":
            return True
        try:
            fcntl.lockf(self._descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """One user less. The last one closes the descriptor, unless a lock of this process would go with it."""
        if self._pid != os.getpid():
            return  # it is the parent's
        with _guard:
            self.users -= 1
            if self.users == 0 and (sys.platform == "win32" or self._holder() is None):
                del _holds[self.identity]
                os.close(self._descriptor)

    def _holder(self) -> int | None:
        """The process that keeps others from writing, or None when nobody does.

        A lock of this process is seen as well: the question is asked for the descriptor, not for the process.
        """
        if sys.platform == "win32" or not hasattr(fcntl, "F_OFD_GETLK") or struct.calcsize(_FLOCK) != 32:
            return _UNKNOWN
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found = struct.unpack(_FLOCK, fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, asked))
        return None if found[0] == fcntl.F_UNLCK else int(found[4])
