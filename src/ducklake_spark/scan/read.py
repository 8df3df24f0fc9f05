"""A table at a snapshot as a DataFrame: the union of a plan's groups, less deleted rows, plus inlined rows."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyspark.sql.types as spark_types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.catalog.store import Store
from ducklake_spark.errors import CatalogError, ConflictError, DuckLakeError, InvalidInputError, did_you_mean
from ducklake_spark.format.column_mapping import ColumnMapping
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.data import LOCAL_ROW_ID
from ducklake_spark.format.deletion_vector import vector_positions
from ducklake_spark.format.names import ticked
from ducklake_spark.format.objects import SchemaDef, Snapshot, TableDef
from ducklake_spark.format.types import fold
from ducklake_spark.scan import connect
from ducklake_spark.scan.deletion_bitmap import DeletedBits, DeletedRows, few_enough, few_enough_apart
from ducklake_spark.scan.inlined import INLINED_ROW_ID, INLINED_SNAPSHOT_ID, inlined_frame
from ducklake_spark.scan.planning.file_facts import FileCode, file_code
from ducklake_spark.scan.planning.listing import ScanFile, data_files, delete_files, inlined_deletes
from ducklake_spark.scan.planning.plan import FileGroup, LakeInfo, ScanPlan, make_plan, together
from ducklake_spark.scan.planning.sources import (
    NO_NUMBER,
    NO_TEXT,
    DeleteFiles,
    FixedFiles,
    GroupFiles,
    RowSource,
    plain_path,
    with_source,
)
from ducklake_spark.scan.planning.staleness import has_moved
from ducklake_spark.scan.projection.column import (
    FIELD_ID,
    ROW_ID_FIELD,
    ROW_ID_NAME,
    SNAPSHOT_ID_FIELD,
    SNAPSHOT_ID_NAME,
    NameMap,
    column_projection,
)
from ducklake_spark.scan.projection.physical_types import Types, asked, history_of, types_in, types_of
from ducklake_spark.scan.projection.types import TimestampNs, TypeChoices, choices_of, user_type
from ducklake_spark.scan.projection.worker_columns import projection as worker_projection
from ducklake_spark.scan.worker_scan import WorkerRelation
from ducklake_spark.spark.file_index import (
    FileSource,
    calls_are_folded,
    empty_frame,
    is_classic,
    leaves_out_rows,
    numbers,
    relation,
)
from ducklake_spark.storage import local_path, whole_path

VIRTUAL_COLUMNS: Mapping[str, spark_types.DataType] = {
    "rowid": spark_types.LongType(),
    "snapshot_id": spark_types.LongType(),
    "filename": spark_types.StringType(),
    "file_row_number": spark_types.LongType(),
    "file_index": spark_types.LongType(),
}
"""Columns that every table has beside its own. A table's own column of the same name hides one."""

FILE_ID = "__ducklake_file_id"
"""Asked for like a virtual column, for changes of single rows: the id of the row's data file, NULL for inlined rows."""
INLINED_NAME = "__ducklake_inlined_name"
"""The same for the inlined table that a committed row is in, NULL for rows in files."""

_HIDDEN = "__ducklake_hidden_"


def hidden(name: str) -> str:
    """A virtual column under a name that no column of a table hides, for those who must not mistake it."""
    return _HIDDEN + name


