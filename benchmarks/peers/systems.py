"""The systems that are compared: how each is opened, and how a user of it writes the same work.

All but DuckDB run on the same Spark with the same settings. All write Parquet with zstd.
"""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers import jars, machine

APPENDED_COLUMNS = "id BIGINT, who STRING, amount DOUBLE, made TIMESTAMP"
APPENDED_ROWS = (
    "id, concat('customer ', id % 97) AS who, id / 7D AS amount, timestamp_seconds(1700000000 + id) AS made"
)
CHANGED = "cast(l_quantity + 1 AS DECIMAL(15,2))"
KEYS = ("l_orderkey", "l_linenumber")


class Unsupported(Exception):
    """Work that a system does not do, or that would not be the same work there."""


def answer_of(rows: Any) -> list[list[str]]:
    """Rows as texts which are alike for all systems; floats by nine digits, as their sums depend on the order."""

    def text(value: Any) -> str:
        return f"{value:.9g}" if isinstance(value, float) else str(value)

    return [[text(value) for value in row] for row in rows]


class System:
    """What every system can be asked; each method is one action of the runner, and is timed as a whole."""

    title = ""

    def __init__(self, folder: Path, cores: int, memory: str, jar_folder: Path) -> None:
        self.folder, self.cores, self.memory, self.jar_folder = folder, cores, memory, jar_folder

    def open(self) -> dict[str, str]:
        """Starts; returns its versions."""
        raise NotImplementedError

    def source(self, view: str, path: str) -> None:
        """Makes Parquet files known as a view, which is no part of what is measured."""
        raise NotImplementedError

    def create(self, table_name: str, text: str) -> None:
        raise NotImplementedError

    def create_partitioned(self, table_name: str, text: str, by: str) -> None:
        raise NotImplementedError

    def create_small(self, table_name: str, view: str, files: int) -> None:
        """A table of the rows of a view in so many files."""
        raise NotImplementedError

    def insert(self, table_name: str, text: str) -> None:
        raise NotImplementedError

    def stream(self, table_name: str, folder: str, batches: int) -> None:
        """Files of a folder into a new table, a batch for each of the first of them."""
        raise Unsupported("it has no streams")

    def query(self, text: str, tables: list[str]) -> list[list[str]]:
        """A query that names tables, each in braces."""
        raise NotImplementedError

    def empty_for_appends(self, table_name: str) -> None:
        raise NotImplementedError

    def append(self, table_name: str, turn: int, rows: int) -> None:
        raise NotImplementedError

    def drop(self, table_name: str) -> None:
        raise NotImplementedError

    def delete(self, table_name: str, condition: str) -> None:
        raise Unsupported("it has no deletes")

    def update(
        self, table_name: str, condition: str, column: str = "l_quantity", value: str = CHANGED
    ) -> None:
        raise Unsupported("it has no updates")

    def merge(self, table_name: str, source: str) -> None:
        raise Unsupported("it has no merge")

    def version(self, table_name: str) -> str:
        """The name of the newest version."""
        raise Unsupported("it has no versions")

    def count_at(self, table_name: str, version: str) -> list[list[str]]:
        raise Unsupported("it has no versions")

    def compact(self, table_name: str) -> None:
        """Small files become large ones, and rows that are deleted leave theirs."""
        raise Unsupported("it has no compaction")

    def tpch(self, text: str, names: dict[str, str]) -> list[list[str]]:
        """A query of TPC-H; the tables have other names here than in its text."""
        raise NotImplementedError

    def changes_of(self, view: str, condition: str) -> None:
        """A view for merges: some rows of `rows_of_lineitem`, changed."""
        raise NotImplementedError

    def memory_bytes(self) -> int:
        """What the driver holds after a garbage collection."""
        raise Unsupported("it is no driver")

    def close(self) -> None:
        """Ends what was opened."""


