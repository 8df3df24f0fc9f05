"""A batch of a stream as a DataFrame: the rows of a feed that a selection of positions picks.

Files of which all rows are wanted become scans that Spark can push filters and columns into. All else, such as files of
several snapshots, is read row by row, and Spark sees only the rows that are picked.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyspark.sql.types as spark_types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.catalog.store import Store
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.streaming import Selection, StreamFile
from ducklake_spark.scan.change_feed.frames import AT, ORIGIN, ROW, ChangeReader
from ducklake_spark.scan.change_feed.plan import Feed, FeedFile
from ducklake_spark.scan.projection.types import TypeChoices, user_type
from ducklake_spark.spark.streams import as_stream, empty_stream

_FEW = 1000


def stream_schema(table: TableDef, choices: TypeChoices, *, is_feed: bool) -> spark_types.StructType:
    """The columns of a stream: the table's, with what happened to each row before them in a change feed."""
    long = spark_types.LongType()
    told = [("snapshot_id", long), ("rowid", long), ("change_type", spark_types.StringType())]
    own = [(column.name, user_type(column.data_type, choices)) for column in table.columns]
    return spark_types.StructType(
        [spark_types.StructField(name, kind) for name, kind in ([*told, *own] if is_feed else own)]
    )


class StreamReader:
    """Makes the DataFrame of a batch."""

    def __init__(self, spark: SparkSession, store: Store, feed: Feed, selection: Selection) -> None:
        self.spark, self.feed, self.selection = spark, feed, selection
        self.scans = ChangeReader(spark, store, feed, is_streaming=True)
        self.rows = ChangeReader(spark, store, feed)
        self.choices = feed.plan.choices

    def appended(self) -> DataFrame:
        """Rows that came in, in the table's columns."""
        return self._united(is_feed=False)

    def initial_changes(self) -> DataFrame:
        """The same rows as the insertions of a change feed."""
        return self._united(is_feed=True)

    def changes(self) -> DataFrame:
        """What became of each row, of snapshots that are read as a whole."""
        frame = self.rows.changes()
        left_out = sorted(self.selection.left_out)
        if left_out:
            frame = frame.where(~F.col("snapshot_id").isin(left_out))
        return as_stream(frame)

    def _united(self, *, is_feed: bool) -> DataFrame:
        whole, cut = self._split()
        if self.feed.plan.lake.is_encrypted:  # read in workers, which no relation of files can do
            rows = [as_stream(each.withColumn(AT, F.col(ORIGIN))) for each in self.rows.scans(whole)]
        elif is_feed:
            rows = [each.withColumn(AT, F.col(ORIGIN)) for each in self.scans.scans(whole)]
        else:
            rows = self.scans.plain(whole)
        frames = [self._named(each, is_feed) for each in rows]
        picked = self._picked(cut)
        if picked is not None:
            frames.append(as_stream(self._named(picked, is_feed)))
        if not frames:
            return empty_stream(
                self.spark, stream_schema(self.feed.plan.table, self.choices, is_feed=is_feed)
            )
        return functools.reduce(DataFrame.unionAll, frames)

    def _split(self) -> tuple[list[FeedFile], list[FeedFile]]:
        """Files of which all rows belong to the batch, and files that must be looked into."""
        later = self.feed.later_positions
        deleted = {file.data_file_id for file in later.files} | {file_id for file_id, _, _ in later.inlined}
        whole: list[FeedFile] = []
        cut: list[FeedFile] = []
        for file in self.feed.inserted:
            described = StreamFile(
                file.begin_snapshot, file.row_id_start, file.record_count, file.size, file.is_partial
            )
            share = self.selection.of_file(described)
            if share != "none":
                (whole if share == "all" and file.data_file_id not in deleted else cut).append(file)
        return whole, cut

    def _picked(self, cut: Sequence[FeedFile]) -> DataFrame | None:
        """Rows of files that hold others too, and rows of the catalog."""
        frames = [rows.where(self._belongs(F.col(ORIGIN), F.col(ROW))) for rows in self.rows.live(cut)]
        for name, versions in self.feed.inlined.items():
            rows = [row for row in versions.inserted if self.selection.has(int(row[1]), int(row[0]))]
            frames += self.rows.decoded(name, rows)
        return self.rows.united(frames)

    def _belongs(self, at: Column, row: Column) -> Column:
        """`Selection.has` as a condition."""
        chosen = self.selection
        condition = (at >= F.lit(chosen.first)) & (at <= F.lit(chosen.last))
        if not chosen.after.is_whole:
            condition &= (at != F.lit(chosen.after.snapshot)) | (row >= F.lit(chosen.after.row))
        if not chosen.upto.is_whole:
            condition &= (at != F.lit(chosen.last)) | (row < F.lit(chosen.upto.row))
        left_out = sorted(chosen.left_out)
        for i in range(0, len(left_out), _FEW):
            condition &= ~at.isin(left_out[i : i + _FEW])
        return condition

    def _named(self, rows: DataFrame, is_feed: bool) -> DataFrame:
        columns = self.rows.columns
        own = [F.col(name).alias(column.name) for column, name in zip(columns, self.rows.names, strict=True)]
        if not is_feed:
            return rows.select(*own)
        told = [
            F.col(AT).alias("snapshot_id"),
            F.col(ROW).alias("rowid"),
            F.lit("insert").alias("change_type"),
        ]
        return rows.select(*told, *own)
