"""`format("ducklake")`: readers and writers of Spark, in batches and in streams, on tables of lakes."""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ducklake_spark.engine import lakes
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import (
    AlreadyExistsError,
    ClosedError,
    InvalidInputError,
    NotFoundError,
    SchemaChangedError,
)
from ducklake_spark.format.names import split_name
from ducklake_spark.format.streaming import Offset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ducklake_spark.api.lake import Lake
    from ducklake_spark.engine.format_options import GivenOptions
    from ducklake_spark.engine.streaming.sink import TableSink
    from ducklake_spark.engine.streaming.source import TableStream

_MOST_SCHEMAS = 1000
_BEHAVIOURS = {"Append": "append", "Overwrite": "overwrite", "ErrorIfExists": "error", "Ignore": "ignore"}


def register(spark: SparkSession | None = None) -> None:
    """Lets a session know `format("ducklake")`, for `read`, `write`, `readStream` and `writeStream`.

    Once is enough for all sessions of a Spark application; again does no harm.

    >>> lake = getfixture("lake")
    >>> table = lake.create_table("t", {"a": "int"})
    >>> register(lake.spark)
    >>> lake.spark.range(3).selectExpr("id AS a").write.format("ducklake").mode("append").save("lake.main.t")
    >>> lake.spark.read.format("ducklake").load("lake.main.t").count()
    3

    Args:
        spark: The session; without one, the active session. In one of Spark Connect the format is a Python data
            source, for `read` and `write` of lakes that are named by their path: see docs/guides/connect.md.

    Raises:
        NativeUnavailableError: The session's JVM takes no classes.
    """
    from ducklake_spark.api.python_source import register_source
    from ducklake_spark.spark.file_index import is_classic
    from ducklake_spark.spark.native.format import make_known
    from ducklake_spark.spark.session import session_or_local

    session = session_or_local(spark)
    if not is_classic(session):
        register_source(session)
        return
    make_known(session, lambda: LakeFormat(session).functions())


