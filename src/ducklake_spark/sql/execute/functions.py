"""The functions of the extension, in CALL and in FROM: one registry, and how each becomes a call of the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal

from ducklake_spark.engine.answers import answer
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.scope import Scope, scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError, did_you_mean
from ducklake_spark.format.types import fold
from ducklake_spark.sql.execute import jobs
from ducklake_spark.sql.execute.session import session_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

PREFIX = "ducklake_"
State = Literal["works", "call only"]


@dataclass(frozen=True)
class Function:
    """A function of the lake.

    Args:
        name: Without `ducklake_`.
        parameters: Names in order as in `lake.name(...)`; those with a `?` at the end may be left out.
        prefixed: The same for `ducklake_name('lake', ...)` after the lake's name, where it differs.
        run: The call.
        state: Whether it works in FROM and CALL, or in CALL only.
        text: What it gives, in a few words.
        virtual: The virtual columns that its rows have.
    """

    name: str
    parameters: tuple[str, ...]
    run: Callable[[Lake, dict[str, Any]], DataFrame]
    text: str
    prefixed: tuple[str, ...] | None = None
    state: State = "works"
    virtual: frozenset[str] = frozenset()

    @property
    def is_job(self) -> bool:
        """Whether it changes the lake, and so must be run once for a statement and never for a look at its plan."""
        return isinstance(self.run, _Job)

    def signature(self, *, prefixed: bool) -> tuple[str, ...]:
        """The parameters of one of the two forms."""
        return self.prefixed if prefixed and self.prefixed is not None else self.parameters


def call(
    lake: Lake,
    name: str,
    positional: Sequence[Any],
    named: Mapping[str, Any],
    *,
    virtual: Sequence[str] = (),
    schema: str | None = None,
) -> DataFrame:
    """Calls a function of the lake with values, not expressions.

    Args:
        lake: The lake that the function is about, unless a first argument names another.
        name: `ducklake_snapshots` or `snapshots`; the first has the lake's name as its first argument.
        positional: Values in order.
        named: Values by parameter name.
        virtual: Virtual columns to add, for functions that have some.
        schema: Where tables without a schema are; by default the lake's default schema.

    Raises:
        NotFoundError: There is no such function, or no such lake.
        InvalidInputError: The arguments do not fit.
    """
    function = find(name)
    if function is None:
        raise NotFoundError(f'There is no function "{name}".{did_you_mean(name, _all_names())}')
    prefixed = fold(name).startswith(PREFIX)
    if prefixed:
        if not positional:
            raise InvalidInputError(f"{PREFIX}{function.name}() takes the lake's name as its first argument.")
        lake = _lake(lake, positional[0])
        positional = positional[1:]
    values = _arguments(function, positional, named, prefixed=prefixed)
    if function.is_job and (asking := _ASKING.get()) is not None:
        raise InvalidInputError(f"{function.name}() changes the lake, and {asking}")
    return function.run(lake, {**values, "virtual": virtual, "default_schema": schema or lake.default_schema})


def find(name: str) -> Function | None:
    """The function of this name, with or without `ducklake_`."""
    return FUNCTIONS.get(fold(name).removeprefix(PREFIX))


def _all_names() -> list[str]:
    return [*FUNCTIONS, *(PREFIX + name for name in FUNCTIONS)]


def _lake(lake: Lake, name: Any) -> Lake:
    if not isinstance(name, str):
        raise InvalidInputError(f"The first argument is the lake's name as a text, not {name!r}.")
    found = lake if fold(name) == fold(lake.name) else session_of(lake).named(name)
    if found is None:
        raise NotFoundError(f'There is no attached lake "{name}". This one is "{lake.name}".')
    return found


def _arguments(
    function: Function, positional: Sequence[Any], named: Mapping[str, Any], *, prefixed: bool
) -> dict[str, Any]:
    parameters = function.signature(prefixed=prefixed)
    names = [parameter.rstrip("?") for parameter in parameters]
    shown = f"{function.name}({', '.join(parameters)})"
    if len(positional) > len(names):
        raise InvalidInputError(f"{shown} takes at most {len(names)} arguments, not {len(positional)}.")
    values: dict[str, Any] = dict(zip(names, positional, strict=False))
    for key, value in named.items():
        own = fold(key)
        if own not in names:
            raise InvalidInputError(f'{shown} has no parameter "{key}".{did_you_mean(own, names)}')
        if own in values:
            raise InvalidInputError(f'{shown} got its parameter "{key}" twice.')
        values[own] = value
    for parameter in parameters:
        if not parameter.endswith("?") and parameter not in values:
            raise InvalidInputError(f'{shown} needs a value for "{parameter}".')
    return values


def _table(lake: Lake, values: Mapping[str, Any], key: str = "table_name") -> tuple[str, ...]:
    """The table that is meant: its name is taken as it is, as in the extension; else `schema.table` is tried."""
    name, schema = values[key], values.get("schema")
    if not isinstance(name, str):
        raise InvalidInputError(f"A table is named by a text, not {name!r}.")
    if schema is not None:
        return (str(schema), name)
    plain = (str(values["default_schema"]), name)
    parts = tuple(name.split("."))
    return parts if len(parts) == 2 and plain not in lake and parts in lake else plain


def _bound(value: Any) -> Any:
    """A start or end of a change feed: the number of a snapshot, or a time; a day is its first moment."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, bool) or not isinstance(value, (int, str, datetime)):
        raise InvalidInputError(f"A change feed goes from and to a version or a time, not {value!r}.")
    return value


