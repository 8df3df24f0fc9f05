"""A lake with very many tables, and an eye on what is asked of its catalog."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ducklake_spark import Lake
from ducklake_spark.catalog.store import Query, Store

COLUMNS = 5


def fill(lake: Lake, tables: int) -> None:
    """One snapshot that makes `t0`, `t1` ... in the schema main, without inlined tables."""
    store = lake._scope.store
    first = lake._scope.read_transaction().snapshot.next_catalog_id
    begin = lake.version + 1
    with store.begin() as session:
        session.execute(
            f"INSERT INTO ducklake_snapshot VALUES (?, {store.now_sql}, ?, ?, 0)",
            [begin, begin, first + tables],
        )
        session.insert("ducklake_snapshot_changes", [(begin, 'created_table:"main"."t0"', None, None, None)])
        session.insert(
            "ducklake_table",
            [(first + i, str(uuid.uuid4()), begin, None, 0, f"t{i}", f"t{i}/", True) for i in range(tables)],
        )
        session.insert(
            "ducklake_column",
            [
                (
                    c,
                    begin,
                    None,
                    first + i,
                    c,
                    f"c{c}",
                    "int32",
                    None,
                    "NULL",
                    True,
                    None,
                    "literal",
                    "duckdb",
                )
                for i in range(tables)
                for c in range(1, COLUMNS + 1)
            ],
        )
        session.insert("ducklake_schema_versions", [(begin, begin, first + i) for i in range(tables)])


@dataclass
class Seen:
    """What was asked, and what came back."""

    queries: int = 0
    round_trips: int = 0
    rows: int = 0


@contextmanager
def watching(store: Store) -> Iterator[Seen]:
    """Counts the queries of a store, outside of transactions."""
    seen, ask = Seen(), store.query_many

    def query_many(queries: Sequence[Query]) -> list[list[tuple[Any, ...]]]:
        answers = ask(queries)
        seen.round_trips += 1
        seen.queries += len(queries)
        seen.rows += sum(map(len, answers))
        return answers

    store.query_many = query_many  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        del store.query_many  # type: ignore[method-assign]
