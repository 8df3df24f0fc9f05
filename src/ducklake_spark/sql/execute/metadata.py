"""Tables that the driver has already, as DataFrames that DuckDB can also read without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ducklake_spark.engine.answers import LocalAnswer, answer_of_table
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import InvalidInputError, NotFoundError
from ducklake_spark.format.duckdb_library import arrow_table
from ducklake_spark.scan.projection.types import TypeChoices, choices_of
from ducklake_spark.sql.duckdb import one_task
from ducklake_spark.sql.duckdb.values import Shown
from ducklake_spark.sql.execute import local_duckdb, mirror
from ducklake_spark.sql.execute.session import session_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ducklake_spark.api.lake import Lake

_tables: WeakKeyDictionary[Any, pa.Table] = WeakKeyDictionary()


def frame(lake: Lake, source: str) -> DataFrame:
    """A table or function about databases."""
    session = session_of(lake)
    if source.lower().startswith("duckdb_secrets"):
        rows = mirror.secrets(session)
        names = ("name", "type", "provider", "persistent", "storage", "scope", "secret_string")
        return of_table(lake, _table_of_rows(rows, names))
    with mirror.mirrored(session, lake) as found:
        return of_table(lake, found.table(source))


def answer(lake: Lake, sql: str) -> DataFrame | None:
    """What DuckDB answers to a statement about databases; None if it has no answer."""
    with mirror.mirrored(session_of(lake), lake) as found:
        try:
            return of_table(lake, found.answer(sql))
        except InvalidInputError:
            return None


def of_source(lake: Lake, name: str) -> DataFrame:
    """A table of an attached database that is no lake."""
    import duckdb

    try:
        found = arrow_table(local_duckdb.connection(session_of(lake)), f"FROM {name}")
    except duckdb.Error as error:
        raise NotFoundError(str(error).split("\n\n")[0]) from None
    return of_table(lake, found)


def _table_of_rows(rows: list[tuple[Any, ...]], names: tuple[str, ...]) -> pa.Table:
    import pyarrow as pa

    kinds = [
        pa.bool_() if name == "persistent" else pa.list_(pa.string()) if name == "scope" else pa.string()
        for name in names
    ]
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    return pa.Table.from_arrays(columns, names=list(names))


def of_table(lake: Lake, table: pa.Table) -> DataFrame:
    """A DataFrame of rows of DuckDB that are here."""
    import duckdb

    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.register("ducklake_rows", table)
        columns = connection.execute("DESCRIBE FROM ducklake_rows").fetchall()
        kinds = [(str(column[0]), str(column[1])) for column in columns]
        text, found = one_task.shown_sql(choices(lake), "FROM ducklake_rows", kinds)
        plain = arrow_table(connection, text)
    made = of_shown(lake, plain, found, table.column_names)
    _tables[made] = table
    return made


def choices(lake: Lake) -> TypeChoices:
    """How types are shown in the session, if there is one."""
    spark = scope_of(lake).session
    return TypeChoices() if spark is None else choices_of(spark)


def of_shown(lake: Lake, table: pa.Table, found: Sequence[Shown], names: Sequence[str]) -> DataFrame:
    """A DataFrame of rows that are in the forms of Spark already."""
    import pyspark.sql.types as T

    from ducklake_spark.spark.worker_functions import arrow_schema

    fields = [T.StructField(f"c{place}", each.type) for place, each in enumerate(found)]
    wanted = arrow_schema(T.StructType(fields))
    for place, each in enumerate(found):
        if isinstance(each.type, T.VariantType):
            wanted = wanted.set(place, table.schema.field(place))  # its two parts, as they are
    plain = table.cast(wanted).rename_columns(list(names))
    named = [T.StructField(name, field.dataType) for name, field in zip(names, fields, strict=True)]
    return answer_of_table(scope_of(lake), plain, T.StructType(named))


def table_of(frame: DataFrame) -> pa.Table | None:
    """The rows of a DataFrame, when they are here already."""
    found = _tables.get(frame)
    if found is None and isinstance(frame, LocalAnswer):
        return frame.arrow_table()
    return found
