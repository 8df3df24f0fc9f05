"""From values to HTML: the templates, with everything escaped, and numbers and links as people want them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from ducklake_spark.engine.html import human_bytes

if TYPE_CHECKING:
    from starlette.requests import Request

    from ducklake_spark.explorer.site import Site

PAGE_ROWS = 100
"""So many lines a list shows at once."""


@dataclass(frozen=True)
class Paging:
    """Which lines of a list are shown: pages count from 1."""

    page: int
    total: int
    size: int = PAGE_ROWS

    @property
    def pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-self.total // self.size))

    @property
    def first(self) -> int:
        """The place of the first line, from 0."""
        return (self.page - 1) * self.size

    @property
    def lines(self) -> slice:
        """The lines of the page in the list."""
        return slice(self.first, self.first + self.size)


def paging(request: Request, total: int) -> Paging:
    """The page that a request asks for, or the nearest that there is."""
    found = Paging(number(request, "page") or 1, total)
    return Paging(min(max(found.page, 1), found.pages), total)


def number(request: Request, name: str) -> int | None:
    """A whole number in the query string; None without one."""
    text = request.query_params.get(name, "").strip()
    return int(text) if text.lstrip("-").isdecimal() and len(text) < 19 else None


def url(path: str, **parameters: Any) -> str:
    """A link inside of the explorer; parameters that are None or empty are left out."""
    given = {key: value for key, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago, in the largest unit that fits.

    >>> ago(datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 3, 5, tzinfo=timezone.utc))
    '2 days ago'
    """
    seconds = int(((now or datetime.now(timezone.utc)) - moment).total_seconds())
    for size, noun in (
        (86400 * 365, "year"),
        (86400 * 30, "month"),
        (86400, "day"),
        (3600, "hour"),
        (60, "minute"),
    ):
        if seconds >= size:
            return f"{counted(seconds // size, noun)} ago"
    return "just now"


def percent(share: float) -> str:
    """A share for people.

    >>> percent(0.3333), percent(0.0001), percent(0)
    ('33.3 %', '< 0.1 %', '0 %')
    """
    if not share:
        return "0 %"
    return f"{100 * share:.1f} %" if share >= 0.001 else "< 0.1 %"


def pieces(text: str) -> Iterator[str]:
    """A long name in pieces between which a line may break."""
    start = 0
    for place, character in enumerate(text):
        if character in "_/-=" and place > start:
            yield text[start : place + 1]
            start = place + 1
    yield text[start:]


_environment = Environment(
    loader=PackageLoader("ducklake_spark.explorer"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals.update(url=url, counted=counted, ago=ago)
_environment.filters.update(
    bytes=human_bytes, number=lambda value: f"{value:,}", time=lambda moment: f"{moment:%Y-%m-%d %H:%M:%S}"
)
_environment.filters.update(pieces=pieces, percent=percent)


def render(
    request: Request, site: Site, template: str, values: Mapping[str, Any] | None = None, status: int = 200
) -> HTMLResponse:
    """A page, or a part of one."""
    theme = request.cookies.get("theme")
    made = _environment.get_template(template).render(
        site=site,
        path=request.url.path,
        theme=theme if theme in ("light", "dark") else None,
        **(values or {}),
    )
    return HTMLResponse(made, status_code=status)
