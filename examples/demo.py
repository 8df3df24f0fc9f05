"""A lake in a minute: made, changed and looked back at by ducklake-spark, then opened by DuckDB's own extension.

Run it with `make demo`. It needs no server, and leaves nothing behind. With `make demo ARGS=--s3` the data files are
in a bucket, of a server on this machine that plays S3.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import ducklake_spark
from ducklake_spark import Lake

# What DuckDB says of the lake, asked in a process of its own: a DuckDB catalog file is open in one process only.
DUCKDB = """
import importlib.util, json, pathlib, sys
import duckdb

connection = duckdb.connect(config={"autoinstall_known_extensions": False})
version = connection.execute("PRAGMA version").fetchone()[0]
for name in ["ducklake"] + ["httpfs"] * bool(sys.argv[4]):
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    if package is None:
        sys.exit(f"The package duckdb-extension-{name} is missing: pip install -e '.[dev]'")
    file = pathlib.Path(package.origin).parent / "extensions" / version / f"{name}.duckdb_extension"
    connection.execute(f"LOAD '{file}'")
if sys.argv[4]:
    connection.execute(sys.argv[4])
connection.execute(f"ATTACH '{sys.argv[1]}' AS lake")
snapshots = connection.execute(
    "SELECT snapshot_id, changes::JSON::VARCHAR, author, commit_message FROM lake.snapshots() ORDER BY 1"
).fetchall()


def columns(table, version):
    found = connection.execute(f"DESCRIBE SELECT * FROM lake.{table} AT (VERSION => {version})").fetchall()
    return {name: kind for name, kind, *_ in found}


def totals(table, version):
    query = f"SELECT count(*), sum(id), sum(price)::VARCHAR FROM lake.{table} AT (VERSION => {version})"
    return list(connection.execute(query).fetchone())


