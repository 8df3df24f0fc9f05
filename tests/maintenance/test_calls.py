"""The jobs as functions of SQL: what the extension answers or refuses, we do, in both dialects; and what it lacks."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import DuckLakeError, Lake
from ducklake_spark.engine.maintenance import progress
from tests.interop.oracle import Oracle, OracleError
from tests.maintenance.compaction_twins import Twins, filled, live_files, own_lake

pytestmark = pytest.mark.spark

HISTORY = (
    "CREATE SCHEMA s",
    *(
        statement
        for table in ("t", "s.t", "r", "s.u")
        for statement in (
            f"CREATE TABLE {table}(i INT)",
            *(f"INSERT INTO {table} SELECT i + {n} FROM range(20) r(i)" for n in (0, 20, 40)),
        )
    ),
    "DELETE FROM r WHERE i < 15",
    "CALL lake.set_option('data_inlining_row_limit', 10, table_name => 'u', schema => 's')",
    "INSERT INTO s.u VALUES (100)",
    "INSERT INTO t VALUES (100)",
)
SAME = (
    # Positional, named, with an arrow or an equals sign; bounds; names that are not there.
    "ducklake_merge_adjacent_files('lake', 'nope')",
    "ducklake_merge_adjacent_files('lake', 'u')",
    "ducklake_merge_adjacent_files('nolake')",
    "ducklake_merge_adjacent_files('lake', 't', min_file_size => -1)",
    "ducklake_merge_adjacent_files('lake', 't', max_compacted_files => 0)",
    "ducklake_merge_adjacent_files('lake', 't', max_compacted_files = 0)",
    "ducklake_merge_adjacent_files('lake', 't', max_file_size => 0)",
    "ducklake_merge_adjacent_files('lake', 't', max_file_size => 'x')",
    "ducklake_merge_adjacent_files('lake', 't', min_file_size => 9, max_file_size => 9)",
    "ducklake_merge_adjacent_files('lake', 't', min_file_size => 1000000)",
    "ducklake_merge_adjacent_files('lake', 't', max_file_size = '100')",
    "ducklake_merge_adjacent_files('lake', 't', min_file_size => 0, max_compacted_files => 1)",
    "ducklake_merge_adjacent_files('lake', 't', schema = 's')",
    "merge_adjacent_files()",
    "lake.merge_adjacent_files()",
    "lake.main.merge_adjacent_files()",
    "nolake.merge_adjacent_files()",
    "ducklake_rewrite_data_files('lake', 'nope')",
    "ducklake_rewrite_data_files('lake', delete_threshold => 2)",
    "ducklake_rewrite_data_files('lake', delete_threshold => -0.1)",
    "ducklake_rewrite_data_files('lake', delete_threshold => 'x')",
    "ducklake_rewrite_data_files('lake', 'r')",
    "ducklake_rewrite_data_files('lake', 'r', delete_threshold => 0.9)",
    "ducklake_rewrite_data_files('lake', 'r', delete_threshold => '0.25')",
    "ducklake_flush_inlined_data('lake', schema_name => 'nope')",
    "ducklake_flush_inlined_data('lake', table_name => 'nope')",
    "ducklake_flush_inlined_data('lake', table_name => 't')",
    "ducklake_flush_inlined_data('lake', schema_name => 's', table_name => 'u')",
    "ducklake_flush_inlined_data('lake')",
    "ducklake_expire_snapshots('lake')",
    "ducklake_expire_snapshots('lake', dry_run => true)",
    "ducklake_expire_snapshots('lake', versions => [1], older_than => now())",
    "ducklake_expire_snapshots('lake', versions => 3)",
    "ducklake_expire_snapshots('lake', versions => [99])",
    "ducklake_expire_snapshots('lake', versions => [2, 3], dry_run => true)",
    "ducklake_expire_snapshots('lake', versions = [2, 3])",
    "ducklake_expire_snapshots('lake', older_than => TIMESTAMP '2020-01-01 00:00:00')",
    "ducklake_cleanup_old_files('lake')",
    "ducklake_cleanup_old_files('lake', cleanup_all => true, older_than => now())",
    "ducklake_cleanup_old_files('lake', older_than => TIMESTAMP '2020-01-01 00:00:00')",
    "ducklake_cleanup_old_files('lake', cleanup_all => true, dry_run => true)",
    "ducklake_cleanup_old_files('lake', cleanup_all = true)",
    "ducklake_delete_orphaned_files('lake')",
    "ducklake_delete_orphaned_files('lake', cleanup_all => true, older_than => now())",
    "ducklake_delete_orphaned_files('lake', cleanup_all => true)",
    "ducklake_add_data_files('lake', 't', '/nope/x.parquet')",
    "ducklake_add_data_files('lake', 'nope', '/nope/x.parquet')",
    "ducklake_add_data_files('lake', 't')",
)


@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
def test_calls_as_the_extension_takes_them(
    oracle: Oracle, spark: SparkSession, tmp_path: Path, dialect: str
) -> None:
    twins = Twins(oracle, spark, tmp_path, *HISTORY)
    oracle.attach(twins.uris[0], data_path=str(twins.data[0]))
    wrong = []
    with twins.lake() as lake:
        for place, call in enumerate(SAME):
            statement = f"{'CALL' if place % 2 else 'SELECT * FROM'} {call}"
            theirs, ours = answer(oracle, statement), our_answer(lake, statement, dialect)
            if theirs != ours:
                wrong.append(f"{statement}: {theirs} there, {ours} here")
    oracle.detach()
    assert not wrong, "\n".join(wrong)


def answer(oracle: Oracle, statement: str) -> object:
    try:
        return comparable(oracle.execute(statement))
    except OracleError:
        return "refused"


def our_answer(lake: Lake, statement: str, dialect: str) -> object:
    own = statement.replace("[", "array(").replace("]", ")") if dialect == "spark" else statement
    try:
        return comparable([tuple(row) for row in lake.sql(own, dialect=dialect).collect()])
    except DuckLakeError:
        return "refused"


def comparable(rows: list[tuple[object, ...]]) -> object:
    """Paths differ, and the times of snapshots: so those are only counted, or known by their ids."""
    if rows and (len(rows[0]) == 1 or len(rows[0]) == 7):
        return len(rows) if len(rows[0]) == 1 else sorted(str(row[0]) for row in rows)
    return sorted(rows, key=repr)


JOBS = {
    "merge_adjacent_files": "",
    "rewrite_data_files": "",
    "flush_inlined_data": "",
    "expire_snapshots": "",
    "cleanup_old_files": "",
    "delete_orphaned_files": "",
    "add_data_files": ", 't', 'x.parquet'",
}


def test_columns_are_those_of_the_extension(oracle: Oracle, spark: SparkSession, tmp_path: Path) -> None:
    twins = Twins(oracle, spark, tmp_path, "CREATE TABLE t(i INT)")
    spark.range(1).selectExpr("cast(id as int) i").coalesce(1).write.parquet(f"{tmp_path}/p")
    path = next((tmp_path / "p").glob("*.parquet"))
    wanted = {job: more.replace("x.parquet", str(path)) for job, more in JOBS.items()}
    columns = {
        job: [
            (name, kind)
            for name, kind, *_ in twins.ask(f"DESCRIBE FROM ducklake_{job}('lake'{more})", side=0)
        ]
        for job, more in wanted.items()
    }
    with twins.lake() as lake:
        for job, more in wanted.items():
            found = lake.sql(f"CALL ducklake_{job}('lake'{more})")
            assert found.columns == [name for name, _ in columns[job]], job
            types = [kind.upper() for _, kind in found.dtypes]
            known = {"VARCHAR": "STRING", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP"}
            assert types[:3] == [known.get(kind, kind) for _, kind in columns[job]][:3], job


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with own_lake(tmp_path, spark) as made:
        yield made


def test_dry_runs_change_nothing_and_tell_what_would_be_done(lake: Lake, tmp_path: Path) -> None:
    table = filled(lake, partitioned_by=["k"], files=3)
    table.insert([{"n": 500, "k": "a"}])
    more = lake.spark.range(30).selectExpr("cast(id as int) n", "'a' k").coalesce(1)
    more.write.parquet(f"{tmp_path}/more/k=a")
    version, files = lake.version, live_files(lake, "t")
    for call, told in (
        ("merge_adjacent_files('t', dry_run => true)", [("main", "t", 3, 1)] * 2),
        ("merge_adjacent_files(where => 'k = \"a\"', dry_run => true)", [("main", "t", 3, 1)]),
        ("rewrite_data_files(delete_threshold => 0, dry_run => true)", []),
        ("compact('t', order_by => array('n'), dry_run => true)", [("main", "t", 3, 1)] * 2),
        ("compact('main.t', zorder_by => array('n', 'k'), dry_run => true)", [("main", "t", 3, 1)] * 2),
        ("flush_inlined_data(dry_run => true)", [("main", "t", 1)]),
        ("expire_snapshots(versions => array(1), dry_run => true)", None),
        ("cleanup_old_files(cleanup_all => true, dry_run => true)", []),
        ("delete_orphaned_files(cleanup_all => true, dry_run => true)", []),
        ("maintain(dry_run => true)", []),
    ):
        for form in (f"CALL own.{call}", f"SELECT * FROM ducklake_{call}".replace("(", "('own', ", 1)):
            rows = lake.sql(form).collect()
            assert told is None or [tuple(row) for row in rows] == told, form
    [added] = table.add_data_files(f"{tmp_path}/more", dry_run=True).collect()
    assert added.row_count == 30
    [listed] = lake.sql(f"CALL add_data_files('t', '{tmp_path}/more', dry_run => true)").collect()
    assert listed.filename == added.filename
    assert {row.job: row.results for row in lake.checkpoint(dry_run=True).collect()} == {
        "flush_inlined_data": 1,
        "expire_snapshots": 0,
        "merge_adjacent_files": 2,
        "rewrite_data_files": 0,
        "cleanup_old_files": 0,
        "delete_orphaned_files": 0,
    }
    assert lake.sql("FROM health() SELECT small_files, inlined_rows", dialect="duckdb").first() == (6, 1)
    assert (lake.version, live_files(lake, "t")) == (version, files)
    with pytest.raises(DuckLakeError, match="dry_run is true or false"):
        lake.sql("CALL merge_adjacent_files(dry_run => 'yes')")


def test_compact_and_checkpoint_in_sql(lake: Lake) -> None:
    filled(lake, files=3)
    assert lake.sql("CALL own.compact('t', order_by => 'n')").collect() == [("main", "t", 3, 1)]
    lake["t"].insert([{"n": 500, "k": "a"}])
    jobs = lake.sql("SELECT job FROM own.checkpoint() WHERE results > 0").collect()
    assert [row.job for row in jobs] == ["flush_inlined_data", "merge_adjacent_files"]
    with pytest.raises(DuckLakeError, match="either order_by or zorder_by"):
        lake.sql("CALL compact('t')")
    with pytest.raises(DuckLakeError, match="not NULL"):
        lake.sql("CALL rewrite_data_files(delete_threshold => NULL)")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_a_job_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_EVERY", 0)
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        with progress.Progress("cleanup_old_files", 4000, "files", stream) as bar:
            bar.advance(2000)
            bar.advance(2000)
    lines = terminal.getvalue().split("\r")
    assert lines[1] == f"cleanup_old_files [{'=' * 15}{' ' * 15}] 2,000 of 4,000 files"
    assert lines[2].startswith("cleanup_old_files [====")
    assert lines[-1] == "" and not lines[-2].strip()  # and the line is gone
    assert pipe.getvalue() == ""
