"""Lakes that the extension makes at random: random columns, statements and filters, and at every snapshot our rows are its."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.interop.oracle import Oracle, OracleError
from tests.scan.lakes import Lake

pytestmark = pytest.mark.spark
DEEP = bool(os.environ.get("DUCKLAKE_SPARK_TEST_DEEP"))

# By type: values out of a row's number, and filters that mean the same in both dialects.
TYPES: dict[str, tuple[str, list[str]]] = {
    "TINYINT": ("(i * 37 % 251 - 125)", ["{} > 100", "{} = -3", "{} IN (1, 5, 77)"]),
    "INTEGER": ("(i * 7919 % 10007 - 5000)", ["{} < -4000", "{} BETWEEN 10 AND 500", "{} <> 6"]),
    "BIGINT": ("(i * 922337203685477 - 4611686018427387904)", ["{} > 0", "{} <= -4611686018427387904"]),
    "UBIGINT": (
        "(9223372036854775808 + i * 1000003)::UBIGINT",
        ["{} > 9223372036854775900", "{} IS NOT NULL"],
    ),
    "DECIMAL(12,3)": ("((i * 104729 % 99991) / 8)::DECIMAL(12,3)", ["{} >= 1000.5", "{} = 0.125", "{} < 3"]),
    "DOUBLE": ("CASE WHEN i % 17 = 3 THEN 'nan'::DOUBLE ELSE (i - 50) / 3.0 END", ["{} > 10.0", "{} < -5.5"]),
    "VARCHAR": (
        "CASE i % 9 WHEN 0 THEN '' ELSE 'k' || (i * 31 % 97) || 'é' END",
        ["{} = ''", "{} LIKE 'k1%'", "{} > 'k5'"],
    ),
    "DATE": (
        "DATE '1500-02-27' + (i * 1237 % 300000)::INTEGER",
        ["{} < DATE '1700-01-01'", "{} = DATE '2000-01-01'"],
    ),
    "TIMESTAMP": (
        "TIMESTAMP '2020-01-01 00:00:00.123456' + INTERVAL (i * 977) MINUTE",
        ["{} >= TIMESTAMP_NTZ '2020-03-01 00:00:00'"],
    ),
    "BOOLEAN": ("i % 3 = 0", ["{}", "NOT {}", "{} IS NULL"]),
    "BLOB": ("('b' || i)::BLOB", ["{} IS NULL"]),
    "UUID": ("md5(i::VARCHAR)::UUID", ["{} IS NOT NULL"]),
    "INTEGER[]": ("CASE WHEN i % 5 = 0 THEN [] ELSE [i, NULL, i * 2] END", ["{} IS NULL"]),
    "STRUCT(x INTEGER, y VARCHAR)": (
        "{{'x': i, 'y': 'y' || i}}",
        ["{}.x > 20", "{}.y = 'y7'", "{}.x IS NULL"],
    ),
    "MAP(VARCHAR, BIGINT)": ("MAP {{'a': i, 'b': NULL}}", ["{} IS NULL"]),
}
WIDER = {"TINYINT": "INTEGER", "INTEGER": "BIGINT"}


@dataclass
class Story:
    """A table's life, as statements of the extension, and filters to read it with in the end."""

    columns: dict[str, str]
    statements: list[str] = field(default_factory=list)
    filters: list[str] = field(default_factory=list)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    types = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=5))
    story = Story({"n": "INTEGER", **{f"c{i}": type_ for i, type_ in enumerate(types)}})
    counter = len(types)
    created = ", ".join(f"{name} {type_}" for name, type_ in story.columns.items())
    story.statements.append(f"CREATE TABLE t({created})")
    if draw(st.booleans()):
        key = draw(st.sampled_from(["n", "bucket(3, n)"]))
        story.statements.append(f"ALTER TABLE t SET PARTITIONED BY ({key})" if "(" in key else "SELECT 1")
    start = 0
    for _ in range(draw(st.integers(4, 9))):
        low, size = draw(st.integers(0, 60)), draw(st.sampled_from([1, 4, 60]))
        match draw(
            st.sampled_from(
                ["insert"] * 4 + ["delete"] * 2 + ["update", "add", "drop", "rename", "widen", "upkeep"]
            )
        ):
            case "insert":
                story.statements.append(_insert(story, start, size))
                start += size
            case "delete":
                story.statements.append(f"DELETE FROM t WHERE n % 61 BETWEEN {low} AND {low + size // 3}")
            case "update":
                story.statements.append(f"UPDATE t SET n = n + 1000 WHERE n % 61 BETWEEN {low} AND {low + 3}")
            case "add":
                type_ = draw(
                    st.sampled_from(["INTEGER", "VARCHAR", "DECIMAL(12,3)", "STRUCT(x INTEGER, y VARCHAR)"])
                )
                default = {
                    "INTEGER": " DEFAULT 42",
                    "VARCHAR": " DEFAULT 'it''s'",
                    "DECIMAL(12,3)": " DEFAULT 1.5",
                }
                story.columns[f"c{counter}"] = type_
                story.statements.append(
                    f"ALTER TABLE t ADD COLUMN c{counter} {type_}{default.get(type_, '')}"
                )
                counter += 1
            case "drop" if len(story.columns) > 2:
                name = draw(st.sampled_from([name for name in story.columns if name != "n"]))
                del story.columns[name]
                story.statements.append(f"ALTER TABLE t DROP COLUMN {name}")
            case "rename":
                name = draw(st.sampled_from(sorted(story.columns)))
                if name != "n":
                    story.columns = {
                        f"r{counter}" if key == name else key: value for key, value in story.columns.items()
                    }
                    story.statements.append(f"ALTER TABLE t RENAME COLUMN {name} TO r{counter}")
                    counter += 1
            case "widen":
                narrow = [name for name, type_ in story.columns.items() if type_ in WIDER and name != "n"]
                if narrow:
                    name = draw(st.sampled_from(narrow))
                    story.columns[name] = WIDER[story.columns[name]]
                    story.statements.append(
                        f"ALTER TABLE t ALTER COLUMN {name} SET DATA TYPE {story.columns[name]}"
                    )
            case "upkeep":
                call = draw(
                    st.sampled_from(["flush_inlined_data", "merge_adjacent_files", "rewrite_data_files"])
                )
                story.statements.append(f"CALL ducklake_{call}('lake')")
    for name, type_ in story.columns.items():
        story.filters.append(draw(st.sampled_from(TYPES[type_][1])).format(name))
    return story


