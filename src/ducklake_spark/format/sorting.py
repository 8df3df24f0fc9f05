"""Sort specifications: expressions with a direction and a place for NULLs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SortKey:
    """One key; the expression in DuckDB's SQL, as the catalog keeps it."""

    expression: str
    direction: str = "ASC"
    null_order: str = "NULLS_LAST"
    dialect: str = "duckdb"


@dataclass(frozen=True)
class Sorting:
    """A specification: its id and its keys."""

    sort_id: int
    keys: tuple[SortKey, ...]
