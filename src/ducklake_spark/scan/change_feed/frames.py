"""The change feed as DataFrames: rows that came and went in a range of snapshots, from the files of those snapshots.

A row id that came and went in one snapshot was updated: its old and its new image are told apart.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyspark.sql.types as spark_types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.catalog.store import Row, Store
from ducklake_spark.format.deletion_vector import stamped_positions
from ducklake_spark.scan import connect
from ducklake_spark.scan.change_feed.plan import DeletedIn, Feed, FeedFile, Positions
from ducklake_spark.scan.inlined import decode, frame_of
from ducklake_spark.scan.planning.plan import name_maps
from ducklake_spark.scan.planning.sources import with_source
from ducklake_spark.scan.projection.column import (
    FIELD_ID,
    ROW_ID_FIELD,
    ROW_ID_NAME,
    SNAPSHOT_ID_FIELD,
    SNAPSHOT_ID_NAME,
    ColumnProjection,
    NameMap,
    column_projection,
)
from ducklake_spark.scan.projection.physical_types import (
    Types,
    asked,
    history_of,
    types_before,
    types_of,
)
from ducklake_spark.scan.projection.types import user_type
from ducklake_spark.scan.projection.worker_columns import projection as worker_projection
from ducklake_spark.scan.worker_scan import WorkerRelation
from ducklake_spark.spark.file_index import IndexedFile, empty_frame, is_classic, relation

FEED_COLUMNS = ("rowid", "snapshot_id")
"""What insertions and deletions have beside the table's own columns, if asked for."""

ROW, AT, ORIGIN = "__ducklake_rowid", "__ducklake_at", "__ducklake_origin"
_STAMP, _PLACE, _POSITION = "__ducklake_stamp", "__ducklake_place", "__ducklake_position"
_FILE, _END = "__ducklake_file", "__ducklake_end"
_DELETED_FILE, _DELETED, _DELETED_AT = "__ducklake_in", "__ducklake_deleted", "__ducklake_deleted_at"
_BROADCAST_POSITIONS = 20_000_000
_LONG = spark_types.LongType()


@dataclass(frozen=True)
class ListedFiles:
    """Files that were listed when the feed was planned; their code is their place in the list."""

    title: str
    listed: tuple[IndexedFile, ...]

    @staticmethod
    def of(title: str, files: Sequence[FeedFile | DeletedIn]) -> ListedFiles:
        """These files, in this order."""
        return ListedFiles(
            title,
            tuple(
                IndexedFile(file.path, file.size, place, file.key, file.begin_snapshot)
                for place, file in enumerate(files)
            ),
        )

    @property
    def total(self) -> int:
        return len(self.listed)

    @property
    def token(self) -> str:
        return f"{self.title} {self.listed}"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.listed)

    def files(self, filters: Sequence[Any]) -> list[IndexedFile]:  # noqa: ARG002 - other sources prune by them
        return list(self.listed)


@dataclass(frozen=True)
class _Way:
    """What tells one way of reading files from another."""

    mapping_id: int | None
    epoch: int
    is_exact: bool
    is_partial: bool
    types: Types = ()


