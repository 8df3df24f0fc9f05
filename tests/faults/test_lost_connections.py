"""Connections that are lost before, at and after COMMIT: the outcome is found out, and no commit happens twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.catalog import transaction
from ducklake_spark.errors import CatalogConnectionError, CommitUnknownError, ConflictError
from tests.catalog.proxy import Proxy
from tests.concurrency.invariants import assert_sound
from tests.interop import catalogs
from tests.servers import MYSQL_PASSWORD, PASSWORD, Server


@dataclass
class Scene:
    """A lake behind a network that can fail, and the way around it."""

    kind: str
    server: Server
    proxy: Proxy
    lake: Lake
    direct: str

    def assert_versions(self, count: int) -> None:
        """There are as many snapshots, nothing is torn, and no change is there twice."""
        catalog = catalogs.dump(self.direct)
        assert_sound(catalog, leftovers=self.kind == "mysql")
        assert len(catalog["ducklake_snapshot"]) == count + 1
        names = [row["table_name"] for row in catalog["ducklake_table"]]
        assert len(names) == len(set(names))


@pytest.fixture(params=["postgres", "mysql"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    kind = request.param
    server = request.getfixturevalue(f"{kind}_server")
    proxy = Proxy(server.port)
    conninfo = server.fresh_database() + (" ssl_mode=disabled" if kind == "mysql" else "")
    behind = conninfo.replace(f"port={server.port}", f"port={proxy.port}")
    with ducklake_spark.attach(f"ducklake:{kind}:{behind}", data_path=str(tmp_path)) as lake:
        direct = f"ducklake:{kind}:{conninfo.removesuffix(' ssl_mode=disabled')}"
        yield Scene(kind, server, proxy, lake, direct)
    proxy.close()


# What the client is saying when it is cut off. On PostgreSQL, COMMIT goes along with the statements: a connection that
# is lost among them may have been lost at COMMIT, but not one that is lost before, while the lake is locked.
COMMIT = {"postgres": b"COMMIT\0", "mysql": b"COMMIT"}  # BEGIN ... READ COMMITTED has the word too
BREATHS = {"postgres": b"INSERT INTO ducklake_snapshot ", "mysql": b"INSERT INTO ducklake_snapshot "}
BEFORE = {"postgres": b"pg_advisory_xact_lock", "mysql": BREATHS["mysql"]}
MOMENTS = [
    ("postgres", b"FROM ducklake_table "),
    ("postgres", BEFORE["postgres"]),
    ("postgres", BREATHS["postgres"]),
    ("postgres", COMMIT["postgres"]),
    ("mysql", b"FROM ducklake_table "),
    ("mysql", b"GET_LOCK"),
    ("mysql", b"CREATE TABLE"),
    ("mysql", BREATHS["mysql"]),
    ("mysql", b'INSERT INTO "ducklake_snapshot_changes"'),
    ("mysql", COMMIT["mysql"]),
    ("mysql", b"RELEASE_LOCK"),
]


@pytest.mark.parametrize("deliver", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("scene", "moment"), MOMENTS, indirect=["scene"])
def test_a_lost_connection_is_not_noticed(moment: bytes, deliver: bool, scene: Scene) -> None:
    scene.proxy.cut(moment, deliver=deliver)

    scene.lake.create_table("t", {"a": "int"})

    assert scene.proxy.was_cut, "the test is about lost connections"
    scene.assert_versions(1)
    scene.lake.create_table("u", {"a": "int"})
    scene.assert_versions(2)


@pytest.mark.parametrize("deliver", [False, True], ids=["before", "after"])
def test_the_server_stays_away(deliver: bool, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "UNKNOWN_SECONDS", 0.5)
    scene.proxy.cut(COMMIT[scene.kind], deliver=deliver, away=True)

    with pytest.raises(CommitUnknownError, match=r'snapshot 1.*created_table:"main"\."t"') as caught:
        scene.lake.create_table("t", {"a": "int"})

    assert PASSWORD not in str(caught.value)
    assert MYSQL_PASSWORD not in str(caught.value)
    scene.proxy.come_back()
    scene.assert_versions(1 if deliver else 0)
    assert ("t" in scene.lake) is deliver


@pytest.mark.parametrize("deliver", [False, True], ids=["before", "after"])
def test_the_server_comes_back_late(deliver: bool, scene: Scene) -> None:
    scene.proxy.cut(COMMIT[scene.kind], deliver=deliver, away=True)
    began = []

    def come_back() -> None:
        scene.proxy.wait_until_cut()
        began.append(time.monotonic())
        time.sleep(1)
        scene.proxy.come_back()

    thread = threading.Thread(target=come_back)
    thread.start()

    scene.lake.create_table("t", {"a": "int"})

    assert time.monotonic() - began[0] > 0.9
    scene.assert_versions(1)
    thread.join()


def test_the_server_is_away_before_the_commit(scene: Scene) -> None:
    scene.proxy.cut(BEFORE[scene.kind], deliver=False, away=True)
    with pytest.raises(CatalogConnectionError, match="cannot be opened"):
        scene.lake.create_table("t", {"a": "int"})
    scene.proxy.come_back()
    scene.assert_versions(0)
    scene.lake.create_table("t", {"a": "int"})
    scene.assert_versions(1)


@pytest.mark.parametrize("deliver", [False, True], ids=["before", "after"])
def test_somebody_commits_while_the_outcome_is_found_out(deliver: bool, scene: Scene) -> None:
    scene.proxy.cut(COMMIT[scene.kind], deliver=deliver, away=True)

    def rival() -> None:
        scene.proxy.wait_until_cut()
        with ducklake_spark.attach(scene.direct) as other:
            other.create_table("u", {"a": "int"})
        scene.proxy.come_back()

    thread = threading.Thread(target=rival)
    thread.start()
    scene.lake.create_table("t", {"a": "int"})
    thread.join()

    scene.assert_versions(2)
    assert scene.lake.tables() == ["main.t", "main.u"]


def test_the_rival_takes_the_same_name_while_the_outcome_is_found_out(scene: Scene) -> None:
    scene.proxy.cut(COMMIT[scene.kind], deliver=False, away=True)

    def rival() -> None:
        scene.proxy.wait_until_cut()
        with ducklake_spark.attach(scene.direct) as other:
            other.create_table("t", {"theirs": "int"})
        scene.proxy.come_back()

    thread = threading.Thread(target=rival)
    thread.start()
    with pytest.raises(ConflictError), scene.lake.transaction():
        scene.lake.create_table("t", {"a": "int"})
    thread.join()
    scene.assert_versions(1)
    assert scene.lake["t"].columns == ["theirs"]


def test_a_restart_between_statements(scene: Scene) -> None:
    scene.lake.create_table("t", {"a": "int"})
    scene.server.restart()
    scene.lake.create_table("u", {"a": "int"})
    with scene.lake.transaction():
        scene.lake.create_table("v", {"a": "int"})
        scene.server.restart()
        scene.lake["v"].add_column("b", "int")
    scene.assert_versions(3)
    assert scene.lake.tables() == ["main.t", "main.u", "main.v"]


def test_options_survive_a_lost_connection(scene: Scene) -> None:
    scene.proxy.cut(COMMIT[scene.kind], deliver=True)
    scene.lake.set_option("target_file_size", "1MB")
    scene.assert_versions(0)
    rows = [
        row for row in catalogs.dump(scene.direct)["ducklake_metadata"] if row["key"] == "target_file_size"
    ]
    assert len(rows) == 1
