"""The helper that compares catalogs: equal lakes are equal, and a difference says where it is."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop import catalogs
from tests.interop.oracle import Oracle

V4 = "0a1b2c3d-0000-4000-8000-000000000000"
V7 = "018f0000-0000-7000-8000-000000000000"

SCRIPT = """
    CREATE SCHEMA "we ird";
    CREATE TABLE t(i INTEGER, s VARCHAR DEFAULT 'a', b BOOLEAN, ts TIMESTAMPTZ, l INT[]);
    INSERT INTO t VALUES (1, 'x', true, '2020-01-01 00:00:00+00', [1]), (2, NULL, NULL, NULL, NULL);
    INSERT INTO t SELECT i, 's' || i, i > 5, TIMESTAMPTZ '2021-01-01 00:00:00+00', [i] FROM range(20) r(i);
    CREATE TABLE "we ird"."a,b" (x UUID);
    CREATE VIEW v AS SELECT i FROM t;
    ALTER TABLE t ADD COLUMN n DOUBLE;
    DELETE FROM t WHERE i = 7;
"""


def metadata(**values: str) -> list[catalogs.Row]:
    return [{"key": key, "value": value, "scope": None, "scope_id": None} for key, value in values.items()]


def make(oracle: Oracle, kind: str, folder: Path, script: str = SCRIPT, *, uri: str | None = None) -> str:
    uri = uri or f"ducklake:{kind}:{folder}/x.db"
    folder.mkdir()
    oracle.attach(uri, data_path=f"{folder}/data/")
    oracle.execute(script)
    oracle.detach()
    return uri


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_the_same_script_gives_the_same_catalog(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    a, b = (make(oracle, kind, tmp_path / name) for name in "ab")

    catalogs.assert_same(a, b)


# The extension can create a lake on MySQL, but then nearly every write fails.
@pytest.mark.parametrize(("kind", "script"), [("postgres", SCRIPT), ("mysql", "SELECT 1")])
def test_the_same_script_gives_the_same_catalog_on_a_server(
    oracle: Oracle, tmp_path: Path, make_location: Callable[[str], str], kind: str, script: str
) -> None:
    a, b = (make(oracle, kind, tmp_path / name, script, uri=make_location(kind)) for name in "ab")

    catalogs.assert_same(a, b)
    assert set(catalogs.TABLES) <= catalogs.dump(a).keys()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_two_kinds_of_databases_hold_the_same_rows(
    oracle: Oracle, tmp_path: Path, make_location: Callable[[str], str], kind: str
) -> None:
    # Without inlined lists and texts: SQLite has no lists, and PostgreSQL gets texts as bytes.
    script = """
        CREATE TABLE t(i INTEGER, s VARCHAR DEFAULT 'a', b BOOLEAN);
        INSERT INTO t VALUES (1, NULL, true), (2, NULL, NULL);
        INSERT INTO t SELECT i, 's' || i, i > 5 FROM range(20) r(i);
    """
    script = "SELECT 1" if kind == "mysql" else script
    a = make(oracle, "duckdb", tmp_path / "a", script)
    b = make(oracle, kind, tmp_path / "b", script, uri=make_location(kind))

    catalogs.assert_same(*(catalogs.rows_only(catalogs.dump(uri)) for uri in (a, b)))


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("COMMENT ON TABLE t IS 'c'", "ducklake_tag: only in the second catalog"),
        ("ALTER TABLE t ALTER s SET DEFAULT 'b'", "ducklake_column.end_snapshot: first None, second"),
        ("INSERT INTO t(i) VALUES (9)", "ducklake_inlined_data_2_5: only in the second catalog"),
        ("CREATE TABLE u(i INT)", "columns of ducklake_inlined_data_5_6: only in the second catalog"),
    ],
)
def test_a_changed_lake_is_different(
    oracle: Oracle, tmp_path: Path, kind: str, change: str, expected: str
) -> None:
    a, b = make(oracle, kind, tmp_path / "a"), make(oracle, kind, tmp_path / "b", SCRIPT + change)

    with pytest.raises(AssertionError) as caught:
        catalogs.assert_same(a, b)

    assert expected in str(caught.value)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_dump_has_all_tables_and_their_columns(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    catalog = catalogs.dump(make(oracle, kind, tmp_path / "a"))

    assert len(catalogs.TABLES) == 28
    assert set(catalogs.TABLES) <= catalog.keys()
    snapshot_id, snapshot_time, *_ = catalog["columns of ducklake_snapshot"]
    assert snapshot_id == {
        "position": 0,
        "column_name": "snapshot_id",
        "declared_type": "BIGINT",
        "not_null": True,
        "primary_key": True,
    }
    assert not snapshot_time["not_null"]
    inlined = sorted(table for table in catalog if table.startswith("ducklake_inlined_d"))
    assert inlined == [
        "ducklake_inlined_data_2_2",
        "ducklake_inlined_data_2_5",
        "ducklake_inlined_data_3_3",
        "ducklake_inlined_data_tables",
        "ducklake_inlined_delete_2",
    ]
    assert [row["column_name"] for row in catalog["columns of ducklake_inlined_data_2_5"]][-2:] == ["l", "n"]


def test_a_catalog_can_be_dumped_while_it_is_attached(oracle: Oracle, tmp_path: Path) -> None:
    oracle.attach(f"ducklake:{tmp_path}/x.ducklake")
    oracle.execute("CREATE TABLE t(i INT)")

    catalog = catalogs.dump(f"ducklake:{tmp_path}/x.ducklake")

    assert [row["table_name"] for row in catalog["ducklake_table"]] == ["t"]
    assert oracle.execute("INSERT INTO t VALUES (1)") == [(1,)]


def test_a_missing_file_is_not_an_empty_catalog(tmp_path: Path) -> None:
    for uri in (f"ducklake:{tmp_path}/no.ducklake", f"ducklake:sqlite:{tmp_path}/no.db"):
        with pytest.raises(FileNotFoundError):
            catalogs.dump(uri)
    assert list(tmp_path.iterdir()) == []


def test_uuids_keep_their_version_and_their_place() -> None:
    catalog: catalogs.Catalog = {
        "ducklake_table": [
            {"table_id": 1, "table_uuid": uuid.UUID(V7), "path": f"{V7}/"},
            {"table_id": 2, "table_uuid": V4, "path": f"{V7}/"},
        ],
        "ducklake_data_file": [{"path": f"a=1/ducklake-{V7}.parquet"}, {"path": None}],
    }

    assert catalogs.normalize(catalog) == {
        "ducklake_table": [
            {"table_id": 1, "table_uuid": "<uuid v7>", "path": "<own uuid v7>/"},
            {"table_id": 2, "table_uuid": "<uuid v4>", "path": "<uuid v7>/"},
        ],
        "ducklake_data_file": [{"path": None}, {"path": "a=1/ducklake-<uuid v7>.parquet"}],
    }


def test_times_keys_paths_and_creator_are_freed_of_chance() -> None:
    catalog: catalogs.Catalog = {
        "ducklake_metadata": metadata(version="1.0", created_by="DuckDB x", data_path="/tmp/x/"),
        "ducklake_snapshot": [{"snapshot_id": 0, "snapshot_time": "2026-11-15 06:34:42.35533+00"}],
        "ducklake_files_scheduled_for_deletion": [{"path": "/tmp/x/main/t/f", "schedule_start": None}],
        "ducklake_delete_file": [{"encryption_key": "a2V5"}, {"encryption_key": None}],
    }

    normal = catalogs.normalize(catalog)

    assert normal["ducklake_metadata"] == metadata(data_path="DATA/", version="1.0")
    assert normal["ducklake_snapshot"] == [{"snapshot_id": 0, "snapshot_time": "<time>"}]
    assert normal["ducklake_files_scheduled_for_deletion"] == [
        {"path": "DATA/main/t/f", "schedule_start": None}
    ]
    assert normal["ducklake_delete_file"] == [{"encryption_key": None}, {"encryption_key": "<key>"}]
    assert catalogs.normalize(normal) == normal


def test_an_option_of_a_table_is_not_taken_for_the_lakes_own() -> None:
    row = {"key": "created_by", "value": "x", "scope": "table", "scope_id": 1}

    assert catalogs.normalize({"ducklake_metadata": [row]}) == {"ducklake_metadata": [row]}


def test_booleans_are_the_same_over_databases() -> None:
    a: catalogs.Catalog = {"ducklake_column": [{"column_id": 1, "nulls_allowed": 1}]}
    b: catalogs.Catalog = {"ducklake_column": [{"column_id": 1, "nulls_allowed": True}]}

    catalogs.assert_same(a, b)


def test_users_uuids_in_inlined_rows_are_compared() -> None:
    a: catalogs.Catalog = {"ducklake_inlined_data_1_1": [{"row_id": 0, "x": uuid.UUID(V7)}]}
    b: catalogs.Catalog = {"ducklake_inlined_data_1_1": [{"row_id": 0, "x": V4}]}

    with pytest.raises(AssertionError, match=f"ducklake_inlined_data_1_1.x: first '{V7}', second '{V4}'"):
        catalogs.assert_same(a, b)


def test_one_wrong_value_is_one_line_that_names_it() -> None:
    columns = [
        {"column_id": i, "column_name": f"c{i}", "default_value": "NULL", "nulls_allowed": True}
        for i in range(5)
    ]
    changed = copy.deepcopy(columns)
    changed[3]["default_value"] = None

    assert list(catalogs.differences({"ducklake_column": columns}, {"ducklake_column": changed})) == [
        "ducklake_column.default_value: first 'NULL', second None   in the row "
        '{"column_id": 3, "column_name": "c3", "nulls_allowed": true}'
    ]


def test_a_missing_row_does_not_shift_the_others() -> None:
    rows = [{"table_id": 1, "column_id": i, "column_name": f"c{i}"} for i in range(5)]

    assert list(catalogs.differences({"ducklake_column": rows}, {"ducklake_column": rows[1:]})) == [
        'ducklake_column: only in the first catalog: {"table_id": 1, "column_id": 0, "column_name": "c0"}'
    ]


def test_ignored_columns_are_not_compared() -> None:
    a = {"ducklake_data_file": [{"file_size_bytes": 1, "path": "a"}, {"file_size_bytes": 2, "path": "b"}]}
    b = {"ducklake_data_file": [{"file_size_bytes": 9, "path": "a"}, {"file_size_bytes": 8, "path": "b"}]}

    catalogs.assert_same(a, b, ignore={"ducklake_data_file": ["file_size_bytes"]})
    catalogs.assert_same(a, b, ignore={"*": ["file_size_bytes"]})
    with pytest.raises(AssertionError, match="file_size_bytes"):
        catalogs.assert_same(a, b, ignore={"ducklake_delete_file": ["file_size_bytes"]})
