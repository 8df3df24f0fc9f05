"""Makes a new lake in a catalog database, and says what a database holds before anybody relies on it."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import CatalogVersionError, NotADuckLakeError
from ..format.versions import FORMAT_1_0, FORMATS, OLD_VERSIONS, LakeFormat, format_of
from .store import Failure, Row, Session, Store
from .tables import TABLES, insert_columns, tables_of

_ATTEMPTS = 5


@dataclass(frozen=True)
class CatalogState:
    """What a database holds.

    `exists` is whether it holds a lake; `options` are then the lake's global options, `version`, `data_path` and
    `encrypted` among them.
    """

    exists: bool
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str | None:
        return self.options.get("version")


def inspect(store: Store, *, versions: Sequence[str] = ()) -> CatalogState:
    """What the database of a store holds. A database with only other people's tables holds no lake, and may get one.

    The store knows the format of its lake afterwards. Versions that are asked for are told, although they have none.

    Raises:
        CatalogVersionError: The lake has a version that is neither read and written nor asked for.
        NotADuckLakeError: Some tables of a lake are there, and others are missing.
    """
    names = store.table_names()
    if not names & TABLES.keys():
        return CatalogState(exists=False)
    rows = store.query("SELECT * FROM ducklake_metadata") if "ducklake_metadata" in names else []
    options = _global_options(rows)
    version = options.get("version")
    found = format_of(version)
    if version is not None and found is None and version not in versions:
        raise CatalogVersionError(_version_text(store, version))
    store.format = found or FORMAT_1_0
    missing = [table for table in tables_of(store.format) if table not in names]
    if found is not None and missing:
        raise NotADuckLakeError(
            f"The catalog {store.display} holds only part of a lake: {', '.join(missing)} missing. Restore the "
            "database from a backup, or create the lake in an empty one."
        )
    if version is None:
        if not store.transactional_ddl and not rows and not _has_snapshots(store, names):
            return CatalogState(
                exists=False
            )  # its creator did not live to insert the first rows: it can be finished
        raise NotADuckLakeError(
            f"The catalog {store.display} holds only part of a lake: ducklake_metadata has no version"
            + (f", and {', '.join(missing)} missing" if missing else "")
            + ". Create the lake in an empty database, or in a METADATA_SCHEMA of its own."
        )
    return CatalogState(exists=True, options=options)


def initialize(
    store: Store,
    *,
    data_path: str,
    encrypted: bool,
    created_by: str,
    lake_format: LakeFormat = FORMAT_1_0,
) -> bool:
    """Makes a new lake as the extension does on that database.

    Args:
        store: The database.
        data_path: As it is stored: with a trailing slash.
        encrypted: Whether data files are encrypted.
        created_by: The program that made the lake, for people who wonder.
        lake_format: The format that it has.

    Returns:
        False when another process made the lake in the meantime: attach to that one.

    Raises:
        NotADuckLakeError, CatalogVersionError: As `inspect()`.
    """
    options = {
        "version": lake_format.version,
        "created_by": created_by,
        "data_path": data_path,
        "encrypted": "true" if encrypted else "false",
    }
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            made = _create(store, options, lake_format)
        except store.driver_errors as error:
            store.forget_connections()
            if inspect(store).exists:  # by the extension, which takes no lock of ours
                return False
            if store.classify(error) is Failure.FATAL or attempt == _ATTEMPTS:
                raise store.translated(error) from error
            time.sleep(random.uniform(0.05, 0.1) * attempt)
        else:
            store.forget_connections()  # they did not find the metadata schema when they were opened
            return made
    raise AssertionError("unreachable")


def _create(store: Store, options: Mapping[str, str], lake_format: LakeFormat) -> bool:
    with store.begin() as session:
        if store.creation_lock_sql is not None:
            session.query(store.creation_lock_sql)
        if inspect(store).exists:
            return False
        present = store.table_names()  # not empty only where a crash can leave some
        store.create_schema(session)
        for table in tables_of(lake_format).values():
            if table.name not in present:
                columns = [(column.name, column.type) for column in table.columns]
                session.create_table(store.create_table_sql(table.name, columns))
        _first_rows(store, session, options)
    return True


def _first_rows(store: Store, session: Session, options: Mapping[str, str]) -> None:
    session.insert("ducklake_metadata", [(key, value, None, None) for key, value in options.items()])
    columns = insert_columns("ducklake_snapshot", 5)
    session.execute(f"INSERT INTO ducklake_snapshot{columns} VALUES (0, {store.now_sql}, 0, 1, 0)")
    session.insert("ducklake_snapshot_changes", [(0, 'created_schema:"main"', None, None, None)])
    session.insert("ducklake_schema", [(0, str(uuid.uuid4()), 0, None, "main", "main/", True)])


def version_of(rows: Sequence[Row]) -> str | None:
    """The format version, out of the rows of `ducklake_metadata`."""
    return _global_options(rows).get("version")


def _global_options(rows: Sequence[Row]) -> dict[str, str]:
    # Key, value and scope; the first format had no scopes.
    return {row[0]: row[1] for row in rows if len(row) < 3 or row[2] is None}


def _has_snapshots(store: Store, names: set[str]) -> bool:
    return "ducklake_snapshot" in names and bool(store.query("SELECT 1 FROM ducklake_snapshot LIMIT 1"))


def _version_text(store: Store, version: str) -> str:
    known = " and ".join(each.version for each in FORMATS)
    text = f"The lake {store.display} has format version {version}; this package reads and writes {known}."
    if version in OLD_VERSIONS:
        return (
            f"{text} Attach it with automatic_migration=True to bring it to {FORMAT_1_0.version}; older versions of "
            "DuckDB's extension cannot open it then."
        )
    return f"{text} A newer ducklake-spark may know it."
