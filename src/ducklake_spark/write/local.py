"""Rows that are in this process already (Python values, pandas, Arrow) as Arrow columns for the encoders.

Values of Python rows are made for the table's types, so that whole numbers beyond 64 bits, decimals, maps and variants
arrive as they are. A time without a zone that goes into a column with one is taken as UTC.
"""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyspark.sql.types as spark_types
from pyspark.sql import DataFrame, SparkSession

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.columns import find
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.types import DataType, Decimal, List, Map, Struct, duckdb_name, fold

_VARIANT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary())])
_HUGE = pa.decimal128(38, 0)
_MOST_DIGITS = 10**38
_BATCH_ROWS = 10_000
_SHOWN = 100
"""So many characters of a value stand in an error."""


class TimeType(spark_types.DataType):
    """Stands for a time of day where Spark has no such type."""


@dataclass(frozen=True)
class LocalRows:
    """Columns `c0`, `c1` ... with the names and types that the user gave them.

    Attributes:
        partial: Places of columns that some rows left out; `m<place>` tells which have it.
    """

    table: pa.Table
    fields: tuple[tuple[str, spark_types.DataType], ...]
    partial: frozenset[int] = frozenset()

    def batches(self) -> list[pa.RecordBatch]:
        """The rows, in pieces that an error can be looked for in."""
        return list(self.table.to_batches(max_chunksize=_BATCH_ROWS))


def local_rows(table: TableDef, source: Any) -> LocalRows:
    """What the user gave as columns.

    Raises:
        InvalidInputError: Not rows, or values that are not of one type.
    """
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    elif isinstance(source, pa.RecordBatchReader):
        source = source.read_all()
    elif hasattr(source, "to_arrow") and not hasattr(source, "columns"):
        source = source.to_arrow()
    elif type(source).__module__.startswith("pandas"):
        source = _from_pandas(table, source)
    elif hasattr(source, "__arrow_c_stream__") and not isinstance(source, pa.Table):
        source = pa.table(source)
    if isinstance(source, pa.Table):
        return _from_arrow(source)
    if isinstance(source, (str, bytes, Mapping)) or not isinstance(source, Iterable):
        given = "None" if source is None else type(source).__name__
        raise InvalidInputError(
            f'Cannot insert {given} into table "{table.name}": give a DataFrame, an Arrow table, a pandas DataFrame, '
            "or a list of dicts or tuples."
        )
    return _from_rows(table, list(source))


def frame_of_rows(spark: SparkSession, table: TableDef, source: Any) -> DataFrame:
    """Rows that are here as a DataFrame, with the types that the table has for their columns.

    Raises:
        InvalidInputError: Not rows, or values that Spark has no type for.
    """
    local = local_rows(table, source)
    arrays, fields = [], []
    for place, (name, kind) in enumerate(local.fields):
        array, column = local.table.column(f"c{place}"), find(table.columns, name)
        is_zoned = column is not None and column.data_type.name == "timestamptz"
        if is_zoned and pa.types.is_timestamp(array.type) and array.type.tz is None:
            array, kind = array.cast(pa.timestamp(array.type.unit, "UTC")), spark_types.TimestampType()
        arrays.append(array)
        fields.append(spark_types.StructField(name, kind))
    rows = pa.Table.from_arrays(arrays, names=[field.name for field in fields])
    try:
        return spark.createDataFrame(rows, spark_types.StructType(fields))
    except Exception as error:
        raise InvalidInputError(
            f'Cannot make a DataFrame of the rows for table "{table.name}": {first_sentence(error)} Give a DataFrame.'
        ) from None


def first_sentence(error: BaseException) -> str:
    """What an error says first, with a full stop."""
    return str(error).strip().partition("\n")[0].rstrip(".") + "."


