"""The files of one write packed into as few as the target size allows, in the order of their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from ducklake_spark.spark.worker_functions import map_in_arrow
from ducklake_spark.workers.object_store import is_remote
from ducklake_spark.workers.packing import Packing, PackingTasks, WrittenFile

_LARGEST_SORT = 64 * 1024 * 1024
"""Bytes of sorted files that are sorted together again."""
_HERE = 256 * 1024 * 1024
"""Bytes that this process packs by itself: a job of Spark would take longer than that."""


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


def pack(packing: Packing, files: Sequence[WrittenFile], frame: DataFrame | None) -> list[Packed]:
    """Packs files here, or in a job of the session of a DataFrame, if there is one, where there is much to do."""
    limit = min(packing.target_size, _LARGEST_SORT) if packing.is_sorted else packing.target_size
    found = bins(files, limit)
    work = [each for each in found if len(each) > 1]
    results: list[tuple[int, str]]
    if frame is None or sum(file.size for each in work for file in each) <= _HERE:
        results = [(number, packing.result(each)) for number, each in enumerate(work)]
    else:
        tasks = PackingTasks(packing, tuple(work))
        numbers = frame.sparkSession.range(0, len(work), 1, len(work))
        made = map_in_arrow(numbers, tasks, "bin bigint, result string").collect()
        results = [(row[0], row[1]) for row in made]
    done = {work[number][0].path: result for number, result in results}
    if is_remote(packing.encoding.folder):
        replaced = [each for number, result in results if json.loads(result) for each in work[number]]
        packing.encoding.access.remove(file.path for file in replaced)
    packed: list[Packed] = []
    for each in found:
        if each[0].path in done:
            packed += _of_result(each, json.loads(done[each[0].path]))
        else:
            packed.append(Packed(each, each[0].path))
    return packed


def _of_result(files: tuple[WrittenFile, ...], result: dict[str, Any]) -> Iterator[Packed]:
    if "again" in result:
        # One file as a rule; DuckDB cuts by what it thinks that a file takes.
        for path, info in result["again"]:
            yield Packed(files, path, info=json.dumps(info))
    elif "joined" in result:
        size, footer_size = result["joined"]
        yield Packed(files, result.get("path", files[0].path), size, footer_size)
    else:
        yield from (Packed((file,), file.path) for file in files)
