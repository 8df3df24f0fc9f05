"""A script of mistakes, each made once in one lake, as a user makes them: `python -m tests.errors.mistakes RESULT`.

It runs in a process of its own, whose standard output and error are files from before the JVM starts: what Spark prints
is seen as well. The session is one of the user's, with Spark's own log level. `test_mistakes.py` judges the result.
"""

# One mistake, one line.
# fmt: off
from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ducklake_spark
from ducklake_spark import (
    AlreadyExistsError,
    AmbiguousMergeError,
    CatalogConnectionError,
    ClosedError,
    ConstraintError,
    DependencyError,
    FileError,
    InvalidInputError,
    Lake,
    NotADuckLakeError,
    NotFoundError,
    ReadOnlyError,
    SnapshotNotFoundError,
    TransactionError,
    TypeChangeError,
)


@dataclass(frozen=True)
class Mistake:
    """What is done, which error it is, and what the message must speak of."""

    do: Callable[[World], object]
    error: type[Exception]
    names: tuple[str, ...]
    is_logged: bool = False
    """Whether it fails in a task, of which Spark's executors write what they want to their log."""


@dataclass(frozen=True)
class Misuse:
    """A command line that is wrong, its exit code, and what the message must speak of."""

    arguments: Callable[[World], list[str]]
    code: int
    names: tuple[str, ...]


class World:
    """The lake in which all mistakes are made."""

    def __init__(self, folder: Path, spark: Any) -> None:
        from pyspark.sql import functions

        self.folder, self.spark, self.F = folder, spark, functions
        self.catalog = folder / "catalog.sqlite"
        self.data = folder / "data"
        self.uri = f"ducklake:sqlite:{self.catalog}"
        lake = self.lake = ducklake_spark.attach(self.uri, name="lake", data_path=self.data, spark=spark)
        with lake.transaction():
            lake.create_schema("sales")
            lake.create_table(
                "people",
                "id BIGINT, name VARCHAR, born DATE, score DOUBLE, tags VARCHAR[], home STRUCT(city VARCHAR, zip INT)",
                not_null=["id"],
            )
            lake.create_table(
                "sales.orders",
                "id BIGINT, day DATE, price DECIMAL(7,2), small TINYINT",
                partitioned_by=["day"],
            )
            lake.create_view("adults", "SELECT * FROM people WHERE score > 18")
            lake.create_macro("twice", "a * 2", ["a"])
        self.people, self.orders = lake["people"], lake["sales.orders"]
        self.people.insert([{"id": 1, "name": "Ada", "score": 1.5}, {"id": 2, "name": "Bob", "score": 2.5}])
        lake.set_option("data_inlining_row_limit", 0)
        self.orders.insert([(1, datetime.date(2024, 1, 1), 1, 1), (2, datetime.date(2024, 1, 2), 2, 2)])
        self.broken = lake.create_table("broken", {"a": "int"})
        self.broken.insert([(1,)])
        [path] = self.data.glob("main/broken/*.parquet")
        path.unlink()
        lake.create_table("short_lived", {"a": "int"})
        lake.drop_table("short_lived")
        self.changes = spark.createDataFrame([(1, "x"), (1, "y")], "id long, name string")
        self.closed = ducklake_spark.attach(self.uri, name="closed", spark=spark)
        self.closed_table = self.closed["people"]
        self.closed_frame = self.closed.table("people")
        self.closed_orders = self.closed.table("sales.orders")
        self.closed.close()
        self.read_only = ducklake_spark.attach(self.uri, name="read_only", spark=spark, read_only=True)
        spark.range(1).createOrReplaceTempView("of_the_session")

    def state(self) -> tuple[str, list[str]]:
        """A digest of all that the catalog holds, and the files."""
        digest = hashlib.sha256()
        with sqlite3.connect(f"file:{self.catalog}?mode=ro", uri=True) as connection:
            digest.update("\n".join(connection.iterdump()).encode())
        connection.close()
        return digest.hexdigest(), sorted(str(path) for path in self.folder.rglob("*") if path.is_file())


MISTAKES: dict[str, Mistake] = {}
MISUSES: dict[str, Misuse] = {}


def wrong(
    title: str, error: type[Exception], names: str, do: Callable[[World], object], *, is_logged: bool = False
) -> None:
    """Adds a mistake; `names` are texts that the message has, with `|` between them."""
    assert title not in MISTAKES, title
    MISTAKES[title] = Mistake(do, error, tuple(names.split("|")), is_logged)


def misuse(title: str, code: int, names: str, arguments: Callable[[World], list[str]]) -> None:
    """Adds a command line."""
    assert title not in MISUSES, title
    MISUSES[title] = Misuse(arguments, code, tuple(names.split("|")))


def attach(*arguments: Any, **parameters: Any) -> Callable[[World], object]:
    return lambda world: ducklake_spark.attach(*arguments, **parameters)


def sql(text: str, dialect: str = "spark", **others: Any) -> Callable[[World], object]:
    return lambda world: world.lake.sql(text, dialect, **others)


def duckdb(text: str, **others: Any) -> Callable[[World], object]:
    return sql(text, "duckdb", **others)


# --- attach ---------------------------------------------------------------------------------------------------