def _feed(name: str) -> Callable[[Lake, dict[str, Any]], DataFrame]:
    def run(lake: Lake, values: dict[str, Any]) -> DataFrame:
        start, end = _bound(values["start_snapshot"]), _bound(values["end_snapshot"])
        more = {"virtual_columns": values["virtual"]} if values.get("virtual") else {}
        frame: DataFrame = getattr(lake, name)(_table(lake, values), start, end, **more)
        return frame

    return run


def _list_files(lake: Lake, values: dict[str, Any]) -> DataFrame:
    version, time = values.get("snapshot_version"), values.get("snapshot_time")
    return lake.list_files(_table(lake, values), version=version, timestamp=time)


def _set_option(lake: Lake, values: dict[str, Any]) -> DataFrame:
    table = values.get("table_name")
    names = None if table is None else _table(lake, values)
    schema = values.get("schema") if names is None else None
    lake.set_option(values["option"], values["value"], schema=schema, table=names)
    return _success(lake)


def _set_commit_message(lake: Lake, values: dict[str, Any]) -> DataFrame:
    if scope_of(lake).transaction is None:
        return _success(lake)  # as in the extension, it is one of a transaction that ends at once
    lake.set_commit_message(values["author"], values["message"], extra_info=values.get("extra_info"))
    return _success(lake)


@dataclass(frozen=True)
class _Job:
    """A job of maintenance, with the columns that the extension's function has."""

    job: Callable[[Scope, dict[str, Any]], Report]

    def __call__(self, lake: Lake, values: dict[str, Any]) -> DataFrame:
        report = self.job(scope_of(lake), values)
        return answer(scope_of(lake), report.like_extension(), report.columns)


def _job(run: Callable[[Scope, dict[str, Any]], Report]) -> Callable[[Lake, dict[str, Any]], DataFrame]:
    return _Job(run)


def _reports(run: Callable[[Scope, dict[str, Any]], Report]) -> Callable[[Lake, dict[str, Any]], DataFrame]:
    """A function that only looks."""
    return lambda lake, values: _Job(run)(lake, values)


_ASKING: ContextVar[str | None] = ContextVar("asking", default=None)


@contextmanager
def only_asking(statement: str, reason: str | None = None) -> Iterator[None]:
    """Inside, functions that change the lake raise an error: the statement makes a plan, and does not run it once.

    Args:
        statement: What is run inside.
        reason: What the error says instead, about what and why.
    """
    token = _ASKING.set(reason or f"{statement} would run it. Use CALL.")
    try:
        yield
    finally:
        _ASKING.reset(token)


def _success(lake: Lake) -> DataFrame:
    return answer(scope_of(lake), [], "Success boolean")