def _from_pandas(table: TableDef, source: Any) -> pa.Table:
    names = [str(name) for name in source.columns]
    arrays = []
    for place, name in enumerate(names):
        series = source.iloc[:, place]
        column = find(table.columns, name)
        if series.dtype == object and column is not None:
            # Objects are Python values, for which the table knows the type; a float's NaN means no value in pandas.
            values = [None if isinstance(v, float) and v != v else v for v in series]
            arrays.append(
                _array([_missing(value) for value in values], column.data_type, _where(table, name))
            )
            continue
        try:
            arrays.append(pa.Array.from_pandas(series))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise _mixed(table, name, error) from None
    return pa.Table.from_arrays([_whole(array) for array in arrays], names=names)


def _missing(value: Any) -> Any:
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def _whole(array: Any) -> Any:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _from_arrow(source: pa.Table) -> LocalRows:
    for place, part in enumerate(source.schema):
        if pa.types.is_float16(part.type):  # which DuckDB does not know
            source = source.set_column(place, part.name, source.column(place).cast(pa.float32()))
    fields = tuple((part.name, spark_type_of(part.type)) for part in source.schema)
    return LocalRows(source.rename_columns([f"c{i}" for i in range(source.num_columns)]), fields)


def _from_rows(table: TableDef, rows: list[Any]) -> LocalRows:
    names = [column.name for column in table.columns]
    given: dict[str, str] = {}
    dicts: list[dict[str, Any]] = []
    for row in rows:
        cells = _cells(table, names, row)
        folded: dict[str, Any] = {}
        for name, value in cells.items():
            if not isinstance(name, str):
                raise InvalidInputError(
                    f'A row for table "{table.name}" has {name!r} for a column name: it must be a text.'
                )
            if fold(name) in folded:
                raise InvalidInputError(f'The rows for table "{table.name}" have two columns named "{name}".')
            folded[fold(name)] = value
            given.setdefault(fold(name), name)
        dicts.append(folded)
    arrays, columns, fields, partial = [], [], [], set()
    for place, (key, name) in enumerate(given.items()):
        column = find(table.columns, name)
        values = [row.get(key) for row in dicts]
        if column is None:
            try:
                array = pa.array([_untyped(value) for value in values])
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                raise _mixed(table, name, error) from None
        else:
            array = _array(values, column.data_type, _where(table, name))
        arrays.append(array)
        columns.append(f"c{place}")
        fields.append((name, spark_type_of(array.type)))
        if column is not None and column.default_value is not None and any(key not in row for row in dicts):
            partial.add(place)
            arrays.append(pa.array([key in row for row in dicts]))
            columns.append(f"m{place}")
    if not arrays and rows:
        # Rows without any value: each takes all defaults.
        arrays, columns = [pa.nulls(len(rows))], ["nothing"]
    return LocalRows(pa.Table.from_arrays(arrays, names=columns), tuple(fields), frozenset(partial))


def _cells(table: TableDef, names: Sequence[str], row: Any) -> Mapping[str, Any]:
    if hasattr(row, "asDict"):
        if not getattr(row, "__fields__", True):
            row = tuple(row)
        else:
            fields = list(getattr(row, "__fields__", ()))
            if len({fold(name) for name in fields}) < len(fields):
                raise InvalidInputError(f'A row for table "{table.name}" has a column twice: {fields}.')
            row = row.asDict()
    if isinstance(row, Mapping):
        return row
    if not isinstance(row, (tuple, list)):
        raise InvalidInputError(f'{row!r} is not a row for table "{table.name}": give dicts or tuples.')
    if len(row) != len(names):
        raise InvalidInputError(
            f'A row has {len(row)} values, but table "{table.name}" has {len(names)} columns: {row!r}. Give '
            "rows as dicts to leave columns out."
        )
    return dict(zip(names, row, strict=True))


def _where(table: TableDef, column: str) -> str:
    return f'column "{column}" of table "{table.name}"'


def _mixed(table: TableDef, name: str, error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f'The values of column "{name}" for table "{table.name}" are not of one type: {error}'
    )


def _untyped(value: Any) -> Any:
    """A value of a column that the table does not have."""
    return str(value) if isinstance(value, uuid.UUID) else value


def _misfit(value: Any, target: DataType, where: str) -> InvalidInputError:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
    return InvalidInputError(
        f"A value {shown} does not fit {where}: it is {duckdb_name(target)}. Nothing was written."
    )


