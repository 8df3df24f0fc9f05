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

    @property
    def text(self) -> str:
        """The key as SQL writes it."""
        return f"{self.expression} {self.direction} {self.null_order.replace('_', ' ')}"


@dataclass(frozen=True)
class Sorting:
    """A specification: its id and its keys."""

    sort_id: int
    keys: tuple[SortKey, ...]


def sort_texts(sorting: Sorting | None) -> list[str]:
    """The keys as users write them."""
    return [key.text for key in sorting.keys] if sorting is not None else []