class SparkSystem(System):
    """What is done by `spark.sql`, alike for all formats."""

    using = ""
    streamed = ""
    """The format of its streams."""

    def settings(self) -> dict[str, str]:
        return {}

    def jars(self) -> list[Path]:
        return []

    def open(self) -> dict[str, str]:
        import pyspark
        from pyspark.sql import SparkSession

        found = self.jars()
        builder = SparkSession.builder.master(f"local[{self.cores}]").appName(self.title)
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": self.memory,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(self.cores),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.parquet.compression.codec": "zstd",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.local.dir": str(self.folder / "local"),
            **({"spark.driver.extraClassPath": ":".join(map(str, found))} if found else {}),
            **self.settings(),
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.prepare()
        return {"Spark": pyspark.__version__, **self.versions()}

    def versions(self) -> dict[str, str]:
        return {}

    def prepare(self) -> None:
        """What follows the session."""

    def source(self, view: str, path: str) -> None:
        self.spark.read.parquet(path).createOrReplaceTempView(view)

    def create(self, table_name: str, text: str) -> None:
        self.spark.sql(f"CREATE TABLE {table_name} {self.using} AS {text}")

    def create_partitioned(self, table_name: str, text: str, by: str) -> None:
        self.spark.sql(f"CREATE TABLE {table_name} {self.using} PARTITIONED BY ({by}) AS {text}")

    def create_small(self, table_name: str, view: str, files: int) -> None:
        self.create(table_name, f"SELECT /*+ REPARTITION({files}) */ * FROM {view}")

    def insert(self, table_name: str, text: str) -> None:
        self.spark.sql(f"INSERT INTO {table_name} {text}")

    def stream(self, table_name: str, folder: str, batches: int) -> None:
        files = f"{folder}/{{{','.join(map(str, range(batches)))}}}.parquet"
        rows = self.spark.readStream.schema(self.spark.read.parquet(files).schema)
        checkpoint = str(self.folder / f"{table_name}.checkpoint")
        writer = rows.option("maxFilesPerTrigger", 1).parquet(files).writeStream.format(self.streamed)
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.toTable(table_name).awaitTermination()

    def query(self, text: str, tables: list[str]) -> list[list[str]]:
        return answer_of(self.spark.sql(text.format(**{name: name for name in tables})).collect())

    def empty_for_appends(self, table_name: str) -> None:
        self.spark.sql(f"CREATE TABLE {table_name} ({APPENDED_COLUMNS}) {self.using}")

    def append(self, table_name: str, turn: int, rows: int) -> None:
        first, last = turn * rows, (turn + 1) * rows
        self.spark.sql(f"INSERT INTO {table_name} SELECT {APPENDED_ROWS} FROM range({first}, {last}, 1, 1)")

    def drop(self, table_name: str) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {table_name}")

    def tpch(self, text: str, names: dict[str, str]) -> list[list[str]]:
        from benchmarks.peers.data import renamed

        return answer_of(self.spark.sql(renamed(text, names)).collect())

    def changes_of(self, view: str, condition: str) -> None:
        rows = self.spark.table("rows_of_lineitem").where(condition)
        rows.withColumns({"l_quantity": self.expression(CHANGED)}).createOrReplaceTempView(view)

    def expression(self, text: str) -> Any:
        from pyspark.sql import functions

        return functions.expr(text)

    def memory_bytes(self) -> int:
        runtime = self.spark._jvm.java.lang.Runtime.getRuntime()
        for _ in range(3):
            runtime.gc()
            time.sleep(0.2)
        return int(runtime.totalMemory() - runtime.freeMemory()) + machine.resident_bytes()

    def close(self) -> None:
        self.spark.stop()


