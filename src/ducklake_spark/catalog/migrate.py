"""Brings the catalog of an older lake to format 1.0, as the extension does: tables and columns first, then rows.

Where the database can undo CREATE and ALTER, all of it is one transaction. Where it cannot (MySQL), each change of the
structure is made only if it is missing, and the rows and the version change together at the end: a migration that was
interrupted goes on when it is asked for again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import CatalogError
from ..format.versions import FORMAT_1_0, OLD_VERSIONS
from .create import version_of
from .pool import quoted
from .store import Session, Store
from .tables import TABLES

_RENAMED = {"ducklake_file_column_statistics": "ducklake_file_column_stats"}
_DROPPED = ("ducklake_data_file", "partial_file_info")
_DEFAULTS: dict[tuple[str, str], str] = {
    ("ducklake_schema", "path"): "''",
    ("ducklake_schema", "path_is_relative"): "true",
    ("ducklake_table", "path"): "''",
    ("ducklake_table", "path_is_relative"): "true",
    ("ducklake_name_mapping", "is_partition"): "false",
    ("ducklake_column", "default_value_type"): "'literal'",
}
"""What rows that are there already get in new columns; NULL in all others."""
_WITHOUT_TABLES = ("0.1", "0.2", "0.3-dev1", "0.3", "0.4-dev1")
"""Versions in which the lake's schema versions were not yet told table by table."""


def migrate(store: Store) -> bool:
    """Migrates a lake of an older format.

    Returns:
        False if it needed no migration: another process was faster.

    Raises:
        CatalogError: The catalog is not what its version says. Where the database can undo it, nothing has changed.
    """
    if not store.transactional_ddl and not _prepared(store):
        return False
    with _migration(store) as work:
        if work is None:
            return False
        infos = work.partial_files()
        # DuckDB does not change a table with rows that the transaction has changed: rows come last.
        work.drop_columns()
        work.add_tables()
        work.fill_partial_files(infos)
        work.change_rows()
    store.forget_connections()
    return True


def _prepared(store: Store) -> bool:
    """All that can be done again: new columns, and what is in one that goes."""
    with _migration(store) as work:
        if work is None:
            return False
        work.add_tables(is_whole=False)
    with store.begin() as session:
        again = _Migration(store, session, "")
        again.fill_partial_files(again.partial_files())
    return True


@contextmanager
def _migration(store: Store) -> Iterator[_Migration | None]:
    """A transaction on a lake of an older format; None if it has the present one."""
    with store.begin() as session:
        if store.creation_lock_sql is not None:
            session.query(store.creation_lock_sql)
        version = version_of(session.query("SELECT * FROM ducklake_metadata"))
        yield _Migration(store, session, str(version)) if version in OLD_VERSIONS else None