_PENDING_ROW_ID, _PENDING_FILE_ROWS = 2 * LOCAL_ROW_ID, 10**10
_ATTEMPTS = 10
"""How often a scan is planned anew because the lake changed meanwhile."""
_BROADCAST_POSITIONS = 20_000_000
"""More deleted rows than this are not sent to every executor; Spark joins them as it sees fit."""
_ID, _POSITION, _PATH = "__ducklake_id", "__ducklake_position", "__ducklake_path"
_PLACE, _DELETED = "__ducklake_place", "__ducklake_deleted"
_POSITION_BITS = 32
"""No file has more rows than these can count, and no lake more files than the 31 other bits can."""


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read.

    Args:
        timestamp_ns: "long" shows nanoseconds since 1970, "micros" a timestamp without the last three digits.
        virtual_columns: Names of `VIRTUAL_COLUMNS` to add behind the table's own columns.
    """

    timestamp_ns: TimestampNs = "long"
    virtual_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pending:
    """What a transaction has changed and not committed: its own reads see it.

    Args:
        data_files: Files it wrote, with the table's present columns; their ids are negative.
        dropped_files: Ids of committed data files that it ended.
        deleted: Deleted positions by data file id.
        delete_files: Files with more of them, under the ids of their data files.
        inlined: Rows it inlined: the table's columns, `INLINED_ROW_ID`, and in `INLINED_SNAPSHOT_ID` what differs.
        deleted_inlined: Row ids that it deleted, by the name of the inlined table.
        emptied: Whether no committed row is left.
    """

    data_files: tuple[ScanFile, ...] = ()
    dropped_files: frozenset[int] = frozenset()
    deleted: Mapping[int, Sequence[int]] = field(default_factory=dict)
    delete_files: tuple[ScanFile, ...] = ()
    inlined: DataFrame | None = None
    deleted_inlined: Mapping[str, frozenset[int]] = field(default_factory=dict)
    emptied: bool = False

    @property
    def has_deletes(self) -> bool:
        """Whether it deleted rows in files."""
        return bool(self.deleted or self.delete_files)


def read_table(
    spark: SparkSession,
    store: Store,
    lake: LakeInfo,
    schema: SchemaDef,
    table: TableDef,
    snapshot: Snapshot,
    options: ReadOptions | None = None,
    pending: Pending | None = None,
) -> DataFrame:
    """The table as a DataFrame. Nothing is listed or read before the DataFrame is used.

    Args:
        spark: The session; with Spark Connect the files are listed now, through public APIs.
        store: The catalog.
        lake: The lake's name and data path.
        schema: The table's schema.
        table: The table as it is at the snapshot (or as the transaction sees it).
        snapshot: The snapshot to read.
        options: How types are shown, and which virtual columns are added.
        pending: Uncommitted changes to read as well.

    Raises:
        DuckLakeError: A file has no key where it must, or the lake changes too quickly to be planned.
    """
    options = options or ReadOptions()
    choices = choices_of(spark, options.timestamp_ns)
    wanted = _wanted(options, table)
    for _ in range(_ATTEMPTS):
        plan = make_plan(store, lake, schema, table, snapshot, choices)
        _require_readable(spark, plan)
        try:
            frame = _Reader(spark, store, plan, wanted, pending or Pending()).frame()
        except CatalogError:
            # After a flush, tables that it emptied are dropped.
            if not _was_flushed(store, plan) and all(
                store.has_table(each.table_name) for each in plan.inlined
            ):
                raise
        else:
            if not _was_flushed(store, plan):
                _require_in_place(store, plan, pending)
                return frame
    raise DuckLakeError(
        f"The lake {lake.name} was changed {_ATTEMPTS} times while {plan.title} was read. Try again."
    )


def _was_flushed(store: Store, plan: ScanPlan) -> bool:
    """Whether rows in the catalog may have become a file, which the plan does not know, before they were fetched."""
    if not plan.inlined:
        return False
    return has_moved(store, plan.table.table_id, plan.newest_snapshot)


def _require_in_place(store: Store, plan: ScanPlan, pending: Pending | None) -> None:
    """What a transaction deleted is known by where it was: others may have moved it since the transaction began.

    Its commit would not be possible then, but its own reads before would show such rows as if it had not deleted them.
    """
    since = plan.snapshot.snapshot_id
    if pending is None or pending.emptied or plan.newest_snapshot <= since:
        return
    if pending.deleted_inlined:
        is_moved = has_moved(store, plan.table.table_id, since)
    elif pending.has_deletes or pending.dropped_files:
        is_moved = has_moved(store, plan.table.table_id, since, in_files_only=True)
    else:
        return
    if is_moved:
        raise ConflictError(
            f'Transaction conflict: rows of table "{plan.table.name}" that this transaction deletes were moved by a '
            "flush or a compaction after it began. Nothing was written; run it again on the new snapshot."
        )


def _require_readable(spark: SparkSession, plan: ScanPlan) -> None:
    new = [
        node
        for column in plan.table.columns
        for node in column.walk()
        if node.type in ("variant", "geometry")
    ]
    if new and plan.total_files and tuple(map(int, spark.version.split(".")[:2])) < (4, 1):
        raise DuckLakeError(
            f'{plan.title} has a column "{new[0].name}" of type {new[0].type}. The Parquet library of Spark '
            f"{spark.version} cannot open files with such columns; Spark 4.1 and later can."
        )


def _wanted(options: ReadOptions, table: TableDef) -> tuple[str, ...]:
    own = {fold(column.name) for column in table.columns}
    for name in options.virtual_columns:
        if name.removeprefix(_HIDDEN) not in VIRTUAL_COLUMNS and name not in (FILE_ID, INLINED_NAME):
            raise InvalidInputError(
                f'There is no virtual column "{name}".{did_you_mean(name, VIRTUAL_COLUMNS)} There are '
                f"{', '.join(VIRTUAL_COLUMNS)}."
            )
    return tuple(name for name in options.virtual_columns if name not in own)


class _Reader:
    def __init__(
        self, spark: SparkSession, store: Store, plan: ScanPlan, virtual: tuple[str, ...], pending: Pending
    ) -> None:
        self.spark, self.store, self.plan, self.pending = spark, store, plan, pending
        self.virtual = {name: name.removeprefix(_HIDDEN) for name in virtual}
        """Virtual columns: what they are called, and which they are."""
        self.wanted = frozenset(self.virtual.values())
        self.choices: TypeChoices = plan.choices
        self.columns: tuple[ColumnDef, ...] = plan.table.columns

    @functools.cached_property
    def _places(self) -> Mapping[int | str, int]:
        """The places of all files, and behind them of the inlined tables: what `file_index` says."""
        committed = () if self.pending.emptied else self.plan.groups
        files = (file for group in committed for file in data_files(self.store, self.plan, group.key))
        ids = sorted(
            file.data_file_id for file in files if file.data_file_id not in self.pending.dropped_files
        )
        names = () if self.pending.emptied else [table.table_name for table in self.plan.inlined]
        own = [file.data_file_id for file in self.pending.data_files]
        return {each: place for place, each in enumerate([*ids, *own, *names])}

    def _place_of(self, file_id: str) -> str:
        """The place of a file of that id, in SQL."""
        ids = ",".join(f"{each}L" for each in self._places if isinstance(each, int))
        return f"array_position(array({ids}), {file_id}) - 1L" if ids else NO_NUMBER

    def frame(self) -> DataFrame:
        committed = not self.pending.emptied
        groups = [group for group in self.plan.groups if group.files and committed]
        if self._rows_deleted is not None:
            groups = together(groups)
        frames = [self._group(group) for group in groups]
        frames += self._pending_files()
        for table in self.plan.inlined if committed else ():
            deleted = self.pending.deleted_inlined.get(table.table_name, frozenset())
            rows = inlined_frame(
                self.spark, self.store, table, self.columns, self.plan.snapshot.snapshot_id, self.choices
            )
            if rows is not None and deleted:
                rows = rows.where(~F.col(INLINED_ROW_ID).isin(*deleted))
            if rows is not None:
                frames.append(self._with_virtual_inlined(rows, table.table_name))
        if self.pending.inlined is not None:
            frames.append(self._with_virtual_inlined(self.pending.inlined, None))
        if not frames:
            return empty_frame(self.spark, self._schema())
        return functools.reduce(DataFrame.unionAll, frames)

    def _schema(self) -> spark_types.StructType:
        fields = [
            spark_types.StructField(column.name, user_type(column.data_type, self.choices))
            for column in self.columns
        ]
        kinds = {**VIRTUAL_COLUMNS, FILE_ID: spark_types.LongType(), INLINED_NAME: spark_types.StringType()}
        virtual = [spark_types.StructField(name, kinds[which]) for name, which in self.virtual.items()]
        return spark_types.StructType(fields + virtual)

    def _with_virtual_inlined(self, rows: DataFrame, table_name: str | None) -> DataFrame:
        is_pending = table_name is None
        made = {
            "rowid": F.col(INLINED_ROW_ID),
            "snapshot_id": F.lit(None).cast("long") if is_pending else F.col(INLINED_SNAPSHOT_ID),
            "filename": F.lit(table_name).cast("string"),
            # A pending version of an old row has the old row's id, and so is known by its place.
            "file_row_number": F.col(INLINED_SNAPSHOT_ID if is_pending else INLINED_ROW_ID),
            FILE_ID: F.lit(None).cast("long"),
            INLINED_NAME: F.lit(table_name).cast("string"),
        }
        if "file_index" in self.wanted:
            made["file_index"] = F.lit(self._places.get(table_name or "", len(self._places))).cast("long")
        own = [F.col(ticked(column.name)) for column in self.columns]
        return rows.select(*own, *(made[which].alias(name) for name, which in self.virtual.items()))

    # Files

    def _group(self, group: FileGroup) -> DataFrame:
        key = group.key
        rows_deleted = self._rows_deleted if key.has_deletes or self.pending.has_deletes else None
        has_deletes = (key.has_deletes or self.pending.has_deletes) and rows_deleted is None
        wants_lineage = any(name in ("rowid", "snapshot_id") for name in self.wanted)
        by_id = key.mapping_id is None
        fields = [part.field for part in group.projections if part.field is not None]
        row_id = _internal(ROW_ID_NAME, ROW_ID_FIELD, fields) if by_id and "rowid" in self.wanted else None
        stamp = (
            _internal(SNAPSHOT_ID_NAME, SNAPSHOT_ID_FIELD, fields)
            if by_id and (key.is_filtered or "snapshot_id" in self.wanted)
            else None
        )
        physical = spark_types.StructType(fields + [extra for extra in (row_id, stamp) if extra is not None])
        needs_id = has_deletes or not self.wanted.isdisjoint((FILE_ID, "file_index"))
        code = _code_of(group, needs_id, wants_lineage)
        is_packed = code.fits
        code = code if is_packed else _code_of(group, True, False)
        pending = self.pending
        files = GroupFiles(
            self.store,
            self.plan,
            group,
            code,
            pending.dropped_files,
            changes_rows=pending.has_deletes,
            rows_deleted=rows_deleted,
        )
        needs_code = needs_id or wants_lineage
        frame, metadata = self._relation(files, physical, needs_code)
        if key.is_filtered and stamp is not None:
            frame = frame.where(F.col(stamp.name) <= F.lit(self.plan.snapshot.snapshot_id))
        plain = all(part.is_plain for part in group.projections)
        if plain and not (has_deletes or self.virtual or stamp is not None or metadata.is_added):
            return frame
        # A name costs fewer calls to the JVM than a column.
        made = [ticked(part.name) if part.is_plain else part.column() for part in group.projections]
        if not (has_deletes or self.virtual):
            return frame.select(*made)
        lineage = _Lineage(files.code, metadata, row_id, stamp)
        if not is_packed:
            # By name: Spark 4.0 cannot join on a condition over metadata columns.
            frame = frame.selectExpr(
                "*",
                f"{metadata.path} AS {_PATH}",
                f"{metadata.position} AS {_POSITION}",
                f"{lineage.number('data_file_id')} AS {_ID}",
            ).join(F.broadcast(self._looked_up(files)), _ID)
            metadata = RowSource(_PATH, _POSITION, _ID)
            lineage = replace(lineage, metadata=metadata, looked_up=True)
        texts = [
            _named(
                self._place_of(lineage.number("data_file_id"))
                if which == "file_index"
                else lineage.virtual(which),
                name,
            )
            for name, which in self.virtual.items()
        ]
        if not has_deletes and all(isinstance(column, str) for column in made):
            return frame.selectExpr(*map(str, made), *texts)
        virtual = [F.expr(text) for text in texts]
        if not has_deletes:
            return frame.select(*made, *virtual)
        ids = (group.lowest_file_id, group.highest_file_id)
        source = _Place(lineage.number("data_file_id"), metadata.position, ids, group.records)
        return self._without_deleted(frame, [*made, *virtual], source)

    def _looked_up(self, files: GroupFiles) -> DataFrame:
        """Row ids and snapshots of all files of a group, for when they are too large to travel with each file."""
        import pyarrow

        listed = files.scan_files()
        values = {
            _ID: [file.data_file_id for file in listed],
            _looked_up_name("row_id_start"): [
                -1 if f.row_id_start is None else f.row_id_start for f in listed
            ],
            _looked_up_name("begin_snapshot"): [file.begin_snapshot for file in listed],
        }
        return self.spark.createDataFrame(
            pyarrow.table({name: pyarrow.array(numbers, pyarrow.int64()) for name, numbers in values.items()})
        )

    def _relation(
        self, files: FileSource, physical: spark_types.StructType, needs_code: bool
    ) -> tuple[DataFrame, RowSource]:
        if self.plan.lake.is_encrypted:
            return WorkerRelation(self.plan, files, physical).frame(self.spark)
        if is_classic(self.spark):
            return with_source(relation(self.spark, files, physical), physical.names)
        return connect.relation(self.spark, files, physical, needs_code=needs_code)

    def _pending_files(self) -> list[DataFrame]:
        """The files of the transaction: those that it wrote before it changed columns are as they were then."""
        found: dict[tuple[ColumnMapping | None, Types], list[ScanFile]] = {}
        for file in self.pending.data_files:
            types = self._pending_types(file)
            found.setdefault((file.mapping, types), []).append(file)
        return [
            self._pending_group(tuple(files), mapping, types) for (mapping, types), files in found.items()
        ]

    def _pending_types(self, file: ScanFile) -> Types:
        if self.plan.lake.is_encrypted:
            return ()
        if file.mapping is None:
            return types_in(whole_path(file.path), self.columns)
        wanted = asked(self.columns, self.plan.history)
        return types_of(whole_path(file.path), NameMap.of(file.mapping), self.columns, wanted)

    def _pending_group(
        self, files: tuple[ScanFile, ...], mapping: ColumnMapping | None, types: Types
    ) -> DataFrame:
        choices = replace(self.choices, exact_integers=mapping is None, infinite_millis=mapping is not None)
        if mapping is None:
            past, at, names = history_of(types), 0 if types else None, None
        else:
            past, at, names = self.plan.history, None, replace(NameMap.of(mapping), types=dict(types))
        projections = tuple(
            worker_projection(column, self.choices)
            if self.plan.lake.is_encrypted
            else column_projection(column, choices, history=past, snapshot_id=at, names=names)
            for column in self.columns
        )
        fields = [part.field for part in projections if part.field is not None]
        by_id = mapping is None
        row_id = _internal(ROW_ID_NAME, ROW_ID_FIELD, fields) if by_id and "rowid" in self.wanted else None
        physical = spark_types.StructType(fields + ([row_id] if row_id is not None else []))
        rows_deleted = self._rows_deleted if self.pending.has_deletes else None
        frame, rows = self._relation(FixedFiles(self.plan, files, rows_deleted), physical, True)
        # Rows of this transaction have no ids yet; what they show differs from row to row and from every real one.
        own = f"{_PENDING_ROW_ID} - ({rows.code} + 1) * {_PENDING_FILE_ROWS} + {rows.position}"
        made = {
            "rowid": own if row_id is None else f"coalesce({ticked(row_id.name)}, {own})",
            "snapshot_id": NO_NUMBER,
            "filename": plain_path(rows.path),
            "file_row_number": rows.position,
            FILE_ID: rows.code,
            INLINED_NAME: NO_TEXT,
        }
        if "file_index" in self.wanted:
            made["file_index"] = self._place_of(rows.code)
        columns = [
            *(part.column() for part in projections),
            *(_called(made[which], name) for name, which in self.virtual.items()),
        ]
        if not self.pending.has_deletes or rows_deleted is not None:
            return frame.select(*columns)
        ids = [file.data_file_id for file in files]
        source = _Place(rows.code, rows.position, (min(ids), max(ids)), 0)
        return self._without_deleted(frame, columns, source)

    # Deletes

    def _without_deleted(self, frame: DataFrame, columns: Sequence[Column | str], place: _Place) -> DataFrame:
        """These columns of the rows that are not deleted."""
        if self._fits_bits(place):
            frame = frame.select(*columns, _called(place.file_id, _ID), _called(place.position, _POSITION))
            read = functools.partial(connect.read_bytes, self.spark)
            bits = DeletedBits(self.store, self.plan, read, place.ids, tuple(self._pairs))
            kept = bits.kept(numbers(self.spark, bits), F.col(_ID), F.col(_POSITION))
            return frame.where(kept).drop(_ID, _POSITION)
        frame = frame.select(*columns, _called(place.number, _PLACE))
        for deleted in self._deleted():
            is_deleted = F.col("f." + _PLACE) == F.col("d." + _DELETED)
            frame = frame.alias("f").join(deleted.alias("d"), is_deleted, "left_anti")
        return frame.drop(_PLACE)

    @functools.cached_property
    def _rows_deleted(self) -> DeletedRows | None:
        """What is deleted, where Spark's reader can leave it out: then a plan has no step for it."""
        any_deleted = self.pending.has_deletes or any(group.key.has_deletes for group in self.plan.groups)
        pending = sum(map(len, self.pending.deleted.values()))
        records = sum(group.records for group in self.plan.groups if group.key.has_deletes)
        if (
            not any_deleted
            or self.plan.lake.is_encrypted
            or self.pending.delete_files
            or not few_enough_apart(self.plan.deletes, pending, records)
            or not leaves_out_rows(self.spark)
        ):
            return None
        read = functools.partial(connect.read_bytes, self.spark)
        deleted = {file_id: tuple(positions) for file_id, positions in self.pending.deleted.items()}
        return DeletedRows(self.plan, read, deleted)

    def _fits_bits(self, place: _Place) -> bool:
        """Whether the driver can read what is deleted in no time, and every task can have it."""
        return (
            is_classic(self.spark)
            and not self.pending.delete_files
            # The driver decrypts delete files where it finds them as files.
            and (not self.plan.lake.is_encrypted or local_path(whole_path(self.plan.table_path)) is not None)
            and few_enough(self.plan.deletes, len(self._pairs), place.ids, place.records)
            and calls_are_folded(self.spark)
        )

    @functools.cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """Deleted positions that the catalog keeps, and those of the transaction, with the id of their file."""
        pairs = list(inlined_deletes(self.store, self.plan))
        for file_id, positions in self.pending.deleted.items():
            pairs += [(file_id, position) for position in positions]
        return pairs

    def _deleted(self) -> list[DataFrame]:
        """The places of deleted rows: one frame from delete files, one from the catalog."""
        found: list[DataFrame] = []
        plan = self.plan
        if plan.deletes.formats.get("parquet"):
            found.append(self._from_delete_files())
        if self.pending.delete_files:
            found.append(self._from_own_delete_files())
        pairs = self._pairs
        for file in delete_files(self.store, plan, "puffin") if plan.deletes.formats.get("puffin") else []:
            data = connect.read_bytes(self.spark, file.path)
            pairs = pairs + [
                (file.data_file_id, position)
                for position in vector_positions(data, file.path, plan.snapshot.snapshot_id).tolist()
            ]
        if pairs:
            found.append(F.broadcast(_pairs_frame(self.spark, pairs)))
        return found

    def _from_delete_files(self) -> DataFrame:
        # By name: the third column is there in some files only, and Iceberg's third column is called otherwise.
        schema = spark_types.StructType(
            [
                spark_types.StructField("pos", spark_types.LongType()),
                spark_types.StructField(SNAPSHOT_ID_NAME, spark_types.LongType()),
            ]
        )
        source = DeleteFiles(self.store, self.plan)
        frame, rows = self._relation(source, schema, True)
        stamp = F.col(SNAPSHOT_ID_NAME)
        frame = frame.where(stamp.isNull() | (stamp <= F.lit(self.plan.snapshot.snapshot_id)))
        frame = frame.select(_called(_place(rows.code, "pos"), _DELETED))
        return F.broadcast(frame) if self.plan.deletes.positions <= _BROADCAST_POSITIONS else frame

    def _from_own_delete_files(self) -> DataFrame:
        source = FixedFiles(self.plan, self.pending.delete_files)
        schema = spark_types.StructType([spark_types.StructField("pos", spark_types.LongType())])
        frame, rows = self._relation(source, schema, True)
        return frame.select(_called(_place(rows.code, "pos"), _DELETED))


