"""Attach strings: what they mean, what is refused, and that no secret shows."""

from __future__ import annotations

import pytest

from ducklake_spark.catalog.location import Location, default_name, parse_location
from ducklake_spark.errors import InvalidInputError
from tests.interop.oracle import Oracle


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        ("ducklake:a.ducklake", "duckdb", "a.ducklake"),
        ("ducklake:/x y/a.db", "duckdb", "/x y/a.db"),
        ("ducklake:duckdb:plain", "duckdb", "plain"),
        ("ducklake:duckdb:my:file.db", "duckdb", "my:file.db"),
        ("ducklake:folder/with:colon.db", "duckdb", "folder/with:colon.db"),
        ("ducklake:C:\\lake.db", "duckdb", "C:\\lake.db"),
        ("ducklake:sqlite:a.sqlite?x=1", "sqlite", "a.sqlite?x=1"),
        ("DUCKLAKE:SQLITE:a.sqlite", "sqlite", "a.sqlite"),
        ("ducklake::memory:", "duckdb", ":memory:"),
    ],
)
def test_files(text: str, kind: str, path: str) -> None:
    assert parse_location(text) == Location(kind, path)


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("postgres:dbname=lake host=db", {"dbname": "lake", "host": "db"}),
        (r"postgres:dbname = 'my lake' password='it\'s \\'", {"dbname": "my lake", "password": "it's \\"}),
        ("postgres:", {}),
        (
            "postgres:postgresql://me:p%40ss@db:5433/lake?sslmode=require",
            {
                "user": "me",
                "password": "p@ss",
                "host": "db",
                "port": "5433",
                "dbname": "lake",
                "sslmode": "require",
            },
        ),
        ("postgresql://db/lake", {"host": "db", "dbname": "lake"}),
        ("postgres:postgres://a:1,b:2/lake", {"host": "a:1,b:2", "dbname": "lake"}),
        ("mysql:db=lake passwd=x unix_socket=/s", {"database": "lake", "password": "x", "socket": "/s"}),
        (r'mysql:database=lake password="a \"b\" \\"', {"database": "lake", "password": 'a "b" \\'}),
        (r"mysql:database=lake password=a\b'c", {"database": "lake", "password": r"a\b'c"}),
        (
            "mysql://me:x@db:3307/lake",
            {"user": "me", "password": "x", "host": "db", "port": "3307", "database": "lake"},
        ),
    ],
)
def test_servers(text: str, parameters: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MYSQL_HOST", raising=False)
    assert dict(parse_location(f"ducklake:{text}").parameters) == parameters


def test_mysql_takes_what_is_not_given_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_PWD", "from-env")
    monkeypatch.setenv("MYSQL_DATABASE", "other")
    monkeypatch.setenv("MYSQL_TCP_PORT", "3307")
    parameters = parse_location("ducklake:mysql:database=lake").parameters
    assert dict(parameters) == {"database": "lake", "password": "from-env", "port": "3307"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lake.db", "starts with `ducklake:`"),
        ("delta:lake.db", "not with `delta:`"),
        ("ducklake:", "needs the path"),
        ("ducklake:sqlite:", "needs the path"),
        ("ducklake:duckdb:  ", "needs the path"),
        ("ducklake:secretname", "write `ducklake:duckdb:secretname`"),
        ("ducklake:sqlight:a.db", 'Did you mean "sqlite"'),
        ("ducklake:s3://bucket/lake.db", 'called "s3"'),
        ("ducklake:duckdb:s3://bucket/lake.db", "local disk"),
        ("ducklake:sqlite::memory:", "must be a file"),
        ("ducklake:mysql:database=l hsot=x", 'Did you mean "host"'),
        ("ducklake:mysql:host=x", "database=NAME"),
        ("ducklake:mysql:database=l port=x", "port"),
        ("ducklake:mysql:database=l db=m", "twice"),
        ("ducklake:mysql:database", "key=value"),
        ("ducklake:postgres:host='x", "key=value"),
        ("ducklake:postgres:hunter2", "key=value"),
    ],
)
def test_refusals_say_what_is_allowed(text: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MYSQL_DATABASE", raising=False)
    with pytest.raises(InvalidInputError) as caught:
        parse_location(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "postgres:host=h password=hunter2 dbname=d",
        "postgres:host=h password='hunter2' sslpassword=hunter2",
        "postgres:postgresql://me:hunter2@h/d?sslpassword=hunter2",
        "postgres:postgresql://h/d?password=hunter2",
        "mysql:host=h passwd=hunter2 db=d",
        "mysql://me:hunter2@h/d",
    ],
)
def test_secrets_never_show(text: str) -> None:
    location = parse_location(f"ducklake:{text}")
    assert "h" in location.display
    assert "hunter2" not in location.display + repr(location) + str(location) + f"{location}"


@pytest.mark.parametrize(
    "text", ["postgres:hunter2 x", "postgres:password='hunter2", "mysql:password=x hunter2", "mysql:hunter2"]
)
def test_secrets_never_show_in_errors(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_location(f"ducklake:{text}")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "file", ["meta.ducklake", ".hidden.db", "a.b.c", "main.db", "temp.x", "Main.db", "no dot", "ü.db"]
)
def test_default_name_is_that_of_attach(file: str, oracle: Oracle, tmp_path: object) -> None:
    text = f"ducklake:{tmp_path}/{file}"
    oracle.execute(f"ATTACH '{text}'")
    [(name,)] = oracle.execute("SELECT database_name FROM duckdb_databases() WHERE type = 'ducklake'")
    assert default_name(parse_location(text)) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ducklake:sqlite:m3.sqlite", "m3"),
        ("ducklake:duckdb:m3", "m3"),
        ("ducklake:postgres:host=127.0.0.1 dbname=lake password=x", "lake"),
        ("ducklake:postgresql://h/lake", "lake"),
        ("ducklake:postgres:host=h", "lake"),
        ("ducklake:mysql:database=d", "d"),
        ("ducklake::memory:", "memory"),
    ],
)
def test_default_name_holds_no_piece_of_a_connection_string(text: str, name: str) -> None:
    assert default_name(parse_location(text)) == name


def test_a_short_secret_is_hidden_and_garbles_nothing() -> None:
    def shown(secret: str, text: str) -> str:
        return parse_location(
            f"ducklake:postgres:host=database.example.org password={secret}"
        ).without_secrets(text)

    refused = (
        'connection to server at "database.example.org", port 5432 failed: no password supplied for a user'
    )
    for secret in ("a", "5", "or", "data", "server1"):
        assert shown(secret, refused) == refused
    assert shown("a", "bad string host=x password=a port=1") == "bad string host=x password=*** port=1"
    assert shown("a", "bad url postgresql://ada:a@database/x") == "bad url postgresql://ada:***@database/x"
    assert (
        shown("a", 'missing "=" after "a" in connection info string')
        == 'missing "=" after "***" in connection info string'
    )
    assert shown("abc1", "rejected abc1, not xabc1x") == "rejected ***, not xabc1x"
    assert shown("hunter22", "tried xhunter22x") == "tried x***x"
