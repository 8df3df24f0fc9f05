"""Names survive every text that they are written into, whatever characters they have."""

from __future__ import annotations

import re

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_spark import InvalidInputError
from ducklake_spark.errors import CatalogError
from ducklake_spark.format.changes import ChangeSet, changes_map, format_changes, parse_changes
from ducklake_spark.format.duckdb_sql import canonical_expression, quote_if_needed
from ducklake_spark.format.names import split_name
from ducklake_spark.format.objects import parse_quoted_list, quoted_list
from ducklake_spark.format.types import fold, quote

ODD = st.sampled_from([*list("\"'.,;:`\\%?$ \n\t()[]{}<>=-/*🦆äÄßéıİK"), '"",', '"."', "created_table:"])
names = st.lists(
    ODD | st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8
).map("".join)
ids = st.sets(st.integers(0, 2**62), max_size=3)
objects = st.lists(st.tuples(names, names), max_size=3)


@given(st.lists(names, min_size=1, max_size=4))
def test_quoted_parts_are_split_again(parts: list[str]) -> None:
    assert split_name(".".join(quote(part) for part in parts)) == tuple(parts)
    assert split_name(".".join("`" + part.replace("`", "``") + "`" for part in parts)) == tuple(parts)
    assert split_name(tuple(parts)) == split_name(parts) == tuple(parts)


@given(st.lists(names, min_size=1, max_size=3))
def test_names_as_duckdb_prints_them_are_split_again(parts: list[str]) -> None:
    assert split_name(".".join(map(quote_if_needed, parts))) == tuple(parts)


@given(names | st.text("aZ_09", min_size=1, max_size=4))
def test_names_are_quoted_where_duckdb_quotes_them(name: str) -> None:
    printed = canonical_expression(quote(name))
    if not duckdb.__version__.startswith("1.") and re.match("_[0-9]", name):
        printed = name  # DuckDB 2 quotes these, which catalogs of 1.5 do not need
    assert quote_if_needed(name) == printed


def test_keywords_are_quoted_where_duckdb_quotes_them() -> None:
    words = [
        row[0] for row in duckdb.execute("SELECT DISTINCT keyword_name FROM duckdb_keywords()").fetchall()
    ]
    assert len(words) > 400
    for word in (*words, *map(str.upper, words)):
        assert quote_if_needed(word) == canonical_expression(quote(word))


@given(st.text(max_size=12))
def test_any_text_is_split_or_refused(text: str) -> None:
    try:
        parts = split_name(text)
    except InvalidInputError as error:
        assert "is not the name of a table" in str(error)
    else:
        assert parts and all(parts)


@given(st.lists(names, max_size=4))
def test_quoted_lists(parts: list[str]) -> None:
    assert parse_quoted_list(quoted_list(parts)) == tuple(parts)


@given(names, names)
def test_folding_is_ascii_only(a: str, b: str) -> None:
    assert fold(fold(a)) == fold(a)
    assert fold(a) == "".join(c.lower() if "A" <= c <= "Z" else c for c in a)
    assert fold(a + b) == fold(a) + fold(b)


def change_sets() -> st.SearchStrategy[ChangeSet]:
    kinds = dict.fromkeys(
        ("created_tables", "created_views", "created_scalar_macros", "created_table_macros"), objects
    )
    schemas = {"created_schemas": st.lists(names, max_size=3)}
    words = [name for name in vars(ChangeSet()) if name not in kinds and name not in schemas]
    return st.builds(ChangeSet, **kinds, **schemas, **dict.fromkeys(words, ids))


@given(change_sets())
def test_changes_made(changes: ChangeSet) -> None:
    text = format_changes(changes)
    parsed = parse_changes(text)
    for name, value in vars(changes).items():
        found = getattr(parsed, name)
        assert sorted(found) == sorted(value), name
    assert format_changes(parsed) == text
    assert (text is None) == (not changes)
    shown = changes_map(parsed)
    assert sum(map(len, shown.values())) == sum(len(value) for value in vars(changes).values())


@given(change_sets(), change_sets())
def test_changes_of_two_snapshots_are_those_of_both(first: ChangeSet, second: ChangeSet) -> None:
    both = parse_changes(format_changes(first))
    both.merge(second)
    for name in vars(first):
        assert set(getattr(both, name)) == set(getattr(first, name)) | set(getattr(second, name))


@pytest.mark.parametrize(
    "text", ["grew_legs:7", "altered_table:x", "altered_table:", "created_table", "x", ","]
)
def test_changes_of_a_newer_format_are_refused(text: str) -> None:
    with pytest.raises(CatalogError):
        parse_changes(text)
