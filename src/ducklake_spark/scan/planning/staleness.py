"""Whether what a scan found is where it was, when the lake changed while it looked.

A reader who begins anew at every commit of anybody would never end in a busy lake.
"""

from __future__ import annotations

from ducklake_spark.catalog.store import Store
from ducklake_spark.errors import CatalogError
from ducklake_spark.format.changes import parse_changes


def has_moved(
    store: Store, table_id: int, since: int, *, by_deletes: bool = False, in_files_only: bool = False
) -> bool:
    """Whether rows that older snapshots see may have gone from the catalog to a file, or from one file to another.

    Args:
        store: The catalog.
        table_id: The table.
        since: The newest snapshot before one looked.
        by_deletes: Whether deletes matter too: they replace delete files.
        in_files_only: Whether one only wants to know of rows that were in files.
    """
    rows = store.query(
        "SELECT s.snapshot_id, c.changes_made FROM ducklake_snapshot s LEFT JOIN ducklake_snapshot_changes c "
        "ON c.snapshot_id = s.snapshot_id WHERE s.snapshot_id > ? ORDER BY s.snapshot_id",
        (since,),
    )
    if [int(row[0]) for row in rows] != list(range(since + 1, since + 1 + len(rows))):
        return True  # some were expired already
    for _, text in rows:
        try:
            changes = parse_changes(text)
        except CatalogError:
            return True
        moved = changes.merge_adjacents | changes.rewrite_deletes | changes.compacted_tables
        if not in_files_only:
            moved |= changes.inline_flushes
        if by_deletes:
            moved |= changes.deleted_from_tables | changes.inlined_deletes
        if table_id in moved:
            return True
    return False
