"""Random tables and rows: what was inserted in one way or another is what the extension and Spark read."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.interop.oracle import Oracle, quoted
from tests.scan.lakes import plain
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark

DEEP = bool(os.environ.get("DUCKLAKE_SPARK_TEST_DEEP"))
EXAMPLES, TABLES = (100, 8) if DEEP else (2, 6)

clock = st.datetimes().map(lambda value: value.replace(fold=0))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    **{f"int{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "int128": st.integers(1 - 10**38, 10**38 - 1),
    "uint128": st.integers(0, 10**38 - 1),
    "float32": st.floats(width=32),
    "float64": st.floats(),
    "decimal(5,2)": st.decimals(-999, 999, places=2),
    "decimal(38,6)": st.decimals(-(10**31), 10**31, places=6),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": clock,
    "timestamp_s": clock.map(lambda value: value.replace(microsecond=0)),
    "timestamp_ms": clock.map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000)),
    "timestamp_ns": st.integers(-(2**62), 2**62),
    # Python cannot show times near its ends in another zone.
    "timestamptz": st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1)).map(
        lambda value: value.replace(tzinfo=dt.timezone.utc, fold=0)
    ),
    "varchar": texts,
    "json": st.recursive(st.none() | st.integers(0, 9) | texts, lambda inner: st.lists(inner, max_size=2), max_leaves=3).map(
        lambda value: __import__("json").dumps(value, ensure_ascii=False)
    ),
    "blob": st.binary(max_size=12),
    "uuid": st.uuids(),
}  # fmt: skip
KEYS = ["int32", "varchar", "date", "uuid", "int128", "boolean", "decimal(5,2)"]
names = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x24F, exclude_categories=["Cs", "Cc"]),
    min_size=1,
    max_size=8,
)


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[str, st.SearchStrategy[Any]]:
    """A type and values for it, NULL among them."""
    kind = draw(st.sampled_from(["scalar"] * 3 + (["list", "struct", "map"] if depth else [])))
    values: st.SearchStrategy[Any]
    if kind == "scalar":
        name = draw(st.sampled_from(sorted(SCALARS)))
        return name, st.none() | SCALARS[name]
    inner, part = draw(typed(depth=depth - 1))
    if kind == "list":
        return f"{inner}[]", st.none() | st.lists(part, max_size=3)
    if kind == "map":
        key = draw(st.sampled_from(KEYS))
        return f"map({key}, {inner})", st.none() | st.dictionaries(SCALARS[key], part, max_size=3)
    fields = {
        "f0": (inner, part),
        **{f"F {i}": draw(typed(depth=depth - 1)) for i in range(1, draw(st.integers(1, 3)))},
    }
    values = st.fixed_dictionaries({name: each for name, (_, each) in fields.items()})
    return "struct(" + ", ".join(
        f'"{name}" {type_}' for name, (type_, _) in fields.items()
    ) + ")", st.none() | values


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Columns, and rows for them."""
    found = draw(st.lists(names, min_size=1, max_size=4, unique_by=str.lower))
    columns = {name: draw(typed()) for name in found if name.lower() not in RESERVED}
    columns = columns or {"only": draw(typed())}
    rows = draw(
        st.lists(
            st.fixed_dictionaries({name: part for name, (_, part) in columns.items()}), min_size=1, max_size=5
        )
    )
    return {name: type_ for name, (type_, _) in columns.items()}, rows


RESERVED = {"row_id", "begin_snapshot", "end_snapshot", "n"}


@pytest.fixture(scope="module")
def lake(
    _oracle_process: Oracle, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WrittenLake]:
    folder: Path = tmp_path_factory.mktemp("random")
    made = WrittenLake(_oracle_process, spark, f"ducklake:sqlite:{folder / 'lake.sqlite'}", folder / "data")
    yield made
    made.close()


numbers = iter(range(10**9))


# Without shrinking: each try costs seconds, and the message names the table's column and value.
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(examples=st.lists(tables(), min_size=TABLES, max_size=TABLES))
def test_random_rows(lake: WrittenLake, examples: list[tuple[dict[str, str], list[dict[str, Any]]]]) -> None:
    made: list[tuple[str, list[dict[str, Any]]]] = []
    for columns, rows in examples:
        numbered = [{"n": i, **row} for i, row in enumerate(rows)]
        for way in ("inlined", "files", "frame"):
            name = f"t{next(numbers)}"
            table = lake.table(name, {"n": "int32", **columns})
            if way != "inlined":
                table.set_option("data_inlining_row_limit", 0)
            # The third goes through a DataFrame, whichever encoder takes it.
            table.insert(numbered if way != "frame" else lake.ours.table(made[-1][0]).repartition(2))
            made.append((name, numbered))
    read = {name: sorted(lake.ours.table(name).collect(), key=lambda row: row["n"]) for name, _ in made}
    for place, (name, rows) in enumerate(made):
        columns = list(rows[0])
        wanted = ", ".join(f"CAST({quoted(column)} AS VARCHAR)" for column in columns)
        texts_of = lake.ask(f"SELECT {wanted} FROM {name} ORDER BY n")
        first = made[place - place % 3][0]
        assert texts_of == lake.ask(f"SELECT {wanted} FROM {first} ORDER BY n"), f"{name} and {first}"
        for row, found in zip(rows, read[name], strict=True):
            for column in columns:
                assert same(row[column], found[column]), (
                    f"{name}.{column}: {row[column]!r} became {found[column]!r}"
                )


def same(given_: Any, found: Any) -> bool:
    """Whether Spark reads what was given."""
    return repr(shown(given_)) == repr(shown(plain(found)))


def shown(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((repr(shown(key)), repr(shown(part))) for key, part in value.items())
    if isinstance(value, list):
        return [shown(part) for part in value]
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dt.time):
        return plain(value)
    if isinstance(value, float) and value == int_or_none(value):
        return value
    return plain(value) if isinstance(value, (decimal.Decimal, dt.datetime)) else value


def int_or_none(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") and value == int(value) else None
