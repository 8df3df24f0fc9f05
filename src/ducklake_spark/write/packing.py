"""The files of one write packed into as few as the target size allows, in the order of their rows.

Each task of Spark writes files of its own, however few rows it has. Files that are small together become one: rows are
written again where row groups would be tiny, and whole row groups are copied otherwise, which costs next to nothing.
No row moves from one task to another for it, so that large writes are as parallel as they were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ducklake_spark.write.concat import UnlikeFilesError, concat
from ducklake_spark.write.encode import Encoding

_ROW_GROUP = 122_880
"""Rows of a row group as DuckDB writes it: no more of them than these should be one."""
_FEW_ROWS = 2_048
"""Files that have fewer rows on average make row groups that are too small."""
_LARGEST_SORT = 64 * 1024 * 1024
"""Bytes of sorted files that are sorted together again."""
_HERE = 256 * 1024 * 1024
"""Bytes that this process packs by itself: a job of Spark would take longer than that."""
_RESULT = pa.schema([("bin", pa.int64()), ("result", pa.string())])


@dataclass(frozen=True)
class WrittenFile:
    """A file of a write: what must be known to pack it. Only files of the same partition come together."""

    path: str
    rows: int
    size: int
    partition: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Packed:
    """A file that others became, in the path of the first of them or in a new one.

    Attributes:
        files: The files that it is made of; one that stayed as it was is alone.
        path: Where it is.
        size: How long it is.
        footer_size: How long its footer is; None for a file that stayed as it was.
        info: What the encoder says of a file that was written again.
    """

    files: tuple[WrittenFile, ...]
    path: str
    size: int = 0
    footer_size: int | None = None
    info: str | None = None


def bins(files: Sequence[WrittenFile], target_size: int) -> list[tuple[WrittenFile, ...]]:
    """Neighbours of one partition that are together no larger than the target, in the order of the first of each.

    >>> sizes = [WrittenFile(str(size), 1, size) for size in (3, 4, 2, 9, 1, 1)]
    >>> [[file.size for file in some] for some in bins(sizes, 8)]
    [[3, 4], [2], [9], [1, 1]]
    """
    found: list[list[WrittenFile]] = []
    open_bins: dict[tuple[Any, ...], list[WrittenFile]] = {}
    for file in files:
        current = open_bins.get(file.partition)
        if current is None or sum(each.size for each in current) + file.size > target_size:
            current = open_bins[file.partition] = []
            found.append(current)
        current.append(file)
    return [tuple(each) for each in found]


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

    def pack(self, files: Sequence[WrittenFile], frame: Any) -> list[Packed]:
        """Packs files here, or in a job of the session of a DataFrame where there is much to do."""
        limit = min(self.target_size, _LARGEST_SORT) if self.is_sorted else self.target_size
        found = bins(files, limit)
        work = [each for each in found if len(each) > 1]
        results: list[tuple[int, str]]
        if sum(file.size for each in work for file in each) <= _HERE:
            results = [(number, self._result(each)) for number, each in enumerate(work)]
        else:
            tasks = _Tasks(self, tuple(work))
            numbers = frame.sparkSession.range(0, len(work), 1, len(work))
            made = numbers.mapInArrow(tasks, "bin bigint, result string").collect()
            results = [(row[0], row[1]) for row in made]
        done = {work[number][0].path: result for number, result in results}
        packed: list[Packed] = []
        for each in found:
            if each[0].path in done:
                packed += _of_result(each, json.loads(done[each[0].path]))
            else:
                packed.append(Packed(each, each[0].path))
        return packed

    def _result(self, files: Sequence[WrittenFile]) -> str:
        paths = [file.path for file in files]
        rows = sum(file.rows for file in files)
        if self.is_sorted or rows <= _ROW_GROUP or rows < _FEW_ROWS * len(files):
            return json.dumps({"again": self.encoding.again(paths)})
        if self.encoding.variants:
            # They are shredded otherwise in each file, and so are their statistics.
            return json.dumps({})
        try:
            return json.dumps({"joined": concat(paths)})
        except UnlikeFilesError:
            return json.dumps({})


def _of_result(files: tuple[WrittenFile, ...], result: dict[str, Any]) -> Iterator[Packed]:
    if "again" in result:
        # One file as a rule; DuckDB cuts by what it thinks that a file takes.
        for path, info in result["again"]:
            yield Packed(files, path, info=json.dumps(info))
    elif "joined" in result:
        size, footer_size = result["joined"]
        yield Packed(files, files[0].path, size, footer_size)
    else:
        yield from (Packed((file,), file.path) for file in files)


@dataclass(frozen=True)
class _Tasks:
    """Packs the bins of these numbers, in the workers."""

    packing: Packing
    work: tuple[tuple[WrittenFile, ...], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = self.packing._result(self.work[number])
                yield pa.record_batch([pa.array([number]), pa.array([result])], schema=_RESULT)