class ChangeReader:
    """Makes the DataFrames of a feed."""

    def __init__(self, spark: SparkSession, store: Store, feed: Feed, *, is_streaming: bool = False) -> None:
        self.spark, self.store, self.feed = spark, store, feed
        self.is_streaming = is_streaming
        self.plan, self.range = feed.plan, feed.range
        self.columns = feed.plan.table.columns
        self.names = [f"c{i}" for i in range(len(self.columns))]
        """Names that cannot be mistaken; the user's come last."""
        mappings = {file.mapping_id for file in feed.inserted + feed.deleted if file.mapping_id is not None}
        self.maps: Mapping[int, NameMap] = name_maps(store, mappings)

    def insertions(self, virtual: Sequence[str] = ()) -> DataFrame:
        """Rows that began in the range, as they were then."""
        return self._shown(self.inserted(), virtual)

    def deletions(self, virtual: Sequence[str] = ()) -> DataFrame:
        """Rows that ended in the range, as they were until then."""
        return self._shown(self._deleted(), virtual)

    def changes(self) -> DataFrame:
        """Both, with what happened to each row: `insert`, `delete`, or an update's two images."""
        new, old = self.inserted(), self._deleted()
        if new is None or old is None:
            kind = "insert" if old is None else "delete"
            one = new if old is None else old
            return self._described(None if one is None else one.withColumn("k", F.lit(kind)))
        if self.feed.is_net:
            return self._described(self._net(new, old))
        return self._described(self._paired(new, old, [ROW, AT], F.lit(True)))

    def _net(self, new: DataFrame, old: DataFrame) -> DataFrame:
        """What became of each row in sum. Rows that were only moved to other files did not change."""
        whole = self.feed.whole
        if whole is None:
            return self._paired(new, old, [ROW], F.lit(True))
        real = ChangeReader(self.spark, self.store, whole).inserted()
        assert real is not None
        is_move = F.col(AT).isin(list(whole.rewrites))
        real = real.where(~is_move).select(F.col(ROW).alias("changed")).distinct()
        new = new.join(real, F.col(ROW) == F.col("changed"), "left")
        is_changed = F.col("changed").isNotNull()
        return self._paired(new.withColumn("real", is_changed).drop("changed"), old, [ROW], F.col("n.real"))

    def _paired(self, new: DataFrame, old: DataFrame, keys: Sequence[str], is_update: Column) -> DataFrame:
        """New and old versions, joined once: each pair becomes an update's two rows, each single a row of its own."""
        same = functools.reduce(
            lambda one, other: one & other, [F.col(f"n.{key}") == F.col(f"o.{key}") for key in keys]
        )
        joined = new.alias("n").join(old.alias("o"), same, "full_outer")
        is_new, is_old = F.col(f"n.{AT}").isNotNull(), F.col(f"o.{AT}").isNotNull()

        def image(side: str, exists: Column, pair: str, single: str) -> Column:
            kind = F.when(is_new & is_old, F.lit(pair)).otherwise(F.lit(single))
            values = [F.col(f"{side}.{name}").alias(name) for name in (*self.names, ROW, AT)]
            return F.when(
                exists & (is_update | ~(is_new & is_old)),
                F.struct(*values, kind.alias("k")),
            )

        images = F.array(
            image("o", is_old, "update_preimage", "delete"), image("n", is_new, "update_postimage", "insert")
        )
        exploded = joined.select(F.explode(images).alias("i")).where(F.col("i").isNotNull())
        return exploded.select("i.*")

    def old_rows(self) -> DataFrame | None:
        """Rows of `_deleted` with the table's names for them and `ROW_ID` last; None if there can be none."""
        rows = self._deleted()
        if rows is None:
            return None
        own = [F.col(name).alias(column.name) for column, name in zip(self.columns, self.names, strict=True)]
        return rows.select(*own, F.col(ROW).alias(ROW_ID_NAME))

    def new_locators(self, files: Sequence[FeedFile]) -> DataFrame | None:
        """File id and position of the rows that began in the range in files that hold older rows too."""
        frames = []
        for way, some in self._ways(files):
            rows = self._scan(way, some, "inserted in").where(F.col(ORIGIN) >= F.lit(self.range.first))
            frames.append(self._less(rows, self.feed.later_positions).select(_FILE, _POSITION))
        return functools.reduce(DataFrame.unionAll, frames) if frames else None

    def deleted_locators(self) -> DataFrame | None:
        """File id, position and snapshot of what was deleted from the files of `feed.deleted`."""
        return self._positions(self.feed.positions)

    # What users see

    def _shown(self, rows: DataFrame | None, virtual: Sequence[str]) -> DataFrame:
        sources = {"rowid": ROW, "snapshot_id": AT}
        fields = [(column.name, name) for column, name in zip(self.columns, self.names, strict=True)]
        return self._named(rows, fields + [(name, sources[name]) for name in virtual])

    def _described(self, rows: DataFrame | None) -> DataFrame:
        own = [(column.name, name) for column, name in zip(self.columns, self.names, strict=True)]
        return self._named(rows, [("snapshot_id", AT), ("rowid", ROW), ("change_type", "k"), *own])

    def _named(self, rows: DataFrame | None, fields: Iterable[tuple[str, str]]) -> DataFrame:
        if rows is not None:
            return rows.select(*(F.col(source).alias(name) for name, source in fields))
        types: dict[str, spark_types.DataType] = {AT: _LONG, ROW: _LONG, "k": spark_types.StringType()}
        for column, name in zip(self.columns, self.names, strict=True):
            types[name] = user_type(column.data_type, self.plan.choices)
        schema = spark_types.StructType(
            [spark_types.StructField(name, types[source]) for name, source in fields]
        )
        return empty_frame(self.spark, schema)

    # Rows of files and of the catalog: columns c0 .., row id, snapshot of the change

    def inserted(self) -> DataFrame | None:
        feed = self.feed
        frames = []
        for way, files in self._ways(feed.inserted):
            rows = self._scan(way, files, "inserted in")
            if way.is_partial:
                inside = (F.col(ORIGIN) >= F.lit(self.range.first)) & (
                    F.col(ORIGIN) <= F.lit(self.range.last)
                )
                rows = rows.where(inside)
            if feed.is_net:
                rows = self._less(rows, feed.later_positions)
            frames.append(rows.withColumn(AT, F.col(ORIGIN)))
        for name, versions in feed.inlined.items():
            frames += self.decoded(name, versions.inserted)
        return self.united(frames)

    def scans(self, files: Sequence[FeedFile]) -> list[DataFrame]:
        """All rows of files: the columns `names`, `ROW` and `ORIGIN`, a DataFrame for each way of reading."""
        return [self._scan(way, some, "inserted in") for way, some in self._ways(files)]

    def plain(self, files: Sequence[FeedFile]) -> list[DataFrame]:
        """All rows of files, the columns `names` only: then Spark reads nothing else, not even positions."""
        frames = []
        for way, some in self._ways(files):
            projections = self._projections(way, some)
            schema = spark_types.StructType([part.field for part in projections if part.field is not None])
            rows = relation(
                self.spark, self._listed(some, "inserted in"), schema, is_streaming=self.is_streaming
            )
            made = [part.column().alias(name) for part, name in zip(projections, self.names, strict=True)]
            frames.append(rows.select(*made))
        return frames

    def live(self, files: Sequence[FeedFile]) -> list[DataFrame]:
        """The same rows with `AT`, in net changes without those that were deleted up to the end of the range."""
        found = self.scans(files)
        if self.feed.is_net:
            found = [self._less(rows, self.feed.later_positions) for rows in found]
        return [rows.withColumn(AT, F.col(ORIGIN)) for rows in found]

    def _less(self, rows: DataFrame, positions: Positions) -> DataFrame:
        deleted = self._positions(positions)
        if deleted is None:
            return rows
        # A delete file with history holds deletes from after the range, too.
        deleted = deleted.where(F.col(_DELETED_AT) <= F.lit(self.range.last))
        return rows.join(deleted, self._is_deleted(), "left_anti")

    def _deleted(self) -> DataFrame | None:
        feed, first, last = self.feed, self.range.first, self.range.last
        positions = self._positions(feed.positions)
        frames = []
        ended = [f for f in feed.deleted if f.end_snapshot is not None and f.end_snapshot <= last]
        kept = [f for f in feed.deleted if f.end_snapshot is None or f.end_snapshot > last]
        for way, files in self._ways(ended):
            rows = self._scan(way, files, "ended in")
            if positions is None:
                frames.append(rows.withColumn(AT, F.col(_END)))
                continue
            rows = rows.join(positions, self._is_deleted(), "left")
            frames.append(rows.withColumn(AT, F.least(_DELETED_AT, _END)).where(F.col(AT) >= F.lit(first)))
        for way, files in self._ways(kept) if positions is not None else ():
            assert positions is not None
            inside = (F.col(_DELETED_AT) >= F.lit(first)) & (F.col(_DELETED_AT) <= F.lit(last))
            rows = self._scan(way, files, "deleted from in")
            rows = rows.join(positions.where(inside), self._is_deleted(), "inner")
            frames.append(rows.withColumn(AT, F.col(_DELETED_AT)))
        if feed.is_net:
            frames = [rows.where(F.col(ORIGIN) < F.lit(first)) for rows in frames]
        for name, versions in feed.inlined.items():
            frames += self.decoded(name, versions.deleted)
        return self.united(frames)

    def united(self, frames: Sequence[DataFrame]) -> DataFrame | None:
        """The rows of all of them, as `names`, `ROW` and `AT`; None if there are none."""
        picked = [frame.select(*self.names, ROW, AT) for frame in frames]
        return functools.reduce(DataFrame.unionAll, picked) if picked else None

    def decoded(self, table_name: str, rows: Sequence[Row]) -> list[DataFrame]:
        """Rows of an inlined table, as `names`, `ROW` and `AT`; nothing if there are none."""
        if not rows:
            return []
        choices = self.plan.choices
        table = next(each for each in self.plan.inlined if each.table_name == table_name)
        arrow = decode(rows, table, self.columns, choices)
        frame = frame_of(self.spark, arrow, self.columns, choices)
        return [frame.toDF(*self.names, ROW, AT)]

    # Files

    def _ways(self, files: Sequence[FeedFile]) -> list[tuple[_Way, list[FeedFile]]]:
        found: dict[_Way, list[FeedFile]] = {}
        for file in files:
            epoch = sum(file.begin_snapshot >= boundary for boundary in self.plan.boundaries)
            way = _Way(file.mapping_id, epoch, file.is_exact, file.is_partial, self._types(file))
            found.setdefault(way, []).append(file)
        return list(found.items())

    def _types(self, file: FeedFile) -> Types:
        if file.mapping_id is None:
            if file.begin_snapshot not in self.plan.boundaries:
                return ()
            return types_before(file.path, self.plan.history, file.begin_snapshot) or ()
        wanted = asked(self.columns, self.plan.history)
        return types_of(file.path, self.maps[file.mapping_id], self.columns, wanted)

    def _projections(self, way: _Way, files: Sequence[FeedFile]) -> list[ColumnProjection]:
        if self.plan.lake.is_encrypted:
            return [worker_projection(column, self.plan.choices) for column in self.columns]
        choices = replace(self.plan.choices, exact_integers=way.is_exact)
        by_id = way.mapping_id is None
        inside = min(file.begin_snapshot for file in files) if self.plan.boundaries and by_id else None
        names = None if way.mapping_id is None else replace(self.maps[way.mapping_id], types=dict(way.types))
        history = history_of(way.types, self.plan.history) if by_id and way.types else self.plan.history
        return [
            column_projection(column, choices, history=history, snapshot_id=inside, names=names)
            for column in self.columns
        ]

    def _listed(self, files: Sequence[FeedFile], what: str) -> ListedFiles:
        title = f"{what} {self.plan.title} since {self.range.first}"
        return ListedFiles.of(title, files)

    def _scan(self, way: _Way, files: Sequence[FeedFile], what: str) -> DataFrame:
        """All rows of files, with where they come from."""
        projections = self._projections(way, files)
        fields = [part.field for part in projections if part.field is not None]
        row_id, stamp = F.lit(None).cast("long"), F.lit(None).cast("long")
        if way.mapping_id is None:
            fields.append(spark_types.StructField(ROW, _LONG, True, {FIELD_ID: ROW_ID_FIELD}))
            row_id = F.col(ROW)
        if way.is_partial:
            fields.append(spark_types.StructField(_STAMP, _LONG, True, {FIELD_ID: SNAPSHOT_ID_FIELD}))
            stamp = F.col(_STAMP)
        frame, position, place = self._relation(self._listed(files, what), spark_types.StructType(fields))
        made = [part.column().alias(name) for part, name in zip(projections, self.names, strict=True)]
        frame = frame.select(
            *made, row_id.alias(ROW), stamp.alias(_STAMP), position.alias(_POSITION), place.alias(_PLACE)
        )
        start = F.nullif(
            _by_place([-1 if file.row_id_start is None else file.row_id_start for file in files]), F.lit(-1)
        )
        end = F.nullif(
            _by_place([-1 if file.end_snapshot is None else file.end_snapshot for file in files]), F.lit(-1)
        )
        begin = _by_place([file.begin_snapshot for file in files])
        return frame.select(
            *self.names,
            F.coalesce(F.col(ROW), start + F.col(_POSITION)).alias(ROW),
            F.coalesce(F.col(_STAMP), begin).alias(ORIGIN),
            _by_place([file.data_file_id for file in files]).alias(_FILE),
            _POSITION,
            end.alias(_END),
        )

    def _relation(
        self, source: ListedFiles, schema: spark_types.StructType
    ) -> tuple[DataFrame, Column, Column]:
        """The rows of files, with their position and the place of their file."""
        if self.plan.lake.is_encrypted:
            frame, rows = WorkerRelation(self.plan, source, schema).frame(self.spark)
        elif is_classic(self.spark):
            frame, rows = with_source(
                relation(self.spark, source, schema, is_streaming=self.is_streaming), schema.names
            )
        else:
            frame, rows = connect.relation(self.spark, source, schema, needs_code=True)
        return frame, F.expr(rows.position), F.expr(rows.code)

    def _numbers(self, columns: Mapping[str, Sequence[int | None]]) -> DataFrame:
        import pyarrow

        return self.spark.createDataFrame(
            pyarrow.table(
                {name: pyarrow.array(list(each), pyarrow.int64()) for name, each in columns.items()}
            )
        )

    # Deleted positions

    def _is_deleted(self) -> Column:
        return (F.col(_FILE) == F.col(_DELETED_FILE)) & (F.col(_POSITION) == F.col(_DELETED))

    def _positions(self, positions: Positions) -> DataFrame | None:
        """File id, position and snapshot of each delete."""
        found = []
        pairs = list(positions.inlined)
        for file in positions.files:
            if file.format == "puffin":
                data = connect.read_bytes(self.spark, file.path)
                pairs += [
                    (file.data_file_id, position, file.begin_snapshot if stamp is None else stamp)
                    for position, stamp in stamped_positions(data, file.path)
                ]
        if pairs:
            files, places, snapshots = zip(*pairs, strict=True)
            found.append(self._numbers({_DELETED_FILE: files, _DELETED: places, _DELETED_AT: snapshots}))
        if any(file.format == "parquet" for file in positions.files):
            found.append(self._from_delete_files(positions))
        if not found:
            return None
        frame = functools.reduce(DataFrame.unionAll, found)
        if not positions.is_unique:
            frame = frame.groupBy(_DELETED_FILE, _DELETED).agg(F.min(_DELETED_AT).alias(_DELETED_AT))
        return F.broadcast(frame) if positions.count <= _BROADCAST_POSITIONS else frame

    def _from_delete_files(self, positions: Positions) -> DataFrame:
        files = [file for file in positions.files if file.format == "parquet"]
        # By name, as in scans: the second column is there in some files only.
        schema = spark_types.StructType(
            [spark_types.StructField(name, _LONG) for name in ("pos", SNAPSHOT_ID_NAME)]
        )
        source = ListedFiles.of(f"deletes of {self.plan.title} since {self.range.first}", files)
        frame, _, place = self._relation(source, schema)
        frame = frame.select(
            F.col("pos").alias(_DELETED), F.col(SNAPSHOT_ID_NAME).alias(_STAMP), place.alias(_PLACE)
        )
        begin = _by_place([file.begin_snapshot for file in files])
        return frame.select(
            _by_place([file.data_file_id for file in files]).alias(_DELETED_FILE),
            _DELETED,
            F.coalesce(F.col(_STAMP), begin).alias(_DELETED_AT),
        )


def _by_place(numbers: Sequence[int]) -> Column:
    """A fact of each file, found by the place of the file: one constant of the plan instead of a join."""
    if len(set(numbers)) == 1:
        return F.lit(numbers[0]).cast("long")
    listed = F.split(F.lit(",".join(map(str, numbers))), ",").cast("array<bigint>")
    return listed[F.col(_PLACE).cast("int")]
