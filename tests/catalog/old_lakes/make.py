"""Writes a lake of an older format as a folder of this one: `python make.py`, with an old release of DuckDB.

Run it in an environment of its own, for instance with duckdb==1.3.2 duckdb-extensions==1.3.2
duckdb-extension-ducklake==1.3.2, which write format 0.2; 1.4 writes 0.3, and 1.5.0 writes 0.4. The catalog is kept as
JSON, so that tests can put it into any database, with the rows of each snapshot as that release read them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
from duckdb_extensions import import_extension

STATEMENTS = (
    "CREATE TABLE t(i INTEGER, s VARCHAR, st STRUCT(a INTEGER, b VARCHAR), l INTEGER[])",
    "INSERT INTO t SELECT i, 's' || i, {'a': i, 'b': 'b'}, [i] FROM range(20) r(i)",
    "DELETE FROM t WHERE i < 5",
    "ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 7",
    "UPDATE t SET z = 8 WHERE i < 8",
    "CREATE SCHEMA other",
    "CREATE TABLE other.p(x INTEGER, k INTEGER, y INTEGER)",
    "ALTER TABLE other.p DROP COLUMN x",
    "ALTER TABLE other.p SET PARTITIONED BY (y)",
    "INSERT INTO other.p SELECT i, i % 2 FROM range(10) r(i)",
    "CREATE VIEW v AS SELECT i FROM t WHERE i > 10",
    "COMMENT ON TABLE t IS 'a table'",
    "CREATE TABLE gone(a INTEGER)",
    "INSERT INTO gone VALUES (1)",
    "DROP TABLE gone",
    "CREATE TABLE m(a INTEGER)",
    "INSERT INTO m VALUES (1)",
    "INSERT INTO m VALUES (2)",
    "CALL ducklake_merge_adjacent_files('lake')",
    "INSERT INTO t VALUES (100, 'last', NULL, NULL, 1)",
)
TABLES = ("main.t", "other.p", "main.gone", "main.m", "main.v")


def plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def main() -> None:
    import_extension("ducklake")
    connection = duckdb.connect()
    connection.execute("LOAD ducklake")
    scratch = Path("scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    connection.execute(
        "ATTACH 'ducklake:scratch/m.ducklake' AS lake (DATA_PATH 'scratch/data', DATA_INLINING_ROW_LIMIT 0)"
    )
    connection.execute("USE lake")
    for statement in STATEMENTS:
        connection.execute(statement)
    rows: dict[str, dict[str, list[Any]]] = {}
    for (snapshot,) in connection.execute("SELECT snapshot_id FROM ducklake_snapshots('lake')").fetchall():
        for table in TABLES:
            try:
                found = connection.execute(f"SELECT * FROM {table} AT (VERSION => {snapshot})").fetchall()
            except duckdb.Error:
                continue  # it was not there
            rows.setdefault(table, {})[str(snapshot)] = sorted(map(str, found))
    connection.execute("USE memory")
    connection.execute("DETACH lake")
    catalog: dict[str, Any] = {}
    with duckdb.connect("scratch/m.ducklake") as file:
        names = file.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_oid").fetchall()
        for (name,) in names:
            described = file.execute(f"DESCRIBE {name}").fetchall()
            columns = [
                [row[0], {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}.get(row[1], row[1])] for row in described
            ]
            texts = ", ".join(
                f"CAST({column} AS VARCHAR)" if kind in ("TIMESTAMPTZ", "UUID") else f'"{column}"'
                for column, kind in columns
            )
            found = file.execute(f"SELECT {texts} FROM {name}").fetchall()
            catalog[name] = {"columns": columns, "rows": [list(map(plain, row)) for row in found]}
    version = dict(row[:2] for row in catalog["ducklake_metadata"]["rows"])["version"]
    folder = Path(__file__).parent / version
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(scratch / "data", folder / "data")
    made = {"duckdb": duckdb.__version__, "catalog": catalog, "rows": rows}
    (folder / "lake.json").write_text(json.dumps(made, indent=None, separators=(",", ":")) + "\n")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
