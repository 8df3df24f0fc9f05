"""Where passwords come from: the environment, DuckDB's secrets, a prompt; and that none of them shows."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pexpect
import pytest

import ducklake_spark
from ducklake_spark.catalog.location import parse_location
from tests.cli.conftest import Run
from tests.interop.oracle import literal
from tests.servers import MYSQL_PASSWORD, PASSWORD, MySQLServer, PostgresServer


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder in which DuckDB finds its extensions, and no secrets yet."""
    with duckdb.connect() as connection:
        [(version, platform)] = connection.execute(
            "SELECT library_version, platform FROM pragma_version(), pragma_platform()"
        ).fetchall()
    folder = tmp_path / "home" / ".duckdb" / "extensions" / version / platform
    folder.mkdir(parents=True)
    for extension in ("ducklake", "postgres_scanner"):
        spec = importlib.util.find_spec(f"duckdb_extension_{extension}")
        assert spec is not None and spec.origin is not None
        name = f"{extension}.duckdb_extension"
        (folder / name).symlink_to(Path(spec.origin).parent / "extensions" / version / name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def create_secrets(*statements: str) -> None:
    """In a process of its own, as another program would have done it long ago."""
    code = "import duckdb, sys\nfor text in sys.argv[1:]: duckdb.execute(text)"
    subprocess.run(
        [sys.executable, "-c", code, "LOAD ducklake", "LOAD postgres_scanner", *statements], check=True
    )


@pytest.fixture
def postgres_lake(postgres_server: PostgresServer, tmp_path: Path) -> dict[str, str]:
    """The connection parameters of a lake in PostgreSQL."""
    location = f"ducklake:postgres:{postgres_server.fresh_database()}"
    ducklake_spark.attach(location, data_path=tmp_path / "data").close()
    return dict(parse_location(location).parameters)


def test_a_secret_names_a_lake(run: Run, home: Path, tmp_path: Path) -> None:
    path = tmp_path / "x;y='z'.ducklake"
    ducklake_spark.attach(f"ducklake:{path}", data_path=tmp_path / "data").close()
    create_secrets(f"CREATE PERSISTENT SECRET Mine (TYPE ducklake, METADATA_PATH {literal(path)})")
    info = json.loads(run("info", "ducklake:Mine", "-o", "json").out)
    assert (info["name"], info["data_path"]) == ("Mine", f"{tmp_path}/data/")
    answer = run("info", "ducklake:mime")
    assert (answer.code, answer.out) == (1, "")
    assert 'Did you mean "mine"' in answer.err


def test_the_default_secret_is_the_lake_without_a_name(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ducklake_spark.InvalidInputError, match="needs the path"):
        ducklake_spark.attach("ducklake:")
    create_secrets(
        f"CREATE PERSISTENT SECRET (TYPE ducklake, METADATA_PATH {literal(tmp_path / 'a.ducklake')}, "
        f"DATA_PATH {literal(tmp_path / 'there')}, METADATA_SCHEMA 'inner')"
    )
    with ducklake_spark.attach("ducklake:") as lake:
        assert (lake.name, lake.data_path) == ("a", f"{tmp_path}/there/")
        assert lake._scope.store.metadata_schema == "inner"


def test_a_secret_holds_the_password_of_a_server(run: Run, home: Path, postgres_lake: dict[str, str]) -> None:
    values = ", ".join(f"{key} {literal(value)}" for key, value in postgres_lake.items())
    create_secrets(
        f"CREATE PERSISTENT SECRET pg (TYPE postgres, {values})",
        "CREATE PERSISTENT SECRET whole (TYPE ducklake, METADATA_PATH '', "
        "METADATA_PARAMETERS MAP {'TYPE': 'postgres', 'SECRET': 'pg'})",
        "CREATE PERSISTENT SECRET unrelated (TYPE postgres, HOST 'x')",
    )
    for arguments in (
        ("ducklake:whole",),
        ("postgres:", "--secret", "pg"),
        (f"postgres:dbname={postgres_lake['dbname']}", "--secret", "pg"),
    ):
        answer = run("info", *arguments, "-o", "json")
        assert json.loads(answer.out)["catalog_type"] == "postgres"
        assert PASSWORD not in answer.out + answer.err
    wrong = run("info", "postgres:dbname=nope", "--secret", "pg")
    assert wrong.code == 1
    assert '"nope" does not exist' in wrong.err
    assert PASSWORD not in wrong.err
    assert "is of type ducklake" in run("info", "postgres:", "--secret", "whole").err


def test_the_environment_holds_the_password(
    run: Run, postgres_lake: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "password": "PGPASSWORD",
        "dbname": "PGDATABASE",
    }
    for key, value in postgres_lake.items():
        monkeypatch.setenv(names[key], value)
    answer = run("tables", "postgres:", "-o", "json")
    assert (answer.code, answer.out) == (0, "[]\n")


@pytest.mark.parametrize("flag", [[], ["--password"]])
def test_the_password_is_asked_for_and_not_shown(postgres_lake: dict[str, str], flag: list[str]) -> None:
    shown = " ".join(f"{key}={value}" for key, value in postgres_lake.items() if key != "password")
    arguments = ["-m", "ducklake_spark", "info", f"postgres:{shown}", "-o", "json", *flag]
    environment = {**os.environ, "PGPASSFILE": os.devnull}
    child = pexpect.spawn(sys.executable, arguments, env=environment, encoding="utf-8", timeout=60)
    child.expect("Password of the catalog: ")
    child.sendline(PASSWORD)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert json.loads(child.before or "")["catalog_type"] == "postgres"
    assert PASSWORD not in (child.before or "")


def test_the_option_file_of_mysql_holds_the_password(
    run: Run, mysql_server: MySQLServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = f"ducklake:mysql:{mysql_server.fresh_database()}"
    ducklake_spark.attach(location, data_path=tmp_path / "data").close()
    parameters = dict(parse_location(location).parameters)
    lines = [f"{key} = {parameters[key]}" for key in ("user", "password", "host", "port")]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("info", f"mysql:database={parameters['database']}").code == 1
    (tmp_path / ".my.cnf").write_text("\n".join(["[client]", *lines]), encoding="utf-8")
    answer = run("info", f"mysql:database={parameters['database']}", "-o", "json")
    assert json.loads(answer.out)["catalog_type"] == "mysql"
    elsewhere = run("info", f"mysql:host=localhost port=1 database={parameters['database']}")
    assert "cannot be opened" in elsewhere.err
    (tmp_path / ".my.cnf").write_text(f"password = {MYSQL_PASSWORD}", encoding="utf-8")
    broken = run("info", f"mysql:database={parameters['database']}")
    assert "mend it" in broken.err
    assert MYSQL_PASSWORD not in answer.out + elsewhere.err + broken.err
