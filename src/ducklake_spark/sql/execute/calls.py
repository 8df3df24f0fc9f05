"""Transactions, USE, CALL, SET and CHECKPOINT -> calls of the lake."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import DuckLakeError, InvalidInputError, NotFoundError, did_you_mean
from ducklake_spark.format.options import normalize_option
from ducklake_spark.format.types import fold
from ducklake_spark.sql.execute import functions
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.parser import nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

_RETRY = {
    "ducklake_max_retry_count": ("max_retry_count", int, 10),
    "ducklake_retry_wait_ms": ("retry_wait_ms", float, 100.0),
    "ducklake_retry_backoff": ("retry_backoff", float, 1.5),
}
_OPTIONS = {
    "ducklake_default_data_inlining_row_limit": "data_inlining_row_limit",
    "ducklake_target_file_size": "target_file_size",
    "ducklake_write_deletion_vectors": "write_deletion_vectors",
}
SETTINGS = (*_RETRY, *_OPTIONS)


def transaction(context: Context, node: nodes.Transaction) -> None:
    """BEGIN, COMMIT and ROLLBACK."""
    lake = context.lake
    {"begin": lake.begin, "commit": lake.commit, "rollback": lake.rollback}[node.action]()


def use(context: Context, node: nodes.Use) -> None:
    """USE schema, USE lake, USE lake.schema."""
    lake, name = context.lake, node.name
    if len(name) == 1 and name[0] not in lake.schemas() and fold(name[0]) == fold(lake.name):
        lake.use("main")
    else:
        lake.use(context.schema_name(name))


def call(context: Context, node: nodes.Call) -> DataFrame:
    """CALL of a function of the extension."""
    *places, name = node.name
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for argument in node.arguments:
        value = context.value(argument.value)
        if argument.name is None:
            if named:
                raise InvalidInputError(
                    f"{name}(): arguments without a name stand before those that have one."
                )
            positional.append(value)
        elif fold(argument.name) in named:
            raise InvalidInputError(f'{name}() got its parameter "{argument.name}" twice.')
        else:
            named[fold(argument.name)] = value
    return functions.call(_lake_of(context, tuple(places)), name, positional, named)


def _lake_of(context: Context, places: nodes.Name) -> Lake:
    """The lake that `lake.f()`, `lake.schema.f()` or `schema.f()` is about."""
    lake = context.lake
    if not places or fold(places[0]) == fold(lake.name):
        return lake
    from ducklake_spark.engine import lakes as attached

    other = attached.named(places[0])
    if other is not None:
        return other
    if len(places) == 1 and places[0] in lake.schemas():
        return lake
    raise NotFoundError(f'There is no lake "{places[0]}". This one is "{lake.name}".')


def set_variable(context: Context, node: nodes.SetVariable) -> None:
    """SET and RESET of a setting of the extension, for this handle."""
    lake, name = context.lake, fold(node.name)
    value = None if node.value is None else context.value(node.value)
    if name in _RETRY:
        attribute, kind, default = _RETRY[name]
        number = default if value is None else _number(node.name, value, kind)
        policy: Any = {attribute: number}
        scope_of(lake).config = replace(
            scope_of(lake).config, policy=replace(scope_of(lake).config.policy, **policy)
        )
    elif name in _OPTIONS:
        options = dict(scope_of(lake).config.attached_options)
        options.pop(_OPTIONS[name], None)
        if value is not None:
            key, text = normalize_option(_OPTIONS[name], value)
            options[key] = text
        scope_of(lake).config = replace(scope_of(lake).config, attached_options=options)
    elif name in ("schema", "search_path") and isinstance(value, str):
        use(context, nodes.Use(tuple(value.split("."))))
    else:
        raise NotFoundError(
            f'There is no setting "{node.name}".{did_you_mean(name, SETTINGS)} A lake has {", ".join(SETTINGS)}; '
            "settings of Spark are set in its own dialect, or with spark.conf.set()."
        )


def _number(name: str, value: Any, kind: type) -> Any:
    try:
        number = kind(value)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} takes a number, not {value!r}.") from None
    if isinstance(value, bool) or number < 0:
        raise InvalidInputError(f"{name} takes a number that is not negative, not {value!r}.")
    return number


def spark_set(context: Context, _node: nodes.SparkSet) -> DataFrame:
    """SET and RESET of Spark itself."""
    return context.lake.spark.sql(context.text)


def checkpoint(context: Context, node: nodes.Checkpoint) -> None:
    """CHECKPOINT: every maintenance function in turn."""
    name = context.lake.name if node.name is None else ".".join(node.name)
    raise DuckLakeError(
        f'CHECKPOINT of "{name}" is not there yet: maintenance of lakes comes with a later version of ducklake-spark. '
        "Until then, run it in DuckDB on the same lake."
    )
