"""Predicates as SQL for DuckDB: never narrower than the filter that they came from."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.scan.pruning.predicate import (
    UNKNOWN,
    And,
    Compare,
    IsNotNull,
    OneOf,
    Or,
    Predicate,
    StartsWith,
)
from ducklake_spark.scan.pruning.worker_filter import sql_of

INT, TEXT, FLOAT = (
    ColumnDef(i, name, t) for i, (name, t) in enumerate([("i", "int32"), ('s"', "varchar"), ("f", "float64")])
)
DAY, MONEY = ColumnDef(3, "d", "date"), ColumnDef(4, "m", "decimal(9,2)")


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        (Compare(INT, ">=", 7), '"i" >= 7'),
        (Compare(TEXT, "=", "it's"), "\"s\"\"\" = 'it''s'"),
        (Compare(DAY, "<", -1), "\"d\" < (DATE '1970-01-01' + -1)"),
        (Compare(MONEY, "=", Decimal("1E+2")), '"m" = 100'),
        (OneOf(INT, (1, 2)), '"i" IN (1, 2)'),
        (StartsWith(TEXT, "a%"), "starts_with(\"s\"\"\", 'a%')"),
        (And((IsNotNull(INT), Compare(INT, "<", 3))), '("i" IS NOT NULL) AND ("i" < 3)'),
        (Or((Compare(INT, "=", 1), Compare(INT, "=", 2))), '("i" = 1) OR ("i" = 2)'),
    ],
)  # fmt: skip
def test_what_duckdb_is_told(predicate: Predicate, sql: str) -> None:
    assert sql_of(predicate, lambda column: column.name) == sql


@pytest.mark.parametrize(
    "predicate",
    [
        UNKNOWN,
        Compare(FLOAT, "=", 0.0),
        Or((Compare(INT, "=", 1), Compare(FLOAT, "=", 1.0))),
        OneOf(FLOAT, (1.0,)),
    ],
)
def test_what_duckdb_might_decide_otherwise_it_is_not_told(predicate: Predicate) -> None:
    assert sql_of(predicate, lambda column: column.name) is None


def test_a_column_that_is_not_read_is_not_spoken_of() -> None:
    both = And((Compare(INT, "=", 1), Compare(TEXT, "=", "a")))
    assert sql_of(both, lambda column: "i" if column is INT else None) == '("i" = 1)'
