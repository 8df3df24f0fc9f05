"""Ends of Parquet files that only Hadoop can read, as files of this machine that DuckDB reads the footers of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ducklake_spark.spark.files import FileStatus, last_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOOTER = 64 << 10
"""Bytes that are fetched of a file's end: most footers are smaller."""


def footer_copies(spark: SparkSession | None, files: Sequence[FileStatus], folder: str) -> list[str]:
    """Files in a folder that end as others do, in order: with a hole where the rows are.

    A hole takes no room, and sizes and places are right.

    Raises:
        FileError: One of them cannot be read.
    """
    ends = last_bytes(spark, dict.fromkeys(files, _FOOTER))
    larger = {file: size for file in files if (size := _footer_bytes(ends[file.path])) > _FOOTER}
    ends |= last_bytes(spark, larger) if larger else {}
    copies = [os.path.join(folder, f"{number}.parquet") for number in range(len(files))]
    for file, copy in zip(files, copies, strict=True):
        with open(copy, "wb") as written:
            written.seek(file.size - len(ends[file.path]))
            written.write(ends[file.path])
    return copies


def _footer_bytes(end: bytes) -> int:
    """How many bytes at the end of a file its footer takes."""
    return int.from_bytes(end[-8:-4], "little") + 8 if end[-4:] == b"PAR1" else 0
