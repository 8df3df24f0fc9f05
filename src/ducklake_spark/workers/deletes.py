"""The deleted positions of data files become delete files, or deletes in the catalog, by the rules of the format."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from ducklake_spark.format.objects import uuid7
from ducklake_spark.scan.deletes import bitmap_positions

RESULT = pa.schema([("info", pa.string())])
FIELDS = "{file_path: 2147483646, pos: 2147483645, _ducklake_internal_snapshot_id: 2147483539}"
PLAIN_FIELDS = "{file_path: 2147483646, pos: 2147483645}"


@dataclass(frozen=True)
class TableFile:
    """What a worker must know of a data file: its rows, and the deletes that are there already."""

    path: str
    record_count: int
    gone: int = 0
    """Rows that inlined deletes removed. A file with any does not end, even if no row of it is left."""
    going: int = 0
    """Rows that inlined deletes of this transaction remove."""
    delete_file: str | None = None
    delete_count: int = 0
    delete_begin: int = 0
    delete_id: int | None = None
    delete_path: tuple[str, bool] | None = None
    """The committed delete file as `files_scheduled_for_deletion` names it."""
    is_vector: bool = False
    """The delete file is a deletion vector; what takes its place is a Parquet file."""
    pending: bool = False
    """The delete file is of this transaction: it is merged, not replaced."""

    @property
    def rows_left(self) -> int:
        """How many rows are not deleted."""
        return self.record_count - self.delete_count - self.gone - self.going


@dataclass(frozen=True)
class DeleteEncoding:
    """Turns the deleted positions of each file into what the format wants of them."""

    folder: str
    limit: int
    stamp: int
    files: Mapping[int, TableFile] = field(default_factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of (file id, name, positions); one answer for each."""
        for batch in batches:
            for row in batch.to_pylist():
                info = self.answer(row["f"], row["n"], row["p"])
                yield pa.record_batch([pa.array([json.dumps(info)])], schema=RESULT)

    def answer(self, file_id: int | None, name: str | None, deleted: Iterable[int]) -> dict[str, Any]:
        """What becomes of the deletes of one file, or of rows in the catalog."""
        positions = sorted(set(deleted))
        answer: dict[str, Any] = {"file": file_id, "name": name, "count": len(positions)}
        if file_id is None:
            return answer | {"positions": positions}
        file = self.files[file_id]
        own = file_id < 0
        if not own and len(positions) <= self.limit:
            return answer | {"positions": positions}
        # Deletes that the catalog keeps do not count: the extension's feeds would tell of them again when a file ends.
        if file.delete_count + len(positions) == file.record_count:
            return answer | {"ended": True}
        return answer | {"written": self._write(file, positions, own=own)}

    def _write(self, file: TableFile, positions: Sequence[int], *, own: bool) -> dict[str, Any]:
        """A delete file with these positions and those of the file that it takes the place of."""
        history = file.delete_file is not None and not own and not (file.pending and file.delete_id is None)
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, f"ducklake-{uuid7()}-delete.parquet")
        with duckdb.connect(":memory:", config={"threads": 1}) as connection:
            connection.register("added", pa.table({"pos": pa.array(positions, pa.int64())}))
            parts = [f"SELECT pos, CAST({self.stamp} AS BIGINT) AS s FROM added"]
            if file.delete_file is not None and file.is_vector:
                with open(file.delete_file, "rb") as vector:
                    gone = bitmap_positions(vector.read())
                connection.register("old", pa.table({"pos": pa.array(gone, pa.int64())}))
                parts.append(f"SELECT pos, CAST({file.delete_begin} AS BIGINT) AS s FROM old")
            elif file.delete_file is not None:
                old = "'" + file.delete_file.replace("'", "''") + "'"
                names = connection.execute(f"SELECT * FROM read_parquet({old}) LIMIT 0").description or []
                stamped = any(column[0] == "_ducklake_internal_snapshot_id" for column in names)
                stamp = (
                    "_ducklake_internal_snapshot_id" if stamped else f"CAST({file.delete_begin} AS BIGINT)"
                )
                parts.append(f"SELECT pos, {stamp} AS s FROM read_parquet({old})")
            extra = ", min(s) AS _ducklake_internal_snapshot_id" if history else ""
            quoted = "'" + file.path.replace("'", "''") + "'"
            union = " UNION ALL ".join(parts)
            select = f"SELECT {quoted} AS file_path, pos{extra} FROM ({union}) GROUP BY pos ORDER BY pos"
            fields = FIELDS if history else PLAIN_FIELDS
            target = "'" + path.replace("'", "''") + "'"
            row = connection.execute(
                f"COPY ({select}) TO {target} (FORMAT parquet, FIELD_IDS {fields}, RETURN_STATS)"
            ).fetchone()
        assert row is not None
        return {"path": path, "count": row[1], "size": row[2], "footer": row[3], "history": history}
