"""The time line: snapshots with what they changed, and the difference between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog import inventory
from ducklake_spark.engine.differences import difference
from ducklake_spark.explorer.rendering import number, render
from ducklake_spark.format.changes import changes_map, parse_changes

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ducklake_spark.catalog.store import Store
    from ducklake_spark.explorer.site import Site

SNAPSHOTS = 50
_NAMES = 6
"""So many names of one kind of change are shown."""


_WORDS = {
    "schemas_created": "created schema",
    "schemas_dropped": "dropped schema",
    "tables_created": "created table",
    "tables_dropped": "dropped table",
    "tables_altered": "altered table",
    "tables_inserted_into": "inserted into",
    "tables_deleted_from": "deleted from",
    "tables_compacted": "compacted",
    "views_created": "created view",
    "views_dropped": "dropped view",
    "views_altered": "altered view",
    "scalar_macros_created": "created macro",
    "scalar_macros_dropped": "dropped macro",
    "table_macros_created": "created table macro",
    "table_macros_dropped": "dropped table macro",
    "inlined_insert": "inserted into",
    "inlined_delete": "deleted from",
    "flushed_inlined": "flushed to files",
    "merge_adjacent": "merged files of",
    "rewrite_delete": "rewrote files of",
}
"""The keys of `snapshots()` as people would say them, before the names of what was changed."""


@dataclass(frozen=True)
class Change:
    """Objects to which a snapshot did the same."""

    what: str
    kind: str
    """`created`, `dropped`, `rows` or `other`: how it is coloured."""
    names: Sequence[str]
    more: int


@dataclass(frozen=True)
class Entry:
    """A snapshot of the time line."""

    snapshot_id: int
    time: datetime
    changes: Sequence[Change]
    author: str | None
    message: str | None
    extra: str | None


def page(request: Request) -> Response:
    """Snapshots, the newest first, from the newest or from before one."""
    site: Site = request.app.state.site
    store = site.scope.store
    site.scope.require_open()
    before = number(request, "before")
    rows = inventory.snapshots(store, SNAPSHOTS + 1, before)
    entries = _entries(store, rows[:SNAPSHOTS])
    return render(
        request,
        site,
        "timeline.html",
        {
            "entries": entries,
            "older": entries[-1].snapshot_id if len(rows) > SNAPSHOTS else None,
            "is_newest": before is None,
            "total": inventory.snapshot_count(store),
        },
    )


def _entries(store: Store, rows: Sequence[tuple[Any, ...]]) -> list[Entry]:
    made = [(row, changes_map(parse_changes(row[3]))) for row in rows]
    shown = (value for _, changes in made for values in changes.values() for value in values[:_NAMES])
    names = inventory.names(store, (int(value) for value in shown if value.isdecimal()))
    return [
        Entry(
            int(row[0]),
            inventory.moment(row[1]),
            [
                Change(
                    _WORDS.get(key, key.replace("_", " ")),
                    _kind(key),
                    [names.get(value, value) for value in values[:_NAMES]],
                    max(0, len(values) - _NAMES),
                )
                for key, values in changes.items()
            ],
            row[4],
            row[5],
            row[6],
        )
        for row, changes in made
    ]


def _kind(key: str) -> str:
    for end, kind in (("created", "created"), ("dropped", "dropped"), ("altered", "altered")):
        if key.endswith(end):
            return kind
    return "rows" if "insert" in key or ("delete" in key and "rewrite" not in key) else "other"


def compare(request: Request) -> Response:
    """What is different between two snapshots; with a table, its rows too."""
    site: Site = request.app.state.site
    picked = sorted(
        int(value) for value in request.query_params.getlist("pick") if value.isdecimal() and len(value) < 19
    )
    if len(picked) == 1:
        picked.insert(0, max(picked[0] - 1, inventory.oldest_snapshot(site.scope.store)))
    if len(picked) != 2 or picked[0] == picked[1]:
        return render(request, site, "compare.html", {"found": None})
    found = difference(site.scope, *picked)
    values: dict[str, Any] = {"found": found, "run": None, "page": number(request, "page") or 1}
    schema, name = (request.query_params.get(key, "") for key in ("schema", "name"))
    values |= {"schema": schema, "name": name, "net": request.query_params.get("net", "")}
    if name:
        net = bool(values["net"])
        values["run"] = site.runs.start(
            f"Changes of {schema}.{name}",
            lambda: site.lake.table_changes((schema, name), found.feed_start, found.last, net=net).orderBy(
                "snapshot_id", "rowid", "change_type"
            ),
            ("changes", schema, name, found.feed_start, found.last, net),
        )
    return render(request, site, "compare.html", values)