wanted = json.loads(sys.argv[2])
print(json.dumps({
    "version": version,
    "snapshots": [[row[0], json.loads(row[1]), *row[2:]] for row in snapshots],
    "columns": {f"{table}@{at}": columns(table, at) for table, at in wanted},
    "totals": {str(at): totals("shop.orders", at) for at in json.loads(sys.argv[3])},
}))
"""


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}\n{'-' * len(text)}", flush=True)


def show(rows: list[tuple[str, ...]]) -> None:
    """Rows as aligned columns, the first one a heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        print("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


def build(lake: Lake) -> None:
    with lake.transaction(author="Ada", message="a place for orders"):
        lake.create_schema("shop")
        lake.create_table(
            "shop.orders",
            "id BIGINT NOT NULL, customer STRING, ordered DATE, price DECIMAL(9,2)",
            partitioned_by=["year(ordered)"],
            comment="One row per order",
        )
    print("  one snapshot: schema shop, table shop.orders, partitioned by year(ordered)")

    orders = lake["shop.orders"]
    orders.add_column("address", "STRUCT(street VARCHAR, city VARCHAR)")
    orders.add_column("address.country", "VARCHAR", default="NL")
    orders.set_type("price", "DECIMAL(18,2)")
    orders.rename_column("customer", "customer_name")
    print("  four more: a struct, a field in it, a wider price, a new name")

    try:
        orders.set_type("price", "INTEGER")
    except ducklake_spark.TypeChangeError as error:
        print(f"  refused, and nothing changed:\n    {error}")


ORDERS = 200_000


def ingest(lake: Lake) -> dict[int, list[Any]]:
    """Rows come, change and go; returns what the table held at each snapshot since."""
    orders = lake["shop.orders"]
    first = lake.version + 1
    generated = lake.spark.range(ORDERS).selectExpr(
        "id",
        "concat('customer ', id % 1000) AS customer_name",
        "date_add(DATE '2021-01-01', CAST(id % 1400 AS INT)) AS ordered",
        "CAST(id % 9973 AS DECIMAL(18,2)) / 100 AS price",
        "named_struct('street', 'Dam', 'city', 'Amsterdam', 'country', 'NL') AS address",
    )
    print(f"  {orders.insert(generated):,} rows of a DataFrame, one folder of files for each year")
    print(
        f"  {orders.insert([{'id': ORDERS, 'customer_name': 'Grace', 'price': 1}])} row of Python, in the catalog"
    )
    dearer = orders.update({"price": "price * 2"}, "customer_name = 'customer 7'")
    print(f"  {dearer:,} rows got a new price")
    gone = orders.delete("ordered < DATE '2021-02-01'")
    print(f"  {gone:,} rows of January 2021 deleted")
    asked = lake.table("shop.orders").where("ordered >= DATE '2024-01-01'")
    print(f"  {asked.count():,} rows are of 2024; read for that: {lake.explain(asked).splitlines()[0]}")
    return {version: totals(lake, version) for version in range(first, lake.version + 1)}


def ask(lake: Lake) -> None:
    """SQL in both dialects, and what happened between two snapshots."""
    for dialect, text in (
        (
            "spark",
            "SELECT year(ordered) y, count(*) n FROM shop.orders WHERE ordered IS NOT NULL GROUP BY 1 ORDER BY 1",
        ),
        (
            "duckdb",
            "FROM shop.orders SELECT max(price), customer_name[:8] AS who GROUP BY ALL ORDER BY ALL LIMIT 2",
        ),
    ):
        print(f"  {dialect}: {text}")
        for row in lake.sql(text, dialect=dialect).collect():
            print(f"    {', '.join(map(str, row))}")
    changes = lake.table_changes("shop.orders", lake.version - 2, lake.version).groupBy("change_type").count()
    counts = ", ".join(
        f"{row['count']:,} {row.change_type}" for row in changes.orderBy("change_type").collect()
    )
    print(f"  changes of the last three snapshots: {counts}")


def totals(lake: Lake, version: int) -> list[Any]:
    row = (
        lake.table("shop.orders", version=version)
        .selectExpr("count(*)", "sum(id)", "CAST(sum(price) AS STRING)")
        .first()
    )
    assert row is not None
    return list(row)


def listing(lake: Lake) -> list[list[Any]]:
    return [
        [row.snapshot_id, row.changes, row.author, row.commit_message] for row in lake.snapshots().collect()
    ]


def described(changes: dict[str, list[str]]) -> str:
    return "; ".join(
        f"{kind.replace('_', ' ')}: {', '.join(names)}" for kind, names in sorted(changes.items())
    )


def plain(types: dict[str, str]) -> dict[str, str]:
    """Without the quotes around fields of structs, which DuckDB prints only where it must."""
    return {name: kind.replace('"', "") for name, kind in types.items()}


def place() -> AbstractContextManager[tuple[str, dict[str, Any]]]:
    """Where data files go: what DuckDB has to be told of it, and what `attach()` has to."""
    if "--s3" not in sys.argv[1:]:
        return nullcontext(("", {}))
    from s3 import bucket  # beside this script

    return bucket()


def main() -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ducklake-spark-demo-") as folder, place() as (secret, options):
        uri = f"ducklake:{Path(folder) / 'metadata.ducklake'}"

        title("1. A new lake, its catalog in a DuckDB file")
        with ducklake_spark.attach(uri, name="lake", **options) as lake:
            if options:
                print(f"  its data files in {options['data_path']}")
            print(f"  {lake.name}: version {lake.version}, schemas {lake.schemas()}")

            title("2. Changes, each one or each transaction a snapshot")
            build(lake)

            title("3. Rows: inserted, updated, deleted, filtered")
            lake.spark.sparkContext.setLogLevel("ERROR")
            held = ingest(lake)

            title("4. SQL, in Spark's dialect and in DuckDB's")
            ask(lake)

            title("5. Its snapshots, as a Spark DataFrame")
            snapshots = listing(lake)
            show(
                [("snapshot", "changes", "author", "message")]
                + [(str(i), described(changes), by or "", why or "") for i, changes, by, why in snapshots]
            )

            title("6. The table then and now")
            last = lake.version
            views = {version: lake.at(version=version)["shop.orders"].types for version in (1, last)}
            for version, types in views.items():
                print(f"  at snapshot {version}:")
                for name, kind in types.items():
                    print(f"    {name:14} {kind}")
            for version, (count, *_) in held.items():
                print(f"  rows at snapshot {version}: {count:,}")

        title("7. The same lake in DuckDB, by its own extension")
        wanted = json.dumps([["shop.orders", version] for version in views])
        asked = subprocess.run(
            [sys.executable, "-c", DUCKDB, uri, wanted, json.dumps(list(held)), secret],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        theirs = json.loads(asked.stdout)
        same = theirs["snapshots"] == snapshots
        print(
            f"  DuckDB {theirs['version']} sees {len(snapshots)} snapshots: {'the same' if same else 'OTHERS'}"
        )
        for version, types in views.items():
            found = plain(theirs["columns"][f"shop.orders@{version}"])
            equal = found == plain(types)
            same = same and equal
            print(f"  and shop.orders at snapshot {version}: {'the same' if equal else f'OTHERS: {found}'}")
        equal = theirs["totals"] == {str(version): found for version, found in held.items()}
        same = same and equal
        print(
            f"  and its rows at snapshots {min(held)} to {max(held)}: {'the same' if equal else theirs['totals']}"
        )
        if not same:
            sys.exit("The two do not agree.")
    print(f"\nDone in {time.monotonic() - started:.0f} s. Nothing was left behind.")


if __name__ == "__main__":
    main()
