"""How values are written, and what is suggested while SQL is typed."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from ducklake_spark.api.completion import Names
from ducklake_spark.api.lake import Lake
from ducklake_spark.api.values import Json, Pairs
from ducklake_spark.cli.complete import SqlCompleter
from ducklake_spark.cli.output import Bytes, Format, Result, write, write_record
from ducklake_spark.sql.parser.lines import ends_statement


def written(result: Result, fmt: Format, limit: int = 0) -> str:
    out = io.StringIO()
    write(result, fmt, limit=limit, out=out)
    return out.getvalue()


ROW = (None, True, 2**60, Decimal("1.50"), float("inf"), 'a "b",\nc', b"\x00\xff", [1, None], {"x": Pairs([(1, "y")])}, Json('{"v": 1}'), Bytes(2_000_000))  # fmt: skip


def test_json_keeps_every_digit_and_is_json() -> None:
    text = written(Result("abcdefghijk", [ROW, ROW]), Format.json)
    first, second = json.loads(text, parse_float=Decimal)
    assert first == second
    assert list(first.values()) == [
        None, True, 2**60, Decimal("1.50"), "Infinity", 'a "b",\nc', "\\x00ff", [1, None], {"x": {"1": "y"}}, {"v": 1}, 2_000_000,
    ]  # fmt: skip
    assert written(Result("a", []), Format.json) == "[]\n"


def test_json_has_both_of_two_columns_with_one_name() -> None:
    assert written(Result(("a", "a"), [(1, 2)]), Format.json) == '[{"a": 1, "a": 2}]\n'


def test_csv_quotes_where_it_must() -> None:
    text = written(Result("abcdefghijk", [ROW]), Format.csv)
    assert text == (
        "a,b,c,d,e,f,g,h,i,j,k\n"
        ',true,1152921504606846976,1.50,inf,"a ""b"",\nc",\\x00ff,"[1, null]","{""x"": {""1"": ""y""}}",'
        '"{""v"": 1}",2000000\n'
    )


def test_a_table_shows_the_first_rows_and_says_so() -> None:
    endless = ((number,) for number in iter(int, 1))
    text = written(Result("a", endless, frozenset({0})), Format.table, limit=3)
    assert text.count("│ 0 │") == 3
    assert "The first 3 rows; there are more" in text
    assert written(Result("a", [(1,), (2,)]), Format.table, limit=2).endswith("2 rows\n")


def test_a_table_is_not_cut_in_a_pipe_and_data_cannot_move_the_cursor() -> None:
    evil = "\x1b[2J\x07[red]text[/red]"
    text = written(Result(("long", evil), [("x" * 500, evil)], notes=[evil]), Format.table)
    assert "x" * 500 in text
    assert text.count("\\x1b[2J\\x07[red]text[/red]") == 3
    assert "\x1b" not in text


def test_sizes_are_for_people_in_tables_only() -> None:
    for fmt, words in ((Format.table, "2.0 MB"), (Format.json, "2000000"), (Format.csv, "2000000")):
        out = io.StringIO()
        write_record({"file_bytes": Bytes(2_000_000)}, fmt, out=out)
        assert words in out.getvalue()


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1;\n", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT 1 -- ;", False),
        ("SELECT /* ; */ 1", False),
        ("SELECT 1; SELECT 2", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
def test_a_statement_ends_with_a_semicolon_of_its_own(text: str, whole: bool, dialect: str) -> None:
    assert ends_statement(text, dialect) is whole


@pytest.fixture
def suggestions(lake: Lake) -> SqlCompleter:
    lake.create_schema("shop")
    lake.create_table("shop.orders", {"id": "bigint", "order date": "date"})
    lake.create_table("customers", {"id": "bigint", "city": "varchar"})
    lake.create_view("cheap", "SELECT 1 AS price")
    return SqlCompleter(Names(lake), lambda: "spark", [".tables", ".timer"])


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("SELECT * FROM |", ["cheap", "customers", "main", "shop"]),
        ("SELECT * FROM cu|", ["customers"]),
        ("select * from shop.|", ["orders"]),
        ("SELECT | FROM customers", []),
        ("SELECT ci| FROM customers", ["city"]),
        ("SELECT o.| FROM shop.orders AS o", ["id", "`order date`"]),
        ("SELECT customers.c| FROM customers", ["city"]),
        ("SELECT 'cu|", []),
        ("SELECT 1 -- cu|", []),
        ("INSERT INTO sh|", ["shop"]),
        ("selec|", ["select"]),
        ("SELEC|", ["SELECT"]),
        (".t|", [".tables", ".timer"]),
        (".schema cu|", ["customers"]),
    ],
)
def test_what_is_suggested(suggestions: SqlCompleter, typed: str, expected: list[str]) -> None:
    before, _, after = typed.partition("|")
    document = Document(before + after, len(before))
    found = [each.text for each in suggestions.get_completions(document, CompleteEvent())]
    assert found == expected


def test_suggestions_never_raise_on_a_closed_lake(suggestions: SqlCompleter) -> None:
    suggestions._names._lake.close()
    document = Document("SELECT * FROM cu")
    assert list(suggestions.get_completions(document, CompleteEvent())) == []
