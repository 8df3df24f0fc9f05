"""Which rows a write of whole partitions takes the place of.

A file that was written by the table's present partition keys has one value of each, which the catalog knows: it goes as
a whole, without being read. Rows in files of older keys and rows in the catalog are looked at one by one, by the same
texts of key values that the encoder writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyspark.sql.types as spark_types
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ducklake_spark.catalog.tables import LIVE
from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.data import FileDeletes
from ducklake_spark.format.edits import DeleteRows, InsertFiles
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import is_local
from ducklake_spark.format.types import quote
from ducklake_spark.spark.worker_functions import map_in_arrow
from ducklake_spark.workers.keys import AddKeyTexts
from ducklake_spark.write.expressions import carried, stored_sql
from ducklake_spark.write.partitioning.keys import encoded_keys, table_keys
from ducklake_spark.write.rowlevel.deletes import LOCATOR, delete_matching, inlined_delete_counts
from ducklake_spark.write.target import Target

Values = tuple[str | None, ...]


def require_keys(target: Target) -> None:
    """Raises InvalidInputError for a table that is not partitioned."""
    if not table_keys(target.table):
        raise InvalidInputError(
            f'Table "{target.table.name}" is not partitioned, so no partition of it can be overwritten. Use '
            "overwrite(), with a condition if some rows are to stay."
        )


def replaced(
    target: Target, added: InsertFiles, read: Callable[[frozenset[int]], DataFrame]
) -> list[DeleteRows]:
    """The changes that remove what is in the partitions of the added files.

    Args:
        target: The table.
        added: The new files, not yet part of the transaction.
        read: Reads the table without some data files, with the columns of `LOCATOR`.
    """
    values = {tuple(file.partition_values) for file in added.files}
    known = _known_files(target)
    replaced_files = {file_id for file_id, found in known.items() if found in values}
    kept = replaced_files & inlined_delete_counts(target).keys()
    ended = tuple(FileDeletes(file_id, ended=True) for file_id in sorted(replaced_files - kept))
    changes = [DeleteRows(target.table, ended)] if ended else []
    change, _ = delete_matching(target, _matching(target, read(frozenset(known) - kept), values))
    return [*changes, change] if change is not None else changes


def _known_files(target: Target) -> dict[int, Values]:
    """The committed files with one value of each present key, by id; without those that the transaction changed."""
    tx, table = target.tx, target.table
    partitioning = table.partitioning
    assert partitioning is not None
    edit = tx.edits.tables.get(table.table_id)
    if is_local(table.table_id) or is_local(partitioning.partition_id) or (edit and edit.emptied is not None):
        return {}
    at = tx.snapshot.snapshot_id
    rows = tx.store.query(
        "SELECT f.data_file_id, v.partition_key_index, v.partition_value FROM ducklake_data_file f JOIN "
        "ducklake_file_partition_value v ON v.data_file_id = f.data_file_id AND v.table_id = f.table_id "
        f"WHERE f.table_id = ? AND f.partition_id = ? AND {LIVE}",
        (table.table_id, partitioning.partition_id, at, at),
    )
    found: dict[int, dict[int, str | None]] = {}
    for file_id, index, value in rows:
        found.setdefault(int(file_id), {})[int(index)] = value
    size = len(partitioning.keys)
    changed = set(edit.deletes) if edit is not None else set()
    return {
        file_id: tuple(parts[i] for i in range(size))
        for file_id, parts in found.items()
        if len(parts) == size and file_id not in changed
    }


def _matching(target: Target, frame: DataFrame, values: Iterable[Values]) -> DataFrame:
    """The rows of a frame whose keys have one of the values; only `LOCATOR` of them."""
    table = target.table
    columns = {column.column_id: column for _, column in table_keys(table)}
    types = {part.name: part.dataType for part in frame.schema.fields}
    sent, stored = [], []
    for place, column in enumerate(columns.values()):
        moved, travels = carried(F.col(ticked(column.name)), types[column.name], column.data_type)
        sent.append(moved.alias(f"c{place}"))
        stored.append((column.name, stored_sql(f"c{place}", travels, column.data_type)))
    keys = tuple(key.sql for key in encoded_keys(table))
    names = [f"k{i}" for i in range(len(keys))]
    added = [spark_types.StructField(name, spark_types.StringType()) for name in names]
    hidden = [frame.schema[name] for name in LOCATOR]
    shown = map_in_arrow(
        frame.select(*(F.col(name) for name in LOCATOR), *sent),
        AddKeyTexts(LOCATOR, tuple((quote(name), sql) for name, sql in stored), keys),
        spark_types.StructType([*hidden, *added]),
    )
    # Few: as many as partitions.
    texts = zip(*values, strict=True)
    wanted = frame.sparkSession.createDataFrame(
        pa.table({f"w{i}": pa.array(column, pa.string()) for i, column in enumerate(texts)})
    )
    same = [F.col(name).eqNullSafe(F.col(f"w{i}")) for i, name in enumerate(names)]
    condition = same[0]
    for part in same[1:]:
        condition = condition & part
    return shown.join(F.broadcast(wanted), condition, "left_semi").select(*LOCATOR)
