"""Clean-up and orphans: the files that the extension deletes, and never one that is needed or not the lake's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ducklake_spark
from ducklake_spark import (
    DuckLakeError,
    FileError,
    InvalidInputError,
    Lake,
    ReadOnlyError,
    TransactionError,
    UnsafePathError,
)
from ducklake_spark.engine.maintenance import cleanup
from ducklake_spark.engine.scope import scope_of
from ducklake_spark.spark import files
from tests.interop import catalogs
from tests.interop.oracle import Oracle

FUTURE = "2100-01-01"
JOBS = ("cleanup_old_files", "delete_orphaned_files")
SCHEDULED = "ducklake_files_scheduled_for_deletion"


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def age(path: Path, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(path, (then, then), follow_symlinks=False)


# Beside the extension.


class Twins:
    """Two lakes with the same history and files, one for each of the two."""

    def __init__(self, oracle: Oracle, folder: Path) -> None:
        self.oracle, self.folder = oracle, folder
        self.added = folder / "outside" / "added.parquet"

    def build(self) -> None:
        (self.folder / "outside").mkdir()
        self.attach("made")
        for name in (self.added, self.folder / "made" / "data" / "inside.parquet"):
            name.parent.mkdir(parents=True, exist_ok=True)
            self.oracle.execute(f"COPY (SELECT 1 AS i) TO '{name}'")
        for statement in (
            "CREATE TABLE t(i INTEGER)",
            "INSERT INTO t SELECT i FROM range(20) r(i)",
            "INSERT INTO t SELECT i FROM range(20) r(i)",
            "DELETE FROM t WHERE i = 3",
            "DELETE FROM t WHERE i = 4",
            "CREATE TABLE u(i INTEGER)",
            f"CALL ducklake_add_data_files('lake', 'u', '{self.added}')",
            f"CALL ducklake_add_data_files('lake', 'u', '{self.folder}/made/data/inside.parquet')",
            "DROP TABLE u",
            "TRUNCATE t",
            "INSERT INTO t SELECT i FROM range(20) r(i)",
            f"CALL ducklake_expire_snapshots('lake', older_than => '{FUTURE}'::TIMESTAMPTZ)",
        ):
            self.oracle.execute(statement)
        self.oracle.detach()
        for name in ("ours", "theirs"):
            shutil.copytree(self.folder / "made", self.folder / name, symlinks=True)

    def uri(self, name: str) -> str:
        (self.folder / name).mkdir(exist_ok=True)
        return f"ducklake:{self.folder}/{name}/lake.ducklake"

    def attach(self, name: str) -> None:
        self.oracle.attach(
            self.uri(name),
            data_path=f"{self.folder}/{name}/data/",
            override_data_path=name != "made",
            data_inlining_row_limit=0,
        )

    def theirs(self, sql: str) -> list[str]:
        """Paths in an answer of the extension, below the data path where they are."""
        self.attach("theirs")
        rows = self.oracle.execute(sql)
        self.oracle.detach()
        return [self.short(row[0], "theirs") for row in rows]

    def ours(self, job: str, **arguments: Any) -> list[str]:
        with ducklake_spark.attach(
            self.uri("ours"), data_path=f"{self.folder}/ours/data/", override_data_path=True
        ) as lake:
            frame = getattr(lake, job)(**arguments)
            assert frame.columns == ["path", "bytes"]
            return [self.short(row.path, "ours") for row in frame.collect()]

    def short(self, path: str, name: str) -> str:
        return path.removeprefix(f"{self.folder}/{name}/data/")

    def check(self) -> None:
        catalogs.assert_same(self.uri("ours"), self.uri("theirs"))
        assert tree(self.folder / "ours" / "data") == tree(self.folder / "theirs" / "data")


def test_old_files_are_those_of_the_extension(oracle: Oracle, tmp_path: Path) -> None:
    twins = Twins(oracle, tmp_path)
    twins.build()
    call = "CALL ducklake_cleanup_old_files('lake', {})"
    for given, arguments in (
        ("dry_run => true", {"dry_run": True}),
        ("older_than => '2000-01-01'", {"older_than": "2000-01-01"}),
        ("cleanup_all => true, dry_run => true", {"cleanup_all": True, "dry_run": True}),
        (f"older_than => '{FUTURE}', dry_run => true", {"older_than": FUTURE, "dry_run": True}),
    ):
        assert twins.theirs(call.format(given)) == twins.ours("cleanup_old_files", **arguments), given
    twins.check()

    content = twins.added.read_bytes()
    deleted = twins.theirs(call.format("cleanup_all => true"))
    assert str(twins.added) in deleted and "inside.parquet" in deleted and not twins.added.exists()
    twins.added.write_bytes(content)
    assert twins.ours("cleanup_old_files", cleanup_all=True) == deleted

    assert not twins.added.exists()
    twins.check()
    assert twins.theirs("SELECT count(*)::VARCHAR FROM t") == ["20"]
    assert len(tree(tmp_path / "ours" / "data")) == 1


def test_orphans_are_those_of_the_extension(oracle: Oracle, tmp_path: Path) -> None:
    twins = Twins(oracle, tmp_path)
    (tmp_path / "made" / "data" / "main" / "t").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "z.parquet").touch()
    twins.build()
    for name in ("ours", "theirs"):
        data = tmp_path / name / "data"
        for orphan in (
            ".h/_x/c.parquet",
            "main/t/a b%20.parquet",
            "d.PARQUET",
            "e.txt",
            "f.puffin",
            "old.parquet",
        ):
            (data / orphan).parent.mkdir(parents=True, exist_ok=True)
            (data / orphan).write_bytes(b"12345")
        age(data / "old.parquet", 3)
        age(data / "main" / "t" / "a b%20.parquet", 1)
        (data / "folder").symlink_to(tmp_path / "elsewhere")
        (data / "link.parquet").symlink_to(tmp_path / "elsewhere" / "z.parquet")
        (data / "empty.parquet").mkdir()
    call = "CALL ducklake_delete_orphaned_files('lake', {})"
    hours_ago = "now() - INTERVAL 12 HOUR"
    [(then,)] = oracle.execute(f"SELECT ({hours_ago})::VARCHAR")

    for given, arguments, count in (
        ("dry_run => true", {"dry_run": True}, 1),
        (f"older_than => {hours_ago}, dry_run => true", {"older_than": then, "dry_run": True}, 2),
        ("cleanup_all => true, dry_run => true", {"cleanup_all": True, "dry_run": True}, 3),
        ("dry_run => false", {}, 1),
        ("cleanup_all => true", {"cleanup_all": True}, 2),
        ("cleanup_all => true", {"cleanup_all": True}, 0),
    ):
        found = twins.ours("delete_orphaned_files", **arguments)
        assert sorted(twins.theirs(call.format(given))) == found and len(found) == count, given
        twins.check()
    assert (tmp_path / "elsewhere" / "z.parquet").exists()


# Everywhere.


def test_expired_files_go_on_every_database(location: str, tmp_path: Path) -> None:
    with ducklake_spark.attach(location, data_path=str(tmp_path / "data"), name="lake") as lake:
        lake.set_option("data_inlining_row_limit", 0)
        for name in ("t", "u"):
            lake.create_table(name, {"i": "int"}).insert([{"i": 1}])
        lake.drop_table("t")
        lake.expire_snapshots(older_than=FUTURE)
        kept = {path for path in tree(tmp_path / "data") if "/u/" in path}
        orphan = tmp_path / "data" / "main" / "orphan.parquet"
        orphan.write_bytes(b"123")

        assert lake.cleanup_old_files().count() == 0
        assert lake.delete_orphaned_files().count() == 0
        assert lake.cleanup_old_files("2000-01-01").count() == 0
        [row] = lake.cleanup_old_files(FUTURE).collect()
        assert row.path.startswith(f"{tmp_path}/data/main/t/") and row.bytes > 100
        [row] = lake.delete_orphaned_files(cleanup_all=True).collect()
        assert (row.path, row.bytes) == (str(orphan), 3)

        assert tree(tmp_path / "data") == kept
        assert catalogs.dump(location)[SCHEDULED] == []


@pytest.mark.spark
def test_files_of_another_file_system(tmp_path: Path, spark: Any) -> None:
    uri = f"ducklake:{tmp_path}/lake.ducklake"
    with ducklake_spark.attach(uri, data_path=str(tmp_path / "data"), name="lake") as lake:
        lake.set_option("data_inlining_row_limit", 0)
        for name in ("t", "u"):
            lake.create_table(name, {"i": "int"}).insert([{"i": 1}])
        lake.drop_table("t")
        lake.expire_snapshots(older_than=FUTURE)
    (tmp_path / "data" / "orphan.parquet").touch()
    host = f"lake{uuid.uuid4().hex}"
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set(f"fs.viewfs.mounttable.{host}.link./mounted", f"file://{tmp_path}")
    settings.set(f"fs.viewfs.mounttable.{host}.link./other", f"file://{tmp_path}")
    (tmp_path / "secret.txt").write_text("kept")
    root = f"viewfs://{host}/mounted/data/"

    with ducklake_spark.attach(
        uri, data_path=root, override_data_path=True, name="lake", spark=spark
    ) as lake:
        schedule(lake, (90, f"viewfs://{host}/other/secret.txt", False))
        with pytest.raises(UnsafePathError, match="no Parquet file"):
            lake.cleanup_old_files(cleanup_all=True)
        [row] = lake.delete_orphaned_files(cleanup_all=True).collect()
        assert row.path == f"{root}orphan.parquet"

    assert {path.split("/")[1] for path in tree(tmp_path / "data")} == {"u"}
    assert (tmp_path / "secret.txt").exists()


# Safety.


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake with one file, in whose folder its catalog is as well."""
    uri = f"ducklake:sqlite:{tmp_path}/data/lake.sqlite"
    (tmp_path / "data").mkdir()
    with ducklake_spark.attach(uri, data_path=str(tmp_path / "data"), name="lake") as lake:
        lake.set_option("data_inlining_row_limit", 0)
        lake.create_table("t", {"i": "int"}).insert([{"i": 1}])
        yield lake


