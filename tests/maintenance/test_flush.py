"""flush_inlined_data beside the extension: the same files and rows of the catalog, and all that was ever read is read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import ducklake_spark
from ducklake_spark import DuckLakeError, InvalidInputError, NotFoundError
from tests.interop import catalogs
from tests.interop.oracle import Oracle
from tests.maintenance.twins import Twins, kept

FLUSH = "CALL ducklake_flush_inlined_data('lake')"
ROWS = "SELECT i, 'f' FROM range(100, 150) r(i)"


@pytest.fixture
def twins(oracle: Oracle, tmp_path: Path) -> Twins:
    return Twins(oracle, tmp_path)


def values(lake: ducklake_spark.Lake, *arguments: object, **named: object) -> list[tuple[object, ...]]:
    """The extension's columns of our answer."""
    return [tuple(row)[:3] for row in lake.flush_inlined_data(*arguments, **named).collect()]  # type: ignore[arg-type]


HISTORIES = {
    "rows": ["CREATE TABLE t(i INT, p VARCHAR)", "INSERT INTO t VALUES (1, 'x'), (2, NULL)"],
    "versions of rows": [
        "CREATE TABLE t(i INT, p VARCHAR)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')",
        "UPDATE t SET p = 'a' WHERE i = 1",
        "UPDATE t SET p = 'b' WHERE i = 1",
        "DELETE FROM t WHERE i = 2",
        "INSERT INTO t VALUES (4, 'w')",
        "UPDATE t SET i = i + 10",
    ],
    "all rows deleted": [
        "CREATE TABLE t(i INT)",
        "INSERT INTO t VALUES (1), (2)",
        "DELETE FROM t",
    ],
    "inlined deletes": [
        "CREATE TABLE t(i INT, p VARCHAR)",
        f"INSERT INTO t {ROWS}",
        "DELETE FROM t WHERE i = 103",
        "INSERT INTO t SELECT i, 'g' FROM range(200, 250) r(i)",
        "DELETE FROM t WHERE i IN (104, 203)",
        "DELETE FROM t WHERE i BETWEEN 200 AND 230",
        "DELETE FROM t WHERE i = 240",
    ],
    "both": [
        "CREATE TABLE t(i INT, p VARCHAR)",
        f"INSERT INTO t {ROWS}",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "DELETE FROM t WHERE i IN (1, 101)",
        "UPDATE t SET p = 'u' WHERE i IN (2, 102)",
    ],
    "a file that ended": [
        "CREATE TABLE t(i INT, p VARCHAR)",
        f"INSERT INTO t {ROWS}",
        "DELETE FROM t WHERE i < 120",
        "DELETE FROM t WHERE i = 140",
        "DELETE FROM t",
    ],
    "deletion vectors": [
        "CREATE TABLE t(i INT, p VARCHAR)",
        "CALL lake.set_option('write_deletion_vectors', true)",
        f"INSERT INTO t {ROWS}",
        "DELETE FROM t WHERE i < 120",
        "DELETE FROM t WHERE i = 130",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "DELETE FROM t WHERE i = 1",
    ],
    "several versions of the schema": [
        "CREATE TABLE t(i INT, s STRUCT(x INT, y VARCHAR), l INT[], m MAP(VARCHAR, INT))",
        "INSERT INTO t VALUES (1, {'x': 1, 'y': 'q'}, [1, NULL], MAP {'a': 1}), (2, NULL, NULL, NULL)",
        "ALTER TABLE t RENAME COLUMN s.x TO xx",
        "ALTER TABLE t ADD COLUMN s.z INT",
        "ALTER TABLE t DROP COLUMN l",
        "UPDATE t SET i = 3 WHERE i = 1",
        "ALTER TABLE t RENAME i TO j",
        "ALTER TABLE t ADD COLUMN n VARCHAR DEFAULT 'none'",
        "INSERT INTO t VALUES (7, {'xx': 1, 'y': 'q', 'z': 4}, MAP {'b': 2}, 'some')",
        "DELETE FROM t WHERE j = 2",
    ],
    "partitions": [
        "CREATE TABLE t(i INT, p VARCHAR, d DATE)",
        "INSERT INTO t VALUES (0, 'early', '2020-01-01')",
        "ALTER TABLE t SET PARTITIONED BY (p, year(d))",
        "INSERT INTO t VALUES (1, 'x', '2020-01-01'), (2, NULL, '2021-01-01'), (3, 'x', '2020-05-05'), (4, 'a/b', NULL)",
        "DELETE FROM t WHERE i IN (0, 3)",
        "UPDATE t SET p = 'x' WHERE i = 2",
        "ALTER TABLE t SET PARTITIONED BY (bucket(4, i))",
        "INSERT INTO t SELECT i, 'b', '2022-02-02' FROM range(10, 18) r(i)",
        "ALTER TABLE t RESET PARTITIONED BY",
        "INSERT INTO t VALUES (30, 'last', NULL)",
    ],
    "sorted": [
        "CREATE TABLE t(i INT, p VARCHAR)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'b'), (4, NULL)",
        "ALTER TABLE t RENAME p TO q",
        "INSERT INTO t VALUES (5, 'm'), (4, 'z'), (6, 'm')",
        "DELETE FROM t WHERE i IN (4, 3)",
        "ALTER TABLE t SET SORTED BY (q DESC NULLS FIRST, i)",
    ],
    "a sort that inserts do not make": [
        "CREATE TABLE t(i INT)",
        "CALL lake.set_option('sort_on_insert', false)",
        "ALTER TABLE t SET SORTED BY (i DESC)",
        "INSERT INTO t VALUES (1), (3), (2)",
    ],
    "options of Parquet": [
        "CREATE TABLE t(i INT, p VARCHAR)",
        "CALL lake.set_option('parquet_compression', 'zstd')",
        "CALL lake.set_option('parquet_version', 2)",
        "INSERT INTO t SELECT i, 'text' FROM range(10) r(i)",
    ],
    "a late inlined table": [
        "CALL lake.set_option('data_inlining_row_limit', 0)",
        "CREATE TABLE t(i INT)",
        "COMMENT ON TABLE t IS 'late'",
        "CALL lake.set_option('data_inlining_row_limit', 10)",
        "INSERT INTO t VALUES (1), (2)",
        "ALTER TABLE t ADD COLUMN j INT",
        "INSERT INTO t VALUES (3, 4)",
    ],
    "odd names": [
        'CREATE SCHEMA "s p"',
        'CREATE TABLE "s p"."T ""x"".y"("a b" INT, "c""d" STRUCT("e.f" INT))',
        """INSERT INTO "s p"."T ""x"".y" VALUES (1, {'e.f': 2})""",
        'ALTER TABLE "s p"."T ""x"".y" SET PARTITIONED BY ("a b")',
        """INSERT INTO "s p"."T ""x"".y" VALUES (3, NULL), (4, {'e.f': NULL})""",
    ],
    "several tables": [
        "CREATE SCHEMA s",
        "CREATE TABLE a(i INT)",
        "CREATE TABLE s.b(i INT)",
        "CREATE TABLE empty(i INT)",
        "CREATE TABLE kept(i INT)",
        "CREATE TABLE gone(i INT)",
        "INSERT INTO gone VALUES (1)",
        "DROP TABLE gone",
        "CALL lake.set_option('auto_compact', false, table_name => 'kept')",
        "INSERT INTO a VALUES (1), (2)",
        "INSERT INTO s.b VALUES (3)",
        "INSERT INTO kept VALUES (4)",
    ],
    "nothing but old tables": [
        "CREATE TABLE t(i INT)",
        "ALTER TABLE t ADD COLUMN j INT",
    ],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_same_files_and_rows_as_the_extension(name: str, twins: Twins) -> None:
    twins.run(*HISTORIES[name])
    before = twins.told(twins.ours)
    theirs = twins.on(twins.theirs, FLUSH)

    with twins.lake() as lake:
        ours = values(lake)

    assert sorted(theirs) == ours
    # Of elements of NULL the extension says once that they are NULL and once that they are not.
    nested = name == "several versions of the schema"
    twins.assert_same({"ducklake_table_column_stats": ("contains_null",)} if nested else None)
    kept(before, twins.told(twins.ours))


def test_each_side_continues_after_the_other(twins: Twins) -> None:
    twins.run(*HISTORIES["both"])
    more = [
        "DELETE FROM t WHERE i = 2",  # a row of the flushed file
        "UPDATE t SET p = 'again' WHERE i IN (103, 2)",
        "INSERT INTO t VALUES (5, 'five'), (6, 'six')",
        "DELETE FROM t WHERE i BETWEEN 110 AND 125",
        "DELETE FROM t WHERE i = 6",
    ]
    for _ in range(2):
        twins.on(twins.theirs, FLUSH)
        with twins.lake() as lake:
            lake["t"].flush_inlined_data()
        twins.run(*more)
    before = twins.told(twins.ours)
    assert before == twins.told(twins.theirs)
    twins.on(twins.theirs, FLUSH, "CALL ducklake_merge_adjacent_files('lake')")
    with twins.lake() as lake:
        lake["t"].flush_inlined_data()
    twins.on(twins.ours, "CALL ducklake_merge_adjacent_files('lake')")
    assert twins.told(twins.ours) == twins.told(twins.theirs)
    kept(before, twins.told(twins.ours))


def test_renamed_table_is_one_row_of_the_answer(twins: Twins) -> None:
    """The extension says of each row what its table was called when it came."""
    twins.run(
        "CREATE TABLE t(i INT)",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t RENAME TO u",
        "INSERT INTO u VALUES (2)",
    )
    theirs = twins.on(twins.theirs, FLUSH)
    with twins.lake() as lake:
        assert values(lake) == [("main", "u", 2)]
    assert sorted(theirs) == [("main", "t", 1), ("main", "u", 1)]
    twins.assert_same()
    assert twins.told(twins.ours) == twins.told(twins.theirs)


def test_rewritten_file_keeps_its_deletes(twins: Twins) -> None:
    """The extension gives a file that ended two delete files, and time travel goes wrong."""
    twins.on(
        twins.ours,
        "CREATE TABLE t(i INT, p VARCHAR)",
        f"INSERT INTO t {ROWS}",
        "DELETE FROM t WHERE i < 120",
        "DELETE FROM t WHERE i = 140",
        "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)",
        "INSERT INTO t VALUES (1, 'x')",
    )
    before = twins.told(twins.ours)
    with twins.lake() as lake:
        lake.flush_inlined_data()
    [deletes] = catalogs.dump(twins.ours)["ducklake_delete_file"]
    assert (deletes["begin_snapshot"], deletes["end_snapshot"], deletes["delete_count"]) == (3, 5, 21)
    after = twins.told(twins.ours)
    rows = {key: text for key, text in before.items() if not str(key[1]).startswith("feed")}
    kept(rows, after)


def test_sort_keys_that_the_extension_cannot_flush(twins: Twins) -> None:
    """Expressions, macros that call macros, and columns that older rows lack."""
    twins.on(
        twins.ours,
        "CREATE TABLE t(i INT, p VARCHAR)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'b')",
        "ALTER TABLE t ADD COLUMN z INT DEFAULT 5",
        "ALTER TABLE t ALTER i SET TYPE BIGINT",
        "INSERT INTO t VALUES (1, 'x', 9), (2, 'y', 1), (3, 'b', 7)",
        "DELETE FROM t WHERE p = 'x'",
        "CREATE MACRO negative(x) AS -x",
        "CREATE MACRO twice(x, times := 2) AS negative(x) * times",
        "ALTER TABLE t SET SORTED BY (twice(z + i), lower(p))",
    )
    before = twins.told(twins.ours)
    with twins.lake() as lake:
        assert values(lake) == [("main", "t", 6)]
    kept(before, twins.told(twins.ours))
    assert file_rows(twins.ours, "i", "p") == [(3, "b", 2, 2), (2, "y", 1, 2), (1, "x", 0, 2)]
    assert [row[:3] for row in file_rows(twins.ours, "i", "p", "z")] == [
        (3, "b", 7),
        (1, "x", 9),
        (2, "y", 1),
    ]


def file_rows(uri: str, *columns: str) -> list[tuple[object, ...]]:
    """The rows as they stand in the one data file that has just these columns and the ids."""
    folder = Path(uri.removeprefix("ducklake:") + ".files")
    with duckdb.connect() as connection:
        for path in folder.rglob("*.parquet"):
            rows = connection.execute(f"SELECT * FROM read_parquet('{path}', hive_partitioning = false)")
            names = [column[0] for column in rows.description or ()]
            if names == [*columns, "_ducklake_internal_row_id", "_ducklake_internal_snapshot_id"]:
                return rows.fetchall()
    raise AssertionError(f"no file has the columns {columns}")


TYPES = {
    "boolean": "true",
    "tinyint": "-7",
    "utinyint": "200",
    "ubigint": "18446744073709551615",
    "hugeint": "1234567890123456789012345678901234567",
    "uhugeint": "12345678901234567890123456789012345678",
    "float": "'nan'",
    "double": "'-infinity'",
    "decimal(38, 3)": "12345678901234567890.125",
    "date": "DATE '44-03-15 (BC)'",
    "time": "'10:11:12.123456'",
    "timetz": "'10:11:12.123456+02'",
    "timestamp": "'infinity'",
    "timestamptz": "'2020-01-01 10:00:00.000001+05'",
    "timestamp_s": "'1969-12-31 23:59:59'",
    "timestamp_ms": "'2020-01-01 10:00:00.001'",
    "timestamp_ns": "'2020-01-01 10:00:00.123456789'",
    "interval": "INTERVAL '14 months 3 days 4.5 seconds'",
    "uuid": "'8f0a9c1e-3c40-4a86-9a8d-4f2b6d5c3a21'",
    "varchar": "'a''b\"c\\d, {e} ' || chr(0) || '😀'",
    "blob": "'\\x00\\xFF\\x27'::BLOB",
    "json": """'{"a": [1, null]}'""",
    "varchar[]": "['a, b', NULL, '', 'NULL', '[x]']",
    "map(varchar, struct(d date, b blob))": "MAP {'k=1': {'d': DATE '2020-01-01', 'b': '\\x00'::BLOB}}",
    "struct(j json, t timestamptz)[]": """[{'j': '{"a": 1}', 't': '2020-01-01 00:00:00+00'}, NULL]""",
}


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_every_type(kind: str, oracle: Oracle, tmp_path: Path, make_location: Callable[[str], str]) -> None:
    uri, data = make_location(kind), str(tmp_path / "data")
    names = dict(enumerate(TYPES))
    # As text, for Python's times end at the year 9999. Files keep times with a zone in UTC.
    shown = [
        f"timezone('UTC', c{place})::TIME::VARCHAR" if name == "timetz" else f"c{place}::VARCHAR"
        for place, name in names.items()
    ]
    read = f"SELECT k, {', '.join(shown)} FROM t ORDER BY k"
    oracle.attach(uri, data_path=data)
    oracle.execute(f"CREATE TABLE t(k INT, {', '.join(f'c{place} {name}' for place, name in names.items())})")
    oracle.execute(
        f"INSERT INTO t VALUES (1, {', '.join(TYPES.values())}), (2, {', '.join(['NULL'] * len(names))})"
    )
    before = oracle.execute(read)
    oracle.reset()

    with ducklake_spark.attach(uri, data_path=data) as lake:
        assert values(lake) == [("main", "t", 2)]

    oracle.attach(uri, data_path=data)
    wrong = {
        (name, left, right)
        for first, second in zip(before, oracle.execute(read), strict=True)
        for name, left, right in zip(("k", *TYPES), first, second, strict=True)
        if left != right
    }
    assert wrong == set()


def test_variants_keep_their_types(twins: Twins) -> None:
    twins.run(
        "CREATE TABLE t(i INT, v VARIANT)",
        "INSERT INTO t VALUES (1, DATE '2020-01-01'::VARIANT), (2, {'a': 1, 'b': [1.5, 2.5]}::VARIANT), (3, NULL)",
        "INSERT INTO t VALUES (4, 'text'::VARIANT), (5, 12::TINYINT::VARIANT)",
    )
    types = "SELECT i, variant_typeof(v), v::VARCHAR FROM t ORDER BY i"
    before = twins.on(twins.ours, types)
    twins.on(twins.theirs, FLUSH)
    with twins.lake() as lake:
        assert values(lake) == [("main", "t", 5)]
    assert twins.on(twins.ours, types) == before == twins.on(twins.theirs, types)


@pytest.mark.parametrize("column", ["c TIME_NS", "c STRUCT(v VARIANT)"])
def test_types_that_no_file_can_hold(column: str, twins: Twins) -> None:
    twins.on(twins.ours, f"CREATE TABLE t({column})", "INSERT INTO t VALUES (NULL)", "CREATE TABLE u(i INT)")
    before = catalogs.dump(twins.ours)
    with twins.lake() as lake, pytest.raises(InvalidInputError, match='"c" of table "t" holds'):
        lake.flush_inlined_data()
    catalogs.assert_same(before, twins.ours)
    assert not list(Path(twins.ours.removeprefix("ducklake:") + ".files").rglob("*.*"))


def test_folders_of_partitions_by_the_option(twins: Twins) -> None:
    """The extension's flush makes them all the same."""
    twins.run(
        "CREATE TABLE t(i INT, p VARCHAR)",
        "CALL lake.set_option('hive_file_pattern', false)",
        "ALTER TABLE t SET PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
    )
    twins.on(twins.theirs, FLUSH)
    with twins.lake() as lake:
        lake.flush_inlined_data()
    twins.assert_same({"ducklake_data_file": ("path",)})
    assert all("/" not in row["path"] for row in catalogs.dump(twins.ours)["ducklake_data_file"])
    assert twins.told(twins.ours) == twins.told(twins.theirs)


def test_mistakes(twins: Twins) -> None:
    twins.on(twins.ours, *HISTORIES["several tables"], "CREATE VIEW v AS SELECT 1")
    before = catalogs.dump(twins.ours)
    with twins.lake() as lake:
        for arguments, named, error, words in [
            (("nope",), {}, NotFoundError, 'no table "nope"'),
            (("b",), {}, NotFoundError, 'no table "b"'),
            ((), {"schema": "nope"}, NotFoundError, 'no schema "nope"'),
            (("a",), {"schema": "s"}, NotFoundError, 'no table "a"'),
            (("v",), {}, NotFoundError, "view"),
            ((7,), {}, InvalidInputError, "7"),
            ((), {"schema": 7}, InvalidInputError, "7"),
            ((("s", "b"),), {"schema": "s"}, InvalidInputError, "twice"),
        ]:
            with pytest.raises(error, match=words):  # type: ignore[arg-type]
                values(lake, *arguments, **named)  # type: ignore[arg-type]
    with twins.lake(read_only=True) as lake, pytest.raises(DuckLakeError, match="read-only"):
        lake.flush_inlined_data()
    catalogs.assert_same(before, twins.ours)


def test_which_tables(twins: Twins) -> None:
    twins.on(twins.ours, *HISTORIES["several tables"])
    with twins.lake() as lake:
        assert values(lake, "KEPT") == []
        assert values(lake, schema="S") == [("s", "b", 1)]
        assert values(lake, "A", schema="Main") == [("main", "a", 2)]
        assert values(lake) == []
        version = lake.version
        lake["a"].insert([(7,)])
        lake["s.b"].insert([(8,)])
        assert values(lake, "s.b") == [("s", "b", 1)]
        assert values(lake) == [("main", "a", 1)]
        assert lake.version == version + 4


def test_in_a_transaction(twins: Twins) -> None:
    """What the transaction inserted stays inlined, as in the extension."""
    twins.run(
        "CREATE TABLE t(i INT)",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE TABLE u(i INT)",
        "INSERT INTO u VALUES (9)",
    )
    twins.on(
        twins.theirs,
        "BEGIN",
        "INSERT INTO t VALUES (3)",
        "ALTER TABLE u ADD COLUMN j INT",
        FLUSH,
        "INSERT INTO t VALUES (4)",
        "COMMIT",
    )
    with twins.lake() as lake, lake.transaction():
        lake["t"].insert([(3,)])
        lake["u"].add_column("j", "int")
        assert values(lake) == [("main", "t", 2), ("main", "u", 1)]
        assert values(lake) == []
        lake["t"].insert([(4,)])
    assert twins.told(twins.ours) == twins.told(twins.theirs)
    twins.assert_same()


def test_rolled_back(twins: Twins) -> None:
    twins.on(twins.ours, *HISTORIES["both"])
    before, files = catalogs.dump(twins.ours), data_files(twins.ours)
    with twins.lake() as lake:
        lake.begin()
        assert values(lake) == [("main", "t", 4)]
        lake.rollback()
    catalogs.assert_same(before, twins.ours)
    assert data_files(twins.ours) == files


def data_files(uri: str) -> list[str]:
    """All files below the data path."""
    return sorted(
        str(path) for path in Path(uri.removeprefix("ducklake:") + ".files").rglob("*") if path.is_file()
    )
