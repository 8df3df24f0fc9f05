"""The same scan without a JVM to reach (Spark Connect), through public APIs.

Files are listed when the DataFrame is made, because nothing asks for them later.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pyspark.sql.types as spark_types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.scan.planning.sources import NO_NUMBER, NO_TEXT, RowSource, plain_path, with_source
from ducklake_spark.spark.file_checks import require_whole
from ducklake_spark.spark.file_index import FIELD_IDS, READ_OPTIONS, FileSource, IndexedFile, is_classic
from ducklake_spark.spark.file_index import read_bytes as read_by_hadoop
from ducklake_spark.storage import local_path

_PATH, _POSITION, _CODE = "__ducklake_file", "__ducklake_position_in_file", "__ducklake_lookup"
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
        return frame, RowSource(NO_TEXT, NO_NUMBER, NO_NUMBER)
    reader = spark.read.schema(schema).options(**READ_OPTIONS)
    frame = reader.parquet(*(_PATTERN.sub(r"\\\1", file.path) for file in files))
    frame, rows = with_source(frame, schema.names)
    if not needs_code:
        return frame, replace(rows, code=NO_NUMBER)
    frame = frame.selectExpr("*", f"{plain_path(rows.path)} AS {_PATH}", f"{rows.position} AS {_POSITION}")
    frame = frame.join(F.broadcast(_codes(spark, files)), _PATH)
    return frame, RowSource(_PATH, _POSITION, _CODE)


def _codes(spark: SparkSession, files: list[IndexedFile]) -> DataFrame:
    schema = spark_types.StructType(
        [
            spark_types.StructField(_PATH, spark_types.StringType()),
            spark_types.StructField(_CODE, spark_types.LongType()),
        ]
    )
    return spark.createDataFrame([(local_path(file.path) or file.path, file.code) for file in files], schema)


def read_bytes(spark: SparkSession, path: str) -> bytes:
    """A small file, whole."""
    local = local_path(path)
    if local is not None:
        with open(local, "rb") as file:
            return file.read()
    if is_classic(spark):
        return read_by_hadoop(spark, path)
    row = spark.read.format("binaryFile").load(_PATTERN.sub(r"\\\1", path)).select("content").head()
    assert row is not None
    return bytes(row[0])
