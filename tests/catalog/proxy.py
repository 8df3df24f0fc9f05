"""A TCP relay that loses the connection at a chosen moment, as networks do."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Relays to a port. After `cut(word)`, the next message to the server that contains the word ends the connection:
    before the server got it, or after it was delivered and before the answer."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._word: bytes | None = None
        self._deliver = False
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, word: bytes, *, deliver: bool) -> None:
        self._word, self._deliver = word, deliver

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
                    deaf.set()
                    if self._deliver:
                        target.sendall(data)
                    else:
                        target.shutdown(socket.SHUT_RDWR)
                    source.shutdown(socket.SHUT_RDWR)
                    return
                if not (deaf.is_set() and not outward):
                    target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
