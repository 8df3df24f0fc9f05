"""Which types a column may change to: the extension's whole matrix, less what would lose digits."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ducklake_spark import TypeChangeError
from ducklake_spark.format.columns import build, retype
from ducklake_spark.format.types import can_promote, check_promotion, duckdb_name, parse_type
from tests.interop.oracle import Oracle, OracleError

# Tried one by one with the extension 1.5.5: CREATE TABLE, then ALTER ... SET TYPE.
ACCEPTED = {
    "boolean": "int8 int16 int32 int64 int128 uint8 uint16 uint32 uint64 uint128 json variant",
    "int8": "int16 int32 int64 int128 float32 float64 decimal(3,0) decimal(4,1) decimal(5,2) decimal(10,0) decimal(18,3) decimal(19,0) decimal(20,0) decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "int16": "int32 int64 int128 float32 float64 decimal(10,0) decimal(18,3) decimal(19,0) decimal(20,0) decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "int32": "int64 int128 float32 float64 decimal(10,0) decimal(18,3) decimal(19,0) decimal(20,0) decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "int64": "int128 float32 float64 decimal(19,0) decimal(20,0) decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "int128": "float32 float64 decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "uint8": "int16 int32 int64 int128 uint16 uint32 uint64 uint128 float32 float64 decimal(3,0) decimal(4,1) decimal(5,2) decimal(10,0) decimal(18,3) decimal(19,0) decimal(20,0) decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "uint16": "int32 int64 int128 uint32 uint64 uint128 float32 float64 decimal(10,0) decimal(18,3) decimal(19,0) decimal(20,0) decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "uint32": "int64 int128 uint64 uint128 float32 float64 decimal(10,0) decimal(18,3) decimal(19,0) decimal(20,0) decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "uint64": "int128 uint128 float32 float64 decimal(20,0) decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "uint128": "float32 float64 decimal(38,0) decimal(38,10) decimal(38,38) json variant",
    "float32": "float64 json variant",
    "float64": "json variant",
    "decimal(3,0)": "float32 float64 decimal(4,1) decimal(5,2) decimal(10,0) decimal(18,3) decimal(19,0) decimal(20,0) decimal(38,0) decimal(38,10) json variant",
    "decimal(4,1)": "float32 float64 decimal(5,2) decimal(18,3) decimal(38,0) decimal(38,10) json variant",
    "decimal(5,2)": "float32 float64 decimal(18,3) decimal(38,0) decimal(38,10) json variant",
    "decimal(10,0)": "float32 float64 decimal(18,3) decimal(19,0) decimal(20,0) decimal(38,0) decimal(38,10) json variant",
    "decimal(18,3)": "float32 float64 decimal(38,0) decimal(38,10) json variant",
    "decimal(19,0)": "float32 float64 decimal(20,0) decimal(38,0) decimal(38,10) json variant",
    "decimal(20,0)": "float32 float64 decimal(38,0) decimal(38,10) json variant",
    "decimal(38,0)": "float32 float64 json variant",
    "decimal(38,10)": "float32 float64 decimal(38,0) json variant",
    "decimal(38,38)": "float32 float64 decimal(38,0) decimal(38,10) json variant",
    "date": "timestamp timestamp_s timestamp_ms timestamp_ns timestamptz json variant",
    "time": "json variant",
    "time_ns": "json variant",
    "timetz": "json variant",
    "timestamp": "timestamp_ns timestamptz json variant",
    "timestamp_s": "timestamp timestamp_ms timestamp_ns json variant",
    "timestamp_ms": "timestamp timestamp_ns json variant",
    "timestamp_ns": "json variant",
    "timestamptz": "json variant",
    "interval": "json variant",
    "varchar": "json variant",
    "json": "",
    "blob": "json variant",
    "uuid": "json variant",
    "variant": "json",
    "geometry": "json variant",
}  # fmt: skip
# The extension accepts these too, and then cannot read the rows, or not all of their digits.
LOSSY = {
    **{number: {"decimal(38,38)"} for number in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    "int128": {"decimal(38,10)", "decimal(38,38)"},
    "uint128": {"decimal(38,10)", "decimal(38,38)"},
    "decimal(4,1)": {"decimal(38,0)"},
    "decimal(5,2)": {"decimal(38,0)"},
    "decimal(18,3)": {"decimal(38,0)"},
    "decimal(38,10)": {"decimal(38,0)"},
    "decimal(38,38)": {"decimal(38,0)", "decimal(38,10)"},
}  # fmt: skip
PAIRS = [(old, new) for old in ACCEPTED for new in ACCEPTED if old != new]


def accepted(old: str, new: str) -> bool:
    return new in ACCEPTED[old].split()


@pytest.mark.parametrize("old", ACCEPTED)
def test_the_matrix(old: str) -> None:
    ours = {new for new in ACCEPTED if new != old and can_promote(parse_type(old), parse_type(new))}
    assert ours == set(ACCEPTED[old].split()) - LOSSY.get(old, set())


def test_a_type_is_promoted_to_itself() -> None:
    assert all(can_promote(parse_type(name), parse_type(name)) for name in ACCEPTED)


@pytest.mark.parametrize(("old", "new"), [pair for pair in PAIRS if not accepted(*pair)][::23])
def test_refusals_name_the_column_and_both_types(old: str, new: str) -> None:
    with pytest.raises(TypeChangeError) as caught:
        check_promotion("c", parse_type(old), parse_type(new))
    text = str(caught.value)
    assert 'column "c"' in text
    assert f"from {duckdb_name(parse_type(old))} to {duckdb_name(parse_type(new))}" in text
    assert "Add a new column" in text


def test_a_sample_of_the_matrix_with_the_extension(oracle: Oracle, tmp_path: Path) -> None:
    chance = random.Random(0)
    sample = chance.sample(PAIRS, 30) + [pair for pair in PAIRS if pair[1] in LOSSY.get(pair[0], ())][::4]
    oracle.attach(f"ducklake:{tmp_path}/l.ducklake", data_path=str(tmp_path / "data"))
    columns = [f"c{n} {duckdb_name(parse_type(old))}" for n, (old, _) in enumerate(sample)]
    oracle.execute(f"CREATE TABLE t(k INT, {', '.join(columns)})")
    for number, (old, new) in enumerate(sample):
        try:
            oracle.execute(f"ALTER TABLE t ALTER c{number} SET TYPE {duckdb_name(parse_type(new))}")
            changed = True
        except OracleError as error:
            assert "only widening type promotions are allowed" in str(error)
            changed = False
        assert changed == accepted(old, new), (old, new)


NESTED = [
    ("struct(a int)", "struct(a bigint)", True),
    ("struct(a int)", "struct(a int, b int)", True),
    ("struct(a int, b int)", "struct(b int)", True),
    ("struct(a int)", "struct(b int)", True),
    ("struct(a int, b int)", "struct(B bigint, A bigint)", True),
    ("struct(a int)", "struct(a varchar)", False),
    ("struct(a struct(b int))", "struct(a struct(b bigint, c int[]))", True),
    ("struct(a struct(b bigint))", "struct(a struct(b int))", False),
    ("int[]", "bigint[]", True),
    ("bigint[]", "int[]", False),
    ("int[][]", "bigint[][]", True),
    ("map(int, int)", "map(bigint, double)", True),
    ("map(varchar, int)", "map(int, int)", False),
    ("int[]", "map(int, int)", False),
    ("struct(a int)", "int[]", False),
    ("struct(a int)", "int", False),
    ("int", "int[]", False),
    ("int", "struct(a int)", False),
    ("int[]", "json", False),
    ("struct(a int)", "json", False),
    ("int[]", "variant", False),
    ("map(int, int)", "variant", False),
]


def test_nested_types(oracle: Oracle, tmp_path: Path) -> None:
    oracle.attach(f"ducklake:{tmp_path}/l.ducklake", data_path=str(tmp_path / "data"))
    columns = [f"c{n} {duckdb_name(parse_type(old))}" for n, (old, _, _) in enumerate(NESTED)]
    oracle.execute(f"CREATE TABLE t(k INT, {', '.join(columns)})")
    for number, (old, new, expected) in enumerate(NESTED):
        column, next_id = build("c", parse_type(old), 1)
        try:
            retype(column, parse_type(new), next_id)
            ours = True
        except TypeChangeError:
            ours = False
        try:
            oracle.execute(f"ALTER TABLE t ALTER c{number} SET TYPE {duckdb_name(parse_type(new))}")
            theirs = True
        except OracleError:
            theirs = False
        assert (ours, theirs) == (expected, expected), (old, new)
