"""Lakes for scan tests: made by the extension, read by us, compared row for row at every snapshot."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import VariantVal

from ducklake_spark.catalog.location import parse_location
from ducklake_spark.catalog.open import open_store
from ducklake_spark.catalog.snapshot import Cache, SnapshotReader, snapshot_at_version
from ducklake_spark.catalog.store import Store
from ducklake_spark.scan.planning.plan import LakeInfo
from ducklake_spark.scan.read import Pending, ReadOptions, read_table
from tests.interop.oracle import Oracle, OracleError, quoted


class Lake:
    """A lake that the oracle writes and we read; the two take turns, because a DuckDB file has one owner."""

    def __init__(self, oracle: Oracle, spark: SparkSession, uri: str, data_path: Path | str) -> None:
        self.oracle, self.spark, self.uri, self.data_path = oracle, spark, uri, str(data_path)
        self.options: dict[str, Any] = {}
        self._store: Store | None = None
        self._attached = False

    def write(self, *statements: str) -> None:
        """Runs statements of the extension."""
        self._release()
        self._attach()
        for statement in statements:
            self.oracle.execute(statement)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the extension."""
        self._release()
        self._attach()
        return self.oracle.execute(sql)

    def _attach(self) -> None:
        if not self._attached:
            self.oracle.attach(self.uri, data_path=self.data_path, **self.options)
            self._attached = True

    def _release(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    @property
    def store(self) -> Store:
        """The catalog, opened by us."""
        if self._attached:
            self.oracle.detach()
            self._attached = False
        if self._store is None:
            self._store = open_store(parse_location(self.uri))
        return self._store

    def close(self) -> None:
        self._release()
        self.oracle.detach()
        self._attached = False

    def read(
        self,
        table: str,
        version: int | None = None,
        *,
        virtual: Sequence[str] = (),
        pending: Pending | None = None,
        timestamp_ns: Any = "long",
    ) -> DataFrame:
        """Our DataFrame of a table."""
        store = self.store
        if version is None:
            version = store.query("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0]
        snapshot = snapshot_at_version(store, version)
        reader = SnapshotReader(store, snapshot, Cache())
        schema_name, _, name = table.rpartition(".")
        schema = next(s for s in reader.schemas() if s.name == (schema_name or "main"))
        found = reader.table(schema.schema_id, name)
        assert found is not None, f"no table {table} at {version}"
        metadata = dict(store.query('SELECT "key", value FROM ducklake_metadata WHERE scope IS NULL'))
        info = LakeInfo("lake", metadata["data_path"], metadata["encrypted"] == "true")
        options = ReadOptions(timestamp_ns=timestamp_ns, virtual_columns=tuple(virtual))
        return read_table(self.spark, store, info, schema, found, snapshot, options, pending)

    def versions(self) -> list[int]:
        """All snapshots."""
        return [row[0] for row in self.store.query("SELECT snapshot_id FROM ducklake_snapshot ORDER BY 1")]

    def check(self, table: str, *, where: str | None = None) -> int:
        """Compares all rows with the extension's, at every snapshot that has the table. Returns how many were compared."""
        versions = [
            row[0] for row in self.ask("SELECT snapshot_id FROM ducklake_snapshots('lake') ORDER BY 1")
        ]
        return self._check(table, versions, where, where)

    def check_newest(self, table: str, *, where: str, theirs: str | None = None) -> int:
        """Compares the rows of the newest snapshot for which a condition holds; in its words if they differ."""
        versions = self.ask("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")
        return self._check(table, [versions[0][0]], where, theirs or where)

    def _check(self, table: str, versions: Sequence[int], where: str | None, their_where: str | None) -> int:
        theirs: dict[int, list[Any]] = {}
        condition = f" WHERE {their_where}" if their_where else ""
        for version in versions:
            try:
                described = self.ask(f"DESCRIBE SELECT * FROM {table} AT (VERSION => {version})")
            except OracleError as error:
                if "does not exist" not in str(error):
                    raise
                continue
            wanted = ", ".join(comparable(name, type_) for name, type_, *_ in described)
            theirs[version] = self.ask(f"SELECT {wanted} FROM {table} AT (VERSION => {version}){condition}")
        compared = 0
        for version, rows in theirs.items():
            frame = self.read(table, version)
            ours = (frame.where(where) if where else frame).collect()
            assert in_order(ours) == in_order(rows), f"{table} at version {version}, {where or 'all rows'}"
            compared += len(rows)
        return compared


def comparable(name: str, type_: str) -> str:
    """SQL of the extension for a column in the form in which we show it."""
    column = quoted(name)
    if type_ == "TIMESTAMP_NS":
        return f"epoch_ns({column})"
    if type_ == "TIME WITH TIME ZONE":
        return f"CAST(timezone('UTC', {column}) AS TIME)"
    if type_ == "INTERVAL":
        months = f"datepart('year', {column}) * 12 + datepart('month', {column})"
        clock = f"datepart('hour', {column}) * 3600000000 + datepart('minute', {column}) * 60000000"
        micros = f"{clock} + datepart('microsecond', {column})"
        days = f"datepart('day', {column})"
        return f"CASE WHEN {column} IS NOT NULL THEN {{'months': {months}, 'days': {days}, 'micros': {micros}}} END"
    if type_ == "VARIANT":
        return f"CASE WHEN {column} IS NOT NULL THEN CAST({column} AS JSON) END"
    return column


def in_order(rows: Sequence[Any]) -> list[str]:
    """Rows as sorted texts, each value in one spelling whichever side it came from."""
    return sorted(repr(tuple(plain(value) for value in row)) for row in rows)


def plain(value: Any) -> Any:
    """A value in one spelling."""
    if isinstance(value, Row):
        return {name: plain(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        return {plain(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, datetime.time):
        text = value.isoformat()
        return text.rstrip("0") if "." in text else text
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else value.normalize()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, VariantVal):
        return value.toJson()
    return value
