"""A lake that DuckDB made, and the command line to look at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ducklake_spark.cli.app import app
from tests.interop.oracle import Oracle

Run = Callable[..., "Answer"]


@dataclass(frozen=True)
class Answer:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def run() -> Run:
    """Runs a command in this process."""

    def run(*arguments: str, typed: str | None = None) -> Answer:
        done = CliRunner().invoke(app, [*arguments], input=typed, prog_name="ducklake-spark")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Answer(done.exit_code, done.stdout, done.stderr)

    return run


@dataclass(frozen=True)
class Seen:
    """A lake, and what the extension says of it."""

    path: str
    table_info: list[tuple[object, ...]]
    files: list[tuple[object, ...]]
    counts: dict[str, int]


@pytest.fixture(scope="session")
def seen(_oracle_process: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """A lake with files, deletes in files and in the catalog, inlined rows, keys, comments and a view."""
    folder: Path = tmp_path_factory.mktemp("cli")
    path = str(folder / "shop.ducklake")
    oracle = _oracle_process
    oracle.attach(f"ducklake:{path}", "shop")
    for statement in (
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.orders(id BIGINT NOT NULL, made TIMESTAMPTZ DEFAULT now(), tags VARCHAR[])",
        "ALTER TABLE sales.orders SET PARTITIONED BY (year(made))",
        "ALTER TABLE sales.orders SET SORTED BY (id DESC)",
        "COMMENT ON TABLE sales.orders IS 'all of them'",
        "COMMENT ON COLUMN sales.orders.id IS 'the key'",
        "INSERT INTO sales.orders SELECT i, TIMESTAMPTZ '2024-06-01' + to_days(i::INT), ['a'] FROM range(500) t(i)",
        "DELETE FROM sales.orders WHERE id % 2 = 0",
        "DELETE FROM sales.orders WHERE id = 1",
        'CREATE TABLE "odd name"(a INTEGER)',
        'INSERT INTO "odd name" VALUES (1), (2), (3)',
        'DELETE FROM "odd name" WHERE a = 1',
        'CREATE VIEW v AS SELECT * FROM "odd name"',
    ):
        oracle.execute(statement)
    at_7, at_8, now, odd = (
        oracle.execute(f"SELECT count(*) FROM {source}")[0][0]
        for source in (
            "sales.orders AT (VERSION => 7)",
            "sales.orders AT (VERSION => 8)",
            "sales.orders",
            '"odd name"',
        )
    )
    found = Seen(
        path,
        oracle.execute("FROM ducklake_table_info('shop')"),
        oracle.execute("FROM ducklake_list_files('shop', 'orders', schema => 'sales')"),
        {"orders at 7": at_7, "orders at 8": at_8, "orders": now, "odd name": odd},
    )
    oracle.detach()
    return found
