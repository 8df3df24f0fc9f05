"""What is understood of Catalyst's filters, and which files that leaves out. Without Spark."""

from __future__ import annotations

import sqlite3
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_spark.format.bucket import bucket, murmur3
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.types import Decimal, Scalar, parse_type
from ducklake_spark.scan.pruning.bounds import bounds_of, time_text
from ducklake_spark.scan.pruning.predicate import (
    UNKNOWN,
    And,
    Compare,
    IsNotNull,
    IsNull,
    OneOf,
    Or,
    StartsWith,
    parse,
)

A = ColumnDef(1, "a", "int32")
S = ColumnDef(2, "s", "varchar")
N = ColumnDef(3, "n", "struct", children=(ColumnDef(4, "x", "int64"),))
COLUMNS = {"a": A, "s": S, "n": N}
STRUCT_TYPE = {"type": "struct", "fields": [{"name": "x", "type": "long"}]}


def node(kind: str, *children: Any, **properties: Any) -> dict[str, Any]:
    return {"class": kind, "children": list(children), **properties}


def attribute(name: str, data_type: Any = "integer") -> dict[str, Any]:
    return node("AttributeReference", name=name, dataType=data_type)


def lit(value: Any, data_type: str = "integer") -> dict[str, Any]:
    return node("Literal", value=None if value is None else str(value), dataType=data_type)


def parsed(*filters: Any) -> Any:
    return parse(filters, COLUMNS, frozenset({1, 2, 3}))


CASES = [
    (node("EqualTo", attribute("a"), lit(5)), Compare(A, "=", 5)),
    (node("LessThan", lit(5), attribute("a")), Compare(A, ">", 5)),
    (node("Not", node("LessThan", attribute("a"), lit(5))), Compare(A, ">=", 5)),
    (node("EqualTo", attribute("a"), lit(None)), UNKNOWN),
    (node("EqualTo", attribute("unheard"), lit(1)), UNKNOWN),
    (node("EqualTo", node("Cast", attribute("a")), lit(1)), UNKNOWN),
    (node("IsNull", attribute("a")), IsNull(A)),
    (node("Not", node("IsNull", attribute("a"))), IsNotNull(A)),
    (node("In", attribute("a"), lit(1), lit(2)), OneOf(A, (1, 2))),
    (node("In", attribute("a"), lit(1), node("Rand")), UNKNOWN),
    (node("InSet", attribute("a"), values=["1", "2"]), OneOf(A, (1, 2))),
    (node("InSet", attribute("a"), values=["1", "null"]), UNKNOWN),
    (
        node("Not", node("In", attribute("a"), lit(1), lit(2))),
        And((Compare(A, "<>", 1), Compare(A, "<>", 2))),
    ),
    (node("StartsWith", attribute("s", "string"), lit("x", "string")), StartsWith(S, "x")),
    (node("Not", node("StartsWith", attribute("s", "string"), lit("x", "string"))), UNKNOWN),
    (
        node("Or", node("IsNull", attribute("a")), node("EqualTo", attribute("a"), lit(1))),
        Or((IsNull(A), Compare(A, "=", 1))),
    ),
    (node("Or", node("IsNull", attribute("a")), node("Rand")), UNKNOWN),
    (node("And", node("IsNull", attribute("a")), node("Rand")), IsNull(A)),
    (
        node("Not", node("And", node("Rand"), node("EqualTo", attribute("a"), lit(1)))),
        UNKNOWN,
    ),
    (
        node("Not", node("Or", node("Rand"), node("EqualTo", attribute("a"), lit(1)))),
        Compare(A, "<>", 1),
    ),
    (node("Not", node("EqualNullSafe", attribute("a"), lit(1))), UNKNOWN),
    (
        node("EqualTo", node("GetStructField", attribute("n", STRUCT_TYPE), ordinal=0), lit(7, "long")),
        Compare(N.children[0], "=", 7),
    ),
]


@pytest.mark.parametrize(("tree", "expected"), CASES)
def test_filters(tree: Any, expected: Any) -> None:
    assert parsed(tree) == expected


def test_columns_that_are_converted_are_known_by_null_only() -> None:
    found = parse(
        [node("IsNotNull", attribute("a")), node("EqualTo", attribute("a"), lit(1))], COLUMNS, frozenset()
    )
    assert found == IsNotNull(A)


