"""Opens the store of a location. Drivers are imported only when their database is asked for."""

from __future__ import annotations

from .location import Location
from .store import Store


def open_store(
    location: Location,
    *,
    metadata_schema: str | None = None,
    read_only: bool = False,
    busy_timeout: int = 5000,
    create: bool = True,
) -> Store:
    """The store of a catalog database. Nothing is opened before the first query.

    Args:
        location: Where the database is.
        metadata_schema: The schema of the catalog's tables (MySQL: a database of that name).
        read_only: Refuse to begin transactions; a file that does not exist is then not made.
        busy_timeout: How long to wait for another writer, in milliseconds (SQLite and MySQL).
        create: Make the file of a DuckDB or SQLite catalog when it does not exist.

    Raises:
        MissingDriverError: The driver of the database is not installed.
        InvalidInputError: The database cannot have this metadata schema.
    """
    create = create and not read_only
    if location.kind == "sqlite":
        from .sqlite import SQLiteStore

        return SQLiteStore(
            location,
            metadata_schema=metadata_schema,
            read_only=read_only,
            busy_timeout=busy_timeout,
            create=create,
        )
    if location.kind == "postgres":
        from .postgres import PostgresStore

        return PostgresStore(location, metadata_schema=metadata_schema, read_only=read_only)
    if location.kind == "mysql":
        from .mysql import MySQLStore

        return MySQLStore(
            location, metadata_schema=metadata_schema, read_only=read_only, busy_timeout=busy_timeout
        )
    from .duckdb import DuckDBStore

    return DuckDBStore(location, metadata_schema=metadata_schema, read_only=read_only, create=create)
