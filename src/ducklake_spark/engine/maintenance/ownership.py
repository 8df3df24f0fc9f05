"""Which files a job may delete: never one that a row of the catalog names, and none that is not the lake's own.

A catalog can be damaged, or made to harm. What it schedules for deletion is therefore looked at as the word of a
stranger: a path must not lead out of the data path, neither by `..` nor by a link. A file elsewhere can be the lake's
own if it was added to a table, which the catalog records as a whole path; it must be a Parquet file at least, and not
have a name that lakes give to files which they write themselves: those of this lake are in its data path.
"""

from __future__ import annotations

import functools
import os
import re

from ducklake_spark.catalog.lake_files import named_files, table_folders
from ducklake_spark.engine.scope import Scope
from ducklake_spark.errors import FileError
from ducklake_spark.format import paths
from ducklake_spark.spark import files
from ducklake_spark.storage import local_path, whole_path

SCHEDULED_SQL = "SELECT path, path_is_relative FROM ducklake_files_scheduled_for_deletion"
_MAGIC = (b"PAR1", b"PARE")
_WRITTEN = re.compile(r"ducklake-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_S3 = re.compile(r"s3[an]?://")
_CATALOG_ENDINGS = ("", ".wal", ".wal.checkpoint", ".wal.recovery", "-journal", "-wal", "-shm")


class Ownership:
    """What is known of the files of a lake."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._data_path = scope.config.data_path
        local = local_path(whole_path(self._data_path))
        self._root = None if local is None else os.path.realpath(local)
        self._real_folder = functools.lru_cache(maxsize=65536)(os.path.realpath)
        self._has_catalog = functools.lru_cache(maxsize=65536)(self._find_catalog)
        self._catalog = self._catalog_files()
        self._newest: int | None = None
        self._named: set[str] = set()
        self._names: set[str] = set()

    def _catalog_files(self) -> set[str]:
        location = getattr(self._scope.store, "location", None)
        if self._scope.store.kind not in ("duckdb", "sqlite") or not getattr(location, "path", ""):
            return set()
        path = os.path.realpath(location.path)  # type: ignore[union-attr]  # a file has a path
        return {path + ending for ending in _CATALOG_ENDINGS}

    def key(self, path: str) -> str:
        """One spelling for all that name the same file, as far as that can be told without opening it."""
        local = local_path(whole_path(path))
        if local is None:
            return _S3.sub("s3://", path)
        folder, name = os.path.split(local)
        return os.path.join(self._real_folder(folder), name)

    def refresh(self, *, scheduled: bool = False) -> None:
        """Reads from the catalog which files it names now, unless nothing was committed since it was read.

        Args:
            scheduled: Whether files that are scheduled for deletion count too.
        """
        store = self._scope.store
        [(newest,)] = store.query("SELECT max(snapshot_id) FROM ducklake_snapshot")
        if newest == self._newest:
            return
        whole, unknown = named_files(store.query, table_folders(store.query, self._data_path))
        if scheduled:
            whole.update(
                paths.join(self._data_path, str(path), bool(relative))
                for path, relative in store.query(SCHEDULED_SQL)
            )
        self._named = {self.key(path) for path in whole}
        self._names = {path.rsplit("/", 1)[-1] for path in unknown}
        self._newest = newest

    def is_named(self, path: str) -> bool:
        """Whether a row of the catalog names a file, at any snapshot that is still there."""
        return self.key(path) in self._named or path.rsplit("/", 1)[-1] in self._names

    def is_protected(self, path: str) -> bool:
        """Whether a file is the catalog's own, or in the default data path of a lake whose catalog is beside it."""
        local = local_path(whole_path(path))
        return local is not None and (self.key(path) in self._catalog or self._is_of_nested_lake(local))

    def _is_of_nested_lake(self, local: str) -> bool:
        folder = os.path.dirname(local)
        while self._root is not None and self._inside(folder) and self._real_folder(folder) != self._root:
            if self._has_catalog(folder):
                return True
            folder = os.path.dirname(folder)
        return False

    def _find_catalog(self, folder: str) -> bool:
        catalog = folder.removesuffix(".files")
        return (
            catalog != folder and os.path.isfile(catalog) and os.path.realpath(catalog) not in self._catalog
        )

    def _inside(self, folder: str) -> bool:
        real = self._real_folder(folder)
        return self._root is not None and (
            real == self._root or real.startswith(self._root.rstrip("/") + "/")
        )

    def refusal(self, stored: str, *, relative: bool) -> str | None:
        """Why a file that the catalog schedules for deletion must not be deleted; None if it may be."""
        if "\0" in stored or ".." in re.split(r"[/\\]", stored):
            return "its path has '..' in it"
        whole = paths.join(self._data_path, stored, relative)
        if self.is_protected(whole):
            return "it belongs to the catalog, or to another lake"
        local = local_path(whole_path(whole))
        if relative or whole.startswith(self._data_path):
            inside = local is None or self._inside(os.path.dirname(local))
            return None if inside else "a link on its way leads out of the data path"
        if local is not None and self._inside(os.path.dirname(local)):
            return None
        return self._refusal_outside(whole)

    def _refusal_outside(self, whole: str) -> str | None:
        if _WRITTEN.match(whole.rsplit("/", 1)[-1]):
            return "it is outside of the data path, and written by another lake"
        try:
            begin = files.first_bytes(self._scope.files_session, whole, 4)
        except FileError as error:
            return f"it is outside of the data path ({error})"
        if begin is not None and begin not in _MAGIC:
            return "it is outside of the data path, and no Parquet file"
        return None
