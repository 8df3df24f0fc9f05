"""Random sequences of statements, by the extension and by us: the same rows and changes after each step.

Twins run the same statements on two lakes. On one lake the two take turns, and a plain Python model says what must
be there; its changes are replayed from our change feed, which must lead from each version to the next.
"""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.interop import sequences as seq
from tests.interop.oracle import Oracle, OracleError
from tests.write.lakes import WrittenLake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

DEEP = bool(os.environ.get("DUCKLAKE_SPARK_TEST_DEEP"))
EXAMPLES, MOST = (260, 9) if DEEP else (8, 4)
numbers = iter(range(10**9))

# Without shrinking: each try costs seconds, and the message has the whole sequence.
several = settings(
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
limits = st.sampled_from([0, 10])
sequences = st.tuples(
    seq.inserts,
    st.lists(
        st.one_of(seq.row_changes, seq.row_changes, seq.ddl, seq.transactions), min_size=2, max_size=MOST
    ),
).map(lambda parts: [parts[0], *parts[1]])
turns = st.lists(
    st.tuples(
        st.booleans(),
        st.one_of(
            seq.row_changes,
            seq.row_changes,
            seq.row_changes,
            seq.ddl,
            seq.transactions,
            seq.maintenance,
            st.builds(seq.Restore, st.integers(1, 4)),
        ),
    ),
    min_size=2,
    max_size=MOST + 1,
)


@pytest.fixture(scope="module")
def twins(
    _oracle_process: Oracle, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[WrittenLake, WrittenLake]]:
    folder = tmp_path_factory.mktemp("twins")
    theirs, ours = (
        WrittenLake(_oracle_process, spark, f"ducklake:duckdb:{folder}/{side}.duckdb", folder / side)
        for side in ("theirs", "ours")
    )
    yield theirs, ours
    theirs.close()
    ours.close()


@pytest.fixture(scope="module")
def shared(
    _oracle_process: Oracle, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WrittenLake]:
    folder = tmp_path_factory.mktemp("turns")
    lake = WrittenLake(_oracle_process, spark, f"ducklake:sqlite:{folder}/lake.sqlite", folder / "data")
    yield lake
    lake.close()


@several
@example(
    changes=[seq.Insert(3), seq.Several((seq.Merge(3, 3, True), seq.Delete(2, 1)), rolls_back=False)],
    limit=10,
)
@example(
    changes=[
        seq.Insert(15),
        seq.Several((seq.Merge(9, 1, False),), rolls_back=False),
        seq.Several((seq.Update(2, 1, 2), seq.Merge(9, 2, True)), rolls_back=False),
    ],
    limit=0,
)
@given(changes=sequences, limit=limits)
def test_twins(twins: tuple[WrittenLake, WrittenLake], changes: list[Any], limit: int) -> None:
    theirs, ours = twins
    model = seq.Model(f"t{next(numbers)}")
    option = f"CALL lake.set_option('data_inlining_row_limit', {limit}, table_name => '{model.table}')"
    sql, call = seq.create(model)
    ours.close()
    theirs.ask(sql)
    theirs.ask(option)
    steps, states, versions = [sql], [copy.deepcopy(model)], [newest(theirs)]
    calls = [call]
    for change in changes:
        made = seq.apply(model, change)
        if made is not None:
            theirs.ask(made[0])
            steps.append(made[0])
            calls.append(made[1])
            states.append(copy.deepcopy(model))
            versions.append(newest(theirs))
    told = f"limit {limit}:\n" + ";\n".join(steps)
    odd = [without_ids(theirs, model.table, version) for version in versions]
    seen = [observed(theirs, model.table, *each) for each in zip(versions, odd, strict=True)]
    theirs.close()
    mine = []
    for place, each in enumerate(calls):
        each(ours.ours)
        if place == 0:
            ours.ours[model.table].set_option("data_inlining_row_limit", limit)
        mine.append(ours.ours.version)
    moved = [version - mine[0] for version in mine]
    assert moved == [version - versions[0] for version in versions], told
    check_replay(ours, model, mine, states, told)
    assert not any(without_ids(ours, model.table, version) for version in mine), told
    found = [observed(ours, model.table, *each) for each in zip(mine, odd, strict=True)]
    for place, (one, other) in enumerate(zip(found, seen, strict=True)):
        assert one[:2] == other[:2], f"after step {place}, {told}"
        feed, wanted = one[2], other[2]
        if changes_of(feed) != changes_of(wanted):
            feed, wanted = net(feed), net(wanted)
        assert changes_of(feed) == changes_of(wanted), f"feed of step {place}, {told}"
    ours.close()


def newest(lake: WrittenLake) -> int:
    version: int = lake.ask("SELECT max(snapshot_id) FROM lake.snapshots()")[0][0]
    return version


def changed(lake: WrittenLake, table: str, version: int) -> list[tuple[Any, ...]]:
    """The extension's feed of one snapshot: row id, kind of change, columns. `id` is the first of them.

    All of it: it gets kinds wrong when the feed is asked with a condition.
    """
    feed = f"lake.table_changes('{table}', {version}, {version})"
    return lake.ask(f"SELECT rowid, * EXCLUDE (snapshot_id, rowid) FROM {feed}")


def without_ids(lake: WrittenLake, table: str, version: int) -> set[int]:
    """Rows that a transaction inserted and changed again and again have no proper ids in the extension's lakes.

    So its feed of that transaction shows versions that nobody else ever saw.
    """
    return {row[2] for row in changed(lake, table, version) if row[0] is None or row[0] >= 10**18}


def observed(lake: WrittenLake, table: str, version: int, odd: set[int]) -> tuple[Any, ...]:
    """What the extension reads at a version: columns, rows, and the changes of its last snapshot by row id."""
    columns = [
        (row[0], row[1]) for row in lake.ask(f"DESCRIBE SELECT * FROM {table} AT (VERSION => {version})")
    ]
    rows = lake.ask(f"SELECT * FROM {table} AT (VERSION => {version}) ORDER BY ALL")
    return columns, rows, [row for row in changed(lake, table, version) if row[2] not in odd]


def changes_of(feed: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A feed without row ids, each change once.

    The extension reports rows twice whose file ends in the transaction that deleted them from it before.
    """
    return sorted({row[1:] for row in feed}, key=repr)


def net(feed: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A feed without versions of rows that came and went in its transaction.

    Those are in it only if they are in a file that is left, and which row is in which file is up to the writer: the
    extension's merges write one file for any number of rows, ours inline few of them, and update file by file.
    """
    found = []
    for row_id in {row[0] for row in feed}:
        old, new = (
            {row[2:] for row in feed if row[0] == row_id and row[1] in kinds}
            for kinds in (("delete", "update_preimage"), ("insert", "update_postimage"))
        )
        gone, came = old - new, new - old
        found += [(row_id, "update_preimage" if came else "delete", *values) for values in gone]
        found += [(row_id, "update_postimage" if gone else "insert", *values) for values in came]
    return found


@several
@example(
    changes=[
        (True, seq.Update(3, 1, 3)),
        (False, seq.Delete(1, 0)),
        (True, seq.Restore(1)),
        (False, seq.DropColumn(1)),
    ],
    limit=0,
    first=2,
)
@given(changes=turns, limit=limits, first=seq.counts)
def test_turns(shared: WrittenLake, changes: list[tuple[bool, Any]], limit: int, first: int) -> None:
    model = seq.Model(f"t{next(numbers)}")
    sql, _ = seq.create(model)
    shared.ask(sql)
    shared.ask(f"CALL lake.set_option('data_inlining_row_limit', {limit}, table_name => '{model.table}')")
    steps, states, versions = [f"theirs: {sql}"], [copy.deepcopy(model)], [newest(shared)]
    for is_ours, change in [(False, seq.Insert(first)), *changes]:
        told = take_turn(shared, model, is_ours, change, states, versions)
        if told is not None:
            steps.append(told)
            states.append(copy.deepcopy(model))
            versions.append(newest(shared))
    told = f"limit {limit}:\n" + ";\n".join(steps)
    for version, state in zip(versions, states, strict=True):
        names = ", ".join(state.names())
        rows = shared.ask(f"SELECT {names} FROM {state.table} AT (VERSION => {version})")
        assert sorted(rows, key=repr) == state.shown(), f"theirs at {version}, {told}"
    check_replay(shared, model, versions, states, told)
    read = shared.ours.table(model.table).select(*model.names()).collect()
    assert sorted(map(tuple, read), key=repr) == model.shown(), f"ours, {told}"


def take_turn(
    lake: WrittenLake,
    model: seq.Model,
    is_ours: bool,
    change: Any,
    states: list[seq.Model],
    versions: list[int],
) -> str | None:
    """One statement, by one of the two. Returns what it was, None if it means nothing."""
    if isinstance(change, seq.Maintain):
        call = f"CALL {change.function.format(table=model.table)}"
        try:
            lake.ask(call)
        except OracleError as error:
            # It looks for columns in inlined tables that are older than the columns, in its own lakes too.
            assert "Failed to read inlined-data aggregates" in str(error), error
            return None
        return f"theirs: {call}"
    if isinstance(change, seq.Restore):
        place = max(0, len(states) - 1 - change.back)
        old = states[place]
        if model.widened != old.widened:
            return None
        lake.ours[model.table].restore(version=versions[place])
        model.columns, model.rows = copy.deepcopy(old.columns), copy.deepcopy(old.rows)
        return f"ours: restore {versions[place]}"
    if isinstance(change, seq.Several) and not is_ours:
        # The extension gives rows that it updates in the transaction that inserted them ids that others have too.
        later = (seq.Insert, seq.Merge)
        change = seq.Several(
            tuple(sorted(change.changes, key=lambda each: isinstance(each, later))), change.rolls_back
        )
        if sum(isinstance(each, later) for each in change.changes) > 1:
            return None
    made = seq.apply(model, change)
    if made is None:
        return None
    if is_ours:
        made[1](lake.ours)
    else:
        lake.ask(made[0])
    return ("ours: " if is_ours else "theirs: ") + made[0]


def check_replay(
    lake: WrittenLake, model: seq.Model, versions: list[int], states: list[seq.Model], told: str
) -> None:
    """Our feed of all versions, applied snapshot by snapshot, gives the rows of each version, under constant ids."""
    columns = model.columns
    names = model.names()
    feed = lake.ours.table_changes(model.table, versions[0], versions[-1]).collect()
    by_snapshot: dict[int, list[Any]] = {}
    for row in feed:
        by_snapshot.setdefault(row.snapshot_id, []).append(row)
    alive: dict[int, tuple[Any, ...]] = {}
    done = versions[0]
    for version, state in zip(versions, states, strict=True):
        for snapshot in range(done, version + 1):
            replay(alive, by_snapshot.pop(snapshot, []), names, f"snapshot {snapshot}, {told}")
        done = version + 1
        wanted = state.shown(columns)
        missing = {column.uid for column in columns} - {column.uid for column in state.columns}
        if missing:
            # Columns that came later show their default in older rows, unless a row had them before.
            keep = [i for i, column in enumerate(columns) if column.uid not in missing]
            assert cut(alive.values(), keep) == cut(wanted, keep), f"replay at {version}, {told}"
        else:
            assert sorted(alive.values(), key=repr) == wanted, f"replay at {version}, {told}"
    assert not by_snapshot, f"changes of other snapshots: {sorted(by_snapshot)}, {told}"


def cut(rows: Any, keep: list[int]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[i] for i in keep) for row in rows), key=repr)


