"""`insert`: rows from a DataFrame, Arrow, pandas or Python become files or inlined rows of a transaction."""

from __future__ import annotations

import base64
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyspark.sql.types as spark_types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.errors import DuckLakeError, InvalidInputError, did_you_mean
from ducklake_spark.format import duckdb_sql, paths
from ducklake_spark.format.columns import ColumnDef, find
from ducklake_spark.format.data import DataFile
from ducklake_spark.format.edits import InlineRows, InsertFiles
from ducklake_spark.format.objects import SchemaDef, TableDef
from ducklake_spark.format.options import DEFAULT_TARGET_FILE_SIZE
from ducklake_spark.format.statistics import ColumnStats, geometry_stats
from ducklake_spark.format.types import duckdb_name, fold, quote
from ducklake_spark.write.encode import FAILURE_MARK, EncodedColumn, EncodedKey, Encoding
from ducklake_spark.write.expressions import check_assignable, stored_sql
from ducklake_spark.write.inline import inline_rows, not_null_error, spark_type_of

_COUNTED = ("timetz", "interval")


@dataclass(frozen=True)
class Target:
    """Where rows go: the table as the transaction sees it, and the lake's data path."""

    tx: Transaction
    schema: SchemaDef
    table: TableDef
    data_path: str

    @property
    def folder(self) -> str:
        """The table's folder, whole."""
        parent = paths.join(self.data_path, self.schema.path, self.schema.path_is_relative)
        return paths.join(parent, self.table.path, self.table.path_is_relative)

    @property
    def inline_limit(self) -> int:
        """Up to how many rows go into the catalog."""
        table = self.table
        if not self.tx.can_inline(table):
            return 0
        return self.tx.options.inlining_limit(schema_id=table.schema_id, table_id=table.table_id)

    def option(self, key: str) -> str | None:
        """An option in force for the table."""
        return self.tx.options.get(key, schema_id=self.table.schema_id, table_id=self.table.table_id)


Fields = Sequence[tuple[str, spark_types.DataType]]


Added = InsertFiles | InlineRows | None
"""What an insert changes; None when there are no rows."""


def row_count(added: Added) -> int:
    """How many rows a change adds."""
    match added:
        case InsertFiles(_, files):
            return sum(file.record_count for file in files)
        case InlineRows(_, batch):
            return batch.record_count
        case None:
            return 0


def rows_to_add(target: Target, source: Any, spark: Callable[[], SparkSession]) -> Added:
    """The change that adds rows. Files are written now, and removed with the transaction if it does not commit.

    Args:
        target: Where to.
        source: A DataFrame, an Arrow table, a pandas DataFrame, or rows as dicts, tuples or Rows.
        spark: A function that gives the session, called only when one is needed.

    """
    if isinstance(source, DataFrame) or type(source).__module__.startswith("pyspark.sql.connect"):
        return _insert_frame(target, source)
    local = _local_table(target.table, source)
    if local.num_rows == 0:
        return None
    if local.num_rows <= target.inline_limit:
        fields = [(part.name, spark_type_of(part.type)) for part in local.schema]
        return _inline(target, local.rename_columns([f"c{i}" for i in range(local.num_columns)]), fields)
    return _insert_frame(target, spark().createDataFrame(_for_spark(local)))


def _for_spark(local: pa.Table) -> pa.Table:
    """Columns of only NULLs get a type that Spark has."""
    for i, part in enumerate(local.schema):
        if pa.types.is_null(part.type):
            local = local.set_column(i, part.name, local.column(i).cast(pa.string()))
    return local


def _local_table(table: TableDef, source: Any) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if hasattr(source, "to_arrow") and not hasattr(source, "columns"):
        return source.to_arrow()
    if type(source).__module__.startswith("pandas"):
        return pa.Table.from_pandas(source, preserve_index=False)
    if isinstance(source, (str, bytes, Mapping)) or not isinstance(source, Iterable):
        raise InvalidInputError(
            f'Cannot insert {type(source).__name__} into table "{table.name}": give a DataFrame, an Arrow table, a '
            "pandas DataFrame, or a list of dicts or tuples."
        )
    return _rows_table(table, list(source))


