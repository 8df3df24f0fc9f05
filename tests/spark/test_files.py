"""Files on this machine without a JVM, and in another file system of Hadoop by the same calls."""

from __future__ import annotations

import os
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ducklake_spark.errors import FileError
from ducklake_spark.spark import files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = (
    "a.parquet",
    "b c%20d.parquet",
    "_hidden/x.parquet",
    "k=1/n=ü/y.parquet",
    "k=1/n=2/z.csv",
    ".dot/w.parquet",
)


@pytest.fixture(params=["local", "file:", pytest.param("hadoop", marks=pytest.mark.spark)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[SparkSession | None, str, Path]:
    """A session, a folder's URL with a `/` at the end, and the folder."""
    folder = tmp_path / "data"
    for number, name in enumerate(NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * (number + 1))
    if request.param == "local":
        return None, f"{folder}/", folder
    if request.param == "file:":
        return None, f"file://{folder}/", folder
    spark = request.getfixturevalue("spark")
    # Another scheme than file:, so that Hadoop is asked; another host for each test, because Hadoop keeps file systems
    host = f"files{uuid.uuid4().hex}"
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set(f"fs.viewfs.mounttable.{host}.link./mounted", f"file://{tmp_path}")
    return spark, f"viewfs://{host}/mounted/data/", folder


Place = tuple["SparkSession | None", str, Path]


def test_listing_finds_every_file_at_any_depth(place: Place) -> None:
    spark, root, folder = place
    stamp = datetime(2020, 5, 17, 12, 30, tzinfo=timezone.utc)
    os.utime(folder / "a.parquet", (stamp.timestamp(), stamp.timestamp()))

    found = {status.path: status for status in files.list_files(spark, root)}

    assert {path: status.size for path, status in found.items()} == {
        root + name: size for size, name in enumerate(NAMES, start=1)
    }
    assert found[root + "a.parquet"].modified == stamp
    assert {status.path for status in files.list_files(spark, root.rstrip("/"))} == set(found)
    assert list(files.list_files(spark, root + "nothing/here/")) == []


def test_patterns_name_files(place: Place) -> None:
    spark, root, _ = place

    def matches(pattern: str) -> list[str]:
        return [status.path.removeprefix(root) for status in files.glob_files(spark, root + pattern)]

    assert matches("*.parquet") == ["a.parquet", "b c%20d.parquet"]
    assert matches("a.parquet") == ["a.parquet"]
    assert matches("[ab].parquet") == ["a.parquet"]
    assert matches("[!a]*.parquet") == ["b c%20d.parquet"]
    assert matches("?.parquet") == ["a.parquet"]
    assert matches("k=*/*/*") == ["k=1/n=2/z.csv", "k=1/n=ü/y.parquet"]
    assert matches("**/*.parquet") == sorted(name for name in NAMES if name.endswith(".parquet"))
    assert matches("k=1/**") == ["k=1/n=2/z.csv", "k=1/n=ü/y.parquet"]
    assert matches("nothing*/x") == matches("nothing") == matches("k=1") == []


def test_statuses_leave_out_what_is_not_there(place: Place) -> None:
    spark, root, _ = place

    found = files.statuses(spark, [root + "k=1", root + "gone.parquet", root + NAMES[1], root + NAMES[0]])

    assert [(path, status.size) for path, status in found.items()] == [
        (root + NAMES[1], 2),
        (root + NAMES[0], 1),
    ]


def test_deleting_says_what_became_of_each_file(place: Place) -> None:
    spark, root, folder = place
    (folder / "empty").mkdir()

    assert files.delete_files(spark, [root + "gone.parquet", root + NAMES[1]]) == [root + NAMES[1]]
    result = files.delete_each(spark, [root + NAMES[0], root + NAMES[1], root + "k=1", root + "empty"])

    assert (result.deleted, result.missing) == ([root + NAMES[0]], [root + NAMES[1]])
    assert set(result.failed) == {root + "k=1", root + "empty"}
    with pytest.raises(FileError, match="k=1 cannot be deleted"):
        files.delete_files(spark, [root + "k=1"])
    assert (folder / "empty").is_dir() and (folder / NAMES[3]).exists() and not (folder / NAMES[0]).exists()


def test_many_files_are_more_than_a_batch(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, root, folder = place
    monkeypatch.setattr(files, "_BATCH", 3)
    monkeypatch.setattr(files, "_LISTED", 4)
    names = [f"many/{number}" for number in range(10)]
    (folder / "many").mkdir()
    for name in names:
        (folder / name).touch()

    assert {status.path for status in files.list_files(spark, root + "many")} == {
        root + name for name in names
    }
    assert files.delete_files(spark, (root + name for name in names)) == [root + name for name in names]
    assert list((folder / "many").iterdir()) == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.parquet").touch()
    (tmp_path / "data" / "folder").symlink_to(tmp_path / "other")
    (tmp_path / "data" / "b.parquet").symlink_to(tmp_path / "other" / "a.parquet")
    (tmp_path / "root").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "c.parquet").touch()

    assert [status.path for status in files.list_files(None, f"{tmp_path}/root")] == [
        f"{tmp_path}/root/c.parquet"
    ]
    assert files.delete_files(None, [f"{tmp_path}/data/b.parquet"]) == [f"{tmp_path}/data/b.parquet"]
    assert (tmp_path / "other" / "a.parquet").exists()


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FileError, match="file/ cannot be read: Not a directory"):
        list(files.list_files(None, f"{tmp_path}/file"))
