"""Answers that are known here already, as DataFrames that need no Spark until something else than their rows is asked.

What the catalog says is read by the driver, and most of it is only looked at. So the rows are kept as they are, and
become a DataFrame of a session when they are joined, filtered or written; only then a session is started, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyspark.sql.types as T
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from ducklake_spark.engine import html
from ducklake_spark.engine.column_texts import split_columns
from ducklake_spark.engine.scope import Scope
from ducklake_spark.spark.file_index import empty_frame, java_frame

_SCALARS: dict[str, tuple[T.DataType, pa.DataType]] = {
    "string": (T.StringType(), pa.string()),
    "boolean": (T.BooleanType(), pa.bool_()),
    "int": (T.IntegerType(), pa.int32()),
    "bigint": (T.LongType(), pa.int64()),
    "double": (T.DoubleType(), pa.float64()),
    "binary": (T.BinaryType(), pa.binary()),
    "timestamp": (T.TimestampType(), pa.timestamp("us", tz="UTC")),
}
_LOCAL = frozenset(
    (
        *("schema", "columns", "dtypes", "collect", "count", "isEmpty", "take", "head", "first", "tail"),
        *("toLocalIterator", "show", "printSchema", "toPandas", "is_cached", "arrow_table"),
    )
)
"""What is answered without Spark. Whoever asks for anything else gets a session, and so can use `F.col()` in it."""


def answer(scope: Scope, rows: Iterable[Sequence[Any]], columns: str) -> DataFrame:
    """A DataFrame of rows that are here.

    Args:
        scope: The scope of the lake, whose session is used if one is needed.
        rows: The rows; times have a zone.
        columns: Names and types, such as `name string, tags array<string>`.
    """
    fields = [_field(text) for text in split_columns(columns)]
    schema = T.StructType([T.StructField(name, kind) for name, kind, _ in fields])
    arrow = pa.schema([(name, kind) for name, _, kind in fields])
    kept = [tuple(row) for row in rows]
    known = _known_session(scope)
    if known is not None and not hasattr(known, "_jsparkSession"):
        return frame_of_rows(known, kept, schema, arrow)  # Connect's frames are plans already
    return LocalAnswer(scope, kept, schema, arrow)


def answer_of_table(scope: Scope, table: pa.Table, schema: T.StructType) -> DataFrame:
    """A DataFrame of rows that are here, in Arrow's types for Spark's."""
    known = _known_session(scope)
    variants = {str(place) for place, field in enumerate(schema) if isinstance(field.dataType, T.VariantType)}
    try:
        rows = [
            tuple(_variant(value) if key in variants else value for key, value in row.items())
            for row in _numbered(table).to_pylist(maps_as_pydicts="lossy")
        ]
    except (OverflowError, ValueError):  # times that Python has not
        rows = None
    if rows is None or (known is not None and not hasattr(known, "_jsparkSession")):
        return (
            scope.spark.createDataFrame(table, schema) if table.num_rows else empty_frame(scope.spark, schema)
        )
    return LocalAnswer(scope, rows, schema, table.schema)


def _variant(parts: dict[str, bytes] | None) -> T.VariantVal | None:
    return None if parts is None else T.VariantVal(parts["value"], parts["metadata"])


def _numbered(table: pa.Table) -> pa.Table:
    """The table with names of which no two are the same."""
    return table.rename_columns([str(place) for place in range(table.num_columns)])


def frame_of_rows(
    spark: SparkSession, rows: Sequence[Sequence[Any]], schema: T.StructType, arrow: pa.Schema
) -> DataFrame:
    """The rows as a part of a plan. Rows of Python would need a job with Python workers, Arrow's do not."""
    if not rows:
        return empty_frame(spark, schema)
    if any(isinstance(field.dataType, T.VariantType) for field in schema):
        return spark.createDataFrame([tuple(row) for row in rows], schema)  # Arrow has no variants
    columns = [
        pa.array(values, kind)
        for values, kind in zip(zip(*rows, strict=True), (field.type for field in arrow), strict=True)
    ]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema)


def _known_session(scope: Scope) -> SparkSession | None:
    return scope.session or SparkSession.getActiveSession()


def _field(text: str) -> tuple[str, T.DataType, pa.DataType]:
    name, kind = text.split(" ", 1)
    return (name.strip("`"), *_type(kind.strip()))


def _type(text: str) -> tuple[T.DataType, pa.DataType]:
    if text.startswith("array<"):
        element, kind = _type(text[6:-1])
        return T.ArrayType(element), pa.list_(kind)
    if text.startswith("map<"):
        (key, key_kind), (value, value_kind) = (_type(part) for part in split_columns(text[4:-1]))
        return T.MapType(key, value), pa.map_(key_kind, value_kind)
    return _SCALARS[text]


