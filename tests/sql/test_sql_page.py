"""docs/sql.md says which statements work. Every line of it is tried, in both dialects."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import DuckLakeError
from ducklake_spark.sql.execute.calls import SETTINGS
from ducklake_spark.sql.execute.functions import FUNCTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """The cells of the table behind a heading."""
    lines = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")
    ]
    return rows[1:]


@pytest.mark.spark
@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
def test_statements_do_what_the_page_says(spark: SparkSession, tmp_path: Path, dialect: str) -> None:
    wrong = []
    with ducklake_spark.attach(f"ducklake:{tmp_path / 'm.ducklake'}", spark=spark, name="lake") as lake:
        lake.sql(
            "CREATE TABLE t (a INT, b VARCHAR, st STRUCT(x INT)); CREATE TABLE u (a INT, b VARCHAR);"
            "INSERT INTO t VALUES (1, 'one', {'x': 1}), (2, 'two', NULL), (3, 'three', NULL); INSERT INTO u VALUES (1, 'u1'), (2, 'u2'), (3, 'u3')",
            "duckdb",
        )
        rows = table("Statements")
        assert len(rows) > 90 and all(len(row) == 4 for row in rows)
        for _, example, *states in rows:
            state = states[("spark", "duckdb").index(dialect)]
            version = lake.version
            try:
                lake.sql(example.strip("`"), dialect)
                outcome = "works"
            except DuckLakeError as error:
                outcome = "no"
                assert lake.version == version, example
                if state == "works":
                    wrong.append(f"{example}: {error}")
            if state != "-" and outcome != state:
                wrong.append(f"{example} is {outcome}, not {state}")
    assert not wrong, "\n".join(wrong)


def test_functions_and_settings_are_all_there() -> None:
    assert dict(table("Functions of the lake")) == {
        name: function.state for name, function in FUNCTIONS.items()
    }
    listed = PAGE.split("\n## Settings\n", 1)[1]
    assert all(f"`{name}`" in listed for name in SETTINGS)
