"""DuckDB's persistent secrets: a whole lake (`ducklake:NAME`), or the credentials of a catalog server.

`CREATE PERSISTENT SECRET` keeps each secret in a file that only DuckDB can read, so a DuckDB in memory reads it. It
sees a folder with that one secret in it: others may need extensions that are not there. No value shows in a message.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import CatalogError, InvalidInputError, NotFoundError, did_you_mean

DEFAULT = "__default_ducklake"
"""The name of `CREATE PERSISTENT SECRET (TYPE ducklake, ...)`, which `ducklake:` alone means."""

_KEYS = {
    "ducklake": (
        *("data_path", "encrypted", "metadata_catalog", "metadata_parameters", "metadata_path"),
        "metadata_schema",
    ),
    "postgres": ("dbname", "host", "options", "passfile", "password", "port", "sslmode", "user"),
    "mysql": (
        *("database", "host", "password", "port", "socket", "ssl_ca", "ssl_capath", "ssl_cert", "ssl_cipher"),
        *("ssl_crl", "ssl_crlpath", "ssl_key", "ssl_mode", "user"),
    ),
}
"""What a secret of each type may hold."""
_SUFFIX = ".duckdb_secret"


@dataclass(frozen=True)
class LakeSecret:
    """What a secret of type `ducklake` says; None for what it does not say."""

    name: str
    uri: str = field(repr=False)
    data_path: str | None = None
    metadata_schema: str | None = None
    metadata_catalog: str | None = None
    encrypted: bool | None = None
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)


def secret_name(uri: str) -> str | None:
    """The secret that an attach string names, or None when it names a catalog.

    >>> secret_name("ducklake:my_lake"), secret_name("ducklake:my.lake")
    ('my_lake', None)
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme.lower() != "ducklake":
        return None
    if not rest.strip():
        return DEFAULT if DEFAULT in _stored() else None
    return rest if re.fullmatch(r"\w+", rest, re.ASCII) else None


def lake_secret(name: str) -> LakeSecret:
    """The secret of a lake.

    Raises:
        NotFoundError: There is no such secret.
        InvalidInputError: It is of another type.
        CatalogError: DuckDB cannot read it.
    """
    hint = f' If "{name}" is a DuckDB file, write `ducklake:duckdb:{name}`.'
    values = _values(name, "ducklake", hint)
    parameters = _map(values.get("metadata_parameters", ""))
    path = values.get("metadata_path", "")
    kind = parameters.pop("type", None)
    if kind is None and re.fullmatch(r"\w+", path, re.ASCII):
        kind = "duckdb"
    return LakeSecret(
        name.lower(),
        f"ducklake:{kind}:{path}" if kind else f"ducklake:{path.removeprefix('ducklake:')}",
        values.get("data_path"),
        values.get("metadata_schema"),
        values.get("metadata_catalog"),
        None if "encrypted" not in values else values["encrypted"] == "true",
        parameters,
    )


def server_secret(name: str, kind: str) -> Mapping[str, str]:
    """The connection parameters in a secret of type `postgres` or `mysql`."""
    return _values(name, kind, "")


def _folder() -> Path:
    return Path.home() / ".duckdb" / "stored_secrets"


def _stored() -> dict[str, Path]:
    """The files of all persistent secrets, by name."""
    folder = _folder()
    found = folder.iterdir() if folder.is_dir() else ()
    return {file.name[: -len(_SUFFIX)]: file for file in found if file.name.endswith(_SUFFIX)}


@contextmanager
def _alone(file: Path) -> Iterator[str]:
    """A folder that holds this secret only, under a second name of the same file: it is never copied."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=file.parent.parent))
            os.link(file, Path(folder) / file.name)
        except OSError:  # a read-only or simple file system: then DuckDB looks at all of them
            folder = str(file.parent)
        yield folder


def _values(name: str, kind: str, hint: str) -> dict[str, str]:
    import duckdb

    stored = _stored()
    file = stored.get(name.lower())
    if file is None:
        raise NotFoundError(
            f'DuckDB has no persistent secret "{name}" in {_folder()}.{did_you_mean(name, stored)}{hint}'
        )
    try:
        with _alone(file) as folder:
            config: dict[str, Any] = {"secret_directory": folder, "allow_unredacted_secrets": "true"}
            with duckdb.connect(config=config) as connection:
                rows = connection.execute(
                    "SELECT type, secret_string FROM duckdb_secrets(redact = false) WHERE name = ?",
                    [name.lower()],
                ).fetchall()
    except (duckdb.Error, OSError) as error:
        reason = str(error).splitlines()[0]
        raise CatalogError(
            f'DuckDB cannot read its secret "{name}": {reason} Install its extension with `INSTALL {kind}` in DuckDB, '
            "or create the secret again."
        ) from None
    if not rows:
        raise CatalogError(f'DuckDB cannot read its secret "{name}". Create the secret again.')
    [(found, text)] = rows
    if found != kind:
        raise InvalidInputError(f'The secret "{name}" is of type {found}; what is needed is {kind}.')
    return _parsed(name, kind, text)


def _parsed(name: str, kind: str, text: str) -> dict[str, str]:
    """The values in `type=...;scope;a=1;b=2`. DuckDB puts the keys in order, and escapes nothing."""
    _, _, rest = text.partition(";scope")
    starts = list(re.finditer(rf";({'|'.join(_KEYS[kind])})=", rest))
    keys = [start[1] for start in starts]
    if keys != sorted(set(keys)):
        raise InvalidInputError(
            f'The secret "{name}" has a value that looks like another parameter, so that it cannot be read. Give the '
            "parameters in the attach string or in the environment."
        )
    ends = [start.start() for start in starts[1:]] + [len(rest)]
    return {start[1]: rest[start.end() : end] for start, end in zip(starts, ends, strict=True)}


def _map(text: str) -> dict[str, str]:
    """The value of a MAP, with keys in lower case."""
    if not text:
        return {}
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT lower(e.key), e.value FROM (SELECT unnest(map_entries(CAST(? AS MAP(VARCHAR, VARCHAR)))) AS e)",
            [text],
        ).fetchall()
    return dict(rows)
