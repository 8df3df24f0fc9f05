"""What every catalog database promises: transactions, values, errors by kind, connections that come and go."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ducklake_spark.catalog.create import initialize, inspect
from ducklake_spark.catalog.location import parse_location
from ducklake_spark.catalog.open import open_store
from ducklake_spark.catalog.sqlite import micros, time_text
from ducklake_spark.catalog.store import CommitOutcomeUnknown, Failure, Store
from ducklake_spark.errors import (
    CatalogConnectionError,
    CatalogError,
    ClosedError,
    InvalidInputError,
    NotADuckLakeError,
    ReadOnlyError,
)
from tests.catalog.proxy import Proxy
from tests.interop.oracle import Oracle
from tests.servers import MYSQL_PASSWORD, PASSWORD, MySQLServer, PostgresServer

UTC = datetime.timezone.utc


@pytest.fixture
def store(location: str) -> Iterator[Store]:
    """A store with a new lake, for each database."""
    store = new_lake(location)
    yield store
    store.close()


def new_lake(location: str, **options: Any) -> Store:
    store = open_store(parse_location(location), **options)
    initialize(store, data_path="data/", encrypted=False, created_by="test")
    return store


def snapshot(number: int) -> tuple[Any, ...]:
    return (number, datetime.datetime(2026, 11, 15, 6, 34, 42, 355330, UTC), 1, 2, 3)


def failure(store: Store, error: BaseException) -> Failure:
    assert isinstance(error, store.driver_errors)
    return store.classify(error)


# Transactions


def test_a_transaction_is_all(store: Store) -> None:
    with store.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])
        session.execute('UPDATE ducklake_metadata SET value = ? WHERE "key" = ?', ["other/", "data_path"])
        assert session.query("SELECT count(*) FROM ducklake_snapshot") == [(2,)]
    assert store.query("SELECT max(snapshot_id) FROM ducklake_snapshot") == [(1,)]
    assert inspect(store).options["data_path"] == "other/"


def test_a_transaction_is_nothing_after_an_exception(store: Store) -> None:
    with pytest.raises(KeyError), store.begin() as session:
        session.create_table(store.create_table_sql("ducklake_inlined_data_1_1", [("row_id", "BIGINT")]))
        session.insert("ducklake_snapshot", [snapshot(1)])
        session.flush()
        raise KeyError
    assert store.query("SELECT max(snapshot_id) FROM ducklake_snapshot") == [(0,)]
    assert not store.has_table("ducklake_inlined_data_1_1")
    with store.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])


def test_a_key_that_exists_is_a_collision(store: Store) -> None:
    with pytest.raises(store.driver_errors) as caught, store.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(0)])
        session.execute("DELETE FROM ducklake_metadata")
    assert failure(store, caught.value) is Failure.COLLISION
    assert inspect(store).exists


def test_the_second_committer_collides(location: str) -> None:
    first, second = new_lake(location), open_store(parse_location(location))
    outcomes: list[object] = []

    def commit(store: Store) -> None:
        try:
            with store.begin() as session:
                session.insert("ducklake_snapshot", [snapshot(1)])
                session.flush()
                time.sleep(0.2)
            outcomes.append("committed")
        except store.driver_errors as error:
            outcomes.append(store.classify(error))

    threads = [threading.Thread(target=commit, args=[store]) for store in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The one that waits may say so before the other one says that it is done.
    assert sorted(outcomes, key=str) == sorted(["committed", Failure.COLLISION], key=str)
    first.close()
    second.close()


def test_a_mistake_is_fatal(store: Store) -> None:
    with pytest.raises(store.driver_errors) as caught, store.begin() as session:
        session.execute("UPDATE no_such_table SET x = 1")
    assert failure(store, caught.value) is Failure.FATAL


def test_a_missing_value_is_no_collision(make_location: Callable[[str], str]) -> None:
    for kind in ("sqlite", "postgres", "mysql"):
        store = new_lake(make_location(kind))
        with pytest.raises(store.driver_errors) as caught, store.begin() as session:
            session.execute("INSERT INTO ducklake_metadata VALUES (NULL, NULL, NULL, NULL)")
        assert failure(store, caught.value) is Failure.FATAL
        store.close()


@pytest.mark.parametrize("kind", ["sqlite", "mysql"])
def test_waiting_for_another_writer_ends_as_transient(kind: str, make_location: Callable[[str], str]) -> None:
    location = make_location(kind)
    holder = new_lake(location)
    waiter = open_store(parse_location(location), busy_timeout=100)
    with holder.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])
        with pytest.raises(waiter.driver_errors) as caught, waiter.begin():
            pass
        assert failure(waiter, caught.value) is Failure.TRANSIENT
    with waiter.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(2)])
    holder.close()
    waiter.close()


def test_a_deadlock_is_transient(make_location: Callable[[str], str]) -> None:
    store = new_lake(make_location("postgres"))
    barrier, failures = threading.Barrier(2), []

    def update(keys: list[str]) -> None:
        try:
            with store.begin() as session:
                for number, key in enumerate(keys):
                    session.execute('UPDATE ducklake_metadata SET value = value WHERE "key" = ?', [key])
                    session.flush()
                    if number == 0:
                        barrier.wait()
        except store.driver_errors as error:
            failures.append(store.classify(error))

    threads = [
        threading.Thread(target=update, args=[keys])
        for keys in (["version", "encrypted"], ["encrypted", "version"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [Failure.TRANSIENT]
    store.close()


def test_queries_inside_a_transaction_of_another_thread_do_not_wait(store: Store) -> None:
    seen: list[Any] = []
    with store.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])
        session.insert("ducklake_tag", [(number, 1, None, "comment", "x" * 100) for number in range(50_000)])
        session.flush()
        thread = threading.Thread(
            target=lambda: seen.append(store.query("SELECT count(*) FROM ducklake_snapshot"))
        )
        thread.start()
        thread.join(5)
    assert seen == [[(1,)]]


def test_a_leftover_inlined_table_is_replaced(make_location: Callable[[str], str]) -> None:
    store = new_lake(make_location("mysql"))
    name = "ducklake_inlined_data_1_1"
    for rows in ([(1,)], [(2,)]):
        with store.begin() as session:
            session.create_table(store.create_table_sql(name, [("row_id", "BIGINT")]))
            session.insert(name, rows)
    assert store.query(f"SELECT row_id FROM {name}") == [(2,)]
    with store.begin() as session:
        session.insert("ducklake_inlined_data_tables", [(1, name, 1)])
    with pytest.raises(store.driver_errors), store.begin() as session:
        session.create_table(store.create_table_sql(name, [("row_id", "BIGINT")]))
    assert store.query(f"SELECT row_id FROM {name}") == [(2,)]
    store.close()


def test_tables_can_be_made_after_queries(store: Store) -> None:
    with store.begin() as session:
        assert session.query("SELECT max(snapshot_id) FROM ducklake_snapshot") == [(0,)]
        session.create_table(store.create_table_sql("ducklake_inlined_data_1_1", [("row_id", "BIGINT")]))
        session.insert("ducklake_inlined_data_1_1", [(1,)])
    assert store.query("SELECT row_id FROM ducklake_inlined_data_1_1") == [(1,)]


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_a_table_that_exists_is_a_collision(kind: str, make_location: Callable[[str], str]) -> None:
    store = new_lake(make_location(kind))
    name = "ducklake_inlined_data_1_1"
    with store.begin() as session:
        session.create_table(store.create_table_sql(name, [("row_id", "BIGINT")]))
        session.insert("ducklake_inlined_data_tables", [(1, name, 1)])
    with pytest.raises(store.driver_errors) as caught, store.begin() as session:
        session.create_table(store.create_table_sql(name, [("row_id", "BIGINT")]))
    assert failure(store, caught.value) is Failure.COLLISION
    store.close()


# Values

TEXTS = ["", "it's", 'a "b"', "back\\slash\n\t", "percent %s ?", "ünï 日本 🦆", "NULL", "\\N", "x" * 70_000]


@pytest.mark.parametrize("count", [1, 500])
def test_values_come_back(store: Store, count: int) -> None:
    rows = [
        (
            number,
            number % 7,
            9223372036854775807,
            -1,
            None,
            0,
            text,
            text[::-1],
            [True, False, None][number % 3],
            None,
        )
        for number, text in enumerate((TEXTS * (count // len(TEXTS) + 1))[: max(count, len(TEXTS))])
    ]
    if count == 1:
        for row in rows:
            with store.begin() as session:
                session.insert("ducklake_file_column_stats", [row])
    else:
        with store.begin() as session:
            session.insert("ducklake_file_column_stats", rows)
    assert store.query("SELECT * FROM ducklake_file_column_stats ORDER BY data_file_id") == rows
    [(text,)] = store.query(
        "SELECT min_value FROM ducklake_file_column_stats WHERE min_value = ? LIMIT 1", ["it's"]
    )
    assert text == "it's"


@pytest.mark.parametrize("count", [1, 300])
def test_inlined_values_come_back(store: Store, count: int) -> None:
    given = {
        "int64": -5,
        "boolean": True,
        "blob": b"\x00\xff'\\",
        "varchar": "it's \\ 🦆",
        "decimal(10,2)": "12.30",
    }
    columns = [(f"c {number}", store.inlined_type(kind) or "") for number, kind in enumerate(given)]
    stored = [
        value.encode() if type(value) is str and "bytea" in kind else value
        for value, (_, kind) in zip(given.values(), columns, strict=True)
    ]
    with store.begin() as session:
        session.create_table(
            store.create_table_sql("ducklake_inlined_data_1_1", [("row_id", "BIGINT"), *columns])
        )
        session.insert("ducklake_inlined_data_1_1", [(number, *stored) for number in range(count)])
    rows = store.query("SELECT * FROM ducklake_inlined_data_1_1 ORDER BY row_id")
    assert len(rows) == count
    number, integer, boolean, blob, text, decimal = rows[-1]
    assert (number, integer, bool(boolean), blob) == (count - 1, -5, True, b"\x00\xff'\\")
    assert (text.decode() if isinstance(text, bytes) else text) == "it's \\ 🦆"
    assert Decimal(decimal) == Decimal("12.30")


def test_nul_characters(store: Store) -> None:
    row = (1, "a\0b", None, None, None)
    for rows in ([row], [(number, *row[1:]) for number in range(1, 400)]):
        if store.kind == "postgres":
            with pytest.raises(InvalidInputError, match="NUL"), store.begin() as session:
                session.insert("ducklake_snapshot_changes", rows)
            continue
        with store.begin() as session:
            session.execute("DELETE FROM ducklake_snapshot_changes")
            session.insert("ducklake_snapshot_changes", rows)
        assert store.query("SELECT changes_made FROM ducklake_snapshot_changes")[0] == ("a\0b",)


def test_times(store: Store) -> None:
    before = time.time_ns() // 1000
    with store.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])
        session.execute(f"INSERT INTO ducklake_snapshot VALUES (2, {store.now_sql}, 0, 0, 0)")
    rows = store.query(
        f"SELECT snapshot_id, {store.micros_sql('snapshot_time')} FROM ducklake_snapshot ORDER BY 1"
    )
    assert rows[1] == (1, 1794724482355330)
    assert before - 1000 <= rows[2][1] <= time.time_ns() // 1000
    assert [type(value) for _, value in rows] == [int, int, int]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01 00:00:00+00", 0),
        ("2026-11-15 06:34:42.35533+00", 1794724482355330),
        ("2026-11-15 12:04:42.35533+05:30", 1794724482355330),
        ("2026-11-15 01:34:42.355330-05", 1794724482355330),
        ("1969-12-31 23:59:59.999999+00", -1),
        ("1900-01-01 00:00:00+00:19:32", -2208988800_000000 - 1172_000000),
        (None, None),
    ],
)
def test_sqlite_times_in_any_zone(text: str | None, value: int | None) -> None:
    assert micros(text) == value


@pytest.mark.parametrize("microsecond", [0, 1, 100000, 355330, 999999])
def test_sqlite_times_are_written_as_duckdb_does(microsecond: int, oracle: Oracle) -> None:
    moment = datetime.datetime(2026, 11, 15, 6, 34, 42, microsecond, UTC)
    assert oracle.execute("SELECT make_timestamptz(?)::VARCHAR", [micros(time_text(moment))]) == [
        (time_text(moment),)
    ]


def test_a_question_mark_in_quotes_is_no_parameter(store: Store) -> None:
    assert store.query("SELECT '?%', '''?', ? AS \"a?\"", ["x"]) == [("?%", "'?", "x")]


def test_several_queries_at_once(store: Store) -> None:
    queries = [("SELECT count(*) FROM ducklake_snapshot WHERE snapshot_id < ?", [9]), ("SELECT ?", ["b"])]
    assert store.query_many(queries) == [[(1,)], [("b",)]]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres", "mysql"])
def test_many_rows_are_fast(kind: str, make_location: Callable[[str], str]) -> None:
    store = new_lake(make_location(kind))
    rows = [(n // 10, 1, n % 10, 4711, 1000, 0, f"min {n}", f"max {n}", None, None) for n in range(100_000)]
    start = time.monotonic()
    with store.begin() as session:
        session.insert("ducklake_file_column_stats", rows)
    assert time.monotonic() - start < 8  # 0.3 to 1.1 s on a quiet machine
    assert store.query("SELECT count(*) FROM ducklake_file_column_stats") == [(100_000,)]
    store.close()


def test_names_are_quoted(make_location: Callable[[str], str]) -> None:
    for kind in ("duckdb", "postgres", "mysql"):
        schema = f'it\'s "a" schema {os.getpid()}'
        location = make_location(kind)
        store = new_lake(location, metadata_schema=schema)
        assert inspect(store).exists
        store.close()
        elsewhere = open_store(parse_location(location))
        assert not inspect(elsewhere).exists
        elsewhere.close()
        again = open_store(parse_location(location), metadata_schema=schema, read_only=True)
        assert again.query("SELECT count(*) FROM ducklake_snapshot") == [(1,)]
        again.close()


def test_sqlite_has_no_schemas(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="SQLite has no schemas"):
        open_store(parse_location(f"ducklake:sqlite:{tmp_path}/x"), metadata_schema="s")


SCALARS = {
    "boolean": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "int128": "HUGEINT", "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
    "uint128": "UHUGEINT", "float32": "FLOAT", "float64": "DOUBLE", "decimal(10,2)": "DECIMAL(10,2)", "date": "DATE",
    "time": "TIME", "timetz": "TIMETZ", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ",
    "timestamp_s": "TIMESTAMP_S", "timestamp_ms": "TIMESTAMP_MS", "timestamp_ns": "TIMESTAMP_NS",
    "interval": "INTERVAL", "varchar": "VARCHAR", "json": "JSON", "blob": "BLOB", "uuid": "UUID",
    "STRUCT(a INTEGER, b VARCHAR)[]": "STRUCT(a INTEGER, b VARCHAR)[]", "MAP(VARCHAR, DATE)": "MAP(VARCHAR, DATE)",
}  # fmt: skip
INLINED_COLUMNS = {
    "duckdb": "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = '{}' ORDER BY column_index",
    "sqlite": "SELECT name, type FROM pragma_table_info('{}')",
    "postgres": "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
    "WHERE attrelid = '{}'::regclass AND attnum > 0 ORDER BY attnum",
}


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_inlined_types_are_those_of_the_extension(
    kind: str, make_location: Callable[[str], str], oracle: Oracle
) -> None:
    location = make_location(kind)
    oracle.attach(location, data_path="data/")
    oracle.execute(f"CREATE TABLE t ({', '.join(f'c{n} {name}' for n, name in enumerate(SCALARS.values()))})")
    oracle.detach()
    store = open_store(parse_location(location))
    [(theirs,)] = store.query("SELECT table_name FROM ducklake_inlined_data_tables")
    columns = [(name, "BIGINT") for name in ("row_id", "begin_snapshot", "end_snapshot")]
    columns += [(f"c{n}", store.inlined_type(name) or "none") for n, name in enumerate(SCALARS)]
    with store.begin() as session:
        session.create_table(store.create_table_sql("ours", columns))
    sql = INLINED_COLUMNS[kind]
    assert store.query(sql.format("ours")) == store.query(sql.format(theirs))
    store.close()


def test_types_that_are_never_inlined(store: Store) -> None:
    assert store.inlined_type("geometry") is None
    assert (store.inlined_type("variant") is None) == (store.kind != "duckdb")


# Connections


def test_closed_stores_say_so(store: Store) -> None:
    store.close()
    with pytest.raises(ClosedError, match="closed"):
        store.query("SELECT 1")
    with pytest.raises(ClosedError), store.begin():
        pass


def test_read_only_stores_refuse_to_write(location: str) -> None:
    new_lake(location).close()
    store = open_store(parse_location(location), read_only=True)
    assert inspect(store).exists
    with pytest.raises(ReadOnlyError), store.begin():
        pass
    store.close()


def test_refused_queries_are_catalog_errors(store: Store) -> None:
    with pytest.raises(CatalogError, match="refused") as caught:
        store.query("SELECT * FROM no_such_table")
    assert isinstance(caught.value.__cause__, store.driver_errors)


def test_many_threads(store: Store) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                assert store.query("SELECT count(*) FROM ducklake_snapshot") == [(1,)]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_a_restarted_server_is_not_noticed(
    kind: str, request: pytest.FixtureRequest, make_location: Callable[[str], str]
) -> None:
    store = new_lake(make_location(kind))
    request.getfixturevalue(f"{kind}_server").restart()
    assert inspect(store).exists
    request.getfixturevalue(f"{kind}_server").restart()
    for attempt in ("on a dead connection", "on a new one"):
        try:
            with store.begin() as session:
                session.insert("ducklake_snapshot", [snapshot(1)])
            break
        except store.driver_errors as error:  # what waits in a bundle may notice only when it is sent
            assert (store.classify(error), attempt) == (Failure.LOST, "on a dead connection")
    assert store.query("SELECT max(snapshot_id) FROM ducklake_snapshot") == [(1,)]
    store.close()


@pytest.mark.parametrize("deliver", [True, False])
def test_a_lost_commit_on_postgres_is_settled(deliver: bool, postgres_server: PostgresServer) -> None:
    proxy = Proxy(postgres_server.port)
    conninfo = postgres_server.fresh_database().replace(f"port={postgres_server.port}", f"port={proxy.port}")
    store = new_lake(f"ducklake:postgres:{conninfo}")
    with pytest.raises(CommitOutcomeUnknown) as caught, store.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])
        proxy.cut(b"COMMIT\0", deliver=deliver)
    assert caught.value.token is not None
    assert store.settled(caught.value) is deliver
    assert store.query("SELECT max(snapshot_id) FROM ducklake_snapshot") == [(1 if deliver else 0,)]
    store.close()
    proxy.close()


@pytest.mark.parametrize("deliver", [True, False])
def test_a_lost_commit_on_mysql_is_over_when_settled(deliver: bool, mysql_server: MySQLServer) -> None:
    proxy = Proxy(mysql_server.port)
    conninfo = mysql_server.fresh_database().replace(f"port={mysql_server.port}", f"port={proxy.port}")
    store = new_lake(f"ducklake:mysql:{conninfo} ssl_mode=disabled")
    with pytest.raises(CommitOutcomeUnknown) as caught, store.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])
        proxy.cut(b"COMMIT", deliver=deliver)
    assert store.settled(caught.value) is None
    assert store.query("SELECT max(snapshot_id) FROM ducklake_snapshot") == [(1 if deliver else 0,)]
    store.close()
    proxy.close()


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_a_connection_lost_before_commit_is_no_commit(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(f"{kind}_server")
    proxy = Proxy(server.port)
    conninfo = server.fresh_database().replace(f"port={server.port}", f"port={proxy.port}")
    store = new_lake(f"ducklake:{kind}:{conninfo}" + (" ssl_mode=disabled" if kind == "mysql" else ""))
    with pytest.raises(store.driver_errors) as caught, store.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])
        session.flush()
        proxy.drop()
        session.query("SELECT 1")
    assert failure(store, caught.value) is Failure.LOST
    assert store.query("SELECT max(snapshot_id) FROM ducklake_snapshot") == [(0,)]
    store.close()
    proxy.close()


# Errors that users meet


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_unreachable_servers(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(f"{kind}_server")
    secret = PASSWORD if kind == "postgres" else MYSQL_PASSWORD
    good = f"ducklake:{kind}:{server.conninfo('nosuchdatabase')}"
    wrong_port = good.replace(f"port={server.port}", "port=1")
    wrong_password = good.replace("s3cret", "wrong-s3cret")
    for text in (good, wrong_port, wrong_password):
        store = open_store(parse_location(text))
        with pytest.raises(
            CatalogConnectionError, match=r"(?s)127\.0\.0\.1.*Check that the database is running"
        ) as caught:
            store.query("SELECT 1")
        assert secret not in str(caught.value)
        assert "wrong-s3cret" not in str(caught.value)
        store.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_files_that_cannot_be_a_catalog(kind: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello world " * 100)
    for path, error, words in [
        ("text", CatalogConnectionError, "is not a"),
        ("no/such/file", CatalogConnectionError, "does not exist"),
        (".", CatalogConnectionError, "is a folder"),
    ]:
        store = open_store(parse_location(f"ducklake:{kind}:{tmp_path}/{path}"))
        with pytest.raises(error, match=words):
            inspect(store)
        store.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("options", [{"read_only": True}, {"create": False}])
def test_files_are_not_made_unasked(kind: str, options: dict[str, bool], tmp_path: Path) -> None:
    store = open_store(parse_location(f"ducklake:{kind}:{tmp_path}/new"), **options)
    with pytest.raises(NotADuckLakeError, match="does not exist"):
        inspect(store)
    assert not (tmp_path / "new").exists()
    store.close()


def test_a_duckdb_file_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    code = f"import duckdb; c = duckdb.connect({str(path)!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"open\n"
        store = open_store(parse_location(f"ducklake:{path}"))
        with pytest.raises(CatalogConnectionError, match=r"one process only.*SQLite or PostgreSQL"):
            inspect(store)
        other.communicate(b"\n")
    assert not inspect(store).exists
    store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_files_that_must_not_be_touched(kind: str, tmp_path: Path) -> None:
    new_lake(f"ducklake:{kind}:{tmp_path}/x").close()
    (tmp_path / "x").chmod(0o444)
    store = open_store(parse_location(f"ducklake:{kind}:{tmp_path}/x"))
    with pytest.raises(CatalogConnectionError, match=r"may not write.*Attach it read-only"):
        inspect(store)
    store.close()


def test_one_duckdb_file_in_two_stores_of_a_process(tmp_path: Path) -> None:
    first = new_lake(f"ducklake:{tmp_path}/x.db")
    second = open_store(parse_location(f"ducklake:{tmp_path}/x.db"))
    with first.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])
    assert second.query("SELECT max(snapshot_id) FROM ducklake_snapshot") == [(1,)]
    third = open_store(parse_location(f"ducklake:{tmp_path}/x.db"), read_only=True)
    assert inspect(third).exists  # a reader shares the database of a writer
    for store in (first, second, third):
        store.close()

    reader = open_store(parse_location(f"ducklake:{tmp_path}/x.db"), read_only=True)
    assert inspect(reader).exists
    writer = open_store(parse_location(f"ducklake:{tmp_path}/x.db"))
    with pytest.raises(CatalogConnectionError, match="open in this process already"):
        inspect(writer)
    for store in (reader, writer):
        store.close()


def test_a_mysql_lake_of_the_extension_is_widened(mysql_server: MySQLServer, oracle: Oracle) -> None:
    text = f"ducklake:mysql:{mysql_server.fresh_database()}"
    oracle.attach(text, data_path="data/")
    oracle.detach()
    store = open_store(parse_location(text))
    with store.begin() as session:
        session.insert("ducklake_snapshot", [snapshot(1)])
        session.insert("ducklake_snapshot_changes", [(1, 'created_schema:"日本"', None, None, None)])
    assert store.query(
        f"SELECT {store.micros_sql('snapshot_time')} FROM ducklake_snapshot WHERE snapshot_id = 1"
    ) == [(1794724482355330,)]
    assert store.query("SELECT changes_made FROM ducklake_snapshot_changes WHERE snapshot_id = 1") == [
        ('created_schema:"日本"',)
    ]
    assert inspect(store).exists
    store.close()
    oracle.attach(text)
    assert [row[0] for row in oracle.execute("FROM lake.snapshots() ORDER BY 1")] == [0, 1]


def test_a_missing_driver_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; sys.modules['pymysql'] = None\n"
        "from ducklake_spark.catalog.location import parse_location\n"
        "from ducklake_spark.catalog.open import open_store\n"
        "from ducklake_spark.errors import MissingDriverError\n"
        "for text in ('postgres:dbname=x', 'mysql:db=x'):\n"
        "    try: open_store(parse_location('ducklake:' + text))\n"
        "    except MissingDriverError as error: print(error)\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "ducklake-spark[postgres]"' in output
    assert 'pip install "ducklake-spark[mysql]"' in output