_FEED = ("table_name", "start_snapshot", "end_snapshot")
_FEED_PREFIXED = ("schema", *_FEED)
_FEED_VIRTUAL = frozenset({"rowid", "snapshot_id"})
_OLD = ("older_than?", "cleanup_all?", "dry_run?")

_REGISTRY = (
    Function("snapshots", (), lambda lake, _: lake.snapshots(), "every snapshot and what it changed"),
    Function(
        "current_snapshot", (), lambda lake, _: lake.current_snapshot(), "the snapshot that reads see now"
    ),
    Function(
        "last_committed_snapshot",
        (),
        lambda lake, _: lake.last_committed_snapshot(),
        "the last snapshot that this handle committed",
    ),
    Function("options", (), lambda lake, _: lake.options(), "the options that are set"),
    Function(
        "settings", (), lambda lake, _: lake.settings(), "the catalog's kind, our version, the data path"
    ),
    Function("table_info", (), lambda lake, _: lake.table_info(), "tables with their numbers of files"),
    Function(
        "list_files",
        ("table_name", "schema?", "snapshot_version?", "snapshot_time?"),
        _list_files,
        "the files of a table",
    ),
    Function(
        "table_changes", _FEED, _feed("table_changes"), "rows inserted, deleted and updated", _FEED_PREFIXED
    ),
    Function(
        "table_insertions",
        _FEED,
        _feed("table_insertions"),
        "rows inserted",
        _FEED_PREFIXED,
        virtual=_FEED_VIRTUAL,
    ),
    Function(
        "table_deletions",
        _FEED,
        _feed("table_deletions"),
        "rows deleted",
        _FEED_PREFIXED,
        virtual=_FEED_VIRTUAL,
    ),
    Function(
        "set_option",
        ("option", "value", "table_name?", "schema?"),
        _set_option,
        "sets an option",
        state="call only",
    ),
    Function(
        "set_commit_message",
        ("author", "message", "extra_info?"),
        _set_commit_message,
        "says who commits, and why",
        state="call only",
    ),
    Function(
        "merge_adjacent_files",
        (
            *("table_name?", "schema?", "min_file_size?", "max_file_size?", "max_compacted_files?"),
            *("where?", "dry_run?"),
        ),
        _job(jobs.merge_adjacent_files),
        "merges small files",
    ),
    Function(
        "rewrite_data_files",
        ("table_name?", "schema?", "delete_threshold?", "dry_run?"),
        _job(jobs.rewrite_data_files),
        "rewrites files with many deleted rows",
    ),
    Function(
        "flush_inlined_data",
        ("table_name?", "schema_name?", "dry_run?"),
        _job(jobs.flush_inlined_data),
        "moves inlined rows to files",
    ),
    Function(
        "expire_snapshots",
        ("older_than?", "versions?", "dry_run?"),
        _job(jobs.expire_snapshots),
        "forgets old snapshots",
    ),
    Function(
        "cleanup_old_files",
        _OLD,
        _job(jobs.cleanup_old_files),
        "deletes files that no snapshot needs",
    ),
    Function(
        "delete_orphaned_files",
        _OLD,
        _job(jobs.delete_orphaned_files),
        "deletes files that the lake does not know",
    ),
    Function(
        "add_data_files",
        (
            "table_name",
            "path",
            "schema?",
            "allow_missing?",
            "ignore_extra_columns?",
            "hive_partitioning?",
            "dry_run?",
        ),
        _job(jobs.add_data_files),
        "adds Parquet files to a table as they are",
    ),
    Function(
        "compact",
        ("table_name", "order_by?", "zorder_by?", "where?", "schema?", "dry_run?"),
        _job(jobs.compact),
        "writes files anew, in an order by which scans prune well",
    ),
    Function("checkpoint", ("dry_run?",), _job(jobs.checkpoint), "every job of maintenance in turn"),
    Function("health", (), _reports(jobs.health), "what the lake needs"),
    Function("maintain", ("dry_run?",), _job(jobs.maintain), "does what health() advises"),
)

FUNCTIONS: Mapping[str, Function] = {function.name: function for function in _REGISTRY}
"""Every function by its name without `ducklake_`."""
