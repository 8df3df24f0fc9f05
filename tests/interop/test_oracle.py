"""The oracle answers, refuses, dies and comes back; and it lets go of files."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.interop.oracle import Oracle, OracleError


def test_it_is_the_reference_extension_in_the_version_we_follow(oracle: Oracle) -> None:
    assert oracle.execute("SELECT version()") == [("v1.5.5",)]
    assert oracle.execute(
        "SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'ducklake' AND loaded"
    ) == [("d8a1881e",)]


def test_rows_come_back_as_python_values(oracle: Oracle) -> None:
    rows = oracle.execute(
        "SELECT 1, 'a', 1.50::DECIMAL(5,2), TIMESTAMPTZ '2020-01-01 00:00:00+02', DATE '2020-01-02', "
        "[1, NULL], {'x': 1}, '\\xAA'::BLOB, UUID '00000000-0000-4000-8000-000000000000'"
    )

    assert rows == [
        (
            1,
            "a",
            decimal.Decimal("1.50"),
            datetime.datetime(2019, 12, 31, 22, tzinfo=datetime.timezone.utc),
            datetime.date(2020, 1, 2),
            [1, None],
            {"x": 1},
            b"\xaa",
            uuid.UUID("00000000-0000-4000-8000-000000000000"),
        )
    ]


def test_several_statements_give_the_rows_of_the_last(oracle: Oracle, tmp_path: Path) -> None:
    oracle.attach(f"ducklake:{tmp_path}/x.ducklake", data_path=f"{tmp_path}/data")

    assert oracle.execute("CREATE TABLE t(i INT); INSERT INTO t VALUES (1), (2)") == [(2,)]
    assert oracle.execute("SELECT i FROM t WHERE i > ?", [1]) == [(2,)]
    assert oracle.execute("CREATE SCHEMA s") == []


def test_options_reach_attach(oracle: Oracle, tmp_path: Path) -> None:
    oracle.attach(f"ducklake:{tmp_path}/it's.ducklake", "a lake", data_path=f"{tmp_path}/d", encrypted=None)
    oracle.execute("CREATE TABLE t(i INT)")
    oracle.detach()
    oracle.attach(f"ducklake:{tmp_path}/it's.ducklake", read_only=True)

    with pytest.raises(OracleError, match="read-only"):
        oracle.execute("INSERT INTO t VALUES (1)")


def test_an_error_carries_the_text_and_the_type(oracle: Oracle) -> None:
    with pytest.raises(OracleError, match=r"Table with name nothing does not exist") as caught:
        oracle.execute("SELECT * FROM nothing")

    assert caught.value.kind == "CatalogException"
    assert oracle.execute("SELECT 1") == [(1,)]


def test_detach_lets_another_process_open_the_catalog_file(oracle: Oracle, tmp_path: Path) -> None:
    file = tmp_path / "x.ducklake"
    oracle.attach(f"ducklake:{file}")
    oracle.execute("CREATE TABLE t(i INT); BEGIN; INSERT INTO t VALUES (1)")
    opening = [sys.executable, "-c", f"import duckdb; duckdb.connect({str(file)!r})"]
    assert subprocess.run(opening, capture_output=True).returncode != 0

    oracle.detach()

    assert subprocess.run(opening, capture_output=True).returncode == 0
    oracle.attach(f"ducklake:{file}")
    assert oracle.execute("SELECT count(*) FROM t") == [(0,)]


def test_reset_forgets_lakes_and_settings(oracle: Oracle, tmp_path: Path) -> None:
    settings = "SELECT current_setting('ducklake_max_retry_count'), current_setting('TimeZone')"
    oracle.attach(f"ducklake:{tmp_path}/x.ducklake")
    oracle.execute(
        "SET ducklake_max_retry_count = 3; SET TimeZone = 'Asia/Tokyo'; CREATE TEMP TABLE mine(i INT)"
    )

    oracle.reset()

    assert oracle.execute(settings) == [(10, "UTC")]
    assert oracle.execute("SHOW DATABASES") == [("memory",)]
    with pytest.raises(OracleError):
        oracle.execute("SELECT * FROM mine")


def test_it_comes_back_after_a_crash(tmp_path: Path) -> None:
    with Oracle() as oracle:
        oracle.attach(f"ducklake:{tmp_path}/x.ducklake")
        oracle.execute("CREATE TABLE t(i INT)")
        assert oracle._process is not None
        oracle._process.kill()

        with pytest.raises(OracleError, match="died: exit code -9") as caught:
            oracle.execute("SELECT 1")
        assert caught.value.kind == "Died"

        oracle.attach(f"ducklake:{tmp_path}/x.ducklake")
        assert oracle.execute("SELECT * FROM t") == []


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_every_file_catalog_can_be_made_and_read(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    oracle.attach(f"ducklake:{kind}:{tmp_path}/x.db", data_path=f"{tmp_path}/data")
    oracle.execute("CREATE TABLE t AS SELECT i FROM range(20) r(i)")

    assert oracle.execute("SELECT sum(i) FROM t") == [(190,)]
