"""What users do through `spark.sql`, once, in local-cluster mode: `python -m tests.spark.native_cluster FOLDER`.

Executors are processes of their own there: nothing may rely on the driver's JVM. A last line says that all was right.
"""

from __future__ import annotations

import sys
import traceback

from pyspark.sql import DataFrame, SparkSession

import ducklake_spark


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def main(folder: str) -> None:
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    uri = f"ducklake:{folder}/catalog.ducklake"
    lake = ducklake_spark.attach(uri, name="nat", spark=spark, data_inlining_row_limit=0)

    # Spark's own writer, and the encoder in the workers, which lists are for.
    for name, extra, values in (("flat", "STRING", "'x'"), ("nested", "ARRAY<STRING>", "array('x')")):
        table = f"nat.main.{name}"
        spark.sql(f"CREATE TABLE {table} (id BIGINT, extra {extra}) PARTITIONED BY (bucket(2, id))")
        spark.sql(f"INSERT INTO {table} SELECT id, {values} FROM range(0, 40, 1, 4)")
        spark.sql(f"DELETE FROM {table} WHERE id % 10 = 0")
        spark.sql(f"UPDATE {table} SET id = -id WHERE id IN (SELECT id + 1 FROM range(2))")
        spark.range(38, 42).selectExpr("id", f"{values} AS extra").createOrReplaceTempView("news")
        spark.sql(
            f"MERGE INTO {table} t USING news s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        )
        expected = sorted([(i,) for i in range(3, 38) if i % 10] + [(-2,), (-1,), (40,), (41,)])
        assert rows(spark.sql(f"SELECT id FROM {table}")) == expected, name
        assert spark.sql(f"SELECT rowid FROM {table} VERSION AS OF {lake.version - 3}").count() == 40, name
        assert spark.sql(f"SELECT id FROM {table} WHERE id = 5").count() == 1, name

    # An expression that Spark has not: DuckDB evaluates it in the workers.
    lake.sql("CREATE VIEW sizes AS SELECT id, format_bytes(id * 1000) AS size FROM flat", dialect="duckdb")
    assert rows(spark.sql("SELECT size FROM nat.main.sizes WHERE id IN (3, 4)")) == [
        ("2.9 KiB",),
        ("3.9 KiB",),
    ]

    spark.sql("CREATE TABLE nat.main.source AS SELECT id FROM range(5)")
    reader = spark.readStream.table("nat.main.source")
    writer = reader.writeStream.format("ducklake").option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).toTable("nat.main.copied").awaitTermination()
    assert rows(spark.table("nat.main.copied")) == [(i,) for i in range(5)]
    lake.close()

    with ducklake_spark.attach(f"ducklake:{folder}/secret.ducklake", name="sec", spark=spark, encrypted=True):
        spark.sql("CREATE TABLE sec.main.t AS SELECT id, 'x' AS s FROM range(20)")
        spark.sql("DELETE FROM sec.main.t WHERE id > 4")
        assert rows(spark.sql("SELECT id FROM sec.main.t WHERE id > 1")) == [(2,), (3,), (4,)]
    spark.stop()
    print("all was right")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException:
        traceback.print_exc(file=sys.stdout)  # standard error is full of what Spark says of its cluster
