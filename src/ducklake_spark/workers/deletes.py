"""The deleted positions of data files become delete files, or deletes in the catalog, by the rules of the format."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from ducklake_spark.format.deletion_vector import bitmap_positions, stamped_bits, vector_of
from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.encryption import FileKey, new_key
from ducklake_spark.format.objects import uuid7
from ducklake_spark.format.types import text_literal
from ducklake_spark.workers.object_store import NOWHERE, Access, is_remote
from ducklake_spark.workers.parquet_source import encryption_options, parquet, unreadable

if TYPE_CHECKING:
    from ducklake_spark.format.deletion_vector import Positions

VECTOR = ".puffin"
"""How the name of a deletion vector ends."""
_ANY = 2**62
"""A snapshot after all others."""
MOVED_MARK = "ducklake-spark merged meanwhile:"
"""Stands in the exceptions of workers that meet rows of a file which came after the transaction began."""
RESULT = pa.schema([("info", pa.string())])
FIELDS = "{file_path: 2147483646, pos: 2147483645, _ducklake_internal_snapshot_id: 2147483539}"
PLAIN_FIELDS = "{file_path: 2147483646, pos: 2147483645}"


@dataclass(frozen=True)
class TableFile:
    """What a worker must know of a data file: its rows, and the deletes that are there already."""

    path: str
    record_count: int
    inlined_deletes: int = 0
    """Rows that inlined deletes removed. A file with any does not end, even if no row of it is left."""
    new_inlined_deletes: int = 0
    """Rows that inlined deletes of this transaction remove."""
    delete_file: str | None = None
    delete_key: FileKey | None = None
    delete_count: int = 0
    delete_begin: int = 0
    delete_id: int | None = None
    delete_path: tuple[str, bool] | None = None
    """The committed delete file as `files_scheduled_for_deletion` names it."""
    is_vector: bool = False
    """The delete file is a deletion vector, which does not say when each of its rows was deleted."""
    pending: bool = False
    """The delete file is of this transaction: it is merged, not replaced."""

    @property
    def rows_left(self) -> int:
        """How many rows are not deleted."""
        return self.record_count - self.delete_count - self.inlined_deletes - self.new_inlined_deletes


@dataclass(frozen=True)
class DeleteEncoding:
    """Turns the deleted positions of each file into what the format wants of them."""

    folder: str
    limit: int
    stamp: int
    files: Mapping[int, TableFile] = field(default_factory=dict)
    vectors: bool = False
    """Whether delete files are deletion vectors."""
    encrypted: bool = False
    """Whether delete files are encrypted, each with a key of its own."""
    access: Access = NOWHERE
    """How the store of the folder is reached, and that of older delete files."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of (file id, name, positions); one answer for each."""
        for batch in batches:
            for row in batch.to_pylist():
                info = self.answer(row["f"], row["n"], row["p"])
                yield pa.record_batch([pa.array([json.dumps(info)])], schema=RESULT)

    def answer(
        self, file_id: int | None, name: str | None, deleted: Sequence[int] | Positions
    ) -> dict[str, Any]:
        """What becomes of the deletes of one file, or of rows in the catalog."""
        import numpy as np

        positions = np.unique(np.asarray(deleted, np.int64))
        answer: dict[str, Any] = {"file": file_id, "name": name, "count": len(positions)}
        if file_id is None:
            return answer | {"positions": positions.tolist()}
        if file_id not in self.files:
            raise RuntimeError(f"{MOVED_MARK} data file {file_id}")
        file = self.files[file_id]
        own = file_id < 0
        if not own and len(positions) <= self.limit:
            return answer | {"positions": positions.tolist()}
        # Deletes that the catalog keeps do not count: the extension's feeds would tell of them again when a file ends.
        if file.delete_count + len(positions) == file.record_count:
            return answer | {"ended": True}
        return answer | {"written": self._write(file, positions, own=own)}

    def _write(self, file: TableFile, positions: Positions, *, own: bool) -> dict[str, Any]:
        """A delete file with these positions and those of the file that it takes the place of."""
        if not is_remote(self.folder):
            os.makedirs(self.folder, exist_ok=True)
            return self._written(file, positions, self.folder, own=own)
        with tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch:
            if file.delete_file is not None:
                [known] = self.access.fetch_all([file.delete_file], scratch)
                file = replace(file, delete_file=known)
            written = self._written(file, positions, scratch, own=own)
            path = f"{self.folder.rstrip('/')}/{os.path.basename(written['path'])}"
            self.access.upload(written["path"], path)
            return written | {"path": path}

    def _written(self, file: TableFile, positions: Positions, folder: str, *, own: bool) -> dict[str, Any]:
        """Writes it into a folder of this machine."""
        if self.vectors:
            return self._write_vector(file, positions, folder)
        # A vector of this transaction does not tell its own deletes from those that it took over.
        history = file.delete_file is not None and not own and not (file.pending and file.is_vector)
        history = history and not (file.pending and file.delete_id is None)
        path = os.path.join(folder, f"ducklake-{uuid7()}-delete.parquet")
        with duckdb.connect(":memory:", config={"threads": 1}) as connection:
            connection.register("added", pa.table({"pos": pa.array(positions)}))
            parts = [f"SELECT pos, CAST({self.stamp} AS BIGINT) AS s FROM added"]
            if file.delete_file is not None and file.is_vector:
                connection.register("old", stamped_vector(file.delete_file, file.delete_begin))
                parts.append("SELECT pos, s FROM old")
            elif file.delete_file is not None:
                old = parquet(connection, file.delete_file, file.delete_key)
                names = connection.sql(f"SELECT * FROM {old} LIMIT 0").columns
                stamped = "_ducklake_internal_snapshot_id" in names
                stamp = (
                    "_ducklake_internal_snapshot_id" if stamped else f"CAST({file.delete_begin} AS BIGINT)"
                )
                parts.append(f"SELECT pos, {stamp} AS s FROM {old}")
            extra = ", min(s) AS _ducklake_internal_snapshot_id" if history else ""
            select = f"SELECT {text_literal(file.path)} AS file_path, pos{extra} FROM "
            # What was added is in order, and once.
            select += (
                f"({' UNION ALL '.join(parts)}) GROUP BY pos ORDER BY pos"
                if len(parts) > 1 or history
                else "added"
            )
            fields = FIELDS if history else PLAIN_FIELDS
            key = new_key() if self.encrypted else None
            row = first_row(connection.execute(copied(connection, select, path, fields, key)))
        assert row is not None
        return {
            **{"path": path, "count": row[1], "size": row[2], "footer": row[3], "history": history},
            "key": None if key is None else key.text,
        }

    def _write_vector(self, file: TableFile, positions: Positions, folder: str) -> dict[str, Any]:
        """A deletion vector of all positions; as it has no place for snapshots, the one before it ends with it."""
        import numpy as np

        known = file.delete_file
        old = [] if known is None else [deleted_positions(known, file.delete_key)]
        deleted_rows = np.unique(np.concatenate([*old, positions]))
        path = os.path.join(folder, f"ducklake-{uuid7()}-delete.puffin")
        data = vector_of(deleted_rows)
        with open(path, "xb") as vector:
            vector.write(data)
        return {
            "path": path,
            "count": len(deleted_rows),
            "size": len(data),
            "footer": 0,
            "history": False,
            "key": None,
        }


