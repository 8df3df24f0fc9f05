"""Statements of a session of DuckDB: ATTACH and DETACH, secrets, PREPARE, variables and PRAGMA."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import TokenType

from ducklake_spark.catalog.location import default_name, parse_location
from ducklake_spark.engine import lakes as registry
from ducklake_spark.engine.answers import answer
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import AlreadyExistsError, InvalidInputError, NotFoundError, did_you_mean
from ducklake_spark.format.types import fold, quote, text_literal
from ducklake_spark.sql.execute import local_duckdb
from ducklake_spark.sql.execute.context import Context
from ducklake_spark.sql.execute.session import SCRATCH, Session, session_of
from ducklake_spark.sql.parser import nodes
from ducklake_spark.sql.parser.grammar_queries import QUERY_DIALECTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FLAGS = frozenset(
    {
        "automatic_migration",
        "create_if_not_exists",
        "encrypted",
        "override_data_path",
        "read_only",
        "write_deletion_vectors",
    }
)
_NUMBERS = frozenset({"data_inlining_row_limit", "snapshot_version", "busy_timeout"})
_TEXTS = frozenset(
    {
        "data_path",
        "metadata_schema",
        "metadata_catalog",
        "metadata_path",
        "snapshot_time",
        "metadata_parameters",
        "ducklake_version",
    }
)
_MAPS = frozenset({"storage_options"})
_IGNORED = frozenset({"type", "migrate_if_required", "read_write", "block_size", "storage_version"})
_DEFAULT_SECRET = "__default_ducklake"
_SECRET_TYPES = frozenset(
    {"ducklake", "postgres", "mysql", "s3", "r2", "gcs", "aws", "azure", "http", "huggingface", "bearer"}
)


# Attached lakes.


def attach(context: Context, node: nodes.Attach) -> None:
    """ATTACH of a lake, which is one of this session from now on."""
    session = session_of(context.lake)
    options = {fold(each.name): _option(context, each) for each in node.options}
    uri = str(context.value(node.path))
    if fold(str(options.get("type", ""))) == "ducklake" and not uri.lower().startswith("ducklake:"):
        uri = f"ducklake:{uri}"
    if not uri.lower().startswith("ducklake:"):
        _attach_other(session, uri, node, options)
        return
    uri, options, given = _with_secret(session, uri, options)
    arguments = _attach_arguments(options)
    name = node.name or given or _own_name(uri)
    if name is not None:
        if fold(name) in SCRATCH:
            raise InvalidInputError(
                f'A lake cannot be called "{name}": every session has a database of that name.'
            )
        if session.own(name) is not None and not _replaced(session, node, name):
            return
    spark = scope_of(session.home).session
    lake = registry.attach(uri, name=name, spark=spark, **arguments)
    session.attach(lake)


def _own_name(uri: str) -> str | None:
    """The name that a lake has by its place; None where only `attach()` knows it, such as from a stored secret."""
    try:
        return default_name(parse_location(uri))
    except InvalidInputError:
        return None


def _replaced(session: Session, node: nodes.Attach, name: str) -> bool:
    """Whether a database of this name, which is there, makes room for another."""
    if node.if_not_exists:
        return False
    found = session.own(name)
    if not node.or_replace:
        raise AlreadyExistsError(
            f'A database "{name}" is attached already. Use ATTACH OR REPLACE, ATTACH IF NOT EXISTS or another name.'
        )
    assert found is not None
    was_current = session.current is found
    session.detach(found)
    if was_current:
        session.detached.discard(fold(name))
    return True


def _option(context: Context, option: nodes.AttachOption) -> Any:
    return True if option.value is None else context.value(option.value)


def _attach_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """The options of ATTACH as arguments of `attach()`."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        if key in _IGNORED:
            continue
        if key == "access_mode":
            found["read_only"] = fold(str(value)) == "read_only"
        elif key in _FLAGS:
            found[key] = _truth(key, value)
        elif key in _NUMBERS:
            found[key] = _number(key, value)
        elif key in _TEXTS or key in _MAPS:
            found[key] = value
        elif key.startswith("meta_"):
            found[key] = str(value)
        else:
            known = [*_FLAGS, *_NUMBERS, *_TEXTS, *_MAPS]
            raise InvalidInputError(f'ATTACH has no option "{key}" for a lake.{did_you_mean(key, known)}')
    return found


