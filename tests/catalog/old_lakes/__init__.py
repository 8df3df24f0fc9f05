"""Lakes of older formats, as old releases of DuckDB wrote them (`make.py`), put into any database."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ducklake_spark.catalog.location import parse_location
from ducklake_spark.catalog.open import open_store
from ducklake_spark.catalog.pool import quoted

_HERE = Path(__file__).parent
VERSIONS = ("0.1", "0.2", "0.3", "0.4")


def load(version: str) -> dict[str, Any]:
    """The lake as JSON. Of format 0.1, whose extension can be had no more, the one of 0.2 without what 0.2 added."""
    folder = "0.2" if version == "0.1" else version
    lake: dict[str, Any] = json.loads((_HERE / folder / "lake.json").read_text())
    return _as_first(lake) if version == "0.1" else lake


def _as_first(lake: dict[str, Any]) -> dict[str, Any]:
    catalog = lake["catalog"]
    _without(catalog["ducklake_metadata"], "scope", "scope_id")
    _without(catalog["ducklake_data_file"], "mapping_id")
    for table in ("ducklake_schema", "ducklake_table"):
        # All files were in the data path itself.
        _without(catalog[table], "path", "path_is_relative")
    for table in ("ducklake_column_mapping", "ducklake_name_mapping"):
        del catalog[table]
    folders = {1: "main/t/", 3: "other/p/", 6: "main/gone/", 7: "main/m/"}
    for table in ("ducklake_data_file", "ducklake_delete_file"):
        names = [name for name, _ in catalog[table]["columns"]]
        for row in catalog[table]["rows"]:
            row[names.index("path")] = folders[row[names.index("table_id")]] + row[names.index("path")]
    for row in catalog["ducklake_metadata"]["rows"]:
        row[1] = "0.1" if row[0] == "version" else row[1]
    [key] = catalog["ducklake_partition_column"]["rows"]
    key[3] = 1  # the second of two columns, and not the one with the id 3
    return lake


def _without(table: dict[str, Any], *names: str) -> None:
    kept = [place for place, (name, _) in enumerate(table["columns"]) if name not in names]
    table["columns"] = [table["columns"][place] for place in kept]
    table["rows"] = [[row[place] for place in kept] for row in table["rows"]]


def build(version: str, uri: str, folder: Path) -> dict[str, Any]:
    """Makes the lake in the database of an attach string, with its data below a folder."""
    lake = load(version)
    data = folder / "data"
    shutil.copytree(_HERE / ("0.2" if version == "0.1" else version) / "data", data, dirs_exist_ok=True)
    store = open_store(parse_location(uri), create=True)
    try:
        for name, table in lake["catalog"].items():
            columns = [(column, kind) for column, kind in table["columns"]]
            rows = [tuple(row) for row in table["rows"]]
            if store.kind == "mysql":  # its times have no zone
                rows = [
                    tuple(
                        str(value).removesuffix("+00") if kind == "TIMESTAMPTZ" and value else value
                        for value, (_, kind) in zip(row, columns, strict=True)
                    )
                    for row in rows
                ]
            if name == "ducklake_metadata":
                rows = [
                    (key, f"{data}/" if key == "data_path" else value, *rest) for key, value, *rest in rows
                ]
            with store.begin() as session:
                session.create_table(
                    store.create_table_sql(name, columns, constraints=name == "ducklake_snapshot")
                )
                # Not `insert`, which knows the columns of the present formats.
                names = ", ".join(quoted(column) for column, _ in columns)
                marks = ", ".join("?" * len(columns))
                for row in rows:
                    session.execute(f"INSERT INTO {quoted(name)} ({names}) VALUES ({marks})", row)
    finally:
        store.close()
    return lake