class SparkRows(SparkSystem):
    """Formats whose rows can be changed, by the same statements."""

    def delete(self, table_name: str, condition: str) -> None:
        self.spark.sql(f"DELETE FROM {table_name} WHERE {condition}")

    def update(
        self, table_name: str, condition: str, column: str = "l_quantity", value: str = CHANGED
    ) -> None:
        self.spark.sql(f"UPDATE {table_name} SET {column} = {value} WHERE {condition}")

    def merge(self, table_name: str, source: str) -> None:
        on = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
        self.spark.sql(
            f"MERGE INTO {table_name} t USING {source} s ON {on} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def count_at(self, table_name: str, version: str) -> list[list[str]]:
        return answer_of(
            self.spark.sql(f"SELECT count(*) FROM {table_name} VERSION AS OF {version}").collect()
        )


class PlainParquet(SparkSystem):
    """Tables of Parquet files in Spark's own catalog."""

    title = "plain Parquet"
    using = "USING parquet"
    streamed = "parquet"


class Delta(SparkRows):
    """Delta Lake with deletion vectors, in Spark's own catalog."""

    title = "Delta"
    using = "USING delta"
    streamed = "delta"

    def jars(self) -> list[Path]:
        return jars.fetched("delta", self.jar_folder)

    def versions(self) -> dict[str, str]:
        return {"Delta": jars.JARS["delta"].version}

    def settings(self) -> dict[str, str]:
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
            # 50 tasks for a log of few files would measure nothing but tasks.
            "spark.databricks.delta.snapshotPartitions": str(self.cores),
        }

    def version(self, table_name: str) -> str:
        return str(self.spark.sql(f"DESCRIBE HISTORY {table_name} LIMIT 1").collect()[0]["version"])

    def compact(self, table_name: str) -> None:
        self.spark.sql(f"OPTIMIZE {table_name}").collect()
        self.spark.sql(f"REORG TABLE {table_name} APPLY (PURGE)").collect()


class Iceberg(SparkRows):
    """Iceberg in a Hadoop catalog: format 3 with deletion vectors, all row changes merge-on-read."""

    title = "Iceberg"
    streamed = "iceberg"

    def jars(self) -> list[Path]:
        return jars.fetched("iceberg", self.jar_folder)

    def versions(self) -> dict[str, str]:
        return {"Iceberg": jars.JARS["iceberg"].version}

    def settings(self) -> dict[str, str]:
        catalog = "spark.sql.catalog.ice"
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "hadoop",
            f"{catalog}.warehouse": str(self.folder / "iceberg"),
            f"{catalog}.table-default.format-version": "3",
            f"{catalog}.table-default.write.parquet.compression-codec": "zstd",
            **{
                f"{catalog}.table-default.write.{change}.mode": "merge-on-read"
                for change in ("delete", "update", "merge")
            },
        }

    def prepare(self) -> None:
        self.spark.sql("CREATE NAMESPACE ice.db")
        self.spark.sql("USE ice.db")

    def drop(self, table_name: str) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {table_name} PURGE")

    def version(self, table_name: str) -> str:
        newest = f"SELECT snapshot_id FROM ice.db.{table_name}.snapshots ORDER BY committed_at DESC LIMIT 1"
        return str(self.spark.sql(newest).collect()[0][0])

    def compact(self, table_name: str) -> None:
        options = "map('rewrite-all', 'true')"
        self.spark.sql(
            f"CALL ice.system.rewrite_data_files(table => 'db.{table_name}', options => {options})"
        ).collect()


class OursBySql(SparkRows):
    """A lake in a DuckDB file as a catalog of the session."""

    title = "ours, spark.sql"
    streamed = "ducklake"

    def create_small(self, table_name: str, view: str, files: int) -> None:
        self.lake.set_option("per_thread_output", True)
        super().create_small(table_name, view, files)
        self.lake.set_option("per_thread_output", False)

    def versions(self) -> dict[str, str]:
        import duckdb

        import ducklake_spark

        return {"ducklake-spark": ducklake_spark.__version__, "DuckDB": duckdb.__version__}

    def prepare(self) -> None:
        import ducklake_spark

        self.lake = ducklake_spark.attach(
            f"ducklake:{self.folder / 'lake.ducklake'}",
            spark=self.spark,
            name="lake",
            data_path=self.folder / "data",
        )
        self.lake.set_option("parquet_compression", "zstd")
        self.spark.sql("USE lake.main")

    def drop(self, table_name: str) -> None:
        # Files stay until snapshots expire: what a peer deletes with its table, too.
        self.spark.sql(f"DROP TABLE IF EXISTS {table_name}")

    def version(self, table_name: str) -> str:
        del table_name  # a snapshot is the lake's
        return str(self.lake.version)

    def compact(self, table_name: str) -> None:
        self.lake[table_name].rewrite_data_files(delete_threshold=0.0)
        self.lake[table_name].merge_adjacent_files()

    def close(self) -> None:
        self.lake.close()
        super().close()