def _rows_table(table: TableDef, rows: list[Any]) -> pa.Table:
    dicts = []
    names = [column.name for column in table.columns]
    for row in rows:
        if hasattr(row, "asDict"):
            row = row.asDict(recursive=True)
        if isinstance(row, Mapping):
            dicts.append(dict(row))
        elif isinstance(row, (tuple, list)):
            if len(row) != len(names):
                raise InvalidInputError(
                    f'A row has {len(row)} values, but table "{table.name}" has {len(names)} columns: {row!r}. Give '
                    "rows as dicts to leave columns out."
                )
            dicts.append(dict(zip(names, row, strict=True)))
        else:
            raise InvalidInputError(f'{row!r} is not a row for table "{table.name}": give dicts or tuples.')
    keys = list(dict.fromkeys(key for row in dicts for key in row))
    arrays = []
    for key in keys:
        try:
            arrays.append(pa.array([row.get(key) for row in dicts]))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f'The values of column "{key}" for table "{table.name}" are not of one type: {error}'
            ) from error
    return pa.Table.from_arrays(arrays, names=keys)


def _insert_frame(target: Target, frame: Any) -> Added:
    fields = [(part.name, part.dataType) for part in frame.schema.fields]
    if not fields:
        raise InvalidInputError(f'The DataFrame for table "{target.table.name}" has no columns.')
    prepared = frame.select(*[_prepared(frame, i, part).alias(f"c{i}") for i, (_, part) in enumerate(fields)])
    limit = target.inline_limit
    if limit and 0 <= _max_rows(frame) <= limit:
        local = prepared.toArrow()
        return _inline(target, local, fields) if local.num_rows else None
    return _write_files(target, prepared, fields, limit)


def _prepared(frame: Any, position: int, part: spark_types.DataType) -> Any:
    """The column as a worker can take it: a variant travels as JSON."""
    column = (
        frame[frame.columns[position]]
        if len(set(frame.columns)) == len(frame.columns)
        else F.col(frame.columns[position])
    )
    return F.to_json(column) if isinstance(part, spark_types.VariantType) else column


def _max_rows(frame: Any) -> int:
    """An upper bound of the rows that the plan itself knows, or -1."""
    if not hasattr(frame, "_jdf"):
        return -1
    known = frame._jdf.queryExecution().optimizedPlan().maxRows()
    return int(known.get()) if known.isDefined() else -1


def _values(target: Target, fields: Fields) -> list[str]:
    """For each column of the table, the SQL of the value to store over `c0`, `c1` ..."""
    table = target.table
    given: dict[str, int] = {}
    for position, (name, _) in enumerate(fields):
        if find(table.columns, name) is None:
            near = did_you_mean(name, [column.name for column in table.columns])
            raise InvalidInputError(
                f'Table "{table.name}" has no column "{name}".{near} Drop it, or insert with '
                "merge_schema=True to add it."
            )
        if fold(name) in given:
            raise InvalidInputError(f'The rows for table "{table.name}" have two columns named "{name}".')
        given[fold(name)] = position
    values = []
    for column in table.columns:
        found = given.get(fold(column.name))
        if found is None:
            values.append(_default_value(column))
            continue
        source = fields[found][1]
        check_assignable(source, column.data_type, f'"{table.name}.{column.name}"')
        travels = spark_types.StringType() if isinstance(source, spark_types.VariantType) else source
        values.append(stored_sql(f"c{found}", travels, column.data_type))
    return values


def _default_value(column: ColumnDef) -> str:
    name = duckdb_name(column.data_type)
    if column.default_value is None:
        return f"CAST(NULL AS {name})"
    if column.default_value_type != "expression":
        text = column.default_value.replace("'", "''")
        return f"CAST('{text}' AS {name})"
    return f"CAST({duckdb_sql.once_or_per_row(column.default_value)} AS {name})"


def _inline(target: Target, local: pa.Table, fields: Fields) -> Added:
    batch = inline_rows(target.table, local, _values(target, fields), target.tx.store.kind)
    return InlineRows(target.table, batch)


def local_path(path: str) -> str:
    """A path of this machine.

    Raises:
        DuckLakeError: It is in an object store, to which workers cannot write.
    """
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    if "://" in path:
        raise DuckLakeError(
            f"Cannot write to {path}: data files are written to folders that all workers see; object stores are not "
            "among them in this version."
        )
    return os.path.abspath(path)


