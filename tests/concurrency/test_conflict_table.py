"""The table of conflicts in docs/rows.md, cell by cell: ours begins, the extension commits, then ours commits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ducklake_spark
from ducklake_spark import ConflictError, Lake, Table
from tests.concurrency.invariants import assert_sound
from tests.interop import catalogs
from tests.interop.oracle import Oracle

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "rows.md"

MINE: dict[str, Callable[[Table], object]] = {
    "insert": lambda table: table.insert([(300, 0)]),
    "delete": lambda table: table.delete("k = 0"),
    "update, merge, overwrite": lambda table: table.update({"n": "1"}, "k = 0"),
    "ALTER, COMMENT": lambda table: table.add_column("mine", "int"),
    "RENAME TO": lambda table: table.rename(table.name + "_mine"),
    "DROP": lambda table: table.drop(),
}
THEIRS = {
    "insert": "INSERT INTO {t} VALUES (400, 0)",
    "delete": "DELETE FROM {t} WHERE k = 100",
    "update, merge": "UPDATE {t} SET n = 1 WHERE k = 100",
    "ALTER, COMMENT": "COMMENT ON TABLE {t} IS 'theirs'",
    "RENAME TO": "ALTER TABLE {t} RENAME TO {t}_theirs",
    "DROP": "DROP TABLE {t}",
    "flush": "CALL ducklake_flush_inlined_data('lake', table_name => '{t}')",
    "compaction": "CALL ducklake_merge_adjacent_files('lake', '{t}')",
}


def cells() -> list[tuple[str, str, str]]:
    """What the page says: mine, theirs, and whether that is a conflict."""
    lines = PAGE.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| mine, the later one |"))
    rows = [
        [part.strip() for part in line.strip("|").split("|")]
        for line in itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    ]
    return [
        (row[0], their, cell) for row in rows[2:] for their, cell in zip(rows[0][1:], row[1:], strict=True)
    ]


@pytest.fixture(scope="module")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, Oracle]]:
    folder = tmp_path_factory.mktemp("conflicts")
    uri = f"ducklake:sqlite:{folder}/lake.db"
    with (
        ducklake_spark.attach(uri, name="lake", data_path=str(folder / "data"), spark=spark) as lake,
        Oracle() as oracle,
    ):
        oracle.attach(uri)
        yield lake, oracle
    assert_sound(catalogs.dump(uri))


numbers = itertools.count()


def prepared(lake: Lake) -> Table:
    """A table with two files and some inlined rows."""
    table = lake.create_table(f"t{next(numbers)}", {"k": "int", "n": "int"})
    for first in (0, 100):
        table.insert([(first + i, 0) for i in range(20)])
    table.insert([(200, 0), (201, 0)])
    return table


def conflicts(lake: Lake, oracle: Oracle, table: Table, mine: Callable[[Table], object], theirs: str) -> bool:
    """Whether ours may not be committed behind theirs."""
    name = table.name
    before = lake.version
    try:
        with lake.transaction():
            mine(table)
            oracle.execute(theirs.format(t=name))
    except ConflictError:
        assert lake.version == before + 1, "theirs is there, ours is not"
        return True
    assert lake.version == before + 2
    return False


def test_the_table_is_whole() -> None:
    assert {mine for mine, _, _ in cells()} == set(MINE)
    assert {theirs for _, theirs, _ in cells()} == set(THEIRS)
    assert len(cells()) == len(MINE) * len(THEIRS)


@pytest.mark.parametrize(("mine", "theirs", "cell"), cells())
def test_cell(scene: tuple[Lake, Oracle], mine: str, theirs: str, cell: str) -> None:
    lake, oracle = scene
    act = MINE[mine]
    if cell == "same file":
        assert not conflicts(lake, oracle, prepared(lake), act, "DELETE FROM {t} WHERE k = 100")
        assert conflicts(lake, oracle, prepared(lake), act, "DELETE FROM {t} WHERE k = 1")
        inlined: Callable[[Table], object] = lambda table: table.delete("k = 200")  # noqa: E731
        assert not conflicts(lake, oracle, prepared(lake), inlined, "DELETE FROM {t} WHERE k = 201")
        assert conflicts(lake, oracle, prepared(lake), inlined, "DELETE FROM {t} WHERE k = 200")
    elif cell == "inlined":
        assert conflicts(lake, oracle, prepared(lake), act, THEIRS[theirs])
        table = prepared(lake)
        table.set_option("data_inlining_row_limit", 0)
        assert not conflicts(lake, oracle, table, act, THEIRS[theirs])
    else:
        assert cell in ("yes", "-")
        assert conflicts(lake, oracle, prepared(lake), act, THEIRS[theirs]) == (cell == "yes")


def test_a_flush_that_writes_delete_files_is_a_delete(scene: tuple[Lake, Oracle]) -> None:
    lake, oracle = scene
    table = prepared(lake)
    table.delete("k = 0")
    assert conflicts(lake, oracle, table, MINE["insert"], THEIRS["flush"])
