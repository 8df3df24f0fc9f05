"""Who gets an answer: only a browser of this computer that knows the token, from pages of the explorer."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from ducklake_spark import Lake
from ducklake_spark.explorer.app import create_app
from ducklake_spark.explorer.guard import HEADERS
from ducklake_spark.explorer.site import Site
from tests.explorer.conftest import ADDRESS, TOKEN

PATHS = (
    *(
        "/",
        "/health",
        "/table?schema=sales&name=orders",
        "/timeline",
        "/compare?pick=1&pick=2",
        "/sql",
        "/complete",
    ),
    *("/runs/x", "/runs/x/result.csv", "/static/explorer.css", "/static/explorer.js", "/no-such-page"),
)


@pytest.fixture
def stranger(shop: Lake) -> TestClient:
    """A browser without the cookie."""
    return TestClient(create_app(Site(shop), TOKEN), base_url=ADDRESS)


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_answered_without_the_token(stranger: TestClient, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert "shop" not in answer.text


@pytest.mark.parametrize("path", ("/sql", "/runs/x/cancel"))
def test_nothing_is_done_without_the_token(stranger: TestClient, path: str) -> None:
    answer = stranger.post(path, data={"text": "SELECT 1"}, headers={"Origin": ADDRESS})
    assert answer.status_code == 401


@pytest.mark.parametrize("token", ("", "wrong", TOKEN[:-1], TOKEN + "x", "ü"))
def test_a_wrong_token_is_refused_in_the_url_and_in_the_cookie(stranger: TestClient, token: str) -> None:
    assert stranger.get("/", params={"token": token}).status_code == 401
    name = create_app_cookie(stranger)
    assert stranger.get("/", headers={"Cookie": f"{name}={token}".encode()}).status_code == 401


def create_app_cookie(stranger: TestClient) -> str:
    answer = stranger.get("/", params={"token": TOKEN})
    stranger.cookies.clear()
    return answer.headers["set-cookie"].partition("=")[0]


def test_the_token_becomes_a_strict_cookie_that_scripts_cannot_read(stranger: TestClient) -> None:
    cookie = stranger.get("/", params={"token": TOKEN}).headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie


def test_the_token_leaves_the_address_and_the_rest_of_it_stays(stranger: TestClient) -> None:
    answer = stranger.get("/table", params={"schema": "sales", "token": TOKEN, "name": 'a&b"<'})
    [target] = re.findall(r'content="0;url=([^"]*)"', answer.text)
    assert target == "/table?schema=sales&amp;name=a%26b%22%3C"
    assert TOKEN not in answer.text


def test_the_token_page_never_leads_to_another_host(stranger: TestClient) -> None:
    answer = stranger.get(f"{ADDRESS}//evil.example/", params={"token": TOKEN})
    [target] = re.findall(r'content="0;url=([^"]*)"', answer.text)
    assert target.startswith("/") and not target.startswith("//")


@pytest.mark.parametrize(
    "host",
    ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8123", "", "[", "10.0.0.1:8123"),
)
def test_other_hosts_get_nothing_even_with_the_token(client: TestClient, host: str) -> None:
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == 421
    assert "shop" not in answer.text


@pytest.mark.parametrize("host", ("127.0.0.1", "localhost:9000", "[::1]:8123", "LOCALHOST"))
def test_this_computer_may_be_called_by_any_of_its_own_names(client: TestClient, host: str) -> None:
    assert client.get("/sql", headers={"Host": host, "Cookie": cookie_of(client)}).status_code == 200


def cookie_of(client: TestClient) -> str:
    [(name, value)] = client.cookies.items()
    return f"{name}={value}"


@pytest.mark.parametrize(
    "origin", ("http://evil.example", "null", "https://127.0.0.1:8123", "http://127.0.0.1:9999")
)
def test_what_another_site_posts_is_refused(client: TestClient, origin: str) -> None:
    answer = client.post("/sql", data={"text": "SELECT 1"}, headers={"Origin": origin})
    assert answer.status_code == 403


def test_what_comes_without_an_origin_is_not_done(shop: Lake) -> None:
    browser = TestClient(create_app(Site(shop), TOKEN), base_url=ADDRESS)
    browser.get("/", params={"token": TOKEN})
    assert browser.post("/sql", data={"text": "SELECT 1"}).status_code == 403


@pytest.mark.parametrize(
    "path", ("/", "/static/explorer.js", "/no-such-page", "/table?schema=sales&name=nothing")
)
def test_every_answer_forbids_foreign_scripts_and_frames(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in headers["Content-Security-Policy"]


class Marks(HTMLParser):
    """What the policy would not let run: scripts and styles in the page, and handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.forbidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or (tag == "script" and not (names.get("src") or "").startswith("/static/")):
            self.forbidden.append(tag)
        self.forbidden += [name for name in names if name == "style" or name.startswith("on")]


@pytest.mark.parametrize("path", ("/", "/table?schema=sales&name=orders&tab=files", "/timeline", "/sql"))
def test_pages_have_no_scripts_and_styles_of_their_own(client: TestClient, path: str) -> None:
    marks = Marks()
    marks.feed(client.get(path).text)
    assert marks.forbidden == []


@pytest.mark.parametrize("path", ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fguard.py"))
def test_only_static_files_are_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404
