"""The rows that all systems are given: TPC-H out of DuckDB's generator, as Parquet files, made once for a scale."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.peers.systems import extension_file

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
PARTS = 4
"""Files of lineitem: as many as two cores need to be busy to the end."""

SCATTERED = "(l_partkey * 31 + l_suppkey) % 100"
"""One row in a hundred for each value, all over the table."""


STREAMED = 60
"""Small files for streams."""

NESTED = """
    SELECT l_orderkey AS id, l_orderkey % 100 AS kind, 0 AS mark,
           {'quantity': sum(l_quantity)::DECIMAL(15,2), 'price': sum(l_extendedprice)::DECIMAL(15,2)} AS total,
           list({'line': l_linenumber, 'part': l_partkey, 'price': l_extendedprice} ORDER BY l_linenumber) AS lines,
           list(DISTINCT l_shipmode) AS modes, map_from_entries(list((l_linenumber, l_tax))) AS shares
    FROM lineitem GROUP BY ALL ORDER BY id
"""


def made(folder: Path, scale: float) -> Path:
    """The folder with `lineitem/`, `changes.parquet` for a merge, and each table of TPC-H."""
    target = folder / f"tpch-{scale:g}"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            # A process of its own gives the memory of the generator back.
            subprocess.run([sys.executable, "-m", "benchmarks.peers.data", work, str(scale)], check=True)
            Path(work, "made").rename(target)
    return target


def queries() -> list[str]:
    """The 22 queries, which Spark takes as DuckDB prints them."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension_file('tpch')}'")
        rows = connection.execute("SELECT query FROM tpch_queries() ORDER BY query_nr").fetchall()
    return [row[0].strip().rstrip(";") for row in rows]


def renamed(text: str, names: dict[str, str]) -> str:
    """A query with the tables that are stored under other names: as names of WITH, before those of its own."""
    with_names = ", ".join(f"{name} AS (SELECT * FROM {stored})" for name, stored in names.items())
    head, _, tail = text.partition("WITH ")
    return f"WITH {with_names}, {tail}" if not head.strip() else f"WITH {with_names} {text}"


def _make(work: Path, scale: float) -> None:
    import duckdb

    made = work / "made"
    (made / "lineitem").mkdir(parents=True)
    with duckdb.connect(str(work / "tpch.db")) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET memory_limit = '3gb'")
        connection.execute(f"LOAD '{extension_file('tpch')}'")
        connection.execute(f"CALL dbgen(sf = {scale})")
        for table in TABLES[:-1]:
            connection.execute(f"COPY {table} TO '{made / table}.parquet' (FORMAT parquet, COMPRESSION zstd)")
        (last,) = connection.execute("SELECT max(l_orderkey) FROM lineitem").fetchone() or (0,)
        for part in range(PARTS):
            some = f"l_orderkey > {last * part // PARTS} AND l_orderkey <= {last * (part + 1) // PARTS}"
            file = made / "lineitem" / f"{part}.parquet"
            rows = f"SELECT * FROM lineitem WHERE {some} ORDER BY l_orderkey, l_linenumber"
            connection.execute(f"COPY ({rows}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)")
        changed = (
            f"SELECT * REPLACE (l_quantity + 1 AS l_quantity) FROM lineitem WHERE {SCATTERED} = 33 UNION ALL "
            f"SELECT * REPLACE (l_orderkey + 1000000000 AS l_orderkey) FROM lineitem WHERE {SCATTERED} = 44"
        )
        connection.execute(
            f"COPY ({changed}) TO '{made / 'changes.parquet'}' (FORMAT parquet, COMPRESSION zstd)"
        )
        connection.execute(
            f"COPY ({NESTED}) TO '{made / 'nested.parquet'}' (FORMAT parquet, COMPRESSION zstd)"
        )
        (made / "stream").mkdir()
        for number in range(STREAMED):
            rows = f"SELECT * FROM lineitem LIMIT 500 OFFSET {number * 500}"
            connection.execute(f"COPY ({rows}) TO '{made / 'stream' / str(number)}.parquet' (FORMAT parquet)")
    shutil.rmtree(work / "tpch.db", ignore_errors=True)


if __name__ == "__main__":
    _make(Path(sys.argv[1]), float(sys.argv[2]))