class OursByTable(OursBySql):
    """The same lake in Python: `lake.table()` and the methods of tables."""

    title = "ours, lake.table"

    def create(self, table_name: str, text: str) -> None:
        self.lake.create_table(table_name, self.spark.sql(text))

    def create_partitioned(self, table_name: str, text: str, by: str) -> None:
        self.lake.create_table(table_name, self.spark.sql(text), partitioned_by=[by])

    def insert(self, table_name: str, text: str) -> None:
        self.lake[table_name].insert(self.spark.sql(text))

    def query(self, text: str, tables: list[str]) -> list[list[str]]:
        for name in tables:
            self.lake.table(name).createOrReplaceTempView(name)
        return answer_of(self.spark.sql(text.format(**{name: name for name in tables})).collect())

    def tpch(self, text: str, names: dict[str, str]) -> list[list[str]]:
        for name, stored in names.items():
            self.lake.table(stored).createOrReplaceTempView(name)
        return answer_of(self.spark.sql(text).collect())

    def empty_for_appends(self, table_name: str) -> None:
        self.lake.create_table(table_name, APPENDED_COLUMNS)

    def append(self, table_name: str, turn: int, rows: int) -> None:
        first, last = turn * rows, (turn + 1) * rows
        self.lake[table_name].insert(
            self.spark.sql(f"SELECT {APPENDED_ROWS} FROM range({first}, {last}, 1, 1)")
        )

    def drop(self, table_name: str) -> None:
        self.spark.catalog.dropTempView(table_name)
        self.lake[table_name].drop()

    def delete(self, table_name: str, condition: str) -> None:
        self.lake[table_name].delete(condition)

    def update(
        self, table_name: str, condition: str, column: str = "l_quantity", value: str = CHANGED
    ) -> None:
        self.lake[table_name].update({column: value}, condition)

    def merge(self, table_name: str, source: str) -> None:
        on = " AND ".join(f"target.{key} = source.{key}" for key in KEYS)
        merge = self.lake[table_name].merge(self.spark.table(source), on).when_matched().update_all()
        merge.when_not_matched().insert_all().execute()

    def count_at(self, table_name: str, version: str) -> list[list[str]]:
        return [[str(self.lake.table(table_name, version=int(version)).count())]]