class LakeFormat:
    """What the classes of the format ask, for all sessions of a JVM. Lakes that are named by a path stay attached."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._lakes: dict[str, Lake] = {}
        self._open: dict[str, TableStream] = {}
        self._schemas: OrderedDict[str, str] = OrderedDict()
        """The columns that `load()` gave last, by the options of the stream."""
        self._ids = itertools.count()
        self._lock = threading.RLock()

    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """The answers by question."""
        asked = "read write stream_schema open_stream schema latest newest stop_at_newest batch metrics close"
        return {name: getattr(self, f"_{name}") for name in (*asked.split(), "check_sink", "add")}

    # Lakes and tables.

    def _target(self, options: GivenOptions, *, creates: bool = False) -> tuple[Lake, tuple[str, ...]]:
        """The lake that options name, and the name of a table in it."""
        path, table = options.text("path"), options.text("table")
        if path is None or (table is None and ":" not in path and "/" not in path):
            return self._known(options, table if path is None else path)
        if table is None:
            raise InvalidInputError(
                'format("ducklake") needs option "table": the table of the lake, as schema.table.'
            )
        with self._lock:
            given = options.attach
            if not creates:
                given.setdefault("create_if_not_exists", False)
            key = json.dumps([path, sorted((name, str(value)) for name, value in given.items())])
            lake = self._lakes.get(key)
            if lake is None or scope_of(lake).is_closed:
                lake = self._lakes[key] = self._attached(path, given)
        return lake, split_name(table)

    def _attached(self, path: str, given: Mapping[str, Any]) -> Lake:
        from ducklake_spark.api.attach import attach

        with lakes.unlisted():  # a lake that is named by its path takes no name from one that was attached
            return attach(path, spark=self.spark, catalog=False, **given)

    def _known(self, options: GivenOptions, name: str | None) -> tuple[Lake, tuple[str, ...]]:
        """A table of a lake that is attached, by the lake's name."""
        if name is None:
            raise InvalidInputError(
                'format("ducklake") needs a lake and a table: the path "ducklake:..." with option "table", or the path '
                "lake.schema.table for a lake that is attached."
            )
        parts = split_name(name)
        lake = lakes.named(parts[0]) if len(parts) > 1 else None
        if lake is None:
            raise NotFoundError(
                f"{name!r} is not a table of a lake that is attached: write lake.schema.table with the name that "
                'attach() gave the lake, or load("ducklake:...") with option "table".'
            )
        if options.attach:
            raise InvalidInputError(
                f'Option "{next(iter(options.attach))}" is for a lake that is named by its path: {parts[0]} is one '
                "that is attached already."
            )
        return lake, parts[1:]

    # Batches.

    def _read(self, text: str, transactions: str) -> Any:
        from ducklake_spark.engine import format_options
        from ducklake_spark.spark.file_index import java_frame

        options = format_options.reading(json.loads(text))
        lake, table = self._target(options)
        with _in_transaction(lake, transactions):
            return java_frame(self._frame(options, lake, table))

    def _frame(self, options: GivenOptions, lake: Lake, table: tuple[str, ...]) -> DataFrame:
        from ducklake_spark.engine import format_options

        if options.flag("readChangeFeed"):
            return lake.table_changes(table, *format_options.feed_bounds(options))
        return lake.table(table, options.number("versionAsOf"), options.text("timestampAsOf"))

    def _write(self, text: str, mode: str, rows: Any, transactions: str) -> Any:
        from pyspark.sql import DataFrame

        from ducklake_spark.engine import format_options
        from ducklake_spark.spark.file_index import java_frame
        from ducklake_spark.spark.streams import session_of

        given = json.loads(text)
        options = format_options.writing(given)
        lake, table = self._target(options, creates=True)
        frame = DataFrame(rows, session_of(rows))
        with _in_transaction(lake, transactions):
            write_frame(lake, table, frame, _BEHAVIOURS[mode], options)
            return java_frame(lake.table(table))

    # Streams.

    def _stream_schema(self, text: str, schema: str | None) -> str:
        from ducklake_spark.engine import format_options
        from ducklake_spark.engine.streaming.source import StreamOptions, resolve, schema_of

        options, how = format_options.streaming(json.loads(text))
        lake, table = self._target(options)
        scope = scope_of(lake)
        found = resolve(scope, table).table
        own = schema_of(scope, found, StreamOptions())
        # readStream.table gives the columns that it found in the catalog.
        if schema is not None and json.loads(schema)["fields"] != own.jsonValue()["fields"]:
            raise InvalidInputError(
                'format("ducklake") knows the columns of its tables: leave schema(...) out.'
            )
        with self._lock:
            self._schemas[text] = made = schema_of(scope, found, how).json()
            self._schemas.move_to_end(text)
            while len(self._schemas) > _MOST_SCHEMAS:
                self._schemas.popitem(last=False)
        return made

    def _open_stream(self, text: str) -> str:
        from ducklake_spark.engine import format_options
        from ducklake_spark.engine.streaming.source import TableStream

        options, how = format_options.streaming(json.loads(text))
        lake, table = self._target(options)
        stream = TableStream(scope_of(lake), table, how)
        with self._lock:
            if self._schemas.get(text, stream.schema.json()) != stream.schema.json():
                raise SchemaChangedError(
                    f'The columns of table "{".".join(table)}" changed since load() made the DataFrame of this stream. '
                    "Call load() again."
                )
            name = str(next(self._ids))
            self._open[name] = stream
        return json.dumps({"id": name, "title": _title(lake, table)})

    def _sink(self, text: str, keys: str, mode: str) -> tuple[TableSink, str]:
        from ducklake_spark.engine import format_options
        from ducklake_spark.engine.streaming.sink import TableSink

        options, how = format_options.sinking(json.loads(text), json.loads(keys), mode)
        lake, table = self._target(options, creates=True)
        return TableSink(scope_of(lake), table, how), _title(lake, table)

    def _check_sink(self, text: str, keys: str, mode: str) -> str:
        return self._sink(text, keys, mode)[1]

    def _source(self, name: str) -> TableStream:
        found = self._open.get(name)
        if found is None:
            raise ClosedError("The stream was stopped. Start it again.")
        return found

    def _schema(self, name: str) -> str:
        return self._source(name).schema.json()

    def _latest(self, name: str, start: str | None, is_limited: bool) -> str | None:
        offset = None if start is None else Offset.of_json(start)
        found = self._source(name).latest(offset, is_limited=is_limited)
        return None if found is None else found.to_json()

    def _newest(self, name: str) -> str | None:
        found = self._source(name).newest()
        return None if found is None else found.to_json()

    def _stop_at_newest(self, name: str) -> None:
        self._source(name).stop_at_newest()

    def _batch(self, name: str, start: str | None, end: str) -> Any:
        from ducklake_spark.spark.file_index import java_frame

        first = None if start is None else Offset.of_json(start)
        return java_frame(self._source(name).batch(first, Offset.of_json(end)))

    def _metrics(self, name: str) -> str:
        return json.dumps(self._source(name).metrics())

    def _close(self, name: str) -> None:
        self._open.pop(name, None)

    def _add(self, text: str, keys: str, mode: str, query: str | None, batch: int, rows: Any) -> None:
        from ducklake_spark.spark.streams import from_sink

        if query is None:
            raise InvalidInputError("A batch for a lake came without the id of its streaming query.")
        self._sink(text, keys, mode)[0].add(query, batch, from_sink(rows))


@contextmanager
def _in_transaction(lake: Lake, transactions: str) -> Iterator[None]:
    """Runs a block in the place of the user's thread, with the transaction that it has begun.

    Args:
        lake: The lake.
        transactions: Of the user's thread, by lake, as Spark knows them.
    """
    scope = scope_of(lake)
    if scope.on_mark is None:  # Spark knows of no transactions of this lake
        scope.require_none_begun('format("ducklake") cannot tell whose statements are its own here')
    with scope.in_place_of(json.loads(transactions).get(lake.name, "")):
        yield


def _title(lake: Lake, table: Sequence[str]) -> str:
    return f"ducklake {'.'.join((lake.name, *table))}"


def write_frame(
    lake: Lake,
    table: Sequence[str],
    frame: DataFrame,
    mode: str,
    options: GivenOptions,
) -> None:
    """Writes a DataFrame as `df.write` says: into a table that is there, or as a new one."""
    from ducklake_spark.engine.format_options import write_options
    from ducklake_spark.engine.formats import write

    done = write(scope_of(lake), tuple(table), frame, write_options(options, mode))
    if not done and mode == "error":
        raise AlreadyExistsError(
            f'Table "{".".join(table)}" exists already. Write with mode "append" or "overwrite", or with "ignore".'
        )
