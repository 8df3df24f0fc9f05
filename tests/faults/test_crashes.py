"""Processes that die in a commit, and files that vanish, fill up or may not be written."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ducklake_spark
from ducklake_spark.errors import CatalogError
from tests.concurrency.invariants import assert_sound
from tests.faults import victim
from tests.interop import catalogs
from tests.interop.oracle import Oracle


def run(location: str, moment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, victim.__file__, location, moment], capture_output=True, text=True)


@pytest.mark.parametrize("moment", ["before the last row", "before COMMIT", "after COMMIT"])
def test_a_process_that_is_killed(moment: str, location: str, tmp_path: Path, oracle: Oracle) -> None:
    with ducklake_spark.attach(location, data_path=str(tmp_path)) as lake:
        lake.create_table("kept", {"a": "int"})

    assert run(location, moment).returncode == -signal.SIGKILL

    committed = moment == "after COMMIT"
    with ducklake_spark.attach(location) as lake:  # nobody has to clean up, and nobody waits
        assert lake.version == (2 if committed else 1)
        assert lake.tables() == (["main.kept", "main.t"] if committed else ["main.kept"])
        lake.create_table("t", {"a": "int"}, or_replace=True)
        lake["kept"].set_comment("still here")
        version = lake.version
    is_mysql = location.startswith("ducklake:mysql")
    assert_sound(catalogs.dump(location), leftovers=is_mysql)
    if not is_mysql:
        oracle.attach(location)
        assert oracle.execute("FROM lake.current_snapshot()") == [(version,)]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_full_disk(kind: str, make_location: Callable[[str], str], tmp_path: Path) -> None:
    location = make_location(kind)
    ducklake_spark.attach(location, data_path=str(tmp_path)).close()

    result = run(location, "a full disk")

    assert result.returncode == 0, result.stderr
    count, error, *_ = result.stdout.split()
    assert error == "CatalogError", result.stdout
    assert "disk I/O error" in result.stdout or "Could not write file" in result.stdout
    catalog = catalogs.dump(location)
    assert_sound(catalog)
    names = {row["table_name"] for row in catalog["ducklake_table"]}
    assert names == {"room", *(f"t{number}" for number in range(int(count)))}


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system with little room on it."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("this machine does not let us mount a small file system")
        yield Path(folder)
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_disk_that_is_really_full(kind: str, small_disk: Path) -> None:
    path, ballast = small_disk / "lake.db", small_disk / "ballast"
    with ducklake_spark.attach(f"ducklake:{kind}:{path}", data_path="data/") as lake:
        lake.create_table("t", {"a": "int"})
        _, _, free = shutil.disk_usage(small_disk)
        ballast.write_bytes(b"\0" * (free - 50_000))
        with pytest.raises(CatalogError, match=r"(?i)full|no space") as caught:
            for number in range(1000):
                lake.create_table(f"t{number}", {f"c{position}": "int" for position in range(20)})
        assert str(path) in str(caught.value)
        version = lake.version
        assert len(lake.tables()) == version
        ballast.unlink()
        lake.create_table("room", {"a": "int"})
        assert lake.version == version + 1
    assert_sound(catalogs.dump(f"ducklake:{kind}:{path}"))


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("loss", ["deleted", "replaced"])
def test_a_file_that_vanishes(kind: str, loss: str, tmp_path: Path) -> None:
    path = tmp_path / "lake.db"
    with ducklake_spark.attach(f"ducklake:{kind}:{path}", data_path="data/") as lake:
        lake.create_table("t", {"a": "int"})
        shutil.copy(path, tmp_path / "copy")
        os.replace(path, tmp_path / "moved")
        if loss == "replaced":
            os.replace(tmp_path / "copy", path)
        for use in (lake.tables, lambda: lake.version, lambda: lake.create_table("u", {"a": "int"})):
            with pytest.raises(CatalogError, match="moved, deleted or replaced"):
                use()
        os.replace(tmp_path / "moved", path)
        lake.create_table("u", {"a": "int"})
        assert lake.tables() == ["main.t", "main.u"]


UNWRITABLE = """
import os, sys
import ducklake_spark, ducklake_spark.catalog.sqlite  # before it may not read them any more
os.setgid(65534)
os.setuid(65534)
location, folder = sys.argv[1:]
lake = ducklake_spark.attach(location, data_path=folder + "/data")
lake.create_table("t", {"a": "int"})
os.chmod(folder, 0o555)
try:
    lake.create_table("u", {"a": "int"})
except ducklake_spark.CatalogError as error:
    print(error)
print(lake.tables())
os.chmod(folder, 0o755)
lake.create_table("v", {"a": "int"})
lake.close()
"""


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody who may not write")
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 65534, 65534)
        location = f"ducklake:sqlite:{folder}/lake.sqlite"
        result = subprocess.run(
            [sys.executable, "-c", UNWRITABLE, location, folder], capture_output=True, text=True, cwd="/"
        )
        assert result.returncode == 0, result.stderr
        error, tables = result.stdout.splitlines()
        assert "lake.sqlite refused a statement: attempt to write a readonly database" in error
        assert tables == "['main.t']"
        catalog = catalogs.dump(location)
        assert_sound(catalog)
        assert {row["table_name"] for row in catalog["ducklake_table"]} == {"t", "v"}