class DuckDB(System):
    """DuckDB's own extension, which is another engine: no peer of a Spark program, but a measure of the format."""

    title = "DuckDB's extension"

    def open(self) -> dict[str, str]:
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute(f"SET threads = {self.cores}")
        self.connection.execute("SET enable_progress_bar = false")
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute(f"SET temp_directory = '{self.folder / 'local'}'")
        self.connection.execute(f"SET memory_limit = '{self.memory}b'")
        self.connection.execute(f"LOAD '{extension_file('ducklake')}'")
        lake, data = self.folder / "lake.ducklake", self.folder / "data"
        self.connection.execute(f"ATTACH 'ducklake:{lake}' AS lake (DATA_PATH '{data}')")
        self.connection.execute("CALL lake.set_option('parquet_compression', 'zstd')")
        self.connection.execute("USE lake")
        return {"DuckDB": duckdb.__version__}

    def run(self, text: str) -> list[list[str]]:
        return answer_of(self.connection.execute(text).fetchall())

    def source(self, view: str, path: str) -> None:
        files = f"{path}/*.parquet" if Path(path).is_dir() else path
        self.run(f"CREATE OR REPLACE TEMP VIEW {view} AS FROM read_parquet('{files}')")

    def create(self, table_name: str, text: str) -> None:
        self.run(f"CREATE TABLE {table_name} AS {text}")

    def create_partitioned(self, table_name: str, text: str, by: str) -> None:
        self.run(f"CREATE TABLE {table_name} AS {text} LIMIT 0")
        self.run(f"ALTER TABLE {table_name} SET PARTITIONED BY ({by})")
        self.run(f"INSERT INTO {table_name} {text}")

    def create_small(self, table_name: str, view: str, files: int) -> None:
        raise Unsupported("it would write them one by one")

    def insert(self, table_name: str, text: str) -> None:
        self.run(f"INSERT INTO {table_name} {text}")

    def query(self, text: str, tables: list[str]) -> list[list[str]]:
        return self.run(text.format(**{name: name for name in tables}))

    def empty_for_appends(self, table_name: str) -> None:
        self.run(f"CREATE TABLE {table_name} ({APPENDED_COLUMNS})".replace("STRING", "VARCHAR"))

    def append(self, table_name: str, turn: int, rows: int) -> None:
        self.run(
            f"INSERT INTO {table_name} SELECT id, concat('customer ', id % 97), id / 7, "
            f"make_timestamp((1700000000 + id) * 1000000) FROM range({turn * rows}, {(turn + 1) * rows}) r(id)"
        )

    def drop(self, table_name: str) -> None:
        self.run(f"DROP TABLE IF EXISTS {table_name}")

    def delete(self, table_name: str, condition: str) -> None:
        self.run(f"DELETE FROM {table_name} WHERE {condition}")

    def update(
        self, table_name: str, condition: str, column: str = "l_quantity", value: str = CHANGED
    ) -> None:
        self.run(f"UPDATE {table_name} SET {column} = {value} WHERE {condition}")

    def merge(self, table_name: str, source: str) -> None:
        on = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
        self.run(
            f"MERGE INTO {table_name} t USING {source} s ON {on} WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
        )

    def version(self, table_name: str) -> str:
        del table_name
        return self.run("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")[0][0]

    def count_at(self, table_name: str, version: str) -> list[list[str]]:
        return self.run(f"SELECT count(*) FROM {table_name} AT (VERSION => {version})")

    def compact(self, table_name: str) -> None:
        self.run(f"CALL ducklake_rewrite_data_files('lake', '{table_name}', delete_threshold => 0.0)")
        self.run(f"CALL ducklake_merge_adjacent_files('lake', '{table_name}')")

    def tpch(self, text: str, names: dict[str, str]) -> list[list[str]]:
        from benchmarks.peers.data import renamed

        return self.run(renamed(text, names))

    def changes_of(self, view: str, condition: str) -> None:
        rows = f"SELECT * REPLACE ({CHANGED} AS l_quantity) FROM rows_of_lineitem WHERE {condition}"
        self.run(f"CREATE OR REPLACE TEMP VIEW {view} AS {rows}")

    def memory_bytes(self) -> int:
        return machine.resident_bytes()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.connection.execute("USE memory")
        self.connection.close()


def extension_file(name: str) -> str:
    """The file of an extension that pip installed."""
    import duckdb

    row = duckdb.execute("PRAGMA version").fetchone()
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None or row is None:
        raise Unsupported(f"the package duckdb-extension-{name} is not installed")
    return str(Path(spec.origin).parent / "extensions" / row[0] / f"{name}.duckdb_extension")


SYSTEMS: dict[str, Callable[..., System]] = {
    "parquet": PlainParquet,
    "delta": Delta,
    "iceberg": Iceberg,
    "table": OursByTable,
    "sql": OursBySql,
    "duckdb": DuckDB,
}