wrong('attach: no such scheme', InvalidInputError, 'oracle|duckdb', attach('ducklake:oracle:x'))
wrong('attach: not ducklake', InvalidInputError, 'delta|ducklake:', attach('delta:host=db'))
wrong('attach: a number', InvalidInputError, 'int', attach(5))
wrong('attach: unknown parameter', InvalidInputError, 'datapath|data_path', lambda w: ducklake_spark.attach(w.uri, datapath='x'))
wrong('attach: read_only is a text', InvalidInputError, "read_only|'yes'", lambda w: ducklake_spark.attach(w.uri, read_only='yes'))
wrong('attach: negative version', InvalidInputError, 'snapshot_version|-1', lambda w: ducklake_spark.attach(w.uri, snapshot_version=-1))
wrong('attach: no such version', SnapshotNotFoundError, '999', lambda w: ducklake_spark.attach(w.uri, snapshot_version=999))
wrong('attach: version and time', InvalidInputError, 'snapshot_version|snapshot_time', lambda w: ducklake_spark.attach(w.uri, snapshot_version=1, snapshot_time='2024-01-01'))
wrong('attach: no time', InvalidInputError, "snapshot_time|'soon'", lambda w: ducklake_spark.attach(w.uri, snapshot_time='soon'))
wrong('attach: before the first snapshot', SnapshotNotFoundError, '1999', lambda w: ducklake_spark.attach(w.uri, snapshot_time='1999-01-01'))
wrong('attach: other data path', InvalidInputError, 'elsewhere|override_data_path', lambda w: ducklake_spark.attach(w.uri, data_path='/elsewhere'))
wrong('attach: override without path', InvalidInputError, 'override_data_path', lambda w: ducklake_spark.attach(w.uri, override_data_path=True))
wrong('attach: no lake, read-only', NotADuckLakeError, 'nothing.sqlite', lambda w: ducklake_spark.attach(f'ducklake:sqlite:{w.folder}/nothing.sqlite', read_only=True))
wrong('attach: a bucket with one slash', InvalidInputError, 's3:/bucket|s3://BUCKET', lambda w: ducklake_spark.attach(f'ducklake:sqlite:{w.folder}/new.sqlite', data_path='s3:/bucket/x'))
wrong('attach: no data path', InvalidInputError, 'data_path', lambda w: ducklake_spark.attach(f'ducklake:sqlite:{w.folder}/new.sqlite'))
wrong('attach: no server', CatalogConnectionError, '127.0.0.1|password=***', attach('ducklake:postgres:host=127.0.0.1 port=1 password=a dbname=x'))
wrong('attach: a folder that is missing', CatalogConnectionError, 'missing', attach('ducklake:sqlite:/missing/folder/x.sqlite', data_path='/tmp'))
wrong('attach: unknown mysql parameter', InvalidInputError, 'hots|host', attach('ducklake:mysql:hots=db database=x'))
wrong('attach: encrypted contradicts', InvalidInputError, 'encrypted', lambda w: ducklake_spark.attach(w.uri, encrypted=True))
wrong('attach: retries', InvalidInputError, 'max_retry_count|0', lambda w: ducklake_spark.attach(w.uri, max_retry_count=0))
wrong('attach: inlining limit', InvalidInputError, 'data_inlining_row_limit|many', lambda w: ducklake_spark.attach(w.uri, data_inlining_row_limit='many'))
wrong('attach: spark is a text', InvalidInputError, 'spark|SparkSession', lambda w: ducklake_spark.attach(w.uri, spark='local'))
wrong('attach: a folder as catalog', CatalogConnectionError, 'data', lambda w: ducklake_spark.attach(f'ducklake:sqlite:{w.data}', data_path=w.data))

# --- names and handles ----------------------------------------------------------------------------------------

wrong('lake[]: mistyped table', NotFoundError, '"peple"|"people"', lambda w: w.lake['peple'])
wrong('lake[]: mistyped schema', NotFoundError, '"sale"|"sales"', lambda w: w.lake['sale.orders'])
wrong('lake[]: table of another schema', NotFoundError, '"orders"|"sales.orders"', lambda w: w.lake['orders'])
wrong('lake[]: a view', NotFoundError, 'adults|view', lambda w: w.lake['adults'])
wrong('lake[]: a number', InvalidInputError, '5', lambda w: w.lake[5])
wrong('lake[]: empty', InvalidInputError, 'empty', lambda w: w.lake[''])
wrong('lake[]: too many parts', InvalidInputError, 'a.b.c.d', lambda w: w.lake['a.b.c.d'])
wrong('lake[]: open quote', InvalidInputError, '"people', lambda w: w.lake['"people'])
wrong('lake.view: a table', NotFoundError, 'people|table', lambda w: w.lake.view('people'))
wrong('lake.view: none', NotFoundError, 'adult|adults', lambda w: w.lake.view('adult'))
wrong('lake.use: no schema', NotFoundError, 'sale', lambda w: w.lake.use('sale'))
wrong('lake.use: a number', InvalidInputError, '5', lambda w: w.lake.use(5))
wrong('lake.tables: no schema', NotFoundError, 'sale', lambda w: w.lake.tables('sale'))
wrong('lake.table: None', InvalidInputError, 'None', lambda w: w.lake.table(None))
wrong('lake.metadata: no table', NotFoundError, 'snapshots|ducklake_snapshot', lambda w: w.lake.metadata('snapshots'))
wrong('lake.explain: a text', InvalidInputError, "DataFrame|'people'", lambda w: w.lake.explain('people'))

# --- creating and changing --------------------------------------------------------------------------------------