@dataclass(frozen=True)
class _Place:
    """Where a row is: its file's id, out of a range of ids, and its position; and how many rows all files have."""

    file_id: str
    position: str
    ids: tuple[int, int]
    records: int

    @property
    def number(self) -> str:
        """One number for both."""
        return _place(self.file_id, self.position)


@dataclass(frozen=True)
class _Lineage:
    """Where a row comes from, out of its file's code, in SQL."""

    code: FileCode
    metadata: RowSource
    row_id: spark_types.StructField | None
    stamp: spark_types.StructField | None
    looked_up: bool = False

    def number(self, name: str) -> str:
        """A fact of the file."""
        if self.looked_up:
            return self.metadata.code if name == "data_file_id" else _looked_up_name(name)
        found = self.code.arithmetic(name)
        if found is None:
            return self.metadata.code if name == "data_file_id" else NO_NUMBER
        divisor, modulus, lowest = found
        value = self.metadata.code
        # Divisions are what costs most here.
        value = value if divisor == 1 else f"{value} div {divisor}L"
        value = value if modulus is None else f"{value} % {modulus}L"
        return f"({value} + {lowest}L)"

    def virtual(self, name: str) -> str:
        """A virtual column."""
        if name == "filename":
            return plain_path(self.metadata.path)
        if name == "file_row_number":
            return self.metadata.position
        if name == FILE_ID:
            return self.number("data_file_id")
        if name == INLINED_NAME:
            return NO_TEXT
        if name == "snapshot_id":
            begin = self.number("begin_snapshot")
            return begin if self.stamp is None else f"coalesce({ticked(self.stamp.name)}, {begin})"
        start = self.number("row_id_start")
        counted = f"CASE WHEN {start} >= 0 THEN {start} + {self.metadata.position} END"
        return counted if self.row_id is None else f"coalesce({ticked(self.row_id.name)}, {counted})"