def replay(alive: dict[int, tuple[Any, ...]], changes: list[Any], names: list[str], told: str) -> None:
    """Applies the changes of one snapshot.

    Versions that came and went in it are there as both, and never were alive.
    """
    images: dict[int, tuple[list[Any], list[Any]]] = {}
    for row in changes:
        is_new = row.change_type in ("insert", "update_postimage")
        images.setdefault(row["rowid"], ([], []))[is_new].append(tuple(row[name] for name in names))
    for row_id, (old, new) in images.items():
        before = alive.pop(row_id, None)
        tries = [after for gone, came in versions_of(old, new, before) for after in left(gone, came, before)]
        assert tries, f"row {row_id} was {before}, went as {old} and came as {new}, {told}"
        if tries[0] is not None:
            alive[row_id] = tries[0]


def versions_of(old: list[Any], new: list[Any], before: Any) -> Iterator[tuple[Counter[Any], Counter[Any]]]:
    """A row's versions that went and that came.

    As the extension does, the feed pairs each of a row's old versions with each of its new ones; so the number of
    pairs tells how many there were, even if they look the same because the columns that differed are no more. Where
    the same version is told twice the number tells nothing, and each is taken to be there once.
    """
    pairs, was = len(old), int(before is not None)
    for is_left in (0, 1):
        for went in range(1, pairs + 1):
            came = went - was + is_left
            if came and went * came == pairs == len(new):
                yield (
                    Counter({each: count // came for each, count in Counter(old).items()}),
                    Counter({each: count // went for each, count in Counter(new).items()}),
                )
    yield Counter(set(old)), Counter(set(new))


def left(gone: Counter[Any], came: Counter[Any], before: Any) -> Iterator[Any]:
    """The version that is there afterwards, or None; nothing if these changes cannot have been."""
    if before is not None and before not in gone:
        return  # it would be there twice
    gone = gone - Counter([] if before is None else [before])
    after = came - gone
    if not gone - came and after.total() <= 1:
        yield next(iter(after), None)