wrong('create_schema: exists', AlreadyExistsError, 'sales', lambda w: w.lake.create_schema('sales'))
wrong('create_schema: None', InvalidInputError, 'None', lambda w: w.lake.create_schema(None))
wrong('drop_schema: not empty', DependencyError, 'sales|cascade', lambda w: w.lake.drop_schema('sales'))
wrong('drop_schema: none', NotFoundError, 'sale', lambda w: w.lake.drop_schema('sale'))
wrong('create_table: exists', AlreadyExistsError, 'people', lambda w: w.lake.create_table('people', {'a': 'int'}))
wrong('create_table: name of a view', AlreadyExistsError, 'adults|view', lambda w: w.lake.create_table('adults', {'a': 'int'}))
wrong('create_table: no schema', NotFoundError, 'sale', lambda w: w.lake.create_table('sale.t', {'a': 'int'}))
wrong('create_table: unknown type', InvalidInputError, 'integr', lambda w: w.lake.create_table('t', {'a': 'integr'}))
wrong('create_table: type is a number', InvalidInputError, '5', lambda w: w.lake.create_table('t', {'a': 5}))
wrong('create_table: type is a class', InvalidInputError, 'int', lambda w: w.lake.create_table('t', {'a': int}))
wrong('create_table: column twice', AlreadyExistsError, 'a', lambda w: w.lake.create_table('t', [('a', 'int'), ('A', 'int')]))
wrong('create_table: no columns', InvalidInputError, '"t"', lambda w: w.lake.create_table('t', {}))
wrong('create_table: no schema given', InvalidInputError, '"t"', lambda w: w.lake.create_table('t', None))
wrong('create_table: a number', InvalidInputError, '"t"|5', lambda w: w.lake.create_table('t', 5))
wrong('create_table: empty list', InvalidInputError, '"t"', lambda w: w.lake.create_table('t', []))
wrong('create_table: rows of tuples', InvalidInputError, '"t"', lambda w: w.lake.create_table('t', [(1, 2, 3)]))
wrong('create_table: mixed values', InvalidInputError, '"t"|"a"', lambda w: w.lake.create_table('t', [{'a': 1}, {'a': 'x'}]))
wrong('create_table: only NULLs', InvalidInputError, '"t"|"a"', lambda w: w.lake.create_table('t', [{'a': None}]))
wrong('create_table: broken text', InvalidInputError, 'a INT,', lambda w: w.lake.create_table('t', 'a INT, b'))
wrong('create_table: unknown key', NotFoundError, 'dey|day', lambda w: w.lake.create_table('t', {'day': 'date'}, partitioned_by=['dey']))
wrong('create_table: unknown transform', InvalidInputError, 'yeer', lambda w: w.lake.create_table('t', {'day': 'date'}, partitioned_by=['yeer(day)']))
wrong('create_table: key is a number', InvalidInputError, '5', lambda w: w.lake.create_table('t', {'day': 'date'}, partitioned_by=[5]))
wrong('create_table: keys are a number', InvalidInputError, 'partitioned_by|5', lambda w: w.lake.create_table('t', {'day': 'date'}, partitioned_by=5))
wrong('create_table: unknown sort key', NotFoundError, 'dey', lambda w: w.lake.create_table('t', {'day': 'date'}, sorted_by=['dey']))
wrong('create_table: unknown not_null', NotFoundError, 'b', lambda w: w.lake.create_table('t', {'a': 'int'}, not_null=['b']))
wrong('create_table: not_null is a number', InvalidInputError, 'not_null|5', lambda w: w.lake.create_table('t', {'a': 'int'}, not_null=5))
wrong('create_table: default does not fit', InvalidInputError, "'x'|a", lambda w: w.lake.create_table('t', {'a': 'int'}, defaults={'a': 'x'}))
wrong('create_table: comment is a number', InvalidInputError, 'comment|5', lambda w: w.lake.create_table('t', {'a': 'int'}, comment=5))
wrong('drop_table: none', NotFoundError, 'peple|people', lambda w: w.lake.drop_table('peple'))
wrong('create_view: broken SQL', InvalidInputError, 'SELEC', lambda w: w.lake.create_view('v', 'SELEC 1'))
wrong('create_view: a number', InvalidInputError, '5', lambda w: w.lake.create_view('v', 5))
wrong('create_view: unknown dialect', InvalidInputError, 'mysql|duckdb', lambda w: w.lake.create_view('v', 'SELECT 1', dialect='mysql'))
wrong('create_view: exists', AlreadyExistsError, 'adults', lambda w: w.lake.create_view('adults', 'SELECT 1 AS a'))
wrong('drop_view: a table', NotFoundError, 'people|table', lambda w: w.lake.drop_view('people'))
wrong('create_macro: exists', AlreadyExistsError, 'twice', lambda w: w.lake.create_macro('twice', 'a', ['a']))
wrong('drop_macro: none', NotFoundError, 'thrice', lambda w: w.lake.drop_macro('thrice'))
wrong('add_column: exists', AlreadyExistsError, 'name|people', lambda w: w.people.add_column('name', 'int'))
wrong('add_column: type', InvalidInputError, 'txet', lambda w: w.people.add_column('a', 'txet'))
wrong('add_column: not null without default', ConstraintError, 'a|people', lambda w: w.people.add_column('a', 'int', not_null=True))
wrong('add_column: into no struct', NotFoundError, 'hom', lambda w: w.people.add_column('hom.x', 'int'))
wrong('drop_column: none', NotFoundError, '"nme"|"name"', lambda w: w.people.drop_column('nme'))
wrong('drop_column: a partition key', DependencyError, 'day', lambda w: w.orders.drop_column('day'))
wrong('rename_column: none', NotFoundError, '"nme"|"name"', lambda w: w.people.rename_column('nme', 'x'))
wrong('rename_column: taken', AlreadyExistsError, 'id', lambda w: w.people.rename_column('name', 'id'))
wrong('set_type: narrower', TypeChangeError, 'id|INTEGER', lambda w: w.people.set_type('id', 'int'))
wrong('set_type: none', NotFoundError, 'nme', lambda w: w.people.set_type('nme', 'int'))
wrong('set_not_null: has NULL', ConstraintError, 'born|people', lambda w: w.people.set_not_null('born'))
wrong('set_default: does not fit', InvalidInputError, 'soon|born', lambda w: w.people.set_default('born', 'soon'))
wrong('set_partitioned_by: none', NotFoundError, 'dey|day', lambda w: w.orders.set_partitioned_by('dey'))
wrong('set_sorted_by: a number', InvalidInputError, '5', lambda w: w.orders.set_sorted_by(5))
wrong('rename: taken', AlreadyExistsError, 'adults', lambda w: w.people.rename('adults'))
wrong('rename: a number', InvalidInputError, '5', lambda w: w.people.rename(5))
wrong('set_comment: a number', InvalidInputError, '5', lambda w: w.people.set_comment(5))

# --- options ------------------------------------------------------------------------------------------------------

wrong('option: mistyped', NotFoundError, 'target_filesize|target_file_size', lambda w: w.lake.set_option('target_filesize', 1))
wrong('option: no size', InvalidInputError, 'target_file_size|big', lambda w: w.lake.set_option('target_file_size', 'big'))
wrong('option: compression', InvalidInputError, 'parquet_compression|zipped', lambda w: w.lake.set_option('parquet_compression', 'zipped'))
wrong('option: of no table', NotFoundError, 'peple', lambda w: w.lake.set_option('target_file_size', 1000, table='peple'))
wrong('option: asked for', NotFoundError, 'compression|parquet_compression', lambda w: w.lake.get_option('compression'))
wrong('option: a number', InvalidInputError, '5', lambda w: w.lake.set_option(5, 1))

# --- insert -------------------------------------------------------------------------------------------------------

