"""`attach()`: from an attach string and its parameters to a `Lake`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ducklake_spark.api.lake import Lake
from ducklake_spark.catalog.create import CatalogState, initialize, inspect
from ducklake_spark.catalog.frozen import FrozenCatalog, fetched, frozen_url
from ducklake_spark.catalog.location import Location, attach_string, default_name, parse_location
from ducklake_spark.catalog.migrate import migrate
from ducklake_spark.catalog.open import open_store
from ducklake_spark.catalog.secrets import DEFAULT, lake_secret, secret_name, server_secret
from ducklake_spark.catalog.snapshot import Cache, snapshot_at_time, snapshot_at_version
from ducklake_spark.catalog.store import Store
from ducklake_spark.catalog.transaction import RetryPolicy
from ducklake_spark.catalog.upgrade import upgrade
from ducklake_spark.engine import lakes
from ducklake_spark.engine.scope import LakeConfig, Scope
from ducklake_spark.engine.times import Timestamp, micros_of
from ducklake_spark.errors import (
    CatalogError,
    InvalidInputError,
    NativeUnavailableError,
    NotADuckLakeError,
    ReadOnlyError,
    did_you_mean,
)
from ducklake_spark.format.objects import Snapshot
from ducklake_spark.format.options import normalize_option
from ducklake_spark.format.paths import normalize_data_path
from ducklake_spark.format.versions import FORMAT_1_0, FORMATS, OLD_VERSIONS, LakeFormat
from ducklake_spark.spark.object_stores import access, access_by, check_options
from ducklake_spark.spark.session import session_or_local
from ducklake_spark.storage import require_writable
from ducklake_spark.workers.object_store import StoreError, is_unfinished

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
    is_shared: bool
    migrate: bool = False
    format: LakeFormat | None = None


def attach(
    uri: str | os.PathLike[str],
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
    ducklake_version: str | None = None,
    busy_timeout: int = 5000,
    read_only: bool = False,
    max_retry_count: int = 10,
    retry_wait_ms: float = 100,
    retry_backoff: float = 1.5,
    statement_retries: int = 10,
    catalog: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    **others: Any,
) -> Lake:
    """Attaches a lake, and creates it when it does not exist.

    >>> lake = attach("ducklake:" + getfixture("tmp_path").as_posix() + "/metadata.ducklake")
    >>> lake.create_table("events", {"id": "bigint", "at": "timestamptz"})
    Table(main.events)
      id  BIGINT
      at  TIMESTAMP WITH TIME ZONE
      size  no rows
    >>> lake.close()

    Args:
        uri: `ducklake:PATH` or `ducklake:duckdb:PATH`, `ducklake:sqlite:PATH`, `ducklake:postgres:CONNINFO`,
            `ducklake:mysql:CONNINFO`; key=value pairs or a URL for the servers. `ducklake:NAME` is a persistent secret
            of DuckDB, of type `ducklake`. A path of a DuckDB or SQLite file may stand alone, and a server's URL. A
            DuckDB file may be at a URL of `https://`, `s3://` and the like: a copy of it is read, read-only.
        spark: The session to use; without one, the active session, or a new local one when it is needed.
        name: The lake's name in SQL; by default as ATTACH derives it.
        data_path: Where data files go. Needed to create a lake, except in a DuckDB file.
        override_data_path: Use `data_path` for this session although the lake has another one.
        metadata_schema: The schema of the catalog's tables.
        metadata_catalog: The name under which the catalog database is known in SQL.
        metadata_path: The catalog, when `uri` is just `ducklake:`.
        metadata_parameters: More parameters for the connection to the catalog database; also as `meta_x=...`.
            `meta_secret` names a persistent secret of DuckDB, of type `postgres` or `mysql`.
        encrypted: Whether a new lake encrypts its files.
        data_inlining_row_limit: Inserts up to this size live in the catalog; an option of the lake wins.
        write_deletion_vectors: Whether deletes are written as deletion vectors.
        snapshot_version: Read-only, at this snapshot.
        snapshot_time: Read-only, at the newest snapshot not younger than this.
        create_if_not_exists: Whether to create a lake; by default yes, unless read-only, or in a DuckDB or SQLite
            file that holds tables of something else.
        automatic_migration: Bring a lake of format 0.1 to 0.4 to 1.0, as the extension does, and one of 1.0 to
            `ducklake_version`. Older versions of the extension cannot open it then.
        ducklake_version: The format of a new lake, "1.0" or "1.1"; by default 1.0, which DuckDB 1.5 opens too.
        busy_timeout: How long to wait for another writer, in milliseconds (SQLite, MySQL).
        read_only: Refuse every change.
        max_retry_count: How often a commit is tried when others commit at the same time.
        retry_wait_ms: The wait between attempts, in milliseconds; the first collision is not waited for.
        retry_backoff: The factor by which that wait grows.
        statement_retries: How often a statement outside of a transaction is run again, on the newest snapshot, when
            another writer committed something that it cannot be combined with; 0 raises `ConflictError` at once.
        catalog: Make the lake a catalog of the session, under its name and until it is closed: `spark.sql`,
            `spark.table`, `df.writeTo` and the like know it. A lake without a session does so when it gets one.
        storage_options: Settings of the object store that the data path is in, for this lake: for S3 `key_id`,
            `secret`, `session_token`, `region`, `endpoint`, `url_style`, `use_ssl`. Without them, those of the
            session's Hadoop count, and then the environment. See docs/storage.md.

    Raises:
        InvalidInputError: A parameter that is unknown, wrong or contradicts another.
        CatalogError: The catalog cannot be reached, or holds something else.
    """
    pinned = snapshot_version is not None or snapshot_time is not None
    parameters = _connection_parameters(metadata_parameters, others)
    _check_kinds(
        {
            bool: {
                "override_data_path": override_data_path,
                "encrypted": encrypted,
                "write_deletion_vectors": write_deletion_vectors,
                "create_if_not_exists": create_if_not_exists,
                "automatic_migration": automatic_migration,
                "read_only": read_only,
                "catalog": catalog,
            },
            str: {
                "name": name,
                "metadata_schema": metadata_schema,
                "metadata_catalog": metadata_catalog,
                "metadata_path": metadata_path,
                "ducklake_version": ducklake_version,
            },
        }
    )
    if spark is not None and not hasattr(spark, "createDataFrame"):
        raise InvalidInputError(f"spark takes a SparkSession, not {spark!r}.")
    _check_numbers(
        {
            "snapshot_version": (snapshot_version, 0, int),
            "busy_timeout": (busy_timeout, 0, int),
            "max_retry_count": (max_retry_count, 1, int),
            "retry_wait_ms": (retry_wait_ms, 0, float),
            "retry_backoff": (retry_backoff, 0, float),
            "statement_retries": (statement_retries, 0, int),
        }
    )
    if snapshot_version is not None and snapshot_time is not None:
        raise InvalidInputError("Give snapshot_version or snapshot_time, not both.")
    if create_if_not_exists and (read_only or pinned):
        told = "read_only" if read_only else "snapshot_version" if snapshot_time is None else "snapshot_time"
        raise InvalidInputError(
            f"create_if_not_exists contradicts {told}: a lake cannot be created read-only. Leave one of them out."
        )
    uri = attach_string(uri)
    frozen = _frozen(uri, spark, storage_options, create_if_not_exists)
    if frozen is not None:
        uri, read_only = f"ducklake:duckdb:{frozen.path}", True
    hidden = secret_name(uri) if metadata_path is None else None
    if hidden is not None:
        secret = lake_secret(hidden)
        uri, parameters = secret.uri, {**secret.parameters, **parameters}
        name = name or (None if hidden == DEFAULT else hidden)
        data_path = secret.data_path if data_path is None else data_path
        metadata_schema = metadata_schema or secret.metadata_schema
        metadata_catalog = metadata_catalog or secret.metadata_catalog
        encrypted = secret.encrypted if encrypted is None else encrypted
    if override_data_path and data_path is None:
        raise InvalidInputError("override_data_path needs data_path: the path to use instead.")
    time = None if snapshot_time is None else micros_of(snapshot_time, "snapshot_time")
    given_path = _given_path(data_path)
    location = _location(uri, metadata_path, parameters)
    read_only = read_only or pinned
    create = not read_only if create_if_not_exists is None else create_if_not_exists
    is_shared = create_if_not_exists or metadata_schema is not None  # a database that may hold other things
    if create and given_path is None and location.kind == "sqlite" and not os.path.exists(location.path):
        raise _no_data_path(location.display)  # before the file is made
    try:
        store = open_store(
            location,
            metadata_schema=metadata_schema,
            read_only=read_only,
            busy_timeout=busy_timeout,
            create=create,
        )
    except BaseException:
        if frozen is not None:
            frozen.remove()
        raise
    try:
        request = _Request(
            location,
            given_path,
            override_data_path,
            encrypted,
            create,
            bool(is_shared),
            automatic_migration,
            _wanted_format(ducklake_version),
        )
        state = _inspect_or_create(store, request)
        attached: dict[str, str] = {}
        if data_inlining_row_limit is not None:
            attached |= [normalize_option("data_inlining_row_limit", data_inlining_row_limit)]
        if write_deletion_vectors is not None:
            attached |= [normalize_option("write_deletion_vectors", write_deletion_vectors)]
        used_path = _data_path(store, request, state)
        if not read_only:
            require_writable(used_path)
        config = LakeConfig(
            name=name or default_name(location),
            data_path=used_path,
            read_only=read_only,
            metadata_catalog=metadata_catalog,
            attached_options=attached,
            policy=RetryPolicy(max_retry_count, retry_wait_ms, retry_backoff),
            statement_retries=statement_retries,
            is_encrypted=state.options.get("encrypted") == "true",
            storage_options=check_options(storage_options, used_path),
        )
        snapshot = _pinned(store, snapshot_version, time, str(snapshot_time))
        scope = Scope(store, config, Cache(), session=spark, pinned=snapshot)
        lake = Lake(scope)
        if frozen is not None:
            scope.on_close.append(frozen.remove)
        lakes.remember(lake)
        if catalog:
            _make_catalog(lake, scope)
        return lake
    except BaseException:
        store.close()
        if frozen is not None:
            frozen.remove()
        raise


def _frozen(
    uri: str, spark: SparkSession | None, options: Mapping[str, Any] | None, create: bool | None
) -> FrozenCatalog | None:
    """A copy of a catalog file that is on other storage; None for a catalog of any other kind."""
    url = frozen_url(uri)
    if url is None:
        return None
    if create:
        raise InvalidInputError(
            "create_if_not_exists contradicts a catalog on other storage, which is read-only. Leave it out."
        )

    def fetch(source: str, target: str) -> None:
        session = spark
        if session is None and _is_session_active():
            session = session_or_local(None)
        known = check_options(options, source)
        reach = access(session, source, known) if session is not None else access_by(source, known)
        try:
            reach.fetch(source, target)
        except StoreError as error:
            raise CatalogError(f"The catalog at {source} cannot be fetched: {error.reason}.") from None

    return fetched(url, fetch)


def _make_catalog(lake: Lake, scope: Scope) -> None:
    """Now, if there is a session; else when the lake gets one. None is started for it."""

    def make(spark: SparkSession) -> None:
        from ducklake_spark.api.data_source import register
        from ducklake_spark.sql.native.register import make_catalog

        make_catalog(lake, spark)
        with suppress(NativeUnavailableError):
            register(spark)

    scope.on_session.append(make)
    if scope.session is not None or _is_session_active():
        _ = scope.spark


def _is_session_active() -> bool:
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _connection_parameters(
    metadata_parameters: Mapping[str, str] | None, others: Mapping[str, Any]
) -> dict[str, str]:
    """`metadata_parameters` and what came as `meta_x=...`. Values may be secrets: they never show in errors."""
    given = {} if metadata_parameters is None else metadata_parameters
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"metadata_parameters takes a dict of names and values, not a {type(given).__name__}."
        )
    parameters = {str(key): str(value) for key, value in given.items()}
    known = [key for key in attach.__annotations__ if key not in ("return", "others")]
    for key, value in others.items():
        lower = key.lower()
        if lower in known:
            raise InvalidInputError(f'attach() has no parameter "{key}": write it as "{lower}".')
        if not lower.startswith("meta_") or lower == "meta_":
            near = did_you_mean(key, known)
            raise InvalidInputError(
                f'attach() has no parameter "{key}".{near} Its docstring names them all; meta_x is for a parameter x '
                "of the connection."
            )
        name = lower.removeprefix("meta_")
        if name in parameters:
            raise InvalidInputError(
                f'"{name}" stands in metadata_parameters and comes as "{key}": give it once.'
            )
        parameters[name] = str(value)
    return parameters


def _check_kinds(given: Mapping[type, Mapping[str, Any]]) -> None:
    for kind, values in given.items():
        for key, value in values.items():
            if value is not None and not isinstance(value, kind):
                raise InvalidInputError(
                    f"{key} takes {'True or False' if kind is bool else 'a text'}, not {value!r}."
                )
            if value == "" or (isinstance(value, str) and "\0" in value):
                raise InvalidInputError(f"{key} takes a text that is not empty, without NUL characters.")


def _check_numbers(given: Mapping[str, tuple[Any, int, type]]) -> None:
    for key, (value, least, kind) in given.items():
        if value is None:
            continue
        number = not isinstance(value, bool) and isinstance(value, int if kind is int else (int, float))
        if not number or not least <= value < 2**63:
            whole = "a whole number" if kind is int else "a number"
            raise InvalidInputError(f"{key} takes {whole} from {least} on, not {value!r}.")


def _given_path(data_path: Any) -> str | None:
    if data_path is None:
        return None
    if not isinstance(data_path, (str, os.PathLike)) or not isinstance(os.fspath(data_path), str):
        raise InvalidInputError(f"data_path takes a text or a path, not {data_path!r}.")
    path = os.fspath(data_path)
    if not path.strip() or "\0" in path:
        raise InvalidInputError(
            f"data_path takes the path of a folder or bucket for the data files, not {path!r}."
        )
    if is_unfinished(path):
        scheme = path.partition(":")[0]
        raise InvalidInputError(
            f'The data_path "{path}" begins like that of a store and names none. Write {scheme}://BUCKET/FOLDER, or '
            f'"./{path}" for a folder of this name on this machine.'
        )
    return normalize_data_path(path)


def _location(uri: str, metadata_path: str | None, parameters: Mapping[str, str]) -> Location:
    if metadata_path is not None:
        if uri.strip().lower() not in ("", "ducklake:"):
            raise InvalidInputError("Give the catalog in the attach string or as metadata_path, not both.")
        uri = metadata_path if metadata_path.startswith("ducklake:") else f"ducklake:{metadata_path}"
    server = re.fullmatch(r"ducklake:(postgres|postgresql|mysql):\s*", uri, re.IGNORECASE)
    if server and "secret" in parameters:
        location = Location("mysql" if server[1].lower() == "mysql" else "postgres")
    else:
        location = parse_location(uri)
    parameters = {
        key: value for key, value in parameters.items() if (key, value.lower()) != ("type", location.kind)
    }
    if not parameters:
        return location
    if location.kind not in ("postgres", "mysql"):
        shown = ", ".join(sorted(parameters))
        raise InvalidInputError(f"A {location.kind} catalog takes no metadata_parameters ({shown}).")
    mark = "'" if location.kind == "postgres" else '"'
    named = parameters.get("secret")
    stored = {} if named is None else server_secret(named, location.kind)
    pairs = {**stored, **location.parameters, **parameters}
    pairs.pop("secret", None)
    escaped = {key: value.replace("\\", "\\\\").replace(mark, "\\" + mark) for key, value in pairs.items()}
    text = " ".join(f"{key}={mark}{value}{mark}" for key, value in escaped.items())
    return parse_location(f"ducklake:{location.kind}:{text}")


def _inspect_or_create(store: Store, request: _Request) -> CatalogState:
    if request.migrate:
        _migrate(store, request.format or FORMAT_1_0)
    state = inspect(store)
    if state.exists:
        if request.format not in (None, store.format):
            raise InvalidInputError(
                f"ducklake_version {request.format.version} contradicts the lake at {store.display}, which has format "
                f"version {state.version}. Leave the parameter out"
                + (", or add automatic_migration=True." if store.format is FORMAT_1_0 else ".")
            )
        return state
    if not request.create:
        raise NotADuckLakeError(
            f"There is no lake at {store.display}, and creating one is turned off (read_only or "
            "create_if_not_exists=False). Check the path, or attach with create_if_not_exists=True."
        )
    if not request.is_shared and (tables := store.foreign_tables()):
        raise NotADuckLakeError(
            f"The database {store.display} exists and holds no lake, but {_counted(len(tables))} of something else "
            f'("{tables[0]}"). Check the path; create_if_not_exists=True makes a lake in it nevertheless.'
        )
    path = request.data_path
    if path is None:
        if store.kind != "duckdb":
            raise _no_data_path(store.display)
        path = normalize_data_path(os.path.abspath(request.location.path) + ".files")
    require_writable(path)
    initialize(
        store,
        data_path=path,
        encrypted=bool(request.encrypted),
        created_by=CREATED_BY,
        lake_format=request.format or FORMAT_1_0,
    )
    return inspect(store)


def _wanted_format(version: str | None) -> LakeFormat | None:
    if version is None:
        return None
    found = {each.version: each for each in FORMATS}.get(version)
    if found is None:
        known = " or ".join(f'"{each.version}"' for each in FORMATS)
        raise InvalidInputError(f"ducklake_version takes {known}, not {version!r}.")
    return found


def _migrate(store: Store, wanted: LakeFormat) -> None:
    """Brings the lake to a format, if it has an older one."""
    state = inspect(store, versions=OLD_VERSIONS)
    is_old = state.version in OLD_VERSIONS
    if not is_old and not (state.exists and store.format is FORMAT_1_0 and wanted is not FORMAT_1_0):
        return
    if store.read_only:
        raise ReadOnlyError(
            f"The lake {store.display} has format version {state.version}, and a read-only attach does not "
            f"migrate it to {wanted.version}. Attach it once without read_only, snapshot_version and snapshot_time."
        )
    try:
        if is_old:
            migrate(store)
        if wanted is not FORMAT_1_0:
            upgrade(store, wanted)
    except store.driver_errors as error:
        raise store.translated(error) from error


def _counted(tables: int) -> str:
    return "a table" if tables == 1 else f"{tables} tables"


def _no_data_path(display: str) -> InvalidInputError:
    return InvalidInputError(
        f"A new lake at {display} needs data_path: the folder or bucket for its data files."
    )


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


def _pinned(store: Store, version: int | None, micros: int | None, text: str) -> Snapshot | None:
    if version is not None:
        return snapshot_at_version(store, version)
    return None if micros is None else snapshot_at_time(store, micros, text)


def attached_lakes() -> dict[str, Lake]:
    """The open lakes of this process by their names, those that SQL attached included.

    >>> lake = attach("ducklake:" + getfixture("tmp_path").as_posix() + "/here.ducklake", name="here")
    >>> attached_lakes()["here"] is lake
    True
    >>> lake.close()
    >>> "here" in attached_lakes()
    False
    """
    return lakes.known()


lakes.attach_with(attach)
