"""The same scan without a JVM to reach (Spark Connect), through public APIs.

Files are listed when the DataFrame is made, because nothing asks for them later.
"""

from __future__ import annotations

import re
from typing import Any

import pyspark.sql.types as spark_types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.scan.relation import FIELD_IDS, FileSource, IndexedFile
from ducklake_spark.scan.sources import RowSource
from ducklake_spark.scan.storage import local_path, require_whole

_PATH, _CODE = "__ducklake_path", "__ducklake_lookup"
_PATTERN = re.compile(r"([\\{}\[\]*?])")
"""Characters that Spark would take as part of a pattern; with a backslash before them it warns, and reads."""


def relation(
    spark: SparkSession, source: FileSource, schema: spark_types.StructType, *, needs_code: bool
) -> tuple[DataFrame, RowSource]:
    """A DataFrame over the source's files, and where its rows come from."""
    files = source.files([])
    require_whole(files, source.title)
    if str(spark.conf.get(FIELD_IDS, "false")).lower() != "true":
        spark.conf.set(FIELD_IDS, "true")
    if not files:
        empty: list[Any] = []
        frame = spark.createDataFrame(empty, schema)
        nothing = F.lit(None)
        return frame, RowSource(nothing.cast("string"), nothing.cast("long"), nothing.cast("long"))
    reader = (
        spark.read.schema(schema)
        .option("datetimeRebaseMode", "CORRECTED")
        .option("int96RebaseMode", "CORRECTED")
    )
    frame = reader.parquet(*(_PATTERN.sub(r"\\\1", file.path) for file in files))
    metadata = frame.metadataColumn("_metadata")
    if not needs_code:
        return frame, RowSource(metadata["file_path"], metadata["row_index"], F.lit(None).cast("long"))
    position = "__ducklake_row_index"
    frame = frame.select(
        "*", plain_path(metadata["file_path"]).alias(_PATH), metadata["row_index"].alias(position)
    )
    frame = frame.join(F.broadcast(_codes(spark, files)), _PATH)
    return frame, RowSource(F.col(_PATH), F.col(position), F.col(_CODE))


def _codes(spark: SparkSession, files: list[IndexedFile]) -> DataFrame:
    schema = spark_types.StructType(
        [
            spark_types.StructField(_PATH, spark_types.StringType()),
            spark_types.StructField(_CODE, spark_types.LongType()),
        ]
    )
    return spark.createDataFrame([(local_path(file.path) or file.path, file.code) for file in files], schema)


def plain_path(path: Column) -> Column:
    """Spark's URI as the path that DuckDB shows: decoded, and without `file:`."""
    decoded = F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(decoded, "^file:/+", "/")


def read_bytes(spark: SparkSession, path: str) -> bytes:
    """A small file, whole."""
    local = local_path(path)
    if local is not None:
        with open(local, "rb") as file:
            return file.read()
    row = spark.read.format("binaryFile").load(_PATTERN.sub(r"\\\1", path)).select("content").head()
    assert row is not None
    return bytes(row[0])