def _insert(story: Story, start: int, size: int) -> str:
    values = [
        f"CASE WHEN i % 11 = {place} THEN NULL ELSE {TYPES[type_][0].format()} END" if name != "n" else "i"
        for place, (name, type_) in enumerate(story.columns.items())
    ]
    return f"INSERT INTO t SELECT {', '.join(values)} FROM range({start}, {start + size}) r(i)"


@pytest.fixture(scope="module")
def make_numbered(
    _oracle_process: Oracle, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Lake]]:
    made: list[Lake] = []

    def make() -> Lake:
        folder: Path = tmp_path_factory.mktemp("story")
        kind = ("sqlite", "duckdb")[len(made) % 2]
        for lake in made:
            lake.close()
        made.append(Lake(_oracle_process, spark, f"ducklake:{kind}:{folder / 'lake'}", folder / "data"))
        return made[-1]

    yield make
    for lake in made:
        lake.close()


# Without shrinking: each try costs seconds, and the message has the whole story.
@settings(
    max_examples=150 if DEEP else 5,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(story=stories())
def test_random_lakes(make_numbered: Callable[[], Lake], story: Story) -> None:
    lake = make_numbered()
    for statement in story.statements:
        try:
            lake.write(statement)
        except OracleError as error:
            # The extension cannot do everything to everything: the story goes on without the sentence.
            if "INTERNAL" in str(error):
                pytest.fail(f"{statement}: {error}")
    lake.check("t")
    for where in story.filters:
        lake.check_newest("t", where=where, theirs=where.replace("TIMESTAMP_NTZ", "TIMESTAMP"))