wrong('insert: unknown column', InvalidInputError, '"nme"|"name"', lambda w: w.people.insert([{'id': 1, 'nme': 'x'}]))
wrong('insert: a text', InvalidInputError, 'str|people', lambda w: w.people.insert('Ada'))
wrong('insert: one dict', InvalidInputError, 'dict|people', lambda w: w.people.insert({'id': 1}))
wrong('insert: a number', InvalidInputError, 'int|people', lambda w: w.people.insert(5))
wrong('insert: None', InvalidInputError, 'None|people', lambda w: w.people.insert(None))
wrong('insert: list of numbers', InvalidInputError, 'people', lambda w: w.people.insert([1, 2]))
wrong('insert: too few values', InvalidInputError, 'people|6', lambda w: w.people.insert([(1, 'x')]))
wrong('insert: text for a number', InvalidInputError, 'id|people|string', lambda w: w.people.insert([{'id': 'one'}]))
wrong('insert: NULL', ConstraintError, 'id|people', lambda w: w.people.insert([{'name': 'x'}]))
wrong('insert: too large', InvalidInputError, '300|small|orders', lambda w: w.orders.insert([{'small': 300}]))
wrong('insert: no date', InvalidInputError, 'day|orders', lambda w: w.orders.insert([{'day': 'soon'}]))
wrong('insert: too many digits', InvalidInputError, 'price|orders', lambda w: w.orders.insert([{'price': 1234567}]))
wrong('insert: unknown field', InvalidInputError, 'town|home', lambda w: w.people.insert([{'id': 1, 'home': {'town': 'x'}}]))
wrong('insert: column name is a number', InvalidInputError, '5|people', lambda w: w.people.insert([{5: 1}]))
wrong('insert: frame with unknown column', InvalidInputError, '"nme"|"name"', lambda w: w.people.insert(w.spark.range(1).selectExpr('id', "'x' AS nme")))
wrong('insert: frame of other types', InvalidInputError, 'id|people|string', lambda w: w.people.insert(w.spark.range(1).selectExpr("'x' AS id")))
wrong('insert: frame with NULL', ConstraintError, 'id|people', lambda w: w.people.insert(w.spark.range(3).selectExpr('nullif(id, 2) AS id')), is_logged=True)
wrong('insert: frame too large', InvalidInputError, 'small|orders|300', lambda w: w.orders.insert(w.spark.range(3).selectExpr('id', '300 AS small')), is_logged=True)
wrong('insert: frame without columns', InvalidInputError, 'people', lambda w: w.people.insert(w.spark.range(1).select()))
wrong('insert: pandas with unknown column', InvalidInputError, '"nme"|"name"', lambda w: w.people.insert(pandas({'id': [1], 'nme': ['x']})))
wrong('insert: Arrow of other types', InvalidInputError, 'id|people', lambda w: w.people.insert(arrow({'id': ['x']})))
wrong('insert: merge_schema with only NULLs', InvalidInputError, 'extra|people', lambda w: w.people.insert([{'id': 1, 'extra': None}], merge_schema=True))
wrong('insert: after close', ClosedError, 'closed', lambda w: w.closed_table.insert([{'id': 1}]))
wrong('insert: read-only', ReadOnlyError, 'read_only', lambda w: w.read_only['people'].insert([{'id': 1}]))
wrong('insert: a frame of a broken table', FileError, 'broken', lambda w: w.people.insert(w.lake.table('broken').selectExpr('a AS id')))
wrong('overwrite: unknown column', InvalidInputError, '"nme"|"name"', lambda w: w.people.overwrite([{'id': 1, 'nme': 'x'}]))
wrong('overwrite: where', NotFoundError, '"nme"|"name"', lambda w: w.people.overwrite([{'id': 1}], where="nme = 'x'"))
wrong('overwrite: where is a number', InvalidInputError, '5', lambda w: w.people.overwrite([{'id': 1}], where=5))
wrong('overwrite_partitions: none', InvalidInputError, 'people|partition', lambda w: w.people.overwrite_partitions([{'id': 1}]))

# --- delete and update ----------------------------------------------------------------------------------------------

wrong('delete: mistyped column', NotFoundError, '"nme"|people|Did you mean "name"?', lambda w: w.people.delete("nme = 'x'"))
wrong('delete: hidden column', NotFoundError, 'people', lambda w: w.people.delete('__ducklake_nothing = 1'))
wrong('delete: near a hidden column', NotFoundError, 'people|file_id', lambda w: w.people.delete('file_id = 1'))
wrong('delete: mistyped field', NotFoundError, 'twon|city', lambda w: w.people.delete("home.twon = 'x'"))
wrong('delete: column of a Column', NotFoundError, '"nme"|"name"', lambda w: w.people.delete(w.F.col('nme') == 1))
wrong('delete: no SQL', InvalidInputError, 'name =|people', lambda w: w.people.delete('name = '))
wrong('delete: empty text', InvalidInputError, 'people', lambda w: w.people.delete(''))
wrong('delete: a number', InvalidInputError, 'people|5', lambda w: w.people.delete(5))
wrong('delete: True', InvalidInputError, 'people|True', lambda w: w.people.delete(True))
wrong('delete: no boolean', InvalidInputError, 'people|name', lambda w: w.people.delete('name'))
wrong('delete: types', InvalidInputError, 'people', lambda w: w.people.delete('tags > 5'))
wrong('delete: unknown function', InvalidInputError, 'lenght|people', lambda w: w.people.delete('lenght(name) = 1'))
wrong('delete: an aggregate', InvalidInputError, 'people', lambda w: w.people.delete('max(id) = 1'))
wrong('delete: division by zero', InvalidInputError, 'zero|people', lambda w: w.people.delete('id / (id - 1) > 0'))
wrong('delete: cast', InvalidInputError, "'Ada'|people", lambda w: w.people.delete('cast(name AS int) = 1'))
wrong('delete: raise_error', ConstraintError, 'so not|people', lambda w: w.people.delete("raise_error('so not') IS NULL"))
wrong('delete: broken table', FileError, 'broken', lambda w: w.broken.delete('a = 1'))
wrong('delete: closed', ClosedError, 'closed', lambda w: w.closed_table.delete('id = 1'))
wrong('delete: read-only', ReadOnlyError, 'read_only', lambda w: w.read_only['people'].delete('id = 1'))
wrong('update: a text that is no SQL', InvalidInputError, '"\'Grace\'"|F.lit("Grace")|name', lambda w: w.people.update({'name': 'Grace'}))
wrong('update: two words', InvalidInputError, 'F.lit("Grace Hopper")|name', lambda w: w.people.update({'name': 'Grace Hopper'}))
wrong('update: an apostrophe', InvalidInputError, 'name|F.lit', lambda w: w.people.update({'name': "it's"}))
wrong('update: a date without quotes', InvalidInputError, 'born|DATE', lambda w: w.people.update({'born': '2024-01-01'}))
wrong('update: mistyped column', NotFoundError, '"nme"|"name"', lambda w: w.people.update({'nme': "'x'"}))
wrong('update: mistyped column in a value', NotFoundError, '"scor"|"score"', lambda w: w.people.update({'score': 'scor + 1'}))
wrong('update: mistyped column in the condition', NotFoundError, '"nme"|"name"', lambda w: w.people.update({'score': '1'}, "nme = 'x'"))
wrong('update: nothing', InvalidInputError, 'people', lambda w: w.people.update({}))
wrong('update: a text', InvalidInputError, 'people|name = 1', lambda w: w.people.update('name = 1'))
wrong('update: a list', InvalidInputError, 'people', lambda w: w.people.update([('name', '1')]))
wrong('update: key is a number', InvalidInputError, 'people|5', lambda w: w.people.update({5: '1'}))
wrong('update: a list as value', InvalidInputError, 'people|name', lambda w: w.people.update({'name': object()}))
wrong('update: a column twice', InvalidInputError, 'twice|name', lambda w: w.people.update({'name': "'x'", 'NAME': "'y'"}))
wrong('update: other type', InvalidInputError, 'born|people', lambda w: w.people.update({'born': '1'}))
wrong('update: NULL', ConstraintError, 'id|people', lambda w: w.people.update({'id': 'NULL'}), is_logged=True)
wrong('update: division by zero', InvalidInputError, 'zero|people', lambda w: w.people.update({'score': '1 / (id - id)'}))
wrong('update: too large', InvalidInputError, 'small|orders', lambda w: w.orders.update({'small': '300'}), is_logged=True)
wrong('update: a number as condition', InvalidInputError, 'people|5', lambda w: w.people.update({'score': '1'}, 5))