class LocalAnswer(ClassicDataFrame):
    """A DataFrame of a classic session that may not be there yet.

    All that a classic DataFrame does begins with its `_jdf`: that is made when it is first asked for.
    """

    def __new__(cls, *_: Any) -> LocalAnswer:
        return object.__new__(cls)

    def __init__(
        self, scope: Scope, rows: list[tuple[Any, ...]], schema: T.StructType, arrow: pa.Schema
    ) -> None:
        self.is_cached = self._support_repr_html = False
        self._scope, self._rows, self._fields, self._arrow = scope, rows, schema, arrow
        self._real: Any = None

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in _LOCAL:
            object.__getattribute__(self, "_session")
        return super().__getattribute__(name)

    @property
    def _session(self) -> Any:  # type: ignore[override]  # never set
        return self._scope.spark

    @property
    def _sc(self) -> Any:  # type: ignore[override]  # never set
        return self._session.sparkContext

    @property
    def _jdf(self) -> Any:
        if self._real is None:
            self._real = frame_of_rows(self._session, self._rows, self._fields, self._arrow)
        return java_frame(self._real)

    def arrow_table(self) -> pa.Table:
        """The rows, as they are here."""
        values = zip(*self._rows, strict=True) if self._rows else ([] for _ in self._arrow)
        columns = [pa.array(list(each), field.type) for each, field in zip(values, self._arrow, strict=True)]
        return pa.Table.from_arrays(columns, schema=self._arrow)

    # What needs no session.

    @property
    def schema(self) -> T.StructType:
        return self._fields

    @property
    def columns(self) -> list[str]:
        return list(self._fields.names)

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        return [(field.name, field.dataType.simpleString()) for field in self._fields.fields]

    def collect(self) -> list[Row]:
        return [self._fields.fromInternal(self._fields.toInternal(row)) for row in self._rows]

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Row]:  # noqa: ARG002 - as Spark has it
        return iter(self.collect())

    def count(self) -> int:
        return len(self._rows)

    def isEmpty(self) -> bool:
        return not self._rows

    def take(self, num: int) -> list[Row]:
        return self.collect()[:num] if _is_count(num) else super().take(num)

    def tail(self, num: int) -> list[Row]:
        return self.collect()[max(0, self.count() - num) :] if _is_count(num) else super().tail(num)

    def printSchema(self, level: int | None = None) -> None:
        print(self._fields.treeString() if level is None else self._fields.treeString(level))

    def show(self, n: int = 20, truncate: bool | int = True, vertical: bool = False) -> None:
        print(self._show_string(n, truncate, vertical))

    def _show_string(self, n: int = 20, truncate: bool | int = True, vertical: bool = False) -> str:
        zone = self._zone()
        plain = _is_count(n) and isinstance(truncate, int) and isinstance(vertical, bool)
        if not plain or zone is _UNKNOWN:
            return str(super()._show_string(n, truncate, vertical))
        width = 20 if truncate is True else int(truncate)
        kinds = [field.dataType for field in self._fields.fields]
        cells = [
            [_shortened(_cell(value, kind, zone), width) for value, kind in zip(row, kinds, strict=True)]
            for row in self._rows[:n]
        ]
        names = [_escaped(name) for name in self.columns]
        text = _records(names, cells) if vertical else _grid(names, cells, pad_left=width > 0)
        if vertical and not cells:
            return text + "(0 rows)"
        return text + (f"only showing top {n} row{'' if n == 1 else 's'}" if self.count() > n else "")

    def _zone(self) -> Any:
        """The session's time zone: None for this machine's, `_UNKNOWN` for one that only Spark knows."""
        known = _known_session(self._scope)
        if known is None or not any(isinstance(field.dataType, T.TimestampType) for field in self._fields):
            return None
        try:
            return ZoneInfo(str(known.conf.get("spark.sql.session.timeZone")))
        except (KeyError, ValueError, OSError):
            return _UNKNOWN

    def toPandas(self) -> Any:
        if _known_session(self._scope) is not None:
            return super().toPandas()
        columns = []
        for place, field in enumerate(self._arrow):
            values = [row[place] for row in self._rows]
            kind = field.type
            if pa.types.is_timestamp(kind):
                values = [None if value is None else _naive(value, None) for value in values]
                kind = pa.timestamp("us")
            columns.append(pa.array(values, kind))
        table = pa.Table.from_arrays(columns, names=self.columns)
        return table.to_pandas(
            maps_as_pydicts="strict", date_as_object=True, coerce_temporal_nanoseconds=True
        )

    def __repr__(self) -> str:
        if _known_session(self._scope) is not None:
            return str(super().__repr__())  # which may show rows, if the session is set so
        return f"DataFrame[{', '.join(f'{name}: {kind}' for name, kind in self.dtypes)}]"

    def _repr_html_(self) -> str | None:
        """For notebooks. The rows are here, so that showing them takes no query."""
        zone = self._zone()
        if zone is _UNKNOWN:
            return super()._repr_html_()
        kinds = [field.dataType for field in self._fields.fields]
        cells = [
            [
                _html_cell(name, value, kind, zone)
                for name, value, kind in zip(self.columns, row, kinds, strict=True)
            ]
            for row in self._rows[:_HTML_ROWS]
        ]
        count = self.count()
        title = f"{count:,} {'row' if count == 1 else 'rows'}"
        if count > _HTML_ROWS:
            title += f", of which the first {_HTML_ROWS} are shown"
        return html.box("", html.grid(self.columns, cells), html.note(title))


