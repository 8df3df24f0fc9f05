"""Every SQL example of DuckLake's own documents: the extension and we give the same answers.

The examples are as printed. What they take for granted (a table, a file, a value for SNAPSHOT_ID) is made here.
Not here, because they are no statements on an attached lake:

- ATTACH and DETACH with their parameters, INSTALL, and other clients: `attach()` and `close()`, see tests/catalog;
- the specification's INSERT and UPDATE of `ducklake_*` tables: what a writer does, see tests/interop/test_parity.py;
- `FROM glob(...)` and `FROM 'x-delete.parquet'`: they look at files, whose number and names differ by chance.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import ducklake_spark
from tests.interop.oracle import Oracle

pytestmark = pytest.mark.spark

Run = Callable[[str], list[tuple[Any, ...]]]


@dataclass
class Side:
    """One of the two lakes, called `my_ducklake` as in the documents; the tables of its catalog are queries, too."""

    run: Run
    name: str = "my_ducklake"
    seen: list[Any] = field(default_factory=list)

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        rows = sorted(self.run(text), key=repr)
        self.seen.append((text, rows))
        return rows


@pytest.fixture
def sides(
    oracle: Oracle, spark: SparkSession, tmp_path: Path
) -> Iterator[Callable[[Callable[[Side], None]], None]]:
    def both(script: Callable[[Side], None]) -> None:
        uri = f"ducklake:{tmp_path / 'theirs.ducklake'}"
        oracle.attach(uri, name="my_ducklake")
        theirs = Side(oracle.execute)
        script(theirs)
        oracle.detach()
        with ducklake_spark.attach(
            f"ducklake:{tmp_path / 'ours.ducklake'}", spark=spark, name="my_ducklake"
        ) as lake:
            ours = Side(lambda text: [plain(row) for row in lake.sql(text, dialect="duckdb").collect()])
            script(ours)
        for (text, expected), (_, found) in zip(theirs.seen, ours.seen, strict=True):
            assert found == expected, text

    yield both


def plain(row: Row) -> tuple[Any, ...]:
    """A row as DuckDB's client gives it: structs are dicts."""
    return tuple(value.asDict(recursive=True) if isinstance(value, Row) else value for value in row)


def stations(path: Path) -> Path:
    """A file with the columns of the Dutch stations, and the one that the walk-through is about."""
    header = [
        "id",
        "code",
        "uic",
        "name_short",
        "name_medium",
        "name_long",
        "slug",
        "country",
        "type",
        "geo_lat",
        "geo_lng",
    ]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for i in range(60):
            code = "ASB" if i == 29 else f"S{i:02d}"
            long = "Amsterdam Bijlmer ArenA" if i == 29 else f"Station, No. {i}"
            writer.writerow(
                [
                    i,
                    code,
                    8400000 + i,
                    f"St{i}",
                    f"Stat. {i}",
                    long,
                    f"station-{i}",
                    "NL",
                    "knooppunt",
                    51.5 + i / 100,
                    4.5 + i / 50,
                ]
            )
    return path


def test_the_walk_through_with_train_stations(
    sides: Callable[[Callable[[Side], None]], None], tmp_path: Path
) -> None:
    file = stations(tmp_path / "nl_stations.csv")

    def script(side: Side) -> None:
        side.run("USE my_ducklake;")
        side.ask(f"CREATE TABLE nl_train_stations AS\n    FROM '{file}';")
        side.ask("DESCRIBE nl_train_stations")
        side.ask("FROM nl_train_stations")
        side.ask("UPDATE nl_train_stations SET name_long='Johan Cruijff ArenA' WHERE code = 'ASB';")
        side.ask("SELECT name_long FROM nl_train_stations WHERE code = 'ASB';")
        [*rows] = side.run("FROM my_ducklake.snapshots();")
        side.seen.append(("snapshots", [(row[0], row[2], row[3]) for row in rows]))
        side.ask("SELECT name_long FROM nl_train_stations AT (VERSION => 1) WHERE code = 'ASB';")
        side.ask("SELECT name_long FROM nl_train_stations AT (VERSION => 2) WHERE code = 'ASB';")

    sides(script)


SCHEMA_EVOLUTION = [
    """-- add a new column of type INTEGER, with default value NULL
ALTER TABLE tbl ADD COLUMN new_column INTEGER;""",
    "ALTER TABLE tbl DROP COLUMN new_column;",
    """-- add a new column with an explicit default value
ALTER TABLE tbl ADD COLUMN new_column VARCHAR DEFAULT 'my_default';""",
    """-- add a new field of type INTEGER, with default value NULL
ALTER TABLE tbl ADD COLUMN nested_column.new_field INTEGER;""",
    """-- rename the field "new_field" within the struct column "nested_column" to "new_name"
ALTER TABLE tbl RENAME nested_column.new_field TO new_name;""",
    """-- drop the field `new_field` from the struct column `nested_column`
ALTER TABLE tbl DROP COLUMN nested_column.new_name;""",
    """-- rename the top-level column "new_column" to "new_name"
ALTER TABLE tbl RENAME new_column TO new_name;""",
    """-- drop the top-level column `new_column` from the table
ALTER TABLE tbl DROP COLUMN new_name;""",
    """-- change the type of col1 to BIGINT
ALTER TABLE tbl ALTER col1 SET TYPE BIGINT;""",
]


def test_schema_evolution(sides: Callable[[Callable[[Side], None]], None]) -> None:
    def script(side: Side) -> None:
        side.run("USE my_ducklake")
        side.ask("CREATE TABLE tbl (col1 INTEGER, nested_column STRUCT(old_field INTEGER))")
        side.ask("INSERT INTO tbl VALUES (1, {'old_field': 10})")
        for statement in SCHEMA_EVOLUTION:
            side.ask(statement)
            side.ask("FROM tbl")
            side.ask("DESCRIBE tbl")

    sides(script)


