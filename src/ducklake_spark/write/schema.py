"""Schemas as users give them: a dict, pairs, a text, a Spark StructType or anything that has one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from ducklake_spark.errors import InvalidInputError, NotFoundError, did_you_mean, shortened
from ducklake_spark.format.types import (
    DataType,
    Decimal,
    List,
    Map,
    Scalar,
    Struct,
    fold,
    parse_columns,
    parse_type,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

TypeLike = Union[str, "SparkType", DataType]
"""A type as users give it: a text in either dialect's words, or a Spark type."""
SchemaLike = Union[str, "StructType", Mapping[str, TypeLike], Iterable[tuple[str, TypeLike]]]
ColumnSpec = tuple[str, DataType, bool, Any]


def data_type_of(given: TypeLike) -> DataType:
    """A type from its text, or from a Spark type.

    >>> data_type_of("decimal(10, 2)")
    Decimal(precision=10, scale=2)
    """
    if isinstance(given, str):
        return parse_type(given)
    if isinstance(given, (Scalar, Decimal, List, Map, Struct)):
        return given
    if not hasattr(given, "jsonValue"):
        raise InvalidInputError(f"{given!r} is not a type: give a text such as 'bigint', or a Spark type.")
    from ducklake_spark.scan.projection.types import from_spark

    return from_spark(given)


def column_specs(
    schema: SchemaLike, table: str, *, not_null: Sequence[str] = (), defaults: Mapping[str, Any] | None = None
) -> list[ColumnSpec]:
    """The columns of a new table.

    Raises:
        InvalidInputError: Not a schema.
        NotFoundError: `not_null` or `defaults` name a column that the schema does not have.
    """
    if defaults is not None and not isinstance(defaults, Mapping):
        raise InvalidInputError(f"defaults takes a dict of columns and values, not {defaults!r}.")
    if isinstance(not_null, str):
        not_null = [not_null]
    elif not isinstance(not_null, Iterable):
        raise InvalidInputError(f"not_null takes names of columns, not {not_null!r}.")
    columns = _columns(schema, table)
    names = {fold(name): name for name, _, _ in columns}
    for what, given in (("not_null", not_null), ("defaults", defaults or {})):
        for name in given:
            if not isinstance(name, str):
                raise InvalidInputError(f"{what} takes names of columns, not {name!r}.")
            if fold(name) not in names:
                near = did_you_mean(name, names.values())
                raise NotFoundError(
                    f'{what} names a column "{name}" that table "{table}" does not have.{near}'
                )
    required = {fold(name) for name in not_null}
    values = {fold(name): value for name, value in (defaults or {}).items()}
    return [
        (name, data_type, nulls_allowed and fold(name) not in required, values.get(fold(name)))
        for name, data_type, nulls_allowed in columns
    ]


def is_frame(schema: object) -> bool:
    """Whether it is a DataFrame, which has rows beside its schema."""
    return (
        not isinstance(schema, (str, Mapping))
        and hasattr(schema, "schema")
        and hasattr(schema, "sparkSession")
    )


def _columns(schema: SchemaLike, table: str) -> list[tuple[str, DataType, bool]]:
    given: Any = schema
    if is_frame(given):
        # That Spark knows a column to have no NULLs now does not mean that it must never have one.
        return [(part.name, data_type_of(part.dataType), True) for part in given.schema.fields]
    if isinstance(given, str):
        return parse_columns(given)
    if isinstance(given, Mapping):
        return [(_named(name, table), data_type_of(part), True) for name, part in given.items()]
    if hasattr(given, "fields") and hasattr(given, "jsonValue"):
        return [(part.name, data_type_of(part.dataType), part.nullable) for part in given.fields]
    try:
        pairs = [(name, part) for name, part in given]
    except (TypeError, ValueError):
        raise InvalidInputError(
            f'Cannot read {shortened(repr(given), 60)} as the schema of table "{table}": give a dict of names and '
            "types, a list of pairs, a text like 'a INT, b VARCHAR', a Spark StructType, or rows: a DataFrame, an "
            "Arrow table, a pandas DataFrame or a list of dicts."
        ) from None
    return [(_named(name, table), data_type_of(part), True) for name, part in pairs]


def _named(name: Any, table: str) -> str:
    if not isinstance(name, str):
        raise InvalidInputError(f'A column of table "{table}" has {name!r} for a name: it must be a text.')
    return name
