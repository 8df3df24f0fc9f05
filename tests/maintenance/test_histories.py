"""Random histories with maintenance between the changes: the rows of every live snapshot stay as they are.

Changes and jobs are made by us and by the extension in turns, on one lake. A plain Python model says which rows each
version has. In the end all old snapshots expire, and no file is left that the catalog does not name.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.interop import sequences as seq
from tests.interop.oracle import Oracle, OracleError
from tests.write.lakes import WrittenLake

pytestmark = pytest.mark.spark

DEEP = bool(os.environ.get("DUCKLAKE_SPARK_TEST_DEEP"))
EXAMPLES, MOST = (150, 10) if DEEP else (5, 6)
numbers = iter(range(10**9))

JOBS = (
    "ducklake_flush_inlined_data('lake', table_name => '{table}')",
    "ducklake_merge_adjacent_files('lake', '{table}')",
    "ducklake_rewrite_data_files('lake', '{table}', delete_threshold => 0.2)",
)


@dataclass(frozen=True)
class Expire:
    """All versions of the table but so many go, then the files that nobody needs."""

    keep: int


jobs = st.one_of(st.sampled_from([seq.Maintain(job) for job in JOBS]), st.builds(Expire, st.integers(1, 3)))
histories = st.lists(
    st.tuples(st.booleans(), st.one_of(seq.row_changes, seq.row_changes, jobs, jobs, seq.ddl)),
    min_size=3,
    max_size=MOST,
)


@dataclass
class History:
    """What was done to a table, and what each version that is still there must show."""

    model: seq.Model
    steps: list[str] = field(default_factory=list)
    states: dict[int, seq.Model] = field(default_factory=dict)

    def told(self) -> str:
        return ";\n".join(self.steps)


@pytest.fixture(scope="module", params=["duckdb", "sqlite"])
def lake(
    request: pytest.FixtureRequest,
    _oracle_process: Oracle,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[WrittenLake]:
    folder = tmp_path_factory.mktemp("histories")
    uri = f"ducklake:{request.param}:{folder}/lake.{request.param}"
    made = WrittenLake(_oracle_process, spark, uri, folder / "data")
    yield made
    made.close()


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(changes=histories, limit=st.sampled_from([0, 10]), first=seq.counts)
def test_rows_stay(lake: WrittenLake, changes: list[tuple[bool, Any]], limit: int, first: int) -> None:
    history = History(seq.Model(f"t{next(numbers)}"))
    lake.ask(seq.create(history.model)[0])
    lake.ask(
        f"CALL lake.set_option('data_inlining_row_limit', {limit}, table_name => '{history.model.table}')"
    )
    for by_us, change in [(False, seq.Insert(first)), *changes]:
        step(lake, history, by_us, change)
    check_rows(lake, history)
    expire(lake, history, by_us=True, keep=1)
    check_rows(lake, history)
    assert lake.files() == lake.registered(), history.told()


def step(lake: WrittenLake, history: History, by_us: bool, change: Any) -> None:
    """One change or one job, by one of the two."""
    if isinstance(change, Expire):
        expire(lake, history, by_us=by_us, keep=change.keep)
        return
    if isinstance(change, seq.Maintain):
        sql = f"CALL {change.function.format(table=history.model.table)}"
        history.steps.append(f"{who(by_us)}: {sql}")
        if by_us:
            lake.ours.sql(sql, dialect="duckdb").collect()
        else:
            try:
                lake.ask(sql)
            except OracleError as error:
                # It looks for columns in inlined tables that are older than the columns, in its own lakes too.
                assert "Failed to read inlined-data aggregates" in str(error), error
    else:
        made = seq.apply(history.model, change)
        if made is None:
            return
        history.steps.append(f"{who(by_us)}: {made[0]}")
        if by_us:
            made[1](lake.ours)
        else:
            lake.ask(made[0])
    history.states[newest(lake)] = copy.deepcopy(history.model)


def who(by_us: bool) -> str:
    return "ours" if by_us else "theirs"


def newest(lake: WrittenLake) -> int:
    version: int = lake.ask("SELECT max(snapshot_id) FROM lake.snapshots()")[0][0]
    return version


def expire(lake: WrittenLake, history: History, *, by_us: bool, keep: int) -> None:
    kept = sorted(history.states)[-keep:]
    alive = lake.ask("SELECT snapshot_id FROM ducklake_snapshots('lake')")
    last = newest(lake)
    old = [number for (number,) in alive if number not in kept and number != last]
    calls = [
        f"CALL ducklake_expire_snapshots('lake', versions => {old})",
        "CALL ducklake_cleanup_old_files('lake', cleanup_all => true)",
        "CALL ducklake_delete_orphaned_files('lake', cleanup_all => true)",
    ]
    for call in calls if old else calls[1:]:
        history.steps.append(f"{who(by_us)}: {call}")
        if by_us:
            lake.ours.sql(call, dialect="duckdb").collect()
        else:
            lake.ask(call)
    history.states = {version: history.states[version] for version in kept}


def check_rows(lake: WrittenLake, history: History) -> None:
    """Both see the model's rows at every version, and all files that a version needs are there."""
    for version, state in history.states.items():
        names = ", ".join(state.names())
        rows = lake.ask(f"SELECT {names} FROM {state.table} AT (VERSION => {version})")
        assert sorted(rows, key=repr) == state.shown(), f"theirs at {version}, {history.told()}"
    for version, state in history.states.items():
        read = lake.ours.table(state.table, version=version).select(*state.names()).collect()
        assert sorted(map(tuple, read), key=repr) == state.shown(), f"ours at {version}, {history.told()}"
    assert set(lake.registered()) <= set(lake.files()), history.told()