def schedule(lake: Lake, *rows: tuple[int | None, str, bool]) -> None:
    store = scope_of(lake).store
    with store.begin() as session:
        for row in rows:
            session.execute(f"INSERT INTO {SCHEDULED} VALUES (?, ?, ?, {store.now_sql})", row)


def scheduled(lake: Lake) -> list[tuple[Any, str]]:
    rows = scope_of(lake).store.query(f"SELECT data_file_id, path FROM {SCHEDULED} ORDER BY path")
    return [(row[0], row[1]) for row in rows]


def data_file(lake: Lake) -> str:
    """The lake's file, below the data path."""
    [(name,)] = scope_of(lake).store.query("SELECT path FROM ducklake_data_file")
    return f"main/t/{name}"


def parquet(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"PAR1....PAR1")
    return path


def test_a_file_that_a_row_names_is_never_deleted(lake: Lake, tmp_path: Path) -> None:
    name = data_file(lake)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    spellings = [
        (1, name, True),
        (2, f"{tmp_path}/data/{name}", False),
        (3, f"file://{tmp_path}/data/{name}", False),
        (4, f"{tmp_path}/link/{name}", False),
        (5, f"./{name.replace('/', '//')}", True),
    ]
    schedule(lake, *spellings)

    assert lake.cleanup_old_files(cleanup_all=True).count() == 0
    assert lake.delete_orphaned_files(cleanup_all=True).count() == 0
    assert (tmp_path / "data" / name).exists() and len(scheduled(lake)) == 5

    lake.drop_table("t")  # its row is still there, for older snapshots
    assert lake.cleanup_old_files(cleanup_all=True).count() == 0
    lake.expire_snapshots(older_than=FUTURE)
    assert lake.cleanup_old_files(cleanup_all=True).count() == 4  # two of the spellings make one path
    assert not (tmp_path / "data" / name).exists() and scheduled(lake) == []


