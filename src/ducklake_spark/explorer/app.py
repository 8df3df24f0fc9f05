"""The application: which path is which page, and what an error looks like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ducklake_spark.api.display import error_text
from ducklake_spark.errors import DuckLakeError, NotFoundError, SnapshotNotFoundError
from ducklake_spark.explorer import overview, queries, tables, timeline
from ducklake_spark.explorer.guard import Guard
from ducklake_spark.explorer.rendering import render

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ducklake_spark.explorer.site import Site


def create_app(site: Site, token: str) -> Starlette:
    """The application of an explorer, behind its guard."""
    app = Starlette(
        routes=[
            Route("/", overview.page),
            Route("/health", overview.health),
            Route("/totals", overview.totals),
            Route("/table", tables.page),
            Route("/timeline", timeline.page),
            Route("/compare", timeline.compare),
            Route("/sql", queries.page),
            Route("/sql", queries.start, methods=["POST"]),
            Route("/complete", queries.complete),
            Route("/runs/{run_id}", queries.result),
            Route("/runs/{run_id}/cancel", queries.cancel, methods=["POST"]),
            Route("/runs/{run_id}/result.{kind}", queries.download),
            Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        ],
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={
            DuckLakeError: _failed(lambda error: 404 if isinstance(error, _MISSING) else 400),
            HTTPException: _failed(lambda error: getattr(error, "status_code", 500)),
            Exception: _failed(lambda _: 500),
        },
    )
    app.state.site = site
    return app


_MISSING = (NotFoundError, SnapshotNotFoundError)


def _failed(status: Callable[[Exception], int]) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        code = status(error)
        said = error_text(error) if not isinstance(error, HTTPException) else "There is no such page."
        values = {"said": said, "status": code}
        return render(request, request.app.state.site, "error.html", values, code)

    return answer
