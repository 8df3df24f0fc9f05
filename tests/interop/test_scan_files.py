"""Files that are gone or damaged: the error names the table, the file and the snapshot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from ducklake_spark.errors import FileError
from ducklake_spark.spark.file_index import read_bytes
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
        frame.collect()
    assert "lake.main.t at snapshot 3" in str(raised.value) and file.name in str(raised.value)
    # What does not need the file can still be read.
    assert frame.where("a < 100").count() == 100
    assert lake.read("t", 2).count() == 100


def test_no_setting_of_the_session_leaves_out_a_file(make_lake: MakeLake) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write("CREATE TABLE t(a INTEGER)", "INSERT INTO t SELECT i FROM range(1000) r(i)")
    [(file,)] = lake.ask("SELECT DISTINCT filename FROM t")
    whole = Path(file).read_bytes()
    Path(file).write_bytes(whole[:20] + bytes(1000) + whole[1020:])
    settings = [f"spark.sql.files.ignore{files}Files" for files in ("Corrupt", "Missing")]
    for setting in settings:
        lake.spark.conf.set(setting, "true")
    try:
        with pytest.raises(FileError, match="cannot be read"):
            lake.read("t").collect()
        planned = lake.read("t")._jdf.queryExecution().toRdd()
        Path(file).unlink()
        with pytest.raises(FileError, match="is gone"):
            planned.count()
    finally:
        for setting in settings:
            lake.spark.conf.unset(setting)


@pytest.mark.parametrize("way", ["reader", "bits", "join"])
@pytest.mark.parametrize(("harm", "says"), [(vanish, "is gone"), (truncate, "is damaged")])
def test_a_delete_file(
    make_lake: MakeLake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    harm: Callable[[Path], None],
    says: str,
) -> None:
    if way == "bits":
        monkeypatch.setattr("ducklake_spark.scan.read.leaves_out_rows", lambda _: False)
    if way == "join":
        monkeypatch.setattr("ducklake_spark.scan.deletion_bitmap._MAX_POSITIONS", -1)
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CREATE TABLE t(a INTEGER)",
        "INSERT INTO t SELECT i FROM range(100) r(i)",
        "DELETE FROM t WHERE a < 50",
    )
    (file,) = tmp_path.rglob("*-delete.parquet")
    harm(file)
    frame = lake.read("t")
    with pytest.raises(Exception, match=says) as raised:
        frame.collect()
    assert "lake.main.t at snapshot 3" in str(raised.value) and file.name in str(raised.value)


@pytest.mark.parametrize(
    ("content", "says"), [(b"PAR1 nothing PAR1", "cannot be read"), (None, "names row 999999999999")]
)
def test_a_delete_file_of_nonsense(
    make_lake: MakeLake, tmp_path: Path, content: bytes | None, says: str
) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write("CREATE TABLE t AS SELECT i FROM range(100) r(i)", "DELETE FROM t WHERE i < 50")
    (file,) = tmp_path.rglob("*-delete.parquet")
    if content is None:
        pyarrow.parquet.write_table(pyarrow.table({"pos": [999_999_999_999]}), file)
    else:
        file.write_bytes(content)
    with lake.store.begin() as session:
        session.execute(f"UPDATE ducklake_delete_file SET file_size_bytes = {file.stat().st_size}")
    with pytest.raises(Exception, match=says) as raised:
        lake.read("t").collect()
    assert "lake.main.t at snapshot" in str(raised.value) and file.name in str(raised.value)


def test_a_deletion_vector(make_lake: MakeLake, tmp_path: Path) -> None:
    lake = make_lake(data_inlining_row_limit=0)
    lake.write(
        "CALL lake.set_option('write_deletion_vectors', true)",
        "CREATE TABLE t AS SELECT i FROM range(100) r(i)",
        "DELETE FROM t WHERE i < 50",
    )
    (file,) = tmp_path.rglob("*.puffin")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    frame = lake.read("t")
    with pytest.raises(Exception, match="damaged") as raised:
        frame.collect()
    assert file.name in str(raised.value)
    file.unlink()
    frame = lake.read("t")
    with pytest.raises(Exception, match="No such file") as raised:
        frame.collect()
    assert "lake.main.t at snapshot 2" in str(raised.value) and file.name in str(raised.value)


def test_bytes_come_through_hadoop(make_lake: MakeLake, tmp_path: Path) -> None:
    lake, file = make_lake(), tmp_path / "a b%20.bin"
    file.write_bytes(bytes(range(256)))
    assert read_bytes(lake.spark, f"file:{file}") == bytes(range(256))
    with pytest.raises(OSError, match=r"nothing\.here"):
        read_bytes(lake.spark, f"file:{tmp_path}/nothing.here")
