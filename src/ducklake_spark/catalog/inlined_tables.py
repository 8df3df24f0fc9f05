"""Which inlined data there is, and the tables of it that nobody needs any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ducklake_spark.catalog.store import CommitOutcomeUnknown, Query, Store
from ducklake_spark.errors import CatalogError
from ducklake_spark.format.types import quote

_UNION = 100
_DELETES = "ducklake_inlined_delete_"


@dataclass(frozen=True)
class InlinedData:
    """The inlined data of a table.

    Attributes:
        tables: Names and schema versions of the inlined data tables that have rows.
        has_deletes: Whether there are inlined deletes of its data files.
        row_count: How many versions of rows there are.
    """

    tables: tuple[tuple[str, int], ...] = ()
    has_deletes: bool = False
    row_count: int = 0


def inlined_data(store: Store, table_ids: Collection[int], snapshot_id: int) -> dict[int, InlinedData]:
    """The tables among these that have inlined data, deleted rows included, by id."""
    registered, names = store.query_many(
        [
            (
                "SELECT table_id, table_name, schema_version FROM ducklake_inlined_data_tables "
                "ORDER BY table_id, schema_version",
                (),
            ),
            (f"SELECT t.table_name FROM ({store.tables_sql()}) AS t", ()),
        ]
    )
    wanted = {int(i) for i in table_ids}
    data = [(int(i), str(name), int(version)) for i, name, version in registered if int(i) in wanted]
    present = {str(name) for (name,) in names}
    deletes = [(i, f"{_DELETES}{i}", 0) for i in sorted(wanted) if f"{_DELETES}{i}" in present]
    filled = _with_rows(store, [name for _, name, _ in (*data, *deletes)], snapshot_id)
    found: dict[int, InlinedData] = {}
    for table_id in sorted(wanted):
        tables = tuple((name, version) for i, name, version in data if i == table_id and name in filled)
        has_deletes = f"{_DELETES}{table_id}" in filled
        if tables or has_deletes:
            found[table_id] = InlinedData(tables, has_deletes, sum(filled[name] for name, _ in tables))
    return found


def _with_rows(store: Store, names: Sequence[str], snapshot_id: int) -> dict[str, int]:
    """How many rows there are in each of these tables that has some."""
    queries: list[Query] = []
    for start in range(0, len(names), _UNION):
        some = names[start : start + _UNION]
        counted = " UNION ALL ".join(
            f"SELECT {number} AS place, (SELECT count(*) FROM {quote(name)} WHERE {_begin(store, name)} <= ?) AS found"
            for number, name in enumerate(some, start)
        )
        queries.append((counted, [snapshot_id] * len(some)))
    answers = store.query_many(queries) if queries else []
    return {names[int(place)]: int(count) for rows in answers for place, count in rows if int(count)}


def _begin(store: Store, name: str) -> str:
    return "begin_snapshot" if name.startswith(_DELETES) else store.inlined_columns(name).begin


def drop_superseded(store: Store, table_ids: Collection[int]) -> None:
    """Drops inlined data tables of old schema versions that are empty: nobody writes into them any more.

    Not where the extension may be at work in another process: it remembers the tables of a schema version, and could
    read nothing any more until that changes. An empty table harms nobody; one that is in use stays for the same reason.
    """
    if store.is_shared:
        return
    wanted = {int(i) for i in table_ids}
    rows = store.query("SELECT table_id, table_name, schema_version FROM ducklake_inlined_data_tables")
    newest: dict[int, int] = {}
    for table_id, _, version in rows:
        newest[int(table_id)] = max(newest.get(int(table_id), -1), int(version))
    for table_id, name, version in rows:
        if int(table_id) in wanted and int(version) < newest[int(table_id)]:
            with suppress(CatalogError, CommitOutcomeUnknown, *store.driver_errors):
                _drop_if_empty(store, str(name))


def _drop_if_empty(store: Store, name: str) -> None:
    with store.begin() as session:
        if session.query(f"SELECT 1 FROM {quote(name)} LIMIT 1"):
            return
        session.execute("DELETE FROM ducklake_inlined_data_tables WHERE table_name = ?", (name,))
        session.execute(f"DROP TABLE {quote(name)}")
