"""Files of object stores, for DuckDB in the workers and on the driver: fetched to scratch, and put where they belong.

`Access` travels with the functions of the workers. It holds what is needed to reach the stores, secrets among it, which
never show: not in `repr()`, not in an error. The clients are Arrow's own, so that workers need no other package.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ducklake_spark.format.objects import uuid7
from ducklake_spark.workers.parquet_source import FAILURE_MARK

Settings = Mapping[str, str]

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<host>[^/]*)/?(?P<path>.*)", re.DOTALL)
_FAMILIES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfs", "abfss", "az", "azure", "wasb", "wasbs"), "azure"),
    **dict.fromkeys(("hdfs", "viewfs"), "hdfs"),
}
_FINAL = (
    *(
        "ACCESS_DENIED",
        "INVALID_ACCESS_KEY",
        "INVALID_SIGNATURE",
        "SIGNATURE_DOES_NOT_MATCH",
        "NO_SUCH_BUCKET",
    ),
    *("HTTP status 403", "AccessControlException"),
)
"""Words of stores whose answer does not change."""
_UNREACHABLE = ("curlCode: 6,", "curlCode: 7,", "curlCode: 35,", "curlCode: 60,", "Connection refused")
"""What Arrow says, after some ten seconds of attempts, of a host without an address, of one without a server, and of
a server without TLS, or with a certificate that nobody vouches for; and HDFS of a name node that is not there."""
_JOB = "job-"
_ATTEMPTS = 5
"""How often a transfer is tried; Arrow's client tries each request several times, too."""
_REQUEST_ATTEMPTS = 5
_GCS_PATIENCE = datetime.timedelta(seconds=10)
"""How long Google's client tries a request; a quarter of an hour, if nothing is said."""
_WAIT = 0.2
_CHUNK = 8 << 20
_THREADS = 8
_YES = ("1", "true", "yes", "on")
_COPIES = ("s3", "gs", "azure")
"""Stores that copy a file themselves."""
_SECRETS = (
    "secret",
    "session_token",
    "account_key",
    "sas_token",
    "client_secret",
    "access_token",
    "password",
)
_JAVA_TRACE = re.compile(r"(\\n|\s)\s*(\\t)?\s*at (org|java|com)\..*", re.DOTALL)


class StoreError(RuntimeError):
    """A store that refused or did not answer, in words that the driver finds again in the error of a task."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(FAILURE_MARK + json.dumps({"store": path, "reason": reason}))
        self.path, self.reason = path, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return StoreError, (self.path, self.reason)


def is_remote(path: str) -> bool:
    """Whether a path is not one of this machine.

    >>> [is_remote(path) for path in ("s3://b/x", "/tmp/x", "file:///tmp/x", "c:/x")]
    [True, False, False, False]
    """
    found = _URL.match(path)
    return found is not None and found["scheme"].lower() != "file"


def is_unfinished(path: str) -> bool:
    """Whether a path begins like one of a store, and names no bucket: as a path of this machine nobody means it.

    >>> [is_unfinished(path) for path in ("s3:/b/x", "s3://", "s3://b", "hdfs:///x", "c:/x", "a:b")]
    [True, True, False, False, False, False]
    """
    scheme, colon, _ = path.partition(":")
    family = _FAMILIES.get(scheme.lower()) if colon else None
    found = _URL.match(path)
    return family is not None and (found is None or not (found["host"] or family == "hdfs"))


def family_of(path: str) -> str:
    """Which kind of store a path is in: `s3`, `gs`, `azure`, `hdfs`, or its scheme."""
    found = _URL.match(path)
    scheme = found["scheme"].lower() if found else ""
    return _FAMILIES.get(scheme, scheme)


def bucket_of(path: str) -> str:
    """The bucket, container or host of a path."""
    found = _URL.match(path)
    return found["host"] if found else ""


def job_place(folder: str) -> str:
    """Names a job that writes into a table's folder in a store, where nothing can be moved or removed as a whole.

    Its files go straight to their places. Their names end like that of the job, and so they are found if it fails.
    """
    return f"{folder.rstrip('/')}/{_JOB}{uuid.uuid4()}"


def job_suffix(job: str) -> str:
    """How the names of a job's files end, before what tells their kind."""
    return job[-12:]


