"""Who may ask the explorer: a browser of this computer that knows the token. Nobody else gets a word about the lake.

Every request must name this computer as its host, so that no foreign page can reach us under a name of its own (DNS
rebinding). The token comes once in the URL and then in a cookie that scripts cannot read and other sites cannot send. A
request that does something must come from our own pages.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import MutableMapping
from hmac import compare_digest
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
"""The names of this computer for itself."""
HEADERS = {
    # Nothing is run, shown or sent but what the package brought: a value that looks like a script stays a text.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets requests through that may be answered; the outermost part of the application."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token
        # Cookies are those of a host, whatever its port: two explorers must not take each other's.
        self.cookie = f"explorer_{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or says why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        request = Request(scope)
        refused = self._refusal(request) or self._welcome(request)

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (refused or self._app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if _name(host) not in HOSTS:
            return PlainTextResponse("The explorer answers to 127.0.0.1 and localhost only.", status_code=421)
        if request.method not in ("GET", "HEAD") and request.headers.get("origin") != f"http://{host}":
            return PlainTextResponse(
                "This request did not come from a page of the explorer.", status_code=403
            )
        return None

    def _welcome(self, request: Request) -> Response | None:
        """What a request gets that comes with the token in its URL, or with none."""
        given = request.query_params.get("token")
        if given is not None and self._is_token(given):
            response = HTMLResponse(_CLEAN_URL.format(html.escape(_without_token(request))))
            response.set_cookie(self.cookie, self._token, httponly=True, samesite="strict", path="/")
            return response
        if self._is_token(request.cookies.get(self.cookie, "")):
            return None
        return PlainTextResponse(
            "This page needs the token of the explorer: open the URL that it printed when it started.",
            status_code=401,
        )

    def _is_token(self, text: str) -> bool:
        return compare_digest(text.encode(), self._token.encode())


_CLEAN_URL = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Lake explorer</title>'
    '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">'
    '<meta http-equiv="refresh" content="0;url={0}"><p><a href="{0}">Open the explorer</a>'
)
"""A redirect would still be a request of the site where the link stood, which gets no strict cookie."""


def _without_token(request: Request) -> str:
    left = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
    path = "/" + quote(request.url.path.lstrip("/"))  # two slashes would be another host
    return f"{path}?{urlencode(left)}" if left else path


def _name(host: str) -> str | None:
    """The name in a Host header, without port and brackets."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