def _array(values: Sequence[Any], target: DataType, where: str) -> pa.Array:
    match target:
        case List():
            return _list_array(values, target, where)
        case Map():
            return _map_array(values, target, where)
        case Struct():
            return _struct_array(values, target, where)
        case Decimal():
            return _decimal_array(values, target, where)
    try:
        return _scalar_array(values, target, where)
    except (pa.ArrowException, OverflowError, TypeError, ValueError, UnicodeError) as error:
        if isinstance(error, InvalidInputError):
            raise
        for value in values:
            try:
                _scalar_array([value], target, where)
            except (pa.ArrowException, OverflowError, TypeError, ValueError, UnicodeError):
                raise _misfit(value, target, where) from None
        raise InvalidInputError(f"The values for {where} are not of one type: {error}") from None


def _scalar_array(values: Sequence[Any], target: DataType, where: str) -> pa.Array:
    name = target.name
    if name == "variant":
        return pa.array([_variant(value, target, where) for value in values], _VARIANT)
    if name == "json":
        return pa.array([_json(value) for value in values])
    if name == "uuid":
        return pa.array([str(v) if isinstance(v, uuid.UUID) else v for v in values])
    if name in ("blob", "geometry"):
        values = [bytes(v) if isinstance(v, (bytearray, memoryview)) else v for v in values]
        return pa.array(values)
    if name in ("time", "timetz"):
        return pa.array([v.isoformat() if isinstance(v, datetime.time) else v for v in values])
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, int) and not isinstance(value, bool) for value in present):
        if any(not -(2**63) <= value < 2**63 for value in present):
            for value in present:
                if abs(value) >= _MOST_DIGITS:
                    raise _misfit(value, target, where)
            return pa.array([None if v is None else decimal.Decimal(v) for v in values], _HUGE)
        return pa.array(values, pa.int64())
    if any(isinstance(value, decimal.Decimal) for value in present):
        return pa.array([decimal.Decimal(v) if isinstance(v, int) else v for v in values])
    return pa.array(values)


def _json(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def _variant(value: Any, target: DataType, where: str) -> dict[str, bytes] | None:
    if value is None:
        return None
    if not isinstance(value, spark_types.VariantVal):
        try:
            value = spark_types.VariantVal.parseJson(json.dumps(value, ensure_ascii=False))
        except (TypeError, ValueError):
            raise _misfit(value, target, where) from None
    return {"value": bytes(value.value), "metadata": bytes(value.metadata)}


def _decimal_array(values: Sequence[Any], target: Decimal, where: str) -> pa.Array:
    present = [value for value in values if value is not None]
    exact = all(
        isinstance(value, (int, decimal.Decimal)) and not isinstance(value, bool) for value in present
    )
    if not exact:
        try:
            return pa.array(values)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInputError(f"The values for {where} are not of one type: {error}") from None
    context = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
    step = decimal.Decimal(1).scaleb(-target.scale)
    limit = decimal.Decimal(10) ** (target.precision - target.scale)
    made: list[decimal.Decimal | None] = []
    for value in values:
        if value is None:
            made.append(None)
            continue
        number = decimal.Decimal(value)
        if not number.is_finite() or number.copy_abs() >= limit * 10:
            raise _misfit(value, target, where)
        number = number.quantize(step, context=context)
        if number.copy_abs() >= limit:
            raise _misfit(value, target, where)
        made.append(number)
    return pa.array(made, pa.decimal128(38, target.scale))


def _list_array(values: Sequence[Any], target: List, where: str) -> pa.Array:
    offsets: list[int | None] = []
    items: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(items))
        if value is None:
            continue
        if hasattr(value, "tolist"):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise _misfit(value, target, where)
        items.extend(value)
    offsets.append(len(items))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), _array(items, target.element, f"element of {where}")
    )


