"""Brings the catalog of a lake of format 1.0 to 1.1: names of inlined columns, new columns, a new table, the version.

All of it is one transaction. On MySQL, which cannot undo changes of tables, each is made only if it is missing: an
upgrade that was interrupted goes on when it is asked for again.
"""

from __future__ import annotations

from ..errors import CatalogError
from ..format.types import fold
from ..format.versions import FORMAT_1_0, LakeFormat, format_of
from .create import version_of
from .migrate import set_version
from .pool import quoted
from .store import Session, Store
from .tables import tables_of


def upgrade(store: Store, wanted: LakeFormat) -> bool:
    """Gives a lake of format 1.0 a newer one.

    Returns:
        False if it has another format: another process was faster.

    Raises:
        CatalogError: A column of a table has a name that the newer format takes. Nothing has changed then.
    """
    with store.begin() as session:
        for lock in (store.creation_lock_sql, store.commit_lock_sql):
            if lock is not None:
                session.query(lock)
        if format_of(version_of(session.query("SELECT * FROM ducklake_metadata"))) is not FORMAT_1_0:
            return False
        renamed = [
            (table, *pair)
            for (table,) in session.query("SELECT table_name FROM ducklake_inlined_data_tables")
            for pair in _renamed(store, session, str(table), wanted)
        ]
        for table, old, new in renamed:
            session.create_table(
                f"ALTER TABLE {quoted(str(table))} RENAME COLUMN {quoted(old)} TO {quoted(new)}"
            )
        _add_tables(store, session, wanted)
        set_version(session, wanted.version)
    store.forget_connections()
    return True


def _renamed(store: Store, session: Session, table: str, wanted: LakeFormat) -> list[tuple[str, str]]:
    """The columns of a table of inlined rows that get other names."""
    found = _columns(store, session, table)
    new = wanted.inlined.all
    taken = [name for name in found[len(new) :] if fold(name) in new]
    if taken:
        raise CatalogError(
            f'The lake {store.display} stays at format {FORMAT_1_0.version}: a table has a column "{taken[0]}", a name '
            f"that {wanted.version} has for itself in {table}. Flush the table's inlined data, rename the column, and "
            "try again."
        )
    return [(old, name) for old, name in zip(found, new, strict=False) if old != name]


def _add_tables(store: Store, session: Session, wanted: LakeFormat) -> None:
    present = store.table_names()
    for table in tables_of(wanted).values():
        if table.name not in present:
            columns = [(column.name, column.type) for column in table.columns]
            session.create_table(store.create_table_sql(table.name, columns))
            continue
        known = _columns(store, session, table.name)
        for column in table.columns:
            if column.name not in known:
                kind = store.type_name(column.type)
                session.create_table(f"ALTER TABLE {table.name} ADD COLUMN {quoted(column.name)} {kind}")


def _columns(store: Store, session: Session, table: str) -> list[str]:
    return [str(row[0]) for row in session.query(store.columns_sql, (table,))]