# Bounds: the SQL of each database against Python's own comparison

OPERATORS = {
    "below": lambda bound, value: bound < value,
    "at_most": lambda bound, value: bound <= value,
    "above": lambda bound, value: bound > value,
    "at_least": lambda bound, value: bound >= value,
}
VALUES = {
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100),
    "uint64": st.integers(0, 2**64 - 1) | st.integers(0, 100),
    "int128": st.integers(-(2**126), 2**126),
    "decimal(10,2)": st.decimals(-(10**7), 10**7, places=2),
    "decimal(38,12)": st.decimals(-(10**20), 10**20, places=12),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "varchar": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    "date": st.integers(-719162, 2932896),
    "timestamp": st.integers(-62135596800000000, 253402300799999999),
    "timestamp_ns": st.integers(-(2**63), 2**63 - 1),
    "timestamptz": st.integers(-62135596800000000, 253402300799999999),
}


def stored(type_: str, value: Any) -> str:
    """A bound as the catalog keeps it."""
    text = time_text(type_, value)
    if text is not None and type_ in ("date", "timestamp", "timestamp_ns", "timestamptz"):
        return text
    return repr(value) if isinstance(value, float) else str(value)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("type_", VALUES)
def test_bounds_are_never_wrong(kind: str, type_: str) -> None:
    connection: Any = duckdb.connect() if kind == "duckdb" else sqlite3.connect(":memory:")
    bounds = bounds_of(kind, parse_type(type_), False)
    assert bounds is not None
    surely = {"decided": 0, "all": 0}

    @given(VALUES[type_], VALUES[type_])
    def check(bound: Any, value: Any) -> None:
        for name, compare in OPERATORS.items():
            fragment = getattr(bounds, name)("s.min_value", value)
            expected = (
                compare(str(bound).encode(), value.encode()) if type_ == "varchar" else compare(bound, value)
            )
            surely["all"] += expected
            if fragment is None:
                continue
            sql, params = fragment
            row = connection.execute(
                f"SELECT ({sql}) FROM (SELECT ? AS min_value) s", [*params, stored(type_, bound)]
            ).fetchone()
            assert not row[0] or expected, (name, bound, value, sql)
            surely["decided"] += bool(row[0])

    check()
    connection.close()
    # Not only is nothing wrong: most is decided, even where SQLite needs a margin.
    assert surely["decided"] > 0.5 * surely["all"]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize(
    ("type_", "odd"),
    [
        ("date", "infinity"),
        ("date", "0044-03-15 (BC)"),
        ("timestamp", "12345-01-01 00:00:00"),
        ("float64", "inf"),
    ],
)
def test_odd_bounds_decide_nothing(kind: str, type_: str, odd: str) -> None:
    connection: Any = duckdb.connect() if kind == "duckdb" else sqlite3.connect(":memory:")
    bounds = bounds_of(kind, parse_type(type_), False)
    assert bounds is not None
    for name in ("below", "at_most"):
        sql, params = getattr(bounds, name)("s.min_value", 0)
        row = connection.execute(f"SELECT ({sql}) FROM (SELECT ? AS min_value) s", [*params, odd]).fetchone()
        assert not row[0]
    connection.close()


# Buckets

HASHES = [
    (True, "boolean", 1392991556),
    (34, "int32", 2017239379),
    (17486, "date", -653330422),
    (1510871468000000, "timestamp", -2047944441),
    (1510871468000000, "timestamp_s", -243262269),
    (1510871468000000000, "timestamp_ns", -737750069),
    (81068000000, "time", -662762989),
    ("14.20", "decimal(9,2)", -622427183),
    ("14.20", "decimal(38,2)", -1660625346),
    (1.0, "float64", -142385009),
    ("iceberg", "varchar", 1210000089),
    (b"\x00\x01\x02\x03", "blob", -188683207),
    (34, "uint8", -427558391),
]


@pytest.mark.parametrize(("value", "type_", "expected"), HASHES)
def test_bucket_hashes(value: Any, type_: str, expected: int) -> None:
    assert bucket(value, parse_type(type_), 1 << 31) == expected & 0x7FFFFFFF


def test_buckets_of_types_without_a_known_hash() -> None:
    assert bucket(1, Scalar("interval"), 4) is None
    assert bucket("1.005", Decimal(9, 2), 4) is None
    assert murmur3(b"") == 0
