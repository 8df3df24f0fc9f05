"""A TCP relay that loses the connection at a chosen moment, as networks do."""

from __future__ import annotations

import contextlib
import socket
import threading
import time


class Proxy:
    """Relays to a port. After `cut(word)`, the next message to the server that contains the word ends the connection:
    before the server got it, or after it was delivered and before the answer."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._word: bytes | None = None
        self._deliver = False
        self._leave = self._away = False
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, word: bytes, *, deliver: bool, away: bool = False) -> None:
        """With `away`, new connections end at once from then on, until `come_back()`."""
        self._word, self._deliver, self._leave = word, deliver, away

    @property
    def was_cut(self) -> bool:
        return self._word is None

    def wait_until_cut(self) -> None:
        end = time.monotonic() + 120
        while not (self.was_cut and self._away == self._leave) and time.monotonic() < end:
            time.sleep(0.02)

    def come_back(self) -> None:
        self._away = False

    def close(self) -> None:
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Loses all connections now."""
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._sockets.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._away:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, server]
                deaf = threading.Event()
                threading.Thread(target=self._relay, args=[client, server, True, deaf], daemon=True).start()
                threading.Thread(target=self._relay, args=[server, client, False, deaf], daemon=True).start()

    def _relay(
        self, source: socket.socket, target: socket.socket, outward: bool, deaf: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if outward and self._word is not None and self._word in data:
                    self._word = None
                    self._away = self._leave
                    deaf.set()
                    if self._deliver:
                        target.sendall(data)
                    else:
                        target.shutdown(socket.SHUT_RDWR)
                    source.shutdown(socket.SHUT_RDWR)
                    return
                if outward or not deaf.is_set():
                    target.sendall(data)
                elif self._away:
                    break  # the server answered to nobody, and now it knows
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
