"""Columns that are added to tables with and without rows: the statistics that the extension has of them afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from tests.interop import catalogs
from tests.interop.oracle import Oracle

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

DEFAULTS = {
    "BOOLEAN": "'true'",
    "TINYINT": "-1",
    "UBIGINT": "18446744073709551615",
    "HUGEINT": "5",
    "FLOAT": "1.5",
    "DOUBLE": "'inf'",
    "DECIMAL(10,2)": "1.5",
    "DATE": "'0044-03-15'",
    "TIME": "'12:34:56.5'",
    "TIMESTAMP": "'2020-01-01 01:02:03.5'",
    "TIMESTAMP_S": "'2020-01-01 01:02:03'",
    "TIMESTAMP_NS": "'2020-01-01 01:02:03.123456789'",
    "TIMESTAMPTZ": "'2020-01-01 01:02:03+00'",
    "VARCHAR": "'it''s \\ \"'",
    "JSON": "'{}'",
    "BLOB": "'\\xAA'",
    "UUID": "'550e8400-e29b-41d4-a716-446655440000'",
    "INTERVAL": "'1 month 2 days'",
    "TIMETZ": "'12:00:00+02'",
}
NEW = ["CREATE TABLE {t}(a INT)", "INSERT INTO {t} VALUES (1), (2)"]
ADD = "ALTER TABLE {t} ADD COLUMN"
CASES = {
    "defaults": ["BEGIN", *NEW, *(f"{ADD} c{i} {t} DEFAULT {v}" for i, (t, v) in enumerate(DEFAULTS.items())), "COMMIT"],
    "no_defaults": ["BEGIN", *NEW, *(f"{ADD} c{i} {t}" for i, t in enumerate(DEFAULTS)), "COMMIT"],
    "added_later": [*NEW, f"{ADD} b INT DEFAULT 42", f"{ADD} c INT", "INSERT INTO {t} VALUES (3, 1, 1)"],
    "added_to_empty": ["CREATE TABLE {t}(a INT)", f"{ADD} b INT DEFAULT 42", "INSERT INTO {t}(a) VALUES (1)"],
    "rows_of_this_transaction": [NEW[0], "BEGIN", NEW[1], f"{ADD} b INT DEFAULT 42", f"{ADD} c INT", "COMMIT"],
    "rows_of_this_and_another": [*NEW, "BEGIN", NEW[1], f"{ADD} b INT DEFAULT 42", "COMMIT"],
    "rows_on_both_sides": [
        "BEGIN", *NEW, f"{ADD} b INT DEFAULT 42", "INSERT INTO {t} VALUES (3, 1), (4, NULL)",
        f"{ADD} c VARCHAR DEFAULT 'x'", "INSERT INTO {t} VALUES (5, 1, 'a')", "COMMIT",
    ],
    "dropped_and_renamed": [
        "BEGIN", *NEW, f"{ADD} b INT DEFAULT 5", "ALTER TABLE {t} DROP COLUMN b", f"{ADD} c INT DEFAULT 6",
        "ALTER TABLE {t} RENAME c TO d", f"{ADD} e INT DEFAULT 7", "ALTER TABLE {t} ALTER e SET DEFAULT 8",
        "INSERT INTO {t}(a) VALUES (9)", "COMMIT",
    ],
    "deleted": ["BEGIN", *NEW, f"{ADD} b INT DEFAULT 42", "DELETE FROM {t} WHERE a = 1", "COMMIT"],
    "updated": ["BEGIN", *NEW, f"{ADD} b INT DEFAULT 42", "UPDATE {t} SET b = 1 WHERE a = 1", "COMMIT"],
    "in_a_file": [
        "BEGIN", NEW[0], "INSERT INTO {t} SELECT range FROM range(20)", f"{ADD} b INT DEFAULT 42", f"{ADD} c INT", "COMMIT"
    ],
    "inserted_into": [
        "BEGIN", "CREATE TABLE {t} AS SELECT 1 AS a", f"{ADD} b INT DEFAULT 42", "COMMIT",
        "INSERT INTO {t} VALUES (2, 50)", "INSERT INTO {t} VALUES (2, NULL)",
    ],
    "required": ["BEGIN", *NEW, f"{ADD} b INT DEFAULT 42", "COMMIT", "ALTER TABLE {t} ALTER b SET NOT NULL"],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_added_columns_leave_the_rows_of_the_extension(
    oracle: Oracle, spark: SparkSession, make_location: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    cases = CASES if kind == "duckdb" else {name: CASES[name] for name in ("defaults", "rows_on_both_sides")}
    statements = [statement.replace("{t}", name) for name, case in cases.items() for statement in case]
    uris = [
        make_location(kind) if kind == "postgres" else f"ducklake:{kind}:{tmp_path / f'{name}.{kind}'}"
        for name in ("ours", "theirs")
    ]
    data_path = str(tmp_path / "data")
    with ducklake_spark.attach(uris[0], name="lake", data_path=data_path, spark=spark) as lake:
        for statement in statements:
            lake.sql(statement, dialect="duckdb")
    oracle.attach(uris[1], data_path=data_path)
    for statement in statements:
        oracle.execute(statement)
    oracle.detach()
    sizes = {
        "ducklake_data_file": ["file_size_bytes", "footer_size"],
        "ducklake_table_stats": ["file_size_bytes"],
        "ducklake_file_column_stats": ["column_size_bytes"],
    }
    catalogs.assert_same(uris[0], uris[1], ignore=sizes)


def test_nested_columns_that_are_added_to_rows_of_this_transaction(
    lake: ducklake_spark.Lake, tmp_path: Path
) -> None:
    """The extension says it of the struct, for which nothing looks it up; we say it of its parts, as after an insert."""
    with lake.transaction():
        lake.create_table("t", "a INT").insert([(1,), (2,)])
        lake["t"].add_column("s", "STRUCT<x: INT, l: ARRAY<INT>>")
    lake["t"].insert([(3, {"x": 5, "l": [6]})])
    lake.close()
    rows = catalogs.dump(tmp_path / "metadata.ducklake")["ducklake_table_column_stats"]
    assert [(row["column_id"], row["contains_null"], row["min_value"], row["max_value"]) for row in rows] == [
        (1, False, "1", "3"),
        (3, True, "5", "5"),
        (5, False, "6", "6"),
    ]
