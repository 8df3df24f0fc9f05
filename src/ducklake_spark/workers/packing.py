"""Small files of one write become one file, in the order of their rows.

Each task of Spark writes files of its own, however few rows it has. Files that are small together become one: rows are
written again where row groups would be tiny, and whole row groups are copied otherwise, which costs next to nothing.
No row moves from one task to another for it, so that large writes are as parallel as they were.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ducklake_spark.format.encryption import FileKey
from ducklake_spark.workers.duckdb_encoder import Encoding
from ducklake_spark.workers.object_store import beside, is_remote
from ducklake_spark.workers.parquet_concat import UnlikeFilesError, concat

_ROW_GROUP = 122_880
"""Rows of a row group as DuckDB writes it: no more of them than these should be one."""
_FEW_ROWS = 2_048
"""Files that have fewer rows on average make row groups that are too small."""
_RESULT = pa.schema([("bin", pa.int64()), ("result", pa.string())])


@dataclass(frozen=True)
class WrittenFile:
    """A file of a write: what must be known to pack it. Only files of the same partition come together."""

    path: str
    rows: int
    size: int
    partition: tuple[Any, ...] = ()
    key: FileKey | None = None


@dataclass(frozen=True)
class Packing:
    """How the files of one write are packed.

    Attributes:
        encoding: Writes rows again: columns are those of the files.
        target_size: How large a file may become.
        is_sorted: Whether rows are sorted within files, so that files cannot be joined without sorting.
    """

    encoding: Encoding
    target_size: int
    is_sorted: bool = False

    def result(self, files: Sequence[WrittenFile]) -> str:
        """What became of files, as JSON. In a store the files stay: the driver removes them."""
        if not is_remote(self.encoding.folder):
            return json.dumps(self._packed(files))
        access, job = self.encoding.access, self.encoding.folder
        inner = files[0].path.removeprefix(job.rpartition("/")[0] + "/").rpartition("/")[0]
        with tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch:
            fetched = access.fetch_all([file.path for file in files], scratch)
            local = [replace(file, path=path) for file, path in zip(files, fetched, strict=True)]
            packing = replace(self, encoding=replace(self.encoding, folder=scratch))
            result = json.loads(packing.result(local))
            if "again" in result:
                inner = f"{inner}/" if inner else ""
                placed = [(access.upload_new(path, job, inner), info) for path, info in result["again"]]
                result = {"again": placed}
            elif "joined" in result:
                result["path"] = beside(files[0].path)
                access.upload(fetched[0], result["path"])
        return json.dumps(result)

    def _packed(self, files: Sequence[WrittenFile]) -> dict[str, Any]:
        rows = sum(file.rows for file in files)
        if self.is_sorted or rows <= _ROW_GROUP or rows < _FEW_ROWS * len(files):
            return {"again": self.encoding.again([(file.path, file.key) for file in files])}
        if self.encoding.variants or self.encoding.encrypted:
            # Variants are shredded otherwise in each file, and row groups of encrypted files are bound to a key.
            return {}
        try:
            return {"joined": concat([file.path for file in files])}
        except UnlikeFilesError:
            return {}


@dataclass(frozen=True)
class PackingTasks:
    """Packs the bins of these numbers, in the workers."""

    packing: Packing
    work: tuple[tuple[WrittenFile, ...], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = self.packing.result(self.work[number])
                yield pa.record_batch([pa.array([number]), pa.array([result])], schema=_RESULT)
