"""Starts an explorer: a server on this computer only, under a URL with a token that nobody can guess."""

from __future__ import annotations

import html
import secrets
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, MissingDriverError

if TYPE_CHECKING:
    import uvicorn

    from ducklake_spark.api.lake import Lake

ADDRESS = "127.0.0.1"


class Explorer:
    """An explorer that runs. `url` is the only way in; `close()` ends it, and leaves the lake open."""

    def __init__(self, url: str, server: uvicorn.Server, listener: socket.socket) -> None:
        self.url = url
        self._server, self._listener = server, listener
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether it answers."""
        return self._thread is not None and self._thread.is_alive()

    def serve(self) -> None:
        """Answers until Ctrl-C, or until `close()`."""
        with suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._listener])

    def start(self) -> None:
        """Answers in a thread of its own."""
        self._thread = threading.Thread(target=self.serve, name="lake explorer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._server.should_exit = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._listener.close()

    def __repr__(self) -> str:
        return f"Explorer({self.url})"

    def _repr_html_(self) -> str:
        shown = html.escape(self.url, quote=True)
        return f'<a href="{shown}" target="_blank" rel="noopener">Open the lake explorer</a>'


_running: WeakKeyDictionary[Lake, dict[tuple[int, bool], Explorer]] = WeakKeyDictionary()


def explore(lake: Lake, *, port: int = 0, write: bool = False) -> Explorer:
    """Starts an explorer that runs until the lake is closed; one that runs already is used again."""
    known = _running.setdefault(lake, {})
    found = known.get((port, write))
    if found is None or not found.is_running:
        found = known[port, write] = make(lake, port=port, write=write)
        scope_of(lake).on_close.append(found.close)
        found.start()
    return found


def make(
    lake: Lake, *, port: int = 0, write: bool = False, settings: Mapping[str, str] | None = None
) -> Explorer:
    """An explorer of a lake, which does not answer yet.

    Args:
        lake: The lake; it stays open as long as the explorer.
        port: Where it listens; 0 for any port that is free.
        write: Whether SQL may change the lake.
        settings: Settings of the Spark session that is started when a query needs one.

    Raises:
        MissingDriverError: The extra `explore` is not installed.
        InvalidInputError: The port cannot be used.
    """
    try:
        import uvicorn

        from ducklake_spark.explorer.app import create_app
    except ImportError as error:
        raise MissingDriverError(
            f"The explorer needs the package {error.name}: pip install 'ducklake-spark[explore]'"
        ) from None
    from ducklake_spark.explorer.site import Site

    listener = _listen(port)
    token = secrets.token_urlsafe(24)
    app = create_app(Site(lake, write=write, settings=settings), token)
    # A page that waits for a query must not hold up the end.
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    url = f"http://{ADDRESS}:{listener.getsockname()[1]}/?token={token}"
    return Explorer(url, uvicorn.Server(config), listener)


def _listen(port: int) -> socket.socket:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
        raise InvalidInputError(f"port takes a whole number from 0 to 65535, not {port!r}.")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen()  # whoever opens the URL at once waits, and is not refused
    except OSError as error:
        listener.close()
        raise InvalidInputError(
            f"Port {port} of {ADDRESS} cannot be used ({error.strerror}): give another one, or none."
        ) from None
    return listener
