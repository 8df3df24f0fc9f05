"""`attach()`: from an attach string and its parameters to a `Lake`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ducklake_spark.catalog.create import CatalogState, initialize, inspect
from ducklake_spark.catalog.location import Location, default_name, parse_location
from ducklake_spark.catalog.open import open_store
from ducklake_spark.catalog.snapshot import Cache, snapshot_at_time, snapshot_at_version
from ducklake_spark.catalog.store import Store
from ducklake_spark.catalog.transaction import RetryPolicy
from ducklake_spark.errors import InvalidInputError, NotADuckLakeError, did_you_mean
from ducklake_spark.format.objects import Snapshot
from ducklake_spark.format.options import normalize_option
from ducklake_spark.format.paths import normalize_data_path
from ducklake_spark.lake import Lake, LakeConfig
from ducklake_spark.times import Timestamp, micros_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CREATED_BY = "ducklake-spark"


@dataclass(frozen=True)
class _Request:
    location: Location
    data_path: str | None
    override_data_path: bool
    encrypted: bool | None
    create: bool


def attach(
    uri: str,
    *,
    spark: SparkSession | None = None,
    name: str | None = None,
    data_path: str | os.PathLike[str] | None = None,
    override_data_path: bool = False,
    metadata_schema: str | None = None,
    metadata_catalog: str | None = None,
    metadata_path: str | None = None,
    metadata_parameters: Mapping[str, str] | None = None,
    encrypted: bool | None = None,
    data_inlining_row_limit: int | None = None,
    write_deletion_vectors: bool | None = None,
    snapshot_version: int | None = None,
    snapshot_time: Timestamp | None = None,
    create_if_not_exists: bool | None = None,
    automatic_migration: bool = False,
    busy_timeout: int = 5000,
    read_only: bool = False,
    max_retry_count: int = 10,
    retry_wait_ms: float = 100,
    retry_backoff: float = 1.5,
    **others: Any,
) -> Lake:
    """Attaches a lake, and creates it when it does not exist.

    >>> lake = attach("ducklake:" + getfixture("tmp_path").as_posix() + "/metadata.ducklake")
    >>> lake.create_table("events", {"id": "bigint", "at": "timestamptz"})
    Table(main.events)
    >>> lake.close()

    Args:
        uri: `ducklake:PATH` or `ducklake:duckdb:PATH`, `ducklake:sqlite:PATH`, `ducklake:postgres:CONNINFO`,
            `ducklake:mysql:CONNINFO`; key=value pairs or a URL for the servers.
        spark: The session to use; without one, the active session, or a new local one when it is needed.
        name: The lake's name in SQL; by default as ATTACH derives it.
        data_path: Where data files go. Needed to create a lake, except in a DuckDB file.
        override_data_path: Use `data_path` for this session although the lake has another one.
        metadata_schema: The schema of the catalog's tables.
        metadata_catalog: The name under which the catalog database is known in SQL.
        metadata_path: The catalog, when `uri` is just `ducklake:`.
        metadata_parameters: More parameters for the connection to the catalog database; also as `meta_x=...`.
        encrypted: Whether a new lake encrypts its files.
        data_inlining_row_limit: Inserts up to this size live in the catalog; an option of the lake wins.
        write_deletion_vectors: Whether deletes are written as deletion vectors.
        snapshot_version: Read-only, at this snapshot.
        snapshot_time: Read-only, at the newest snapshot not younger than this.
        create_if_not_exists: Whether to create a lake; by default yes, unless read-only.
        automatic_migration: Accepted for DuckDB's sake; this package does not migrate older formats.
        busy_timeout: How long to wait for another writer, in milliseconds (SQLite, MySQL).
        read_only: Refuse every change.
        max_retry_count: How often a commit is tried when others commit at the same time.
        retry_wait_ms: The wait before the second attempt, in milliseconds.
        retry_backoff: The factor by which that wait grows.

    Raises:
        InvalidInputError: A parameter that is unknown, wrong or contradicts another.
        CatalogError: The catalog cannot be reached, or holds something else.
    """
    parameters = dict(metadata_parameters or {})
    for key, value in others.items():
        if not key.lower().startswith("meta_"):
            raise InvalidInputError(f'attach() has no parameter "{key}".{did_you_mean(key, attach.__annotations__)}')
        parameters[key.lower().removeprefix("meta_")] = str(value)
    pinned = snapshot_version is not None or snapshot_time is not None
    _check(
        snapshot_version,
        snapshot_time,
        read_only or pinned,
        create_if_not_exists,
        busy_timeout,
        max_retry_count,
    )
    location = _location(uri, metadata_path, parameters)
    read_only = read_only or pinned
    create = not read_only if create_if_not_exists is None else create_if_not_exists
    store = open_store(
        location,
        metadata_schema=metadata_schema,
        read_only=read_only,
        busy_timeout=busy_timeout,
        create=create,
    )
    try:
        given_path = None if data_path is None else normalize_data_path(os.fspath(data_path))
        request = _Request(location, given_path, override_data_path, encrypted, create)
        state = _inspect_or_create(store, request)
        attached: dict[str, str] = {}
        if data_inlining_row_limit is not None:
            attached |= [normalize_option("data_inlining_row_limit", data_inlining_row_limit)]
        if write_deletion_vectors is not None:
            attached |= [normalize_option("write_deletion_vectors", write_deletion_vectors)]
        config = LakeConfig(
            name=name or default_name(location),
            data_path=_data_path(store, request, state),
            read_only=read_only,
            encrypted=state.options.get("encrypted") == "true",
            metadata_catalog=metadata_catalog,
            attached_options=attached,
            policy=RetryPolicy(max_retry_count, retry_wait_ms, retry_backoff),
        )
        return Lake(
            store, config, Cache(), spark=spark, pinned=_pinned(store, snapshot_version, snapshot_time)
        )
    except BaseException:
        store.close()
        raise


def _check(
    version: int | None,
    time: Timestamp | None,
    read_only: bool,
    create: bool | None,
    busy_timeout: int,
    max_retry_count: int,
) -> None:
    if version is not None and time is not None:
        raise InvalidInputError("Give snapshot_version or snapshot_time, not both.")
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise InvalidInputError(f"snapshot_version takes a whole number, not {version!r}.")
    if read_only and create:
        raise InvalidInputError(
            "create_if_not_exists contradicts read_only: a lake cannot be created read-only."
        )
    for key, value, least in (("busy_timeout", busy_timeout, 0), ("max_retry_count", max_retry_count, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidInputError(f"{key} takes a whole number from {least} on, not {value!r}.")


def _location(uri: str, metadata_path: str | None, parameters: Mapping[str, str]) -> Location:
    if not isinstance(uri, str):
        raise InvalidInputError(f"attach() takes a text such as 'ducklake:metadata.ducklake', not {uri!r}.")
    if metadata_path is not None:
        if uri.strip().lower() not in ("", "ducklake:"):
            raise InvalidInputError("Give the catalog in the attach string or as metadata_path, not both.")
        uri = metadata_path if metadata_path.startswith("ducklake:") else f"ducklake:{metadata_path}"
    location = parse_location(uri)
    if not parameters:
        return location
    if location.kind not in ("postgres", "mysql"):
        shown = ", ".join(sorted(parameters))
        raise InvalidInputError(f"A {location.kind} catalog takes no metadata_parameters ({shown}).")
    mark = "'" if location.kind == "postgres" else '"'
    pairs = {**location.parameters, **parameters}
    escaped = {key: value.replace("\\", "\\\\").replace(mark, "\\" + mark) for key, value in pairs.items()}
    text = " ".join(f"{key}={mark}{value}{mark}" for key, value in escaped.items())
    return parse_location(f"ducklake:{location.kind}:{text}")


def _inspect_or_create(store: Store, request: _Request) -> CatalogState:
    state = inspect(store)
    if state.exists:
        return state
    if not request.create:
        raise NotADuckLakeError(
            f"There is no lake at {store.display}, and creating one is turned off (read_only or "
            "create_if_not_exists=False). Check the path, or attach with create_if_not_exists=True."
        )
    path = request.data_path
    if path is None:
        if store.kind != "duckdb":
            raise InvalidInputError(
                f"A new lake at {store.display} needs data_path: the folder or bucket for its data files."
            )
        path = normalize_data_path(os.path.abspath(request.location.path) + ".files")
    initialize(store, data_path=path, encrypted=bool(request.encrypted), created_by=CREATED_BY)
    return inspect(store)


def _data_path(store: Store, request: _Request, state: CatalogState) -> str:
    stored = state.options.get("data_path", "")
    encrypted = state.options.get("encrypted") == "true"
    if request.encrypted is not None and request.encrypted != encrypted:
        raise InvalidInputError(
            f"encrypted={request.encrypted} contradicts the lake at {store.display}, which was created with "
            f"encrypted={encrypted}. Leave the parameter out."
        )
    given = request.data_path
    if given is None or given == normalize_data_path(stored):
        return stored
    if request.override_data_path:
        return given
    raise InvalidInputError(
        f'data_path "{given}" does not match the data path of the lake at {store.display}, "{stored}". Leave it out, '
        "or attach with override_data_path=True to use it for this session."
    )


def _pinned(store: Store, version: int | None, time: Timestamp | None) -> Snapshot | None:
    if version is not None:
        return snapshot_at_version(store, version)
    return None if time is None else snapshot_at_time(store, micros_of(time, "snapshot_time"), str(time))