def test_a_file_of_an_unknown_table_is_not_deleted(lake: Lake, tmp_path: Path) -> None:
    """A damaged catalog: nothing says where the file is that the row means."""
    name = data_file(lake)
    with scope_of(lake).store.begin() as session:
        session.execute("DELETE FROM ducklake_table")

    assert lake.delete_orphaned_files(cleanup_all=True).count() == 0
    schedule(lake, (1, name, True))
    assert lake.cleanup_old_files(cleanup_all=True).count() == 0
    assert (tmp_path / "data" / name).exists()


HARM: dict[str, tuple[str, bool, str]] = {
    "up": ("../victim.parquet", True, "'..' in it"),
    "up inside": ("main/../../victim.parquet", True, "'..' in it"),
    "up, whole": ("{tmp}/data/../victim.parquet", False, "'..' in it"),
    "link": ("linked/victim.parquet", True, "a link on its way"),
    "link, whole": ("{tmp}/data/linked/victim.parquet", False, "a link on its way"),
    "no parquet": ("{tmp}/victim.txt", False, "no Parquet file"),
    "no parquet, url": ("file://{tmp}/victim.txt", False, "no Parquet file"),
    "another lake": (
        "{tmp}/other/main/t/ducklake-01a1ed3f-3d30-7a70-847b-f324119704df.parquet",
        False,
        "another lake",
    ),
    "nested lake": ("n.ducklake.files/main/t/victim.parquet", True, "or to another lake"),
    "catalog": ("lake.sqlite", True, "belongs to the catalog"),
    "catalog's log": ("{tmp}/data/lake.sqlite-journal", False, "belongs to the catalog"),
    "zero": ("a\0b.parquet", True, "'..' in it"),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_catalog_made_to_harm_deletes_nothing_of_others(lake: Lake, tmp_path: Path, harm: str) -> None:
    stored, relative, reason = HARM[harm]
    stored = stored.format(tmp=tmp_path)
    for victim in ("victim.parquet", "other/main/t/ducklake-01a1ed3f-3d30-7a70-847b-f324119704df.parquet"):
        parquet(tmp_path / victim)
    (tmp_path / "victim.txt").write_text("precious")
    (tmp_path / "data" / "linked").symlink_to(tmp_path)
    parquet(tmp_path / "data" / "n.ducklake.files" / "main" / "t" / "victim.parquet")
    (tmp_path / "data" / "n.ducklake").touch()
    before = tree(tmp_path)
    good = parquet(tmp_path / "data" / "good.parquet")
    schedule(lake, (7, stored, relative), (8, "good.parquet", True))

    with pytest.raises(UnsafePathError) as dry:
        lake.cleanup_old_files(cleanup_all=True, dry_run=True)
    assert good.exists()
    with pytest.raises(UnsafePathError) as raised:
        lake.cleanup_old_files(cleanup_all=True)

    message = str(raised.value)
    assert message == str(dry.value) and reason in message and len(message) < 400
    assert stored.rpartition("/")[2] in message and "did not stop 1 other file." in message
    assert tree(tmp_path) == before and scheduled(lake) == [(7, stored)]
    assert lake.delete_orphaned_files(cleanup_all=True).count() == 0
    assert tree(tmp_path) == before


def test_files_that_were_added_from_outside_are_the_lakes_own(lake: Lake, tmp_path: Path) -> None:
    outside = parquet(tmp_path / "outside" / "added.parquet")
    unnamed = parquet(tmp_path / "outside" / "no ending")
    schedule(lake, (7, str(outside), False), (8, f"file://{unnamed}", False))

    paths = [(row.path, row.bytes) for row in lake.cleanup_old_files(cleanup_all=True).collect()]

    assert paths == [(str(outside), 12), (f"file://{unnamed}", 12)]
    assert not outside.exists() and not unnamed.exists() and scheduled(lake) == []


def test_a_file_that_is_gone_is_no_error(lake: Lake) -> None:
    schedule(lake, (7, "main/gone.parquet", True), (8, "/no/such/folder/gone.parquet", False))

    rows = lake.cleanup_old_files(cleanup_all=True).collect()

    assert [row.bytes for row in rows] == [None, None] and scheduled(lake) == []


def test_what_cannot_be_deleted_is_named_and_stays(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "data" / "folder.parquet" / "inner").mkdir(parents=True)
    good = parquet(tmp_path / "data" / "good.parquet")
    schedule(lake, (7, "folder.parquet", True), (8, "good.parquet", True))

    with pytest.raises(FileError, match=r"folder\.parquet cannot be deleted: .* did not stop 1 other file\."):
        lake.cleanup_old_files(cleanup_all=True)

    assert not good.exists() and scheduled(lake) == [(7, "folder.parquet")]


def test_rows_go_one_by_one_where_ids_are_not_unique(lake: Lake, tmp_path: Path) -> None:
    for name in ("a", "b"):
        parquet(tmp_path / "data" / f"{name}.parquet")
    rows = [
        (7, "a.parquet", True),
        (7, "../x.parquet", True),
        (None, "b.parquet", True),
        (None, data_file(lake), True),
    ]
    schedule(lake, *rows)

    with pytest.raises(UnsafePathError):
        lake.cleanup_old_files(cleanup_all=True)

    assert scheduled(lake) == [(7, "../x.parquet"), (None, data_file(lake))]


def test_what_is_committed_while_a_job_deletes_is_kept(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog is asked again before each batch."""
    names = ["a.parquet", "b.parquet", "c.parquet"]
    for name in names:
        parquet(tmp_path / "data" / "main" / "t" / name)
    monkeypatch.setattr(cleanup, "_BATCH", 1)
    delete_each = files.delete_each

    def delete(spark: Any, paths: Any) -> files.Deletion:
        if any(path.endswith("a.parquet") for path in paths):
            with scope_of(lake).store.begin() as session:  # a writer commits its file
                session.execute("INSERT INTO ducklake_snapshot VALUES (3, ducklake_now(), 1, 3, 3)")
                session.execute("INSERT INTO ducklake_snapshot_changes VALUES (3, 'x', NULL, NULL, NULL)")
                session.execute(
                    "INSERT INTO ducklake_data_file(data_file_id, table_id, begin_snapshot, path, path_is_relative) "
                    "VALUES (2, 1, 3, 'b.parquet', true)"
                )
        return delete_each(spark, paths)

    monkeypatch.setattr(files, "delete_each", delete)

    deleted = [Path(row.path).name for row in lake.delete_orphaned_files(cleanup_all=True).collect()]

    assert deleted == ["a.parquet", "c.parquet"]
    assert (tmp_path / "data" / "main" / "t" / "b.parquet").exists()


# Killed jobs.

KILLED = """
import os, sys
import ducklake_spark
from ducklake_spark.catalog import expiry
from ducklake_spark.engine.maintenance import cleanup
from ducklake_spark.spark import files

uri, step = sys.argv[1:]
die = lambda *_, **__: os._exit(9)
cleanup._BATCH = 2
if step == "before rows":
    cleanup._forget = die
elif step == "second batch":
    real, runs = files.delete_each, []
    files.delete_each = lambda spark, paths: real(spark, paths) if not runs.append(1) and len(runs) < 2 else die()
elif step == "in expiry":
    expiry._drop = die
with ducklake_spark.attach(uri) as lake:
    lake.expire_snapshots(older_than="2100-01-01")
    lake.cleanup_old_files(cleanup_all=True)
"""


@pytest.mark.parametrize(("step", "left"), [("in expiry", 6), ("before rows", 4), ("second batch", 4)])
def test_a_killed_job_is_run_again(tmp_path: Path, step: str, left: int) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/lake.sqlite"
    with ducklake_spark.attach(uri, data_path=str(tmp_path / "data"), name="lake") as lake:
        lake.set_option("data_inlining_row_limit", 0)
        t, u = (lake.create_table(name, {"i": "int"}) for name in ("t", "u"))
        for n in range(5):
            t.insert([{"i": n}])
        u.insert([{"i": 1}])
        lake.drop_table("t")
        snapshots = lake.snapshots().count()

    code = subprocess.run([sys.executable, "-c", KILLED, uri, step], cwd=tmp_path, timeout=120).returncode

    assert code == 9 and len(tree(tmp_path / "data")) == left
    with ducklake_spark.attach(uri, name="lake") as lake:
        assert lake.snapshots().count() == (snapshots if step == "in expiry" else 1)
        lake.expire_snapshots(older_than=FUTURE)
        assert lake.cleanup_old_files(cleanup_all=True).count() == (3 if step == "second batch" else 5)
        assert scheduled(lake) == [] and lake.delete_orphaned_files(cleanup_all=True).count() == 0
    assert len(tree(tmp_path / "data")) == 1


# Arguments.

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"older_than": FUTURE, "cleanup_all": True}, "older_than or cleanup_all, not both"),
    ({"older_than": "soon"}, "is not a time"),
    ({"older_than": 3}, "takes a text or a datetime"),
    ({"cleanup_all": "yes"}, "cleanup_all takes True or False"),
    ({"cleanup_all": None}, "cleanup_all takes True or False"),
    ({"cleanup_all": True, "dry_run": 0}, "dry_run takes True or False"),
]


@pytest.mark.parametrize("job", JOBS)
def test_mistakes_delete_nothing(lake: Lake, tmp_path: Path, job: str) -> None:
    parquet(tmp_path / "data" / "old.parquet")
    age(tmp_path / "data" / "old.parquet", 30)
    schedule(lake, (7, "old.parquet", True))
    before = tree(tmp_path)

    for arguments, message in MISTAKES:
        with pytest.raises(InvalidInputError, match=message):
            getattr(lake, job)(**arguments)
    with lake.transaction(), pytest.raises(TransactionError, match="inside of a transaction"):
        getattr(lake, job)(cleanup_all=True)
    with pytest.raises(ReadOnlyError):
        getattr(lake.at(version=1), job)(cleanup_all=True)
    lake.set_option("delete_older_than", "")
    with pytest.raises(InvalidInputError, match=f"{job}.* needs older_than or cleanup_all"):
        getattr(lake, job)()

    assert tree(tmp_path) == before and len(scheduled(lake)) == 1


def test_the_option_says_how_old(lake: Lake, tmp_path: Path) -> None:
    for name in ("a", "b"):
        parquet(tmp_path / "data" / f"{name}.parquet")
        age(tmp_path / "data" / f"{name}.parquet", 3)
    schedule(lake, (7, "a.parquet", True))
    lake.set_option("delete_older_than", "1 week")
    assert [getattr(lake, job)().count() for job in JOBS] == [0, 0]
    lake.set_option("delete_older_than", "1 day")
    assert [getattr(lake, job)().count() for job in JOBS] == [0, 1]
    lake.set_option("delete_older_than", "0 seconds")
    assert [getattr(lake, job)().count() for job in JOBS] == [1, 0]


@pytest.mark.spark
def test_sql_forms(lake: Lake, tmp_path: Path, spark: Any) -> None:
    for name in ("a", "b", "c"):
        parquet(tmp_path / "data" / f"{name}.parquet")
    schedule(lake, (7, "a.parquet", True), (8, "b.parquet", True))

    def names(sql: str) -> list[str]:
        frame = lake.sql(sql)
        assert frame.columns == ["path"]
        return [Path(row.path).name for row in frame.collect()]

    assert names("CALL ducklake_cleanup_old_files('lake')") == []
    assert names("CALL lake.cleanup_old_files(older_than => now() - INTERVAL 1 HOUR)") == []
    assert len(names("FROM ducklake_cleanup_old_files('lake', cleanup_all = true, dry_run = true)")) == 2
    with pytest.raises(DuckLakeError, match="EXPLAIN would run it"):
        lake.sql("EXPLAIN FROM ducklake_cleanup_old_files('lake', cleanup_all => true)")
    with pytest.raises(InvalidInputError, match="not both"):
        lake.sql("CALL ducklake_cleanup_old_files('lake', cleanup_all => true, older_than => now())")
    assert names("FROM ducklake_cleanup_old_files('lake', cleanup_all => true) ORDER BY path") == [
        "a.parquet",
        "b.parquet",
    ]
    assert names("CALL delete_orphaned_files(cleanup_all => true)") == ["c.parquet"]


def test_many_files_in_many_batches(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "_BATCH", 7)
    rows = []
    for n in range(20):
        parquet(tmp_path / "data" / f"{n:02}.parquet")
        rows.append((100 + n, f"{n:02}.parquet", True))
    schedule(lake, *rows[:10])

    assert lake.delete_orphaned_files(cleanup_all=True).count() == 10
    assert lake.cleanup_old_files(cleanup_all=True).count() == 10
    assert tree(tmp_path / "data") == {data_file(lake), "lake.sqlite"} and scheduled(lake) == []


def test_times_are_compared_as_moments(lake: Lake, make_location: Callable[[str], str]) -> None:
    """SQLite keeps times as text, in the zone of whoever wrote them."""
    schedule(lake, (7, "a.parquet", True))
    with scope_of(lake).store.begin() as session:
        session.execute(f"UPDATE {SCHEDULED} SET schedule_start = '2026-01-01 12:00:00+05'")

    assert lake.cleanup_old_files("2026-01-01 07:00:00").count() == 0
    assert lake.cleanup_old_files("2026-01-01 07:00:01").count() == 1