def beside(path: str) -> str:
    """A new name for a file of the same job in the same folder. A task that is repeated must not meet its own work."""
    folder, _, name = path.rpartition("/")
    stem, dot, ending = name.partition(".")
    return f"{folder}/ducklake-{uuid7()[:-12]}{stem[-12:]}{dot}{ending}"


def _place(job: str, inner: str, ending: str) -> str:
    """A new file of a job, `inner` the folders of its partition."""
    folder = job.rpartition(f"/{_JOB}")[0]
    return f"{folder}/{inner}ducklake-{uuid7()[:-12]}{job_suffix(job)}{ending}"


@dataclass(frozen=True)
class Access:
    """How stores are reached.

    Attributes:
        stores: Settings by kind of store and bucket; an empty bucket stands for all others.
    """

    stores: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = field(default=(), repr=False)

    def settings(self, path: str) -> dict[str, str]:
        """What is known of the store of a path."""
        family, bucket = family_of(path), bucket_of(path)
        found: dict[str, str] = {}
        for kind, name, known in self.stores:
            if kind == family and name in ("", bucket):
                found = {**found, **dict(known)} if name else {**dict(known), **found}
        return found

    def fetch(self, path: str, local: str) -> None:
        """Copies a file here.

        Raises:
            FileNotFoundError: There is no such file.
            StoreError: It cannot be had.
        """

        def run() -> None:
            system, inner = self._system(path)
            with system.open_input_stream(inner) as source, open(local, "wb") as target:
                while data := source.read(_CHUNK):
                    target.write(data)

        self._tried(path, run)

    def fetch_all(self, paths: Sequence[str], folder: str) -> list[str]:
        """Copies files into a folder here, several at a time; their paths there, in order. Local ones stay."""
        places = [
            os.path.join(folder, f"{number}-{path.rpartition('/')[2]}") if is_remote(path) else path
            for number, path in enumerate(paths)
        ]
        wanted = [(path, place) for path, place in zip(paths, places, strict=True) if is_remote(path)]
        if wanted:
            with ThreadPoolExecutor(_THREADS) as pool:
                list(pool.map(lambda pair: self.fetch(*pair), wanted))
        return places

    def upload(self, local: str, path: str) -> None:
        """Puts a file where others can read it, whole or not at all.

        Raises:
            StoreError: It could not be put there. Nothing is left of it, if the store allows that.
        """
        size = os.path.getsize(local)

        def run() -> None:
            system, inner = self._system(path)
            if family_of(path) == "hdfs":
                system.create_dir(inner.rpartition("/")[0], recursive=True)
            with system.open_output_stream(inner) as target, open(local, "rb") as source:
                while data := source.read(_CHUNK):
                    target.write(data)
            found = system.get_file_info(inner)
            if found.size != size:
                raise OSError(f"{found.size} of {size} bytes arrived")

        try:
            self._tried(path, run)
        except BaseException as error:
            if not _is_unreachable(error):
                with suppress(Exception):
                    self._delete(path)
            raise

    def upload_new(self, local: str, job: str, inner: str = "") -> str:
        """Puts a file of a job below the table's folder, and says where."""
        path = _place(job, inner, ".parquet")
        self.upload(local, path)
        return path

    def read(self, path: str) -> bytes:
        """A small file, whole."""
        found = b""

        def run() -> None:
            nonlocal found
            system, inner = self._system(path)
            with system.open_input_stream(inner) as source:
                found = source.read()

        self._tried(path, run)
        return found

    def copy(self, source: str, target: str) -> None:
        """Copies a file inside of a store, or from one to another."""
        if _is_same_store(source, target) and family_of(source) in _COPIES:

            def run() -> None:
                system, inner = self._system(source)
                system.copy_file(inner, self._system(target)[1])

            self._tried(source, run)
            return
        with self.here(source) as local:
            if is_remote(target):
                self.upload(local, target)
            else:
                import shutil

                shutil.copyfile(local, target)

    def move(self, source: str, target: str) -> None:
        """Another place for a file: where a store does not move files, a copy of it, and then the file goes."""
        if _is_same_store(source, target) and family_of(source) == "hdfs":

            def run() -> None:
                system, inner = self._system(source)
                place = self._system(target)[1]
                system.create_dir(place.rpartition("/")[0], recursive=True)
                system.move(inner, place)

            self._tried(source, run)
            return
        self.copy(source, target)
        self.remove([source])

    def answers(self, path: str) -> bool:
        """Whether the store of a path answers at all, asked once: what is tried again and again would take minutes."""
        if family_of(path) != "s3":
            return True
        try:
            system, inner = self._system(path, attempts=1)
            system.get_file_info(inner)
        except Exception as error:  # a refusal is an answer
            return not _is_unreachable(error)
        return True

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files as far as that works: what is left is nobody's, and a clean-up finds it."""
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._removed, paths))

    @contextmanager
    def here(self, path: str) -> Iterator[str]:
        """A file as one of this machine, for as long as the block runs."""
        if not is_remote(path):
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="ducklake-spark-") as scratch:
            local = os.path.join(scratch, path.rpartition("/")[2])
            self.fetch(path, local)
            yield local

    def _removed(self, path: str) -> None:
        with suppress(Exception):
            self._delete(path) if is_remote(path) else os.remove(path)

    def _delete(self, path: str) -> None:
        system, inner = self._system(path)
        system.delete_file(inner)

    def _tried(self, path: str, run: Any) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                run()
                return
            except FileNotFoundError:
                raise
            except (OSError, RuntimeError) as error:  # RuntimeError: the client of HDFS
                if attempt == _ATTEMPTS or _is_final(error):
                    raise StoreError(path, self._said(path, error)) from None
                time.sleep(_WAIT * 2**attempt)
            except (ImportError, ValueError) as error:  # ValueError: settings that do not go together
                raise StoreError(path, self._said(path, error)) from None

    def _said(self, path: str, error: BaseException) -> str:
        text = " ".join(_JAVA_TRACE.sub("", str(error)).split())
        for key, value in self.settings(path).items():
            if value and key in _SECRETS:
                text = text.replace(value, "***")
        return text[:300]

    def _system(self, path: str, attempts: int = _REQUEST_ATTEMPTS) -> tuple[Any, str]:
        """The client of a store, and what it calls the file."""
        family, settings = family_of(path), self.settings(path)
        match = _URL.match(path)
        assert match is not None, path
        host, inner = match["host"], match["path"]
        if family == "s3":
            return _s3(settings, host, attempts), f"{host}/{inner}"
        if family == "gs":
            return _gcs(settings), f"{host}/{inner}"
        if family == "azure":
            container, _, server = host.rpartition("@")
            if not container:
                container, server = host, ""
            return _azure(settings, server.partition(".")[0]), f"{container}/{inner}"
        if family == "hdfs":
            return _hdfs(match["scheme"], host, settings), f"/{inner}"
        return _fsspec(match["scheme"], settings), f"{host}/{inner}"


