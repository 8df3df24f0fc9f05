"""A lake that DuckDB made, with names and values of all kinds, and an explorer of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import ducklake_spark
from ducklake_spark import Lake
from ducklake_spark.explorer.app import create_app
from ducklake_spark.explorer.site import Site
from tests.interop.oracle import Oracle

TOKEN = "a-token-of-the-tests"
ADDRESS = "http://127.0.0.1:8123"
HOSTILE = """<script>document.title='owned'</script>'"><img src=x onerror=alert(1)> & co"""
"""As a name and as a value: must be shown, and never run."""

STATEMENTS = (
    "CREATE SCHEMA sales",
    "CREATE TABLE sales.orders(id BIGINT NOT NULL, customer VARCHAR, ordered TIMESTAMP, tags VARCHAR[])",
    "ALTER TABLE sales.orders SET PARTITIONED BY (year(ordered))",
    "ALTER TABLE sales.orders SET SORTED BY (id DESC)",
    "COMMENT ON TABLE sales.orders IS 'all of them'",
    "COMMENT ON COLUMN sales.orders.id IS 'the key'",
    "INSERT INTO sales.orders SELECT i, 'c' || i % 7, TIMESTAMP '2024-06-01' + to_days(i::INT), ['a'] FROM range(500) t(i)",
    "DELETE FROM sales.orders WHERE id % 2 = 0 AND id < 100",
    "ALTER TABLE sales.orders RENAME COLUMN customer TO buyer",
    "ALTER TABLE sales.orders ADD COLUMN channel VARCHAR DEFAULT 'web'",
    "CREATE TABLE small(a INTEGER, b VARCHAR)",
    "INSERT INTO small VALUES (1, 'x'), (2, NULL)",
    "CREATE VIEW sales.late AS SELECT id FROM sales.orders WHERE id > 490",
    'CREATE TABLE "{hostile_name}"("{hostile_name}" VARCHAR)',
    "INSERT INTO \"{hostile_name}\" VALUES ('{hostile_value}')",
    "COMMENT ON TABLE \"{hostile_name}\" IS '{hostile_value}'",
    "CREATE TABLE wide AS SELECT " + ", ".join(f"{i} AS column_{i:03}" for i in range(500)),
)


@pytest.fixture(scope="session")
def lake_path(_oracle_process: Oracle, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The catalog of a lake: files with deletes, inlined rows, keys, comments, a view, hostile names, 500 columns."""
    path = str(tmp_path_factory.mktemp("explorer") / "shop.ducklake")
    oracle = _oracle_process
    oracle.attach(f"ducklake:{path}", "shop")
    name, value = HOSTILE.replace('"', '""'), HOSTILE.replace("'", "''")
    for statement in STATEMENTS:
        oracle.execute(statement.replace("{hostile_name}", name).replace("{hostile_value}", value))
    oracle.execute("BEGIN")
    oracle.execute("INSERT INTO small VALUES (3, 'z')")
    oracle.execute(f"CALL shop.set_commit_message('Ada <b>', '{value}')")
    oracle.execute("COMMIT")
    oracle.detach()
    return path


@pytest.fixture(scope="module")
def shop(lake_path: str) -> Iterator[Lake]:
    """The lake, attached read-only."""
    with ducklake_spark.attach(f"ducklake:{lake_path}", name="shop", read_only=True) as lake:
        yield lake


@pytest.fixture(scope="module")
def client(shop: Lake) -> TestClient:
    """A browser that has the cookie."""
    return welcome(Site(shop))


def welcome(site: Site) -> TestClient:
    """A browser that came with the token."""
    made = TestClient(create_app(site, TOKEN), base_url=ADDRESS, headers={"Origin": ADDRESS})
    assert made.get("/", params={"token": TOKEN}).status_code == 200
    return made


@pytest.fixture
def new_client(tmp_path: Path) -> Iterator[Callable[..., tuple[Lake, TestClient]]]:
    """Makes a new, empty lake and an explorer of it."""
    made: list[Lake] = []

    def make(*, write: bool = False) -> tuple[Lake, TestClient]:
        lake = ducklake_spark.attach(f"ducklake:{tmp_path / f'new{len(made)}.ducklake'}", name="new")
        made.append(lake)
        return lake, welcome(Site(lake, write=write))

    yield make
    for lake in made:
        lake.close()