# --- merge ------------------------------------------------------------------------------------------------------------

wrong('merge: no table of that name', NotFoundError, '"peple"|"people"', lambda w: w.people.merge('peple', 'source.id = target.id'))
wrong('merge: a number', InvalidInputError, 'people|5', lambda w: w.people.merge(5, 'source.id = target.id'))
wrong('merge: None', InvalidInputError, 'people|None', lambda w: w.people.merge(None, 'source.id = target.id'))
wrong('merge: on is a number', InvalidInputError, 'people|5', lambda w: w.people.merge(w.changes, 5))
wrong('merge: no clause', InvalidInputError, 'clause', lambda w: w.people.merge(w.changes, 'source.id = target.id').execute())
wrong('merge: mistyped in on', NotFoundError, 'source.ids', lambda w: w.people.merge(w.changes, 'source.ids = target.id').when_matched().delete().execute())
wrong('merge: no SQL in on', InvalidInputError, 'people', lambda w: w.people.merge(w.changes, 'source.id =').when_matched().delete().execute())
wrong('merge: ambiguous column', InvalidInputError, '"id"|source.id|target.id', lambda w: w.people.merge(w.changes, 'id = id').when_matched().delete().execute())
wrong('merge: two rows match', AmbiguousMergeError, 'people|id = 1', lambda w: w.people.merge(w.changes, 'source.id = target.id').when_matched().update({'id': 'source.id + 98', 'name': 'source.name'}).execute())
wrong('merge: mistyped in a condition', NotFoundError, 'nme', lambda w: w.people.merge(w.changes, 'source.id = target.id').when_matched("source.nme = 'x'").delete().execute())
wrong('merge: mistyped target column', NotFoundError, '"nme"|"name"', lambda w: w.people.merge(w.changes, 'source.id = target.id').when_matched().update({'nme': 'source.name'}).execute())
wrong('merge: a text that is no SQL', InvalidInputError, 'F.lit("Grace")|name', lambda w: w.people.merge(w.changes, 'source.id = target.id + 1').when_matched().update({'name': 'Grace'}).execute())
wrong('merge: update of nothing', InvalidInputError, 'column', lambda w: w.people.merge(w.changes, 'source.id = target.id').when_matched().update({}))
wrong('merge: update with a text', InvalidInputError, 'name = 1', lambda w: w.people.merge(w.changes, 'source.id = target.id').when_matched().update('name = 1'))
wrong('merge: condition is a number', InvalidInputError, '5', lambda w: w.people.merge(w.changes, 'source.id = target.id').when_matched(5).delete())
wrong('merge: source has more columns', InvalidInputError, 'extra|people|merge_schema', lambda w: w.people.merge(w.changes.selectExpr('*', '1 AS extra'), 'source.id = target.id').when_not_matched().insert_all().execute())
wrong('merge: NULL inserted', ConstraintError, 'id|people', lambda w: w.people.merge(w.changes, 'source.id = -target.id').when_not_matched().insert({'name': 'source.name'}).execute(), is_logged=True)
wrong('merge: rows that are none', InvalidInputError, 'people', lambda w: w.people.merge([1, 2], 'source.id = target.id'))
wrong('merge: division by zero', InvalidInputError, 'zero|people', lambda w: w.people.merge(w.changes.limit(1), 'source.id = target.id').when_matched().update({'score': '1 / (target.id - source.id)'}).execute(), is_logged=True)

# --- reading and time travel ----------------------------------------------------------------------------------------

