"""Tables about a table, as `t.files` in FROM: its snapshots, history, files, partitions and changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine import feeds, info
from ducklake_spark.engine.answers import answer
from ducklake_spark.engine.scope import Scope
from ducklake_spark.format import paths
from ducklake_spark.format.changes import ChangeSet, parse_changes
from ducklake_spark.format.objects import EPOCH, SchemaDef, TableDef
from ducklake_spark.format.partitioning import PartitionKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LIVE = "f.begin_snapshot <= ? AND (f.end_snapshot IS NULL OR f.end_snapshot > ?)"


def snapshots(scope: Scope, tx: Transaction, _schema: SchemaDef, table: TableDef) -> DataFrame:
    """Those rows of `snapshots()` that are about the table."""
    from pyspark.sql import functions as F

    ids = [row[0] for row in _snapshot_rows(scope, tx, table)]
    return info.snapshots(scope).where(F.col("snapshot_id").isin(ids))


def history(scope: Scope, tx: Transaction, _schema: SchemaDef, table: TableDef) -> DataFrame:
    """When each state of the table became the present one, and which was before it."""
    rows, parent = [], None
    for snapshot_id, micros, *_ in _snapshot_rows(scope, tx, table):
        rows.append((EPOCH + timedelta(microseconds=int(micros)), snapshot_id, parent, True))
        parent = snapshot_id
    return answer(
        scope,
        rows,
        "made_current_at timestamp, snapshot_id bigint, parent_id bigint, is_current_ancestor boolean",
    )


def _snapshot_rows(scope: Scope, tx: Transaction, table: TableDef) -> list[tuple[Any, ...]]:
    """The snapshots in which the table was made or changed, up to the one that is looked at."""
    first = tx.store.query(
        "SELECT min(begin_snapshot) FROM ducklake_table WHERE table_id = ?", (table.table_id,)
    )[0][0]
    last = tx.snapshot.snapshot_id
    return [
        row
        for row in scope.snapshot_rows()
        if row[0] <= last and (row[0] == first or _is_about(parse_changes(row[3]), table.table_id))
    ]


def _is_about(changes: ChangeSet, table_id: int) -> bool:
    """Whether a snapshot names the table; ids of schemas, views and macros are ids of other things."""
    return any(
        table_id in value
        for field in fields(changes)
        if isinstance(value := getattr(changes, field.name), set)
        and not any(other in field.name for other in ("schema", "view", "macro"))
    )


def files(scope: Scope, tx: Transaction, schema: SchemaDef, table: TableDef) -> DataFrame:
    """The data files (content 0) and delete files (content 1) of the table."""
    folder, at = info.table_path(scope, schema, table), tx.snapshot.snapshot_id
    values = _partition_values(tx, table)
    data, deletes = tx.store.query_many(
        [
            (
                "SELECT f.data_file_id, f.path, f.path_is_relative, f.file_format, f.record_count, f.file_size_bytes, "
                f"f.begin_snapshot FROM ducklake_data_file f WHERE f.table_id = ? AND {_LIVE} ORDER BY f.data_file_id",
                (table.table_id, at, at),
            ),
            (
                "SELECT f.data_file_id, f.path, f.path_is_relative, f.format, f.delete_count, f.file_size_bytes, "
                f"f.begin_snapshot FROM ducklake_delete_file f WHERE f.table_id = ? AND {_LIVE} "
                "ORDER BY f.delete_file_id",
                (table.table_id, at, at),
            ),
        ]
    )
    rows = [
        (content, paths.join(folder, path, bool(relative)), kind, values.get(i, {}), count, size, i, begin)
        for content, found in ((0, data), (1, deletes))
        for i, path, relative, kind, count, size, begin in found
    ]
    return answer(
        scope,
        rows,
        "content int, file_path string, file_format string, partition map<string, string>, record_count bigint, "
        "file_size_in_bytes bigint, data_file_id bigint, begin_snapshot bigint",
    )


def partitions(scope: Scope, tx: Transaction, _schema: SchemaDef, table: TableDef) -> DataFrame:
    """The partitions of the table that have files; rows that are deleted or inlined are not counted off or in."""
    at = tx.snapshot.snapshot_id
    values = _partition_values(tx, table)
    counted: dict[tuple[tuple[str, str | None], ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for file_id, records, size in tx.store.query(
        f"SELECT f.data_file_id, f.record_count, f.file_size_bytes FROM ducklake_data_file f "
        f"WHERE f.table_id = ? AND {_LIVE} ORDER BY f.data_file_id",
        (table.table_id, at, at),
    ):
        total = counted[tuple(values.get(file_id, {}).items())]
        for place, number in enumerate((int(records), 1, int(size))):
            total[place] += number
    rows = [(dict(key), *total) for key, total in counted.items()]
    return answer(
        scope,
        rows,
        "partition map<string, string>, record_count bigint, file_count bigint, "
        "total_data_file_size_in_bytes bigint",
    )


def _partition_values(tx: Transaction, table: TableDef) -> dict[int, dict[str, str | None]]:
    """The partition values of each file, under the names that its keys have now."""
    names = {column.column_id: column.name for column in table.columns}
    rows = tx.store.query(
        "SELECT v.data_file_id, v.partition_value, c.column_id, c.transform FROM ducklake_file_partition_value v "
        "JOIN ducklake_data_file f ON f.data_file_id = v.data_file_id AND f.table_id = v.table_id "
        "JOIN ducklake_partition_column c ON c.partition_id = f.partition_id "
        "AND c.partition_key_index = v.partition_key_index WHERE v.table_id = ? "
        "ORDER BY v.data_file_id, v.partition_key_index",
        (table.table_id,),
    )
    found: dict[int, dict[str, str | None]] = defaultdict(dict)
    for file_id, value, column_id, transform in rows:
        name = names.get(column_id, f"column {column_id}")
        found[file_id][PartitionKey(column_id, transform).text(name)] = value
    return found


def changes(scope: Scope, tx: Transaction, schema: SchemaDef, table: TableDef) -> DataFrame:
    """The change feed of the table since it was made."""
    first = _snapshot_rows(scope, tx, table)[0][0]
    last = tx.snapshot.snapshot_id
    return feeds.changes(scope, (schema.name, table.name), first, last, net=False, timestamp_ns="long")


ABOUT: Mapping[str, Callable[[Scope, Transaction, SchemaDef, TableDef], DataFrame]] = {
    "snapshots": snapshots,
    "history": history,
    "files": files,
    "partitions": partitions,
    "changes": changes,
}
"""What can stand behind a table's name and a dot."""
