"""Two lakes with one history, of which the extension maintains one and we the other, and what they hold at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import ducklake_spark
from tests.interop import catalogs
from tests.interop.oracle import Oracle, literal, quoted

FILE_IDS = {
    "ducklake_data_file": ("data_file_id",),
    "ducklake_delete_file": ("delete_file_id", "data_file_id", "file_size_bytes", "footer_size"),
    "ducklake_file_column_stats": ("data_file_id",),
    "ducklake_file_partition_value": ("data_file_id",),
    "ducklake_file_variant_stats": ("data_file_id",),
}
"""The extension writes files in an order that chance decides; delete files have names in them, which compress by chance."""
Told = dict[tuple[str, int | str], Any]


class Twins:
    """Both are made by the extension, and read by it."""

    def __init__(self, oracle: Oracle, folder: Path) -> None:
        self.oracle = oracle
        self.ours, self.theirs = (f"ducklake:{folder}/{name}.ducklake" for name in ("ours", "them"))

    def run(self, *statements: str) -> None:
        """The same on both."""
        for uri in (self.theirs, self.ours):
            self.on(uri, *statements)

    def on(self, uri: str, *statements: str) -> list[tuple[Any, ...]]:
        """Lets the extension do something on one of them."""
        rows: list[tuple[Any, ...]] = []
        self.oracle.attach(uri)
        try:
            for statement in statements:
                rows = self.oracle.execute(statement)
        finally:
            self.oracle.reset()
        return rows

    def told(self, uri: str) -> Told:
        """The rows of each table at every snapshot, and its change feed, as the extension reads them."""
        return told(self.oracle, uri)

    def assert_same(self, ignore: Mapping[str, Iterable[str]] | None = None) -> None:
        """The catalogs are the same, but for the order in which files were written."""
        ignored = {table: (*columns, *(ignore or {}).get(table, ())) for table, columns in FILE_IDS.items()}
        catalogs.assert_same(self.ours, self.theirs, ignore={**(ignore or {}), **ignored})

    def lake(self, **options: Any) -> ducklake_spark.Lake:
        """Our twin, opened by us."""
        return ducklake_spark.attach(self.ours, name="lake", **options)


def told(oracle: Oracle, uri: str) -> Told:
    """The rows of each table at every snapshot, and its change feeds, as the extension reads them."""
    oracle.attach(uri)
    try:
        found: Told = {}
        metadata = "__ducklake_metadata_lake"
        versions = [
            i for (i,) in oracle.execute(f"SELECT snapshot_id FROM {metadata}.ducklake_snapshot ORDER BY 1")
        ]
        tables = oracle.execute(
            "SELECT s.schema_name, t.table_name, t.begin_snapshot, coalesce(t.end_snapshot, 1000000) FROM "
            f"{metadata}.ducklake_table t JOIN {metadata}.ducklake_schema s USING (schema_id)"
        )
        for schema, table, first, end in tables:
            name = f"{quoted(schema)}.{quoted(table)}"
            seen = [version for version in versions if first <= version < end]
            # One statement for all: each costs more than its rows.
            rows = " UNION ALL ".join(
                f"SELECT {version}, list(r ORDER BY r)::VARCHAR FROM "
                f"(SELECT rowid, * FROM {name} AT (VERSION => {version})) r"
                for version in seen
            )
            found |= {(name, version): text for version, text in oracle.execute(rows)}
            # Each snapshot by itself: over several, the extension's feed mixes up the versions of a row in one file.
            feeds = " UNION ALL ".join(
                f"SELECT {version}, list(r ORDER BY r)::VARCHAR FROM "
                f"ducklake_table_changes('lake', {literal(schema)}, {literal(table)}, {version}, {version}) r"
                for version in seen
            )
            if end > seen[-1] + 1:
                found |= {(name, f"feed {version}"): text for version, text in oracle.execute(feeds)}
        return found
    finally:
        oracle.reset()


def kept(before: Told, after: Told) -> None:
    """Fails unless what was told before is told again."""
    assert {key: after.get(key) for key in before} == before
