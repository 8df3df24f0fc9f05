"""The pages of a table or view: its columns, rows, files and history, now or at a snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ducklake_spark.api.display import default_text, without_credentials
from ducklake_spark.catalog import ddl, inventory, table_facts
from ducklake_spark.engine.column_history import column_history
from ducklake_spark.engine.history import history_rows
from ducklake_spark.engine.info import table_path
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.explorer.rendering import number, paging, render
from ducklake_spark.format.duckdb_sql import partition_texts
from ducklake_spark.format.objects import TableDef, ViewDef
from ducklake_spark.format.sorting import sort_texts
from ducklake_spark.format.types import duckdb_name

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ducklake_spark.api.lake import Lake
    from ducklake_spark.catalog.transaction import Transaction
    from ducklake_spark.engine.scope import Scope
    from ducklake_spark.explorer.site import Site
    from ducklake_spark.format.objects import SchemaDef

TABS = ("columns", "rows", "files", "history")
PARTITIONS = 60
"""So many partitions are drawn, the largest ones."""


@dataclass(frozen=True)
class Shown:
    """What a page is about."""

    site: Site
    lake: Lake
    tx: Transaction
    schema: SchemaDef
    relation: TableDef | ViewDef
    version: int | None

    @property
    def scope(self) -> Scope:
        """The scope at the snapshot."""
        return scope_of(self.lake)

    @property
    def is_view(self) -> bool:
        """Whether it is a view."""
        return isinstance(self.relation, ViewDef)


@dataclass(frozen=True)
class Partition:
    """The files of a table that have the same partition values."""

    values: str
    files: int
    file_bytes: int
    rows: int
    deleted: int

    @property
    def delete_ratio(self) -> float:
        """The share of the rows in its files that are deleted."""
        return self.deleted / self.rows if self.rows else 0.0


def page(request: Request) -> Response:
    """A table or view: the part of it that was asked for."""
    shown = _shown(request)
    tab = request.query_params.get("tab", "columns")
    tab = tab if tab in TABS and not (shown.is_view and tab in ("files", "history")) else "columns"
    relation = shown.relation
    values: dict[str, Any] = {
        "tab": tab,
        "tabs": ("columns", "rows") if shown.is_view else TABS,
        "schema": shown.schema.name,
        "relation": relation,
        "is_view": shown.is_view,
        "version": shown.version,
        "snapshot": shown.tx.snapshot,
        **_PARTS[tab](request, shown),
    }
    if isinstance(relation, TableDef):
        sizes = inventory.sizes(shown.tx.store, shown.tx.snapshot.snapshot_id, relation.table_id)
        values["size"] = sizes.get(relation.table_id, inventory.Size())
        values["partitioned_by"] = partition_texts(relation.partitioning, relation.columns)
        values["sorted_by"] = sort_texts(relation.sorting)
        values["folder"] = without_credentials(table_path(shown.scope, shown.schema, relation))
    return render(request, shown.site, "table.html", values)


def _shown(request: Request) -> Shown:
    """The relation that a request names.

    Raises:
        NotFoundError: There is none.
    """
    site: Site = request.app.state.site
    version = number(request, "at")
    lake = site.lake_at(version)
    tx = scope_of(lake).read_transaction()
    schema = ddl.get_schema(tx, request.query_params.get("schema", ""))
    name = request.query_params.get("name", "")
    view = tx.view(schema, name) if tx.table(schema, name) is None else None
    return Shown(site, lake, tx, schema, view or ddl.get_table(tx, schema, name), version)


def _columns(request: Request, shown: Shown) -> dict[str, Any]:
    relation = shown.relation
    if isinstance(relation, ViewDef):
        return {"columns": [], "events": [], "q": ""}
    facts = table_facts.column_facts(shown.tx.store, relation.table_id, shown.tx.snapshot.snapshot_id)
    asked = request.query_params.get("q", "").strip()
    columns: list[dict[str, Any]] = [
        {
            "name": column.name,
            "type": duckdb_name(column.data_type),
            "nullable": column.nulls_allowed,
            "default": default_text(column),
            "comment": column.comment,
            "facts": facts.get(column.column_id, table_facts.ColumnFacts()),
        }
        for column in relation.columns
        if asked.lower() in column.name.lower()
    ]
    pages = paging(request, len(columns))
    return {
        "columns": columns[pages.lines],
        "paging": pages,
        "q": asked,
        "widest": max((each["facts"].column_bytes or 0 for each in columns), default=0),
        "events": column_history(shown.scope, relation),
    }


def _rows(request: Request, shown: Shown) -> dict[str, Any]:
    """Starts the query for the rows; the page asks for them when they are there."""
    where = request.query_params.get("where", "").strip()
    at = shown.tx.snapshot.snapshot_id
    schema, name = (part.replace('"', '""') for part in (shown.schema.name, shown.relation.name))
    text = f'SELECT * FROM "{schema}"."{name}"'
    if where:
        text += f" WHERE {where}"
    site = shown.site
    run = site.runs.start(
        f"{shown.schema.name}.{shown.relation.name}",
        lambda: site.sql(text, "duckdb", at),
        ("rows", shown.schema.name, shown.relation.name, at, where),
    )
    return {"run": run, "where": where, "page": number(request, "page") or 1}


def _files(request: Request, shown: Shown) -> dict[str, Any]:
    table = shown.relation
    assert isinstance(table, TableDef)
    store, at = shown.tx.store, shown.tx.snapshot.snapshot_id
    folder = table_path(shown.scope, shown.schema, table)
    found = inventory.files(store, table.table_id, folder, at)
    values = table_facts.partition_values(store, table.table_id, at)
    pages = paging(request, len(found))
    partitions = _partitions(found, values)
    return {
        "files": [
            {
                "path": each.path.removeprefix(folder),
                "partition": _partition_text(values.get(each.data_file_id)),
                "file": each,
            }
            for each in found[pages.lines]
        ],
        "paging": pages,
        "partitions": partitions[:PARTITIONS],
        "partition_count": len(partitions),
        "largest_partition": max((each.file_bytes for each in partitions), default=0),
        "largest": max((each.file_bytes for each in found), default=0),
        "sizes": _histogram([each.file_bytes for each in found]),
    }


def _partitions(found: Sequence[inventory.StoredFile], values: Any) -> Sequence[Partition]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for each in found:
        total = sums[_partition_text(values.get(each.data_file_id))]
        for place, count in enumerate((1, each.file_bytes, each.rows, each.deleted or 0)):
            total[place] += count
    made = [Partition(text, *counts) for text, counts in sums.items()]
    return sorted(made, key=lambda each: (-each.file_bytes, each.values))


def _partition_text(values: Sequence[str | None] | None) -> str:
    return "" if values is None else " / ".join("NULL" if value is None else value for value in values)


_BINS = ((10**5, "under 100 kB"), (10**6, "100 kB to 1 MB"), (10**7, "1 to 10 MB"), (10**8, "10 to 100 MB"))


def _histogram(sizes: Sequence[int]) -> Sequence[tuple[str, int]]:
    """How many files there are of each order of size; orders at both ends that have none are left out."""
    counts = [0] * (len(_BINS) + 1)
    for size in sizes:
        counts[next((place for place, (limit, _) in enumerate(_BINS) if size < limit), len(_BINS))] += 1
    used = [place for place, count in enumerate(counts) if count]
    labels = [*(label for _, label in _BINS), "100 MB and more"]
    return [(labels[place], counts[place]) for place in range(min(used), max(used) + 1)] if used else []


def _history(request: Request, shown: Shown) -> dict[str, Any]:
    table = shown.relation
    assert isinstance(table, TableDef)
    rows = [row for row in history_rows(shown.scope, table) if row[0] <= shown.tx.snapshot.snapshot_id]
    pages = paging(request, len(rows))
    return {
        "snapshots": rows[pages.lines],
        "paging": pages,
        "most": max((max(row[3] or 0, row[4] or 0) for row in rows), default=0),
    }


_PARTS = {"columns": _columns, "rows": _rows, "files": _files, "history": _history}
