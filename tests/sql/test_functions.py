"""Functions of the extension in FROM and by `call()`, tables about tables, and the catalog's own tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_spark import InvalidInputError, NotFoundError
from ducklake_spark.sql.execute import functions
from tests.interop.oracle import Oracle
from tests.sql.shared import Both, both
from tests.sql.values import plain

pytestmark = pytest.mark.spark

SAME = (
    "SELECT * FROM ducklake_snapshots('lake') ORDER BY snapshot_id",
    "SELECT * FROM ducklake_table_info('lake') ORDER BY table_id",
    "SELECT * FROM lake.table_info() ORDER BY table_id",
    "SELECT * FROM ducklake_list_files('lake', 'p') ORDER BY 1",
    "SELECT * FROM ducklake_list_files('lake', 't', schema => 's1') ORDER BY 1",
    "SELECT * FROM ducklake_list_files('lake', 'p', snapshot_version => 20) ORDER BY 1",
    "SELECT * FROM ducklake_options('lake') WHERE option_name NOT IN ('created_by', 'version') ORDER BY 1, 4",
    "SELECT catalog_type, data_path FROM lake.settings()",
    "SELECT * FROM lake.current_snapshot()",
    "SELECT * FROM lake.table_changes('p', 0, 21) ORDER BY snapshot_id, rowid, change_type",
    "SELECT * FROM ducklake_table_deletions('lake', 'main', 'p', 0, 21) ORDER BY ALL",
    "SELECT rowid, snapshot_id, x FROM ducklake_table_insertions('lake', 'main', 'p', 0, 21) ORDER BY ALL",
)


@pytest.fixture(scope="module")
def twin(
    spark: SparkSession, _oracle_process: Oracle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    with both(spark, _oracle_process, tmp_path_factory.mktemp("functions")) as made:
        made.oracle.execute("CREATE TABLE p(x INT, k VARCHAR); ALTER TABLE p SET PARTITIONED BY (k)")
        made.oracle.execute(
            "INSERT INTO p SELECT i, 'k' || (i % 2) FROM range(40) r(i); DELETE FROM p WHERE x < 25"
        )
        made.oracle.execute("CALL lake.set_option('target_file_size', '10MB', table_name => 'p')")
        yield made


def rows(twin: Both, sql: str) -> list[Any]:
    return [plain(tuple(row)) for row in twin.lake.sql(sql).collect()]


def test_functions_in_from_give_the_extension_s_rows(twin: Both) -> None:
    for sql in SAME:
        found = twin.lake.sql(sql, dialect="duckdb")
        expected = twin.oracle.execute(sql)
        names = [row[0] for row in twin.oracle.execute(f"DESCRIBE {sql}")]
        assert found.columns == names, sql
        assert [plain(tuple(row)) for row in found.collect()] == [
            [plain(str(value) if type(value).__name__ == "UUID" else value) for value in row]
            for row in expected
        ], sql


def test_functions_in_spark_s_dialect(twin: Both) -> None:
    last = twin.lake.version
    assert rows(twin, "SELECT id FROM ducklake_current_snapshot('lake')") == [[last]]
    assert rows(
        twin, "SELECT s.snapshot_id FROM lake.snapshots() AS s WHERE s.snapshot_id < 2 ORDER BY 1"
    ) == [[0], [1]]
    assert rows(
        twin, "SELECT count(*) FROM main.table_info() i JOIN t ON t.i = 1 WHERE i.table_name = 'p'"
    ) == [[1]]
    assert rows(twin, "SELECT id FROM last_committed_snapshot()") == [[None]]
    found = twin.lake.sql(
        "SELECT count(*) FROM table_changes(:t, 0, :v)", args={"t": "p", "v": last}
    ).collect()
    assert found[0][0] == 65


def test_wrong_calls_say_what_is_wrong(twin: Both) -> None:
    for sql, kind, words in [
        ("FROM ducklake_snapshots()", InvalidInputError, "first argument"),
        ("FROM ducklake_snapshots('nope')", NotFoundError, "nope"),
        ("FROM lake.nothing()", NotFoundError, "nothing"),
        ("FROM lake.table_changes('t')", InvalidInputError, "start_snapshot"),
        ("FROM lake.table_changes('t', 1, 2, 3)", InvalidInputError, "at most"),
        ("FROM lake.table_changes('zz', 1, 2)", NotFoundError, "zz"),
        ("FROM ducklake_list_files('lake', 't', shema => 'x')", InvalidInputError, "schema"),
        (
            "FROM lake.list_files('t', snapshot_version => 2, snapshot_time => now())",
            InvalidInputError,
            "both",
        ),
        ("FROM lake.set_option('a', 'b')", InvalidInputError, "CALL"),
        ("FROM lake.snapshots(1)", InvalidInputError, "at most 0"),
        ("FROM lake.merge_adjacent_files(max_file_size => 0)", InvalidInputError, "greater than zero"),
    ]:
        with pytest.raises(kind, match=words):
            twin.lake.sql(sql, dialect="duckdb")


def test_every_function_of_the_extension_is_registered(twin: Both) -> None:
    # Internal ones, and the hash of the bucket transform, are not for users.
    own = twin.oracle.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name LIKE 'ducklake_%' AND function_name "
        "NOT IN ('ducklake_commit', 'ducklake_scan')"
    )
    names = {name.removeprefix("ducklake_") for (name,) in own}
    assert names - set(functions.FUNCTIONS) == set()


def test_call_takes_values(twin: Both) -> None:
    found = functions.call(twin.lake, "ducklake_list_files", ["lake", "t"], {"schema": "s1"})
    assert found.columns[0] == "data_file" and found.count() == 0  # its rows are inlined
    with pytest.raises(NotFoundError, match="snapshots"):
        functions.call(twin.lake, "snapshot", [], {})


def test_tables_about_a_table(twin: Both) -> None:
    lake = twin.lake
    made = [
        row[0]
        for row in twin.oracle.execute(
            "SELECT snapshot_id FROM ducklake_snapshots('lake') WHERE commit_message IS NULL ORDER BY 1"
        )
    ]
    assert rows(twin, "SELECT snapshot_id FROM p.snapshots ORDER BY 1") == [[each] for each in made[-4:]]
    assert rows(twin, "SELECT snapshot_id, parent_id FROM lake.main.p.history ORDER BY 1")[1] == [
        made[-3],
        made[-4],
    ]
    files = lake.sql(
        "SELECT content, partition['k'], record_count FROM main.p.files ORDER BY content, 2"
    ).collect()
    assert [tuple(row) for row in files][:2] == [(0, "k0", 20), (0, "k1", 20)]
    assert rows(twin, "SELECT partition['k'], record_count, file_count FROM p.partitions ORDER BY 1") == [
        ["k0", 20, 1],
        ["k1", 20, 1],
    ]
    assert rows(twin, "SELECT change_type, count(*) FROM p.changes GROUP BY 1 ORDER BY 1") == [
        ["delete", 25],
        ["insert", 40],
    ]
    with pytest.raises(NotFoundError):
        lake.sql("SELECT * FROM p.nothing")


def test_the_catalog_s_own_tables(twin: Both) -> None:
    sql = (
        "SELECT table_name FROM __ducklake_metadata_lake.ducklake_table WHERE end_snapshot IS NULL ORDER BY 1"
    )
    assert rows(twin, sql) == [list(row) for row in twin.oracle.execute(sql)]
    assert rows(twin, "SELECT count(*) FROM __ducklake_metadata_lake.main.ducklake_schema") == [[2]]
    with pytest.raises(NotFoundError, match="ducklake_table"):
        twin.lake.sql("SELECT * FROM __ducklake_metadata_lake.ducklake_tabel")
