"""Which files the catalog names: folders of tables, whole paths of files, and whether any row still needs one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ducklake_spark.catalog.store import Row
from ducklake_spark.format import paths

Ask = Callable[[str, Sequence[Any]], list[Row]]
"""A query with its parameters, of a store or of a session."""

_ALL = (
    "SELECT table_id, path, path_is_relative FROM ducklake_data_file{0} UNION ALL "
    "SELECT table_id, path, path_is_relative FROM ducklake_delete_file{0}"
)
_LOOKED_UP = 200
"""More paths than this are compared with all paths of the catalog, in one query."""

Folders = Mapping[int, Sequence[str]]
"""The folders of tables by id; a table has more than one only in a damaged catalog."""


def table_folders(ask: Ask, data_path: str) -> Folders:
    """Where the files of every table are that the catalog still knows, of dropped ones too."""
    rows = ask(
        "SELECT DISTINCT t.table_id, t.path, t.path_is_relative, s.path, s.path_is_relative FROM ducklake_table t "
        "LEFT JOIN ducklake_schema s ON s.schema_id = t.schema_id",
        (),
    )
    found: dict[int, list[str]] = defaultdict(list)
    for table_id, path, relative, schema_path, schema_relative in rows:
        schema = paths.join(data_path, schema_path, bool(schema_relative))
        found[int(table_id)].append(paths.join(schema, path, bool(relative)))
    return dict(found)


def whole_paths(folders: Folders, table_id: int, path: str, *, relative: bool) -> list[str]:
    """Where a file is; nothing when its table is unknown."""
    return (
        [paths.join(folder, path, relative) for folder in folders.get(table_id, ())] if relative else [path]
    )


def named_files(ask: Ask, folders: Folders) -> tuple[set[str], set[str]]:
    """All files that a row names, at any snapshot.

    Returns:
        Whole paths; and the relative ones of files whose table is unknown, which can be anywhere.
    """
    return _whole(ask(_ALL.format(""), ()), folders)


def still_named(ask: Ask, folders: Folders, files: Iterable[str]) -> set[str]:
    """Those of the files, given by their whole paths, that a row names at any snapshot."""
    wanted = set(files)
    if not wanted:
        return set()
    known = {folder for each in folders.values() for folder in each}
    spellings = {spelling for file in wanted for spelling in _spellings(file, known)}
    if len(spellings) > _LOOKED_UP:
        rows = ask(_ALL.format(""), ())
    else:
        marks = ", ".join("?" * len(spellings))
        rows = ask(_ALL.format(f" WHERE path IN ({marks})"), (*spellings, *spellings))
    whole, unknown = _whole(rows, folders)
    return {file for file in wanted if file in whole or any(file.endswith(f"/{end}") for end in unknown)}


def _whole(rows: Iterable[Row], folders: Folders) -> tuple[set[str], set[str]]:
    whole: set[str] = set()
    unknown: set[str] = set()
    for table_id, path, relative in rows:
        found = whole_paths(folders, int(table_id), str(path), relative=bool(relative))
        whole.update(found)
        if not found:
            unknown.add(str(path))
    return whole, unknown


def _spellings(file: str, known: set[str]) -> Iterable[str]:
    """How rows may name a file: whole, or relative to the folder of some table."""
    yield file
    for place, letter in enumerate(file):
        if letter == "/" and file[: place + 1] in known:
            yield file[place + 1 :]
