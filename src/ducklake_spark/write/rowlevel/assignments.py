"""What users write in changes of rows: conditions, and new values by column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from ducklake_spark.errors import InvalidInputError, shortened
from ducklake_spark.format.columns import find, require_field_parent, resolve
from ducklake_spark.format.names import split_name, ticked
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.types import fold
from ducklake_spark.scan.read import VIRTUAL_COLUMNS
from ducklake_spark.spark.errors import is_of_spark


def mentioned(*parts: Any) -> tuple[str, ...]:
    """The virtual columns that conditions and values may speak of, as far as their texts show."""
    text = " ".join(map(str, parts)).lower()
    return tuple(name for name in VIRTUAL_COLUMNS if name in text)


def _column(name: str, prefix: str | None = None) -> Column:
    return F.col(ticked(name) if prefix is None else f"{prefix}.{ticked(name)}")


def _given(value: Any, name: str, table: TableDef) -> Column:
    if isinstance(value, Column):
        return value
    try:
        return F.expr(value) if isinstance(value, str) else F.lit(value)
    except (AttributeError, TypeError, ValueError) as error:
        if is_of_spark(error):
            raise
        raise InvalidInputError(
            f'The value {shortened(repr(value), 60)} for column "{name}" of table "{table.name}" is neither SQL text '
            "nor a Column nor a plain value that Spark knows."
        ) from None


def require_condition(condition: Any, what: str) -> None:
    """Raises unless it is something that can be a condition.

    Raises:
        InvalidInputError: Names what it was given for.
    """
    if condition is not None and not isinstance(condition, (str, Column)):
        raise InvalidInputError(f"The condition of {what} is SQL text or a Column, not {condition!r}.")


def require_values(values: Any, what: str) -> None:
    """Raises unless it is a dict of columns and values.

    Raises:
        InvalidInputError: Names what it was given for.
    """
    if not isinstance(values, Mapping):
        raise InvalidInputError(
            f"The values of {what} are a dict of columns and SQL, as {{'name': \"'Ada'\"}}, not "
            f"{shortened(repr(values), 60)}."
        )
    if not values:
        raise InvalidInputError(f"{what[0].upper()}{what[1:]} assigns no column.")


def assigned_values(
    assignments: Mapping[str, Any], table: TableDef, prefix: str | None = None
) -> dict[str, Column]:
    """The new values by column. A field of a struct is set inside of the column's present value.

    Args:
        assignments: By column, or by the path of a field, SQL text, a Column or a plain value that is no text.
        table: The table.
        prefix: The alias under which the present values are found.
    """
    values: dict[str, Column] = {}
    whole: set[str] = set()
    paths: set[tuple[str, ...]] = set()
    for name, value in assignments.items():
        if not isinstance(name, str):
            raise InvalidInputError(
                f'A column of table "{table.name}" has {name!r} for a name: it must be a text.'
            )
        path = (name,) if find(table.columns, name) is not None else split_name(name, "column")
        node = resolve(table.columns, path, table.name)
        top = resolve(table.columns, path[:1], table.name).name
        folded = tuple(map(fold, path))
        if folded in paths or top in whole or (len(path) == 1 and top in values):
            raise InvalidInputError(f'The update of table "{table.name}" assigns column "{name}" twice.')
        paths.add(folded)
        given = _given(value, name, table)
        if len(path) == 1:
            whole.add(top)
            values[top] = given
            continue
        if any(part in ("element", "key", "value") for part in folded[1:]) and node.type != "struct":
            require_field_parent(table.columns, path, table.name)
        current = values.get(top, _column(top, prefix))
        values[top] = current.withField(".".join(ticked(part) for part in path[1:]), given)
    return values