def _encoding(target: Target, fields: Fields, folder: str, limit: int) -> Encoding:
    table = target.table
    columns = tuple(
        EncodedColumn(column.name, value, not column.nulls_allowed)
        for column, value in zip(table.columns, _values(target, fields), strict=True)
    )
    order: tuple[str, ...] = ()
    if table.sorting is not None and target.option("sort_on_insert") != "false":
        order = tuple(
            f"{key.expression} {key.direction} {key.null_order.replace('_', ' ')}"
            for key in table.sorting.keys
            if key.dialect == "duckdb"
        )
    size = int(target.option("target_file_size") or DEFAULT_TARGET_FILE_SIZE)
    return Encoding(
        folder=folder,
        columns=columns,
        field_ids="{" + ", ".join(_field_id(column) for column in table.columns) + "}",
        order_by=order,
        keys=_keys(table),
        hive_folders=target.option("hive_file_pattern") != "false",
        copy_options=_copy_options(target),
        target_file_size=size,
        inline_limit=limit,
        counted=tuple(column.name for column in table.columns if column.type in _COUNTED),
    )


def _field_id(column: ColumnDef) -> str:
    name = "'" + column.name.replace("'", "''") + "'"
    if not column.children:
        return f"{name}: {column.column_id}"
    inner = ", ".join(_field_id(child) for child in column.children)
    return f"{name}: {{__duckdb_field_id: {column.column_id}, {inner}}}"


def _copy_options(target: Target) -> tuple[str, ...]:
    options = [f"COMPRESSION {target.option('parquet_compression') or 'snappy'}"]
    level = target.option("parquet_compression_level")
    if level is not None and target.option("parquet_compression") == "zstd":
        options.append(f"COMPRESSION_LEVEL {int(level)}")
    if target.option("parquet_version") is not None:
        options.append(f"PARQUET_VERSION {target.option('parquet_version')}")
    if target.option("parquet_row_group_size") is not None:
        options.append(f"ROW_GROUP_SIZE {int(target.option('parquet_row_group_size') or 0)}")
    return tuple(options)


def _keys(table: TableDef) -> tuple[EncodedKey, ...]:
    if table.partitioning is None:
        return ()
    names = {column.column_id: column.name for column in table.columns}
    keys: list[EncodedKey] = []
    used: set[str] = set()
    for key in table.partitioning.keys:
        column = names[key.column_id]
        if key.buckets is not None:
            raise DuckLakeError(
                f'Table "{table.name}" is partitioned by bucket, which cannot be written yet.'
            )
        sql = f"CAST({quote(column)} AS VARCHAR)"
        folder = column
        if key.transform != "identity":
            sql, folder = f"CAST({key.transform}({quote(column)}) AS VARCHAR)", key.transform
        if folder in used:
            folder = f"{folder}_{column}"
        used.add(folder)
        keys.append(EncodedKey(sql, folder))
    return tuple(keys)


def _write_files(target: Target, prepared: Any, fields: Fields, limit: int) -> Added:
    folder = local_path(target.folder)
    job = os.path.join(folder, f"job-{uuid.uuid4()}")
    encoding = _encoding(target, fields, job, limit)
    try:
        arranged = _arranged(target.table, prepared, fields)
        rows, few = _split(_run(target, arranged, encoding))
        if few is not None and not rows and few.num_rows <= limit:
            return _inline(target, few, fields)
        if few is not None:
            whole = replace(encoding, inline_limit=0)
            rows += [(path, info) for path, info in _results(whole(few.to_batches()))]
        files = [_registered(target, folder, path, json.loads(info)) for path, info in rows]
        target.tx.written += [file.whole_path for file in files]
    finally:
        shutil.rmtree(job, ignore_errors=True)
    return InsertFiles(target.table, tuple(files)) if files else None


def _split(results: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], pa.Table | None]:
    """The files that were written, and the rows of tasks that had too few for a file of their own."""
    files = [(path, info) for path, info in results if path]
    tables = [pa.ipc.open_stream(base64.b64decode(info)).read_all() for path, info in results if not path]
    return files, pa.concat_tables(tables) if tables else None


def _results(batches: Iterable[pa.RecordBatch]) -> Iterable[tuple[str, str]]:
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _arranged(table: TableDef, prepared: Any, fields: Fields) -> Any:
    """Rows of one partition value come together, so that few files are made; Spark splits what is skewed."""
    if table.partitioning is None or not table.partitioning.keys:
        return prepared
    positions = {fold(name): i for i, (name, _) in enumerate(fields)}
    names = {column.column_id: column.name for column in table.columns}
    helpers = {}
    for i, key in enumerate(table.partitioning.keys):
        position = positions.get(fold(names[key.column_id]))
        if position is not None:
            column = F.col(f"c{position}")
            helpers[f"k{i}"] = (
                column if key.transform == "identity" else getattr(F, _PARTS[key.transform])(column)
            )
    if not helpers:
        return prepared
    names_only = list(helpers)
    shuffled = prepared.withColumns(helpers).hint("rebalance", *names_only)
    return shuffled.drop(*names_only)


