"""`attach(..., spark_sql=True)`: the session's own `spark.sql`, `spark.table` and `spark.read.table` know the lake.

The session object gets a class of its own, below the one that it had: nothing is copied into the session, so what it
reads is as new as the lake. What the session knows itself stays what it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ducklake_spark.errors import DuckLakeError, InvalidInputError
from ducklake_spark.format.names import split_name, ticked
from ducklake_spark.sql.parser.parse import parse
from ducklake_spark.sql.resolve.names import NameResolver, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ducklake_spark.api.lake import Lake

_lock = threading.Lock()


class _SessionWorld(NameResolver):
    """Names as the session has them first, then as lakes have them, the one that was attached last before others."""

    def __init__(self, lakes: Sequence[Lake]) -> None:
        super().__init__(lakes[-1])
        self._others = [NameResolver(lake) for lake in reversed(lakes[:-1])]

    def relation(
        self, parts: Sequence[str], version: int | None = None, micros: int | None = None
    ) -> Relation | None:
        if len(parts) < 3 and self.lake.spark.catalog.tableExists(".".join(map(ticked, parts))):
            return None
        found = super().relation(parts, version, micros)
        for resolver in self._others:
            found = found or resolver.relation(parts, version, micros)
        return found


def make_known(lake: Lake) -> Callable[[], None]:
    """Makes the lake's tables known to its session.

    Returns:
        What undoes it.
    """
    spark: Any = lake.spark
    with _lock:
        if not hasattr(spark, "ducklake_lakes_"):
            plain = type(spark)
            spark.__class__ = type(plain.__name__, (plain,), _overrides(plain))
            spark.ducklake_lakes_ = []
        spark.ducklake_lakes_.append(lake)

    def undo() -> None:
        with _lock:
            lakes = getattr(spark, "ducklake_lakes_", [])
            if lake in lakes:
                lakes.remove(lake)
            if hasattr(spark, "ducklake_lakes_") and not lakes:
                spark.__class__ = type(spark).__mro__[1]
                del spark.ducklake_lakes_

    return undo


def plain_sql(spark: SparkSession) -> Callable[..., DataFrame]:
    """`spark.sql` as Spark has it, for texts in which nothing is left to find."""
    kind: Any = type(spark).__mro__[1] if hasattr(spark, "ducklake_lakes_") else type(spark)

    def sql(*args: Any, **kwargs: Any) -> DataFrame:
        frame: DataFrame = kind.sql(spark, *args, **kwargs)
        return frame

    return sql


def _overrides(plain: Any) -> dict[str, Any]:
    def sql(self: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        found = None if kwargs else _query(self.ducklake_lakes_, sqlQuery, args)
        frame: DataFrame = plain.sql(self, sqlQuery, args, **kwargs) if found is None else found
        return frame

    def table(self: Any, tableName: str) -> DataFrame:
        found = _table(self.ducklake_lakes_, tableName)
        frame: DataFrame = plain.table(self, tableName) if found is None else found
        return frame

    def read(self: Any) -> Any:
        reader = plain.read.fget(self)
        own = reader.table

        def table_of(tableName: str) -> DataFrame:
            found = _table(self.ducklake_lakes_, tableName)
            frame: DataFrame = own(tableName) if found is None else found
            return frame

        reader.table = table_of
        return reader

    for name, function in (("sql", sql), ("table", table)):
        function.__doc__ = getattr(plain, name).__doc__
    return {"sql": sql, "table": table, "read": property(read, doc=plain.read.__doc__)}


def _query(lakes: Sequence[Lake], text: Any, args: Any) -> DataFrame | None:
    """The rows of a query that names a table of a lake; None for all else, which Spark is left with."""
    from ducklake_spark.sql.execute import queries

    try:
        found = parse(text, "spark")
    except InvalidInputError:
        return None
    if len(found) != 1 or not isinstance(found[0].tree, exp.Query) or found[0].tree.find(exp.Table) is None:
        return None
    statement = found[0]
    prepared = queries.prepare(_SessionWorld(lakes), statement.tree, statement.text, "spark", args)
    return queries.run_prepared(lakes[-1].spark, prepared) if prepared.frames else None


def _table(lakes: Sequence[Lake], name: Any) -> DataFrame | None:
    try:
        parts = split_name(name)
    except (DuckLakeError, TypeError):
        return None
    found = _SessionWorld(lakes).relation(parts)
    return None if found is None else found.frame(())