def _code_of(group: FileGroup, has_deletes: bool, wants_lineage: bool) -> FileCode:
    ranges = (
        [("data_file_id", group.lowest_file_id, group.highest_file_id)]
        if has_deletes or not wants_lineage
        else []
    )
    if wants_lineage:
        ranges.append(("row_id_start", -1, group.highest_row_id_start))
        ranges.append(("begin_snapshot", group.first_snapshot, group.last_snapshot))
    return file_code(ranges)


def _looked_up_name(name: str) -> str:
    return f"__ducklake_{name}"


def _internal(name: str, field_id: int, taken: Iterable[spark_types.StructField]) -> spark_types.StructField:
    names = {fold(part.name) for part in taken}
    while fold(name) in names:
        name += "_"
    return spark_types.StructField(name, spark_types.LongType(), True, {FIELD_ID: field_id})


def _place(file_id: str, position: str) -> str:
    """One number for a row of a file: Spark finds numbers of 64 bits much faster than pairs of them."""
    return f"shiftleft({file_id}, {_POSITION_BITS}) + {position}"


def _called(sql: str, name: str) -> Column:
    return F.expr(_named(sql, name))


def _named(sql: str, name: str) -> str:
    return f"{sql} AS {ticked(name)}"


def _pairs_frame(spark: SparkSession, pairs: Sequence[tuple[int, int]]) -> DataFrame:
    import pyarrow

    places = [(file_id << _POSITION_BITS) + position for file_id, position in pairs]
    return spark.createDataFrame(pyarrow.table({_DELETED: pyarrow.array(places, pyarrow.int64())}))
