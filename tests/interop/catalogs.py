"""Whole catalogs as comparable values: read from any database, freed of what differs by chance, compared.

Knows the 28 tables by name only: what they should look like is for the code under test to say.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
import shlex
import sqlite3
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Catalog = dict[str, list[Row]]

TABLES = tuple(
    """
    ducklake_column ducklake_column_mapping ducklake_column_tag ducklake_data_file ducklake_delete_file
    ducklake_file_column_stats ducklake_file_partition_value ducklake_file_variant_stats
    ducklake_files_scheduled_for_deletion ducklake_inlined_data_tables ducklake_macro ducklake_macro_impl
    ducklake_macro_parameters ducklake_metadata ducklake_name_mapping ducklake_partition_column
    ducklake_partition_info ducklake_schema ducklake_schema_versions ducklake_snapshot
    ducklake_snapshot_changes ducklake_sort_expression ducklake_sort_info ducklake_table
    ducklake_table_column_stats ducklake_table_stats ducklake_tag ducklake_view
    """.split()  # noqa: SIM905 (28 quoted names would be a page)
)
COLUMNS_OF = "columns of "
"""Prefix of the entries that describe a table: one row per column with declared type, nullability and key."""

BOOLEANS = frozenset({"path_is_relative", "nulls_allowed", "contains_nan", "contains_null", "is_partition"})
TIMES = frozenset({"snapshot_time", "schedule_start"})
UUIDS = frozenset({"schema_uuid", "table_uuid", "view_uuid"})

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


# --- reading ------------------------------------------------------------------------------------------------


def dump(location: str | Path, *, metadata_schema: str | None = None) -> Catalog:
    """Everything in a catalog: each `ducklake_` table's rows, and under `columns of <table>` its columns.

    A DuckDB or SQLite file may be open elsewhere meanwhile, in this process or in another.

    Args:
        location: What ATTACH takes, with or without `ducklake:`; a plain path is a DuckDB file.
        metadata_schema: The schema that holds the tables, if it is not the database's default.
    """
    kind, _, rest = str(location).removeprefix("ducklake:").partition(":")
    if kind == "sqlite":
        return _dump_sqlite(rest)
    if kind in ("postgres", "postgresql"):
        return _dump_postgres(rest, metadata_schema or "public")
    if kind == "mysql":
        return _dump_mysql(rest, metadata_schema)
    path = rest if kind == "duckdb" else str(location).removeprefix("ducklake:")
    return _dump_duckdb(path, metadata_schema or "main")


def _dump_duckdb(path: str, schema: str) -> Catalog:
    import duckdb

    if not Path(path).is_file():
        raise FileNotFoundError(path)
    with tempfile.TemporaryDirectory() as folder:
        # A copy, because the file may be open in another process. Made by a child: closing the file in this
        # process would take away the lock of a connection that this process has on it.
        files = [file for file in (path, path + ".wal") if Path(file).exists()]
        subprocess.run(["cp", *files, folder], check=True)
        with closing(duckdb.connect(str(Path(folder) / Path(path).name))) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            catalog: Catalog = {}
            found = connection.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() "
                "AND schema_name = ? AND starts_with(table_name, 'ducklake_')",
                [schema],
            ).fetchall()
            for (table,) in found:
                name = f"{_quoted(schema)}.{_quoted(table)}"
                info = connection.execute("SELECT * FROM pragma_table_info(?)", [name]).fetchall()
                columns = [_column(row[1], row[2], bool(row[3]), bool(row[5])) for row in info]
                # As text, because Python's times end at the year 9999 and at microseconds.
                wanted = ", ".join(
                    f"CAST({_quoted(c['column_name'])} AS VARCHAR)"
                    if re.match("DATE|TIME|INTERVAL", c["declared_type"])
                    else _quoted(c["column_name"])
                    for c in columns
                )
                rows = connection.execute(f"SELECT {wanted} FROM {name}").fetchall()
                _add(catalog, table, columns, rows)
            return catalog


def _dump_sqlite(path: str) -> Catalog:
    if not Path(path).is_file():
        raise FileNotFoundError(path)
    with closing(sqlite3.connect(path)) as connection:
        catalog: Catalog = {}
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in found:
            if table.startswith("ducklake_"):
                info = connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
                columns = [_column(row[1], row[2], bool(row[3]), bool(row[5])) for row in info]
                _add(
                    catalog, table, columns, connection.execute(f"SELECT * FROM {_quoted(table)}").fetchall()
                )
        return catalog


def _dump_postgres(conninfo: str, schema: str) -> Catalog:
    import psycopg
    from psycopg.types.string import TextLoader

    with closing(psycopg.connect(conninfo, options="-c TimeZone=UTC")) as connection:
        # As text, for the same reason as in DuckDB; PostgreSQL's `infinity` has no datetime either.
        for name in ("date", "time", "timetz", "timestamp", "timestamptz", "interval"):
            connection.adapters.register_loader(name, TextLoader)
        described = connection.execute(
            """
            SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                   coalesce(a.attnum = ANY (i.indkey), false)
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                 LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
            WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname LIKE 'ducklake\\_%%'
            ORDER BY c.relname, a.attnum
            """,
            [schema],
        ).fetchall()
        catalog: Catalog = {}
        for table, columns in _by_table(described):
            query = f"SELECT * FROM {_quoted(schema)}.{_quoted(table)}"
            _add(catalog, table, columns, connection.execute(query.encode()).fetchall())
        return catalog


def _dump_mysql(conninfo: str, schema: str | None) -> Catalog:
    import pymysql

    names = {"user": "user", "host": "host", "password": "password", "passwd": "password", "port": "port"}
    names |= {"db": "database", "database": "database", "socket": "unix_socket", "unix_socket": "unix_socket"}
    given: dict[str, Any] = {}
    for part in shlex.split(conninfo):
        key, _, value = part.partition("=")
        given[names[key]] = int(value) if key == "port" else value
    if schema is not None:
        given["database"] = schema
    with closing(pymysql.connect(**given)) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(
            """
            SELECT table_name, column_name, column_type, is_nullable = 'NO', column_key = 'PRI'
            FROM information_schema.columns
            WHERE table_schema = %s AND table_name LIKE 'ducklake\\_%%'
            ORDER BY table_name, ordinal_position
            """,
            [given["database"]],
        )
        catalog: Catalog = {}
        for table, columns in _by_table(cursor.fetchall()):
            cursor.execute(f"SELECT * FROM `{table}`")
            _add(catalog, table, columns, cursor.fetchall())
        return catalog


def _by_table(described: Iterable[tuple[Any, ...]]) -> list[tuple[str, list[Row]]]:
    tables: dict[str, list[Row]] = {}
    for table, name, declared_type, not_null, key in described:
        tables.setdefault(table, []).append(_column(name, declared_type, bool(not_null), bool(key)))
    return list(tables.items())


def _column(name: str, declared_type: str, not_null: bool, key: bool) -> Row:
    return {
        "column_name": name,
        "declared_type": declared_type,
        "not_null": not_null or key,
        "primary_key": key,
    }


def _add(catalog: Catalog, table: str, columns: list[Row], rows: Iterable[tuple[Any, ...]]) -> None:
    names = [column["column_name"] for column in columns]
    catalog[COLUMNS_OF + table] = [{"position": place, **column} for place, column in enumerate(columns)]
    catalog[table] = [dict(zip(names, row, strict=True)) for row in rows]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# --- normalizing --------------------------------------------------------------------------------------------


def normalize(catalog: Catalog) -> Catalog:
    """The same catalog without what differs by chance or by database. Normalizing again changes nothing.

    Ids made by a random generator become `<uuid v4>` or `<uuid v7>`, and `<own uuid v7>` where a folder is
    named after the uuid of its own row; times of the catalog become `<time>`; keys become `<key>`; the data
    path becomes `DATA/`; `created_by` is dropped. Booleans are booleans everywhere, rows are sorted. Users'
    values in inlined rows stay as they are, except that times, decimals and uuids become text.
    """
    data_path = next(
        (row["value"] for row in catalog.get("ducklake_metadata", []) if _is(row, "data_path")), None
    )
    result: Catalog = {}
    for table in sorted(catalog):
        if table in TABLES:
            rows = [_normalize_row(row, data_path) for row in catalog[table] if not _is(row, "created_by")]
        else:
            rows = [{name: _plain(value) for name, value in row.items()} for row in catalog[table]]
        result[table] = sorted(rows, key=_sort_key)
    return result


def rows_only(catalog: Catalog) -> Catalog:
    """Without the descriptions of columns: for a comparison between two kinds of databases."""
    return {table: rows for table, rows in catalog.items() if not table.startswith(COLUMNS_OF)}


def _is(row: Row, key: str) -> bool:
    return row.get("key") == key and row.get("scope", "no such column") is None


def _normalize_row(row: Row, data_path: str | None) -> Row:
    own = {str(row[name]) for name in UUIDS & row.keys()}
    result: Row = {}
    for name, value in row.items():
        value = _plain(value)
        if value is None:
            pass
        elif name in BOOLEANS:
            value = bool(value)
        elif name in TIMES:
            value = "<time>"
        elif name == "encryption_key":
            value = "<key>"
        elif name in UUIDS:
            value = _without_uuids(value, frozenset())
        elif name == "path":
            value = _without_uuids(_without_data_path(value, data_path), own)
        result[name] = value
    if _is(row, "data_path"):
        result["value"] = "DATA/"
    return result


def _without_uuids(text: str, own: Iterable[str]) -> str:
    return _UUID.sub(lambda match: f"<{'own ' if match[0] in own else ''}uuid v{match[1]}>", text)


def _without_data_path(path: str, data_path: str | None) -> str:
    return "DATA/" + path[len(data_path) :] if data_path and path.startswith(data_path) else path


def _plain(value: Any) -> Any:
    if isinstance(value, (uuid.UUID, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta)):
        return str(value)
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def _sort_key(row: Row) -> list[tuple[bool, float, str]]:
    return [
        (value is not None, value if isinstance(value, (int, float)) else 0, str(value))
        for value in row.values()
    ]


# --- comparing ----------------------------------------------------------------------------------------------


def assert_same(
    a: Catalog | str | Path, b: Catalog | str | Path, *, ignore: Mapping[str, Iterable[str]] | None = None
) -> None:
    """Fails with every difference between two catalogs, each as table, row, column and both values.

    Args:
        a: A dump, normalized or not, or a location for `dump`.
        b: The other one.
        ignore: Columns not to compare, by table; the table `*` means all tables.
    """
    found = list(differences(a, b, ignore=ignore))
    if found:
        raise AssertionError(f"{len(found)} differences between the catalogs:\n" + "\n".join(found))


def differences(
    a: Catalog | str | Path, b: Catalog | str | Path, *, ignore: Mapping[str, Iterable[str]] | None = None
) -> Iterator[str]:
    """The lines of `assert_same`; `a` and `b` are named `first` and `second`."""
    ignored = {table: frozenset(columns) for table, columns in (ignore or {}).items()}
    left, right = (normalize(c if isinstance(c, dict) else dump(c)) for c in (a, b))
    for table in sorted(left.keys() | right.keys()):
        if table not in right or table not in left:
            yield f"{table}: only in the {'first' if table in left else 'second'} catalog"
            continue
        skip = ignored.get("*", frozenset()) | ignored.get(table, frozenset())
        yield from _row_differences(table, _without(left[table], skip), _without(right[table], skip))


def _without(rows: list[Row], skip: frozenset[str]) -> list[Row]:
    kept = [{name: value for name, value in row.items() if name not in skip} for row in rows]
    # Again, because the order may have come from a column that is not compared.
    return sorted(kept, key=_sort_key)


def _row_differences(table: str, left: list[Row], right: list[Row]) -> Iterator[str]:
    matcher = SequenceMatcher(
        None, [_text(row) for row in left], [_text(row) for row in right], autojunk=False
    )
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        mine, theirs = left[start:end], right[other_start:other_end]
        # Near rows first, so that one wrong value shows as that value and not as two strange rows.
        while mine and theirs:
            pairs = [
                (_distance(row, other), i, j) for i, row in enumerate(mine) for j, other in enumerate(theirs)
            ]
            distance, i, j = min(pairs)
            if distance > len(mine[i]) / 2:
                break
            yield from _value_differences(table, mine.pop(i), theirs.pop(j))
        yield from (f"{table}: only in the first catalog: {_text(row)}" for row in mine)
        yield from (f"{table}: only in the second catalog: {_text(row)}" for row in theirs)


def _distance(row: Row, other: Row) -> int:
    return sum(row.get(name, ...) != other.get(name, ...) for name in row.keys() | other.keys())


def _value_differences(table: str, row: Row, other: Row) -> Iterator[str]:
    names = [*row, *(name for name in other if name not in row)]
    differing = [name for name in names if row.get(name, "<no column>") != other.get(name, "<no column>")]
    same = _text({name: row[name] for name in row if name not in differing and row[name] is not None})
    for name in differing:
        first, second = row.get(name, "<no column>"), other.get(name, "<no column>")
        yield f"{table}.{name}: first {first!r}, second {second!r}   in the row {same}"


def _text(row: Row) -> str:
    return json.dumps(row, default=repr, ensure_ascii=False)
