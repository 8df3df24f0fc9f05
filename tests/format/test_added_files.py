"""Files that exist already, matched with the columns of a table: what needs no file."""

from __future__ import annotations

from typing import Any

import pytest

from ducklake_spark.errors import InvalidInputError
from ducklake_spark.format import hive
from ducklake_spark.format.added_files import AddOptions, MappedFile, map_file, statistics
from ducklake_spark.format.column_mapping import ColumnMapping, MappedColumn, known_shapes
from ducklake_spark.format.columns import ColumnDef
from ducklake_spark.format.objects import TableDef
from ducklake_spark.format.parquet_types import ParquetColumn, columns_of, lake_type


def same(text: str, _then: str, _now: str) -> str | None:
    return text


def table(*columns: ColumnDef) -> TableDef:
    return TableDef(1, "u", 0, "t", "t/", True, columns, len(columns) + 1)


def mapped(
    found: list[ParquetColumn], *columns: ColumnDef, path: str = "/f.parquet", **options: Any
) -> MappedFile:
    return map_file(table(*columns), path, found, (), AddOptions(**options), same)


def integer(name: str, leaf: int = 0) -> ParquetColumn:
    return ParquetColumn(name, "INT32", "INT_32", leaf=leaf)


def group(name: str, *children: ParquetColumn, kind: str | None = None) -> ParquetColumn:
    return ParquetColumn(name, converted_type=kind, children=children)


@pytest.mark.parametrize(
    ("column", "called"),
    [
        (group("l", group("list", integer("element")), kind="LIST"), "list"),
        (group("l", group("list", integer("item")), kind="LIST"), "list"),
        (group("l", group("bag", integer("array_element")), kind="LIST"), "list"),
        (group("l", integer("array"), kind="LIST"), "array"),
        (group("l", integer("element"), kind="LIST"), "array"),
    ],
)
def test_an_element_is_found_whatever_its_writer_calls_it(column: ParquetColumn, called: str) -> None:
    found = mapped([column], ColumnDef(1, "l", "list", children=(ColumnDef(2, "element", "int32"),)))
    assert found.mapping.rows(7) == [(7, 0, "l", 1, None, False), (7, 1, called, 2, 0, False)]
    assert [node.column_id for node, _ in found.leaves.values()] == [2]


def test_a_field_of_a_struct_never_comes_from_a_folder() -> None:
    # The extension takes it from there, and what the file has is lost.
    struct = ColumnDef(1, "s", "struct", children=(ColumnDef(2, "part", "int32"),))
    found = mapped([group("s", integer("part"))], struct, path="/part=3/f.parquet")
    assert found.folders == () and not any(each.is_partition for each in found.mapping.walk())


def test_names_that_differ_in_case_only_are_two_columns_of_a_file() -> None:
    columns = [integer("ID", 0), integer("id", 1)]
    with pytest.raises(InvalidInputError, match='"id" exists in file'):
        mapped(columns, ColumnDef(1, "Id", "int32"))
    found = mapped(columns, ColumnDef(1, "Id", "int32"), ignore_extra_columns=True)
    assert list(found.leaves) == [0]


def test_a_mapping_is_known_again_whatever_its_order() -> None:
    a, b = MappedColumn("a", 1), MappedColumn("b", 2, children=(MappedColumn("list", 3),))
    known = known_shapes(
        [*ColumnMapping((a, b)).rows(4), *ColumnMapping((a,)).rows(5), *ColumnMapping((b, a)).rows(9)]
    )
    assert known[ColumnMapping((b, a)).shape] == 4 and known[ColumnMapping((a,)).shape] == 5
    assert ColumnMapping((MappedColumn("a", 2),)).shape not in known
    assert ColumnMapping((MappedColumn("a", 1, is_partition=True),)).shape not in known


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/a=1/b=2/c=3.parquet", {"a": "1", "b": "2"}),
        ("a=1\\b=2\\c", {"a": "1", "b": "2"}),
        ("/a=1/a=2/f", {"a": "1"}),
        ("/=1/a=/b=c=d/f", {"a": ""}),
        ("/f", {}),
    ],
)
def test_values_of_folders(path: str, values: dict[str, str]) -> None:
    assert hive.parse(path) == values


def chunk(
    leaf: int, count: int, nulls: int | None, low: str | None, high: str | None, **more: Any
) -> tuple[Any, ...]:
    return (
        str(leaf),
        str(count),
        nulls,
        "10",
        low,
        high,
        more.get("old_low"),
        more.get("old_high"),
        None,
        None,
    )


def test_row_groups_are_merged_by_value_and_silent_ones_say_nothing() -> None:
    found = mapped([integer("i")], ColumnDef(1, "i", "int32"))
    merged = statistics(found, 5, [chunk(0, 2, 0, "9", "10"), chunk(0, 3, 3, None, None)], same)
    assert [(s.value_count, s.null_count, s.min_value, s.max_value) for s in merged] == [(2, 3, "9", "10")]
    silent = statistics(found, 5, [chunk(0, 2, 0, "9", "10"), chunk(0, 3, None, None, None)], same)
    assert [(s.value_count, s.null_count, s.min_value) for s in silent] == [(None, None, None)]


def test_deprecated_bounds_count_only_where_bytes_have_a_sign() -> None:
    old = {"old_low": "1", "old_high": "2"}
    number = mapped([integer("i")], ColumnDef(1, "i", "int32"))
    text = mapped([ParquetColumn("i", "BYTE_ARRAY", "UTF8", leaf=0)], ColumnDef(1, "i", "varchar"))
    stamp = mapped([ParquetColumn("i", "INT96", leaf=0)], ColumnDef(1, "i", "timestamp"))
    assert statistics(number, 2, [chunk(0, 2, 0, None, None, **old)], same)[0].min_value == "1"
    assert statistics(text, 2, [chunk(0, 2, 0, None, None, **old)], same)[0].min_value is None
    assert statistics(stamp, 2, [chunk(0, 2, 0, "1", "2")], same)[0].min_value is None


def test_bounds_are_told_in_the_type_of_the_column() -> None:
    real = mapped([ParquetColumn("f", "FLOAT", leaf=0)], ColumnDef(1, "f", "float64"))
    cast = {("0.1", "FLOAT", "DOUBLE"): "0.10000000149011612"}
    found = statistics(real, 1, [chunk(0, 1, 0, "0.1", "0.1")], lambda *key: cast[key])
    assert found[0].max_value == "0.10000000149011612"


def test_a_schema_becomes_a_tree() -> None:
    rows = [
        ("schema", "2", None, None, None, None, None, None, None),
        ("l", "1", None, "LIST", None, None, None, None, None),
        ("list", "1", None, None, None, None, None, None, None),
        ("element", None, "INT32", None, None, None, None, None, "INTEGER"),
        ("d", None, "INT64", "DECIMAL", None, "18", "3", "OPTIONAL", "DECIMAL(18,3)"),
    ]
    first, second = columns_of(rows)
    assert lake_type(first) == "list" and first.children[0].children[0].leaf == 0
    assert lake_type(second) == "decimal(18,3)" and second.leaf == 1