_PARTS = {"year": "year", "month": "month", "day": "dayofmonth", "hour": "hour"}


def _run(target: Target, frame: Any, encoding: Encoding) -> list[tuple[str, str]]:
    try:
        return [tuple(row) for row in frame.mapInArrow(encoding, "path string, info string").collect()]
    except Exception as error:
        failure = _failure(error)
        if failure is None:
            raise
        column, value, reason = failure.get("column"), failure.get("value"), failure.get("reason")
        table = target.table
        if column is not None and "NULL in a NOT NULL column" in str(reason):
            raise not_null_error(table, column) from error
        where = f'column "{column}" of table "{table.name}"' if column else f'table "{table.name}"'
        shown = f" {value!r}" if value is not None else ""
        raise InvalidInputError(
            f"A value{shown} does not fit {where}: {reason}. Nothing was written."
        ) from error


def _failure(error: BaseException) -> dict[str, Any] | None:
    text = str(error)
    at = text.find(FAILURE_MARK)
    if at < 0:
        return None
    decoder = json.JSONDecoder()
    try:
        found, _ = decoder.raw_decode(text[at + len(FAILURE_MARK) :])
    except ValueError:
        return None
    return dict(found)


def _registered(target: Target, folder: str, path: str, info: Mapping[str, Any]) -> DataFile:
    """Moves a file to its place and describes it."""
    relative = info["folder"] + os.path.basename(path)
    whole = os.path.join(folder, relative)
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    os.replace(path, whole)
    partitioning = target.table.partitioning
    keyed = partitioning is not None and bool(partitioning.keys)
    return DataFile(
        path=relative,
        path_is_relative=True,
        record_count=info["rows"],
        file_size_bytes=info["size"],
        footer_size=info["footer"],
        columns=tuple(_column_stats(target.table, info)),
        partition_id=partitioning.partition_id if keyed and partitioning is not None else None,
        partition_values=tuple(info["values"]),
        whole_path=whole,
    )


def _column_stats(table: TableDef, info: Mapping[str, Any]) -> Iterable[ColumnStats]:
    statistics: Mapping[str, Mapping[str, str]] = info["statistics"]
    for column in table.columns:
        yield from _node_stats(column, quote(column.name), statistics, info)


def _node_stats(
    column: ColumnDef, path: str, statistics: Mapping[str, Mapping[str, str]], info: Mapping[str, Any]
) -> Iterable[ColumnStats]:
    if column.children:
        for child in column.children:
            yield from _node_stats(child, f"{path}.{quote(child.name)}", statistics, info)
        return
    if column.type == "variant":
        sizes = [
            int(part["column_size_bytes"]) for key, part in statistics.items() if key.startswith(path + ".")
        ]
        yield ColumnStats(column.column_id, sum(sizes), info["rows"], 0, None, None)
        return
    found = statistics.get(path)
    if found is None:
        return
    if column.type in _COUNTED:
        nulls = info["nulls"].get(column.name)
        if nulls is not None:
            # DuckDB counts nothing for these; a count of zero would make readers skip the file.
            yield ColumnStats(column.column_id, 0, info["rows"] - nulls, nulls, None, None)
        return
    null_count = int(found["null_count"])
    nan = found.get("has_nan")
    yield ColumnStats(
        column.column_id,
        int(found["column_size_bytes"]),
        int(found["num_values"]) - null_count,
        null_count,
        _bound(found.get("min")),
        _bound(found.get("max")),
        None if nan is None else nan == "true",
        _geometry(found) if column.type == "geometry" else None,
    )


def _bound(text: str | None) -> str | None:
    return None if text is None or "\0" in text else text


def _geometry(found: Mapping[str, str]) -> str:
    box = {key.removeprefix("bbox_"): float(value) for key, value in found.items() if key.startswith("bbox_")}
    types = [name.strip() for name in found.get("geo_types", "[]").strip("[]").split(",") if name.strip()]
    return geometry_stats({"bbox": box, "types": types})
