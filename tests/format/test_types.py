"""Types and their texts: what is printed is parsed again, in the words of DuckLake, DuckDB and Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_spark import InvalidInputError
from ducklake_spark.format.columns import build
from ducklake_spark.format.types import (
    DataType,
    Decimal,
    List,
    Map,
    Scalar,
    Struct,
    duckdb_name,
    fold,
    parse_columns,
    parse_type,
    quote,
)
from tests.format.test_names import names
from tests.format.test_promotion import ACCEPTED

scalars = st.sampled_from([Scalar(name) for name in ACCEPTED if "(" not in name])
decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: Decimal(p, s)))


def structs(parts: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(st.tuples(names, parts), min_size=1, max_size=3, unique_by=lambda field: fold(field[0]))
    return fields.map(lambda found: Struct(tuple(found)))


types: st.SearchStrategy[DataType] = st.recursive(
    scalars | decimals,
    lambda parts: st.builds(List, parts) | st.builds(Map, parts, parts) | structs(parts),
    max_leaves=6,
)


@given(types)
def test_duckdbs_text_is_parsed_again(data_type: DataType) -> None:
    assert parse_type(duckdb_name(data_type)) == data_type


@given(types)
def test_sparks_text_is_parsed_again(data_type: DataType) -> None:
    assert parse_type(spark_text(data_type)) == data_type


def spark_text(data_type: DataType) -> str:
    match data_type:
        case List(element):
            return f"array<{spark_text(element)}>"
        case Map(key, value):
            return f"map<{spark_text(key)}, {spark_text(value)}>"
        case Struct(fields):
            quoted = ("`" + name.replace("`", "``") + "`" for name, _ in fields)
            parts = (f"{name}: {spark_text(part)}" for name, (_, part) in zip(quoted, fields, strict=True))
            return f"struct<{', '.join(parts)}>"
    return data_type.name


@given(types)
def test_columns_are_trees_of_the_same_type(data_type: DataType) -> None:
    column, next_id = build("c", data_type, 5)
    assert column.data_type == data_type
    assert [node.column_id for node in column.walk()] == list(range(5, next_id))


@given(st.lists(st.tuples(names, types, st.booleans()), min_size=1, max_size=4))
def test_columns_of_a_table(columns: list[tuple[str, DataType, bool]]) -> None:
    parts = (
        f"{quote(name)} {duckdb_name(part)}{'' if null else ' NOT NULL'}" for name, part, null in columns
    )
    assert parse_columns(", ".join(parts)) == columns


@given(st.text(alphabet=st.sampled_from(list("()<>[],:'\"` \n19aä🦆")) | st.characters(), max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_type, parse_columns):
        try:
            parse(text)
        except InvalidInputError as error:
            assert "Cannot read the" in str(error)


def test_deep_types_are_not_the_end() -> None:
    with pytest.raises(InvalidInputError, match="too deeply nested"):
        parse_type("struct(a " * 5000 + "int" + ")" * 5000)
