"""Parquet files that exist already become files of a table, as they are: nothing is copied, and no row is read.

Footers tell all that must be known. A few of them are read by threads of the driver, many by tasks of Spark. The files
belong to the lake from the commit on, and never before: a transaction that does not commit leaves them alone.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb

from ducklake_spark.catalog import ddl
from ducklake_spark.catalog.transaction import Transaction
from ducklake_spark.engine.maintenance.age import flag
from ducklake_spark.engine.maintenance.progress import Progress
from ducklake_spark.engine.maintenance.report import Report
from ducklake_spark.errors import ConstraintError, DuckLakeError, FileError, InvalidInputError
from ducklake_spark.format import hive, paths
from ducklake_spark.format.added_files import AddOptions, MappedFile, map_file, statistics
from ducklake_spark.format.data import DataFile
from ducklake_spark.format.duckdb_library import NO_THREADS
from ducklake_spark.format.duckdb_rows import first_row
from ducklake_spark.format.edits import InsertFiles
from ducklake_spark.format.names import Name
from ducklake_spark.format.objects import SchemaDef, TableDef
from ducklake_spark.format.parquet_types import columns_of
from ducklake_spark.format.types import quote
from ducklake_spark.spark.files import FileStatus, glob_files
from ducklake_spark.spark.footer_copies import footer_copies
from ducklake_spark.storage import local_path, whole_path
from ducklake_spark.workers.footers import RawFooter, ReadFooters, from_json, read_footers
from ducklake_spark.write.partitioning.keys import encoded_keys, table_keys

if TYPE_CHECKING:
    from ducklake_spark.engine.scope import Scope

FEW_FILES = 5000
"""Footers of so many files are read here; those of more by Spark, where they are read on many machines."""
_FILES_PER_TASK = 1000
_BATCH = 50
"""Files that a thread takes at once."""


def add_data_files(
    scope: Scope,
    table: Name,
    path: str | Sequence[str],
    *,
    allow_missing: bool = False,
    ignore_extra_columns: bool = False,
    hive_partitioning: bool | None = None,
    dry_run: bool = False,
) -> Report:
    """Adds Parquet files to a table.

    Args:
        scope: The lake.
        table: The table's name.
        path: A file, a folder, a pattern with `*`, `**`, `?` and `[]`, or several of these.
        allow_missing: Whether files may lack columns, which then read as their initial default.
        ignore_extra_columns: Whether files may have columns that the table lacks.
        hive_partitioning: Whether folders such as `year=2024` give values; None as the extension decides.
        dry_run: Only look at the files, and say what would be added.

    Raises:
        FileError: A file is not there, or is not a Parquet file that can be read.
        InvalidInputError: A file's columns or folders do not fit the table.
        ConstraintError: A column that is NOT NULL would have NULLs.
    """
    patterns = _patterns(path)
    options = AddOptions(
        _flag("allow_missing", allow_missing),
        _flag("ignore_extra_columns", ignore_extra_columns),
        None if hive_partitioning is None else _flag("hive_partitioning", hive_partitioning),
    )
    read: list[RawFooter] = []

    def run(tx: Transaction) -> list[DataFile]:
        schema, name = scope.resolve(tx, table)
        found = ddl.get_table(tx, schema, name)
        if tx.options.get("encrypted") == "true":
            raise DuckLakeError(
                f'Cannot add files to table "{found.name}": its lake is encrypted, and readers want a key of each file.'
            )
        if not read:  # not again after a conflict
            read.extend(_footers(scope, _expanded(scope, patterns)))
        files = _Adding(scope, schema, found, options).files(read)
        if files and not dry_run:
            tx.apply(InsertFiles(found, tuple(files)))
        return files

    added = run(scope.read_transaction()) if flag(dry_run, "dry_run") else scope.statement(run)
    rows = [(file.whole_path, file.record_count, file.file_size_bytes) for file in added]
    return Report("filename string", rows, "row_count bigint, file_size_bytes bigint")


def _patterns(path: Any) -> list[str]:
    given = [path] if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(given, (list, tuple, set, frozenset)) or not given:
        raise InvalidInputError(
            f"add_data_files() takes a path or a list of paths of Parquet files, not {path!r}."
        )
    patterns = [os.fspath(each) if isinstance(each, os.PathLike) else each for each in given]
    for each in patterns:
        if not isinstance(each, str) or not each:
            raise InvalidInputError(f"add_data_files() takes paths as texts, not {each!r}.")
    return [paths.as_in_duckdb(each) for each in patterns]


def _flag(name: str, value: Any) -> bool:
    if value is None:
        return False  # as in the extension
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name} is true or false, not {value!r}.")
    return value


def _expanded(scope: Scope, patterns: Sequence[str]) -> dict[str, FileStatus | None]:
    """The files that are meant, each once, in the order of the patterns and then by name.

    Those of this machine come without what storage knows of them, as their footers tell it.
    """
    found: dict[str, FileStatus | None] = {}
    for pattern in patterns:
        local = local_path(whole_path(pattern))
        if local is not None:
            files: Mapping[str, FileStatus | None] = dict.fromkeys(_matches(os.path.abspath(local)))
        else:
            files = {status.path: status for status in _stored(scope, pattern)}
        if not files:
            raise FileError(f'No files match "{pattern}": there is nothing to add. Nothing was changed.')
        found.update(files)
    return found


def _stored(scope: Scope, pattern: str) -> list[FileStatus]:
    """Files elsewhere; a folder stands for all Parquet files below it."""
    found = glob_files(scope.files_session, pattern)
    return found or glob_files(scope.files_session, f"{pattern.rstrip('/')}/**/*.parquet")


def _matches(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        path = os.path.join(_literal(path), "**", "*.parquet")
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        rows = connection.execute("SELECT file FROM glob(?) ORDER BY file", [path]).fetchall()
    return [row[0] for row in rows if os.path.isfile(row[0])]


def _literal(path: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


def _footers(scope: Scope, files: Mapping[str, FileStatus | None]) -> list[RawFooter]:
    """The footers of files, in order.

    Raises:
        FileError: One of them cannot be read.
    """
    here = [path for path, status in files.items() if status is None]
    read = _by_spark(scope, here) if len(here) > FEW_FILES else _by_threads(here)
    read += _of_stored(scope, [status for status in files.values() if status is not None])
    found = {footer.path: footer for footer in read}
    footers = [found[path] for path in files]
    for footer in footers:
        if footer.error is not None:
            raise FileError(
                f'Cannot add "{footer.path}": {footer.error}. Nothing was added; leave it out, or mend it.'
            )
    return footers


def _by_threads(files: Sequence[str]) -> list[RawFooter]:
    batches = [files[first : first + _BATCH] for first in range(0, len(files), _BATCH)]
    if len(batches) <= 1:
        return read_footers(files)
    with ThreadPoolExecutor(min(len(batches), os.cpu_count() or 1, 16)) as pool:
        footers: list[RawFooter] = []
        with Progress("add_data_files", len(files), "files") as progress:
            for some in pool.map(read_footers, batches):
                footers += some
                progress.advance(len(some))
        return footers


def _by_spark(scope: Scope, files: Sequence[str]) -> list[RawFooter]:
    import pyarrow as pa

    from ducklake_spark.spark.worker_functions import map_in_arrow

    tasks = max(2, -(-len(files) // _FILES_PER_TASK))
    frame = scope.spark.createDataFrame(pa.table({"path": pa.array(files, pa.string())})).repartition(tasks)
    texts = map_in_arrow(frame, ReadFooters(), "footer string").toArrow().column(0)
    found = {footer.path: footer for footer in map(from_json, texts.to_pylist())}
    return [found[path] for path in files]


def _of_stored(scope: Scope, files: Sequence[FileStatus]) -> list[RawFooter]:
    """The footers of files that only Hadoop can read: their ends are fetched, and DuckDB reads files that end so."""
    footers: list[RawFooter] = []
    for first in range(0, len(files), _BATCH):
        some = files[first : first + _BATCH]
        with tempfile.TemporaryDirectory() as folder:
            copies = footer_copies(scope.files_session, some, folder)
            read = read_footers(copies)
        footers += [replace(footer, path=file.path) for file, footer in zip(some, read, strict=True)]
    return footers


class _Adding:
    """One call on one table."""

    def __init__(self, scope: Scope, schema: SchemaDef, table: TableDef, options: AddOptions) -> None:
        self.table, self.options = table, options
        folder = paths.join(scope.config.data_path, schema.path, schema.path_is_relative)
        folder = paths.join(folder, table.path, table.path_is_relative)
        self.folder = _absolute(folder)
        self.keys = [
            (key.column_id, encoded.folder, key.transform == "identity")
            for (key, _), encoded in zip(table_keys(table), encoded_keys(table), strict=True)
        ]
        self.cast = _caster()
        self.mapped: dict[tuple[Any, ...], MappedFile] = {}

    def files(self, footers: Sequence[RawFooter]) -> list[DataFile]:
        made = (self._file(footer) for footer in footers)
        return [file for file in made if file.record_count]

    def _file(self, footer: RawFooter) -> DataFile:
        # Files of one shape in one folder are mapped alike.
        alike = (footer.schema, tuple(hive.parse(footer.path).items()))
        mapped = self.mapped.get(alike)
        if mapped is None:
            columns = columns_of(footer.schema)
            mapped = map_file(self.table, footer.path, columns, self.keys, self.options, self.cast)
            self.mapped[alike] = mapped
        stats = statistics(mapped, footer.rows, footer.chunks, self.cast)
        self._require_values(mapped, footer)
        path, relative = paths.relative_to(self.folder, footer.path)
        partitioning = self.table.partitioning
        return DataFile(
            path=path,
            path_is_relative=relative,
            record_count=footer.rows,
            file_size_bytes=footer.size,
            footer_size=footer.footer_size,
            columns=stats,
            partition_id=partitioning.partition_id if partitioning is not None and self.keys else None,
            partition_values=mapped.partition_values,
            whole_path=footer.path,
            mapping=mapped.mapping,
        )

    def _require_values(self, mapped: MappedFile, footer: RawFooter) -> None:
        """NOT NULL holds for files, too; the extension does not look."""
        strict = {column.column_id: column for column in self.table.columns if not column.nulls_allowed}
        if not strict or not footer.rows:
            return
        for node in mapped.missing:
            if node.column_id in strict and node.initial_default is None:
                raise self._null(node.name, footer.path)
        for node, text in mapped.folders:
            if node.column_id in strict and text is None:
                raise self._null(node.name, footer.path)
        for leaf, (node, column) in mapped.leaves.items():
            if node.column_id in strict and column.repetition != "REQUIRED":
                counts = [chunk[2] for chunk in footer.chunks if int(chunk[0]) == leaf]
                if any(count is None for count in counts) and os.path.isabs(footer.path):
                    counts = [_nulls(footer.path, column.name)]
                elif any(count is None for count in counts):
                    raise InvalidInputError(
                        f'Cannot add "{footer.path}": its writer counted no NULLs, and {node.name} is NOT NULL.'
                    )
                if any(int(count) for count in counts):
                    raise self._null(node.name, footer.path)

    def _null(self, column: str, path: str) -> ConstraintError:
        return ConstraintError(
            f'NOT NULL constraint failed: {self.table.name}.{column}. File "{path}" has no value of it in some rows. '
            "Nothing was added."
        )


def _nulls(path: str, column: str) -> int:
    """Whether a column has a NULL, of a file whose writer did not count them."""
    with duckdb.connect(":memory:") as connection:
        row = first_row(
            connection.execute(
                f"SELECT count(*) FROM (SELECT 1 FROM read_parquet(?, hive_partitioning = false) WHERE {quote(column)} "
                "IS NULL LIMIT 1)",
                [_literal(path)],
            )
        )
    assert row is not None
    return int(row[0])


def _absolute(folder: str) -> str:
    """A folder as files in it are called: without a scheme if it is on this machine."""
    local = local_path(whole_path(folder))
    return folder if local is None else local.rstrip("/") + "/"


def _caster() -> Callable[[str, str, str], str | None]:
    """Casts texts as DuckDB does, each once."""

    @functools.cache
    def connection() -> duckdb.DuckDBPyConnection:
        made = duckdb.connect(":memory:", config=NO_THREADS)
        made.execute("SET TimeZone = 'UTC'")
        return made

    @functools.cache
    def cast(text: str, then: str, now: str) -> str | None:
        sql = f"SELECT CAST(TRY_CAST(TRY_CAST(? AS {then}) AS {now}) AS VARCHAR)"
        row = first_row(connection().execute(sql, [text]))
        return None if row is None else row[0]

    return cast