def _is_same_store(source: str, target: str) -> bool:
    return family_of(source) == family_of(target) and bucket_of(source) == bucket_of(target)


def _is_final(error: BaseException) -> bool:
    """Whether trying again cannot help."""
    return isinstance(error, (PermissionError, NotImplementedError)) or any(
        word in str(error) for word in (*_FINAL, *_UNREACHABLE)
    )


def _is_unreachable(error: BaseException) -> bool:
    return any(word in str(error) for word in _UNREACHABLE)


def _s3(settings: Settings, bucket: str, attempts: int) -> Any:
    from pyarrow import fs

    endpoint = settings.get("endpoint", "")
    scheme, has_scheme, host = endpoint.partition("://")
    if not has_scheme:
        scheme, host = ("https" if settings.get("use_ssl", "true").lower() in _YES else "http"), endpoint
    options: dict[str, Any] = {"retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=attempts)}
    if host:
        options |= {"endpoint_override": host.rstrip("/"), "scheme": scheme}
        options["force_virtual_addressing"] = settings.get("url_style") == "vhost"
    for ours, theirs in (
        ("key_id", "access_key"),
        ("secret", "secret_key"),
        ("session_token", "session_token"),
        ("role_arn", "role_arn"),
    ):
        if settings.get(ours):
            options[theirs] = settings[ours]
    if settings.get("anonymous", "").lower() in _YES:
        options["anonymous"] = True
    known = settings.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    options["region"] = known or ("us-east-1" if host else fs.resolve_s3_region(bucket))
    return fs.S3FileSystem(**options)


def _gcs(settings: Settings) -> Any:
    from pyarrow import fs

    if not hasattr(fs, "GcsFileSystem"):
        raise ImportError("the workers' pyarrow was built without Google Cloud Storage")
    options: dict[str, Any] = {"retry_time_limit": _GCS_PATIENCE}
    if settings.get("anonymous", "").lower() in _YES:
        options["anonymous"] = True
    if settings.get("endpoint"):
        scheme, has_scheme, host = settings["endpoint"].partition("://")
        options |= (
            {"scheme": scheme, "endpoint_override": host} if has_scheme else {"endpoint_override": scheme}
        )
    return fs.GcsFileSystem(**options)


def _azure(settings: Settings, account: str) -> Any:
    from pyarrow import fs

    if not hasattr(fs, "AzureFileSystem"):
        raise ImportError("the workers' pyarrow was built without Azure: it needs pyarrow 20 or newer")
    names = ("account_key", "sas_token", "tenant_id", "client_id", "client_secret")
    options = {key: settings[key] for key in names if settings.get(key)}
    if settings.get("endpoint"):
        scheme, _, host = settings["endpoint"].rpartition("://")
        options |= {"blob_storage_authority": host, "dfs_storage_authority": host}
        options |= {"blob_storage_scheme": scheme or "https", "dfs_storage_scheme": scheme or "https"}
    return fs.AzureFileSystem(settings.get("account_name") or account, **options)


def _hdfs(scheme: str, host: str, settings: Settings) -> Any:
    """By the package `hdfs-native` with the settings of the session's Hadoop, or else by Hadoop's own native client."""
    from pyarrow import fs

    name, _, port = host.partition(":")
    try:
        from hdfs_native import fsspec as native  # type: ignore[import-not-found,unused-ignore]  # not a requirement
    except ImportError:
        given = f"{scheme}://{name}" if scheme != "hdfs" else name
        try:
            return fs.HadoopFileSystem(given or "default", int(port) if port else 0)
        except OSError as error:
            if "Unable to load lib" not in str(error):
                raise
            raise ImportError(
                "HDFS is reached by the package hdfs-native, or by Hadoop's libhdfs.so, and the workers have neither"
            ) from None
    if not name:
        name, _, port = bucket_of(settings.get("fs.defaultFS", "")).partition(":")
    system = native.ViewfsFileSystem if scheme == "viewfs" else native.HdfsFileSystem
    return fs.PyFileSystem(
        fs.FSSpecHandler(system(name or None, int(port) if port else None, **dict(settings)))
    )


def _fsspec(scheme: str, settings: Settings) -> Any:
    from pyarrow import fs

    try:
        import fsspec  # type: ignore[import-not-found,unused-ignore]  # not a requirement

        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme, **dict(settings))))
    except (ImportError, ValueError):
        raise ImportError(
            f"Arrow has no client for {scheme}://; install fsspec, with its package for it, for driver and workers"
        ) from None


NOWHERE = Access()
"""What is needed to reach no store at all."""