def _truth(key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if fold(str(value)) in ("true", "1", "false", "0"):
        return fold(str(value)) in ("true", "1")
    raise InvalidInputError(f"{key.upper()} takes true or false, not {value!r}.")


def _number(key: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{key.upper()} takes a whole number, not {value!r}.") from None


def _attach_other(session: Session, uri: str, node: nodes.Attach, options: dict[str, Any]) -> None:
    """A database of DuckDB or SQLite, as a source to read from; a new one is of this session alone."""
    name = node.name or re.sub(r"\.[^.]*$", "", uri.rsplit("/", 1)[-1]) or "memory"
    if session.own(name) is not None or name in session.sources:
        if node.if_not_exists:
            return
        if not node.or_replace:
            raise AlreadyExistsError(f'A database "{name}" is attached already.')
        _detach_source(session, name)
    path = uri.removeprefix("duckdb:")
    if options.get("read_only") and path and ":" not in path and not os.path.exists(path):
        raise NotFoundError(f'The database "{path}" does not exist, and READ_ONLY makes none.')
    if path in ("", ":memory:") or ("type" not in options and ":" not in path and not os.path.exists(path)):
        session.new_scratch(name)
        return
    kind = f", TYPE {quote(str(options['type']))}" if "type" in options else ""
    local_duckdb.rows(session, f"ATTACH {text_literal(uri)} AS {quote(name)} (READ_ONLY{kind})")
    session.sources.add(name)


def _detach_source(session: Session, name: str) -> None:
    local_duckdb.rows(session, f"DETACH {quote(name)}")
    session.sources.discard(name)


def detach(context: Context, node: nodes.Detach) -> None:
    """DETACH."""
    session = session_of(context.lake)
    source = next((each for each in session.sources if fold(each) == fold(node.name)), None)
    if source is not None:
        _detach_source(session, source)
        return
    lake = None if fold(node.name) in SCRATCH else session.find(node.name)
    if lake is None:
        if node.if_exists:
            return
        near = did_you_mean(node.name, [each.name for each in session.lakes()])
        raise NotFoundError(f'There is no attached database "{node.name}".{near}')
    if lake is session.current and lake is not session.home:
        raise InvalidInputError(
            f'The database "{lake.name}" is in use, and cannot be detached. USE another one first, such as memory.'
        )
    session.detach(lake)


# Secrets.


def create_secret(context: Context, node: nodes.CreateSecret) -> DataFrame:
    """CREATE SECRET, for this session."""
    session = session_of(context.lake)
    options = {fold(each.name): _option(context, each) for each in node.options}
    kind = fold(str(options.get("type", "")))
    if not kind:
        raise InvalidInputError("CREATE SECRET needs the TYPE of the secret.")
    if kind not in _SECRET_TYPES:
        raise InvalidInputError(
            f"Secret type '{kind}' not found. There are {', '.join(sorted(_SECRET_TYPES))}."
        )
    if node.persistent:
        raise InvalidInputError("A secret is kept for this session only: use DuckDB for a persistent one.")
    name = fold(node.name) if node.name is not None else f"__default_{kind}"
    if name in session.secrets and not node.or_replace:
        if not node.if_not_exists:
            raise AlreadyExistsError(f'There is a secret "{name}" already. Use CREATE OR REPLACE SECRET.')
    else:
        session.secrets[name] = {**options, "type": kind}
    return answer(scope_of(context.lake), [(True,)], "Success boolean")


def drop_secret(context: Context, node: nodes.DropSecret) -> None:
    """DROP SECRET."""
    secrets = session_of(context.lake).secrets
    if fold(node.name) not in secrets and not node.if_exists:
        raise NotFoundError(f'There is no secret "{node.name}".{did_you_mean(fold(node.name), secrets)}')
    secrets.pop(fold(node.name), None)


def _with_secret(
    session: Session, uri: str, options: dict[str, Any]
) -> tuple[str, dict[str, Any], str | None]:
    """What ATTACH means when its path names a secret of this session; the third is the name that the lake gets."""
    rest = uri.partition(":")[2]
    name = fold(rest) if rest.strip() else _DEFAULT_SECRET
    secret = session.secrets.get(name)
    if secret is None or secret["type"] != "ducklake":
        return uri, _parameters(session, options), None
    found = {key: value for key, value in secret.items() if key != "type"} | options
    path = str(found.pop("metadata_path", ""))
    parameters = found.get("metadata_parameters") or {}
    kind = parameters.pop("TYPE", parameters.pop("type", None)) if isinstance(parameters, dict) else None
    uri = path if path.lower().startswith("ducklake:") else f"ducklake:{f'{kind}:' if kind else ''}{path}"
    return uri, _parameters(session, found), None if name == _DEFAULT_SECRET else rest


def _parameters(session: Session, options: dict[str, Any]) -> dict[str, Any]:
    """The options, with the values of a server's secret in the place of its name."""
    given = options.get("metadata_parameters")
    named = options.get("meta_secret") or (given or {}).get("SECRET") or (given or {}).get("secret")
    secret = session.secrets.get(fold(str(named))) if named else None
    if secret is None:
        return options
    more = {key: str(value) for key, value in secret.items() if key != "type"}
    rest = {key: value for key, value in (given or {}).items() if fold(key) != "secret"}
    kept = {key: value for key, value in options.items() if key != "meta_secret"}
    return {**kept, "metadata_parameters": {**more, **rest}}


# Prepared statements.


def prepare(context: Context, node: nodes.Prepare) -> None:
    """PREPARE."""
    session_of(context.lake).prepared[fold(node.name)] = context.source(node.statement)


def execute(context: Context, node: nodes.Execute) -> DataFrame:
    """EXECUTE: the prepared text, with the values in the places of its parameters."""
    from ducklake_spark.sql.execute.run import run

    session = session_of(context.lake)
    text = session.prepared.get(fold(node.name))
    if text is None:
        near = did_you_mean(fold(node.name), session.prepared)
        raise NotFoundError(f'There is no prepared statement "{node.name}".{near}')
    given = {
        str(place) if each.name is None else fold(each.name): f"({context.source(each.value)})"
        for place, each in enumerate(node.arguments, start=1)
    }
    return run(session.home, _filled(text, given, node.name), context.dialect)


def _filled(text: str, given: dict[str, str], name: str) -> str:
    """The text with `?`, `$1` and `$name` replaced."""
    tokens = sqlglot.tokenize(text, read=QUERY_DIALECTS["duckdb"])
    parts, last, count = [], 0, 0
    for place, token in enumerate(tokens):
        end = token.end + 1
        if token.token_type == TokenType.PLACEHOLDER and token.text == "?":
            count += 1
            key = str(count)
        elif token.token_type == TokenType.PARAMETER and token.text == "$" and place + 1 < len(tokens):
            following = tokens[place + 1]
            key, end = fold(following.text), following.end + 1
        else:
            continue
        if key not in given:
            raise InvalidInputError(f'EXECUTE "{name}" lacks a value for its parameter {key}.')
        parts += [text[last : token.start], given[key]]
        last = end
    return "".join(parts) + text[last:]


def deallocate(context: Context, node: nodes.Deallocate) -> None:
    """DEALLOCATE."""
    prepared = session_of(context.lake).prepared
    if node.name is None:
        prepared.clear()
    elif prepared.pop(fold(node.name), None) is None:
        raise NotFoundError(f'There is no prepared statement "{node.name}".')


# Variables and settings.


def set_session_variable(context: Context, node: nodes.SessionVariable) -> None:
    """SET VARIABLE and RESET VARIABLE."""
    session = session_of(context.lake)
    name = quote(node.name)
    if node.value is None:
        local_duckdb.rows(session, f"RESET VARIABLE {name}")
        return
    text = context.source(node.value)
    if not context.has_query(node.value):
        local_duckdb.rows(session, f"SET VARIABLE {name} = {text}")
        return
    frame = context.frame_of(f"SELECT {text} AS v", node.value)
    table: Any = frame.limit(2).toArrow()
    connection = local_duckdb.connection(session)
    connection.register("ducklake_value", table)
    try:
        local_duckdb.rows(session, f"SET VARIABLE {name} = (SELECT v FROM ducklake_value)")
    finally:
        connection.unregister("ducklake_value")


def pragma(context: Context, node: nodes.Pragma) -> DataFrame | None:
    """PRAGMA: a setting, a question about the lake, or one that DuckDB answers by itself."""
    from ducklake_spark.sql.execute import calls
    from ducklake_spark.sql.execute.run import run

    name = fold(node.name)
    session = session_of(context.lake)
    if node.value is not None:
        calls.set_variable(context, nodes.SetVariable(node.name, node.value))
        return None
    values = [context.value(each.value) for each in node.arguments]
    text = _PRAGMAS.get(name)
    if text is not None and text.count("{") == len(values):
        return run(session.home, text.format(*map(text_literal, map(str, values))), context.dialect)
    arguments = f"({', '.join(context.source(each.value) for each in node.arguments)})" if values else ""
    connection = local_duckdb.connection(session)
    found = local_duckdb.rows(session, f"PRAGMA {quote(name)}{arguments}")
    described = connection.description
    if not found or not described:
        return None
    return answer(
        scope_of(context.lake),
        [tuple(None if each is None else str(each) for each in row) for row in found],
        ", ".join(f"`{column[0]}` string" for column in described),
    )


_PRAGMAS = {
    "table_info": "FROM pragma_table_info({0})",
    "show": "DESCRIBE {0}",
    "show_tables": "SHOW TABLES",
    "show_tables_expanded": "SHOW ALL TABLES",
    "show_databases": "SHOW DATABASES",
    "database_list": "FROM pragma_database_list",
    "database_size": "FROM pragma_database_size()",
}


def nothing(context: Context, node: nodes.Nothing) -> None:
    """INSTALL, LOAD, VACUUM and ANALYZE: what they are for is here already, or not needed."""
