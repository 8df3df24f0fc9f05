"""Transactions, USE, CALL, SET and CHECKPOINT -> calls of the lake."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ducklake_spark.engine.answers import answer
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError, did_you_mean
from ducklake_spark.format.names import split_name
from ducklake_spark.format.options import normalize_option
from ducklake_spark.format.types import fold, quote
from ducklake_spark.sql.execute import functions, local_duckdb, metadata, mirror
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.execute.session import session_of
from ducklake_spark.sql.execute.settings import OPTIONS, RETRY
from ducklake_spark.sql.parser import nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

SETTINGS = (*RETRY, *OPTIONS)


def transaction(context: Context, node: nodes.Transaction) -> None:
    """BEGIN, COMMIT and ROLLBACK, in every lake that takes part."""
    session = session_of(context.lake)
    actions = {
        "begin": session.begin,
        "begin read only": session.begin_read_only,
        "commit": session.commit,
        "rollback": session.rollback,
    }
    actions[node.action]()


def use(context: Context, node: nodes.Use) -> None:
    """USE schema, USE lake, USE lake.schema."""
    lake, name, session = context.lake, node.name, session_of(context.lake)
    own = scope_of(lake).read_transaction()
    if len(name) == 1 and own.schema(name[0]) is not None and fold(name[0]) != fold(lake.name):
        lake.use(name[0])
        return
    if len(name) > 2:
        raise InvalidInputError(f'"{".".join(name)}" is neither a lake nor a schema of one.')
    other = session.named(name[0])
    if other is None:
        lake.use(context.schema_name(name))
        return
    other.use(name[1] if len(name) == 2 else "main")
    session.current = other


def call(context: Context, node: nodes.Call) -> DataFrame:
    """CALL of a function of the extension."""
    *qualifiers, name = node.name
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
    is_of_lake = bool(qualifiers) or functions.find(name) is not None
    if context.dialect == "duckdb" and not is_of_lake and local_duckdb.has_function(name):
        return _call_of_duckdb(context, node)
    return functions.call(_lake_of(context, tuple(qualifiers)), name, positional, named)


def _call_of_duckdb(context: Context, node: nodes.Call) -> DataFrame:
    """CALL of a function of DuckDB, such as `pragma_version()`, by the DuckDB of the session."""
    given = ", ".join(
        context.source(each.value)
        if each.name is None
        else f"{quote(each.name)} := {context.source(each.value)}"
        for each in node.arguments
    )
    if mirror.is_about_databases(node.name, is_call=True):
        return metadata.frame(context.lake, f"{quote(node.name[0])}({given})")
    names, rows = local_duckdb.described_rows(
        session_of(context.lake), f"CALL {quote(node.name[0])}({given})"
    )
    return answer(
        scope_of(context.lake),
        [tuple(None if value is None else str(value) for value in row) for row in rows],
        ", ".join(f"`{name}` string" for name in names) or "Success boolean",
    )


def _lake_of(context: Context, qualifiers: nodes.Name) -> Lake:
    """The lake that `lake.f()`, `lake.schema.f()` or `schema.f()` is about."""
    lake = context.lake
    if not qualifiers or fold(qualifiers[0]) == fold(lake.name):
        return lake
    other = session_of(lake).named(qualifiers[0])
    if other is not None:
        return other
    if len(qualifiers) == 1 and qualifiers[0] in lake.schemas():
        return lake
    raise NotFoundError(f'There is no lake "{qualifiers[0]}". This one is "{lake.name}".')


def set_variable(context: Context, node: nodes.SetVariable) -> None:
    """SET and RESET of a setting of the extension, for this handle."""
    scope, name = scope_of(context.lake), fold(node.name)
    value = None if node.value is None else context.value(node.value)
    if name in RETRY:
        attribute, kind, default = RETRY[name]
        number = default if value is None else _number(node.name, value, kind)
        policy: Any = {attribute: number}
        scope.config = replace(scope.config, policy=replace(scope.config.policy, **policy))
    elif name in OPTIONS:
        options = dict(scope.config.attached_options)
        options.pop(OPTIONS[name], None)
        if value is not None:
            key, text = normalize_option(OPTIONS[name], value)
            options[key] = text
        scope.config = replace(scope.config, attached_options=options)
    elif name in ("schema", "search_path") and isinstance(value, str):
        use(context, nodes.Use(split_name(value.split(",")[0].strip(), "schema")))
    elif name in ("schema", "search_path") and value is None:
        use(context, nodes.Use((context.lake.name,)))
    elif context.dialect == "duckdb":
        set_of_duckdb(context, node, value)
    else:
        raise NotFoundError(
            f'There is no setting "{node.name}".{did_you_mean(name, SETTINGS)} A lake has {", ".join(SETTINGS)}; '
            "settings of Spark are set in its own dialect, or with spark.conf.set()."
        )


def set_of_duckdb(context: Context, node: nodes.SetVariable, value: Any) -> None:
    """A setting of DuckDB itself: its own session takes or refuses it; the time zone is Spark's, too."""
    name = fold(node.name)
    session = session_of(context.lake)
    if name == "timezone":
        conf = context.lake.spark.conf
        if session.first_zone is None:
            session.first_zone = str(conf.get("spark.sql.session.timeZone"))
        conf.set("spark.sql.session.timeZone", session.first_zone if value is None else str(value))
        return
    local_duckdb.set_setting(session, name, value)


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
    from ducklake_spark.engine.maintenance.checkpoint import checkpoint

    lake = context.lake
    if node.name is not None:
        name = ".".join(node.name)
        found = session_of(lake).named(name)
        if found is None:
            raise NotFoundError(f'There is no attached lake "{name}". This one is "{lake.name}".')
        lake = found
    checkpoint(scope_of(lake))
