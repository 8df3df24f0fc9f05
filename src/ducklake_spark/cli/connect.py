"""From what stands on the command line to an attached lake: locations, secrets, passwords."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ducklake_spark.api.attach import attach
from ducklake_spark.api.lake import Lake
from ducklake_spark.errors import CatalogConnectionError, InvalidInputError, NotADuckLakeError

_NO_PASSWORD = ("no password supplied", "using password: NO")
"""What PostgreSQL and MySQL say when they want one."""


@dataclass(frozen=True)
class Target:
    """Which lake, and how it is attached."""

    lake: str = field(repr=False)
    data_path: str | None = None
    metadata_schema: str | None = None
    secret: str | None = None
    ask_password: bool = False
    version: int | None = None
    timestamp: str | None = None
    read_only: bool = True
    create: bool = False
    storage: Sequence[str] | None = field(default=None, repr=False)
    """Settings of the object store, as `key=value`."""


class WrongUse(Exception):
    """The command line says something that cannot be meant."""


def connect(target: Target) -> Lake:
    """Attaches the lake. It is never created unless that was asked for.

    Raises:
        WrongUse: The location or an option cannot be read.
        DuckLakeError: The lake cannot be attached.
    """
    if target.ask_password:
        return _attached(target, {"password": _password()})
    try:
        return _attached(target, {})
    except CatalogConnectionError as error:
        if not any(words in str(error) for words in _NO_PASSWORD) or not sys.stdin.isatty():
            raise
    return _attached(target, {"password": _password()})


def _attached(target: Target, credentials: Mapping[str, str]) -> Lake:
    parameters = dict(credentials)
    if target.secret is not None:
        parameters["secret"] = target.secret
    try:
        return attach(
            target.lake,
            data_path=target.data_path,
            metadata_schema=target.metadata_schema,
            metadata_parameters=parameters,
            snapshot_version=target.version,
            snapshot_time=target.timestamp,
            read_only=target.read_only,
            create_if_not_exists=target.create,
            storage_options=_storage(target.storage),
        )
    except InvalidInputError as error:
        raise WrongUse(str(error)) from None
    except NotADuckLakeError as error:
        missing = re.match(
            r"There is no lake at (.*?)(: the file does not exist|, and creating one)", str(error)
        )
        if missing is None:
            raise
        raise NotADuckLakeError(
            f"There is no lake at {missing[1]}. Check the location; `ducklake-spark sql LAKE --create` makes a new one."
        ) from None


def _storage(pairs: Sequence[str] | None) -> dict[str, str] | None:
    found = {}
    for number, pair in enumerate(pairs or (), start=1):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            # What was given may be a secret: it is not repeated.
            raise WrongUse(
                f"--storage-option takes KEY=VALUE, such as region=eu-central-1; number {number} of them is not so."
            )
        found[key.strip()] = value
    return found or None


def _password() -> str:
    """Asks on the terminal, without showing what is typed."""
    import getpass

    return getpass.getpass("Password of the catalog: ")