wrong('table: mistyped', NotFoundError, '"peple"|"people"', lambda w: w.lake.table('peple'))
wrong('table: no such version', SnapshotNotFoundError, '999', lambda w: w.lake.table('people', version=999))
wrong('table: version is a text', InvalidInputError, "'1'", lambda w: w.lake.table('people', version='1'))
wrong('table: version and time', InvalidInputError, 'version|timestamp', lambda w: w.lake.table('people', version=1, timestamp='2024-01-01'))
wrong('table: no time', InvalidInputError, "'soon'", lambda w: w.lake.table('people', timestamp='soon'))
wrong('table: not yet there', NotFoundError, 'people|version 0|snapshot 1', lambda w: w.lake.table('people', version=0))
wrong('table: no longer there', NotFoundError, 'short_lived|snapshot', lambda w: w.lake.table('short_lived'))
wrong('lake.at: not yet there', NotFoundError, 'people|version 0|snapshot 1', lambda w: w.lake.at(version=0)['people'])
wrong('lake.at: nothing', InvalidInputError, 'version|timestamp', lambda w: w.lake.at())
wrong('lake.at: changed', ReadOnlyError, 'version 1', lambda w: w.lake.at(version=1)['people'].delete('id = 1'))
wrong('table: unknown virtual column', InvalidInputError, 'row_id|rowid', lambda w: w.lake.table('people', virtual_columns=['row_id']))
wrong('table: timestamp_ns', InvalidInputError, 'timestamp_ns|nanos', lambda w: w.lake.table('people', timestamp_ns='nanos'))
wrong('count: a vanished file', FileError, 'broken|gone', lambda w: w.lake.table('broken').where('a > 0').count())
wrong('collect: a vanished file', FileError, 'broken|gone', lambda w: w.lake.table('broken').collect())
wrong('show: a vanished file', FileError, 'broken|gone', lambda w: w.lake.table('broken').show())
wrong('toPandas: a vanished file', FileError, 'broken|gone', lambda w: w.lake.table('broken').toPandas(), is_logged=True)
wrong('toArrow: a vanished file', FileError, 'broken|gone', lambda w: w.lake.table('broken').toArrow())
wrong('toLocalIterator: a vanished file', FileError, 'broken|gone', lambda w: list(w.lake.table('broken').toLocalIterator()))
wrong('write: a vanished file', FileError, 'broken|gone', lambda w: w.lake.table('broken').write.format('noop').mode('append').save())
wrong('join: a vanished file', FileError, 'broken|gone', lambda w: w.lake.table('broken').join(w.lake.table('people'), w.F.col('a') == w.F.col('id')).count())
wrong('sql: a vanished file', FileError, 'broken|gone', lambda w: w.lake.sql('SELECT sum(a) FROM broken').collect())
wrong('count: after close', ClosedError, 'closed', lambda w: w.closed_orders.count())
wrong('collect: after close', ClosedError, 'closed', lambda w: w.closed_orders.collect())
wrong('lake.table: after close', ClosedError, 'closed', lambda w: w.closed.table('people'))
wrong('lake.sql: after close', ClosedError, 'closed', lambda w: w.closed.sql('SELECT * FROM people'))
wrong('feed: no table', NotFoundError, 'peple|people', lambda w: w.lake.table_changes('peple', 0))
wrong('feed: a view', InvalidInputError, 'adults|view', lambda w: w.lake.table_changes('adults', 0))
wrong('feed: no such start', SnapshotNotFoundError, '999', lambda w: w.lake.table_changes('people', 999))
wrong('feed: a float', InvalidInputError, '1.5', lambda w: w.lake.table_changes('people', 1.5))
wrong('feed: virtual column', InvalidInputError, 'row_id|rowid', lambda w: w.lake.table_insertions('people', 0, virtual_columns=['row_id']))
wrong('feed: table not there at the end', NotFoundError, 'people|version 0', lambda w: w.lake.table_changes('people', 0, 0))
wrong('restore: no such version', SnapshotNotFoundError, '999', lambda w: w.people.restore(version=999))
wrong('restore: before it was there', NotFoundError, 'people|0', lambda w: w.people.restore(version=0))
wrong('restore: nothing', InvalidInputError, 'version|timestamp', lambda w: w.people.restore())
wrong('history: closed', ClosedError, 'closed', lambda w: w.closed_table.history())

# --- transactions -------------------------------------------------------------------------------------------------------

wrong('commit: none', TransactionError, 'COMMIT', lambda w: w.lake.commit())
wrong('rollback: none', TransactionError, 'ROLLBACK', lambda w: w.lake.rollback())
wrong('begin: nested', TransactionError, 'lake', lambda w: in_transaction(w, lambda: w.lake.begin()))
wrong('commit: inside a block', TransactionError, 'COMMIT', lambda w: in_transaction(w, lambda: w.lake.commit()))
wrong('transaction: author is a number', InvalidInputError, 'author|5', lambda w: w.lake.begin(author=5))
wrong('commit message: no transaction', TransactionError, 'transaction', lambda w: w.lake.set_commit_message('a', 'b'))
wrong('transaction: a failing delete', NotFoundError, '"nme"', lambda w: in_transaction(w, lambda: w.people.delete('nme = 1')))
wrong('transaction: a failing insert', InvalidInputError, 'people.id', lambda w: in_transaction(w, lambda: (w.people.insert([{'id': 5}]), w.people.insert([{'id': 'one'}]))))
wrong('transaction: read-only', ReadOnlyError, 'read_only', lambda w: w.read_only.begin())

# --- SQL, in both dialects --------------------------------------------------------------------------------------------------

for dialect in ("spark", "duckdb"):
    wrong(f'{dialect}: mistyped table', NotFoundError, '"peple"|"people"', sql('SELECT * FROM peple', dialect))
    wrong(f'{dialect}: mistyped schema', NotFoundError, 'sale', sql('SELECT * FROM sale.orders', dialect))
    wrong(f'{dialect}: mistyped column', NotFoundError, '"nme"|"name"|line 1', sql('SELECT nme FROM people', dialect))
    wrong(f'{dialect}: mistyped column with alias', NotFoundError, 'p.nme|name', sql('SELECT p.nme FROM people p', dialect))
    wrong(f'{dialect}: SELECT FROM WHERE', InvalidInputError, 'line 1, column 13|WHERE', sql('SELECT FROM WHERE', dialect))
    wrong(f'{dialect}: SELEC', InvalidInputError, 'SELEC', sql('SELEC * FROM people', dialect))
    wrong(f'{dialect}: open bracket', InvalidInputError, 'line 2', sql('SELECT *\nFROM people WHERE id IN (1, 2', dialect))
    wrong(f'{dialect}: open quote', InvalidInputError, 'quote', sql("SELECT 'x FROM people", dialect))
    wrong(f'{dialect}: empty', InvalidInputError, 'no statement', sql(' ; ', dialect))
    wrong(f'{dialect}: unknown function', InvalidInputError, 'lenght', sql('SELECT lenght(name) FROM people', dialect))
    wrong(f'{dialect}: not grouped', InvalidInputError, 'name', sql('SELECT name, count(*) FROM people GROUP BY id', dialect))
    wrong(f'{dialect}: types', InvalidInputError, 'tags', sql('SELECT tags + 1 FROM people', dialect))
    wrong(f'{dialect}: insert into nothing', NotFoundError, 'peple|people', sql('INSERT INTO peple VALUES (1)', dialect))
    wrong(f'{dialect}: insert into a view', InvalidInputError, 'adults|view', sql('INSERT INTO adults VALUES (1)', dialect))
    wrong(f'{dialect}: insert too few', InvalidInputError, 'people|6|1', sql('INSERT INTO people VALUES (1)', dialect))
    wrong(f'{dialect}: insert mistyped column', NotFoundError, 'nme|name', sql("INSERT INTO people (id, nme) VALUES (1, 'x')", dialect))
    wrong(f'{dialect}: insert no number', InvalidInputError, 'one', sql("INSERT INTO people (id) VALUES ('one')", dialect))
    wrong(f'{dialect}: insert NULL', ConstraintError, 'id|people', sql("INSERT INTO people (name) VALUES ('x')", dialect))
    wrong(f'{dialect}: delete mistyped column', NotFoundError, 'nme|name', sql("DELETE FROM people WHERE nme = 'x'", dialect))
    wrong(f'{dialect}: delete from nothing', NotFoundError, 'peple', sql('DELETE FROM peple', dialect))
    wrong(f'{dialect}: delete with a bad cast', InvalidInputError, 'Ada', sql('DELETE FROM people WHERE CAST(name AS INT) = 1', dialect), is_logged=True)
    wrong(f'{dialect}: update mistyped column', NotFoundError, 'nme|name', sql("UPDATE people SET nme = 'x'", dialect))
    wrong(f'{dialect}: update with mistyped column', NotFoundError, 'scor|score', sql('UPDATE people SET score = scor + 1', dialect))
    wrong(f'{dialect}: merge mistyped column', NotFoundError, 'ids', sql('MERGE INTO people AS p USING (SELECT 1 AS id) AS s ON p.id = s.ids WHEN MATCHED THEN DELETE', dialect))
    wrong(f'{dialect}: merge from nothing', NotFoundError, 'peple', sql('MERGE INTO people AS p USING peple AS s ON p.id = s.id WHEN MATCHED THEN DELETE', dialect))
    wrong(f'{dialect}: merge, two rows match', AmbiguousMergeError, 'people|id = 1', sql('MERGE INTO people AS p USING (SELECT 1 AS id UNION ALL SELECT 1) AS s ON p.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id + 98', dialect))
    wrong(f'{dialect}: create existing', AlreadyExistsError, 'people', sql('CREATE TABLE people (a INT)', dialect))
    wrong(f'{dialect}: create with unknown type', InvalidInputError, 'integr', sql('CREATE TABLE t (a integr)', dialect))
    wrong(f'{dialect}: create as from nothing', NotFoundError, 'peple', sql('CREATE TABLE t AS SELECT * FROM peple', dialect))
    wrong(f'{dialect}: drop nothing', NotFoundError, 'peple', sql('DROP TABLE peple', dialect))
    wrong(f'{dialect}: alter mistyped column', NotFoundError, 'nme|name', sql('ALTER TABLE people DROP COLUMN nme', dialect))
    wrong(f'{dialect}: commit without begin', TransactionError, 'COMMIT', sql('COMMIT', dialect))
    wrong(f'{dialect}: second statement', NotFoundError, 'peple|Statement 2 of 2', sql('SELECT 1; SELECT * FROM peple', dialect))
    wrong(f'{dialect}: parameter without value', InvalidInputError, 'low', sql('SELECT * FROM people WHERE id > :low' if dialect == 'spark' else 'SELECT * FROM people WHERE id > $low', dialect, args={'high': 1}))
    wrong(f'{dialect}: unknown setting', InvalidInputError, 'grant|GRANT', sql('GRANT SELECT ON people TO ada', dialect))
