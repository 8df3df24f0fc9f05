"""Examples for the help of each command: what a person would type."""

from __future__ import annotations

from collections.abc import Sequence

_LAKE = "shop.ducklake"
EXAMPLES: dict[str, Sequence[tuple[str, str]]] = {
    "info": (
        (_LAKE, ""),
        ("'postgres:dbname=shop host=db' -o json", "a catalog in PostgreSQL, for programs"),
    ),
    "tables": ((_LAKE, ""), (f"{_LAKE} --schema sales --version-at 12", "as they were at a snapshot")),
    "schema": ((f"{_LAKE} sales.orders", ""),),
    "files": ((f"{_LAKE} sales.orders", ""), (f"{_LAKE} sales.orders -o csv", "for programs")),
    "snapshots": ((f"{_LAKE} --limit 10", "the newest ten"),),
    "changes": (
        (f"{_LAKE} sales.orders --from 12 --to 15", "between two snapshots"),
        (f"{_LAKE} sales.orders --from 2026-01-31 --net", "what became of each row since a day"),
    ),
    "sql": (
        (f"{_LAKE}", "a shell"),
        (f'{_LAKE} "SELECT count(*) FROM orders"', "one statement"),
        (f'{_LAKE} --create "CREATE TABLE orders (id BIGINT)"', "a new lake"),
        (f'{_LAKE} -d duckdb -o csv "FROM orders LIMIT 5"', "DuckDB's SQL, for programs"),
        (f"{_LAKE} -f nightly.sql --conf spark.driver.memory=4g", "a file"),
    ),
    "explore": ((_LAKE, ""), (f"{_LAKE} --port 8080 --no-browser", "always at the same address")),
    "health": ((_LAKE, ""),),
    "maintain": ((f"{_LAKE} --dry-run", "what would be done"), (_LAKE, "")),
    "checkpoint": ((_LAKE, ""),),
    "flush-inlined-data": ((_LAKE, ""), (f"{_LAKE} sales.orders", "one table")),
    "merge-adjacent-files": (
        (f"{_LAKE} --max-compacted-files 100", "some, to stay short"),
        (f"{_LAKE} sales.orders --where \"day >= DATE'2026-01-31'\"", "some partitions"),
    ),
    "rewrite-data-files": ((f"{_LAKE} --delete-threshold 0.3", "files of which 30 % are deleted"),),
    "compact": (
        (f"{_LAKE} sales.orders --order-by ordered", ""),
        (f"{_LAKE} sales.orders --zorder-by customer --zorder-by ordered", "for filters by either"),
    ),
    "expire-snapshots": (
        (f"{_LAKE} --older-than 2026-01-31 --dry-run", "what would be forgotten"),
        (f"{_LAKE} --version-at 3 --version-at 4", "two of them"),
    ),
    "cleanup-old-files": ((_LAKE, ""), (f"{_LAKE} --all --dry-run", "all that could go")),
    "delete-orphaned-files": ((f"{_LAKE} --dry-run", "what would be deleted"),),
    "add-data-files": ((f"{_LAKE} sales.orders /data/2026/*.parquet --allow-missing", ""),),
}
"""By command: what stands behind its name, and what it is for where that is not plain."""


def lines(command: str) -> list[str]:
    """The examples of a command, as they are typed, with what they are for behind a `#`.

    >>> lines("snapshots")
    ['ducklake-spark snapshots shop.ducklake --limit 10  # the newest ten']
    """
    return [
        f"ducklake-spark {command} {arguments}{f'  # {purpose}' if purpose else ''}"
        for arguments, purpose in EXAMPLES[command]
    ]


def epilog(command: str) -> str:
    """The end of a command's help. Each example is a paragraph: typer would make one line of all else."""
    typed = (f"ducklake-spark {command} {arguments}" for arguments, _ in EXAMPLES[command])
    return "\n\n".join(["Examples:", *typed])