def copied(
    connection: duckdb.DuckDBPyConnection, select: str, path: str, fields: str, key: FileKey | None
) -> str:
    """The COPY that writes a delete file, and says what it wrote."""
    options = ["FORMAT parquet", f"FIELD_IDS {fields}", "RETURN_STATS", *encryption_options(connection, key)]
    return f"COPY ({select}) TO {text_literal(path)} ({', '.join(options)})"


def positions_at(path: str, key: FileKey, snapshot_id: int) -> Positions:
    """The positions in an encrypted delete file of this machine that were deleted at a snapshot."""
    import numpy as np

    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        try:
            source = parquet(connection, path, key)
            names = connection.sql(f"SELECT * FROM {source} LIMIT 0").columns
            stamp = "_ducklake_internal_snapshot_id"
            at = f" WHERE coalesce({stamp}, 0) <= {snapshot_id}" if stamp in names else ""
            found = connection.execute(f"SELECT pos FROM {source}{at}").fetchnumpy()["pos"]
        except duckdb.Error as error:
            raise unreadable(error, path) or error from None
    positions: Positions = found.astype(np.int64)
    return positions


def stamped_vector(path: str, begin: int) -> pa.Table:
    """The positions in a deletion vector with the snapshots of their deletes: `begin` where it does not tell them."""
    with open(path, "rb") as vector:
        found = stamped_bits(vector.read())
    stamps = [begin if stamp is None else stamp for _, stamp in found]
    return pa.table(
        {"pos": pa.array([pos for pos, _ in found], pa.int64()), "s": pa.array(stamps, pa.int64())}
    )


def deleted_positions(path: str, key: FileKey | None = None) -> Positions:
    """All positions in a delete file of this machine, whenever they were deleted."""
    import numpy as np
    import pyarrow.parquet as pq

    if path.endswith(VECTOR):
        with open(path, "rb") as vector:
            return bitmap_positions(vector.read())
    if key is not None:
        return positions_at(path, key, _ANY)
    positions: Positions = pq.read_table(path, columns=["pos"]).column("pos").to_numpy().astype(np.int64)
    return positions