wrong('spark: no such version', SnapshotNotFoundError, '999', sql('SELECT * FROM people VERSION AS OF 999'))
wrong('duckdb: no such version', SnapshotNotFoundError, '999', duckdb('SELECT * FROM people AT (VERSION => 999)'))
wrong('spark: not yet there', NotFoundError, 'people|version 0', sql('SELECT * FROM people VERSION AS OF 0'))
wrong('duckdb: not yet there', NotFoundError, 'people|version 0', duckdb('SELECT * FROM people AT (VERSION => 0)'))
wrong('sql: dialect', InvalidInputError, 'mysql', sql('SELECT 1', 'mysql'))
wrong('sql: a number', InvalidInputError, '5', lambda w: w.lake.sql(5))
wrong('sql: args is a number', InvalidInputError, 'args|5', sql('SELECT ?', args=5))
wrong('sql: a long statement', NotFoundError, 'peple', sql('DELETE FROM peple WHERE ' + ' AND '.join(f'id <> {i}' for i in range(500))))

# --- the session's own SQL ------------------------------------------------------------------------------------------------

def native(text: str) -> Callable[[World], object]:
    return lambda world: world.spark.sql(text).collect()


wrong('spark.sql: no such version', SnapshotNotFoundError, '999', native('SELECT * FROM lake.main.people VERSION AS OF 999'))
wrong('spark.sql: a version that is no number', InvalidInputError, "VERSION AS OF|'x'", native("SELECT * FROM lake.main.people VERSION AS OF 'x'"))
wrong('spark.sql: before the first snapshot', SnapshotNotFoundError, '1999', native("SELECT * FROM lake.main.people TIMESTAMP AS OF '1999-01-01'"))
wrong('spark.sql: no such function', NotFoundError, 'tabel_changes|table_changes', native("SELECT * FROM lake.system.tabel_changes('people', 0, 1)"))
wrong('spark.sql: feed of no table', NotFoundError, '"peple"', native("SELECT * FROM lake.system.table_changes('peple', 0, 1)"))
wrong('spark.sql: no such procedure', NotFoundError, 'system.merge_files', native('CALL lake.system.merge_files()'))
wrong('spark.sql: procedure of no table', NotFoundError, '"peple"', native("CALL lake.system.merge_adjacent_files('peple')"))
wrong('spark.sql: NULL where none may be', ConstraintError, '"id"|"people"', native("INSERT INTO lake.main.people (id, name) VALUES (NULL, 'x')"))
wrong('spark.sql: update to NULL', ConstraintError, '"id"|"people"', native('UPDATE lake.main.people SET id = NULL'))
wrong('spark.sql: ambiguous merge', AmbiguousMergeError, '"people"', native("MERGE INTO lake.main.people t USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'x'"))
wrong('spark.sql: a column FIRST', InvalidInputError, '"x"|comes last', native('ALTER TABLE lake.main.people ADD COLUMN x INT FIRST'))
wrong('spark.sql: NOT NULL without a value', ConstraintError, '"x"|"people"', native('ALTER TABLE lake.main.people ADD COLUMN x INT NOT NULL'))
wrong('spark.sql: NOT NULL over NULLs', ConstraintError, '"born"|holds NULL', native('ALTER TABLE lake.main.people ALTER COLUMN born SET NOT NULL'))
wrong('spark.sql: rename to another schema', InvalidInputError, 'sales|stays in its schema', native('ALTER TABLE lake.main.people RENAME TO sales.people'))
wrong('spark.sql: another format', InvalidInputError, "USING ducklake|'delta'", native('CREATE TABLE lake.main.other (a INT) USING delta'))
wrong('spark.sql: a location', InvalidInputError, 'LOCATION', native("CREATE TABLE lake.main.other (a INT) LOCATION '/tmp/x'"))
wrong('spark.sql: a transform', InvalidInputError, 'truncate|bucket(N, column)', native('CREATE TABLE lake.main.other (a INT) PARTITIONED BY (truncate(3, a))'))
wrong('spark.sql: an option', NotFoundError, 'compresion', native("CREATE TABLE lake.main.other (a INT) TBLPROPERTIES ('compresion' = 'zstd')"))
wrong('spark.sql: comment of a schema', InvalidInputError, 'comment', native("COMMENT ON SCHEMA lake.sales IS 'x'"))
wrong('spark.sql: a view dropped as a table', NotFoundError, '"adults"|a view', native('DROP TABLE lake.main.adults'))
wrong('spark.sql: statistics of no column', NotFoundError, '"nmae"', native('ANALYZE TABLE lake.main.people COMPUTE STATISTICS FOR COLUMNS nmae'))
wrong('spark.sql: folders of partitions', InvalidInputError, 'sales.orders.partitions', native('SHOW PARTITIONS lake.sales.orders'))
wrong('spark.sql: rows into a view', InvalidInputError, 'adults', native('TRUNCATE TABLE lake.main.adults'))
wrong('spark.sql: read-only', ReadOnlyError, 'read-only', native('DELETE FROM read_only.main.people WHERE id = 1'))

