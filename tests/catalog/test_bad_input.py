"""What users get wrong: each mistake is an error of ours that names the thing and the way out, and changes nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import ducklake_spark
from ducklake_spark import (
    AlreadyExistsError,
    CatalogConnectionError,
    CatalogError,
    CatalogVersionError,
    ClosedError,
    ConstraintError,
    DependencyError,
    DuckLakeError,
    Expression,
    FileError,
    InvalidInputError,
    Lake,
    NotADuckLakeError,
    NotFoundError,
    ReadOnlyError,
    SnapshotNotFoundError,
    TransactionError,
    TypeChangeError,
)
from ducklake_spark.catalog.location import parse_location
from ducklake_spark.catalog.open import open_store
from ducklake_spark.engine.scope import Scope
from tests.interop.oracle import Oracle
from tests.servers import MYSQL_PASSWORD, PASSWORD, MySQLServer, PostgresServer

KINDS = ["duckdb", "sqlite", "postgres", "mysql"]


@pytest.fixture
def lake(make_location: Callable[[str], str], tmp_path: Path) -> Iterator[Lake]:
    """A lake with one of everything, in the cheapest database: for mistakes that no database sees."""
    with ducklake_spark.attach(make_location("sqlite"), name="lake", data_path=tmp_path / "data") as lake:
        fill(lake)
        yield lake


@pytest.fixture(params=KINDS)
def any_lake(
    request: pytest.FixtureRequest, make_location: Callable[[str], str], tmp_path: Path
) -> Iterator[Lake]:
    """The same lake in each database."""
    uri = make_location(request.param)
    with ducklake_spark.attach(uri, name="lake", data_path=tmp_path / "data") as lake:
        fill(lake)
        yield lake


def fill(lake: Lake) -> None:
    with lake.transaction():
        lake.create_schema("sales")
        lake.create_table(
            "orders",
            "id BIGINT, at DATE, st STRUCT(x INT), l STRUCT(q INT)[], m MAP(VARCHAR, INT), n DECIMAL(5,2)",
            partitioned_by=["year(at)"],
            sorted_by=["n DESC"],
        )
        lake.create_table("sales.one", {"only": "int"})
        lake.create_view("v", "SELECT 1 AS one")
        lake.create_macro("add1", "a + 1", ["a"])


def attach(uri: str, **parameters: Any) -> Lake:
    return ducklake_spark.attach(uri, **parameters)


# --- what the database holds --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_database_gets_no_lake_unasked(
    kind: str, make_location: Callable[[str], str], tmp_path: Path
) -> None:
    uri = make_location(kind)
    store = open_store(parse_location(uri))
    with store.begin() as session:
        session.create_table("CREATE TABLE mine (i INTEGER)")
    store.close()
    with pytest.raises(NotADuckLakeError, match=r"There is no lake at ducklake:.*create_if_not_exists=True"):
        attach(uri, read_only=True)
    if kind in ("duckdb", "sqlite"):  # a database on a server may be shared
        with pytest.raises(
            NotADuckLakeError, match=r'holds no lake, but a table of something else \("mine"\)'
        ):
            attach(uri, data_path=tmp_path / "data")
    else:
        with pytest.raises(InvalidInputError, match="needs data_path"):
            attach(uri)
    store = open_store(parse_location(uri))
    assert store.table_names() == {"mine"}
    store.close()
    attach(uri, data_path=tmp_path / "data", create_if_not_exists=True).close()
    attach(uri).close()


@pytest.mark.parametrize("name", ["lake.ducklake", "lake.db", "lake.sqlite", "new"])
def test_a_path_is_enough(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with attach(Path(name), data_path="data") as lake:
        lake.create_table("t", "i INT")
        assert lake.name == name.partition(".")[0]
        assert lake._scope.store.kind == ("sqlite" if name.endswith(".sqlite") else "duckdb")
    for given in (name, f"./{name}", tmp_path / name, (tmp_path / name).as_uri()):
        with attach(given) as lake:
            assert lake.tables() == ["main.t"]


def test_a_sqlite_file_is_known_by_what_it_is(tmp_path: Path) -> None:
    attach(f"ducklake:sqlite:{tmp_path}/a.ducklake", data_path=tmp_path / "data").close()
    with attach(tmp_path / "a.ducklake") as lake:
        assert lake._scope.store.kind == "sqlite"


def test_a_server_needs_no_prefix(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with attach(f"postgres:{postgres_server.fresh_database()}", data_path=tmp_path) as lake:
        assert lake.tables() == []


def test_a_data_path_that_cannot_be_written_is_found_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for data_path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(FileError, match=r"The data path .* cannot be used: .*data_path"):
            attach(tmp_path / "new.ducklake", data_path=data_path)
    with attach(tmp_path / "new.ducklake") as lake:  # no lake was made
        assert lake.data_path == f"{tmp_path}/new.ducklake.files/"
    (tmp_path / "new.ducklake.files").touch()
    with pytest.raises(FileError, match="is not a folder"):
        attach(tmp_path / "new.ducklake")
    attach(tmp_path / "new.ducklake", read_only=True).close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_a_new_lake_needs_a_data_path(kind: str, make_location: Callable[[str], str]) -> None:
    uri = make_location(kind)
    with pytest.raises(InvalidInputError, match=f"A new lake at ducklake:{kind}:.* needs data_path"):
        attach(uri)
    store = open_store(parse_location(uri))
    assert store.table_names() == set()
    store.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    for kind in ("duckdb", "sqlite"):
        file = tmp_path / f"notes.{kind}"
        file.write_text("This is not a database, but a text of some length that nobody can open." * 20)
        with pytest.raises(CatalogError, match=r"not a (DuckDB|SQLite) database"):
            attach(f"ducklake:{kind}:{file}", data_path=tmp_path / "data")
        assert file.read_text().startswith("This is not")


def test_files_of_the_other_kind_are_told(tmp_path: Path) -> None:
    attach(f"ducklake:sqlite:{tmp_path}/a.db", data_path=tmp_path / "data").close()
    attach(f"ducklake:duckdb:{tmp_path}/b.db").close()
    with pytest.raises(CatalogConnectionError, match=r"ducklake:sqlite:.*a\.db"):
        attach(f"ducklake:{tmp_path}/a.db")
    with pytest.raises(CatalogError, match=r"b\.db.*not a SQLite database"):
        attach(f"ducklake:sqlite:{tmp_path}/b.db")


@pytest.mark.parametrize("kind", KINDS)
def test_a_half_created_catalog(kind: str, make_location: Callable[[str], str], tmp_path: Path) -> None:
    uri = make_location(kind)
    attach(uri, data_path=tmp_path / "data").close()
    store = open_store(parse_location(uri))
    with store.begin() as session:
        session.execute("DROP TABLE ducklake_column")
    store.close()
    with pytest.raises(NotADuckLakeError, match=r"only part of a lake: ducklake_column missing\. Restore"):
        attach(uri)


@pytest.mark.parametrize(
    ("kind", "version"),
    [("sqlite", version) for version in ("0.1", "0.2", "0.3", "0.4", "1.2-dev1")]
    + [(kind, version) for kind in ("duckdb", "postgres", "mysql") for version in ("0.3", "1.2-dev1")],
)
def test_other_format_versions_are_named_and_left_alone(
    kind: str, version: str, make_location: Callable[[str], str], tmp_path: Path
) -> None:
    uri = make_location(kind)
    attach(uri, data_path=tmp_path / "data").close()
    store = open_store(parse_location(uri))
    with store.begin() as session:
        session.execute("UPDATE ducklake_metadata SET value = ? WHERE \"key\" = 'version'", [version])
        if version < "0.4":
            session.execute("DROP TABLE ducklake_macro")  # came with 0.4
    store.close()
    way_out = "automatic_migration=True" if version < "1" else "A newer ducklake-spark"
    for parameters in ({}, {"read_only": True}, *([{"automatic_migration": True}] if version > "1" else [])):
        with pytest.raises(
            CatalogVersionError, match=rf"{version}; this package reads and writes 1\.0 and 1\.1\..*{way_out}"
        ):
            attach(uri, **parameters)
    store = open_store(parse_location(uri))
    assert ("version", version) in store.query('SELECT "key", value FROM ducklake_metadata')
    store.close()


def test_a_lake_of_the_extension_attaches(oracle: Oracle, tmp_path: Path) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/l.sqlite"
    oracle.attach(uri, data_path=str(tmp_path / "data"))
    oracle.execute("CREATE TABLE t(i INT)")
    oracle.detach()
    with attach(uri) as lake:
        assert lake.tables() == ["main.t"]


# --- attach() -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"datapath": "x"}, r'no parameter "datapath"\. Did you mean "data_path"'),
        ({"DATA_PATH": "x"}, r'no parameter "DATA_PATH": write it as "data_path"'),
        ({"wait": 3}, r'no parameter "wait"\. Its docstring names them all'),
        ({"meta_": 3}, 'no parameter "meta_"'),
        ({"snapshot_version": 1, "snapshot_time": "2020-01-01"}, "snapshot_version or snapshot_time, not both"),
        ({"snapshot_version": "1"}, "snapshot_version takes a whole number from 0 on, not '1'"),
        ({"snapshot_version": True}, "snapshot_version takes a whole number"),
        ({"snapshot_version": -1}, "snapshot_version takes a whole number from 0 on, not -1"),
        ({"snapshot_version": 2**70}, "snapshot_version takes a whole number"),
        ({"snapshot_time": "yesterday"}, "snapshot_time 'yesterday' is not a time: write it like"),
        ({"snapshot_time": 5}, "snapshot_time takes a text or a datetime, not 5"),
        ({"read_only": True, "create_if_not_exists": True}, "create_if_not_exists contradicts read_only"),
        ({"snapshot_version": 0, "create_if_not_exists": True}, "contradicts snapshot_version"),
        ({"snapshot_time": "2020-01-01", "create_if_not_exists": True}, "contradicts snapshot_time"),
        ({"read_only": "no"}, "read_only takes True or False, not 'no'"),
        ({"encrypted": 1}, "encrypted takes True or False, not 1"),
        ({"override_data_path": True}, "override_data_path needs data_path"),
        ({"data_path": 5}, "data_path takes a text or a path, not 5"),
        ({"data_path": b"x"}, "data_path takes a text or a path"),
        ({"data_path": " "}, "data_path takes the path of a folder or bucket"),
        ({"data_path": "a\0b"}, "data_path takes the path"),
        ({"name": 5}, "name takes a text, not 5"),
        ({"name": ""}, "name takes a text that is not empty"),
        ({"metadata_schema": 1.5}, "metadata_schema takes a text"),
        ({"metadata_schema": "other"}, "SQLite has no schemas"),
        ({"metadata_path": "x.db"}, "in the attach string or as metadata_path, not both"),
        ({"metadata_parameters": ["x"]}, "metadata_parameters takes a dict"),
        ({"metadata_parameters": {"a": "b"}}, r"sqlite catalog takes no metadata_parameters \(a\)"),
        ({"meta_secret": "b"}, r"sqlite catalog takes no metadata_parameters \(secret\)"),
        ({"metadata_parameters": {"a": "b"}, "meta_a": "c"}, '"a" stands in metadata_parameters and comes as "meta_a"'),
        ({"busy_timeout": -1}, "busy_timeout takes a whole number from 0 on"),
        ({"busy_timeout": "5s"}, "busy_timeout takes a whole number"),
        ({"max_retry_count": 0}, "max_retry_count takes a whole number from 1 on"),
        ({"retry_wait_ms": "long"}, "retry_wait_ms takes a number"),
        ({"retry_backoff": -1}, "retry_backoff takes a number from 0 on"),
        ({"data_inlining_row_limit": -1}, "data_inlining_row_limit"),
        ({"data_inlining_row_limit": "many"}, "data_inlining_row_limit"),
        ({"write_deletion_vectors": "maybe"}, "write_deletion_vectors takes True or False"),
    ],
)  # fmt: skip
def test_attach_names_the_parameter_that_is_wrong(
    parameters: dict[str, Any], words: str, make_location: Callable[[str], str], tmp_path: Path
) -> None:
    uri = make_location("sqlite")
    given = {"data_path": tmp_path / "data"} | parameters
    if "override_data_path" in parameters:
        del given["data_path"]
    with pytest.raises(InvalidInputError, match=words):
        attach(uri, **given)
    if "data_inlining_row_limit" not in parameters:
        assert not (tmp_path / "lake.sqlite").exists(), "nothing is made before the parameters are checked"


@pytest.mark.parametrize("uri", [None, 5, b"ducklake:x.db", ["x.db"], "", "ducklake:", "delta:x.db"])
def test_attach_takes_an_attach_string(uri: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"ducklake:"):
        attach(uri)


@pytest.mark.parametrize("kind", KINDS)
def test_the_data_path_must_be_the_lakes_own(
    kind: str, make_location: Callable[[str], str], tmp_path: Path
) -> None:
    uri = make_location(kind)
    own, other = tmp_path / "own", tmp_path / "other"
    attach(uri, data_path=own).close()
    with pytest.raises(
        InvalidInputError, match=r'data_path ".*other/" does not match .*own/.*override_data_path=True'
    ):
        attach(uri, data_path=other)
    with attach(uri, data_path=f"{own}//") as lake:
        assert lake.data_path == f"{own}/"
    with attach(uri, data_path=other, override_data_path=True) as lake:
        assert lake.data_path == f"{other}/"
    with attach(uri) as lake:
        assert lake.data_path == f"{own}/", "the lake itself was not changed"


def test_encrypted_is_decided_when_the_lake_is_made(
    make_location: Callable[[str], str], tmp_path: Path
) -> None:
    uri = make_location("sqlite")
    attach(uri, data_path=tmp_path).close()
    with pytest.raises(InvalidInputError, match=r"encrypted=True contradicts the lake at .*encrypted=False"):
        attach(uri, encrypted=True)


@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_that_are_not_there(kind: str, make_location: Callable[[str], str], tmp_path: Path) -> None:
    uri = make_location(kind)
    with attach(uri, data_path=tmp_path) as lake:
        lake.create_schema("s")
        for call in (lambda: lake.at(version=7), lambda: lake.at(version=-1), lambda: lake.at(version=2**62)):
            with pytest.raises(SnapshotNotFoundError, match="the lake has versions 0 to 1"):
                call()
        with pytest.raises(SnapshotNotFoundError, match="No snapshot found at timestamp 1990-01-01"):
            lake.at(timestamp="1990-01-01")
        with pytest.raises(SnapshotNotFoundError, match="-infinity"):
            lake.at(timestamp="-infinity")
        assert lake.at(timestamp="infinity").version == 1
    with pytest.raises(SnapshotNotFoundError, match="version 7"):
        attach(uri, snapshot_version=7)
    with pytest.raises(SnapshotNotFoundError, match="1990-01-01"):
        attach(uri, snapshot_time=datetime(1990, 1, 1))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "a version or a timestamp"),
        ({"version": 1, "timestamp": "2020-01-01"}, "and not both"),
        ({"version": "1"}, "version takes a whole number, not '1'"),
        ({"version": 1.0}, "version takes a whole number"),
        ({"version": 2**63}, "version"),
        ({"timestamp": "soon"}, "timestamp 'soon' is not a time"),
        ({"timestamp": 20200101}, "timestamp takes a text or a datetime"),
        ({"timestamp": "0044-03-15 (BC)"}, "out of range: give a year"),
    ],
)
def test_at_names_what_is_wrong(lake: Lake, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidInputError, SnapshotNotFoundError), match=words):
        lake.at(**parameters)


# --- secrets ------------------------------------------------------------------------------------------------


def assert_silent(error: BaseException, records: list[logging.LogRecord], secret: str) -> None:
    assert isinstance(error, DuckLakeError)
    shown = "".join(traceback.format_exception(error))
    shown = "".join(line for line in shown.splitlines(keepends=True) if "test_bad_input" not in line)
    assert secret not in shown + repr(error) + str(error.args)
    assert not any(secret in record.getMessage() for record in records)


@pytest.mark.parametrize(
    "wrong", ["wr0ngSecret", "wr0ng Secr'et\\", "wr0ngSécret💥", "%41wr0ngSecret", "wr0ng@Secret/x"]
)
def test_a_wrong_password_is_not_repeated(
    wrong: str,
    postgres_server: PostgresServer,
    mysql_server: MySQLServer,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    libpq = wrong.replace("\\", "\\\\").replace("'", "\\'")
    mysql = wrong.replace("\\", "\\\\")
    for uri in (
        f"ducklake:postgres:host=127.0.0.1 port={postgres_server.port} user=lake password='{libpq}' dbname=postgres",
        f"ducklake:postgres:postgresql://lake:{wrong}@127.0.0.1:{postgres_server.port}/postgres",
        f'ducklake:mysql:host=127.0.0.1 port={mysql_server.port} user=lake password="{mysql}" database=mysql',
        f"ducklake:mysql://lake:{wrong}@127.0.0.1:{mysql_server.port}/mysql",
    ):
        with pytest.raises((CatalogConnectionError, InvalidInputError)) as caught:
            attach(uri, data_path=tmp_path)
        for piece in (wrong, "ecret", "Secr", "écret"):
            assert_silent(caught.value, caplog.records, piece)
    given = {"metadata_parameters": {"password": wrong}, "data_path": tmp_path}
    for kind, port, key in (
        ("postgres", postgres_server.port, "dbname"),
        ("mysql", mysql_server.port, "database"),
    ):
        with pytest.raises(CatalogConnectionError, match=r"password=\*\*\*.*cannot be opened") as caught:
            attach(f"ducklake:{kind}:host=127.0.0.1 port={port} user=lake {key}={kind}", **given)
        assert_silent(caught.value, caplog.records, wrong)


@pytest.mark.parametrize(("kind", "secret"), [("postgres", PASSWORD), ("mysql", MYSQL_PASSWORD)])
def test_the_right_password_is_not_shown_either(
    kind: str,
    secret: str,
    make_location: Callable[[str], str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with attach(make_location(kind), data_path=tmp_path) as lake:
        assert secret not in repr(lake) + repr(vars(lake)) + repr(lake._scope.store) + repr(
            lake._scope.store.location
        )
        for statement in ("SELECT nope FROM nope", "SELECT 'x"):
            with pytest.raises(CatalogError) as caught:
                lake._scope.store.query(statement)
            assert_silent(caught.value, caplog.records, secret)
        lake.close()
        with pytest.raises(ClosedError) as closed:
            lake.tables()
        assert_silent(closed.value, caplog.records, secret)
    with pytest.raises(InvalidInputError) as wrong_path:
        attach(str(make_location(kind)))
    assert_silent(wrong_path.value, caplog.records, secret)


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda lake: lake["order"], r'no table "order" in schema "main"\. Did you mean "orders"'),
        (lambda lake: lake["one"], 'Did you mean "sales.one"'),
        (lambda lake: lake["sale.one"], r'no schema "sale" in the lake\. Did you mean "sales"'),
        (lambda lake: lake["v"], '"main"."v" is a view, not a table'),
        (lambda lake: lake.view("orders"), '"main"."orders" is a table, not a view'),
        (lambda lake: lake.view("vv"), 'no view "vv"'),
        (lambda lake: lake.drop_table("ordres"), 'Did you mean "orders"'),
        (lambda lake: lake.drop_table("v"), "is a view, not a table"),
        (lambda lake: lake.drop_table("v", if_exists=True), "is a view, not a table"),
        (lambda lake: lake.drop_view("orders", if_exists=True), "is a table, not a view"),
        (lambda lake: lake.drop_schema("sale"), 'Did you mean "sales"'),
        (lambda lake: lake.drop_macro("add2"), r'no macro "add2" in schema "main"\. Did you mean "add1"'),
        (lambda lake: lake.drop_macro("add1", table=True), 'no table macro "add1"'),
        (lambda lake: lake.create_table("shop.t", {"a": "int"}), 'no schema "shop"'),
        (lambda lake: lake["orders"].drop_column("idd"), r'Table "orders" has no column "idd"\. Did you mean "id"'),
        (lambda lake: lake["orders"].add_column("stt.y", "int"), 'Did you mean "st"'),
        (lambda lake: lake["orders"].drop_column("st.xx"), 'Column "st" of table "orders" has no field "xx"'),
        (lambda lake: lake["orders"].drop_column("id.x"), 'Column "id" of table "orders" has no fields'),
        (lambda lake: lake["orders"].rename_column("nope", "x"), 'no column "nope"'),
        (lambda lake: lake["orders"].set_type("nope", "int"), 'no column "nope"'),
        (lambda lake: lake["orders"].set_default("nope", 1), 'no column "nope"'),
        (lambda lake: lake["orders"].set_not_null("nope"), 'no column "nope"'),
        (lambda lake: lake["orders"].set_comment("c", column="nope"), 'no column "nope"'),
        (lambda lake: lake["orders"].set_partitioned_by("regoin"), 'no column "regoin"'),
        (lambda lake: lake["orders"].set_sorted_by("lower(nope)"), 'no column "nope"'),
        (lambda lake: lake.create_table("t", "a INT", not_null=["b"]), 'not_null names a column "b"'),
        (lambda lake: lake.create_table("t", "abc INT", defaults={"abd": 1}), 'Did you mean "abc"'),
        (lambda lake: lake.set_option("target_filesize", "1MB"), 'Did you mean "target_file_size"'),
        (lambda lake: lake.get_option("nope"), 'There is no option "nope".*Options are auto_compact'),
        (lambda lake: lake.set_option("auto_compact", True, schema="sale"), 'Did you mean "sales"'),
        (lambda lake: lake.set_option("auto_compact", True, table="ordrs"), 'Did you mean "orders"'),
        (lambda lake: lake.tables("sale"), 'Did you mean "sales"'),
        (lambda lake: lake.metadata("ducklake_tabel"), 'Did you mean "ducklake_table"'),
    ],
)  # fmt: skip
def test_unknown_names_come_with_near_ones(lake: Lake, call: Callable[[Lake], object], words: str) -> None:
    before = lake.version
    with pytest.raises(NotFoundError, match=words):
        call(lake)
    assert lake.version == before


@pytest.mark.parametrize(
    "call",
    [
        lambda lake: lake.create_schema("sales"),
        lambda lake: lake.create_schema("SALES"),
        lambda lake: lake.create_table("Orders", {"a": "int"}),
        lambda lake: lake.create_table("v", {"a": "int"}),
        lambda lake: lake.create_table("v", {"a": "int"}, or_replace=True),
        lambda lake: lake.create_view("orders", "SELECT 1"),
        lambda lake: lake.create_view("orders", "SELECT 1", or_replace=True),
        lambda lake: lake.create_view("V", "SELECT 1"),
        lambda lake: lake.create_macro("ADD1", "1"),
        lambda lake: lake["orders"].rename("V"),
        lambda lake: lake.rename_view("v", "Orders"),
        lambda lake: lake["orders"].add_column("ID", "int"),
        lambda lake: lake["orders"].add_column("st.X", "int"),
        lambda lake: lake["orders"].rename_column("id", "AT"),
        lambda lake: lake.create_table("t", [("a", "int"), ("A", "int")]),
    ],
)
def test_taken_names(lake: Lake, call: Callable[[Lake], object]) -> None:
    with pytest.raises(AlreadyExistsError, match="already"):
        call(lake)


NOT_NAMES: list[Any] = ["", None, 5, b"t", 1.5, [], (), ("main", ""), ("main", 5), {"main": "t"}, ".", "a.", ".a", "a..b",
                        '"a', '"a"b', '""', "`a", "a.b.c.d", "no.such.lake"]  # fmt: skip


@pytest.mark.parametrize("name", NOT_NAMES, ids=repr)
def test_what_is_no_name(lake: Lake, name: Any) -> None:
    for call in (
        lambda: lake[name],
        lambda: lake.create_table(name, {"a": "int"}),
        lambda: lake.drop_table(name),
        lambda: lake.create_view(name, "SELECT 1"),
        lambda: lake.drop_macro(name),
    ):
        with pytest.raises(InvalidInputError, match=r"name|parts"):
            call()


@pytest.mark.parametrize("name", ["", None, 5, b"t", "a\0b", "half \ud83d"], ids=repr)
def test_names_that_no_database_keeps(lake: Lake, name: Any) -> None:
    orders = lake["orders"]
    for call in (
        lambda: lake.create_schema(name),
        lambda: lake.create_table(("main", name), {"a": "int"}),
        lambda: lake.create_table("t", {name: "int"}),
        lambda: lake.create_table("t", [(name, "int")]),
        lambda: lake.create_view(("main", name), "SELECT 1"),
        lambda: lake.create_view("w", "SELECT 1", [name]),
        lambda: orders.rename(name),
        lambda: orders.add_column((name,), "int"),
        lambda: orders.add_column(("st", name), "int"),
        lambda: orders.rename_column("id", name),
        lambda: orders.rename_column("st.x", name),
        lambda: lake.rename_view("v", name),
    ):
        with pytest.raises(InvalidInputError, match=r"name|takes a list of texts"):
            call()


@pytest.mark.parametrize("text", [5, b"x", "a\0b", "half \ud83d"], ids=repr)
def test_texts_that_no_database_keeps(lake: Lake, text: Any) -> None:
    orders = lake["orders"]
    for call in (
        lambda: orders.set_comment(text),
        lambda: orders.set_comment(text, column="id"),
        lambda: lake.comment_view("v", text),
        lambda: lake.create_table("t", {"a": "int"}, comment=text),
        lambda: lake.create_view("w", "SELECT 1", comment=text),
        lambda: lake.transaction(author=text).__enter__(),
        lambda: lake.transaction(message=text).__enter__(),
        lambda: lake.transaction(extra_info=text).__enter__(),
        lambda: lake.create_view("w", text),
        lambda: lake.create_macro("w", text),
        lambda: lake.create_macro("w", "1", [text]),
        lambda: lake.create_view("w", text, dialect="duckdb"),
        lambda: orders.set_sorted_by(text),
        lambda: orders.set_default("id", Expression(text)),
    ):
        with pytest.raises(InvalidInputError):
            call()
    assert lake.tables() == ["main.orders", "sales.one"]
    with lake.transaction():
        pass


WEIRD = [
    'quo"te', "apos'trophe", "dot.ted", "com,ma", "semi;colon", "back`tick", "back\\slash", "per%cent%s", "quest?ion", "colon:name",
    "  spaces around ", "new\nline", "tab\t", "🦆 duck 🦆", "Ünïcödé", "数据", "a" * 200, "ß" * 100, "select", "NULL", "{DUCKLAKE_CATALOG}",
    "--comment", "/*", "$1", "%(x)s", "created_table:\"a\".\"b\",", "main", "ducklake_table", "0", "-1", "a/../b", "é", "e\u0301", "İ", "K",
]  # fmt: skip


def test_weird_names_are_kept_as_they_are(any_lake: Lake) -> None:
    lake = any_lake
    before = lake.version
    with lake.transaction():
        for name in WEIRD:
            if name != "main":
                lake.create_schema(name)
            table = lake.create_table(
                (name, name), {name: "int", f"{name} 2": f"struct({quoted(name)} int)"}, comment=name
            )
            table.add_column((f"{name} 2", f"{name} 3"), "int")
            table.set_comment(name, column=(name,))
            lake.create_view((name, f"{name} v"), "SELECT 1", [name])
            lake.set_option("target_file_size", "1MB", table=(name, name))
    assert lake.version == before + 1
    fresh = ducklake_spark.Lake(Scope(lake._scope.store, lake._scope.config, type(lake._scope.cache)()))
    for name in WEIRD:
        table = fresh[name, name]
        assert (table.schema_name, table.name, table.comment) == (name, name, name)
        assert table.columns == [name, f"{name} 2"]
        assert table.definition.columns[0].comment == name
        assert [child.name for child in table.definition.columns[1].children] == [name, f"{name} 3"]
        assert fresh.view((name, f"{name} v")).column_aliases == (name,)
        assert fresh.get_option("target_file_size", table=(name, name)) == "1000000"
        assert fresh[f"{quoted(name)}.{quoted(name)}"].name == name
    assert set(WEIRD) <= set(fresh.schemas())
    with fresh.transaction():
        for name in WEIRD:
            fresh[name, name].rename_column((name,), "plain")
            fresh[name, name].rename(f"{name} renamed")
    with fresh.transaction():
        for name in WEIRD:
            assert fresh[name, f"{name} renamed"].columns[0] == "plain"
            fresh.drop_schema(name, cascade=True)
    assert set(fresh.schemas()).isdisjoint(WEIRD)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_case_is_that_of_ascii_only(any_lake: Lake) -> None:
    lake = any_lake
    for name in (
        "Ä",
        "ä",
        "É",
        "é",
        "İ",
        "i",
        "\u212a",
        "k",
        "ﬀ",
        "ff",
        "SS",
        "ß",
    ):  # \u212a is the Kelvin sign
        lake.create_table(name, {"a": "int"}, comment=name)
    assert [lake[name].comment for name in ("Ä", "ä", "I", "K", "\u212a", "ss", "ß", "FF")] == [
        "Ä", "ä", "i", "k", "\u212a", "SS", "ß", "ff",
    ]  # fmt: skip
    table = lake.create_table(
        "columns", {"ä": "int", "Ä": "int", "a": "int", "á": "int", "ı": "int", "I": "int"}
    )
    with pytest.raises(AlreadyExistsError):
        table.add_column("A", "int")
    table.rename_column("A", "Å")
    table.drop_column("i")
    assert lake["COLUMNS"].columns == ["ä", "Ä", "Å", "á", "ı"]
    with pytest.raises(AlreadyExistsError):
        lake.create_table("É", {"a": "int"})


def test_names_in_a_turkish_database(postgres_server: PostgresServer, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(postgres_server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE turkish TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR'"
        )
    with psycopg.connect(postgres_server.conninfo("turkish")) as connection:
        [(lower,)] = connection.execute("SELECT lower('I')").fetchall()
    assert lower == "ı"
    with attach(f"ducklake:postgres:{postgres_server.conninfo('turkish')}", data_path=tmp_path) as lake:
        lake.create_table("IDS", {"ID": "int"})
        lake.create_view("IVIEW", "SELECT 1")
        assert lake["ids"].name == "IDS"
        assert lake.view("iview").name == "IVIEW"
        with pytest.raises(AlreadyExistsError):
            lake.create_table("ids", {"a": "int"})


def test_wide_tables(any_lake: Lake) -> None:
    """More columns than the databases put into one table: the table is not inlined then, and exists."""
    lake = any_lake
    lake.create_table("wide", {f"a column with a name of some length {n}": "varchar" for n in range(2500)})
    assert len(lake["wide"].columns) == 2500
    lake["wide"].add_column("b", "int")
    assert len(lake["wide"].columns) == 2501


RESERVED = [
    "row_id",
    "BEGIN_SNAPSHOT",
    "end_snapshot",
    "_ducklake_internal_row_id",
    "_DuckLake_internal_snapshot_id",
]


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_names(lake: Lake, name: str) -> None:
    for call in (
        lambda: lake.create_table("t", {name: "int"}),
        lambda: lake["orders"].add_column(name, "int"),
        lambda: lake["orders"].rename_column("id", name),
    ):
        with pytest.raises(
            InvalidInputError,
            match=rf'"{name}" is reserved by DuckLake.*set_option\("data_inlining_row_limit", 0\)',
        ):
            call()
    lake["orders"].add_column(("st", name), "int")
    lake.set_option("data_inlining_row_limit", 0)
    lake.create_table("t", {name: "int"})
    with pytest.raises(InvalidInputError, match=f'table "t" has a column "{name}"'):
        lake.set_option("data_inlining_row_limit", 10)
    lake.set_option("data_inlining_row_limit", 10, table="orders")


# --- types, columns and defaults ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ENUM('a', 'b')", 'no type "ENUM"; use "varchar"'),
        ("INT[3]", r"no arrays of fixed size; use a list \(`\[\]`\) instead of `\[3\]`"),
        ("UNION(a INT, b VARCHAR)", 'no type "UNION"; use a struct'),
        ("BIT", 'use "blob"'),
        ("BIGNUM", 'use "int128"'),
        ("VARCHAR COLLATE nocase", "no collations"),
        ("void", "give the column a type"),
        ("intger", r'no type "intger" \(Did you mean "(u?integer|bigint|uinteger)'),
        ("nosuchtype", 'the format has no type "nosuchtype"'),
        ("decimal(39,1)", "1 to 38 digits"),
        ("decimal(5,6)", "1 to 38 digits"),
        ("decimal(0)", "1 to 38 digits"),
        ("decimal(5,-1)", "unexpected '-'"),
        ("decimal(99999999999999999999999)", "unexpected"),
        ("struct()", "at least one field"),
        ("struct(a)", "expected a type name"),
        ("struct(a int, A int)", 'two fields named "A"'),
        ("struct(a int", r"expected \) or >, found the end"),
        ("list", r"expected \( or <"),
        ("map(int)", "expected ,"),
        ("int int", "unexpected 'int'"),
        ("int; drop table t", "unexpected ';'"),
        ("", "expected a type name, found the end"),
        ("struct(a ENUM('x'))[]", 'no type "ENUM"'),
        (5, "5 is not a type: give a text such as 'bigint', or a Spark type"),
        (None, "None is not a type"),
        (int, "is not a type"),
    ],
)  # fmt: skip
def test_bad_types(lake: Lake, given: Any, words: str) -> None:
    for call in (
        lambda: lake.create_table("t", {"a": given}),
        lambda: lake.create_table("t", [("a", given)]),
        lambda: lake["orders"].add_column("a", given),
        lambda: lake["orders"].set_type("id", given),
    ):
        with pytest.raises(InvalidInputError, match=words):
            call()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("", "at least one column"),
        ({}, "at least one column"),
        ([], "at least one column"),
        (None, 'schema of table "t": give a dict'),
        (5, 'schema of table "t": give a dict'),
        (["a", "b"], "give a dict"),
        ([("a", "int", 3)], "give a dict"),
        ({1: "int"}, "has 1 for a name"),
        ("a", "expected a type name"),
        ("a INT b INT", "B cannot stand here"),
        ("a INT DEFAULT 5", "DEFAULT cannot stand here; give defaults as defaults="),
        ("a INT PRIMARY KEY", "the format has no keys"),
        ("a INT NOT", "expected null"),
        ("a INT,", "with at least one column"),
    ],
)
def test_bad_schemas(lake: Lake, schema: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        lake.create_table("t", schema)


def test_contradictory_creation(lake: Lake) -> None:
    both = {"if_not_exists": True, "or_replace": True}
    with pytest.raises(InvalidInputError, match="if_not_exists or with or_replace, not with both"):
        lake.create_table("t", {"a": "int"}, **both)
    with pytest.raises(InvalidInputError, match="not with both"):
        lake.create_view("w", "SELECT 1", **both)
    with pytest.raises(InvalidInputError, match="not with both"):
        lake.create_macro("w", "1", **both)


@pytest.mark.parametrize(
    ("column", "type_", "words"),
    [
        ("id", "int", "from BIGINT to INTEGER: only promotions that keep every value"),
        ("id", "varchar", "only promotions"),
        ("n", "decimal(4,2)", "only promotions"),
        ("n", "decimal(38,0)", "only promotions"),
        ("at", "int", "only promotions"),
        ("st", "int", "nested column keeps its kind"),
        ("id", "int[]", "nested column keeps its kind"),
        ("l", "struct(q int)", "nested column keeps its kind"),
        ("st", "struct(x tinyint)", 'Cannot change column "x"'),
        ("l", "struct(q varchar)[]", 'Cannot change column "q"'),
        ("m", "map(int, int)", 'Cannot change column "key"'),
    ],
)
def test_promotions_that_lose_data(lake: Lake, column: str, type_: str, words: str) -> None:
    before = lake["orders"].definition
    with pytest.raises(TypeChangeError, match=words):
        lake["orders"].set_type(column, type_)
    assert lake["orders"].definition == before


def test_the_last_column_and_the_last_field_stay(lake: Lake) -> None:
    with pytest.raises(DependencyError, match=r'only column of table "one". Drop the table instead'):
        lake["sales.one"].drop_column("only")
    with pytest.raises(DependencyError, match=r'"st.x" of table "orders".*Drop the column "st" instead'):
        lake["orders"].drop_column("st.x")
    with pytest.raises(DependencyError, match=r'Drop the column "l.element" instead'):
        lake["orders"].drop_column("l.element.q")
    for part in ("l.element", "m.key", "m.value"):
        with pytest.raises(TypeChangeError, match="only a struct has fields that can be"):
            lake["orders"].drop_column(part)
    with pytest.raises(TypeChangeError, match=r'Its element is reached as "l\.element"'):
        lake["orders"].add_column("l.w", "int")
    with pytest.raises(TypeChangeError, match=r'Its value is reached as "m\.value"'):
        lake["orders"].add_column("m.w", "int")


def test_columns_that_specifications_need(lake: Lake) -> None:
    orders = lake["orders"]
    with pytest.raises(DependencyError, match=r"is partitioned by it. Call reset_partitioned_by\(\)"):
        orders.drop_column("at")
    with pytest.raises(DependencyError, match=r"is sorted by it. Call reset_sorted_by\(\)"):
        orders.drop_column("n")
    with pytest.raises(DependencyError, match=r"partitioned by year\(at\), which that type does not have"):
        orders.set_type("at", "json")
    orders.set_type("at", "timestamp")
    orders.set_sorted_by("abs(id)", "coalesce(n, 0)")
    with pytest.raises(DependencyError, match="sorted by it"):
        orders.drop_column("id")
    orders.reset_sorted_by()
    orders.reset_partitioned_by()
    orders.drop_column("n")
    orders.drop_column("at")


def test_schemas_that_are_not_empty(lake: Lake) -> None:
    with pytest.raises(
        DependencyError, match=r'it holds table "one". Drop them first, or drop with cascade=True'
    ):
        lake.drop_schema("sales")
    with pytest.raises(DependencyError, match=r'table "orders", view "v", macro "add1"'):
        lake.drop_schema("main")


@pytest.mark.parametrize(
    ("type_", "default", "words"),
    [
        ("tinyint", 300, "default '300' of column \"a\" is not a TINYINT"),
        ("tinyint", "x", "is not a TINYINT"),
        ("date", "2020-13-01", "is not a DATE"),
        ("int[]", [1], "the format has none for list columns"),
        ("struct(x int)", {"x": 1}, "none for struct columns"),
        ("int", object(), "Use a plain value or an Expression"),
        ("int", Expression("1 +"), 'the default of column "a"'),
        ("int", Expression(""), "it is empty"),
        ("int", Expression("1, 2"), "must be one expression"),
        ("int", Expression("1) , (2"), 'the default of column "a"'),
        ("int", Expression("(SELECT 1)"), "subqueries"),
        ("int", Expression("other_column"), "column names"),
        ("int", Expression("sum(1)"), "aggregates"),
        ("int", Expression("nope()"), "nope does not exist"),
        ("tinyint", Expression("300"), "is not a TINYINT"),
        ("int", Expression("?"), "default"),
    ],
)
def test_bad_defaults(lake: Lake, type_: str, default: Any, words: str) -> None:
    for call in (
        lambda: lake.create_table("t", {"a": type_}, defaults={"a": default}),
        lambda: lake["orders"].add_column("a", type_, default=default),
    ):
        with pytest.raises(InvalidInputError, match=words):
            call()
    lake.create_table("t", {"a": type_})
    with pytest.raises(InvalidInputError, match=words):
        lake["t"].set_default("a", default)
    with pytest.raises(InvalidInputError, match="defaults takes a dict"):
        lake.create_table("u", {"a": "int"}, defaults=[1])  # type: ignore[arg-type]


def test_what_fields_cannot_have(lake: Lake) -> None:
    orders = lake["orders"]
    for call, words in (
        (lambda: orders.set_default("st.x", 1), "only columns of the table have one"),
        (lambda: orders.set_not_null("st.x"), "only columns of the table have it"),
        (lambda: orders.set_comment("c", column="st.x"), "only columns of the table have comments"),
        (lambda: orders.add_column("st.y", "int", not_null=True), "Only columns of a table can be NOT NULL"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            call()


# --- rows of the extension ----------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
@pytest.mark.parametrize("limit", [0, 10], ids=["files", "inlined"])
def test_not_null_looks_at_rows_of_the_extension(
    kind: str, limit: int, make_location: Callable[[str], str], oracle: Oracle, tmp_path: Path
) -> None:
    uri = make_location(kind)
    oracle.attach(uri, data_path=str(tmp_path / "data"), data_inlining_row_limit=limit)
    oracle.execute("CREATE TABLE t(full_ INT, holes INT, spans INTERVAL, st STRUCT(x INT))")
    oracle.execute("INSERT INTO t VALUES (1, NULL, NULL, NULL), (2, 3, INTERVAL 1 DAY, {'x': 1})")
    oracle.execute("CREATE TABLE empty_(a INT)")
    oracle.detach()
    with attach(uri) as lake:
        for column in ("holes", "spans", "st"):
            with pytest.raises(
                ConstraintError, match=f'column "{column}" of table "t".*Replace the NULLs first'
            ):
                lake["t"].set_not_null(column)
        lake["t"].set_not_null("full_")
        lake["empty_"].set_not_null("a")
        with pytest.raises(ConstraintError, match=r"would be NULL in it\. Give a default, or allow NULL"):
            lake["t"].add_column("new", "int", not_null=True)
        lake["t"].add_column("new", "int", not_null=True, default=7)
        with pytest.raises(InvalidInputError, match="Add the column without a default, then set the default"):
            lake["t"].add_column("random_", "double", default=Expression("random()"))
        lake["empty_"].add_column("random_", "double", default=Expression("random()"))
    oracle.attach(uri)
    assert oracle.execute("SELECT full_, new FROM t ORDER BY 1") == [(1, 7), (2, 7)]
    with pytest.raises(Exception, match="NOT NULL constraint failed"):
        oracle.execute("INSERT INTO t(full_) VALUES (NULL)")


# --- specifications and options -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("truncate(3, id)", 'no transform "truncate".*It has year, month, day, hour and bucket'),
        ("bukcet(3, id)", 'Did you mean "bucket"'),
        ("bucket(0, id)", "with N from 1 to 2147483647"),
        ("bucket(2147483648, id)", "with N from 1 to"),
        ("bucket(-1, id)", "with N from 1 to"),
        ("bucket(x, id)", "with N from 1 to"),
        ("bucket(², id)", "with N from 1 to"),
        ("bucket(4)", "names no column"),
        ("year()", "names no column"),
        ("", "names no column"),
        ("year(id)", "the column is BIGINT, and only dates and times have a year"),
        ("hour(n)", "only dates and times have a hour"),
        ("st.x", "not a field of one"),
        ("year(st.x)", "not a field of one"),
    ],
)
def test_bad_partition_keys(lake: Lake, key: str, words: str) -> None:
    before = lake["orders"].definition
    with pytest.raises(InvalidInputError, match=words):
        lake["orders"].set_partitioned_by(key)
    with pytest.raises(InvalidInputError, match=words):
        lake.create_table("t", "id BIGINT, st STRUCT(x INT), n DECIMAL(5,2)", partitioned_by=[key])
    assert lake["orders"].definition == before
    assert "t" not in lake


def test_partition_keys_that_make_no_sense_together(lake: Lake) -> None:
    with pytest.raises(InvalidInputError, match='by "id" twice'):
        lake["orders"].set_partitioned_by("id", "ID")
    with pytest.raises(InvalidInputError, match=r"by nothing: give a key, or call reset_partitioned_by\(\)"):
        lake["orders"].set_partitioned_by()
    with pytest.raises(InvalidInputError, match="takes a list of texts"):
        lake["orders"].set_partitioned_by(5)  # type: ignore[arg-type]
    lake["orders"].set_partitioned_by("id", "bucket(4, id)", "bucket(8, id)", "year(at)", "month(at)")
    assert lake.create_table("t", "region VARCHAR", partitioned_by="region").partitioned_by == ["region"]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("sum(id)", "aggregate"),
        ("row_number() OVER ()", "window function"),
        ("(SELECT 1)", "cannot hold a query"),
        ("*", "name the columns"),
        ("orders.id", "not qualified ones or fields"),
        ("st.x", "not qualified ones or fields"),
        ("unnest(l)", "UNNEST"),
        ("id + st", "No function matches|Binder Error"),
        ("lowr(id)", "lowr does not exist"),
        ("id, n", "must be one expression"),
        ("id DESC NULLS SOMEWHERE", "the sort key"),
        ("id; DROP TABLE orders", "the sort key"),
        ("?", "parameter"),
        ("", "the sort key"),
        ("id COLLATE nocase", "collations are only supported for type varchar"),
    ],
)
def test_bad_sort_keys(lake: Lake, key: str, words: str) -> None:
    before = lake["orders"].definition
    with pytest.raises(InvalidInputError, match=words):
        lake["orders"].set_sorted_by(key)
    assert lake["orders"].definition == before


def test_sort_keys_that_are_good(lake: Lake) -> None:
    lake["orders"].set_sorted_by("id", "add1(id)", "st DESC", "random()", "abs(n) NULLS FIRST")
    with pytest.raises(InvalidInputError, match=r"by nothing: give a key, or call reset_sorted_by\(\)"):
        lake["orders"].set_sorted_by()


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("data_inlining_row_limit", [-1, "x", 1.5, True, None, 2**64, "", "²"]),
        ("parquet_compression", ["lzo", 5, None, ""]),
        ("parquet_compression_level", [-1, "abc", None, 23, True, 1.5]),
        ("parquet_version", [3, 0, "V3", None]),
        ("parquet_row_group_size", [0, -5, None]),
        ("parquet_row_group_size_bytes", ["0", "1 XB", "", ".", "-1MB", "1..5MB", None, True, "9999999TB"]),
        ("target_file_size", ["0", "ten", "-1MB", None, "1e3"]),
        ("hive_file_pattern", ["yes", 2, None, ""]),
        ("auto_compact", [None, "x"]),
        ("rewrite_delete_threshold", [1.5, -0.1, "abc", float("nan"), None, True]),
        ("delete_older_than", ["abc", None, object()]),
    ],
)
def test_bad_option_values(lake: Lake, option: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidInputError, match=f'Cannot set option "{option}" to .*it takes'):
            lake.set_option(option, value)
        with pytest.raises(InvalidInputError, match=f'Cannot set option "{option}" to'):
            lake["orders"].set_option(option.upper(), value)
    assert lake.get_option(option) is None


@pytest.mark.parametrize("option", ["version", "created_by", "data_path", "encrypted"])
def test_options_that_are_fixed(lake: Lake, option: str) -> None:
    with pytest.raises(InvalidInputError, match=f'Cannot set option "{option}": it is fixed'):
        lake.set_option(option, "1.1")


def test_a_commit_message_can_be_required(any_lake: Lake) -> None:
    any_lake.set_option("require_commit_message", True)
    with pytest.raises(TransactionError, match=r"lake\.transaction\(author=\.\.\., message=\.\.\.\)"):
        any_lake.create_schema("s")
    with any_lake.transaction(message="needed"):
        any_lake.create_schema("s")
    assert "s" in any_lake.schemas()


# --- views and macros ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda lake: lake.create_view("w", "SELECT FROM WHERE", dialect="duckdb"), 'the query of view "w"'),
        (lambda lake: lake.create_view("w", "SELECT ((("), "Cannot read"),
        (lambda lake: lake.create_view("w", ""), "Cannot read|one statement"),
        (lambda lake: lake.create_view("w", "SELECT 1; SELECT 2"), "one statement"),
        (lambda lake: lake.create_view("w", "DROP TABLE orders"), 'the query of view "w"'),
        (lambda lake: lake.create_view("w", "SELECT 1", dialect="oracle"), 'dialect is "spark" or "duckdb", not "oracle"'),
        (lambda lake: lake.create_view("w", "SELECT 1, 2", ["a", "A"]), 'two columns named "'),
        (lambda lake: lake.create_macro("w", "a +", ["a"]), "Cannot read"),
        (lambda lake: lake.create_macro("w", "a", ["a", "A"]), "two parameters named"),
        (lambda lake: lake.create_macro("w", "a", [""]), "macro parameter"),
        (lambda lake: lake.create_macro("w", "a", ["a NOTYPE"]), 'no type "NOTYPE"'),
        (lambda lake: lake.create_macro("w", "a", ["a := random()"]), "must be a number or a string"),
        (lambda lake: lake.create_macro("w", "DROP TABLE orders", table=True), "the macro"),
    ],
)  # fmt: skip
def test_bad_views_and_macros(lake: Lake, call: Callable[[Lake], object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call(lake)
    assert (lake.views(), lake.macros()) == (["main.v"], ["main.add1"])


# --- read-only, closed, transactions ------------------------------------------------------------------------

CHANGES: list[Callable[[Lake], object]] = [
    lambda lake: lake.create_schema("new"),
    lambda lake: lake.drop_schema("sales", cascade=True),
    lambda lake: lake.create_table("t", {"a": "int"}),
    lambda lake: lake.drop_table("orders"),
    lambda lake: lake["orders"].add_column("a", "int"),
    lambda lake: lake["orders"].rename("o"),
    lambda lake: lake.create_view("w", "SELECT 1"),
    lambda lake: lake.comment_view("v", "c"),
    lambda lake: lake.create_macro("m", "1"),
    lambda lake: lake.set_option("parquet_version", 2),
    lambda lake: lake.transaction().__enter__(),
]


@pytest.mark.parametrize("kind", KINDS)
def test_read_only_lakes_refuse_every_change(
    kind: str, make_location: Callable[[str], str], tmp_path: Path
) -> None:
    uri = make_location(kind)
    with attach(uri, data_path=tmp_path) as lake:
        fill(lake)
        views = [lake.at(version=1)]
        for view in views:
            for change in CHANGES:
                with pytest.raises(
                    ReadOnlyError, match="read-only at version 1: nothing in it can be changed"
                ):
                    change(view)
    for parameters in ({"read_only": True}, {"snapshot_version": 1}, {"snapshot_time": "infinity"}):
        with attach(uri, **parameters) as lake:
            assert lake.read_only
            for change in CHANGES:
                with pytest.raises(
                    ReadOnlyError, match="Attach it without read_only, snapshot_version and snapshot_time"
                ):
                    change(lake)
            assert (lake.version, lake.tables()) == (1, ["main.orders", "sales.one"])


def test_a_closed_lake_says_so(any_lake: Lake) -> None:
    table, view = any_lake["orders"], any_lake.at(version=1)
    any_lake.close()
    any_lake.close()
    assert "closed" in repr(any_lake)
    reads: list[Callable[[Lake], object]] = [
        lambda lake: lake.tables(),
        lambda lake: lake["orders"],
        lambda lake: "orders" in lake,
        lambda lake: lake.version,
        lambda lake: lake.at(version=0),
        lambda lake: lake.get_option("parquet_version"),
        lambda lake: lake.set_commit_message("a", "b"),
    ]
    for use in [*CHANGES, *reads]:
        with pytest.raises(ClosedError, match=r'"lake" was closed. Attach it again'):
            use(any_lake)
    with pytest.raises(ClosedError):
        view.tables()
    with pytest.raises(ClosedError):
        table.add_column("a", "int")
    with pytest.raises(ClosedError):
        _ = table.columns


def test_a_lake_closed_inside_a_transaction_commits_nothing(
    make_location: Callable[[str], str], tmp_path: Path
) -> None:
    uri = make_location("sqlite")
    lake = attach(uri, data_path=tmp_path)
    with pytest.raises(ClosedError), lake.transaction():
        lake.create_schema("s")
        lake.close()
    with attach(uri) as again:
        assert again.schemas() == ["main"]


def test_transactions_are_not_nested(any_lake: Lake) -> None:
    with any_lake.transaction():
        any_lake.create_schema("outer")
        with pytest.raises(TransactionError, match=r"cannot be nested. Make the changes in the running one"):
            any_lake.transaction().__enter__()
        any_lake.create_schema("outer2")
    assert {"outer", "outer2"} <= set(any_lake.schemas())


def test_commit_messages_belong_to_transactions(lake: Lake) -> None:
    with pytest.raises(TransactionError, match=r"use it inside `with lake\.transaction\(\):`"):
        lake.set_commit_message("me", "why")


class Boom(Exception):
    pass


def test_an_exception_rolls_back_everything(any_lake: Lake) -> None:
    lake = any_lake
    before = (
        lake.version,
        lake.schemas(),
        lake.tables(),
        lake.views(),
        lake.macros(),
        lake["orders"].definition,
    )
    handle = lake["orders"]
    with pytest.raises(Boom), lake.transaction(message="never"):
        for change in CHANGES[:-1]:
            if change not in (CHANGES[3], CHANGES[1]):
                change(lake)
        handle = lake["o"]
        handle.rename("orders2")
        handle.set_partitioned_by("id")
        assert lake.get_option("parquet_version") == "V2"
        lake.drop_schema("sales", cascade=True)
        raise Boom
    assert (
        lake.version, lake.schemas(), lake.tables(), lake.views(), lake.macros(), lake["orders"].definition
    ) == before  # fmt: skip
    assert lake.get_option("parquet_version") is None
    assert repr(handle) == "Table(main.o)", "as it was when the handle was made"
    lake.create_schema("works")


def test_a_handle_goes_back_with_its_transaction(lake: Lake) -> None:
    orders = lake["orders"]
    with pytest.raises(Boom), lake.transaction():
        orders.rename("a")
        orders.rename("b")
        assert orders.columns[0] == "id"
        raise Boom
    assert orders.columns[0] == "id"
    with lake.transaction():
        orders.rename("c")
    assert orders.name == "c" and orders.columns[0] == "id"


def test_a_failed_statement_leaves_the_transaction_usable(any_lake: Lake) -> None:
    lake = any_lake
    failing: list[Callable[[], object]] = [
        lambda: lake.create_schema("new"),
        lambda: lake.create_table("new.t", "a INT, a INT"),
        lambda: lake.create_table("new.t", {"a": "int"}, partitioned_by=["nope"]),
        lambda: lake.create_table("orders", {"a": "nope"}, or_replace=True),
        lambda: lake.create_table("orders", {"a": "int"}, or_replace=True, sorted_by=["nope"]),
        lambda: lake["orders"].drop_column("at"),
        lambda: lake["orders"].set_type("id", "tinyint"),
        lambda: lake["orders"].add_column("x", "tinyint", default=300),
        lambda: lake.create_view("w", "SELECT", or_replace=True),
        lambda: lake.create_view("v", "SELECT 1, 2", ["a", "a"], or_replace=True),
        lambda: lake.create_macro("add1", "1 +", or_replace=True),
        lambda: lake.drop_schema("sales"),
        lambda: lake.set_option("parquet_version", 9),
        lambda: lake["nope"],
    ]
    with lake.transaction(message="all the rest"):
        lake.create_schema("new")
        seen = (lake.schemas(), lake.tables(), lake.views(), lake.macros(), lake["orders"].definition)
        for fails in failing:
            with pytest.raises(DuckLakeError):
                fails()
            assert (
                lake.schemas(),
                lake.tables(),
                lake.views(),
                lake.macros(),
                lake["orders"].definition,
            ) == seen
        lake.create_table("new.t", {"a": "int"})
    assert lake["new.t"].columns == ["a"]
    assert lake.version == 2


def test_a_folder_that_may_not_be_written_is_found_at_once(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    (tmp_path / "mine").mkdir(mode=0o777)
    (tmp_path / "mine").chmod(0o777)
    script = (
        "import os, sys, ducklake_spark as d\n"
        "d.attach(sys.argv[1] + '/first.ducklake').close()  # all is imported\n"
        "if os.getuid() == 0:\n    os.setuid(65534)\n"
        "else:\n    os.chmod(sys.argv[1], 0o555)\n"
        "for options in ({'data_path': sys.argv[1] + '/data'}, {}):\n"
        "    try:\n        d.attach(sys.argv[1] + '/mine/a.ducklake', **options).close()\n        print('attached')\n"
        "    except d.FileError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True)
    tmp_path.chmod(0o755)
    assert done.stderr == ""
    refused, attached = done.stdout.splitlines()
    assert f'this process may not write in "{tmp_path}"' in refused
    assert attached == "attached"
