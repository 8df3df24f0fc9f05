"""Lakes of format 0.1 to 0.4 become 1.0: as the extension does it, on every database, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ducklake_spark
from ducklake_spark import CatalogVersionError, ReadOnlyError
from ducklake_spark.catalog import migrate as migration
from ducklake_spark.catalog.location import parse_location
from ducklake_spark.catalog.open import open_store
from ducklake_spark.errors import CatalogError
from tests.catalog.old_lakes import VERSIONS, build
from tests.interop import catalogs
from tests.interop.oracle import Oracle

KINDS = ["duckdb", "sqlite", "postgres", "mysql"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_lake_is_refused_with_both_versions_and_the_way_out(
    make_location: Callable[[str], str], tmp_path: Path, version: str
) -> None:
    uri = make_location("sqlite")
    build(version, uri, tmp_path)
    with pytest.raises(
        CatalogVersionError,
        match=rf"{version}; this .* 1\.0 and 1\.1\..*automatic_migration=True to bring it to 1\.0",
    ):
        ducklake_spark.attach(uri)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_migrated_catalog_is_the_one_that_the_extension_makes(
    oracle: Oracle, make_location: Callable[[str], str], tmp_path: Path, version: str
) -> None:
    ours, theirs = (f"ducklake:{tmp_path}/{side}.ducklake" for side in ("ours", "theirs"))
    for uri in (ours, theirs):
        build(version, uri, tmp_path)
    oracle.attach(theirs, automatic_migration=True)
    oracle.detach()
    ducklake_spark.attach(ours, automatic_migration=True).close()

    catalogs.assert_same(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_snapshot_reads_as_before(
    oracle: Oracle, make_location: Callable[[str], str], tmp_path: Path, version: str, kind: str
) -> None:
    uri = make_location(kind)
    lake = build(version, uri, tmp_path)
    migrated = ducklake_spark.attach(uri, automatic_migration=True)
    assert migrated.table_info().count() == 3
    migrated.close()
    if kind == "mysql" and version != "0.4":
        return  # the extension cannot open it: it says so of every lake on MySQL that it did not just create

    oracle.attach(uri)
    for table, snapshots in lake["rows"].items():
        for snapshot, rows in snapshots.items():
            if table == "main.m" and snapshot == "17" and version != "0.4":
                continue  # rows that were merged: the old format's way of telling their snapshots is gone
            found = oracle.execute(f"SELECT * FROM {table} AT (VERSION => {snapshot})")
            assert sorted(map(str, found)) == rows, (table, snapshot)


@pytest.mark.parametrize("kind", KINDS)
def test_a_migrated_lake_is_written_to(
    make_location: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    uri = make_location(kind)
    build("0.1", uri, tmp_path)
    with ducklake_spark.attach(uri, automatic_migration=True) as lake:
        lake["t"].insert([{"i": 1, "s": "new"}])
        lake.create_schema("more")
        lake.create_table("more.u", {"a": "int"})
        keys = lake.metadata("ducklake_partition_column").collect()
        assert [row["column_id"] for row in keys] == [3]
    with ducklake_spark.attach(uri) as lake:  # and is 1.0 from then on
        assert lake.version == 23


def test_a_migration_that_fails_changes_nothing(
    make_location: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("duckdb", "sqlite", "postgres"):
        uri = make_location(kind)
        build("0.2", uri, tmp_path)
        before = _dump(uri)

        def fails(*_: Any) -> None:
            raise CatalogError("stopped")

        with monkeypatch.context() as patched:
            patched.setattr(migration._Migration, "_tell_schema_versions", fails)
            with pytest.raises(CatalogError, match="stopped"):
                ducklake_spark.attach(uri, automatic_migration=True)
        assert _dump(uri) == before, kind


def test_an_interrupted_migration_on_mysql_goes_on(
    make_location: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = make_location("mysql")
    build("0.1", uri, tmp_path)

    def fails(*_: Any) -> None:
        raise CatalogError("stopped")

    for step in ("fill_partial_files", "drop_columns", "_tell_schema_versions"):
        with monkeypatch.context() as patched:
            patched.setattr(migration._Migration, step, fails)
            with pytest.raises(CatalogError, match="stopped"):
                ducklake_spark.attach(uri, automatic_migration=True)
            with pytest.raises(CatalogVersionError):
                ducklake_spark.attach(uri)
    with ducklake_spark.attach(uri, automatic_migration=True) as lake:
        assert [row["column_id"] for row in lake.metadata("ducklake_partition_column").collect()] == [3]


def test_read_only_does_not_migrate(make_location: Callable[[str], str], tmp_path: Path) -> None:
    uri = make_location("sqlite")
    build("0.3", uri, tmp_path)
    with pytest.raises(ReadOnlyError, match=r"version 0\.3.*does not migrate it to 1\.0"):
        ducklake_spark.attach(uri, automatic_migration=True, read_only=True)


def _dump(uri: str) -> dict[str, list[Any]]:
    store = open_store(parse_location(uri))
    try:
        return {
            name: sorted(map(str, store.query(f'SELECT * FROM "{name}"')))
            for name in sorted(store.table_names())
        }
    finally:
        store.close()