# --- the command line -----------------------------------------------------------------------------------------------------------

misuse('cli: no lake', 1, 'nothing.ducklake', lambda w: ['info', str(w.folder / 'nothing.ducklake')])
misuse('cli: no command', 2, 'inof', lambda w: ['inof'])
misuse('cli: no table', 1, 'peple|people', lambda w: ['schema', w.uri, 'peple'])
misuse('cli: no schema', 1, 'sale', lambda w: ['tables', w.uri, '--schema', 'sale'])
misuse('cli: no version', 1, '999', lambda w: ['tables', w.uri, '--version-at', '999'])
misuse('cli: version is a text', 2, 'version-at|integer', lambda w: ['tables', w.uri, '--version-at', 'x'])
misuse('cli: version and time', 2, 'version|time', lambda w: ['tables', w.uri, '--version-at', '1', '--timestamp', '2024-01-01'])
misuse('cli: unknown option', 2, '--wide', lambda w: ['tables', w.uri, '--wide'])
misuse('cli: unknown format', 2, 'xml', lambda w: ['tables', w.uri, '--format', 'xml'])
misuse('cli: statement and file', 2, '--file', lambda w: ['sql', w.uri, 'SELECT 1', '--file', 'x.sql'])
misuse('cli: dialect', 2, 'mysql', lambda w: ['sql', w.uri, 'SELECT 1', '--dialect', 'mysql'])
misuse('cli: no file', 1, 'nothing.sql', lambda w: ['sql', w.uri, '--file', '/nothing.sql'])
misuse('cli: setting', 2, 'shuffle', lambda w: ['sql', w.uri, 'SELECT 1', '--conf', 'shuffle'])
misuse('cli: limit', 2, 'limit', lambda w: ['snapshots', w.uri, '--limit', '0'])
misuse('cli: a file of a table that is none', 1, 'peple', lambda w: ['files', w.uri, 'peple'])


def in_transaction(world: World, do: Callable[[], object]) -> None:
    with world.lake.transaction():
        do()


def pandas(columns: dict[str, list[Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame(columns)


def arrow(columns: dict[str, list[Any]]) -> Any:
    import pyarrow as pa

    return pa.table(columns)


# --- the script -------------------------------------------------------------------------------------------------------------------


def _chain(error: BaseException) -> list[str]:
    """The exceptions that a traceback would show before this one."""
    shown = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [] if shown is None else [f"{type(shown).__name__}: {shown}", *_chain(shown)]


def _made(world: World, mistake: Mistake) -> dict[str, Any]:
    try:
        mistake.do(world)
    except BaseException as error:
        return {"type": type(error).__qualname__, "message": str(error), "chain": _chain(error)}
    return {"type": None, "message": "", "chain": []}


def _run(world: World, misuse: Misuse) -> dict[str, Any]:
    from typer.testing import CliRunner

    from ducklake_spark.cli.app import app

    done = CliRunner().invoke(app, misuse.arguments(world), prog_name="ducklake-spark")
    escaped = done.exception is not None and not isinstance(done.exception, SystemExit)
    return {"code": done.exit_code, "message": done.stderr, "written": done.stdout, "escaped": escaped}


def _wait_for_silence(spark: Any, printed: int) -> None:
    """Tasks of a job that failed are killed after it, and Spark's executors say so when they are."""
    status, end = spark.sparkContext._jsc.sc().statusTracker(), time.monotonic() + 60
    while any(each.numRunningTasks() for each in status.getExecutorInfos()) and time.monotonic() < end:
        time.sleep(0.05)
    # What they said is still on its way to the log.
    size, since = -1, time.monotonic()
    while time.monotonic() - since < 1:
        now = os.fstat(printed).st_size
        if now != size:
            size, since = now, time.monotonic()
        time.sleep(0.05)


def main(result: str, only: str = "") -> None:
    from pyspark.sql import SparkSession

    folder = Path(tempfile.mkdtemp(prefix="mistakes-"))
    printed = tempfile.TemporaryFile()  # noqa: SIM115 - open until the end
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.range(1).selectExpr("id + 1").collect()  # what Spark says about this machine, it says now
    found: dict[str, Any] = {}
    world = World(folder, spark)
    before = world.state()
    for title, mistake in [*MISTAKES.items(), *MISUSES.items()]:
        if only not in title:
            continue
        sys.stdout.flush()
        start, began = os.fstat(printed.fileno()).st_size, time.monotonic()
        report = _made(world, mistake) if isinstance(mistake, Mistake) else _run(world, mistake)
        sys.stdout.flush()
        sys.stderr.flush()
        if isinstance(mistake, Mistake) and mistake.is_logged:
            _wait_for_silence(spark, printed.fileno())
        end = os.fstat(printed.fileno()).st_size
        after = world.state()
        report["seconds"] = time.monotonic() - began
        report["printed"] = os.pread(printed.fileno(), end - start, start).decode(errors="replace")
        report["changed"] = before[0] != after[0]
        report["files"] = sorted(set(before[1]) ^ set(after[1]))
        found[title], before = report, after
        if world.lake._scope.transaction is not None:
            world.lake.rollback()
    Path(result).write_text(json.dumps(found, indent=1))
    spark.stop()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])

__all__ = ["MISTAKES", "MISUSES", "Lake", "NotADuckLakeError"]
