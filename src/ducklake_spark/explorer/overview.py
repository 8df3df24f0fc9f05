"""The first page: what the lake holds, its tables by size, and what its health advises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ducklake_spark.api.display import without_credentials
from ducklake_spark.catalog import inventory
from ducklake_spark.catalog.create import inspect
from ducklake_spark.engine.maintenance.health import Advice, all_advice
from ducklake_spark.explorer.rendering import paging, render

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ducklake_spark.catalog.transaction import Transaction
    from ducklake_spark.explorer.site import Site

SORTS = ("name", "rows", "bytes", "files")
FEW, MANY = 5, 200
"""So many jobs are shown at once, and so many more when they are asked for: the tables must stay in sight."""


@dataclass(frozen=True)
class Relation:
    """A table or view of a list; `table_id` is that of a table."""

    schema: str
    name: str
    table_id: int | None
    files: int = 0
    file_bytes: int = 0


def relations(site: Site, tx: Transaction) -> Sequence[Relation]:
    """The tables and views at a snapshot, by name."""

    def count() -> list[Relation]:
        sizes = inventory.file_sizes(tx.store, tx.snapshot.snapshot_id)
        found = []
        for schema in tx.schemas():
            for table in tx.reader.tables(schema.schema_id):
                size = sizes.get(table.object_id, (0, 0))
                found.append(Relation(schema.name, table.name, table.object_id, *size))
            for view in tx.reader.views(schema.schema_id):
                found.append(Relation(schema.name, view.name, None))
        return sorted(found, key=lambda each: (each.schema.lower(), each.name.lower()))

    return site.remembered("relations", tx.snapshot.snapshot_id, count)


def page(request: Request) -> Response:
    """The overview, with the tables that were asked for."""
    site: Site = request.app.state.site
    tx = site.scope.read_transaction()
    found = relations(site, tx)
    asked = {key: request.query_params.get(key, "").strip() for key in ("q", "schema", "sort")}
    asked["sort"] = asked["sort"] if asked["sort"] in SORTS else "name"
    shown = [
        each
        for each in found
        if asked["q"].lower() in f"{each.schema}.{each.name}".lower() and asked["schema"] in ("", each.schema)
    ]
    if asked["sort"] != "name":
        measure = _measures(site, tx, asked["sort"])
        shown.sort(key=lambda each: -measure(each))
    pages = paging(request, len(shown))
    listed = shown[pages.lines]
    # Rows in the catalog take a query for each table: only for those that are shown.
    ids = [each.table_id for each in listed if each.table_id is not None]
    values = {
        "relations": listed,
        "sizes": inventory.sizes(tx.store, tx.snapshot.snapshot_id, among=ids),
        "no_size": inventory.Size(),
        "paging": pages,
        "asked": asked,
        "largest": max((each.file_bytes for each in found), default=0),
        "all": len(found),
    }
    if request.query_params.get("part") == "tables":
        return render(request, site, "parts/relations.html", values)
    tables = sum(each.table_id is not None for each in found)
    values |= {
        "schemas": sorted((schema.name for schema in tx.schemas()), key=str.lower),
        "tables": tables,
        "views": len(found) - tables,
        "files": sum(each.files for each in found),
        "file_bytes": sum(each.file_bytes for each in found),
        "snapshot": tx.snapshot,
        "snapshots": inventory.snapshot_count(tx.store),
        "data_path": without_credentials(site.lake.data_path),
        "options": inspect(tx.store).options,
        "kind": tx.store.kind,
    }
    return render(request, site, "overview.html", values)


def _measures(site: Site, tx: Transaction, sort: str) -> Callable[[Relation], int]:
    if sort == "rows":
        sizes = site.sizes(tx.snapshot.snapshot_id)
        return lambda each: sizes.get(each.table_id or -1, inventory.Size()).rows or 0
    return (lambda each: each.files) if sort == "files" else (lambda each: each.file_bytes)


def totals(request: Request) -> Response:
    """How many rows the lake has; asked for when the page stands, since it takes a while with thousands of tables."""
    site: Site = request.app.state.site
    sizes = site.sizes(site.scope.read_transaction().snapshot.snapshot_id)
    total = sum(sizes.values(), inventory.Size())
    return render(request, site, "parts/totals.html", {"total": total})


def health(request: Request) -> Response:
    """What would help the lake; asked for when the page stands, since it looks at every file of the data path."""
    site: Site = request.app.state.site
    snapshot_id = site.scope.read_transaction().snapshot.snapshot_id
    found: list[Advice] = site.remembered("health", snapshot_id, lambda: list(all_advice(site.scope)))
    return render(request, site, "parts/health.html", {"advice": found, "few": FEW, "many": MANY})
