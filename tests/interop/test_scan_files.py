"""Files that are gone or damaged: the error names the table, the file and the snapshot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scan.lakes import Lake

pytestmark = pytest.mark.spark
MakeLake = Callable[..., Lake]


def vanish(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def spoil(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-4] + b"oops")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (vanish, "is gone"),
        (truncate, "is damaged"),
        (grow, "is damaged"),
        (spoil, "does not end like a Parquet file"),
    ],
)
def test_a_data_file(make_lake: MakeLake, harm: Callable[[Path], None], says: str) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(a INTEGER)",
        "INSERT INTO t SELECT i FROM range(100) r(i)",
        "INSERT INTO t SELECT i FROM range(100, 200) r(i)",
    )
    (file,) = [Path(path) for (path,) in lake.ask("SELECT DISTINCT filename FROM t WHERE a >= 100")]
    harm(file)
    frame = lake.read("t")
    with pytest.raises(Exception, match=says) as raised:
        frame.count()
    assert "lake.main.t at snapshot 3" in str(raised.value) and file.name in str(raised.value)
    # What does not need the file can still be read.
    assert frame.where("a < 100").count() == 100
    assert lake.read("t", 2).count() == 100


def test_a_delete_file(make_lake: MakeLake, tmp_path: Path) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(a INTEGER)",
        "INSERT INTO t SELECT i FROM range(100) r(i)",
        "DELETE FROM t WHERE a < 50",
    )
    (file,) = tmp_path.rglob("*-delete.parquet")
    file.unlink()
    with pytest.raises(Exception, match="is gone") as raised:
        lake.read("t").count()
    assert "lake.main.t at snapshot 3" in str(raised.value) and file.name in str(raised.value)