_UNKNOWN: Any = object()
_HTML_ROWS = 100
_NUMBERS = (T.IntegerType, T.LongType, T.DoubleType)
_FULL_WIDTH = re.compile(
    "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]"
)
_ESCAPES = str.maketrans(
    {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b", "\v": "\\v", "\a": "\\a"}
)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _naive(value: datetime, zone: tzinfo | None) -> datetime:
    """A time as a clock on the wall of the zone shows it; without one, on a wall of this machine."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
    return aware.astimezone(zone).replace(tzinfo=None)


def _cell(value: Any, kind: T.DataType, zone: tzinfo | None) -> str:
    """A value as Spark's `show()` writes it."""
    if value is None:
        return "NULL"
    if isinstance(kind, T.ArrayType):
        return f"[{', '.join(_cell(each, kind.elementType, zone) for each in value)}]"
    if isinstance(kind, T.MapType):
        pairs = (
            f"{_cell(key, kind.keyType, zone)} -> {_cell(each, kind.valueType, zone)}"
            for key, each in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    if isinstance(kind, T.TimestampType):
        text = _naive(value, zone).isoformat(" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(kind, T.BinaryType):
        return f"[{bytes(value).hex(' ').upper()}]"
    if isinstance(kind, T.BooleanType):
        return "true" if value else "false"
    return _escaped(str(value))


def _html_cell(name: str, value: Any, kind: T.DataType, zone: tzinfo | None) -> html.Cell:
    """A value for people: sizes in units, what a snapshot changed line by line."""
    if value is None:
        return html.Cell("NULL", is_quiet=True)
    if isinstance(kind, _NUMBERS):
        if name == "bytes" or name.endswith("_bytes"):
            return html.Cell(html.human_bytes(value), is_number=True, more=f"{value:,} bytes")
        text = f"{value:,}" if "rows" in name else _cell(value, kind, zone)
        return html.Cell(text, is_number=True, is_quiet=value == 0)
    if isinstance(kind, T.MapType):
        pairs = value.items()
        return html.Cell(
            "\n".join(f"{key}: {_plain_cell(each, kind.valueType, zone)}" for key, each in pairs)
        )
    return html.Cell(_plain_cell(value, kind, zone), is_whole=isinstance(value, datetime))


def _plain_cell(value: Any, kind: T.DataType, zone: tzinfo | None) -> str:
    if isinstance(value, datetime):
        return f"{_naive(value, zone):%Y-%m-%d %H:%M:%S}"
    if isinstance(kind, T.ArrayType) and value is not None:
        return ", ".join(_cell(each, kind.elementType, zone) for each in value)
    return _cell(value, kind, zone)


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _shortened(text: str, width: int) -> str:
    if width <= 0 or len(text) <= width:
        return text
    return text[:width] if width < 4 else text[: width - 3] + "..."


def _width(text: str) -> int:
    """How many letters wide: Spark counts UTF-16 units, and some scripts twice."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 + len(_FULL_WIDTH.findall(text))


def _grid(names: list[str], cells: list[list[str]], *, pad_left: bool) -> str:
    rows = [names, *cells]
    widths = [max(3, *(_width(row[place]) for row in rows)) for place in range(len(names))]
    line = f"+{'+'.join('-' * width for width in widths)}+\n"

    def shown(row: list[str]) -> str:
        padded = []
        for cell, width in zip(row, widths, strict=True):
            gap = " " * (width - _width(cell))
            padded.append(gap + cell if pad_left else cell + gap)
        return f"|{'|'.join(padded)}|\n"

    return line + shown(names) + line + "".join(map(shown, cells)) + line


def _records(names: list[str], cells: list[list[str]]) -> str:
    name_width = max(3, *map(_width, names)) if names else 3
    data_width = max([3, *(_width(cell) for row in cells for cell in row)])
    text = ""
    for number, row in enumerate(cells):
        text += f"-RECORD {number}".ljust(name_width + data_width + 5, "-") + "\n"
        for name, cell in zip(names, row, strict=True):
            text += (
                f" {name}{' ' * (name_width - _width(name))} | {cell}{' ' * (data_width - _width(cell))} \n"
            )
    return text
