"""Queries that Spark cannot answer as DuckDB does: DuckDB answers them itself, in one task, with rows that Spark reads.

What is read is read by Spark: files, deletes, time travel. All rows of the query's tables go through one task, which
keeps what does not fit into memory in files of its worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import duckdb
import pyspark.sql.types as T
from sqlglot import exp

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format.types import fold, quote
from ducklake_spark.scan.projection.types import TypeChoices, choices_of
from ducklake_spark.sql.duckdb.binder import duckdb_type
from ducklake_spark.sql.duckdb.values import Shown, restored, shown
from ducklake_spark.workers.duckdb_query import NO_TABLE, TAG, DuckDBQuery, Input
from ducklake_spark.write.expressions import VARIANT_PARTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Question:
    """A query in DuckDB's SQL and the tables that it names.

    Args:
        sql: The text.
        frames: The tables by their names in the text.
        types: DuckDB's types of their columns, where the lake says them.
        settings: Statements that DuckDB runs first.
    """

    sql: str
    frames: Mapping[str, DataFrame]
    types: Mapping[str, Mapping[str, str]]
    settings: Sequence[str] = ()


def question_of(
    tree: exp.Expr,
    sql: str,
    frames: Mapping[str, DataFrame],
    types: Mapping[str, Mapping[str, str]],
    settings: Sequence[str],
) -> Question:
    """The question that a tree asks, with no more columns of its tables than it mentions."""
    names = {fold(table.alias_or_name) for table in tree.find_all(exp.Table)}
    whole = any(not column.table and fold(column.name) in names for column in tree.find_all(exp.Column))
    if (
        not whole
        and not tree.find(exp.Star, exp.Columns, exp.PositionalColumn)
        and "columns(" not in sql.lower()
    ):
        mentioned = {fold(each.name) for each in tree.find_all(exp.Identifier)}
        frames = {name: _narrowed(frame, mentioned) for name, frame in frames.items()}
    return Question(sql, frames, types, settings)


def _narrowed(frame: DataFrame, mentioned: set[str]) -> DataFrame:
    kept = [name for name in frame.columns if fold(name) in mentioned] or frame.columns[:1]
    folded = [fold(name) for name in frame.columns]
    if len(kept) == len(frame.columns) or len(set(folded)) < len(folded):
        return frame
    return frame.select(*("`" + name.replace("`", "``") + "`" for name in kept))


def described(question: Question) -> list[tuple[str, str]]:
    """The names and types of the columns of the answer.

    Raises:
        InvalidInputError: What DuckDB says against the query.
    """
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        try:
            for setting in question.settings:
                connection.execute(setting)
            for name, frame in question.frames.items():
                columns = ", ".join(
                    f"NULL::{_type(field, question.types.get(name, {}))} AS {quote(field.name)}"
                    for field in frame.schema.fields
                )
                connection.execute(f"CREATE VIEW {quote(name)} AS SELECT {columns}")
            rows = connection.execute(f"DESCRIBE {question.sql}").fetchall()
        except duckdb.Error as error:
            raise InvalidInputError(str(error).split("\n\n")[0]) from None
    return [(str(row[0]), str(row[1])) for row in rows]


def _type(field: T.StructField, declared: Mapping[str, str]) -> str:
    return declared.get(field.name) or duckdb_type(field.dataType) or "VARCHAR"


_is_storing: ContextVar[bool] = ContextVar("is_storing", default=False)


@contextmanager
def storing() -> Iterator[None]:
    """Inside, answers are made to be inserted: variants in them are their parts, where else they are their texts."""
    before = _is_storing.set(True)
    try:
        yield
    finally:
        _is_storing.reset(before)


def _stored_variants(columns: Sequence[tuple[str, str]], found: list[Shown]) -> list[Shown]:
    return [
        Shown(
            f"CASE WHEN {place} IS NOT NULL THEN variant_to_parquet_variant({place}) END",
            VARIANT_PARTS,
        )
        if kind == "VARIANT" and _is_storing.get()
        else each
        for place, (_, kind), each in zip((f"c{i}" for i in range(len(columns))), columns, found, strict=True)
    ]


def shown_sql(
    choices: TypeChoices, sql: str, columns: Sequence[tuple[str, str]], *, variants: bool = False
) -> tuple[str, list[Shown]]:
    """The query with its columns in the forms in which Spark shows them."""
    names = [f"c{place}" for place in range(len(columns))]
    found = [
        shown(name, kind, choices, variants=variants) for name, (_, kind) in zip(names, columns, strict=True)
    ]
    if not variants:
        found = _stored_variants(columns, found)
    parts = ", ".join(f"{each.expression} AS {name}" for name, each in zip(names, found, strict=True))
    return f"SELECT {parts} FROM ({sql}) AS q({', '.join(names)})", found


def answered(spark: SparkSession, question: Question, keys: Sequence[str] = ()) -> DataFrame:
    """The rows of the answer, which DuckDB computes when they are asked for: in one task.

    Args:
        spark: The session.
        question: The query.
        keys: Columns of the question's only table. Then there are many tasks, each with all rows of some of their
            values, and the answer is what DuckDB says in each.

    Raises:
        InvalidInputError: What DuckDB says against the query.
    """
    from ducklake_spark.spark.worker_functions import arrow_schema, map_in_arrow

    columns = described(question)
    sql, found = shown_sql(choices_of(spark), question.sql, columns)
    schema = T.StructType([T.StructField(f"c{i}", each.type) for i, each in enumerate(found)])
    inputs, rows = _inputs(spark, question, keys)
    job = DuckDBQuery(tuple(question.settings), tuple(inputs), sql, arrow_schema(schema))
    return map_in_arrow(rows, job, schema).toDF(*(name for name, _ in columns))


def copied(frame: DataFrame, types: Sequence[str] | None, target: str, settings: Sequence[str]) -> int:
    """Lets DuckDB write rows to files, in one task; how many rows.

    Args:
        frame: The rows.
        types: DuckDB's types of their columns, where they are known.
        target: What stands behind `COPY rows TO`.
        settings: Statements that DuckDB runs first.
    """
    from ducklake_spark.spark.worker_functions import arrow_schema, map_in_arrow

    declared = dict(zip(frame.columns, types, strict=True)) if types is not None else {}
    question = Question("", {"rows": frame}, {"rows": declared}, settings)
    inputs, rows = _inputs(frame.sparkSession, question)
    schema = T.StructType([T.StructField("Count", T.LongType())])
    job = DuckDBQuery(tuple(settings), tuple(inputs), f"COPY (FROM rows) TO {target}", arrow_schema(schema))
    [row] = map_in_arrow(rows, job, schema).collect()
    return int(row[0])


def _inputs(
    spark: SparkSession, question: Question, keys: Sequence[str] = ()
) -> tuple[list[Input], DataFrame]:
    from pyspark.sql import functions as F

    from ducklake_spark.spark.worker_functions import arrow_schema

    inputs: list[Input] = []
    plain: list[DataFrame] = []
    for name, frame in question.frames.items():
        declared = question.types.get(name, {})
        numbered = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
        select = ", ".join(
            f"{restored(f'c{place}', _type(field, declared))} AS {quote(field.name)}"
            for place, field in enumerate(frame.schema.fields)
        )
        inputs.append(Input(name, arrow_schema(numbered.schema), select))
        plain.append(numbered)
    if not plain:
        return [], spark.range(1).coalesce(1)
    if len(plain) == 1:
        if keys:
            [frame] = question.frames.values()
            return inputs, plain[0].repartition(*(f"c{frame.columns.index(key)}" for key in keys))
        marked = plain[0].withColumn(TAG, F.lit(0))
        end = spark.range(1).select(
            *(F.lit(None).cast(field.dataType).alias(field.name) for field in plain[0].schema.fields),
            F.lit(NO_TABLE).alias(TAG),
        )
        return inputs, marked.unionAll(end).coalesce(1)
    parts = [
        frame.select(
            F.lit(place).alias(TAG),
            *(
                F.struct(*frame.columns).alias(f"t{other}")
                if other == place
                else F.lit(None).cast(_row_type(each)).alias(f"t{other}")
                for other, each in enumerate(plain)
            ),
        )
        for place, frame in enumerate(plain)
    ]
    parts.append(
        spark.range(1).select(
            F.lit(NO_TABLE).alias(TAG),
            *(F.lit(None).cast(_row_type(each)).alias(f"t{other}") for other, each in enumerate(plain)),
        )
    )
    return inputs, reduce(lambda left, right: left.unionAll(right), parts).coalesce(1)


def _row_type(frame: DataFrame) -> Any:
    return T.StructType([T.StructField(field.name, field.dataType) for field in frame.schema.fields])
