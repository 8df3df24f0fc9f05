"""Two lakes with one history by the extension: one is maintained by it, the other by us, and all is compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import Lake, Table
from ducklake_spark.engine.scope import scope_of
from tests.interop import catalogs
from tests.interop.oracle import Oracle

BYTES = ("file_size_bytes", "footer_size", "column_size_bytes")


class Twins:
    """`theirs` is maintained by the extension, `ours` by us."""

    def __init__(self, oracle: Oracle, spark: SparkSession, folder: Path, *history: str) -> None:
        self.oracle, self.spark = oracle, spark
        self.uris = [f"ducklake:{folder / side}.ducklake" for side in ("theirs", "ours")]
        self.data = [folder / side for side in ("theirs", "ours")]
        self.both(*history)

    def both(self, *statements: str) -> None:
        """Statements of the extension in both lakes."""
        for side in (0, 1):
            self._ask(side, statements)

    def ask(self, sql: str, side: int = 1) -> list[tuple[Any, ...]]:
        """What the extension answers in our lake, or in its own."""
        return self._ask(side, [sql])

    def _ask(self, side: int, statements: Sequence[str]) -> list[tuple[Any, ...]]:
        self.oracle.attach(self.uris[side], data_path=str(self.data[side]), data_inlining_row_limit=0)
        try:
            answers = [self.oracle.execute(each) for each in statements]
        finally:
            self.oracle.detach()
        return answers[-1] if answers else []

    @contextmanager
    def lake(self) -> Iterator[Lake]:
        """Our lake, open for us."""
        options: Any = {"data_inlining_row_limit": 0}
        lake = ducklake_spark.attach(
            self.uris[1], name="lake", data_path=str(self.data[1]), spark=self.spark, **options
        )
        try:
            yield lake
        finally:
            lake.close()

    def catalogs(self) -> tuple[catalogs.Catalog, catalogs.Catalog]:
        """Both catalogs."""
        return catalogs.dump(self.uris[0]), catalogs.dump(self.uris[1])

    def check_catalogs(self, **ignore: Sequence[str]) -> None:
        """The catalogs are the same, but for bytes and for tables and columns that are named."""
        catalogs.assert_same(
            *self.catalogs(), ignore={"*": [*BYTES, "data_file_id", "next_file_id"], **ignore}
        )

    def story(self, side: int, *tables: str) -> list[Any]:
        """What the extension tells of tables: rows with their ids at every snapshot, and the changes of each snapshot."""
        self.oracle.attach(self.uris[side], data_path=str(self.data[side]))
        told: list[Any] = []
        try:
            versions = [row[0] for row in self.oracle.execute("SELECT snapshot_id FROM lake.snapshots()")]
            for table in tables:
                born = self.oracle.execute(
                    "SELECT begin_snapshot FROM __ducklake_metadata_lake.ducklake_table "
                    f"WHERE table_name = '{table}'"
                )[0][0]
                # One statement for all: each costs more than its rows.
                asked = " UNION ALL ".join(
                    f"SELECT {version}, (SELECT list(r ORDER BY r)::VARCHAR FROM (SELECT rowid, * FROM {table} AT "
                    f"(VERSION => {version})) r), (SELECT list(r ORDER BY r)::VARCHAR FROM "
                    f"lake.table_changes('{table}', {version}, {version}) r)"
                    for version in versions
                    if version >= born
                )
                told += [(table, *row) for row in sorted(self.oracle.execute(asked))]
        finally:
            self.oracle.detach()
        return told

    def plain_story(self, table: str, *versions: int) -> list[Any]:
        """What the extension tells of our lake: one table at some snapshots, as lists of rows."""
        return [
            (
                table,
                version,
                _in_order(self.ask(f"SELECT rowid, * FROM {table} AT (VERSION => {version})")),
                _in_order(self.ask(f"FROM lake.table_changes('{table}', {version}, {version})")),
            )
            for version in versions
        ]

    def our_story(self, table: str, *versions: int) -> list[Any]:
        """The same of one table at some snapshots as we read it, if it has plain columns only."""
        told: list[Any] = []
        with self.lake() as lake:
            for version in versions:
                rows = lake.table(table, version=version, virtual_columns=["rowid"]).collect()
                changes = lake.table_changes(table, version, version).collect()
                told.append(
                    (table, version, _in_order((row[-1], *row[:-1]) for row in rows), _in_order(changes))
                )
        return told


def _in_order(rows: Iterable[Any]) -> list[str]:
    return sorted(str(tuple(row)) for row in rows)


# A lake of our own


def own_lake(folder: Path, spark: SparkSession) -> Lake:
    """One more handle of the lake in a folder."""
    return ducklake_spark.attach(f"ducklake:{folder / 'own.ducklake'}", name="own", spark=spark)


def filled(lake: Lake, name: str = "t", files: int = 4, **options: Any) -> Table:
    """A table with files of 20 rows, `n` from 0 on."""
    table = lake.create_table(name, {"n": "int", "k": "string"}, **options)
    for number in range(files):
        rows = [{"n": 20 * number + i, "k": "ab"[i % 2]} for i in range(20)]
        table.insert(rows)
    return table


def numbers(table: Table) -> list[int]:
    return sorted(row.n for row in table.to_df().select("n").collect())


def live_files(lake: Lake, name: str) -> int:
    return lake.list_files(name).count()


def unknown_files(lake: Lake) -> set[str]:
    """Files on disk that neither the lake nor its list of old files knows."""
    store = scope_of(lake).store
    known = {
        os.path.basename(row[0])
        for table in ("ducklake_data_file", "ducklake_delete_file", "ducklake_files_scheduled_for_deletion")
        for row in store.query(f"SELECT path FROM {table}")
    }
    return {path.name for path in Path(lake.data_path).rglob("*.parquet")} - known