class _Migration:
    def __init__(self, store: Store, session: Session, version: str) -> None:
        self.store, self.session, self.version = store, session, version

    # Tables and columns

    def add_tables(self, *, is_whole: bool = True) -> None:
        """All tables and columns that are missing; `is_whole` if there is nothing else to be done to them."""
        present = self.store.table_names()
        for old, new in _RENAMED.items():
            if old in present and new not in present:
                self._alter(f"ALTER TABLE {old} RENAME TO {new}")
                present = present - {old} | {new}
        for table in TABLES.values():
            if table.name not in present:
                columns = [(column.name, column.type) for column in table.columns]
                self._alter(self.store.create_table_sql(table.name, columns))
                continue
            known = self._columns(table.name)
            for column in table.columns:
                if column.name not in known:
                    self._add(table.name, column.name, column.type)
            found = self._columns(table.name)
            if is_whole and found != list(table.column_names):
                raise CatalogError(
                    f"The lake {self.store.display} says that it has format {self.version}, but its table {table.name} "
                    f"has the columns {', '.join(found)}. It was not migrated."
                )

    def _add(self, table: str, name: str, kind: str) -> None:
        default = _DEFAULTS.get((table, name))
        text = f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {self.store.type_name(kind)}"
        if default is not None and self.store.kind != "mysql":  # its texts have no defaults
            text += f" DEFAULT {default}"
        self._alter(text)

    def partial_files(self) -> list[tuple[int, int]]:
        """What the old column says of files with rows of several snapshots: the file's id and the newest of them."""
        table, column = _DROPPED
        if column not in self._columns(table):
            return []
        asked = f"SELECT data_file_id, {column} FROM {table} WHERE {column} IS NOT NULL"
        found = (
            (file_id, re.search(r"partial_max:(\d+)", str(text)))
            for file_id, text in self.session.query(asked)
        )
        return [(int(file_id), int(match[1])) for file_id, match in found if match is not None]

    def drop_columns(self) -> None:
        """The column that the present format has no more."""
        table, column = _DROPPED
        if column in self._columns(table):
            self._alter(f"ALTER TABLE {table} DROP COLUMN {column}")

    def fill_partial_files(self, infos: Iterable[tuple[int, int]]) -> None:
        """The same in a column of its own."""
        for file_id, newest in infos:
            self.session.execute(
                "UPDATE ducklake_data_file SET partial_max = ? WHERE data_file_id = ?", (newest, file_id)
            )

    def _alter(self, sql: str) -> None:
        self.session.create_table(sql)

    def _columns(self, table: str) -> list[str]:
        return [str(row[0]) for row in self.session.query(self.store.columns_sql, (table,))]

    # Rows

    def change_rows(self) -> None:
        """What the rows say in the present format, and its version."""
        for (table, name), value in _DEFAULTS.items() if self.store.kind == "mysql" else ():
            self.session.execute(f"UPDATE {table} SET {quoted(name)} = {value} WHERE {quoted(name)} IS NULL")
        if self.version == "0.1":
            self._name_partition_columns()
        if self.version in _WITHOUT_TABLES:
            self._tell_schema_versions()
        set_version(self.session, FORMAT_1_0.version)

    def _name_partition_columns(self) -> None:
        """Partition keys named a column by its place among the columns, and name it by its id now."""
        keys = self.session.query(
            "SELECT partition_id, table_id, partition_key_index, column_id FROM ducklake_partition_column"
        )
        for partition_id, table_id, index, place in keys:
            column_id = self._column_at(partition_id, table_id, int(place))
            self.session.execute(
                "UPDATE ducklake_partition_column SET column_id = ? WHERE partition_id = ? AND table_id = ? AND "
                "partition_key_index = ?",
                (column_id, partition_id, table_id, index),
            )

    def _column_at(self, partition_id: int, table_id: int, place: int) -> int:
        """The id of a table's column: as it is now, or, of a table that is gone, as it was when it got the key."""
        known = "FROM ducklake_column WHERE table_id = ? AND parent_column IS NULL AND "
        live = self.session.query(
            f"SELECT column_id {known} end_snapshot IS NULL ORDER BY column_order", (table_id,)
        )
        if not live:
            live = self.session.query(
                f"SELECT column_id {known} begin_snapshot <= (SELECT min(begin_snapshot) FROM "
                "ducklake_partition_info WHERE partition_id = ?) AND (end_snapshot IS NULL OR end_snapshot > "
                "(SELECT min(begin_snapshot) FROM ducklake_partition_info WHERE partition_id = ?)) "
                "ORDER BY column_order",
                (table_id, partition_id, partition_id),
            )
        if place >= len(live):
            raise CatalogError(
                f"The lake {self.store.display} was not migrated: partition key {partition_id} is column {place} of "
                f"table {table_id}, which has {len(live)}."
            )
        return int(live[place][0])

    def _tell_schema_versions(self) -> None:
        """Each version of the lake's schema, for each table that was there when it began."""
        versions = self.session.query(
            "SELECT begin_snapshot, schema_version FROM ducklake_schema_versions WHERE table_id IS NULL"
        )
        if not versions and not self.session.query("SELECT 1 FROM ducklake_schema_versions LIMIT 1"):
            versions = self.session.query(
                "SELECT min(snapshot_id), schema_version FROM ducklake_snapshot GROUP BY schema_version"
            )
        tables = self.session.query("SELECT table_id, begin_snapshot, end_snapshot FROM ducklake_table")
        self.session.execute("DELETE FROM ducklake_schema_versions WHERE table_id IS NULL")
        self.session.insert("ducklake_schema_versions", sorted(set(_by_table(versions, tables))))


def set_version(session: Session, version: str) -> None:
    """Says which format the catalog has from now on."""
    session.execute("UPDATE ducklake_metadata SET value = ? WHERE \"key\" = 'version'", (version,))


def _by_table(
    versions: Sequence[tuple[Any, ...]], tables: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, int, int]]:
    for begin, version in versions:
        for table_id, born, gone in tables:
            if born <= begin and (gone is None or begin <= gone):
                yield int(begin), int(version), int(table_id)