def _map_array(values: Sequence[Any], target: Map, where: str) -> pa.Array:
    offsets: list[int | None] = []
    keys: list[Any] = []
    items: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(keys))
        if value is None:
            continue
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, (list, tuple)) or not all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs
        ):
            raise _misfit(value, target, where)
        if any(key is None for key, _ in pairs):
            raise InvalidInputError(f"A map for {where} has NULL for a key. Nothing was written.")
        keys.extend(key for key, _ in pairs)
        items.extend(item for _, item in pairs)
    offsets.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        _array(keys, target.key, f"key of {where}"),
        _array(items, target.value, f"value of {where}"),
    )


def _struct_array(values: Sequence[Any], target: Struct, where: str) -> pa.Array:
    known = {fold(name): (name, part) for name, part in target.fields}
    given: dict[str, str] = {}
    rows: list[dict[str, Any] | None] = []
    for value in values:
        if value is None:
            rows.append(None)
            continue
        if hasattr(value, "asDict"):
            value = value.asDict()
        elif isinstance(value, tuple) and len(value) == len(target.fields):
            value = dict(zip((name for name, _ in target.fields), value, strict=True))
        if not isinstance(value, Mapping):
            raise _misfit(value, target, where)
        rows.append({fold(str(name)): part for name, part in value.items()})
        for name in value:
            given.setdefault(fold(str(name)), str(name))
    if not given:
        # Only NULLs, or structs without any field.
        given = {key: name for key, (name, _) in known.items()}
    arrays, names = [], []
    for key, name in given.items():
        column = [None if row is None else row.get(key) for row in rows]
        part = known.get(key)
        if part is None:
            try:
                arrays.append(pa.array([_untyped(value) for value in column]))
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                raise InvalidInputError(f'The values of field "{name}" of {where}: {error}') from None
        else:
            arrays.append(_array(column, part[1], f'field "{name}" of {where}'))
        names.append(name)
    return pa.StructArray.from_arrays(
        arrays, names=names, mask=pa.array([row is None for row in rows], pa.bool_())
    )


def spark_type_of(arrow: pa.DataType) -> spark_types.DataType:
    """The Spark type of an Arrow type, for rows that never see Spark."""
    types = pa.types
    if isinstance(arrow, pa.BaseExtensionType):
        # DuckDB knows the standard ones, whose values it shows as text can be.
        return spark_type_of(arrow.storage_type) if "uuid" not in str(arrow) else spark_types.StringType()
    if arrow == _VARIANT:
        return spark_types.VariantType()
    if types.is_dictionary(arrow):
        return spark_type_of(arrow.value_type)
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return spark_types.ArrayType(spark_type_of(arrow.value_type))
    if types.is_map(arrow):
        return spark_types.MapType(spark_type_of(arrow.key_type), spark_type_of(arrow.item_type))
    if types.is_struct(arrow):
        return spark_types.StructType(
            [spark_types.StructField(part.name, spark_type_of(part.type)) for part in arrow]
        )
    return _scalar_spark_type(arrow)


def _scalar_spark_type(arrow: pa.DataType) -> spark_types.DataType:
    types = pa.types
    if types.is_null(arrow):
        return spark_types.NullType()
    if types.is_uint64(arrow):
        return spark_types.DecimalType(20, 0)
    if types.is_unsigned_integer(arrow):
        return spark_types.LongType()
    if types.is_timestamp(arrow):
        return spark_types.TimestampNTZType() if arrow.tz is None else spark_types.TimestampType()
    if types.is_time(arrow):
        return spark_types.TimeType() if hasattr(spark_types, "TimeType") else TimeType()
    if types.is_duration(arrow):
        return spark_types.DayTimeIntervalType()
    if types.is_interval(arrow):
        return spark_types.CalendarIntervalType()
    if types.is_float16(arrow):
        return spark_types.FloatType()
    if types.is_date(arrow):
        return spark_types.DateType()
    text = types.is_string(arrow) or types.is_large_string(arrow) or str(arrow) == "string_view"
    if text:
        return spark_types.StringType()
    if types.is_fixed_size_binary(arrow) or str(arrow) == "binary_view":
        return spark_types.BinaryType()
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        return from_arrow_type(arrow, prefer_timestamp_ntz=True)
    except Exception as error:
        raise InvalidInputError(f"Cannot store values of the Arrow type {arrow}: {error}") from None
