"""Errors in DuckDB's dialect have the words that the extension has for the same mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

import ducklake_spark
from tests.interop.oracle import Oracle, OracleError

SETUP = (
    "CREATE TABLE t(i INT NOT NULL, s VARCHAR, st STRUCT(a INT))",
    "CREATE VIEW v AS SELECT 1 AS x",
    "CREATE SCHEMA s1",
    "CREATE TABLE s1.x(i INT)",
)
MISTAKES = {
    "DROP TABLE nosuch": "Table with name nosuch does not exist!",
    "INSERT INTO nosuch VALUES (1)": "Table with name nosuch does not exist!",
    "DROP VIEW nosuch": "View with name nosuch does not exist!",
    "DROP MACRO nosuch": "Macro Function with name nosuch does not exist!",
    "CREATE TABLE nosuch.x(i INT)": 'Schema "nosuch" not found',
    "CREATE TABLE t(i INT)": 'Table with name "t" already exists!',
    "CREATE VIEW t AS SELECT 1": 'Table with name "t" already exists!',
    "CREATE SCHEMA s1": 'Schema with name "s1" already exists!',
    "DROP TABLE v": "Existing object v is of type View",
    "DROP SCHEMA s1": 'Cannot drop schema "s1" because there are entries that depend on it',
    "ALTER TABLE t DROP COLUMN nosuch": 'Table "t" does not have a column with name "nosuch"',
    "ALTER TABLE t DROP COLUMN st.nosuch": 'Column "st.nosuch" does not exist',
    "ALTER TABLE t ALTER s TYPE INT": "Cannot change type of column s from VARCHAR to INTEGER - only widening type promotions are allowed",
    "ALTER TABLE s1.x DROP COLUMN i": "Cannot drop column: table only has one column remaining!",
    "ALTER TABLE t SET PARTITIONED BY (bucket(0, i))": "Bucket count must be positive",
    "INSERT INTO t VALUES (1)": "columns but 1 values were supplied",
    "INSERT INTO t(i) VALUES (NULL)": "NOT NULL constraint failed: t.i",
    "INSERT INTO t VALUES (1, 'a', NULL) RETURNING i": "not yet supported",
    "CREATE TABLE e(e ENUM('a'))": "Failed to convert DuckDB type to DuckLake - unsupported type",
    "CALL lake.set_option('nosuch', 1)": "Unsupported option nosuch",
    "COMMIT": "cannot commit - no transaction is active",
    "EXECUTE nosuch": 'Prepared statement "nosuch" does not exist',
}


def test_statements_fail_in_the_words_of_duckdb(oracle: Oracle, tmp_path: Path) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/m.sqlite"
    oracle.attach(uri, data_path=str(tmp_path / "data"))
    for statement in SETUP:
        oracle.execute(statement)
    wrong = []
    with ducklake_spark.attach(uri, name="lake", catalog=False) as lake:
        for statement, words in MISTAKES.items():
            with pytest.raises(OracleError) as theirs:
                oracle.execute(statement)
            if "no transaction is active" not in str(theirs.value):
                oracle.detach()
                oracle.attach(uri)
            said = ""
            try:
                lake.sql(statement, dialect="duckdb")
            except ducklake_spark.DuckLakeError as error:
                said = str(error)
            if words not in str(theirs.value) or words not in said or len(said) > 400:
                wrong.append((statement, str(theirs.value), said))
    assert wrong == []


def test_other_dialect_keeps_our_own_words(tmp_path: Path) -> None:
    with (
        ducklake_spark.attach(f"ducklake:{tmp_path}/m.ducklake", catalog=False) as lake,
        pytest.raises(ducklake_spark.NotFoundError) as error,
    ):
        lake.sql("DROP TABLE nosuch")
    assert "DuckDB" not in str(error.value)
