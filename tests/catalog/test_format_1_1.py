"""Format 1.1, in catalogs made by the migration that is known of it: no extension that writes it can be had.

The judge is the extension of 1.0 all the same: a catalog that is taken back to 1.0 shows it the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ducklake_spark
from ducklake_spark import InvalidInputError, ReadOnlyError
from ducklake_spark.catalog.location import parse_location
from ducklake_spark.catalog.open import open_store
from ducklake_spark.catalog.store import Store
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.errors import CatalogError
from ducklake_spark.format.versions import PLAIN, PREFIXED
from tests.interop.oracle import Oracle, OracleError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ["duckdb", "sqlite", "postgres", "mysql"]
INLINED = "SELECT table_name FROM ducklake_inlined_data_tables ORDER BY table_name"


def columns(store: Store) -> dict[str, list[str]]:
    """The columns of all tables of a catalog."""
    names = sorted(store.table_names())
    return {name: [str(row[0]) for row in store.query(store.columns_sql, (name,))] for name in names}


@pytest.fixture
def open_catalog() -> Iterator[Callable[[str], Store]]:
    opened: list[Store] = []

    def opens(uri: str) -> Store:
        opened.append(open_store(parse_location(uri)))
        return opened[-1]

    yield opens
    for store in opened:
        store.close()


def version(store: Store) -> str:
    return str(store.query("SELECT value FROM ducklake_metadata WHERE \"key\" = 'version'")[0][0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_lake_is_what_the_migration_makes(
    kind: str,
    make_location: Callable[[str], str],
    open_catalog: Callable[[str], Store],
    tmp_path: Path,
) -> None:
    migrated, made = make_location(kind), make_location(kind)
    if made == migrated:
        made = made.replace(f"lake.{kind}", f"new.{kind}")
    found = []
    for uri in (migrated, made):
        wanted = {} if uri == migrated else {"ducklake_version": "1.1"}
        with ducklake_spark.attach(uri, data_path=tmp_path / "data", **wanted) as lake:
            lake.create_table("t", {"i": "int", "s": "varchar"})
            lake["t"].insert([(1, "a"), (2, "b")])
    ducklake_spark.attach(migrated, automatic_migration=True, ducklake_version="1.1").close()
    for uri in (migrated, made):
        store = open_catalog(uri)
        found.append((version(store), columns(store)))

    assert found[0] == found[1]
    assert found[0][0] == "1.1"
    assert found[0][1]["ducklake_data_file"][-2:] == ["partial_max", "row_group_count"]
    assert found[0][1]["ducklake_delete_file"][-2:] == ["partial_max", "row_group_count"]
    assert found[0][1]["ducklake_inlined_data_1_1"] == [*PREFIXED.all, "i", "s"]


def script(lake: ducklake_spark.Lake) -> None:
    """Changes of every kind that touches inlined rows and files."""
    table = lake["t"]
    table.insert([(3, "c"), (4, "d")])
    table.delete("i = 1")
    table.update({"s": "'x'"}, "i = 2")
    lake.sql("INSERT INTO u SELECT id, CAST(id AS STRING) FROM range(30)")
    lake["u"].delete("i < 3")
    lake["old"].insert([(7,)])
    lake["old"].truncate()
    lake.sql("DROP VIEW v")
    table.add_column("more", "bigint")
    table.insert([(5, "e", 1)])
    lake.flush_inlined_data(table="t")
    table.insert([(6, "f", 2)])


def as_1_0(store: Store) -> None:
    """The described migration, backwards."""
    with store.begin() as session:
        for (name,) in session.query(INLINED):
            for old, new in zip(PREFIXED.all, PLAIN.all, strict=True):
                if old in [row[0] for row in session.query(store.columns_sql, (name,))]:
                    session.create_table(f'ALTER TABLE "{name}" RENAME COLUMN {old} TO {new}')
        for name in ("ducklake_data_file", "ducklake_delete_file"):
            session.create_table(f"ALTER TABLE {name} DROP COLUMN row_group_count")
        session.create_table("DROP TABLE ducklake_view_column_tag")
        session.execute("UPDATE ducklake_metadata SET value = '1.0' WHERE \"key\" = 'version'")


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_a_migrated_lake_reads_as_before_and_is_written_to(
    kind: str,
    oracle: Oracle,
    spark: SparkSession,
    make_location: Callable[[str], str],
    open_catalog: Callable[[str], Store],
    tmp_path: Path,
) -> None:
    uri = make_location(kind)
    oracle.attach(uri, data_path=str(tmp_path / "data"))
    oracle.execute("CREATE TABLE t(i INT, s VARCHAR); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (9, 'z')")
    oracle.execute("CREATE TABLE u(i BIGINT, s VARCHAR); CREATE TABLE old(i INT); INSERT INTO old VALUES (1)")
    oracle.execute("CREATE VIEW v AS SELECT i FROM t; DELETE FROM t WHERE i = 9")
    before = {at: rows(oracle, f"t AT (VERSION => {at})") for at in range(2, 8)}
    oracle.detach()

    with ducklake_spark.attach(uri, spark=spark, automatic_migration=True, ducklake_version="1.1") as lake:
        for at, wanted in before.items():
            assert mine(lake.table("t", version=at)) == wanted, at
        rename_back(lake)
        tag(lake)
        script(lake)
        found = {name: mine(lake.table(name)) for name in ("t", "u", "old")}
        last = lake.version
        history = {at: mine(lake.table("t", version=at)) for at in range(2, last + 1)}
        changes = mine(
            lake.table_changes("t", 0, last).select("snapshot_id", "rowid", "change_type", "i", "s")
        )
        tags = lake.metadata("ducklake_view_column_tag").collect()
        assert {row["view_id"]: row["end_snapshot"] is not None for row in tags} == {4: True, 77: False}
        assert lake.metadata("ducklake_data_file").columns[-1] == "row_group_count"
        assert lake["t"].history().count() > 5

    store = open_catalog(uri)
    as_1_0(store)
    store.close()
    oracle.attach(uri)
    for name, wanted in found.items():
        assert rows(oracle, name) == wanted, name
    for at, wanted in history.items():
        assert rows(oracle, f"t AT (VERSION => {at})") == wanted, at
    asked = f"SELECT snapshot_id, rowid, change_type, i, s FROM lake.table_changes('t', 0, {last})"
    assert sorted(map(str, oracle.execute(asked))) == changes


def rename_back(lake: ducklake_spark.Lake) -> None:
    """An inlined table as an unfinished migration leaves it: its names are read, not assumed."""
    store = scope_of(lake).store
    [(name,)] = store.query(
        "SELECT i.table_name FROM ducklake_inlined_data_tables i JOIN ducklake_table t ON t.table_id = i.table_id "
        "WHERE t.table_name = 'old'"
    )
    with store.begin() as session:
        for old, new in zip(PREFIXED.all, PLAIN.all, strict=True):
            session.create_table(f'ALTER TABLE "{name}" RENAME COLUMN {old} TO {new}')
    store.forget_connections()


def tag(lake: ducklake_spark.Lake) -> None:
    """A comment on a column of the view, and one of another view."""
    with scope_of(lake).store.begin() as session:
        session.insert(
            "ducklake_view_column_tag",
            [(view, "i", 7, None, "comment", "a number") for view in (4, 77)],
        )


def rows(oracle: Oracle, source: str) -> list[str]:
    return sorted(map(str, oracle.execute(f"FROM {source}")))


def mine(frame: Any) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


def test_names_that_1_1_takes_are_not_migrated(
    make_location: Callable[[str], str], open_catalog: Callable[[str], Store], tmp_path: Path
) -> None:
    uri = make_location("sqlite")
    with ducklake_spark.attach(uri, data_path=tmp_path / "data") as lake:
        lake.create_table("fine", {"i": "int"})
        lake.create_table("t", {"_ducklake_row_id": "int"})
    before = columns(open_catalog(uri))

    with pytest.raises(CatalogError, match=r'stays at format 1\.0.*"_ducklake_row_id".*Flush.*rename'):
        ducklake_spark.attach(uri, automatic_migration=True, ducklake_version="1.1")
    store = open_catalog(uri)
    assert (version(store), columns(store)) == ("1.0", before)


def test_names_are_free_that_1_0_takes(make_location: Callable[[str], str], tmp_path: Path) -> None:
    uri = make_location("sqlite")
    with ducklake_spark.attach(uri, data_path=tmp_path / "data", ducklake_version="1.1") as lake:
        lake.create_table("t", {"row_id": "int", "begin_snapshot": "int"})
        lake["t"].insert([(10, 20)])
        [(count,)] = scope_of(lake).store.query(
            "SELECT count(*) FROM ducklake_inlined_data_1_1 WHERE row_id = 10"
        )
        assert count == 1
        with pytest.raises(InvalidInputError, match='"_ducklake_row_id" is reserved'):
            lake.create_table("u", {"_ducklake_row_id": "int"})


def test_a_version_that_contradicts_the_lake(make_location: Callable[[str], str], tmp_path: Path) -> None:
    old, new = make_location("sqlite"), f"ducklake:sqlite:{tmp_path}/new.sqlite"
    ducklake_spark.attach(old, data_path=tmp_path / "data", ducklake_version="1.0").close()
    ducklake_spark.attach(new, data_path=tmp_path / "data", ducklake_version="1.1").close()
    with pytest.raises(
        InvalidInputError, match=r"1\.1 contradicts .* version 1\.0.*automatic_migration=True"
    ):
        ducklake_spark.attach(old, ducklake_version="1.1")
    with pytest.raises(
        InvalidInputError, match=r"1\.0 contradicts .* version 1\.1\. Leave the parameter out\."
    ):
        ducklake_spark.attach(new, ducklake_version="1.0", automatic_migration=True)
    with pytest.raises(InvalidInputError, match=r'ducklake_version takes "1\.0" or "1\.1", not \'1\.2\''):
        ducklake_spark.attach(new, ducklake_version="1.2")
    with pytest.raises(ReadOnlyError, match=r"does not migrate it to 1\.1"):
        ducklake_spark.attach(old, ducklake_version="1.1", automatic_migration=True, read_only=True)
    for uri in (old, new):  # each stays what it is
        ducklake_spark.attach(uri, automatic_migration=True).close()


def test_the_extension_refuses_1_1(
    oracle: Oracle, make_location: Callable[[str], str], tmp_path: Path
) -> None:
    uri = make_location("sqlite")
    ducklake_spark.attach(uri, data_path=tmp_path / "data", ducklake_version="1.1").close()
    with pytest.raises(OracleError, match=r"1\.1"):
        oracle.attach(uri)


# --- Partition transforms ---------------------------------------------------------------------------------------------

BEFORE = (
    datetime(1969, 12, 31, 23, 30),
    datetime(1970, 1, 2, 1, tzinfo=timezone(timedelta(hours=2))),
    date(1969, 12, 31),
)
AFTER = (datetime(2024, 5, 6, 7, 8), datetime(2024, 5, 6, 23, 59, tzinfo=timezone.utc), date(2024, 5, 6))
WANTED = [("-1", "0", "-1"), ("476383", "19849", "652")]
KEYS = ["epoch_hour(at)", "epoch_day(z)", "epoch_month(d)"]
COLUMNS = {"at": "timestamp", "z": "timestamptz", "d": "date"}


@pytest.mark.spark
@pytest.mark.parametrize("encoder", ["local", "spark"])
def test_rows_are_partitioned_by_units_since_1970(encoder: str, spark: SparkSession, tmp_path: Path) -> None:
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    with ducklake_spark.attach(uri, spark=spark, ducklake_version="1.1", data_inlining_row_limit=0) as lake:
        lake.create_table("t", COLUMNS, partitioned_by=KEYS)
        given = [BEFORE, AFTER, (None, None, None)]
        typed = spark.createDataFrame(given, "at timestamp_ntz, z timestamp, d date")
        lake["t"].insert(given if encoder == "local" else typed)
        store = scope_of(lake).store
        found: dict[int, list[str]] = {}
        for file_id, value in store.query(
            "SELECT data_file_id, partition_value FROM ducklake_file_partition_value ORDER BY 1, partition_key_index"
        ):
            found.setdefault(file_id, []).append(value)
        assert sorted(map(tuple, found.values()), key=str) == sorted([*WANTED, (None,) * 3], key=str)
        paths = [path for (path,) in store.query("SELECT path FROM ducklake_data_file")]
        assert any("epoch_hour=-1/epoch_day=0/epoch_month=-1/" in path for path in paths)
        assert mine(lake.table("t").select("at", "d")) == sorted(str((row[0], row[2])) for row in given)
        assert lake.sql("SELECT * FROM t WHERE at > '2000-01-01'").count() == 1
        assert "epoch_day" in str(lake.sql("SHOW CREATE TABLE t").collect())


def test_nanoseconds_are_floored_and_other_types_refused(tmp_path: Path) -> None:
    nanos = pa.array([-100, 1_000_000_000_000_000_100], pa.timestamp("ns"))
    with ducklake_spark.attach(
        f"ducklake:{tmp_path}/lake.ducklake", ducklake_version="1.1", data_inlining_row_limit=0
    ) as lake:
        lake.create_table("t", {"n": "timestamp_ns"}, partitioned_by=["epoch_hour(n)"])
        lake["t"].insert(pa.table({"n": nanos}))
        values = scope_of(lake).store.query(
            "SELECT partition_value FROM ducklake_file_partition_value ORDER BY 1"
        )
        assert values == [("-1",), ("277777",)]
        with pytest.raises(InvalidInputError, match="only dates and times have a epoch_day"):
            lake.create_table("u", {"i": "int"}, partitioned_by=["epoch_day(i)"])
    with (
        ducklake_spark.attach(f"ducklake:{tmp_path}/old.ducklake") as lake,
        pytest.raises(InvalidInputError, match=r"format 1\.0, and \"epoch_day\" came with 1\.1"),
    ):
        lake.create_table("u", {"i": "date"}, partitioned_by=["epoch_day(i)"])


def test_a_type_that_is_not_read_yet(tmp_path: Path) -> None:
    with ducklake_spark.attach(f"ducklake:{tmp_path}/lake.ducklake", ducklake_version="1.1") as lake:
        lake.create_table("t", {"n": "timestamp_ns"})
        lake.create_table("u", {"i": "int"})
        with scope_of(lake).store.begin() as session:
            session.execute(
                "UPDATE ducklake_column SET column_type = 'timestamptz_ns' WHERE column_name = 'n'"
            )
    with ducklake_spark.attach(f"ducklake:{tmp_path}/lake.ducklake") as lake:
        assert lake.tables() == ["main.t", "main.u"]
        lake["u"].insert([(1,)])
        with pytest.raises(InvalidInputError, match=r"timestamptz_ns.*format 1\.1.*not read"):
            lake["t"].insert([(None,)])
