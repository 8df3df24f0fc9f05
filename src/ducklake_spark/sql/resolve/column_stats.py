"""`stats(column)` of a table: the statistics that the catalog keeps of it, in the words in which DuckDB shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ducklake_spark.catalog.table_facts import ColumnFacts, column_facts
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.duckdb_sql import answers, cast_text
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.types import fold

_UNKNOWN = "[Has Null: true, Has No Null: true]"
_BYTES = 8
"""How much of a text DuckDB's statistics hold."""
_UNBOUNDED = ("interval", "variant", "geometry")


def column_stats(tx: Transaction, table: TableDef, path: Sequence[str]) -> str | None:
    """What `stats()` says of a column, or of a field in one; None where the catalog does not tell.

    Args:
        tx: Who asks; statistics of a table that it changed are not known.
        table: The table.
        path: The names of the column and of the fields in it.
    """
    column = _column(table.columns, path)
    if column is None or any(part.type in ("variant", "geometry") for part in column.walk()):
        return None
    is_changed = table.table_id in tx.edits.tables or table.table_id < 0
    facts = {} if is_changed else column_facts(tx.store, table.table_id, tx.snapshot.snapshot_id)
    return _text(column, facts)


def _column(columns: Sequence[ColumnDef], path: Sequence[str]) -> ColumnDef | None:
    found = next((column for column in columns if fold(column.name) == fold(path[0])), None)
    if found is None or len(path) == 1:
        return found
    return _column(found.children, path[1:]) if found.type == "struct" else None


def _text(column: ColumnDef, facts: Mapping[int, ColumnFacts]) -> str:
    children = [_text(child, facts) for child in column.children]
    if column.type == "list":
        return f"[{children[0]}]{_UNKNOWN}"
    if column.type == "map":
        return f"[ {{key: {children[0]}, value: {children[1]}}}{_UNKNOWN}]{_UNKNOWN}"
    if column.type == "struct":
        named = ", ".join(
            f"{child.name}: {text}" for child, text in zip(column.children, children, strict=True)
        )
        return f" {{{named}}}{_UNKNOWN}"
    fact = facts.get(column.column_id, ColumnFacts())
    low, high = fact.min_value, fact.max_value
    if column.type in _UNBOUNDED:
        return _UNKNOWN
    is_known = low is not None and high is not None
    nulls = f"[Has Null: {str(not is_known or fact.contains_null is not False).lower()}, Has No Null: true]"
    if column.type in ("varchar", "json", "blob"):
        bounds = (low, high) if column.type != "blob" else (None, None)
        least, most = ("", r"\xFF" * _BYTES) if None in bounds else (_shortened(str(text)) for text in bounds)
        nulls = nulls if None not in bounds else _UNKNOWN
        return f"[Min: {least}, Max: {most}, Has Unicode: true, Max String Length: ?]{nulls}"
    if low is None or high is None:
        return f"[Min: NULL, Max: NULL]{nulls}"
    least, most = (cast_text(text, column.data_type, column.name) for text in (low, high))
    return f"[Min: {least}, Max: {most}]{nulls}"


def _shortened(text: str) -> str:
    digits = text.encode()[:_BYTES].hex()
    return str(answers(f"SELECT CAST(unhex('{digits}') AS VARCHAR)")[0][0])
