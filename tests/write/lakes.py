"""Lakes that we and the extension write in turns, with what tests ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import Lake, Table
from tests.interop import catalogs
from tests.interop.oracle import Oracle, quoted
from tests.scan.lakes import comparable, in_order


class WrittenLake:
    """One lake with two users who take turns, because a DuckDB file has one owner."""

    def __init__(
        self,
        oracle: Oracle,
        spark: SparkSession | None,
        uri: str,
        data_path: Path,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.oracle, self.spark, self.uri, self.data_path = oracle, spark, uri, data_path
        self.options = options or {}
        self._lake: Lake | None = None
        self._attached = False

    @property
    def kind(self) -> str:
        return self.uri.split(":")[1]

    @property
    def ours(self) -> Lake:
        """The lake as we have it; the extension's is closed."""
        if self._attached:
            self.oracle.detach()
            self._attached = False
        if self._lake is None:
            self._lake = self.attach()
        return self._lake

    def attach(self) -> Lake:
        """One more handle."""
        return ducklake_spark.attach(
            self.uri, name="lake", data_path=str(self.data_path), spark=self.spark, **self.options
        )

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Statements of the extension; the rows are those of the last."""
        self._release()
        if not self._attached:
            self.oracle.attach(self.uri, data_path=str(self.data_path), **self.options)
            self._attached = True
        return self.oracle.execute(sql)

    def _release(self) -> None:
        if self._lake is not None:
            self._lake.close()
            self._lake = None

    def close(self) -> None:
        self._release()
        if self._attached:
            self.oracle.detach()
            self._attached = False

    def table(self, name: str, columns: Any, **options: Any) -> Table:
        """A new table of ours."""
        return self.ours.create_table(name, columns, **options)

    def theirs(self, table: str, *, without: Sequence[str] = ()) -> list[str]:
        """All rows as the extension reads them, in one spelling and order."""
        described = self.ask(f"DESCRIBE SELECT * FROM {table}")
        wanted = ", ".join(comparable(name, type_) for name, type_, *_ in described if name not in without)
        return in_order(self.ask(f"SELECT {wanted} FROM {table}"))

    def texts(self, table: str, order_by: str | None = None) -> dict[str, list[Any]]:
        """By column, the values as the extension prints them."""
        described = self.ask(f"DESCRIBE SELECT * FROM {table}")
        names = [row[0] for row in described]
        wanted = ", ".join(f"CAST({quoted(name)} AS VARCHAR)" for name in names)
        order = f" ORDER BY {order_by}" if order_by else ""
        rows = self.ask(f"SELECT {wanted} FROM {table}{order}")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def mine(self, table: str, *, without: Sequence[str] = ()) -> list[str]:
        """All rows as Spark reads them, in the same spelling and order."""
        return in_order(self.ours.table(table).drop(*without).collect())

    def check(self, table: str, *, without: Sequence[str] = ()) -> int:
        """Both read the same rows. Returns how many."""
        theirs = self.theirs(table, without=without)
        mine = self.mine(table, without=without)
        if mine != theirs:
            pairs = [pair for pair in zip_longest(mine, theirs) if pair[0] != pair[1]]
            raise AssertionError(
                f"{table}, {len(pairs)} rows differ. Ours and theirs:\n{pairs[0][0]}\n{pairs[0][1]}"
            )
        return len(theirs)

    def rows(self, table: str, *columns: str, where: Any = None) -> list[tuple[Any, ...]]:
        """Rows of a table of the catalog."""
        found = self.catalog()[table]
        chosen = [row for row in found if where is None or where(row)]
        return [tuple(row[name] for name in columns or row) for row in chosen]

    def catalog(self) -> catalogs.Catalog:
        """Everything in the catalog; both users are closed after."""
        self.close()
        return catalogs.dump(self.uri)

    def files(self) -> list[str]:
        """Every file below the data path, relative to it."""
        return files_below(self.data_path)

    def registered(self) -> list[str]:
        """Every data and delete file that the catalog knows, relative to the data path."""
        catalog = self.catalog()
        schemas = {row["schema_id"]: row["path"] for row in catalog["ducklake_schema"]}
        folders = {
            row["table_id"]: schemas[row["schema_id"]] + row["path"] for row in catalog["ducklake_table"]
        }
        kept: Sequence[Any] = [*catalog["ducklake_data_file"], *catalog["ducklake_delete_file"]]
        return sorted(folders[row["table_id"]] + row["path"] for row in kept)


def files_below(folder: Path) -> list[str]:
    """Every file below a folder, relative to it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
