"""Attach strings (`ducklake:...`) as values. Parsing needs no driver, and no secret ever shows in a text made here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import parse_qsl, unquote, urlsplit

from ..errors import InvalidInputError, did_you_mean
from .file_lock import held

SQLITE_HEADER = b"SQLite format 3\0"

FORMS = (
    "ducklake:PATH, ducklake:duckdb:PATH, ducklake:sqlite:PATH, "
    "ducklake:postgres:CONNINFO or ducklake:mysql:CONNINFO"
)
MYSQL_KEYS = {
    **{
        key: key
        for key in ("host", "user", "password", "database", "port", "socket", "compress", "compression")
    },
    **{"passwd": "password", "db": "database", "unix_socket": "socket"},
    **{
        f"ssl_{key}": f"ssl_{key}"
        for key in ("mode", "ca", "capath", "cert", "cipher", "crl", "crlpath", "key")
    },
}
MYSQL_ENVIRONMENT = {
    "host": "MYSQL_HOST",
    "user": "MYSQL_USER",
    "password": "MYSQL_PWD",
    "database": "MYSQL_DATABASE",
    "port": "MYSQL_TCP_PORT",
    "socket": "MYSQL_UNIX_PORT",
}
_SHOWN_KEYS = {
    "host",
    "hostaddr",
    "port",
    "user",
    "dbname",
    "database",
    "service",
    "socket",
    "sslmode",
    "ssl_mode",
}


@dataclass(frozen=True)
class Location:
    """Where a catalog database is.

    `path` is the file of a DuckDB or SQLite catalog. `conninfo` is what libpq takes, and `parameters` are the
    key/value pairs of a server; both may hold a password, so they are not part of `repr()`.

    >>> str(Location("postgres", parameters={"host": "db", "password": "x"}))
    'ducklake:postgres:host=db password=***'
    """

    kind: str
    path: str = ""
    conninfo: str = field(default="", repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @property
    def display(self) -> str:
        """The attach string without secrets, for messages."""
        if self.kind in ("duckdb", "sqlite"):
            return f"ducklake:{self.kind}:{self.path}"
        shown = (f"{key}={value if key in _SHOWN_KEYS else '***'}" for key, value in self.parameters.items())
        return f"ducklake:{self.kind}:{' '.join(shown)}"

    @property
    def database(self) -> str | None:
        """The name of the database on its server, where one is given."""
        return self.parameters.get("dbname" if self.kind == "postgres" else "database")

    def without_secrets(self, text: str) -> str:
        """A text of the driver, without the values that `display` hides.

        >>> Location("postgres", parameters={"password": "x"}).without_secrets("no password 'x' at example.org")
        "no password '***' at example.org"
        """
        hidden = {value for key, value in self.parameters.items() if key not in _SHOWN_KEYS and value}
        for value in sorted(hidden, key=len, reverse=True):
            text = re.sub(_mentions(value), "***", text)
        return text

    def __str__(self) -> str:
        return self.display


_LONG = 8
"""A secret from this length on is no part of another word by chance."""
_SHORT = 4
"""A secret that is shorter is an ordinary word as well: it is one where drivers quote values."""


def _mentions(secret: str) -> str:
    """Where a text mentions a secret, and not just has the same letters in a host name or a word."""
    value = re.escape(secret)
    if len(secret) >= _LONG:
        return value
    if len(secret) >= _SHORT:
        return rf"(?<![A-Za-z0-9]){value}(?![A-Za-z0-9])"
    # `password=x`, `user:x@host`, 'x' in any quotes, and `password x`; a value like `"127.0.0.1"` is another one.
    before = r"(?<=[=:'\"`(])|(?<=password )|(?<=passwd )"
    return rf"(?:{before}){value}(?=$|[\s'\"`@,;)])"


def parse_location(text: str) -> Location:
    """The location that an attach string names.

    >>> parse_location("ducklake:sqlite:lake.sqlite")
    Location(kind='sqlite', path='lake.sqlite')

    Raises:
        InvalidInputError: The text is no attach string. The message never repeats a connection string.
    """
    scheme, colon, rest = text.partition(":")
    if not colon or scheme.lower() != "ducklake":
        raise InvalidInputError(
            f"An attach string starts with `ducklake:`{_shown_scheme(text)}. Write one of {FORMS}."
        )
    if rest.lower().startswith(("postgresql://", "postgres://")):
        return _postgres(rest)
    if rest.lower().startswith("mysql://"):
        return _mysql(rest)
    inner = re.match(r"([A-Za-z][A-Za-z0-9_+.-]+):", rest)  # one letter is a drive of Windows, not a scheme
    if inner is None:
        if re.fullmatch(r"\w+", rest, re.ASCII):
            raise InvalidInputError(
                f'In DuckDB `ducklake:{rest}` names a secret, which only DuckDB can look up. If "{rest}" is a '
                f"DuckDB file, write `ducklake:duckdb:{rest}`."
            )
        return _file("duckdb", rest)
    kind, rest = inner[1].lower(), rest[inner.end() :]
    if kind in ("duckdb", "sqlite"):
        return _file(kind, rest)
    if kind in ("postgres", "postgresql"):
        return _postgres(rest)
    if kind == "mysql":
        return _mysql(rest)
    hint = did_you_mean(kind, ("duckdb", "sqlite", "postgres", "mysql"))
    raise InvalidInputError(f'No catalog database is called "{kind}".{hint} Write one of {FORMS}.')


def attach_string(given: str | os.PathLike[str]) -> str:
    """What a user gives for a lake as an attach string: itself, a path, or an attach string without its first word.

    A path of a file that exists is a SQLite or a DuckDB catalog by what the file says; a new one by its ending.

    >>> attach_string("sales.ducklake"), attach_string("sqlite:sales.db"), attach_string("ducklake:sales")
    ('ducklake:duckdb:sales.ducklake', 'ducklake:sqlite:sales.db', 'ducklake:sales')
    >>> attach_string("file:///data/sales.sqlite"), attach_string("postgresql://db/lake")
    ('ducklake:sqlite:/data/sales.sqlite', 'ducklake:postgresql://db/lake')

    Raises:
        InvalidInputError: It is neither a text nor a path.
    """
    if isinstance(given, os.PathLike) and isinstance(os.fspath(given), str):
        return f"ducklake:{_kind_of_file(os.fspath(given))}:{os.fspath(given)}"
    if not isinstance(given, str):
        raise InvalidInputError(
            f"attach() takes a text such as 'ducklake:metadata.ducklake' or a path, not a {type(given).__name__}."
        )
    if given.lower().startswith("ducklake:") or not given.strip():
        return given
    if re.match(r"(duckdb|sqlite|postgres|postgresql|mysql):", given, re.IGNORECASE):
        return f"ducklake:{given}"
    if given.lower().startswith("file:"):
        given = unquote(urlsplit(given).path)
    elif re.match(r"[A-Za-z][A-Za-z0-9_+.-]+:", given) or (
        re.fullmatch(r"\w+", given, re.ASCII) and not os.path.exists(given)
    ):
        return f"ducklake:{given}"  # a secret, or something that only the parser can say what is wrong with
    return f"ducklake:{_kind_of_file(given)}:{given}"


def _kind_of_file(path: str) -> str:
    if os.path.isfile(path):
        with suppress(OSError), held(path) as file:
            return "sqlite" if file.first_bytes(len(SQLITE_HEADER)) == SQLITE_HEADER else "duckdb"
    return "sqlite" if path.lower().endswith((".sqlite", ".sqlite3")) else "duckdb"


def default_name(location: Location) -> str:
    """The lake's name in SQL when the caller gives none: the file's name up to the first dot, or the database.

    This is what DuckDB's ATTACH derives, except where it derives it from the connection string by accident:
    `ducklake:sqlite:a.db` is called `sqlite:a` there, and a libpq string `postgres:host=10`.

    >>> default_name(parse_location("ducklake:data/meta.ducklake"))
    'meta'
    """
    if location.kind in ("duckdb", "sqlite"):
        base = location.path.rstrip("/").rpartition("/")[2]
        name = next((piece for piece in base.split(".") if piece), "memory" if base == ":memory:" else "lake")
        name = "memory" if name == ":memory:" else name
    else:
        name = location.database or "lake"
    return f"{name}_db" if name in ("main", "temp", "system") else name


def _shown_scheme(text: str) -> str:
    scheme = re.match(r"[A-Za-z][A-Za-z0-9_+.-]*(?=:)", text)
    return f", not with `{scheme[0]}:`" if scheme else ""


def _file(kind: str, path: str) -> Location:
    if not path.strip():
        raise InvalidInputError(
            f"`ducklake:{kind}:` needs the path of the catalog file. Write one of {FORMS}."
        )
    if "\0" in path:
        raise InvalidInputError("The path of the catalog file contains a NUL character.")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path):
        raise InvalidInputError(
            f'A {kind} catalog is a file on a local disk, not at "{path.partition("?")[0]}".'
        )
    if kind == "sqlite" and path == ":memory:":
        raise InvalidInputError(
            "A SQLite catalog must be a file: an in-memory one exists on one connection only."
        )
    return Location(kind, path)


def _postgres(text: str) -> Location:
    if re.match(r"postgres(ql)?://", text, re.IGNORECASE):
        parameters = _url_parameters(text, "dbname")
    else:
        parameters = dict(_pairs(text, "'", "PostgreSQL"))
    if "\0" in text:
        raise InvalidInputError("The PostgreSQL connection string contains a NUL character.")
    return Location("postgres", conninfo=text, parameters=MappingProxyType(parameters))


def _mysql(text: str) -> Location:
    pairs = (
        _url_parameters(text, "database").items()
        if text.lower().startswith("mysql://")
        else _pairs(text, '"', "MySQL")
    )
    given: dict[str, str] = {}
    for key, value in pairs:
        canonical = MYSQL_KEYS.get(key.lower())
        if canonical is None:
            allowed = ", ".join(sorted(MYSQL_KEYS))
            raise InvalidInputError(
                f'"{key}" is no parameter of a MySQL connection.{did_you_mean(key, MYSQL_KEYS)} Allowed are {allowed}.'
            )
        if canonical in given:
            raise InvalidInputError(f'The MySQL connection string gives "{canonical}" twice.')
        given[canonical] = value
    for key, variable in MYSQL_ENVIRONMENT.items():
        if key not in given and variable in os.environ:
            given[key] = os.environ[variable]
    if not given.get("port", "0").isdecimal() or int(given.get("port", "0")) > 65535:
        raise InvalidInputError(f'The MySQL port is a number up to 65535, not "{given["port"]}".')
    if not given.get("database"):
        raise InvalidInputError(
            "A MySQL connection string must name the database of the lake: add `database=NAME`."
        )
    return Location("mysql", parameters=MappingProxyType(given))


def _url_parameters(url: str, database_key: str) -> dict[str, str]:
    # Others would take the rest of a password for the host, and show it.
    if url.partition("?")[0].count("@") > 1 or re.search(r"%(?![0-9A-Fa-f]{2})", url):
        raise InvalidInputError(
            "The connection URL of the catalog cannot be parsed: write an @ in a user or password as %40, and a % as "
            "%25."
        )
    try:
        parts = urlsplit(url)
        several = "," in parts.netloc.rpartition("@")[2]  # libpq takes several hosts, and parses them itself
        host = parts.netloc.rpartition("@")[2] if several else parts.hostname
        port = None if several else parts.port
    except ValueError:
        raise InvalidInputError("The connection URL of the catalog cannot be parsed.") from None
    found = {
        "host": unquote(host) if host else None,
        "port": str(port) if port else None,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        database_key: unquote(parts.path[1:]) or None,
    }
    return {key: value for key, value in found.items() if value} | dict(parse_qsl(parts.query))


def _pairs(text: str, quote: str, database: str) -> list[tuple[str, str]]:
    """`key=value` pairs separated by spaces; a value may be quoted, with a backslash before quotes and backslashes."""
    q = re.escape(quote)
    # libpq honours a backslash outside of quotes too, DuckDB's mysql extension takes it as it is
    bare = r"(?:[^\s\\]|\\.)*" if quote == "'" else r"\S*"
    pair = re.compile(rf"\s*(\w+)\s*=\s*(?:{q}((?:[^{q}\\]|\\.)*){q}(?=\s|$)|({bare}))", re.DOTALL | re.ASCII)
    found: list[tuple[str, str]] = []
    position, text = 0, text.rstrip()
    while position < len(text):
        match = pair.match(text, position)
        if match is None or (match[3] or "").startswith(quote):
            raise InvalidInputError(
                f"The {database} connection string is not a list of key=value pairs: pair {len(found) + 1} cannot be "
                f"read. Put values with spaces in {quote}quotes{quote}."
            )
        quoted, plain = match[2], match[3]
        escaped = quoted if quoted is not None else plain
        value = (
            re.sub(r"\\(.)", r"\1", escaped, flags=re.DOTALL)
            if quoted is not None or quote == "'"
            else escaped
        )
        found.append((match[1], value))
        position = match.end()
    return found
