"""The SQL page: runs what was typed, shows and hands out the rows, and suggests names."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse

from ducklake_spark.api.completion import suggestions
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.explorer import downloads
from ducklake_spark.explorer.rendering import number, render, url
from ducklake_spark.sql.parser.parse import DIALECTS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ducklake_spark.explorer.runs import Run
    from ducklake_spark.explorer.site import Site

SUGGESTIONS = 50
LONGEST = 1_000_000
"""So many bytes a statement may have on its way."""
PATIENCE = 15.0
"""So many seconds an answer about a run waits for its end; then the page asks again."""


def page(request: Request) -> Response:
    """The editor, with the result of a run below it."""
    site: Site = request.app.state.site
    run = site.runs.get(request.query_params.get("run", ""))
    values = {
        "run": run,
        "page": number(request, "page") or 1,
        "text": run.title if run is not None else request.query_params.get("text", ""),
        "dialect": run.dialect
        if run is not None and run.dialect
        else _dialect(request.query_params.get("dialect")),
        "is_gone": run is None and "run" in request.query_params,
        "recent": [each for each in site.runs if each.dialect][:12],
    }
    return render(request, site, "sql.html", values)


async def start(request: Request) -> Response:
    """Runs what was typed, and leads to the page of its result."""
    site: Site = request.app.state.site
    form = parse_qs(await _body(request))
    text, dialect = (form.get(key, [""])[0].strip() for key in ("text", "dialect"))
    dialect = _dialect(dialect)
    if not text:
        return RedirectResponse(url("/sql", dialect=dialect), status_code=303)
    run = site.runs.start(text, lambda: site.sql(text, dialect), dialect=dialect)
    return RedirectResponse(url("/sql", run=run.id), status_code=303)


async def _body(request: Request) -> str:
    """What was sent, unless it is longer than any statement."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST:
            raise InvalidInputError(f"A statement may have {LONGEST:,} bytes here, and this one has more.")
    return body.decode(errors="replace")


def _dialect(text: object) -> str:
    return str(text) if text in DIALECTS else DIALECTS[0]


def result(request: Request) -> Response:
    """What became of a run, as a part of a page; waits a while for its end."""
    site: Site = request.app.state.site
    run = site.runs.get(request.path_params["run_id"])
    if run is None:
        return render(request, site, "parts/gone.html", status=404)
    known = request.query_params.get("known")
    if known is not None:
        run.wait(known, PATIENCE)
    return render(request, site, "parts/run.html", {"run": run, "page": number(request, "page") or 1})


def cancel(request: Request) -> Response:
    """Stops a run."""
    site: Site = request.app.state.site
    run = site.runs.get(request.path_params["run_id"])
    if run is not None:
        site.runs.cancel(run)
    return PlainTextResponse("")


def download(request: Request) -> Response:
    """All rows of a run as a file, whatever their number."""
    site: Site = request.app.state.site
    run: Run | None = site.runs.get(request.path_params["run_id"])
    if run is None or run.state != "done":
        return PlainTextResponse("This result is not kept any more: run the query again.", status_code=404)
    kind = request.path_params["kind"]
    made = {"csv": downloads.csv_lines, "parquet": downloads.parquet_bytes}.get(kind)
    if made is None:
        return PlainTextResponse("There are result.csv and result.parquet.", status_code=404)
    media = "text/csv; charset=utf-8" if kind == "csv" else "application/vnd.apache.parquet"
    return StreamingResponse(
        made(run.frame),
        media_type=media,
        headers={"Content-Disposition": f'attachment; filename="result.{kind}"'},
    )


def complete(request: Request) -> Response:
    """What may stand at the cursor."""
    site: Site = request.app.state.site
    text = request.query_params.get("text", "")
    cursor = min(number(request, "cursor") or 0, len(text))
    snapshot = site.scope.read_transaction().snapshot
    names = site.names(snapshot.snapshot_id)
    found = suggestions(names, text, cursor, _dialect(request.query_params.get("dialect")))
    return JSONResponse(
        [
            {"text": each.text, "shown": each.shown, "kind": each.kind, "replaced": each.replaced}
            for each in itertools.islice(found, SUGGESTIONS)
        ]
    )