def test_a_field_gets_a_wider_type_which_the_extension_cannot_parse(
    spark: SparkSession, oracle: Oracle, tmp_path: Path
) -> None:
    uri = f"ducklake:{tmp_path / 'm.ducklake'}"
    with ducklake_spark.attach(uri, spark=spark) as lake:
        lake.sql(
            "CREATE TABLE tbl (nested_column STRUCT(new_field INTEGER)); INSERT INTO tbl VALUES ({'new_field': 7})",
            "duckdb",
        )
        lake.sql(
            '-- change the type of field "new_field" within the struct column "nested_column" to BIGINT\n'
            "ALTER TABLE tbl ALTER nested_column.new_field SET TYPE BIGINT;",
            "duckdb",
        )
    oracle.attach(uri)
    assert oracle.execute("SELECT typeof(nested_column), nested_column.new_field FROM tbl") == [
        ("STRUCT(new_field BIGINT)", 7)
    ]


def test_time_travel_and_snapshots(sides: Callable[[Callable[[Side], None]], None]) -> None:
    def script(side: Side) -> None:
        side.run("USE my_ducklake")
        side.ask("CREATE TABLE tbl (i INTEGER)")
        side.ask("INSERT INTO tbl VALUES (1), (2)")
        side.ask("INSERT INTO tbl VALUES (3)")
        side.ask("DELETE FROM tbl WHERE i = 1")
        side.ask("SELECT * FROM tbl AT (VERSION => 3);")
        rows = side.run("SELECT * FROM my_ducklake.snapshots();")
        side.seen.append(("snapshots", [(row[0], row[2], row[3]) for row in rows]))
        with pytest.raises(Exception, match="snapshot"):
            side.run("SELECT * FROM tbl AT (TIMESTAMP => now() - INTERVAL '1 week');")

    sides(script)


METADATA = [
    """SELECT snapshot_id FROM ducklake_snapshot
WHERE snapshot_id =
    (SELECT max(snapshot_id) FROM ducklake_snapshot);""",
    """SELECT schema_id, schema_name
FROM ducklake_schema
WHERE
    SNAPSHOT_ID >= begin_snapshot AND
    (SNAPSHOT_ID < end_snapshot OR end_snapshot IS NULL);""",
    """SELECT table_id, table_name
FROM ducklake_table
WHERE
    schema_id = SCHEMA_ID AND
    SNAPSHOT_ID >= begin_snapshot AND
    (SNAPSHOT_ID < end_snapshot OR end_snapshot IS NULL);""",
    """SELECT column_id, column_name, column_type
FROM ducklake_column
WHERE
    table_id = TABLE_ID AND
    parent_column IS NULL AND
    SNAPSHOT_ID >= begin_snapshot AND
    (SNAPSHOT_ID < end_snapshot OR end_snapshot IS NULL)
ORDER BY column_order;""",
    """SELECT data.path_is_relative, del.path AS delete_file_path
FROM ducklake_data_file AS data
LEFT JOIN (
    SELECT *
    FROM ducklake_delete_file
    WHERE
        SNAPSHOT_ID >= begin_snapshot AND
        (SNAPSHOT_ID < end_snapshot OR end_snapshot IS NULL)
    ) AS del
USING (data_file_id)
WHERE
    data.table_id = TABLE_ID AND
    SNAPSHOT_ID >= data.begin_snapshot AND
    (SNAPSHOT_ID < data.end_snapshot OR data.end_snapshot IS NULL)
ORDER BY file_order;""",
    """SELECT data_file_id
FROM ducklake_file_column_stats
WHERE
    table_id = TABLE_ID AND
    column_id = COLUMN_ID AND
    (SCALAR >= min_value OR min_value IS NULL) AND
    (SCALAR <= max_value OR max_value IS NULL);""",
]


def test_the_tables_of_the_catalog_are_queries_too(sides: Callable[[Callable[[Side], None]], None]) -> None:
    """The paths, which differ by chance, are left out of the answers."""
    values = {"SNAPSHOT_ID": "2", "SCHEMA_ID": "0", "TABLE_ID": "1", "COLUMN_ID": "1", "SCALAR": "'43'"}

    def script(side: Side) -> None:
        side.run("USE my_ducklake")
        side.ask("CREATE TABLE demo (i INTEGER, s VARCHAR)")
        side.ask("INSERT INTO demo SELECT 40 + i, 'x' FROM (SELECT unnest(range(20)) AS i)")
        for text in METADATA:
            for name, value in values.items():
                text = text.replace(name, value)
            side.ask(text.replace("FROM ducklake_", "FROM __ducklake_metadata_my_ducklake.ducklake_"))

    sides(script)


def test_inserts_and_nested_types(sides: Callable[[Callable[[Side], None]], None]) -> None:
    def script(side: Side) -> None:
        side.run("USE my_ducklake")
        side.ask("CREATE TABLE demo (i INTEGER)")
        side.ask("INSERT INTO demo VALUES (42), (43);")
        side.ask("FROM demo")
        side.ask(
            "CREATE TABLE nested_types (\ncol_list INT[],\ncol_struct STRUCT(a INT, b VARCHAR),\ncol_map MAP(VARCHAR, INT)\n);"
        )
        side.ask(
            "INSERT INTO nested_types VALUES\n([1, 2, 3], {'a': 10, 'b': 'hello'}, MAP {'x': 1}),\n"
            "([4, 5, 6], {'a': 20, 'b': 'world'}, MAP {'y': 2});"
        )
        side.ask("SELECT col_list, col_struct.a, col_struct.b, col_map FROM nested_types")

    sides(script)
