"""An S3 on a loopback port: moto's server, with a hook that makes it refuse, throttle, or say nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

KEY, SECRET, BUCKET = "AKIATESTKEY", "s3cret/very+long+test+secret", "lake-bucket"
_SLOW_DOWN = (
    "503 Slow Down",
    b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>',
)
_DENIED = (
    "403 Forbidden",
    b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>',
)


@dataclass
class Request:
    """What a client asks of the store."""

    method: str
    path: str
    query: str


@dataclass
class Store:
    """The server. `fault` sees each request, and may answer it, or let it wait."""

    endpoint: str = ""
    fault: Callable[[Request], tuple[str, bytes] | None] | None = None
    seen: list[Request] = field(default_factory=list)
    client: Any = None

    def keys(self, prefix: str = "") -> list[str]:
        """The names of all objects, folders' marks aside."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        found = [each["Key"] for page in pages for each in page.get("Contents", [])]
        return [key for key in found if not key.endswith("/")]

    @contextmanager
    def failing(self, fault: Callable[[Request], tuple[str, bytes] | None]) -> Iterator[None]:
        """Answers requests so while the block runs."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = None


def denied(method: str, part: str) -> Callable[[Request], tuple[str, bytes] | None]:
    """Refuses requests of a method on paths that have this in them."""
    return lambda request: _DENIED if request.method == method and part in request.path else None


def throttled(method: str, times: int) -> Callable[[Request], tuple[str, bytes] | None]:
    """Asks the first so many requests of a method to come back later."""
    left = [times]

    def fault(request: Request) -> tuple[str, bytes] | None:
        if request.method != method or left[0] <= 0:
            return None
        left[0] -= 1
        return _SLOW_DOWN

    return fault


def silent(
    method: str, part: str, seconds: float, times: int
) -> Callable[[Request], tuple[str, bytes] | None]:
    """Lets the first so many requests wait, and then breaks the connection without an answer."""
    left = [times]

    def fault(request: Request) -> tuple[str, bytes] | None:
        if request.method != method or part not in request.path or left[0] <= 0:
            return None
        left[0] -= 1
        time.sleep(seconds)
        raise ConnectionAbortedError

    return fault


class _Application:
    def __init__(self, store: Store) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self._store, self._moto = store, DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        request = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("QUERY_STRING", ""))
        self._store.seen.append(request)
        answer = self._store.fault(request) if self._store.fault is not None else None
        if answer is None:
            return self._moto(environ, start_response)
        # What the client sends must be read, or it does not listen.
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(
            answer[0], [("Content-Type", "application/xml"), ("Content-Length", str(len(answer[1])))]
        )
        return [answer[1]]


@contextmanager
def running() -> Iterator[Store]:
    """Starts the server on a free port, with an empty bucket."""
    import boto3
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_: Any) -> None:
            pass

    store = Store()
    server = make_server("127.0.0.1", 0, _Application(store), threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        store.endpoint = f"http://127.0.0.1:{server.server_port}"
        store.client = boto3.client(
            "s3",
            endpoint_url=store.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        store.client.create_bucket(Bucket=BUCKET)
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
