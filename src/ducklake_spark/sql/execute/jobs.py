"""The jobs of maintenance as functions of SQL: the values of a call become the arguments of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import InvalidInputError

Values = Mapping[str, Any]
"""The values of a call by parameter, and `default_schema`, where tables without a schema are."""


def expire_snapshots(scope: Scope, values: Values) -> Report:
    """`expire_snapshots(older_than, versions, dry_run)`."""
    from ducklake_spark.engine.maintenance.expire import expire_snapshots

    versions = values.get("versions")
    if "versions" in values and not isinstance(versions, (list, tuple)):
        raise InvalidInputError(f"versions takes a list of snapshot ids, not {versions!r}.")
    if versions is not None:
        versions = [_whole_number(each) for each in versions if each is not None]
    return expire_snapshots(scope, _time(values), versions, dry_run=_dry_run(values))


def cleanup_old_files(scope: Scope, values: Values) -> Report:
    """`cleanup_old_files(older_than, cleanup_all, dry_run)`."""
    from ducklake_spark.engine.maintenance.cleanup import cleanup_old_files

    return cleanup_old_files(scope, _time(values), **_of_cleanup(values))


def delete_orphaned_files(scope: Scope, values: Values) -> Report:
    """`delete_orphaned_files(older_than, cleanup_all, dry_run)`."""
    from ducklake_spark.engine.maintenance.cleanup import delete_orphaned_files

    return delete_orphaned_files(scope, _time(values), **_of_cleanup(values))


def flush_inlined_data(scope: Scope, values: Values) -> Report:
    """`flush_inlined_data(table_name, schema_name, dry_run)`."""
    from ducklake_spark.engine.maintenance.flush import flush_inlined_data

    name, schema, dry_run = values.get("table_name"), values.get("schema_name"), _dry_run(values)
    for key, value in (("table_name", name), ("schema_name", schema)):
        if key in values and not isinstance(value, str):
            raise InvalidInputError(f"{key} of flush_inlined_data() is a text, not {value!r}.")
    if name is None or schema is not None:
        return flush_inlined_data(scope, name, schema=schema, dry_run=dry_run)
    return flush_inlined_data(scope, _named_table(scope, values), dry_run=dry_run)


def merge_adjacent_files(scope: Scope, values: Values) -> Report:
    """`merge_adjacent_files(table_name, schema, min_file_size, max_file_size, max_compacted_files, where, dry_run)`."""
    from ducklake_spark.engine.maintenance import compaction

    sizes = _given(values, "min_file_size", "max_file_size", "max_compacted_files")
    return compaction.merge_adjacent_files(
        scope, **_of_table(values), **sizes, where=values.get("where"), dry_run=_dry_run(values)
    )


def rewrite_data_files(scope: Scope, values: Values) -> Report:
    """`rewrite_data_files(table_name, schema, delete_threshold, dry_run)`."""
    from ducklake_spark.engine.maintenance import compaction

    threshold = values.get("delete_threshold")
    if "delete_threshold" in values and threshold is None:  # the extension takes it for zero
        raise InvalidInputError("delete_threshold must be a number between 0 and 1, not NULL.")
    if isinstance(threshold, str):
        try:
            threshold = float(threshold)  # as in the extension
        except ValueError:
            raise InvalidInputError(
                f"delete_threshold must be a number between 0 and 1, not {threshold!r}."
            ) from None
    return compaction.rewrite_data_files(
        scope, **_of_table(values), delete_threshold=threshold, dry_run=_dry_run(values)
    )


def compact(scope: Scope, values: Values) -> Report:
    """`compact(table_name, order_by, zorder_by, where, schema, dry_run)`."""
    from ducklake_spark.engine.maintenance import clustering

    keys: dict[str, Any] = {key: values.get(key) for key in ("order_by", "zorder_by", "where")}
    return clustering.compact(scope, _named_table(scope, values), **keys, dry_run=_dry_run(values))


def add_data_files(scope: Scope, values: Values) -> Report:
    """`add_data_files(table_name, path, schema, ...)`, which gives no rows in the extension."""
    from ducklake_spark.engine.maintenance.add_files import add_data_files

    names = ("allow_missing", "ignore_extra_columns", "hive_partitioning")
    given: dict[str, Any] = {each: values.get(each) for each in names}
    dry_run = _dry_run(values)
    report = add_data_files(scope, _named_table(scope, values), values["path"], **given, dry_run=dry_run)
    return report if dry_run else replace(report, rows=())


def checkpoint(scope: Scope, values: Values) -> Report:
    """`checkpoint(dry_run)`."""
    from ducklake_spark.engine.maintenance.checkpoint import checkpoint

    return checkpoint(scope, dry_run=_dry_run(values))


def health(scope: Scope, _: Values) -> Report:
    """`health()`."""
    from ducklake_spark.engine.maintenance.health import health

    return health(scope)


def maintain(scope: Scope, values: Values) -> Report:
    """`maintain(dry_run)`."""
    from ducklake_spark.engine.maintenance.health import maintain

    return maintain(scope, dry_run=_dry_run(values))


def _dry_run(values: Values) -> Any:
    """Whether a job only says what it would do; NULL is no, as in the extension."""
    value = values.get("dry_run")
    if value is not None and not isinstance(value, bool):
        raise InvalidInputError(f"dry_run is true or false, not {value!r}.")
    return bool(value)


def _of_cleanup(values: Values) -> dict[str, Any]:
    return {"cleanup_all": values.get("cleanup_all", False), "dry_run": _dry_run(values)}


def _time(values: Values) -> Any:
    """The time before which things are old; a date is its first moment."""
    value = values.get("older_than")
    if "older_than" in values and value is None:
        raise InvalidInputError("older_than takes a time, not NULL.")
    return str(value) if isinstance(value, date) and not isinstance(value, datetime) else value


def _whole_number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _of_table(values: Values) -> dict[str, Any]:
    """What a job of maintenance is about: a table, whose name is taken as it is; a schema goes with it."""
    name, schema = values.get("table_name"), values.get("schema")
    for given in (name, schema):
        if given is not None and not isinstance(given, str):
            raise InvalidInputError(f"A table or schema is named by a text, not {given!r}.")
    if name is None:
        return {"schema": schema}
    return {"table": (schema or str(values["default_schema"]), name)}


def _named_table(scope: Scope, values: Values) -> tuple[str, str]:
    """The table of a job: its name is taken as it is, as in the extension; else `schema.table` is tried."""
    name, schema = values["table_name"], values.get("schema")
    if not isinstance(name, str) or not (schema is None or isinstance(schema, str)):
        raise InvalidInputError(f"A table and its schema are named by texts, not {name!r} and {schema!r}.")
    plain = (schema or str(values["default_schema"]), name)
    first, dot, second = name.partition(".")
    if schema is not None or not dot or "." in second:
        return plain
    tx = scope.read_transaction()
    own = tx.schema(plain[0])
    is_known = own is not None and tx.table(own, name) is not None
    return plain if is_known or tx.schema(first) is None else (first, second)


def _given(values: Values, *names: str) -> dict[str, Any]:
    """The whole numbers that were given.

    Raises:
        InvalidInputError: One of them is NULL.
    """
    for name in names:
        if name in values and values[name] is None:
            raise InvalidInputError(f"{name} must be a whole number, not NULL.")
    return {name: _whole_number(values[name]) for name in names if name in values}
